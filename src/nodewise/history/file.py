"""The file of a history: JSON lines, one study a line, only ever appended to.

It may be a file of its own, `history.jsonl` in a folder, or that file on a branch of the
repository (`branch:NAME`), which leaves the working tree as it is.
"""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from nodewise.base.errors import DataError
from nodewise.history import git
from nodewise.history.entry import Entry
from nodewise.study import files, json_lines

NAME = "history.jsonl"
_BRANCH = "branch:"


class Place(NamedTuple):
    """Where a history is: a file, or a branch of the repository that the path is in."""

    path: Path
    branch: str = ""

    def __str__(self) -> str:
        """As a user writes it."""
        return f"{_BRANCH}{self.branch}" if self.branch else str(self.path)


def place_of(text: str) -> Place:
    """The place that a user names."""
    if text.startswith(_BRANCH):
        return Place(Path(), text.removeprefix(_BRANCH))
    path = Path(text)
    return Place(path / NAME if path.is_dir() else path)


def read(place: Place) -> list[Entry]:
    """The studies of a history in order of time; none if it is missing."""
    entries = _decode(_content(place), place)
    entries.sort(key=lambda entry: entry.date)
    return entries


def append(place: Place, entries: Sequence[Entry]) -> list[Entry]:
    """Add the studies that are not there yet; when this returns they are on the disk."""
    if place.branch:
        return _append_to_branch(place, entries)
    try:
        files.make_folder(place.path.parent)
        with files.open_to_change(place.path, os.O_APPEND) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            json_lines.drop_torn_line(place.path)
            added = _new(_decode(_content(place), place), entries)
            file.write(_lines(added))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _unusable(place, error) from None
    return added


def _append_to_branch(place: Place, entries: Sequence[Entry]) -> list[Entry]:
    added: list[Entry] = []

    def change(content: bytes) -> tuple[bytes, str] | None:
        nonlocal added
        added = _new(_decode(content, place), entries)
        count = f"{len(added)} stud{'y' if len(added) == 1 else 'ies'}"
        return (_whole_lines(content) + _lines(added), f"Add {count}") if added else None

    git.change_file(place.branch, NAME, change, place.path)
    return added


def _content(place: Place) -> bytes:
    if place.branch:
        return git.read_file(place.branch, NAME, place.path)
    try:
        return files.read_own(place.path)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _unusable(place, error) from None


def _unusable(place: Place, error: OSError) -> DataError:
    return DataError(
        f"Cannot use the history {place}: {(error.strerror or 'it fails').lower()}.",
        "Name a file, a folder or branch:NAME with --history.",
    )


def _whole_lines(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]


def _decode(content: bytes, place: Place) -> list[Entry]:
    """What whole lines hold; a last line that was cut off is not used."""
    decoder = msgspec.json.Decoder(Entry)
    entries = []
    for number, line in enumerate(_whole_lines(content).splitlines(), start=1):
        try:
            entries.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DataError(
                f"Line {number} of {place} is damaged: {error}.",
                "Delete that line, and add its study again.",
            ) from None
    return entries


def _new(known: Sequence[Entry], entries: Sequence[Entry]) -> list[Entry]:
    keys = {entry.key for entry in known}
    added = []
    for entry in entries:
        if entry.key not in keys:
            keys.add(entry.key)
            added.append(entry)
    return added


def _lines(entries: Sequence[Entry]) -> bytes:
    """The lines of studies; what could not be read back is refused."""
    lines = [msgspec.json.encode(entry) for entry in entries]
    for line, entry in zip(lines, entries, strict=True):
        try:
            msgspec.json.decode(line, type=Entry)
        except msgspec.DecodeError as error:
            raise DataError(
                f"The study of {entry.workload[:80]} at {entry.date} cannot be kept: {error}.",
                "Correct or leave out that value.",
            ) from None
    return b"".join(line + b"\n" for line in lines)
