"""Runs on nodes that can be preempted: expected time, spread, cost, and how often to save.

Preemptions come at random at a rate L (exponential up-times). An attempt at `a` seconds of work
that fails after X < a seconds costs X and a recovery, and begins again; with a mean recovery r

    E[attempt] = (e^(L a) - 1) / L + r (e^(L a) - 1)

A recovery is D seconds without nodes and an attempt at R seconds of reloading, which may fail too;
so r = D + E[attempt at R with recovery D], which gives the known e^(L R) (1/L + D) (e^(L a) - 1).
A job of W seconds in N segments saves after each but the last:

    E[T] = (N-1) E[W/N + C] + E[W/N]

Real up-times are not exponential. The mean holds when L is the rate of the whole gang and D the
measured mean downtime (within -15..+7 % on 13 public traces); for p95 and deadlines replay a trace.
Failures of nodes that are not preempted follow the same law; both rates add up.
"""

import csv
import math
import re
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from nodewise.base.errors import DataError, SpecError
from nodewise.base.stats import Floats
from nodewise.base.units import (
    HOURS_PER_YEAR,
    SECONDS_PER_HOUR,
    format_duration,
    format_percent,
)
from nodewise.decide.prices.bill import Bill, Bills, Price
from nodewise.decide.prices.bill import bill as plain_bill
from nodewise.study.check import Check
from nodewise.study.spec import Positive

Rule = Literal["exact", "none"]
Scope = Literal["node", "gang"]
WhileDown = Literal["all", "survivors", "none"]

MONTH_HOURS = 730.0
# e^150 seconds never end, and the square of this still is a number
_MAX_EXPONENT = 150.0
# a run that is expected to take longer than this, and this many times its own work, never ends
_ENDLESS_SECONDS = HOURS_PER_YEAR * SECONDS_PER_HOUR
_ENDLESS_FACTOR = 100.0
# saving for nothing has no best interval; a millionth of the work lost is nothing
_MOST_SEGMENTS = 1_000_000
# public traces: 0.017 to 0.60 a node-hour; a mean up-time below six minutes is a typing error
_PLAUSIBLE_PER_HOUR = 10.0
_RATE_FIX = "Write for example 0.05/node-h, 0.4/gang-h, 1.2/node-day, or 5%/month for a share."
_UNIT_SECONDS = {
    "s": 1.0,
    "min": 60.0,
    "h": SECONDS_PER_HOUR,
    "hour": SECONDS_PER_HOUR,
    "d": 24 * SECONDS_PER_HOUR,
    "day": 24 * SECONDS_PER_HOUR,
    "week": 168 * SECONDS_PER_HOUR,
    "month": MONTH_HOURS * SECONDS_PER_HOUR,
}
_RATE = re.compile(
    r"(?P<number>\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)\s*(?P<percent>%?)\s*(?:/|per)\s*"
    rf"(?:(?P<scope>node|gang)[- ])?(?P<unit>{'|'.join(sorted(_UNIT_SECONDS, key=len)[::-1])})"
)


