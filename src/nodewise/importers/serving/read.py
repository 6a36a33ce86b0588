"""Load tests of serving fleets: our own windows, and the results of other tools.

A tool that kept every request gives a `Window`. One that kept only statistics gives a `Summary`.
"""

import contextlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from nodewise.base.errors import DataError, SpecError
from nodewise.importers import registry
from nodewise.importers.files import AS_WRITTEN, format_errors, read_json, read_text, read_yaml
from nodewise.study.window import Summary, Window, with_deaths

_LINES = ("aiperf", "vegeta", "sglang")  # formats of one JSON object per line


def read_windows(path: Path, replicas: int | None = None) -> list[Window | Summary]:
    """The load tests in a file; `replicas` is K, where the file does not give it."""
    form = registry.detect(path)
    if form is None:
        raise registry.unknown(path)
    if form.gives != "load":
        raise registry.unsuitable(path, form, "a load test")
    if form.name == "windows":
        windows = own_windows(path)
        if replicas is not None:
            raise SpecError(
                f"{path} gives its number of replicas itself.", f"Write {path} without K=."
            )
        return windows
    if not replicas:
        raise SpecError(
            f"{path} does not give the number of replicas.", f"Write K=PATH, for example 2={path}."
        )
    if form.name in _LINES:
        document: Any = _records(path)
    else:
        read = read_yaml if form.name == "llmd" else read_json
        document = read(path, form.title)
    with format_errors(path, "Use the file of a finished load test, as it was written."):
        # decoded again, so that a value that no load test can have is named by its field
        windows = [
            msgspec.json.decode(msgspec.json.encode(one), type=type(one))
            for one in form.read(document, replicas)
        ]
    if not windows:
        raise DataError(f"{path} has no finished request.", "Use a load test that has ended.")
    return windows


def own_windows(path: Path) -> list[Window | Summary]:
    """The windows that a sweep wrote, one per line."""
    windows: list[Window | Summary] = []
    for line in _lines(path):
        kind: Any = Window if '"requests":[' in line.text else Summary
        one = line.decode(kind, "a window")
        windows.append(with_deaths(one) if isinstance(one, Window) else one)
    return windows


def _records(path: Path) -> list[dict[str, Any]]:
    records = [line.decode(Any, "JSON") for line in _lines(path)]
    return [one for one in records if isinstance(one, dict)]


class _Line(NamedTuple):
    path: Path
    number: int
    text: str

    def decode(self, content: Any, what: str) -> Any:
        try:
            return msgspec.json.decode(self.text.encode(), type=content)
        except (msgspec.DecodeError, RecursionError) as error:
            if content is Any:  # Python writes Infinity, which JSON does not have
                with contextlib.suppress(ValueError, RecursionError):
                    return json.loads(self.text)
            place = f"Line {self.number} of {self.path}"
            raise DataError(f"{place} is not {what}: {error}.", AS_WRITTEN) from None


def _lines(path: Path) -> list[_Line]:
    lines = enumerate(read_text(path).splitlines(), start=1)
    return [_Line(path, number, line) for number, line in lines if line.strip()]
