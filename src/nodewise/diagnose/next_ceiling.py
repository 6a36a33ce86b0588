"""What limits a job after it was distributed, at the scale where its curve bends.

The ledger says how much speedup each cause takes. The largest loss is the ceiling that binds, and
each ceiling has the axis that lifts it. A second axis is justified when that loss lies on another
axis than the ceiling of the smallest scale. A stage without a record stays an open question.
"""

from collections import Counter
from typing import NamedTuple

import msgspec

from nodewise.base.units import format_efficiency, format_speedup
from nodewise.diagnose.axes import MENU, PROPOSALS, Answer, AxisName, CeilingName, axis_words, judge
from nodewise.diagnose.flow import Branch, BranchAnswer, Confidence
from nodewise.explain.attribute import Attribution, LedgerRow
from nodewise.explain.causes import CAUSES, CauseName, recorded_causes
from nodewise.study.spec import Regime
from nodewise.study.study import Run, Stage, Study

# The ceiling that a cause belongs to. A cause that is not here has no axis that lifts it: work that
# does not split, the load of others, or what nothing explains.
_OF_CAUSE: dict[CauseName, CeilingName] = {
    "communication": "communication",
    "input/output": "data I/O",
    "load imbalance": "coordination",
    "slow node": "coordination",
    "jitter": "coordination",
    "idle": "coordination",
    "engine overhead": "coordination",
}
_OF_STAGE: dict[Stage, CeilingName] = {
    "compute": "compute",
    "communication": "communication",
    "idle": "coordination",
    "io": "data I/O",
    "serial": "compute",
    "overhead": "coordination",
}
_STAGES_WERE_RECORDED = ("stages of each rank", "stage totals")
_CONFIDENCE: dict[str, Confidence] = {"stages of each rank": "high", "stage totals": "medium"}
_TERMS_OF_LAWS: frozenset[CauseName] = frozenset({"serial fraction", "communication"})
_CLOSE = 0.05  # of the time: two losses this near may change places in another measurement
_MIN_SECOND_CAUSE = 0.25  # of what is lost: a second cause worth a change of its own
_LEAST_SHOWN = 0.005  # of the time: what rounding shows as nothing


class _Question(NamedTuple):
    """A question of the flow and the causes that answer it."""

    words: str
    causes: tuple[CauseName, ...]
    optional: bool = False  # asked only where something was recorded


