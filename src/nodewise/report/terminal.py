"""A report as text on a terminal or in a pipe: aligned, never cut, coloured only on a terminal."""

import re
from collections.abc import Iterator

from nodewise.base.errors import printable
from nodewise.report.tables import Table
from nodewise.report.text.findings import Report

PIPED_WIDTH = 100
_ANY_WIDTH = 10_000


def render(report: Report, width: int, colour: bool) -> str:
    """The lines of a report; those of a table run over where the terminal is too narrow."""
    from rich.console import Console

    console = Console(width=_ANY_WIDTH, highlight=False, force_terminal=colour)
    with console.capture() as captured:
        for part in report:
            if isinstance(part, Table):
                for line in _table_lines(part):
                    console.print(line, markup=False)
            else:
                _print_line(part, width, console)
    return "\n".join(row.rstrip() for row in captured.get().splitlines())


def _table_lines(table: Table) -> Iterator[object]:
    from rich.text import Text

    cells = [[printable(cell) for cell in row] for row in (table.titles, *table.rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(table.titles))]
    for number, row in enumerate(cells):
        words = [
            cell.ljust(width) if title in table.left else cell.rjust(width)
            for cell, width, title in zip(row, widths, table.titles, strict=True)
        ]
        strong = number == 0 or number - 1 == table.strong
        yield Text(" " * table.indent + "  ".join(words), style="bold" if strong else "")


def _print_line(line: str, width: int, console: object) -> None:
    from rich.console import Console
    from rich.text import Text

    assert isinstance(console, Console)
    line = printable(line)
    indent = " " * (len(line) - len(line.lstrip()))
    text = Text()
    for at, words in enumerate(re.split(r"\*\*", line.lstrip())):
        style = "bold" if at % 2 else "dim" if words.startswith("note: ") else ""
        text.append(words, style=style)
    # a word that stands in a column of its own keeps it free below
    column = re.match(r"(\S+ {2,})?", text.plain)
    at = column.end() if column else 0
    head, body = text[:at], text[at:]
    for row in body.wrap(console, width - len(indent) - at) or [Text()]:
        console.print(indent, head, row, sep="")
        head = Text(" " * at)
