"""From a study's seconds to speedup, efficiency, the bend, the knee and the fitted laws."""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.base import stats
from nodewise.base.errors import DataError
from nodewise.base.fits import nonnegative_fit
from nodewise.base.interval import LEVEL, Interval, median_interval
from nodewise.base.stats import ENOUGH_ROUNDS, Center, Floats, median, quantiles, resample, std
from nodewise.base.units import format_percent
from nodewise.explain.baseline import Detection, Points, points_of, slow_baseline
from nodewise.explain.devices import device_checks
from nodewise.explain.fidelity import fidelity_checks
from nodewise.explain.laws import (
    LAW_ERROR,
    LawFit,
    Laws,
    amdahl_scale_at_efficiency,
    cannot_tell,
    fit_laws,
    karp_flatt,
    terms,
)
from nodewise.explain.validity import ENOUGH_TO_TRUST, validity_checks
from nodewise.study.check import Check, Effect, warning
from nodewise.study.spec import Regime
from nodewise.study.study import OBSERVED, RECORD, Study

THRESHOLD = 0.70  # of the efficiency; below it the curve has bent
JOB_RECORDS = "job records, observed and not measured"
_MEAN_OFF = 0.05  # of the median
_RECORDED_CALL_SECONDS = 110e-9  # beyond the bare MPI call, at most (mpi_overhead.py)
_MUCH_RECORDING = 0.02  # share of a run
_SINGLE_RUN_NOISE = 0.05  # assumed: three quarters of published repeats spread by less than 4 %
_SINGLE_RUN_FREEDOM = 10
_MEDIAN_FACTOR = 1.2533  # the error of a median over that of a mean, normal noise
_LAW_HOLDS = 0.03  # root mean square miss of a law that may predict


class ScalingRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """What one scale reached. Bounds are null if a single run gives none."""

    nodes: int
    rounds: int  # successful runs
    seconds: float  # mean or median
    std: float | None  # standard deviation of the runs
    seconds_low: float | None  # bounds of the median
    seconds_high: float | None
    speedup: float  # over the base
    speedup_low: float | None
    speedup_high: float | None
    efficiency: float  # speedup over ideal speedup
    efficiency_low: float | None
    efficiency_high: float | None
    karp_flatt: float | None  # serial share by Karp and Flatt
    faster: bool | None  # than the base, adjusted for all comparisons; null: not distinguishable


class Bend(msgspec.Struct, frozen=True, kw_only=True):
    """Where efficiency falls below the threshold, and how likely it does there."""

    threshold: float  # of the efficiency
    first_below: int | None  # the first K below the threshold
    last_above: int | None  # the last K at or above it
    shares: dict[str, float]  # probability of each K, or "none", to be the first below


