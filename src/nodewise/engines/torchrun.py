"""K ranks under torch's own launcher, one process each, on this machine."""

import importlib.util
import sys
import time
from collections.abc import Sequence

from nodewise.engines.base import Finished, Job, Started, start, wait_for_all
from nodewise.errors import RunError, SpecError

_LAUNCH = ("-m", "nodewise.launch")


class Torchrun:
    """One `torchrun --standalone --nproc-per-node K` for each run."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        """`options` go to torchrun, before the script."""
        self._options = tuple(options)

    def check(self, scales: Sequence[int]) -> None:
        """Torch must be installed beside us."""
        require_torch()

    def run(self, job: Job, started: Started) -> Finished:
        """Start torchrun and wait for it; the script goes through our launcher, to be timed."""
        begin = time.monotonic()
        script = script_of(job)
        if script[:2] != _LAUNCH:
            script = (*_LAUNCH, *script)
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        launcher += ["--nproc-per-node", str(job.nodes), *self._options, *script]
        environment = {**job.environment, "NODEWISE_NODES": str(job.nodes)}
        worker = start(launcher, job, environment)
        started([worker.pid])
        return wait_for_all([worker], job, begin)

    def close(self) -> None:
        """Nothing is kept between runs."""


def require_torch() -> None:
    """Refuse early where torch is missing."""
    if importlib.util.find_spec("torch") is None:
        raise RunError("There is no torch.", "Install it: pip install 'nodewise[torch]'.")


def script_of(job: Job) -> tuple[str, ...]:
    """The script and its arguments: torchrun starts the interpreter itself."""
    if "python" not in job.command[0].rpartition("/")[2]:
        raise SpecError(
            "torchrun starts Python scripts only.",
            'Write command = ["{python}", "train.py"] in the workload.',
        )
    return job.command[1:]
