"""What the readers of small text formats share: reading a file, and saying that it is another."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from nodewise.base.errors import DataError

MOST_BYTES = 2**30


def text_of(path: Path) -> str:
    """The text of a file of bounded size."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path} is larger than 1 GiB.", "Hand in one run at a time.")
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise DataError(
            f"Cannot read {path}: {(error.strerror or str(error)).lower()}.",
            "Name a file that is there and that you may read.",
        ) from None


def json_of(path: Path, what: str) -> Any:
    """The JSON document in a file; `what` it should have been, for the error."""
    try:
        return msgspec.json.decode(text_of(path).encode())
    except (msgspec.DecodeError, RecursionError) as error:
        raise foreign(path, what, str(error)) from None


def foreign(path: Path, what: str, why: str) -> DataError:
    """The error of a file that is not of the format it was handed in as."""
    return DataError(
        f"{path} is not {what}: {why.rstrip('.')}.",
        "Name its format; nodewise import --help lists them.",
    )


@contextlib.contextmanager
def as_promised(name: object, fix: str) -> Iterator[None]:
    """Around the reading of a document: what its format promises and it lacks is an error of it."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError,
            msgspec.MsgspecError) as error:  # fmt: skip
        raise DataError(
            f"{name} lacks what its format promises ({type(error).__name__}: {error}).", fix
        ) from None


def number(value: Any) -> float | None:
    """A number that can be a time or an amount, or nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e18 else None
