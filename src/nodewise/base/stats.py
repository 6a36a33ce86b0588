"""Centres, spreads and intervals of repeated timings. Everything random is seeded."""

import functools
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nodewise.base.interval import LEVEL, Interval

Center = Literal["mean", "median"]
Floats = NDArray[np.float64]

# The least n for which the extremes of a sample contain the median with 95 % (2^(1-n) <= 0.05).
# With fewer, a distribution-free interval does not exist, only a range.
ENOUGH_ROUNDS = 6
DRAWS = 2000
_NEARLY_NORMAL = 200  # degrees of freedom
_MOST_BORROWED = 6  # degrees of freedom that the runs of other scales lend to one of few runs
_CAUTION = 1.25  # timings have longer tails than Student's t allows for
_FAR = math.log(1e3)  # draws of two rounds have no mean; none is taken further than this
_LONGEST = math.log(1e250)  # no time holds every run; this one is beyond any deadline
SEED = 7
_MANY_TRIALS = 1_000_000  # of a binomial law: beyond, the normal law is as good
_MOST_TERMS = 20_000  # of a continued fraction; it needs about the root of the trials


def center_of(samples: Floats, center: Center, axis: int = -1) -> Floats:
    """Mean or median along an axis."""
    chosen = np.mean if center == "mean" else median
    return np.asarray(chosen(samples, axis=axis), dtype=np.float64)


def std(samples: Floats) -> float | None:
    """Sample standard deviation (n-1), or nothing for a single value."""
    return float(np.std(samples, ddof=1)) if len(samples) > 1 else None


def median(samples: Floats, axis: int = -1) -> Floats:
    """What `np.median` gives, without its import of numpy.ma.

    >>> float(median(np.array([3.0, 1.0, 2.0, 9.0])))
    2.5
    """
    ordered = np.moveaxis(np.sort(np.asarray(samples), axis=axis), axis, 0)
    middle = np.mean(ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1], axis=0)
    return np.where(np.isnan(ordered[-1]), np.nan, middle)


def quantiles(samples: Floats, shares: Sequence[float], axis: int = 0) -> Floats:
    """What `np.quantile` gives, exactly, without its import of numpy.ma.

    >>> quantiles(np.array([3.0, 1.0, 2.0]), [0.0, 0.75])
    array([1. , 2.5])
    """
    ordered = np.moveaxis(np.sort(np.asarray(samples), axis=axis), axis, 0)
    at = (len(ordered) - 1) * np.asarray(shares)
    below = np.floor(at).astype(np.intp)
    low, high = ordered[below], ordered[np.minimum(below + 1, len(ordered) - 1)]
    part = (at - below).reshape(-1, *[1] * (ordered.ndim - 1))
    between = np.where(part < 0.5, low + (high - low) * part, high - (high - low) * (1 - part))
    return np.where(np.isnan(ordered[-1]), np.nan, between)


def resample(
    samples: Sequence[Floats], paired: bool, center: Center, seed: int = SEED
) -> Floats | None:
    """Centres of bootstrap samples; None for single runs. One row per draw, one column per scale.

    Paired scales are resampled by whole rounds, so that what disturbed a round disturbs its ratio
    only once; otherwise each scale is resampled by itself. A scale that ran once has the common
    spread of the others.
    """
    counts = [len(values) for values in samples]
    if max(counts) < 2:
        return None
    draws = draws_for(max(counts))
    common = common_log_spread(samples)
    columns = []
    for at, values in enumerate(samples):
        if len(values) > 1:
            picked = values[resample_rounds(len(values), draws, paired, at, seed)]
            columns.append(center_of(picked, center))
        else:
            own = np.random.default_rng([seed, at]).standard_normal(draws)
            columns.append(values[0] * np.exp(common * own))
    return np.stack(columns, axis=1)


def common_log_spread(samples: Sequence[Floats], center: Center = "mean") -> float:
    """The relative spread of a run, pooled over the scales that ran more than once."""
    squares = sum(float(np.sum(_log_spread(values, center) ** 2)) for values in samples)
    return math.sqrt(squares / sum(len(values) - 1 for values in samples))


