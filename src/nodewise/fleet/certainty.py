"""How sure a share of good requests is, although requests in a queue depend on each other.

Requests that follow each other meet the same queue, so misses come in clusters, and a thousand
requests may be worth a dozen independent ones. The correlation time says how many requests count as
one. It is that of the share of the limit which each request used, cut off at the limit, or that of
the misses where it is longer: the former shows the dependence also where nothing was missed. Both
are the initial monotone sequence of Geyer (1992). The binomial test is then made with as many
requests as the window is worth. Requests that all stay far from the limit need fewer: there the
tail of what they used, continued exponentially, must leave a tenth of the misses allowed
(`benchmarks/fleet_truth.py` measures how often both are right).
"""

import math
from typing import Literal

import numpy as np

from nodewise.base.interval import LEVEL, Interval
from nodewise.base.stats import Floats, binomial_at_most

Sure = Literal["met", "missed", "undecided"]

_WILSON_Z = 1.959964  # of 95 %, both sides
_FEWEST_MISSES = 2.0  # independent ones: a single cluster may be chance
# Headroom: the slowest requests are ten times those that may miss; so many independent ones of them
# are needed, the limit is this much further than the slowest of all, and so much fewer may miss.
_TAIL, _TAIL_REQUESTS, _DISTANCE, _FEWER = 10.0, 8.0, 1.5, 10.0
_ONE_SIDE = 1.645  # of 95 %


def requests_to_certify(share: float, level: float = LEVEL) -> int:
    """The fewest requests, none of them missing, that prove a percentile to be within its limit.

    >>> requests_to_certify(0.99), requests_to_certify(0.95), requests_to_certify(0.5)
    (299, 59, 5)
    """
    return math.ceil(math.log(1 - level) / math.log(share) - 1e-12)


def wilson(good: float, requests: float) -> Interval:
    """The 95 % interval of a share, by Wilson.

    >>> [round(bound, 4) for bound in wilson(299, 299)]
    [0.9873, 1.0]
    """
    z2 = _WILSON_Z**2
    share = good / requests
    middle = (share + z2 / (2 * requests)) / (1 + z2 / requests)
    reach = _WILSON_Z * math.sqrt(share * (1 - share) / requests + z2 / (4 * requests**2))
    reach /= 1 + z2 / requests
    return Interval(max(middle - reach, 0.0), min(middle + reach, 1.0))


def judge(
    requests: float, most_misses: float, fewest_misses: float, share: float, level: float = LEVEL
) -> Sure:
    """Whether the share of good requests is proven to be above or below its target.

    >>> judge(299, 0, 0, 0.99), judge(298, 0, 0, 0.99), judge(300, 9, 9, 0.99)
    ('met', 'undecided', 'missed')
    """
    if requests <= 0:
        return "undecided"
    if binomial_at_most(most_misses, requests, 1 - share) <= 1 - level:
        return "met"
    if (
        fewest_misses >= _FEWEST_MISSES
        and 1 - binomial_at_most(fewest_misses - 1, requests, 1 - share) <= 1 - level
    ):
        return "missed"
    return "undecided"


def judge_series(scores: Floats, share: float, level: float = LEVEL) -> Sure:
    """The verdict of requests in their order, by the share of the limit that each of them used.

    >>> judge_series(np.full(299, 0.5), 0.99), judge_series(np.full(298, 0.5), 0.99)
    ('met', 'undecided')
    """
    effective = effective_requests(scores)
    misses = effective * float((scores > 1).mean()) if len(scores) else 0.0
    sure = judge(effective, misses, misses, share, level)
    return "met" if sure == "undecided" and has_headroom(scores, effective, share) else sure


def has_headroom(scores: Floats, effective: float, share: float) -> bool:
    """Whether all requests stay so far from the limit that hardly any can miss it.

    >>> slow = np.random.default_rng(7).exponential(0.05, 500)
    >>> has_headroom(slow, 100.0, 0.99), has_headroom(4 * slow, 100.0, 0.99)
    (True, False)
    """
    if len(scores) < requests_to_certify(share) or float(scores.max()) > 1:
        return False
    tail = min(_TAIL * (1 - share), 0.5)
    begin = float(np.quantile(scores, 1 - tail))
    beyond = scores[scores > begin] - begin
    independent = len(beyond) * effective / len(scores)
    if independent < _TAIL_REQUESTS or 1 - begin < _DISTANCE * float(beyond.max()):
        return False
    unsure = 1 + _ONE_SIDE / math.sqrt(independent)
    late = tail * unsure * math.exp((begin - 1) / (float(beyond.mean()) * unsure))
    return late <= (1 - share) / _FEWER


def effective_requests(scores: Floats) -> float:
    """How many independent requests these are worth.

    >>> alone = np.random.default_rng(7).uniform(size=400)
    >>> effective_requests(alone) > 300, effective_requests(np.repeat(alone, 10)) < 500
    (True, True)
    """
    if len(scores) < 2:
        return float(len(scores))
    missed = (scores > 1).astype(np.float64)
    longest = max(correlation_time(np.minimum(scores, 1.0)), correlation_time(missed))
    return len(scores) / longest


def correlation_time(values: Floats) -> float:
    """How many neighbours count as one value: 1 where they are independent."""
    count = len(values)
    centred = values - values.mean()
    variance = float(centred @ centred) / count
    if count < 4 or variance <= 1e-18:
        return 1.0
    spectrum = np.fft.rfft(centred, 2 * count)
    lags = np.fft.irfft(spectrum * np.conj(spectrum))[: count // 2] / (count * variance)
    pairs = lags[: len(lags) // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.nonzero(pairs <= 0)[0]
    kept = pairs[: negative[0]] if len(negative) else pairs
    return max(1.0, 2 * float(np.minimum.accumulate(kept).sum()) - 1) if len(kept) else 1.0
