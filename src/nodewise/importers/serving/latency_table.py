"""A CSV table of mean latencies by concurrency: `concurrency, ttft_ms, tpot_ms`."""

import csv
from pathlib import Path

from nodewise.importers.files import read_text, wrong_format

WHAT = "a table of latencies"
COLUMNS = ("concurrency", "ttft_ms", "tpot_ms")


def read(path: Path) -> tuple[list[float], list[float], list[float]]:
    """Concurrency, TTFT and TPOT in seconds, ascending; repeats of a concurrency are averaged."""
    found: dict[float, list[tuple[float, float]]] = {}
    try:
        rows = csv.DictReader(read_text(path).removeprefix("\ufeff").splitlines())
        missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
        if missing:
            raise wrong_format(path, WHAT, f"it lacks {', '.join(missing)}")
        for row in rows:
            at, ttft, tpot = (float(row[name] or "nan") for name in COLUMNS)
            if not (0 < at < 1e9 and 0 < ttft < 1e12 and 0 < tpot < 1e12):
                raise wrong_format(path, WHAT, "a cell is not a positive number")
            found.setdefault(at, []).append((ttft / 1e3, tpot / 1e3))
    except (ValueError, csv.Error) as error:
        raise wrong_format(path, WHAT, str(error)) from None
    loads = sorted(found)
    means = [[sum(one[i] for one in found[at]) / len(found[at]) for at in loads] for i in (0, 1)]
    return loads, means[0], means[1]
