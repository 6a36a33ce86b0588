"""The highest rate that a fleet serves within its limit: what the windows of each rate show.

Windows at one rate are judged together, as one series, so that what differs between them counts as
dependence. One window alone is judged at 95 %, two and more together at 98.3 % or above, as each is
a further look: for a rate at its limit, the errors of three looks add up to 8 % at most. On queues
whose capacity is known, at most 5 of 100 verdicts were wrong (`benchmarks/fleet_truth.py`). That is
what "for certain" means in this room.

The capacity lies between the highest rate that is kept for certain and the lowest one that is
broken for certain. A rate that one round kept and another broke is neither. Inside these bounds the
capacity is estimated by a logistic law of the misses over the logarithm of the rate.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
import numpy as np

from nodewise.base.interval import LEVEL
from nodewise.base.stats import Floats
from nodewise.fleet.certainty import Sure, effective_requests, judge_series
from nodewise.fleet.latency import Judged, Served, Verdict, reason
from nodewise.study.service_objective import Objective

Evidence = Literal["measured", "simulated"]

_FAR = 2.0  # times the middle rate: misses there do not show the limit
_SLOPE, _SLOPE_SPREAD = 20.0, 10.0  # of log odds over log rate, where few rates are known
_STEPS = 50
LOOKS = 3  # windows of a search at one rate in one round, each twice as long as the one before


class RateEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What all windows of a fleet at one rate show together."""

    replicas: int
    offered_per_second: float
    requests: int
    misses: int
    effective_requests: float
    verdict: Verdict
    why: str
    met: bool  # in all windows together, or in those of a round
    missed: bool
    windows: tuple[Served, ...]


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """Where the limit of a fleet lies."""

    evidence: Evidence
    rates: tuple[RateEvidence, ...]
    kept: RateEvidence | None  # the highest rate that is kept for certain, below all broken ones
    breaks_at: float | None  # the lowest rate that is broken for certain, above all kept ones
    estimate: float | None  # of the capacity, between the two
    never_ran: str = ""  # why, where no window holds a request

    @property
    def rate(self) -> float:
        """The highest rate that is kept for certain; 0 where none is."""
        return self.kept.offered_per_second if self.kept else 0.0

    @property
    def best(self) -> tuple[Served, ...]:
        """The windows at that rate."""
        return self.kept.windows if self.kept else ()

    @property
    def rounds(self) -> int:
        """How often the fleet was started."""
        return len({one.round for rate in self.rates for one in rate.windows})

    def serves(self, rate: float) -> Sure:
        """Whether it keeps the objective at a rate."""
        if self.rate >= rate * (1 - 1e-9):
            return "met"
        if self.breaks_at is not None and self.breaks_at <= rate * (1 + 1e-9):
            return "missed"
        return "undecided"


def capacities(found: Iterable[Judged], objective: Objective) -> dict[int, Capacity]:
    """The capacity of each number of replicas; measured windows go before simulated ones."""
    found = last_tries(found)
    measured = {one.served.replicas for one in found if not one.served.simulated}
    made = {}
    for replicas in sorted({one.served.replicas for one in found}):
        simulated = replicas not in measured
        own = [
            one
            for one in found
            if one.served.replicas == replicas and one.served.simulated == simulated
        ]
        made[replicas] = capacity(own, objective)
    return made


def capacity(found: Sequence[Judged], objective: Objective) -> Capacity:
    """The capacity of one fleet from all of its windows."""
    groups: dict[float, list[Judged]] = {}
    for one in found:
        groups.setdefault(one.served.offered_per_second, []).append(one)
    rates = tuple(at_rate(groups[rate], objective) for rate in sorted(groups))
    lowest_missed = min((one.offered_per_second for one in rates if one.missed), default=math.inf)
    highest_met = max((one.offered_per_second for one in rates if one.met), default=0.0)
    kept = [one for one in rates if one.verdict == "met" and one.offered_per_second < lowest_missed]
    broken = [
        one.offered_per_second
        for one in rates
        if one.missed and one.offered_per_second > highest_met
    ]
    low, high = (kept[-1] if kept else None), min(broken, default=None)
    first = found[0].served
    return Capacity(
        evidence="simulated" if first.simulated else "measured",
        rates=rates,
        kept=low,
        breaks_at=high,
        estimate=_estimate(rates, low.offered_per_second if low else 0.0, high, objective),
        never_ran="" if any(one.served.requests for one in found) else first.why,
    )


def last_tries(found: Iterable[Judged]) -> list[Judged]:
    """Without the windows in which a replica died, where the rate was tried again.

    A restart that failed is a window without requests; it counts in a round that has no other.
    """

    def group(one: Served) -> tuple[int, int, bool]:
        return one.replicas, one.round, one.simulated

    def key(one: Served) -> tuple[int, int, bool, float]:
        return *group(one), one.offered_per_second

    found = list(found)
    ran = {group(one.served) for one in found if one.served.requests}
    found = [one for one in found if one.served.requests or group(one.served) not in ran]
    whole = {key(one.served) for one in found if not one.served.died}
    return [one for one in found if not one.served.died or key(one.served) not in whole]


