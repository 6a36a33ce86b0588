"""A transformer by its shape: parameters, work and bytes. No machine in it.

    parameters = 12 L h^2 + 13 L h + (V + s) h
    FLOPs of a step = 72 B s L h^2 (1 + s/6h + V/12Lh), and 96 B s L h^2 (...) with recomputation
    activations of a layer = s b h (10 + 24/t + 5 a s / (h t)) bytes in 16 bits

L layers, h hidden, a heads, s tokens of a sequence, V words, B sequences of a step, b of a
micro-batch, t tensor-parallel devices. Sources: Narayanan et al. 2021 (arXiv 2104.04473, section 3
and appendix) for the first two, Korthikanti et al. 2022 (arXiv 2205.05198, section 4) for the last.
The functions here also hold for grouped heads, gated feed-forward and other widths.
"""

from functools import lru_cache
from typing import Literal

import msgspec

from nodewise.study.spec import Count

Recompute = Literal["none", "selective", "full"]
RECOMPUTES: tuple[Recompute, ...] = ("none", "selective", "full")


class Transformer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The shape of a decoder: GPT by default, Llama with the fields that default to None."""

    layers: Count
    hidden: Count
    heads: Count
    sequence: Count
    vocabulary: Count
    feed_forward: Count | None = None  # None: 4 * hidden
    key_value_heads: Count | None = None  # None: as many as heads
    gated: bool = False  # SwiGLU: a third matrix in the feed-forward block
    tied_embeddings: bool = True
    attention: Literal["standard", "flash"] = "standard"  # flash keeps no s x s matrix

    @property
    def wide(self) -> int:
        """Width of the feed-forward block."""
        return self.feed_forward or 4 * self.hidden

    @property
    def key_value_width(self) -> float:
        """Width of the keys, and of the values."""
        return self.hidden * (self.key_value_heads or self.heads) / self.heads

    @property
    def layer_parameters(self) -> float:
        """Matrices, biases and the two norms of one layer."""
        h, kv, f = self.hidden, self.key_value_width, self.wide
        into = 2 if self.gated else 1
        matrices = h * (h + 2 * kv) + h * h + (into + 1) * h * f
        biases = (h + 2 * kv) + h + into * f + h
        return matrices + biases + 4 * h

    @property
    def embedding_parameters(self) -> float:
        """One table of words and one of positions."""
        return (self.vocabulary + self.sequence) * self.hidden

    @property
    def parameters(self) -> float:
        """All of them.

        >>> gpt = Transformer(layers=96, hidden=12288, heads=96, sequence=2048, vocabulary=51200)
        >>> round(gpt.parameters / 1e9, 1)
        174.6
        """
        untied = 0 if self.tied_embeddings else self.vocabulary * self.hidden
        return self.layers * self.layer_parameters + self.embedding_parameters + untied


class Work(msgspec.Struct, frozen=True):
    """What a kernel asks of a device: arithmetic and traffic with its memory."""

    flops: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        """Both."""
        return Work(self.flops + other.flops, self.bytes + other.bytes)

    def __mul__(self, times: float) -> "Work":
        """The same, many times."""
        return Work(self.flops * times, self.bytes * times)


class LayerWork(msgspec.Struct, frozen=True, kw_only=True):
    """One layer over one micro-batch, on one of `tensor` devices."""

    forward: Work
    backward: Work
    attention: Work  # of the forward, what selective recomputation repeats

    def recomputed(self, recompute: Recompute) -> Work:
        """What the backward pass computes once more."""
        return {"none": Work(), "selective": self.attention, "full": self.forward}[recompute]


def step_flops(model: Transformer, batch: int, recompute: Recompute = "none") -> float:
    """FLOPs of a step over `batch` sequences; by convention backward is twice forward.

    Only `full` recomputation is counted as work; this is what papers report as achieved FLOP/s.
    """
    passes = 4 if recompute == "full" else 3
    h, kv = model.hidden, model.key_value_width
    matrices = h * (h + 2 * kv) + h * h + (3 if model.gated else 2) * h * model.wide
    layer = 2 * matrices + 4 * model.sequence * h
    logits = 2 * h * model.vocabulary
    return batch * model.sequence * (passes * model.layers * layer + 3 * logits)


@lru_cache(maxsize=4096)
def layer_work(
    model: Transformer, micro_batch: int, tensor: int, sequence_parallel: bool, element_bytes: int
) -> LayerWork:
    """Work of one layer: the matrices, and the kernels between them that only move bytes.

    Traffic in elements of a token: a norm reads and writes h; dropout with residual reads 2 h,
    writes h and a mask byte; the activation function reads and writes the wide block; scaled,
    masked softmax and its dropout read and write the scores twice. Backward, each also reads what
    it kept. Without sequence parallelism the norms and dropouts are repeated on every device.
    """
    h, kv, f, s, a = model.hidden, model.key_value_width, model.wide, model.sequence, model.heads
    tokens, e, t = micro_batch * s, element_bytes, tensor
    into = 2 if model.gated else 1
    linear = (
        _matmul(tokens, h, (h + 2 * kv) / t, e)
        + _matmul(tokens, h / t, h, e)
        + _matmul(tokens, h, f / t, e) * into
        + _matmul(tokens, f / t, h, e)
    )
    repeated = tokens * h / (t if sequence_parallel else 1)
    split = tokens * f / t
    between = Work(bytes=(10 * e + 2) * repeated + (into + 1) * e * split)
    between_backward = Work(bytes=(16 * e + 2) * repeated + (2 * into + 1) * e * split)

    heads = micro_batch * a / t
    if model.attention == "flash":  # reads q, k, v and writes the result; backward makes 5 of 2
        attention = Work(4 * heads * s * s * (h / a), e * tokens * (2 * h + 2 * kv) / t)
        attention_backward = attention * 2.5
    else:
        products = (_matmul(s, h / a, s, e) + _matmul(s, s, h / a, e)) * heads
        scores = heads * s * s
        attention = products + Work(bytes=(4 * e + 1) * scores)
        attention_backward = products * 2 + Work(bytes=(5 * e + 1) * scores)
    return LayerWork(
        forward=linear + between + attention,
        backward=linear * 2 + between_backward + attention_backward,
        attention=attention,
    )


@lru_cache(maxsize=4096)
def logits_work(model: Transformer, micro_batch: int, tensor: int, element_bytes: int) -> Work:
    """The last matrix and the loss, both passes; the loss is computed in 32 bits."""
    tokens, words = micro_batch * model.sequence, model.vocabulary / tensor
    loss = Work(bytes=(2 * element_bytes + 8) * tokens * words)
    return _matmul(tokens, model.hidden, words, element_bytes) * 3 + loss


def _matmul(rows: float, inner: float, columns: float, element_bytes: int) -> Work:
    moved = rows * inner + inner * columns + rows * columns
    return Work(2 * rows * inner * columns, element_bytes * moved)


def activation_bytes(
    model: Transformer,
    micro_batch: int,
    tensor: int = 1,
    recompute: Recompute = "none",
    sequence_parallel: bool = False,
    element_bytes: int = 2,
) -> float:
    """Bytes that one layer keeps of one micro-batch for its backward pass.

    In 16 bits s b h (10 + 24/t + 5 a s / (h t)); the 10 is divided by t under sequence parallelism,
    the last term goes with selective recomputation, and full keeps only the input, 2 s b h.
    """
    tokens, h, e = micro_batch * model.sequence, model.hidden, element_bytes
    repeated = tensor if sequence_parallel else 1
    if recompute == "full":
        return e * tokens * h / repeated
    norms_and_masks = (4 * e + 2) * h / repeated
    queries = e * (2 * h + 2 * model.key_value_width) / tensor
    wide = e * (3 if model.gated else 2) * model.wide / tensor
    scores = (2 * e + 1) * model.heads * model.sequence / tensor
    if recompute == "selective" or model.attention == "flash":
        scores = 0.0
    return tokens * (norms_and_masks + queries + wide + scores)


def logits_bytes(model: Transformer, micro_batch: int, tensor: int = 1) -> float:
    """Bytes of the logits of a micro-batch, kept in 32 bits for the loss."""
    return 4 * micro_batch * model.sequence * model.vocabulary / tensor
