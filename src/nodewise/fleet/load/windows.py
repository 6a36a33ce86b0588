"""The file of windows in a study folder."""

from pathlib import Path

from nodewise.study import json_lines
from nodewise.study.window import Window, with_deaths

WINDOWS = "windows.jsonl"


def append(folder: Path, window: Window) -> None:
    """Add a window; when this returns it is on the disk."""
    json_lines.append(folder / WINDOWS, window)


def load(folder: Path) -> list[Window]:
    """The windows of a folder; a last line that was cut off is removed, to be measured again."""
    json_lines.drop_torn_line(folder / WINDOWS)
    windows, _ = json_lines.read(folder / WINDOWS, Window)
    return [with_deaths(window) for window in windows]
