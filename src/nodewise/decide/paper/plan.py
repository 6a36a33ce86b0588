"""How a transformer is divided over the devices of a cluster, and what a step of it then takes.

A plan is tensor x pipeline x data devices. Its step, on the device with most to do:

    T = m (work + tensor link + pipeline link) + (p - 1)/v (the same) + data link + weight update

m micro-batches, p stages, v chunks of layers on a stage. Work is FLOPs over the reached peak plus
bytes over the reached memory bandwidth: a small or a thin matrix moves more bytes for each FLOP, so
kernel efficiency falls with the tile as it should, and nothing is fitted for a size. Collectives
are rings, n bytes over N devices: (N-1)/N n / bandwidth + (N-1) latency; an all-reduce is two.

Sources: Narayanan et al. 2021 (arXiv 2104.04473) for tensor and pipeline parallelism, Rajbhandari
et al. 2020 (arXiv 1910.02054) for sharding, Korthikanti et al. 2022 (arXiv 2205.05198) for memory.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeVar

import msgspec
import numpy as np

from nodewise.base.errors import SpecError
from nodewise.base.units import format_percent
from nodewise.decide.paper.transformer import (
    RECOMPUTES,
    Recompute,
    Transformer,
    Work,
    activation_bytes,
    layer_work,
    logits_bytes,
    logits_work,
    step_flops,
)
from nodewise.decide.prices.bill import Price, bill
from nodewise.diagnose.links import Link, Share
from nodewise.diagnose.memory import Optimizer, optimizer_bytes
from nodewise.explain.scaling import THRESHOLD
from nodewise.study.spec import Count, Positive

Precision = Literal["float16", "bfloat16", "tfloat32", "float32"]
Sharding = Literal["none", "optimizer", "full"]
SHARDINGS: tuple[Sharding, ...] = ("none", "optimizer", "full")
Choice = TypeVar("Choice")

_LARGEST_MICRO_BATCH = 16
_GATHERED_LAYERS = 2  # fully sharded: the layer in use and the next, which is on its way

# Mean error of the step time on published A100 runs: the ten of table 1 of arXiv 2104.04473, where
# `Efficiency.matrix` was fitted, and the eight of table 5 of arXiv 2205.05198, where nothing was.
# Calculon (its own validation, with a system file tuned for these runs) is off by 3.65 % on the
# same eight.
FITTED_MEAN_ERROR, UNSEEN_MEAN_ERROR, CALCULON_MEAN_ERROR = 0.017, 0.078, 0.0365


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a file; a field that it does not know is an error, not a silence."""


class Accelerator(_Part, frozen=True, kw_only=True):
    """One device by its data sheet: dense peaks in FLOP/s, memory in decimal bytes.

    Devices hold a few percent more than the decimal figure; the driver and the communicators take
    that.
    """

    name: str = "own"
    peak_flops: dict[Precision, Positive]
    memory_bytes: Positive
    memory_bytes_per_second: Positive
    source: str = ""
    date: str = ""


class Efficiency(_Part, frozen=True, kw_only=True):
    """Shares of the data sheet that kernels reach; the only constant that was fitted is `matrix`.

    matrix: fitted on table 1 of arXiv 2104.04473 (A100). memory: between the 0.75 and 0.90 that
    Calculon's A100 file gives for transfers of 10 and of 100 MB.
    """

    matrix: Share = 0.72
    memory: Share = 0.85


class Cluster(_Part, frozen=True, kw_only=True):
    """Equal nodes of equal devices, a link inside a node and adapters to the network."""

    name: str
    accelerator: Accelerator
    devices_per_node: Count
    node_link: Link
    network: Link
    adapters_per_node: Positive
    efficiency: Efficiency = Efficiency()
    price: Price | None = None

    @property
    def adapter(self) -> Link:
        """The network as one device has it while all devices of its node send."""
        return self.network.shared(self.adapters_per_node / self.devices_per_node)


