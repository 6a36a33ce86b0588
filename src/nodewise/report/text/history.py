"""A history and its check as text: the verdict first, then the newest study against the others."""

from collections.abc import Sequence

from nodewise.base.units import (
    capitalised,
    format_duration,
    format_efficiency,
    format_money,
    format_percent,
    format_speedup,
)
from nodewise.history.check import Confirmation, HistoryCheck, beyond_limit
from nodewise.history.entry import short
from nodewise.history.file import NAME
from nodewise.history.gates import GateResult, without_data
from nodewise.history.regressions import Regression, count_words
from nodewise.history.trend import History, LedgerChange, TrendRow
from nodewise.report.sections import Output, output
from nodewise.report.tables import Table, rows_table

_SPARKS = "▁▂▃▄▅▆▇█"
_SPARK_LENGTH = 16
_LEAST_SPAN = 0.10  # of the mean, from the lowest to the highest spark: small changes look small
_MOST_SURE = 0.99  # a model of the noise does not support more
_STATES = {"met": "met", "failed": "fails", "in doubt": "in doubt", "unknown": "unknown"}


def history_report(result: History) -> Output:
    """Where the newest study belongs in its history."""
    noun = "study" if result.studies == 1 else "studies"
    count = f"{result.studies} {noun} of {len(result.workloads)} workload"
    dates = f"{result.first[:10]} to {result.last[:10]}"
    lines = [
        f"**{result.place}**: {verdict(result.check)}.",
        *reasons(result.check),
        f"{count}{'s' if len(result.workloads) > 1 else ''}, {dates}{_machines(result)}.",
    ]
    page = "" if result.place == NAME else f" --history {result.place}"
    ending = [*again(result.check), f"Page: nodewise history page{page}"]
    return output(lines, newest_table(result.rows, result.check), ending=ending)


def check_report(result: HistoryCheck) -> Output:
    """Whether a build passes, and the reasons if it does not."""
    lines = [f"**{capitalised(verdict(result))}.**", *reasons(result)]
    table = gates_table(result.gates) if result.gates else None
    return output(lines, table, ending=again(result))


def verdict(result: HistoryCheck) -> str:
    """The answer of a check in one sentence."""
    found = worst(result)
    if result.confirmation is not None:
        return confirmation_words(result.confirmation)
    missing = [f"not judged: {one.workload} ({one.because})" for one in result.left_out]
    if result.state == "no answer":
        return "; ".join([f"no answer: {result.because}", *missing])
    if result.state == "passed" and not result.pooled:
        return gates_verdict(result.gates)
    if result.state == "passed":
        limit = f" above {format_percent(result.limit)}" if result.limit else ""
        new = "new " if found is not None else ""
        before = f"{count_words(result.campaigns - 1)} before it"
        unknown = sum(gate.state == "unknown" for gate in result.gates)
        silent = f"; {unknown} of {len(result.gates)} gates without data" if unknown else ""
        against = f"in {result.newest[-1].label} against the {before}"
        return f"passed: no {new}slowdown{limit} {against}{silent}"
    parts = []
    if (
        found is not None
        and not found.known
        and (result.state == "in doubt" or beyond_limit(found, result.limit))
    ):
        parts.append(size_words(found))
    gated = gates_verdict(result.gates) if result.gates else ""
    if gated.startswith(result.state):
        parts.append(gated.removeprefix(f"{result.state}: "))
    disturbed = [result.because] if result.because else []
    return f"{result.state}: {'; '.join([*parts, *disturbed, *missing])}"


def worst(result: HistoryCheck) -> Regression | None:
    """The slowdown that a headline names."""
    return max(result.regressions, key=lambda one: (one.confirmed, one.ratio), default=None)


def size_words(found: Regression) -> str:
    """What is slower, where, by how much, and how sure that is."""
    between = f"{format_percent(found.low - 1)} to {format_percent(found.high - 1)}"
    sure = f"{format_percent(min(found.probability, _MOST_SURE))} sure"
    what = f"{found.workload} is " if found.workload else ""  # else: all workloads
    slower = f"{what}{format_percent(found.ratio - 1)} slower at {where(found)}"
    return f"{slower} (95 %: {between}; {sure})"


def where(found: Regression) -> str:
    """The K that are slower."""
    if found.nodes is not None:
        return f"K={found.nodes}"
    return "every K" if found.nodes_from is None else f"K={found.nodes_from} and above"


def reasons(result: HistoryCheck) -> list[str]:
    """Since when, by which cause."""
    lines = []
    for found in result.regressions:
        head = "" if found is worst(result) else f"{capitalised(size_words(found))}. "
        if found.same_code:
            lines.append(
                f"{head}Commit {short(found.bad)} was measured before, and was faster then: the "
                "machine or its load changed, not the code. This fails no build."
            )
            continue
        if found.known:
            head = f"Known: {size_words(found)}. "
        since = f"First slower: {short(found.bad)} of {found.since[:10]}"
        good = f", last good: {short(found.good)}" if found.good else ""
        lines.append(f"{head}{since}{good}. {cause_words(found)}")
    return lines


def cause_words(found: Regression) -> str:
    """The cause whose share of the time grew."""
    if not found.cause.name:
        return f"Cause: not identifiable ({found.cause.because})."
    share = format_percent(found.cause.share or 0.0)
    return f"Cause: {found.cause.name}, {share} of the added time."