class EfficiencyFalls(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """Where Amdahl's law brings the efficiency down to a value; predicted, not measured."""

    efficiency: float
    nodes: float


class Knee(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The K of the largest S*E on the fit of the measured times, with 95 % bounds where known."""

    nodes: int
    low: int | None
    high: int | None


class Scaling(msgspec.Struct, frozen=True, kw_only=True, rename={"base_nodes": "base_K"}):
    """The scaling table of a study with its landmarks and laws."""

    name: str
    regime: Regime
    center: Center
    base_nodes: int  # the smallest measured K
    interval: str  # what the bounds are
    rows: tuple[ScalingRow, ...]
    bend: Bend
    knee: int | None  # K with the largest speedup x efficiency
    knee_low: int | None
    knee_high: int | None
    fastest: int  # K with the largest speedup
    efficiency_falls: EfficiencyFalls | None  # with --at-efficiency
    laws: Laws
    cannot_tell: str  # what the data cannot distinguish
    checks: tuple[Check, ...]
    base_work: float | None = None  # of a run at the base, if only the throughput is known

    def per_second(self, row: ScalingRow) -> float:
        """Units of work a second at a scale."""
        grown = row.nodes / self.base_nodes if self.regime == "weak" else 1.0
        return (self.base_work or 1.0) * grown / row.seconds

    def row(self, nodes: int) -> ScalingRow:
        """The row of one scale."""
        return next(row for row in self.rows if row.nodes == nodes)


class Timings(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The seconds of a study as arrays: what every later computation starts from."""

    nodes: tuple[int, ...]
    k: Floats  # nodes over the smallest measured scale
    samples: tuple[Floats, ...]
    seconds: Floats  # the centre at each scale
    draws: Floats | None  # centres of resampled rounds: one row per draw, one column per scale
    regime: Regime
    rounds: int  # the fewest of a scale that was repeated
    round_numbers: tuple[NDArray[np.int64], ...]  # of the samples
    plausible: Floats | None  # centres that the runs allow; shares of them are probabilities
    paired: bool
    center: Center

    def speedup(self, seconds: Floats) -> Floats:
        """Speedup over the base: T0/T for a fixed job, k*T0/T when the job grows with k."""
        grown = self.k if self.regime == "weak" else 1.0
        return np.asarray(grown * seconds[..., :1] / seconds)

    def efficiency(self, seconds: Floats) -> Floats:
        """Speedup over k."""
        return self.speedup(seconds) / self.k

    def speedup_interval(self, position: int, level: float = LEVEL) -> Interval | None:
        """Of the speedup of one scale; below six rounds the range of what the rounds gave."""
        base, here = self.samples[0], self.samples[position]
        fewest = min(len(base), len(here))
        if self.draws is None or fewest < 2:
            return None
        if position == 0:
            return Interval(1.0, 1.0)
        grown = float(self.k[position]) if self.regime == "weak" else 1.0
        paired = np.array_equal(self.round_numbers[0], self.round_numbers[position])
        if fewest < ENOUGH_ROUNDS:
            if paired:
                ratios = grown * base / here
                return Interval(float(ratios.min()), float(ratios.max()))
            low, high = base.min() / here.max(), base.max() / here.min()
            return Interval(grown * float(low), grown * float(high))
        if self.center == "median":
            return stats.percentile_interval(self.speedup(self.draws)[:, position], fewest, level)
        low, high = stats.ratio_interval(base, here, paired, level)
        return Interval(grown * low, grown * high)

    @property
    def noise(self) -> Floats | None:
        """Plausible centres over the measured ones: one row per draw."""
        return None if self.plausible is None else self.plausible / self.seconds

    @cached_property
    def margins(self) -> Floats | None:
        """How far each ratio of two times may be off; see `stats.margins_of`."""
        return stats.margins_of(self.samples, self.round_numbers)

    @property
    def joint_margins(self) -> Floats | None:
        """The margins where all scales are compared with one."""
        return stats.margins_of(self.samples, self.round_numbers, joint=True)

    @cached_property
    def points(self) -> Points:
        """The curve with the noise of each point, as the tests of the base take it."""
        return points_of(self.nodes, self.samples, self.regime)

    @cached_property
    def slow_baseline(self) -> Detection:
        """Whether the base is slower than the rest of the curve implies."""
        return slow_baseline(self.points)

    @property
    def fitted_base_seconds(self) -> float | None:
        """What the law of the other scales implies at the base, where that is clearly slower."""
        slow = self.slow_baseline
        if not slow.seen or slow.size is None or slow.high is None:  # a bound is not a fit
            return None
        return float(self.seconds[0]) / slow.size

    def bounds(self) -> tuple[Floats, Floats] | None:
        """Bounds of the centre at each scale: of resamples, or the range of fewer than six runs."""
        if self.draws is None:
            return None
        intervals = [
            stats.percentile_interval(column, len(samples))
            if len(samples) >= ENOUGH_ROUNDS
            else Interval(float(samples.min()), float(samples.max()))
            for column, samples in zip(self.draws.T, self.samples, strict=True)
        ]
        # what ran once has no bounds
        known = [len(samples) > 1 for samples in self.samples]
        lows = [i.low if ok else np.nan for i, ok in zip(intervals, known, strict=True)]
        highs = [i.high if ok else np.nan for i, ok in zip(intervals, known, strict=True)]
        return np.array(lows), np.array(highs)


def timings(study: Study, center: Center = "mean") -> Timings:
    """The seconds of a study by scale, with their resamples."""
    nodes = study.scales
    if len(nodes) < 2:
        failed = [run for run in study.runs if run.outcome != "ok" and run.nodes not in nodes]
        if failed:
            from nodewise.study.telling_lines import failures, remedy

            raise DataError(
                f"Only K={nodes[0]} worked, and scaling needs two scales. {failures(failed)}.",
                f"{remedy(failed)}, delete the study, and measure again.",
            )
        raise DataError(
            f"Only one scale, K={nodes[0]}; scaling needs two or more.",
            "Add runs at another number of nodes.",
        )
    samples = tuple(np.array([run.seconds for run in study.at(count)]) for count in nodes)
    numbers = tuple(np.array([run.round for run in study.at(count)]) for count in nodes)
    repeated = [len(values) for values in samples if len(values) > 1]
    return Timings(
        nodes=nodes,
        k=np.array(nodes, dtype=np.float64) / nodes[0],
        samples=samples,
        seconds=np.array([stats.center_of(values, center) for values in samples]),
        draws=resample(samples, study.paired, center),
        regime=study.regime,
        rounds=min(repeated, default=1),
        round_numbers=numbers,
        plausible=stats.plausible_centers(samples, numbers, center),
        paired=study.paired,
        center=center,
    )


def scale(
    study: Study,
    threshold: float = THRESHOLD,
    center: Center = "mean",
    at_efficiency: float = 0.5,
) -> Scaling:
    """The scaling table, the bend, the knee, the fastest scale and the laws of a study.

    `at_efficiency` asks where Amdahl's law brings the efficiency down to that value.
    """
    return scale_timings(study, timings(study, center), threshold, at_efficiency)


def scale_timings(
    study: Study, times: Timings, threshold: float = THRESHOLD, at_efficiency: float = 0.5
) -> Scaling:
    """The scaling table of timings that are already computed."""
    knee = knee_of(times)
    laws = fit_laws(times.k, times.seconds, times.draws, times.regime, times.rounds)
    errors, freedom = relative_errors(times)
    error = float(np.sqrt((errors**2).mean()))
    return Scaling(
        name=study.name,
        regime=study.regime,
        center=times.center,
        base_nodes=times.nodes[0],
        interval=_interval_name(times),
        rows=_rows(times),
        bend=_bend(times, threshold),
        knee=knee.nodes if knee else None,
        knee_low=knee.low if knee else None,
        knee_high=knee.high if knee else None,
        efficiency_falls=_efficiency_falls(times, laws, at_efficiency),
        fastest=times.nodes[
            fastest_among(
                times.nodes,
                times.speedup(times.seconds),
                times.margins,
            )
        ],
        laws=laws,
        cannot_tell=cannot_tell(times.k, laws, times.regime, error, freedom),
        checks=measurement_checks(study, times),
        base_work=study.at(times.nodes[0])[0].work if study.is_rate else None,
    )


def relative_errors(times: Timings) -> tuple[Floats, int]:
    """The relative error of the centre at each scale, and the degrees of freedom it is known by.

    A scale is taken to be at least as noisy as all are on average: two or three rounds that happen
    to agree prove nothing.
    """
    spreads = np.array([
        float(np.std(one, ddof=1) / np.mean(one)) if len(one) > 1 else 0.0 for one in times.samples
    ])  # fmt: skip
    rounds = np.array([len(one) for one in times.samples])
    freedom = int((rounds - 1).sum())
    pooled = _SINGLE_RUN_NOISE
    if freedom:
        pooled = math.sqrt(float((spreads**2 * (rounds - 1)).sum()) / freedom)
    factor = _MEDIAN_FACTOR if times.center == "median" else 1.0
    errors = factor * np.maximum(spreads, pooled) / np.sqrt(rounds)
    return np.hypot(errors, LAW_ERROR), freedom or _SINGLE_RUN_FREEDOM


def speedup_is_known(study: Study, within: float, level: float = 0.99) -> bool:
    """Whether the speedup of every scale is known within a share of it.

    Asked after each round, so at 99 %: stopping on the 95 % interval would make it too narrow.
    """
    if len(study.scales) < 2 or study.rounds < ENOUGH_ROUNDS:
        return False
    times = timings(study)
    for position, speedup in enumerate(times.speedup(times.seconds)):
        bounds = times.speedup_interval(position, level)
        if bounds is None or (bounds.high - bounds.low) / 2 > within * float(speedup):
            return False
    return True


def _interval_name(times: Timings) -> str:
    counts = [len(samples) for samples in times.samples]
    if max(counts) < 2:
        return "none (single runs)"
    if min(counts) < ENOUGH_ROUNDS <= max(counts):
        return f"95 % with {ENOUGH_ROUNDS} rounds or more, the range with fewer"
    if times.rounds < ENOUGH_ROUNDS:
        return f"range of {times.rounds} rounds"
    if times.center == "median":
        return "95 %, resampled rounds" if times.paired else "95 %, resampled unpaired runs"
    return "95 %, paired rounds" if times.paired else "95 %, unpaired runs"


def _rows(times: Timings) -> tuple[ScalingRow, ...]:
    speedups = times.speedup(times.seconds)
    rows = []
    for position, (nodes, samples) in enumerate(zip(times.nodes, times.samples, strict=True)):
        speedup = float(speedups[position])
        k = float(times.k[position])
        bounds = times.speedup_interval(position)
        spread = median_interval(samples) if len(samples) > 1 else None
        rows.append(
            ScalingRow(
                nodes=nodes,
                rounds=len(samples),
                seconds=float(times.seconds[position]),
                std=std(samples),
                seconds_low=spread.low if spread else None,
                seconds_high=spread.high if spread else None,
                speedup=speedup,
                speedup_low=bounds.low if bounds else None,
                speedup_high=bounds.high if bounds else None,
                efficiency=speedup / k,
                efficiency_low=bounds.low / k if bounds else None,
                efficiency_high=bounds.high / k if bounds else None,
                karp_flatt=karp_flatt(speedup, k)
                if position and times.regime == "strong"
                else None,
                faster=_is_faster(times, position),
            )
        )
    return tuple(rows)


def _is_faster(times: Timings, position: int) -> bool | None:
    """Whether a scale is faster than the base, where the interval says so.

    A study makes one comparison for each scale, so each is asked to be surer than 95 %.
    """
    comparisons = len(times.nodes) - 1
    bounds = times.speedup_interval(position, 1 - (1 - LEVEL) / comparisons)
    if position == 0 or _rounds_with_base(times, position) < ENOUGH_ROUNDS or bounds is None:
        return None
    return True if bounds.low > 1 else False if bounds.high < 1 else None


def _rounds_with_base(times: Timings, position: int) -> int:
    return min(len(times.samples[0]), len(times.samples[position]))


def fastest_among(nodes: Sequence[int], speed: Floats, margins: Floats | None) -> int:
    """The position of the fewest nodes that cannot be distinguished from the fastest.

    Without `margins` (see `stats.margins_of`) the figures decide as they are.
    """
    best = int(np.argmax(speed))
    if margins is None:
        return best
    alike = np.log(speed[best] / speed) <= margins[:, best]
    return min((int(at) for at in np.flatnonzero(alike)), key=lambda at: nodes[at])


def _bend(times: Timings, threshold: float) -> Bend:
    def first_below(seconds: Floats) -> Floats:
        """Position of the first scale below, or -1, for each row."""
        below = times.efficiency(seconds) < threshold
        return np.where(below.any(axis=1), below.argmax(axis=1), -1)

    position = int(first_below(times.seconds[None, :])[0])
    above = np.flatnonzero(times.efficiency(times.seconds) >= threshold)
    shares: dict[str, float] = {}
    if times.plausible is not None:
        found, counts = np.unique(first_below(times.plausible), return_counts=True)
        total = len(times.plausible)
        shares = {
            str(times.nodes[int(where)]) if where >= 0 else "none": float(count / total)
            for where, count in zip(found, counts, strict=True)
        }
    return Bend(
        threshold=threshold,
        first_below=times.nodes[position] if position >= 0 else None,
        last_above=times.nodes[int(above[-1])] if len(above) else None,
        shares=shares,
    )


def knee_of(times: Timings) -> Knee | None:
    """The K of the largest S*E on a smooth fit, inside the measured range, with its bounds.

    On the fit, because on raw points a noise of 2 % moves it to another scale in every tenth study.
    A knee at the largest measured scale does not count: the curve has not turned yet.
    """
    if len(times.nodes) < 3:
        return None
    rising = np.geomspace(times.nodes[0], times.nodes[-1], 400).round()
    grid = rising[np.diff(rising, prepend=0.0) > 0]  # np.unique would import numpy.ma
    k = grid / times.nodes[0]
    columns = terms(times.k, times.regime, "log2", "linear")
    fine_columns = terms(k, times.regime, "log2", "linear")

    def knees(seconds: Floats) -> Floats:
        fitted = nonnegative_fit(columns, seconds, 1 / times.seconds) @ fine_columns.T
        fitted = np.maximum(fitted, 1e-12 * times.seconds.min())
        # S*E is T0^2 / (k*T^2) for a fixed job and k*T0^2 / T^2 when the job grows with k
        power = k / fitted**2 if times.regime == "weak" else 1 / (k * fitted**2)
        return np.asarray(grid[np.argmax(power, axis=1)])

    knee = int(knees(times.seconds[None, :])[0])
    if knee == times.nodes[-1]:
        return None
    if times.plausible is None:
        return Knee(nodes=knee, low=None, high=None)
    low, high = quantiles(knees(times.plausible), [0.025, 0.975])
    return Knee(nodes=knee, low=round(min(float(low), knee)), high=round(max(float(high), knee)))


def _efficiency_falls(times: Timings, laws: Laws, efficiency: float) -> EfficiencyFalls | None:
    if laws.amdahl is None or not laws.amdahl.s or laws.amdahl.s >= 1 or efficiency <= 0:
        return None
    k = amdahl_scale_at_efficiency(laws.amdahl.s, efficiency)
    if k is None or not _amdahl_holds(times, laws.amdahl):
        return None
    return EfficiencyFalls(efficiency=efficiency, nodes=k * times.nodes[0])


def _amdahl_holds(times: Timings, fit: LawFit) -> bool:
    """Whether the law misses the points by a few per cent at most, or by no more than the noise."""
    noise = [float(np.std(one, ddof=1) / np.mean(one)) for one in times.samples if len(one) > 1]
    spread = float(np.sqrt(np.mean(np.square(noise)) / times.rounds)) if noise else 0.0
    return fit.rms <= max(_LAW_HOLDS, spread)


def measurement_checks(study: Study, times: Timings) -> tuple[Check, ...]:
    """What a reader must know before trusting the table; each with its remedy."""
    return tuple(_checks(study, times))


def _checks(study: Study, times: Timings) -> Iterator[Check]:
    for note in study.notes:
        yield warning("input", note.rstrip("."))
    if times.nodes[0] != 1:
        yield warning(
            "T(1) baseline",
            f"no run at K=1: speedup and efficiency are relative to K={times.nodes[0]}, and "
            "losses below it are unknown",
            "Measure K=1 to see it.",
            key="baseline",
        )
    yield from _checks_of_runs(study)
    yield from validity_checks(study, times)
    yield from _checks_of_rounds(study, times)


def _checks_of_rounds(study: Study, times: Timings) -> Iterator[Check]:
    """Checks of the number and the spread of the repeats."""
    repeats = "repeats and spread"
    singles = [nodes for nodes in times.nodes if len(study.at(nodes)) == 1]
    if singles:
        where = "" if len(singles) == len(times.nodes) else f" at K={_listed(singles)}"
        evidence = f"single runs{where}, no error bars"
        remedy = "Run each scale seven times or more."
        yield warning(repeats, evidence, remedy, key="repeats", makes="doubtful")
    elif study.rounds < ENOUGH_ROUNDS:
        evidence = f"{study.rounds} rounds give a range, not a confidence interval"
        remedy = f"Measure {ENOUGH_ROUNDS} rounds or more."
        makes: Effect | None = "doubtful" if study.rounds < ENOUGH_TO_TRUST else None
        yield warning(repeats, evidence, remedy, key="repeats", makes=makes)
    if study.rounds >= 2 and not study.paired:
        yield warning(
            "scales in every round",
            "the scales were not run in the same rounds, so ratios carry the noise of both",
            "Number the rounds in a column rep and run every K in each.",
        )
    alike = [
        nodes
        for position, nodes in enumerate(times.nodes)
        if position
        and _rounds_with_base(times, position) >= ENOUGH_ROUNDS
        and _is_faster(times, position) is None
    ]
    if alike:
        yield warning(
            "gains against noise",
            f"K={_listed(alike)} cannot be distinguished from K={times.nodes[0]} by these rounds",
            "Measure more rounds, or report no gain.",
            key="significant",
        )
    for nodes, samples in zip(times.nodes, times.samples, strict=True):
        gap = float(np.mean(samples) / median(samples) - 1)
        if times.center == "mean" and len(samples) > 2 and abs(gap) > _MEAN_OFF:
            yield warning(
                "mean of the runs",
                f"at K={nodes} the mean lies {format_percent(abs(gap))} "
                f"{'above' if gap > 0 else 'below'} the median",
                "Try nodewise decide with --center median.",
            )
            break


def _checks_of_runs(study: Study) -> Iterator[Check]:
    """Doubts from the runs themselves."""
    if study.base_is_baseline:
        ones = [r.seconds for r in study.runs if r.nodes == 1 and not r.baseline]
        yield Check(
            rule="T(1) baseline",
            verdict="pass",
            evidence="K=1 is the single-worker program; the distributed code on one worker "
            f"takes {sum(ones) / len(ones):.4g} s, and speedup against that would look better",
            key="baseline",
        )
    yield from fidelity_checks(study)
    yield from device_checks(study)
    yield from _recording_checks(study)
    if any(run.provenance.get(OBSERVED) for run in study.runs):
        yield warning(
            "comparable runs",
            f"{JOB_RECORDS}: {_confounders(study)}",
            "Measure the scales with the same input, nodes and settings.",
            makes="doubtful",
        )


def _recording_checks(study: Study) -> Iterator[Check]:
    """Whether a rank makes so many MPI calls that recording them takes long."""
    costs = [
        (_RECORDED_CALL_SECONDS * calls / run.seconds, run.nodes)
        for run in study.runs
        if run.outcome == "ok"
        for calls in (sum(one.calls for one in rank.mpi.classes.values())
                      for rank in run.ranks if rank.mpi is not None)
    ]  # fmt: skip
    cost, nodes = max(costs, default=(0.0, 0))
    if cost > _MUCH_RECORDING:
        yield warning(
            "cost of recording",
            f"recording the MPI calls takes up to {format_percent(cost)} of a run at K={nodes}",
            "Compare the times with those of record = false under [engine.mpi].",
        )


def _confounders(study: Study) -> str:
    """What changed between job records beside K."""
    records = [run.provenance for run in study.runs if run.provenance.get(OBSERVED)]
    names = dict.fromkeys(name for one in records for name in one if name.startswith(RECORD))
    changed = [
        name.removeprefix(RECORD)
        for name in names
        if len({str(one.get(name, "")) for one in records}) > 1
    ]
    known = f"{', '.join(changed)} changed with K" if changed else "no recorded field changed"
    return f"{known}; input, settings and other load on the machine are not recorded"


def _listed(scales: Sequence[int]) -> str:
    return ", ".join(map(str, scales))
