"""A study against the rule of a centre: the largest size that passes, and the resources needed."""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from nodewise.base.stats import Floats
from nodewise.base.units import SECONDS_PER_HOUR
from nodewise.decide.allocation.centres import Centre, CentreRule
from nodewise.decide.decide import DecisionRow
from nodewise.explain.scaling import Scaling, Timings
from nodewise.study.scale_unit import ScaleUnit

_SINGLE_RUN_NOISE = 0.05  # of a scale that ran once, as in nodewise.explain.scaling
_DRAWS = 4000
_SEED = 5


class Step(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """One scale of the table: what it reached, and whether the rule lets it pass."""

    nodes: int
    size: float | None  # in the centre's unit; null: how many share a node is not known
    seconds: float
    speedup: float  # over the smallest feasible K
    efficiency: float
    factor: float | None  # by which the time falls from the scale before
    needed: float | None  # null: no rule, or the factor for this size is unknown
    passes: bool | None  # with all before it; null: the smallest scale, no rule, or unknown
    probability: float | None  # that this scale and all before it pass
    excluded_because: str | None = None  # as the decision has it; such a scale is never the largest


class Job(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """Runs that are planned: how many, at which K, and how long one is beside the measured job."""

    name: str
    runs: int
    nodes: int
    times: float = 1.0  # the measured job


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """What a job uses: node-hours, core-hours and GPU-hours, each with its bounds where known."""

    job: Job
    seconds: float
    node_hours: float | None
    node_hours_low: float | None
    node_hours_high: float | None
    core_hours: float | None
    gpu_hours: float | None


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a centre: the table, the largest size that passes, and the resources."""

    centre: Centre
    steps: tuple[Step, ...]
    smallest: int
    largest: int | None  # null: no rule, the first step does not pass, or that is unknown
    probability: float | None
    uses: tuple[Use, ...]
    unknown: tuple[str, ...]  # what the author must say
    doubts: tuple[str, ...] = ()  # about the measurement


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What a node of the machine applied for has; null: not stated."""

    cores_per_node: int | None = None
    gpus_per_node: int | None = None


def allocation(
    centre: Centre,
    scaling: Scaling,
    times: Timings,
    unit: ScaleUnit,
    machine: Machine,
    jobs: Sequence[Job] = (),
    decided: Sequence[DecisionRow] = (),
    doubts: Sequence[str] = (),
) -> Allocation:
    """A study of strong scaling against a centre's rule, without the scales that were excluded."""
    because = {row.nodes: row.excluded_because for row in decided}
    drifting = {row.nodes for row in decided if row.refused_by == "quality"}
    sizes = [_size(nodes, centre, unit, machine) for nodes in times.nodes]
    needed = [_needed(centre.rule, times.nodes, sizes, at) for at in range(len(sizes))]
    steps = []
    for at, (row, verdict) in enumerate(
        zip(scaling.rows, _verdicts(centre.rule, times, needed, drifting), strict=True)
    ):
        steps.append(
            Step(
                nodes=row.nodes,
                size=sizes[at],
                seconds=row.seconds,
                speedup=row.speedup,
                efficiency=row.efficiency,
                factor=float(times.seconds[at - 1] / times.seconds[at]) if at else None,
                needed=needed[at],
                passes=verdict.passes,
                probability=verdict.probability,
                excluded_because=because.get(row.nodes),
            )
        )
    granted = [step for step in steps if step.passes and not step.excluded_because]
    chosen = granted[-1] if granted else None
    return Allocation(
        centre=centre,
        steps=tuple(steps),
        smallest=int(times.nodes[0]),
        largest=chosen.nodes if chosen else None,
        probability=chosen.probability if chosen else None,
        uses=tuple(_use(job, scaling, unit, machine) for job in jobs),
        unknown=_unknown(centre, unit, machine, jobs, sizes),
        doubts=tuple(doubts),
    )


def _draws(times: Timings) -> Floats:
    """Times that the runs allow; of single runs, those that a spread of five percent would."""
    if times.plausible is not None:
        return times.plausible
    noise = np.random.default_rng(_SEED).standard_normal((_DRAWS, len(times.seconds)))
    return np.asarray(times.seconds * np.exp(_SINGLE_RUN_NOISE * noise))


def _size(nodes: int, centre: Centre, unit: ScaleUnit, machine: Machine) -> float | None:
    """A scale in the centre's unit; None if the step from K to it is not known."""
    per_node = {"core": machine.cores_per_node, "GPU": machine.gpus_per_node, "node": 1}[
        centre.unit
    ]
    if unit.unit == centre.unit:
        return float(nodes)
    if not unit.knows_nodes or per_node is None:
        return None
    return float(unit.nodes(nodes)) * per_node


def _needed(
    rule: CentreRule, nodes: Sequence[int], sizes: Sequence[float | None], at: int
) -> float | None:
    """What the rule asks at a scale: a cut of the time, or an efficiency; None: not known."""
    factor = rule.factor_at(sizes[at])
    if rule.kind == "none" or at == 0 or factor is None:
        return None
    if rule.kind == "efficiency":
        return factor
    return float(factor ** math.log2(nodes[at] / nodes[at - 1]))


class _Verdict(NamedTuple):
    passes: bool | None
    probability: float | None


def _verdicts(
    rule: CentreRule,
    times: Timings,
    needed: Sequence[float | None],
    drifting: Collection[int],
) -> list[_Verdict]:
    """Whether each scale passes with all before it; of the smallest nothing is asked.

    From a scale whose quality drifts on, none passes: it did not do the same job.
    """
    nothing = _Verdict(None, None)
    if rule.kind == "none":
        return [nothing] * len(needed)
    passed = _passing(rule, times.nodes, times.seconds[None, :], needed)[0]
    shares = _passing(rule, times.nodes, _draws(times), needed).mean(axis=0)
    found, known, same = [nothing], True, True
    for at in range(1, len(needed)):
        known = known and needed[at] is not None
        same = same and times.nodes[at] not in drifting
        if known and same:
            found.append(_Verdict(bool(passed[at]), float(shares[at])))
        else:
            found.append(nothing if same and passed[at] else _Verdict(False, None))
    return found


def _passing(
    rule: CentreRule, nodes: Sequence[int], seconds: Floats, needed: Sequence[float | None]
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Whether each scale and all before it pass, one row per draw; what is not asked passes."""
    passes = np.ones(seconds.shape, dtype=bool)
    for at in range(1, len(nodes)):
        if rule.kind == "doubling":
            reached = seconds[:, at - 1] / seconds[:, at]
        else:
            reached = seconds[:, 0] / seconds[:, at] * nodes[0] / nodes[at]
        passes[:, at] = passes[:, at - 1] & (reached >= (needed[at] or 0.0))
    return passes


def _use(job: Job, scaling: Scaling, unit: ScaleUnit, machine: Machine) -> Use:
    """Runs times T(K) times nodes."""
    row = scaling.row(job.nodes)
    nodes = float(unit.nodes(job.nodes)) if unit.knows_nodes else None
    per_second = None if nodes is None else job.runs * job.times * nodes / SECONDS_PER_HOUR

    def hours(seconds: float | None, each: float | None = 1.0) -> float | None:
        return None if None in (per_second, seconds, each) else per_second * seconds * each  # type: ignore[operator]

    cores = None if machine.cores_per_node is None else float(machine.cores_per_node)
    gpus = None if machine.gpus_per_node is None else float(machine.gpus_per_node)
    return Use(
        job=job,
        seconds=row.seconds * job.times,
        node_hours=hours(row.seconds),
        node_hours_low=hours(row.seconds_low),
        node_hours_high=hours(row.seconds_high),
        core_hours=hours(row.seconds, cores),
        gpu_hours=hours(row.seconds, gpus),
    )


def _unknown(
    centre: Centre,
    unit: ScaleUnit,
    machine: Machine,
    jobs: Sequence[Job],
    sizes: Sequence[float | None],
) -> tuple[str, ...]:
    """What only the author knows."""
    found = []
    if None in sizes:
        found.append(f"how many {centre.unit}s one node of the machine has")
    if not jobs:
        found.append(
            "the planned runs: how many, at which size, how long relative to the measured job"
        )
    if machine.cores_per_node is None and centre.unit != "core":
        found.append("cores per node, for core-hours")
    if not unit.knows_nodes:
        found.append(f"how many {unit.unit}s share a node")
    if centre.rule.assumed:
        found.append(
            f"the efficiency that {centre.name} requires: {centre.rule.factor:g} is assumed"
        )
    if centre.read == "summary":
        found.append("whether the present form requires the same: only a summary of it was read")
    return tuple(found)
