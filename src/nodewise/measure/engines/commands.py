"""The command lines of mpiexec and torchrun, which several engines start."""

import importlib.util
import shutil
import sys
from pathlib import Path

from nodewise.base.errors import RunError, SpecError
from nodewise.measure.engines.base import Job

_LAUNCH = ("-m", "nodewise.measure.launch")


def mpiexec() -> str:
    """The launcher beside this interpreter, else the one on the PATH."""
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise RunError(
            "mpiexec is not installed.", "Install one without root: pip install 'nodewise[mpi]'."
        )
    return found


def require_torch() -> None:
    """Refuse early where torch is missing."""
    if importlib.util.find_spec("torch") is None:
        raise RunError("PyTorch is not installed.", "Install it: pip install 'nodewise[torch]'.")


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


def torchrun_environment(rank: int, nodes: int, address: str, port: int) -> dict[str, str]:
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
