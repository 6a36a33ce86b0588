"""The joint verdict: seconds, speedup, efficiency, quality and cost of each scale, and the choice.

`decide` attributes the lost speedup first. The scale is chosen by the
one objective (`objective.py`); the cheapest, the balanced and the fastest are shown beside it, and
scales between which the runs do not decide are named.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from nodewise.base.errors import DataError
from nodewise.base.interval import Interval
from nodewise.base.stats import Floats
from nodewise.base.units import (
    SECONDS_PER_HOUR,
    format_duration,
    format_money,
    format_quantity,
    format_rate_cost,
)
from nodewise.decide.candidates import (
    Candidates,
    Needs,
    WorkUnit,
    candidates_of_law,
    candidates_of_study,
)
from nodewise.decide.choose import TIE, Choice, choice_at, frontier_of, not_beaten
from nodewise.decide.energy import Basis, Least, energy_check, least_scales
from nodewise.decide.gates import Gate, quality_states, why_refused
from nodewise.decide.inputs import Question
from nodewise.decide.objective import Judged, Objective, judge
from nodewise.decide.payment.spot import rate_check
from nodewise.decide.payment.ways import (
    OwnedOutlook,
    Paid,
    PaymentPrice,
    SpotOutlook,
    cheaper_nodes,
    on_demand,
    on_spot,
    owned_outlook,
    payments,
    spot_outlook,
)
from nodewise.decide.prices.bill import Bill, Bills, Price
from nodewise.decide.prices.records import PriceRecord, stated_check
from nodewise.decide.prices.records import checks as record_checks
from nodewise.decide.sentences import (
    claim,
    what_would_change,
    why_none,
    why_this_scale,
)
from nodewise.decide.uncertainty import (
    Flip,
    PriceOff,
    Regret,
    Swing,
    cost_bounds,
    flips,
    likely,
    prices_off,
    regret_of,
    repeats_to_decide,
    tornado,
)
from nodewise.decide.unmeasured import Unmeasured, better_unmeasured, grid_of
from nodewise.explain.attribute import attribute_timings
from nodewise.explain.causes import CauseName
from nodewise.explain.laws import Law
from nodewise.explain.predict.curve import FEWEST_SCALES, Curve, fit_curve
from nodewise.explain.quality import DriftState
from nodewise.explain.scaling import Timings, scale_timings, timings
from nodewise.study.check import Check, Validity
from nodewise.study.scale_unit import ScaleUnit
from nodewise.study.spec import Regime
from nodewise.study.study import Study

__all__ = ["Decision", "Needs", "decide", "decide_candidates", "decide_law"]

_BY_COST = ("lowest bill plus waiting", "cheapest within the deadline", "cheapest")
_INDIFFERENT = 0.01  # scales whose cost is within 1 % of the least are equally good


class DecisionRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The rubric of one scale. An excluded scale is shown and takes part in no ranking."""

    nodes: int
    seconds: float  # time of a run
    speedup: float  # over the smallest scale
    efficiency: float  # speedup over ideal speedup
    quality: float | None  # figure of merit
    quality_state: DriftState | None  # whether the quality stays within the tolerance
    quality_drift_low: float | None
    quality_drift_high: float | None
    cost: float  # of one run
    cost_low: float | None
    cost_high: float | None
    bill: Bill
    work: float | None  # units of work in a run
    relative_work: float  # relative to the smallest scale
    cost_with_waiting: float  # cost plus the value of waiting
    cost_multiplier: float  # node time relative to ideal scaling: 1 / efficiency
    cost_per_work: float | None
    work_per_dollar: float | None
    cost_per_million_tokens: float | None
    energy_joules: float | None  # of one run
    energy_low: float | None  # range of a model
    energy_high: float | None
    energy_per_work: float | None
    grams: float | None  # CO2e of one run
    grams_low: float | None
    grams_high: float | None
    grams_per_work: float | None
    excluded: bool  # true: a gate is not met
    excluded_because: str | None
    refused_by: Gate | None  # the first gate that is not met
    deadline_probability: float | None  # that a run meets the deadline
    probability_cheapest: float | None  # that this is the cheapest scale
    probability_right: float | None  # that this is the right choice under the objective
    expected_regret: float | None  # mean extra cost over the cheapest, over resamples and ranges
    regret_p95: float | None  # 95th percentile of the regret

    @property
    def work_per_second(self) -> float:
        """Units of work a second; 0 where the work is not known."""
        return (self.work or 0.0) / self.seconds


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the answer stayed as good at every scale as at the first."""

    state: DriftState  # the worst of any scale
    held: bool  # true: within the tolerance at every scale
    max_drift: float  # largest drift from the smallest scale
    low: float  # bounds of the largest drift
    high: float
    tolerance: float


class FailedScale(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """A scale at which every run failed, and how the first one did."""

    nodes: int
    outcome: str


class PriceOfSpeed(msgspec.Struct, frozen=True, kw_only=True):
    """The exchange rate between the cheapest and the fastest scale."""

    extra_cost: float  # fastest minus cheapest
    cost_ratio: float | None  # fastest over cheapest; null if the cheapest costs nothing
    speed_ratio: float  # time of the cheapest over that of the fastest


class Marginal(
    msgspec.Struct, frozen=True, kw_only=True, rename={"from_nodes": "from", "to_nodes": "to"}
):
    """One step to the next scale: speedup gained, money added, their ratio (null: money is saved).

    Money and seconds are for equal work: that of the first run.
    """

    from_nodes: int
    to_nodes: int
    speedup: float
    cost: float
    speedup_per_dollar: float | None
    seconds_saved: float
    cost_per_hour_saved: float | None


class Recommendation(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The scale to run at, why, and how sure it is that this is the right one."""

    nodes: int | None
    because: str  # the reason, as a sentence
    probability: float | None = None  # null: unknown from single runs
    undecided: tuple[int, ...] = ()  # scales that may be the right one; empty: decided
    repeat: tuple[int, ...] = ()  # scales whose further rounds would decide
    rounds_to_decide: int | None = None  # further rounds of these; null: decided, or more than 100
    cost_to_decide: float | None = None  # cost of these rounds


