"""The ledger: the folds between ideal and measured speedup, each under the name of its cause.

With k = K/K0 and wall time T, what is lost at k is k - S = sum of k * loss_i / T, because
T = T_ideal + sum of loss_i, where T_ideal is T0/k for a fixed job and T0 when the job grows with k.
The wall time is first cut into parts that add up to it; the loss of a part is what it takes beyond
its ideal share of the same part at the base. So the folds add up by construction, and what no
record explains stays under `unexplained`.

Evidence, best first: stages of each rank, stages of the whole run, a law fitted to bare timings.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from nodewise.base import stats
from nodewise.base.fits import nonnegative_fit
from nodewise.base.stats import Center, Floats
from nodewise.base.units import format_speedup
from nodewise.explain.causes import CAUSE_OF_STAGE, CAUSES, CauseName
from nodewise.explain.laws import growth_term
from nodewise.explain.scaling import THRESHOLD, Scaling, Timings, scale_timings, timings
from nodewise.explain.shapes import EARLY_EXPONENT, Shape, ShapeName, growth_exponent, shape_of
from nodewise.study.check import Check, warning
from nodewise.study.spec import Regime
from nodewise.study.study import STAGES, Run, Stage, Study

Evidence = Literal["stages of each rank", "stage totals", "fitted law", "two bare times"]
Losses = dict[CauseName, Floats]  # seconds lost to each cause: a row a draw, a column a scale

_DRAWS = 300  # each averages the stages of every rank anew
_LATE = 0.10  # a rank this much slower than the typical one is late for a reason, not by chance
_OUTLYING = 5  # spreads of the other ranks; the largest of 64 by chance lies below 4
_PERSISTENT = 2 / 3  # share of rounds in which the same rank must be the late one
_MIN_SHAPE_AGREEMENT = 0.6  # share of resamples that must agree before a shape renames a cause
_DIVISION = "the causes are measured"
_TELLING_ROUNDS = 3
_MIN_LOST_SHARE = 0.02  # of the ideal speedup
_CLOCK_RESOLUTION = 1e-12  # seconds
_STEADY_EXPONENTS = (0.85, 1.15)  # overhead of a stage that never shrinks: (k-1)^1
_SHRINKING_EXPONENT = -0.5  # compute that one slow node adds is 1/k of the whole: exponent -1
_MIN_SECOND_CAUSE = 0.25  # of what is lost: a second cause worth a change of its own

# What a rank that waits may be waiting for.
_WAITED_FOR: frozenset[CauseName] = frozenset({"load imbalance", "slow node", "jitter"})


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Folds of speedup lost to one cause at one scale, and the speedup if it vanished."""

    cause: CauseName
    seconds: float
    share: float  # of the wall time
    folds: float
    folds_low: float | None
    folds_high: float | None
    speedup_without: float | None  # null where the loss is as long as the run: stages overlap


class LedgerRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The account of one scale: ideal minus measured speedup, by cause, largest first."""

    nodes: int
    seconds: float
    ideal: float
    speedup: float
    lost_folds: float
    causes: tuple[Loss, ...]
    dominant_cause: CauseName | None
    late_rank: int | None  # the rank that the others wait for, where ranks are recorded

    def named(self, cause: CauseName) -> str:
        """A cause, with the rank it lies with."""
        late = self.late_rank is not None and cause in ("slow node", "load imbalance")
        return f"{cause}, rank {self.late_rank}" if late else cause


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """A change that acts on another cause, and what it would return here."""

    cause: CauseName
    change: str
    folds: float
    verdict: str


class Attribution(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The ledger of a study, the cause of its knee, and the change that would move it."""

    name: str
    regime: Regime
    evidence: Evidence
    rows: tuple[LedgerRow, ...]
    nodes: int  # where the curve bends, or the largest scale
    bends: bool
    dominant_cause: CauseName | None
    confidence: float | None
    change: str | None
    other_changes: tuple[Remedy, ...]
    shape: Shape | None
    checks: tuple[Check, ...]  # of the scaling, and of what the ledger stands on

    def row(self, nodes: int) -> LedgerRow:
        """The row of one scale."""
        return next(row for row in self.rows if row.nodes == nodes)


