"""The ledger: the gap between ideal and measured speedup, divided among its causes.

With k = K/K0 and wall time T, what is lost at k is k - S = sum of k * loss_i / T, because
T = T_ideal + sum of loss_i, where T_ideal is T0/k for a fixed job and T0 when the job grows with k.
The wall time is first cut into parts that add up to it; the loss of a part is what it takes beyond
its ideal share of the same part at the base. So the losses add up by construction, and what no
record explains stays under `unexplained`.

Communication (then input and output) that runs beside compute is hidden: it takes none of the wall
time and costs nothing. Gains of some parts, as by a cache, reduce every loss in proportion, so
that no cause returns more than is lost.

Evidence, best first: stages of each rank, stages of the whole run, laws fitted to bare timings.
From bare timings a cause is named only where every law that fits about as well agrees on it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from nodewise.base import stats
from nodewise.base.stats import Center, Floats
from nodewise.base.units import format_duration, format_speedup
from nodewise.explain.causes import (
    CAUSE_OF_STAGE,
    CAUSES,
    NAME_THE_REST,
    SEND_LESS,
    CauseName,
    PartName,
)
from nodewise.explain.identify import LawRanges, law_ranges
from nodewise.explain.late_ranks import (
    CLOCK_RESOLUTION,
    MIN_LOST_SHARE,
    Lateness,
    beyond_typical,
    busy,
    late_cause,
    late_kind,
    late_ranks,
    rank_parts,
    rank_spread,
    relative_error,
    serial_rank,
)
from nodewise.explain.measured import Measured, has_stages, measured_at, work_of
from nodewise.explain.pop import Pop, pop, stated_checks
from nodewise.explain.scaling import THRESHOLD, Scaling, Timings, scale_timings, timings
from nodewise.explain.shapes import EARLY_EXPONENT, Shape, growth_exponent, shape_of
from nodewise.study.check import Check, warning
from nodewise.study.spec import Regime
from nodewise.study.study import Study
from nodewise.study.workload import WITHHELD

Evidence = Literal["stages of each rank", "stage totals", "fitted law", "two bare times"]
Losses = dict[CauseName, Floats]  # seconds lost: one row per draw, one column per scale
_LEAD_DRAWS = 4000
_MIN_LEAD = 0.05  # the probability to be the largest cause, from which on a cause is named too
_DRAWS = 300  # each averages the stages of every rank again
_MAX_IDLE_SPREAD = 0.10  # between rounds, relative: an uneven shard costs the same in each
_MAX_GROWTH_MISFIT = 0.15  # of a power law, root mean square of the logarithm
_MIN_INFLATION = 0.25  # of the compute, in single runs: less may be the noise of two runs
_CLOSE = 0.05  # without repeats: two causes that differ by less are not separable
_DIVISION = "origin of the causes"
_ROUNDING = 1e-12  # of the wall time
_STEADY_EXPONENTS = (0.85, 1.15)  # overhead of a stage that never shrinks: (k-1)^1
_MIN_SECOND_CAUSE = 0.25  # of what is lost: a second cause worth a change of its own
_MIN_BOUND = 0.25  # of the time, at the base and here: a stage that binds the job at every scale
_STEADY = 0.6  # of the seconds at a quarter of K: of an uneven shard about a third is left
_MIN_HIDDEN = 0.10  # of the communication: it runs beside compute already
# What a rank that waits may be waiting for.
_WAITED_FOR: tuple[CauseName, ...] = ("load imbalance", "slow node", "jitter")


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """The speedup lost to one cause at one scale, and the speedup if it vanished."""

    cause: CauseName
    seconds: float  # exposed seconds; hidden ones are not lost
    share: float  # of the wall time
    folds: float  # speedup lost
    folds_low: float | None  # bounds: of the rounds, or of every law that fits
    folds_high: float | None
    speedup_without: float  # speedup if this cause vanished
    hidden_seconds: float = 0.0  # overlapped with compute
    gross_seconds: float = 0.0  # before gains are deducted


class LedgerRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The account of one scale: ideal minus measured speedup, by cause, largest first."""

    nodes: int
    seconds: float  # wall time of a run
    ideal: float  # ideal speedup
    speedup: float
    lost_folds: float  # ideal minus measured speedup
    gained_folds: float  # by stages that shrink faster than ideal
    gained_seconds: dict[PartName, float]  # of each such stage, the largest first
    hidden_seconds: float  # overlapped with compute
    causes: tuple[Loss, ...]  # the largest loss first
    possible_causes: tuple[CauseName, ...]  # that may be the largest; several: not separable
    dominant_cause: CauseName | None  # null: nothing lost, or not identifiable
    late_rank: int | None  # the rank that the others wait for, if ranks are recorded
    serial_rank: int | None = None  # a rank that works alone while the others wait
    time_shares: dict[PartName, float]  # shares of the wall time; empty without stages

    def named(self, cause: CauseName) -> str:
        """A cause, with the rank it lies with."""
        rank = self.late_rank if cause in ("slow node", "load imbalance", "late rank") else None
        rank = self.serial_rank if cause == "serial fraction" else rank
        return cause if rank is None else f"{cause}, rank {rank}"

    @property
    def loses(self) -> bool:
        """Whether enough is lost to look for a cause."""
        return self.lost_folds > MIN_LOST_SHARE * self.ideal

    @property
    def recorded_causes(self) -> set[CauseName]:
        """The causes whose stage was recorded."""
        return {"compute inflation" if name == "compute" else name for name in self.time_shares}

    @property
    def waits(self) -> bool:
        """Whether most is lost by waiting for a rank, whatever makes that one late."""
        return bool(self.possible_causes) and set(self.possible_causes) <= {*_WAITED_FOR, "idle"}

    @property
    def change(self) -> str | None:
        """The change that acts on the dominant cause; the records to add where it is not known."""
        if not self.loses:
            return None
        top = self.causes[0]
        if self.dominant_cause is None and self.waits:
            return CAUSES["late rank"].change
        if self.dominant_cause is None and self.time_shares and top.cause != "unexplained":
            return f"measure more rounds to separate the causes; first, {CAUSES[top.cause].change}"
        if self.dominant_cause is None:
            return NAME_THE_REST if self.time_shares else CAUSES["unexplained"].change
        hidden = top.hidden_seconds > _MIN_HIDDEN * (top.hidden_seconds + top.seconds)
        if top.cause == "communication" and hidden:
            return SEND_LESS
        return CAUSES[top.cause].change


