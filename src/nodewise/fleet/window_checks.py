"""What makes a load window valid: rate kept, client on time, no growing queue, Little's law."""

import math

import numpy as np

from nodewise.base.stats import Floats, student_quantile
from nodewise.base.units import format_percent
from nodewise.study.check import Check, Verdict
from nodewise.study.service_objective import Objective
from nodewise.study.window import Request, Summary, Window

SATURATION = "growth of the queue"
_RATE, _ON_TIME, _SPARE = (
    "the client kept the rate",
    "requests left on time",
    "the client had time to spare",
)
CLIENT_RULES = (_RATE, _ON_TIME, _SPARE)
STEADY = "Little's law holds"
EMPTY = "requests in the window"
_RATE_TOLERANCE = 0.02  # offered against sent: as far as generators keep a rate when they keep it
_DELAY_SHARE = 0.05  # of the limit: what the client may add unseen
_LITTLE = 0.05
_BUSY_CLIENT = 0.7  # above this share of its core a client queues by itself
_PARTS = 10  # of the time, for a trend
_TREND_LEVEL = 0.995  # one side, for each of two trends that must agree
# A queue that fills from nothing doubles its mean; a noisy steady one rises by a fifth.
_RISE = 0.5


class WindowTimes:
    """The requests of a window as columns."""

    def __init__(self, requests: tuple[Request, ...]) -> None:
        """A request that failed never ends."""
        self.intended = np.array([one.intended for one in requests])
        self.sent = np.array([one.sent for one in requests])
        self.failed = np.array(
            [bool(one.error) or one.first is None or one.last is None for one in requests], bool
        )
        first = np.array([math.inf if one.first is None else one.first for one in requests])
        last = np.array([math.inf if one.last is None else one.last for one in requests])
        self.first = np.where(self.failed, math.inf, first)
        self.last = np.where(self.failed, math.inf, last)
        self.ended = last  # a request that failed late was under way until then
        self.output_tokens = np.array([float(one.output_tokens) for one in requests])
        self.input_tokens = np.array([float(one.input_tokens) for one in requests])
        self.ttft = self.first - self.intended
        self.latency = self.last - self.intended
        self.tpot = np.full(len(requests), math.nan)  # an answer of one token has none
        self.tpot[self.failed] = math.inf
        timed = ~self.failed & (self.output_tokens > 1)
        spread = self.last[timed] - self.first[timed]
        self.tpot[timed] = spread / (self.output_tokens[timed] - 1)

    def scores(self, objective: Objective) -> Floats:
        """The largest share of a limit that each request used: above 1 it is not good."""
        used = np.where(self.failed, math.inf, 0.0)
        for name, limit in objective.limits.items():
            used = np.fmax(used, getattr(self, name) / limit)  # a missing TPOT misses nothing
        return used

    def least_scores(self, objective: Objective) -> Floats:
        """The least that requests used of the limits, whatever a late client added to it.

        A client that stops for a while sends late, and then all at once: its longest delay counts
        twice. How it disturbed the time between tokens is not known.
        """
        added = 2 * max(float((self.sent - self.intended).max(initial=0.0)), 0.0)
        used = np.where(self.failed, math.inf, 0.0)
        for name, limit in objective.limits.items():
            if name != "tpot":
                used = np.fmax(used, (getattr(self, name) - added) / limit)
        return used


def window_checks(window: Window, times: WindowTimes, objective: Objective) -> tuple[Check, ...]:
    """Every check of a window whose requests are known."""
    if len(times.intended) < 2:
        counted = f"the window holds {len(times.intended)} requests"
        # why there are none: replicas that did not start
        why = window.notes[0].rstrip(".") if window.notes else counted
        remedy = "Make it longer, or raise the rate."
        return (_row(EMPTY, True, why, remedy),)
    if window.simulated:
        return (_growth(window, times), _little(window, times))
    delay = float(np.quantile(times.sent - times.intended, 0.99, method="higher"))
    sent = (_sent_rate(times), _dispatch(delay, objective))
    return (
        *(sent if window.from_intended else (_hidden(window.tool, False),)),
        _growth(window, times),
        _little(window, times),
        _client(window),
    )


def _row(rule: str, bad: bool, evidence: str, remedy: str) -> Check:
    verdict: Verdict = "fail" if bad else "pass"
    return Check(rule=rule, verdict=verdict, evidence=evidence, remedy=remedy if bad else "")


def _unknown(rule: str, evidence: str, remedy: str) -> Check:
    return Check(rule=rule, verdict="unknown", evidence=evidence, remedy=remedy)


def _hidden(tool: str, from_intended: bool) -> Check:
    rule = "start of latencies"
    if from_intended:
        return _row(rule, False, f"{tool} counts from the schedule", "")
    hidden = f"{tool} counts from the sending; waiting before it is hidden"
    return _unknown(rule, hidden, "Measure with nodewise fleet, or keep the rate low.")


def _sent_rate(times: WindowTimes) -> Check:
    """The time that sending took, against the plan: the count itself may be a matter of chance."""
    planned, took = float(np.ptp(times.intended)), float(np.ptp(times.sent))
    ratio = planned / took if took else 1.0
    return _row(
        _RATE,
        abs(ratio - 1) > _RATE_TOLERANCE,
        f"the client sent {format_percent(ratio)} of the requested rate",
        "Lower the rate, or give the client a core of its own.",
    )


