"""Two ends of a number that nobody knows exactly, written `2.1..3.5`."""

import re
from collections.abc import Callable

import msgspec

_SUFFIX = re.compile(r"[^\d.]*$")


class Range(msgspec.Struct, frozen=True):
    """A number between two others; both alike where it is known."""

    low: float
    high: float

    @property
    def center(self) -> float:
        """What is taken where one number is needed."""
        return (self.low + self.high) / 2

    @property
    def is_known(self) -> bool:
        """Whether there is but one value."""
        return self.low == self.high


def parse_range(text: str, parse: Callable[[str], float]) -> Range:
    """A number, or two of them with dots between; the unit may stand at the end alone.

    >>> from nodewise.base.units import parse_amount, parse_seconds
    >>> parse_range("2.1..3.5", parse_amount), parse_range("1..5min", parse_seconds)
    (Range(low=2.1, high=3.5), Range(low=60.0, high=300.0))
    """
    first, dots, second = text.partition("..")
    if not dots:
        value = parse(text)
        return Range(value, value)
    unit = _SUFFIX.search(second.rstrip())
    if unit and _SUFFIX.sub("", first.rstrip()) == first.rstrip():
        first = first.rstrip() + unit.group()
    low, high = parse(first), parse(second)
    if low > high:
        raise ValueError(f"'{text}' runs backwards; write the smaller end first")
    return Range(low, high)
