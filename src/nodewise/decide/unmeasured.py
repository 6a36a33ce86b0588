"""Scales without a run, as the curve through the measured ones predicts them."""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from nodewise.base.stats import Floats, normal_share_below
from nodewise.decide.candidates import Candidates, left_seconds, price_or_hours
from nodewise.decide.counting import billed_units, scale_unit_of
from nodewise.decide.energy import Energy
from nodewise.decide.inputs import Question
from nodewise.decide.objective import Judged, Objective, judge, picks
from nodewise.decide.payment.ways import on_demand
from nodewise.decide.prices.bill import Bills
from nodewise.explain.predict.curve import Curve
from nodewise.explain.quality import Drift
from nodewise.study.scale_unit import ScaleUnit

DRAWS = 600
_MIN_SAVING = 0.02  # of the cost: less is within what a prediction strays
_MIN_GAIN = 0.05  # of the time
_LIKELY = 0.6


class Unmeasured(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """An unmeasured scale that is likely better than the recommended one."""

    nodes: int
    seconds: float
    low80: float
    high80: float
    cost: float
    relative_work: float  # of its run, over that of the first measured one
    saving: float | None  # for equal work; null if it buys speed, or nothing else passes
    seconds_saved: float | None  # for equal work
    probability: float  # that it is better
    because: str


def grid_of(
    curve: Curve, question: Question, measured: Candidates | None, largest: int | None = None
) -> list[int]:
    """The scales that a choice is made from: measured ones, and steps of a quarter octave.

    None below the least that can run or above the largest there is, and none at which every run
    failed.
    """
    begin = question.needs.least_scale or curve.nodes[0]
    end = min(curve.horizon, largest or curve.horizon)
    if end < begin:
        return []
    steps = round(4 * math.log2(end / begin)) + 1
    tried = {round(float(k)) for k in np.geomspace(begin, end, max(steps, 1))}
    if measured is not None and measured.unit.per_node and not measured.unit.counts_nodes:
        # a node is paid whole, so all of it is used
        size = measured.unit.per_node
        tried = {k if k < size else min(math.ceil(k / size) * size, end) for k in tried}
    broken = {k for k, _ in measured.broken} if measured else set()
    return sorted((tried - broken) | {k for k in curve.nodes if begin <= k <= end})


def plausible_times(curve: Curve, nodes: Sequence[int], count: int = DRAWS) -> Floats:
    """Draws within their 95 %: one curve in a hundred is so odd that it would rule every mean."""
    seconds = curve.draws(nodes, count)
    low, high = np.nanquantile(seconds, [0.025, 0.975], axis=0)
    return np.clip(seconds, low, high)


def candidates_of_curve(
    curve: Curve, nodes: Sequence[int], question: Question, measured: Candidates | None = None
) -> Candidates:
    """Scales as the curve has them; `measured` holds prices by scale, and what is known of runs."""
    unit = scale_unit_of(ScaleUnit(), question) if measured is None else measured.unit
    price = price_or_hours(question.price, question.needs, unit) if measured is None else (
        measured.price
    )  # fmt: skip
    points = curve.points(nodes)
    known = [at for at, point in enumerate(points) if point is not None]
    nodes = [nodes[at] for at in known]
    count = np.array(nodes, dtype=np.float64)
    seconds = np.array([point.seconds for point in points if point is not None])
    base = curve.at(curve.nodes[0])
    assert base is not None
    k = count / curve.nodes[0]
    grown = k if curve.regime == "weak" else np.ones_like(k)
    work = grown if measured is None else grown * _work_share(curve, count, measured)
    rate = (price.per_node_hour or 1.0) * billed_units(unit, price.per, count)
    if measured is not None:
        rate = measured.rates_at(count)
    whole = unit.nodes(count)
    energy = _energy_of_runs(nodes, measured)
    if energy is None:
        energy = question.site.energy(seconds, whole, price.startup_seconds)
    left = left_seconds(question)
    return Candidates(
        name="curve",
        regime=curve.regime,
        measured=False,
        price=price,
        checks=(),
        nodes=tuple(nodes),
        seconds=seconds,
        speedup=grown * base.seconds / seconds,
        efficiency=base.seconds / seconds * grown / k,
        rate_per_hour=rate,
        relative_work=work,
        losses=((),) * len(nodes),
        energy=energy,
        carbon=question.site.carbon(energy, seconds, whole, price.startup_seconds),
        unit=unit,
        fitted_base_seconds=_fitted_base(nodes, measured),
        drifts=_drifts(nodes, question, measured),
        in_time=_in_time(curve, nodes, question, measured),
        spread=None if left is None else plausible_times(curve, nodes) / seconds,
        left_seconds=left,
    )


def _fitted_base(nodes: Sequence[int], measured: Candidates | None) -> float | None:
    """The fitted time of the first measured scale, where these scales begin with it too."""
    if measured is None or not nodes or nodes[0] != measured.nodes[0]:
        return None
    return measured.fitted_base_seconds


def _work_share(curve: Curve, nodes: Floats, measured: Candidates) -> Floats:
    """The work of a run over that of its regime: runs of one job may differ a little."""
    own = np.array(measured.nodes, dtype=np.float64)
    grown = own / own[0] if curve.regime == "weak" else np.ones_like(own)
    return np.interp(np.log(nodes), np.log(own), measured.relative_work / grown)


def _energy_of_runs(nodes: Sequence[int], measured: Candidates | None) -> Energy | None:
    """Joules where runs recorded them; unknown (nan) at scales without a run."""
    if measured is None or measured.energy.basis not in ("measured", "imported"):
        return None
    assert measured.energy.joules is not None
    known = dict(zip(measured.nodes, measured.energy.joules.tolist(), strict=True))
    joules = np.array([known.get(count, math.nan) for count in nodes])
    return msgspec.structs.replace(measured.energy, joules=joules)


def _drifts(
    nodes: Sequence[int], question: Question, measured: Candidates | None
) -> tuple[Drift, ...] | None:
    """The drift of quality at each scale: its own, else one between those of its neighbours.

    Where a measured scale is excluded, so is what lies above. Beyond the largest, its drift holds.
    """
    if measured is None or measured.drifts is None:
        return None
    own = dict(zip(measured.nodes, measured.drifts, strict=True))
    limits = question.needs.quality_tolerance, question.needs.quality_better
    found = []
    for count in nodes:
        below = [k for k in measured.nodes if k <= count] or [measured.nodes[0]]
        above = [k for k in measured.nodes if k > count] or [measured.nodes[-1]]
        excluded = [own[k] for k in below if own[k].state(*limits) == "excluded"]
        between = _drift_between(count, below[-1], above[0], own)
        found.append(own.get(count) or (excluded or [between])[0])
    return tuple(found)


def _drift_between(count: int, low: int, high: int, own: dict[int, Drift]) -> Drift:
    """The drift at a scale without a run, along ln K; it may bend like a parabola."""
    one, other = own[low], own[high]
    if low >= high:
        return one
    share = min(max(math.log(count / low) / math.log(high / low), 0.0), 1.0)

    def mixed(name: str) -> float:
        return float((1 - share) * getattr(one, name) + share * getattr(other, name))

    bend = abs(other.value - one.value) * share * (1 - share)
    return Drift(
        value=mixed("value"),
        low=mixed("low"),
        high=mixed("high"),
        spread=math.hypot(mixed("error"), bend),
        freedom=other.freedom,
        level=other.level,
    )


def _in_time(
    curve: Curve, nodes: Sequence[int], question: Question, measured: Candidates | None
) -> Floats | None:
    """How likely a run of each scale meets the deadline; what was measured decides for itself."""
    allowed = left_seconds(question)
    if allowed is None:
        return None
    drawn = plausible_times(curve, nodes)
    spread = 0.0 if measured is None else measured.run_spread
    if allowed <= 0:
        shares = np.zeros(len(nodes))
    elif spread > 0:
        off = np.log(allowed / drawn) / spread
        shares = np.vectorize(normal_share_below)(off).mean(axis=0)
    else:
        shares = np.mean(drawn <= allowed, axis=0)
    if measured is not None:
        for at, count in enumerate(nodes):
            if count in measured.nodes:
                where = measured.nodes.index(count)
                shares[at] = (
                    float(measured.seconds[where] <= allowed)
                    if measured.in_time is None
                    else measured.in_time[where]
                )
    return np.asarray(shares, dtype=np.float64)


def better_unmeasured(
    curve: Curve,
    judged: Judged,
    question: Question,
    chosen: int | None,
    nodes: Sequence[int],
) -> Unmeasured | None:
    """The unmeasured scale of `nodes` that is likely better than the chosen one, or None.

    It is judged by the same objective. Energy and carbon are only known at scales that ran, so
    nothing is proposed where they are limited.
    """
    measured, needs = judged.scales, question.needs
    if needs.energy_budget_joules is not None or needs.carbon_budget_grams is not None:
        return None
    if not nodes:
        return None
    scales = candidates_of_curve(curve, nodes, question, measured)
    held = _shares_held(scales, question)
    # a scale that likely loses quality is not worth a look; a measured one is judged by its runs
    likely = (held >= _LIKELY) | np.isin(scales.nodes, measured.nodes)
    where = np.flatnonzero(likely & ~np.isnan(scales.rate_per_hour))
    if not len(where):
        return None
    scales, held = scales.only(where), held[where]
    shares = scales.in_time
    if shares is not None:
        # a run that is likely in time is worth a look; it must then show that it is
        likely = (shares >= _LIKELY) & ~np.isin(scales.nodes, measured.nodes)
        passing = np.where(likely, np.maximum(shares, needs.deadline_confidence), shares)
        scales = msgspec.structs.replace(scales, in_time=passing)
    paid = on_demand(scales, scales.price, needs, question.payment)
    found = judge(paid.scales, paid.bills, question, judged.objective)
    at = found.chosen
    if at is None or scales.nodes[at] in measured.nodes:
        return None
    passes = float(held[at]) * (1.0 if shares is None else float(shares[at]))
    return _compared(curve, judged, found, at, chosen, question, passes)


def _shares_held(scales: Candidates, question: Question) -> Floats:
    """How likely each scale holds the quality; 1 where it is not measured."""
    limits = question.needs.quality_tolerance, question.needs.quality_better
    if scales.drifts is None:
        return np.ones(len(scales.nodes))
    return np.array([drift.probability_held(*limits) for drift in scales.drifts])


def _compared(
    curve: Curve,
    judged: Judged,
    found: Judged,
    at: int,
    chosen: int | None,
    question: Question,
    passes: float,
) -> Unmeasured | None:
    """An unmeasured scale beside the chosen one, where it is likely and clearly better.

    `passes` is how likely it keeps the deadline and the quality.
    """
    point = curve.at(found.scales.nodes[at])
    assert point is not None
    per = judged.scales.compared_for.clause

    def made(
        because: str, probability: float, saving: float | None, saved: float | None
    ) -> Unmeasured:
        return Unmeasured(
            nodes=point.nodes,
            seconds=point.seconds,
            low80=point.low80,
            high80=point.high80,
            cost=float(found.bills.billed[at]),
            relative_work=float(found.scales.relative_work[at]),
            saving=saving,
            seconds_saved=saved,
            probability=probability,
            because=because,
        )

    if chosen is None:
        why = "it is predicted to pass every gate, and no measured scale does"
        return made(why, passes, None, None)
    saved = float(judged.scales.unit_seconds[chosen] - found.scales.unit_seconds[at])
    here = judged.scales.nodes[chosen]
    drawn = plausible_times(curve, [point.nodes, here])
    ratio = drawn[:, 0] / drawn[:, 1]
    if judged.objective.is_speed:
        gain = 1 - float(found.scales.unit_seconds[at] / judged.scales.unit_seconds[chosen])
        work = float(found.scales.relative_work[at] / judged.scales.relative_work[chosen])
        better = passes * float(np.mean(ratio / work < 1))
        better *= _share_affordable(curve, found, at, question)
        if gain < _MIN_GAIN or better < _LIKELY:
            return None
        faster = "do more work per second and still be" if per else "be faster and still"
        return made(f"it is predicted to {faster} worth its cost", better, None, saved)
    now, then = float(judged.unit_cost[chosen]), float(found.unit_cost[at])
    off = ratio * judged.scales.seconds[chosen] / point.seconds
    better = passes * float(np.mean(then * off < now))
    if now - then < _MIN_SAVING * now or better < _LIKELY:
        return None
    return made(f"it is predicted to cost less{per}", better, now - then, saved)


def _share_affordable(curve: Curve, found: Judged, at: int, question: Question) -> float:
    """How likely the bill of a predicted scale is within what the objective allows."""
    drawn = plausible_times(curve, [found.scales.nodes[at]])[:, 0] / found.scales.seconds[at]
    if found.objective.name == "fastest within the budget":
        return float(np.mean(found.bills.billed[at] * drawn <= (question.needs.budget or 0.0)))
    least = float(found.reference_bill[found.eligible].min())
    return float(np.mean(question.needs.threshold * found.unit_bill[at] * drawn <= least))


def drawn_costs(
    curve: Curve, scales: Candidates, question: Question, objective: Objective
) -> tuple[Floats, Floats]:
    """Plausible times of the scales, and how far each is from the right choice in every draw.

    That is money for an objective of cost, and the share of the time for one of speed. A scale that
    a gate excludes is infinitely far.
    """
    seconds = plausible_times(curve, list(scales.nodes))
    drawn = msgspec.structs.replace(scales, seconds=seconds)
    paid: Bills = on_demand(drawn, scales.price, question.needs, question.payment).bills
    unit_bill, unit_cost = paid.billed / scales.relative_work, paid.total / scales.relative_work
    speed = scales.relative_work / seconds
    if objective.is_speed:
        right = picks(
            objective, question, unit_bill, unit_cost, speed, scales.nodes, scales.relative_work
        )
        best = np.take_along_axis(speed, right[:, None], axis=1)
        return seconds, np.abs(np.log(speed / best))
    costs = unit_cost if objective.name == "lowest bill plus waiting" else unit_bill
    return seconds, np.asarray(costs - costs.min(axis=1, keepdims=True))
