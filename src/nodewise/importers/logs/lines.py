"""The lines of a log as a stream: of bounded length, unpacked, without colours."""

import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from nodewise.base.errors import DataError

MAX_LINE = 8192  # bytes of a line that are read; what a framework prints about a step is shorter
_CHUNK = 2**20
_MAX_REST = 2**22  # of a line without an end
_GZIP = b"\x1f\x8b"
_COLOUR = re.compile(rb"\x1b\[[0-9;:?]{0,32}[A-Za-z]")


def lines(path: Path) -> Iterator[bytes]:
    """Every line, also where a carriage return ends it."""
    rest = b""
    for chunk in _chunks(path):
        text = rest + chunk
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if not end and len(text) < _MAX_REST:
            rest = text
            continue
        whole, rest = (text[:end], text[end:]) if end else (text, b"")
        yield from _split(whole)
    yield from _split(rest)


def _split(text: bytes) -> Iterator[bytes]:
    if b"\x1b" in text:
        text = _COLOUR.sub(b"", text)
    for line in text.replace(b"\r", b"\n").split(b"\n"):
        if line:
            yield line if len(line) <= MAX_LINE else line[:MAX_LINE]


def _chunks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked; a packed file that is cut off gives what it has."""
    try:
        with path.open("rb") as file:
            first = file.read(_CHUNK)
            if first[:2] != _GZIP:
                while first:
                    yield first
                    first = file.read(_CHUNK)
                return
            unpacker = zlib.decompressobj(31)
            while first and not unpacker.eof:
                yield unpacker.decompress(first, _CHUNK)
                first = unpacker.unconsumed_tail or file.read(_CHUNK)
    except zlib.error as error:
        raise DataError(f"{path} is damaged: {error}.", "Unpack it, and import the text.") from None
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {(error.strerror or str(error)).lower()}.",
            "Name a file that exists and is readable.",
        ) from None