def attribute(study: Study, threshold: float = THRESHOLD, center: Center = "mean") -> Attribution:
    """Name the cause of every lost fold of speedup at every scale."""
    times = timings(study, center)
    return attribute_timings(study, times, scale_timings(study, times, threshold))


def attribute_timings(study: Study, times: Timings, scaling: Scaling) -> Attribution:
    """The ledger of a study whose scaling is already known."""
    shape = shape_of(times, study.paired)
    checks: list[Check] = []
    late: dict[int, int] = {}
    ranked = all(any(rank.stages for rank in run.ranks) for run in study.good_runs)
    if ranked and all(len({len(run.ranks) for run in study.at(k)}) == 1 for k in study.scales):
        evidence: Evidence = "stages of each rank"
        ledger = _ledger_of_stages(study, times, _rank_losses)
        late = _late_ranks(study)
        checks += _rank_checks(study)
    elif all(run.stages for run in study.good_runs):
        evidence = "stage totals"
        ledger = _ledger_of_stages(study, times, _total_losses)
    elif len(times.nodes) == 2:
        evidence = "two bare times"
        ledger = _ledger_of_law(times, scaling, None)
        bare = "two bare times cannot divide what is lost"
        checks.append(warning(_DIVISION, bare, "Add scales or record stages."))
    else:
        evidence = "fitted law"
        sure_shape = shape.shape if shape and shape.confidence >= _MIN_SHAPE_AGREEMENT else None
        ledger = _ledger_of_law(times, scaling, sure_shape)
        told = scaling.cannot_tell
        if sure_shape in ("early", "noisy"):
            told = "Their names follow the shape of the bend."
        fitted = f"the causes come from a law fitted to totals. {told.rstrip('.')}"
        checks.append(warning(_DIVISION, fitted, "Record stages."))
    rows = _rows(times, ledger, late)
    nodes = scaling.bend.first_below or times.nodes[-1]
    row = next(row for row in rows if row.nodes == nodes)
    if evidence in ("stages of each rank", "stage totals"):
        checks += _overlap_checks(row)
    return Attribution(
        name=study.name,
        regime=study.regime,
        evidence=evidence,
        rows=rows,
        nodes=nodes,
        bends=scaling.bend.first_below is not None,
        dominant_cause=row.dominant_cause,
        confidence=_agreement(ledger, times.nodes.index(nodes), row.dominant_cause),
        change=CAUSES[row.dominant_cause].change if row.dominant_cause else None,
        other_changes=_other_changes(row, evidence, _recorded(study, nodes, evidence)),
        shape=shape,
        checks=(*scaling.checks, *checks),
    )


class _Ledger(NamedTuple):
    """Seconds lost by cause, for the centres and for resamples of the rounds."""

    losses: Losses  # one row
    drawn_seconds: Floats | None
    drawn_losses: Losses


class _Measured(NamedTuple):
    """What was recorded at one scale: a row a round, a column a rank."""

    seconds: Floats
    stages: dict[Stage, Floats]
    items: Floats | None
    delays: Floats | None = None  # seconds that other processes had the rank's core

    def of(self, stage: Stage) -> Floats:
        return self.stages.get(stage, np.zeros_like(next(iter(self.stages.values()))))

    def pick(self, rounds: NDArray[np.int64]) -> "_Measured":
        return _Measured(
            self.seconds[rounds],
            {stage: values[rounds] for stage, values in self.stages.items()},
            None if self.items is None else self.items[rounds],
            None if self.delays is None else self.delays[rounds],
        )


# Seconds lost by cause at every scale, from what was recorded there.
_LossesOf = Callable[[Sequence[_Measured], Timings], Losses]


def _measured(study: Study, nodes: int) -> _Measured:
    runs = study.at(nodes)
    ranked = [run.ranks for run in runs]
    seconds = np.array([run.seconds for run in runs])
    if not ranked[0]:
        recorded = [stage for stage in STAGES if all(stage in run.stages for run in runs)]
        totals = {stage: np.array([[run.stages[stage]] for run in runs]) for stage in recorded}
        return _Measured(seconds, totals, None)
    recorded = [s for s in STAGES if all(s in rank.stages for ranks in ranked for rank in ranks)]
    stages = {
        stage: np.array([[rank.stages[stage] for rank in ranks] for ranks in ranked])
        for stage in recorded
    }
    items = None
    if all(rank.items is not None for ranks in ranked for rank in ranks):
        items = np.array([[rank.items for rank in ranks] for ranks in ranked], dtype=np.float64)
    return _Measured(seconds, stages, items, _foreign_delays(runs, stages))