class Deployment(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The scale for one kind of use, and what it gives up against the other."""

    kind: str  # cheapest, balanced or fastest
    nodes: int
    cost: float
    seconds: float
    gives_up: str  # as a sentence


class EnergyBasis(msgspec.Struct, frozen=True, kw_only=True):
    """The basis of joules and grams; it is shown with every figure of them."""

    basis: Basis
    note: str  # source of the figures
    grid: str = ""  # the intensity, its place, year and source


class Decision(msgspec.Struct, frozen=True, kw_only=True, rename={"payments": "regimes"}):
    """The scale to run at, the payment, what each gives up, what would change it."""

    name: str  # of the study
    regime: Regime
    measured: bool  # false: all numbers come from a model
    validity: Validity  # of the measurement; if invalid, nothing is recommended
    price: Price
    records: tuple[PriceRecord, ...]  # prices as published
    unpriced: tuple[str, ...]  # items that no cost includes
    ranges: dict[str, Interval]  # inputs that were given as a range
    work_unit: str
    objective: Objective
    unit: ScaleUnit  # what K counts
    is_rate: bool  # true: only the throughput is known
    compared_for: WorkUnit  # the work that costs and times are compared for
    rows: tuple[DecisionRow, ...]  # one per scale
    failed: tuple[FailedScale, ...]  # scales at which every run failed
    fitted_base_seconds: float | None  # time implied for a base that was measured too slow
    quality: Quality | None  # null: no quality was reported
    energy: EnergyBasis
    cause: CauseName | None  # main cause of the loss at the next scale
    cheapest: Choice | None
    cheapest_low: int | None  # bounds of the cheapest K in 95 % of resamples
    cheapest_high: int | None
    balanced: Choice | None  # the fastest scale worth its cost
    fastest: Choice | None  # the fewest nodes that cannot be distinguished from the fastest
    greenest: Choice | None  # by grams, else by joules; null if neither is known
    least: tuple[Least, ...]  # the scale that needs the least of each known quantity
    least_regret: Choice | None  # null: nothing is uncertain
    price_of_speed: PriceOfSpeed | None
    marginal: tuple[Marginal, ...]  # each step to the next scale
    doublings: tuple[Marginal, ...]  # each step that doubles K
    first_unfavourable_doubling: tuple[int, int] | None  # the first doubling that raises the cost
    within_1_percent: tuple[int, ...]  # scales within 1 % of the lowest cost
    frontier: tuple[int, ...]  # Pareto-optimal in time and cost
    pareto: tuple[int, ...]  # Pareto-optimal in time, cost, energy and quality, as far as known
    recommended: Recommendation
    better: Unmeasured | None  # a scale to measure next, if the curve suggests one
    deployments: tuple[Deployment, ...]  # what the cheapest, balanced and fastest scale give up
    payments: tuple[PaymentPrice, ...]  # ways to pay
    spot: SpotOutlook | None
    ownership: OwnedOutlook | None
    cheaper_nodes: str  # how a lower price moves the cheapest K
    tornado: tuple[Swing, ...]  # the recommended K if one input changes
    flips: tuple[Flip, ...]  # values at which the recommendation changes
    sensitivity: tuple[PriceOff, ...]  # empty if ranges are given, or there is only one price
    would_change: tuple[str, ...]  # what would change the recommendation, as sentences
    claim: str | None  # the result in one sentence
    checks: tuple[Check, ...]  # of prices, rates, deadline and energy

    @property
    def has_ranges(self) -> bool:
        """Whether some price is known as a range only."""
        return bool(self.ranges)

    @property
    def is_clearly_fastest(self) -> bool:
        """Whether no scale has a shorter mean than the fastest one, not only within the noise."""
        if self.fastest is None:
            return True
        most = max(row.speedup for row in self.rows if not row.excluded)
        return self.row(self.fastest.nodes).speedup >= most * (1 - TIE)

    @property
    def fastest_words(self) -> str:
        """What the fastest scale is called."""
        return "fastest" if self.is_clearly_fastest else "fastest within noise"

    def flip(self, name: str) -> Flip:
        """The first flip of an input."""
        return next(one for one in self.flips if one.input == name)

    def row(self, nodes: int) -> DecisionRow:
        """The row of one scale."""
        return next(row for row in self.rows if row.nodes == nodes)

    def run_words(self, nodes: int) -> str:
        """What a run at a scale takes: time and cost, or throughput where only that is known."""
        row, currency = self.row(nodes), self.price.currency
        if self.is_rate and row.work and row.cost_per_work is not None:
            rate = format_quantity(row.work_per_second)
            cost = format_rate_cost(row.cost_per_work, self.work_unit, currency)
            return f"{rate} {self.work_unit}/s and {cost}"
        wall = format_duration(row.seconds + self.price.startup_seconds)
        unit = self.compared_for
        each = format_money(unit.amount(row.cost / row.relative_work), currency)
        per = f" ({each}{unit.label})" if unit.clause else ""
        return f"{wall} and {format_money(row.cost, currency)} a run{per}"


class Decided(NamedTuple):
    """A decision, and the scales it was made on."""

    decision: Decision
    judged: Judged
    curve: Curve | None  # through the measured scales; None: too few of them


def decide(study: Study, question: Question) -> Decision:
    """Price every measured scale, apply the gates, and recommend one; attributes first."""
    return decided(study, question).decision


def decided(study: Study, question: Question) -> Decided:
    """The decision on a study, with the scales it was made on."""
    times = timings(study, question.center)
    scaling = scale_timings(study, times, question.needs.threshold)
    attribution = attribute_timings(study, times, scaling)
    scales = candidates_of_study(study, times, attribution, question)
    return decide_candidates(scales, question, curve=curve_of(study, times))


def curve_of(study: Study, times: Timings) -> Curve | None:
    """The curve through the measured scales; nothing if they are too few."""
    if len(study.scales) < FEWEST_SCALES:
        return None
    return fit_curve(study, times.center, times)


def decide_law(law: Law, max_nodes: int, question: Question, noise: float = 0.0) -> Decision:
    """Price every K up to `max_nodes` as a law without data has it, and recommend one.

    `noise` is the relative spread of a run; with it a deadline is kept with the confidence asked.
    """

    def candidates(law: Law) -> Candidates:
        return candidates_of_law(law, max_nodes, question, noise)

    return decide_candidates(candidates(law), question, law, candidates).decision


def decide_candidates(
    scales: Candidates,
    question: Question,
    law: Law | None = None,
    of_law: Callable[[Law], Candidates] | None = None,
    curve: Curve | None = None,
) -> Decided:
    """Price scales, measured or of a law, apply the gates, and recommend one.

    With the `curve` through measured scales, those between and beyond them are looked at too.
    """
    question = msgspec.structs.replace(question, price=scales.price)
    price, needs, payment = question.price, question.needs, question.payment
    measured, hired = scales, on_demand(scales, price, needs, payment)
    if hired.scales.never_ends and all(hired.scales.never_ends):
        raise DataError(
            f"No run ever ends: at K={scales.nodes[0]} {hired.scales.never_ends[0]}.",
            "Save or restart in less time, or check --mtbf.",
        )
    judged = judge(hired.scales, hired.bills, question)
    scales, bills = judged.scales, judged.bills
    unit_bill, eligible = judged.unit_bill, judged.eligible
    cheapest, fastest = judged.cheapest, judged.fastest
    regret = regret_of(judged, question, scales.noise)
    recommended, chosen = _recommend(judged, question, regret)
    doublings = _doublings(scales, eligible)
    has_money = price.is_money
    spot = on_spot(scales, price, needs, payment) if has_money else None
    paid = payments(hired, spot, price, needs, payment)
    if spot is not None and payment.asks_spot:
        paid = _with_spot_choice(paid, spot, judged, question)
    least = _least(scales, unit_bill, eligible)
    better = None
    decidable = recommended.undecided and recommended.rounds_to_decide is not None
    if curve is not None and not decidable:  # repeats come first
        grid = grid_of(curve, question, scales)
        better = better_unmeasured(curve, judged, question, chosen, grid)
    swings = tornado(scales, question, law, of_law) if has_money else ()
    decision = Decision(
        name=scales.name,
        regime=scales.regime,
        measured=scales.measured,
        validity=scales.validity,
        price=price,
        records=question.records,
        unpriced=price.unpriced if has_money else (),
        ranges=question.ranges,
        work_unit=question.work_unit,
        objective=judged.objective,
        unit=scales.unit,
        is_rate=scales.is_rate,
        compared_for=scales.compared_for,
        rows=_rows(judged, question, regret),
        failed=tuple(FailedScale(nodes=nodes, outcome=how) for nodes, how in scales.broken),
        fitted_base_seconds=scales.fitted_base_seconds,
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
        balanced=choice_at(scales, bills, judged.balanced),
        fastest=choice_at(scales, bills, fastest),
        greenest=_greenest(scales, bills, least),
        least=least,
        least_regret=choice_at(scales, bills, regret.least) if regret else None,
        price_of_speed=_price_of_speed(scales, unit_bill, cheapest, fastest),
        marginal=tuple(_marginal(scales, unit_bill, *pair) for pair in pairwise(eligible)),
        doublings=tuple(_marginal(scales, unit_bill, *pair) for pair in doublings),
        first_unfavourable_doubling=_first_unfavourable(scales, unit_bill, doublings),
        within_1_percent=_indifferent(scales, unit_bill, eligible),
        frontier=tuple(scales.nodes[at] for at in frontier_of(scales, unit_bill, eligible)),
        pareto=_pareto(scales, needs, unit_bill, eligible),
        recommended=recommended,
        better=better,
        deployments=_deployments(judged),
        payments=paid,
        spot=spot_outlook(scales, spot, price, needs, payment),
        ownership=owned_outlook(scales, price, payment),
        cheaper_nodes=cheaper_nodes(price, needs, paid),
        tornado=swings if question.ranges or any(one.moves for one in swings) else (),
        flips=flips(scales, question) if chosen is not None else (),
        sensitivity=prices_off(scales, bills, judged.allowed, chosen)
        if has_money and chosen is not None and not question.ranges
        else (),
        would_change=what_would_change(judged, question, chosen),
        claim=claim(
            msgspec.structs.replace(judged, scales=measured),
            needs,
            chosen,
            nodes_fail=scales.undisturbed is not None,
        )
        if scales.measured and chosen is not None
        else None,
        checks=(*scales.checks, *_checks(question, scales)),
    )
    return Decided(decision, judged, curve)


def _with_spot_choice(
    paid: Sequence[PaymentPrice], spot: Paid, judged: Judged, question: Question
) -> tuple[PaymentPrice, ...]:
    """The ways to pay; the spot row that was asked for gets the scale of the objective."""
    on_it = judge(spot.scales, spot.bills, question, judged.objective)
    choice = choice_at(on_it.scales, on_it.bills, on_it.chosen)
    return tuple(msgspec.structs.replace(one, chosen=choice) if one.asked else one for one in paid)


def _first_unfavourable(
    scales: Candidates, unit_bill: Floats, doublings: Sequence[tuple[int, int]]
) -> tuple[int, int] | None:
    """The first doubling of K that raises the cost."""
    for low, high in doublings:
        if unit_bill[high] > unit_bill[low] * (1 + TIE):
            return scales.nodes[low], scales.nodes[high]
    return None


def _checks(question: Question, scales: Candidates) -> tuple[Check, ...]:
    """Whether the prices and rates can be true, and how the energy is known."""
    found: list[Check] = []
    if question.records:
        found += record_checks(question.records, question.asked_on)
    elif question.price.is_money:
        found.append(stated_check(question.price, question.asked_on))
    if question.payment.preemptions is not None:
        found.append(rate_check(question.payment.preemptions))
    if scales.energy.was_sought:
        found.append(energy_check(scales.energy))
    return tuple(found)


def _least(scales: Candidates, cost: Floats, eligible: Sequence[int]) -> tuple[Least, ...]:
    """The scale that needs the least money, time, energy and carbon, for equal work."""
    allowed = [False] * len(scales.nodes)
    for at in eligible:
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
    scales: Candidates, needs: Needs, cost: Floats, eligible: Sequence[int]
) -> tuple[int, ...]:
    """Scales that no other beats in one of time, cost, energy and quality for nothing."""
    if not eligible:
        return ()
    quantities = [scales.unit_seconds, cost]
    if scales.energy.joules is not None:
        quantities.append(scales.energy.joules / scales.relative_work)
    if scales.quality is not None and needs.quality_better != "same":
        quantities.append(-scales.quality if needs.quality_better == "higher" else scales.quality)
    return tuple(scales.nodes[at] for at in not_beaten(quantities, eligible))


def _quality(scales: Candidates, needs: Needs) -> Quality | None:
    states = quality_states(scales, needs)
    if states is None or scales.drifts is None:
        return None
    worst = min(states, key=("excluded", "undecided", "held").index)
    of_worst = [one for one, state in zip(scales.drifts, states, strict=True) if state == worst]
    largest = max(of_worst, key=lambda drift: abs(drift.value))
    return Quality(
        state=worst,
        held=worst == "held",
        max_drift=abs(largest.value),
        low=largest.low,
        high=largest.high,
        tolerance=needs.quality_tolerance,
    )


def _rows(judged: Judged, question: Question, regret: Regret | None) -> tuple[DecisionRow, ...]:
    scales, bills, refused = judged.scales, judged.bills, judged.refused
    bounds = cost_bounds(scales, question)
    states = quality_states(scales, question.needs)
    energy, carbon = scales.energy, scales.carbon

    def at_scale(values: Floats | None, at: int) -> float | None:
        return None if values is None or np.isnan(values[at]) else float(values[at])

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
                quality_state=states[at] if states else None,
                quality_drift_low=scales.drifts[at].low if scales.drifts else None,
                quality_drift_high=scales.drifts[at].high if scales.drifts else None,
                cost=cost,
                cost_low=at_scale(bounds[0], at) if bounds else None,
                cost_high=at_scale(bounds[1], at) if bounds else None,
                bill=bills.at(at),
                work=work,
                relative_work=float(scales.relative_work[at]),
                cost_with_waiting=float(bills.total[at]),
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
                probability_right=float(regret.share_right[at]) if regret else None,
                expected_regret=float(ranked.expected[at]) if ranked else None,
                regret_p95=float(ranked.p95[at]) if ranked else None,
            )
        )
    return tuple(rows)


def _recommend(
    judged: Judged, question: Question, regret: Regret | None
) -> tuple[Recommendation, int | None]:
    """The scale to run at, why, and how sure that is; and its position."""
    scales, chosen = judged.scales, judged.chosen
    if chosen is None:
        because = why_none(scales, judged.refused, judged.bills)
        return Recommendation(nodes=None, because=because), None
    if regret and question.ranges and judged.objective.name in _BY_COST:
        chosen = regret.least
    because = why_this_scale(judged, question, chosen)
    if regret is None:
        return Recommendation(nodes=scales.nodes[chosen], because=because), chosen
    probability = None if scales.noise is None else float(regret.share_right[chosen])
    among = likely(regret.share_right, chosen)
    may_decide = len(among) > 1 and not question.ranges
    repeats = repeats_to_decide(judged, question, among) if may_decide else None
    recommended = Recommendation(
        nodes=scales.nodes[chosen],
        because=because,
        probability=probability,
        undecided=tuple(scales.nodes[at] for at in among) if len(among) > 1 else (),
        repeat=tuple(scales.nodes[at] for at in repeats.where) if repeats else (),
        rounds_to_decide=repeats.rounds if repeats else None,
        cost_to_decide=repeats.cost if repeats else None,
    )
    return recommended, chosen


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


def _doublings(scales: Candidates, eligible: Sequence[int]) -> list[tuple[int, int]]:
    """Positions of K and 2K where both may be chosen; of a law only along 1, 2, 4..."""
    where = {scales.nodes[at]: at for at in eligible}
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
        speed_ratio=_times_as_fast(scales, fastest, cheapest),
    )


def _indifferent(scales: Candidates, cost: Floats, eligible: Sequence[int]) -> tuple[int, ...]:
    least = min((cost[at] for at in eligible), default=0.0)
    return tuple(scales.nodes[at] for at in eligible if cost[at] <= least * (1 + _INDIFFERENT))


def _deployments(judged: Judged) -> tuple[Deployment, ...]:
    """The cheapest, the balanced and the fastest scale, and what the outer two give up."""
    scales, bills = judged.scales, judged.bills
    cheapest, balanced, fastest = judged.cheapest, judged.balanced, judged.fastest
    if cheapest is None or balanced is None or fastest is None:
        return ()

    def deployment(kind: str, at: int, gives_up: str) -> Deployment:
        return Deployment(
            kind=kind,
            nodes=scales.nodes[at],
            cost=float(bills.billed[at]),
            seconds=float(scales.seconds[at]),
            gives_up=gives_up,
        )

    if cheapest == fastest:
        nothing = "nothing: no scale is clearly faster than the cheapest"
        if judged.is_clearly_fastest:
            nothing = "nothing: the cheapest scale is the fastest"
        return deployment("cheapest", cheapest, nothing), deployment("fastest", fastest, nothing)
    slower, dearer = _slower(judged, cheapest, fastest), _dearer(judged, fastest, cheapest)
    rows = [deployment("cheapest", cheapest, slower)]
    if balanced not in (cheapest, fastest):
        both = f"{_dearer(judged, balanced, cheapest)}; {_slower(judged, balanced, fastest)}"
        rows.append(deployment("balanced", balanced, both))
    return (*rows, deployment("fastest", fastest, dearer))


def _times_as_fast(scales: Candidates, one: int, other: int) -> float:
    """How many times as fast one scale is as another, from the launch."""
    launched = (scales.seconds + scales.price.startup_seconds) / scales.relative_work
    return float(launched[other] / launched[one])


def _slower(judged: Judged, at: int, fastest: int) -> str:
    """What a scale gives up in speed."""
    scales = judged.scales
    unit, ratio = scales.compared_for, _times_as_fast(scales, fastest, at)
    lost = unit.amount(float(scales.unit_seconds[at] - scales.unit_seconds[fastest]))
    return f"{format_duration(lost)} {unit.words}: the fastest is {ratio:.2f} times as fast"


def _dearer(judged: Judged, at: int, cheapest: int) -> str:
    """What a scale gives up in cost."""
    unit, currency = judged.scales.compared_for, judged.scales.price.currency
    least, bill = float(judged.unit_bill[cheapest]), float(judged.unit_bill[at])
    times = f", {bill / least:.2f} times the cheapest" if least > 0 else ""
    return f"{format_money(unit.amount(bill - least), currency)} {unit.words}{times}"
