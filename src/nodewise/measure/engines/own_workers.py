"""A command that starts its own K workers, such as `mpirun -n {n} ./app`: one process a run."""

import msgspec

from nodewise.base.errors import RunError
from nodewise.measure.engines.base import Finished, Job, LauncherEngine, Started
from nodewise.measure.launch import carried
from nodewise.measure.mpi import libraries, preload


class OwnWorkers(LauncherEngine):
    """Runs the command once at each K; the workers are counted only where they report."""

    def command(self, job: Job) -> list[str]:
        """The command as it is."""
        return [*job.command]

    def check_job(self, job: Job) -> None:
        """The launcher that it begins with must be of its program's MPI."""
        preload.check_own_launcher(job.command, job.directory)

    def ranks(self, nodes: int) -> int | None:
        """Unknown: K may count ranks, threads, or nodes with several ranks each."""
        return None

    def environment(self, job: Job) -> dict[str, str]:
        """With the interposer, where the command shows which MPI it starts."""
        own = preload.of_open_mpi(job.command, job.folder)
        return {**own, **super().environment(job), **self._interposed(job)[0]}

    def run(self, job: Job, started: Started) -> Finished:
        """Start the command so that its workers are watched; wait, and say whether MPI was seen."""
        environment = {**job.environment, **carried(job.environment)}
        watched = msgspec.structs.replace(job, environment=environment)
        finished = super().run(watched, started)
        variables, why_not = self._interposed(job)
        facts = {
            "mpi_calls_recorded": bool(variables),
            "started_by_mpi": libraries.starts_mpi(job.command),
            **({"mpi_note": why_not} if why_not else {}),
        }
        return msgspec.structs.replace(finished, facts=facts) if variables or why_not else finished

    def _interposed(self, job: Job) -> tuple[dict[str, str], str]:
        """The variables, and what is missing for them: not every such command uses MPI."""
        mpi, library = preload.own_launch(job.command, job.directory)
        try:
            place = (job.command, job.directory, job.environment)
            return preload.interposed(*place, mpi, library), ""
        except RunError as error:
            return {}, f"{error.what} {error.fix}"
