"""The joint verdict: seconds, speedup, efficiency, quality and cost of each scale, and the choice.

A decision never runs ahead of a named cause: `decide` attributes first. Where an hour has a price
(an overhead, a value of waiting), the cheapest scale that passes the gates is chosen; where it has
none, one node is nearly always the cheapest, so the largest scale that keeps its efficiency is
chosen instead, and both are shown.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.attribute import Attribution, attribute_timings
from nodewise.candidates import Candidates, Needs, candidates_of_law, candidates_of_study
from nodewise.causes import CauseName
from nodewise.choose import TIE, Choice, cheapest_of, choice_at, exclusions, fastest_of, harm
from nodewise.claim import (
    cheaper_nodes,
    claim,
    share_of_efficient_resamples,
    what_would_change,
    why_none,
    why_this_scale,
)
from nodewise.laws import Law
from nodewise.prices import Bill, Bills, Price, bill
from nodewise.regimes import Alternatives, RegimePrice, regimes_of
from nodewise.scaling import Scaling, Timings, scale_timings, timings
from nodewise.spec import Regime
from nodewise.stats import Center, Floats
from nodewise.study import Study
from nodewise.units import SECONDS_PER_HOUR, format_duration, format_money

__all__ = ["Decision", "Needs", "decide", "decide_law", "decide_timings"]

_INDIFFERENT = 0.01  # scales whose cost is within 1 % of the least are equally good


class DecisionRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The rubric of one scale. An excluded scale is shown and takes part in no ranking."""

    nodes: int
    seconds: float
    speedup: float
    efficiency: float
    quality: float | None
    cost: float
    cost_low: float | None
    cost_high: float | None
    bill: Bill
    cost_per_work: float | None
    work_per_dollar: float | None
    energy_joules: float | None
    excluded: bool
    excluded_because: str | None
    deadline_probability: float | None
    probability_cheapest: float | None
    expected_regret: float | None  # mean extra cost over the cheapest, over resamples


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the answer stayed as good at every scale as at the first."""

    held: bool
    max_drift: float
    tolerance: float


class PriceOfSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """The exchange rate between the cheapest and the fastest scale."""

    extra_cost: float
    cost_ratio: float | None  # null where the cheapest costs nothing
    speed_ratio: float


class Marginal(
    msgspec.Struct, frozen=True, kw_only=True, rename={"from_nodes": "from", "to_nodes": "to"}
):
    """One step up the ladder: folds gained, money added, their ratio (null if money is saved)."""

    from_nodes: int
    to_nodes: int
    speedup: float
    cost: float
    speedup_per_dollar: float | None
    seconds_saved: float
    cost_per_hour_saved: float | None


class Recommendation(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The scale to run at, and why."""

    nodes: int | None
    because: str


