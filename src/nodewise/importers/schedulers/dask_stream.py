"""Dask task streams as JSON: what `client.get_task_stream()` gives. K is the number of workers."""

from pathlib import Path

import msgspec
import numpy as np

from nodewise.base.errors import DataError
from nodewise.base.time_sets import union, without
from nodewise.importers.files import read_text, wrong_format
from nodewise.study.study import Rank, Run

WHAT = "a task stream of Dask"
_STAGE = {
    "compute": "compute",
    "transfer": "communication",
    "disk-read": "io",
    "disk-write": "io",
    "deserialize": "io",
}


class _Span(msgspec.Struct):
    action: str
    start: float
    stop: float


class _Task(msgspec.Struct):
    worker: str
    startstops: list[_Span] = []
    status: str = "OK"


def read(path: Path, nodes: int | None) -> list[Run]:
    """The run in one stream: a rank for each worker."""
    try:
        tasks = msgspec.json.decode(read_text(path).encode(), type=list[_Task])
    except (msgspec.DecodeError, RecursionError) as error:
        raise wrong_format(path, WHAT, str(error)) from None
    spans: dict[str, dict[str, list[tuple[int, int]]]] = {}
    counts: dict[str, int] = {}
    for task in tasks:
        by = spans.setdefault(task.worker, {"compute": [], "communication": [], "io": []})
        counts[task.worker] = counts.get(task.worker, 0) + 1
        for span in task.startstops:
            stage = _STAGE.get(span.action)
            if stage and 0 <= span.start <= span.stop < 9e9:
                by[stage].append((round(span.start * 1e9), round(span.stop * 1e9)))
    times = [time for by in spans.values() for one in by.values() for span in one for time in span]
    if not times:
        raise DataError(f"{path} has no tasks.", "Save client.get_task_stream() as JSON.")
    window = (max(times) - min(times)) / 1e9
    ranks = []
    for at, worker in enumerate(sorted(spans)):
        covers = {}
        for stage, one in spans[worker].items():
            both = np.array(one, np.int64).reshape(-1, 2)
            covers[stage] = union(both[:, 0], both[:, 1])
        # Threads of a worker work side by side: what moves while another computes costs nothing.
        moving = without(covers["communication"], covers["compute"])
        files = without(without(covers["io"], covers["compute"]), moving)
        compute, communication = covers["compute"].length / 1e9, moving.length / 1e9
        io = files.length / 1e9
        ranks.append(
            Rank(
                rank=at,
                host=worker,
                stages={
                    "compute": compute,
                    "communication": communication,
                    "io": io,
                    "idle": window - compute - communication - io,
                },
                items=float(counts[worker]),
                seconds=window,
            )
        )
    return [Run(nodes=nodes or len(ranks), round=0, seconds=window, ranks=tuple(ranks))]
