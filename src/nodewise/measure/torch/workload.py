"""What a torch training works on, as its own calls show it: rows, tokens, loss, precision.

Only shapes are read while it trains. The loss is kept as the tensor that `backward` was called on,
and read when the process ends, so that no device is waited for.
"""

import sys
from array import array
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

_MOST_LOSSES = 2048  # of a curve; of a longer training every second one is dropped
_LAST_SHARE = 10  # the loss of a run is the mean of its last tenth of steps,
_MOST_LAST = 10  # at most these
_AHEAD = 256  # batches that a trainer may read before it uses the first of them
_DEEPEST = 4  # of the containers of a batch that are looked into
_SHORTEST_TEXT = 8  # an integer matrix at least this wide holds tokens
_DATA_NAMES = ("data", "dp", "fsdp", "shard", "replicate", "batch", "world", "ddp")
Shape = tuple[int, int]  # rows and tokens; no tokens: 0


class Workload:
    """What one rank of a training does, step by step."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.rows, self.tokens, self.backwards = array("q"), array("q"), array("i")
        self.device, self.devices = "cpu", 0
        self.parameters: int | None = None
        self.precision = ""
        self.model: Any = None  # a weak reference to the outermost module
        self.not_data_parallel: dict[str, int] = {}  # ranks that share their rows, by kind
        self._waiting: dict[int, deque[Shape]] = {}  # batches not used yet, by their data set
        self._trained_on: int | None = None  # that data set
        self.reads_batches = False  # there is one
        self._last_read: int | None = None  # before that, not for an evaluation
        self._forward: Shape | None = None  # what the model was called with, since `backward`
        self.is_pipelined = False  # a step has several forwards, and none belongs to a `backward`
        self.stage: Any = None  # a weak reference to a stage; others of this rank get the same rows
        self._chunks: Shape = (0, 0)  # what it was called with in this step
        self._in_step: list[Any] = []  # losses
        self._step_rows, self._step_tokens, self._step_backwards = 0, 0, 0
        self._losses: list[tuple[int, list[Any]]] = []
        self._every = 1
        self._unscaled: tuple[int, Any] = (0, None)

    def loader_starts(self, data: object) -> None:
        """A new pass over a data set."""
        self._waiting[id(data)] = deque(maxlen=_AHEAD)

    def batch_read(self, data: object, batch: Any) -> bool:
        """A loader gave a batch; it may be used later, or never. Whether it is one to train on."""
        shape = shape_of(batch)
        if shape is not None:
            self._waiting.setdefault(id(data), deque(maxlen=_AHEAD)).append(shape)
            if not self.reads_batches and sys.modules["torch"].is_grad_enabled():
                self._last_read = id(data)
        return id(data) == self._trained_on

    def forward(self, arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
        """The model was called in training."""
        if self._forward is None and not self.reads_batches and not self.is_pipelined:
            self._forward = shape_of([options, *arguments])

    def chunk(self, arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
        """The stage of a pipeline was called in training, with a part of the batch."""
        rows, tokens = shape_of([options, *arguments]) or (0, 0)
        self._chunks = self._chunks[0] + rows, self._chunks[1] + tokens

    def loss_scaled(self, loss: Any, scaled: Any) -> None:
        """A loss was scaled up for half precision."""
        if hasattr(loss, "detach"):
            self._unscaled = (id(scaled), loss.detach())

    def backward(self, loss: Any) -> None:
        """Gradients of a batch are computed."""
        rows, tokens = self._batch() or (0, 0)
        if rows or not self.reads_batches:  # not another loss of the same batch
            self._step_backwards += 1
        self._step_rows += rows
        self._step_tokens += tokens
        self._forward = None
        if hasattr(loss, "numel") and loss.numel() == 1:
            known, unscaled = self._unscaled
            self._in_step.append(_kept(unscaled if known == id(loss) else loss))

    def _batch(self) -> Shape | None:
        """The batch behind a `backward`: the oldest unused one of the data set trained on."""
        if not self.reads_batches and self._waiting.get(self._last_read or 0):
            self._trained_on, self.reads_batches = self._last_read, True
        if not self.reads_batches:
            return self._forward
        waiting = self._waiting.get(self._trained_on or 0)
        return waiting.popleft() if waiting else None

    def step(self) -> None:
        """The optimizer made its step."""
        if self.is_pipelined:
            if not self.reads_batches:
                self._step_rows, self._step_tokens = self._chunks
            self._chunks = (0, 0)
        self.rows.append(self._step_rows)
        self.tokens.append(self._step_tokens)
        self.backwards.append(self._step_backwards)
        if self._in_step:
            if len(self.rows) % self._every == 0:
                self._losses.append((len(self.rows) - 1, self._in_step))
                if len(self._losses) > _MOST_LOSSES:
                    self._losses, self._every = self._losses[1::2], 2 * self._every
            self._in_step = []
        self._step_rows = self._step_tokens = self._step_backwards = 0

    def look_at(self, optimizer: Any) -> None:
        """Count the parameters once, and see where they are and in which precision."""
        if self.parameters is not None:
            return
        groups = getattr(optimizer, "param_groups", None) or []
        found = [one for group in groups for one in group["params"]]
        model = getattr(optimizer, "module", None)  # of an engine around model and optimizer
        if model is None and self.model is not None:
            model = self.model()
        if model is not None:
            found = list(model.parameters()) or found
        self.parameters = sum(int(getattr(one, "ds_numel", one.numel())) for one in found)
        if found:
            self.device = found[0].device.type
            self.devices = _devices(self.device)
            self.precision = self.precision or str(found[0].dtype).removeprefix("torch.")

    def shares_rows(self, kind: str, ranks: int) -> None:
        """So many ranks work on the same rows, by tensor or pipeline parallelism."""
        self.not_data_parallel[kind] = max(ranks, self.not_data_parallel.get(kind, 1))

    def mesh(self, sizes: Sequence[int], names: Sequence[str] | None) -> None:
        """A mesh of devices: dimensions that are not of data share their rows."""
        for name, size in zip(names or (), sizes, strict=False):
            if not any(word in name.lower() for word in _DATA_NAMES):
                self.shares_rows(name.lower(), size)

    def report(self, timed: int, world: int) -> dict[str, object]:
        """What the rank writes down; the last `timed` steps were timed."""
        if not self.rows:
            return {}
        first = len(self.rows) - timed
        losses = self._read_losses()
        last = max(1, min(_MOST_LAST, timed // _LAST_SHARE))
        recent = [loss for step, loss in losses if step >= first][-last:]
        return {
            "rows": sum(self.rows[first:]),
            "tokens": sum(self.tokens[first:]),
            "rows_of_all_steps": sum(self.rows),
            "all_steps": len(self.rows),
            "rows_of_a_step": _most_common(self.rows[first:] or self.rows),
            "tokens_of_a_step": _most_common(self.tokens[first:] or self.tokens),
            "accumulation": _most_common(self.backwards[first:] or self.backwards),
            "same_rows": self._same_rows(world),
            "world_size": world,
            "parameters": self.parameters,
            "precision": self.precision,
            "device": self.device,
            "devices": self.devices,
            "loss": sum(recent) / len(recent) if recent else None,
            "losses": [[step - first, loss] for step, loss in losses],
        }

    def _same_rows(self, world: int) -> int:
        """How many ranks share the rows of this one."""
        megatron = sys.modules.get("megatron.core.parallel_state")
        if megatron is not None and megatron.model_parallel_is_initialized():
            return max(1, world // int(megatron.get_data_parallel_world_size()))
        shared = 1
        for ranks in self.not_data_parallel.values():
            shared *= ranks
        return shared if world % shared == 0 else 1

    def _read_losses(self) -> list[tuple[int, float]]:
        """The loss that each step was made for: the sum over its `backward` calls."""
        found = []
        for step, parts in self._losses:
            try:
                found.append((step, float(sum(float(part) for part in parts))))
            except RuntimeError:  # the device is gone
                return found
        return found


def _kept(loss: Any) -> Any:
    """A loss to be read at the end; on a CPU its value, as nothing has to be waited for.

    A tensor that is kept would occupy memory that the next step uses again, and new memory costs
    more than all hooks.
    """
    plain = type(loss).__name__ == "Tensor"  # reading a distributed one may communicate
    return loss.item() if plain and loss.is_cpu else loss.detach()


def _devices(kind: str) -> int:
    """How many devices of a kind this host has."""
    module = getattr(sys.modules["torch"], kind, None)
    count = getattr(module, "device_count", None)
    return int(count()) if kind != "cpu" and count is not None else 0


def _most_common(values: Sequence[int]) -> int:
    return Counter(values).most_common(1)[0][0]


def shape_of(batch: Any, name: str = "", depth: int = 0) -> Shape | None:
    """The rows and tokens of a batch, by the first tensor in it; None if there is none."""
    if hasattr(batch, "is_floating_point") and hasattr(batch, "shape"):
        size = batch.shape
        if not size:
            return None
        wide = len(size) == 2 and (name == "input_ids" or size[1] >= _SHORTEST_TEXT)
        is_text = wide and not (batch.is_floating_point() or batch.is_complex())
        return int(size[0]), int(size[0] * size[1]) if is_text else 0
    if depth == _DEEPEST:
        return None
    if isinstance(batch, list | tuple):
        for part in batch[:_DEEPEST]:
            if (shape := shape_of(part, name, depth + 1)) is not None:
                return shape
    elif isinstance(batch, Mapping):
        for key in ("input_ids", *batch):  # the tokens of a text first
            if key in batch and (shape := shape_of(batch[key], str(key), depth + 1)) is not None:
                return shape
    return None
