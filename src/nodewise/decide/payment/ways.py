"""The same curve paid for in other ways: on demand, on spot with preemption, on owned nodes."""

from collections.abc import Sequence

import msgspec
import numpy as np

from nodewise.base.errors import DataError, SpecError
from nodewise.base.stats import Floats
from nodewise.base.units import SECONDS_PER_HOUR, format_duration, format_percent
from nodewise.decide.candidates import Candidates, Needs
from nodewise.decide.choose import Choice, cheapest_of, choice_at, fastest_of
from nodewise.decide.gates import allowed_scales
from nodewise.decide.payment.owned import Commitment, Owned, Sensitivity, accounts, sensitivity
from nodewise.decide.payment.spot import (
    Checkpointing,
    Expected,
    Preemptions,
    Replayed,
    Rule,
    SpotChoice,
    WhileDown,
    break_even_rate,
    choices,
    expected,
    most_nodes,
    parse_trace,
    replay,
    summarise,
)
from nodewise.decide.payment.spot import bill as spot_bill
from nodewise.decide.prices.bill import Bill, Bills, Price, bill

_DISCOUNTS = (0.5, 0.7, 0.9)
_RATES_PER_HOUR = (0.0, 0.01, 0.05, 0.2, 1.0)


class Payment(msgspec.Struct, frozen=True, kw_only=True):
    """Other ways to pay for the same nodes: as fractions of the price, or in detail."""

    spot_fraction: float = 0.30
    preemptions: Preemptions | None = None
    checkpointing: Checkpointing = Checkpointing(
        save_seconds=60.0, downtime_seconds=300.0, restart_seconds=120.0
    )
    saves: bool = True  # false: a run that is stopped begins anew
    while_down: WhileDown = "all"  # which nodes stay on the meter until lost ones are back
    trace: str | None = None  # the text of an availability trace, to be replayed
    owned_fraction: float = 0.60
    owned_above: float = 0.60  # the utilisation from which the owned fraction holds
    utilisation: float | None = None
    owned: Owned | None = None  # instead of the fraction
    commitment: Commitment | None = None


