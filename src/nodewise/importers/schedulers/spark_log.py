"""Spark event logs: one JSON object a line. K is the number of executors that ran tasks.

Stages of an executor are seconds of its cores over their number: what one core did on average.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from nodewise.base.errors import DataError
from nodewise.importers.files import number, read_text, wrong_format
from nodewise.study.study import Rank, Run

WHAT = "an event log of Spark"


class Event(msgspec.Struct):
    """A line of the log; the fields that some kinds of events have."""

    event: str = msgspec.field(name="Event")
    executor: str | None = msgspec.field(name="Executor ID", default=None)
    added: dict[str, Any] = msgspec.field(name="Executor Info", default_factory=dict)
    task: dict[str, Any] = msgspec.field(name="Task Info", default_factory=dict)
    metrics: dict[str, Any] | None = msgspec.field(name="Task Metrics", default=None)
    time: int | None = msgspec.field(name="Timestamp", default=None)
    stage: dict[str, Any] = msgspec.field(name="Stage Info", default_factory=dict)
    stage_id: int | None = msgspec.field(name="Stage ID", default=None)
    attempt: int | None = msgspec.field(name="Stage Attempt ID", default=None)
    version: str = msgspec.field(name="Spark Version", default="")


class _Executor:
    def __init__(self) -> None:
        self.host = ""
        self.cores = 1
        self.tasks = 0
        self.compute = self.fetching = self.files = self.overhead = 0.0


def read(path: Path, nodes: int | None) -> list[Run]:
    """The run in one log: a rank for each executor."""
    executors: dict[str, _Executor] = {}
    starts: list[float] = []
    ends: list[float] = []
    for event in events_of(path):
        if event.event == "SparkListenerExecutorAdded" and event.executor is not None:
            one = executors.setdefault(event.executor, _Executor())
            one.host = str(event.added.get("Host", ""))
            one.cores = max(int(number(event.added.get("Total Cores")) or 1), 1)
        elif event.event == "SparkListenerTaskEnd" and event.metrics is not None:
            _add_task(event, executors, starts, ends)
    busy = {name: one for name, one in executors.items() if one.tasks}
    if not busy:
        raise DataError(f"{path} has no finished tasks.", "Set spark.eventLog.enabled=true.")
    window = (max(ends) - min(starts)) / 1000
    ranks = []
    for at, name in enumerate(sorted(busy)):
        one = busy[name]
        parts = [
            seconds / one.cores for seconds in (one.compute, one.fetching, one.files, one.overhead)
        ]
        ranks.append(
            Rank(
                rank=at,
                host=one.host,
                stages={
                    "compute": parts[0],
                    "communication": parts[1],
                    "io": parts[2],
                    "serial": parts[3],
                    "idle": max(window - sum(parts), 0.0),
                },
                items=float(one.tasks),
                seconds=window,
            )
        )
    return [Run(nodes=nodes or len(ranks), round=0, seconds=window, ranks=tuple(ranks))]


def events_of(path: Path) -> Iterator[Event]:
    """The events in a log, in their order."""
    decoder = msgspec.json.Decoder(Event)
    lines = [line for line in read_text(path).split("\n") if line.strip()]
    for number_of_line, line in enumerate(lines, start=1):
        try:
            yield decoder.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            if number_of_line == len(lines) and number_of_line > 1:
                return  # an application that was killed leaves a torn last line
            raise wrong_format(path, WHAT, f"line {number_of_line}: {error}") from None


def _add_task(
    event: Event, executors: dict[str, _Executor], starts: list[float], ends: list[float]
) -> None:
    """Divide the seconds of a task: computing, fetching, writing, and getting under way."""
    begin = number(event.task.get("Launch Time"))
    end = number(event.task.get("Finish Time"))
    metrics = event.metrics or {}
    if begin is None or end is None or end < begin:
        return
    one = executors.setdefault(str(event.task.get("Executor ID", "")), _Executor())
    running = metric(metrics, "Executor Run Time") / 1000
    fetching = metric(metrics, "Shuffle Read Metrics", "Fetch Wait Time") / 1000
    writing = metric(metrics, "Shuffle Write Metrics", "Shuffle Write Time") / 1e9
    fetching = min(fetching, running)
    writing = min(writing, running - fetching)
    one.tasks += 1
    one.compute += running - fetching - writing
    one.fetching += fetching
    one.files += writing
    one.overhead += max((end - begin) / 1000 - running, 0.0)
    starts.append(begin)
    ends.append(end)


def metric(metrics: dict[str, Any], *path: str) -> float:
    """A figure of a task; 0 where the log does not have it."""
    part: Any = metrics
    for name in path:
        part = part.get(name) if isinstance(part, dict) else None
    return number(part) or 0.0
