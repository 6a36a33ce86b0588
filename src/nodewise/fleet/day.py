"""A day of demand: the fleet for its peak, and what an autoscaler could save at most."""

import math
from collections.abc import Sequence
from statistics import fmean

import msgspec

from nodewise.decide.prices.bill import Price
from nodewise.fleet.cost import cost_per_million, fleet_per_hour

_HOURS = 24


class DayRow(msgspec.Struct, frozen=True, kw_only=True):
    """One way to serve a day of demand."""

    way: str
    replicas: float  # on average
    most: int
    cost_per_day: float
    cost_per_million: float


def rate_at(replicas: int, rates: dict[int, float]) -> float | None:
    """The highest rate of a fleet: as run, or on the line between two that were; else unknown.

    >>> rate_at(3, {1: 10.0, 2: 20.0, 4: 36.0}), rate_at(5, {4: 36.0})
    (28.0, None)
    """
    above = [count for count in rates if count >= replicas]
    if replicas <= 0 or not above:
        return None if replicas > 0 else 0.0
    right = min(above)
    left = max((count for count in rates if count <= replicas), default=0)
    low = rates.get(left, 0.0)
    if left == right:
        return low
    if math.inf in (low, rates[right]):  # never broken: no line
        return math.inf
    return low + (replicas - left) / (right - left) * (rates[right] - low)


def a_day(
    curve: Sequence[float],
    spares: int,
    rates: dict[int, float],
    tokens_per_request: float,
    price: Price,
) -> tuple[tuple[DayRow, ...], tuple[str, ...]]:
    """A day of demand: a fleet for its peak, and an autoscaler that is always right at once.

    Where a part of the day cannot be served rows are missing, and the reason is given.
    """
    peak = max(curve, default=0.0)
    if not peak:
        return (), ()
    counts = [count for count in (_fewest(rate, rates) for rate in curve) if count is not None]
    if len(counts) < len(curve):
        most = max(rates.values(), default=0.0)
        why = f"its peak is {peak:.4g} requests/s, and no fleet serves more than {most:.4g}"
        return (), (f"The day of demand has no price: {why}.",)
    ways = [
        ("one fleet for the peak", [max(counts)] * len(counts)),
        ("autoscaler, always right (a bound)", counts),
    ]
    if spares:
        extra = f" and {spares} spare"
        ways += [(way + extra, [one + spares for one in used]) for way, used in ways]
    tokens_per_second = fmean(curve) * tokens_per_request
    return tuple(_served_by(way, used, price, tokens_per_second) for way, used in ways), ()


def _served_by(way: str, used: Sequence[int], price: Price, tokens_per_second: float) -> DayRow:
    hourly = fmean(fleet_per_hour(price, one) for one in used)
    free = not tokens_per_second
    return DayRow(
        way=way,
        replicas=fmean(used),
        most=max(used),
        cost_per_day=_HOURS * hourly,
        cost_per_million=math.inf if free else cost_per_million(hourly, tokens_per_second),
    )


def _fewest(rate: float, rates: dict[int, float]) -> int | None:
    for count in range(max(rates, default=0) + 1):
        served_rate = rate_at(count, rates)
        if served_rate is not None and served_rate >= rate * (1 - 1e-9):
            return count
    return None