def at_rate(group: Sequence[Judged], objective: Objective) -> RateEvidence:
    """What windows at one rate show together, and whether their rounds agree."""
    rounds: dict[int, list[Judged]] = {}
    for one in group:
        rounds.setdefault(one.served.round, []).append(one)
    verdict, why = _verdict(group, objective)
    verdicts = {verdict, *(_verdict(own, objective)[0] for own in rounds.values())}
    windows = tuple(one.served for one in group)
    requests = sum(one.requests for one in windows)
    misses = sum(round(one.requests * (1 - one.attainment)) for one in windows)
    return RateEvidence(
        replicas=windows[0].replicas,
        offered_per_second=windows[0].offered_per_second,
        requests=requests,
        misses=misses,
        effective_requests=_effective(group),
        verdict=verdict,
        why=why,
        met="met" in verdicts,
        missed="missed" in verdicts,
        windows=windows,
    )


def _effective(group: Sequence[Judged]) -> float:
    series = [one.scores for one in group if one.scores is not None]
    known = effective_requests(np.concatenate(series)) if series else 0.0
    return known + sum(one.served.effective_requests for one in group if one.scores is None)


def _verdict(group: Sequence[Judged], objective: Objective) -> tuple[Verdict, str]:
    """The verdict of one window, or of several in one series."""
    if len(group) == 1:
        return group[0].served.verdict, group[0].served.why
    if any(one.scores is None for one in group):  # figures alone cannot be put together
        found = {one.served.verdict for one in group}
        same = found.pop() if len(found) == 1 else "undecided"
        return same, group[0].served.why if same != "undecided" else "the windows disagree"
    level = 1 - (1 - LEVEL) / max(len(group), LOOKS)  # each window was a look
    ran = [one for one in group if one.served.requests]
    on_time = [one for one in ran if not one.served.is_client_fault]
    # a late client only adds to latencies: with its windows a fleet can be met as it is seen
    for own in (on_time, ran):
        series = _joined([one.scores for one in own])
        tested = sum(one.served.seconds for one in own)
        meets_stalls = len(own) > 1 and 0 < objective.stall_seconds <= tested
        if judge_series(series, objective.share, level, meets_stalls) == "met":
            longest = max(own, key=lambda one: one.served.seconds)
            if not longest.served.is_too_short:
                return "met", _reason("met", series, objective)
    least = _joined([one.least for one in ran])  # and missed without what it added
    if judge_series(least, objective.share, level) == "missed":
        return "missed", _reason("missed", least, objective)
    if not on_time:
        return "void", group[-1].served.why
    return "undecided", _reason("undecided", _joined([one.scores for one in on_time]), objective)


def _joined(series: Sequence[Floats | None]) -> Floats:
    return np.concatenate([np.zeros(0), *(one for one in series if one is not None)])


def _reason(sure: Sure, series: Floats, objective: Objective) -> str:
    misses = int((series > 1).sum())
    return reason(sure, len(series), misses, effective_requests(series), objective)


def _estimate(
    rates: Sequence[RateEvidence], low: float, high: float | None, objective: Objective
) -> float | None:
    """The rate at which the target is just kept, within the bounds that are certain.

    Maximum likelihood of log odds = level + slope * log rate, with a slope that is near 20 as long
    as few rates are known. If no rate was broken, the highest one kept; None if none was kept.
    """
    known = [one for one in rates if one.requests and one.verdict != "void"]
    if high is None or not low or not known:
        return low or None
    middle = math.sqrt(low * high)
    near = [one for one in known if 1 / _FAR <= one.offered_per_second / middle <= _FAR]
    if not near:
        return middle
    x = np.log([one.offered_per_second / middle for one in near])
    trials = np.array([one.effective_requests for one in near]) + 1.0
    target = 1 - objective.share
    # one more request at the target keeps rates without a miss finite
    misses = np.array([one.effective_requests * one.misses / one.requests + target for one in near])
    log_odds = math.log(target / objective.share)
    level, slope = log_odds, _SLOPE
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(level + slope * x, -30, 30)))
        weight = trials * chance * (1 - chance) + 1e-9
        push = np.array(
            [
                (misses - trials * chance).sum(),
                ((misses - trials * chance) * x).sum() - (slope - _SLOPE) / _SLOPE_SPREAD**2,
            ]
        )
        bend = np.array(
            [
                [weight.sum(), (weight * x).sum()],
                [(weight * x).sum(), (weight * x * x).sum() + _SLOPE_SPREAD**-2],
            ]
        )
        step = np.clip(np.linalg.solve(bend, push), -2.0, 2.0)
        level, slope = level + float(step[0]), max(slope + float(step[1]), 1.0)
        if float(np.abs(step).max()) < 1e-8:
            break
    found = middle * math.exp(min(max((log_odds - level) / slope, -5.0), 5.0))
    return min(max(found, low), high)
