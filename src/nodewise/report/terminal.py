"""A report as text on a terminal or in a pipe: aligned, never cut, coloured only on a terminal.

Colour is for doubt and failure alone. The first screen has at most 24 lines.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter

from nodewise.base.errors import SpecError, printable
from nodewise.report.sections import (
    ANSWER,
    SHOWN_ROWS,
    Output,
    Report,
    first_report,
    narrowed,
    sections_report,
    shortened,
)
from nodewise.report.table import Table
from nodewise.study.check import Check

WIDTH = 100  # of text in a pipe, and the most on a terminal
LINES = 24  # of the first screen
_DOUBTS = 3  # lines that are kept for doubts
_QUIET = ("note: ", "More: ")
_STYLES = {"fail": "bold red", "failed": "bold red", "warn": "yellow", "missing": "yellow"}
_CODES = {"bold": "1", "dim": "2", "bold red": "1;31", "yellow": "33"}


def show(shown: Output, width: int, colour: bool, level: int = 0, only: str = "") -> str:
    """The first screen, with sections from level 1, with everything from level 2; or one part."""
    if only and only != ANSWER:
        return _show_section(shown, only, width, colour)
    if level == 0 or only:
        return "\n".join(_first_screen(shown, width, colour))
    sections = sections_report(shown.sections, details=level > 1)
    has_checks = any(section.name == "checks" for section in shown.sections)
    doubts = [] if has_checks else [_doubt(check) for check in shown.doubts]
    ending = ["", *shown.ending] if shown.ending else []
    return render([*first_report(shown), *doubts, *sections, *ending], width, colour)


def _show_section(shown: Output, only: str, width: int, colour: bool) -> str:
    found = [section for section in shown.sections if section.name == only]
    if not found:
        names = ", ".join(dict.fromkeys([ANSWER, *(section.name for section in shown.sections)]))
        raise SpecError(f"No such section: {only} here.", f"Use one of: {names}.")
    return render(sections_report(found, details=True)[1:], width, colour)


def _first_screen(shown: Output, width: int, colour: bool) -> list[str]:
    """The answer within the lines of a screen: sentences that do not fit are left to -v."""
    table = _table_rows(shown.table, width, colour)
    ending = _rows([*shown.ending, *_more(shown)], width, colour)
    room = LINES - len(table) - len(ending) - (_DOUBTS if shown.doubts else 0)
    answer: list[str] = []
    for sentence in shown.answer:
        rows = _rows([sentence], width, colour)
        if answer and len(answer) + len(rows) > room:
            break
        answer += rows
    room = LINES - len(answer) - len(table) - len(ending)
    below = [*_doubt_rows(shown.doubts, room, width, colour), *ending]
    gap = [""] if table and below and room > len(below) - len(ending) else []
    return [*answer, *table, *gap, *below]


def _table_rows(table: Table | None, width: int, colour: bool) -> list[str]:
    if table is None:
        return []
    short, hidden = shortened(table, SHOWN_ROWS)
    note = [f"{hidden} of {len(table.rows)} rows hidden; -v shows all."] if hidden else []
    return ["", *_rows([narrowed(short, width), *note], width, colour)]


def _more(shown: Output) -> list[str]:
    """The names of the sections that are not on the screen."""
    names = ", ".join(section.name for section in shown.sections)
    return [f"More: -v, or --only {names}."] if names else []


def _doubt_rows(checks: Sequence[Check], room: int, width: int, colour: bool) -> list[str]:
    """The doubts that fit, the most severe first, and how many do not."""
    rows: list[str] = []
    for number, check in enumerate(checks):
        left = len(checks) - number
        own = _rows([_doubt(check)], width, colour)
        if len(rows) + len(own) + (left > 1) > room:
            return [*rows, *_rows([f"{left} more in --only checks."], width, colour)]
        rows += own
    return rows


def _doubt(check: Check) -> str:
    return f"{check.shown_verdict}  {check.rule}: {check.evidence}. {check.remedy}".rstrip()


def _rows(report: Report, width: int, colour: bool) -> list[str]:
    return render(report, width, colour).splitlines() if report else []


def render(report: Report, width: int, colour: bool) -> str:
    """The lines of a report; those of a table run over where the terminal is too narrow."""
    rows: list[str] = []
    for part in report:
        rows += (
            _table_lines(part, colour) if isinstance(part, Table) else _wrapped(part, width, colour)
        )
    return "\n".join(rows)


def _table_lines(table: Table, colour: bool) -> Iterator[str]:
    cells = [[printable(cell) for cell in row] for row in (table.titles, *table.rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(table.titles))]
    for number, row in enumerate(cells):
        words = [
            cell.ljust(width) if title in table.left else cell.rjust(width)
            for cell, width, title in zip(row, widths, table.titles, strict=True)
        ]
        strong = number == 0 or number - 1 == table.strong
        text = (" " * table.indent + "  ".join(words)).rstrip()
        yield _styled(text, ["bold" if strong else ""] * len(text), colour)


def _wrapped(line: str, width: int, colour: bool) -> Iterator[str]:
    """The rows of a line, each with its indent."""
    text = ""
    styles: list[str] = []
    line = printable(line)
    indent = len(line) - len(line.lstrip())
    for at, words in enumerate(line.lstrip().split("**")):
        style = "bold" if at % 2 else "dim" if words.startswith(_QUIET) else ""
        text, styles = text + words, styles + [style] * len(words)
    # a word in a column of its own keeps that column free below
    column = re.match(r"(\S+ {2,})?", text)
    head = column.end() if column else 0
    word = text[:head].rstrip()
    styles[: len(word)] = [_STYLES.get(word) or style for style in styles[: len(word)]]
    breaks = _breaks(text[head:], width - indent - head)
    for first, last in pairwise([0, *(head + at for at in breaks), len(text)]):
        gap = " " * (indent + (head if first else 0))
        row = text[first:last].rstrip()
        yield gap + _styled(row, styles[first:last], colour) if row else ""


def _breaks(text: str, width: int) -> list[int]:
    """Where rows begin, but the first; a word that is longer than a row is cut."""
    breaks, used, width = [], 0, max(width, 1)
    for found in re.finditer(r"\s*\S+\s*", text):
        word, at = found[0], found.start()
        if used + _cells(word.rstrip()) > width:
            if used:
                breaks.append(at)
            used = 0
            while _cells(word.rstrip()) > width:
                cut = next(
                    end
                    for end in range(len(word), 0, -1)
                    if _cells(word[:end]) <= width or end == 1
                )
                at, word = at + cut, word[cut:]
                breaks.append(at)
        used += _cells(word)
    return breaks


def _cells(text: str) -> int:
    """The columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(one) else 2 if east_asian_width(one) in "WF" else 1 for one in text)


def _styled(text: str, styles: Sequence[str], colour: bool) -> str:
    if not colour:
        return text
    runs = groupby(zip(text, styles, strict=False), key=itemgetter(1))
    return "".join(_coloured("".join(sign for sign, _ in run), style) for style, run in runs)


def _coloured(text: str, style: str) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if style else text
