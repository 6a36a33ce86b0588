"""Dask task streams as JSON: what `client.get_task_stream()` gives. K is the number of workers."""

from collections import Counter, defaultdict
from pathlib import Path

import msgspec

from nodewise.base.errors import DataError
from nodewise.importers.files import read_json
from nodewise.importers.schedulers.task_records import Doing, Span, WorkerSpans, run_of_spans
from nodewise.study.study import Run

WHAT = "a task stream of Dask"
_DOING: dict[str, Doing] = {
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
    tasks = read_json(path, WHAT, list[_Task])
    spans: dict[str, list[Span]] = defaultdict(list)
    for task in tasks:
        spans[task.worker] += [
            Span(_DOING[span.action], round(span.start * 1e9), round(span.stop * 1e9))
            for span in task.startstops
            if span.action in _DOING and 0 <= span.start <= span.stop < 9e9
        ]
    if not any(spans.values()):
        raise DataError(f"{path} has no tasks.", "Save client.get_task_stream() as JSON.")
    counts = Counter(task.worker for task in tasks)
    workers = [WorkerSpans(host, counts[host], its) for host, its in sorted(spans.items())]
    return [run_of_spans(workers, ("compute", "communication", "io"), nodes)]
