"""K ranks under `mpiexec`: the one of the mpich wheel, or the first on the PATH."""

import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from nodewise.engines.base import Engine, Finished, Job, Started, start, wait_for_all
from nodewise.errors import RunError
from nodewise.spec import EngineSpec


class Mpi(Engine):
    """One `mpiexec -n K` for each run."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        """`options` go to mpiexec, before the command."""
        self._options = tuple(options)

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """With the options of the spec."""
        return cls(chosen.options)

    def check(self, scales: Sequence[int]) -> None:
        """There must be an mpiexec."""
        mpiexec()

    def run(self, job: Job, started: Started) -> Finished:
        """Start mpiexec and wait for it; it ends with the first rank that fails."""
        begin = time.monotonic()
        worker = start(
            self._command(job), job, {**job.environment, "NODEWISE_NODES": str(job.nodes)}
        )
        started([worker.pid])
        return wait_for_all([worker], job, begin)

    def plan(self, job: Job) -> str:
        """The line of mpiexec."""
        return shlex.join(self._command(job))

    def _command(self, job: Job) -> list[str]:
        return [mpiexec(), "-n", str(job.nodes), *self._options, *job.command]


def mpiexec() -> str:
    """The launcher beside this interpreter, else the one on the PATH."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise RunError(
            "There is no mpiexec.", "Install one without root: pip install 'nodewise[mpi]'."
        )
    return found
