"""The two numbers of a link: seconds to begin (alpha) and seconds for each byte (beta)."""

from collections.abc import Sequence

import msgspec
import numpy as np

from nodewise.base.fits import nonnegative_fit


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
