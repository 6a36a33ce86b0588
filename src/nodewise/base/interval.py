"""Two bounds of a number that is not known exactly: given as `2.1..3.5`, or of a median."""

import math
import re
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95  # of confidence, where nothing else is said
_SUFFIX = re.compile(r"[^\d.]*$")


class Interval(msgspec.Struct, frozen=True):
    """Two bounds of a number; equal if it is known."""

    low: float
    high: float

    def __iter__(self) -> Iterator[float]:
        """Both bounds, to unpack."""
        yield self.low
        yield self.high

    @property
    def center(self) -> float:
        """The value to use where one number is needed."""
        return (self.low + self.high) / 2

    @property
    def is_known(self) -> bool:
        """Whether both bounds are equal."""
        return self.low == self.high


def parse_range(text: str, parse: Callable[[str], float]) -> Interval:
    """A number or a range `low..high`; a unit at the end holds for both numbers.

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


def median_interval(samples: NDArray[np.float64], level: float = LEVEL) -> Interval:
    """Order statistics that contain the median with at least `level`; below six values, the range.

    >>> median_interval(np.array([5.0, 1.0, 3.0]))
    Interval(low=1.0, high=5.0)
    >>> median_interval(np.arange(1.0, 11.0))
    Interval(low=2.0, high=9.0)
    """
    ordered = np.sort(samples)
    cut = _order_cut(len(ordered), level)
    return Interval(float(ordered[cut]), float(ordered[len(ordered) - 1 - cut]))


def _order_cut(n: int, level: float) -> int:
    """How many extremes can be cut at each end while the rest still contains the median."""
    if n > 1000:  # the normal approximation, one order statistic on the safe side
        return int(n / 2 - 0.98 * math.sqrt(n)) - 1
    tail = 0
    for cut in range(n // 2):
        tail += math.comb(n, cut)
        if 1 - 2 * tail / 2**n < level:
            return max(cut - 1, 0)
    return 0
