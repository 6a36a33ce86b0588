"""After a job was distributed: which ceiling binds at the scale that was reached, which is next.

The wall time at K is what an ideal split would leave of each stage, plus what was lost to each
cause; so its parts add up. Each part stands under a ceiling, and each ceiling has the axis that
lifts it. As long as the first axis would lift more of the time than any other, it is not used up.
Otherwise the largest part of another axis is the next ceiling, and only then is a second axis
justified, by this measurement.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from nodewise.base.units import format_percent
from nodewise.diagnose.axes import MENU, Answer, AxisName, CeilingName, axis_words, judge
from nodewise.diagnose.flow import Branch, BranchAnswer, Confidence, Diagnosis, under
from nodewise.explain.attribute import Attribution, LedgerRow
from nodewise.explain.causes import CAUSE_OF_STAGE, CAUSES, CauseName
from nodewise.study.spec import Regime
from nodewise.study.study import Run, Stage, Study

# The ceiling under which a part of the time stands. What is not here is no ceiling of a machine:
# work that does not split, other people's load, or what nothing explains.
_OF_CAUSE: dict[CauseName, CeilingName] = {
    "communication": "communication",
    "input/output": "data I/O",
    "load imbalance": "coordination",
    "slow node": "coordination",
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
_CONFIDENCE: dict[str, Confidence] = {
    "stages of each rank": "high",
    "stage totals": "medium",
    "fitted law": "low",
    "two bare times": "low",
}

_CLOSE = 0.05  # of the time


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Part of the wall time at one scale: the ceiling that it stands under, and its axis."""

    name: str  # a ceiling of the menu, or a cause that no axis lifts
    seconds: float
    share: float
    axis: AxisName | None
    causes: tuple[str, ...]
    speedup_without: float  # at most, if this part vanished