def again(result: HistoryCheck) -> list[str]:
    """What to measure where the check is in doubt."""
    if result.confirmation is not None:
        return []
    for found in result.regressions:
        if found.measure_again is not None and not found.same_code:
            workload, nodes = found.measure_again
            return [
                f"To decide, measure {workload} at K={nodes} again: "
                "nodewise history check --confirm SPEC"
            ]
    doubtful = [gate for gate in result.gates if gate.state == "in doubt" and gate.nodes]
    if doubtful:
        return [f"To decide, measure {doubtful[0].workload} at K={doubtful[0].nodes} again."]
    return []


def confirmation_words(made: Confirmation) -> str:
    """What the rounds of both commits say."""
    between = f"{format_percent(made.low - 1)} to {format_percent(made.high - 1)}"
    state = {
        "slower": "failed: confirmed",
        "not slower": "passed: not confirmed",
        "in doubt": "in doubt",
    }[made.state]
    return (
        f"{state}: {made.workload} at K={made.nodes} takes {format_percent(made.ratio - 1)} more "
        f"time than at {short(made.good)} (95 %: {between}; {made.rounds} rounds in turn)"
    )


def newest_table(rows: Sequence[TrendRow], result: HistoryCheck) -> Table | None:
    """The newest study at each K, against up to ten earlier ones."""
    several = len({row.workload for row in rows}) > 1
    currency = next((entry.currency for entry in result.newest if entry.currency), "")
    cells = [
        {
            **({"workload": row.workload} if several else {}),
            "K": row.nodes,
            "time": format_duration(row.seconds),
            "change": _signed(row.change),
            "95 %": _range(row.change_low, row.change_high),
            "efficiency": "" if row.efficiency is None else format_efficiency(row.efficiency),
            "cost": "" if row.cost is None else format_money(row.cost, currency),
            "trend": sparks(row.recent),
            "": _mark(row, result),
        }
        for row in rows
    ]
    if not cells:
        return None
    return rows_table(
        "The newest study against earlier ones", cells, left=("workload", "trend", ""),
        sparse=True, optional=("cost", "trend"),
    )  # fmt: skip


def gates_verdict(gates: Sequence[GateResult]) -> str:
    """The gates that fail, else those in doubt: at which K, and the clearest evidence of each."""
    for state in ("failed", "in doubt"):
        texts = dict.fromkeys(gate.gate for gate in gates if gate.state == state)
        if texts:
            found = [_gate_words([one for one in gates if one.state == state and one.gate == text])
                     for text in texts]  # fmt: skip
            return f"{state}: {'; '.join(found)}"
    if missing := without_data(gates):
        return f"no answer: {missing}"
    known = sum(gate.state == "met" for gate in gates)
    return f"passed: {known} of {len(gates)} gates met, {len(gates) - known} without data"


def _gate_words(gates: Sequence[GateResult]) -> str:
    """One gate at one or several places."""
    worst = max(gates, key=lambda gate: abs(gate.value or 0.0))
    places = [f"K={gate.nodes}" for gate in gates if gate.nodes is not None]
    if not places:
        return f"{worst.gate} ({worst.because})"
    most = f"; most at K={worst.nodes}" if len(gates) > 1 else ""
    return f"{worst.gate} at {', '.join(dict.fromkeys(places))} ({worst.because}{most})"


def gates_table(gates: Sequence[GateResult]) -> Table:
    """Every gate at every K."""
    rows = [
        {
            "gate": gate.gate,
            "workload": gate.workload,
            "K": gate.nodes,
            "": _STATES[gate.state],
            "evidence": gate.because,
        }
        for gate in gates
    ]
    return rows_table("Gates", rows, left=("gate", "workload", "", "evidence"), sparse=True)


def ledger_table(changes: Sequence[LedgerChange]) -> Table:
    """Speedup lost to each cause before and now."""
    rows = [
        {
            "workload": one.workload,
            "K": one.nodes,
            "lost to": one.cause,
            "before": f"{format_speedup(one.before)}x",
            "now": f"{format_speedup(one.now)}x",
            "change": f"{one.now - one.before:+.2f}x",
        }
        for one in changes
    ]
    return rows_table("Lost speedup", rows, left=("workload", "lost to"))


def sparks(values: Sequence[float]) -> str:
    """Values as a line of blocks, the newest last.

    >>> sparks([1.0, 1.0, 2.0])
    '▁▁█'
    """
    shown = values[-_SPARK_LENGTH:]
    if len(shown) < 2:
        return ""
    low, high = min(shown), max(shown)
    middle = (low + high) / 2
    span = max(high - low, _LEAST_SPAN * middle)
    last = len(_SPARKS) - 1
    return "".join(_SPARKS[round(last * (0.5 + (one - middle) / span))] for one in shown)


def _signed(change: float | None) -> str:
    return "" if change is None else f"{'+' if change >= 0 else ''}{format_percent(change)}"


def _range(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{_signed(low)} to {_signed(high)}"


def _mark(row: TrendRow, result: HistoryCheck) -> str:
    covered = [one for one in result.regressions if one.covers(row.workload, row.nodes)]
    if not covered:
        return ""
    return "slower" if any(one.confirmed for one in covered) else "slower?"


def _machines(result: History) -> str:
    return "" if result.machines < 2 else f"; {result.machines} machines, the newest is shown"
