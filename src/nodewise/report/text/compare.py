"""Studies side by side as text: the verdict first, then times, costs, the advice, the ledgers."""

from collections.abc import Sequence

import msgspec

from nodewise.base.units import (
    capitalised,
    format_duration,
    format_money,
    format_percent,
    format_quantity,
    format_seconds,
    format_speedup,
    significant,
)
from nodewise.decide.compare import Advice, PricedComparison
from nodewise.explain.compare import Comparison, LedgerDifference, Lineup
from nodewise.history.gates import GateResult
from nodewise.report.sections import Output, Report, Section, output
from nodewise.report.tables import Table, between, comparison_table, given, rows_table
from nodewise.report.text.findings import listed
from nodewise.report.text.history import gates_table, gates_verdict
from nodewise.study.check import Check, warning


def comparison_report(result: Comparison) -> Output:
    """Two studies side by side; the verdict first."""
    return _compared(result, [], [])


def priced_comparison_report(result: PricedComparison) -> Output:
    """The verdict on the times and the move of the recommendation; the evidence in sections."""
    title, *parts = money_lines(result)
    cost = Section(name="cost", title=str(title).strip("*"), parts=parts)
    return _compared(result, [f"{capitalised(advice_verdict(result))}."], [cost])


def gated_report(result: PricedComparison, gates: Sequence[GateResult]) -> Output:
    """The comparison, with the gates that fail or are in doubt first."""
    shown = priced_comparison_report(result)
    if not gates:
        return shown
    line = f"**{capitalised(gates_verdict(gates))}.**"
    section = Section(name="gates", title="Gates", parts=[gates_table(gates)])
    return msgspec.structs.replace(
        shown, answer=(line, *shown.answer), sections=(*shown.sections, section)
    )


def _compared(result: Comparison, advice: list[str], sections: list[Section]) -> Output:
    title, *times = times_lines(result)
    assert isinstance(title, Table)
    lost, *ledger = ledger_lines(result)
    lines = [
        f"**{result.second}** against **{result.first}**: {comparison_verdict(result)}.",
        *advice,
        *([str(lost).replace("**", "") + "."] if ledger else []),
    ]
    parts = [
        Section(name="times", title="Times", parts=[title, *times]),
        *sections,
        Section(name="losses", title="Lost speedup", parts=[lost, *ledger]),
    ]
    return output(lines, _short_table(result), parts, _doubts(result))


def _doubts(result: Comparison) -> list[Check]:
    """The doubts about either study, and about their comparison."""
    pairs = ((result.first, result.first_validity), (result.second, result.second_validity))
    found = [
        warning(name, "; ".join(one.reasons)) for name, one in pairs if one.state == "doubtful"
    ]
    return [*found, *(warning("comparison", note.rstrip(".")) for note in result.notes)]


def _short_table(result: Comparison) -> Table:
    """The times of both studies, and their ratio with its interval."""
    rows = [
        {
            "K": row.nodes,
            "first": format_duration(row.first_seconds),
            "second": format_duration(row.second_seconds),
            "second/first": significant(row.ratio),
            "interval": between(row.ratio_low, row.ratio_high, significant),
            "efficiency": f"{format_percent(row.first_efficiency)} -> "
            f"{format_percent(row.second_efficiency)}",
            "": "no clear difference" if row.second_is == "not distinguishable" else row.second_is,
        }
        for row in result.rows
    ]
    return rows_table(
        "Two studies at each common scale", rows, left=("",), sparse=True, optional=("efficiency",)
    )


def times_lines(result: Comparison) -> Report:
    """Seconds, speedup and efficiency at each common scale, on one base."""
    lines: Report = [
        comparison_table(result),
        f"{result.regime} scaling; speedup and efficiency of both against K={result.base_nodes}, "
        f"the smallest common K; intervals: {result.interval}.",
    ]
    for name, scales in ((result.first, result.only_first), (result.second, result.only_second)):
        if scales:
            lines.append(f"note: Only in {name}, not compared: K={listed(scales)}.")
    for name, validity in (
        (result.first, result.first_validity),
        (result.second, result.second_validity),
    ):
        if validity.state == "doubtful":
            lines.append(f"note: {name} is {validity.clause}.")
    return lines + [f"note: {note}" for note in result.notes]