def _foreign_delays(runs: Sequence[Run], stages: dict[Stage, Floats]) -> Floats | None:
    """How long each rank was kept from its core while it computed; taken out of its compute.

    The wait is known for the whole timed region: compute has the share of it that it has of the
    time. Emulated nodes wait for their core by design, so there it says nothing of other load.
    """
    usages = [[rank.usage for rank in run.ranks] for run in runs]
    emulated = any(run.provenance.get("emulated") for run in runs)
    known = [[None if u is None else u.run_delay_seconds for u in one] for one in usages]
    if emulated or "compute" not in stages or any(wait is None for one in known for wait in one):
        return None
    waits = np.array(known, dtype=np.float64)
    regions = np.array([[rank.seconds or run.seconds for rank in run.ranks] for run in runs])
    delays = np.minimum(waits / np.maximum(regions, waits), 1.0) * stages["compute"]
    stages["compute"] = stages["compute"] - delays
    return np.asarray(delays)


def _ledger_of_stages(study: Study, times: Timings, losses_of: _LossesOf) -> _Ledger:
    measured = [_measured(study, nodes) for nodes in times.nodes]
    losses = losses_of(measured, times)
    if times.draws is None:
        return _Ledger(losses, None, {})
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


def _total_losses(measured: Sequence[_Measured], times: Timings) -> Losses:
    parts = []
    for one in measured:
        seconds = float(stats.center_of(one.seconds, times.center))
        fit = seconds / float(one.seconds.mean())  # stages are means; a median wall needs scaling
        part = {CAUSE_OF_STAGE[s]: fit * float(v.mean()) for s, v in one.stages.items()}
        part["unexplained"] = seconds - sum(part.values())
        parts.append(part)
    losses = _beyond_ideal(parts, times)
    if times.regime == "strong" and len(times.nodes) >= 4:
        compute = np.array([part.get("compute inflation", 0.0) for part in parts])
        _name_by_growth(losses, compute, times)
    return losses


def _name_by_growth(losses: Losses, compute: Floats, times: Timings) -> None:
    """Give waiting and inflation the name that their growth with K betrays.

    Beside the compute of a rank, an uneven shard costs a fixed share, (k-1)^0 to (k-1)^0.4; a stage
    that never shrinks costs (k-1)^1, because the compute does shrink. Jitter grows like an uneven
    shard: totals cannot tell the two, and `_other_changes` says so.
    """
    if compute[0] <= _MIN_LOST_SHARE * times.seconds[0]:
        return
    ideal = compute[0] / times.k

    def exponent(loss: Floats) -> float | None:
        small = np.any(loss[0, 1:] < _MIN_LOST_SHARE * ideal[1:] / times.k[1:])
        return None if small else float(growth_exponent(times.k, loss / ideal)[0])

    def rename(old: CauseName, new: CauseName) -> None:
        losses[new] = losses.get(new, np.zeros_like(losses[old])) + losses.pop(old)

    waiting = exponent(losses["idle"]) if "idle" in losses else None
    inflation = exponent(losses["compute inflation"])
    if waiting is not None and waiting < EARLY_EXPONENT:
        # A slow node also adds compute, 1/k of it; an uneven division adds none.
        if inflation is not None and inflation < _SHRINKING_EXPONENT:
            rename("idle", "slow node")
            rename("compute inflation", "slow node")
            return
        rename("idle", "load imbalance")
    steady_low, steady_high = _STEADY_EXPONENTS
    if waiting is not None and steady_low < waiting < steady_high:
        rename("idle", "serial fraction")
    if inflation is not None and steady_low < inflation < steady_high:
        rename("compute inflation", "serial fraction")


def _rank_losses(measured: Sequence[_Measured], times: Timings) -> Losses:
    late_cause = _late_cause(measured, times)
    return _beyond_ideal([_rank_parts(one, times.center, late_cause) for one in measured], times)


