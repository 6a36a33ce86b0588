"""What limits a job after it was distributed, at the scale where its curve bends.

The ledger says how much speedup each cause takes. The largest loss is the ceiling that binds, and
each ceiling has the axis that raises it. A second axis is justified when that loss lies on another
axis than the ceiling of the smallest scale. A stage without a record stays an open question.
"""

from collections import Counter
from typing import NamedTuple

import msgspec

from nodewise.base.units import format_efficiency, format_percent, format_speedup
from nodewise.diagnose.axes import (
    MENU,
    PROPOSALS,
    Answer,
    AxisName,
    CeilingName,
    Confidence,
    axis_words,
    judge,
)
from nodewise.diagnose.flow import Branch, BranchAnswer
from nodewise.explain.attribute import Attribution, LedgerRow, Loss
from nodewise.explain.causes import CAUSES, CauseName
from nodewise.study.spec import Regime
from nodewise.study.study import Run, Stage, Study

# The ceiling that a cause belongs to. No axis raises a cause that is not here: work that does not
# split, a slow node, the load of others, or what nothing explains.
_OF_CAUSE: dict[CauseName, CeilingName] = {
    "communication": "communication",
    "input/output": "data I/O",
    "load imbalance": "coordination",
    "jitter": "coordination",
    "late rank": "coordination",
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
_CONFIDENCE: dict[str, Confidence] = {"stages of each rank": "high", "stage totals": "medium"}
_OPEN: tuple[BranchAnswer, ...] = ("not recorded", "not identifiable")
_MIN_SECOND_CAUSE = 0.25  # of what is lost: a second cause worth a change of its own
_LEAST_SHOWN = 0.005  # of the time, or of 1x: what rounding shows as nothing


class _Question(NamedTuple):
    """A question of the flow and the causes that answer it."""

    words: str
    causes: tuple[CauseName, ...]
    optional: bool = False  # asked only where something was recorded


_QUESTIONS = (
    _Question("Is it reading and writing?", ("input/output",)),
    _Question(
        "Do ranks wait for each other?",
        ("idle", "load imbalance", "slow node", "jitter", "late rank"),
    ),
    _Question("Is it the exchange of data?", ("communication",)),
    _Question("Is it the engine?", ("engine overhead",), optional=True),
    _Question("Is it the emulation of the nodes?", ("emulation",), optional=True),
    _Question("Does some work not split?", ("serial fraction",)),
    _Question("Does the work itself grow?", ("compute inflation",)),
    _Question(
        "Do other processes take the cores?", ("foreign load", "oversubscription"), optional=True
    ),
    _Question("Is some of it unexplained?", ("unexplained",), optional=True),
)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """What one ceiling takes of the wall time at one scale, beyond an ideal split."""

    name: str  # a ceiling of the menu, or a cause that no axis raises
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
    axis: AxisName | None  # that raises it; null: none
    next: str | None  # the one that follows when that is lifted
    second_axis_justified: bool
    confidence: Confidence
    parts: tuple[Part, ...]
    branches: tuple[Branch, ...]
    verdict: str
    change: str
    evidence: str
    elsewhere: tuple[str, ...] = ()  # verdicts at the recommended and at the largest scale
    answer: Answer | None = None


def next_ceiling(
    study: Study,
    attribution: Attribution,
    proposal: str | None = None,
    recommended: int | None = None,
) -> NextCeiling:
    """The ceiling that binds, at the scale where the curve bends or else at the largest.

    The recommended and the largest scale are judged too, where they are others.
    """
    row, bends = attribution.bend_row, attribution.bend is not None
    first = _first_ceiling(study.at(attribution.rows[0].nodes))
    first_axis = MENU[first].axis if first else None
    cause = row.dominant_cause
    binds = cause if bends and cause != "unexplained" else None
    ceiling = _OF_CAUSE.get(binds, binds) if binds else None
    axis = _axis_of(binds) if binds else None
    parts = _parts(row)
    undecided = bends and binds is None
    return NextCeiling(
        study=study.name,
        regime=study.regime,
        nodes=row.nodes,
        seconds=row.seconds,
        ideal=row.ideal,
        speedup=row.speedup,
        lost_folds=row.lost_folds,
        bends=bends,
        first=first,
        first_axis=first_axis,
        cause=cause,
        ceiling=ceiling,
        axis=axis,
        next=next((part.name for part in parts if part.name != ceiling), None),
        second_axis_justified=first is not None and axis is not None and axis != first_axis,
        confidence="low" if undecided else _CONFIDENCE.get(attribution.evidence, "low"),
        parts=parts,
        branches=_branches(attribution, row, binds),
        verdict=_verdict(row, bends, binds)
        + _axis_words(first, binds)
        + _bound_words(attribution, binds),
        change=_change(attribution, row),
        evidence=attribution.evidence,
        elsewhere=_elsewhere(attribution, row.nodes, recommended),
        answer=_judge(proposal, bends, first, binds) if proposal else None,
    )


def _elsewhere(attribution: Attribution, judged: int, recommended: int | None) -> tuple[str, ...]:
    """What binds at the recommended and at the largest scale, by the time that is lost there."""
    scales = {attribution.nodes: "the largest scale"}
    if recommended is not None:
        scales = {recommended: "the recommended scale"} | scales
    verdicts = []
    for nodes, name in sorted(scales.items()):
        row = next((one for one in attribution.rows if one.nodes == nodes), None)
        if row is None or nodes in (judged, attribution.rows[0].nodes):
            continue
        bends = attribution.bend is not None and nodes >= attribution.bend
        known = bends and row.dominant_cause != "unexplained"
        verdicts.append(f"{name}: {_verdict(row, bends, row.dominant_cause if known else None)}")
    return tuple(verdicts)


def _judge(
    proposal: str, bends: bool, first: CeilingName | None, binds: CauseName | None
) -> Answer:
    """Yes or no by what binds now; while nothing does, by what bound on the smallest scale."""
    if binds is None or binds in _OF_CAUSE:
        return judge(proposal, _OF_CAUSE[binds] if binds else None if bends else first)
    reason = f"most of what is lost goes to {binds}, and no axis raises that"
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


def _parts(row: LedgerRow) -> tuple[Part, ...]:
    """The losses of the ledger, those under one ceiling together; the largest first."""
    causes: dict[str, list[CauseName]] = {}
    seconds: Counter[str] = Counter()
    # Totals that name no cause give no part of what is lost a ceiling.
    unknown = not row.time_shares and row.dominant_cause is None
    for loss in row.causes:
        name = "unexplained" if unknown else _OF_CAUSE.get(loss.cause, loss.cause)
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
    attribution: Attribution, row: LedgerRow, binds: CauseName | None
) -> tuple[Branch, ...]:
    """Every question, as the ledger answers it."""
    branches = []
    for question in _QUESTIONS:
        losses = [
            loss
            for loss in row.causes
            if loss.cause in question.causes and loss.folds >= _LEAST_SHOWN
        ]
        if question.optional and not (row.time_shares and losses):
            continue
        answer = _answer(question, attribution, row, binds)
        amounts = [_amount(loss, row) for loss in losses] or ["nothing lost"]
        bound = attribution.bound
        if bound is not None and bound.cause in question.causes:
            amounts.append(f"{format_percent(bound.share)} of the time")
        branches.append(
            Branch(
                question=question.words,
                ceiling=_OF_CAUSE.get(binds if answer == "binds" and binds else question.causes[0]),
                answer=answer,
                evidence="" if answer in _OPEN else ", ".join(amounts),
                confidence=_CONFIDENCE.get(attribution.evidence, "low"),
                turn="yes",
            )
        )
    return tuple(branches)


