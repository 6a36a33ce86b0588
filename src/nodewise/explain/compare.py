"""Studies side by side: two, such as before and after a fix, or several ways to run one job.

Speedups with different bases cannot be compared: a program that is slow on one worker scales
well. So
`compare` takes only the scales that both studies have, and their smallest is the base of both.
`line_up` measures every study against the quickest one on the smallest common scale. With its
seconds T0 there, k = K/K0 and seconds T at K, a study loses k - T0/T in speedup; overhead of o s
along its last rank is k * o / T of them.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from nodewise.base.errors import DataError
from nodewise.base.interval import LEVEL, Interval
from nodewise.base.stats import ENOUGH_ROUNDS, Center, Floats, center_of, ratio_interval
from nodewise.explain.attribute import (
    Attribution,
    LedgerRow,
    Loss,
    attribute_timings,
)
from nodewise.explain.causes import CAUSES, CauseName
from nodewise.explain.scaling import Scaling, measurement_checks, scale_timings, timings
from nodewise.study.check import Validity, validity_of
from nodewise.study.scale_unit import ScaleUnit, plural
from nodewise.study.spec import Regime
from nodewise.study.study import Study
from nodewise.study.workload import SAME_WORK

# Of the second against the first: nothing is said of what chance alone could give.
Difference = Literal["faster", "slower", "not distinguishable", "unknown"]
LossDifference = Literal["more", "less", "not distinguishable", "unknown"]
_LEAST_FOLDS = 0.005  # what rounding shows as nothing


class ComparisonRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """One scale of both: the second's seconds over the first's, and what that means."""

    nodes: int
    first_seconds: float
    second_seconds: float
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    first_speedup: float  # over the common base
    second_speedup: float
    first_efficiency: float
    second_efficiency: float
    second_is: Difference


class CauseDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Speedup lost to one cause in both studies; null: not recorded."""

    cause: CauseName
    first_folds: float | None
    second_folds: float | None
    second_loses: LossDifference