class Training(_Part, frozen=True, kw_only=True):
    """What a step is: sequences, precision, optimizer. The batch is the same at every scale."""

    batch: Count
    precision: Precision = "bfloat16"
    gradient_precision: Precision | None = None  # None: as the weights
    optimizer: Optimizer = "adam"
    overlap: bool = True  # gradients travel while the backward pass goes on
    tokens: Positive | None = None  # of the whole training

    @property
    def weight_bytes(self) -> int:
        """Bytes of a weight, and of an activation."""
        return _element_bytes(self.precision)

    @property
    def gradient_bytes(self) -> int:
        """Bytes of a gradient."""
        return _element_bytes(self.gradient_precision or self.precision)

    @property
    def optimizer_bytes(self) -> float:
        """Bytes of optimizer state a parameter; weights of 16 bits have a copy in 32."""
        return optimizer_bytes(self.optimizer, "mixed" if self.weight_bytes < 4 else "fp32")


class Fixed(_Part, frozen=True, kw_only=True):
    """What is not searched: a plan must have these."""

    tensor: Count | None = None
    pipeline: Count | None = None
    micro_batch: Count | None = None
    interleave: Count | None = None
    sharding: Sharding | None = None
    recompute: Recompute | None = None
    sequence_parallel: bool | None = None


class Job(_Part, frozen=True, kw_only=True):
    """A transformer and how it is trained."""

    name: str
    model: Transformer
    training: Training
    fixed: Fixed = Fixed()


class Plan(_Part, frozen=True, kw_only=True):
    """How the job is divided: tensor x pipeline x data devices."""

    tensor: Count = 1
    pipeline: Count = 1
    data: Count = 1
    micro_batch: Count = 1
    interleave: Count = 1  # chunks of layers on a stage
    sharding: Sharding = "none"  # over the data-parallel devices
    recompute: Recompute = "none"
    sequence_parallel: bool = False

    @property
    def devices(self) -> int:
        """All of them."""
        return self.tensor * self.pipeline * self.data

    def micro_batches(self, batch: int) -> int:
        """How many follow each other in a step."""
        return batch // (self.data * self.micro_batch)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of a step by what they are spent on; they add up."""

    matrix: float
    memory: float
    tensor: float
    pipeline: float
    bubble: float
    data: float
    update: float

    @property
    def seconds(self) -> float:
        """The step."""
        links = self.tensor + self.pipeline + self.data
        return self.matrix + self.memory + links + self.bubble + self.update

    @property
    def ceiling(self) -> str:
        """The part that most seconds go to."""
        return max(CEILINGS, key=lambda part: getattr(self, part))


CEILINGS = {
    "matrix": "matrix units",
    "memory": "memory bandwidth",
    "tensor": "tensor-parallel link",
    "pipeline": "pipeline link",
    "bubble": "pipeline bubble",
    "data": "data-parallel link",
    "update": "weight update",
}


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on the fullest device by what they hold; they add up."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    working: float  # of the moment: logits, a layer that is recomputed or gathered

    @property
    def bytes(self) -> float:
        """All of it."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.working


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A plan with its step and its memory."""

    plan: Plan
    step: Step
    memory: Memory
    seconds: float
    memory_bytes: float


class PlanRow(msgspec.Struct, frozen=True, kw_only=True, rename={"nodes": "K"}):
    """The fastest plan that fits at one scale, or none."""

    nodes: int
    devices: int
    plans: int  # that divide the job at this scale
    fitting: int
    best: Candidate | None = None
    speedup: float | None = None  # over the smallest scale that fits
    efficiency: float | None = None
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
    notes: tuple[str, ...]

    @property
    def fitting(self) -> tuple[PlanRow, ...]:
        """The scales that have a plan."""
        return tuple(row for row in self.rows if row.best is not None)

    def row(self, nodes: int) -> PlanRow:
        """The row of one scale."""
        return next(row for row in self.rows if row.nodes == nodes)


