"""K ranks under `mpiexec`: the one of the mpich wheel, or the first on the PATH."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from nodewise.engines.base import Job, LauncherEngine
from nodewise.errors import RunError


class Mpi(LauncherEngine):
    """One `mpiexec -n K` for each run."""

    def check(self, scales: Sequence[int]) -> None:
        """There must be an mpiexec."""
        mpiexec()

    def command(self, job: Job) -> list[str]:
        """The line of mpiexec."""
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
