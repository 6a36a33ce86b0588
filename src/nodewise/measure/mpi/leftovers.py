"""Shared memory that MPI ranks leave behind when they are killed."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from nodewise.study.files import read_own

_PLACE = Path("/dev/shm")
_NOTE = "segments"
_PATTERNS = ("mpich_shm_*", "vader_segment.*", "sm_segment.*")


@contextlib.contextmanager
def removed(folder: Path) -> Iterator[None]:
    """Remove at the end, also after Ctrl-C, the shared memory that came meanwhile and is unused.

    What was there before is noted in the folder of the run, for the next start if we are killed.
    """
    before = segments()
    (folder / _NOTE).write_text("\n".join(map(str, before)))
    try:
        yield
    finally:
        remove_since(before)


def remove_noted(folder: Path) -> None:
    """Remove what a killed process left, by the note in the folder of its run."""
    with contextlib.suppress(OSError):
        remove_since({*map(Path, read_own(folder / _NOTE).decode(errors="replace").splitlines())})


def segments() -> set[Path]:
    """The shared memory of this user's MPI ranks on this machine."""
    found = {path for pattern in _PATTERNS for path in _PLACE.glob(pattern)}
    return {path for path in found if _is_ours(path)}


def remove_since(before: set[Path]) -> None:
    """Remove what came since, and what no process has open or mapped any more."""
    new = segments() - before
    if not new:
        return
    processes = [*Path("/proc").glob("[0-9]*")]
    # A rank opens its memory, then maps it: looked at in this order, it is seen in one of them.
    used = "".join([*map(_open_files, processes), *map(_maps, processes)])
    for path in new:
        if str(path) not in used:
            with contextlib.suppress(OSError):
                path.unlink()


def _is_ours(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.geteuid()
    except OSError:  # it is gone
        return False


def _open_files(process: Path) -> str:
    links = []
    with contextlib.suppress(OSError):
        for file in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                links.append(str(file.readlink()))
    return "\n".join(links)


def _maps(process: Path) -> str:
    try:
        return (process / "maps").read_text(errors="replace")
    except OSError:  # it ended, or is of another user
        return ""
