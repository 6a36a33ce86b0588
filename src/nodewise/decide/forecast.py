"""What a curve says about scales without a run, and which single further run is worth its money."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.base.errors import DataError
from nodewise.base.stats import SEED, Floats, quantiles
from nodewise.base.units import format_percent
from nodewise.decide.candidates import Candidates, WorkUnit, left_seconds
from nodewise.decide.decide import Decided, Recommendation, decided
from nodewise.decide.gates import Mask, gate_checks, refused_at_any_price
from nodewise.decide.inputs import Question
from nodewise.decide.objective import Judged, Objective, judge, least_costs
from nodewise.decide.payment.ways import PaymentPrice, on_demand, on_spot, payments
from nodewise.decide.unmeasured import (
    DRAWS,
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
    PredictedLosses,
    Prediction,
    fit_curve,
)
from nodewise.explain.scaling import Knee, Timings, knee_of, scale, timings
from nodewise.study.check import Check, Validity
from nodewise.study.spec import Regime
from nodewise.study.study import Study

_BINS = 12  # of what a run might show; finer ones hold too few draws to average
_MAX_COST_RATIO = 1.5  # times the least cost: a curve this far beyond its bottom does not come back
_FURTHEST = 2  # times the largest measured scale: a run further out costs what nearer ones tell
_CLEARLY = 3.0  # standard errors, since the best of several scales is taken in each group
_STEPS_OF_A_DOUBLING = 4  # in which the way beyond the runs is followed
_MIN_REGRET_SHARE = 0.01  # of the cost: a regret below this changes no plan
_MIN_SAVING_SHARE = 0.05  # of the regret: a run that saves less is not worth making
_MIN_REGRET_OF_LAW = 0.0005  # where a law meets all runs: it does not know by how much it is wrong


class ForecastRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """One scale, measured or predicted; null if nothing is claimed."""

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
    relative_work: float | None  # over that of the first measured run
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
    compared_for: WorkUnit  # what the cheapest is the cheapest for
    repeated: bool  # whether the noise of measured rows was seen; that of single runs is assumed
    rows: tuple[ForecastRow, ...]
    unknown_beyond: int | None
    never_end: tuple[int, ...]  # scales at which nodes fail too often for a run to end: no row
    objective: Objective
    recommended: Recommendation | None  # of the measured scales; null if none was measured there
    better: Unmeasured | None  # the scale to measure next
    cheapest: Landmark | None  # null: no scale has a known price
    fastest: Landmark
    measured_knee: Knee | None  # on the fit that `scale` uses; null: not within the measured scales
    knee: Landmark | None  # beyond the measured scales, where it is not within them
    probability_other: float | None  # that a scale without a row is the cheapest
    payments: tuple[PaymentPrice, ...]  # the rows on every way to pay
    laws: tuple[LawRow, ...]
    rivals: tuple[LawRow, ...] = ()  # two laws that fit the measured times and differ beyond them
    losses: tuple[PredictedLosses, ...] = ()  # of the rows without a run; empty: no stage times
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
    saving: float  # of the regret of the recommended scale, in each later run, for equal work
    saving_per_cost: float
    could_change: float  # the chance that another scale is recommended after it


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """The recommended scale as things are known now, and whether another run could better it."""

    name: str
    currency: str
    compared_for: WorkUnit  # what savings are for
    objective: Objective
    recommended: Recommendation
    best: int | None  # the recommended scale, by the fit of all runs where single runs are noisy
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
    times = timings(study, question.center)
    curve = found.curve or fit_curve(study, question.center, times)
    made = forecast_curve(curve, study.name, question, nodes, found, times)
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

    Nothing if too few scales were measured to continue them.
    """
    if len(study.scales) < FEWEST_SCALES:
        return None
    last = study.scales[-1]
    steps = range(_STEPS_OF_A_DOUBLING * (REACH.bit_length() - 1) + 1)
    ahead = [round(last * 2 ** (step / _STEPS_OF_A_DOUBLING)) for step in steps]
    curve = fit_curve(study, question.center, times)
    return forecast_curve(curve, study.name, question, ahead, found, times)


