"""K ranks under `mpiexec`: the one of the mpich wheel, or the first on the PATH."""

import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from nodewise.engines.base import Finished, Job, Started, start, wait_for_all
from nodewise.errors import RunError


class Mpi:
    """One `mpiexec -n K` for each run."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        """`options` go to mpiexec, before the command."""
        self._options = tuple(options)

    def check(self, scales: Sequence[int]) -> None:
        """There must be an mpiexec."""
        mpiexec()

    def run(self, job: Job, started: Started) -> Finished:
        """Start mpiexec and wait for it; it ends with the first rank that fails."""
        begin = time.monotonic()
        command = [mpiexec(), "-n", str(job.nodes), *self._options, *job.command]
        worker = start(command, job, {**job.environment, "NODEWISE_NODES": str(job.nodes)})
        started([worker.pid])
        return wait_for_all([worker], job, begin)

    def close(self) -> None:
        """Nothing is kept between runs."""


def mpiexec() -> str:
    """The launcher beside this interpreter, else the one on the PATH."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise RunError(
            "There is no mpiexec.", "Install one without root: pip install 'nodewise[mpi]'."
        )
    return found