def _answer(
    question: _Question, attribution: Attribution, row: LedgerRow, binds: CauseName | None
) -> BranchAnswer:
    lost = sum(max(loss.folds, 0.0) for loss in row.causes if loss.cause in question.causes)
    if binds in question.causes:
        return "binds"
    if not row.time_shares:  # bare times hold the terms of laws but cannot divide them
        in_a_law = any(loss.cause in question.causes for loss in row.causes)
        return "not identifiable" if in_a_law else "not recorded"
    recorded = row.recorded_causes.union(loss.cause for loss in row.causes)
    if attribution.evidence == "stages of each rank":
        recorded.add("idle")  # ranks show who waits for whom
    if not recorded.intersection(question.causes):
        return "not recorded"
    bound = attribution.bound is not None and attribution.bound.cause in question.causes
    if not bound and not (row.loses and lost > _MIN_SECOND_CAUSE * row.lost_folds):
        return "fine"
    return "not known" if "unexplained" in question.causes else "second"


def _amount(loss: Loss, row: LedgerRow) -> str:
    """What a cause takes; from bare times, the range over the laws that fit."""
    if not row.time_shares and loss.folds_low is not None and loss.folds_high is not None:
        low, high = format_speedup(loss.folds_low), format_speedup(loss.folds_high)
        return f"{loss.cause} {low}x to {high}x"
    return f"{loss.cause} {format_speedup(loss.folds)}x"


