"""The same curve paid for in other ways: on demand, on spot with preemption, on owned nodes."""

import msgspec
import numpy as np

from nodewise.candidates import Candidates, Needs
from nodewise.choose import Choice, cheapest_of, choice_at, exclusions, fastest_of
from nodewise.ownership import Owned, accounts
from nodewise.prices import NODE_HOURS, Bills, Price, bill
from nodewise.spot import Checkpointing, Preemptions, expected
from nodewise.spot import bill as spot_bill
from nodewise.units import format_duration, format_percent


class Alternatives(msgspec.Struct, frozen=True, kw_only=True):
    """Other ways to pay for the same nodes: as fractions of the price, or in detail."""

    spot_fraction: float = 0.30
    preemptions: Preemptions | None = None
    checkpointing: Checkpointing = Checkpointing(
        save_seconds=60.0, downtime_seconds=300.0, restart_seconds=120.0
    )
    owned_fraction: float = 0.60
    owned_above: float = 0.60  # the utilisation from which the owned fraction holds
    utilisation: float | None = None
    owned: Owned | None = None  # instead of the fraction


class ScaleCost(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The cost of one scale, for the work of the first run, and its expected time."""

    nodes: int
    cost: float
    seconds: float


class RegimePrice(msgspec.Struct, frozen=True, kw_only=True):
    """One way to pay: the cheapest and the fastest scale, and the cost of each."""

    regime: str  # on-demand, spot or owned
    accounting: str = ""  # of owned nodes: marginal or full
    fraction: float  # of the price of a node on demand
    applies: bool
    condition: str
    cheapest: Choice | None
    fastest: Choice | None
    rows: tuple[ScaleCost, ...]

    @property
    def label(self) -> str:
        """The regime, with its accounting where there are two."""
        return f"{self.regime}, {self.accounting}" if self.accounting else self.regime


def regimes_of(
    scales: Candidates, price: Price, needs: Needs, alternatives: Alternatives
) -> tuple[RegimePrice, ...]:
    """The same runs on demand, on spot and on owned nodes."""
    plain = bill(price, scales.rate_per_hour, scales.seconds, needs.value_per_hour)
    rows = [
        _regime(scales, price, needs, plain, regime="on-demand", condition="the price as given")
    ]
    if price.currency == NODE_HOURS:
        return tuple(rows)
    return (
        *rows,
        _spot(scales, price, needs, alternatives),
        *_owned(scales, price, needs, alternatives),
    )


def _spot(
    scales: Candidates, price: Price, needs: Needs, alternatives: Alternatives
) -> RegimePrice:
    fraction, preemptions = alternatives.spot_fraction, alternatives.preemptions
    if preemptions is None:
        bills = bill(price, scales.rate_per_hour, scales.seconds, needs.value_per_hour, fraction)
        return _regime(
            scales, price, needs, bills, regime="spot", fraction=fraction,
            condition="before any preemption",
        )  # fmt: skip
    nodes = np.array(scales.nodes, dtype=np.float64)
    run = expected(scales.seconds, preemptions.of_gang(nodes), alternatives.checkpointing)
    bills = spot_bill(
        price, nodes, scales.rate_per_hour * fraction, run, value_per_hour=needs.value_per_hour
    )
    in_time = None
    if needs.deadline_seconds is not None:
        in_time = run.share_in_time(needs.deadline_seconds - price.startup_seconds)
    # A run that takes longer is slower: speed is compared by the time that is expected.
    slowed = msgspec.structs.replace(
        scales,
        seconds=run.seconds,
        speedup=scales.speedup * scales.seconds / run.seconds,
        in_time=in_time,
    )
    saving = format_duration(alternatives.checkpointing.save_seconds)
    return _regime(
        slowed, price, needs, bills, regime="spot", fraction=fraction,
        condition=f"expected, at {preemptions.per_hour:.3g} preemptions an hour of each "
        f"{preemptions.scope}, {saving} to save; {preemptions.basis}",
    )  # fmt: skip


def _owned(
    scales: Candidates, price: Price, needs: Needs, alternatives: Alternatives
) -> list[RegimePrice]:
    used = alternatives.utilisation
    if alternatives.owned is None:
        least = format_percent(alternatives.owned_above)
        stated = "yours is not stated" if used is None else f"yours is {format_percent(used)}"
        fraction = alternatives.owned_fraction
        bills = bill(price, scales.rate_per_hour, scales.seconds, needs.value_per_hour, fraction)
        return [
            _regime(
                scales, price, needs, bills, regime="owned", fraction=fraction,
                applies=used is None or used > alternatives.owned_above,
                condition=f"holds above {least} utilisation; {stated}",
            )
        ]  # fmt: skip
    nodes = np.array(scales.nodes, dtype=np.float64)
    found = []
    for account in accounts(alternatives.owned, used if used is not None else 1.0):
        rate = account.per_node_hour * nodes
        bills = bill(price, rate, scales.seconds, needs.value_per_hour)
        rent = float(scales.rate_per_hour[0] / nodes[0])
        found.append(
            _regime(
                scales, price, needs, bills, regime="owned", accounting=account.accounting,
                fraction=account.per_node_hour / rent if rent else 0.0,
                condition=account.question,
            )
        )  # fmt: skip
    return found


def _regime(
    scales: Candidates,
    price: Price,
    needs: Needs,
    bills: Bills,
    *,
    regime: str,
    condition: str,
    accounting: str = "",
    fraction: float = 1.0,
    applies: bool = True,
) -> RegimePrice:
    reasons = exclusions(scales, price, needs, bills)
    ladder = [at for at, reason in enumerate(reasons) if reason is None]
    cost = bills.total / scales.relative_work
    return RegimePrice(
        regime=regime,
        accounting=accounting,
        fraction=fraction,
        applies=applies,
        condition=condition,
        cheapest=choice_at(scales, bills, cheapest_of(scales, cost, ladder)),
        fastest=choice_at(scales, bills, fastest_of(scales, cost, ladder)),
        rows=tuple(
            ScaleCost(nodes=nodes, cost=float(cost[at]), seconds=float(scales.seconds[at]))
            for at, nodes in enumerate(scales.nodes)
        ),
    )
