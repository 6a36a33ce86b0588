"""OTF2 archives of Score-P and others: the time of each rank, and how much of it is in MPI."""

import importlib
from pathlib import Path
from typing import Any

from nodewise.importers.logs.hpc import mpi_ranks
from nodewise.importers.logs.record import Log, LogRun
from nodewise.importers.logs.scan import Seen

_MOST_EVENTS = 20_000_000  # a minute or two
_SETUP, _END = ("MPI_Init", "MPI_Init_thread"), "MPI_Finalize"


class _Rank:
    """The time of one process between MPI_Init and MPI_Finalize, in ticks."""

    def __init__(self) -> None:
        self.begin: int | None = None
        self.end: int | None = None
        self.last = 0
        self.depth = 0  # of calls of MPI within each other
        self.entered = 0
        self.mpi = 0

    def enter(self, name: str, time: int) -> None:
        if self.begin is None:
            self.begin = time
        if name == _END:
            self.end = time
        if name.startswith("MPI_"):
            self.depth += 1
            self.entered = time if self.depth == 1 else self.entered

    def leave(self, name: str, time: int) -> None:
        self.last = time
        if not name.startswith("MPI_") or not self.depth:
            return
        self.depth -= 1
        if name in _SETUP:
            self.begin = time
        elif self.depth == 0 and self.end is None:
            self.mpi += time - self.entered

    def seconds(self, resolution: float) -> tuple[float, float]:
        end = self.last if self.end is None else self.end
        return (end - (self.begin or 0)) / resolution, self.mpi / resolution


def read(path: Path, seen: Seen | None = None) -> list[LogRun]:
    """The run in an archive, by its anchor file; threads of a process count by its first one."""
    log = Log(path, "otf2")
    try:
        otf2: Any = importlib.import_module("otf2")
    except ImportError:
        return [log.run(problem="otf2 is not installed: pip install 'nodewise[otf2]'")]
    errors: tuple[type[Exception], ...] = (
        importlib.import_module("_otf2").ErrorCodes.Error, otf2.error.Error, OSError, ValueError,
        LookupError, AttributeError, TypeError, MemoryError,
    )  # fmt: skip
    try:
        with otf2.reader.open(str(path)) as archive:
            return [_run(log, archive)]
    except errors as error:
        return [log.run(problem=f"the archive is damaged: {str(error)[:100]}")]


def _run(log: Log, archive: Any) -> LogRun:
    processes: dict[Any, _Rank] = {}
    hosts = set()
    for location in archive.definitions.locations:
        group = location.group
        is_process = str(group.location_group_type).endswith("PROCESS")
        if is_process and group not in (known.group for known in processes):
            processes[location] = _Rank()
            hosts.add(group.system_tree_parent)
    names = {region: region.name for region in archive.definitions.regions}
    for count, (location, event) in enumerate(archive.events):
        if count >= _MOST_EVENTS:
            return log.run(problem=f"more than {_MOST_EVENTS:,} events: profile the run instead")
        one = processes.get(location)
        kind = type(event).__name__
        if one is not None and kind == "Enter":
            one.enter(names[event.region], event.time)
        elif one is not None and kind == "Leave":
            one.leave(names[event.region], event.time)
    tasks = {
        rank: one.seconds(archive.timer_resolution) for rank, one in enumerate(processes.values())
    }
    if not tasks or not all(total > 0 and 0 <= mpi <= total for total, mpi in tasks.values()):
        return log.run(problem="no process with events between MPI_Init and MPI_Finalize")
    log.put("world_size", len(tasks))
    log.put("nodes", len(hosts))
    return log.run(run_seconds=max(total for total, _ in tasks.values()), ranks=mpi_ranks(tasks))
