"""What K counts: nodes, GPUs, ranks, cores or replicas; and how many of them share a node."""

import re
from typing import TYPE_CHECKING, Annotated

import msgspec

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from nodewise.base.stats import Floats

PerNode = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]

NODE = "node"
_NODES = {"node", "machine", "server", "host", "instance"}
_SHORT = {"proc": "process", "cpu": "CPU", "gpu": "GPU", "tpu": "TPU", "gcd": "GCD",
          "vcpu": "vCPU"}  # fmt: skip
_COUNTED = {
    NODE, "GPU", "TPU", "GCD", "CPU", "accelerator", "device", "chip", "core", "thread", "rank",
    "process", "task", "worker", "replica", "executor", "client", "user",
}  # fmt: skip
_WORD = re.compile(r"[a-z][a-z -]{0,28}[a-z]|[a-z]", re.IGNORECASE)


class ScaleUnit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one of K is, and how many of them share a node."""

    unit: str = NODE  # in the singular
    # None: unknown. Where K counts nodes: the devices of a node, of which a price may be.
    per_node: PerNode | None = None
    device: str = ""  # what `per_node` counts where K counts nodes; empty: not stated

    @property
    def counts_nodes(self) -> bool:
        """Whether K is a number of nodes."""
        return self.unit == NODE

    @property
    def knows_nodes(self) -> bool:
        """Whether the number of nodes follows from K."""
        return self.counts_nodes or self.per_node is not None

    @property
    def per_scale(self) -> int:
        """How many of K fill a node; 1 where that is unknown."""
        return 1 if self.counts_nodes else self.per_node or 1

    @property
    def metered(self) -> str:
        """What a price without a unit is for: a node where K tells the nodes, else one of K."""
        return NODE if self.knows_nodes else self.unit

    @property
    def hours(self) -> str:
        """The currency of a bill without a price: hours of whole nodes where these are known."""
        return f"{self.metered}-h"

    def nodes(self, scales: "ArrayLike") -> "Floats":
        """The nodes that hold each K; K itself where it is not stated how many share a node.

        >>> ScaleUnit(unit="GPU", per_node=8).nodes([4, 8, 12])
        array([1., 1., 2.])
        """
        import numpy as np

        count = np.asarray(scales, dtype=np.float64)
        return np.ceil(count / self.per_scale)

    def named(self, scale: float) -> str:
        """A scale in words.

        >>> ScaleUnit(unit="GPU", per_node=8).named(16), ScaleUnit().named(1)
        ('16 GPUs (2 nodes)', '1 node')
        """
        words = f"{scale:g} {self.unit if scale == 1 else plural(self.unit)}"
        if self.counts_nodes or self.per_node is None:
            return words
        return f"{words} ({ScaleUnit().named(float(self.nodes(scale)))})"


def parse_unit(text: str) -> str:
    """A unit in the singular, from a word in the singular or the plural.

    >>> [parse_unit(word) for word in ("gpus", "Nodes", "processes", "rank")]
    ['GPU', 'node', 'process', 'rank']
    """
    word = text.strip()
    if not _WORD.fullmatch(word):
        raise ValueError(f"'{text}' is not a unit of K; write for example nodes, gpus or ranks")
    known = word.lower()
    if known.endswith("ses"):
        known = known.removesuffix("es")
    elif not known.endswith("ss"):
        known = known.removesuffix("s")
    return NODE if known in _NODES else _SHORT.get(known, known)


def unit_of_title(title: str) -> str | None:
    """What a column counts by its title; None if it does not say.

    >>> unit_of_title("Number of GPUs (A100)"), unit_of_title("n_cores"), unit_of_title("K")
    ('GPU', 'core', None)
    """
    words = re.findall(r"[a-z]+", re.sub(r"[\[(].*", "", title.lower()))
    return next((unit for word in words if (unit := parse_unit(word)) in _COUNTED), None)


def plural(unit: str) -> str:
    """A unit in the plural.

    >>> plural("process"), plural("GPU")
    ('processes', 'GPUs')
    """
    return f"{unit}es" if unit.endswith("s") else f"{unit}s"
