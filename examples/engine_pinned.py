"""A third engine: K processes, each on a core of its own, so that none moves to a neighbour's."""

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from nodewise.base.errors import RunError
from nodewise.measure.engines.base import (
    Engine,
    Finished,
    Job,
    Started,
    options_of,
    start,
    wait_for_all,
)
from nodewise.study.spec import EngineSpec, Part


class PinnedOptions(Part, frozen=True, kw_only=True):
    """The table [engine.pinned]."""

    first_core: int = 0


class Pinned(Engine):
    """Rank r runs on core first_core + r."""

    options_type = PinnedOptions

    def __init__(self, options: PinnedOptions) -> None:
        """As the spec says."""
        self.first = options.first_core

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """From the table of the spec."""
        return cls(options_of(chosen, "pinned", PinnedOptions))

    def check(self, scales: Sequence[int]) -> None:
        """What is missing, before the first run, with its fix."""
        if shutil.which("taskset") is None:
            raise RunError("taskset is not installed.", "Install util-linux.")
        if self.first + max(scales) > (os.cpu_count() or 1):
            raise RunError("There are fewer cores than workers.", "Leave out the larger scales.")

    def run(self, job: Job, started: Started) -> Finished:
        """To the end of the last worker; a worker that fails ends the others."""
        begin, workers = time.monotonic(), []
        for rank in range(job.nodes):
            command = ["taskset", "-c", str(self.first + rank), *job.command]
            environment = {**job.environment, "NODEWISE_RANK": str(rank)}
            workers.append(start(command, job, environment))
        started([worker.pid for worker in workers])
        finished = wait_for_all(workers, job, begin)
        return msgspec.structs.replace(finished, facts={"pinned_first_core": self.first})
