"""T(K) at scales that were not run, and how sure that is.

The answer is the median of three continuations of the times: a law in which nothing grows (Amdahl;
for weak scaling the log2 law), one in which a cost grows with K (the Universal Scalability Law),
and the drifting exponent between them (`laws`). So a curve that bends is followed, and one odd
point cannot carry the answer beyond what the textbook laws allow. A law that meets all of at least
four points is taken as it is, and stage times, where they were recorded, replace the median by a
law for each stage.

How sure is measured on published curves. The spread of an answer is how far the laws stray from it
(the furthest counts apart, so that one law that differs is heard), plus a part of the bend of the
last points times the distance from the nearest measured scale, plus a floor for the noise of a run.
`FACTORS` says how many spreads away the truth lay, each family of curves with one vote.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import numpy as np

from nodewise.base.errors import DataError
from nodewise.base.stats import SEED, Center, Floats, quantiles, student_quantile
from nodewise.explain.predict.laws import (
    PLAIN_LAWS,
    Ladder,
    LawName,
    Part,
    Parts,
    PlainFit,
    PlainLaw,
    StageFit,
    drift,
    fit_plain,
    fit_stages,
    parameters,
    refit,
)
from nodewise.explain.scaling import Timings, timings
from nodewise.study.spec import Regime
from nodewise.study.study import Run, Study

# How many spreads away the truth lay in this share of published curves; made by
# `benchmarks/predict.py --calibrate` (148 curves of 19 families, quarter and half of the scales,
# each family one vote, so that a family never seen is held as often as one that was).
LEVELS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)
FACTORS = (0.0, 0.43, 1.37, 2.0, 2.67, 6.11)

FEWEST_SCALES = 3
REACH = 4  # times the largest measured scale: what the factors were learnt on
_FLOOR = 0.028  # three quarters of published repeats spread by less than 4 %, half by 0.7 %
_FREEDOM_OF_FLOOR = 4  # how much the usual noise of a run counts beside that of repeated runs
_MISSED = 1.5  # times the noise of a run: a law that misses times by more does not hold
_FURTHEST = 0.6  # weight of the law that strays the most, beside the mean of the others
_BEND = 0.25  # weight of the bend
_EXACT = 1e-3  # a law that meets four points this closely does not do so by chance
_FEWEST_EXACT = 4
_FITS = 0.05  # a law that misses the measured times by no more than this is plausible
_DIFFER = 1.25  # times between two plausible laws: more than most predictions are off
_SATURATED = 0.1  # exponent of the throughput over the last step: more load brings nothing
_APART = math.log(1.4)  # what a step is; scales closer than this say little about an exponent
_BENT = 5  # points that the bend is read from; what many scales did at the smallest ones is over
_STEP = math.log(2)  # of the grid on which the spread grows with the distance

_FLOOR_LAW: dict[Regime, PlainLaw] = {"strong": "amdahl", "weak": "log2"}


class Prediction(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The seconds at one scale; `measured` says whether they were, or are only expected."""

    nodes: int
    seconds: float
    low80: float
    high80: float
    low95: float
    high95: float
    measured: bool


class LawRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one law says about one scale, and its share of the answer there."""

    law: LawName
    seconds: float
    weight: float
    rms: float | None  # of what it misses at the measured scales, before it is carried through them


class PredictedLosses(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The parts of the time at a scale without a run, and what each takes beyond its ideal."""

    nodes: int
    seconds: dict[Part, float]
    lost: dict[Part, float]  # seconds beyond those of the first scale, scaled ideally

    @property
    def largest(self) -> tuple[Part, ...]:
        """The part that loses most, with those that the laws do not tell from it."""
        most = max(self.lost.values())
        alike = [part for part, lost in self.lost.items() if 0 < lost >= most / _DIFFER]
        return tuple(sorted(alike, key=lambda part: -self.lost[part]))


