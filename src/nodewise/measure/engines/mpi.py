"""K ranks under `mpiexec`: the one of the mpich wheel, or the first on the PATH."""

from collections.abc import Sequence

from nodewise.measure.engines.base import Job, LauncherEngine
from nodewise.measure.engines.commands import mpiexec


class Mpi(LauncherEngine):
    """One `mpiexec -n K` for each run."""

    def check(self, scales: Sequence[int]) -> None:
        """There must be an mpiexec."""
        mpiexec()

    def command(self, job: Job) -> list[str]:
        """The line of mpiexec."""
        return [mpiexec(), "-n", str(job.nodes), *self._options, *job.command]
