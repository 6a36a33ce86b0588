"""What the readers share: the text of a file, and the errors of a file in another format."""

import contextlib
import importlib
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from nodewise.base.errors import DataError, RunError, SpecError
from nodewise.study.files import open_regular
from nodewise.study.study import Run

MAX_BYTES = 2**30
AS_WRITTEN = "Use the file as the tool wrote it."
_GZIP = b"\x1f\x8b"
_USUAL_COLOURS = 16
_COLOUR = re.compile(rb"\x1b\[[0-9;:?]{0,32}[A-Za-z]")


def read_start(path: Path, size: int) -> bytes:
    """The first bytes of a file; of a gzip file, as many as can be unpacked."""
    raw = _read(path, size)
    try:
        return zlib.decompressobj(31).decompress(raw, size) if raw[:2] == _GZIP else raw
    except zlib.error:
        return b""


def without_colours(text: bytes) -> bytes:
    """Text as it was before a program coloured it for a terminal.

    A program has few colours, and to replace one everywhere is faster than to look for all.
    """
    for _ in range(_USUAL_COLOURS):
        found = _COLOUR.search(text, at) if (at := text.find(b"\x1b")) >= 0 else None
        if found is None:
            return text
        text = text.replace(found[0], b"")
    return _COLOUR.sub(b"", text)


def read_end(path: Path, size: int) -> bytes:
    """The last bytes of a file that is not packed; nothing of one that is."""
    try:
        with open_regular(path) as file:
            if file.read(2) == _GZIP:
                return b""
            file.seek(-min(size, path.stat().st_size), 2)
            return file.read(size)
    except OSError:
        return b""


def read_text(path: Path) -> str:
    """The text of a file of bounded size; it may be packed."""
    raw = _read(path)
    if raw[:2] == _GZIP:
        raw = _unpacked(path, raw)
    if len(raw) > MAX_BYTES:
        raise DataError(f"{path} is larger than 1 GiB.", "Read one run at a time.")
    return raw.decode("utf-8", "replace")


def _unpacked(path: Path, packed: bytes) -> bytes:
    """The content of every member of a gzip file, up to one byte too many."""
    parts, left = [], MAX_BYTES + 1
    while packed.startswith(_GZIP) and left > 0:
        unpacker = zlib.decompressobj(31)
        try:
            parts.append(unpacker.decompress(packed, left))
        except zlib.error as error:
            raise DataError(f"{path} is damaged: {error}.", AS_WRITTEN) from None
        left -= len(parts[-1])
        if not unpacker.eof and left > 0:
            raise DataError(f"{path} is cut off.", AS_WRITTEN)
        packed = unpacker.unused_data
    return b"".join(parts)


def _read(path: Path, size: int = -1) -> bytes:
    try:
        with open_regular(path) as file:
            if size < 0 and path.stat().st_size > MAX_BYTES:
                raise DataError(f"{path} is larger than 1 GiB.", "Read one run at a time.")
            return file.read(size)
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {(error.strerror or str(error)).lower()}.",
            "Name a file that exists and is readable.",
        ) from None


def read_json(path: Path, what: str, content: Any = Any, strict: bool = True) -> Any:
    """The JSON document in a file; `what` is the expected format, for the error."""
    try:
        return msgspec.json.decode(read_text(path).encode(), type=content, strict=strict)
    except (msgspec.DecodeError, RecursionError) as error:
        raise wrong_format(path, what, str(error)) from None


def read_yaml(path: Path, what: str) -> Any:
    """The YAML or JSON document in a file."""
    text = read_text(path)
    if text.lstrip().startswith("{"):
        return read_json(path, what)
    try:
        yaml = importlib.import_module("yaml")
    except ModuleNotFoundError:
        raise RunError(
            f"{path} is YAML, and PyYAML is not installed.", "Install it: pip install pyyaml"
        ) from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise wrong_format(path, what, " ".join(str(error).split())[:200]) from None


def wrong_format(path: Path, what: str, why: str) -> DataError:
    """The error of a file that is not in the format it is read as."""
    return DataError(
        f"{path} is not {what}: {why.rstrip('.')}.",
        f"{AS_WRITTEN} nodewise import --help lists the formats.",
    )


def no_scale(path: Path) -> SpecError:
    """The error of a file that does not give K."""
    return SpecError(
        f"{path} does not give the number of nodes.", f"Write K=PATH, for example 8={path}."
    )


def runs_at(path: Path, runs: Sequence[Run], nodes: int | None) -> list[Run]:
    """The runs at one K; all of them without it."""
    found = [run for run in runs if nodes is None or run.nodes == nodes]
    if not found:
        raise DataError(f"{path} has no runs at K={nodes}.", "Leave K out to take all of them.")
    return found


@contextlib.contextmanager
def format_errors(name: object, fix: str = AS_WRITTEN) -> Iterator[None]:
    """Turn the errors of decoding a document into one `DataError`."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError,
            msgspec.MsgspecError) as error:  # fmt: skip
        raise DataError(
            f"{name} lacks what its format requires ({type(error).__name__}: {error}).", fix
        ) from None


def number(value: Any) -> float | None:
    """A number that can be a time or an amount, or nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e18 else None
