"""Which rank is last, and why: an uneven share, a slow node, or chance."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nodewise.base import stats
from nodewise.base.stats import Center, Floats, student_quantile
from nodewise.explain.causes import CauseName
from nodewise.explain.measured import Measured
from nodewise.explain.scaling import Timings
from nodewise.study.study import STAGES, Study

_LATE = 0.05  # a rank this much slower than the typical one may be late for a reason
_MAX_CHANCE = 0.01  # of calling a rank slow that was late by chance
_MIN_FREEDOM = 4  # of the spread of a rank between rounds, before lateness is put down to chance
_MANY_STEPS = 10  # of a run: a rank that is last in all of them is not last by chance
_OWN_WAIT = 0.2  # of the mean wait of the others: the last rank of every step hardly waits
_COMPUTE_NOISE = 0.03  # assumed for single runs
MIN_LOST_SHARE = 0.02  # of the ideal speedup
CLOCK_RESOLUTION = 1e-12  # seconds


class Lateness(NamedTuple):
    """What decides why a rank is late: over all scales, in all rounds."""

    spread: float  # of the seconds (per item) of a rank, relative, between rounds or between ranks
    freedom: int  # of that spread
    cause: CauseName | None  # of a rank that is always late, where items are not recorded


def rank_parts(one: Measured, kind: CauseName, center: Center) -> dict[CauseName, float]:
    """The wall time along the rank that is last: its stages, and why it is last."""
    seconds = float(stats.center_of(one.seconds, center))
    fit = seconds / float(one.seconds.mean())
    mean = {stage: fit * one.of(stage).mean(axis=0) for stage in STAGES}
    late = int(np.argmax(busy(one)))
    if "idle" in one.stages:
        transfer, waiting = float(mean["communication"][late]), float(mean["idle"][late])
    else:  # a collective ends for all at once: the shortest call is transfer, the rest is waiting
        transfer = fit * float(one.of("communication").min(axis=1).mean())
        waiting = float(mean["communication"][late]) - transfer
    # Some of that is waiting for the rank that does the serial part.
    alone = float(mean["serial"][late])
    for_serial = min(max(waiting, 0.0), float(mean["serial"].max()) - alone)
    even, imbalance, rest = _late_compute(one, late, kind)
    by_chance = waiting - for_serial
    emulation = min(max(by_chance, 0.0), (one.dry_wait or 0.0) * (one.steps or 0))
    held_up = float(mean["overhead"][late])
    delay = 0.0 if one.delays is None else fit * float(one.delays[:, late].mean())
    delay_of_others = max(by_chance - emulation, 0.0) * _held_up_share(one, late)
    parts: dict[CauseName, float] = {
        "oversubscription" if one.crowded else "foreign load": delay + delay_of_others,
        "compute inflation": fit * even,
        "load imbalance": fit * imbalance,
        "slow node": 0.0,
        "jitter": by_chance - emulation - delay_of_others,
        "emulation": emulation + (held_up if one.emulated else 0.0),
        "late rank": 0.0,
        "communication": transfer,
        "input/output": float(mean["io"][late]),
        "serial fraction": alone + for_serial,
        "engine overhead": 0.0 if one.emulated else held_up,
    }
    parts[kind] += fit * rest
    parts["unexplained"] = seconds - sum(parts.values())
    return parts


def _held_up_share(one: Measured, late: int) -> float:
    """Of the time in which the other ranks computed or wanted to, the part without a core.

    Where they come late by chance, that part of their lateness is not their own. Emulated nodes
    make up for it.
    """
    if one.delays is None or one.emulated:
        return 0.0
    outside = one.delays if one.held_up is None else one.delays - one.held_up
    held_up = float(np.delete(outside, late, axis=1).sum())
    computed = float(np.delete(one.of("compute"), late, axis=1).sum())
    return held_up / (held_up + computed) if held_up > 0 else 0.0


def _late_compute(one: Measured, late: int, kind: CauseName) -> tuple[float, float, float]:
    """Compute seconds of the late rank: an even share, those of more items, and the rest."""
    compute = one.of("compute")
    own = float(compute[:, late].mean())
    if compute.shape[1] == 1:
        return own, 0.0, 0.0
    if one.items is not None:
        items = one.items.mean(axis=0)
        typical = _lower_median(_rates(one).mean(axis=0)[items > 0])
        even = typical * float(items.mean())
        imbalance = typical * float(items[late] - items.mean())
        return even, imbalance, own - even - imbalance
    means = compute.mean(axis=0)
    even = _lower_median(means) if kind in ("slow node", "late rank") else float(means.mean())
    return even, 0.0, own - even


def _rates(one: Measured) -> Floats:
    """Compute seconds of each rank, per item where items are recorded."""
    compute = one.of("compute")
    if one.items is None:
        return compute
    # A rank without items has no rate; taking zero keeps it from being the slow one.
    rates = np.divide(compute, one.items, out=np.zeros_like(compute), where=one.items > 0)
    return np.asarray(rates)


def _relative_rates(one: Measured) -> Floats:
    """Rates over that of the typical rank of the same round."""
    rates = _rates(one)
    # Ranks that hardly compute are not typical ones.
    busy = [row[row > MIN_LOST_SHARE * row.max()] for row in rates]
    typical = np.array([_lower_median(row) if len(row) else 1.0 for row in busy])
    return np.asarray(rates / typical[:, None])


def rank_spread(measured: Sequence[Measured]) -> tuple[float, int]:
    """How much the rate of one rank varies between rounds, and the degrees of freedom.

    In single rounds, the differences between the ranks that are not last are used instead.
    """
    squares, freedom = 0.0, 0
    for one in measured:
        rates = _relative_rates(one)
        rounds, ranks = rates.shape
        if ranks < 2:
            continue
        if rounds > 1:
            squares += float(((rates - rates.mean(axis=0)) ** 2).sum())
            freedom += (rounds - 1) * (ranks - 1)
        else:
            others = np.delete(rates[0], int(rates[0].argmax()))
            squares += float(((others - others.mean()) ** 2).sum())
            freedom += ranks - 2
    return math.sqrt(squares / freedom) if freedom else 0.0, freedom


def late_kind(one: Measured, lateness: Lateness) -> CauseName:
    """Why the last rank of a scale is last: always this one, by chance, or not known."""
    rates = _relative_rates(one)
    rounds, ranks = rates.shape
    if ranks < 2:
        return "jitter"
    late = int(np.argmax(busy(one)))
    excess = float(rates[:, late].mean()) - 1
    always: CauseName = "slow node" if one.items is not None else lateness.cause or "late rank"
    if excess > _LATE and (
        _was_last_in_every_step(one, late) or _exceeds_chance(excess, rounds, ranks, lateness)
    ):
        return always
    return "jitter" if rounds > 1 and lateness.freedom >= _MIN_FREEDOM else "late rank"


def _exceeds_chance(excess: float, rounds: int, ranks: int, lateness: Lateness) -> bool:
    """Whether the slowest of so many ranks would hardly be as slow by chance."""
    if lateness.freedom == 0:
        return False
    error = lateness.spread * math.sqrt(1 / rounds + 1 / (rounds * (ranks - 1)))
    return excess > error * student_quantile(1 - _MAX_CHANCE / (2 * ranks), lateness.freedom)


def _was_last_in_every_step(one: Measured, late: int) -> bool:
    """Whether the others wait for this rank all the time, and it never for them."""
    if max(one.steps or 0, one.meetings) < _MANY_STEPS or "idle" not in one.stages:
        return False
    waits = one.of("idle").mean(axis=0)
    others = float(np.delete(waits, late).mean())
    return others > 0 and float(waits[late]) < _OWN_WAIT * others


def _lower_median(values: Floats) -> float:
    """The median that one outlier of two values cannot pull up."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def late_cause(measured: Sequence[Measured], times: Timings) -> CauseName | None:
    """Imbalance or a slow node, when items are not recorded: by the compute seconds of all ranks.

    An uneven division leaves their sum as it was at the base; a slow node adds to it. Nothing if
    the noise of the sum is larger than the difference.
    """
    grown = times.k if times.regime == "weak" else np.ones_like(times.k)
    sums = [one.of("compute").sum(axis=1) for one in measured]
    base = float(sums[0].mean())
    if base < CLOCK_RESOLUTION:
        return "load imbalance"
    from_uneven, from_slow, errors = [], [], []
    for one, total, factor in zip(measured[1:], sums[1:], grown[1:], strict=True):
        compute = one.of("compute").mean(axis=0)
        if len(compute) < 2:
            continue
        expected = base * float(factor) / len(compute)
        from_uneven.append(float(compute.mean()) / expected - 1)
        from_slow.append(_lower_median(compute) / expected - 1)
        errors.append(relative_error(total))
    if not errors:
        return None
    uneven, slow = math.hypot(*from_uneven), math.hypot(*from_slow)
    noise = math.hypot(math.sqrt(len(errors)) * relative_error(sums[0]), max(errors))
    if abs(slow - uneven) <= 2 * noise:
        return None
    return "slow node" if slow < uneven else "load imbalance"