def step_time(job: Job, plan: Plan, cluster: Cluster) -> Step:
    """Seconds of one step of a plan, by what they are spent on."""
    model, training = job.model, job.training
    element = training.weight_bytes
    layers, batches = model.layers / plan.pipeline, plan.micro_batches(training.batch)
    tokens = plan.micro_batch * model.sequence

    layer = layer_work(model, plan.micro_batch, plan.tensor, plan.sequence_parallel, element)
    backward_layer = layer.backward + layer.recomputed(plan.recompute)
    stage = (layer.forward + backward_layer) * layers
    busiest = stage + logits_work(model, plan.micro_batch, plan.tensor, element)
    matrix, memory = _seconds(busiest, job, cluster)

    # Two all-reduces a layer forward, two backward, and two more to go forward again
    passes = 3 if plan.recompute == "full" else 2
    sent = element * tokens * model.hidden
    tensor = 2 * passes * layers * cluster.node_link.ring(sent, plan.tensor)

    pipeline = _pipeline_seconds(plan, sent, cluster)
    stage_seconds = sum(_seconds(stage, job, cluster)) + tensor + pipeline
    bubble = (plan.pipeline - 1) / plan.interleave * stage_seconds

    backward = sum(_seconds(backward_layer, job, cluster)) * layers + tensor * (1 - 1 / passes)
    data = _data_seconds(job, plan, cluster, batches, batches * stage_seconds, backward)
    return Step(
        matrix=batches * matrix,
        memory=batches * memory,
        tensor=batches * tensor,
        pipeline=batches * pipeline,
        bubble=bubble,
        data=data,
        update=_update_seconds(job, plan, cluster),
    )


def _seconds(work: Work, job: Job, cluster: Cluster) -> tuple[float, float]:
    """Seconds on the matrix units, and on the memory of the device."""
    device, reached = cluster.accelerator, cluster.efficiency
    return (
        work.flops / (device.peak_flops[job.training.precision] * reached.matrix),
        work.bytes / (device.memory_bytes_per_second * reached.memory),
    )


def _pipeline_seconds(plan: Plan, sent: float, cluster: Cluster) -> float:
    """Activations and their gradients to the next stage and chunk, for one micro-batch.

    Each tensor-parallel device sends its part (scatter/gather of arXiv 2104.04473, section 4.1);
    without sequence parallelism the parts are gathered again inside the node.
    """
    if plan.pipeline == 1:
        return 0.0
    inside = plan.devices <= cluster.devices_per_node
    link = cluster.node_link if inside else cluster.adapter
    hop = link.message(sent / plan.tensor)
    if not plan.sequence_parallel:
        hop += cluster.node_link.gather(sent, plan.tensor)
    return 2 * plan.interleave * hop


def _data_link(plan: Plan, cluster: Cluster) -> Link:
    """What a data-parallel group rings over: tensor groups first, then data, stages outermost.

    The ranks of a group on one node share their adapters, up to the link inside the node.
    """
    ranks_on_node = cluster.devices_per_node // plan.tensor
    if plan.data <= ranks_on_node:
        return cluster.node_link
    ringing = cluster.adapter.shared(ranks_on_node)
    most = cluster.node_link.rate / ringing.efficiency
    return msgspec.structs.replace(
        ringing,
        bytes_per_second=min(ringing.bytes_per_second, most),
        device_share=(cluster.node_link if ranks_on_node > 1 else ringing).device_share,
    )


def _data_seconds(
    job: Job, plan: Plan, cluster: Cluster, batches: int, busy: float, backward: float
) -> float:
    """What the exchange of gradients, and of sharded weights, adds to the step.

    Gradients travel once, behind the last backward pass. Fully sharded, every layer is gathered
    forward and backward and its gradients are scattered, in every micro-batch, behind all work.
    """
    if plan.data == 1:
        return 0.0
    link, training = _data_link(plan, cluster), job.training
    parameters = _stage_parameters(job.model, plan)
    scattered = link.gather(parameters * training.gradient_bytes, plan.data)
    weights = link.gather(parameters * training.weight_bytes, plan.data)
    if plan.sharding == "full":
        layers = job.model.layers // plan.pipeline
        hops = 3 * (layers - 1) * (plan.data - 1) * link.latency_seconds
        travelling, hiding = batches * (2 * weights + scattered + hops), busy
    else:
        # Reduced gradients come back to every device, or the new weights that were made of them
        returned = weights if plan.sharding == "optimizer" else scattered
        travelling, hiding = scattered + returned, backward
    if not training.overlap:
        return travelling
    hidden = min(travelling, hiding)
    return travelling - hidden + link.device_share * hidden


