"""How much memory this process may have."""

import contextlib
import resource
from collections.abc import Sequence
from pathlib import Path

import psutil


def limits() -> dict[str, float]:
    """Every limit on the memory of this process, in bytes."""
    found: dict[str, float] = {"installed": float(psutil.virtual_memory().total)}
    group = _group_limit()
    if group is not None:
        found["control group"] = group
    for name, which in (("address space", resource.RLIMIT_AS), ("data", resource.RLIMIT_DATA)):
        soft, _ = resource.getrlimit(which)
        if soft != resource.RLIM_INFINITY:
            found[name] = float(soft)
    return found


def _group_limit(
    lines: Sequence[str] | None = None, root: Path = Path("/sys/fs/cgroup")
) -> float | None:
    """The smallest limit of our control group and of those that it is part of."""
    if lines is None:
        try:
            lines = Path("/proc/self/cgroup").read_text().splitlines()
        except OSError:
            return None
    limits = []
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            top, name = root, "memory.max"
        elif "memory" in kinds.split(","):
            top, name = root / "memory", "memory.limit_in_bytes"
        else:
            continue
        folder = top / path.lstrip("/")
        for place in (folder, *folder.parents):
            with contextlib.suppress(OSError, ValueError):
                limits.append(int((place / name).read_text()))  # "max" is not a number: no limit
            if place == top:
                break
    real = [limit for limit in limits if limit < 2**60]  # the old kind writes "no limit" so
    return float(min(real)) if real else None
