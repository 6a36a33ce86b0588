"""Shared memory that MPI ranks leave behind when they are killed."""

import contextlib
from pathlib import Path

_PLACE = Path("/dev/shm")
_PATTERNS = ("mpich_shm_*", "vader_segment.*", "sm_segment.*")


def segments() -> set[Path]:
    """The shared memory of all MPI ranks on this machine."""
    return {path for pattern in _PATTERNS for path in _PLACE.glob(pattern)}


def remove_since(before: set[Path]) -> None:
    """Remove what came since and no process has open any more."""
    new = segments() - before
    if not new:
        return
    used = "".join(map(_maps, Path("/proc").glob("[0-9]*")))
    for path in new:
        if str(path) not in used:
            with contextlib.suppress(OSError):
                path.unlink()


def _maps(process: Path) -> str:
    try:
        return (process / "maps").read_text(errors="replace")
    except OSError:  # it ended, or is of another user
        return ""
