"""What a plan is made of: a cluster, a training job and how the job is divided."""

from typing import Literal

import msgspec

from nodewise.decide.paper.transformer import Recompute, Transformer
from nodewise.decide.prices.bill import Price
from nodewise.diagnose.links import Link, Share
from nodewise.diagnose.memory import Optimizer, optimizer_bytes
from nodewise.study.spec import Count, Positive

Precision = Literal["float4", "float8", "float16", "bfloat16", "tfloat32", "float32"]
LOW_PRECISIONS: tuple[Precision, ...] = ("float4", "float8")
Sharding = Literal["none", "optimizer", "full"]
SHARDINGS: tuple[Sharding, ...] = ("none", "optimizer", "full")
Software = Literal["megatron", "torch", "torch eager"]
Scaling = Literal["tensor", "row"]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a file; an unknown field is an error."""


class Accelerator(_Part, frozen=True, kw_only=True):
    """One device by its data sheet: dense peaks in FLOP/s, memory in decimal bytes.

    Devices hold a few percent more than the decimal figure; the driver and the communicators take
    that.
    """

    name: str = "own"
    peak_flops: dict[Precision, Positive]
    memory_bytes: Positive
    memory_bytes_per_second: Positive
    watts: Positive | None = None  # of the data sheet
    source: str = ""
    date: str = ""


class Efficiency(_Part, frozen=True, kw_only=True):
    """Shares of the data sheet that kernels reach.

    matrix: fitted on table 1 of arXiv 2104.04473 (A100). memory: between the 0.75 and 0.90 that
    Calculon's A100 file gives for transfers of 10 and of 100 MB. The others: benchmarks/plan.py.
    """

    matrix: Share = 0.72
    memory: Share = 0.85
    low_precision: Share = 0.66  # of matrices in 8 and 4 bits
    attention: Share = 0.60  # of flash attention, in 16 bits


class Cluster(_Part, frozen=True, kw_only=True):
    """Equal nodes of equal devices, a link inside a node and adapters to the network."""

    name: str
    accelerator: Accelerator
    devices_per_node: Count
    node_link: Link
    network: Link
    adapters_per_node: Positive
    link_domain: Count | None = None  # devices that node_link joins; None: those of a node
    power_cap_watts: Positive | None = None
    efficiency: Efficiency = Efficiency()
    price: Price | None = None

    @property
    def adapter(self) -> Link:
        """The network as one device has it while all devices of its node send."""
        return self.network.shared(self.adapters_per_node / self.devices_per_node)

    @property
    def joined(self) -> int:
        """Devices that the fast link joins."""
        return self.link_domain or self.devices_per_node


class Training(_Part, frozen=True, kw_only=True):
    """What a step is: sequences, precision, optimizer. The batch is the same at every scale.

    In 8 and 4 bits only the matrices of the layers are computed; weights, attention and the last
    matrix stay in 16.
    """

    batch: Count
    precision: Precision = "bfloat16"
    scaling: Scaling = "tensor"  # of 8 bits: one factor a tensor, or one a row
    gradient_precision: Precision | None = None  # None: as the weights
    optimizer: Optimizer = "adam"
    software: Software = "megatron"
    fused_loss: bool | None = None  # as a compiled loss is; None: Megatron's is, torch's is not
    overlap: bool = True  # gradients travel while the backward pass goes on
    tensor_overlap: bool = False  # tensor-parallel transfers run beside the matrices
    tokens: Positive | None = None  # of the whole training

    @property
    def low(self) -> bool:
        """Whether matrices are computed in fewer than 16 bits."""
        return self.precision in LOW_PRECISIONS

    @property
    def wide_precision(self) -> Precision:
        """What attention and the last matrix are computed in."""
        return "bfloat16" if self.low else self.precision

    @property
    def loss_is_fused(self) -> bool:
        """Whether the loss makes no copies of the logits in 32 bits."""
        return self.software == "megatron" if self.fused_loss is None else self.fused_loss

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
    context: Count | None = None
    expert: Count | None = None
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
    """How the job is divided: tensor x pipeline x context x data devices.

    Experts are divided over `expert` of the devices of a stage.
    """

    tensor: Count = 1
    pipeline: Count = 1
    data: Count = 1
    context: Count = 1
    expert: Count = 1
    micro_batch: Count = 1
    interleave: Count = 1  # chunks of layers on a stage
    sharding: Sharding = "none"  # over the data-parallel devices
    recompute: Recompute = "none"
    sequence_parallel: bool = False

    @property
    def devices(self) -> int:
        """All of them."""
        return self.tensor * self.pipeline * self.context * self.data

    @property
    def replicas(self) -> int:
        """Devices that hold the same weights, which exchange their gradients."""
        return self.data * self.context

    def micro_batches(self, batch: int) -> int:
        """How many follow each other in a step."""
        return batch // (self.data * self.micro_batch)


class Anchor(_Part, frozen=True, kw_only=True):
    """A measured step of the job; its batch and precision may differ from those planned."""

    seconds: Positive
    plan: Plan
    batch: Count | None = None
    precision: Precision | None = None


def _element_bytes(precision: Precision) -> int:
    return 4 if precision in ("tfloat32", "float32") else 2
