"""The wire format of protocol buffers, as far as TensorBoard and W&B files need it."""

import struct
from collections.abc import Iterator

Value = int | bytes


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """The fields of a message: number and value. Ends where the message is damaged."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        kind, field = key & 7, key >> 3
        if at < 0:
            return
        if kind == 0:
            value, at = _varint(data, at)
            if at < 0:
                return
            yield field, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            size, at = _varint(data, at)
        if size is None or at < 0 or at + size > end:
            return
        yield field, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
    return 0, -1


def real(data: Value) -> float | None:
    """A float or a double."""
    if isinstance(data, int) or len(data) not in (4, 8):
        return None
    found: float = struct.unpack("<f" if len(data) == 4 else "<d", data)[0]
    return found


def text(data: Value) -> str:
    """A string."""
    return "" if isinstance(data, int) else data.decode("utf-8", "replace")
