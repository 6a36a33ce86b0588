"""Sizes, rates and counts to text and back: 80GB, 25GB/s, 1000/s, 13B, 10us."""

import math
import re
from collections.abc import Mapping

from nodewise.base.units import parse_seconds

_BYTES = {
    "": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "pb": 1e15,
    "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40, "pib": 2.0**50, "b": 1.0,
}  # fmt: skip
_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12, "p": 1e15}
_SECONDS = {"/s": 1.0, "/min": 60.0, "/h": 3600.0, "/d": 86400.0}
_PARTS_OF_A_SECOND = {"ns": 1e9, "us": 1e6}
_NUMBER_AND_UNIT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(\S*)")


def parse_bytes(text: str) -> float:
    """Bytes in `80GB`, `1.5TiB`, `4e9`; a bare number is bytes, and GB is 1e9.

    >>> parse_bytes("80GB"), parse_bytes("1KiB"), parse_bytes("4e9")
    (80000000000.0, 1024.0, 4000000000.0)
    """
    return _with_unit(text, _BYTES, "a size; write for example 80GB or 4e9")


def parse_bandwidth(text: str) -> float:
    """Bytes per second in `25GB/s`, `25e9`.

    >>> parse_bandwidth("25GB/s"), parse_bandwidth("25e9")
    (25000000000.0, 25000000000.0)
    """
    return _with_unit(
        text.strip().lower().removesuffix("/s"),
        _BYTES,
        "a bandwidth; write for example 25GB/s or 25e9",
    )


def parse_count(text: str) -> float:
    """A number with a short scale behind it: `13B`, `20T`, `6e12`.

    >>> parse_count("13B"), parse_count("20T"), parse_count("6e12")
    (13000000000.0, 20000000000000.0, 6000000000000.0)
    """
    return _with_unit(text, _COUNTS, "a number; write for example 13e9 or 13B")


def parse_rate(text: str) -> float:
    """Requests per second in `1000/s`, `60/min`; a bare number is per second.

    >>> parse_rate("1000/s"), parse_rate("120/min"), parse_rate("5")
    (1000.0, 2.0, 5.0)
    """
    stripped = text.strip().lower()
    for ending, seconds in _SECONDS.items():
        if stripped.endswith(ending):
            return parse_count(stripped.removesuffix(ending)) / seconds
    return parse_count(stripped)


def parse_latency(text: str) -> float:
    """Seconds in `10us`, `200ms`, `10e-6`.

    >>> parse_latency("10us"), parse_latency("200ms"), parse_latency("10e-6")
    (1e-05, 0.2, 1e-05)
    """
    stripped = text.strip().lower()
    for ending, parts in _PARTS_OF_A_SECOND.items():
        if stripped.endswith(ending):
            number = stripped.removesuffix(ending)
            return _with_unit(number, {"": 1.0}, "a time; write for example 10us") / parts
    return parse_seconds(text)


def _with_unit(text: str, units: Mapping[str, float], wanted: str) -> float:
    match = _NUMBER_AND_UNIT.fullmatch(text.strip().lower())
    if match is None or match.group(2) not in units:
        raise ValueError(f"'{text}' is not {wanted}")
    value = float(match.group(1)) * units[match.group(2)]
    if not math.isfinite(value):
        raise ValueError("the number must be finite")
    return value


def format_bytes(size: float) -> str:
    """A size with three digits, in powers of a thousand.

    >>> [format_bytes(size) for size in (208e9, 71.5e9, 5e13, 120, 0)]
    ['208 GB', '71.5 GB', '50 TB', '120 B', '0 B']
    """
    return f"{_scaled(size)}B"


def format_bandwidth(rate: float) -> str:
    """Bytes per second.

    >>> format_bandwidth(25e9)
    '25 GB/s'
    """
    return f"{format_bytes(rate)}/s"


def format_flops(rate: float) -> str:
    """Floating-point operations per second.

    >>> format_flops(2e13)
    '20 TFLOP/s'
    """
    return f"{_scaled(rate)}FLOP/s"


def format_latency(seconds: float) -> str:
    """A short time, with three digits and its unit.

    >>> [format_latency(seconds) for seconds in (4.1e-6, 0.2, 48e-9, 3.0)]
    ['4.1 us', '200 ms', '48 ns', '3 s']
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _scaled(value: float) -> str:
    """Three digits and the prefix of the unit that follows."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g} "
    step = min(max(math.floor(math.log10(abs(value) * 1.0005) / 3), 0), 6)
    return f"{value / 1000.0**step:.3g} {' kMGTPE'[step].strip()}"
