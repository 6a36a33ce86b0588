"""K ranks under torch's own launcher, one process each, on this machine."""

import importlib.util
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from nodewise.engines.base import Engine, Finished, Job, Started, start, wait_for_all
from nodewise.errors import RunError, SpecError
from nodewise.spec import EngineSpec

_LAUNCH = ("-m", "nodewise.launch")


class Torchrun(Engine):
    """One `torchrun --standalone --nproc-per-node K` for each run."""

    def __init__(self, options: Sequence[str] = ()) -> None:
        """`options` go to torchrun, before the script."""
        self._options = tuple(options)

    @classmethod
    def of(cls, chosen: EngineSpec, home: Path) -> Self:
        """With the options of the spec."""
        return cls(chosen.options)

    def check(self, scales: Sequence[int]) -> None:
        """Torch must be installed beside us."""
        require_torch()

    def run(self, job: Job, started: Started) -> Finished:
        """Start torchrun and wait for it."""
        begin = time.monotonic()
        environment = {**job.environment, "NODEWISE_NODES": str(job.nodes)}
        worker = start(self._command(job), job, environment)
        started([worker.pid])
        return wait_for_all([worker], job, begin)

    def plan(self, job: Job) -> str:
        """The line of torchrun."""
        return shlex.join(self._command(job))

    def _command(self, job: Job) -> list[str]:
        place = ["--standalone", "--nproc-per-node", str(job.nodes)]
        return torchrun(job, *place, *self._options)


def require_torch() -> None:
    """Refuse early where torch is missing."""
    if importlib.util.find_spec("torch") is None:
        raise RunError("There is no torch.", "Install it: pip install 'nodewise[torch]'.")


def torchrun(job: Job, *options: str) -> list[str]:
    """The command of torch's launcher; the script goes through ours, to be timed."""
    launcher = [sys.executable, "-m", "torch.distributed.run", *options]
    return [*launcher, *_LAUNCH, *script_of(job)]


def script_of(job: Job) -> tuple[str, ...]:
    """The script and its arguments, as our launcher takes them; torchrun starts the interpreter."""
    if "python" not in job.command[0].rpartition("/")[2]:
        raise SpecError(
            "torchrun starts Python scripts only.",
            'Write command = ["{python}", "train.py"] in the workload.',
        )
    script = job.command[1:]
    return script[2:] if script[:2] == _LAUNCH else script


def told_by_torchrun(rank: int, nodes: int, address: str, port: int) -> dict[str, str]:
    """The variables that torchrun sets for a rank that is alone on its node."""
    place, total = str(rank), str(nodes)
    return {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "RANK": place,
        "WORLD_SIZE": total,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": place,
        "GROUP_WORLD_SIZE": total,
        "ROLE_NAME": "default",
        "ROLE_RANK": place,
        "ROLE_WORLD_SIZE": total,
        "TORCHELASTIC_RUN_ID": "none",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }
