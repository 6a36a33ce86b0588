"""Numbers to text and back: the only place that rounds.

Computation keeps full precision; a figure is cut to its printed digits here, once, by its quantity.
"""

import math
import re
from collections.abc import Mapping

SECONDS_PER_HOUR = 3600.0
HOURS_PER_YEAR = 8760.0

CURRENCY_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}

_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)\s*(ms|min|s|m|h|d)\s*")
_BYTES = {
    "": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "pb": 1e15,
    "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40, "pib": 2.0**50, "b": 1.0,
}  # fmt: skip
_BITS = {"bit": 0.125, "kbit": 125.0, "mbit": 125e3, "gbit": 125e6, "tbit": 125e9}
_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12, "p": 1e15}
_SECONDS_PER = {"/s": 1.0, "/min": 60.0, "/h": 3600.0, "/d": 86400.0}
_PARTS_OF_A_SECOND = {"ns": 1e9, "us": 1e6}
_NUMBER_AND_UNIT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(\S*)")


def parse_seconds(text: str) -> float:
    """Seconds in `90`, `90s`, `1.5h`, `1h30m`, `250ms`; a bare number is seconds.

    >>> parse_seconds("1h"), parse_seconds("1h30m"), parse_seconds("0.15h"), parse_seconds("90")
    (3600.0, 5400.0, 540.0, 90.0)
    """
    stripped = text.strip().lower()
    try:
        return _finite(float(stripped))
    except ValueError:
        pass
    parts = list(_PART.finditer(stripped))
    if not parts or "".join(part.group(0) for part in parts) != stripped:
        raise ValueError(f"'{text}' is not a time; write for example 90s, 15min, 1.5h")
    return _finite(sum(float(part.group(1)) * _SECONDS[part.group(2)] for part in parts))


def parse_amount(text: str) -> float:
    """An amount of money or a number, with or without a dollar sign.

    >>> parse_amount("$3.20")
    3.2
    """
    try:
        return _finite(float(text.strip().removeprefix("$")))
    except ValueError:
        raise ValueError(f"'{text}' is not an amount; write for example 3.20") from None


def parse_fraction(text: str) -> float:
    """A share written as `0.05` or `5%`.

    >>> parse_fraction("5%"), parse_fraction("0.7")
    (0.05, 0.7)
    """
    stripped = text.strip()
    try:
        if stripped.endswith("%"):
            return _finite(float(stripped[:-1]) / 100.0)
        return _finite(float(stripped))
    except ValueError:
        raise ValueError(f"'{text}' is not a share; write for example 0.05 or 5%") from None


def parse_bytes(text: str) -> float:
    """Bytes in `80GB`, `1.5TiB`, `4e9`; a bare number is bytes, and GB is 1e9.

    >>> parse_bytes("80GB"), parse_bytes("1KiB"), parse_bytes("4e9")
    (80000000000.0, 1024.0, 4000000000.0)
    """
    return _with_unit(text, _BYTES, "a size; write for example 80GB or 4e9")