def forecast_curve(
    curve: Curve,
    name: str,
    question: Question,
    nodes: Sequence[int] = (),
    found: Decided | None = None,
    times: Timings | None = None,
) -> Forecast:
    """Times, costs and landmarks of a curve at its scales and at those asked for.

    `found` is the decision on the measured scales, and `times` are theirs; a curve on another
    cluster has none.
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
    cheapest, fastest, share = _landmarks(curve, question, measured, shown)
    measured_knee = None if times is None else knee_of(times)
    knee = None if measured_knee else curve.knee()
    if times is not None and knee is not None and knee.nodes <= curve.nodes[-1]:
        knee = None  # the fit of the measured times has none there
    endless = {k for k, why in zip(known.nodes, hired.scales.never_ends, strict=False) if why}
    points = {
        at: point for at, point in zip(shown, curve.points(shown), strict=True) if at not in endless
    }
    return Forecast(
        name=name,
        regime=curve.regime,
        evidence=curve.evidence,
        currency=scales.price.currency,
        compared_for=(measured or scales).compared_for,
        repeated=curve.repeated,
        rows=tuple(_row(at, point, scales, judged, share.get(at)) for at, point in points.items()),
        unknown_beyond=curve.unknown_beyond,
        never_end=tuple(sorted(endless)),
        objective=judged.objective,
        recommended=found.decision.recommended if found else None,
        better=found.decision.better if found else None,
        cheapest=cheapest,
        fastest=fastest or curve.fastest(),
        measured_knee=measured_knee,
        knee=knee,
        probability_other=sum(p for k, p in share.items() if k not in shown) if share else None,
        payments=payments(hired, spot, scales.price, question.needs, question.payment),
        laws=() if curve.unknown_beyond is not None or endless else curve.laws(),
        rivals=() if curve.unknown_beyond is not None or endless else curve.rivals(),
        losses=tuple(
            losses
            for at, point in points.items()
            if point is not None and not point.measured and (losses := curve.losses(at))
        ),
        validity=found.decision.validity if found else Validity(),
    )


def _landmarks(
    curve: Curve, question: Question, measured: Candidates | None, shown: Sequence[int]
) -> tuple[Landmark | None, Landmark | None, dict[int, float]]:
    """The least bill, the fastest scale where nodes fail, and how likely each is the cheapest.

    The scales are those that a choice is made from, and those that are shown, measured or not.
    Deadline and budget are gates of each draw.
    """
    broken = {k for k, _ in measured.broken} if measured else set()
    least = question.needs.least_scale or curve.nodes[0]
    asked = {k for k in shown if k >= least} - broken
    grid = sorted({*grid_of(curve, question, measured), *asked})
    if not grid:
        return None, None, {}
    scales = candidates_of_curve(curve, grid, question, measured)
    known = np.flatnonzero(~np.isnan(scales.rate_per_hour))
    if not len(known):
        return None, None, {}
    scales = scales.only(known)
    price, needs = scales.price, question.needs
    paid = on_demand(scales, price, needs, question.payment)
    share = dict.fromkeys(scales.nodes, 0.0)
    passing = np.flatnonzero(~refused_at_any_price(paid.scales, price, needs, paid.bills))
    if not len(passing):
        return None, None, share
    scales = scales.only(passing)
    nodes, work = np.array(scales.nodes), scales.relative_work
    # the first row is the curve itself
    seconds = np.vstack([scales.seconds, plausible_times(curve, scales.nodes)])
    drawn = msgspec.structs.replace(scales, seconds=seconds)
    hired = on_demand(drawn, price, needs, question.payment)
    spread = 0.0 if measured is None else measured.run_spread
    longest, costs = hired.scales.seconds, hired.bills.billed / work
    kept = _kept(longest, hired.bills.billed, question, spread)
    fastest = None
    if question.payment.mtbf_seconds is not None:
        fastest = _landmark(curve, nodes[np.argmin(longest / work, axis=1)])
    kept_rows = kept.any(axis=1)
    if not kept_rows.any():
        return None, fastest, share
    costs = np.where(kept, costs, np.inf)[kept_rows]
    winners = nodes[least_costs(costs, -(longest / work)[kept_rows])]
    share |= {int(k): float(np.mean(winners == k)) for k in nodes}
    return _landmark(curve, winners), fastest, share


def _kept(seconds: Floats, billed: Floats, question: Question, spread: float) -> Mask:
    """Which scales of each draw keep the deadline, in the share of runs asked for, and the budget.

    `spread` is that of a single run, relative.
    """
    needs, left = question.needs, left_seconds(question)
    kept = np.ones(seconds.shape, dtype=bool)
    if left is not None:
        longer = math.exp(NormalDist().inv_cdf(min(needs.deadline_confidence, 0.9999)) * spread)
        kept &= seconds * longer <= left
    if needs.budget is not None:
        kept &= billed <= needs.budget
    return kept


def _landmark(curve: Curve, winners: NDArray[np.int64]) -> Landmark:
    """The winner of the curve itself, in the first row, with the bounds of the draws."""
    low, high = (float(end) for end in quantiles(winners.astype(np.float64), [0.1, 0.9]))
    return curve.landmark(int(winners[0]), low, high)


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
    worth = _worth(curve, found, question, better, grid, spend, share)
    of_time = judged.objective.is_speed
    whole = 1.0 if of_time or chosen is None else float(judged.unit_cost[chosen])
    step = _next_step(recommended, better, worth, whole, spend, share)
    return Advice(
        name=study.name,
        currency=judged.scales.price.currency,
        compared_for=judged.scales.compared_for,
        objective=judged.objective,
        recommended=recommended,
        best=recommended.nodes,
        expected_cost=None if chosen is None else float(judged.bills.billed[chosen]),
        expected_regret=worth.regret,
        regret_is_of_time=of_time,
        better=better,
        measure=step.measure,
        repeat=step.repeat,
        rounds=step.rounds,
        cost=step.cost,
        because=step.because,
        runs=worth.runs,
        payments=found.decision.payments,
        gates=_limits_at_scales(study, question),
        validity=found.decision.validity,
    )


def _decided_by_repeats(curve: Curve, found: Decided) -> bool:
    return curve.repeated and not found.decision.recommended.undecided


class _Worth(NamedTuple):
    """What each further run would cost, save and change, and the regret now."""

    runs: tuple[RunWorth, ...] = ()
    regret: float | None = None
    by_law: bool = (
        False  # one law meets all runs, so that each run says something about every scale
    )


class _Options(NamedTuple):
    """The scales that a run may be made at."""

    scales: Candidates
    allowed: Mask
    best: int | None  # the recommended one
    proposed: int | None


def _worth(
    curve: Curve,
    found: Decided,
    question: Question,
    better: Unmeasured | None,
    nodes: Sequence[int],
    spend: float,
    share: float,
) -> _Worth:
    """What each further run is worth.

    After a run the choice is between the measured scales and that of the run.
    """
    judged, recommended = found.judged, found.decision.recommended.nodes
    scales = _worth_a_run(curve, judged, question, better, nodes)
    if scales is None:
        return _Worth()
    paid = on_demand(scales, scales.price, question.needs, question.payment)
    allowed = judge(paid.scales, paid.bills, question, judged.objective).allowed
    seconds, regret = drawn_costs(curve, paid.scales, question, judged.objective)
    best = scales.nodes.index(recommended) if recommended in scales.nodes else None
    proposed = scales.nodes.index(better.nodes) if better is not None else None
    options = _Options(paid.scales, allowed, best, proposed)
    gains = _gains_by_law(curve, judged, question, options)
    by_law = gains is not None
    if gains is None:
        gains = _gains_by_draws(curve, found, options, seconds, regret)
    sure = _decided_by_repeats(curve, found)
    runs = []
    for at, k in enumerate(scales.nodes):
        offered = k in curve.nodes or k.bit_count() == 1
        if not sure:  # any scale near enough may settle it
            offered = k <= _FURTHEST * curve.nodes[-1]
        if not (at == proposed or (best is not None and offered)):
            continue
        one = scales.only(np.array([at]))
        spent = np.array([one.seconds[0], quantiles(seconds[:, at], [0.9])[0]])
        timing = msgspec.structs.replace(one, seconds=share * spent[:, None])
        billed = on_demand(timing, one.price, question.needs, question.payment).bills.billed[:, 0]
        if not billed[1] <= spend:  # a run that may take longer than the money lasts is not begun
            continue
        saving, moved = gains.each[at]
        if at == proposed and better is not None:
            moved = better.probability
        runs.append(
            RunWorth(
                nodes=k,
                cost=float(billed[0]),
                saving=saving,
                saving_per_cost=saving / float(billed[0]) if billed[0] > 0 else 0.0,
                could_change=moved,
            )
        )
    return _Worth(tuple(sorted(runs, key=lambda run: -run.saving_per_cost)), gains.regret, by_law)


class _Gains(NamedTuple):
    """The expected regret now, and what a run of each scale saves of it, and changes the choice."""

    regret: float | None
    each: list[tuple[float, float]]


def _gains_by_law(
    curve: Curve, judged: Judged, question: Question, options: _Options
) -> _Gains | None:
    """The gains where scales ran once, and one law meets all runs within their noise.

    Times by refits of the law are the plausible truths. After another run, `decide` takes the scale
    of the least mean. So a scale that was cheap by chance is worth a repeat, and one near the least
    cost of the law a first run. Nothing for a choice of speed, or if limits depend on the times.
    """
    scales, needs = options.scales, question.needs
    limited = needs.deadline_seconds is not None or needs.budget is not None
    once = any(len(values) == 1 for values in judged.scales.samples)
    if options.best is None or judged.objective.is_speed or limited or not once:
        return None
    rounds = [len(values) for values in judged.scales.samples]
    refits = curve.refits(scales.nodes, rounds, DRAWS)
    if refits is None:
        return None
    seconds, noise = refits
    ran = dict(zip(judged.scales.nodes, rounds, strict=True))
    before = np.array([ran.get(k, 0) for k in scales.nodes])
    own = dict(zip(judged.scales.nodes, judged.scales.seconds.tolist(), strict=True))
    mean = np.array([own.get(k, 0.0) for k in scales.nodes])
    error = np.random.default_rng(SEED).standard_normal(seconds.shape)
    seen = (before * mean + seconds * (1 + noise * error)) / (before + 1)
    truth, shown = (_costs(scales, times, judged, question) for times in (seconds, seen))
    regret = truth - truth[:, options.allowed].min(axis=1, keepdims=True)
    now = regret[:, options.best]
    known = np.flatnonzero((before > 0) & options.allowed)
    costs = np.full(len(before), np.inf)
    costs[known] = _costs(scales, np.where(before > 0, mean, scales.seconds), judged, question)[
        known
    ]
    each = []
    for at in range(len(before)):
        if not (options.allowed[at] or at == options.proposed):
            each.append((0.0, 0.0))
            continue
        others = np.where(np.arange(len(before)) == at, np.inf, costs)
        other = int(np.argmin(others))
        taken = np.where(shown[:, at] < others[other], at, other)
        left = np.take_along_axis(regret, taken[:, None], axis=1)[:, 0]
        saving = max(float(np.mean(now - left)), 0.0)
        each.append((saving, float(np.mean(taken != options.best))))
    return _Gains(float(now.mean()), each)


def _costs(scales: Candidates, seconds: Floats, judged: Judged, question: Question) -> Floats:
    """What the objective minimises, for equal work, at other times of the scales."""
    changed = msgspec.structs.replace(scales, seconds=seconds)
    bills = on_demand(changed, scales.price, question.needs, question.payment).bills
    waiting = judged.objective.name == "lowest bill plus waiting"
    return np.asarray((bills.total if waiting else bills.billed) / scales.relative_work)


def _gains_by_draws(
    curve: Curve, found: Decided, options: _Options, seconds: Floats, regret: Floats
) -> _Gains:
    """The gains by draws of the curve, whose scales err on their own."""
    scales, allowed, best = options.scales, options.allowed, options.best
    known = [at for at, k in enumerate(scales.nodes) if allowed[at] and k in curve.nodes]
    sure = _decided_by_repeats(curve, found)
    each = []
    for at, k in enumerate(scales.nodes):
        saving, moved = 0.0, 0.0
        if best is not None and (allowed[at] or at == options.proposed):
            gains = regret[:, [best]] - regret
            gains[:, known] -= np.maximum(gains[:, known].mean(axis=0), 0.0)  # need no run
            # a run beyond the largest tells about what lies further out
            ahead = range(at, len(scales.nodes)) if k > curve.nodes[-1] and not sure else ()
            after = sorted({*known, at, *(other for other in ahead if allowed[other])})
            saving, moved = _worth_knowing(gains[:, after], seconds[:, at])
        # A repeat halves the variance of what is known there; a first run tells nearly all.
        saving *= 0.5 if k in curve.nodes else 1.0
        each.append((saving, moved))
    return _Gains(None if best is None else float(regret[:, best].mean()), each)


def _worth_a_run(
    curve: Curve,
    judged: Judged,
    question: Question,
    better: Unmeasured | None,
    nodes: Sequence[int],
) -> Candidates | None:
    """The scales of `nodes` with a known price; none beyond a curve that costs ever more."""
    if not nodes:
        return None
    scales = candidates_of_curve(curve, nodes, question, judged.scales)
    scales = scales.only(np.flatnonzero(~np.isnan(scales.rate_per_hour)))
    if not scales.nodes:
        return None
    paid = on_demand(scales, scales.price, question.needs, question.payment)
    if any(paid.scales.never_ends):
        ends = [k for k, why in zip(scales.nodes, paid.scales.never_ends, strict=True) if not why]
        return _worth_a_run(curve, judged, question, better, ends)
    unit_bill = paid.bills.billed / scales.relative_work
    k = np.array(scales.nodes)
    inside = k <= curve.nodes[-1]
    if inside.any() and unit_bill[inside][-1] > _MAX_COST_RATIO * unit_bill[inside].min():
        proposed = k == better.nodes if better else np.zeros_like(inside)
        return scales.only(np.flatnonzero(inside | proposed))
    return scales


class _Step(NamedTuple):
    because: str
    measure: int | None = None
    repeat: tuple[int, ...] = ()
    rounds: int | None = None
    cost: float | None = None


def _next_step(
    recommended: Recommendation,
    better: Unmeasured | None,
    worth: _Worth,
    whole: float,
    spend: float,
    share: float,
) -> _Step:
    """What to do next, and why: measure a scale, repeat some, or stop."""
    runs, regret = worth.runs, worth.regret
    look = _look(better, runs)
    if worth.by_law:
        if regret is None or regret <= _MIN_REGRET_OF_LAW * whole:
            return _stop(runs, whole)
        if look is not None and look.measure == runs[0].nodes:
            return look
        return _most_worth(runs, regret, whole, spend, 0.0)
    open_ = regret is not None and regret > _MIN_REGRET_SHARE * whole
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
            return look or (_most_worth(runs, regret, whole, spend) if open_ else _Step(because))
        if cost <= spend:
            because = f"the runs so far do not decide between {named}"
            return _Step(because, None, recommended.repeat, recommended.rounds_to_decide, cost)
        because = f"the runs do not decide between {named}, and more rounds cost over {spend:g}"
        return _most_worth(runs, regret, whole, spend) if open_ else _Step(because)
    return _most_worth(runs, regret, whole, spend) if open_ else _stop(runs, whole)


def _look(better: Unmeasured | None, runs: Sequence[RunWorth]) -> _Step | None:
    """A first run at a scale that is likely better, where there is money for it."""
    for run in runs:
        if better is not None and run.nodes == better.nodes:
            sure = format_percent(better.probability)
            return _Step(f"{better.because} ({sure} likely)", run.nodes, cost=run.cost)
    return None


def _most_worth(
    runs: Sequence[RunWorth],
    regret: float | None,
    whole: float,
    spend: float,
    least: float = _MIN_SAVING_SHARE,
) -> _Step:
    """The run that takes away most of the regret for its money, if it takes a share of `least`."""
    if not runs:
        return _Step(f"no run costs at most {spend:g}")
    top = runs[0]
    if regret is None or top.saving <= least * regret:
        return _stop(runs, whole)
    because = (
        f"it removes {format_percent(top.saving / regret)} of the expected regret at the lowest "
        f"cost, and changes the choice with a probability of {format_percent(top.could_change)}"
    )
    return _Step(because, top.nodes, cost=top.cost)


def _stop(runs: Sequence[RunWorth], whole: float) -> _Step:
    """That no run is worth its money; `whole` is what its saving is a share of."""
    if any(run.could_change for run in runs):
        most = max(run.saving for run in runs) / whole
        return _Step(f"no further run is expected to save more than {format_percent(most)}")
    return _Step("no further run is expected to change the choice")


def _worth_knowing(gains: Floats, seconds: Floats) -> tuple[float, float]:
    """What a run is expected to gain, and how often it changes the choice.

    `gains` are those of other choices over the present one, one row per draw. The plausible
    times of the run are cut into groups. In each, another choice is made only where its draws
    are clearly better: of many means of few draws one is highest by chance.
    """
    gained = changed = 0.0
    for group in np.array_split(np.argsort(seconds), _BINS):
        means = gains[group].mean(axis=0)
        errors = gains[group].std(axis=0, ddof=1) / math.sqrt(len(group))
        gain = float(np.where(means > _CLEARLY * errors, means, 0.0).max())
        gained += gain * len(group) / len(seconds)
        changed += (gain > 0) * len(group) / len(seconds)
    return gained, changed


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
        relative_work=float(scales.relative_work[where]),
        probability_cheapest=probability,
        deadline_probability=None if shown.in_time is None else float(shown.in_time[place]),
        energy_joules=known(scales.energy.joules),
        grams=known(scales.carbon.grams),
    )


def _doublings(curve: Curve) -> list[int]:
    largest = curve.nodes[-1]
    return [k for k in (2 * largest, 4 * largest) if k <= curve.horizon]