class LedgerDifference(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The ledgers of both studies at one scale; the largest difference first."""

    nodes: int
    first_lost: float
    second_lost: float
    causes: tuple[CauseDifference, ...]


class Comparison(msgspec.Struct, frozen=True, kw_only=True, rename={"base_nodes": "base_K"}):
    """Two studies of one regime at the scales that both have."""

    first: str
    second: str
    regime: Regime
    base_nodes: int  # the smallest common scale
    interval: str
    rows: tuple[ComparisonRow, ...]
    only_first: tuple[int, ...]  # scales that the other lacks
    only_second: tuple[int, ...]
    first_scaling: Scaling | None  # at the common scales; null if there is only one
    second_scaling: Scaling | None
    ledger: tuple[LedgerDifference, ...]
    ledger_at: int | None  # the scale of it to show
    ledger_note: str  # the evidence, or why the ledgers cannot be compared
    first_validity: Validity
    second_validity: Validity
    notes: tuple[str, ...] = ()


def common_scales(first: Study, second: Study) -> tuple[int, ...]:
    """The scales that both studies have, ascending; refuse where there are none."""
    if first.regime != second.regime:
        raise DataError(
            f"{first.name} is {first.regime} scaling and {second.name} is {second.regime} scaling.",
            "Compare two studies of one regime.",
        )
    shared = tuple(nodes for nodes in first.scales if nodes in second.scales)
    if not shared:
        raise DataError(
            f"{first.name} and {second.name} have no scale in common: "
            f"K={_listed(first.scales)} and K={_listed(second.scales)}.",
            "Measure both at the same K.",
        )
    return shared


def at_scales(study: Study, scales: Sequence[int]) -> Study:
    """The study with these scales only; the smallest is its base."""
    runs = tuple(run for run in study.runs if run.nodes in scales)
    return msgspec.structs.replace(study, runs=runs)


def compare(first: Study, second: Study, threshold: float, center: Center = "mean") -> Comparison:
    """The second study against the first at every common scale.

    The studies were made at different times, so their rounds are not paired.
    """
    shared = common_scales(first, second)
    studies = at_scales(first, shared), at_scales(second, shared)
    scalings: list[Scaling | None] = [None, None]
    ledgers: list[Attribution] = []
    if len(shared) > 1:
        for at, study in enumerate(studies):
            times = timings(study, center)
            scaling = scale_timings(study, times, threshold)
            scalings[at] = scaling
            ledgers.append(attribute_timings(study, times, scaling))
    rounds = min(study.rounds for study in studies)
    name = f"range of {rounds} rounds" if rounds > 1 else "none (single runs)"
    differences, note = _ledger_differences(ledgers)
    return Comparison(
        first=first.name,
        second=second.name,
        regime=first.regime,
        base_nodes=shared[0],
        interval="95 %, unpaired rounds" if rounds >= ENOUGH_ROUNDS else name,
        rows=tuple(_row(studies, nodes, shared, center) for nodes in shared),
        only_first=tuple(nodes for nodes in first.scales if nodes not in shared),
        only_second=tuple(nodes for nodes in second.scales if nodes not in shared),
        first_scaling=scalings[0],
        second_scaling=scalings[1],
        ledger=differences,
        ledger_at=_shown_scale(ledgers[0], differences) if differences else None,
        ledger_note=note,
        first_validity=_validity(first, center),
        second_validity=_validity(second, center),
        notes=_notes(studies, shared),
    )


def _listed(scales: Sequence[int]) -> str:
    return ", ".join(map(str, scales))


def _samples(study: Study, nodes: int) -> Floats:
    return np.array([run.seconds for run in study.at(nodes)])


def _row(
    studies: tuple[Study, Study], nodes: int, shared: tuple[int, ...], center: Center
) -> ComparisonRow:
    samples = _samples(studies[0], nodes), _samples(studies[1], nodes)
    seconds = [float(center_of(one, center)) for one in samples]
    bases = [float(center_of(_samples(study, shared[0]), center)) for study in studies]
    k = nodes / shared[0]
    grown = k if studies[0].regime == "weak" else 1.0
    speedups = [grown * base / wall for base, wall in zip(bases, seconds, strict=True)]
    bounds = _ratio(samples, LEVEL)
    return ComparisonRow(
        nodes=nodes,
        first_seconds=seconds[0],
        second_seconds=seconds[1],
        ratio=seconds[1] / seconds[0],
        ratio_low=bounds.low if bounds else None,
        ratio_high=bounds.high if bounds else None,
        first_speedup=speedups[0],
        second_speedup=speedups[1],
        first_efficiency=speedups[0] / k,
        second_efficiency=speedups[1] / k,
        # One verdict for each scale, so each is asked to be surer.
        second_is=_difference(samples, 1 - (1 - LEVEL) / len(shared)),
    )


def _ratio(samples: tuple[Floats, Floats], level: float) -> Interval | None:
    """Bounds of the second's seconds over the first's; a range below six rounds."""
    first, second = samples
    fewest = min(len(first), len(second))
    if fewest < 2:
        return None
    if fewest < ENOUGH_ROUNDS:
        return Interval(float(second.min() / first.max()), float(second.max() / first.min()))
    return ratio_interval(second, first, paired=False, level=level)


def _difference(samples: tuple[Floats, Floats], level: float) -> Difference:
    first, second = samples
    if min(len(first), len(second)) < 2:
        return "unknown"
    bounds = ratio_interval(second, first, paired=False, level=level)
    return "faster" if bounds.high < 1 else "slower" if bounds.low > 1 else "not distinguishable"


def _ledger_differences(
    ledgers: Sequence[Attribution],
) -> tuple[tuple[LedgerDifference, ...], str]:
    """The ledgers side by side at every common scale, or why they cannot be compared."""
    if not ledgers:
        return (), "one common scale has no ledger"
    first, second = ledgers
    if first.evidence != second.evidence:
        return (), (
            f"different evidence: {first.evidence} in {first.name}, {second.evidence} in "
            f"{second.name}"
        )
    rows = tuple(
        _ledger_difference(before, after)
        for before, after in zip(first.rows[1:], second.rows[1:], strict=True)
        if _is_identified(before) and _is_identified(after)
    )
    if not rows:
        return (), "bare times do not identify the causes"
    return rows, f"evidence: {first.evidence}"


def _shown_scale(first: Attribution, differences: Sequence[LedgerDifference]) -> int:
    """Where the first study bends, or else the largest scale with ledgers."""
    known = [one.nodes for one in differences]
    return first.bend if first.bend in known else known[-1]


def _is_identified(row: LedgerRow) -> bool:
    """Whether stages divide what is lost, or every law that fits names one cause."""
    return bool(row.time_shares) or row.dominant_cause is not None


def _ledger_difference(first: LedgerRow, second: LedgerRow) -> LedgerDifference:
    losses = [{loss.cause: loss for loss in row.causes} for row in (first, second)]
    causes = [
        _cause_difference(cause, [one.get(cause) for one in losses], (first, second))
        for cause in CAUSES
        if any(cause in one and abs(one[cause].folds) >= _LEAST_FOLDS for one in losses)
    ]
    causes.sort(key=lambda one: -abs((one.second_folds or 0.0) - (one.first_folds or 0.0)))
    return LedgerDifference(
        nodes=first.nodes,
        first_lost=first.lost_folds,
        second_lost=second.lost_folds,
        causes=tuple(causes),
    )


def _cause_difference(
    cause: CauseName, losses: Sequence[Loss | None], rows: Sequence[LedgerRow]
) -> CauseDifference:
    """Losses differ if their intervals do not overlap; without intervals, unknown."""
    first, second = (
        loss.folds if loss else 0.0 if cause in row.recorded_causes else None
        for loss, row in zip(losses, rows, strict=True)
    )
    before, after = map(_bounds, losses)
    difference: LossDifference = "unknown"
    if before is not None and after is not None:
        difference = "not distinguishable"
        if before.high < after.low:
            difference = "more"
        elif after.high < before.low:
            difference = "less"
    return CauseDifference(
        cause=cause, first_folds=first, second_folds=second, second_loses=difference
    )


def _bounds(loss: Loss | None) -> Interval | None:
    if loss is None or loss.folds_low is None or loss.folds_high is None:
        return None
    return Interval(loss.folds_low, loss.folds_high)


def _validity(study: Study, center: Center) -> Validity:
    """The validity of the whole study, since one scale alone shows too little."""
    if len(study.scales) < 2:
        return Validity()
    return validity_of(measurement_checks(study, timings(study, center)))


def _unit_words(unit: ScaleUnit) -> str:
    return plural(unit.unit) + (f", {unit.per_node} a node" if unit.per_node else "")


def _notes(studies: tuple[Study, Study], shared: tuple[int, ...]) -> tuple[str, ...]:
    """Whether K counts the same in both and they do one job, as far as they record it."""
    units = [study.scale_unit for study in studies]
    if units[0] != units[1]:
        return (
            f"K counts {_unit_words(units[0])} in {studies[0].name} and {_unit_words(units[1])} in "
            f"{studies[1].name}: equal K may not be equal machines.",
        )
    for nodes in shared:
        works = [[run.work for run in study.at(nodes)] for study in studies]
        first, second = ([one for one in found if one is not None] for found in works)
        if first and second and abs(np.mean(second) / np.mean(first) - 1) > SAME_WORK:
            return (
                f"At K={nodes} the studies do different work, {np.mean(first):.6g} and "
                f"{np.mean(second):.6g}: their seconds are not for one job.",
            )
    return ()


class LineupRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """One study at one scale, against the common base."""

    nodes: int
    study: str
    seconds: float
    speedup: float
    lost_folds: float
    overhead_seconds: float | None  # of the engine; null if it was not recorded
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
    everywhere = {nodes for study in studies for nodes in study.scales}
    studies = [at_scales(study, scales) for study in studies]
    seconds = [
        {nodes: float(center_of(_samples(study, nodes), center)) for nodes in scales}
        for study in studies
    ]
    first = min(range(len(studies)), key=lambda at: seconds[at][scales[0]])
    base = seconds[first][scales[0]]
    entries = [
        entry
        for study, times in zip(studies, seconds, strict=True)
        for entry in _lineup(study, times, base, threshold, center)
    ]
    entries.sort(key=lambda entry: (entry.nodes, entry.seconds))
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
    rows: dict[int, LedgerRow] = {}
    if len(seconds) > 1:
        times = timings(study, center)
        ledger = attribute_timings(study, times, scale_timings(study, times, threshold))
        rows = {row.nodes: row for row in ledger.rows}
    smallest = min(seconds)
    entries = []
    for nodes, wall in seconds.items():
        k = nodes / smallest
        row = rows.get(nodes)
        overhead = _overhead(study, nodes, (row.late_rank if row else None) or 0)
        known = row.causes if row and _is_identified(row) else ()
        others = [loss for loss in known if loss.cause != "engine overhead"]
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
