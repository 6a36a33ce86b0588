"""The same curve paid for in other ways: on demand, on spot with preemption, on owned nodes.

Nodes fail however they are paid for; on spot they are also preempted, and both rates add up.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from nodewise.base.errors import DataError, SpecError
from nodewise.base.stats import Floats
from nodewise.base.units import SECONDS_PER_HOUR, format_duration, format_percent
from nodewise.decide.candidates import Candidates, Needs
from nodewise.decide.choose import Choice, cheapest_of, choice_at, fastest_of
from nodewise.decide.gates import Mask, allowed_scales, refusals, why_refused
from nodewise.decide.payment.in_time import share_in_time
from nodewise.decide.payment.owned import Commitment, Owned, Sensitivity, accounts, sensitivity
from nodewise.decide.payment.spot import (
    MONTH_HOURS,
    Checkpointing,
    Expected,
    Preemptions,
    Replayed,
    Rule,
    Scope,
    SpotChoice,
    WhileDown,
    break_even_rate,
    choices,
    expected,
    most_nodes,
    parse_trace,
    replay,
    summarise,
    why_endless,
)
from nodewise.decide.payment.spot import bill as spot_bill
from nodewise.decide.prices.bill import Bill, Bills, Price, bill

Mover = Literal["trace", "price", "budget", "preemptions", "gates"]

_DISCOUNTS = (0.5, 0.7, 0.9)
_RATES_PER_HOUR = (0.0, 0.01, 0.05, 0.2, 1.0)


class Payment(msgspec.Struct, frozen=True, kw_only=True):
    """Other ways to pay for the same nodes: as fractions of the price, or in detail."""

    spot_fraction: float = 0.30
    preemptions: Preemptions | None = None
    checkpointing: Checkpointing = Checkpointing(
        save_seconds=60.0, downtime_seconds=300.0, restart_seconds=120.0
    )
    saves: bool = True  # false: a stopped run starts again
    mtbf_seconds: float | None = None  # mean time between failures of one node; null: no failures
    while_down: WhileDown = "all"  # which nodes are billed until lost ones are back
    trace: str | None = None  # the text of an availability trace, to be replayed
    owned_fraction: float = 0.60
    owned_above: float = 0.60  # the utilisation from which the owned fraction holds
    utilisation: float | None = None
    runs_per_month: float | None = None  # instead of the utilisation
    owned: Owned | None = None  # instead of the fraction
    commitment: Commitment | None = None
    stated: tuple[str, ...] = ()  # the inputs that were given; others are assumed

    @property
    def asks_spot(self) -> bool:
        """Whether a price on spot, or how often its nodes are lost, was given."""
        is_lost = self.preemptions is not None or self.trace is not None
        return is_lost or "spot" in self.stated

    @property
    def rule(self) -> Rule:
        """How often a run saves."""
        return "exact" if self.saves else "none"

    def failures(self, nodes: Floats) -> Floats:
        """Failures a second of a gang of K nodes, whatever they cost."""
        return nodes / self.mtbf_seconds if self.mtbf_seconds else np.zeros_like(nodes)

    def use(self, scales: Candidates, price: Price) -> Floats:
        """The share of hours that owned nodes work, by scale; all of them where not stated."""
        if self.runs_per_month is None:
            used = 1.0 if self.utilisation is None else self.utilisation
            return np.full_like(scales.seconds, used)
        hours = (scales.seconds + price.startup_seconds) / SECONDS_PER_HOUR
        busy = self.runs_per_month * hours / MONTH_HOURS
        return np.asarray(busy / np.maximum(np.ceil(busy), 1.0), dtype=np.float64)

    @property
    def use_is_assumed(self) -> bool:
        """Whether the utilisation of owned nodes is not stated."""
        return self.utilisation is None and self.runs_per_month is None


class ScaleCost(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The cost of one scale, for the work of the first run, and its expected time."""

    nodes: int
    cost: float | None  # null: a run never ends
    seconds: float | None
    median_seconds: float | None = None  # of replays of a trace; null if a run never ends
    p95_seconds: float | None = None
    in_time: float | None = None  # share of runs that meet the deadline
    goodput: float | None = None  # share of the time that is the job's own work
    stops: float | None = None  # failures and preemptions expected in one run
    interval_seconds: float | None = None  # of work between two savings; null: nothing is saved
    never_ends: str | None = None  # why, where it is so


