"""What a curve says about scales nobody ran, and which single further run is worth its money."""

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from nodewise.base.errors import DataError
from nodewise.base.stats import Floats
from nodewise.base.units import format_percent
from nodewise.decide.counting import billed_units, scale_unit_of, with_scale_unit
from nodewise.decide.inputs import Question
from nodewise.decide.prices.bill import Price, bill
from nodewise.explain.predict.curve import (
    FEWEST_SCALES,
    REACH,
    Curve,
    Landmark,
    LawRow,
    Prediction,
    fit_curve,
)
from nodewise.explain.scaling import Timings
from nodewise.study.scale_unit import ScaleUnit
from nodewise.study.spec import Regime
from nodewise.study.study import Study

_DRAWS = 600
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
    probability_cheapest: float | None


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """T(K) beyond the runs, and where the cheapest, the fastest and the knee lie."""

    name: str
    regime: Regime
    evidence: str
    currency: str
    repeated: bool  # whether the noise of measured rows was seen; that of single runs is assumed
    rows: tuple[ForecastRow, ...]
    unknown_beyond: int | None
    cheapest: Landmark
    fastest: Landmark
    knee: Landmark
    laws: tuple[LawRow, ...]

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
    """The best scale as things are known now, and whether another run could better it."""

    name: str
    currency: str
    best: int
    expected_cost: float
    expected_regret: float
    measure: int | None  # the scale to run next; null: stop
    because: str
    runs: tuple[RunWorth, ...]


def predict(study: Study, question: Question, nodes: Sequence[int] = ()) -> Forecast:
    """The curve of a study at its scales, at those asked for, and its landmarks."""
    question = with_scale_unit(study.scale_unit, question)
    return forecast_curve(fit_curve(study, question.center), study.name, question, nodes)


def forecast_ahead(study: Study, question: Question, times: Timings) -> Forecast | None:
    """The curve of a study in small steps up to four times its largest scale.

    Nothing where too few scales were measured to continue them.
    """
    if len(study.scales) < FEWEST_SCALES:
        return None
    question = with_scale_unit(study.scale_unit, question)
    last = study.scales[-1]
    steps = range(_STEPS_OF_A_DOUBLING * (REACH.bit_length() - 1) + 1)
    ahead = [round(last * 2 ** (step / _STEPS_OF_A_DOUBLING)) for step in steps]
    return forecast_curve(fit_curve(study, question.center, times), study.name, question, ahead)


def forecast_curve(
    curve: Curve, name: str, question: Question, nodes: Sequence[int] = ()
) -> Forecast:
    """Times, costs and landmarks of a curve at its scales and at those asked for."""
    grid = _grid(curve, least=question.needs.least_scale)
    shown = sorted({*curve.nodes, *(nodes or _doublings(curve))})
    price = _priced(question)
    costs = _costs(curve, grid, price, question, _DRAWS)
    cheapest = grid[np.argmin(costs, axis=1)]
    expected = _costs(curve, grid, price, question, 0)[0]
    share = {int(k): float(np.mean(cheapest == k)) for k in grid}
    points = dict(zip(shown, curve.points(shown), strict=True))
    base = points[curve.nodes[0]]
    assert base is not None
    low, high = (float(end) for end in np.quantile(cheapest, [0.1, 0.9]))
    return Forecast(
        name=name,
        regime=curve.regime,
        evidence=curve.evidence,
        currency=price.currency,
        repeated=curve.repeated,
        rows=tuple(
            _row(curve, at, point, base.seconds, price, question, share.get(at))
            for at, point in points.items()
        ),
        unknown_beyond=curve.unknown_beyond,
        cheapest=curve.landmark(int(grid[int(np.argmin(expected))]), low, high),
        fastest=curve.fastest(),
        knee=curve.knee(),
        laws=curve.laws() if curve.unknown_beyond is None else (),
    )