def parse_bandwidth(text: str) -> float:
    """Bytes per second in `25GB/s`, `25e9`, `200Gbit/s`.

    >>> parse_bandwidth("25GB/s"), parse_bandwidth("25e9"), parse_bandwidth("200Gbit/s")
    (25000000000.0, 25000000000.0, 25000000000.0)
    """
    return _with_unit(
        text.strip().lower().removesuffix("/s"),
        _BYTES | _BITS,
        "a bandwidth; write for example 25GB/s, 200Gbit/s or 25e9",
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
    for ending, seconds in _SECONDS_PER.items():
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
    return _finite(float(match.group(1)) * units[match.group(2)])


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("the number must be finite")
    return value


def format_seconds(seconds: float) -> str:
    """Seconds with four decimals below ten, one below a thousand, none above; tiny, three digits.

    >>> [format_seconds(value) for value in (0.18840410, 206.0, 3600.0, 0.0000316)]
    ['0.1884', '206.0', '3600', '3.16e-05']
    """
    size = abs(seconds)
    if 0 < size < 0.001:
        return f"{seconds:.3g}"
    return f"{seconds:.{4 if size < 10 else 1 if size < 1000 else 0}f}"


def format_duration(seconds: float, digits: int | None = None) -> str:
    """A time for people: seconds up to 100, then as a clock shows it.

    With `digits` a time keeps its zeros: a row of a table then shows how well it is known.

    >>> [format_duration(value) for value in (0.0031, 42.0, 99.96, 582.3, 5400.0, 1.2e7)]
    ['0.0031 s', '42 s', '1m40s', '9m42s', '1h30m', '3,333 h']
    >>> format_duration(600), format_duration(7200), format_duration(600, digits=3)
    ('10 min', '2 h', '10m00s')
    >>> format_duration(9.2035, digits=2), format_duration(-98.6, digits=2), format_duration(1, 3)
    ('9.2 s', '-99 s', '1.00 s')
    """
    size = abs(seconds)
    if size < 99.95:
        return f"{seconds:.3g} s" if digits is None else f"{significant(seconds, digits)} s"
    sign = "-" if seconds < 0 else ""
    minutes, rest = divmod(round(size), 60)
    if digits is None and rest == 0 and (minutes < 60 or minutes % 60 == 0) and minutes < 6000:
        return f"{sign}{minutes} min" if minutes < 60 else f"{sign}{minutes // 60} h"
    if minutes < 60:
        return f"{sign}{minutes}m{rest:02}s"
    hours, minutes = divmod(round(size / 60), 60)
    return f"{sign}{hours}h{minutes:02}m" if hours < 100 else f"{sign}{size / 3600:,.0f} h"


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits; whole digits are never left out.

    >>> significant(12345.678), significant(0.00316), significant(98.6, 2), significant(5.0)
    ('12,346', '0.00316', '99', '5.00')
    """
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:#.{digits}g}".removesuffix(".")


def digits_known(value: float, low: float | None, high: float | None) -> int:
    """Three digits, or two where the interval is wider than a tenth of the value.

    >>> digits_known(9.2, 7.2, 13.2), digits_known(5.33, 5.20, 5.45), digits_known(5.33, None, None)
    (2, 3, 3)
    """
    if low is None or high is None:
        return 3
    return 2 if high - low > 0.1 * abs(value) else 3


def format_speedup(speedup: float) -> str:
    """Speedups, also lost ones: two decimals; never minus zero."""
    return f"{speedup + 0.0:.2f}".replace("-0.00", "0.00")


def format_efficiency(efficiency: float) -> str:
    """Efficiencies and quality: three decimals."""
    return f"{efficiency:.3f}"


def format_money(amount: float, currency: str = "$") -> str:
    """The cost of a run: three decimals below a thousand, two above, three digits below a tenth.

    >>> [format_money(value) for value in (4.17315, -0.053333, 12345.678, 0.000181234)]
    ['$4.173', '-$0.0533', '$12,345.68', '$0.000181']
    >>> format_money(1.5, "node-h"), format_money(1.5, "€"), format_money(1.5, "CHF")
    ('1.500 node-h', '€1.500', '1.500 CHF')
    """
    size = f"{abs(amount):.3f}" if abs(amount) < 1000 else f"{abs(amount):,.2f}"
    if 0 < abs(amount) < 0.0995:
        size = f"{abs(amount):.{2 - math.floor(math.log10(abs(amount)))}f}"
    sign = "-" if amount < 0 else ""
    return f"{sign}{currency}{size}" if len(currency) == 1 else f"{sign}{size} {currency}"


def format_rate_cost(amount: float, unit: str, currency: str = "$") -> str:
    """The cost of one unit of work, by the million: for work that is known as a rate only.

    >>> format_rate_cost(6.84e-8, "items"), format_rate_cost(0.0002, "tokens", "€")
    ('$0.0684 per million items', '€200.000 per million tokens')
    """
    return f"{format_money(1e6 * amount, currency)} per million {unit}"


def format_unit_cost(amount: float, currency: str = "$") -> str:
    """The cost of one unit of work, which is often tiny: four significant digits."""
    return f"{currency}{amount:.3e}" if len(currency) == 1 else f"{amount:.3e} {currency}"


def format_quantity(amount: float) -> str:
    """Work per dollar, joules: whole from a thousand on, four digits below.

    >>> [format_quantity(value) for value in (1148936.17, 540000.0, 3.14159)]
    ['1,148,936', '540,000', '3.142']
    """
    return f"{amount:,.0f}" if abs(amount) >= 1000 else f"{amount:.4g}"


def format_percent(share: float) -> str:
    """A share as a percentage, whole from ten on.

    >>> [format_percent(value) for value in (0.0376, 0.667, 1.0)]
    ['3.8 %', '67 %', '100 %']
    """
    percent = 100 * share
    return f"{percent:.1f} %" if abs(percent) < 10 else f"{percent:.0f} %"


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


def capitalised(words: str) -> str:
    """The words as they begin a sentence; unlike `str.capitalize`, the rest stays as it is.

    >>> capitalised("at K=8 it bends")
    'At K=8 it bends'
    """
    return f"{words[:1].upper()}{words[1:]}"
