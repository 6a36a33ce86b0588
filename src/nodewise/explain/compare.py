"""Studies side by side: two, such as before and after a fix, or several ways to run one job.

Speedups on a base of their own cannot be compared: an engine that is slow on one worker scales
well. So `line_up` measures every study against the quickest one on the smallest common scale. With
its seconds T0 there, k = K/K0 and seconds T at K, a study loses k - T0/T folds; overhead of o
seconds along its last rank is k * o / T of them.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from nodewise.base.errors import DataError
from nodewise.base.interval import LEVEL, Interval
from nodewise.base.stats import ENOUGH_ROUNDS, Center, ratio_interval
from nodewise.explain.attribute import attribute_timings
from nodewise.explain.causes import CauseName
from nodewise.explain.scaling import Scaling, Timings, scale_timings, timings
from nodewise.study.spec import Regime
from nodewise.study.study import Study

# Of the second against the first: nothing is said of what chance alone could give.
Difference = Literal["faster", "slower", "not told apart", "unknown"]


class ComparisonRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """One scale of both: the second's seconds over the first's, and what that means."""

    nodes: int
    first_seconds: float
    second_seconds: float
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    first_speedup: float
    second_speedup: float
    first_efficiency: float
    second_efficiency: float
    second_is: Difference


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two studies of one regime at the scales that both have."""

    first: str
    second: str
    regime: Regime
    interval: str
    rows: tuple[ComparisonRow, ...]
    only_first: tuple[int, ...]  # scales that the other lacks
    only_second: tuple[int, ...]
    first_scaling: Scaling
    second_scaling: Scaling


def compare(first: Study, second: Study, threshold: float, center: Center = "mean") -> Comparison:
    """The second study against the first at every common scale.

    The studies were made at different times, so their rounds are not paired.
    """
    if first.regime != second.regime:
        raise DataError(
            f"{first.name} is {first.regime} scaling and {second.name} is {second.regime} scaling.",
            "Compare two studies of one regime.",
        )
    shared = [nodes for nodes in first.scales if nodes in second.scales]
    if not shared:
        raise DataError(
            f"{first.name} and {second.name} have no scale in common.",
            "Measure both at the same K.",
        )
    times = timings(first, center), timings(second, center)
    scalings = (
        scale_timings(first, times[0], threshold),
        scale_timings(second, times[1], threshold),
    )
    rounds = min(len(samples) for one in times for samples in one.samples)
    name = f"range of {rounds} rounds" if rounds > 1 else "none: single runs"
    return Comparison(
        first=first.name,
        second=second.name,
        regime=first.regime,
        interval="95 %, rounds not paired" if rounds >= ENOUGH_ROUNDS else name,
        rows=tuple(_row(times, scalings, nodes, len(shared)) for nodes in shared),
        only_first=tuple(nodes for nodes in first.scales if nodes not in shared),
        only_second=tuple(nodes for nodes in second.scales if nodes not in shared),
        first_scaling=scalings[0],
        second_scaling=scalings[1],
    )


def _row(
    times: tuple[Timings, Timings], scalings: tuple[Scaling, Scaling], nodes: int, compared: int
) -> ComparisonRow:
    first, second = scalings[0].row(nodes), scalings[1].row(nodes)
    bounds = _ratio(times, nodes, LEVEL)
    # One verdict for each scale, so each is asked to be surer.
    return ComparisonRow(
        nodes=nodes,
        first_seconds=first.seconds,
        second_seconds=second.seconds,
        ratio=second.seconds / first.seconds,
        ratio_low=bounds.low if bounds else None,
        ratio_high=bounds.high if bounds else None,
        first_speedup=first.speedup,
        second_speedup=second.speedup,
        first_efficiency=first.efficiency,
        second_efficiency=second.efficiency,
        second_is=_difference(times, nodes, 1 - (1 - LEVEL) / compared),
    )


def _ratio(times: tuple[Timings, Timings], nodes: int, level: float) -> Interval | None:
    """Bounds of the second's seconds over the first's; a range below six rounds."""
    first, second = (one.samples[one.nodes.index(nodes)] for one in times)
    fewest = min(len(first), len(second))
    if fewest < 2:
        return None
    if fewest < ENOUGH_ROUNDS:
        return Interval(float(second.min() / first.max()), float(second.max() / first.min()))
    return ratio_interval(second, first, paired=False, level=level)


