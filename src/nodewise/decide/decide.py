"""The joint verdict: seconds, speedup, efficiency, quality and cost of each scale, and the choice.

A decision never runs ahead of a named cause: `decide` attributes first. Where an hour has a price
(an overhead, a value of waiting), the cheapest scale that passes the gates is chosen; where it has
none, one node is nearly always the cheapest, so the largest scale that keeps its efficiency is
chosen instead, and both are shown.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from nodewise.base.interval import Interval
from nodewise.base.stats import Floats
from nodewise.base.units import SECONDS_PER_HOUR, format_duration, format_money
from nodewise.decide.candidates import Candidates, Needs, candidates_of_law, candidates_of_study
from nodewise.decide.choose import (
    TIE,
    Choice,
    cheapest_of,
    choice_at,
    fastest_of,
    frontier_of,
    not_beaten,
)
from nodewise.decide.energy import Basis, Least, energy_check, least_scales
from nodewise.decide.gates import Gate, Refusal, excess_quality_drift, refusals
from nodewise.decide.inputs import Question
from nodewise.decide.payment.spot import rate_check
from nodewise.decide.payment.ways import (
    OwnedOutlook,
    PaymentPrice,
    SpotOutlook,
    cheaper_nodes,
    on_demand,
    on_spot,
    owned_outlook,
    payments,
    spot_outlook,
)
from nodewise.decide.prices.bill import NODE_HOURS, Bill, Bills, Price
from nodewise.decide.prices.records import PriceRecord, stated_check
from nodewise.decide.prices.records import checks as record_checks
from nodewise.decide.sentences import (
    claim,
    share_of_efficient_resamples,
    what_would_change,
    why_none,
    why_refused,
    why_this_scale,
)
from nodewise.decide.uncertainty import (
    Flip,
    PriceOff,
    Regret,
    Swing,
    cost_bounds,
    flips,
    prices_off,
    regret_of,
    tornado,
)
from nodewise.explain.attribute import attribute_timings
from nodewise.explain.causes import CauseName
from nodewise.explain.laws import Law
from nodewise.explain.scaling import scale_timings, timings
from nodewise.study.check import Check
from nodewise.study.spec import Regime
from nodewise.study.study import Study

__all__ = ["Decision", "Needs", "decide", "decide_candidates", "decide_law"]

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
    work: float | None
    relative_work: float  # over that of the first scale
    cost_multiplier: float  # node time over that of ideal scaling: 1 / efficiency
    cost_per_work: float | None
    work_per_dollar: float | None
    cost_per_million_tokens: float | None
    energy_joules: float | None
    energy_low: float | None  # the range of a model
    energy_high: float | None
    energy_per_work: float | None
    grams: float | None  # of CO2e
    grams_low: float | None
    grams_high: float | None
    grams_per_work: float | None
    excluded: bool
    excluded_because: str | None
    refused_by: Gate | None  # the first gate that it does not pass
    deadline_probability: float | None
    probability_cheapest: float | None
    expected_regret: float | None  # mean extra cost over the cheapest, over resamples and ranges
    regret_p95: float | None


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


class EnergyBasis(msgspec.Struct, frozen=True, kw_only=True):
    """How joules and grams are known; no figure of them is shown without it."""

    basis: Basis
    note: str
    grid: str = ""  # the intensity, its place, year and source


class Decision(msgspec.Struct, frozen=True, kw_only=True, rename={"payments": "regimes"}):
    """The scale to run at, the payment, what each gives up, what would change it."""

    name: str
    regime: Regime
    measured: bool  # false: every number comes from a model
    price: Price
    records: tuple[PriceRecord, ...]  # the prices as they were published
    unpriced: tuple[str, ...]  # what no cost here holds
    ranges: dict[str, Interval]  # of the inputs that are not known better
    work_unit: str
    rows: tuple[DecisionRow, ...]
    quality: Quality | None
    energy: EnergyBasis
    cause: CauseName | None
    cheapest: Choice | None
    cheapest_low: int | None  # the cheapest K of 95 % of resamples lies between these
    cheapest_high: int | None
    fastest: Choice | None
    greenest: Choice | None  # by grams, else by joules; null where neither is known
    least: tuple[Least, ...]  # the scale that needs the least of each quantity that is known
    least_regret: Choice | None  # over resamples and ranges
    price_of_speed: PriceOfSpeed | None
    marginal: tuple[Marginal, ...]
    doublings: tuple[Marginal, ...]
    first_unfavourable_doubling: tuple[int, int] | None
    within_1_percent: tuple[int, ...]
    frontier: tuple[int, ...]  # not beaten in time and cost
    pareto: tuple[int, ...]  # not beaten in time, cost, energy and quality, as far as known
    recommended: Recommendation
    deployments: tuple[Deployment, ...]
    payments: tuple[PaymentPrice, ...]
    spot: SpotOutlook | None
    ownership: OwnedOutlook | None
    cheaper_nodes: str
    tornado: tuple[Swing, ...]
    flips: tuple[Flip, ...]
    sensitivity: tuple[PriceOff, ...]  # empty where ranges say more, or one price is all there is
    would_change: tuple[str, ...]
    claim: str | None
    checks: tuple[Check, ...]  # of the prices, the rates, the deadline and the energy

    @property
    def has_ranges(self) -> bool:
        """Whether some price is known as a range only."""
        return bool(self.ranges)

    def flip(self, name: str) -> Flip:
        """The first flip of an input."""
        return next(one for one in self.flips if one.input == name)

    def row(self, nodes: int) -> DecisionRow:
        """The row of one scale."""
        return next(row for row in self.rows if row.nodes == nodes)


def decide(study: Study, question: Question) -> Decision:
    """Price every measured scale, apply the gates, and recommend one; attributes first."""
    times = timings(study, question.center)
    scaling = scale_timings(study, times, question.needs.threshold)
    attribution = attribute_timings(study, times, scaling)
    return decide_candidates(candidates_of_study(study, times, attribution, question), question)


def decide_law(law: Law, max_nodes: int, question: Question, noise: float = 0.0) -> Decision:
    """Price every K up to `max_nodes` as a law without data has it, and recommend one.

    `noise` is the relative spread of a run; with it a deadline is kept with the confidence asked.
    """

    def candidates(law: Law) -> Candidates:
        return candidates_of_law(law, max_nodes, question, noise)

    return decide_candidates(candidates(law), question, law, candidates)


def decide_candidates(
    scales: Candidates,
    question: Question,
    law: Law | None = None,
    of_law: Callable[[Law], Candidates] | None = None,
) -> Decision:
    """Price scales, measured or of a law, apply the gates, and recommend one."""
    question = msgspec.structs.replace(question, price=scales.price)
    price, needs, payment = question.price, question.needs, question.payment
    hired = on_demand(scales, price, needs, payment)
    measured, scales, bills = scales, hired.scales, hired.bills
    refused = refusals(scales, price, needs, bills)
    allowed = np.array([refusal is None for refusal in refused])
    # A run that grows with K does more work for its money, so scales are compared by equal work.
    # They are ranked by the bill and the worth of waiting for it; what is shown is the bill.
    unit_cost, unit_bill = bills.total / scales.relative_work, bills.billed / scales.relative_work
    ladder = np.flatnonzero(allowed).tolist()
    cheapest, fastest = (
        cheapest_of(scales, unit_cost, ladder),
        fastest_of(scales, unit_cost, ladder),
    )
    frontier = frontier_of(scales, unit_cost, ladder)
    regret = regret_of(scales, question, allowed)
    best = regret.least if regret and question.ranges else cheapest
    chosen, because = _recommend(scales, question, bills, refused, best, frontier)
    doublings = _doublings(scales, ladder)
    unfavourable = [
        (scales.nodes[low], scales.nodes[high])
        for low, high in doublings
        if unit_cost[high] > unit_cost[low] * (1 + TIE)
    ]
    has_money = price.currency != NODE_HOURS
    spot = on_spot(scales, price, needs, payment) if has_money else None
    paid = payments(hired, spot, price, needs, payment)
    least = _least(scales, unit_bill, ladder)
    off = has_money and chosen is not None and not question.ranges
    return Decision(
        name=scales.name,
        regime=scales.regime,
        measured=scales.measured,
        price=price,
        records=question.records,
        unpriced=price.unpriced if has_money else (),
        ranges=question.ranges,
        work_unit=question.work_unit,
        rows=_rows(scales, question, bills, refused, regret),
        quality=_quality(scales, needs),
        energy=EnergyBasis(
            basis=scales.energy.basis,
            note=scales.energy.note,
            grid=scales.carbon.grid.label if scales.carbon.grid else "",
        ),
        cause=_cause_beyond(scales, chosen),
        cheapest=choice_at(scales, bills, cheapest),
        cheapest_low=regret.between[0] if regret else None,
        cheapest_high=regret.between[1] if regret else None,
        fastest=choice_at(scales, bills, fastest),
        greenest=_greenest(scales, bills, least),
        least=least,
        least_regret=choice_at(scales, bills, regret.least) if regret else None,
        price_of_speed=_price_of_speed(scales, unit_bill, cheapest, fastest),
        marginal=tuple(_marginal(scales, unit_bill, *pair) for pair in pairwise(ladder)),
        doublings=tuple(_marginal(scales, unit_bill, *pair) for pair in doublings),
        first_unfavourable_doubling=unfavourable[0] if unfavourable else None,
        within_1_percent=_indifferent(scales, unit_cost, ladder),
        frontier=tuple(scales.nodes[at] for at in frontier),
        pareto=_pareto(scales, needs, unit_cost, ladder),
        recommended=Recommendation(
            nodes=None if chosen is None else scales.nodes[chosen], because=because
        ),
        deployments=_deployments(scales, price, bills, unit_bill, cheapest, fastest),
        payments=paid,
        spot=spot_outlook(scales, spot, price, needs, payment),
        ownership=owned_outlook(scales, price, payment),
        cheaper_nodes=cheaper_nodes(price, needs, paid),
        tornado=tornado(scales, question, law, of_law)
        if _hour_has_a_price(question) or question.ranges
        else (),
        flips=_flips(scales, question, frontier, cheapest, chosen),
        sensitivity=prices_off(scales, bills, allowed, chosen)
        if off and chosen is not None
        else (),
        would_change=what_would_change(scales, price, needs, bills, refused, chosen, fastest),
        claim=claim(measured, price, bills.billed, refused, chosen)
        if scales.measured and chosen is not None
        else None,
        checks=(*scales.checks, *_checks(question, scales)),
    )


def _hour_has_a_price(question: Question) -> bool:
    return question.price.prices_the_hour or question.needs.value_per_hour > 0


def _checks(question: Question, scales: Candidates) -> tuple[Check, ...]:
    """Whether the prices and rates can be true, and how the energy is known."""
    found: list[Check] = []
    if question.records:
        found += record_checks(question.records, question.asked_on)
    elif question.price.currency != NODE_HOURS:
        found.append(stated_check(question.price, question.asked_on))
    if question.payment.preemptions is not None:
        found.append(rate_check(question.payment.preemptions))
    if scales.energy.was_sought:
        found.append(energy_check(scales.energy))
    return tuple(found)


def _least(scales: Candidates, cost: Floats, ladder: Sequence[int]) -> tuple[Least, ...]:
    """The scale that needs the least money, time, energy and carbon, for equal work."""
    allowed = [False] * len(scales.nodes)
    for at in ladder:
        allowed[at] = True

    def each(values: Floats | None) -> Floats | None:
        return None if values is None else values / scales.relative_work

    quantities = {
        "cost": cost,
        "seconds": scales.unit_seconds,
        "joules": each(scales.energy.joules),
        "grams": each(scales.carbon.grams),
    }
    return least_scales(np.array(scales.nodes, dtype=np.float64), quantities, allowed)


def _greenest(scales: Candidates, bills: Bills, least: Sequence[Least]) -> Choice | None:
    green = [one.nodes for one in least if one.of in ("joules", "grams")]
    return choice_at(scales, bills, scales.nodes.index(green[-1])) if green else None


def _pareto(
    scales: Candidates, needs: Needs, cost: Floats, ladder: Sequence[int]
) -> tuple[int, ...]:
    """Scales that no other beats in one of time, cost, energy and quality for nothing."""
    if not ladder:
        return ()
    quantities = [scales.unit_seconds, cost]
    if scales.energy.joules is not None:
        quantities.append(scales.energy.joules / scales.relative_work)
    if scales.quality is not None and needs.quality_better != "same":
        quantities.append(-scales.quality if needs.quality_better == "higher" else scales.quality)
    return tuple(scales.nodes[at] for at in not_beaten(quantities, ladder))


def _flips(
    scales: Candidates,
    question: Question,
    frontier: Sequence[int],
    cheapest: int | None,
    chosen: int | None,
) -> tuple[Flip, ...]:
    """What moves the recommendation: prices where an hour has one, else the threshold."""
    if chosen is None or cheapest is None:
        return ()
    if _hour_has_a_price(question):
        return flips(scales, question)
    now, efficiency = question.needs.threshold, scales.efficiency
    if efficiency[chosen] < now:
        return ()
    smaller = [at for at in frontier if efficiency[at] > efficiency[chosen]]
    larger = [at for at in frontier if at > chosen]
    found = []
    if chosen != (smaller or [cheapest])[-1]:
        found.append(("above", float(efficiency[chosen]), (smaller or [cheapest])[-1]))
    if larger:
        next_one = max(larger, key=lambda at: efficiency[at])
        found.append(("below", float(efficiency[next_one]), next_one))
    return tuple(
        Flip(input="threshold", now=now, value=value, side=side, nodes=scales.nodes[at])
        for side, value, at in found
    )


def _quality(scales: Candidates, needs: Needs) -> Quality | None:
    if scales.quality is None:
        return None
    return Quality(
        held=all(
            excess_quality_drift(scales, needs, at) is None for at in range(len(scales.nodes))
        ),
        max_drift=float(np.max(np.abs(scales.quality - scales.quality[0]))),
        tolerance=needs.quality_tolerance,
    )


def _rows(
    scales: Candidates,
    question: Question,
    bills: Bills,
    refused: Sequence[Refusal | None],
    regret: Regret | None,
) -> tuple[DecisionRow, ...]:
    bounds = cost_bounds(scales, question)
    energy, carbon = scales.energy, scales.carbon

    def at_scale(values: Floats | None, at: int) -> float | None:
        return None if values is None else float(values[at])

    def each(values: Floats | None, work: float | None, at: int) -> float | None:
        return None if values is None or not work else float(values[at]) / work

    rows = []
    for at, nodes in enumerate(scales.nodes):
        cost = float(bills.billed[at])
        work = at_scale(scales.work, at)
        per_work = cost / work if work else None
        tokens = question.work_unit.startswith("token")
        refusal = refused[at]
        if refusal is not None and refusal.gate == "failures":
            continue  # a run that never ends has neither a time nor a bill
        ranked = regret if refusal is None else None
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
                work=work,
                relative_work=float(scales.relative_work[at]),
                cost_multiplier=1 / float(scales.efficiency[at]),
                cost_per_work=per_work,
                work_per_dollar=work / cost if work and cost > 0 else None,
                cost_per_million_tokens=1e6 * per_work if tokens and per_work else None,
                energy_joules=at_scale(energy.joules, at),
                energy_low=at_scale(energy.low, at),
                energy_high=at_scale(energy.high, at),
                energy_per_work=each(energy.joules, work, at),
                grams=at_scale(carbon.grams, at),
                grams_low=at_scale(carbon.low, at),
                grams_high=at_scale(carbon.high, at),
                grams_per_work=each(carbon.grams, work, at),
                excluded=refusal is not None,
                excluded_because=None if refusal is None else why_refused(refusal),
                refused_by=None if refusal is None else refusal.gate,
                deadline_probability=at_scale(scales.in_time, at),
                probability_cheapest=float(regret.share_cheapest[at]) if regret else None,
                expected_regret=float(ranked.expected[at]) if ranked else None,
                regret_p95=float(ranked.p95[at]) if ranked else None,
            )
        )
    return tuple(rows)


def _recommend(
    scales: Candidates,
    question: Question,
    bills: Bills,
    refused: Sequence[Refusal | None],
    best: int | None,
    frontier: Sequence[int],
) -> tuple[int | None, str]:
    """The position of the scale to run at, and why; `best` is the one to take for its cost."""
    needs = question.needs
    if best is None:
        return None, why_none(scales, refused, bills)
    efficient = [at for at in frontier if scales.efficiency[at] >= needs.threshold]
    if not efficient or _hour_has_a_price(question):
        rule = "the least expected regret" if question.ranges else "the cheapest scale"
        rule += " that passes every gate" if any(refused) else ""
        if question.ranges:
            rule += " over the ranges given"
        if needs.value_per_hour:
            rule += ", waiting included"
        return best, why_this_scale(scales, needs, refused, best, rule)
    chosen = efficient[-1]
    rule = f"the largest scale that keeps its efficiency at or above {needs.threshold:.2f}"
    rule += share_of_efficient_resamples(scales, needs, chosen)
    return chosen, why_this_scale(scales, needs, refused, chosen, rule)


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