def _update_seconds(job: Job, plan: Plan, cluster: Cluster) -> float:
    """The optimizer reads and writes its states and reads the gradients twice: norm, then step."""
    training = job.training
    owned = _stage_parameters(job.model, plan) / (1 if plan.sharding == "none" else plan.data)
    moved = 2 * training.optimizer_bytes + training.weight_bytes + 2 * training.gradient_bytes
    return _seconds(Work(bytes=owned * moved), job, cluster)[1]


def _stage_parameters(model: Transformer, plan: Plan) -> float:
    """Parameters of the fullest device: its layers, and the words on the first or last stage."""
    words = model.embedding_parameters
    if plan.pipeline == 1 and not model.tied_embeddings:
        words += model.vocabulary * model.hidden
    return (model.layers / plan.pipeline * model.layer_parameters + words) / plan.tensor


def memory_of(job: Job, plan: Plan) -> Memory:
    """Bytes on the fullest device.

    weights + gradients + optimizer is 16 bytes a parameter with Adam in 16 bits, divided by tensor
    and pipeline and, where sharded, by data. The first stage keeps the activations of p
    micro-batches, of p + (p-1)/v with v chunks (arXiv 2205.05198, equation 5).
    """
    model, training = job.model, job.training
    parameters = _stage_parameters(model, plan)
    over_data = {"none": (1, 1), "optimizer": (1, plan.data), "full": (plan.data, plan.data)}
    weights_over, optimizer_over = over_data[plan.sharding]

    def kept_by_layer(recompute: Recompute) -> float:
        return activation_bytes(
            model,
            plan.micro_batch,
            plan.tensor,
            recompute,
            plan.sequence_parallel,
            training.weight_bytes,
        )

    layers, stages = model.layers / plan.pipeline, plan.pipeline
    chunks = (stages - 1) / plan.interleave if plan.interleave > 1 else 0
    in_flight = min(plan.micro_batches(training.batch), stages + chunks)
    again = kept_by_layer("none") if plan.recompute == "full" else 0.0
    logits = logits_bytes(model, plan.micro_batch, plan.tensor)
    gathered = 0.0
    if plan.sharding == "full":
        layer = model.layer_parameters / plan.tensor
        gathered = layer * (_GATHERED_LAYERS * training.weight_bytes + training.gradient_bytes)
    return Memory(
        weights=parameters * training.weight_bytes / weights_over,
        gradients=parameters * training.gradient_bytes / weights_over,
        optimizer=parameters * training.optimizer_bytes / optimizer_over,
        activations=in_flight * layers * kept_by_layer(plan.recompute),
        working=max(again, logits) + gathered,
    )