class Moved(msgspec.Struct, frozen=True, kw_only=True, rename={"before": "from", "after": "to"}):
    """One reason why the cheapest K is not that on demand; null: no scale passes."""

    before: int | None
    after: int | None
    by: Mover
    because: str


class PaymentPrice(msgspec.Struct, frozen=True, kw_only=True, rename={"payment": "regime"}):
    """One way to pay: the cheapest and the fastest scale, and the cost of each."""

    payment: str  # on-demand, spot or owned
    accounting: str = ""  # of owned nodes: marginal or full; committed where hours are paid anyway
    fraction: float  # of the price of a node on demand
    assumed: bool = False  # whether what the fraction is made of is not stated
    asked: bool = False  # of spot: whether its price or its preemptions were given
    chosen: Choice | None = None  # of spot that was asked for: by the objective of the headline
    applies: bool
    condition: str
    cheapest: Choice | None
    fastest: Choice | None
    bill: Bill | None  # the line items of the cheapest
    moved: tuple[Moved, ...] = ()  # why the cheapest is not that on demand
    rows: tuple[ScaleCost, ...]

    @property
    def label(self) -> str:
        """The payment, with its accounting where there are two."""
        return f"{self.payment}, {self.accounting}" if self.accounting else self.payment

    @property
    def share(self) -> str:
        """The fraction as text."""
        return format_percent(self.fraction) + (" assumed" if self.assumed else "")

    @property
    def is_stopped(self) -> bool:
        """Whether failures or preemptions lengthen its runs."""
        return any(row.goodput is not None for row in self.rows)

    @property
    def endless(self) -> tuple[ScaleCost, ...]:
        """The scales at which a run never ends."""
        return tuple(row for row in self.rows if row.never_ends)


