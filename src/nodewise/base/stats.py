"""Centres, spreads and intervals of repeated timings. Everything random is seeded."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nodewise.base.interval import LEVEL, Interval

Center = Literal["mean", "median"]
Floats = NDArray[np.float64]

# The least n for which the extremes of a sample hold the median with 95 % (2^(1-n) <= 0.05).
# Below it there is no distribution-free interval, only a range.
ENOUGH_ROUNDS = 6
DRAWS = 2000
SEED = 7


def center_of(samples: Floats, center: Center, axis: int = -1) -> Floats:
    """Mean or median along an axis."""
    chosen = np.mean if center == "mean" else np.median
    return np.asarray(chosen(samples, axis=axis), dtype=np.float64)


def std(samples: Floats) -> float | None:
    """Sample standard deviation (n-1), or nothing for a single value."""
    return float(np.std(samples, ddof=1)) if len(samples) > 1 else None


def resample(
    samples: Sequence[Floats], paired: bool, center: Center, seed: int = SEED
) -> Floats | None:
    """Centres of bootstrap samples, a row a draw and a column a scale; nothing for single runs.

    Paired scales are resampled by whole rounds, so that what disturbed a round disturbs its ratio
    only once; otherwise each scale is resampled by itself.
    """
    if min(len(values) for values in samples) < 2:
        return None
    draws = draws_for(max(len(values) for values in samples))
    columns = [
        center_of(values[resample_rounds(len(values), draws, paired, at, seed)], center)
        for at, values in enumerate(samples)
    ]
    return np.stack(columns, axis=1)


def draws_for(rounds: int) -> int:
    """As many draws as are useful, fewer where so many rounds would fill the memory."""
    return max(200, min(DRAWS, 4_000_000 // rounds))


def resample_rounds(
    rounds: int, draws: int, paired: bool = True, position: int = 0, seed: int = SEED
) -> NDArray[np.int64]:
    """Which rounds each draw is made of; the same for every position when scales are paired."""
    generator = np.random.default_rng([seed, 0 if paired else position])
    return generator.integers(0, rounds, size=(draws, rounds))


def percentile_interval(draws: Floats, rounds: int, level: float = LEVEL) -> Interval:
    """The central `level` of draws of one quantity, widened for few rounds.

    Plain percentiles of few rounds are too narrow: seven hold the truth in 89 of 100 studies
    instead of 95. Taking them as far out as Student's t lies mends that (Hesterberg 2015).
    """
    freedom = max(rounds - 1, 1)
    reach = student_quantile((1 + level) / 2, freedom) * math.sqrt(rounds / freedom)
    tail = normal_share_below(-reach)
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Interval(float(low), float(high))


def ratio_interval(above: Floats, below: Floats, paired: bool, level: float = LEVEL) -> Interval:
    """The interval of mean(above) / mean(below), by Student's t on the logarithm of the ratio.

    Paired values share their round, so what disturbed a round cancels. On rounds of real noise this
    is wrong in 5 of 100 studies where resampled means are in 7 (benchmarks/aa_study.py).

    >>> ratio_interval(np.array([4.0, 4.2, 3.8]), np.array([2.0, 2.1, 1.9]), paired=True)
    Interval(low=2.0, high=2.0)
    """
    center = math.log(float(np.mean(above) / np.mean(below)))
    first, second = above / np.mean(above), below / np.mean(below)
    if paired:
        variance = float(np.var(first - second, ddof=1)) / len(first)
        freedom = len(first) - 1
    else:
        parts = [float(np.var(one, ddof=1)) / len(one) for one in (first, second)]
        variance = sum(parts)
        # Welch's; the smaller sample decides where one hardly varies
        freedom = min(len(first), len(second)) - 1
    reach = student_quantile((1 + level) / 2, max(freedom, 1)) * math.sqrt(variance)
    return Interval(math.exp(center - reach), math.exp(center + reach))


def student_quantile(share: float, freedom: int) -> float:
    """The quantile of Student's t, by its expansion around the normal one.

    >>> round(student_quantile(0.975, 6), 2), round(student_quantile(0.975, 30), 3)
    (2.45, 2.042)
    """
    z = NormalDist().inv_cdf(share)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / float(freedom) ** power for power, term in enumerate(terms, start=1))


def normal_share_below(value: float) -> float:
    """The standard normal distribution function."""
    return NormalDist().cdf(value)
