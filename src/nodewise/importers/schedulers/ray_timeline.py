"""Ray timelines (ray timeline, or ray.timeline()): tasks by worker. K is the number of nodes."""

from collections import defaultdict
from pathlib import Path

import msgspec

from nodewise.base.errors import DataError
from nodewise.importers.files import read_json
from nodewise.importers.schedulers.task_records import Doing, Span, WorkerSpans, run_of_spans
from nodewise.study.study import Run

WHAT = "a timeline of Ray"
_DOING: dict[str, Doing] = {
    "task:execute": "compute",
    **dict.fromkeys(
        ("task:deserialize_arguments", "task:store_outputs", "ray.get", "ray.put"), "io"
    ),
}
_MOST_MICROSECONDS = 2.0**52


class _Event(msgspec.Struct):
    cat: str = ""
    ph: str = ""
    pid: str | int = ""
    tid: str | int = ""
    ts: float = 0.0
    dur: float = 0.0


def read(path: Path, nodes: int | None) -> list[Run]:
    """The run in one timeline: a rank for each worker process."""
    events = read_json(path, WHAT, list[_Event], strict=False)
    spans: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for event in events:
        good = abs(event.ts) < _MOST_MICROSECONDS and 0 <= event.dur < _MOST_MICROSECONDS
        if event.cat in _DOING and event.ph == "X" and good:
            start = round(event.ts * 1000)
            span = Span(_DOING[event.cat], start, start + round(event.dur * 1000))
            spans[str(event.pid), str(event.tid)].append(span)
    if not spans:
        raise DataError(
            f"{path} has no tasks of Ray.",
            "Wait for the tasks before ray.timeline(); task events reach it with a delay.",
        )
    workers = [
        WorkerSpans(host, sum(span.doing == "compute" for span in its), its)
        for (host, _), its in sorted(spans.items())
    ]
    return [run_of_spans(workers, ("compute", "io"), nodes or len({one.host for one in workers}))]