class TimeBound(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that takes much of the time at every scale, so that scaling does not show it."""

    cause: CauseName
    share: float  # of the time at the largest scale
    base_share: float  # of the time at the smallest scale
    change: str  # what would help


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """A change that acts on another cause, and what it would return here."""

    cause: CauseName
    change: str
    folds: float  # speedup that it would return
    verdict: str  # as a sentence


class Attribution(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The ledger of a study, the cause of its knee, and the change that would move it."""

    name: str
    regime: Regime
    evidence: Evidence  # what the ledger is made from
    rows: tuple[LedgerRow, ...]
    nodes: int  # the largest scale
    bend: int | None  # the first scale below the threshold
    dominant_cause: CauseName | None  # at the largest scale
    possible_causes: tuple[CauseName, ...]
    change: str | None  # what would help most
    other_changes: tuple[Remedy, ...]  # what would help against the other causes
    bound: TimeBound | None  # a stage that takes much of the time at every scale
    shape: Shape | None  # of the bend, by the repeats
    pop: Pop | None  # efficiencies of the POP method; null without records of communication
    checks: tuple[Check, ...]  # of the scaling and of the ledger

    def row(self, nodes: int) -> LedgerRow:
        """The row of one scale."""
        return next(row for row in self.rows if row.nodes == nodes)

    @property
    def bend_row(self) -> LedgerRow:
        """Where the curve bends; the largest scale where it does not."""
        return self.row(self.bend or self.nodes)


def attribute(study: Study, threshold: float = THRESHOLD, center: Center = "mean") -> Attribution:
    """Name the causes of the lost speedup at every scale."""
    times = timings(study, center)
    return attribute_timings(study, times, scale_timings(study, times, threshold))


def attribute_timings(study: Study, times: Timings, scaling: Scaling) -> Attribution:
    """The ledger of a study whose scaling is already known."""
    checks: list[Check] = []
    late: dict[int, int] = {}
    measured: list[Measured] = []
    ranked = all(has_stages(run) for run in study.good_runs)
    if ranked and all(len({len(run.ranks) for run in study.at(k)}) == 1 for k in study.scales):
        evidence: Evidence = "stages of each rank"
        measured = [measured_at(study, nodes, by_rank=True) for nodes in times.nodes]
        ledger = _rank_ledger(study, times, measured)
        late = late_ranks(study, measured)
        checks += [*_rank_checks(study, ledger), *_serial_checks(times, measured, late)]
    elif all(run.stages for run in study.good_runs):
        evidence = "stage totals"
        measured = [measured_at(study, nodes, by_rank=False) for nodes in times.nodes]
        ledger = _total_ledger(study, times, measured)
    elif len(times.nodes) == 2:
        evidence = "two bare times"
        ledger = _ledger_of_two(times)
        bare = "two total times cannot identify a cause"
        checks.append(warning(_DIVISION, bare, "Add scales or record stages."))
    else:
        evidence = "fitted law"
        ledger = _ledger_of_laws(times)
        fitted = f"the causes come from laws fitted to totals. {scaling.cannot_tell.rstrip('.')}"
        checks.append(warning(_DIVISION, fitted, "Record stages."))
    checks += _withheld_checks(study)
    rows = _rows(times, ledger, measured, late)
    row = rows[-1]
    checks += _overlap_checks(times, measured)
    checks += [*_region_checks(study), *stated_checks(study)]
    return Attribution(
        name=study.name,
        regime=study.regime,
        evidence=evidence,
        rows=rows,
        nodes=row.nodes,
        bend=scaling.bend.first_below,
        dominant_cause=row.dominant_cause,
        possible_causes=row.possible_causes,
        change=row.change,
        other_changes=_other_changes(row, evidence, _recorded(measured, evidence)),
        bound=_time_bound(rows),
        shape=shape_of(times),
        pop=pop(study),
        checks=(*scaling.checks, *checks),
    )


class _Ledger(NamedTuple):
    """Seconds lost by cause, and how far they are known."""

    losses: Losses  # one row
    drawn_seconds: Floats | None = None  # of resamples of the rounds
    drawn_losses: Losses | None = None
    ranges: LawRanges | None = None  # over the laws that fit bare timings

    def renamed(self, names: dict[CauseName, CauseName]) -> "_Ledger":
        """With some causes under another name."""

        def under_new_names(losses: Losses) -> Losses:
            new: Losses = {}
            for cause, lost in losses.items():
                name = names.get(cause, cause)
                new[name] = new[name] + lost if name in new else lost
            return new

        drawn = None if self.drawn_losses is None else under_new_names(self.drawn_losses)
        return self._replace(losses=under_new_names(self.losses), drawn_losses=drawn)


# Seconds lost by cause at every scale, from what was recorded there.
_LossesOf = Callable[[Sequence[Measured], Timings], Losses]


def _ledger_of_stages(
    study: Study, times: Timings, measured: Sequence[Measured], losses_of: _LossesOf
) -> _Ledger:
    losses = losses_of(measured, times)
    if times.draws is None:
        return _Ledger(losses)
    picks = [
        stats.resample_rounds(len(one.seconds), _DRAWS, study.paired, at)
        for at, one in enumerate(measured)
    ]
    seconds, drawn = [], []
    for draw in range(_DRAWS):
        picked = [one.pick(rounds[draw]) for one, rounds in zip(measured, picks, strict=True)]
        seconds.append([float(stats.center_of(one.seconds, times.center)) for one in picked])
        drawn.append(losses_of(picked, times))
    nothing = np.zeros((1, len(times.nodes)))
    drawn_losses: Losses = {
        cause: np.concatenate([one.get(cause, nothing) for one in drawn])
        for cause in dict.fromkeys(cause for one in drawn for cause in one)
    }
    return _Ledger(losses, np.array(seconds), drawn_losses)


def _beyond_ideal(parts: Sequence[dict[CauseName, float]], times: Timings) -> Losses:
    """What each part of the wall time takes beyond its ideal share of that part at the base."""
    share = 1 / times.k if times.regime == "strong" else np.ones_like(times.k)
    causes = dict.fromkeys(cause for part in parts for cause in part)
    losses: Losses = {}
    for cause in causes:
        seconds = np.array([[part.get(cause, 0.0) for part in parts]])
        losses[cause] = seconds - share * seconds[:, :1]
    return losses


def _total_parts(one: Measured, center: Center) -> dict[CauseName, float]:
    seconds = float(stats.center_of(one.seconds, center))
    fit = seconds / float(one.seconds.mean())  # stages are means; a median wall needs scaling
    part = {CAUSE_OF_STAGE[stage]: fit * float(v.mean()) for stage, v in one.stages.items()}
    part["unexplained"] = seconds - sum(part.values())
    return part


def _total_ledger(study: Study, times: Timings, measured: Sequence[Measured]) -> _Ledger:
    def losses_of(some: Sequence[Measured], times: Timings) -> Losses:
        return _beyond_ideal([_total_parts(one, times.center) for one in some], times)

    ledger = _ledger_of_stages(study, times, measured, losses_of)
    if times.regime == "weak" or len(times.nodes) < 4:
        return ledger
    return ledger.renamed(_names_by_growth(ledger.losses, measured, times))


def _names_by_growth(
    losses: Losses, measured: Sequence[Measured], times: Timings
) -> dict[CauseName, CauseName]:
    """The name that the growth of waiting and inflation with K gives them.

    Beside the compute of a rank, an uneven shard costs a fixed share, (k-1)^0 to (k-1)^0.4; a stage
    that never shrinks costs (k-1)^1, because the compute does shrink. Jitter grows like an uneven
    shard, but differs between rounds.
    """
    compute = float(measured[0].of("compute").mean())
    if compute <= MIN_LOST_SHARE * times.seconds[0]:
        return {}
    ideal = compute / times.k

    def overhead(cause: CauseName) -> Floats | None:
        loss = losses.get(cause)
        if loss is None or np.any(loss[0, 1:] < MIN_LOST_SHARE * ideal[1:] / times.k[1:]):
            return None
        return np.asarray(loss / ideal)

    def exponent(of: Floats | None) -> float | None:
        return (
            None
            if of is None or not _grows_smoothly(times.k, of[0])
            else float(growth_exponent(times.k, of)[0])
        )

    waiting, inflation = exponent(overhead("idle")), exponent(overhead("compute inflation"))
    names: dict[CauseName, CauseName] = {}
    if waiting is not None and waiting < EARLY_EXPONENT:
        late = _late_name(losses, measured, times)
        if late != "load imbalance":
            return {"idle": late, "compute inflation": late} if late else {}
        names["idle"] = late
    steady_low, steady_high = _STEADY_EXPONENTS
    if waiting is not None and steady_low < waiting < steady_high:
        names["idle"] = "serial fraction"
    if inflation is not None and steady_low < inflation < steady_high:
        names["compute inflation"] = "serial fraction"
    return names


def _late_name(losses: Losses, measured: Sequence[Measured], times: Timings) -> CauseName | None:
    """Why ranks wait for one of them all the time; None if the runs do not show it.

    A slow node adds compute, by the waiting of a rank over k-1; an uneven division adds none.
    """
    if not _waits_are_steady(measured):
        return None
    compute = float(measured[0].of("compute").mean()) / times.k[1:]
    expected = losses["idle"][0, 1:] / compute / (times.k[1:] - 1)
    added = np.array([float(one.of("compute").mean()) for one in measured[1:]]) / compute - 1
    errors = [relative_error(one.of("compute").sum(axis=1)) for one in measured]
    noise = math.sqrt(2 * float(np.mean(np.square(errors))))
    size = float(expected @ expected)
    slow = float(added @ expected) / size  # 1 for a slow node, 0 for an uneven division
    if abs(slow - 0.5) <= 2 * noise / math.sqrt(size):
        return None
    return "slow node" if slow > 0.5 else "load imbalance"


def _grows_smoothly(k: Floats, overhead: Floats) -> bool:
    """Whether an overhead follows a power of k-1; noise and chance do not."""
    x, y = np.log(k[1:] - 1), np.log(overhead[1:])
    residuals = y - np.polyval(np.polyfit(x, y, 1), x)
    return float(np.sqrt(np.mean(residuals**2))) <= _MAX_GROWTH_MISFIT


def _waits_are_steady(measured: Sequence[Measured]) -> bool:
    """Whether ranks wait alike in every round, as far as there are several."""
    spreads = []
    for one in measured[1:]:
        shares = one.of("idle")[:, 0] / one.seconds
        if len(shares) > 1:
            spreads.append(float(shares.std(ddof=1) / shares.mean()))
    return not spreads or float(np.sqrt(np.mean(np.square(spreads)))) <= _MAX_IDLE_SPREAD


def _rank_ledger(study: Study, times: Timings, measured: Sequence[Measured]) -> _Ledger:
    lateness = Lateness(*rank_spread(measured), late_cause(measured, times))
    kinds = [late_kind(one, lateness) for one in measured]

    def losses_of(some: Sequence[Measured], times: Timings) -> Losses:
        parts = [rank_parts(*one, times.center) for one in zip(some, kinds, strict=True)]
        return _beyond_ideal(parts, times)

    return _ledger_of_stages(study, times, measured, losses_of)


def _withheld_checks(study: Study) -> Iterator[Check]:
    """That stages were not recorded because the clocks that there are do not see them."""
    for run in study.good_runs:
        if WITHHELD in run.facts:
            remedy = "Let torch.profiler record the device: see docs/frameworks.md."
            yield warning(_DIVISION, f"K={run.nodes}: {run.facts[WITHHELD]}", remedy)
            return


def _rank_checks(study: Study, ledger: _Ledger) -> Iterator[Check]:
    if "late rank" in ledger.losses and np.any(ledger.losses["late rank"] > CLOCK_RESOLUTION):
        yield warning(
            "slow node or chance",
            "these rounds do not show whether a rank is always late or was late by chance",
            "Measure more rounds.",
        )
    if any(work_of(rank) is None for run in study.good_runs for rank in run.ranks):
        yield warning(
            "uneven shard or slow node",
            "no items per rank (column work): only the sum of compute seconds over ranks tells "
            "them apart",
            "Record items to be sure.",
        )


def _serial_checks(
    times: Timings, measured: Sequence[Measured], late: dict[int, int]
) -> Iterator[Check]:
    """That one rank computes as much beyond the others at every K, as serial work does."""
    if len(set(late.values())) != 1 or times.regime == "weak":
        return
    several = [at for at, one in enumerate(measured) if one.of("compute").shape[1] > 1]
    first, last = several[0], several[-1]
    beyond = [beyond_typical(measured[at]) for at in (first, last)]
    matters = beyond[1] > MIN_LOST_SHARE * times.seconds[last]
    if matters and times.k[last] >= 4 * times.k[first] and beyond[1] > _STEADY * beyond[0]:
        yield warning(
            "uneven shard or serial work",
            f"rank {late[times.nodes[last]]} computes {format_duration(beyond[0])} more than the "
            f"others at K={times.nodes[first]} and {format_duration(beyond[1])} more at "
            f"K={times.nodes[last]}; what an uneven shard adds shrinks with K",
            "If that rank works while the others wait, it is serial work: record it as serial.",
        )


def _ledger_of_two(times: Timings) -> _Ledger:
    """Two totals: what is lost, and no cause."""
    ideal = np.ones_like(times.k) if times.regime == "weak" else 1 / times.k

    def lost(seconds: Floats) -> Losses:
        return {"unexplained": seconds - ideal * seconds[:, :1]}

    drawn = None if times.draws is None else lost(times.draws)
    return _Ledger(lost(times.seconds[None, :]), times.draws, drawn)


def _ledger_of_laws(times: Timings) -> _Ledger:
    """Seconds by cause from the laws that fit; what the best of them leaves is unexplained."""
    ideal = np.ones_like(times.k) if times.regime == "weak" else 1 / times.k
    ranges = law_ranges(times)
    losses: Losses = {cause: lost[None, :] for cause, lost in ranges.best.items()}
    lost = times.seconds - ideal * times.seconds[0]
    losses["unexplained"] = lost[None, :] - sum(losses.values())
    return _Ledger(losses, ranges=ranges)


def _net(losses: Losses) -> Losses:
    """Losses of which gains have paid a share, so that none exceeds what is lost."""
    above = sum((np.maximum(one, 0.0) for one in losses.values()), np.zeros(()))
    below = sum((np.minimum(one, 0.0) for one in losses.values()), np.zeros(()))
    total = above + below
    paid = np.divide(np.maximum(total, 0.0), above, out=np.zeros_like(total), where=above > 0)
    kept = np.divide(np.minimum(total, 0.0), below, out=np.zeros_like(total), where=below < 0)
    return {cause: one * np.where(one > 0, paid, kept) for cause, one in losses.items()}


def _rows(
    times: Timings, ledger: _Ledger, measured: Sequence[Measured], late: dict[int, int]
) -> tuple[LedgerRow, ...]:
    speedups = times.speedup(times.seconds)
    gross = ledger.losses
    drawn = None if ledger.drawn_losses is None else _net(ledger.drawn_losses)
    ledger = ledger._replace(losses=_net(gross), drawn_losses=drawn)
    rows = []
    for at, nodes in enumerate(times.nodes):
        seconds, ideal = float(times.seconds[at]), float(times.k[at])
        lost_folds = ideal - float(speedups[at])
        hidden = _hidden(measured[at], late.get(nodes)) if measured else {}
        found = _losses_at(times, ledger, at, hidden, gross)
        gained = _gains_at(gross, at, seconds) if measured else {}
        shares = _time_shares(measured[at]) if measured else {}
        possible: tuple[CauseName, ...] = ()
        if lost_folds > MIN_LOST_SHARE * ideal:
            possible = _possible_causes(times, ledger, at, found, shares.get("compute", 0.0))
        named = len(possible) == 1 and possible[0] != "unexplained"
        rows.append(
            LedgerRow(
                nodes=nodes,
                seconds=seconds,
                ideal=ideal,
                speedup=float(speedups[at]),
                lost_folds=lost_folds,
                gained_folds=ideal * sum(gained.values()) / seconds,
                gained_seconds=gained,
                hidden_seconds=sum(hidden.values()),
                causes=tuple(found),
                possible_causes=possible,
                dominant_cause=possible[0] if named else None,
                late_rank=late.get(nodes),
                serial_rank=serial_rank(measured[at], late.get(nodes)) if measured else None,
                time_shares=shares,
            )
        )
    return tuple(rows)


def _gains_at(gross: Losses, at: int, seconds: float) -> dict[PartName, float]:
    """Seconds that parts of the wall time take less than their ideal share, the largest first."""
    gains = {_part_name(cause): -float(lost[0, at]) for cause, lost in gross.items()}
    found = {name: gain for name, gain in gains.items() if gain > _ROUNDING * seconds}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _part_name(cause: CauseName) -> PartName:
    """What the seconds are called whose excess is a cause."""
    return "compute" if cause == "compute inflation" else cause


def _losses_at(
    times: Timings, ledger: _Ledger, at: int, hidden: dict[CauseName, float], gross: Losses
) -> list[Loss]:
    """The losses of one scale, the largest first."""
    seconds, ideal = float(times.seconds[at]), float(times.k[at])
    speedup = float(times.speedup(times.seconds)[at])
    found = []
    for cause, lost in ledger.losses.items():
        loss = float(lost[0, at])
        if abs(loss) <= _ROUNDING * seconds:
            loss = 0.0
        low, high = _fold_bounds(times, ledger, cause, at)
        beside = hidden.get(cause, 0.0)
        if max(abs(loss), beside, (high or 0.0) * seconds / ideal) <= _ROUNDING * seconds:
            continue
        found.append(
            Loss(
                cause=cause,
                seconds=loss,
                share=loss / seconds,
                folds=ideal * loss / seconds,
                folds_low=low,
                folds_high=high,
                # a time that is all loss leaves nothing to divide by
                speedup_without=speedup * seconds / max(seconds - loss, _ROUNDING * seconds),
                hidden_seconds=beside,
                gross_seconds=float(gross[cause][0, at]),
            )
        )
    return sorted(found, key=lambda loss: -loss.folds)


def _hidden(one: Measured, late: int | None) -> dict[CauseName, float]:
    """Seconds of communication and input that ran beside the rest; of the last rank of several."""
    hidden: dict[CauseName, float] = {}
    column = 0 if late is None else int(np.argmax(busy(one)))
    for stage in ("communication", "io"):
        if stage in one.hidden:
            seconds = float(one.hidden[stage][:, column].mean())
            if seconds > CLOCK_RESOLUTION:
                hidden[CAUSE_OF_STAGE[stage]] = seconds
    return hidden


def _time_shares(one: Measured) -> dict[PartName, float]:
    """The share of the wall time of each recorded stage, and of what was not recorded."""
    wall = float(one.seconds.mean())
    shares: dict[PartName, float] = {
        _part_name(CAUSE_OF_STAGE[stage]): float(values.mean()) / wall
        for stage, values in one.stages.items()
    }
    delays = 0.0 if one.delays is None else float(one.delays.mean()) / wall
    return {**shares, "unexplained": max(1 - sum(shares.values()) - delays, 0.0)}


def _time_bound(rows: Sequence[LedgerRow]) -> TimeBound | None:
    """The stage other than compute that takes much of the time at every scale."""
    base, row = rows[0], rows[-1]
    shares: dict[CauseName, float] = {
        cause: min(one.time_shares.get(cause, 0.0) for one in rows)
        for cause in row.time_shares
        if cause != "compute"
    }
    if not shares:
        return None
    cause = max(shares, key=lambda name: shares[name])
    if shares[cause] < _MIN_BOUND:
        return None
    return TimeBound(
        cause=cause,
        share=row.time_shares[cause],
        base_share=base.time_shares[cause],
        change=NAME_THE_REST if cause == "unexplained" else CAUSES[cause].change,
    )


def _possible_causes(
    times: Timings, ledger: _Ledger, at: int, losses: Sequence[Loss], compute_share: float
) -> tuple[CauseName, ...]:
    """The causes that may be the largest, and those that lose as much as one of them."""
    top = losses[0]
    if ledger.ranges is not None:
        possible: list[CauseName] = []
        leaders = ledger.ranges.may_lead[at]
        for cause in sorted(leaders, key=lambda cause: -ledger.losses[cause][0, at]):
            possible += _WAITED_FOR if cause == "late rank" else (cause,)
        return ("unexplained",) if top.cause == "unexplained" else tuple(possible)
    lost = sum(loss.folds for loss in losses if loss.folds > 0)
    others = [loss for loss in losses[1:] if loss.folds > MIN_LOST_SHARE * lost]
    if ledger.drawn_losses is None:
        close = [loss.cause for loss in others if loss.folds > (1 - _CLOSE) * top.folds]
        if top.cause == "compute inflation" and top.share < _MIN_INFLATION * compute_share:
            close = [loss.cause for loss in others] or ["unexplained"]
        return (top.cause, *close)
    leads = _lead_shares(times.rounds, at, ledger.drawn_losses, losses)
    least = min([loss.folds for loss in others if leads[loss.cause] >= _MIN_LEAD], default=math.inf)
    return (top.cause, *(loss.cause for loss in others if loss.folds >= least))


def _lead_shares(
    rounds: int, at: int, drawn: Losses, losses: Sequence[Loss]
) -> dict[CauseName, float]:
    """The probability of each cause to be the largest, by Student's t with its covariances."""
    causes = [loss.cause for loss in losses]
    spread = np.atleast_2d(np.cov([drawn[cause][:, at] for cause in causes]))
    freedom = max(rounds - 1, 1)
    random = np.random.default_rng(0)
    errors = random.multivariate_normal(
        np.zeros(len(causes)), spread, _LEAD_DRAWS, check_valid="ignore", method="eigh"
    )  # causes may hang together exactly, and rounding makes their covariance slightly negative
    widen = np.sqrt(rounds / random.chisquare(freedom, (_LEAD_DRAWS, 1)))
    leaders = np.argmax([loss.seconds for loss in losses] + widen * errors, axis=1)
    shares = np.bincount(leaders, minlength=len(causes)) / _LEAD_DRAWS
    return dict(zip(causes, shares.tolist(), strict=True))


def _fold_bounds(
    times: Timings, ledger: _Ledger, cause: CauseName, at: int
) -> tuple[float | None, float | None]:
    if ledger.ranges is not None and cause in ledger.ranges.high:
        lost = float(times.seconds[at] - times.seconds[0] / times.k[at])
        if times.regime == "weak":
            lost = float(times.seconds[at] - times.seconds[0])
        ends = [float(end[cause][at]) for end in (ledger.ranges.low, ledger.ranges.high)]
        folds = float(times.k[at] / times.seconds[at])
        least, most = (folds * min(max(end, 0.0), max(lost, 0.0)) for end in ends)
        middle = folds * float(ledger.losses[cause][0, at])
        return min(least, middle), max(most, middle)
    if ledger.drawn_seconds is None or ledger.drawn_losses is None:
        return None, None
    folds = times.k[at] * ledger.drawn_losses[cause][:, at] / ledger.drawn_seconds[:, at]
    low, high = stats.percentile_interval(folds, times.rounds)
    return low, high


def _overlap_checks(times: Timings, measured: Sequence[Measured]) -> Iterator[Check]:
    for nodes, one in zip(times.nodes, measured, strict=False):
        beside = sum(
            float(seconds.mean())
            for stage, seconds in one.hidden.items()
            if stage not in ("communication", "io")
        )
        if beside > MIN_LOST_SHARE * float(one.seconds.mean()):
            yield warning(
                "sum of the stages",
                f"at K={nodes} compute and waiting exceed the wall time by {beside:.3g} s",
                "Look for stages that overlap, or for one that was measured wrongly.",
            )
            return


def _region_checks(study: Study) -> Iterator[Check]:
    """Stages of ranks that the log's clock does not cover cannot be set against its time."""
    for run in study.good_runs:
        if any(rank.stages for rank in run.ranks) and not run.ranks_are_timed:
            covered = max(rank.seconds or 0.0 for rank in run.ranks)
            yield warning(
                "stages outside the timed part",
                f"at K={run.nodes} the ranks recorded {covered:.3g} s, and the log times "
                f"{run.seconds:.3g} s: their stages are not used",
                "Record the same part of the run, or drop the pattern for the seconds.",
            )
            return


def _recorded(measured: Sequence[Measured], evidence: Evidence) -> set[CauseName]:
    """The causes that the ledger of the largest scale would show."""
    if not measured:
        return set()
    one = measured[-1]
    recorded: set[CauseName] = {CAUSE_OF_STAGE[stage] for stage in one.stages}
    if one.delays is not None:
        recorded.add("oversubscription" if one.crowded else "foreign load")
    if one.dry_wait or (one.emulated and "overhead" in one.stages):
        recorded.add("emulation")
    waits = evidence == "stages of each rank" or "idle" in one.stages
    return recorded.union(_WAITED_FOR) if waits else recorded


def _other_changes(
    row: LedgerRow, evidence: Evidence, recorded: set[CauseName]
) -> tuple[Remedy, ...]:
    """What the fixes for the other causes would return here."""
    if not row.loses:
        return ()
    found: dict[CauseName, Loss] = {loss.cause: loss for loss in row.causes}
    folds = {cause: loss.folds for cause, loss in found.items()}
    # Waiting has one name where the records do not divide it among its causes.
    waited = 0.0 if evidence == "fitted law" else folds.get("late rank", 0.0)
    if evidence == "stage totals":
        waited += sum(folds.get(cause, 0.0) for cause in ("idle", *_WAITED_FOR))
    silent: set[str] = {*row.possible_causes, "unexplained", "idle", "late rank"}
    # Most jobs have no engine that hands out their work, no emulated nodes, and cores enough.
    silent |= {"engine overhead", "emulation", "oversubscription"}.difference(recorded)
    remedies = []
    for cause, facts in CAUSES.items():
        if cause in silent:
            continue
        returned = max(folds.get(cause, 0.0), 0.0)
        lost = f"{format_speedup(returned)}x of the lost speedup"
        most = found[cause].folds_high if cause in found else None
        if evidence == "fitted law" and most is not None:
            verdict = f"would return at most {format_speedup(most)}x of the lost speedup"
        elif returned > _MIN_SECOND_CAUSE * row.lost_folds:
            verdict = f"second priority: {lost} is here"
        elif cause in _WAITED_FOR and waited > MIN_LOST_SHARE * row.lost_folds:
            verdict = (
                f"unknown: part of the {format_speedup(waited)}x lost to waiting may be here; "
                f"{CAUSES['late rank'].change}"
            )
        elif returned > MIN_LOST_SHARE * row.lost_folds:
            verdict = f"little benefit: {lost} is here"
        elif cause not in recorded:
            verdict = f"unknown: not recorded; to see it, record {facts.record}"
        else:
            verdict = f"no measurable benefit: it acts on {facts.acts_on}, and {lost} is there"
        remedies.append(Remedy(cause=cause, change=facts.change, folds=returned, verdict=verdict))
    return tuple(sorted(remedies, key=lambda remedy: -remedy.folds))
