"""What a window of requests shows: latencies, goodput under an objective, and if it is evidence.

Latencies count from the time at which a request should have been sent. A request that failed or
timed out has an infinite latency and misses every limit. An objective is met when the share of
good requests is above its target with 95 % certainty (the exact binomial test), missed when it is
below it with that certainty, and undecided in between. A window whose load was not what it claims
to be is void: it proves nothing, and says why.
"""

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from nodewise.base.interval import LEVEL, Interval
from nodewise.base.stats import Floats, student_quantile
from nodewise.fleet.window_checks import (
    CLIENT_RULES,
    SATURATION,
    WindowTimes,
    mean_in_flight,
    summary_checks,
    window_checks,
)
from nodewise.study.check import Check
from nodewise.study.service_objective import Objective, format_share
from nodewise.study.window import Summary, Window

Verdict = Literal["met", "missed", "undecided", "void"]

_SHARES = (0.5, 0.9, 0.95, 0.99)
_MANY = 1_000_000  # requests: beyond, no table of chances is made
_WILSON_Z = 1.959964  # of 95 %, both sides
_BATCHES = 20  # of consecutive requests; latencies of neighbours are alike, batches hardly


class Percentile(msgspec.Struct, frozen=True, kw_only=True):
    """A latency that a share of the requests keep; nothing where too few requests can tell."""

    share: float
    seconds: float | None
    low: float | None = None
    high: float | None = None
    why: str = ""  # there is no figure
    too_few: bool = False  # requests, for a figure


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What one window says about a fleet under one objective."""

    replicas: int
    offered_per_second: float
    seconds: float
    round: int
    requests: int
    failed: int
    verdict: Verdict
    why: str
    saturated: bool  # the queue grew all the time: this rate is above what the fleet can do
    checks: tuple[Check, ...]
    attainment: float  # the share of good requests; of a summary, the least it can be
    attainment_low: float
    attainment_high: float
    ttft: tuple[Percentile, ...]
    tpot: tuple[Percentile, ...]
    latency: tuple[Percentile, ...]
    requests_per_second: float  # that were answered
    good_requests_per_second: float
    output_tokens_per_second: float
    good_tokens_per_second: float
    good_tokens_per_second_low: float
    good_tokens_per_second_high: float
    input_tokens_per_second: float
    in_flight: float | None  # mean number of requests that were under way
    longest_gap: float | None = None  # seconds between two tokens of one answer
    joules_per_million_good_tokens: float | None = None
    died: int = 0  # replicas that ended by themselves meanwhile
    simulated: bool = False
    tool: str = ""  # that recorded it, where that was not nodewise
    notes: tuple[str, ...] = ()

    @property
    def is_client_fault(self) -> bool:
        """Whether it is void because of the client, so that it says nothing about the fleet."""
        return any(one.rule in CLIENT_RULES and one.verdict == "fail" for one in self.checks)

    def percentile_of(self, objective: Objective) -> Percentile:
        """What the objective is first about: its first metric, at its share."""
        told: tuple[Percentile, ...] = getattr(self, objective.metric)
        return next(one for one in told if one.share == objective.share)

    @property
    def good_tokens_per_request(self) -> float:
        """Tokens of good answers for each request that was offered."""
        return self.good_tokens_per_second / self.offered_per_second


def requests_to_certify(share: float, level: float = LEVEL) -> int:
    """The fewest requests, none of them missing, that prove a percentile to be within its limit.

    >>> requests_to_certify(0.99), requests_to_certify(0.95), requests_to_certify(0.5)
    (299, 59, 5)
    """
    return math.ceil(math.log(1 - level) / math.log(share) - 1e-12)


def wilson(good: int, requests: int) -> Interval:
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


@lru_cache(maxsize=64)
def _binomial_below(count: int, chance: float) -> Floats:
    """P(X <= k) for k = 0..count, of a binomial X."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])
    k = np.arange(count + 1)
    chances = logs[count] - logs - logs[::-1] + k * math.log(chance)
    chances += (count - k) * math.log1p(-chance)
    return np.asarray(np.minimum(np.cumsum(np.exp(chances)), 1.0))


def _at_most(misses: int, requests: int, chance: float) -> float:
    """P(X <= misses) of a binomial X; of millions by the normal law, which is then as good.

    >>> round(_at_most(10_100, 1_000_000, 0.01), 3), round(_at_most(10_100, 1_000_001, 0.01), 3)
    (0.844, 0.844)
    """
    if requests > _MANY:
        spread = math.sqrt(requests * chance * (1 - chance))
        return NormalDist(requests * chance, spread).cdf(misses + 0.5)
    return float(_binomial_below(requests, chance)[misses])


