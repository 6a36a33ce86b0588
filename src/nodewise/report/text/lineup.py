"""Several studies of one job on one base, as text."""

from nodewise.base.units import format_seconds, format_speedup
from nodewise.explain.lineup import Lineup
from nodewise.report.tables import Table
from nodewise.report.text.findings import Report


def lineup_report(result: Lineup) -> Report:
    """What each engine's overhead costs; the verdict first."""
    lines: Report = [
        f"**{_verdict(result)}**",
        "",
        lineup_table(result),
        f"{result.regime} scaling; speedups are against {result.base} at K={result.base_nodes}, "
        f"{format_seconds(result.base_seconds)} s.",
    ]
    if result.left_out:
        scales = ", ".join(map(str, result.left_out))
        lines.append(f"note: Not in all studies: K={scales}.")
    return lines


def lineup_table(result: Lineup) -> Table:
    """Every study at every common scale."""
    rows = []
    for entry in result.entries:
        overhead, folds = entry.overhead_seconds, entry.overhead_folds
        then = ""
        if entry.next_cause is not None and entry.next_folds and entry.next_folds >= 0.005:
            then = f"{entry.next_cause} ({format_speedup(entry.next_folds)})"
        rows.append(
            (
                str(entry.nodes),
                entry.study,
                format_seconds(entry.seconds),
                format_speedup(entry.speedup),
                format_speedup(entry.lost_folds),
                "" if overhead is None else format_seconds(overhead),
                "" if folds is None else format_speedup(folds),
                then,
            )
        )
    titles = ("K", "study", "seconds", "speedup", "lost", "overhead s", "folds", "then")
    return Table(
        name="Several studies on one base",
        titles=titles,
        rows=tuple(rows),
        left=frozenset({"study", "then"}),
    )


def _verdict(result: Lineup) -> str:
    """Whose overhead costs most at the largest scale."""
    nodes = max(entry.nodes for entry in result.entries)
    told = [e for e in result.entries if e.nodes == nodes and e.overhead_folds is not None]
    told.sort(key=lambda entry: -(entry.overhead_folds or 0.0))
    if not told:
        return f"at K={nodes} no study has recorded an overhead of its engine."
    parts = [f"{e.study} {format_speedup(e.overhead_folds or 0.0)}" for e in told]
    folds = f"{nodes / result.base_nodes:g}"
    return f"folds of {folds} lost to the engine's own overhead at K={nodes}: {', '.join(parts)}."
