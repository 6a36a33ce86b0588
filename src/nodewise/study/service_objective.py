"""The limits that a request must keep, and the share of requests that must keep them."""

import math

import msgspec

from nodewise.base.errors import SpecError
from nodewise.base.interval import LEVEL
from nodewise.base.units import format_percent

TITLES = {"ttft": "TTFT", "tpot": "TPOT", "latency": "latency"}


class Objective(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A service-level objective: a request is good when it keeps every limit that is set."""

    ttft: float | None = None  # seconds to the first token, from when it should have been sent
    tpot: float | None = None  # seconds for each further token, their mean in one request
    latency: float | None = None  # seconds to the last token
    share: float = 0.99

    def __post_init__(self) -> None:
        """Refuse an objective that nothing or everything meets."""
        if not self.limits:
            raise SpecError(
                "No limit of the latency is set.",
                "State one: --ttft, --tpot or --latency; in a spec, ttft = 0.5 under [objective].",
            )
        for name, seconds in self.limits.items():
            if not (math.isfinite(seconds) and seconds > 0):
                raise SpecError(f"The limit of {name} is {seconds:g} s.", "Write a time above 0.")
        if not 0 < self.share < 1:
            raise SpecError(
                f"The share of good requests is {self.share:g}.",
                "Write a share between 0 and 1, such as 0.99; all of them cannot be certified.",
            )

    @property
    def limits(self) -> dict[str, float]:
        """The limits that are set, by the name of their metric."""
        named = {name: getattr(self, name) for name in TITLES}
        return {name: seconds for name, seconds in named.items() if seconds is not None}

    @property
    def metric(self) -> str:
        """The name of the first limit: what is drawn, or made lowest."""
        return next(iter(self.limits))

    @property
    def stall_seconds(self) -> float:
        """How long a test must be to meet stalls, with 95 %, that break the objective.

        A stall of twice the limit makes the requests of one limit miss. At random times, it breaks
        the objective once in limit / (1 - share).

        >>> round(Objective(ttft=0.2).stall_seconds), Objective(tpot=0.01).stall_seconds
        (60, 0.0)
        """
        limits = [seconds for name, seconds in self.limits.items() if name != "tpot"]
        return -math.log(1 - LEVEL) * min(limits, default=0.0) / (1 - self.share)

    @property
    def words(self) -> str:
        """The objective in words."""
        limits = [f"{TITLES[name]} <= {1000 * limit:.4g} ms" for name, limit in self.limits.items()]
        return f"{' and '.join(limits)} for {format_share(self.share)} of the requests"


def format_share(share: float) -> str:
    """A share near one, uncut.

    >>> format_share(0.99), format_share(0.999), format_share(0.5)
    ('99 %', '99.9 %', '50 %')
    """
    return f"{100 * share:.6g} %" if share > 0.9 else format_percent(share)
