"""The beginning of a file, by which its format is detected."""

import json
import re
from functools import cached_property
from pathlib import Path
from typing import Any

from nodewise.importers.files import read_end, read_start, without_colours

_HEAD_BYTES = 2**16  # enough for a trace, whatever its size
_TEXT_BYTES = 2**24
_LOG_BYTES = 2**22  # of a log: its header and the first steps
_END_BYTES = 2**20  # of a log: hundreds of ranks may say below the last step that they end
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|[][{},]', re.DOTALL)
_CLOSE = {"{": "}", "[": "]"}


class Head:
    """The beginning of a file, as far as a detector asks for it."""

    def __init__(self, path: Path) -> None:
        """Read the first bytes; they are unpacked where the file is packed."""
        self.path = path
        self.raw = read_start(path, _HEAD_BYTES)
        self.start = self.raw[:1024].removeprefix(b"\xef\xbb\xbf").lstrip()[:1]

    @cached_property
    def text(self) -> str:
        """The text of the file, or what fits of it."""
        whole = len(self.raw) < _HEAD_BYTES
        raw = self.raw if whole else read_start(self.path, _TEXT_BYTES)
        return "" if b"\0" in raw[:1024] else raw.decode("utf-8-sig", "replace")

    @cached_property
    def log(self) -> bytes:
        """The beginning and the end of a log: what a program prints at its end counts too."""
        if b"\0" in self.raw[:1024]:
            return b""
        whole = len(self.raw) < _HEAD_BYTES
        start = self.raw if whole else read_start(self.path, _LOG_BYTES)
        end = read_end(self.path, _END_BYTES) if len(start) == _LOG_BYTES else b""
        return without_colours(start + end)

    @cached_property
    def document(self) -> Any:
        """The first JSON value of the text, closed where it is cut off; None if there is none."""
        text = self.text.lstrip()
        if text[:1] not in ("{", "["):
            return None
        decoder = json.JSONDecoder()
        for some in (text, _closed(text[:_HEAD_BYTES])):
            try:
                return decoder.raw_decode(some)[0]
            except (ValueError, RecursionError):
                continue
        return None

    @cached_property
    def keys(self) -> dict[str, Any]:
        """The JSON object, or the first one of a list; empty if there is none."""
        document = self.document
        if isinstance(document, list):
            document = next((one for one in document if isinstance(one, dict)), None)
        return document if isinstance(document, dict) else {}

    @cached_property
    def is_list(self) -> bool:
        """Whether the document is a list."""
        return isinstance(self.document, list)

    @cached_property
    def rows(self) -> list[str]:
        """The first lines that are neither blank nor a comment."""
        lines = (line.strip() for line in self.text[:_HEAD_BYTES].splitlines())
        return [line for line in lines if line and not line.startswith("#")][:2]

    @cached_property
    def titles(self) -> set[str]:
        """The cells of the first row, read as CSV."""
        return set(self.rows[0].split(",")) if self.rows else set()

    def inner(self, key: str) -> dict[str, Any]:
        """An object in the document; empty if there is none."""
        found = self.keys.get(key)
        return found if isinstance(found, dict) else {}

    def first(self, key: str) -> dict[str, Any]:
        """The first object of a list in the document; empty if there is none."""
        values = self.keys.get(key)
        found = values[0] if isinstance(values, list) and values else None
        return found if isinstance(found, dict) else {}


def _closed(text: str) -> str:
    """The beginning of a JSON document, cut after its last whole value, with brackets closed."""
    open_brackets: list[str] = []
    end = 0
    for token in _JSON_TOKEN.finditer(text):
        mark = token[0]
        if mark in _CLOSE:
            open_brackets.append(_CLOSE[mark])
            end = token.end()
        elif mark in "]}" and open_brackets:
            open_brackets.pop()
            end = token.end()
        elif mark == ",":
            end = token.start()
    return text[:end] + "".join(reversed(open_brackets))