def advise(
    study: Study,
    question: Question,
    budget: float = math.inf,
    largest: int | None = None,
    share: float = 1.0,
) -> Advice:
    """Which K to measure next: the saving in expected regret for the money of each candidate.

    A candidate's run would show one of the times that are plausible there; for each group of them
    the choice is made anew, and the regret that is left is weighed by how likely the group is.
    `share` is that of the job which a timing run does; `largest` the most nodes there are.
    """
    question = with_scale_unit(study.scale_unit, question)
    curve = fit_curve(study, question.center)
    price = _priced(question)
    if largest is not None:  # nodes, each of which holds several of K
        largest *= scale_unit_of(ScaleUnit(), question).per_scale
    grid = _grid(curve, largest, question.needs.least_scale)
    expected_costs = _costs(curve, grid, price, question, 0)[0]
    inside = grid <= curve.nodes[-1]
    if expected_costs[inside][-1] > _MAX_COST_RATIO * expected_costs[inside].min():
        grid, expected_costs = grid[inside], expected_costs[inside]
    costs = _costs(curve, grid, price, question, _DRAWS)
    regret = costs - costs.min(axis=1, keepdims=True)
    # By the curve itself: draws around a scale between two runs would speak against it.
    best = int(np.argmin(expected_costs))
    now, expected = float(regret.mean(axis=0)[best]), float(costs[:, best].mean())
    runs = []
    columns = {int(k): column for column, k in enumerate(grid)}
    times = _plausible(curve, [int(k) for k in grid], _DRAWS)
    # Of single runs that are close to each other, the luckiest would be chosen.
    repeated = all(len(study.at(nodes)) > 1 for nodes in study.scales)
    for at in _ladder(grid, int(grid[best]) if repeated else None):
        seconds = times[:, columns[at]]
        mean, most = share * np.mean(seconds), share * np.quantile(seconds, 0.9)
        paid = _bill(price, question, np.array([at]), np.array([mean, most]), 0.0)
        if not paid[1] <= budget:  # a run that may take longer than the money lasts is not begun
            continue
        left, moved = _regret_after(regret, seconds, best)
        # A repeat halves the variance of what is known there; a first run tells nearly all.
        saved = now - left if now - left > 1e-9 * now else 0.0  # less is rounding
        saving = saved * (0.5 if at in curve.nodes else 1.0)
        runs.append(
            RunWorth(
                nodes=at,
                cost=float(paid[0]),
                saving=saving,
                saving_per_cost=saving / float(paid[0]) if paid[0] > 0 else 0.0,
                could_change=moved,
            )
        )
    ranked = tuple(sorted(runs, key=lambda run: -run.saving_per_cost))
    chosen, because = _beyond(ranked, int(grid[best]), curve.nodes) or _verdict(
        ranked, now, expected, budget
    )
    return Advice(
        name=study.name,
        currency=price.currency,
        best=int(grid[best]),
        expected_cost=expected,
        expected_regret=now,
        measure=chosen,
        because=because,
        runs=ranked,
    )


def _beyond(runs: Sequence[RunWorth], best: int, measured: Sequence[int]) -> tuple[int, str] | None:
    """A choice outside of what was measured is run before it is trusted."""
    if measured[0] <= best <= measured[-1]:
        return None
    outside = [run.nodes for run in runs if not measured[0] <= run.nodes <= measured[-1]]
    if not outside:
        return None
    near = min(outside, key=lambda nodes: abs(math.log(nodes / best)))
    return near, f"the best scale, K={best}, lies outside of what was measured: look there first"