def _dispatch(delay: float, objective: Objective) -> Check:
    """Whether 99 % of the requests left soon enough after their time."""
    limits = [limit for name, limit in objective.limits.items() if name != "tpot"]
    late = f"99 % of the requests left within {1000 * delay:.3g} ms"
    if not limits:
        return _row(_ON_TIME, False, f"{late}; no limit counts from there", "")
    most = _DELAY_SHARE * min(limits)
    return _row(
        _ON_TIME,
        delay > most,
        f"{late}; {1000 * most:.3g} ms are allowed, 5 % of the limit",
        "Lower the rate, or run the client on an idle machine.",
    )


def _growth(window: Window, times: WindowTimes) -> Check:
    """Trends of the number under way and of TTFT over the time; both must rise."""
    edges = np.linspace(0.0, window.seconds, _PARTS + 1)
    under_way = np.diff(_time_under_way(times, edges)) / np.diff(edges)
    part = np.clip(np.searchsorted(edges, times.intended, side="right") - 1, 0, _PARTS - 1)
    finite = np.minimum(times.ttft, window.seconds)  # a failed request waited for nothing else
    waits = np.array([finite[part == at].mean() for at in range(_PARTS) if (part == at).any()])
    rises = (_rise(under_way), _rise(waits))
    return _row(
        SATURATION,
        all(rise is not None for rise in rises),
        "the number of requests under way grew by "
        f"{format_percent(rises[0])} of its mean over the window, and so did the waiting"
        if rises[0] is not None and rises[1] is not None
        else "the number of requests under way did not grow steadily",
        "The rate is above what this fleet can serve: lower it.",
    )


def _rise(values: Floats) -> float | None:
    """How much a series rises over its length, in its mean; nothing if that may be chance."""
    count = len(values)
    mean = float(values.mean()) if count else 0.0
    if count < 4 or mean <= 0:
        return None
    at = np.arange(count) - (count - 1) / 2
    slope = float(at @ values / (at @ at))
    left = values - mean - slope * at
    error = math.sqrt(float(left @ left) / (count - 2) / float(at @ at))
    rise = slope * count / mean
    sure = slope > student_quantile(_TREND_LEVEL, count - 2) * error
    return rise if sure and rise > _RISE else None


def _time_under_way(times: WindowTimes, at: Floats) -> Floats:
    """Seconds of requests under way before each of the times."""
    starts, ends = (
        np.sort(times.intended),
        np.sort(np.where(np.isinf(times.ended), at[-1], times.ended)),
    )
    return seconds_before(starts, at) - seconds_before(ends, at)


def seconds_before(stamps: Floats, at: Floats) -> Floats:
    """The sum over all stamps of how long before each time they lie."""
    before = np.searchsorted(stamps, at, side="right")
    sums = np.concatenate([[0.0], np.cumsum(stamps)])
    return np.asarray(before * at - sums[before])


def mean_in_flight(window: Window, times: WindowTimes) -> float:
    """The mean number of requests under way."""
    return float(_time_under_way(times, np.array([window.seconds]))[0]) / window.seconds


def _little(window: Window, times: WindowTimes) -> Check:
    """The mean number under way against rate times latency: both are right only when steady."""
    inside = mean_in_flight(window, times)
    ended = np.where(np.isinf(times.ended), window.seconds, times.ended)
    product = float((ended - times.intended).sum()) / window.seconds
    residual = abs(inside - product) / inside if inside > 0 else 0.0
    return _row(
        STEADY,
        residual > _LITTLE,
        f"{inside:.4g} requests were under way on average, rate times latency is {product:.4g}, "
        f"{format_percent(residual)} apart",
        "Make the window longer: at least 20 times the latency of a request.",
    )


def _client(window: Window) -> Check:
    if window.client_seconds <= 0:
        return _unknown(_SPARE, "how busy the client was is not recorded", "Record its CPU time.")
    busy = window.client_cpu_seconds / window.client_seconds
    return _row(
        _SPARE,
        busy > _BUSY_CLIENT,
        f"the client used {format_percent(busy)} of a core, {format_percent(_BUSY_CLIENT)} allowed",
        "Lower the rate, or send from several clients.",
    )


def summary_checks(summary: Summary, objective: Objective) -> tuple[Check, ...]:
    """The checks that figures alone can answer."""
    sent = (summary.completed + summary.failed) / summary.seconds
    ratio = sent / summary.offered_per_second if summary.offered_per_second else 1.0
    rate = _row(
        _RATE,
        ratio < 1 - _RATE_TOLERANCE,
        f"{sent:.4g} requests a second were sent of {summary.offered_per_second:.4g} requested",
        "Lower the rate, or give the client a core of its own.",
    )
    hidden = _hidden(summary.tool, summary.from_intended)
    untold = _unknown(
        SATURATION,
        "a summary does not show the trend, Little's law, how busy the client was, or whether "
        "requests depend on each other; they are taken as independent",
        "Import the records of the requests, if the tool kept them.",
    )
    delay = summary.dispatch_delay.get("0.99")
    late = () if delay is None else (_dispatch(delay, objective),)
    return (rate, *late, hidden, untold)
