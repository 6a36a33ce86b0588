"""Which causes bare totals can name, and the range of each over all laws that fit.

A law is T = ideal + the sum of terms with coefficients >= 0, each term under the name of a cause:

    serial fraction   1-1/k (strong); k-1 (weak: a root that handles the data of all nodes)
    communication     k-1 or log2 k
    late rank         a share of the compute: the same at every k, growing as 1-1/k (uneven shards),
                      or growing as the slowest of k ranks does by chance (jitter)

The laws that fit about as well as the best are all whose weighted squared error exceeds the least
one by no more than a confidence region allows (a profile likelihood, Student's t for few rounds).
Over that region the smallest and largest loss of a cause are exact: it is an ellipsoid cut by the
planes of zero, so every extreme is that of one subset of the terms.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np

from nodewise.base.stats import Floats, normal_quantile, student_quantile
from nodewise.explain.causes import CauseName
from nodewise.explain.scaling import Timings, relative_errors
from nodewise.study.spec import Regime

_LEVEL = 0.95  # one-sided, for one cause against another
_DEPENDENT = 1e-9  # columns of unit length that differ by less are one


class LawRanges(NamedTuple):
    """Seconds lost to each cause at each scale: the best law, and the range over all that fit."""

    best: dict[CauseName, Floats]
    low: dict[CauseName, Floats]
    high: dict[CauseName, Floats]
    may_lead: tuple[tuple[CauseName, ...], ...]  # at each scale: the causes that may be largest


def law_ranges(times: Timings) -> LawRanges:
    """The share of each cause in what is lost, as far as the totals determine it."""
    ideal = 1 / times.k if times.regime == "strong" else np.ones_like(times.k)
    terms = _terms(times.k, times.regime)
    columns = np.stack([ideal, *(term for _, term in terms)], axis=1)
    causes = tuple(dict.fromkeys(cause for cause, _ in terms))
    pairs = list(itertools.combinations(range(len(causes)), 2))
    # A row a cause and scale: the seconds of that cause there, as a sum over the coefficients.
    losses = np.zeros((len(causes), len(times.k), columns.shape[1]))
    for at, (cause, term) in enumerate(terms, start=1):
        losses[causes.index(cause), :, at] = term
    differences = np.stack([losses[one] - losses[other] for one, other in pairs])
    asked = np.concatenate([losses, differences])
    errors, freedom = relative_errors(times)
    best, low, high = _extremes(
        columns, times.seconds, errors * times.seconds, freedom, asked.reshape(-1, columns.shape[1])
    )
    low, high = (one.reshape(asked.shape[:2]) for one in (low, high))
    behind: list[set[CauseName]] = [set() for _ in times.nodes]
    for at, (one, other) in enumerate(pairs, start=len(causes)):
        for scale in range(len(times.nodes)):
            if high[at, scale] < 0:
                behind[scale].add(causes[one])
            if low[at, scale] > 0:
                behind[scale].add(causes[other])
    return LawRanges(
        best={cause: losses[at] @ best for at, cause in enumerate(causes)},
        low={cause: low[at] for at, cause in enumerate(causes)},
        high={cause: high[at] for at, cause in enumerate(causes)},
        may_lead=tuple(tuple(cause for cause in causes if cause not in lost) for lost in behind),
    )


def _terms(k: Floats, regime: Regime) -> list[tuple[CauseName, Floats]]:
    compute = 1 / k if regime == "strong" else np.ones_like(k)
    return [
        ("serial fraction", 1 - 1 / k if regime == "strong" else k - 1),
        ("communication", k - 1),
        ("communication", np.log2(k)),
        ("late rank", compute * (k > 1)),
        ("late rank", compute * (1 - 1 / k)),
        ("late rank", compute * _slowest_by_chance(k)),
    ]


def _slowest_by_chance(k: Floats) -> Floats:
    """How many spreads the slowest of k ranks lies above the mean (Blom's approximation)."""
    shares = (k - 0.375) / (k + 0.25)
    return np.array([normal_quantile(float(share)) for share in shares])


def _extremes(
    columns: Floats, seconds: Floats, errors: Floats, freedom: int, asked: Floats
) -> tuple[Floats, Floats, Floats]:
    """The best coefficients >= 0; the least and largest of `asked` @ coefficients that fit."""
    weighted, values = columns / errors[:, None], seconds / errors
    size = np.sqrt((weighted**2).sum(axis=0))
    size[size == 0] = 1.0
    weighted, asked = weighted / size, asked / size
    solved = []
    best, least, used = np.zeros(columns.shape[1]), np.inf, 0
    for some in _subsets(columns.shape[1], len(seconds)):
        basis, triangle = np.linalg.qr(weighted[:, some])
        if np.abs(np.diag(triangle)).min() < _DEPENDENT:
            continue
        fitted = np.linalg.solve(triangle, basis.T @ values)
        error = float(((values - weighted[:, some] @ fitted) ** 2).sum())
        solved.append((some, triangle, fitted, error))
        if fitted.min() >= 0 and error < least * (1 - 1e-12):
            best, least, used = np.zeros(columns.shape[1]), error, len(some)
            best[some] = fitted
    misfit = max(1.0, least / max(len(seconds) - used, 1))
    allowed = least + misfit * student_quantile(_LEVEL, freedom) ** 2
    low, high = np.full(len(asked), np.inf), np.full(len(asked), -np.inf)
    for some, triangle, fitted, error in solved:
        if error > allowed:
            continue
        goals = asked[:, some]
        direction = np.linalg.solve(triangle.T, goals.T)
        length = np.sqrt((direction**2).sum(axis=0))
        length[length == 0] = 1.0
        step = math.sqrt(allowed - error) * np.linalg.solve(triangle, direction / length)
        for points in (fitted[:, None] + step, fitted[:, None] - step):
            reached = np.where((points >= 0).all(axis=0), (goals.T * points).sum(axis=0), np.nan)
            low, high = np.fmin(low, reached), np.fmax(high, reached)
    return best / size, low, high


def _subsets(terms: int, most: int) -> list[list[int]]:
    """Every choice of terms beside the ideal one, no more in all than there are points."""
    rest = range(1, terms)
    return [
        [0, *some]
        for count in range(min(terms, most))
        for some in itertools.combinations(rest, count)
    ]