def _verdict(
    runs: Sequence[RunWorth], regret: float, cost: float, budget: float
) -> tuple[int | None, str]:
    if regret <= _MIN_REGRET_SHARE * cost:
        more = format_percent(regret / cost if cost else 0.0)
        return None, (
            f"the choice is expected to cost {more} more than the "
            "best one, and no run can change that by much"
        )
    if not runs:
        return None, f"no run costs at most {budget:g}"
    top = runs[0]
    if top.saving <= 0.05 * regret:
        return None, "no single run would tell the candidates apart"
    return top.nodes, (
        f"it takes away {format_percent(top.saving / regret)} of the expected regret for the least "
        f"money, and moves the choice with a chance of {format_percent(top.could_change)}"
    )


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
    curve: Curve,
    at: int,
    point: Prediction | None,
    base: float,
    price: Price,
    question: Question,
    probability: float | None,
) -> ForecastRow:
    if point is None:
        nothing = dict.fromkeys(
            ("seconds", "low80", "high80", "low95", "high95", "speedup", "efficiency", "cost")
        )
        return ForecastRow(nodes=at, measured=False, probability_cheapest=None, **nothing)
    k = at / curve.nodes[0]
    speedup = base / point.seconds * (k if curve.regime == "weak" else 1.0)
    value = question.needs.value_per_hour
    paid = _bill(price, question, np.array([at]), np.array([point.seconds]), value)
    return ForecastRow(
        nodes=at,
        measured=point.measured,
        seconds=point.seconds,
        low80=point.low80,
        high80=point.high80,
        low95=point.low95,
        high95=point.high95,
        speedup=speedup,
        efficiency=speedup / k,
        cost=float(paid[0]),
        probability_cheapest=probability,
    )


def _grid(curve: Curve, largest: int | None = None, least: int | None = None) -> Floats:
    """The scales that a choice is made from: measured ones, and steps of a quarter octave.

    They begin at the least K that can run: as stated, else the smallest that did.
    """
    start, end = least or curve.nodes[0], min(curve.horizon, largest or curve.horizon)
    if end < max(start, curve.nodes[0]):
        raise DataError(
            f"At most K={end} is allowed, and the smallest that can run is "
            f"K={max(start, curve.nodes[0])}.",
            "Allow more.",
        )
    tried = np.geomspace(start, end, round(4 * math.log2(end / start)) + 1).round()
    return np.unique(np.append(tried, [k for k in curve.nodes if start <= k <= end]))


def _ladder(grid: Floats, best: int | None) -> list[int]:
    """Runs worth asking about: the doublings of one, and what looks best."""
    doublings = [2**step for step in range(24) if grid[0] <= 2**step <= grid[-1]]
    return sorted({*doublings, *([] if best is None else [best])})


def _doublings(curve: Curve) -> list[int]:
    largest = curve.nodes[-1]
    return [k for k in (2 * largest, 4 * largest) if k <= curve.horizon]


def _costs(curve: Curve, grid: Floats, price: Price, question: Question, count: int) -> Floats:
    """What the work of the first run costs at each scale: a row a draw; 0 draws: as expected."""
    asked = [int(k) for k in grid]
    if count:
        seconds = _plausible(curve, asked, count)
    else:
        points = curve.points(asked)
        seconds = np.array([[point.seconds if point else np.nan for point in points]])
    paid = _bill(price, question, grid, seconds, question.needs.value_per_hour)
    work = grid / grid[0] if curve.regime == "weak" else 1.0
    return np.nan_to_num(paid / work, nan=np.inf)


def _plausible(curve: Curve, nodes: list[int], count: int) -> Floats:
    """Draws within their 95 %: one curve in a hundred is so odd that it would rule every mean."""
    seconds = curve.draws(nodes, count)
    low, high = np.nanquantile(seconds, [0.025, 0.975], axis=0)
    return np.clip(seconds, low, high)


def _bill(
    price: Price, question: Question, scales: Floats, seconds: Floats, value_per_hour: float
) -> Floats:
    units = billed_units(scale_unit_of(ScaleUnit(), question), price.per, scales)
    rate = (price.per_node_hour or 0.0) * units
    return bill(price, rate, seconds, value_per_hour).total


def _priced(question: Question) -> Price:
    price = question.price
    if price.per_node_hour is not None:
        return price
    hours = scale_unit_of(ScaleUnit(), question).hours
    return msgspec.structs.replace(price, per_node_hour=1.0, currency=hours)
