"""The histories below a folder, each read again only when its file has changed."""

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nodewise.base.errors import NodewiseError
from nodewise.history.entry import Entry, study_key
from nodewise.history.file import NAME, Place, read
from nodewise.history.trend import History, history
from nodewise.study.study import Study

_DEPTH = 2


class Kept(NamedTuple):
    """A history as its file was when it was read."""

    key: str  # what it is called in addresses
    path: Path
    stamp: tuple[int, int]
    entries: tuple[Entry, ...] = ()
    found: History | None = None
    problem: NodewiseError | None = None


class Histories:
    """The histories below one folder."""

    def __init__(self, folder: Path) -> None:
        """Look below this folder."""
        self._folder = folder.resolve()
        self._kept: dict[str, Kept] = {}
        self._reading = threading.Lock()

    def all(self) -> list[Kept]:
        """Every history that is there now, and can be read or not; empty ones are left out."""
        with self._reading:
            made = [self._look(path) for path in _files(self._folder, _DEPTH)]
            self._kept = {one.key: one for one in made}
        return [one for one in made if one.found is not None or one.problem is not None]

    def find(self, key: str) -> Kept | None:
        """A history by its key."""
        return next((one for one in self.all() if one.key == key), None)

    def _look(self, path: Path) -> Kept:
        key = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        found = path.lstat()
        stamp = (found.st_mtime_ns, found.st_size)
        held = self._kept.get(key)
        if held is not None and held.stamp == stamp:
            return held
        made = Kept(key, path, stamp)
        try:
            entries = read(Place(path))
        except NodewiseError as problem:
            return made._replace(problem=problem)
        name = str(path.relative_to(self._folder))
        return made._replace(
            entries=tuple(entries), found=history(name, entries) if entries else None
        )


def place_in(kept: list[Kept], study: Study | None) -> tuple[Kept, int, int] | None:
    """The history that a study is in, its place among the studies of its workload, their number."""
    if study is None or not study.scales:
        return None
    key = study_key(study)
    for one in kept:
        for entry in one.entries:
            if entry.key == key:
                same = [other.key for other in one.entries if other.workload == entry.workload]
                return one, same.index(key) + 1, len(same)
    return None


def _files(folder: Path, depth: int) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            inside = sorted(
                (entry.path, entry.is_dir(follow_symlinks=False), entry.name) for entry in entries
            )
    except OSError:  # not ours to read
        return
    for path, is_folder, name in inside:
        if name == NAME and not is_folder and Path(path).is_file():
            yield Path(path)
        elif is_folder and depth and name[0] != ".":
            yield from _files(Path(path), depth - 1)