def _difference(times: tuple[Timings, Timings], nodes: int, level: float) -> Difference:
    bounds = _ratio(times, nodes, level)
    if bounds is None or min(len(one.samples[one.nodes.index(nodes)]) for one in times) < (
        ENOUGH_ROUNDS
    ):
        return "unknown"
    return "faster" if bounds.high < 1 else "slower" if bounds.low > 1 else "not told apart"


class LineupRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """One study at one scale, against the common base."""

    nodes: int
    study: str
    seconds: float
    speedup: float
    lost_folds: float
    overhead_seconds: float | None  # of the engine; null where it was not recorded
    overhead_folds: float | None
    next_cause: CauseName | None  # the largest of the others in the study's own ledger
    next_folds: float | None


class Lineup(msgspec.Struct, frozen=True, kw_only=True, rename={"base_nodes": "base_K"}):
    """Studies of one job at the scales that all of them have, quickest first at each."""

    regime: Regime
    base: str  # the study that is quickest on the smallest scale
    base_nodes: int
    base_seconds: float
    entries: tuple[LineupRow, ...]
    left_out: tuple[int, ...]  # scales that not all of them have


def line_up(studies: Sequence[Study], threshold: float, center: Center = "mean") -> Lineup:
    """Put studies of one job side by side."""
    if len({study.regime for study in studies}) > 1:
        raise DataError("The studies have different regimes.", "Compare strong with strong.")
    if studies[0].regime == "weak":
        raise DataError(
            "Several studies of weak scaling cannot share a base.", "Compare two at a time."
        )
    scales = sorted(set.intersection(*(set(study.scales) for study in studies)))
    if not scales:
        raise DataError("The studies have no scale in common.", "Measure one K in all of them.")
    seconds = [dict(zip((t := timings(s, center)).nodes, t.seconds, strict=True)) for s in studies]
    first = min(range(len(studies)), key=lambda at: seconds[at][scales[0]])
    base = float(seconds[first][scales[0]])
    entries = [
        entry
        for study, times in zip(studies, seconds, strict=True)
        for entry in _lineup(study, {k: float(times[k]) for k in scales}, base, threshold, center)
    ]
    entries.sort(key=lambda entry: (entry.nodes, entry.seconds))
    everywhere = {nodes for study in studies for nodes in study.scales}
    return Lineup(
        regime=studies[0].regime,
        base=studies[first].name,
        base_nodes=scales[0],
        base_seconds=base,
        entries=tuple(entries),
        left_out=tuple(sorted(everywhere - set(scales))),
    )


def _lineup(
    study: Study, seconds: dict[int, float], base: float, threshold: float, center: Center
) -> list[LineupRow]:
    times = timings(study, center)
    ledger = attribute_timings(study, times, scale_timings(study, times, threshold))
    smallest = min(seconds)
    entries = []
    for nodes, wall in seconds.items():
        k = nodes / smallest
        row = ledger.row(nodes)
        overhead = _overhead(study, nodes, row.late_rank or 0)
        others = [loss for loss in row.causes if loss.cause != "engine overhead"]
        largest = others[0] if others and others[0].folds > 0 else None
        entries.append(
            LineupRow(
                nodes=nodes,
                study=study.name,
                seconds=wall,
                speedup=base / wall,
                lost_folds=k - base / wall,
                overhead_seconds=overhead,
                overhead_folds=None if overhead is None else k * overhead / wall,
                next_cause=largest.cause if largest else None,
                next_folds=largest.folds if largest else None,
            )
        )
    return entries


def _overhead(study: Study, nodes: int, late: int) -> float | None:
    """Mean seconds that the engine took from the rank that was last, or from all in a total."""
    recorded = []
    for run in study.at(nodes):
        of_rank = {rank.rank: rank.stages for rank in run.ranks}
        recorded.append(of_rank.get(late, run.stages).get("overhead"))
    known = [seconds for seconds in recorded if seconds is not None]
    return sum(known) / len(known) if len(known) == len(recorded) else None
