"""Lightning's metrics.csv; the times are those of its ThroughputMonitor."""

import csv
import re
from collections.abc import Iterable
from pathlib import Path

from nodewise.importers.files import read_text
from nodewise.importers.logs.record import Log, LogRun, number
from nodewise.importers.logs.rounded import whole
from nodewise.importers.logs.scan import Seen

_EXACT = 1e-4  # its figures are not rounded
_MARKS = r"[/|._-]"


def read(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in a metrics.csv; a row without a time is a row of another metric."""
    log = Log(path, "lightning")
    rows = csv.reader(read_text(path).replace("\0", "").splitlines())
    try:
        return [_run(log, next(rows, []), rows)]
    except csv.Error as error:
        return [log.run(problem=f"not CSV: {error}")]


def _run(log: Log, titles: list[str], rows: Iterable[list[str]]) -> LogRun:
    columns = {_plain(title): at for at, title in enumerate(titles)}
    if "train/time" not in columns:
        return log.run(problem="no column train/time: add Lightning's ThroughputMonitor")
    last: tuple[float, float] = (0.0, 0.0)
    worlds: set[int | None] = set()
    batches: set[int | None] = set()
    for row in rows:
        if len(row) < len(titles):
            continue  # the last row, cut off
        cells = {name: number(row[at]) if at < len(row) else None for name, at in columns.items()}
        if (loss := cells.get("train_loss")) is not None:
            log.values["loss"] = loss
        done, time = cells.get("train/batches"), cells.get("train/time")
        if done is None:
            step = cells.get("step")
            done = None if step is None else step + 1
        if done is None or time is None or done <= last[0] or time <= last[1]:
            continue
        log.step(int(done), (time - last[1]) / (done - last[0]))
        last = (done, time)
        worlds.add(_ratio(cells, "train/samples_per_sec", "train/device/samples_per_sec"))
        batches.add(_ratio(cells, "train/samples", "train/batches"))
    world, batch = _one(worlds), _one(batches)
    if "train/device/samples_per_sec" in columns and "train/samples_per_sec" not in columns:
        world = 1  # totals are written where there is more than one device
    log.put("world_size", world)
    log.put("global_batch", world * batch if world and batch else None)
    problem = "" if log.seconds else "no row with train/time"
    return log.run(iterations=int(last[0]) or None, problem=problem)


def _plain(title: str) -> str:
    """A title with / between its parts, whatever separator the monitor was given."""
    parts = re.fullmatch(rf"train{_MARKS}(device{_MARKS})?([a-z_]{{1,40}})", title.strip())
    if parts is None or parts[2] == "loss":
        return title.strip()
    return f"train/{'device/' if parts[1] else ''}{parts[2]}"


def _ratio(cells: dict[str, float | None], over: str, under: str) -> int | None:
    top, bottom = cells.get(over), cells.get(under)
    return whole(top / bottom, _EXACT) if top and bottom else None


def _one(found: set[int | None]) -> int | None:
    found.discard(None)
    return found.pop() if len(found) == 1 else None
