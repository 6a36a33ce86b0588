"""From the tasks that an engine recorded to the seconds of each worker, by stage.

Ray, Dask and Spark record when a task was submitted, when it was ready and what its worker did for
it. From that every second of a worker gets one name, and the names add up to the wall time:

compute, communication, io   as recorded; what overlaps with computing costs nothing
overhead                     the next task was ready, and the worker did not have it yet
serial                       one worker computes a task whose kind comes one at a time, or no worker
                             has anything to do and the driver works; every worker waits for it
idle                         the rest: other workers are busy, and none of the tasks is for this one
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from nodewise.base.time_sets import Cover, common, joined, union, without
from nodewise.study.study import Rank, Run, Stage

Doing = Literal["compute", "communication", "io", "overhead"]
# A thread that computes hides what its worker moves at the same time.
_ORDER: tuple[Doing, ...] = ("compute", "communication", "io", "overhead")


class Span(NamedTuple):
    """What a worker did from one moment to another, in nanoseconds."""

    doing: Doing
    start: int
    end: int


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One task as its engine recorded it."""

    kind: str  # the function or the stage that it is a part of
    worker: str
    spans: tuple[Span, ...]
    handed_in: int | None = None  # when the engine learned of it
    ready: int | None = None  # when all that it needs was there

    @property
    def start(self) -> int:
        """When its worker began."""
        return min(span.start for span in self.spans)

    @property
    def end(self) -> int:
        """When its worker was done."""
        return max(span.end for span in self.spans)


def ranks_of(tasks: Sequence[Task], workers: Iterable[str], begin: int, end: int) -> list[Rank]:
    """What each worker did between two moments: stages that add up to the time between them.

    Workers of such engines change from run to run and take what comes, so their order is that of
    their work: rank 0 has the most. Serial time is the same for all of them: they all wait for it.
    """
    whole = union(np.array([begin]), np.array([end]))
    own: dict[str, list[Task]] = {worker: [] for worker in workers}
    for task in tasks:
        own.get(task.worker, []).append(task)
    if not own:
        return []
    kinds = one_at_a_time(tasks)
    doing = {worker: _doing(its, whole) for worker, its in own.items()}
    busy = {worker: joined(*covers.values()) for worker, covers in doing.items()}
    lone = {
        worker: _alone([task for task in its if task.kind in kinds], worker, doing, busy)
        for worker, its in own.items()
    }
    all_idle = without(whole, joined(*busy.values()))
    serial = joined(all_idle, *lone.values()).length
    found = []
    for worker, covers in doing.items():
        stages: dict[Stage, float] = {name: cover.length / 1e9 for name, cover in covers.items()}
        stages["compute"] = (covers["compute"].length - lone[worker].length) / 1e9
        stages["serial"] = serial / 1e9
        parallel = busy[worker].length - lone[worker].length
        stages["idle"] = (whole.length - serial - parallel) / 1e9
        found.append((worker, stages))
    found.sort(key=lambda one: (-one[1]["compute"] - one[1]["io"], one[0]))
    return [
        Rank(rank=at, host=worker, stages=stages, seconds=whole.length / 1e9)
        for at, (worker, stages) in enumerate(found)
    ]


class WorkerSpans(NamedTuple):
    """What one worker did, where the moments at which its tasks were ready are not known."""

    host: str
    items: int
    spans: Sequence[Span]


def run_of_spans(
    workers: Sequence[WorkerSpans], stages: Sequence[Doing], nodes: int | None = None
) -> Run:
    """A run of workers of which only spans are known: what those leave of the time is idle.

    Threads of a worker work side by side: what moves while another computes costs nothing.
    """
    begin = min(span.start for one in workers for span in one.spans)
    whole = _cover([(begin, max(span.end for one in workers for span in one.spans))])
    seconds = whole.length / 1e9
    ranks = []
    for at, one in enumerate(workers):
        covers = _doing([Task(kind="", worker=one.host, spans=tuple(one.spans))], whole)
        took: dict[Stage, float] = {stage: covers[stage].length / 1e9 for stage in stages}
        took["idle"] = seconds - sum(took.values())
        items = float(one.items)
        ranks.append(Rank(rank=at, host=one.host, stages=took, items=items, seconds=seconds))
    return Run(nodes=nodes or len(ranks), round=0, seconds=seconds, ranks=tuple(ranks))


def _alone(
    its: Sequence[Task], worker: str, doing: dict[str, dict[Doing, Cover]], busy: dict[str, Cover]
) -> Cover:
    """When a worker computed these tasks of its own, and all others did nothing."""
    computed = [(s.start, s.end) for task in its for s in task.spans if s.doing == "compute"]
    cover = common(doing[worker]["compute"], _cover(computed))
    others = [cover for name, cover in busy.items() if name != worker]
    return without(cover, joined(*others)) if others and computed else cover


def one_at_a_time(tasks: Sequence[Task]) -> set[str]:
    """The kinds of which the engine never knew two unfinished tasks: no worker more would help."""
    by_kind: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        by_kind[task.kind].append(task)
    kinds = set()
    for kind, same in by_kind.items():
        known = sorted(
            (task.start if task.handed_in is None else task.handed_in, task.end) for task in same
        )
        is_known = len(same) == 1 or all(task.handed_in is not None for task in same)
        if is_known and all(one[1] <= next_[0] for one, next_ in pairwise(known)):
            kinds.add(kind)
    return kinds


def _doing(its: Sequence[Task], whole: Cover) -> dict[Doing, Cover]:
    """The disjoint times in which a worker did each thing."""
    left = whole
    covers: dict[Doing, Cover] = {}
    for doing in _ORDER:
        spans = [(s.start, s.end) for task in its for s in task.spans if s.doing == doing]
        if doing == "overhead":
            spans += [(task.ready, task.start) for task in its if task.ready is not None]
        covers[doing] = common(_cover(spans), left)
        left = without(left, covers[doing])
    return covers


def _cover(spans: Iterable[tuple[int, int]]) -> Cover:
    both = np.array(list(spans), np.int64).reshape(-1, 2)
    return union(both[:, 0], both[:, 1])
