"""A command that starts its own K workers, such as `mpirun -n {n} ./app`: one process a run."""

import msgspec

from nodewise.measure.engines.base import Finished, Job, LauncherEngine, Started
from nodewise.measure.launch import carried


class OwnWorkers(LauncherEngine):
    """Runs the command once at each K; the workers are counted only where they report."""

    def command(self, job: Job) -> list[str]:
        """The command as it is."""
        return [*job.command]

    def run(self, job: Job, started: Started) -> Finished:
        """Start it so that every Python among its workers is watched, if it trains with torch."""
        environment = {**job.environment, **carried(job.environment)}
        return super().run(msgspec.structs.replace(job, environment=environment), started)

    def ranks(self, nodes: int) -> int | None:
        """Unknown: K may count ranks, threads, or nodes with several ranks each."""
        return None
