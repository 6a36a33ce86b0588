"""Append-only files of JSON lines that survive kill -9: a last line without an end is not used."""

import os
from pathlib import Path
from typing import TypeVar

import msgspec

from nodewise.base.errors import DataError
from nodewise.study import files

Record = TypeVar("Record", bound=msgspec.Struct)


def append(path: Path, record: msgspec.Struct) -> None:
    """Add a line; when this returns it is on the disk. What could not be read back is refused."""
    line = msgspec.json.encode(record)
    try:
        msgspec.json.decode(line, type=type(record))
    except msgspec.DecodeError as error:
        raise DataError(
            f"Cannot write to {path}: a value is out of range: {error}.",
            "Correct or leave out that value.",
        ) from None
    with files.open_to_change(path, os.O_APPEND) as file:
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read(path: Path, kind: type[Record]) -> tuple[list[Record], bool]:
    """The records of a file, none if it is missing; and whether its last line was cut off."""
    try:
        content = files.read_own(path)
    except FileNotFoundError:
        return [], False
    *whole, torn = content.split(b"\n")
    records = []
    decoder = msgspec.json.Decoder(kind)
    for number, line in enumerate(whole, start=1):
        try:
            records.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DataError(
                f"Line {number} of {path} is damaged: {error}.",
                "Delete that line; it will be measured again.",
            ) from None
    return records, bool(torn)


def drop_torn_line(path: Path) -> None:
    """Cut off a last line without an end, so that the next record begins a line of its own."""
    try:
        content = files.read_own(path)
    except FileNotFoundError:
        return
    if content and not content.endswith(b"\n"):
        with files.open_to_change(path) as file:
            file.truncate(content.rfind(b"\n") + 1)
            os.fsync(file.fileno())
