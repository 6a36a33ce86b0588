"""TTFT and TPOT at concurrencies that were not measured, from those that were.

What is predicted is the mean exponent of the latency between the largest measured concurrency and
the one that is requested. Boosted trees learnt it from published measurements of 288 set-ups
and from exact straight lines (`benchmarks/fit_serving.py`; the numbers are in concurrency.json).
They see the last exponents of both latencies, the lengths, the distance, and by Little's law how
many requests are in their prefill: TTFT climbs steeply once that is more than about one. For TPOT
they also see the throughput's exponents, and how closely a line and a power law fit. The interval
holds 80 % of the points of groups (a model on a system) that were left out.

A queue that has begun is followed instead: where the TPOT stays, the batch does not grow, so that a
further request waits, and the TTFT grows along a line. A queue that starts beyond the measured
concurrencies, for example because the key-value cache is full, cannot be seen in them.
"""

from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec
import numpy as np

from nodewise.base.errors import DataError, SpecError
from nodewise.base.stats import Floats
from nodewise.base.trees import Trees

Latency = Literal["ttft", "tpot"]
FEWEST = 3  # measured concurrencies
_APART = np.log(1.4)  # closer concurrencies say little about an exponent
_MET = 5e-3  # a line that misses no point by more is met
_LEAST = 0.05  # of the last latency: what a falling line is followed to
_STEEPEST = 3.0  # exponent; what was learnt has none beyond
_STAYS = 0.05  # exponent of a TPOT that does not grow
_QUEUES = 0.7  # exponent of a TTFT that grows with the queue
_WAITING = 0.3  # of a request's time, before its first token, where requests queue


class LatencyTable(msgspec.Struct, frozen=True, kw_only=True):
    """Mean latencies in seconds at measured concurrencies, ascending."""

    name: str
    concurrency: tuple[float, ...]
    ttft: tuple[float, ...]
    tpot: tuple[float, ...]
    input_tokens: float
    output_tokens: float


