"""Limits that fail a build: `slower=3%`, `efficiency@8=0.7`, `cost=5%`, `k*=4`.

A percentage limits the change for the worse against the base. A number limits the value of the
newest study itself. A gate fails only where the whole interval lies beyond its limit; where the
interval holds the limit, the gate is in doubt. The intervals of all K hold together in 95 %, so
each has a higher level.
"""

import math
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import msgspec
import numpy as np

from nodewise.base.errors import SpecError
from nodewise.base.interval import LEVEL, Interval
from nodewise.base.stats import student_quantile
from nodewise.base.units import (
    format_bytes,
    format_duration,
    format_efficiency,
    format_money,
    format_percent,
    format_quantity,
    parse_amount,
    parse_bytes,
    parse_fraction,
    parse_seconds,
)
from nodewise.history.entry import Entry, Scale

Metric = Literal["time", "efficiency", "cost", "k*", "memory", "energy"]
State = Literal["met", "failed", "in doubt", "unknown"]

MOST_BASES = 10  # earlier studies: older ones are of other code and another machine room
FEWEST_BASES = 3  # from which on the spread from study to study is known
_GATE = re.compile(r"(?P<metric>[a-zK*]+)(?:@(?P<nodes>\d{1,8}))?=(?P<limit>.+)")
_ALIASES = {"slower": "time"}
_LARGER_IS_BETTER = ("efficiency", "k*")
_PARSERS = {
    "time": parse_seconds,
    "efficiency": parse_fraction,
    "memory": parse_bytes,
}


class Gate(msgspec.Struct, frozen=True):
    """One limit, as it was written."""

    text: str
    metric: Metric
    nodes: int | None  # null: every K
    limit: float
    relative: bool  # to the base


