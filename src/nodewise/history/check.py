"""Whether the newest studies of a history pass: slowdowns that the history shows, and gates."""

from collections.abc import Sequence
from statistics import median
from typing import Literal

import msgspec

from nodewise.base.units import format_percent
from nodewise.history.detect import LEAST_CAMPAIGNS
from nodewise.history.entry import Entry
from nodewise.history.gates import (
    FEWEST_BASES,
    Gate,
    GateResult,
    judge,
    parse_gate,
    without_data,
)
from nodewise.history.regressions import (
    Campaign,
    Regression,
    campaigns_of,
    count_words,
    regressions,
)

State = Literal["passed", "failed", "in doubt", "no answer"]
_NEW = 3  # campaigns that a slowdown fails, so that one that was not looked at is not missed
_MORE_LOAD = 0.1  # of the CPU, beyond what other processes took in earlier studies
ANY_SLOWDOWN = "slower=0%"  # the gate of a check that names none


class Confirmation(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """What rounds of both commits in turn say about one K."""

    workload: str
    nodes: int
    good: str
    bad: str
    rounds: int
    ratio: float
    low: float
    high: float
    state: Literal["slower", "not slower", "in doubt"]


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A study of the newest campaign that cannot be judged with the others."""

    workload: str
    because: str


class HistoryCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on the newest campaign."""

    state: State
    because: str  # why no answer is given, or why a slowdown is in doubt
    newest: tuple[Entry, ...]
    machine: str
    studies: int
    campaigns: int
    pooled: bool  # a gate asks for slowdowns over all K; else none was looked for
    limit: float  # of a slowdown that fails the build
    regressions: tuple[Regression, ...]
    gates: tuple[GateResult, ...]
    left_out: tuple[LeftOut, ...] = ()
    confirmation: Confirmation | None = None

    @property
    def failed(self) -> bool:
        """Whether the build fails."""
        return self.state == "failed"


def check(entries: Sequence[Entry], gates: Sequence[Gate] = (), proposed: int = 0) -> HistoryCheck:
    """Judge the newest campaign of a history against those before it.

    The last `proposed` studies, as of a pull request, do not fail for what was slow before them.
    The gate `slower=LIMIT` without a K asks the detector, which looks at all K and workloads
    together. Every other gate compares the newest study of each workload with earlier ones.
    """
    gates = gates or (parse_gate(ANY_SLOWDOWN),)
    judged = _judged(entries, proposed)
    valid = [entry for entry in judged if not entry.invalid]
    machine = (valid or judged)[-1].machine if judged else ""
    left_out = _left_out(judged, machine)
    made = campaigns_of(entries, machine) if valid else []
    pooled = [gate for gate in gates if is_pooled(gate)]
    limit = min((gate.limit for gate in pooled), default=0.0)
    found: tuple[Regression, ...] = ()
    if made and pooled:
        found = tuple(_excused(one, bool(proposed)) for one in regressions(made))
    newest = made[-1].entries if made else tuple(entries[-1:])
    results: tuple[GateResult, ...] = ()
    if made:
        results = tuple(
            _cautious(result)
            for gate in gates
            if not is_pooled(gate)
            for entry in newest
            for result in judge(gate, _before(made, entry.workload, found), entry)
        )
    if not entries:
        state, because = _no_answer("the history has no study")
    elif not made:
        state, because = _no_answer(f"the newest study is invalid: {judged[-1].invalid}")
    else:
        state, because = _state(found, results, limit, _past(made) if pooled else None)
        if state == "passed" and left_out:
            state = "in doubt"
        if state == "failed" and not any(one.state == "failed" for one in results):
            because = _disturbed(made)
            state = "in doubt" if because else state
    return HistoryCheck(
        state=state,
        because=because,
        newest=newest,
        machine=machine,
        studies=len(entries),
        campaigns=len(made) or len(campaigns_of(entries, machine)),
        pooled=bool(pooled),
        limit=limit,
        regressions=found,
        gates=results,
        left_out=left_out if made else (),
    )


def is_pooled(gate: Gate) -> bool:
    """Whether a gate asks for a slowdown over all K together."""
    return gate.metric == "time" and gate.relative and gate.nodes is None


def with_confirmation(result: HistoryCheck, made: Confirmation) -> HistoryCheck:
    """The verdict after a scale was measured again: it decides what was in doubt."""
    others = any(gate.state == "failed" for gate in result.gates)
    state: State = "failed" if made.state == "slower" or others else "passed"
    if made.state == "in doubt" and not others:
        state = "in doubt"
    return msgspec.structs.replace(result, state=state, confirmation=made)


def beyond_limit(found: Regression, limit: float) -> bool:
    """Whether a slowdown fails the build: new code, new and sure, its interval above the limit."""
    is_new = not found.known and not found.same_code
    return is_new and found.confirmed and found.low > 1 + limit


def _judged(entries: Sequence[Entry], proposed: int) -> list[Entry]:
    """The studies that are proposed; else those of the newest commit or day."""
    if proposed:
        return list(entries[-proposed:])
    count = next(
        (at for at, one in enumerate(reversed(entries)) if one.label != entries[-1].label),
        len(entries),
    )
    return list(entries[len(entries) - count :])


def _left_out(judged: Sequence[Entry], machine: str) -> tuple[LeftOut, ...]:
    """Those that are invalid or of another machine, unless their workload was studied again."""
    found: dict[str, LeftOut] = {}
    for entry in judged:
        found.pop(entry.workload, None)
        because = f"invalid: {entry.invalid}" if entry.invalid else ""
        if not because and entry.machine != machine:
            because = f"of another machine: {entry.machine or 'unknown'}"
        if because:
            found[entry.workload] = LeftOut(workload=entry.workload, because=because)
    return tuple(found.values())


def _disturbed(made: Sequence[Campaign]) -> str:
    """How much more the newest studies were disturbed than those before them; empty: they were not.

    A slowdown that comes with more load of other processes is not yet one of the program.
    """
    for entry in made[-1].entries:
        before = [one.foreign_load for each in made[:-1] if (one := each.of(entry.workload))]
        known = [share for share in before if share is not None]
        if entry.foreign_load is None or not known:
            continue
        usual = median(known)
        if entry.foreign_load > usual + _MORE_LOAD:
            return (
                f"other processes took {format_percent(entry.foreign_load)} of the CPU, "
                f"{format_percent(usual)} in earlier studies; measure it again"
            )
    return ""


def _past(made: Sequence[Campaign]) -> int:
    """Campaigns with the workload of the newest one that was studied most often."""
    return max(
        sum(one.of(entry.workload) is not None for one in made) for entry in made[-1].entries
    )


def _excused(found: Regression, is_proposed: bool) -> Regression:
    """An older slowdown is known: it has failed its builds."""
    known = found.known and (is_proposed or found.age >= _NEW)
    return msgspec.structs.replace(found, known=known)


def _before(made: Sequence[Campaign], workload: str, found: Sequence[Regression]) -> list[Entry]:
    """The earlier studies of a workload, as long as they were not slower already."""
    slow = min((one.since for one in found if one.confirmed), default=made[-1].date)
    earlier = [entry for one in made[:-1] if one.date < slow and (entry := one.of(workload))]
    return earlier or [entry for one in made[:-1] if (entry := one.of(workload))]


def _cautious(result: GateResult) -> GateResult:
    """Two studies of a history may differ by what happened to the machine between them."""
    bases = result.bases
    if result.state != "failed" or bases >= FEWEST_BASES or not result.gate.endswith("%"):
        return result
    few = "1 earlier study does" if bases == 1 else f"{bases} earlier studies do"
    because = f"{result.because}; {few} not show how much studies differ"
    return msgspec.structs.replace(result, state="in doubt", because=because)


def _no_answer(because: str) -> tuple[State, str]:
    return "no answer", because


def _state(
    found: Sequence[Regression], gates: Sequence[GateResult], limit: float, past: int | None
) -> tuple[State, str]:
    """The verdict; `past` counts the campaigns where a slowdown was looked for."""
    if any(gate.state == "failed" for gate in gates):
        return "failed", ""
    if any(beyond_limit(one, limit) for one in found):
        return "failed", ""
    doubtful = [one for one in found if not one.known and one.high > 1 + limit]
    if doubtful or any(gate.state == "in doubt" for gate in gates):
        return "in doubt", ""
    if past is None:
        missing = without_data(gates)
        return _no_answer(missing) if missing else ("passed", "")
    if past < LEAST_CAMPAIGNS:
        known = f"{count_words(past)} on this machine"
        return _no_answer(f"{known}; a check needs {LEAST_CAMPAIGNS} or more")
    return "passed", ""