def judge(requests: int, most_misses: int, fewest_misses: int, share: float) -> Verdict:
    """Whether the share of good requests is proven to be above or below its target.

    >>> judge(299, 0, 0, 0.99), judge(298, 0, 0, 0.99), judge(300, 9, 9, 0.99)
    ('met', 'undecided', 'missed')
    """
    if requests == 0:
        return "undecided"
    if _at_most(most_misses, requests, 1 - share) <= 1 - LEVEL:
        return "met"
    if fewest_misses and 1 - _at_most(fewest_misses - 1, requests, 1 - share) <= 1 - LEVEL:
        return "missed"
    return "undecided"


def percentile(values: Floats, share: float, level: float = LEVEL) -> Percentile:
    """A percentile with the order statistics that hold it; infinite values are failed requests.

    >>> percentile(np.arange(1.0, 101.0), 0.5)
    Percentile(share=0.5, seconds=50.0, low=40.0, high=61.0, why='', too_few=False)
    >>> percentile(np.arange(1.0, 101.0), 0.99).why
    'needs 299 requests'
    """
    count = len(values)
    if count < requests_to_certify(share):
        return _too_few(share)
    ordered = np.sort(values)
    center = float(ordered[math.ceil(count * share - 1e-9) - 1])
    if math.isinf(center):
        return Percentile(share=share, seconds=None, why="too many requests failed")
    below, tail = _binomial_below(count, share), (1 - level) / 2
    lowest = int(np.searchsorted(below, tail, side="right"))  # values[lowest-1] is a safe low
    highest = int(np.searchsorted(below, 1 - tail, side="left")) + 1
    high = float(ordered[highest - 1]) if highest <= count else math.inf
    return Percentile(
        share=share,
        seconds=center,
        low=float(ordered[lowest - 1]) if lowest else None,
        high=high if math.isfinite(high) else None,
    )


def _too_few(share: float) -> Percentile:
    why = f"needs {requests_to_certify(share)} requests"
    return Percentile(share=share, seconds=None, why=why, too_few=True)


def served(window: Window | Summary, objective: Objective) -> Served:
    """The figures of a window under an objective, and whether it is evidence."""
    if isinstance(window, Summary):
        return _served_summary(window, objective)
    times = WindowTimes(window.requests)
    good = times.good(objective)
    count, kept = len(good), int(good.sum())
    checks = window_checks(window, times, objective)
    tokens = np.where(good, times.output_tokens, 0.0)
    per_request = _mean_interval(tokens)
    busy = _served_seconds(window, times)
    rate = count / busy if count else 0.0
    bounds = wilson(kept, count) if count else Interval(0.0, 1.0)
    sure = judge(count, count - kept, count - kept, objective.share)
    said = _say(sure, checks, count, count - kept, objective)
    good_tokens = float(tokens.sum()) / busy
    return Served(
        replicas=window.replicas,
        offered_per_second=window.offered_per_second,
        seconds=window.seconds,
        round=window.round,
        requests=count,
        failed=int(times.failed.sum()),
        verdict=said.verdict,
        why=said.why,
        saturated=said.saturated,
        checks=checks,
        attainment=kept / count if count else 0.0,
        attainment_low=bounds.low,
        attainment_high=bounds.high,
        ttft=_percentiles(times.ttft, objective),
        tpot=_percentiles(times.tpot[~np.isnan(times.tpot)], objective),
        latency=_percentiles(times.latency, objective),
        requests_per_second=float((~times.failed).sum()) / busy,
        good_requests_per_second=kept / busy,
        output_tokens_per_second=float(times.output_tokens[~times.failed].sum()) / busy,
        good_tokens_per_second=good_tokens,
        good_tokens_per_second_low=max(rate * per_request.low, 0.0),
        good_tokens_per_second_high=rate * per_request.high,
        input_tokens_per_second=float(times.input_tokens[~times.failed].sum()) / busy,
        in_flight=mean_in_flight(window, times) if count else None,
        longest_gap=max(
            (one.longest_gap for one in window.requests if one.longest_gap is not None),
            default=None,
        ),
        joules_per_million_good_tokens=(
            1e6 * window.energy_joules / float(tokens.sum())
            if window.energy_joules is not None and tokens.any()
            else None
        ),
        died=window.died,
        simulated=window.simulated,
        tool=window.tool,
        notes=window.notes,
    )


def _shares(objective: Objective) -> list[float]:
    """What is told of every window, and the share that is asked for."""
    return sorted({*_SHARES, objective.share})


def _percentiles(values: Floats, objective: Objective) -> tuple[Percentile, ...]:
    return tuple(percentile(values, share) for share in _shares(objective))


