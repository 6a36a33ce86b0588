"""A day of demand, or several: the fleet for its peak, and what an autoscaler saves."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import msgspec

from nodewise.base.units import format_duration
from nodewise.decide.prices.bill import Price
from nodewise.fleet.cost import cost_per_million, fleet_per_hour

_HOURS = 24
_DAY_SECONDS = 86400.0


class Demand(NamedTuple):
    """What is asked over a day, or over several, and what a fleet keeps ready."""

    curve: Sequence[float]  # requests per second, in equal parts
    days: float = 1.0  # that the curve lasts
    spares: int = 0
    startup_seconds: float = 0.0  # from the order of a replica, which is billed, until it serves


class DayRow(msgspec.Struct, frozen=True, kw_only=True):
    """One way to serve the demand; costs are those of a mean day."""

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
    demand: Demand,
    rates: dict[int, float],
    tokens_per_request: float,
    price: Price,
) -> tuple[tuple[DayRow, ...], tuple[str, ...]]:
    """A fleet for the peak, an autoscaler that is always right at once, and one that starts ahead.

    Where a part of the day cannot be served rows are missing, and the reason is given.
    """
    curve, spares = demand.curve, demand.spares
    peak = max(curve, default=0.0)
    if not peak:
        return (), ()
    counts = [count for count in (_fewest(rate, rates) for rate in curve) if count is not None]
    if len(counts) < len(curve):
        most = max(rates.values(), default=0.0)
        why = f"its peak is {peak:.4g} requests/s, and no fleet serves more than {most:.4g}"
        return (), (f"The day of demand has no price: {why}.",)
    whole = [1.0] * len(counts)
    ways = [
        ("one fleet for the peak", [max(counts)] * len(counts), whole),
        ("autoscaler, always right (a bound)", counts, whole),
    ]
    if demand.startup_seconds:
        ahead = f"autoscaler, starts {format_duration(demand.startup_seconds, digits=2)} ahead"
        ways.append((ahead, *_started_ahead(counts, demand)))
    if spares:
        extra = f" and {spares} spare"
        ways += [(way + extra, [one + spares for one in used], parts) for way, used, parts in ways]
    tokens_per_second = fmean(curve) * tokens_per_request
    return tuple(_served_by(*way, price, tokens_per_second) for way in ways), ()


def _started_ahead(counts: Sequence[int], demand: Demand) -> tuple[list[int], list[float]]:
    """Replicas that are billed, and for how long: all that are needed until they could be ready.

    The demand is known ahead, and the next day is like this one. Each part has two pieces: in the
    second one, the start-up time reaches one part further.

    >>> _started_ahead([1, 3], Demand([10, 30], startup_seconds=21600))
    ([1, 3, 3, 3], [0.5, 0.5, 0.5, 0.5])
    """
    part = demand.days * _DAY_SECONDS / len(counts)
    reach, rest = divmod(min(demand.startup_seconds / part, float(len(counts))), 1.0)
    twice = [*counts, *counts, counts[0]]
    used, lengths = [], []
    for at in range(len(counts)):
        end = at + int(reach) + 1
        used += [max(twice[at:end]), max(twice[at : end + 1])]
        lengths += [1 - rest, rest]
    return used, lengths


def _served_by(
    way: str,
    used: Sequence[int],
    parts: Sequence[float],
    price: Price,
    tokens_per_second: float,
) -> DayRow:
    hourly = fmean([fleet_per_hour(price, one) for one in used], weights=parts)
    free = not tokens_per_second
    return DayRow(
        way=way,
        replicas=fmean(used, weights=parts),
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
