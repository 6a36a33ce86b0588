"""The identity of a machine, which must be the same for its ceilings to hold; how busy it is."""

import contextlib
import hashlib
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

import psutil

from nodewise.diagnose.machine.limits import limits
from nodewise.measure.provenance import processor, settings
from nodewise.study.study import Fact

FORMAT = 2  # of the stored ceilings, and of how they are measured


def identity(folder: Path) -> dict[str, Fact]:
    """The facts whose change makes stored ceilings stale."""
    facts: dict[str, Fact] = {
        "format": FORMAT,
        "host": platform.node(),
        "processor": processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "cores_of_the_node": os.cpu_count() or 0,
        "memory_bytes": int(min(limits().values())),
        "kernel": platform.release(),
        "numpy": version("numpy"),
        "folder_device": folder.stat().st_dev,
    }
    return facts | settings("governor", "cpu_limit", "cpu_quota_us")


def key(facts: dict[str, Fact]) -> str:
    """A short name of an identity.

    >>> key({"cores": 2}) == key({"cores": 2}), key({"cores": 2}) == key({"cores": 4})
    (True, False)
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def contention() -> dict[str, float]:
    """How busy the node is: runnable threads per core, and the share of time threads waited."""
    found = {"load_per_core": os.getloadavg()[0] / max(os.cpu_count() or 1, 1)}
    with contextlib.suppress(OSError, ValueError, IndexError):
        first = Path("/proc/pressure/cpu").read_text().split()
        found["cpu_pressure"] = float(first[1].partition("=")[2]) / 100
    times = psutil.cpu_times()
    found["steal"] = getattr(times, "steal", 0.0) / max(sum(times), 1e-9)
    return found
