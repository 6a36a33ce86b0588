"""Where a run was made: the machine, the software, the code."""

import contextlib
import hashlib
import math
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

from nodewise import __version__
from nodewise.measure.watch import cores
from nodewise.study.study import PROGRAM, Fact, Run, program_sums

_RELEVANT = ("OMP_", "MKL_", "OPENBLAS_", "NCCL_", "GLOO_", "UCX_", "MPI", "CUDA_VISIBLE", "TORCH_")
_SETTINGS = {
    "governor": "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "no_turbo": "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "cpu_limit": "/sys/fs/cgroup/cpu.max",
    "cpu_quota_us": "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
    "memory_limit": "/sys/fs/cgroup/memory.max",
}
_LARGEST = 10_000_000  # bytes; what is larger is data, and slow to read after every run


def machine() -> dict[str, Fact]:
    """What does not change between the runs of one sitting."""
    facts: dict[str, Fact] = {
        "host": platform.node(),
        "cpu": processor(),
        "cores": cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "nodewise": __version__,
        "affinity": ",".join(map(str, sorted(os.sched_getaffinity(0)))),
    }
    return facts | settings(*_SETTINGS)


def settings(*names: str) -> dict[str, Fact]:
    """The settings of the machine that can be read here, as the kernel writes them."""
    facts: dict[str, Fact] = {}
    for name in names:
        with contextlib.suppress(OSError):
            facts[name] = Path(_SETTINGS[name]).read_text().strip()
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


def programs(directory: Path, command: tuple[str, ...], start: float) -> dict[str, Fact]:
    """The checksum of each file that the command names and the run did not write itself."""
    sums = {word: _checksum(directory, word, start) for word in command}
    return {f"{PROGRAM}{word}": found for word, found in sums.items() if found}


def changed_programs(directory: Path, runs: Iterable[Run]) -> list[str]:
    """The files that are not any more what a run was made with."""
    sums = program_sums(runs)
    return sorted(word for word, found in sums.items() if found != {_checksum(directory, word)})


def environment(variables: Mapping[str, str]) -> dict[str, Fact]:
    """The variables that are known to change how fast a job runs."""
    return {
        f"env_{name}": value
        for name, value in sorted(variables.items())
        if name.startswith(_RELEVANT)
    }


def _checksum(directory: Path, word: str, start: float = math.inf) -> str:
    """Of a small file below the directory, older than `start`; of all else nothing."""
    try:
        path = (directory / word).resolve()
        told = path.stat()
        if not path.is_file() or told.st_size > _LARGEST or told.st_mtime > start:
            return ""
        inside = path.is_relative_to(directory.resolve())
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if inside else ""
    except (OSError, ValueError, RuntimeError):  # no file; no name of one; a link to itself
        return ""


def processor() -> str:
    """The name of the processor."""
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
