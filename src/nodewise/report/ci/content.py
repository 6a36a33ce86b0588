"""What every format says: a headline, one case for each thing that was judged, the figures."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from nodewise.base.interval import Interval
from nodewise.base.units import capitalised
from nodewise.history.check import HistoryCheck, beyond_limit
from nodewise.history.entry import Entry
from nodewise.history.gates import GateResult, Metric, interval_of
from nodewise.history.regressions import Regression
from nodewise.report.sections import Output
from nodewise.report.tables import Table
from nodewise.report.text import history as text

State = Literal["passed", "failed", "in doubt"]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was judged."""

    group: str  # the workload
    name: str
    state: State
    message: str


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One number with its 95 % interval, where it has one."""

    workload: str
    nodes: int
    metric: Metric
    value: float
    interval: Interval | None


class CiReport(msgspec.Struct, frozen=True, kw_only=True):
    """A result as CI systems take it."""

    title: str
    state: State
    headline: str
    lines: Sequence[str]
    table: Table | None
    cases: Sequence[Case]
    figures: Sequence[Figure]
    currency: str
    commit: str
    date: str
    slowdowns: Sequence[tuple[str, float]] = ()  # where, and new time over old time


def of_check(result: HistoryCheck) -> CiReport:
    """The check of a history."""
    printed = text.check_report(result)
    state = _state(result.state)
    cases = [
        Case(
            group=found.workload or "all workloads",
            name=f"no slowdown at {text.where(found)}",
            state="failed"
            if beyond_limit(found, result.limit) and state == "failed"
            else "in doubt",
            message=f"{capitalised(text.size_words(found))}. {text.cause_words(found)}",
        )
        for found in result.regressions
    ]
    if not cases and (result.pooled or not result.gates):
        silent: State = "in doubt" if result.state == "no answer" else "passed"
        cases = [Case(group="all workloads", name="no slowdown", state=silent,
                      message=result.because or text.verdict(result))]  # fmt: skip
    cases += [
        Case(group=one.workload, name="can be judged", state="in doubt",
             message=f"Not judged: {one.because}")
        for one in result.left_out
    ]  # fmt: skip
    slowdowns = [(_scope(one), one.ratio) for one in result.regressions]
    report = of_gates(result.gates, result.newest, printed, cases)
    return msgspec.structs.replace(
        report, state=state, headline=capitalised(text.verdict(result)), slowdowns=slowdowns
    )


def of_gates(
    gates: Sequence[GateResult],
    newest: Sequence[Entry],
    printed: Output,
    cases: Sequence[Case] = (),
) -> CiReport:
    """Gates over the newest studies, with what the command prints."""
    judged = [
        Case(
            group=gate.workload,
            name=gate.gate if gate.nodes is None else f"{gate.gate} at K={gate.nodes}",
            state="passed" if gate.state == "met" else _state(gate.state),
            message=f"{gate.because[0].upper()}{gate.because[1:]}",
        )
        for gate in gates
    ]
    every = [*cases, *judged]
    states = [case.state for case in every]
    state: State = next((one for one in ("failed", "in doubt") if one in states), "passed")
    names = list(dict.fromkeys(entry.workload for entry in newest))
    return CiReport(
        title=", ".join(names[:3]) + (" and more" if len(names) > 3 else ""),
        state=state,
        headline=printed.answer[0].replace("**", "").rstrip("."),
        lines=[*printed.answer[1:], *printed.ending],
        table=printed.table,
        cases=every,
        figures=_figures(newest),
        currency=next((entry.currency for entry in newest if entry.currency), ""),
        commit=newest[-1].commit if newest else "",
        date=newest[-1].date if newest else "",
    )


def _scope(found: Regression) -> str:
    return f"{found.workload or 'everything'} at {text.where(found)}"


def _state(name: str) -> State:
    return name if name in ("passed", "failed") else "in doubt"  # type: ignore[return-value]


def _figures(entries: Sequence[Entry]) -> list[Figure]:
    metrics: tuple[Metric, ...] = ("time", "efficiency", "cost", "memory", "energy")
    return [
        Figure(workload=entry.workload, nodes=nodes, metric=metric, value=found[0],
               interval=found[1])
        for entry in entries
        for nodes in entry.nodes
        for metric in metrics
        if (metric != "efficiency" or nodes != entry.nodes[0])
        and (found := interval_of(entry, metric, nodes)) is not None
    ]  # fmt: skip
