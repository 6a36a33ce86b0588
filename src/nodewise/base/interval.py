"""Two bounds of a number that is not known exactly, written `2.1..3.5`."""

import re
from collections.abc import Callable, Iterator

import msgspec

_SUFFIX = re.compile(r"[^\d.]*$")


class Interval(msgspec.Struct, frozen=True):
    """Two bounds, equal where the number is known; the maker says what they hold."""

    low: float
    high: float

    def __iter__(self) -> Iterator[float]:
        """Both bounds, to unpack."""
        yield self.low
        yield self.high

    @property
    def center(self) -> float:
        """What is taken where one number is needed."""
        return (self.low + self.high) / 2

    @property
    def is_known(self) -> bool:
        """Whether there is but one value."""
        return self.low == self.high


def parse_range(text: str, parse: Callable[[str], float]) -> Interval:
    """A number, or two of them with dots between; the unit may stand at the end alone.

    >>> from nodewise.base.units import parse_amount, parse_seconds
    >>> parse_range("2.1..3.5", parse_amount), parse_range("1..5min", parse_seconds)
    (Interval(low=2.1, high=3.5), Interval(low=60.0, high=300.0))
    """
    first, dots, second = text.partition("..")
    if not dots:
        value = parse(text)
        return Interval(value, value)
    unit = _SUFFIX.search(second.rstrip())
    if unit and _SUFFIX.sub("", first.rstrip()) == first.rstrip():
        first = first.rstrip() + unit.group()
    low, high = parse(first), parse(second)
    if low > high:
        raise ValueError(f"'{text}' runs backwards; write the smaller end first")
    return Interval(low, high)
