"""What an import of logs understood: a row for each run, and why others are left out."""

from collections.abc import Callable, Sequence

import msgspec

from nodewise.base.errors import printable
from nodewise.base.units import format_seconds
from nodewise.report.sections import Output, Section, first_report, output
from nodewise.report.tables import Table

MOST_REASONS = 6  # of runs that are left out; --json has all
_MOST_NAME, _MOST_REASON = 36, 60


class LogRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"nodes": "K"}):
    """One run as it was understood."""

    file: str
    format: str
    nodes: int | None
    seconds: float | None  # that are compared: of a step, or of the run
    of: str = ""  # step, mean step or run
    steps: int | None = None
    warmup: int | None = None
    batch: int | None = None
    pauses: int = 0
    bad_steps: int = 0  # skipped or not a number
    outcome: str = "ok"
    rejected: str = ""


class RuleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of a format, and the lines that it matched."""

    rule: str
    lines: int
    first: int
    text: str


def understood_report(rows: Sequence[LogRow]) -> Output:
    """The table of the runs that are used, then those that are left out and why."""
    used = [row for row in rows if not row.rejected]
    left = [row for row in rows if row.rejected]
    reasons = [f"Left out: {_name(row)}: {_cut(row.rejected)}" for row in left]
    hidden = len(reasons) - MOST_REASONS
    if hidden > 0:
        reasons[MOST_REASONS:] = [f"{hidden} more are left out; --json lists all."]
    headline = f"**{len(used)} of {len(rows)} runs understood**"
    return output([headline], _table(used, rows) if used else None, ending=reasons)


def _table(rows: Sequence[LogRow], every: Sequence[LogRow]) -> Table:
    """A column that no run fills is left out."""
    of = next((row.of for row in rows if row.of), "")
    columns: dict[str, Callable[[LogRow], str]] = {
        "file": _name,
        "format": lambda row: row.format,
        "K": lambda row: _text(row.nodes),
        f"{of} seconds".strip(): lambda row: (
            "" if row.seconds is None else format_seconds(row.seconds)
        ),
        "steps": lambda row: _text(row.steps),
        "warm-up": lambda row: _text(row.warmup),
        "batch": lambda row: _text(row.batch),
        "pauses": lambda row: _text(row.pauses or None),
        "bad steps": lambda row: _text(row.bad_steps or None),
        "end": lambda row: "" if row.outcome == "ok" else row.outcome,
    }
    kept = {title: cell for title, cell in columns.items() if any(map(cell, every))}
    cells = tuple(tuple(cell(row) for cell in kept.values()) for row in rows)
    return Table(name="Logs", titles=tuple(kept), rows=cells)


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _name(row: LogRow) -> str:
    """The end of a path, which is what tells two of them apart."""
    path, _, part = row.file.partition(": ")
    parts = path.split("/")
    name = f"{parts[-1]}: {part}" if part else "/".join(parts[-2:])
    name = printable(name)
    return name if len(name) <= _MOST_NAME else "..." + name[3 - _MOST_NAME :]


def _cut(reason: str) -> str:
    plain = printable(reason)
    return plain if len(plain) <= _MOST_REASON else plain[: _MOST_REASON - 3] + "..."


def explain_report(found: tuple[str, Sequence[RuleRow], Sequence[LogRow]]) -> Output:
    """Which lines of a file matched which rule, and what follows from them."""
    form, rules, rows = found
    table = Table(
        name="Lines",
        titles=("rule", "lines", "first", "its text"),
        rows=tuple(
            (row.rule, str(row.lines), str(row.first), printable(row.text)[:60]) for row in rules
        ),
    )
    made = understood_report(rows)
    parts = [*first_report(made), *made.ending]
    section = Section(name="runs", title="Runs", parts=parts)
    return output([f"**Format: {form}**"], table if rules else None, [section])
