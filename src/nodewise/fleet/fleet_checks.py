"""Doubts about the windows of a sweep: the client, their length, shared cores, and stalls."""

import math
from collections.abc import Iterable, Mapping, Sequence

from nodewise.base.interval import LEVEL
from nodewise.base.units import format_duration, format_percent
from nodewise.fleet.capacity import Capacity
from nodewise.fleet.latency import Served
from nodewise.fleet.window_checks import CLIENT_RULES
from nodewise.study.check import Check, Verdict
from nodewise.study.service_objective import Objective

SHARED_CORES = "cores of client and replicas"
_NONE, _MEASURE = "no fleet was measured", "Measure it: nodewise fleet sweep."
BUSY_MACHINE = 0.8  # of all cores: above it, replicas wait for each other and for the client


def fleet_checks(
    seen: Sequence[Served], found: Mapping[int, Capacity], objective: Objective
) -> tuple[Check, ...]:
    """The checks of a decision."""
    measured = [one for one in seen if not one.simulated]
    return (
        _client(measured),
        *_shared(measured),
        _long_enough(found),
        _driven(found),
        *_stalls(found, objective),
    )


def _client(measured: Sequence[Served]) -> Check:
    faults = [one for one in measured if one.is_client_fault]
    verdict: Verdict = "fail" if faults else "pass"
    evidence, remedy = f"the client was late or busy in none of {len(measured)} windows", ""
    if not any(one.requests for one in measured):
        verdict, evidence, remedy = "unknown", _NONE, _MEASURE
    if faults:
        first = faults[0]
        late = next(
            one for one in first.checks if one.rule in CLIENT_RULES and one.verdict == "fail"
        )
        where = f"r={first.replicas} at {first.offered_per_second:.4g}/s: {late.evidence}"
        evidence = f"in {len(faults)} of {len(measured)} windows it was late or busy; {where}"
        remedy = late.remedy
    return Check(
        rule="load of the client",
        verdict=verdict,
        evidence=evidence,
        remedy=remedy,
    )


def _shared(measured: Sequence[Served]) -> list[Check]:
    """Where client and replicas ran on one machine: whether its cores were enough for both."""
    known = [one.machine_busy for one in measured if one.machine_busy is not None]
    if not known:
        return []
    busy = max(known)
    full = busy > BUSY_MACHINE
    return [
        Check(
            rule=SHARED_CORES,
            verdict="fail" if full else "pass",
            evidence="client and replicas shared one machine, whose cores were "
            f"{format_percent(min(busy, 1.0))} busy",
            remedy="Run the client on another machine." if full else "",
            makes="doubtful" if full else None,
        )
    ]


def _long_enough(found: Mapping[int, Capacity]) -> Check:
    rates = [one for own in found.values() if own.evidence == "measured" for one in own.rates]
    rule = "length of the windows"
    if not any(one.requests for one in rates):
        return Check(rule=rule, verdict="unknown", evidence=_NONE, remedy=_MEASURE)
    few = [one for one in rates if one.verdict == "undecided"]
    evidence = f"{len(few)} of {len(rates)} rates are undecided"
    if few:
        first = few[0]
        evidence += f"; r={first.replicas} at {first.offered_per_second:.4g}/s: {first.why}"
    return Check(
        rule=rule,
        verdict="unknown" if few else "pass",
        evidence=evidence,
        remedy="Lengthen the windows, or add rounds." if few else "",
    )


def _stalls(found: Mapping[int, Capacity], objective: Objective) -> list[Check]:
    """Whether the windows of kept rates are long enough to meet rare stalls, if there are any."""
    kept = [own for own in found.values() if own.evidence == "measured" and own.best]
    needed = objective.stall_seconds
    if not needed or not kept:
        return []
    apart = needed / -math.log(1 - LEVEL)
    limit = apart * (1 - objective.share)
    shortest = min(sum(one.seconds for one in own.best) for own in kept)
    unseen = shortest < needed
    return [
        Check(
            rule="rare stalls",
            verdict="unknown" if unseen else "pass",
            evidence=f"the shortest test of a rate that is kept took {format_duration(shortest)}; "
            f"a stall of {format_duration(2 * limit)} every {format_duration(apart)} breaks the "
            f"objective, and such a test {'may miss' if unseen else 'shows'} it",
            remedy=f"If your servers stall, set window_seconds to {math.ceil(needed)}."
            if unseen
            else "",
        )
    ]


def _driven(found: Mapping[int, Capacity]) -> Check:
    rule = "load up to the limit"
    measured = {count: own for count, own in found.items() if own.evidence == "measured"}
    ran = {count: own for count, own in measured.items() if not own.never_ran}
    if not ran:
        return Check(rule=rule, verdict="unknown", evidence=_NONE, remedy=_MEASURE)
    unbroken = {count: own for count, own in ran.items() if own.breaks_at is None}
    evidence = "a broken rate was found above the highest rate that is kept"
    if unbroken:
        kept = ", ".join(str(count) for count, own in unbroken.items() if own.rate)
        neither = ", ".join(str(count) for count, own in unbroken.items() if not own.rate)
        evidence = "; ".join(
            [
                *([f"r={kept} kept the highest rate that was tried"] if kept else []),
                *([f"r={neither} neither kept nor broke any rate"] if neither else []),
            ]
        )
    return Check(
        rule=rule,
        verdict="unknown" if unbroken else "pass",
        evidence=evidence,
        remedy=_remedy(unbroken.values()),
    )


def _remedy(unbroken: Iterable[Capacity]) -> str:
    kept = [bool(own.rate) for own in unbroken]
    if not kept:
        return ""
    if any(kept):
        return "Raise the rate: these fleets may serve more."
    return "Lengthen the windows, or add rounds."
