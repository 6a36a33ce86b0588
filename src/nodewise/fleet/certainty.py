"""How sure a share of good requests is, although requests in a queue depend on each other.

Requests that follow each other meet the same queue, so misses come in clusters, and a thousand
requests may be worth a dozen independent ones. The correlation time says how many requests count as
one. It is that of the share of the limit which each request used, cut off at the limit, or that of
the misses where it is longer: the former shows the dependence also where nothing was missed. Both
are the initial monotone sequence of Geyer (1992). The binomial test is then made with as many
requests as the window is worth. In several windows that are long enough to meet rare stalls, and
with far fewer misses than allowed, the dependence of the slowest requests is enough, since only
they may miss. Requests that all stay far from the limit need fewer: there the
tail of what they used, continued exponentially, must leave a tenth of the misses allowed. Where
there are many clusters of misses, their number and their sizes show sooner that too many miss
(`benchmarks/fleet_truth.py` measures how often all of this is right).
"""

import math
from statistics import NormalDist
from typing import Literal

import numpy as np

from nodewise.base.interval import LEVEL, Interval
from nodewise.base.stats import Floats, binomial_at_most

Sure = Literal["met", "missed", "undecided"]

_WILSON_Z = 1.959964  # of 95 %, both sides
_FEWEST_MISSES = 2.0  # independent ones: a single cluster may be chance
_CLUSTERS = 8  # of misses, so that their number and sizes are evidence of their own
_APART = 0.5  # correlation times between two clusters
# Headroom: the slowest requests are ten times those that may miss; so many independent ones of them
# are needed, the limit is this much further than the slowest of all, and so much fewer may miss.
_TAIL, _TAIL_REQUESTS, _DISTANCE, _FEWER = 10.0, 8.0, 1.5, 10.0
_ONE_SIDE = 1.645  # of 95 %
# The slowest requests whose clusters count, and the misses where they do, of those that may miss.
_SLOWEST, _FAR_FEWER = 3.0, 0.25


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


def judge_series(
    scores: Floats, share: float, level: float = LEVEL, meets_stalls: bool = False
) -> Sure:
    """The verdict of requests in their order, by the share of the limit that each of them used.

    `meets_stalls` says that these are several windows, long enough to meet rare stalls.

    >>> judge_series(np.full(299, 0.5), 0.99), judge_series(np.full(298, 0.5), 0.99)
    ('met', 'undecided')
    """
    effective = effective_requests(scores)
    misses = effective * float((scores > 1).mean()) if len(scores) else 0.0
    sure = judge(effective, misses, misses, share, level)
    if sure == "undecided" and has_headroom(scores, effective, share):
        return "met"
    if sure == "undecided" and meets_stalls and misses_seldom(scores, share, level):
        return "met"
    if sure == "undecided" and misses_too_often(scores, share, level):
        return "missed"
    return sure


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


def misses_seldom(scores: Floats, share: float, level: float = LEVEL) -> bool:
    """Whether hardly any miss, and enough are good if only the slowest depend on each other.

    >>> draw = np.random.default_rng(7)
    >>> slowly = np.repeat(draw.uniform(0.0, 0.5, 30), 100) + draw.uniform(0.0, 0.4, 3000)
    >>> slowly[::900] = 1.5
    >>> judge_series(slowly, 0.95), judge_series(slowly, 0.95, meets_stalls=True)
    ('undecided', 'met')
    """
    if (scores > 1).mean() > _FAR_FEWER * (1 - share):
        return False
    slow = scores > np.quantile(scores, max(1 - _SLOWEST * (1 - share), 0.5))
    missed = scores > 1
    longest = max(correlation_time(one.astype(np.float64)) for one in (slow, missed))
    requests, misses = len(scores) / longest, float(missed.sum()) / longest
    return judge(requests, misses, misses, share, level) == "met"


def misses_too_often(scores: Floats, share: float, level: float = LEVEL) -> bool:
    """Whether clusters of misses prove that more requests miss than may.

    Clusters at random times, with exponential sizes, are a compound Poisson process. With x
    times the misses that are allowed, in n clusters, its likelihood ratio is
    2 n ln((1 + x)^2 / 4x). Clusters of very unequal sizes count as fewer.

    >>> scores = np.zeros(3000)
    >>> scores[::60] = 2.0
    >>> misses_too_often(scores, 0.99), misses_too_often(scores, 0.98)
    (True, False)
    """
    at = np.nonzero(scores > 1)[0]
    excess = len(at) / ((1 - share) * len(scores)) if len(scores) else 0.0
    if excess <= 1 or len(at) < _CLUSTERS:
        return False
    apart = max(_APART * correlation_time(np.minimum(scores, 1.0)), 1.0)
    begins = np.concatenate([[0], np.nonzero(np.diff(at) > apart)[0] + 1, [len(at)]])
    sizes = np.diff(begins).astype(np.float64)
    if len(sizes) < _CLUSTERS:
        return False
    number = min(float(len(sizes)), 2 * len(at) ** 2 / float(sizes @ sizes))
    ratio = 2 * number * math.log((1 + excess) ** 2 / (4 * excess))
    return ratio >= NormalDist().inv_cdf(level) ** 2


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
