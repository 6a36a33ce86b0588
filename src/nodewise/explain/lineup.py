"""Several ways to run one job, on one base: what each engine's own overhead costs, in folds.

Speedups on a base of their own cannot be compared: an engine that is slow on one worker scales
well. Here every study is measured against the quickest one on the smallest common scale. With its
seconds T0 there, k = K/K0 and seconds T at K, a study loses k - T0/T folds; overhead of o seconds
along its last rank is k * o / T of them.
"""

from collections.abc import Sequence

import msgspec

from nodewise.base.errors import DataError
from nodewise.base.stats import Center
from nodewise.explain.attribute import attribute_timings
from nodewise.explain.causes import CauseName
from nodewise.explain.scaling import scale_timings, timings
from nodewise.study.spec import Regime
from nodewise.study.study import Study


class Entry(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
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
    entries: tuple[Entry, ...]
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
        for entry in _entries(study, {k: float(times[k]) for k in scales}, base, threshold, center)
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


def _entries(
    study: Study, seconds: dict[int, float], base: float, threshold: float, center: Center
) -> list[Entry]:
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
            Entry(
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