class ScaleCost(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The cost of one scale, for the work of the first run, and its expected time."""

    nodes: int
    cost: float
    seconds: float
    median_seconds: float | None = None  # of replays of a trace; null where a run never ends
    p95_seconds: float | None = None
    in_time: float | None = None  # share of runs that meet the deadline


class PaymentPrice(msgspec.Struct, frozen=True, kw_only=True, rename={"payment": "regime"}):
    """One way to pay: the cheapest and the fastest scale, and the cost of each."""

    payment: str  # on-demand, spot or owned
    accounting: str = ""  # of owned nodes: marginal or full; committed where hours are paid anyway
    fraction: float  # of the price of a node on demand
    applies: bool
    condition: str
    cheapest: Choice | None
    fastest: Choice | None
    bill: Bill | None  # the line items of the cheapest
    rows: tuple[ScaleCost, ...]

    @property
    def label(self) -> str:
        """The payment, with its accounting where there are two."""
        return f"{self.payment}, {self.accounting}" if self.accounting else self.payment


class SpotOutlook(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """What preemptions do: at the cheapest scale, and how they move it."""

    nodes: int
    interval_seconds: float | None  # of work between two savings; null: nothing is saved
    goodput: float
    preemptions: float  # expected in one run
    # the rate up to which the best spot run costs less than the best on demand; null: never
    break_even_per_node_hour: float | None
    break_even_without_saving: float | None
    moves: tuple[SpotChoice, ...]
    replays: str  # what was replayed; empty without a trace


class OwnedOutlook(msgspec.Struct, frozen=True, kw_only=True):
    """What an hour of an owned node costs, and from which use on it beats a rented one."""

    utilisation: float
    per_useful_hour: float
    marginal_per_hour: float
    rent_per_hour: float
    break_even_utilisation: float | None  # null: the energy of an hour costs more than the rent
    sensitivity: tuple[Sensitivity, ...]


class Paid(msgspec.Struct, frozen=True):
    """Runs as one way to pay makes them: their times, their bills and, on spot, what happens."""

    scales: Candidates
    bills: Bills
    run: Expected | None = None
    replayed: Replayed | None = None


def on_demand(scales: Candidates, price: Price, needs: Needs) -> Paid:
    """The runs at the price as it is."""
    return Paid(scales, bill(price, scales.rate_per_hour, scales.seconds, needs.hour_value))


def on_spot(scales: Candidates, price: Price, needs: Needs, payment: Payment) -> Paid:
    """The runs at the spot price; slower where nodes are taken away."""
    if payment.trace is not None:
        scales = scales.up_to(most_nodes(payment.trace))
        if not scales.nodes:
            raise DataError(
                "The trace never has as many nodes as the smallest scale.",
                "Give a trace of more nodes.",
            )
    rate = scales.rate_per_hour * payment.spot_fraction
    if payment.preemptions is None and payment.trace is None:
        return Paid(scales, bill(price, rate, scales.seconds, needs.hour_value))
    nodes = scales.whole_nodes
    run, replayed = _interrupted(scales, price, needs, payment)
    bills = spot_bill(
        price, nodes, rate, run,
        value_per_hour=needs.hour_value, while_down=payment.while_down,
    )  # fmt: skip
    in_time = None
    if needs.deadline_seconds is not None:
        in_time = run.share_in_time(needs.deadline_seconds - price.startup_seconds)
    if replayed is not None:
        in_time = replayed.in_time
    # A run that takes longer is slower: speed is compared by the time that is expected.
    slowed = msgspec.structs.replace(
        scales,
        seconds=run.seconds,
        speedup=scales.speedup * scales.seconds / run.seconds,
        in_time=in_time,
        energy=scales.energy.times(run.up / run.work),
        carbon=scales.carbon.times(run.up / run.work),
    )
    return Paid(slowed, bills, run, replayed)


def _interrupted(
    scales: Candidates, price: Price, needs: Needs, payment: Payment
) -> tuple[Expected, Replayed | None]:
    times = payment.checkpointing
    rule: Rule = "exact" if payment.saves else "none"
    nodes = scales.whole_nodes
    if payment.trace is None:
        assert payment.preemptions is not None
        rates = payment.preemptions.of_gang(nodes)
        return expected(scales.seconds, rates, times, rule), None
    # Each K is a gang of its own: it is up while so many nodes are there.
    runs, replays = [], []
    for at, count in enumerate(scales.whole_nodes):
        work = scales.seconds[at : at + 1]
        trace = parse_trace(payment.trace, int(count))
        down = msgspec.structs.replace(times, downtime_seconds=trace.mean_downtime_seconds)
        runs.append(expected(work, np.array([trace.rate_per_second]), down, rule))
        replays.append(replay(trace, work, times, rule))
    run = Expected(
        **{
            name: np.concatenate([getattr(one, name) for one in runs])
            for name in Expected.__struct_fields__
        }
    )
    deadline = needs.deadline_seconds
    left = None if deadline is None else deadline - price.startup_seconds
    return run, summarise(np.concatenate(replays, axis=1), left)


def payments(
    hired: Paid, spot: Paid | None, price: Price, needs: Needs, payment: Payment
) -> tuple[PaymentPrice, ...]:
    """The same runs on demand, on spot and on owned nodes; without a price, on demand alone."""
    rows = [
        _payment(hired, price, needs, payment="on-demand", condition="the price as given"),
    ]
    if spot is None:
        return tuple(rows)
    return (
        *rows,
        *_committed(hired.scales, price, needs, payment),
        _payment(
            spot, price, needs,
            payment="spot", fraction=payment.spot_fraction, condition=_risk(payment),
            applies=payment.spot_fraction < 1,
        ),
        *_owned(hired.scales, price, needs, payment),
    )  # fmt: skip


def _risk(payment: Payment) -> str:
    """Under which preemptions the spot row holds."""
    rate = payment.preemptions
    if payment.trace is not None:
        return "expected, at the rate and the mean downtime of the trace"
    if rate is None:
        return "before any preemption"
    saving = "nothing is saved"
    if payment.saves:
        saving = f"{format_duration(payment.checkpointing.save_seconds)} to save"
    together = ""
    if rate.scope == "node" and rate.correlation_exponent != 1:
        together = f", K^{rate.correlation_exponent:g} of them for K nodes"
    return (
        f"expected, at {rate.per_hour:.3g} preemptions an hour of each {rate.scope}{together}, "
        f"{saving}; {rate.basis}"
    )


def _committed(
    scales: Candidates, price: Price, needs: Needs, payment: Payment
) -> list[PaymentPrice]:
    """Hours that are paid at a discount whether they are used or not."""
    commitment = payment.commitment
    if commitment is None:
        return []
    used = payment.utilisation or 1.0
    fraction = float(commitment.per_useful_hour(1.0, used))
    least = commitment.break_even_utilisation
    stated = "yours is not stated" if payment.utilisation is None else format_percent(used)
    bills = bill(price, scales.rate_per_hour, scales.seconds, needs.hour_value, fraction)
    return [
        _payment(
            Paid(scales, bills), price, needs,
            payment="on-demand", accounting="committed", fraction=fraction, applies=used > least,
            condition=f"pays above {format_percent(least)} use; {stated}",
        )
    ]  # fmt: skip


def _owned(scales: Candidates, price: Price, needs: Needs, payment: Payment) -> list[PaymentPrice]:
    used = payment.utilisation
    if payment.owned is None:
        least = format_percent(payment.owned_above)
        stated = "yours is not stated" if used is None else f"yours is {format_percent(used)}"
        fraction = payment.owned_fraction
        bills = bill(price, scales.rate_per_hour, scales.seconds, needs.hour_value, fraction)
        return [
            _payment(
                Paid(scales, bills), price, needs, payment="owned", fraction=fraction,
                applies=used is None or used > payment.owned_above,
                condition=f"holds above {least} utilisation; {stated}",
            )
        ]  # fmt: skip
    nodes = scales.whole_nodes
    rent = rent_per_hour(scales)
    found = []
    for account in accounts(payment.owned, used if used is not None else 1.0):
        bills = bill(price, account.per_node_hour * nodes, scales.seconds, needs.hour_value)
        found.append(
            _payment(
                Paid(scales, bills), price, needs, payment="owned", accounting=account.accounting,
                fraction=account.per_node_hour / rent if rent else 0.0,
                condition=account.question,
            )
        )  # fmt: skip
    return found


def _payment(
    paid: Paid,
    price: Price,
    needs: Needs,
    *,
    payment: str,
    condition: str,
    accounting: str = "",
    fraction: float = 1.0,
    applies: bool = True,
) -> PaymentPrice:
    scales, bills, replayed = paid.scales, paid.bills, paid.replayed
    ladder = np.flatnonzero(allowed_scales(scales, price, needs, bills)).tolist()
    cost = bills.total / scales.relative_work
    cheapest = cheapest_of(scales, cost, ladder)
    return PaymentPrice(
        payment=payment,
        accounting=accounting,
        fraction=fraction,
        applies=applies,
        condition=condition,
        cheapest=choice_at(scales, bills, cheapest),
        fastest=choice_at(scales, bills, fastest_of(scales, cost, ladder)),
        bill=None if cheapest is None else bills.at(cheapest),
        rows=tuple(
            ScaleCost(
                nodes=nodes,
                cost=float(cost[at]),
                seconds=float(scales.seconds[at]),
                median_seconds=_ended(replayed.median, at) if replayed else None,
                p95_seconds=_ended(replayed.p95, at) if replayed else None,
                in_time=None if scales.in_time is None else float(scales.in_time[at]),
            )
            for at, nodes in enumerate(scales.nodes)
        ),
    )


def _ended(seconds: Floats, at: int) -> float | None:
    return float(seconds[at]) if np.isfinite(seconds[at]) else None


def rent_per_hour(scales: Candidates) -> float:
    """What one node costs on demand, at the smallest scale."""
    return float(scales.rate_per_hour[0] / scales.whole_nodes[0])


def spot_outlook(
    scales: Candidates, spot: Paid | None, price: Price, needs: Needs, payment: Payment
) -> SpotOutlook | None:
    """What preemptions do to the cheapest spot run; nothing where none are stated."""
    dearer = payment.spot_fraction > 1
    if spot is None or spot.run is None or scales.regime == "weak" or dearer:
        return None
    best = int(np.argmin(spot.bills.total))
    nodes = scales.whole_nodes
    rented = msgspec.structs.replace(price, per_node_hour=rent_per_hour(scales))
    times, saves = payment.checkpointing, payment.saves
    discount = 1 - payment.spot_fraction
    scope = payment.preemptions or Preemptions(per_second=0.0)

    def break_even(rule: Rule) -> float | None:
        found = break_even_rate(
            scales.seconds, nodes, rented, times, discount,
            correlation_exponent=scope.correlation_exponent,
            value_per_hour=needs.hour_value, interval=rule, while_down=payment.while_down,
        )  # fmt: skip
        return None if found is None else found * SECONDS_PER_HOUR

    return SpotOutlook(
        nodes=spot.scales.nodes[best],
        interval_seconds=float(spot.run.interval_seconds[best]) if saves else None,
        goodput=float(spot.run.goodput[best]),
        preemptions=float(spot.run.preemptions[best]),
        break_even_per_node_hour=break_even("exact") if saves else None,
        break_even_without_saving=break_even("none"),
        moves=choices(
            scales.seconds, nodes, rented, times,
            _with(_DISCOUNTS, discount), _rates(scope),
            value_per_hour=needs.hour_value, interval="exact" if saves else "none",
            while_down=payment.while_down, scales=scales.nodes,
        ),
        replays="" if payment.trace is None else "the trace, begun at 500 moments of it",
    )  # fmt: skip


def _with(values: Sequence[float], own: float) -> tuple[float, ...]:
    """The values with one's own among them."""
    near = [value for value in values if abs(value - own) > 1e-9]
    return tuple(sorted([*near, own]))


def _rates(own: Preemptions) -> list[Preemptions]:
    hourly = _with(_RATES_PER_HOUR, own.per_hour)
    return [msgspec.structs.replace(own, per_second=rate / SECONDS_PER_HOUR) for rate in hourly]


def owned_outlook(scales: Candidates, price: Price, payment: Payment) -> OwnedOutlook | None:
    """The use from which owned nodes pay; nothing where only a fraction is stated."""
    owned = payment.owned
    if owned is None or not price.is_money:
        return None
    used = payment.utilisation if payment.utilisation is not None else 1.0
    if used == 0:
        raise SpecError("A utilisation of 0 buys nothing.", "Write for example 60%.")
    rent = rent_per_hour(scales)
    return OwnedOutlook(
        utilisation=used,
        per_useful_hour=float(owned.per_useful_hour(used)),
        marginal_per_hour=owned.marginal_per_hour(),
        rent_per_hour=rent,
        break_even_utilisation=owned.break_even_utilisation(rent),
        sensitivity=sensitivity(owned, rent),
    )