class SpotOutlook(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """What preemptions do: at the cheapest scale, and how they move it."""

    nodes: int | None  # null: no run ends
    interval_seconds: float | None  # of work between two savings; null: nothing is saved
    goodput: float | None
    preemptions: float | None  # expected in one run, with failures
    # the rate up to which the best spot run costs less than the best on demand; null: never
    break_even_per_node_hour: float | None
    break_even_per_gang_hour: float | None  # where preemptions are counted by the gang
    break_even_without_saving: float | None  # of a node or a gang, as `scope` says
    scope: Scope
    moves: tuple[SpotChoice, ...]
    replays: str  # what was replayed; empty without a trace


class OwnedOutlook(msgspec.Struct, frozen=True, kw_only=True):
    """What an hour of an owned node costs, and from which use on it beats a rented one."""

    utilisation: float
    assumed: bool = False  # whether the utilisation is not stated
    per_useful_hour: float
    marginal_per_hour: float
    rent_per_hour: float
    break_even_utilisation: float | None  # null: the energy of an hour costs more than the rent
    sensitivity: tuple[Sensitivity, ...]


class Paid(msgspec.Struct, frozen=True):
    """Runs as one way to pay makes them: their times, their bills and what stops do to them."""

    scales: Candidates
    bills: Bills
    run: Expected | None = None
    replayed: Replayed | None = None


def on_demand(scales: Candidates, price: Price, needs: Needs, payment: Payment) -> Paid:
    """The runs at the price as it is; longer where nodes fail."""
    scales, run = with_failures(scales, payment)
    bills = bill(price, scales.rate_per_hour, scales.seconds, needs.hour_value)
    return Paid(scales, bills, run)


def with_failures(scales: Candidates, payment: Payment) -> tuple[Candidates, Expected | None]:
    """The scales with the times that are expected where nodes fail; of such scales, again."""
    if payment.mtbf_seconds is None:
        return scales, None
    rates = payment.failures(scales.whole_nodes)
    if scales.seconds.ndim > 1:  # draws of times, one row per draw
        run = expected(scales.seconds, rates, payment.checkpointing, payment.rule)
        return msgspec.structs.replace(scales, seconds=run.seconds), None
    run = expected(_work(scales), rates, payment.checkpointing, payment.rule)
    slowed = _slowed(scales, run, rates, payment, run.seconds)
    # speed is that over the smallest scale that ends, which fails too
    base = int(np.argmin(run.never_ends))
    rebased = msgspec.structs.replace(
        slowed,
        speedup=slowed.speedup / slowed.speedup[base],
        efficiency=slowed.efficiency / slowed.efficiency[base],
    )
    return rebased, run


def _work(scales: Candidates) -> Floats:
    return scales.seconds if scales.undisturbed is None else scales.undisturbed


def _slowed(
    scales: Candidates, run: Expected, rates: Floats, payment: Payment, powered: Floats
) -> Candidates:
    """The scales with the times of runs that are stopped; nodes draw power for `powered` seconds.

    A run that takes longer is slower: speed is compared by the time that is expected.
    """
    longer = run.seconds / scales.seconds
    nodes = scales.whole_nodes
    times, left = payment.checkpointing, scales.left_seconds
    fitted, spread = scales.fitted_base_seconds, scales.run_quantiles
    return msgspec.structs.replace(
        scales,
        undisturbed=run.work,
        seconds=run.seconds,
        bounds=scales.bounds and (scales.bounds[0] * longer, scales.bounds[1] * longer),
        fitted_base_seconds=None if fitted is None else fitted * float(longer[0]),
        speedup=scales.speedup / longer,
        efficiency=scales.efficiency / longer,
        energy=scales.energy.times(powered / scales.seconds),
        carbon=scales.carbon.times(powered / scales.seconds),
        in_time=scales.in_time if left is None else share_in_time(run, rates, times, left, spread),
        never_ends=why_endless(run, nodes, rates, times, payment.saves),
    )


def on_spot(scales: Candidates, price: Price, needs: Needs, payment: Payment) -> Paid:
    """The runs at the spot price; slower if nodes are preempted or fail."""
    if payment.trace is not None:
        scales = scales.up_to(most_nodes(payment.trace))
        if not scales.nodes:
            raise DataError(
                "The trace never has as many nodes as the smallest scale.",
                "Give a trace of more nodes.",
            )
    rate = scales.rate_per_hour * payment.spot_fraction
    if payment.preemptions is None and payment.trace is None:
        scales, failing = with_failures(scales, payment)
        return Paid(scales, bill(price, rate, scales.seconds, needs.hour_value), failing)
    nodes = scales.whole_nodes
    run, rates, replayed = _interrupted(scales, payment)
    bills = spot_bill(
        price, nodes, rate, run,
        value_per_hour=needs.hour_value, while_down=payment.while_down,
    )  # fmt: skip
    slowed = _slowed(scales, run, rates, payment, run.up)
    if replayed is not None:
        slowed = msgspec.structs.replace(slowed, in_time=replayed.in_time)
    return Paid(slowed, bills, run, replayed)


def _interrupted(scales: Candidates, payment: Payment) -> tuple[Expected, Floats, Replayed | None]:
    """The runs on spot and the rate at which each is stopped.

    A trace has every loss of a node, whatever the reason, so failures do not add to it.
    """
    times, rule = payment.checkpointing, payment.rule
    nodes, work = scales.whole_nodes, _work(scales)
    if payment.trace is None:
        assert payment.preemptions is not None
        rates = payment.preemptions.of_gang(nodes) + payment.failures(nodes)
        return expected(work, rates, times, rule), rates, None
    # Each K is a gang of its own: it is up while so many nodes are there.
    runs, replays, traced = [], [], []
    for at, count in enumerate(scales.whole_nodes):
        one = work[at : at + 1]
        trace = parse_trace(payment.trace, int(count))
        down = msgspec.structs.replace(times, downtime_seconds=trace.mean_downtime_seconds)
        traced.append(trace.rate_per_second)
        runs.append(expected(one, np.array([trace.rate_per_second]), down, rule))
        replays.append(replay(trace, one, times, rule))
    run = Expected(
        **{
            name: np.concatenate([getattr(one, name) for one in runs])
            for name in Expected.__struct_fields__
        }
    )
    replayed = summarise(np.concatenate(replays, axis=1), scales.left_seconds)
    return run, np.array(traced), replayed


def payments(
    hired: Paid, spot: Paid | None, price: Price, needs: Needs, payment: Payment
) -> tuple[PaymentPrice, ...]:
    """The same runs on demand, on spot and on owned nodes; without a price, on demand alone."""
    condition = "the price as given"
    if payment.mtbf_seconds is not None:
        condition = f"expected, {_failing(payment)}, {_saving(payment)}"
    rows = [_payment(hired, hired, price, needs, payment="on-demand", condition=condition)]
    if spot is None:
        return tuple(rows)
    return (
        *rows,
        *_committed(hired, price, needs, payment),
        _payment(
            spot, hired, price, needs,
            payment="spot", fraction=payment.spot_fraction, condition=_risk(payment),
            applies=payment.spot_fraction < 1, assumed="spot" not in payment.stated,
            asked=payment.asks_spot,
        ),
        *_owned(hired, price, needs, payment),
    )  # fmt: skip


def _saving(payment: Payment) -> str:
    if not payment.saves:
        return "nothing is saved"
    assumed = "" if "checkpoint" in payment.stated else " (assumed)"
    return f"{format_duration(payment.checkpointing.save_seconds)} to save{assumed}"


def _failing(payment: Payment) -> str:
    assert payment.mtbf_seconds is not None
    return f"each node fails every {format_duration(payment.mtbf_seconds)}"


def _risk(payment: Payment) -> str:
    """Under which preemptions the spot row holds."""
    rate = payment.preemptions
    if payment.trace is not None:
        return "expected, at the rate and the mean downtime of the trace"
    failing = "" if payment.mtbf_seconds is None else f", {_failing(payment)}"
    if rate is None:
        return f"before any preemption{failing}"
    together = ""
    if rate.scope == "node" and rate.correlation_exponent != 1:
        together = f", K^{rate.correlation_exponent:g} of them for K nodes"
    return (
        f"expected, at {rate.per_hour:.3g} preemptions an hour of each {rate.scope}{together}"
        f"{failing}, {_saving(payment)}; {rate.basis}"
    )


def _committed(hired: Paid, price: Price, needs: Needs, payment: Payment) -> list[PaymentPrice]:
    """Hours that are paid at a discount whether they are used or not."""
    commitment, scales = payment.commitment, hired.scales
    if commitment is None:
        return []
    used = payment.use(scales, price)
    if not used.all():
        raise SpecError("A utilisation of 0 buys nothing.", "Write for example 60%.")
    fraction = commitment.per_useful_hour(1.0, used)
    least = commitment.break_even_utilisation
    rate = scales.rate_per_hour * fraction
    return [
        _payment(
            Paid(scales, bill(price, rate, scales.seconds, needs.hour_value), hired.run),
            hired, price, needs, payment="on-demand", accounting="committed",
            fraction=fraction, applies=fraction < 1, assumed=payment.use_is_assumed,
            condition=f"pays above {format_percent(least)} use; {_use(payment)}",
        )
    ]  # fmt: skip


def _use(payment: Payment) -> str:
    if payment.runs_per_month is not None:
        return f"yours is {payment.runs_per_month:g} runs a month"
    if payment.utilisation is None:
        return "yours is not stated"
    return f"yours is {format_percent(payment.utilisation)}"


def _owned(hired: Paid, price: Price, needs: Needs, payment: Payment) -> list[PaymentPrice]:
    scales = hired.scales
    used = payment.use(scales, price)

    def paid(rate: Floats) -> Paid:
        bills = bill(price, rate, scales.seconds, needs.hour_value)
        return Paid(scales, bills, hired.run)

    if payment.owned is None:
        least = format_percent(payment.owned_above)
        fraction = payment.owned_fraction
        return [
            _payment(
                paid(fraction * scales.rate_per_hour), hired, price, needs, payment="owned",
                fraction=fraction, assumed="own" not in payment.stated,
                applies=payment.use_is_assumed | (used > payment.owned_above),
                condition=f"holds above {least} utilisation; {_use(payment)}",
            )
        ]  # fmt: skip
    nodes = scales.whole_nodes
    rent, found = rent_per_hour(scales), []
    assumed = " Assumed: 100 % use, the best case." if payment.use_is_assumed else ""
    for account in accounts(payment.owned, used):
        is_full = account.accounting == "full"
        per_node = account.per_node_hour
        found.append(
            _payment(
                paid(per_node * nodes), hired, price, needs, payment="owned",
                accounting=account.accounting, fraction=per_node / rent if rent else 0.0,
                assumed=is_full and payment.use_is_assumed,
                condition=account.question + (assumed if is_full else ""),
            )
        )  # fmt: skip
    return found


def _payment(
    paid: Paid,
    hired: Paid,
    price: Price,
    needs: Needs,
    *,
    payment: str,
    condition: str,
    accounting: str = "",
    fraction: Floats | float = 1.0,
    assumed: bool = False,
    asked: bool = False,
    applies: Mask | bool = True,
) -> PaymentPrice:
    scales, bills = paid.scales, paid.bills
    eligible = np.flatnonzero(allowed_scales(scales, price, needs, bills)).tolist()
    cost = bills.billed / scales.relative_work
    cheapest = cheapest_of(scales, cost, eligible)
    # what depends on the scale is given for the cheapest
    at = 0 if cheapest is None else cheapest
    return PaymentPrice(
        payment=payment,
        accounting=accounting,
        fraction=float(np.broadcast_to(fraction, cost.shape)[at]),
        assumed=assumed,
        asked=asked,
        applies=bool(np.broadcast_to(applies, cost.shape)[at]),
        condition=condition,
        cheapest=choice_at(scales, bills, cheapest),
        fastest=choice_at(scales, bills, fastest_of(scales, cost, eligible)),
        bill=None if cheapest is None else bills.at(cheapest),
        moved=() if paid is hired else _moved(paid, hired, price, needs, fraction),
        rows=tuple(_scale_cost(paid, at) for at in range(len(scales.nodes))),
    )


def _scale_cost(paid: Paid, at: int) -> ScaleCost:
    scales, run, replayed = paid.scales, paid.run, paid.replayed
    nodes, in_time = scales.nodes[at], scales.in_time
    if scales.never_ends and scales.never_ends[at]:
        why = scales.never_ends[at]
        return ScaleCost(nodes=nodes, cost=None, seconds=None, goodput=0.0, never_ends=why)
    saved = run is not None and run.segments[at] > 1
    return ScaleCost(
        nodes=nodes,
        cost=float(paid.bills.billed[at] / scales.relative_work[at]),
        seconds=float(scales.seconds[at]),
        median_seconds=_ended(replayed.median, at) if replayed else None,
        p95_seconds=_ended(replayed.p95, at) if replayed else None,
        in_time=None if in_time is None else float(in_time[at]),
        goodput=None if run is None else float(run.goodput[at]),
        stops=None if run is None else float(run.preemptions[at]),
        interval_seconds=float(run.interval_seconds[at]) if run is not None and saved else None,
    )


def _ended(seconds: Floats, at: int) -> float | None:
    return float(seconds[at]) if np.isfinite(seconds[at]) else None


def _moved(
    paid: Paid, hired: Paid, price: Price, needs: Needs, fraction: Floats | float
) -> tuple[Moved, ...]:
    """What moves the cheapest K from that on demand to that of another way to pay, step by step."""
    scales, calm = hired.scales, paid.bills
    if paid.scales.seconds is not scales.seconds:
        scales = scales.up_to(float(paid.scales.whole_nodes[-1]))
        rate = scales.rate_per_hour * fraction
        calm = bill(price, rate, scales.seconds, needs.hour_value)

    def cheapest(bills: Bills, allowed: Mask) -> int | None:
        found = cheapest_of(
            scales, bills.billed / scales.relative_work, np.flatnonzero(allowed).tolist()
        )
        return None if found is None else scales.nodes[found]

    hired_bills = bill(price, scales.rate_per_hour, scales.seconds, needs.hour_value)
    first = allowed_scales(scales, price, needs, hired_bills)
    calmly = allowed_scales(scales, price, needs, calm)
    last = allowed_scales(paid.scales, price, needs, paid.bills)
    everywhere = allowed_scales(hired.scales, price, needs, hired.bills)
    best = cheapest_of(
        hired.scales,
        hired.bills.billed / hired.scales.relative_work,
        np.flatnonzero(everywhere).tolist(),
    )
    now = None if best is None else hired.scales.nodes[best]
    steps: tuple[tuple[Mover, Bills, Mask], ...] = (
        ("trace", hired_bills, first),
        ("price", calm, first),
        ("budget", calm, calmly),
        ("preemptions", paid.bills, calmly),
        ("gates", paid.bills, last),
    )
    found = []
    for by, bills, allowed in steps:
        after = cheapest(bills, allowed)
        if after != now:
            ratio = calm.compute / np.maximum(hired_bills.compute, np.finfo(float).tiny)
            because = _why_moved(by, now, paid, price, needs, ratio)
            found.append(Moved(before=now, after=after, by=by, because=because))
        now = after
    return tuple(found)


def _why_moved(
    by: Mover, before: int | None, paid: Paid, price: Price, needs: Needs, ratio: Floats
) -> str:
    """The reason of one step, in words."""
    if by == "trace":
        return f"the trace has no more nodes than K={paid.scales.nodes[-1]} needs"
    if by == "price":
        if not np.allclose(ratio, ratio[0]):
            return "an hour of a node costs more at some scales, against that on demand"
        way = "falls" if ratio[0] < 1 else "rises"
        return f"the price of nodes {way}, but the hourly overhead does not"
    if by == "budget":
        return "the budget admits other scales at this price"
    if by == "preemptions":
        return f"preemptions make K={before} more expensive"
    refused = refusals(paid.scales, price, needs, paid.bills)
    why = None if before is None else refused[paid.scales.nodes.index(before)]
    if why is None:
        return "another scale passes the gates"
    return f"at K={before} {why_refused(why)}"


def cheaper_nodes(price: Price, needs: Needs, paid: Sequence[PaymentPrice]) -> str:
    """Whether the cheapest K is another one when nodes are paid for in other ways, and why."""
    sentences = []
    moved = [one for one in paid if one.moved]
    by_price = price.prices_the_hour or needs.hour_value or needs.budget is not None
    if not by_price and all(step.by != "price" for one in moved for step in one.moved):
        sentences.append(
            "Cheaper nodes do not move the cheapest K here: without an overhead by the hour, a "
            "value of time or a budget, every cost is proportional to the price, so its minimum "
            "is at the same K for every price."
        )
    elif not moved:
        first = paid[0].cheapest
        named = "no scale passes" if first is None else f"K={first.nodes}"
        sentences.append(f"The cheapest K is the same for every way to pay: {named}.")
    reasons: dict[str, list[str]] = {}
    for one in moved:
        why = "; then ".join(
            step.because + (f" (K={step.after})" if len(one.moved) > 1 and step.after else "")
            for step in one.moved
        )
        before, after = one.moved[0].before, one.moved[-1].after
        move = f"The cheapest K moves from K={before} to K={after} on {one.label}"
        if before is None or after is None:
            passes = "No scale passes" if after is None else f"K={after} passes"
            move = f"{passes} on {one.label}"
        reasons.setdefault(why, []).append(move)
    for why, moves in reasons.items():
        start = f"The cheapest K moves from K={moved[0].moved[0].before} "
        first_move, *others = moves
        sentences.append(", ".join([first_move, *(one.removeprefix(start) for one in others)]))
        sentences[-1] += f": {why}."
    return " ".join(sentences)


def rent_per_hour(scales: Candidates) -> float:
    """What one node costs on demand, at the smallest scale."""
    return float(scales.rate_per_hour[0] / scales.whole_nodes[0])


def spot_outlook(
    scales: Candidates, spot: Paid | None, price: Price, needs: Needs, payment: Payment
) -> SpotOutlook | None:
    """What preemptions do to the cheapest spot run; nothing if none are stated."""
    dearer = payment.spot_fraction > 1
    stated = payment.preemptions is not None or payment.trace is not None
    if spot is None or spot.run is None or scales.regime == "weak" or dearer or not stated:
        return None
    run, best = spot.run, _cheapest_that_ends(spot, price, needs)
    nodes = scales.whole_nodes
    times, rule = payment.checkpointing, payment.rule
    discount = 1 - payment.spot_fraction
    rate = payment.preemptions or Preemptions(per_second=0.0)
    failures = np.zeros_like(nodes) if payment.trace is not None else payment.failures(nodes)

    def break_even(rule: Rule) -> float | None:
        found = break_even_rate(
            _work(scales), nodes, price, times, discount,
            scope=rate.scope, correlation_exponent=rate.correlation_exponent,
            rate_per_hour=scales.rate_per_hour, failures=failures,
            value_per_hour=needs.hour_value, interval=rule, while_down=payment.while_down,
        )  # fmt: skip
        return None if found is None else found * SECONDS_PER_HOUR

    def at_best(values: Floats) -> float | None:
        return None if best is None else float(values[best])

    limit = break_even("exact") if payment.saves else None
    return SpotOutlook(
        nodes=None if best is None else spot.scales.nodes[best],
        interval_seconds=at_best(run.interval_seconds) if payment.saves else None,
        goodput=at_best(run.goodput),
        preemptions=at_best(run.preemptions),
        break_even_per_node_hour=limit if rate.scope == "node" else None,
        break_even_per_gang_hour=limit if rate.scope == "gang" else None,
        break_even_without_saving=break_even("none"),
        scope=rate.scope,
        moves=choices(
            _work(scales), nodes, price, times,
            _with(_DISCOUNTS, discount), _rates(rate),
            rate_per_hour=scales.rate_per_hour, failures=failures,
            value_per_hour=needs.hour_value, interval=rule, while_down=payment.while_down,
            scales=scales.nodes,
        ),
        replays="" if payment.trace is None else "the trace, begun at 500 moments of it",
    )  # fmt: skip


def _cheapest_that_ends(spot: Paid, price: Price, needs: Needs) -> int | None:
    """The cheapest spot run that passes every gate; if none does, that ends."""
    allowed = allowed_scales(spot.scales, price, needs, spot.bills)
    if not allowed.any():
        allowed = np.array([not why for why in spot.scales.never_ends], dtype=bool)
    return cheapest_of(spot.scales, spot.bills.billed, np.flatnonzero(allowed).tolist())


def _with(values: Sequence[float], own: float) -> tuple[float, ...]:
    """The values with one's own among them."""
    near = [value for value in values if abs(value - own) > 1e-9]
    return tuple(sorted([*near, own]))


def _rates(own: Preemptions) -> list[Preemptions]:
    hourly = _with(_RATES_PER_HOUR, own.per_hour)
    return [msgspec.structs.replace(own, per_second=rate / SECONDS_PER_HOUR) for rate in hourly]


def owned_outlook(scales: Candidates, price: Price, payment: Payment) -> OwnedOutlook | None:
    """The use from which owned nodes pay; nothing if only a fraction is stated."""
    owned = payment.owned
    if owned is None or not price.is_money:
        return None
    by_scale = payment.use(scales, price)
    if not by_scale.all():
        raise SpecError("A utilisation of 0 buys nothing.", "Write for example 60%.")
    each = owned.per_useful_hour(by_scale)
    hours = scales.whole_nodes * scales.seconds / scales.relative_work
    best = int(np.argmin(each * hours))  # of runs a month, the use is that of the cheapest scale
    rent = rent_per_hour(scales)
    return OwnedOutlook(
        utilisation=float(by_scale[best]),
        assumed=payment.use_is_assumed,
        per_useful_hour=float(each[best]),
        marginal_per_hour=owned.marginal_per_hour(),
        rent_per_hour=rent,
        break_even_utilisation=owned.break_even_utilisation(rent),
        sensitivity=sensitivity(owned, rent),
    )
