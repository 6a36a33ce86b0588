"""A table as it is read: its titles and the words of its cells.

Apart from `tables.py`, whose tables know all results: what prints none of them starts quicker.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import msgspec

Formatter = Callable[[float], str]
Item = TypeVar("Item")

RECOMMENDED = "<- recommended"
DASH = "\N{EN DASH}"


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Cells as text; columns of words are named in `left`, figures are aligned to the right."""

    name: str
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: frozenset[str] = frozenset()
    strong: int | None = None  # the row that the reader looks for
    indent: int = 0
    optional: tuple[
        str, ...
    ] = ()  # columns that a narrow terminal leaves out, the first ones first

    @property
    def width(self) -> int:
        """Columns of a terminal that it takes."""
        widths = [max(map(len, cells)) for cells in zip(self.titles, *self.rows, strict=True)]
        return self.indent + sum(widths) + 2 * max(len(widths) - 1, 0)


def rows_table(
    name: str,
    rows: Iterable[Mapping[str, object]],
    left: Iterable[str] = (),
    strong: int | None = None,
    indent: int = 0,
    sparse: bool = False,
    optional: tuple[str, ...] = (),
) -> Table:
    """Rows with their cells by title, all with the same titles; None is an empty cell.

    A `sparse` table leaves out columns in which every cell is empty.
    """
    cells = [{title: given(cell, str) for title, cell in row.items()} for row in rows]
    titles = list(cells[0]) if cells else []
    if sparse:
        titles = [title for title in titles if not title or any(row[title] for row in cells)]
    return Table(
        name=name,
        titles=tuple(titles),
        rows=tuple(tuple(row[title] for title in titles) for row in cells),
        left=frozenset(left),
        strong=strong,
        indent=indent,
        optional=optional,
    )


def given(value: Item | None, form: Callable[[Item], str]) -> str:
    """A value in words, or nothing if there is none."""
    return "" if value is None else form(value)


def between(low: float | None, high: float | None, form: Formatter) -> str:
    """An interval, or nothing if there is none."""
    if low is None or high is None:
        return ""
    return f"{form(low)}{' to ' if low < 0 else DASH}{form(high)}"
