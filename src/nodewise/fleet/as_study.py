"""A sweep of a fleet as a study with K = replicas."""

from collections.abc import Sequence

from nodewise.fleet.capacity import Capacity, capacity, last_tries
from nodewise.fleet.latency import Judged, judged
from nodewise.study.service_objective import Objective
from nodewise.study.study import Run, Study
from nodewise.study.window import Summary, Window

_STUDY_REQUESTS = 1000  # the job of a fleet's study


def fleet_study(name: str, windows: Sequence[Window | Summary], objective: Objective) -> Study:
    """The sweep as a study with K = replicas: the time for 1000 requests at the highest rate.

    So speedup is the rate against that of the smallest fleet, and every rule of a study applies.
    """
    groups: dict[tuple[int, int], list[Judged]] = {}
    for one in last_tries([judged(window, objective) for window in windows]):
        if not one.served.simulated:
            groups.setdefault((one.served.replicas, one.served.round), []).append(one)
    started = {(one.replicas, one.round): one.started for one in windows if isinstance(one, Window)}
    runs = tuple(
        _run(replicas, round_, capacity(group, objective), started.get((replicas, round_), ""))
        for (replicas, round_), group in sorted(groups.items())
    )
    return Study(
        name=name,
        regime="strong",
        runs=runs,
        notes=(
            f"K is replicas; a run is {_STUDY_REQUESTS} requests at the highest rate with "
            f"{objective.words}.",
        ),
    )


def _run(replicas: int, round_: int, found: Capacity, started: str) -> Run:
    if found.kept is None:
        lowest = found.rates[0]
        return Run(
            nodes=replicas,
            round=round_,
            seconds=0.0,
            outcome="crashed",
            detail=f"no rate is kept; at {lowest.offered_per_second:.4g}/s: {lowest.why}",
            started=started,
        )
    best = found.best[-1]
    seconds = _STUDY_REQUESTS / best.offered_per_second
    return Run(
        nodes=replicas,
        round=round_,
        seconds=seconds,
        work=float(_STUDY_REQUESTS),
        energy_joules=(
            best.joules_per_million_good_tokens
            * best.good_tokens_per_request
            * _STUDY_REQUESTS
            / 1e6
            if best.joules_per_million_good_tokens is not None
            else None
        ),
        facts={
            "requests_per_second": best.offered_per_second,
            "requests": found.kept.requests,
            "attainment": 1 - found.kept.misses / found.kept.requests,
            "good_tokens": best.good_tokens_per_request * _STUDY_REQUESTS,
        },
        started=started,
    )
