"""Tables of the operations of hybrid parallel training, as ByteDance's StragglerAnalysis has them.

A CSV file, packed or not: `dp_rank, stage, rank, step, optype, start_ts, duration, seq_id, mc, gmc`
in seconds. Other columns are not read.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodewise.importers.files import read_text, wrong_format
from nodewise.study.trace import Operations

WHAT = "a table of pipeline operations"
_TIMES = {"start_ts": "start", "duration": "duration"}
_COUNTS = {
    "dp_rank": "replica", "stage": "stage", "rank": "rank", "step": "step", "seq_id": "number",
    "mc": "chunk", "gmc": "model_chunk",
}  # fmt: skip
_ABSENT = ("", "None", "nan", "<NA>")
COLUMNS = frozenset({*_TIMES, *_COUNTS, "optype"})


def read(path: Path) -> Operations:
    """The operations in one file."""
    rows = csv.reader(read_text(path).removeprefix("\ufeff").splitlines())
    try:
        titles = next(rows, [])
        if missing := sorted(COLUMNS - set(titles)):
            raise wrong_format(path, WHAT, f"it lacks {', '.join(missing)}")
        cells = dict(zip(titles, zip(*rows, strict=True), strict=True))
        columns: dict[str, Any] = {
            **{field: np.array(cells[name], float) for name, field in _TIMES.items()},
            **{field: _counts(cells[name]) for name, field in _COUNTS.items()},
        }
    except (ValueError, OverflowError, csv.Error) as error:
        raise wrong_format(path, WHAT, str(error)) from None
    times = (columns["start"], columns["duration"])
    if not all(np.isfinite(column).all() for column in times) or (times[1] < 0).any():
        raise wrong_format(path, WHAT, "a start or a duration is not a time")
    return Operations(name=path.name, kind=np.array(cells["optype"], str), **columns)


def _counts(cells: Sequence[str]) -> NDArray[np.int64]:
    return np.array([-1 if cell in _ABSENT else int(float(cell)) for cell in cells], np.int64)
