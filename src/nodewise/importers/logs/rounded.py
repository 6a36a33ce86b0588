"""What printed figures allow: they are rounded, so a whole number follows only where one fits."""

import math

from nodewise.importers.logs.record import number

Interval = tuple[float, float]
_SLACK = 2e-4  # of figures whose rounding is not known


def whole(ratio: float, within: float = 0.005) -> int | None:
    """The whole number nearest to a ratio of printed figures; None if it is not clear."""
    if not 0 < ratio < 1e9:
        return None
    near = round(ratio)
    slack = max(within * ratio, 1e-9)
    return near if near >= 1 and abs(ratio - near) <= slack < 0.45 else None


def interval(text: str, digits: int | None = None) -> Interval | None:
    """What a printed number may have been; with `digits`, it has so many significant ones.

    >>> interval("1.25"), interval("22.8K", 3)
    ((1.245, 1.255), (22750.0, 22850.0))
    """
    worth = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(text[-1:], 1.0)
    plain = text[:-1] if worth > 1 else text
    value = number(plain)
    if value is None or value <= 0 or (digits is None and "e" in plain.lower()):
        return None
    half = 0.5 * 10.0 ** -len(plain.partition(".")[2])
    if digits is not None:
        half = 0.5 * 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return worth * (value - half), worth * (value + half)


def only(low: float, high: float, widest: float = 0.95, slack: float = _SLACK) -> int | None:
    """The one whole number in an interval, unless it is so wide that one is there by chance."""
    near = round((low + high) / 2)
    more = slack * near
    fits = low - more <= near <= high + more
    alone = not (low - more <= near - 1 or near + 1 <= high + more)
    return near if fits and alone and near >= 1 and high - low < widest else None