_QUESTIONS = (
    _Question("Is it reading and writing?", ("input/output",)),
    _Question("Do ranks wait for each other?", ("idle", "load imbalance", "slow node", "jitter")),
    _Question("Is it the exchange of data?", ("communication",)),
    _Question("Is it the engine?", ("engine overhead",), optional=True),
    _Question("Does some work not split?", ("serial fraction",)),
    _Question("Does the work itself grow?", ("compute inflation",)),
    _Question("Do other processes take the cores?", ("foreign load",), optional=True),
    _Question("Is some of it unexplained?", ("unexplained",), optional=True),
)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one ceiling takes of the wall time at one scale, beyond an ideal split."""

    name: str  # a ceiling of the menu, or a cause that no axis lifts
    seconds: float
    share: float  # of the wall time
    folds: float  # of speedup lost
    axis: AxisName | None
    causes: tuple[str, ...]
    speedup_without: float  # at most, if this part vanished


class NextCeiling(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """What binds a distributed job, what bound it before, whether a second axis is justified."""

    study: str
    regime: Regime
    nodes: int
    seconds: float
    ideal: float
    speedup: float
    lost_folds: float
    bends: bool  # efficiency is below the threshold here
    first: CeilingName | None  # of the job on the smallest scale; null: not recorded
    first_axis: AxisName | None
    cause: CauseName | None  # the largest loss in the ledger
    ceiling: str | None  # that binds now; null: none is reached, or the records cannot tell
    axis: AxisName | None  # that lifts it; null: none
    next: str | None  # the one that follows when that is lifted
    second_axis_justified: bool
    confidence: Confidence
    parts: tuple[Part, ...]
    branches: tuple[Branch, ...]
    verdict: str
    change: str
    evidence: str
    answer: Answer | None = None


def next_ceiling(
    study: Study, attribution: Attribution, proposal: str | None = None
) -> NextCeiling:
    """The ceiling that binds, at the scale where the curve bends or else at the largest."""
    row = attribution.row(attribution.nodes)
    base = min(attribution.rows, key=lambda one: one.nodes)
    first = _first_ceiling(study.at(base.nodes))
    first_axis = MENU[first].axis if first else None
    cause = row.dominant_cause
    binds = cause if attribution.bends and cause != "unexplained" else None
    ceiling = _OF_CAUSE.get(binds, binds) if binds else None
    axis = _axis_of(binds) if binds else None
    moved = first is not None and axis is not None and axis != first_axis
    close = None if binds is None else _close_rival(row, binds)
    undecided = attribution.bends and binds is None
    parts = _parts(row)
    return NextCeiling(
        study=study.name,
        regime=study.regime,
        nodes=row.nodes,
        seconds=row.seconds,
        ideal=row.ideal,
        speedup=row.speedup,
        lost_folds=row.lost_folds,
        bends=attribution.bends,
        first=first,
        first_axis=first_axis,
        cause=cause,
        ceiling=ceiling,
        axis=axis,
        next=next((part.name for part in parts if part.name != ceiling), None),
        second_axis_justified=moved and close is None,
        confidence="low" if undecided or close else _CONFIDENCE.get(attribution.evidence, "low"),
        parts=parts,
        branches=_branches(study, attribution, row, binds),
        verdict=_verdict(row, attribution.bends, binds) + _axis_words(first, binds, close),
        change=_change(attribution.bends, row, binds),
        evidence=attribution.evidence,
        answer=_judge(proposal, attribution.bends, first, None if close else binds)
        if proposal
        else None,
    )


def _judge(
    proposal: str, bends: bool, first: CeilingName | None, binds: CauseName | None
) -> Answer:
    """Yes or no by what binds now; while nothing does, by what bound on the smallest scale."""
    if binds is None or binds in _OF_CAUSE:
        return judge(proposal, _OF_CAUSE[binds] if binds else None if bends else first)
    reason = f"most of what is lost goes to {binds}, and no axis lifts that"
    return Answer(proposal, PROPOSALS[proposal].axis, "no", reason, CAUSES[binds].change)


def _first_ceiling(runs: tuple[Run, ...]) -> CeilingName | None:
    """What took most of the time at the base, where stages were recorded."""
    sums: Counter[CeilingName] = Counter()
    for run in runs:
        recorded = [run.stages] if run.stages else [rank.stages for rank in run.ranks]
        for stages in recorded:
            for stage, seconds in stages.items():
                sums[_OF_STAGE[stage]] += seconds / len(recorded)  # type: ignore[assignment]
    return sums.most_common(1)[0][0] if sum(sums.values()) else None


def _axis_of(cause: CauseName) -> AxisName | None:
    ceiling = _OF_CAUSE.get(cause)
    return MENU[ceiling].axis if ceiling else None


def _close_rival(row: LedgerRow, binds: CauseName) -> CauseName | None:
    """A cause of another axis that takes hardly less."""
    folds = next(loss.folds for loss in row.causes if loss.cause == binds)
    axis = _axis_of(binds)
    rivals = [loss for loss in row.causes if _axis_of(loss.cause) != axis or axis is None]
    return next(
        (
            loss.cause
            for loss in rivals
            if loss.cause != binds and (folds - loss.folds) / row.ideal < _CLOSE
        ),
        None,
    )


def _parts(row: LedgerRow) -> tuple[Part, ...]:
    """The losses of the ledger, those under one ceiling together; the largest first."""
    causes: dict[str, list[CauseName]] = {}
    seconds: Counter[str] = Counter()
    for loss in row.causes:
        name = _OF_CAUSE.get(loss.cause, loss.cause)
        seconds[name] += loss.seconds  # type: ignore[assignment]
        if loss.seconds > 0:
            causes.setdefault(name, []).append(loss.cause)
    return tuple(
        Part(
            name=name,
            seconds=lost,
            share=lost / row.seconds,
            folds=row.ideal * lost / row.seconds,
            axis=_axis_of(causes[name][0]),
            causes=tuple(causes[name]),
            speedup_without=_speedup_without(row, lost),
        )
        for name, lost in seconds.most_common()
        if lost > _LEAST_SHOWN * row.seconds
    )


def _speedup_without(row: LedgerRow, lost: float) -> float:
    """Without a loss no run is faster than the ideal one."""
    ideal_seconds = row.seconds * row.speedup / row.ideal
    return row.speedup * row.seconds / max(row.seconds - lost, ideal_seconds)


def _branches(
    study: Study, attribution: Attribution, row: LedgerRow, binds: CauseName | None
) -> tuple[Branch, ...]:
    """Every question, as the ledger answers it."""
    lost = {loss.cause: loss.folds for loss in row.causes}
    by_stages = attribution.evidence in _STAGES_WERE_RECORDED
    recorded = recorded_causes(study, row.nodes)
    branches = []
    for question in _QUESTIONS:
        named = {cause: lost[cause] for cause in question.causes if lost.get(cause, 0.0) > 0}
        total = sum(named.values())
        known = by_stages and any(cause in recorded or cause in lost for cause in question.causes)
        if question.optional and not (by_stages and total):
            continue
        answer: BranchAnswer = "fine"
        if binds in question.causes:
            answer = "binds"
        elif not known:
            answer = "not recorded" if by_stages else _of_totals(question)
        elif attribution.bends and total > _MIN_SECOND_CAUSE * row.lost_folds:
            answer = "not known" if "unexplained" in question.causes else "second"
        amounts = ", ".join(f"{cause} {format_speedup(x)}x" for cause, x in named.items())
        if answer == "fine" and total < _LEAST_SHOWN * row.ideal:
            amounts = "nothing lost"
        branches.append(
            Branch(
                question=question.words,
                ceiling=_OF_CAUSE.get(question.causes[0]),
                answer=answer,
                evidence="" if answer in ("not recorded", "not identifiable") else amounts,
                confidence=_CONFIDENCE.get(attribution.evidence, "low"),
            )
        )
    return tuple(branches)


def _of_totals(question: _Question) -> BranchAnswer:
    """Bare times hold the terms of a law but cannot tell one from the other."""
    in_a_law = _TERMS_OF_LAWS.intersection(question.causes)
    return "not identifiable" if in_a_law else "not recorded"


def _verdict(row: LedgerRow, bends: bool, binds: CauseName | None) -> str:
    lost = f"{format_speedup(row.lost_folds)}x lost"
    where = f"at K={row.nodes}"
    if not bends:
        efficiency = format_efficiency(row.speedup / row.ideal)
        words = f"no ceiling is reached up to K={row.nodes}, at efficiency {efficiency}"
        if row.dominant_cause is None:
            return words
        folds = format_speedup(row.causes[0].folds)
        return f"{words}; the largest loss is {row.dominant_cause} ({folds}x)"
    if binds is None:
        if row.dominant_cause == "unexplained":
            folds = format_speedup(row.causes[0].folds)
            return f"undecided {where}: no record explains {folds}x of the {lost}"
        return f"undecided {where}: the records cannot divide the {lost} among causes"
    folds = format_speedup(next(loss.folds for loss in row.causes if loss.cause == binds))
    ceiling = _OF_CAUSE.get(binds, binds)
    which = "it" if ceiling == binds else binds
    return f"{ceiling} binds {where}: {which} takes {folds}x of the {lost}"


def _axis_words(first: CeilingName | None, binds: CauseName | None, close: CauseName | None) -> str:
    """Whether a second axis is justified."""
    if binds is None:
        return ""
    axis = _axis_of(binds)
    if close is not None:
        return f"; {close} takes hardly less: measure again before you change anything"
    if axis is None:
        return "; no axis lifts it"
    if first is None:
        return f"; {axis_words(axis)}"
    if axis == MENU[first].axis:
        return f"; {first} bound before too: keep to the axis {axis}"
    return f"; a second axis is justified: {axis_words(axis)}"


def _change(bends: bool, row: LedgerRow, binds: CauseName | None) -> str:
    if binds is not None:
        return CAUSES[binds].change
    if not bends:
        return "keep scaling the same way; do not add a second axis yet"
    return CAUSES[row.dominant_cause or "unexplained"].change
