"""How a transformer is divided over the devices of a cluster: the fastest plan at every scale.

A plan is tensor x pipeline x context x data devices. Its step: `step.py`; its memory: `memory.py`.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from nodewise.base.errors import SpecError
from nodewise.base.units import format_percent
from nodewise.decide.paper.job import SHARDINGS, Anchor, Cluster, Job, Plan, Precision
from nodewise.decide.paper.memory import Memory, memory_of
from nodewise.decide.paper.step import CEILINGS, Step, step_time
from nodewise.decide.paper.transformer import RECOMPUTES, step_flops
from nodewise.decide.prices.bill import Price, bill
from nodewise.explain.scaling import THRESHOLD

Choice = TypeVar("Choice")

_LARGEST_MICRO_BATCH = 16
_LONG_SEQUENCE = 32_768  # tokens from which context parallelism is searched
_MOST_CONTEXT = 16

# Mean error of the step time on published A100 runs: the ten of table 1 of arXiv 2104.04473, where
# `Efficiency.matrix` was fitted, and the eight of table 5 of arXiv 2205.05198, where nothing was.
# Calculon (its own validation, with a system file tuned for these runs) is off by 3.65 % on the
# same eight.
FITTED_MEAN_ERROR, UNSEEN_MEAN_ERROR, CALCULON_MEAN_ERROR = 0.017, 0.078, 0.0365

# Half of an 80 % interval of the step time, in ln: runs of models that were left out of the fit
# (benchmarks/plan.py --fit; on A100 those of table 5), other devices and 4 bits (assumed, since
# nothing was fitted there), and dense runs beside a measured run of the same layout.
_SPREADS = {"H100": 0.073, "H200": 0.073, "A100": 0.11}
_EXPERT_SPREAD = 0.23
_NEW_SPREAD, _NEW_EXPERT_SPREAD = 0.165, 0.345
_ALIKE_SPREAD = 0.035
_LAYOUT_SPREAD = 0.11  # of a measured run of another layout: a ratio within it may be its own
_MOST_FACTOR = 3.0  # of an anchor: measured over computed, either way
_MOST_MEMORY = 1.5  # times that of a device: computed memory is not exact


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A plan with its step and its memory."""

    plan: Plan
    step: Step
    memory: Memory
    seconds: float
    seconds80: tuple[float, float]  # 80 % interval
    memory_bytes: float


class PlanRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The fastest plan that fits at one scale, or none."""

    nodes: int
    devices: int
    plans: int  # that divide the job at this scale
    fitting: int
    best: Candidate | None = None
    speedup: float | None = None  # over the smallest scale that fits
    efficiency: float | None = None  # over the scale with the fewest node-seconds
    model_flops_share: float | None = None  # of the peak; recomputation is not counted
    tokens_per_second: float | None = None
    ceiling: str | None = None
    lost_to: str | None = None  # what grew most over an ideal division of the first scale
    seconds_without_memory_limit: float | None = None
    least_bytes: float | None = None  # of any plan
    cost_per_billion_tokens: float | None = None


class Planned(msgspec.Struct, frozen=True, kw_only=True, rename={"base_nodes": "base_K"}):
    """The knee on paper."""

    name: str
    cluster: str
    parameters: float
    batch: int
    memory_bytes: float  # of a device
    rows: tuple[PlanRow, ...]
    base_nodes: int | None
    fastest: int | None
    cheapest: int | None
    knee: int | None  # largest speedup x efficiency; None: not reached
    threshold: float
    last_above: int | None
    training_tokens: float | None
    price: Price | None
    anchor_factor: float | None  # measured over computed seconds of the anchor
    notes: tuple[str, ...]

    @property
    def fitting(self) -> tuple[PlanRow, ...]:
        """The scales that have a plan."""
        return tuple(row for row in self.rows if row.best is not None)

    def row(self, nodes: int) -> PlanRow:
        """The row of one scale."""
        return next(row for row in self.rows if row.nodes == nodes)


def plans_at(job: Job, cluster: Cluster, nodes: int) -> Iterator[Plan]:
    """Every plan that uses all devices of `nodes` nodes; a tensor group stays on its fast link."""
    model, fixed = job.model, job.fixed
    devices = nodes * cluster.devices_per_node
    key_value_heads = model.key_value_heads or model.heads
    joined = min(cluster.joined, devices)
    for tensor in _allowed([n for n in _divisors(devices) if n <= joined], fixed.tensor):
        if model.heads % tensor or key_value_heads % tensor:
            continue
        for pipeline in _allowed(_divisors(devices // tensor), fixed.pipeline):
            if model.layers % pipeline:
                continue
            rest = devices // tensor // pipeline
            for context in _allowed(_contexts(job, rest), fixed.context):
                data = rest // context
                if rest % context == 0 and job.training.batch % data == 0:
                    yield from _variants(
                        job, Plan(tensor=tensor, pipeline=pipeline, context=context, data=data)
                    )


def _contexts(job: Job, devices: int) -> list[int]:
    """Parts that a sequence may be cut into; short ones are searched whole."""
    if job.model.sequence < _LONG_SEQUENCE and job.fixed.context is None:
        return [1]
    return [n for n in _divisors(devices) if n <= _MOST_CONTEXT]


def _experts(job: Job, plan: Plan) -> list[int]:
    """Devices of a stage that may divide the experts."""
    if not job.model.experts:
        return [1]
    stage = plan.tensor * plan.replicas
    return [n for n in _divisors(stage) if job.model.experts % n == 0]


def _variants(job: Job, division: Plan) -> Iterator[Plan]:
    """The plans of one division: experts, micro-batch, chunks, sharding and recomputation."""
    fixed, sequences = job.fixed, job.training.batch // division.data
    together = division.tensor > 1 if fixed.sequence_parallel is None else fixed.sequence_parallel
    most = fixed.micro_batch or _LARGEST_MICRO_BATCH
    micro_batches = _allowed([n for n in _divisors(sequences) if n <= most], fixed.micro_batch)
    experts = _allowed(_experts(job, division), fixed.expert)
    sharded = SHARDINGS if division.replicas > 1 else ("none",)
    for expert, micro_batch in product(experts, micro_batches):
        chunks = [1]
        if division.pipeline > 1 and sequences // micro_batch % division.pipeline == 0:
            chunks = _divisors(job.model.layers // division.pipeline)
        for interleave, sharding, recompute in product(
            _allowed(chunks, fixed.interleave),
            _allowed(sharded, fixed.sharding),
            [fixed.recompute] if fixed.recompute else RECOMPUTES,
        ):
            yield msgspec.structs.replace(
                division,
                expert=expert,
                micro_batch=micro_batch,
                interleave=interleave,
                sharding=sharding,
                recompute=recompute,
                sequence_parallel=together,
            )


class Measured(NamedTuple):
    """A measured step relative to the computed one: what the model does not know."""

    ratio: float  # measured over computed seconds
    plan: Plan
    precision: Precision

    def alike(self, job: Job, plan: Plan) -> bool:
        """Whether a dense model is divided as the measured run was, in its precision.

        One such run is off by 2 % from the next. Other layouts, and experts, each have an error of
        their own that one run cannot show.
        """
        mine, its = ((p.tensor, p.pipeline, p.context) for p in (plan, self.plan))
        same = mine == its and job.training.precision == self.precision
        return same and not job.model.experts

    def factor(self, job: Job, plan: Plan, cluster: Cluster) -> float:
        """The part of the ratio that applies to a plan.

        All of it for a plan alike. Else nothing of a ratio that the doubt of the model explains,
        and the more, the further it is beyond (James and Stein's estimate). The error of a device
        that was never fitted is common to all plans: its share always counts.
        """
        if self.alike(job, plan):
            return self.ratio
        off, doubt = math.log(self.ratio), max(_fitted_spread(job, cluster), _LAYOUT_SPREAD)
        beyond = 1 - (doubt / off) ** 2 if abs(off) > doubt else 0.0
        common = 1 - 1 / _widening(job, cluster) ** 2
        return math.exp(off * max(beyond, common))


def spread(job: Job, plan: Plan, cluster: Cluster, measured: Measured | None = None) -> float:
    """Half of the 80 % interval of a step, in ln."""
    if measured is None:
        return _widening(job, cluster) * _fitted_spread(job, cluster)
    return _ALIKE_SPREAD if measured.alike(job, plan) else _fitted_spread(job, cluster)


def _widening(job: Job, cluster: Cluster) -> float:
    """How much wider an interval is where nothing was fitted."""
    if _device(cluster) and job.training.precision != "float4":
        return 1.0
    new = _NEW_EXPERT_SPREAD if job.model.experts else _NEW_SPREAD
    return new / _fitted_spread(job, cluster)


def _fitted_spread(job: Job, cluster: Cluster) -> float:
    if job.model.experts:
        return _EXPERT_SPREAD
    return _SPREADS.get(_device(cluster), _LAYOUT_SPREAD)


def _device(cluster: Cluster) -> str:
    """The family of a device that was fitted; empty for others."""
    name = cluster.accelerator.name
    return next((one for one in _SPREADS if name.startswith(one)), "")


def measured_step(job: Job, cluster: Cluster, anchor: Anchor) -> Measured:
    """A measured run of this job relative to its computed step."""
    training = msgspec.structs.replace(
        job.training,
        batch=anchor.batch or job.training.batch,
        precision=anchor.precision or job.training.precision,
    )
    measured = msgspec.structs.replace(job, training=training)
    _check_anchor(measured, cluster, anchor.plan)
    if anchor.plan.micro_batches(training.batch) < 1:
        raise SpecError(
            f"anchor: a batch of {training.batch} is too small for {anchor.plan.data} "
            f"data-parallel devices with {anchor.plan.micro_batch} sequences each.",
            "State the batch of the measured run: batch = ...",
        )
    factor = anchor.seconds / step_time(measured, anchor.plan, cluster).seconds
    if not 1 / _MOST_FACTOR <= factor <= _MOST_FACTOR:
        raise SpecError(
            f"anchor: the measured step takes {factor:.3g} times the computed one.",
            "Check seconds (of one step), batch and [plan] of the anchor.",
        )
    return Measured(factor, anchor.plan, training.precision)


def _check_anchor(job: Job, cluster: Cluster, plan: Plan) -> None:
    """Refuse a run that cannot have been made."""
    heads, device = job.model.heads, cluster.accelerator
    wrong = ""
    if heads % plan.tensor:
        wrong = f"{heads} heads cannot be divided by tensor = {plan.tensor}"
    elif plan.tensor > cluster.joined:
        wrong = f"tensor = {plan.tensor} is more than the {cluster.joined} devices of a fast link"
    elif plan.pipeline > job.model.layers:
        wrong = f"pipeline = {plan.pipeline} is more than the {job.model.layers} layers"
    elif (needed := memory_of(job, plan).bytes) > _MOST_MEMORY * device.memory_bytes:
        wrong = (
            f"this plan needs {needed / 1e9:.0f} GB on a device of {device.memory_bytes / 1e9:.0f}"
        )
    if wrong:
        raise SpecError(f"anchor: {wrong}.", "State [plan] as the measured run was divided.")


def assess(job: Job, plan: Plan, cluster: Cluster, measured: Measured | None = None) -> Candidate:
    """A plan with its step and its memory, corrected by a measured run."""
    step, memory = step_time(job, plan, cluster), memory_of(job, plan)
    if measured:
        step = step.scaled(measured.factor(job, plan, cluster))
    reach = math.exp(spread(job, plan, cluster, measured))
    return Candidate(
        plan=plan,
        step=step,
        memory=memory,
        seconds=step.seconds,
        seconds80=(step.seconds / reach, step.seconds * reach),
        memory_bytes=memory.bytes,
    )


def plan_job(
    job: Job,
    cluster: Cluster,
    scales: Sequence[int],
    threshold: float = THRESHOLD,
    anchor: Anchor | None = None,
) -> Planned:
    """The fastest plan that fits at every scale, what binds it, and where the knee is."""
    anchored = (anchor.precision,) if anchor and anchor.precision else ()
    for precision in (job.training.precision, job.training.wide_precision, *anchored):
        _check_precision(precision, cluster)
    measured = None if anchor is None else measured_step(job, cluster, anchor)
    rows: list[PlanRow] = []
    base: PlanRow | None = None
    for nodes in sorted(set(scales)):
        row = _row(job, cluster, nodes, base, measured)
        base = base or (row if row.best else None)
        rows.append(row)
    rows = _with_efficiency(rows)
    fitting = [row for row in rows if row.best is not None]
    return Planned(
        name=job.name,
        cluster=cluster.name,
        parameters=job.model.parameters,
        batch=job.training.batch,
        memory_bytes=cluster.accelerator.memory_bytes,
        rows=tuple(rows),
        base_nodes=base.nodes if base else None,
        fastest=max(fitting, key=_speedup).nodes if fitting else None,
        cheapest=min(fitting, key=_node_seconds).nodes if fitting else None,
        knee=_knee(fitting),
        threshold=threshold,
        last_above=_last_above(fitting, threshold),
        training_tokens=job.training.tokens,
        price=cluster.price,
        anchor_factor=measured.ratio if measured else None,
        notes=_notes(job, cluster, fitting, measured),
    )


def _check_precision(precision: Precision, cluster: Cluster) -> None:
    if precision not in cluster.accelerator.peak_flops:
        raise SpecError(
            f"training.precision: {precision} has no peak on {cluster.name}.",
            f"Use one of: {', '.join(cluster.accelerator.peak_flops)}.",
        )


def _row(
    job: Job, cluster: Cluster, nodes: int, base: PlanRow | None, measured: Measured | None
) -> PlanRow:
    candidates = [assess(job, plan, cluster, measured) for plan in plans_at(job, cluster, nodes)]
    limit = cluster.accelerator.memory_bytes
    fitting = [one for one in candidates if one.memory_bytes <= limit]
    devices = nodes * cluster.devices_per_node
    row = PlanRow(nodes=nodes, devices=devices, plans=len(candidates), fitting=len(fitting))
    if not candidates:
        return row
    least = min(one.memory_bytes for one in candidates)
    if not fitting:
        return msgspec.structs.replace(row, least_bytes=least)
    # Of plans that are equally fast the one that leaves most memory free
    best = min(fitting, key=lambda one: (one.seconds, one.memory_bytes))
    first = base.best if base and base.best else best
    first_nodes = base.nodes if base else nodes
    speedup = first.seconds / best.seconds
    tokens = job.training.batch * job.model.sequence
    peak = devices * cluster.accelerator.peak_flops[job.training.precision]
    return msgspec.structs.replace(
        row,
        best=best,
        speedup=speedup,
        model_flops_share=step_flops(job.model, job.training.batch) / best.seconds / peak,
        tokens_per_second=tokens / best.seconds,
        ceiling=CEILINGS[best.step.ceiling],
        lost_to=_lost_to(best.step, first.step, first_nodes / nodes),
        seconds_without_memory_limit=min(one.seconds for one in candidates),
        least_bytes=least,
        cost_per_billion_tokens=_cost(cluster.price, nodes, best.seconds * 1e9 / tokens),
    )


def _with_efficiency(rows: Sequence[PlanRow]) -> list[PlanRow]:
    """Efficiency against the scale that takes the fewest node-seconds, so never above one.

    That is the smallest scale, unless its memory forces a slower plan.
    """
    taken = {row.nodes: row.nodes * row.best.seconds for row in rows if row.best}
    fewest = min(taken.values(), default=0.0)
    return [
        msgspec.structs.replace(row, efficiency=fewest / taken[row.nodes]) if row.best else row
        for row in rows
    ]


def _lost_to(step: Step, first: Step, ideal: float) -> str | None:
    """The part that exceeds its ideal share of the first scale by most, if the step does."""
    if step.seconds <= first.seconds * ideal * (1 + 1e-9):
        return None
    part = max(CEILINGS, key=lambda one: getattr(step, one) - ideal * getattr(first, one))
    return CEILINGS[part]


def _cost(price: Price | None, nodes: int, seconds: float) -> float | None:
    if price is None or price.per_node_hour is None:
        return None
    rate = np.array([nodes * price.per_node_hour])
    return float(bill(price, rate, np.array([seconds])).total[0])


def _speedup(row: PlanRow) -> float:
    return row.speedup or 0.0


def _node_seconds(row: PlanRow) -> float:
    if row.cost_per_billion_tokens is not None:
        return row.cost_per_billion_tokens
    return row.nodes * row.best.seconds if row.best else float("inf")


def _knee(fitting: Sequence[PlanRow]) -> int | None:
    """The scale with the largest speedup x efficiency, unless that is the last one."""
    if len(fitting) < 2:
        return None
    best = max(fitting, key=lambda row: (row.speedup or 0.0) * (row.efficiency or 0.0))
    return None if best is fitting[-1] else best.nodes


def _last_above(fitting: Sequence[PlanRow], threshold: float) -> int | None:
    """The last scale before efficiency falls below the threshold, from its highest point on."""
    if not fitting:
        return None
    highest = max(range(len(fitting)), key=lambda at: fitting[at].efficiency or 0.0)
    last = None
    for row in fitting[highest:]:
        if (row.efficiency or 0.0) < threshold:
            break
        last = row.nodes
    return last


def _notes(
    job: Job, cluster: Cluster, fitting: Sequence[PlanRow], measured: Measured | None
) -> tuple[str, ...]:
    notes = [
        "on paper, no run was made. On published A100 runs the mean error is "
        f"{format_percent(FITTED_MEAN_ERROR)} where the one constant was fitted and "
        f"{format_percent(UNSEEN_MEAN_ERROR)} where it was not; Calculon has "
        f"{100 * CALCULON_MEAN_ERROR:.2f} % on the latter.",
    ]
    plans = [row.best.plan for row in fitting if row.best]
    if reaches := {math.expm1(spread(job, plan, cluster, measured)) for plan in plans}:
        ends = " or ".join(format_percent(reach) for reach in sorted(reaches))
        notes.append(
            f"the 80 % interval of a step is {ends} to either side, from published runs of other "
            "models."
        )
    if measured:
        notes.append(
            f"the measured run took {measured.ratio:.3g} times the computed step. That counts in "
            "full for dense models of its layout and precision, and less for others."
        )
    if not _device(cluster):
        notes.append(
            f"the constants were fitted on {', '.join(sorted(_SPREADS))} devices; for "
            f"{cluster.accelerator.name} they are an assumption."
        )
    if job.training.precision == "float4":
        notes.append("efficiency in 4 bits is assumed: no published run was fitted.")
    return tuple(notes)


def _divisors(number: int) -> list[int]:
    """All divisors, smallest first.

    >>> _divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [one for one in range(1, math.isqrt(number) + 1) if number % one == 0]
    large = [number // one for one in reversed(small) if one * one != number]
    return [*small, *large]


def _allowed(choices: Iterable[Choice], fixed: Choice | None) -> list[Choice]:
    return [choice for choice in choices if fixed is None or choice == fixed]
