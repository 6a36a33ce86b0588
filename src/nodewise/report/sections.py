"""What a command prints: the answer on one screen, and sections that the reader asks for.

By default a terminal shows the answer: its sentences, one table, the doubts, what to do next. `-v`
adds the sections, `-vv` also their details, `--only NAME` shows one section alone. A command
declares the parts; `report/terminal.py` fits them to the screen.
"""

from collections.abc import Iterable, Sequence

import msgspec

from nodewise.report.table import RECOMMENDED, Table
from nodewise.study.check import BILLED, Check, Verdict

Report = list[str | Table]  # **words** are strong; an indented line belongs to the one above

SHOWN_ROWS = 8  # of the table of the first screen
ANSWER = "answer"  # the name of the first screen, for --only
_VERDICTS: tuple[Verdict, ...] = ("fail", "warn", "pass", "unknown")


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a report under a heading; `details` are printed only when everything is."""

    name: str  # for --only
    title: str
    parts: Report = []
    details: Report = []


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """One result for a reader."""

    answer: tuple[str, ...]  # sentences, the most important first
    table: Table | None = None
    doubts: tuple[Check, ...] = ()  # those that failed or warn
    ending: tuple[str, ...] = ()  # where the page is, what to do next
    sections: tuple[Section, ...] = ()


def output(
    answer: Iterable[str],
    table: Table | None = None,
    sections: Iterable[Section] = (),
    checks: Sequence[Check] = (),
    ending: Iterable[str] = (),
) -> Output:
    """The output of a result; its checks are the doubts of the answer and the last section."""
    found = [*sections, *([checks_section(checks)] if checks else [])]
    doubts: dict[str, Check] = {}
    for check in in_order(checks):
        if is_doubt(check):
            doubts.setdefault(check.evidence, check)
    return Output(
        answer=tuple(answer),
        table=table,
        doubts=tuple(doubts.values()),
        ending=tuple(ending),
        sections=tuple(section for section in found if section.parts or section.details),
    )


def checks_section(checks: Sequence[Check]) -> Section:
    """The checks: doubts first; those that pass or cannot be answered are details."""
    doubtful = [check for check in checks if is_doubt(check) or check.remedy]
    others = [check for check in checks if check not in doubtful]
    passed = sum(check.verdict == "pass" for check in checks)
    silent = sum(check.verdict == "unknown" for check in checks)
    counts = f"  {passed} passed, {silent} not applicable or without data."
    return Section(
        name="checks",
        title="Checks",
        parts=[*checklist(doubtful), *([counts] if others else [])],
        details=checklist(others),
    )


def is_doubt(check: Check) -> bool:
    """Whether a check failed or warns."""
    return check.verdict in ("fail", "warn")


def checklist(checks: Sequence[Check]) -> Report:
    """Rows by their verdict, the most severe first, each with its fix."""
    lines: Report = []
    for check in in_order(checks):
        lines.append(f"  {check.shown_verdict:<7}  {check.rule}: {check.evidence}.")
        if check.remedy:
            lines.append(f"           Fix: {check.remedy}")
    return lines


def in_order(checks: Iterable[Check]) -> list[Check]:
    """The most severe first, but a bill for too many nodes before all others."""
    return sorted(
        checks, key=lambda check: (check.key != BILLED, _VERDICTS.index(check.shown_verdict))
    )


def everything(shown: Output) -> Report:
    """All parts in one report, for a file or a notebook."""
    ending: Report = ["", *shown.ending] if shown.ending else []
    return [*first_report(shown), *sections_report(shown.sections, details=True), *ending]


def first_report(shown: Output) -> Report:
    """The answer with all rows of its table."""
    lines: Report = [*shown.answer]
    return lines if shown.table is None else [*lines, "", shown.table]


def sections_report(sections: Iterable[Section], details: bool) -> Report:
    """Sections one after the other, each under its heading."""
    lines: Report = []
    for section in sections:
        parts = [*section.parts, *(section.details if details else [])]
        if parts:
            lines += ["", f"**{section.title}**", *parts]
    return lines


def shortened(table: Table, most: int) -> tuple[Table, int]:
    """The rows that matter, and how many are hidden: those with a remark, the ends, neighbours."""
    count = len(table.rows)
    if count <= most:
        return table, 0
    kept = sorted(sorted(range(count), key=lambda at: _rank(table, at))[:most])
    strong = None if table.strong is None else kept.index(table.strong)
    rows = tuple(table.rows[at] for at in kept)
    return msgspec.structs.replace(table, rows=rows, strong=strong), count - most


def _rank(table: Table, at: int) -> tuple[int, int]:
    """How soon a row is kept: the smallest first."""
    last, strong = len(table.rows) - 1, table.strong
    remark = "".join(
        cell for title, cell in zip(table.titles, table.rows[at], strict=True) if not title.strip()
    )
    grade = 0 if at == strong else 1 if at in (0, last) else 2 if remark else 3
    return grade, abs(at - (last // 2 if strong is None else strong))


def narrowed(table: Table, width: int) -> Table:
    """The table without optional columns, as many as do not fit; then with a shorter mark."""
    for title in table.optional:
        if table.width <= width:
            break
        at = [number for number, name in enumerate(table.titles) if name != title]
        table = msgspec.structs.replace(
            table,
            titles=tuple(table.titles[number] for number in at),
            rows=tuple(tuple(row[number] for number in at) for row in table.rows),
        )
    if table.width <= width:
        return table
    rows = tuple(tuple(cell.replace(RECOMMENDED, "<-") for cell in row) for row in table.rows)
    return msgspec.structs.replace(table, rows=rows)