class LatencyRow(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies at one concurrency with their 80 % intervals, in seconds."""

    concurrency: int
    ttft: float
    tpot: float
    ttft80: tuple[float, float] | None = None  # None: measured
    tpot80: tuple[float, float] | None = None


class LatencyPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """Measured and predicted rows."""

    name: str
    rows: tuple[LatencyRow, ...]
    reach: float  # times the largest measured concurrency: as far as predictions were judged
    queues: bool  # at the largest measured concurrency, requests wait for a place


class _Learnt(msgspec.Struct, frozen=True):
    exponent: Trees
    spread: Trees
    factor: float


REACH = 16.0


@cache
def _learnt() -> dict[Latency, _Learnt]:
    text = files("nodewise.fleet").joinpath("concurrency.json").read_bytes()
    return msgspec.json.decode(text, type=dict[Latency, _Learnt])


def predict_latencies(table: LatencyTable, asked: list[int]) -> LatencyPrediction:
    """Both latencies at the concurrencies that are asked for."""
    _check(table, asked)
    known = [
        LatencyRow(concurrency=int(at), ttft=ttft, tpot=tpot)
        for at, ttft, tpot in zip(table.concurrency, table.ttft, table.tpot, strict=True)
    ]
    beyond = sorted(set(asked) - {row.concurrency for row in known})
    said = {what: predict(table, what, np.array(beyond, float)) for what in ("ttft", "tpot")}
    rows = []
    for i, at in enumerate(beyond):
        (ttft, *ttft80), (tpot, *tpot80) = (
            [float(column[i]) for column in said[what]] for what in ("ttft", "tpot")
        )
        rows.append(
            LatencyRow(
                concurrency=at,
                ttft=ttft,
                tpot=tpot,
                ttft80=(ttft80[0], ttft80[1]),
                tpot80=(tpot80[0], tpot80[1]),
            )
        )
    queues = queue_exponents(table, "tpot", np.array([])) is not None
    return LatencyPrediction(name=table.name, rows=(*known, *rows), reach=REACH, queues=queues)


def _check(table: LatencyTable, asked: list[int]) -> None:
    if len(table.concurrency) < FEWEST:
        raise DataError(
            f"A prediction needs {FEWEST} measured concurrencies; there are "
            f"{len(table.concurrency)}.",
            "Measure at more concurrencies.",
        )
    last = table.concurrency[-1]
    wrong = [at for at in asked if not (last < at <= REACH * last or at in table.concurrency)]
    if wrong:
        raise SpecError(
            f"Concurrency {wrong[0]} cannot be predicted from measurements up to {last:g}.",
            f"Ask for more than {last:g} and at most {REACH * last:g}.",
        )


def predict(table: LatencyTable, what: Latency, asked: Floats) -> tuple[Floats, Floats, Floats]:
    """Seconds and their 80 % bounds."""
    if not len(asked):
        return asked, asked, asked
    rows, distance = features(table, what, asked)
    learnt = _learnt()[what]
    exponent = queue_exponents(table, what, asked)
    if exponent is None:
        exponent = np.clip(learnt.exponent.at(rows), -_STEEPEST, _STEEPEST)
    seconds = (table.ttft if what == "ttft" else table.tpot)[-1] * np.exp(exponent * distance)
    reach = np.exp(learnt.factor * np.maximum(learnt.spread.at(rows), 0.01))
    line = _met_line(table, what, asked)
    if line is None:
        return seconds, seconds / reach, seconds * reach
    return seconds, np.minimum(seconds / reach, line), np.maximum(seconds * reach, line)


def queue_exponents(table: LatencyTable, what: Latency, asked: Floats) -> Floats | None:
    """Mean exponents from the largest measured concurrency on, where requests already queue."""
    load, ttft, tpot = (np.array(one) for one in (table.concurrency, table.ttft, table.tpot))
    x = np.log(load)
    growth, steady = (_exponents(x, np.log(one))[0] for one in (ttft, tpot))
    waiting = ttft[-1] / (ttft[-1] + table.output_tokens * tpot[-1])
    if abs(steady) > _STAYS or growth < _QUEUES or waiting < _WAITING:
        return None
    if what == "tpot":
        return np.zeros(len(asked))
    before = max(int(np.searchsorted(x, x[-1] - _APART, side="right")) - 1, 0)
    slope = (ttft[-1] - ttft[before]) / (load[-1] - load[before])
    ahead = ttft[-1] + slope * (asked - load[-1])
    return np.asarray(np.log(ahead / ttft[-1]) / (np.log(asked) - x[-1]))


def _met_line(table: LatencyTable, what: Latency, asked: Floats) -> Floats | None:
    """A rising line that meets every point, continued: the interval holds it.

    Published curves that begin so bend below it later, most of them; yours may not.
    """
    load = np.array(table.concurrency)
    mine = np.array(table.ttft if what == "ttft" else table.tpot)
    start, slope = _line(load, mine)
    met = np.max(np.abs((start + slope * load) / mine - 1)) <= _MET
    return start + slope * asked if met and slope > 0 else None


def _line(load: Floats, mine: Floats) -> Floats:
    """The straight line of least relative errors: its start and its slope."""
    terms = np.stack([1 / mine, load / mine], 1)
    return np.asarray(np.linalg.lstsq(terms, np.ones_like(mine), rcond=None)[0])


def features(table: LatencyTable, what: Latency, asked: Floats) -> tuple[Floats, Floats]:
    """What the trees see, a row for each concurrency asked for, and ln of the distance."""
    load = np.array(table.concurrency)
    ttft, tpot = np.array(table.ttft), np.array(table.tpot)
    x = np.log(load)
    mine, other = (tpot, ttft) if what == "tpot" else (ttft, tpot)
    total = ttft + table.output_tokens * tpot
    in_prefill = np.log(load * ttft / total)
    busy = np.log(load / total * ttft.min())  # of a server whose work is the shortest prefill
    distance = np.log(asked) - x[-1]
    line = _line(load, mine)
    least = 1e-3 * mine[-1]
    ahead = np.maximum(line[0] + line[1] * asked, least)
    linear = np.log(ahead / max(line[0] + line[1] * load[-1], least)) / distance
    shared = [
        *_exponents(x, np.log(mine)),
        *_exponents(x, np.log(other)),
        x[-1] / 5,
        np.log(table.input_tokens / table.output_tokens) / 2,
        np.log(table.input_tokens) / 8,
        np.log(1e3 * mine[-1]) / 5,
        np.log(1e3 * other[-1]) / 5,
        in_prefill[-1],
        in_prefill[-1] - in_prefill[0],
        busy[-1],
        busy[-1] - busy[-2],
        np.log(load[-1] * (table.input_tokens + table.output_tokens / 2)) / 10,
        np.log(tpot[-1] / tpot.min()),
        np.log(ttft[-1] / ttft.min()),
        len(x) / 6,
    ]
    same = np.tile(shared, (len(asked), 1))
    rows = np.column_stack([same, distance, linear, in_prefill[-1] + distance])
    if what == "tpot":  # TTFT is not smooth enough to gain from these
        off_line = _rms((line[0] + line[1] * load) / mine - 1)
        rows = np.column_stack([rows, _smooth(load, mine, load / total, asked, off_line)])
    return rows, distance


def _smooth(load: Floats, mine: Floats, rate: Floats, asked: Floats, off_line: float) -> Floats:
    """How closely a line and a power law fit, the throughput's exponents, and the last secant."""
    x, y, gained = np.log(load), np.log(mine), np.log(rate)
    last, whole = (gained[-1] - gained[[-2, 0]]) / (x[-1] - x[[-2, 0]])
    off_power = _rms(np.asarray(np.polyval(np.polyfit(x, y, 1), x) - y, dtype=np.float64))
    distance = np.log(asked) - x[-1]
    slope = (mine[-1] - mine[-2]) / (load[-1] - load[-2])
    secant = np.log(np.maximum(1 + slope * (asked - load[-1]) / mine[-1], _LEAST)) / distance
    same = np.tile([off_line, off_power, last, whole, x[-1] - x[0]], (len(asked), 1))
    return np.column_stack([same, secant, distance * last])


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _exponents(x: Floats, y: Floats) -> list[float]:
    """Of the last three steps, the last first, and of all points."""
    found: list[float] = []
    at = len(x) - 1
    while at > 0 and len(found) < 3:
        before = at - 1
        while before > 0 and x[at] - x[before] < _APART:
            before -= 1
        found.append(float((y[at] - y[before]) / (x[at] - x[before])))
        at = before
    centred = x - x.mean()
    return [*found, *found[-1:] * (3 - len(found)), float(centred @ y / (centred @ centred))]
