"""A command that starts its own K workers, such as `mpirun -n {n} ./app`: one process a run."""

from nodewise.measure.engines.base import Job, LauncherEngine


class OwnWorkers(LauncherEngine):
    """Runs the command once at each K; the workers are counted only where they report."""

    def command(self, job: Job) -> list[str]:
        """The command as it is."""
        return [*job.command]

    def ranks(self, nodes: int) -> int | None:
        """Unknown: K may count ranks, threads, or nodes with several ranks each."""
        return None
