"""K plain processes on this machine, with their rank in the environment."""

import time
from pathlib import Path

from nodewise.base.errors import RunError
from nodewise.measure.engines.base import Engine, Finished, Job, Started, start, wait_for_all
from nodewise.measure.mpi import libraries


class Local(Engine):
    """Starts K workers at once; they share the machine's cores as they are."""

    def check_job(self, job: Job) -> None:
        """K copies of an MPI program would be K jobs of one rank each."""
        library = libraries.linked_mpi(job.command[0], job.directory)
        if library is not None and job.nodes > 1:
            raise RunError(
                f"{Path(job.command[0]).name} is an MPI program ({library.name}): K copies of it "
                "would be K jobs of one rank.",
                'Choose the engine that starts its ranks: --engine mpi, or name = "mpi" under '
                "[engine].",
            )

    def run(self, job: Job, started: Started) -> Finished:
        """Start all ranks, then wait for the last."""
        begin = time.monotonic()
        workers = []
        for rank in range(job.nodes):
            place = {"NODEWISE_RANK": str(rank), "NODEWISE_NODES": str(job.nodes)}
            workers.append(start(job.command, job, {**job.environment, **place}))
        started([worker.pid for worker in workers])
        return wait_for_all(workers, job, begin)