def money_lines(result: PricedComparison) -> Report:
    """What a run costs at each common scale, and what is recommended for each study."""
    lines: Report = [f"**Cost of {result.cost_of}, and recommendation**"]
    if result.currency:
        lines.append(cost_table(result))
    else:
        lines.append(f"  Costs are not compared: {result.cost_note}.")
    first, second = result.first_advice, result.second_advice
    if first is None or second is None:
        return lines
    for name, advice in ((result.first, first), (result.second, second)):
        lines.append(f"  {name}: {_advice_words(advice, result)}; {advice.because}.")
        if advice.alone != advice.nodes:
            alone = "none" if advice.alone is None else f"K={advice.alone}"
            lines.append(f"note: The recommendation among all scales of {name}: {alone}.")
    if first.objective != second.objective:
        lines.append(
            f"note: The objectives differ: {first.objective} for {result.first}, "
            f"{second.objective} for {result.second}."
        )
    return lines


def _advice_words(advice: Advice, result: PricedComparison) -> str:
    if advice.nodes is None or advice.seconds is None:
        return "no recommendation"
    cost = "" if not result.currency else f", {format_money(advice.cost or 0.0, result.currency)}"
    sure = (
        f"; undecided between K={' and '.join(map(str, advice.undecided))}"
        if advice.undecided
        else ""
    )
    time = format_duration(advice.seconds)
    if advice.work_per_second is not None:
        time = f"{format_quantity(advice.work_per_second)} units/s"
    return f"K={advice.nodes}, {time}{cost}{sure}"


def advice_verdict(result: PricedComparison) -> str:
    """How the recommendation moves; a move between scales that may both be right is none."""
    first, second = result.first_advice, result.second_advice
    if "invalid" in (result.first_validity.state, result.second_validity.state):
        return "an invalid measurement has no recommendation"
    if first is None or second is None:
        return f"only K={result.base_nodes} is common: no recommendation to compare"
    if first.nodes is None and second.nodes is None:
        return "neither study has a recommendation"
    before, after = (
        "none" if one.nodes is None else f"K={' or '.join(map(str, one.undecided or (one.nodes,)))}"
        for one in (first, second)
    )
    if first.nodes == second.nodes and before == after and not first.undecided:
        return f"the recommendation stays at {before}"
    may_be = [{*one.undecided, one.nodes} for one in (first, second)]
    if may_be[0] & may_be[1]:
        return f"no clear move of the recommendation: {before} before, {after} after"
    return f"the recommendation moves from {before} to {after}"


def cost_table(result: PricedComparison) -> Table:
    """What a run costs in both studies."""
    currency = result.currency or ""
    rows = [
        {
            "K": row.nodes,
            "first": format_money(row.first, currency),
            "second": format_money(row.second, currency),
            "second/first": given(row.ratio, "{:.3f}".format),
            "": _marks(result, row.nodes),
        }
        for row in result.costs
    ]
    return rows_table(f"Cost of {result.cost_of}", rows, left=("",))


def _marks(result: PricedComparison, nodes: int) -> str:
    advices = (("first", result.first_advice), ("second", result.second_advice))
    chosen = [which for which, advice in advices if advice and advice.nodes == nodes]
    return f"recommended for the {' and the '.join(chosen)}" if chosen else ""


def ledger_lines(result: Comparison) -> Report:
    """Speedup lost to each cause in both studies, where their evidence is of one kind."""
    found = next((one for one in result.ledger if one.nodes == result.ledger_at), None)
    if found is None:
        return [f"Ledgers are not compared: {result.ledger_note}."]
    lost = f"first {format_speedup(found.first_lost)}x, second {format_speedup(found.second_lost)}x"
    return [
        f"**Lost speedup at K={found.nodes}**: {lost}",
        ledger_difference_table(found),
        f"Both against K={result.base_nodes}; {result.ledger_note}; --json has every K.",
    ]