def _verdict(row: LedgerRow, bends: bool, binds: CauseName | None) -> str:
    lost = f"{format_speedup(row.lost_folds)}x lost"
    where = f"at K={row.nodes}"
    found = {loss.cause: loss for loss in row.causes}
    if not bends:
        efficiency = format_efficiency(row.speedup / row.ideal)
        words = f"no ceiling is reached up to K={row.nodes}, at efficiency {efficiency}"
        if row.dominant_cause is None:
            return words
        return f"{words}; the largest loss is {_amount(found[row.dominant_cause], row)}"
    if binds is not None:
        ceiling = _OF_CAUSE.get(binds, binds)
        which = "it" if ceiling == binds else binds
        amount = _amount(found[binds], row).removeprefix(f"{binds} ")
        return f"{ceiling} binds {where}: {which} takes {amount} of the {lost}"
    if not row.time_shares:
        return f"undecided {where}: totals do not identify the cause of the {lost}"
    if row.possible_causes[:1] == ("unexplained",):
        folds = f"{format_speedup(found['unexplained'].folds)}x"
        return f"undecided {where}: no record explains {folds} of the {lost}"
    named = " or ".join(row.possible_causes)
    axes = {_axis_of(cause) for cause in row.possible_causes}
    either = f"; {axis_words(axes.pop())} either way" if len(axes) == 1 else ""
    return f"undecided {where}: {named} takes most of the {lost}, not separable{either}"


def _axis_words(first: CeilingName | None, binds: CauseName | None) -> str:
    """Whether a second axis is justified."""
    if binds is None:
        return ""
    axis = _axis_of(binds)
    if axis is None:
        return "; no axis raises it"
    if first is None:
        return f"; {axis_words(axis)}"
    if axis == MENU[first].axis:
        return f"; {first} bound before too: keep to the axis {axis}"
    return f"; a second axis is justified: {axis_words(axis)}"


def _bound_words(attribution: Attribution, binds: CauseName | None) -> str:
    """The stage that takes much of the time whatever K is."""
    bound = attribution.bound
    if bound is None or bound.cause == binds:
        return ""
    what = "in no recorded stage" if bound.cause == "unexplained" else bound.cause
    return f"; at every K much of the time is {what} ({format_percent(bound.share)})"


def _change(attribution: Attribution, row: LedgerRow) -> str:
    if attribution.bend is not None:
        return row.change or CAUSES["unexplained"].change
    if attribution.bound is not None:
        return attribution.bound.change
    return "keep scaling the same way; do not add a second axis yet"