def _rank_parts(one: _Measured, center: Center, late_cause: CauseName) -> dict[CauseName, float]:
    """The wall time along the rank that is last: its stages, and why it is last."""
    seconds = float(stats.center_of(one.seconds, center))
    fit = seconds / float(one.seconds.mean())
    mean = {stage: fit * one.of(stage).mean(axis=0) for stage in STAGES}
    late = int(np.argmax(_busy(one)))
    if "idle" in one.stages:
        transfer, waiting = float(mean["communication"][late]), float(mean["idle"][late])
    else:  # a collective ends for all at once: the shortest call is transfer, the rest is waiting
        transfer = fit * float(one.of("communication").min(axis=1).mean())
        waiting = float(mean["communication"][late]) - transfer
    # Some of that is waiting for the rank that does the serial part.
    alone = float(mean["serial"][late])
    for_serial = min(max(waiting, 0.0), float(mean["serial"].max()) - alone)
    even, imbalance, slow, chance = _late_compute(one, late, late_cause)
    parts: dict[CauseName, float] = {
        "foreign load": 0.0 if one.delays is None else fit * float(one.delays[:, late].mean()),
        "compute inflation": fit * even,
        "load imbalance": fit * imbalance,
        "slow node": fit * slow,
        "jitter": waiting - for_serial + fit * chance,
        "communication": transfer,
        "input/output": float(mean["io"][late]),
        "serial fraction": alone + for_serial,
        "engine overhead": float(mean["overhead"][late]),
    }
    parts["unexplained"] = seconds - sum(parts.values())
    return parts


def _late_compute(
    one: _Measured, late: int, late_cause: CauseName
) -> tuple[float, float, float, float]:
    """Compute seconds of the late rank: an even share, more items, a slower node, chance."""
    compute = one.of("compute")
    own = float(compute[:, late].mean())
    if compute.shape[1] == 1:
        return own, 0.0, 0.0, 0.0
    if one.items is not None:
        items = one.items.mean(axis=0)
        # A rank without items has no rate; taking zero keeps it from being the slow one.
        rates = np.divide(compute, one.items, out=np.zeros_like(compute), where=one.items > 0)
        typical = _lower_median(rates.mean(axis=0)[items > 0])
        even = typical * float(items.mean())
        imbalance = typical * float(items[late] - items.mean())
        rest = own - even - imbalance
        slow = rest if _stands_out(rates, late, typical) else 0.0
        return even, imbalance, slow, rest - slow
    means = compute.mean(axis=0)
    even = _lower_median(means) if late_cause == "slow node" else float(means.mean())
    rest = own - even
    if not _stands_out(compute, late, even):
        return even, 0.0, 0.0, rest
    return (even, 0.0, rest, 0.0) if late_cause == "slow node" else (even, rest, 0.0, 0.0)


def _stands_out(values: Floats, late: int, typical: float) -> bool:
    """Whether one rank is clearly the slowest, and not by chance.

    In three rounds or more: in most of them. In fewer: by more than the others differ.
    """
    excess = float(values[:, late].mean()) - typical
    if excess <= _LATE * typical:
        return False
    if len(values) >= 3:
        return float(np.mean(values.argmax(axis=1) == late)) >= _PERSISTENT
    others = np.delete(values.mean(axis=0), late)
    return len(others) >= 3 and excess > _OUTLYING * float(others.std(ddof=1))


