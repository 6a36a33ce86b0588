"""Temporary folders that do not outlive us: the next start removes what a killed process left."""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from nodewise.study.files import is_alive

_NAME = re.compile(r"nodewise-(\d+)-\w+")
_NEW_SECONDS = 10.0  # a folder is locked at once after it was made; its process id may be reused


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder of our own; it goes when the block ends, else when the next one is made."""
    remove_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=f"nodewise-{os.getpid()}-"))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield folder
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers() -> None:
    """End what runs in the folders of killed processes, and remove these folders."""
    with os.scandir(tempfile.gettempdir()) as entries:
        ours = [entry for entry in entries if _NAME.fullmatch(entry.name)]
    for entry in ours:
        with contextlib.suppress(OSError):
            found = entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False) and found.st_uid == os.geteuid():
                _remove(Path(entry.path), time.time() - found.st_mtime)


def _remove(folder: Path, age_seconds: float) -> None:
    matched = _NAME.fullmatch(folder.name)
    assert matched is not None
    if is_alive(int(matched[1])) and age_seconds < _NEW_SECONDS:
        return
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its process lives
        from nodewise.measure.engines.base import end_marked
        from nodewise.measure.mpi.leftovers import remove_noted

        end_marked(folder)
        remove_noted(folder)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
