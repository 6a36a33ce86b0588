"""What a curve says about scales without a run, and which single further run is worth its money."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from nodewise.base.errors import DataError
from nodewise.base.stats import Floats
from nodewise.base.units import format_percent
from nodewise.decide.candidates import Candidates
from nodewise.decide.decide import Decided, Recommendation, decided
from nodewise.decide.gates import gate_checks
from nodewise.decide.inputs import Question
from nodewise.decide.objective import Judged, Objective, judge
from nodewise.decide.payment.ways import PaymentPrice, on_demand, on_spot, payments
from nodewise.decide.unmeasured import (
    Unmeasured,
    better_unmeasured,
    candidates_of_curve,
    drawn_costs,
    grid_of,
    plausible_times,
)
from nodewise.explain.predict.curve import (
    FEWEST_SCALES,
    REACH,
    Curve,
    Landmark,
    LawRow,
    Prediction,
    fit_curve,
)
from nodewise.explain.scaling import Timings, scale
from nodewise.study.check import Check, Validity
from nodewise.study.spec import Regime
from nodewise.study.study import Study

_BINS = 12  # of what a run might show; finer ones hold too few draws to average
_MAX_COST_RATIO = 1.5  # times the least cost: a curve this far beyond its bottom does not come back
_STEPS_OF_A_DOUBLING = 4  # in which the way beyond the runs is followed
_MIN_REGRET_SHARE = 0.01  # of the cost: a regret below this changes no plan


class ForecastRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """One scale, measured or predicted; null where nothing is claimed."""

    nodes: int
    measured: bool
    seconds: float | None
    low80: float | None
    high80: float | None
    low95: float | None
    high95: float | None
    speedup: float | None
    efficiency: float | None
    cost: float | None
    cost_with_waiting: float | None
    probability_cheapest: float | None
    deadline_probability: float | None
    energy_joules: float | None
    grams: float | None  # of CO2e


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """T(K) beyond the runs, and where the cheapest, the fastest and the knee lie."""

    name: str
    regime: Regime
    evidence: str
    currency: str
    repeated: bool  # whether the noise of measured rows was seen; that of single runs is assumed
    rows: tuple[ForecastRow, ...]
    unknown_beyond: int | None
    objective: Objective
    recommended: Recommendation | None  # of the measured scales; null where none was measured there
    better: Unmeasured | None  # the scale to measure next
    cheapest: Landmark | None  # null: no scale has a known price
    fastest: Landmark
    knee: Landmark
    payments: tuple[PaymentPrice, ...]  # the rows on every way to pay
    laws: tuple[LawRow, ...]
    gates: tuple[Check, ...] = ()  # limits at named K
    validity: Validity = Validity()  # of the measurement behind it

    @property
    def doublings(self) -> tuple[ForecastRow, ...]:
        """What was measured, and what is known of twice and four times the largest of it."""
        last = max(row.nodes for row in self.rows if row.measured)
        return tuple(
            row
            for row in self.rows
            if row.measured or (row.nodes in (2 * last, 4 * last) and row.seconds is not None)
        )


class RunWorth(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """One run that could be made: what it costs and what it is expected to save."""

    nodes: int
    cost: float
    saving: float  # of regret in each later run
    saving_per_cost: float
    could_change: float  # the chance that it moves the choice


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """The recommended scale as things are known now, and whether another run could better it."""

    name: str
    currency: str
    objective: Objective
    recommended: Recommendation
    best: int | None  # the recommended scale
    expected_cost: float | None
    expected_regret: float | None  # of money; of the time where the objective is speed
    regret_is_of_time: bool
    better: Unmeasured | None
    measure: int | None  # the scale to run next; null: stop, or repeat
    repeat: tuple[int, ...]  # the scales to repeat, and how often
    rounds: int | None
    cost: float | None  # of what to do next
    because: str
    runs: tuple[RunWorth, ...]
    payments: tuple[PaymentPrice, ...]
    gates: tuple[Check, ...] = ()  # limits at named K
    validity: Validity = Validity()  # of the measurement behind it


def predict(study: Study, question: Question, nodes: Sequence[int] = ()) -> Forecast:
    """The curve of a study at its scales, at those asked for, and its landmarks."""
    found = decided(study, question)
    curve = found.curve or fit_curve(study, question.center)
    made = forecast_curve(curve, study.name, question, nodes, found)
    return msgspec.structs.replace(made, gates=_limits_at_scales(study, question))


def _limits_at_scales(study: Study, question: Question) -> tuple[Check, ...]:
    """Whether the limits that the question sets at named K are kept."""
    needs = question.needs
    if not (needs.least_speedup or needs.least_efficiency or needs.most_seconds):
        return ()
    return tuple(gate_checks(needs, scale(study, needs.threshold, question.center)))


def forecast_ahead(
    study: Study, question: Question, times: Timings, found: Decided
) -> Forecast | None:
    """The curve of a study in small steps up to four times its largest scale.

    Nothing where too few scales were measured to continue them.
    """
    if len(study.scales) < FEWEST_SCALES:
        return None
    last = study.scales[-1]
    steps = range(_STEPS_OF_A_DOUBLING * (REACH.bit_length() - 1) + 1)
    ahead = [round(last * 2 ** (step / _STEPS_OF_A_DOUBLING)) for step in steps]
    curve = fit_curve(study, question.center, times)
    return forecast_curve(curve, study.name, question, ahead, found)


def forecast_curve(
    curve: Curve,
    name: str,
    question: Question,
    nodes: Sequence[int] = (),
    found: Decided | None = None,
) -> Forecast:
    """Times, costs and landmarks of a curve at its scales and at those asked for.

    `found` is the decision on the measured scales; a curve on another cluster has none.
    """
    measured = found.judged.scales if found else None
    shown = sorted({*curve.nodes, *(nodes or _doublings(curve))})
    scales = candidates_of_curve(curve, shown, question, measured)
    known = scales.only(np.flatnonzero(~np.isnan(scales.rate_per_hour)))  # that have a price
    hired = on_demand(known, known.price, question.needs, question.payment)
    judged = judge(hired.scales, hired.bills, question, found.judged.objective if found else None)
    spot = None
    if known.price.is_money:
        spot = on_spot(known, known.price, question.needs, question.payment)
    cheapest, share = _cheapest(curve, question, measured)
    points = dict(zip(shown, curve.points(shown), strict=True))
    return Forecast(
        name=name,
        regime=curve.regime,
        evidence=curve.evidence,
        currency=scales.price.currency,
        repeated=curve.repeated,
        rows=tuple(_row(at, point, scales, judged, share.get(at)) for at, point in points.items()),
        unknown_beyond=curve.unknown_beyond,
        objective=judged.objective,
        recommended=found.decision.recommended if found else None,
        better=found.decision.better if found else None,
        cheapest=cheapest,
        fastest=curve.fastest(),
        knee=curve.knee(),
        payments=payments(hired, spot, scales.price, question.needs, question.payment),
        laws=curve.laws() if curve.unknown_beyond is None else (),
        validity=found.decision.validity if found else Validity(),
    )


def _cheapest(
    curve: Curve, question: Question, measured: Candidates | None
) -> tuple[Landmark | None, dict[int, float]]:
    """The least bill among scales that pass the gates, measured or not, and how likely each is."""
    grid = grid_of(curve, question, measured)
    if not grid:
        return None, {}
    scales = candidates_of_curve(curve, grid, question, measured)
    known = np.flatnonzero(~np.isnan(scales.rate_per_hour))
    if not len(known):
        return None, {}
    scales = scales.only(known)
    paid = on_demand(scales, scales.price, question.needs, question.payment)
    allowed = np.flatnonzero(judge(paid.scales, paid.bills, question).allowed)
    if not len(allowed):
        return None, {}
    scales = scales.only(allowed)
    billed = paid.bills.billed[allowed] / scales.relative_work
    seconds = plausible_times(curve, scales.nodes)
    drawn = msgspec.structs.replace(scales, seconds=seconds)
    costs = (
        on_demand(drawn, scales.price, question.needs, question.payment).bills.billed
        / scales.relative_work
    )
    nodes = np.array(scales.nodes)
    winners = nodes[np.argmin(costs, axis=1)]
    low, high = (float(end) for end in np.quantile(winners, [0.1, 0.9]))
    share = {int(k): float(np.mean(winners == k)) for k in nodes}
    return curve.landmark(int(nodes[int(np.argmin(billed))]), low, high), share


def advise(
    study: Study,
    question: Question,
    spend: float = math.inf,
    largest: int | None = None,
    share: float = 1.0,
) -> Advice:
    """Which K to measure next, under the objective of the question.

    A scale that is likely better than the recommended one comes first, then repeats that tell the
    candidates apart, then the run that takes away most of the expected regret for its money.
    `share` is that of the job which a timing run does; `largest` the most nodes there are; `spend`
    the most that the runs may cost.
    """
    found = decided(study, question)
    curve = found.curve or fit_curve(study, question.center)
    judged, recommended = found.judged, found.decision.recommended
    if largest is not None:  # nodes, each of which holds several of K
        largest *= judged.scales.unit.per_scale
    grid = grid_of(curve, question, judged.scales, largest)
    if largest is not None and not grid:
        smallest = question.needs.least_scale or curve.nodes[0]
        raise DataError(
            f"At most {largest} are allowed, and the smallest scale is K={smallest}.", "Allow more."
        )
    chosen = None if recommended.nodes is None else judged.scales.nodes.index(recommended.nodes)
    better = None
    if not (recommended.undecided and recommended.rounds_to_decide):  # repeats come first
        better = better_unmeasured(curve, judged, question, chosen, grid)
    runs, regret, expected = _worth(curve, found, question, better, grid, spend, share)
    of_time = judged.objective.is_speed
    step = _next_step(recommended, better, runs, regret, 1.0 if of_time else expected, spend, share)
    return Advice(
        name=study.name,
        currency=judged.scales.price.currency,
        objective=judged.objective,
        recommended=recommended,
        best=recommended.nodes,
        expected_cost=expected,
        expected_regret=regret,
        regret_is_of_time=of_time,
        better=better,
        measure=step.measure,
        repeat=step.repeat,
        rounds=step.rounds,
        cost=step.cost,
        because=step.because,
        runs=runs,
        payments=found.decision.payments,
        gates=_limits_at_scales(study, question),
        validity=found.decision.validity,
    )


def _worth(
    curve: Curve,
    found: Decided,
    question: Question,
    better: Unmeasured | None,
    nodes: Sequence[int],
    spend: float,
    share: float,
) -> tuple[tuple[RunWorth, ...], float | None, float | None]:
    """What each further run would save, the regret now, and the expected bill."""
    judged = found.judged
    if not nodes:
        return (), None, None
    scales = candidates_of_curve(curve, nodes, question, judged.scales)
    known = np.flatnonzero(~np.isnan(scales.rate_per_hour))
    if not len(known):
        return (), None, None
    scales = scales.only(known)
    paid = on_demand(scales, scales.price, question.needs, question.payment)
    grid = judge(paid.scales, paid.bills, question, judged.objective)
    unit_bill = grid.unit_bill
    inside = np.array(scales.nodes) <= curve.nodes[-1]
    if unit_bill[inside][-1] > _MAX_COST_RATIO * unit_bill[inside].min():
        within = scales.only(np.flatnonzero(inside))
        paid = on_demand(within, scales.price, question.needs, question.payment)
        grid = judge(paid.scales, paid.bills, question, judged.objective)
    taken = better.nodes if better else found.decision.recommended.nodes
    if taken not in grid.scales.nodes or not grid.allowed.any():
        return (), None, None
    seconds, regret = drawn_costs(curve, grid.scales, question, grid.objective)
    regret = np.where(grid.allowed, regret, np.inf)
    best = grid.scales.nodes.index(taken)
    now, expected = float(regret[:, best].mean()), float(grid.bills.billed[best])
    if not math.isfinite(now):
        return (), None, expected
    # a run is worth what it adds to the best choice without it
    prior = int(np.argmin(regret.mean(axis=0)))
    before = float(regret[:, prior].mean())
    runs = []
    repeated = all(len(samples) > 1 for samples in judged.scales.samples)
    # Of single runs that are close to each other, the luckiest would be chosen.
    for at in _ladder(grid.scales.nodes, taken if repeated else None):
        where = grid.scales.nodes.index(at)
        spent = np.array([np.mean(seconds[:, where]), np.quantile(seconds[:, where], 0.9)])
        one = grid.scales.only(np.array([where]))
        timing = msgspec.structs.replace(one, seconds=share * spent[:, None])
        billed = on_demand(timing, one.price, question.needs, question.payment).bills.billed[:, 0]
        if not billed[1] <= spend:  # a run that may take longer than the money lasts is not begun
            continue
        left, moved = _regret_after(regret, seconds[:, where], prior)
        # A repeat halves the variance of what is known there; a first run tells nearly all.
        saved = before - left if before - left > 1e-9 * now else 0.0  # less is rounding
        saving = saved * (0.5 if at in curve.nodes else 1.0)
        runs.append(
            RunWorth(
                nodes=at,
                cost=float(billed[0]),
                saving=saving,
                saving_per_cost=saving / float(billed[0]) if billed[0] > 0 else 0.0,
                could_change=moved,
            )
        )
    return tuple(sorted(runs, key=lambda run: -run.saving_per_cost)), now, expected


class _Step(NamedTuple):
    because: str
    measure: int | None = None
    repeat: tuple[int, ...] = ()
    rounds: int | None = None
    cost: float | None = None


def _next_step(
    recommended: Recommendation,
    better: Unmeasured | None,
    runs: Sequence[RunWorth],
    regret: float | None,
    scale: float | None,
    spend: float,
    share: float,
) -> _Step:
    """What to do next, and why: measure a scale, repeat some, or stop."""
    look = None
    if better is not None and share * better.cost <= spend:
        sure = format_percent(better.probability)
        look = _Step(f"{better.because} ({sure} likely)", better.nodes, cost=share * better.cost)
    if look is not None and not recommended.undecided:
        return look
    if recommended.nodes is None:
        return look or _Step("no scale passes every gate, and none is predicted to")
    if recommended.undecided:
        *first, last = recommended.undecided
        named = f"K={', '.join(map(str, first))} and {last}"
        cost = None if recommended.cost_to_decide is None else share * recommended.cost_to_decide
        if recommended.rounds_to_decide is None or cost is None:
            because = (
                f"the runs do not decide between {named}, and 100 more rounds would not either"
            )
            return look or _Step(because)
        if cost <= spend:
            because = f"the runs so far do not decide between {named}"
            return _Step(because, None, recommended.repeat, recommended.rounds_to_decide, cost)
        because = f"the runs do not decide between {named}, and more rounds cost over {spend:g}"
        return _Step(because)
    if regret is None or not scale or regret <= _MIN_REGRET_SHARE * scale:
        return _Step("no further run is expected to change the choice")
    if not runs:
        return _Step(f"no run costs at most {spend:g}")
    top = runs[0]
    if top.saving <= 0.05 * regret:
        return _Step("no further run is expected to change the choice")
    because = (
        f"it takes away {format_percent(top.saving / regret)} of the expected regret for the least "
        f"money, and moves the choice with a chance of {format_percent(top.could_change)}"
    )
    return _Step(because, top.nodes, cost=top.cost)


def _regret_after(regret: Floats, seconds: Floats, best: int) -> tuple[float, float]:
    """Expected regret once the run has been seen, and how often the choice then differs."""
    order = np.argsort(seconds)
    left = moved = 0.0
    for group in np.array_split(order, _BINS):
        means = regret[group].mean(axis=0)
        choice = int(np.argmin(means))
        left += float(means[choice]) * len(group) / len(order)
        moved += (choice != best) * len(group) / len(order)
    return left, moved


def _row(
    at: int,
    point: Prediction | None,
    scales: Candidates,
    judged: Judged,
    probability: float | None,
) -> ForecastRow:
    if point is None:
        nothing = dict.fromkeys(
            name for name in ForecastRow.__struct_fields__ if name not in ("nodes", "measured")
        )
        return ForecastRow(nodes=at, measured=False, **nothing)
    where = scales.nodes.index(at)
    priced = judged.scales.nodes.index(at) if at in judged.scales.nodes else None
    shown, place, longer = scales, where, 1.0
    if priced is not None and judged.scales.undisturbed is not None:  # nodes fail
        shown, place = judged.scales, priced
        longer = float(shown.seconds[place] / judged.scales.undisturbed[place])

    def known(values: Floats | None) -> float | None:
        return None if values is None or np.isnan(values[where]) else float(values[where])

    return ForecastRow(
        nodes=at,
        measured=point.measured,
        seconds=longer * point.seconds,
        low80=longer * point.low80,
        high80=longer * point.high80,
        low95=longer * point.low95,
        high95=longer * point.high95,
        speedup=float(shown.speedup[place]),
        efficiency=float(shown.efficiency[place]),
        cost=None if priced is None else float(judged.bills.billed[priced]),
        cost_with_waiting=None if priced is None else float(judged.bills.total[priced]),
        probability_cheapest=probability,
        deadline_probability=None if shown.in_time is None else float(shown.in_time[place]),
        energy_joules=known(scales.energy.joules),
        grams=known(scales.carbon.grams),
    )


def _ladder(nodes: Sequence[int], best: int | None) -> list[int]:
    """Runs worth asking about: the doublings of one node, and what looks best."""
    doublings = [k for k in nodes if k.bit_count() == 1]
    return sorted({*doublings, *([] if best is None else [best])})


def _doublings(curve: Curve) -> list[int]:
    largest = curve.nodes[-1]
    return [k for k in (2 * largest, 4 * largest) if k <= curve.horizon]
