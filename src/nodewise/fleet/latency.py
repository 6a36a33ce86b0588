"""What a window of requests shows: latencies, goodput under an objective, and if it is evidence.

Latencies count from the time at which a request should have been sent. A request that failed or
timed out has an infinite latency and misses every limit. An objective is met when the share of
good requests is above its target with 95 % certainty, missed when it is below it with that
certainty, and undecided in between (`certainty.py`). A late client only adds to latencies counted
from the intended time, so a window in which the requests are good all the same is met; one in which
they miss by more than it can have added is missed; any other is void. A window that is too short to
be steady, or whose queue may be growing, is undecided until a longer one decides.
"""

import math
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from nodewise.base.interval import LEVEL, Interval
from nodewise.base.stats import Floats, student_quantile
from nodewise.fleet.certainty import (
    Sure,
    effective_requests,
    judge,
    judge_series,
    requests_to_certify,
    wilson,
)
from nodewise.fleet.window_checks import (
    CLIENT_RULES,
    EMPTY,
    SATURATION,
    STEADY,
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
_BATCHES = 20  # of consecutive requests; latencies of neighbours are alike, batches hardly


class Percentile(msgspec.Struct, frozen=True, kw_only=True):
    """A latency that a share of the requests keep; nothing if too few requests can tell."""

    share: float
    seconds: float | None
    low: float | None = None
    high: float | None = None
    why: str = ""  # the figure is missing
    too_few: bool = False  # requests, for a figure


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What one window says about a fleet under one objective."""

    replicas: int
    offered_per_second: float
    seconds: float
    round: int
    requests: int
    effective_requests: float  # independent ones that they count as
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
    machine_busy: float | None = None  # of the client's machine, if it ran the replicas too
    simulated: bool = False
    tool: str = ""  # that recorded it, where that was not nodewise
    notes: tuple[str, ...] = ()

    @property
    def is_client_fault(self) -> bool:
        """Whether the client was late or busy, so that a miss does not count against the fleet."""
        return self._fails(*CLIENT_RULES)

    @property
    def is_steady(self) -> bool:
        """Whether every check holds, so that its latencies are those of its rate."""
        return all(one.verdict != "fail" for one in self.checks)

    @property
    def is_too_short(self) -> bool:
        """Whether it is too short for its latencies."""
        return self._fails(STEADY)

    def _fails(self, *rules: str) -> bool:
        return any(one.rule in rules and one.verdict == "fail" for one in self.checks)

    def percentile_of(self, objective: Objective) -> Percentile:
        """What the objective is first about: its first metric, at its share."""
        known: tuple[Percentile, ...] = getattr(self, objective.metric)
        return next(one for one in known if one.share == objective.share)

    @property
    def good_tokens_per_request(self) -> float:
        """Tokens of good answers for each request that was offered."""
        return self.good_tokens_per_second / self.offered_per_second


@lru_cache(maxsize=64)
def _binomial_below(count: int, chance: float) -> Floats:
    """P(X <= k) for k = 0..count, of a binomial X."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])
    k = np.arange(count + 1)
    chances = logs[count] - logs - logs[::-1] + k * math.log(chance)
    chances += (count - k) * math.log1p(-chance)
    return np.asarray(np.minimum(np.cumsum(np.exp(chances)), 1.0))


def percentile(values: Floats, share: float, effective: float | None = None) -> Percentile:
    """A percentile with the order statistics that hold it; infinite values are failed requests.

    `effective` says how many independent values these are worth, if they are not independent.

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
    worth = count if effective is None else max(round(effective), 1)
    below, tail = _binomial_below(worth, share), (1 - LEVEL) / 2
    # ranks among independent values, as ranks among all of them: values[lowest-1] is a safe low
    lowest = int(np.searchsorted(below, tail, side="right")) * count // worth
    last = int(np.searchsorted(below, 1 - tail, side="left")) + 1
    highest = -(-last * count // worth)
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


class Judged(NamedTuple):
    """A window's figures, and the share of the limit that each request used, in their order."""

    served: Served
    scores: Floats | None  # of a summary unknown
    least: Floats | None  # without what a late client added at most


def served(window: Window | Summary, objective: Objective) -> Served:
    """The figures of a window under an objective, and whether it is evidence."""
    return judged(window, objective).served


def judged(window: Window | Summary, objective: Objective) -> Judged:
    """The figures of a window, with what windows at the same rate can be judged by together."""
    if isinstance(window, Summary):
        return Judged(_served_summary(window, objective), None, None)
    times = WindowTimes(window.requests)
    scores = times.scores(objective)
    good = scores <= 1
    count, kept = len(good), int(good.sum())
    effective = effective_requests(scores)
    checks = window_checks(window, times, objective)
    tokens = np.where(good, times.output_tokens, 0.0)
    per_request = _mean_interval(tokens)
    busy = _served_seconds(window, times)
    rate = count / busy if count else 0.0
    share = kept / count if count else 0.0
    bounds = wilson(share * effective, effective) if count else Interval(0.0, 1.0)
    sure = judge_series(scores, objective.share)
    is_late = window.from_intended and any(
        check.rule in CLIENT_RULES and check.verdict == "fail" for check in checks
    )
    least = times.least_scores(objective) if is_late else scores
    misses_alone = is_late and judge_series(least, objective.share) == "missed"
    said = _say(sure, checks, _Counts(count, count - kept, effective), objective,
                window.from_intended, misses_alone)  # fmt: skip
    good_tokens = float(tokens.sum()) / busy
    seen = Served(
        replicas=window.replicas,
        offered_per_second=window.offered_per_second,
        seconds=window.seconds,
        round=window.round,
        requests=count,
        effective_requests=effective,
        failed=int(times.failed.sum()),
        verdict=said.verdict,
        why=said.why,
        saturated=said.saturated,
        checks=checks,
        attainment=share,
        attainment_low=bounds.low,
        attainment_high=bounds.high,
        ttft=_percentiles(times.ttft, objective, effective),
        tpot=_percentiles(times.tpot[~np.isnan(times.tpot)], objective, effective),
        latency=_percentiles(times.latency, objective, effective),
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
        machine_busy=window.machine_busy,
        simulated=window.simulated,
        tool=window.tool,
        notes=window.notes,
    )
    return Judged(seen, scores, least)


def _shares(objective: Objective) -> list[float]:
    """What is shown of every window, and the share that is requested."""
    return sorted({*_SHARES, objective.share})


def _percentiles(values: Floats, objective: Objective, effective: float) -> tuple[Percentile, ...]:
    worth = min(effective, float(len(values)))
    return tuple(percentile(values, share, worth) for share in _shares(objective))


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


class _Counts(NamedTuple):
    requests: int
    misses: int
    effective: float


def _say(
    sure: Sure,
    checks: tuple[Check, ...],
    counts: _Counts,
    objective: Objective,
    from_intended: bool,
    misses_alone: bool = False,  # even without what the client added
) -> _Said:
    """The verdict of the requests, with what the checks leave of it."""
    failed = {check.rule: check.evidence for check in checks if check.verdict == "fail"}
    late = [failed[rule] for rule in CLIENT_RULES if rule in failed]
    why = reason(sure, counts.requests, counts.misses, counts.effective, objective)
    if EMPTY in failed:
        return _Said("void", failed[EMPTY])
    saturated = SATURATION in failed
    if late:
        if sure == "met" and from_intended and not saturated:
            return _Said("met", f"{why}, although {late[0]}")
        if misses_alone:
            added = "also without what the late client added"
            return _Said("missed", f"{why}, {added}", saturated)
        return _Said("void", late[0], saturated)
    if sure != "missed" and (saturated or (sure == "met" and STEADY in failed)):
        return _Said("undecided", failed.get(SATURATION) or failed[STEADY], saturated)
    return _Said(sure, why, saturated)


def reason(sure: Sure, requests: int, misses: int, effective: float, objective: Objective) -> str:
    """The verdict of requests in words."""
    found = f"{misses} of {requests} requests miss"
    target = format_share(objective.share)
    if sure == "met":
        return f"{found}; at least {target} are good, with 95 % certainty"
    if sure == "missed":
        return f"{found}; fewer than {target} are good, with 95 % certainty"
    needed = requests_to_certify(objective.share)
    if requests < needed:
        return f"{found}; too few to tell, {needed} at least"
    if effective < 0.9 * requests:
        return f"{found}; they count as {effective:.3g} independent ones, too few to tell"
    return f"{found}; too few to tell"


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
    counts = _Counts(count, most, float(count))
    said = _say(sure, checks, counts, objective, summary.from_intended)
    if said.verdict == "undecided" and most > fewest:
        said = said._replace(
            why=f"between {fewest} and {most} of {count} requests miss; the summary of "
            f"{summary.tool} has no more detail"
        )
    return Served(
        replicas=summary.replicas,
        offered_per_second=summary.offered_per_second,
        seconds=summary.seconds,
        round=0,
        requests=count,
        effective_requests=float(count),
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
