"""The lines of a log as a stream: of bounded length, unpacked, without colours."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from nodewise.base.errors import DataError
from nodewise.importers.files import without_colours
from nodewise.study.files import open_regular

MAX_LINE = 8192  # bytes of a line that are read; what a framework prints about a step is shorter
_CHUNK = 2**20
_MAX_REST = 2**22  # of a line without an end
_IN_NUMBERS = b"0123456789.,:eE+-"
_GZIP = b"\x1f\x8b"


def lines(path: Path, finished: bool = False) -> Iterator[bytes]:
    """Every line, also where a carriage return ends it."""
    for block in blocks(path, finished):
        for line in block.removesuffix(b"\n").split(b"\n"):
            yield line if len(line) <= MAX_LINE else line[:MAX_LINE]


def blocks(path: Path, finished: bool = False) -> Iterator[bytes]:
    """Whole lines, many at a time: without colours, and with a newline after each line.

    A number at an end without a newline may lack digits, so it is left out, unless the program
    that wrote it has `finished`.
    """
    rest = b""
    for chunk in _chunks(path):
        text = rest + chunk
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if end == len(text) and text.endswith(b"\r"):
            end = max(text.rfind(b"\n"), text.rfind(b"\r", 0, -1)) + 1  # a newline may follow
        if not end and len(text) < _MAX_REST:
            rest = text
            continue
        whole, rest = (text[:end], text[end:]) if end else (text, b"")
        yield _plain(whole)
    if rest and not finished:
        rest = rest.rstrip(_IN_NUMBERS)
    if rest:
        yield _plain(rest)


def _plain(text: bytes) -> bytes:
    text = without_colours(text)
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text if text.endswith(b"\n") else text + b"\n"


def _unpacked(file: BinaryIO, packed: bytes) -> Iterator[bytes]:
    """The content of every member of a gzip file; what follows the last one is not read."""
    unpacker = zlib.decompressobj(31)
    while packed:
        yield unpacker.decompress(packed, _CHUNK)
        packed = unpacker.unconsumed_tail
        if unpacker.eof:
            packed = unpacker.unused_data
            if len(packed) < len(_GZIP):
                packed += file.read(_CHUNK)
            if not packed.startswith(_GZIP):
                return
            unpacker = zlib.decompressobj(31)
        packed = packed or file.read(_CHUNK)
    yield unpacker.flush()


def _chunks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, unpacked; a packed file that is cut off gives what it has."""
    try:
        with open_regular(path) as file:
            first = file.read(_CHUNK)
            if first[:2] != _GZIP:
                while first:
                    yield first
                    first = file.read(_CHUNK)
                return
            yield from _unpacked(file, first)
    except zlib.error as error:
        raise DataError(f"{path} is damaged: {error}.", "Unpack it, and import the text.") from None
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {(error.strerror or str(error)).lower()}.",
            "Name a file that exists and is readable.",
        ) from None
