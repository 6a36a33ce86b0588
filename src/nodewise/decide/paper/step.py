"""Seconds of one training step of a plan, by what they are spent on.

    T = m (work + links of tensor, context and experts + pipeline link)
        + (p - 1)/v (the same) + data link + weight update

m micro-batches, p stages, v chunks of layers on a stage. Work is FLOPs over the reached peak plus
bytes over the reached memory bandwidth: a small or a thin matrix moves more bytes for each FLOP, so
kernel efficiency falls with the tile as it should. Collectives are rings, n bytes over N devices:
(N-1)/N n / bandwidth + (N-1) latency; an all-reduce is two.

Sources: Narayanan et al. 2021 (arXiv 2104.04473) for tensor and pipeline parallelism, Rajbhandari
et al. 2020 (arXiv 1910.02054) for sharding. The constants below that say so were fitted on
published runs by benchmarks/plan.py.
"""

import math
from typing import NamedTuple

import msgspec

from nodewise.decide.paper.job import Cluster, Job, Plan, Precision, Software
from nodewise.decide.paper.transformer import (
    Transformer,
    Work,
    layer_work,
    logits_work,
)
from nodewise.diagnose.links import Link

_WATTS_FOR_PEAK = 700 / 989.4e12  # of an H100, in 16 bits


class _Reached(NamedTuple):
    """How a training program uses a device; fitted."""

    attention: float  # of the share that flash attention reaches
    traffic: float  # times the bytes of the kernels between the matrices
    tensor_exposed: float  # of tensor-parallel transfers that run beside matrices


class Constants(msgspec.Struct, frozen=True, kw_only=True):
    """What no data sheet says. Fitted on published runs: benchmarks/plan.py."""

    software: dict[Software, _Reached]
    row_scaling: float  # share of 8-bit throughput that is left with a factor for each row
    four_bits: float  # share of the 8-bit efficiency that is left in 4 bits; assumed, not fitted
    casts: float  # times the bytes of casts to 8 or 4 bits
    row_casts: float  # the same, with a factor for each row
    short: float  # tokens of a sequence with which flash attention reaches half of its share
    context_cost: float  # more attention time for each doubling of context parallelism
    power: float  # exponent of the power cap in the matrix throughput
    grouped: float  # share of the matrix throughput that the matrices of experts reach
    expert_exposed: float  # of the all-to-all of experts
    permuted: float  # passes over the tokens of all experts, to bring them into order and back
    routing_seconds: float  # of a layer and a micro-batch: kernels that wait for each other


