"""A transformer by its shape: parameters, work and bytes. No machine in it.

    parameters = 12 L h^2 + 13 L h + (V + s) h
    FLOPs of a step = 72 B s L h^2 (1 + s/6h + V/12Lh), and 96 B s L h^2 (...) with recomputation
    activations of a layer = s b h (10 + 24/t + 5 a s / (h t)) bytes in 16 bits

L layers, h hidden, a heads, s tokens of a sequence, V words, B sequences of a step, b of a
micro-batch, t tensor-parallel devices. Sources: Narayanan et al. 2021 (arXiv 2104.04473, section 3
and appendix) for the first two, Korthikanti et al. 2022 (arXiv 2205.05198, section 4) for the last.
The functions here also hold for grouped heads, gated feed-forward, experts and other widths.
"""

from functools import lru_cache
from typing import Literal

import msgspec

from nodewise.study.spec import Count, Positive

Recompute = Literal["none", "selective", "operator", "full"]
RECOMPUTES: tuple[Recompute, ...] = ("none", "selective", "full")
_REPEATED = 0.5  # of the wide block that is kept, where every second product is ("operator")


class Transformer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The shape of a decoder: GPT by default, Llama with the fields that default to None.

    With `experts`, feed_forward is the width of one expert.
    """

    layers: Count
    hidden: Count
    heads: Count
    sequence: Count
    vocabulary: Count
    feed_forward: Count | None = None  # None: 4 * hidden
    key_value_heads: Count | None = None  # None: as many as heads
    head_width: Count | None = None  # None: hidden / heads
    attention_parameters: Count | None = None  # of a layer; None: by the heads. Latent: its own
    attention_span: Positive | None = None  # tokens a token attends to, mean; None: half
    experts: Count | None = None
    experts_per_token: Count = 1
    shared_experts: int = 0
    gated: bool = False  # SwiGLU: a third matrix in the feed-forward block
    tied_embeddings: bool = True
    attention: Literal["standard", "flash"] = "standard"  # flash keeps no s x s matrix

    @property
    def wide(self) -> int:
        """Width of the feed-forward block."""
        return self.feed_forward or 4 * self.hidden

    @property
    def width_of_head(self) -> float:
        """Width of a query, a key and a value."""
        return self.head_width or self.hidden / self.heads

    @property
    def query_width(self) -> float:
        """Width of the queries of all heads."""
        return self.heads * self.width_of_head

    @property
    def key_value_width(self) -> float:
        """Width of the keys, and of the values."""
        return (self.key_value_heads or self.heads) * self.width_of_head

    @property
    def blocks(self) -> int:
        """Feed-forward blocks that a token passes in a layer."""
        return self.experts_per_token + self.shared_experts if self.experts else 1

    @property
    def attention_matrices(self) -> float:
        """Parameters of the matrices around attention, in a layer."""
        if self.attention_parameters:
            return self.attention_parameters
        h, q = self.hidden, self.query_width
        return h * (q + 2 * self.key_value_width) + q * h

    @property
    def block_parameters(self) -> float:
        """Parameters of one feed-forward block."""
        return (3 if self.gated else 2) * self.hidden * self.wide

    @property
    def expert_parameters(self) -> float:
        """Parameters of the experts of a layer, which expert parallelism divides."""
        return (self.experts or 0) * self.block_parameters

    @property
    def layer_parameters(self) -> float:
        """Matrices, biases and the two norms of one layer, without its experts."""
        h, f, into = self.hidden, self.wide, 2 if self.gated else 1
        blocks = self.shared_experts if self.experts else 1
        matrices = self.attention_matrices + blocks * self.block_parameters
        router = h * (self.experts or 0)
        biases = (self.query_width + 2 * self.key_value_width) + h + blocks * into * f + h
        return matrices + router + biases + 4 * h

    @property
    def embedding_parameters(self) -> float:
        """One table of words, and in GPT one of positions; gated models rotate instead."""
        positions = 0 if self.gated else self.sequence
        return (self.vocabulary + positions) * self.hidden

    @property
    def parameters(self) -> float:
        """All of them.

        >>> gpt = Transformer(layers=96, hidden=12288, heads=96, sequence=2048, vocabulary=51200)
        >>> round(gpt.parameters / 1e9, 1)
        174.6
        """
        untied = 0 if self.tied_embeddings else self.vocabulary * self.hidden
        layer = self.layer_parameters + self.expert_parameters
        return self.layers * layer + self.embedding_parameters + untied


class Work(msgspec.Struct, frozen=True):
    """What kernels ask of a device: arithmetic and traffic with its memory."""

    flops: float = 0.0  # of matrices
    bytes: float = 0.0
    flash: float = 0.0  # FLOPs of flash attention, always in 16 bits
    cast_bytes: float = 0.0  # moved to make numbers of 8 or 4 bits, if matrices take these

    def __add__(self, other: "Work") -> "Work":
        """Both."""
        return Work(
            self.flops + other.flops,
            self.bytes + other.bytes,
            self.flash + other.flash,
            self.cast_bytes + other.cast_bytes,
        )

    def __mul__(self, times: float) -> "Work":
        """Repeated so many times."""
        return Work(
            self.flops * times, self.bytes * times, self.flash * times, self.cast_bytes * times
        )


class LayerWork(msgspec.Struct, frozen=True, kw_only=True):
    """One layer over one micro-batch, on one of `tensor` devices."""

    forward: Work
    backward: Work
    attention: Work  # of the forward, what selective recomputation repeats
    experts: Work  # matrices of the experts, forward; they are in none of the others
    last: Work  # the last product, whose result no backward pass reads
    second: Work  # products that are repeated where every second one is kept ("operator")

    def recomputed(self, recompute: Recompute, stops_early: bool = False) -> Work:
        """What the backward pass recomputes.

        `stops_early`: nothing behind the last tensor that it reads, as torch.utils.checkpoint does.
        """
        if recompute == "operator":
            return msgspec.structs.replace(self.forward, flash=0.0, flops=self.second.flops)
        if recompute == "full" and stops_early:
            return self.forward + self.last * -1
        return {"none": Work(), "selective": self.attention, "full": self.forward}[recompute]


def step_flops(model: Transformer, batch: int, recompute: Recompute = "none") -> float:
    """FLOPs of a step over `batch` sequences; by convention backward is twice forward.

    Only `full` recomputation is counted as work; this is what papers report as achieved FLOP/s.
    """
    passes = 4 if recompute == "full" else 3
    matrices = model.attention_matrices + model.blocks * model.block_parameters
    layer = 2 * matrices + 4 * model.sequence * model.query_width
    logits = 2 * model.hidden * model.vocabulary
    return batch * model.sequence * (passes * model.layers * layer + 3 * logits)


@lru_cache(maxsize=4096)
def layer_work(
    model: Transformer,
    micro_batch: int,
    tensor: int,
    sequence_parallel: bool,
    element_bytes: int,
    context: int = 1,
) -> LayerWork:
    """Work of one layer: the matrices, and the kernels between them that only move bytes.

    Traffic in elements of a token: a norm reads and writes h; dropout with residual reads 2 h,
    writes h and a mask byte; the activation function reads and writes the wide block; scaled,
    masked softmax and its dropout read and write the scores twice. Backward, each also reads what
    it kept. Without sequence parallelism the norms and dropouts are repeated on every device.
    Casts to few bits read 2 h and 4/3 of the wide block and write half of that, in each pass; the
    input is whole on every device.
    """
    h, q, kv, f = model.hidden, model.query_width, model.key_value_width, model.wide
    s, a = model.sequence, model.heads
    tokens, e, t = micro_batch * s / context, element_bytes, tensor
    into = 2 if model.gated else 1
    around = _matmul(tokens, h, (q + 2 * kv) / t, e) + _matmul(tokens, q / t, h, e)
    if model.attention_parameters:
        around = Work(2 * tokens * model.attention_parameters / t, around.bytes)
    block = _matmul(tokens, h, f / t, e) * into + _matmul(tokens, f / t, h, e)
    last = _matmul(tokens, f / t, h, e)
    # of queries, keys, values, output, gate, wide, narrow: the second, fourth and sixth; without a
    # gate the sixth is the last, which is not needed
    second = _matmul(tokens, h, kv / t, e) + _matmul(tokens, q / t, h, e)
    if model.gated and not model.experts:
        second = second + _matmul(tokens, h, f / t, e)
    linear = around + block * (model.shared_experts if model.experts else 1)
    repeated = tokens * h / (t if sequence_parallel else 1)
    split = tokens * f * model.blocks / t
    casts = Work(cast_bytes=e * (2 * tokens * h + 4 / 3 * split))
    between = Work(bytes=(10 * e + 2) * repeated + (into + 1) * e * split)
    between_backward = Work(bytes=(16 * e + 2) * repeated + (2 * into + 1) * e * split)

    heads = micro_batch * a / t
    if model.attention == "flash":  # reads q, k, v and writes the result; backward makes 5 of 2
        span = model.attention_span or s / 2
        products = 4 * heads * s * span * model.width_of_head / context
        attention = Work(bytes=e * tokens * (2 * q + 2 * kv) / t, flash=products)
        attention_backward = attention * 2.5
    else:
        matrices = _matmul(s, q / a, s, e) + _matmul(s, s, q / a, e)
        products_of_all = matrices * (heads / context)
        scores = heads * s * s / context
        attention = products_of_all + Work(bytes=(4 * e + 1) * scores)
        attention_backward = products_of_all * 2 + Work(bytes=(5 * e + 1) * scores)
    return LayerWork(
        forward=linear + between + attention + casts,
        backward=linear * 2 + between_backward + attention_backward + casts * 2,
        attention=attention,
        experts=block * (model.experts_per_token if model.experts else 0),
        last=Work() if model.experts else last,
        second=second,
    )


@lru_cache(maxsize=4096)
def logits_work(
    model: Transformer, micro_batch: int, tensor: int, element_bytes: int, context: int = 1
) -> Work:
    """The last matrix and the loss, both passes; the loss is computed in 32 bits."""
    tokens, words = micro_batch * model.sequence / context, model.vocabulary / tensor
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
    Recomputation by operator keeps half of the products.
    """
    tokens, h, e = micro_batch * model.sequence, model.hidden, element_bytes
    repeated = tensor if sequence_parallel else 1
    if recompute == "full":
        return e * tokens * h / repeated
    norms_and_masks = (4 * e + 2) * h / repeated
    queries = e * (2 * model.query_width + 2 * model.key_value_width) / tensor
    wide = e * (3 if model.gated else 2) * model.wide * model.blocks / tensor
    scores = (2 * e + 1) * model.heads * model.sequence / tensor
    if recompute == "operator":
        norms_and_masks, wide = e * h / repeated, _REPEATED * wide
    if recompute in ("selective", "operator") or model.attention == "flash":
        scores = 0.0
    return tokens * (norms_and_masks + queries + wide + scores)


def logits_bytes(model: Transformer, micro_batch: int, tensor: int = 1) -> float:
    """Bytes of the logits of a micro-batch, kept in 32 bits for the loss."""
    return 4 * micro_batch * model.sequence * model.vocabulary / tensor