class Landmark(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """A scale with the 80 % bounds of where it may be instead."""

    nodes: int
    low: int
    high: int
    at_least: bool  # the curve was not followed further than this


class Curve:
    """T(K) at any K, with its uncertainty. Made by `fit_curve`."""

    def __init__(self, ladder: Ladder, freedom: int = 0, parts: Parts | None = None) -> None:
        """Fit the laws; `freedom` is that of the noise estimate, 0 where runs were not repeated."""
        if len(ladder.x) < FEWEST_SCALES:
            raise DataError(
                f"A prediction needs {FEWEST_SCALES} measured scales; there are {len(ladder.x)}.",
                "Add runs at another number of nodes.",
            )
        self.regime = ladder.regime
        self.nodes: tuple[int, ...] = tuple(round(float(k)) for k in ladder.nodes)
        self._ladder = ladder
        self._freedom = freedom
        self._plain: dict[PlainLaw, PlainFit] = {law: fit_plain(law, ladder) for law in PLAIN_LAWS}
        self._stages: StageFit | None = fit_stages(ladder, parts) if parts else None
        self._exact = self._exact_law()
        self._bend = _BEND * _bend(ladder)

    @property
    def evidence(self) -> Literal["stage times", "total times"]:
        """What the answer rests on."""
        return "stage times" if self._stages else "total times"

    @property
    def repeated(self) -> bool:
        """Whether runs were repeated, so that their noise is known."""
        return self._freedom > 0

    @property
    def unknown_beyond(self) -> int | None:
        """The scale beyond which nothing is claimed: where a growing load no longer brings more.

        What follows a saturation, a plateau or a collapse, is not written in the points before it.
        """
        x, y = self._ladder.x, self._ladder.y
        before = max(int(np.sum(x < x[-1] - _APART)) - 1, 0)
        gain = -(y[-1] - y[before]) / (x[-1] - x[before])
        saturated = self.regime == "weak" and gain < _SATURATED
        return self.nodes[-1] if saturated else None

    @property
    def horizon(self) -> int:
        """The largest scale that landmarks are looked for at."""
        return self.unknown_beyond or REACH * self.nodes[-1]

    def at(self, nodes: int) -> Prediction | None:
        """The seconds at one scale; nothing if they are unknown."""
        return self.points([nodes])[0]

    def points(self, nodes: Sequence[int]) -> tuple[Prediction | None, ...]:
        """The seconds at several scales, at the price of one."""
        answer, spread = self.log_times(np.array(nodes, dtype=np.float64))
        made: list[Prediction | None] = []
        for at, y, s in zip(nodes, answer, spread, strict=True):
            if self.unknown_beyond is not None and at > self.unknown_beyond:
                made.append(None)
                continue
            seconds = float(np.exp(y)) * (at if self.regime == "weak" else 1.0)
            bounds = {}
            for level in (80, 95):
                reach = self._reach(at, s, level / 100)
                bounds[f"low{level}"] = seconds * math.exp(-reach)
                bounds[f"high{level}"] = seconds * math.exp(reach)
            measured = at in self.nodes
            made.append(Prediction(nodes=at, seconds=seconds, measured=measured, **bounds))
        return tuple(made)

    def laws(self, nodes: int | None = None) -> tuple[LawRow, ...]:
        """What each law says about one scale (twice the largest), and which makes the answer."""
        at = nodes or 2 * self.nodes[-1]
        x = np.log(np.array([at], dtype=np.float64))
        everything = self._all_laws(x)
        answer = float(self._answer(everything)[0])
        said = {law: float(values[0]) for law, values in everything.items()}
        nearest = [law for law, y in said.items() if abs(y - answer) < 1e-9]
        grown = math.log(at) if self.regime == "weak" else 0.0
        return tuple(
            LawRow(
                law=law,
                seconds=math.exp(y + grown),
                weight=1 / len(nearest) if law in nearest else 0.0,
                rms=self._plain[law].rms if law in self._plain else None,
            )
            for law, y in said.items()
        )

    def losses(self, nodes: int) -> PredictedLosses | None:
        """What each part loses at a scale, by its own law; nothing without stage times."""
        if self._stages is None:
            return None
        first, there = (
            {part: float(seconds[0]) for part, seconds in self._stages.parts(np.log([k])).items()}
            for k in (self.nodes[0], nodes)
        )
        ideal = self.nodes[0] / nodes if self.regime == "strong" else 1.0
        lost = {part: seconds - ideal * first[part] for part, seconds in there.items()}
        return PredictedLosses(nodes=nodes, seconds=there, lost=lost)

    def rivals(self) -> tuple[LawRow, ...]:
        """The two laws furthest apart at twice the largest scale, where both fit and they differ.

        Total times cannot tell them apart; stage times, or a law that meets every point, can.
        """
        if self._stages or self._exact:
            return ()
        fitting = [row for row in self.laws() if row.rms is not None and row.rms <= _FITS]
        if not fitting:
            return ()
        ends = [pick(fitting, key=lambda row: row.seconds) for pick in (min, max)]
        return tuple(ends) if ends[1].seconds > _DIFFER * ends[0].seconds else ()

    def draws(self, nodes: Sequence[int], count: int, seed: int = SEED) -> Floats:
        """Plausible seconds: one row per draw, one column per scale; nan where they are unknown.

        Predicted scales of a draw err together, as a curve that bends more than expected does;
        measured ones err by themselves, by the noise of their runs.
        """
        generator = np.random.default_rng(seed)
        asked = np.array(nodes, dtype=np.float64)
        answer, spread = self.log_times(asked)
        shared = _errors(generator, (count, 1))
        own = _errors(generator, (count, len(nodes)))
        measured = np.isin(asked, self._ladder.nodes)
        if self._freedom:
            own = generator.standard_normal((count, len(nodes)))
        seconds = np.exp(answer + spread * np.where(measured, own, shared))
        if self.regime == "weak":
            seconds = seconds * asked
        if self.unknown_beyond is not None:
            seconds[:, asked > self.unknown_beyond] = np.nan
        return np.asarray(seconds)

    def refits(
        self, nodes: Sequence[int], rounds: Sequence[int], count: int, seed: int = SEED
    ) -> tuple[Floats, Floats] | None:
        """Seconds by the universal law, a row for each fit to times within their noise.

        `rounds` are the runs of each measured scale. The second array is the relative noise of one
        run in each row. Nothing if the law misses the measured times by more than noise would.
        """
        ladder, fit = self._ladder, self._plain["universal"]
        repeats = np.sqrt(np.array(rounds, dtype=np.float64))
        freedom = self._freedom + _FREEDOM_OF_FLOOR
        variance = self._freedom * float(np.mean((ladder.noise * repeats) ** 2))
        variance = (variance + _FREEDOM_OF_FLOOR * _FLOOR**2) / freedom
        if fit.rms > _MISSED * math.sqrt(variance):
            return None
        generator = np.random.default_rng(seed)
        noise = np.sqrt(variance * freedom / generator.chisquare(freedom, (count, 1)))
        off = noise / repeats * generator.standard_normal((count, len(ladder.nodes)))
        unit = refit("universal", ladder, ladder.y + off, repeats, np.log(nodes))
        return unit * (np.array(nodes) if self.regime == "weak" else 1.0), noise

    def fastest(self, count: int = 400) -> Landmark:
        """The K of the least time for the work, up to the `horizon`, with its bounds."""
        return self._landmark(lambda unit_seconds, _: unit_seconds, count)

    def knee(self, count: int = 400) -> Landmark:
        """The K of the largest speedup times efficiency, up to the `horizon`, with its bounds."""
        return self._landmark(lambda unit_seconds, nodes: unit_seconds**2 * nodes, count)

    def _landmark(self, cost: Callable[[Floats, Floats], Floats], count: int) -> Landmark:
        """Where a cost is least, for the answer and for draws of it."""
        steps = round(2 * math.log2(self.horizon / self.nodes[0])) + 1
        between = np.geomspace(self.nodes[0], self.horizon, steps).round().tolist()
        tried = np.array(sorted({*between, *self.nodes}), dtype=np.float64)
        grown = tried if self.regime == "weak" else 1.0
        answer, _ = self.log_times(tried)
        drawn = self.draws([int(k) for k in tried], count) / grown
        best = tried[np.argmin(cost(np.exp(answer), tried))]
        low, high = quantiles(tried[np.argmin(cost(drawn, tried), axis=1)], [0.1, 0.9])
        return self.landmark(int(best), low, high)

    def landmark(self, nodes: int, low: float, high: float) -> Landmark:
        """A scale within its bounds."""
        return Landmark(
            nodes=nodes,
            low=int(min(low, nodes)),
            high=math.ceil(max(high, nodes)),
            at_least=bool(max(high, nodes) >= self.horizon) and self.unknown_beyond is None,
        )

    def log_times(self, nodes: Floats) -> tuple[Floats, Floats]:
        """ln(seconds for a unit of work) and its spread; the measured value where there is one."""
        if np.min(nodes) <= 0:
            raise DataError(
                f"{np.min(nodes):g} nodes cannot run a job.", "Ask for one node or more."
            )
        x = np.log(nodes)
        beyond = float(np.max(x)) - float(self._ladder.x[-1])
        grid = self._ladder.x[-1] + _STEP * np.arange(1 + max(0, math.ceil(beyond / _STEP)))
        laws = self._all_laws(np.concatenate([x, grid]))
        answers = self._answer(laws)
        apart = np.sort([np.abs(said - answers) for said in laws.values()], axis=0)
        stray = np.mean(apart[:-1], axis=0) + _FURTHEST * apart[-1]
        distance = _distance(x, self._ladder.x)
        # Laws may cross further out; what is unknown there is not less than nearer by.
        further = np.interp(x, grid, np.maximum.accumulate(stray[len(x) :]))
        stray = np.where(x > self._ladder.x[-1], further, stray[: len(x)])
        where = np.abs(x[:, None] - self._ladder.x).argmin(axis=1)
        noise = self._ladder.noise[where]
        floor = np.hypot(_FLOOR, noise)
        measured = np.isin(nodes, self._ladder.nodes)
        spread = np.where(measured, noise if self._freedom else floor, 0.0)
        spread = np.where(measured, spread, floor + stray + self._bend * distance)
        return np.where(measured, self._ladder.y[where], answers[: len(x)]), spread

    def _all_laws(self, x: Floats) -> dict[LawName, Floats]:
        said: dict[LawName, Floats] = {law: fit.at(x) for law, fit in self._plain.items()}
        said["drift"] = drift(self._ladder, x)
        if self._stages:
            said["stages"] = self._stages.at(x)
        return said

    def _answer(self, laws: dict[LawName, Floats]) -> Floats:
        if "stages" in laws:
            return laws["stages"]
        if self._exact:
            return laws[self._exact]
        three = [laws[_FLOOR_LAW[self.regime]], laws["drift"], laws["universal"]]
        return np.asarray(np.median(three, axis=0))

    def _exact_law(self) -> PlainLaw | None:
        points = len(self._ladder.nodes)
        exact = [
            fit
            for law, fit in self._plain.items()
            if points >= max(_FEWEST_EXACT, parameters(law, self.regime) + 1)
            and np.max(np.abs(fit.residuals)) < _EXACT
        ]
        return min(exact, key=lambda fit: fit.rms).law if exact else None

    def _reach(self, nodes: int, spread: float, level: float) -> float:
        if self._freedom and nodes in self.nodes:
            return spread * student_quantile((1 + level) / 2, self._freedom)
        return spread * float(np.interp(level, LEVELS, FACTORS))


def fit_curve(study: Study, center: Center = "mean", times: Timings | None = None) -> Curve:
    """The curve of a study, with the noise of its rounds, and its stage times where it has them.

    `times` spares a second resampling where they are at hand.
    """
    ladder, freedom = measured_ladder(study, times or timings(study, center))
    return Curve(ladder, freedom, stage_parts(study))


def measured_ladder(study: Study, times: Timings) -> tuple[Ladder, int]:
    """The points of a study, and the degrees of freedom of their noise."""
    nodes = np.array(times.nodes, dtype=np.float64)
    grown = nodes if study.regime == "weak" else np.ones_like(nodes)
    noise, freedom = _noise([np.log(samples) for samples in times.samples])
    return Ladder(nodes, np.log(times.seconds / grown), noise, study.regime), freedom


def _distance(x: Floats, measured: Floats) -> Floats:
    """How far the data leave a scale alone, in ln K.

    Outside it is the way to the last run, along which the slope may turn. Between two runs the
    curve is held at both ends, so that only half the product of the two ways is left to it.
    """
    outside = np.maximum(measured[0] - x, x - measured[-1])
    right = np.clip(np.searchsorted(measured, x), 1, len(measured) - 1)
    between = np.abs((x - measured[right - 1]) * (measured[right] - x)) / 2
    return np.where(outside > 0, outside, between)


def _bend(ladder: Ladder) -> float:
    """How far the last points lie from one straight line on log-log paper."""
    x, y = ladder.x[-_BENT:], ladder.y[-_BENT:]
    x, y = x - x.mean(), y - y.mean()
    left = y - x * (x @ y) / (x @ x)
    return float(np.sqrt(left @ left / (len(x) - 2)))


def _noise(samples: Sequence[Floats]) -> tuple[Floats, int]:
    """Relative standard error at each scale by their common spread, and its degrees of freedom."""
    freedom = sum(len(logs) - 1 for logs in samples)
    if not freedom:
        return np.zeros(len(samples)), 0
    variance = sum(float(np.sum((logs - logs.mean()) ** 2)) for logs in samples) / freedom
    return np.array([math.sqrt(variance / len(logs)) for logs in samples]), freedom


def _errors(generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Spreads by which a prediction errs, up or down alike, as the published curves had it."""
    level = generator.uniform(-1, 1, shape)
    return np.sign(level) * np.interp(np.abs(level), LEVELS, FACTORS)


def stage_parts(study: Study) -> Parts | None:
    """The wall time of each scale cut into parts, where every run recorded its stages."""
    runs = [study.at(nodes) for nodes in study.scales]
    first = [run.ranks[0].stages if run.ranks else run.stages for at in runs for run in at]
    if not all({"compute", "communication"} <= stages.keys() for stages in first):
        return None
    cut = [[_parts_of(run) for run in scale] for scale in runs]
    return {
        part: np.array([np.mean([run[part] for run in scale]) for scale in cut])
        for part in cut[0][0]
    }


def _parts_of(run: Run) -> dict[Part, float]:
    """Compute and reading of the typical rank, the shortest transfer, serial work, the rest."""
    stages = [rank.stages for rank in run.ranks] or [run.stages]
    middle = (len(stages) - 1) // 2
    parts: dict[Part, float] = {
        "compute": sorted(one.get("compute", 0.0) for one in stages)[middle],
        "io": sorted(one.get("io", 0.0) for one in stages)[middle],
        "communication": min(one.get("communication", 0.0) for one in stages),
        "serial": max(one.get("serial", 0.0) for one in stages),
    }
    # Stages that overlap add up to more than the wall time; the rest is then below zero.
    parts["waiting"] = run.seconds - sum(parts.values())
    return parts
