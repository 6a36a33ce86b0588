"""Memory of a device under a plan."""

import msgspec

from nodewise.decide.paper.job import Job, Plan
from nodewise.decide.paper.step import expert_copies, stage_expert_parameters, stage_parameters
from nodewise.decide.paper.transformer import Recompute, activation_bytes, logits_bytes

_GATHERED_LAYERS = 2  # fully sharded: the layer in use and the next, which is on its way
# Times the logits in 32 bits, where the loss is not one kernel: softmax and two gradients; over
# tensor-parallel devices also the exponentials (torch.distributed.tensor.parallel.loss).
_UNFUSED_LOSS, _UNFUSED_PARALLEL_LOSS = 3, 4


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


def memory_of(job: Job, plan: Plan) -> Memory:
    """Bytes on the fullest device.

    weights + gradients + optimizer is 16 bytes a parameter with Adam in 16 bits, divided by tensor
    and pipeline and, where sharded, by data. The first stage keeps the activations of p
    micro-batches, of p + (p-1)/v with v chunks (arXiv 2205.05198, equation 5).
    """
    model, training = job.model, job.training
    dense, experts = stage_parameters(model, plan), stage_expert_parameters(model, plan)
    copies = expert_copies(plan)
    full, divided = plan.sharding == "full", plan.sharding != "none"
    held = dense / (plan.replicas if full else 1) + experts / (copies if full else 1)
    owned = dense / (plan.replicas if divided else 1) + experts / (copies if divided else 1)

    def kept_by_layer(recompute: Recompute) -> float:
        whole = activation_bytes(
            model,
            plan.micro_batch,
            plan.tensor,
            recompute,
            plan.sequence_parallel,
            training.weight_bytes,
        )
        return whole / plan.context

    layers, stages = model.layers / plan.pipeline, plan.pipeline
    chunks = (stages - 1) / plan.interleave if plan.interleave > 1 else 0
    in_flight = min(plan.micro_batches(training.batch), stages + chunks)
    again = kept_by_layer("none") if plan.recompute == "full" else 0.0
    logits = logits_bytes(model, plan.micro_batch, plan.tensor) / plan.context
    if not training.loss_is_fused:
        logits *= _UNFUSED_LOSS if plan.tensor == 1 else _UNFUSED_PARALLEL_LOSS
    gathered = 0.0
    if full:
        layer = model.layer_parameters / plan.tensor + model.expert_parameters / plan.expert
        gathered = layer * (_GATHERED_LAYERS * training.weight_bytes + training.gradient_bytes)
    return Memory(
        weights=held * training.weight_bytes,
        gradients=held * training.gradient_bytes,
        optimizer=owned * training.optimizer_bytes,
        activations=in_flight * layers * kept_by_layer(plan.recompute),
        working=max(again, logits) + gathered,
    )