def _served_seconds(window: Window, times: WindowTimes) -> float:
    """The time over which the answers came: longer than the window where they came late."""
    done = times.last[~times.failed]
    return max(window.seconds, float(np.ptp(done)) if len(done) else 0.0) or 1.0


def _mean_interval(values: Floats) -> Interval:
    """The 95 % interval of a mean of neighbours that are alike, by batches of them."""
    batches = min(_BATCHES, len(values) // 2)
    if batches < 2:
        return Interval(0.0, float(values.max(initial=0.0)))
    means = np.array([float(part.mean()) for part in np.array_split(values, batches)])
    spread = float(means.std(ddof=1)) / math.sqrt(batches)
    reach = student_quantile((1 + LEVEL) / 2, batches - 1) * spread
    return Interval(float(values.mean()) - reach, float(values.mean()) + reach)


class _Said(NamedTuple):
    verdict: Verdict
    why: str
    saturated: bool = False


def _say(
    sure: Verdict, checks: tuple[Check, ...], requests: int, misses: int, objective: Objective
) -> _Said:
    broken = [check for check in checks if check.verdict == "fail"]
    if broken:
        saturated = any(check.rule == SATURATION for check in broken)
        return _Said("void", broken[0].evidence, saturated)
    found = f"{misses} of {requests} requests miss"
    target = format_share(objective.share)
    if sure == "met":
        why = f"{found}; that at least {target} are good is certain to 95 %"
    elif sure == "missed":
        why = f"{found}; that fewer than {target} are good is certain to 95 %"
    else:
        needed = requests_to_certify(objective.share)
        why = f"{found}; too few to tell" + (f", {needed} at least" if requests < needed else "")
    return _Said(sure, why)


def _served_summary(summary: Summary, objective: Objective) -> Served:
    """What the figures of another tool allow to be said; what they do not, is unknown."""
    count = summary.completed + summary.failed
    most, fewest = _misses(summary, objective)
    checks = summary_checks(summary, objective)
    sure = judge(count, most, fewest, objective.share)
    rate = count / summary.seconds
    answered = summary.completed / summary.seconds
    tokens = summary.output_tokens / summary.completed if summary.completed else 0.0
    least, best = (count - most) / summary.seconds, (count - fewest) / summary.seconds
    said = _say(sure, checks, count, most, objective)
    if said.verdict == "undecided" and most > fewest:
        said = said._replace(
            why=f"between {fewest} and {most} of {count} requests miss; the figures that "
            f"{summary.tool} kept do not tell more"
        )
    return Served(
        replicas=summary.replicas,
        offered_per_second=summary.offered_per_second,
        seconds=summary.seconds,
        round=0,
        requests=count,
        failed=summary.failed,
        verdict=said.verdict,
        why=said.why,
        saturated=said.saturated,
        checks=checks,
        attainment=least / rate if count else 0.0,
        attainment_low=wilson(count - most, count).low if count else 0.0,
        attainment_high=wilson(count - fewest, count).high if count else 1.0,
        ttft=_kept(summary.ttft, count, objective),
        tpot=_kept(summary.tpot, count, objective),
        latency=_kept(summary.latency, count, objective),
        requests_per_second=answered,
        good_requests_per_second=least,
        output_tokens_per_second=summary.output_tokens / summary.seconds,
        good_tokens_per_second=least * tokens,
        good_tokens_per_second_low=least * tokens,
        good_tokens_per_second_high=best * tokens,
        input_tokens_per_second=summary.input_tokens / summary.seconds,
        in_flight=None,
        tool=summary.tool,
        notes=summary.notes,
    )


def _misses(summary: Summary, objective: Objective) -> tuple[int, int]:
    """The most and the fewest requests that can miss, by the percentiles that were kept."""
    most, fewest = summary.failed, summary.failed
    for name, limit in objective.limits.items():
        known: dict[str, float] = getattr(summary, name)
        within = [float(share) for share, seconds in known.items() if seconds <= limit]
        beyond = [float(share) for share, seconds in known.items() if seconds > limit]
        late_at_most = 1 - max(within, default=0.0)
        late_at_least = 1 - min(beyond, default=1.0)
        most += math.ceil(late_at_most * summary.completed - 1e-6)
        fewest = max(fewest, summary.failed + math.floor(late_at_least * summary.completed))
    return min(most, summary.completed + summary.failed), fewest


def _kept(known: dict[str, float], count: int, objective: Objective) -> tuple[Percentile, ...]:
    rows = []
    for share in _shares(objective):
        found = next((known[key] for key in known if abs(float(key) - share) < 1e-9), None)
        if found is None:
            rows.append(Percentile(share=share, seconds=None, why="not in the summary"))
        elif count < requests_to_certify(share):
            rows.append(_too_few(share))
        else:
            rows.append(Percentile(share=share, seconds=found))
    return tuple(rows)
