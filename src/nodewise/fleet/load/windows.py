"""The file of windows in a study folder: append-only, one line a window, synced to disk."""

import os
from pathlib import Path

import msgspec

from nodewise.base.errors import DataError
from nodewise.study.window import Window, with_deaths

WINDOWS = "windows.jsonl"


def append(folder: Path, window: Window) -> None:
    """Add a window; when this returns it is on the disk."""
    with (folder / WINDOWS).open("ab") as file:
        file.write(msgspec.json.encode(window) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def load(folder: Path) -> list[Window]:
    """The windows of a folder; a last line that was cut off is removed, to be measured again."""
    path = folder / WINDOWS
    if not path.exists():
        return []
    raw = path.read_bytes()
    whole = raw.rfind(b"\n") + 1
    if whole < len(raw):
        with path.open("r+b") as file:
            file.truncate(whole)
    try:
        windows = msgspec.json.Decoder(Window).decode_lines(raw[:whole])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(
            f"{path} is damaged: {error}.", "Delete that line; the window will be measured again."
        ) from None
    return [with_deaths(window) for window in windows]