def _lower_median(values: Floats) -> float:
    """The median that one outlier of two values cannot pull up."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def _late_cause(measured: Sequence[_Measured], times: Timings) -> CauseName:
    """Imbalance or a slow node, when items are not recorded: by the compute seconds of all ranks.

    An uneven division leaves their sum as it was at the base; a slow node adds to it.
    """
    grown = times.k if times.regime == "weak" else np.ones_like(times.k)
    base = float(measured[0].of("compute").sum(axis=1).mean())
    if base < _CLOCK_RESOLUTION:
        return "load imbalance"
    uneven = slow = 0.0
    for one, factor in zip(measured[1:], grown[1:], strict=True):
        compute = one.of("compute").mean(axis=0)
        expected = base * float(factor) / len(compute)
        uneven += abs(compute.mean() / expected - 1)
        slow += abs(_lower_median(compute) / expected - 1)
    return "slow node" if slow < uneven else "load imbalance"


def _late_ranks(study: Study) -> dict[int, int]:
    """The rank that is busy longest at each scale of several ranks."""
    late = {}
    for nodes in study.scales:
        measured = _measured(study, nodes)
        ranks = study.at(nodes)[0].ranks
        if len(ranks) > 1:
            late[nodes] = ranks[int(np.argmax(_busy(measured)))].rank
    return late


def _busy(one: _Measured) -> Floats:
    """Mean seconds until each rank is ready to meet the others."""
    busy = one.of("compute") + one.of("io") + one.of("serial") + one.of("overhead")
    if one.delays is not None:
        busy = busy + one.delays
    return np.asarray(busy.mean(axis=0))


def _rank_checks(study: Study) -> Iterator[Check]:
    if study.rounds < _TELLING_ROUNDS:
        yield warning(
            "a slow node is told from a bad moment",
            f"fewer than {_TELLING_ROUNDS} rounds: the two look much alike",
            "Measure more rounds.",
        )
    if any(rank.items is None for run in study.good_runs for rank in run.ranks):
        yield warning(
            "an uneven shard is told from a slow node",
            "no items per rank (column work): they are told apart by the sum of compute "
            "seconds over ranks only",
            "Record items to be sure.",
        )


def _ledger_of_law(times: Timings, scaling: Scaling, shape: ShapeName | None) -> _Ledger:
    """Seconds by cause from a law; bare totals name a shape, so the names are what fits best."""
    nearest = scaling.laws.nearest()
    ideal = np.ones_like(times.k) if times.regime == "weak" else 1 / times.k
    terms: dict[CauseName, Floats] = {}
    if nearest is not None:
        if shape == "early":
            terms["load imbalance"] = (1 - 1 / times.k) / times.k
        elif times.regime == "strong":
            terms["serial fraction"] = 1 - 1 / times.k
        terms["communication"] = growth_term(nearest[0], times.k)
    columns = np.stack([ideal, *terms.values()], axis=1)
    undisturbed = np.array([samples.min() for samples in times.samples])

    def losses_of(seconds: Floats) -> Losses:
        # Where runs are held up, the law is that of the quickest runs and the rest is jitter.
        lawful = np.broadcast_to(undisturbed, seconds.shape) if shape == "noisy" else seconds
        solved = nonnegative_fit(columns, lawful, 1 / times.seconds)
        losses: Losses = {
            cause: solved[:, at, None] * term[None, :]
            for at, (cause, term) in enumerate(terms.items(), start=1)
        }
        if shape == "noisy":
            held_up = seconds - lawful
            losses["jitter"] = held_up - ideal * held_up[:, :1]
        losses["unexplained"] = seconds - ideal * seconds[:, :1] - sum(losses.values())
        return losses

    drawn = losses_of(times.draws) if times.draws is not None else {}
    return _Ledger(losses_of(times.seconds[None, :]), times.draws, drawn)


def _rows(times: Timings, ledger: _Ledger, late: dict[int, int]) -> tuple[LedgerRow, ...]:
    ideals = times.k
    speedups = times.speedup(times.seconds)
    rows = []
    for at, nodes in enumerate(times.nodes):
        seconds = float(times.seconds[at])
        ideal, speedup = float(ideals[at]), float(speedups[at])
        losses = []
        for cause, lost in ledger.losses.items():
            loss = float(lost[0, at])
            if abs(loss) <= 1e-12 * seconds:
                continue
            low, high = _fold_bounds(times, ledger, cause, at)
            losses.append(
                Loss(
                    cause=cause,
                    seconds=loss,
                    share=loss / seconds,
                    folds=ideal * loss / seconds,
                    folds_low=low,
                    folds_high=high,
                    speedup_without=speedup * seconds / (seconds - loss)
                    if loss < seconds
                    else None,
                )
            )
        losses.sort(key=lambda loss: -loss.folds)
        lost_folds = ideal - speedup
        rows.append(
            LedgerRow(
                nodes=nodes,
                seconds=seconds,
                ideal=ideal,
                speedup=speedup,
                lost_folds=lost_folds,
                causes=tuple(losses),
                dominant_cause=losses[0].cause if lost_folds > _MIN_LOST_SHARE * ideal else None,
                late_rank=late.get(nodes),
            )
        )
    return tuple(rows)


def _fold_bounds(
    times: Timings, ledger: _Ledger, cause: CauseName, at: int
) -> tuple[float | None, float | None]:
    if ledger.drawn_seconds is None or cause not in ledger.drawn_losses:
        return None, None
    folds = times.k[at] * ledger.drawn_losses[cause][:, at] / ledger.drawn_seconds[:, at]
    low, high = stats.percentile_interval(folds, times.rounds)
    return low, high


def _agreement(ledger: _Ledger, at: int, dominant: CauseName | None) -> float | None:
    """The share of resamples in which the same cause takes most."""
    if ledger.drawn_seconds is None or dominant not in ledger.drawn_losses:
        return None
    causes = list(ledger.drawn_losses)
    lost = np.stack([ledger.drawn_losses[cause][:, at] for cause in causes], axis=1)
    return float(np.mean(lost.argmax(axis=1) == causes.index(dominant)))


def _overlap_checks(row: LedgerRow) -> Iterator[Check]:
    overlap = next((loss for loss in row.causes if loss.cause == "unexplained"), None)
    if overlap is not None and overlap.folds <= -_MIN_LOST_SHARE * row.ideal:
        yield warning(
            "the stages add up to the wall time",
            f"at K={row.nodes} the named seconds exceed the wall time by {-overlap.seconds:.3g} s",
            "Look for stages that overlap, or for one that was measured wrongly.",
        )


def _recorded(study: Study, nodes: int, evidence: Evidence) -> set[CauseName]:
    """The causes that the ledger of one scale would show; waiting has several: idle or ranks."""
    if evidence not in ("stages of each rank", "stage totals"):
        return set()
    measured = _measured(study, nodes)
    recorded: set[CauseName] = {CAUSE_OF_STAGE[stage] for stage in measured.stages}
    if measured.delays is not None:
        recorded.add("foreign load")
    waits = evidence == "stages of each rank" or "idle" in measured.stages
    return recorded | _WAITED_FOR if waits else recorded


def _other_changes(
    row: LedgerRow, evidence: Evidence, recorded: set[CauseName]
) -> tuple[Remedy, ...]:
    """What the fixes for the other causes would return here, so that nobody tries them first."""
    if row.dominant_cause is None:
        return ()
    folds: dict[CauseName, float] = {loss.cause: loss.folds for loss in row.causes}
    # Totals give waiting one name; which of its causes it was, only ranks can say.
    waited = 0.0
    if evidence == "stage totals":
        waited = sum(folds.get(cause, 0.0) for cause in ("idle", *_WAITED_FOR))
    silent: set[str] = {row.dominant_cause, "unexplained", "idle"}
    # Most jobs have no engine that hands out their work, and need not hear of it.
    silent |= {"engine overhead"}.difference(recorded)
    remedies = []
    for cause, facts in CAUSES.items():
        if cause in silent:
            continue
        returned = max(folds.get(cause, 0.0), 0.0)
        lost = f"{format_speedup(returned)} of the lost folds"
        if returned > _MIN_SECOND_CAUSE * row.lost_folds:
            verdict = f"worth it second: {lost} are here"
        elif returned > _MIN_LOST_SHARE * row.lost_folds:
            verdict = f"would return little: {lost} are here"
        elif evidence == "fitted law" and cause in ("serial fraction", "communication"):
            verdict = "would do nothing: the fitted law has none of it"
        elif cause not in recorded:
            verdict = "unknown: not recorded"
        elif cause in _WAITED_FOR and waited > _MIN_LOST_SHARE * row.lost_folds:
            verdict = (
                f"unknown: part of the {format_speedup(waited)} folds of waiting may be here; "
                "record the stages of each rank"
            )
        else:
            verdict = f"would do nothing: it acts on {facts.acts_on}, and {lost} are there"
        remedies.append(Remedy(cause=cause, change=facts.change, folds=returned, verdict=verdict))
    return tuple(sorted(remedies, key=lambda remedy: -remedy.folds))
