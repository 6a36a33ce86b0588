"""When requests are to be sent: times that are known before the first one goes out."""

import random
from collections.abc import Sequence


def constant(count: int, seconds: float) -> list[float]:
    """Equal gaps.

    >>> constant(4, 2.0)
    [0.0, 0.5, 1.0, 1.5]
    """
    return [seconds * number / count for number in range(count)]


def poisson(count: int, seconds: float, seed: str) -> list[float]:
    """Independent arrivals, exactly `count` of them.

    Given how many arrive, those of a Poisson process are uniform; so the offered rate is the one
    that was asked for, and not one drawn by chance.
    """
    draw = random.Random(f"arrivals {seed}")
    return sorted(draw.uniform(0.0, seconds) for _ in range(count))


def bursts(count: int, seconds: float, size: int, seed: str) -> list[float]:
    """Groups of `size` at one moment each; the groups arrive independently."""
    groups = poisson(-(-count // size), seconds, seed)
    return [groups[number // size] for number in range(count)]


def replayed(times: Sequence[float], count: int, seconds: float) -> list[float]:
    """The recorded times, stretched so that the first `count` of them fill `seconds`.

    A record that is too short is played again from its start.

    >>> replayed([0.0, 1.0, 3.0, 4.0], 4, 2.0)
    [0.0, 0.375, 1.125, 1.5]
    """
    first = times[0]
    length = (times[-1] - first) * len(times) / (len(times) - 1)  # a mean gap after the last
    again = [
        times[number % len(times)] - first + length * (number // len(times))
        for number in range(count + 1)
    ]
    whole = again[count] or 1.0  # all of them may come at once
    return [time / whole * seconds for time in again[:count]]
