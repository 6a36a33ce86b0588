"""What the readers of load tests share: requests on one clock, percentiles by their names."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from nodewise.importers.files import number
from nodewise.study.window import Request, Summary, Window

_SAME_RATE = 0.02
_PERCENTILE = re.compile(r"p\(?(\d+(?:\.\d+)?)\)?$|(\d+(?:\.\d+)?)th$")


def window_of(
    requests: Sequence[Request],
    replicas: int,
    tool: str,
    offered_per_second: float | None = None,
    from_intended: bool = False,
) -> list[Window | Summary]:
    """A window that begins with its first request; none if there are fewer than two.

    `offered_per_second` is the rate that the tool was asked for.
    """
    if len(requests) < 2:
        return []
    ordered = sorted(requests, key=lambda one: one.intended)
    start = ordered[0].intended
    span = ordered[-1].intended - start
    # the last request has a share of the time too
    seconds = span * len(ordered) / (len(ordered) - 1) or 1e-9
    rate, notes = sent_rate(offered_per_second, len(ordered), seconds)
    window = Window(
        replicas=replicas,
        offered_per_second=rate,
        seconds=seconds,
        requests=tuple(_moved(one, start) for one in ordered),
        tool=tool,
        from_intended=from_intended,
        notes=notes,
    )
    return [window]


def sent_rate(asked: float | None, requests: int, seconds: float) -> tuple[float, tuple[str, ...]]:
    """The rate of a load test, with a note where the tool sent more than it was asked for.

    A client that sent less was late. It keeps the rate that was asked for, which its check compares
    with.

    >>> sent_rate(20.0, 243, 10.0)
    (24.3, ('The tool was set to 20 requests/s and sent 24.3: the rate that was sent counts.',))
    >>> sent_rate(20.0, 199, 10.0), sent_rate(None, 30, 10.0)
    ((20.0, ()), (3.0, ()))
    """
    sent = requests / seconds
    if not asked:
        return sent, ()
    if sent <= asked * (1 + _SAME_RATE):
        return asked, ()
    note = f"The tool was set to {asked:.4g} requests/s and sent {sent:.4g}"
    return sent, (f"{note}: the rate that was sent counts.",)


def _moved(one: Request, start: float) -> Request:
    return msgspec.structs.replace(
        one,
        intended=one.intended - start,
        sent=one.sent - start,
        first=None if one.first is None else one.first - start,
        last=None if one.last is None else one.last - start,
    )


def percentiles(block: Mapping[str, Any] | None, scale: float) -> dict[str, float]:
    """Percentiles by their share, in seconds: p99, p(99), 99th, p999 of a thousand, med and max.

    >>> percentiles({"p(90)": 2.0, "med": 1.0, "max": 8.0, "avg": 1.2}, 1e-3)
    {'0.9': 0.002, '0.5': 0.001, '1': 0.008}
    """
    found = {}
    for name, value in (block or {}).items():
        amount = number(value)
        share = _share(name)
        if amount is not None and share is not None:
            found[share] = amount * scale
    return found


def figures_by_metric(found: Mapping[str, Any], figure: re.Pattern[str]) -> dict[str, Any]:
    """The figures of each metric by their name, from keys such as p99_ttft_ms."""
    blocks: dict[str, dict[str, Any]] = {}
    for key, value in found.items():
        if match := figure.match(key):
            blocks.setdefault(match[2], {})[match[1]] = value
    return blocks


def _share(name: str) -> str | None:
    if name in ("max", "med", "median"):
        return "1" if name == "max" else "0.5"
    match = _PERCENTILE.match(name)
    if match is None:
        return None
    digits = match.group(1) or match.group(2)
    # GuideLLM writes p999 for 99.9 and p001 for 0.1
    percent = float(digits) / 10 if len(digits) == 3 and "." not in digits else float(digits)
    return f"{percent / 100:.10g}"