class Checkpointing(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to save, to get nodes back and to begin again from what was saved."""

    save_seconds: float = 0.0
    downtime_seconds: float = 0.0  # without nodes; nothing can fail then
    restart_seconds: float = 0.0  # time to reload; may be interrupted itself

    def __post_init__(self) -> None:
        """Refuse negative times."""
        for name in self.__struct_fields__:
            _refuse_negative(getattr(self, name), name.replace("_", " "))


class Preemptions(msgspec.Struct, frozen=True, kw_only=True):
    """How often nodes are preempted, and on what this rate is based.

    A node's rate makes that of a gang of K by L = rate * K^correlation_exponent: 1 if nodes are
    taken independently, 0 if all go at once. Public traces gave 0.64 at K=4 and 0.17 at K=16.
    """

    per_second: float
    scope: Scope = "node"
    correlation_exponent: float = 1.0
    basis: str = "stated"

    def __post_init__(self) -> None:
        """Refuse impossible rates."""
        _refuse_negative(self.per_second, "preemption rate")
        if not 0 <= self.correlation_exponent <= 1:
            raise SpecError(
                f"A correlation exponent of {self.correlation_exponent:g} lies outside 0 to 1.",
                "Write 1 for independent nodes, 0 if all are taken at once.",
            )

    @property
    def per_hour(self) -> float:
        """The rate per hour."""
        return self.per_second * SECONDS_PER_HOUR

    def of_gang(self, nodes: Floats) -> Floats:
        """Events a second that stop a job on K nodes.

        >>> hourly = Preemptions(per_second=0.05 / 3600, correlation_exponent=0.5)
        >>> [round(float(rate) * 3600, 3) for rate in hourly.of_gang(np.array([1.0, 4.0, 16.0]))]
        [0.05, 0.1, 0.2]
        """
        if self.scope == "gang":
            return np.full_like(nodes, self.per_second)
        return np.asarray(self.per_second * nodes**self.correlation_exponent, dtype=np.float64)


def parse_preemptions(text: str) -> Preemptions:
    """A rate with its unit: `0.05/node-h`, `0.4/gang-h`, `1.2/day`; or a share, `5%/month`.

    A share m of nodes lost in a month is not a rate: it becomes -ln(1-m) a month, and says so.

    >>> round(parse_preemptions("20%/month").per_hour, 6), parse_preemptions("0.4/gang-h").per_hour
    (0.000306, 0.4)
    """
    match = _RATE.fullmatch(text.strip().lower())
    if match is None:
        raise SpecError(
            f"'{text}' is not a preemption rate: it needs a number and a unit.", _RATE_FIX
        )
    number, seconds = float(match["number"]), _UNIT_SECONDS[match["unit"]]
    scope: Scope = "gang" if match["scope"] == "gang" else "node"
    basis = "stated"
    if match["percent"]:
        share = f"{match['number']} % per {match['unit']}"
        basis = f"a share of {share}; that is a probability, converted to an hourly rate"
        number = _rate_of_share(number / 100)
    return Preemptions(per_second=number / seconds, scope=scope, basis=basis)


def _rate_of_share(share: float) -> float:
    if not 0 <= share < 1:
        raise SpecError(
            f"A preempted share of {format_percent(share)} is not possible.",
            "Write a share below 100%, for example 5%/month.",
        )
    return -math.log1p(-share)


def rate_check(preemptions: Preemptions) -> Check:
    """Whether a rate can be one: a share or another unit shows as an absurd mean up-time."""
    rule = "unit of the preemption rate"
    if preemptions.per_second == 0:
        return Check(rule=rule, verdict="unknown", evidence="no preemption is assumed",
                     remedy="Count the up and down times of such nodes.")  # fmt: skip
    up = format_duration(1 / preemptions.per_second)
    said = f"{preemptions.per_hour:.3g} per {preemptions.scope}-hour, a mean up-time of {up}"
    if preemptions.scope == "node" and preemptions.per_hour > _PLAUSIBLE_PER_HOUR:
        return Check(
            rule=rule,
            verdict="fail",
            evidence=f"{said}; public traces show 0.02 to 0.6 per node-hour",
            remedy=_RATE_FIX,
        )
    if "share" in preemptions.basis:
        return Check(
            rule=rule,
            verdict="unknown",
            evidence=f"{said}, from {preemptions.basis}; traces of such nodes show far more",
            remedy="Replay a trace of such nodes, or count the events of the gang.",
        )
    return Check(rule=rule, verdict="pass", evidence=f"{said}, {preemptions.basis}")


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """A job under preemption; arrays of one shape. The parts add up to the seconds."""

    seconds: Floats
    variance: Floats  # in seconds squared
    segments: NDArray[np.int64]
    interval_seconds: Floats  # of work between two savings
    preemptions: Floats
    work: Floats
    saving: Floats
    lost: Floats  # work that is done again
    reloading: Floats
    down: Floats

    @property
    def goodput(self) -> Floats:
        """The share of the time that is the job's own work."""
        return np.asarray(self.work / self.seconds, dtype=np.float64)

    @property
    def up(self) -> Floats:
        """Seconds with nodes."""
        return self.seconds - self.down

    @property
    def never_ends(self) -> NDArray[np.bool_]:
        """Which runs are expected to take over a year and over 100 times their own work."""
        limit = np.maximum(_ENDLESS_SECONDS, _ENDLESS_FACTOR * self.work)
        return np.asarray(self.seconds > limit, dtype=bool)


def why_endless(
    run: Expected, nodes: Floats, rate: Floats, times: Checkpointing, saves: bool
) -> tuple[str, ...]:
    """Why runs never end; empty for those that do."""
    found = []
    for at, endless in enumerate(run.never_ends):
        if not endless:
            found.append("")
            continue
        life, work = 1 / float(rate[at]), float(run.work[at])
        # what must go through without a stop
        attempts = [
            (times.save_seconds, "a save takes {}")
            if saves
            else (work, "{} of work are not saved"),
            (times.restart_seconds, "a restart takes {}"),
        ]
        seconds, words = max(attempts)
        if seconds < life and times.downtime_seconds > seconds:
            seconds, words = times.downtime_seconds, "lost nodes take {} to come back"
        longest = words.format(format_duration(seconds))
        who = "the gang" if nodes[at] > 1 else "the node"
        found.append(f"{longest}, {who} runs {format_duration(float(f'{life:.2g}'))} on average")
    return tuple(found)


def expected(
    work_seconds: ArrayLike,
    rate_per_second: ArrayLike,
    checkpointing: Checkpointing,
    interval: Rule | float = "exact",
) -> Expected:
    """Time, spread and parts of jobs of `work_seconds` whose gang is stopped at this rate.

    `interval` is a rule, or the seconds of work between two savings.

    >>> hours = Checkpointing(save_seconds=60, downtime_seconds=300, restart_seconds=120)
    >>> run = expected([58230.0], [0.05 * 8 / 3600], hours)
    >>> int(run.segments[0]), round(float(run.seconds[0]) / 3600, 6)
    (58, 19.035369)
    """
    work, rate = np.broadcast_arrays(
        np.asarray(work_seconds, dtype=np.float64), np.asarray(rate_per_second, dtype=np.float64)
    )
    if not (np.isfinite(work).all() and (work > 0).all()):
        raise DataError("The seconds of a job must be above 0.", "Check the times of the runs.")
    if not (np.isfinite(rate).all() and (rate >= 0).all()):
        raise SpecError("A preemption rate cannot be negative.", _RATE_FIX)
    segments = _segments(work, rate, checkpointing, interval)
    return _in_segments(work, rate, checkpointing, segments)


def _in_segments(work: Floats, rate: Floats, times: Checkpointing, segments: Floats) -> Expected:
    piece = work / segments
    saved = piece + times.save_seconds
    reload_mean, reload_variance = _attempt(
        np.full_like(rate, times.restart_seconds), rate, times.downtime_seconds
    )
    recovery = times.downtime_seconds + reload_mean
    each, each_variance = _attempt(saved, rate, recovery, reload_variance)
    last, last_variance = _attempt(piece, rate, recovery, reload_variance)
    seconds = (segments - 1) * each + last
    # outside the downtime preemptions come at their rate, whatever is being done
    up = seconds / (1 + rate * times.downtime_seconds)
    stopped_work = (segments - 1) * _expm1(rate * saved) + _expm1(rate * piece)
    reloading = stopped_work * times.restart_seconds * _grown(rate * times.restart_seconds)
    saving = (segments - 1) * times.save_seconds
    return Expected(
        seconds=seconds,
        variance=(segments - 1) * each_variance + last_variance,
        segments=segments.astype(np.int64),
        interval_seconds=piece,
        preemptions=rate * up,
        work=work,
        saving=saving,
        lost=np.maximum(up - work - saving - reloading, 0.0),
        reloading=reloading,
        down=seconds - up,
    )


def _mean_seconds(work: Floats, rate: Floats, times: Checkpointing, segments: Floats) -> Floats:
    """The expected seconds of `_in_segments` alone."""
    reload = times.restart_seconds
    recovery = times.downtime_seconds + (reload * _grown(rate * reload)
        + times.downtime_seconds * _expm1(rate * reload))  # fmt: skip

    def attempt(length: Floats) -> Floats:
        return length * _grown(rate * length) + recovery * _expm1(rate * length)

    piece = work / segments
    return np.asarray((segments - 1) * attempt(piece + times.save_seconds) + attempt(piece))


def _attempt(
    length: Floats, rate: Floats, recovery: ArrayLike, recovery_variance: ArrayLike = 0.0
) -> tuple[Floats, Floats]:
    """Mean and variance of the seconds until `length` seconds went through without a preemption.

    With x = L a the number of failures is geometric with mean e^x - 1; the variance of a plain
    attempt, 2 e^x (sinh x - x) / L^2, and the terms of the recovery are written without 1/L.
    """
    x = rate * length
    mean_recovery = np.asarray(recovery, dtype=np.float64)
    failures = _expm1(x)
    mean = length * _grown(x) + mean_recovery * failures
    variance = (failures + 1) * (
        2 * length**2 * _sinh_excess(x)
        + 2 * mean_recovery * length * _exp_excess(x)
        + mean_recovery**2 * failures
    ) + failures * np.asarray(recovery_variance, dtype=np.float64)
    return mean, variance


def _expm1(x: Floats) -> Floats:
    return np.expm1(np.minimum(x, _MAX_EXPONENT))


def _grown(x: Floats | float) -> Floats:
    """(e^x - 1) / x, which is 1 at 0."""
    exponent = np.minimum(np.asarray(x, dtype=np.float64), _MAX_EXPONENT)
    return np.divide(np.expm1(exponent), exponent, out=np.ones_like(exponent), where=exponent > 0)


def _exp_excess(x: Floats) -> Floats:
    """(e^x - 1 - x) / x, by its series where the difference would cancel."""
    small, large = np.minimum(x, 0.1), np.clip(x, 0.1, _MAX_EXPONENT)
    series = np.ones_like(x)
    for divisor in range(9, 2, -1):
        series = 1 + small / divisor * series
    return np.where(x < 0.1, small / 2 * series, (np.expm1(large) - large) / large)


def _sinh_excess(x: Floats) -> Floats:
    """(sinh x - x) / x^2, by its series where the difference would cancel."""
    small, large = np.minimum(x, 0.1), np.clip(x, 0.1, _MAX_EXPONENT)
    square = small**2
    series = small / 6 * (1 + square / 20 * (1 + square / 42 * (1 + square / 72)))
    return np.where(x < 0.1, series, (np.sinh(large) - large) / large**2)


def _segments(work: Floats, rate: Floats, times: Checkpointing, interval: Rule | float) -> Floats:
    """Into how many segments the work is cut."""
    if interval == "none":
        return np.ones_like(work)
    if not isinstance(interval, str):
        if not (math.isfinite(interval) and interval > 0):
            raise SpecError(
                "The time between two savings must be above 0.", "Write for example 15min."
            )
        return _whole(work / interval)
    best = exact_interval(rate, times.save_seconds)
    count = np.divide(work, best, out=np.full_like(work, np.inf), where=best > 0)
    # the best interval is that of an endless job; the unsaved last segment moves N by less than 1
    around = [np.ones_like(work), *(_whole(np.floor(count) + shift) for shift in (-1, 0, 1))]
    seconds = [_mean_seconds(work, rate, times, segments) for segments in around]
    chosen = np.argmin(np.stack(seconds), axis=0)
    return np.asarray(np.choose(chosen, around), dtype=np.float64)


def _whole(count: Floats) -> Floats:
    return np.asarray(np.round(np.clip(count, 1, _MOST_SEGMENTS)), dtype=np.float64)


def exact_interval(rate_per_second: ArrayLike, save_seconds: float) -> Floats:
    """Seconds of work between savings that cost the least: (1 + W(-e^(-1 - L C))) / L.

    W is Lambert's function; y = L * interval solves y + ln(1-y) + L C = 0. That is concave, so
    Newton's steps from a bound above the root come down to it.

    >>> round(float(exact_interval(0.4 / 3600, 60.0)) / 60, 2)
    16.66
    """
    rate = np.asarray(rate_per_second, dtype=np.float64)
    cost = rate * save_seconds
    most = 1 - 1e-15
    y = np.minimum(np.minimum(np.sqrt(2 * cost), -np.expm1(-1 - cost)), most)
    for _ in range(12):  # six reach the last digit
        slope = np.where(y > 0, y / (1 - y), 1.0)
        y = np.clip(y + (y + np.log1p(-y) + cost) / slope, 0, most)
    return np.divide(y, rate, out=np.full_like(rate, np.inf), where=rate > 0)


class SpotBill(Bill, frozen=True, kw_only=True):
    """The line items of one run that may be interrupted; `compute` is the useful work alone."""

    saving: float
    restarts: float
    idle: float


SPOT_ITEMS = SpotBill.__struct_fields__


class SpotBills(Bills, frozen=True, kw_only=True):
    """The line items of many such runs, as arrays of one shape."""

    saving: Floats
    restarts: Floats  # work done again, and reloading
    idle: Floats  # nodes that are billed while they wait for the lost one

    @property
    def billed(self) -> Floats:
        """What is paid for each run."""
        nodes = self.compute + self.startup + self.rounding
        beside = self.fixed + self.storage + self.egress
        return nodes + beside + self.saving + self.restarts + self.idle

    def at(self, position: int) -> SpotBill:
        """The items of one run."""
        return SpotBill(**{item: float(getattr(self, item)[position]) for item in SPOT_ITEMS})


def bill(
    price: Price,
    nodes: Floats,
    rate_per_hour: Floats,
    run: Expected,
    *,
    value_per_hour: float = 0.0,
    while_down: WhileDown = "all",
) -> SpotBills:
    """The expected bill of runs whose nodes together cost `rate_per_hour` at the spot price.

    While a lost node is replaced, all nodes are billed, or the `survivors` alone, or `none`.
    Overheads and storage run all the time.

    >>> run = expected([58230.0], [0.05 * 8 / 3600], Checkpointing(
    ...     save_seconds=60, downtime_seconds=300, restart_seconds=120))
    >>> eight = np.array([8.0])
    >>> round(float(bill(Price(fixed_per_hour=9), eight, 0.63 * eight, run).total[0]), 6)
    267.256575
    """
    whole = plain_bill(price, rate_per_hour, run.seconds, value_per_hour)
    per_second = rate_per_hour / SECONDS_PER_HOUR
    on_meter = {"all": np.ones_like(nodes), "survivors": 1 - 1 / nodes, "none": 0 * nodes}
    return SpotBills(
        compute=per_second * run.work,
        startup=whole.startup,
        rounding=whole.rounding,
        fixed=whole.fixed,
        waiting=whole.waiting,
        saving=per_second * run.saving,
        restarts=per_second * (run.lost + run.reloading),
        idle=per_second * run.down * on_meter[while_down],
        storage=whole.storage,
        egress=whole.egress,
    )


class SpotChoice(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The cheapest scale at one discount and one rate; null if no run ends."""

    discount: float
    per_second: float
    nodes: int | None
    cost: float | None
    seconds: float | None
    interval_seconds: float | None
    goodput: float | None
    fastest_nodes: int | None
    ignoring_nodes: int  # the cheapest scale without preemptions
    # what running there costs on top, as a share; null if it never ends
    ignoring_extra: float | None


def choices(
    work_seconds: Floats,
    nodes: Floats,
    price: Price,
    checkpointing: Checkpointing,
    discounts: Sequence[float],
    rates: Sequence[Preemptions],
    *,
    rate_per_hour: Floats | None = None,
    failures: Floats | float = 0.0,
    value_per_hour: float = 0.0,
    interval: Rule | float = "exact",
    while_down: WhileDown = "all",
    scales: Sequence[int] = (),
) -> tuple[SpotChoice, ...]:
    """How the cheapest scale moves: a discount drives it outward, preemptions inward.

    `price` is the on-demand one; a discount leaves what is paid by the hour whatever K is.
    `rate_per_hour` is what all nodes of a scale cost on demand, where it is not K times one.
    `failures` are stops a second that come on demand too.
    `scales` is the K of each, where several of K share a node.
    """
    full = _hourly(price, nodes, rate_per_hour)
    calm = expected(work_seconds, failures, checkpointing, interval).seconds
    found = []
    named = scales or [int(count) for count in nodes]
    for one in rates:
        run = expected(work_seconds, one.of_gang(nodes) + failures, checkpointing, interval)
        ends = ~run.never_ends
        for discount in discounts:
            hourly = _discounted(full, discount)
            costs = bill(
                price, nodes, hourly, run, value_per_hour=value_per_hour, while_down=while_down
            ).total
            ignoring = int(np.argmin(plain_bill(price, hourly, calm, value_per_hour).total))
            best = int(np.argmin(np.where(ends, costs, np.inf)))
            fastest = int(np.argmin(run.seconds))
            here = bool(ends[best])
            extra = _relative(costs[ignoring], costs[best]) if ends[ignoring] else None
            found.append(
                SpotChoice(
                    discount=discount,
                    per_second=one.per_second,
                    nodes=named[best] if here else None,
                    cost=float(costs[best]) if here else None,
                    seconds=float(run.seconds[best]) if here else None,
                    interval_seconds=float(run.interval_seconds[best]) if here else None,
                    goodput=float(run.goodput[best]) if here else None,
                    fastest_nodes=named[fastest] if here else None,
                    ignoring_nodes=named[ignoring],
                    ignoring_extra=extra,
                )
            )
    return tuple(found)


def _relative(cost: float, least: float) -> float:
    """How much more a cost is than the least one; nothing where all are free."""
    return float(cost / least - 1) if least > 0 else 0.0


def _hourly(price: Price, nodes: Floats, rate_per_hour: Floats | None) -> Floats:
    if rate_per_hour is not None:
        return rate_per_hour
    if price.per_node_hour is None:
        raise SpecError("Spot needs the price of a node.", "Add --price or --instance.")
    return price.per_node_hour * nodes


def _discounted(hourly: Floats, discount: float) -> Floats:
    if not 0 <= discount <= 1:
        raise SpecError(
            f"A discount of {discount:g} is not possible: spot would cost more than on-demand.",
            "Write a discount from 0 to 1, for example 0.7 or 70%.",
        )
    return (1 - discount) * hourly


def break_even_rate(
    work_seconds: Floats,
    nodes: Floats,
    price: Price,
    checkpointing: Checkpointing,
    discount: float,
    *,
    scope: Scope = "node",
    correlation_exponent: float = 1.0,
    rate_per_hour: Floats | None = None,
    failures: Floats | float = 0.0,
    value_per_hour: float = 0.0,
    interval: Rule | float = "exact",
    while_down: WhileDown = "all",
) -> float | None:
    """Preemptions a second, of a node or of a gang, up to which spot costs less than on-demand.

    Both may use any of the scales given. Nothing when spot costs as much even if undisturbed.
    """
    full = _hourly(price, nodes, rate_per_hour)
    hourly = _discounted(full, discount)
    calm = expected(work_seconds, failures, checkpointing, interval)
    on_demand = plain_bill(price, full, calm.seconds, value_per_hour).total

    def spot_cost(rate: float) -> float:
        preemptions = Preemptions(
            per_second=rate, scope=scope, correlation_exponent=correlation_exponent
        )
        stops = preemptions.of_gang(nodes) + failures
        run = expected(work_seconds, stops, checkpointing, interval)
        bills = bill(
            price, nodes, hourly, run, value_per_hour=value_per_hour, while_down=while_down
        )
        return float(np.where(run.never_ends, np.inf, bills.total).min())

    least = float(np.where(calm.never_ends, np.inf, on_demand).min())
    return rate_where(spot_cost, least, 1 / float(work_seconds.max()))


def rate_where(cost: Callable[[float], float], limit: float, guess: float) -> float | None:
    """The rate at which a cost that grows with it reaches a limit; nothing if it starts above."""
    if cost(0.0) >= limit:
        return None
    low, high = 0.0, guess
    while cost(high) < limit:
        low, high = high, 2 * high
        if high > 1e12 * guess:
            return None
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if cost(middle) < limit else (low, middle)
    return (low + high) / 2


class Trace(msgspec.Struct, frozen=True):
    """One record of when nodes were available: up runs and the gap after each, in seconds."""

    up_seconds: Floats
    down_seconds: Floats

    @property
    def rate_per_second(self) -> float:
        """Events of the gang for each second that it was up."""
        return len(self.up_seconds) / float(self.up_seconds.sum())

    @property
    def mean_downtime_seconds(self) -> float:
        """The mean gap, the downtime that the formula needs."""
        return float(self.down_seconds.mean())

    @property
    def preemptions(self) -> Preemptions:
        """The rate as the formula takes it."""
        return Preemptions(
            per_second=self.rate_per_second,
            scope="gang",
            basis=f"a trace of {len(self.up_seconds)} events",
        )


def parse_trace(text: str, nodes: int = 1) -> Trace:
    """A trace from rows `seconds,state`, or from samples of how many nodes were there.

    A row says that the state changes to `up` or `down` (or 1 and 0) at that second; the last row
    ends the trace. Samples are JSON, `{"metadata": {"gap_seconds": 300}, "data": [4, 4, 3, ...]}`,
    as public traces of spot nodes have it; a gang of `nodes` is up while that many are there.

    >>> trace = parse_trace("seconds,state\\n0,up\\n3600,down\\n4200,up\\n7800,down\\n8400,up")
    >>> trace.rate_per_second * 3600, trace.mean_downtime_seconds
    (1.0, 600.0)
    """
    if _is_samples(text):
        samples = _samples(text)
        there = np.array(samples.data) >= nodes
        if there.all() and len(there):
            # never seen to end: at most one event in all this time, and no gap
            return Trace(np.array([len(there) * samples.metadata.gap_seconds]), np.zeros(1))
        return trace_of_samples(there, samples.metadata.gap_seconds)
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    try:
        rows = list(csv.DictReader(lines))
    except csv.Error as error:
        raise DataError(f"The trace is not CSV: {error}.", "Write rows of seconds,state.") from None
    states = {"up": True, "1": True, "true": True, "down": False, "0": False, "false": False}
    stamps: list[float] = []
    up: list[bool] = []
    for line, row in enumerate(rows, start=2):
        try:
            stamps.append(float(row["seconds"]))
            up.append(states[row["state"].strip().lower()])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DataError(
                f"Row {line} of the trace is not a time stamp with a state.",
                "Write rows of seconds,state with rising seconds and the states up and down.",
            ) from None
    return trace_of_stamps(np.array(stamps), np.array(up, dtype=bool))


def most_nodes(text: str) -> float:
    """The largest gang that a trace can say anything about.

    >>> most_nodes('{"metadata": {"gap_seconds": 300}, "data": [4, 2, 3]}')
    4
    """
    return max(_samples(text).data, default=0) if _is_samples(text) else math.inf


def _is_samples(text: str) -> bool:
    return text.lstrip().startswith("{")


def _samples(text: str) -> "_Samples":
    try:
        return msgspec.json.decode(text, type=_Samples)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise DataError(
            f"The trace cannot be read: {error}.",
            'Write {"metadata": {"gap_seconds": 300}, "data": [nodes that were up, ...]}.',
        ) from None


class _SampleTimes(msgspec.Struct):
    gap_seconds: Positive


class _Samples(msgspec.Struct):
    metadata: _SampleTimes
    data: list[int]


def trace_of_stamps(stamps: Floats, is_up: NDArray[np.bool_]) -> Trace:
    """A trace from the moments at which the state is known; each state lasts until the next stamp.

    Time before the first up run is left out; a last up run that nothing ended is not
    counted: its time is added to the first run, as if the trace closed to a ring.
    """
    fix = "Give a trace with at least one up run that is ended by a down stamp."
    if len(stamps) < 2 or not np.isfinite(stamps).all() or (np.diff(stamps) <= 0).any():
        raise DataError("The stamps of the trace do not rise.", fix)
    lengths, states = np.diff(stamps), is_up[:-1]
    if not states.any() or states.all():
        raise DataError("The trace never changes between up and down.", fix)
    first = int(np.flatnonzero(states)[0])
    lengths, states = lengths[first:], states[first:]
    starts = np.flatnonzero(np.diff(states, prepend=~states[0]))
    runs = np.add.reduceat(lengths, starts)
    up, down = runs[0::2], runs[1::2]
    if len(down) == 0:
        raise DataError("No up run of the trace is ended by a down stamp.", fix)
    if len(up) > len(down):
        up = np.concatenate([[up[0] + up[-1]], up[1:-1]])
    return Trace(up, down)


def trace_of_samples(available: NDArray[np.bool_], gap_seconds: float) -> Trace:
    """A trace from equally spaced samples of availability."""
    stamps = gap_seconds * np.arange(len(available) + 1, dtype=np.float64)
    return trace_of_stamps(stamps, np.append(available, False))


def replay(
    trace: Trace,
    work_seconds: Floats,
    checkpointing: Checkpointing,
    interval: Rule | float = "exact",
    starts: int = 500,
) -> Floats:
    """Seconds of each job on a trace, begun at evenly spaced moments of its up-time.

    One row per start, one column per job. The trace is a ring. The gaps of the trace are the
    downtime, so `checkpointing.downtime_seconds` is not used. A job that never ends takes infinite
    time.
    """
    rate = np.full_like(work_seconds, trace.rate_per_second)
    segments = _segments(work_seconds, rate, checkpointing, interval)
    piece = work_seconds / segments
    step = piece + checkpointing.save_seconds
    ends = np.cumsum(trace.up_seconds)
    moments = (np.arange(starts) + 0.5) / starts * ends[-1]
    run = np.searchsorted(ends, moments, side="right")
    left_of_run = (ends[run] - moments)[:, None]
    remaining = np.broadcast_to(segments, (starts, len(work_seconds))).copy()
    elapsed = np.zeros_like(remaining)
    finished = np.full_like(remaining, np.inf)
    reload, at_lap = 0.0, remaining.copy()
    for count in range(1, 1000 * len(trace.up_seconds)):
        usable = left_of_run - reload
        needed = (remaining - 1) * step + piece
        # a hair of slack: segments that fill a run exactly are done
        ends_here = np.isinf(finished) & (needed <= usable * (1 + 1e-12))
        finished[ends_here] = (elapsed + reload + needed)[ends_here]
        done = np.clip(np.floor(usable / step * (1 + 1e-12)), 0, remaining - 1)
        remaining = remaining - done
        elapsed = elapsed + left_of_run + trace.down_seconds[run][:, None]
        run = (run + 1) % len(trace.up_seconds)
        left_of_run = trace.up_seconds[run][:, None]
        reload = checkpointing.restart_seconds
        if not np.isinf(finished).any():
            break
        if count % len(trace.up_seconds) == 0:
            waiting = np.isinf(finished)
            # the first run of a start is a part; from the second lap on every lap is the same
            stuck = count > len(trace.up_seconds) and (remaining == at_lap)[waiting].all()
            if stuck:
                break
            at_lap = remaining.copy()
    return finished


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What replays say of each job, as arrays."""

    mean: Floats
    median: Floats
    p95: Floats
    in_time: Floats | None  # share of starts that meet the deadline


def summarise(replays: Floats, deadline_seconds: float | None = None) -> Replayed:
    """Centre, tail and deadline of replays; order statistics, so that endless ones stay endless."""
    ordered = np.sort(replays, axis=0)

    def rank(share: float) -> Floats:
        return np.asarray(ordered[math.ceil(share * len(ordered)) - 1], dtype=np.float64)

    within = None
    if deadline_seconds is not None:
        within = np.asarray((replays <= deadline_seconds).mean(axis=0), dtype=np.float64)
    return Replayed(mean=replays.mean(axis=0), median=rank(0.5), p95=rank(0.95), in_time=within)


def _refuse_negative(value: float, name: str) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise SpecError(f"The {name} is {value:g}.", "Write 0 or more.")
