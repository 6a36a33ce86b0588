"""K ranks under torch's own launcher, one process each, on this machine."""

import importlib.util
import sys
from collections.abc import Sequence

from nodewise.engines.base import Job, LauncherEngine
from nodewise.errors import RunError, SpecError

_LAUNCH = ("-m", "nodewise.launch")


class Torchrun(LauncherEngine):
    """One `torchrun --standalone --nproc-per-node K` for each run."""

    def check(self, scales: Sequence[int]) -> None:
        """Torch must be installed beside us."""
        require_torch()

    def command(self, job: Job) -> list[str]:
        """The line of torchrun."""
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
