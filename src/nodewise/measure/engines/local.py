"""K plain processes on this machine, told their rank by the environment."""

import time

from nodewise.measure.engines.base import Engine, Finished, Job, Started, start, wait_for_all


class Local(Engine):
    """Starts K workers at once; they share the machine's cores as they are."""

    def run(self, job: Job, started: Started) -> Finished:
        """Start all ranks, then wait for the last."""
        begin = time.monotonic()
        workers = []
        for rank in range(job.nodes):
            place = {"NODEWISE_RANK": str(rank), "NODEWISE_NODES": str(job.nodes)}
            workers.append(start(job.command, job, {**job.environment, **place}))
        started([worker.pid for worker in workers])
        return wait_for_all(workers, job, begin)