CONSTANTS = Constants(
    software={
        "megatron": _Reached(1.0, 1.0, 0.316),
        "torch": _Reached(0.472, 1.12, 0.744),
        "torch eager": _Reached(0.472, 2.08, 0.744),
    },
    row_scaling=0.681,
    four_bits=0.7,
    casts=0.911,
    row_casts=4.79,
    short=1490,
    context_cost=0.109,
    power=0.584,
    grouped=0.477,
    expert_exposed=0.19,
    permuted=83.0,
    routing_seconds=2e-3,
)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of a step by what they are spent on; they add up."""

    matrix: float
    memory: float
    tensor: float
    pipeline: float
    bubble: float
    data: float
    update: float
    context: float = 0.0
    experts: float = 0.0

    @property
    def seconds(self) -> float:
        """The step."""
        links = self.tensor + self.pipeline + self.data + self.context + self.experts
        return self.matrix + self.memory + links + self.bubble + self.update

    @property
    def ceiling(self) -> str:
        """The part that most seconds go to."""
        return max(CEILINGS, key=lambda part: getattr(self, part))

    def scaled(self, factor: float) -> "Step":
        """Every part, times a factor."""
        return Step(**{part: factor * getattr(self, part) for part in CEILINGS})


CEILINGS = {
    "matrix": "matrix units",
    "memory": "memory bandwidth",
    "tensor": "tensor-parallel link",
    "context": "context-parallel link",
    "experts": "exchange of experts",
    "pipeline": "pipeline link",
    "bubble": "pipeline bubble",
    "data": "data-parallel link",
    "update": "weight update",
}


def step_time(job: Job, plan: Plan, cluster: Cluster, constants: Constants = CONSTANTS) -> Step:
    """Seconds of one step of a plan, by what they are spent on."""
    return _Stepping(job, plan, cluster, constants).step()


class _Stepping:
    """One step of one plan."""

    def __init__(self, job: Job, plan: Plan, cluster: Cluster, constants: Constants) -> None:
        self.job, self.plan, self.cluster, self.constants = job, plan, cluster, constants
        self.model, self.training = job.model, job.training
        self.reached = constants.software[self.training.software]
        self.element = self.training.weight_bytes
        self.layers = self.model.layers / plan.pipeline
        self.tokens = plan.micro_batch * self.model.sequence / plan.context

    def step(self) -> Step:
        plan, job = self.plan, self.job
        batches = plan.micro_batches(self.training.batch)
        layer = layer_work(
            self.model,
            plan.micro_batch,
            plan.tensor,
            plan.sequence_parallel,
            self.element,
            plan.context,
        )
        torch = self.training.software != "megatron"
        backward_layer = layer.backward + layer.recomputed(plan.recompute, stops_early=torch)
        repeats = 4 if plan.recompute == "full" else 3
        experts = (layer.experts * (repeats * self.layers)).flops
        grouped = experts / (self._matrix_rate() * self.constants.grouped) if experts else 0.0
        matrix, memory = self._seconds((layer.forward + backward_layer) * self.layers)
        exchange = self.layers * self._expert_seconds(experts_repeat=repeats)

        # Two all-reduces a layer forward, two backward, and two more to go forward again. Each is a
        # gather and a scatter: by operator, torch keeps what was scattered; full, it stops before
        # the last scatter of a layer.
        repeated = 3 if plan.recompute == "full" else 2
        passes = {"full": 2.75, "operator": 2.5}.get(plan.recompute, 2.0) if torch else repeated
        sent = self.element * self.tokens * self.model.hidden
        exposed = self.reached.tensor_exposed if self.training.tensor_overlap else 1.0
        tensor = exposed * 2 * passes * self.layers * self._ring(sent)
        context = self._context_seconds(layer.attention, repeated)
        pipeline = self._pipeline_seconds(sent)
        links = tensor + context + exchange + pipeline
        stage_seconds = matrix + memory + grouped + links
        bubble = (plan.pipeline - 1) / plan.interleave * stage_seconds
        last_matrix, last_memory = self._last_seconds()

        backward = sum(self._seconds(backward_layer)) * self.layers
        backward += tensor * (1 - 1 / passes) + (grouped + exchange) * (1 - 1 / repeats)
        return Step(
            matrix=batches * (matrix + grouped + last_matrix),
            memory=batches * (memory + last_memory),
            tensor=batches * tensor,
            context=batches * context,
            experts=batches * exchange,
            pipeline=batches * pipeline,
            bubble=bubble,
            data=_data_seconds(job, plan, self.cluster, batches, batches * stage_seconds, backward),
            update=self._update_seconds(),
        )

    def _matrix_rate(self, precision: Precision | None = None) -> float:
        """FLOP/s of matrices, with the power cap."""
        cluster, training = self.cluster, self.training
        precision = precision or training.precision
        low = training.low and precision == training.precision
        share = cluster.efficiency.low_precision if low else cluster.efficiency.matrix
        if low and training.scaling == "row":
            share *= self.constants.row_scaling
        if precision == "float4":
            share *= self.constants.four_bits
        return cluster.accelerator.peak_flops[precision] * share * self._capped()

    @property
    def _memory_rate(self) -> float:
        """Bytes a second that kernels reach in the memory of the device."""
        device = self.cluster.accelerator
        return device.memory_bytes_per_second * self.cluster.efficiency.memory

    def _capped(self) -> float:
        """What power leaves of the matrix throughput.

        Under a cap below the data sheet's watts, as fitted. A device with fewer watts for its peak
        than an H100 sustains less of that peak; half of the exponent is assumed for it.
        """
        device, power = self.cluster.accelerator, self.constants.power
        if device.watts is None:
            return 1.0
        cap = min(1.0, (self.cluster.power_cap_watts or device.watts) / device.watts)
        peak = device.peak_flops.get("bfloat16") or device.peak_flops[self.training.precision]
        supply = min(1.0, device.watts / peak / _WATTS_FOR_PEAK)
        return float(cap**power * supply ** (power / 2))

    def _seconds(self, work: Work, precision: Precision | None = None) -> tuple[float, float]:
        """Seconds on the matrix units, and on the memory of the device."""
        constants = self.constants
        matrix = work.flops / self._matrix_rate(precision)
        if work.flash:
            matrix += work.flash / self._attention_rate()
        moved = work.bytes
        if precision is None:
            moved *= self.reached.traffic
            if self.training.low:
                row = self.training.scaling == "row"
                moved += work.cast_bytes * (constants.row_casts if row else constants.casts)
        return matrix, moved / self._memory_rate

    def _attention_rate(self) -> float:
        """FLOP/s of flash attention: less for short sequences, and for parts of a sequence."""
        peak = self.cluster.accelerator.peak_flops[self.training.wide_precision] * self._capped()
        share = self.cluster.efficiency.attention * self.reached.attention
        sequence = self.model.sequence
        long = sequence / (sequence + self.constants.short)
        parts = 1 + self.constants.context_cost * math.log2(self.plan.context)
        return peak * share * long / parts

    def _last_seconds(self) -> tuple[float, float]:
        """The last matrix and the loss, on the last stage.

        Layers that do not divide evenly leave room for them, so that the stages are alike.
        """
        work = logits_work(
            self.model, self.plan.micro_batch, self.plan.tensor, self.element, self.plan.context
        )
        even = self.model.layers % (self.plan.pipeline * self.plan.interleave) == 0
        return self._seconds(
            work * (1 if even else 1 / self.plan.pipeline), self.training.wide_precision
        )

    def _ring(self, sent: float) -> float:
        """An all-reduce over the tensor-parallel devices; beyond the fast link, over adapters."""
        inside = self.plan.tensor <= self.cluster.joined
        link = self.cluster.node_link if inside else self.cluster.adapter
        return link.ring(sent, self.plan.tensor)

    def _context_seconds(self, attention: Work, passes: int) -> float:
        """Keys and values of the other devices; what attention does not hide."""
        plan = self.plan
        if plan.context == 1:
            return 0.0
        inside = plan.tensor * plan.context <= self.cluster.joined
        link = self.cluster.node_link if inside else self.cluster.adapter
        pairs = 2 * self.model.key_value_width / plan.tensor
        whole = self.element * plan.micro_batch * self.model.sequence * pairs
        travelling = (passes + 1) * link.gather(whole, plan.context)
        hiding = 3.5 * self._seconds(attention)[0]
        return self.layers * max(0.0, travelling - hiding)

    def _expert_seconds(self, experts_repeat: int) -> float:
        """Tokens to their experts and back, in a layer: the links, the order, the waiting.

        A token goes to a device of another fast link at most once for all its experts there.
        """
        model, plan, cluster = self.model, self.plan, self.cluster
        if not model.experts:
            return 0.0
        ways = 2 * (experts_repeat - 1)  # there and back; the same again in the backward pass
        tokens, chosen = self.tokens / plan.tensor, model.experts_per_token
        size = self.element * tokens * model.hidden
        group = plan.expert * plan.tensor
        inside = min(group, cluster.joined) / group
        near = size * chosen * (1 - 1 / plan.expert) * inside / cluster.node_link.rate
        far = size * min(chosen, group / cluster.joined) * (1 - inside) / cluster.adapter.rate
        travelling = self.constants.expert_exposed * ways * (near + far)
        moved = self.constants.permuted * size * chosen / self._memory_rate
        return travelling + moved + self.constants.routing_seconds

    def _pipeline_seconds(self, sent: float) -> float:
        """Activations and their gradients to the next stage and chunk, for one micro-batch.

        Each tensor-parallel device sends its part (scatter/gather of arXiv 2104.04473, section
        4.1); without sequence parallelism the parts are gathered again inside the node.
        """
        plan, cluster = self.plan, self.cluster
        if plan.pipeline == 1:
            return 0.0
        inside = plan.devices <= cluster.joined
        link = cluster.node_link if inside else cluster.adapter
        hop = link.message(sent / plan.tensor)
        if not plan.sequence_parallel:
            hop += cluster.node_link.gather(sent, plan.tensor)
        return 2 * plan.interleave * hop

    def _update_seconds(self) -> float:
        """The optimizer reads and writes its states, and reads the gradients for norm and step."""
        training, plan = self.training, self.plan
        divided = plan.sharding != "none"
        owned = stage_parameters(self.model, plan) / (plan.replicas if divided else 1)
        copies = expert_copies(plan) if divided else 1.0
        owned += stage_expert_parameters(self.model, plan) / copies
        moved = 2 * training.optimizer_bytes + training.weight_bytes + 2 * training.gradient_bytes
        return owned * moved / self._memory_rate


def _data_link(plan: Plan, cluster: Cluster) -> Link:
    """What a data-parallel group rings over: tensor groups first, then data, stages outermost.

    The ranks of a group that a fast link joins share their adapters, up to that link.
    """
    ranks_joined = max(1, cluster.joined // plan.tensor)
    if plan.replicas <= ranks_joined:
        return cluster.node_link
    ringing = cluster.adapter.shared(ranks_joined)
    most = cluster.node_link.rate / ringing.efficiency
    return msgspec.structs.replace(
        ringing,
        bytes_per_second=min(ringing.bytes_per_second, most),
        device_share=(cluster.node_link if ranks_joined > 1 else ringing).device_share,
    )


def _data_seconds(
    job: Job, plan: Plan, cluster: Cluster, batches: int, busy: float, backward: float
) -> float:
    """What the exchange of gradients, and of sharded weights, adds to the step.

    Gradients travel once, behind the last backward pass. Fully sharded, every layer is gathered
    forward and backward and its gradients are scattered, in every micro-batch, behind all work.
    """
    if plan.replicas == 1:
        return 0.0
    link, training = _data_link(plan, cluster), job.training
    parameters = stage_parameters(job.model, plan)
    scattered = link.gather(parameters * training.gradient_bytes, plan.replicas)
    weights = link.gather(parameters * training.weight_bytes, plan.replicas)
    if experts := stage_expert_parameters(job.model, plan):
        copies = expert_copies(plan)
        scattered += link.gather(experts * training.gradient_bytes, copies)
        weights += link.gather(experts * training.weight_bytes, copies)
    if plan.sharding == "full":
        layers = job.model.layers // plan.pipeline
        hops = 3 * (layers - 1) * (plan.replicas - 1) * link.latency_seconds
        travelling, hiding = batches * (2 * weights + scattered + hops), busy
    else:
        # Reduced gradients come back to every device, or the new weights that were made of them
        returned = weights if plan.sharding == "optimizer" else scattered
        travelling, hiding = scattered + returned, backward
    if not training.overlap:
        return travelling
    hidden = min(travelling, hiding)
    return travelling - hidden + link.device_share * hidden


def stage_parameters(model: Transformer, plan: Plan) -> float:
    """Parameters of the fullest device: its layers, and the words on the first or last stage."""
    words = model.embedding_parameters
    if plan.pipeline == 1 and not model.tied_embeddings:
        words += model.vocabulary * model.hidden
    return (model.layers / plan.pipeline * model.layer_parameters + words) / plan.tensor


def stage_expert_parameters(model: Transformer, plan: Plan) -> float:
    """Parameters of the experts on a device."""
    return model.layers / plan.pipeline * model.expert_parameters / plan.expert


def expert_copies(plan: Plan) -> float:
    """Devices of a stage that hold the same experts."""
    return max(1.0, plan.tensor * plan.replicas / plan.expert)