class GateResult(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """A gate at one K of one workload."""

    gate: str
    workload: str
    nodes: int | None
    value: float | None = None  # the change for the worse, or the value itself
    low: float | None = None
    high: float | None = None
    bases: int = 0  # earlier studies that it was compared with
    state: State
    because: str


class _Estimate(NamedTuple):
    """A positive number, and the variance of its logarithm; None: a single value."""

    value: float
    variance: float | None
    freedom: int


def parse_gate(text: str) -> Gate:
    """A gate as a user writes it.

    >>> parse_gate("slower@8=3%").limit, parse_gate("efficiency@8=0.7").relative
    (0.03, False)
    """
    matched = _GATE.fullmatch(text.strip())
    metric = matched["metric"].lower() if matched else ""
    metric = _ALIASES.get(metric, metric)
    if matched is None or metric not in get_args(Metric):
        raise SpecError(
            f"'{text}' is not a gate.",
            "Write METRIC[@K]=LIMIT, such as slower=3%, efficiency@8=0.7, cost=5%, k*=4, "
            "memory=10% or energy=10%.",
        )
    limit = matched["limit"].strip()
    relative = limit.endswith("%")
    try:
        parse = parse_fraction if relative else _PARSERS.get(metric, parse_amount)
        value = parse(limit)
    except ValueError as error:
        raise SpecError(f"{text}: {error}.", "Write a limit such as 3%, 12s or 4GB.") from None
    nodes = int(matched["nodes"]) if matched["nodes"] else None
    if metric == "k*" and nodes is not None:
        raise SpecError(f"{text}: K* has no @K.", f"Write k*={limit}.")
    return Gate(text.strip(), metric, nodes, value, relative)  # type: ignore[arg-type]


def judge(gate: Gate, bases: Sequence[Entry], newest: Entry) -> list[GateResult]:
    """A gate for one workload: the newest study against earlier ones, oldest first."""
    bases = bases[-MOST_BASES:]
    if gate.metric == "k*":
        return [_judge_choice(gate, bases, newest)]
    scales = [nodes for nodes in newest.nodes if gate.nodes in (None, nodes)]
    if not scales:
        return [_unknown(gate, newest, gate.nodes, f"K={gate.nodes} was not measured")]
    if gate.metric == "efficiency" and gate.nodes is None:
        scales = scales[1:]  # at the smallest K it is 1
        if not scales:
            return [_unknown(gate, newest, None, "one K has no efficiency")]
    # One verdict for each K, so each is asked to be surer.
    level = 1 - (1 - LEVEL) / len(scales)
    return [_judge_at(gate, bases, newest, nodes, level) for nodes in scales]


def without_data(gates: Sequence[GateResult]) -> str:
    """Why gates give no answer; empty if one of them has data."""
    if not gates or any(gate.state != "unknown" for gate in gates):
        return ""
    return f"no gate has data ({'; '.join(dict.fromkeys(gate.because for gate in gates))})"


def _judge_at(
    gate: Gate, bases: Sequence[Entry], newest: Entry, nodes: int, level: float
) -> GateResult:
    now = _estimate(newest, gate.metric, nodes)
    if now is None:
        missing = "no price is known" if gate.metric == "cost" else f"{gate.metric} is not recorded"
        return _unknown(gate, newest, nodes, missing)
    if not gate.relative:
        bounds = _bounds(math.log(now.value), now.variance, now.freedom, level)
        worse = gate.metric in _LARGER_IS_BETTER
        return _result(gate, newest, nodes, now.value, bounds, level, below_is_bad=worse)
    if gate.metric == "efficiency":  # over another K it is another figure
        bases = [base for base in bases if base.nodes[0] == newest.nodes[0]]
    if gate.metric == "cost":
        bases = [base for base in bases if base.currency == newest.currency]
    known = [one for base in bases if (one := _estimate(base, gate.metric, nodes)) is not None]
    if not known:
        money = f" in {newest.currency}" if gate.metric == "cost" else ""
        return _unknown(gate, newest, nodes, f"no earlier study has it{money}")
    center, variance, freedom = _change(now, known)
    bounds = _bounds(center, variance, freedom, level)
    ratio = math.exp(center)
    if gate.metric in _LARGER_IS_BETTER:
        fallen = None if bounds is None else Interval(1 - bounds.high, 1 - bounds.low)
        return _result(gate, newest, nodes, 1 - ratio, fallen, level, bases=len(known))
    grown = None if bounds is None else Interval(bounds.low - 1, bounds.high - 1)
    return _result(gate, newest, nodes, ratio - 1, grown, level, bases=len(known))


def _change(now: _Estimate, known: Sequence[_Estimate]) -> tuple[float, float | None, int]:
    """The logarithm of now over before, with its variance and degrees of freedom.

    From three earlier studies on, the spread from study to study is known: it holds what changes
    the machine between two studies. Before that only the rounds say how sure the change is.
    """
    logs = np.log([one.value for one in known])
    center = math.log(now.value) - float(np.mean(logs))
    count = len(known)
    inside = None
    if now.variance is not None and all(one.variance is not None for one in known):
        inside = now.variance + sum(one.variance or 0.0 for one in known) / count**2
    if count < FEWEST_BASES:
        return center, inside, min(now.freedom, *(one.freedom for one in known))
    between = float(np.var(logs, ddof=1)) * (1 + 1 / count)
    return center, max(between, inside or 0.0), count - 1


def _bounds(center: float, variance: float | None, freedom: int, level: float) -> Interval | None:
    if variance is None:
        return None
    reach = student_quantile((1 + level) / 2, max(freedom, 1)) * math.sqrt(variance)
    reach = min(reach, 700.0 - abs(center))  # above this the exponential overflows
    return Interval(math.exp(center - reach), math.exp(center + reach))


def _estimate(entry: Entry, metric: Metric, nodes: int) -> _Estimate | None:
    scale = entry.at(nodes)
    if scale is None:
        return None
    match metric:
        case "time":
            return _of_rounds(scale.seconds)
        case "memory":
            return _of_rounds(scale.memory_bytes) if scale.memory_bytes else None
        case "energy":
            return _of_rounds(scale.energy_joules) if scale.energy_joules else None
        case "cost":
            return _of_cost(scale)
    return efficiency(entry, scale)


def _of_rounds(values: Sequence[float]) -> _Estimate:
    samples = np.array(values)
    mean = float(samples.mean())
    variance = float(np.var(samples / mean, ddof=1)) / len(samples) if len(samples) > 1 else None
    return _Estimate(mean, variance, len(samples) - 1)


def _of_cost(scale: Scale) -> _Estimate | None:
    if not scale.cost:
        return None
    freedom = len(scale.seconds) - 1
    if not scale.cost_low or not scale.cost_high or freedom < 1:
        return _Estimate(scale.cost, None, freedom)
    half = math.log(scale.cost_high / scale.cost_low) / 2
    spread = half / student_quantile((1 + LEVEL) / 2, freedom)
    return _Estimate(scale.cost, spread**2, freedom)


def efficiency(entry: Entry, scale: Scale) -> _Estimate | None:
    """The efficiency at a K over the smallest K of the study."""
    base, here = entry.scales[0], scale
    ideal = entry.ideal(here.nodes) if entry.regime == "strong" else 1.0
    first, second = np.array(base.seconds), np.array(here.seconds)
    value = float(first.mean() / second.mean()) / ideal
    fewest = min(len(first), len(second))
    if base is here:
        return _Estimate(1.0, 0.0, max(fewest - 1, 1))
    if fewest < 2:
        return _Estimate(value, None, fewest - 1)
    first, second = first / first.mean(), second / second.mean()
    if entry.paired and len(first) == len(second):
        variance = float(np.var(first - second, ddof=1)) / fewest
    else:
        variance = sum(float(np.var(one, ddof=1)) / len(one) for one in (first, second))
    return _Estimate(value, variance, fewest - 1)


def interval_of(entry: Entry, metric: Metric, nodes: int) -> tuple[float, Interval | None] | None:
    """A metric of one study at one K with its 95 % interval; None if it is not recorded."""
    found = _estimate(entry, metric, nodes)
    if found is None:
        return None
    return found.value, _bounds(math.log(found.value), found.variance, found.freedom, LEVEL)


def _judge_choice(gate: Gate, bases: Sequence[Entry], newest: Entry) -> GateResult:
    """K*, which is uncertain where several K may be the right one."""
    if not newest.chosen:
        return _unknown(gate, newest, None, "the newest study recommends no K")
    now = Interval(min(newest.chosen), max(newest.chosen))
    if not gate.relative:
        return _result(gate, newest, None, newest.chosen[0], now, LEVEL, below_is_bad=True)
    before = [base for base in bases if base.chosen]
    if not before:
        return _unknown(gate, newest, None, "no earlier study recommends a K")
    old = before[-1].chosen
    bounds = Interval(1 - now.high / min(old), 1 - now.low / max(old))
    fallen = 1 - newest.chosen[0] / old[0]
    return _result(gate, newest, None, fallen, bounds, LEVEL, bases=len(before))


def _unknown(gate: Gate, newest: Entry, nodes: int | None, because: str) -> GateResult:
    return GateResult(gate=gate.text, workload=newest.workload, nodes=nodes, state="unknown",
                      because=because)  # fmt: skip


def _result(
    gate: Gate,
    newest: Entry,
    nodes: int | None,
    value: float,
    bounds: Interval | None,
    level: float,
    below_is_bad: bool = False,
    bases: int = 0,
) -> GateResult:
    """The state of a gate: failed only where the whole interval lies beyond the limit."""
    state: State = "in doubt"
    because = _shown(gate, value, bounds, level, newest.currency)
    if bounds is None:
        state, because = "unknown", f"{because}; single runs give no interval"
    elif bounds.high < gate.limit if below_is_bad else bounds.low > gate.limit:
        state = "failed"
    elif bounds.low >= gate.limit if below_is_bad else bounds.high <= gate.limit:
        state = "met"
    return GateResult(
        gate=gate.text,
        workload=newest.workload,
        nodes=nodes,
        value=value,
        low=None if bounds is None else bounds.low,
        high=None if bounds is None else bounds.high,
        bases=bases,
        state=state,
        because=because,
    )


def _shown(gate: Gate, value: float, bounds: Interval | None, level: float, currency: str) -> str:
    """The value with its interval and its limit, in words."""

    def form(number: float) -> str:
        if gate.relative:
            return format_percent(number)
        match gate.metric:
            case "time":
                return format_duration(number)
            case "efficiency":
                return format_efficiency(number)
            case "cost":
                return format_money(number, currency or "$")
            case "memory":
                return format_bytes(number)
            case "k*":
                return f"K={number:g}"
        return f"{format_quantity(number)} J"

    what: str = "K*" if gate.metric == "k*" else gate.metric
    if gate.relative:
        verb = "lower" if gate.metric in _LARGER_IS_BETTER else "higher"
        what = f"{what} {verb} by"
    between = ""
    if bounds is not None:
        between = f" ({100 * level:.4g} %: {form(bounds.low)} to {form(bounds.high)})"
    return f"{what} {form(value)}{between}, limit {form(gate.limit)}"
