"""Ray timelines (ray timeline, or ray.timeline()): tasks by worker. K is the number of nodes."""

from pathlib import Path

import msgspec
import numpy as np

from nodewise.base.errors import DataError
from nodewise.base.time_sets import Cover, union, without
from nodewise.importers.files import read_text, wrong_format
from nodewise.study.study import Rank, Run

WHAT = "a timeline of Ray"
_WORK = "task:execute"
_MOVING = frozenset({"task:deserialize_arguments", "task:store_outputs", "ray.get", "ray.put"})
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
    try:
        events = msgspec.json.decode(read_text(path).encode(), type=list[_Event], strict=False)
    except (msgspec.DecodeError, RecursionError) as error:
        raise wrong_format(path, WHAT, str(error)) from None
    spans: dict[tuple[str, str], dict[str, list[tuple[int, int]]]] = {}
    for event in events:
        stage = "compute" if event.cat == _WORK else "io" if event.cat in _MOVING else ""
        good = abs(event.ts) < _MOST_MICROSECONDS and 0 <= event.dur < _MOST_MICROSECONDS
        if stage and event.ph == "X" and good:
            worker = spans.setdefault((str(event.pid), str(event.tid)), {"compute": [], "io": []})
            start = round(event.ts * 1000)
            worker[stage].append((start, start + round(event.dur * 1000)))
    if not spans:
        raise DataError(
            f"{path} has no tasks of Ray.",
            "Wait for the tasks before ray.timeline(); task events reach it with a delay.",
        )
    covers = {at: {name: _cover(one) for name, one in by.items()} for at, by in spans.items()}
    everything = [cover for by in covers.values() for cover in by.values() if len(cover.starts)]
    begin = min(int(cover.starts[0]) for cover in everything)
    end = max(int(cover.ends[-1]) for cover in everything)
    ranks = []
    for at, key in enumerate(sorted(covers)):
        work = covers[key]["compute"]
        moving = without(covers[key]["io"], work)
        compute, io = work.length / 1e9, moving.length / 1e9
        window = (end - begin) / 1e9
        ranks.append(
            Rank(
                rank=at,
                host=key[0],
                stages={"compute": compute, "io": io, "idle": window - compute - io},
                items=float(len(spans[key]["compute"])),
                seconds=window,
            )
        )
    hosts = len({key[0] for key in covers})
    seconds = (end - begin) / 1e9
    return [Run(nodes=nodes or hosts, round=0, seconds=seconds, ranks=tuple(ranks))]


def _cover(spans: list[tuple[int, int]]) -> Cover:
    both = np.array(spans, np.int64).reshape(-1, 2)
    return union(both[:, 0], both[:, 1])
