"""Operations and bytes of what torch computes, seen where every operation passes.

Operations of matrix products, convolutions and attention follow torch's own formulas, and ours
where torch has none (attention on a CPU counts as nothing in torch 2.13) or counts what an
implementation repeats (the backward pass of attention): the count is that of the mathematics, with
a causal mask not halved. What has no formula is kept by name with its time, so no reader takes a
part for the whole.

Bytes are a lower bound: each operation reads its inputs and writes its outputs once.
"""

import importlib
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Formula = Callable[..., float]

_ATTENTION = ("flash_attention", "flash_attention_for_cpu", "efficient_attention",
              "cudnn_attention", "fused_attention_overrideable")  # fmt: skip
# Only ask for memory, or look at a tensor in another way.
_FREE = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach",
         "_unsafe_view", "resize_", "set_", "is_same_size", "sym_size", "sym_stride",
         "sym_numel", "sym_storage_offset", "_local_scalar_dense", "device", "layout", "lift_fresh",
         "_has_compatible_shallow_copy_type"}  # fmt: skip
_ONLY_WRITTEN = {"copy_", "fill_", "zero_", "normal_", "uniform_", "bernoulli_", "random_"}
# Read as much of a table as they give back.
_GATHERING = {"embedding", "index_select", "gather", "index", "take", "_embedding_bag"}
_SCATTERING = {"index_put_", "index_put", "scatter_", "scatter_add_", "index_add_", "index_copy_"}


@dataclass(slots=True)
class Counts:
    """Sums over operations: calls, seconds, operations, bytes."""

    calls: int = 0
    seconds: float = 0.0
    flops: float = 0.0
    memory_bytes: float = 0.0
    formula: bool = False


class Counting:
    """What is counted while it is switched on, by stage and by operation."""

    def __init__(self, stage: Callable[[], str] = lambda: "") -> None:
        """`stage` says where the program is."""
        self._stage = stage
        self._mode = _mode_class()(self)
        self._on = False
        self._lock = threading.Lock()  # a backward pass may run in another thread
        self.formulas = _formulas()
        self.found: dict[tuple[str, str], Counts] = {}
        self.dtypes: Counter[str] = Counter()
        self.devices: Counter[str] = Counter()

    def switch(self, on: bool) -> None:
        """Begin or end counting."""
        if on != self._on:
            self._mode.__enter__() if on else self._mode.__exit__(None, None, None)
            self._on = on

    def __enter__(self) -> "Counting":
        """Count from here."""
        self.switch(True)
        return self

    def __exit__(self, *_: object) -> None:
        """To here."""
        self.switch(False)

    def run(self, operation: Any, arguments: Any, options: dict[str, Any]) -> Any:
        """Run one operation and take it down."""
        name = operation._schema.name.partition("::")[2]
        began = time.perf_counter()
        out = operation(*arguments, **options)
        seconds = time.perf_counter() - began
        formula = self.formulas.get(operation._overloadpacket)
        flops = float(formula(*arguments, **options, out_val=out)) if formula else 0.0
        moved = 0.0 if operation.is_view else _bytes(name, arguments, options, out)
        with self._lock:
            counts = self.found.setdefault((self._stage(), name), Counts())
            counts.calls += 1
            counts.seconds += seconds
            counts.flops += flops
            counts.memory_bytes += moved
            counts.formula = formula is not None
            first = next(_tensors(out), None)
            if first is not None:
                self.devices[first.device.type] += 1
                if flops:
                    kind = str(first.dtype).removeprefix("torch.")
                    self.dtypes[kind] += int(flops)
        return out

    @property
    def flops(self) -> float:
        """Of everything that has a formula."""
        return sum(counts.flops for counts in self.found.values())

    @property
    def memory_bytes(self) -> float:
        """At least so many."""
        return sum(counts.memory_bytes for counts in self.found.values())

    @property
    def dtype(self) -> str:
        """Of most of the operations."""
        return self.dtypes.most_common(1)[0][0] if self.dtypes else "float32"


def _mode_class() -> Any:
    """The class that torch hands every operation to; torch is imported only here."""
    dispatch = importlib.import_module("torch.utils._python_dispatch")

    class Mode(dispatch.TorchDispatchMode):  # type: ignore[name-defined, misc]
        def __init__(self, counting: Counting) -> None:
            super().__init__()
            self.counting = counting

        def __torch_dispatch__(
            self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            options = kwargs or {}
            if not hasattr(operation, "_schema"):  # a loop or a branch as an operation
                return operation(*args, **options)
            if operation._overloadpacket not in self.counting.formulas:
                with self:  # what consists of others is counted by them
                    parts = operation.decompose(*args, **options)
                if parts is not NotImplemented:
                    return parts
            return self.counting.run(operation, args, options)

    return Mode


def _formulas() -> dict[Any, Formula]:
    counter = importlib.import_module("torch.utils.flop_counter")
    aten = importlib.import_module("torch").ops.aten
    found = dict(counter.flop_registry)
    for name in _ATTENTION:
        for packet, formula in (
            (f"_scaled_dot_product_{name}", _attention),
            (f"_scaled_dot_product_{name}_backward", _attention_backward),
        ):
            if hasattr(aten, packet):
                found[getattr(aten, packet)] = formula
    return found


def _attention(query: Any, key: Any, value: Any, *_: object, **__: object) -> float:
    """Scores, and their product with the values: two matrix products in every head."""
    *heads, rows, width = query.shape
    return float(2.0 * math.prod(heads) * rows * key.shape[-2] * (width + value.shape[-1]))


def _attention_backward(
    _: Any, query: Any, key: Any, value: Any, *__: object, **___: object
) -> float:
    """Gradients of the scores, values, queries and keys; scores that are computed again are not
    counted.
    """
    return 2.0 * _attention(query, key, value)


def _tensors(tree: Any) -> Iterator[Any]:
    if hasattr(tree, "element_size"):
        yield tree
    elif isinstance(tree, list | tuple):
        for one in tree:
            yield from _tensors(one)


def _size(tensor: Any) -> float:
    """Bytes that it really has: what is repeated without being stored counts once."""
    if tensor.layout is not importlib.import_module("torch").strided:
        return 0.0
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    numbers = math.prod(length if stride else min(length, 1) for length, stride in pairs)
    return float(numbers * tensor.element_size())


def _bytes(name: str, arguments: Any, options: dict[str, Any], out: Any) -> float:
    """Read inputs once, write outputs once."""
    if name in _FREE:
        return 0.0
    written = sum(map(_size, _tensors(out)))
    if name in _GATHERING:
        return 2 * written + sum(map(_size, _tensors(list(arguments[1:]))))
    if name in _SCATTERING:
        return 2 * sum(map(_size, _tensors(list(arguments[1:]))))
    read = arguments[1:] if name in _ONLY_WRITTEN else arguments
    return written + sum(map(_size, _tensors([*read, *options.values()])))
