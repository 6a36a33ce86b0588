"""Where a run was made: the machine, the software, the code."""

import contextlib
import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path

import psutil

from nodewise import __version__
from nodewise.measure.watch import cores
from nodewise.study import Fact

_RELEVANT = ("OMP_", "MKL_", "OPENBLAS_", "NCCL_", "GLOO_", "UCX_", "MPI", "CUDA_VISIBLE", "TORCH_")


def machine() -> dict[str, Fact]:
    """What does not change between the runs of one sitting."""
    facts: dict[str, Fact] = {
        "host": platform.node(),
        "cpu": _cpu_model(),
        "cores": cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "nodewise": __version__,
        "affinity": ",".join(map(str, sorted(os.sched_getaffinity(0)))),
    }
    for name, path in (
        ("governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        ("no_turbo", "/sys/devices/system/cpu/intel_pstate/no_turbo"),
        ("cpu_limit", "/sys/fs/cgroup/cpu.max"),
        ("cpu_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
        ("memory_limit", "/sys/fs/cgroup/memory.max"),
    ):
        with contextlib.suppress(OSError):
            facts[name] = Path(path).read_text().strip()
    return facts


def code(directory: Path, command: tuple[str, ...], spec_text: str) -> dict[str, Fact]:
    """The commit, whether it is what was run, the command and the spec."""
    facts: dict[str, Fact] = {
        "command": " ".join(command),
        "spec_hash": hashlib.sha256(spec_text.encode()).hexdigest()[:16],
    }
    commit = _git(directory, "rev-parse", "HEAD")
    if commit:
        facts["commit"] = commit
        facts["uncommitted_changes"] = bool(_git(directory, "status", "--porcelain", "-uno"))
    return facts


def environment(variables: Mapping[str, str]) -> dict[str, Fact]:
    """The variables that are known to change how fast a job runs."""
    return {
        f"env_{name}": value
        for name, value in sorted(variables.items())
        if name.startswith(_RELEVANT)
    }


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _git(directory: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