def relative_error(values: Floats) -> float:
    """The relative error of a mean."""
    if len(values) < 2 or values.mean() < CLOCK_RESOLUTION:
        return _COMPUTE_NOISE
    return float(values.std(ddof=1) / values.mean()) / math.sqrt(len(values))


def late_ranks(study: Study, measured: Sequence[Measured]) -> dict[int, int]:
    """The rank that is busy longest at each scale of several ranks."""
    late = {}
    for nodes, one in zip(study.scales, measured, strict=True):
        ranks = study.at(nodes)[0].ranks
        if len(ranks) > 1:
            late[nodes] = ranks[int(np.argmax(busy(one)))].rank
    return late


def serial_rank(one: Measured, late: int | None) -> int | None:
    """The rank that works alone while the others wait, such as one that evaluates.

    Ranks are in their order, so that a column is a rank.
    """
    serial = one.of("serial").mean(axis=0)
    most = int(np.argmax(serial))
    alone = len(serial) > 1 and float(np.delete(serial, most).max()) < _OWN_WAIT * serial[most]
    return most if alone and late is not None else None


def beyond_typical(one: Measured) -> float:
    """Compute seconds of the last rank beyond those of a typical other one."""
    compute = one.of("compute").mean(axis=0)
    late = int(np.argmax(busy(one)))
    return float(compute[late]) - _lower_median(np.delete(compute, late))


def busy(one: Measured) -> Floats:
    """Mean seconds until each rank is ready to meet the others."""
    busy = one.of("compute") + one.of("io") + one.of("serial") + one.of("overhead")
    if one.delays is not None:
        busy = busy + one.delays - (0.0 if one.held_up is None else one.held_up)
    return np.asarray(busy.mean(axis=0))