def plans_at(job: Job, cluster: Cluster, nodes: int) -> Iterator[Plan]:
    """Every plan that uses all devices of `nodes` nodes; a tensor group stays inside a node."""
    model, fixed = job.model, job.fixed
    devices = nodes * cluster.devices_per_node
    key_value_heads = model.key_value_heads or model.heads
    for tensor in _allowed(_divisors(cluster.devices_per_node), fixed.tensor):
        if model.heads % tensor or key_value_heads % tensor:
            continue
        for pipeline in _allowed(_divisors(devices // tensor), fixed.pipeline):
            data = devices // tensor // pipeline
            if model.layers % pipeline == 0 and job.training.batch % data == 0:
                yield from _variants(job, tensor, pipeline, data)


def _variants(job: Job, tensor: int, pipeline: int, data: int) -> Iterator[Plan]:
    """The plans of one division: micro-batch, chunks, sharding and recomputation."""
    fixed, sequences = job.fixed, job.training.batch // data
    together = tensor > 1 if fixed.sequence_parallel is None else fixed.sequence_parallel
    most = fixed.micro_batch or _LARGEST_MICRO_BATCH
    for micro_batch in _allowed([n for n in _divisors(sequences) if n <= most], fixed.micro_batch):
        chunks = [1]
        if pipeline > 1 and sequences // micro_batch % pipeline == 0:
            chunks = _divisors(job.model.layers // pipeline)
        for interleave in _allowed(chunks, fixed.interleave):
            for sharding in _allowed(SHARDINGS if data > 1 else ("none",), fixed.sharding):
                for recompute in _allowed(RECOMPUTES, fixed.recompute):
                    yield Plan(
                        tensor=tensor,
                        pipeline=pipeline,
                        data=data,
                        micro_batch=micro_batch,
                        interleave=interleave,
                        sharding=sharding,
                        recompute=recompute,
                        sequence_parallel=together,
                    )


def assess(job: Job, plan: Plan, cluster: Cluster) -> Candidate:
    """A plan with its step and its memory."""
    step, memory = step_time(job, plan, cluster), memory_of(job, plan)
    return Candidate(
        plan=plan, step=step, memory=memory, seconds=step.seconds, memory_bytes=memory.bytes
    )


def plan_job(
    job: Job, cluster: Cluster, scales: Sequence[int], threshold: float = THRESHOLD
) -> Planned:
    """The fastest plan that fits at every scale, what binds it, and where the knee is."""
    if job.training.precision not in cluster.accelerator.peak_flops:
        raise SpecError(
            f"training.precision: {job.training.precision} has no peak on {cluster.name}.",
            f"Use one of: {', '.join(cluster.accelerator.peak_flops)}.",
        )
    rows: list[PlanRow] = []
    base: PlanRow | None = None
    for nodes in sorted(set(scales)):
        row = _row(job, cluster, nodes, base)
        base = base or (row if row.best else None)
        rows.append(row)
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
        notes=_notes(cluster),
    )


def _row(job: Job, cluster: Cluster, nodes: int, base: PlanRow | None) -> PlanRow:
    candidates = [assess(job, plan, cluster) for plan in plans_at(job, cluster, nodes)]
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
        efficiency=speedup * first_nodes / nodes,
        model_flops_share=step_flops(job.model, job.training.batch) / best.seconds / peak,
        tokens_per_second=tokens / best.seconds,
        ceiling=CEILINGS[best.step.ceiling],
        lost_to=_lost_to(best.step, first.step, first_nodes / nodes),
        seconds_without_memory_limit=min(one.seconds for one in candidates),
        least_bytes=least,
        cost_per_billion_tokens=_cost(cluster.price, nodes, best.seconds * 1e9 / tokens),
    )


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
    """The last scale before efficiency falls below the threshold."""
    last = None
    for row in fitting:
        if (row.efficiency or 0.0) < threshold:
            break
        last = row.nodes
    return last


def _notes(cluster: Cluster) -> tuple[str, ...]:
    notes = [
        "on paper, no run was made. On published A100 runs the mean error is "
        f"{format_percent(FITTED_MEAN_ERROR)} where the one constant was fitted and "
        f"{format_percent(UNSEEN_MEAN_ERROR)} where it was not; Calculon has "
        f"{100 * CALCULON_MEAN_ERROR:.2f} % on the latter.",
    ]
    if not cluster.accelerator.name.startswith("A100"):
        notes.append(
            f"the constant was fitted on A100 devices; for {cluster.accelerator.name} it is an "
            "assumption."
        )
    return tuple(notes)


def _element_bytes(precision: Precision) -> int:
    return 2 if precision in ("float16", "bfloat16") else 4


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