def plausible_centers(
    samples: Sequence[Floats],
    rounds: Sequence[NDArray[np.int64]],
    center: Center,
    more_rounds: Sequence[int] = (),
    seed: int = SEED,
) -> Floats | None:
    """Plausible true centres; None for single runs. One row per draw, one column per scale.

    The logarithms follow a multivariate Student's t, so that the difference of two scales is as
    uncertain as a t test says, paired over the rounds that both have. Shares of these draws are
    probabilities; shares of bootstrap samples of few rounds are not. A scale that ran once has the
    common spread of the others. With `more_rounds` of each scale the draws are what so many further
    rounds of the same centres and spreads would leave open.
    """
    counts = [len(values) for values in samples]
    if max(counts) < 2:
        return None
    added = more_rounds or [0] * len(samples)
    generator = np.random.default_rng(seed)
    draws = draws_for(max(counts))
    columns = {one: at for at, one in enumerate(sorted({int(r) for ids in rounds for r in ids}))}
    weights = _balanced(generator, draws, len(columns))
    spreads = [_log_spread(values, center) for values in samples]
    freedom = sum(count - 1 for count in counts)
    common = common_log_spread(samples, center)
    most = max([freedom, *(count - 1 + more for count, more in zip(counts, added, strict=True))])
    # cumulative, so that scales of as many rounds share one draw of their spread
    halves = np.cumsum(generator.standard_normal((draws // 2, most)) ** 2, axis=1)
    squares = np.concatenate([halves, halves])
    # further rounds are shared by the scales that have them, and by no other
    further = _balanced(generator, draws, len(columns)) if any(added) else weights
    drawn = []
    for at, (values, ids, spread) in enumerate(zip(samples, rounds, spreads, strict=True)):
        count, total = counts[at], counts[at] + added[at]
        if count > 1:
            shared = math.sqrt(count / total) * weights + math.sqrt(added[at] / total) * further
            own = shared[:, [columns[int(one)] for one in ids]]
            off = own @ spread / math.sqrt((count - 1) * total)
        else:
            own = _balanced(np.random.default_rng([seed, at]), draws, 1)[:, 0]
            off = own * common / math.sqrt(total)
        degrees = total - 1 or freedom
        off = off * _CAUTION * np.sqrt(degrees / squares[:, degrees - 1])
        drawn.append(float(center_of(values, center)) * np.exp(np.clip(off, -_FAR, _FAR)))
    return np.stack(drawn, axis=1)


def plausible_reach(
    samples: Sequence[Floats],
    share: float,
    draws: int,
    more_rounds: Sequence[int] = (),
    seed: int = SEED,
) -> Floats:
    """What a run takes over its centre with this share, as the runs allow: one row per draw.

    The spread of a scale is uncertain as its few runs make it (chi-squared). A scale that ran once
    has the common spread of the others. `more_rounds` of each scale would make it more certain.
    """
    generator = np.random.default_rng([seed, 1])
    freedom = sum(len(values) - 1 for values in samples)
    common = common_log_spread(samples)
    columns = []
    for values, more in zip(samples, more_rounds or [0] * len(samples), strict=True):
        spread = float(np.std(np.log(values), ddof=1)) if len(values) > 1 else common
        degrees = len(values) - 1 + more or freedom
        columns.append(spread * np.sqrt(degrees / generator.chisquare(degrees, draws)))
    off = normal_quantile(share) * np.stack(columns, axis=1)
    return np.asarray(np.exp(np.clip(off, -_FAR, _FAR)))


def margins_of(
    samples: Sequence[Floats], rounds: Sequence[NDArray[np.int64]], *, joint: bool = False
) -> Floats | None:
    """How far ln(T_j / T_i) may be off, at row i and column j; nothing for single runs.

    A ratio further from 1 than its margin differs from 1, with 95 %: each pair by itself, or with
    `joint` all scales of a study against one. The spread of a run is that of all scales together,
    so that two rounds suffice; what disturbed a whole round is taken out.
    """
    counts = np.array([len(values) for values in samples])
    if counts.max() < 2:
        return None
    spreads = [np.log(values) - np.log(values).mean() for values in samples]
    freedom = int(np.sum(counts - 1))
    squares = sum(float(np.sum(part**2)) for part in spreads)
    paired = all(np.array_equal(rounds[0], one) for one in rounds[1:])
    if paired and len(samples) > 1:
        table = np.stack(spreads)
        squares = float(np.sum((table - table.mean(axis=0)) ** 2))
        freedom = int((len(samples) - 1) * (counts[0] - 1))
    level = 1 - (1 - LEVEL) / (max(len(samples) - 1, 1) if joint else 1)
    reach = _CAUTION * student_quantile(level, freedom) * math.sqrt(squares / freedom)
    return np.asarray(reach * np.sqrt(1 / counts[:, None] + 1 / counts[None, :]))


def _balanced(generator: np.random.Generator, draws: int, columns: int) -> Floats:
    """Normal draws, each with its negative, so that no side is favoured."""
    half = generator.standard_normal((draws // 2, columns))
    return np.concatenate([half, -half])


def _log_spread(values: Floats, center: Center) -> Floats:
    """Deviations of the logarithms from their centre; of a median without what lies far out."""
    logs = np.log(values)
    off = logs - center_of(logs, center)
    if center == "median" and len(values) > 2:
        reach = 3 * 1.4826 * float(median(np.abs(off)))
        if reach > 0:  # where more than half of the runs are equal, every other one lies far out
            off = np.clip(off, -reach, reach)
        off = off * math.sqrt(math.pi / 2)
    return np.asarray(off)


def share_below(
    values: Floats, limit: float, spread: float = 0.0, spread_freedom: int = 0
) -> float:
    """How likely a further run is at most `limit`, by Student's t on the logarithms of the runs.

    The `spread` of runs elsewhere, with its degrees of freedom, counts as a few runs more: it is
    all that is known of a single run, and two runs may lie too close or too far by chance.

    >>> round(share_below(np.array([10.0, 10.5, 9.5]), 10.0), 1)
    0.5
    """
    if limit <= 0:
        return 0.0
    center, reach, freedom = _next_run(values, spread, spread_freedom)
    off = math.log(limit) - center
    # rounding must not decide against a limit that is the time itself
    return student_share_below(off / reach, freedom) if reach > 0 else float(off >= -1e-12)


def longest_run(
    values: Floats, share: float, spread: float = 0.0, spread_freedom: int = 0
) -> float:
    """The time that a further run stays below with this share; the inverse of `share_below`."""
    center, reach, freedom = _next_run(values, spread, spread_freedom)
    if reach == 0:
        return math.exp(center)
    return math.exp(min(center + reach * student_quantile(share, freedom), _LONGEST))


def quantiles_of_run(
    values: Floats, shares: tuple[float, ...], spread: float = 0.0, spread_freedom: int = 0
) -> Floats:
    """The times that a further run stays below with each share."""
    center, reach, freedom = _next_run(values, spread, spread_freedom)
    return np.exp(center + reach * np.array(_student_quantiles(shares, freedom)))


@functools.lru_cache(maxsize=32)
def _student_quantiles(shares: tuple[float, ...], freedom: int) -> tuple[float, ...]:
    return tuple(student_quantile(share, freedom) for share in shares)


def _next_run(values: Floats, spread: float, spread_freedom: int) -> tuple[float, float, int]:
    """Of the logarithm of a further run: its centre, its spread, and their degrees of freedom."""
    logs = np.log(values)
    borrowed = min(spread_freedom, _MOST_BORROWED)
    freedom = max(borrowed + len(logs) - 1, 1)
    squares = borrowed * spread**2 + float(np.sum((logs - logs.mean()) ** 2))
    return float(logs.mean()), math.sqrt(squares / freedom * (1 + 1 / len(logs))), freedom


def draws_for(rounds: int) -> int:
    """As many draws as are useful, fewer where so many rounds would fill the memory."""
    return max(200, min(DRAWS, 4_000_000 // rounds)) // 2 * 2


def resample_rounds(
    rounds: int, draws: int, paired: bool = True, position: int = 0, seed: int = SEED
) -> NDArray[np.int64]:
    """Which rounds each draw is made of; the same for every position when scales are paired."""
    generator = np.random.default_rng([seed, 0 if paired else position])
    return generator.integers(0, rounds, size=(draws, rounds))


def percentile_interval(draws: Floats, rounds: int, level: float = LEVEL) -> Interval:
    """The central `level` of draws of one quantity, widened for few rounds.

    Plain percentiles of few rounds are too narrow: seven contain the truth in 89 of 100 studies
    instead of 95. Taking them as far out as Student's t lies corrects that (Hesterberg 2015).
    """
    freedom = max(rounds - 1, 1)
    reach = student_quantile((1 + level) / 2, freedom) * math.sqrt(rounds / freedom)
    tail = normal_share_below(-reach)
    low, high = quantiles(draws, [tail, 1 - tail])
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


@functools.cache
def student_quantile(share: float, freedom: int) -> float:
    """The quantile of Student's t.

    >>> round(student_quantile(0.975, 6), 2), round(student_quantile(0.975, 30), 3)
    (2.45, 2.042)
    """
    if share < 0.5:
        return -student_quantile(1 - share, freedom)
    if freedom > _NEARLY_NORMAL:
        z = normal_quantile(share)
        return z + (z**3 + z) / 4 / freedom
    high = 1.0
    while student_share_below(high, freedom) < share and high < 1e9:
        high *= 2
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if student_share_below(middle, freedom) < share else (low, middle)
        )
    return (low + high) / 2


def student_share_below(value: float, freedom: int) -> float:
    """The distribution function of Student's t, exact for whole degrees of freedom.

    >>> round(student_share_below(2.447, 6), 4), round(student_share_below(1.0, 1), 4)
    (0.975, 0.75)
    """
    angle = math.atan(value / math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2 == 1
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for degree in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine**2 * (degree - 1) / degree
        total += term
    inside = (angle + math.sin(angle) * total) * 2 / math.pi if odd else math.sin(angle) * total
    return (1 + inside) / 2


def normal_share_below(value: float) -> float:
    """The standard normal distribution function."""
    return 0.5 * (1.0 + math.erf(value / math.sqrt(2.0)))


def normal_quantile(share: float) -> float:
    """The quantile of the standard normal distribution.

    Hastings' approximation, then two steps of Halley's method. The import of `statistics` would
    take a tenth of that of numpy.

    >>> round(normal_quantile(0.975), 4), normal_quantile(0.5)
    (1.96, 0.0)
    """
    if share >= 0.5:
        return -normal_quantile(1 - share) if share > 0.5 else 0.0
    t = math.sqrt(-2 * math.log(share))
    above = 2.515517 + t * (0.802853 + t * 0.010328)
    below = 1 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    value = above / below - t
    for _ in range(2):
        off = 0.5 * math.erfc(-value / math.sqrt(2)) - share
        step = off * math.sqrt(2 * math.pi) * math.exp(value**2 / 2)
        value -= step / (1 + value * step / 2)
    return value


def binomial_at_most(count: float, trials: float, chance: float) -> float:
    """P(X <= count) of a binomial X; neither number need be whole. Of millions by the normal law.

    >>> round(binomial_at_most(2, 300, 0.01), 6), round(binomial_at_most(0.5, 30.5, 0.01), 4)
    (0.422064, 0.8946)
    >>> round(binomial_at_most(10_100, 1_000_000, 0.01), 3)
    0.844
    """
    if count >= trials:
        return 1.0
    if count < 0:
        return 0.0
    if trials > _MANY_TRIALS:
        spread = math.sqrt(trials * chance * (1 - chance))
        return normal_share_below((count + 0.5 - trials * chance) / spread)
    return _beta_share_below(1 - chance, trials - count, count + 1)


def _beta_share_below(value: float, a: float, b: float) -> float:
    """The distribution function of the beta law, by its continued fraction."""
    if not 0 < value < 1:
        return float(value >= 1)
    if value > (a + 1) / (a + b + 2):  # there the other tail converges sooner
        return 1 - _beta_share_below(1 - value, b, a)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front += a * math.log(value) + b * math.log1p(-value)
    tiny = 1e-300
    up, down = 1.0, 1 / ((1 - (a + b) * value / (a + 1)) or tiny)
    total = down
    for at in range(1, _MOST_TERMS):
        even = at * (b - at) * value / ((a + 2 * at - 1) * (a + 2 * at))
        odd = -(a + at) * (a + b + at) * value / ((a + 2 * at) * (a + 2 * at + 1))
        change = 1.0
        for term in (even, odd):
            down = 1 / ((1 + term * down) or tiny)
            up = (1 + term / up) or tiny
            change = down * up
            total *= change
        if abs(change - 1) < 1e-12:
            break
    return min(math.exp(front) * total / a, 1.0)
