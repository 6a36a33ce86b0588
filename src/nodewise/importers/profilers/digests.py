"""Digest files (`nodewise trace --part`): the digests of some ranks of a job, to be merged later.

A digest is small whatever the size of its trace. So each rank can be read where its file is. The
breakdown of the merged parts equals that of all files, because it is made from digests alone.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from nodewise.base.errors import DataError, SpecError
from nodewise.study.trace import PARTS, Digest, TraceWindow, Unreadable

MAGIC = b"nodewise digests 1\n"
_ARRAYS = {"int64": np.int64, "int32": np.int32}
_OF_CALLS = ("call_lengths", "call_exposed", "call_steps", "call_kinds")
_OF_STEPS = ("step_starts", "step_ends", "step_parts")


class _Part(msgspec.Struct, frozen=True):
    window: TraceWindow
    digests: tuple[Digest, ...]
    unreadable: tuple[Unreadable, ...]
    collective_kernels: str | None = None  # None: written by an older version


def pack(
    digests: Sequence[Digest | Unreadable], window: TraceWindow, collective_kernels: str = ""
) -> bytes:
    """The digests of some ranks, and what they were read with."""
    part = _Part(
        window=window,
        digests=tuple(one for one in digests if isinstance(one, Digest)),
        unreadable=tuple(one for one in digests if isinstance(one, Unreadable)),
        collective_kernels=collective_kernels,
    )
    return MAGIC + msgspec.msgpack.encode(part, enc_hook=_array_to_plain)


def unpack(
    text: bytes, window: TraceWindow, collective_kernels: str = ""
) -> list[Digest | Unreadable]:
    """The digests in a part; rows that were read in another way cannot be merged with these."""
    try:
        part = msgspec.msgpack.decode(
            text.removeprefix(MAGIC), type=_Part, dec_hook=_array_from_plain
        )
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise DataError(f"The part is damaged: {error}.", "Make it again with --part.") from None
    if {part.window, window} & {"hta"} and part.window != window:
        raise SpecError(
            f"A part was made with --window {part.window}.", f"Add --window {part.window}."
        )
    if part.collective_kernels not in (None, collective_kernels):
        raise SpecError(
            f"A part was made with --collective-kernels {part.collective_kernels!r}, not "
            f"{collective_kernels!r}.",
            "Use the pattern of the parts; if they differ, read them again with one pattern.",
        )
    for one in part.digests:
        _check(one)
    return [*part.digests, *part.unreadable]


def _array_to_plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.ndim == 2, value.tobytes()
    raise NotImplementedError(type(value))


def _array_from_plain(kind: type, value: Any) -> Any:
    name, is_table, text = value
    if not isinstance(name, str) or name not in _ARRAYS or not isinstance(text, bytes):
        raise ValueError("no array")
    flat = np.frombuffer(text, _ARRAYS[name])
    return flat.reshape(-1, len(PARTS)) if is_table else flat


def _check(one: Digest) -> None:
    """A part may be damaged and still be a part: its columns must have one length."""
    calls, steps = len(one.call_starts), len(one.step_numbers)
    good = (
        all(getattr(one, name).shape == (calls,) for name in ("call_starts", *_OF_CALLS))
        and one.step_numbers.shape == (steps,)
        and all(len(getattr(one, name)) == steps for name in _OF_STEPS)
        and one.step_parts.shape == (steps, len(PARTS))
        and one.start <= one.end
        and bool((one.step_starts <= one.step_ends).all())
        and (not calls or 0 <= one.call_kinds.min() <= one.call_kinds.max() < len(one.call_table))
    )
    if not good:
        raise DataError("The part is damaged: its columns differ.", "Make it again with --part.")