class Deployment(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The scale for one kind of use, and what it gives up against the other."""

    kind: str
    nodes: int
    cost: float
    seconds: float
    gives_up: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The scale to run at, the alternatives, what each gives up, what would change it."""

    name: str
    regime: Regime
    measured: bool  # false: every number comes from a model
    price: Price
    rows: tuple[DecisionRow, ...]
    quality: Quality | None
    cause: CauseName | None
    cheapest: Choice | None
    cheapest_low: int | None  # the cheapest K of 95 % of resamples lies between these
    cheapest_high: int | None
    fastest: Choice | None
    price_of_speed: PriceOfSpeed | None
    marginal: tuple[Marginal, ...]
    doublings: tuple[Marginal, ...]
    first_unfavourable_doubling: tuple[int, int] | None
    within_1_percent: tuple[int, ...]
    frontier: tuple[int, ...]
    recommended: Recommendation
    deployments: tuple[Deployment, ...]
    regimes: tuple[RegimePrice, ...]
    cheaper_nodes: str
    would_change: tuple[str, ...]
    claim: str | None
    attribution: Attribution | None
    notes: tuple[str, ...]

    def row(self, nodes: int) -> DecisionRow:
        """The row of one scale."""
        return next(row for row in self.rows if row.nodes == nodes)


def decide(
    study: Study,
    price: Price | None = None,
    needs: Needs | None = None,
    alternatives: Alternatives | None = None,
    center: Center = "mean",
) -> Decision:
    """Price every measured scale, apply the gates, and recommend one; attributes first."""
    needs = needs or Needs()
    times = timings(study, center)
    scaling = scale_timings(study, times, needs.threshold)
    return decide_timings(
        study, times, scaling, price or Price(), needs, alternatives or Alternatives()
    )


def decide_timings(
    study: Study,
    times: Timings,
    scaling: Scaling,
    price: Price,
    needs: Needs,
    alternatives: Alternatives,
) -> Decision:
    """The same for timings and their scaling that are already at hand."""
    attribution = attribute_timings(study, times, scaling)
    scales, price, notes = candidates_of_study(study, times, attribution, price, needs)
    notes = [*attribution.notes, *notes]
    return _decide(scales, price, needs, alternatives, attribution, notes)


def decide_law(
    law: Law,
    max_nodes: int,
    price: Price,
    needs: Needs | None = None,
    alternatives: Alternatives | None = None,
    noise: float = 0.0,
) -> Decision:
    """The same decision for a law without data, at every K up to `max_nodes`.

    `noise` is the relative spread of a run; with it a deadline is kept with the confidence asked.
    """
    needs = needs or Needs()
    scales, price, notes = candidates_of_law(law, max_nodes, price, needs, noise)
    return _decide(scales, price, needs, alternatives or Alternatives(), None, notes)


def _decide(
    scales: Candidates,
    price: Price,
    needs: Needs,
    alternatives: Alternatives,
    attribution: Attribution | None,
    notes: Sequence[str],
) -> Decision:
    bills = bill(price, scales.rate_per_hour, scales.seconds, needs.value_per_hour)
    reasons = exclusions(scales, price, needs, bills)
    allowed = np.array([reason is None for reason in reasons])
    # A run that grows with K does more work for its money, so scales are compared by equal work.
    # They are ranked by the bill and the worth of waiting for it; what is shown is the bill.
    unit_cost, unit_bill = bills.total / scales.relative_work, bills.billed / scales.relative_work
    ladder = [at for at in range(len(scales.nodes)) if allowed[at]]
    cheapest, fastest = (
        cheapest_of(scales, unit_cost, ladder),
        fastest_of(scales, unit_cost, ladder),
    )
    frontier = _frontier(scales, unit_cost, ladder)
    chosen, because = _recommend(scales, price, needs, bills, reasons, cheapest, frontier)
    doublings = _doublings(scales, ladder)
    unfavourable = [
        (scales.nodes[low], scales.nodes[high])
        for low, high in doublings
        if unit_cost[high] > unit_cost[low] * (1 + TIE)
    ]
    regimes = regimes_of(scales, price, needs, alternatives)
    resampled = _resample_costs(scales, price, needs, allowed)
    return Decision(
        name=scales.name,
        regime=scales.regime,
        measured=scales.measured,
        price=price,
        rows=_rows(scales, price, needs, bills, reasons, resampled),
        quality=_quality(scales, needs),
        cause=_cause_beyond(scales, chosen),
        cheapest=choice_at(scales, bills, cheapest),
        cheapest_low=resampled.between[0] if resampled else None,
        cheapest_high=resampled.between[1] if resampled else None,
        fastest=choice_at(scales, bills, fastest),
        price_of_speed=_price_of_speed(scales, unit_bill, cheapest, fastest),
        marginal=tuple(_marginal(scales, unit_bill, *pair) for pair in pairwise(ladder)),
        doublings=tuple(_marginal(scales, unit_bill, *pair) for pair in doublings),
        first_unfavourable_doubling=unfavourable[0] if unfavourable else None,
        within_1_percent=_indifferent(scales, unit_cost, ladder),
        frontier=tuple(scales.nodes[at] for at in frontier),
        recommended=Recommendation(
            nodes=None if chosen is None else scales.nodes[chosen], because=because
        ),
        deployments=_deployments(scales, price, bills, unit_bill, cheapest, fastest),
        regimes=regimes,
        cheaper_nodes=cheaper_nodes(
            price,
            needs,
            [(one.label, one.cheapest.nodes if one.cheapest else None) for one in regimes],
        ),
        would_change=what_would_change(scales, price, needs, bills, reasons, chosen, fastest),
        claim=claim(scales, price, bills.billed, reasons, chosen)
        if scales.measured and chosen is not None
        else None,
        attribution=attribution,
        notes=tuple(notes),
    )


def _quality(scales: Candidates, needs: Needs) -> Quality | None:
    if scales.quality is None:
        return None
    return Quality(
        held=all(harm(scales, needs, at) is None for at in range(len(scales.nodes))),
        max_drift=float(np.max(np.abs(scales.quality - scales.quality[0]))),
        tolerance=needs.quality_tolerance,
    )


class _Resampled(NamedTuple):
    """What resampled rounds say about the cheapest scale."""

    share_cheapest: Floats
    regret: Floats  # mean cost above the cheapest of the same resample
    between: tuple[int, int]


def _resample_costs(
    scales: Candidates, price: Price, needs: Needs, allowed: NDArray[np.bool_]
) -> _Resampled | None:
    if scales.draws is None or not allowed.any():
        return None
    bills = bill(price, scales.rate_per_hour, scales.draws, needs.value_per_hour)
    costs = bills.total[:, allowed] / scales.relative_work[allowed]
    winners = np.flatnonzero(allowed)[costs.argmin(axis=1)]
    share = np.bincount(winners, minlength=len(allowed)) / len(winners)
    regret = np.zeros(len(allowed))
    regret[allowed] = (costs - costs.min(axis=1, keepdims=True)).mean(axis=0)
    low, high = np.quantile(np.array(scales.nodes)[winners], [0.025, 0.975], method="nearest")
    return _Resampled(share, regret, (int(low), int(high)))


def _rows(
    scales: Candidates,
    price: Price,
    needs: Needs,
    bills: Bills,
    reasons: Sequence[str | None],
    resampled: _Resampled | None,
) -> tuple[DecisionRow, ...]:
    bounds = None
    if scales.bounds is not None:  # a longer run never costs less, so bounds of time bound the cost
        bounds = [bill(price, scales.rate_per_hour, seconds).billed for seconds in scales.bounds]

    def at_scale(values: Floats | None, at: int) -> float | None:
        return None if values is None else float(values[at])

    rows = []
    for at, nodes in enumerate(scales.nodes):
        cost = float(bills.billed[at])
        work = at_scale(scales.work, at)
        rows.append(
            DecisionRow(
                nodes=nodes,
                seconds=float(scales.seconds[at]),
                speedup=float(scales.speedup[at]),
                efficiency=float(scales.efficiency[at]),
                quality=at_scale(scales.quality, at),
                cost=cost,
                cost_low=at_scale(bounds[0], at) if bounds else None,
                cost_high=at_scale(bounds[1], at) if bounds else None,
                bill=bills.at(at),
                cost_per_work=cost / work if work else None,
                work_per_dollar=work / cost if work and cost > 0 else None,
                energy_joules=at_scale(scales.energy_joules, at),
                excluded=reasons[at] is not None,
                excluded_because=reasons[at],
                deadline_probability=at_scale(scales.in_time, at),
                probability_cheapest=float(resampled.share_cheapest[at]) if resampled else None,
                expected_regret=float(resampled.regret[at])
                if resampled and reasons[at] is None
                else None,
            )
        )
    return tuple(rows)


def _recommend(
    scales: Candidates,
    price: Price,
    needs: Needs,
    bills: Bills,
    reasons: Sequence[str | None],
    cheapest: int | None,
    frontier: Sequence[int],
) -> tuple[int | None, str]:
    """The position of the scale to run at, and why."""
    if cheapest is None:
        return None, why_none(scales, reasons, bills)
    efficient = [at for at in frontier if scales.efficiency[at] >= needs.threshold]
    if not efficient or price.fixed_per_hour or needs.value_per_hour:
        rule = "the cheapest scale" + (" that passes every gate" if any(reasons) else "")
        if needs.value_per_hour:
            rule += ", waiting included"
        return cheapest, why_this_scale(scales, needs, reasons, cheapest, rule)
    chosen = efficient[-1]
    rule = f"the largest scale that keeps its efficiency at or above {needs.threshold:.2f}"
    rule += share_of_efficient_resamples(scales, needs, chosen)
    return chosen, why_this_scale(scales, needs, reasons, chosen, rule)


def _cause_beyond(scales: Candidates, chosen: int | None) -> CauseName | None:
    """The cause at the first scale that was not chosen, or at the largest."""
    beyond = scales.after(chosen)
    losses = scales.losses[-1 if beyond is None else beyond]
    return losses[0][0] if losses else None


def _marginal(scales: Candidates, cost: Floats, low: int, high: int) -> Marginal:
    gained = float(scales.speedup[high] - scales.speedup[low])
    extra = float(cost[high] - cost[low])
    if abs(extra) <= TIE * abs(float(cost[high])):
        extra = 0.0
    saved = float(scales.unit_seconds[low] - scales.unit_seconds[high])
    return Marginal(
        from_nodes=scales.nodes[low],
        to_nodes=scales.nodes[high],
        speedup=gained,
        cost=extra,
        speedup_per_dollar=gained / extra if extra > 0 else None,
        seconds_saved=saved,
        cost_per_hour_saved=extra / saved * SECONDS_PER_HOUR if saved > 0 else None,
    )


def _doublings(scales: Candidates, ladder: Sequence[int]) -> list[tuple[int, int]]:
    """Positions of K and 2K where both may be chosen; of a law only along 1, 2, 4..."""
    where = {scales.nodes[at]: at for at in ladder}
    pairs = [(at, where[2 * nodes]) for nodes, at in where.items() if 2 * nodes in where]
    if scales.measured:
        return pairs
    return [(low, high) for low, high in pairs if scales.nodes[low].bit_count() == 1]


def _price_of_speed(
    scales: Candidates, cost: Floats, cheapest: int | None, fastest: int | None
) -> PriceOfSpeed | None:
    if cheapest is None or fastest is None:
        return None
    least, most = float(cost[cheapest]), float(cost[fastest])
    return PriceOfSpeed(
        extra_cost=most - least,
        cost_ratio=most / least if least > 0 else None,
        speed_ratio=float(scales.speedup[fastest] / scales.speedup[cheapest]),
    )


def _indifferent(scales: Candidates, cost: Floats, ladder: Sequence[int]) -> tuple[int, ...]:
    least = min((cost[at] for at in ladder), default=0.0)
    return tuple(scales.nodes[at] for at in ladder if cost[at] <= least * (1 + _INDIFFERENT))


def _frontier(scales: Candidates, cost: Floats, ladder: Sequence[int]) -> list[int]:
    """Positions of scales that no other beats in speed and cost at once, ascending."""
    kept, best = [], 0.0
    # nine digits of the cost: closer is a tie, which the faster one wins
    for at in sorted(ladder, key=lambda at: (float(f"{cost[at]:.9g}"), -scales.speedup[at])):
        if scales.speedup[at] > best * (1 + TIE):
            kept.append(at)
            best = float(scales.speedup[at])
    return sorted(kept)


def _deployments(
    scales: Candidates,
    price: Price,
    bills: Bills,
    unit_cost: Floats,
    cheapest: int | None,
    fastest: int | None,
) -> tuple[Deployment, ...]:
    if cheapest is None or fastest is None:
        return ()
    run = "a run" if scales.regime == "strong" else "for the work of the first run"
    if cheapest == fastest:
        slower = dearer = "nothing: the cheapest scale is the fastest"
    else:
        ratio = float(scales.speedup[fastest] / scales.speedup[cheapest])
        saved = float(scales.unit_seconds[cheapest] - scales.unit_seconds[fastest])
        slower = f"{format_duration(saved)} {run}: the fastest is {ratio:.2f} times as fast"
        extra = float(unit_cost[fastest] - unit_cost[cheapest])
        dearer = f"{format_money(extra, price.currency)} {run}"
        if unit_cost[cheapest] > 0:
            dearer += f", {unit_cost[fastest] / unit_cost[cheapest]:.2f} times the cheapest"

    def deployment(kind: str, at: int, gives_up: str) -> Deployment:
        return Deployment(
            kind=kind,
            nodes=scales.nodes[at],
            cost=float(bills.billed[at]),
            seconds=float(scales.seconds[at]),
            gives_up=gives_up,
        )

    money = "dollars dominate" if price.currency == "$" else f"{price.currency} dominate"
    speed = "latency dominates" if scales.regime == "strong" else "throughput dominates"
    return deployment(money, cheapest, slower), deployment(speed, fastest, dearer)
