"""How faithful a rehearsal was: the CPU that emulated nodes received, their waits, their link.

A study on emulated nodes states these figures, and is doubtful or invalid where they are bad.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from nodewise.base.units import format_duration, format_percent
from nodewise.study.check import Check, Effect, warning
from nodewise.study.study import DRY_STEP, DRY_WAIT, Rank, Run, Study

LATENCY_BOUND = 2.0  # transfer against what its bytes need on the link
_LATENCY_MATTERS = 0.05  # of the run
RULE = "emulated nodes"  # states how faithful the rehearsal was
_RECEIVED = "CPU received by emulated nodes"
_DRY = "waits added by emulation"
_LINK = "modelled link"
_MIN_RECEIVED = {"invalid": 0.80, "doubtful": 0.92}  # of the share of the slowest rank
_SHOWN = 0.0005  # of a run; less is zero to the printed digit
_MAX_DRY_WAIT = {"invalid": 0.35, "doubtful": 0.15}  # of a step; of a run, inside MPI


class Link(NamedTuple):
    """Transfer against its floor at the scale where it is farthest from it."""

    nodes: int
    transfer_seconds: float
    floor_seconds: float
    beyond: float  # of the run

    @property
    def is_latency_bound(self) -> bool:
        """Whether latencies of the emulation decide, which no real network has."""
        slow = self.transfer_seconds > LATENCY_BOUND * self.floor_seconds
        return slow and self.beyond > _LATENCY_MATTERS


def rehearsed_runs(study: Study) -> list[Run]:
    """The successful runs on emulated nodes."""
    return [run for run in study.runs if run.outcome == "ok" and run.provenance.get("emulated")]


def fidelity_checks(study: Study) -> Iterator[Check]:
    """How faithful the rehearsal was; nothing if nothing is emulated."""
    runs = rehearsed_runs(study)
    if not runs:
        return
    all_received = {at: _mean(map(received, of)) for at, of in _by_scale(_paced(runs)).items()}
    all_waits = {at: _mean(map(_dry_wait, of)) for at, of in _by_scale(runs).items() if at > 1}
    shares = {nodes: share for nodes, share in all_received.items() if share is not None}
    waits = {nodes: share for nodes, share in all_waits.items() if share is not None}
    held_up = {at: mean(map(held_up_share, of)) for at, of in _by_scale(_paced(runs)).items()}
    yield warning(RULE, _summary(study, runs, shares, waits, max(held_up.values(), default=0.0)))
    what = "the CPU share that emulated nodes received"
    yield from _unmeasured(_RECEIVED, what, all_received, "Record cores and CPU of every rank.")
    what = "how long the emulation makes a step wait"
    yield from _unmeasured(_DRY, what, all_waits, "Measure again: the dry run gave no figures.")
    if shares:
        worst = min(shares, key=lambda nodes: shares[nodes])
        share = shares[worst]
        makes = _effect({name: share < limit for name, limit in _MIN_RECEIVED.items()})
        evidence = f"a node received {format_percent(share)} of its CPU share at K={worst}"
        yield from _verdict(_RECEIVED, evidence, "Keep other load away, or lower the share.", makes)
    if waits:
        worst = max(waits, key=lambda nodes: waits[nodes])
        share = waits[worst]
        makes = _effect({name: share > limit for name, limit in _MAX_DRY_WAIT.items()})
        evidence = f"the emulation makes a step wait {format_percent(share)} at K={worst}"
        yield from _verdict(_DRY, evidence, "Use longer steps or a smaller share.", makes)
    if held_up:
        worst = max(held_up, key=lambda nodes: held_up[nodes])
        share = held_up[worst]
        makes = _effect({name: share > limit for name, limit in _MAX_DRY_WAIT.items()})
        evidence = (
            f"inside MPI a rank waits {format_percent(share)} of a run for a core at K={worst}"
        )
        yield from _verdict(_RECEIVED, evidence, "Keep other load away, or lower the share.", makes)
    yield from _link_checks(study, runs)


def _link_checks(study: Study, runs: list[Run]) -> Iterator[Check]:
    silent = [
        rank for run in runs for rank in run.ranks if rank.pace and rank.pace.calls_without_bytes
    ]
    if silent:
        evidence = "the modelled link does not know the bytes of some messages"
        remedy = "Give them: probe.comm(sent_bytes=...) or all_reduce_bytes."
        yield from _verdict(_LINK, evidence, remedy, "doubtful")
    link = link_of(study)
    if link is not None and link.is_latency_bound:
        evidence = latency_words(link)
        remedy = "Send fewer, larger messages, or rehearse a slower link."
        yield from _verdict("transfer over the link", evidence, remedy, "invalid")


def latency_words(link: Link) -> str:
    """That latencies of the emulation decide."""
    return (
        f"latency-bound here, not rehearsable: at K={link.nodes} transfer takes "
        f"{format_duration(link.transfer_seconds)}, and the link needs "
        f"{format_duration(link.floor_seconds)} for its bytes"
    )


def link_of(study: Study) -> Link | None:
    """The real link against its floor, where it is farthest from it; None: nothing was sent."""
    from statistics import median

    rate = study.spec.engine.rehearsal.link_mbit_per_second if study.spec is not None else None
    warmup = study.spec.workload.warmup_steps if study.spec is not None else 0
    links = []
    for nodes, runs in _by_scale([run for run in study.runs if run.outcome == "ok"]).items():
        transfer = median(map(transfer_seconds, runs))
        sent = median(_busiest_bytes(run, warmup) for run in runs)
        if nodes > 1 and transfer and sent and rate:
            floor = sent * 8e-6 / rate
            beyond = (transfer - floor) / median(run.seconds for run in runs)
            links.append(Link(nodes, transfer, floor, beyond))
    bound = [link for link in links if link.is_latency_bound]
    return min(bound or links, key=lambda link: -link.beyond, default=None)


def transfer_seconds(run: Run) -> float:
    """The part of communication in which no rank waited for another."""
    return min((rank.stages.get("communication", 0.0) for rank in run.ranks), default=0.0)


def of_node(run: Run, at: int, name: str) -> float | None:
    """A figure that the rehearsal recorded of one node; None if it did not."""
    value = run.provenance.get(f"rehearsal_node{at}.{name}")
    return None if value is None else float(value)


def _busiest_bytes(run: Run, warmup: int) -> float:
    """The bytes of the busiest node in the timed steps; 0 where none are known."""
    ways = ("sent_bytes", "received_bytes")
    most = max(of_node(run, at, way) or 0.0 for at in range(run.nodes) for way in ways)
    return most * (run.steps / (run.steps + warmup) if run.steps else 1.0)


def _summary(
    study: Study, runs: list[Run], shares: dict[int, float], waits: dict[int, float],
    held_up: float,
) -> str:  # fmt: skip
    """The line of a rehearsed study: what its nodes were, and the worst figures of all scales."""
    paced = all(run.provenance.get("rehearsal_cpu") == "paced" for run in runs)
    cores = of_node(runs[0], 0, "cores")
    words = ["rehearsal on emulated nodes"]
    if cores:
        words[0] += f" of {cores:g} cores, by {'pacing' if paced else 'quota'}"
    if shares:
        least = format_percent(min(shares.values()))
        words.append(f"the slowest node received {least} of its CPU share")
        late = max(mean(map(late_share, of)) for of in _by_scale(_paced(runs)).values())
        if late >= _SHOWN:
            words[-1] += f", late by {format_percent(late)} of a run"
    if held_up >= _SHOWN:
        words.append(f"inside MPI a rank waits {format_percent(held_up)} of a run for a core")
    if waits:
        words.append(f"dry step waits {format_percent(max(waits.values()))}")
    modelled = any(run.provenance.get("rehearsal_link") == "modelled" for run in runs)
    link = None if modelled else link_of(study)
    if modelled:
        words.append("link modelled")
    elif link is not None:
        ratio = link.transfer_seconds / link.floor_seconds
        if ratio > LATENCY_BOUND and not link.is_latency_bound:
            words.append(f"latency of the emulation takes {format_percent(link.beyond)} at most")
        else:
            words.append(f"transfer {ratio:.2f} of the link's time")
    return "; ".join([*words, "latency is not that of a network"])


def _paced(runs: list[Run]) -> list[Run]:
    return [run for run in runs if run.ranks and all(rank.pace is not None for rank in run.ranks)]


def received(run: Run) -> float | None:
    """The speed of the slowest rank while it computed, against that of its node; None: unknown."""
    each = [_received_by(rank, of_node(run, at, "cores")) for at, rank in enumerate(run.ranks)]
    known = [share for share in each if share is not None]
    return min(known) if known and len(known) == len(each) else None


def late_share(run: Run) -> float:
    """How much of a run its latest rank waited for a core, beyond what its pace allows."""
    return max(rank.pace.late_seconds for rank in run.ranks if rank.pace) / run.seconds


def held_up_share(run: Run) -> float:
    """How much of a run its ranks waited for a core inside MPI, which no real node does."""
    return mean(rank.stages.get("overhead", 0.0) for rank in run.ranks) / run.seconds


def _received_by(rank: Rank, cores: float | None) -> float | None:
    assert rank.pace is not None
    if not cores or not rank.pace.cpu_seconds:
        return None
    wanted = rank.pace.cpu_seconds / cores
    return wanted / (wanted + rank.pace.late_seconds)


def _dry_wait(run: Run) -> float | None:
    """The wait of a dry step against a step of the run, or against itself; None: no dry step."""
    if DRY_STEP not in run.provenance:
        return None
    step = run.seconds / run.steps if run.steps else float(run.provenance[DRY_STEP])
    return min(float(run.provenance[DRY_WAIT]) / step, 1.0)


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean."""
    known = list(values)
    return sum(known) / len(known)


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of the known values; None if all are unknown."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def _unmeasured(
    rule: str, what: str, shares: Mapping[int, float | None], remedy: str
) -> Iterator[Check]:
    """That a figure is not known at some scales."""
    missing = [str(nodes) for nodes, share in shares.items() if share is None]
    if missing:
        evidence = f"{what} was not measured at K={', '.join(missing)}"
        yield Check(rule=rule, verdict="unknown", evidence=evidence, remedy=remedy)


def _by_scale(runs: list[Run]) -> dict[int, list[Run]]:
    found: dict[int, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.nodes):
        if not run.baseline:
            found.setdefault(run.nodes, []).append(run)
    return found


def _effect(crossed: dict[str, bool]) -> Effect | None:
    """The most severe effect whose limit is exceeded."""
    return "invalid" if crossed["invalid"] else "doubtful" if crossed["doubtful"] else None


def _verdict(rule: str, evidence: str, remedy: str, makes: Effect | None) -> Iterator[Check]:
    if makes is not None:
        yield Check(rule=rule, verdict="fail", evidence=evidence, remedy=remedy, makes=makes)