def ledger_difference_table(found: LedgerDifference) -> Table:
    """The causes of both ledgers at one scale."""

    def lost(folds: float | None) -> str:
        return "not recorded" if folds is None else f"{format_speedup(folds)}x"

    rows = []
    for one in found.causes:
        change = ""
        if one.first_folds is not None and one.second_folds is not None:
            change = f"{one.second_folds - one.first_folds:+.2f}x"
        rows.append(
            {
                "lost to": one.cause,
                "first": lost(one.first_folds),
                "second": lost(one.second_folds),
                "change": change,
                "second loses": one.second_loses,
            }
        )
    return rows_table("The causes in both studies", rows, left=("lost to", "second loses"))


def comparison_verdict(result: Comparison) -> str:
    """At which scales the second study is faster or slower; nothing from an invalid study."""
    pairs = ((result.first, result.first_validity), (result.second, result.second_validity))
    invalid = [f"{name}, {one.clause}" for name, one in pairs if one.state == "invalid"]
    if invalid:
        return "; ".join(invalid)
    parts = []
    for word in ("faster", "slower", "not distinguishable"):
        rows = [row for row in result.rows if row.second_is == word]
        if rows:
            ratios = [row.ratio for row in rows]
            least, most = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
            times = least if least == most else f"{least} to {most}"
            by = "" if word == "not distinguishable" else f" ({times} times the run time)"
            said = "no clear difference" if word == "not distinguishable" else word
            parts.append(f"{said} at K={listed([row.nodes for row in rows])}{by}")
    return "; ".join(parts) or "unknown from single runs; run each scale six times or more"


def lineup_report(result: Lineup) -> Output:
    """What each engine's overhead costs; the verdict first."""
    lines = [
        f"**{_lineup_verdict(result)}**",
        f"{capitalised(result.regime)} scaling; speedups are against {result.base} at "
        f"K={result.base_nodes}, {format_duration(result.base_seconds)}.",
    ]
    if result.left_out:
        scales = ", ".join(map(str, result.left_out))
        lines.append(f"Not in all studies: K={scales}.")
    return output(lines, lineup_table(result))


def lineup_table(result: Lineup) -> Table:
    """Every study at every common scale."""
    rows = []
    for entry in result.entries:
        then = ""
        if entry.next_cause is not None and entry.next_folds and entry.next_folds >= 0.005:
            then = f"{entry.next_cause} ({format_speedup(entry.next_folds)}x)"
        rows.append(
            {
                "K": entry.nodes,
                "study": entry.study,
                "seconds": format_seconds(entry.seconds),
                "speedup": format_speedup(entry.speedup),
                "lost": format_speedup(entry.lost_folds),
                "overhead s": given(entry.overhead_seconds, format_seconds),
                "overhead lost": given(
                    entry.overhead_folds, lambda lost: f"{format_speedup(lost)}x"
                ),
                "then": then,
            }
        )
    return rows_table("Several studies on one base", rows, left=("study", "then"))


def _lineup_verdict(result: Lineup) -> str:
    """Whose overhead costs most at the largest scale."""
    nodes = max(entry.nodes for entry in result.entries)
    known = [e for e in result.entries if e.nodes == nodes and e.overhead_folds is not None]
    known.sort(key=lambda entry: -(entry.overhead_folds or 0.0))
    if not known:
        return f"No study has recorded an overhead of its engine at K={nodes}."
    parts = [f"{e.study} {format_speedup(e.overhead_folds or 0.0)}x" for e in known]
    ideal = f"{nodes / result.base_nodes:g}x"
    return f"Of {ideal}, lost to the engine's own overhead at K={nodes}: {', '.join(parts)}."
