"""CSV tables of timings (docs/tables.md)."""

from pathlib import Path

from nodewise.base.errors import DataError
from nodewise.importers.files import read_text
from nodewise.study.study import Run
from nodewise.study.table import parse_table


def read(path: Path, nodes: int | None) -> list[Run]:
    """The runs in one table; with `nodes`, those of that K."""
    text = read_text(path)
    try:
        runs = parse_table(text, path.stem).runs
    except DataError as error:
        raise DataError(f"{path}: {error.what}", error.fix) from None
    found = [run for run in runs if nodes is None or run.nodes == nodes]
    if not found:
        raise DataError(f"{path} has no runs at K={nodes}.", "Leave K out to take all of them.")
    return found
