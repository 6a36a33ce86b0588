"""A link by two numbers, latency and bandwidth; the collectives over it; its fit to a link test."""

from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
import numpy as np

from nodewise.base.fits import nonnegative_fit
from nodewise.base.stats import Floats
from nodewise.study.spec import Amount, Positive

Share = Annotated[float, msgspec.Meta(ge=1e-6, le=1)]
Scales = TypeVar("Scales", float, Floats)


class Link(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A link: latency of a hop, bandwidth in one direction, and the share collectives reach.

    A transfer that is hidden behind work still occupies some of the device: `device_share`.
    """

    name: str = "own"
    latency_seconds: Amount
    bytes_per_second: Positive
    efficiency: Share = 0.8
    device_share: Annotated[float, msgspec.Meta(ge=0, lt=1)] = (
        0.0  # taken from work it hides behind
    )
    source: str = ""
    date: str = ""

    @property
    def rate(self) -> float:
        """Bytes per second that are reached."""
        return self.bytes_per_second * self.efficiency

    def shared(self, adapters: float) -> "Link":
        """The link of a device that has this many of them, or a share of one."""
        return msgspec.structs.replace(self, bytes_per_second=self.bytes_per_second * adapters)

    def message(self, size: float) -> float:
        """Seconds of one message."""
        return self.latency_seconds + size / self.rate

    def gather(self, size: float, devices: Scales, calls: float = 1.0) -> Scales:
        """Seconds of a ring all-gather or reduce-scatter of `size` bytes in all, in so many calls.

        >>> link = Link(latency_seconds=0, bytes_per_second=100e9, efficiency=1)
        >>> link.gather(80e9, 4), link.gather(80e9, 1)
        (0.6000000000000001, 0.0)
        """
        return (devices - 1) * (calls * self.latency_seconds + size / devices / self.rate)

    def ring(self, size: float, devices: Scales, calls: float = 1.0) -> Scales:
        """Seconds of a ring all-reduce: a reduce-scatter, then an all-gather."""
        return 2 * self.gather(size, devices, calls)

    def tree(self, size: float, devices: Floats, calls: float = 1.0) -> Floats:
        """Seconds of a tree all-reduce: halves are exchanged and put together again."""
        hops = np.log2(devices)
        return 2 * (calls * hops * self.latency_seconds + size * (1 - 1 / devices) / self.rate)


class AlphaBeta(msgspec.Struct, frozen=True, kw_only=True):
    """seconds = alpha + beta x bytes, with what it is off by."""

    alpha_us: float
    beta_ns_per_byte: float
    bandwidth_gb_per_s: float | None
    half_bandwidth_bytes: float | None  # the size at which half of the time is alpha
    rms_error: float  # relative
    points: int


def fit_alpha_beta(points: Sequence[tuple[int, float]]) -> AlphaBeta:
    """The line that is off by the least relative error, because sizes span many decades.

    >>> link = fit_alpha_beta([(size, 5e-6 + size / 10e9) for size in (8, 1024, 2**20, 2**28)])
    >>> round(link.alpha_us, 6), round(link.bandwidth_gb_per_s, 6), link.rms_error < 1e-9
    (5.0, 10.0, True)
    """
    sizes = np.array([size for size, _ in points], np.float64)
    seconds = np.array([time for _, time in points], np.float64)
    columns = np.stack([np.ones_like(sizes), sizes], axis=1)
    alpha, beta = nonnegative_fit(columns, seconds, 1 / seconds)
    off = (alpha + beta * sizes) / seconds - 1
    return AlphaBeta(
        alpha_us=float(alpha * 1e6),
        beta_ns_per_byte=float(beta * 1e9),
        bandwidth_gb_per_s=float(1e-9 / beta) if beta > 0 else None,
        half_bandwidth_bytes=float(alpha / beta) if beta > 0 else None,
        rms_error=float(np.sqrt(np.mean(off**2))),
        points=len(points),
    )