class NextCeiling(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """What binds a distributed job, what bound it before, whether a second axis is justified."""

    study: str
    regime: Regime
    nodes: int
    seconds: float
    speedup: float
    first: CeilingName  # of the job on the smallest scale
    first_axis: AxisName | None
    ceiling: str  # that binds now
    axis: AxisName | None  # to distribute next; none: no axis helps
    next: str | None  # the one that follows when that is lifted
    second_axis_justified: bool
    confidence: Confidence
    parts: tuple[Part, ...]
    verdict: str
    change: str
    evidence: str
    recorded: tuple[CeilingName, ...]  # the ceilings that the records at this scale can show
    answer: Answer | None = None


def next_ceiling(
    study: Study, attribution: Attribution, proposal: str | None = None
) -> NextCeiling:
    """The next-tightest ceiling, at the scale where the curve bends or else at the largest."""
    row = attribution.bend_row
    base = min(attribution.rows, key=lambda one: one.nodes)
    shares = _stage_shares([run for run in study.good_runs if run.nodes == base.nodes])
    first = max(shares, key=lambda name: shares[name])
    parts = _parts(row, shares)
    largest = _binding(parts)
    moved, close = largest.axis != MENU[first].axis, _is_close(parts)
    change = MENU[first].first
    if moved:
        change = _change(largest)
    named: CeilingName | None = largest.name if largest.name in MENU else None
    return NextCeiling(
        study=study.name,
        regime=study.regime,
        nodes=row.nodes,
        seconds=row.seconds,
        speedup=row.speedup,
        first=first,
        first_axis=MENU[first].axis,
        ceiling=largest.name,
        axis=largest.axis,
        next=next((part.name for part in parts if part is not largest), None),
        second_axis_justified=moved and largest.axis is not None and not close,
        confidence="low" if close else _CONFIDENCE[attribution.evidence],
        parts=parts,
        verdict=_verdict(row, first, largest, parts, close),
        change=change,
        evidence=attribution.evidence,
        recorded=_recorded_ceilings(row),
        answer=judge(proposal, named) if proposal else None,
    )


def _stage_shares(runs: list[Run]) -> dict[CeilingName, float]:
    """Of the time at the base, by ceiling; without stages all of it is work."""
    sums: Counter[CeilingName] = Counter()
    for run in runs:
        recorded = [run.stages] if run.stages else [rank.stages for rank in run.ranks]
        for stages in recorded:
            for stage, seconds in stages.items():
                sums[_OF_STAGE[stage]] += seconds / len(recorded)  # type: ignore[assignment]
    whole = sum(sums.values())
    if not whole:
        return {"compute": 1.0}
    return {name: seconds / whole for name, seconds in sums.items()}


def _recorded_ceilings(row: LedgerRow) -> tuple[CeilingName, ...]:
    ceiling_of = {CAUSE_OF_STAGE[stage]: ceiling for stage, ceiling in _OF_STAGE.items()}
    found = [ceiling_of[cause] for cause in row.time_shares if cause in ceiling_of]
    return tuple(dict.fromkeys(found))


def _parts(row: LedgerRow, shares: dict[CeilingName, float]) -> tuple[Part, ...]:
    lost = sum(loss.seconds for loss in row.causes)
    ideal = max(row.seconds - lost, 0.0)
    seconds: Counter[str] = Counter()
    causes: dict[str, list[str]] = {}
    for name, share in shares.items():
        seconds[name] += ideal * share  # type: ignore[assignment]
    # From totals that name no cause, no part of what is lost has a ceiling.
    unknown = not row.time_shares and row.dominant_cause is None
    for loss in row.causes:
        under = "unexplained" if unknown else _OF_CAUSE.get(loss.cause, loss.cause)
        seconds[under] += loss.seconds  # type: ignore[assignment]
        if loss.seconds > 0:
            causes.setdefault(under, []).append(loss.cause)
    return tuple(
        Part(
            name=name,
            seconds=taken,
            share=taken / row.seconds,
            axis=MENU[name].axis if name in MENU else None,
            causes=tuple(causes.get(name, ())),
            speedup_without=row.speedup * row.seconds / max(row.seconds - taken, 1e-12),
        )
        for name, taken in seconds.most_common()
        if taken > 0.005 * row.seconds  # what rounding shows as nothing
    )


def _change(part: Part) -> str:
    if part.name in MENU:
        return CAUSES[part.causes[0]].change if part.causes else MENU[part.name].first  # type: ignore[index]
    return CAUSES[part.name].change  # type: ignore[index]


def _by_axis(parts: tuple[Part, ...]) -> Sequence[tuple[str, float]]:
    """The share of the time that each axis would lift, or that none does; the largest first."""
    shares: Counter[str] = Counter()
    for part in parts:
        shares[part.axis or part.name] += part.share  # type: ignore[assignment]
    return shares.most_common()


def _binding(parts: tuple[Part, ...]) -> Part:
    """The largest part of the axis that would lift most of the time."""
    axis, _ = _by_axis(parts)[0]
    return next(part for part in parts if axis in (part.axis, part.name))


def _is_close(parts: tuple[Part, ...]) -> bool:
    """Whether the two axes that would lift most may change places when it is measured again."""
    shares = [share for _, share in _by_axis(parts)]
    return len(shares) > 1 and shares[0] - shares[1] < _CLOSE


def _verdict(
    row: LedgerRow, first: CeilingName, now: Part, parts: tuple[Part, ...], close: bool
) -> str:
    others = [part for part in parts if part is not now]
    where = f"at K = {row.nodes}: {format_percent(now.share)} of the time"
    if now.axis is not None and now.axis == MENU[first].axis:
        rest = (
            f"; next is {others[0].name} with {format_percent(others[0].share)}" if others else ""
        )
        return (
            f"{now.name} still binds {where}; the first axis is not used up, and a second one is "
            f"not justified{rest}"
        )
    binds = f"{now.name} binds {where}"
    if now.axis is None:
        return f"{binds}; no axis lifts it, so a second one is not justified"
    whole = sum(part.share for part in parts if part.axis == now.axis)
    together = (
        f" ({format_percent(whole)} with all that the same axis lifts)" if whole > now.share else ""
    )
    if close:
        return (
            f"{binds}{together}, {first} hardly less; measure again before a second axis "
            f"({axis_words(now.axis)}) is called justified"
        )
    return (
        f"{binds}{together}, {first} no longer does; a second axis is justified: "
        f"{axis_words(now.axis)}"
    )


_QUESTIONS: dict[CeilingName, str] = {
    "data I/O": "Is it reading the data?",
    "coordination": "Is it waiting for each other?",
    "communication": "Is it the exchange?",
    "compute": "Is it the work itself?",
}


def flow_of(result: NextCeiling) -> Diagnosis | None:
    """The ceiling as a way through the flow; nothing where no ceiling of the menu binds."""
    if result.ceiling not in MENU:
        return None
    shares = {part.name: part.share for part in result.parts}
    branches: list[Branch] = []
    over = False
    for ceiling, question in _QUESTIONS.items():
        binds = ceiling == result.ceiling
        known = ceiling in result.recorded
        share = f"{format_percent(shares.get(ceiling, 0.0))} of the time"
        answer: BranchAnswer = "binds" if binds else "fine" if known else "not known"
        branches.append(
            Branch(
                question=question,
                ceiling=ceiling,
                answer="not asked" if over else answer,
                evidence="" if over else share if known or binds else "not recorded",
                confidence=result.confidence,
            )
        )
        over = over or binds
    return Diagnosis(
        outcome="ceiling",
        **under(result.ceiling),
        confidence=result.confidence,
        evidence=(result.verdict,),
        branches=tuple(branches),
    )
