"""A language model of random weights, in the GGUF format: fast to write, real to serve.

What it says is nonsense, yet every token costs what it costs in a trained model of this size.
Its words are ASCII, so that each token is text of its own and leaves the server at once.
"""

import array
import random
import struct
from pathlib import Path

_UINT32, _FLOAT32, _INT32, _STRING, _ARRAY = 4, 6, 5, 8, 9  # types of metadata
_F32, _F16 = 0, 1  # types of tensors
_ALIGNMENT = 32
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6  # kinds of tokens
_BLOCK = 1 << 16


def write_model(
    path: Path, layers: int = 4, width: int = 256, hidden: int = 1024, words: int = 1024
) -> int:
    """Write a small llama; returns how many parameters it has."""
    heads = width // 64
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    first_word = len(tokens)
    tokens += [f"\u2581w{number}" for number in range(words)]
    kinds = [_UNKNOWN, _CONTROL, _CONTROL, *[_BYTE] * 256, *[_NORMAL] * words]
    metadata = [
        _text("general.architecture", "llama"),
        _text("general.name", "random"),
        _number("llama.context_length", 4096),
        _number("llama.embedding_length", width),
        _number("llama.block_count", layers),
        _number("llama.feed_forward_length", hidden),
        _number("llama.attention.head_count", heads),
        _number("llama.attention.head_count_kv", heads),
        _number("llama.rope.dimension_count", 64),
        _key("llama.attention.layer_norm_rms_epsilon", _FLOAT32) + struct.pack("<f", 1e-5),
        _text("tokenizer.ggml.model", "llama"),
        _list("tokenizer.ggml.tokens", _STRING, [_string(token) for token in tokens]),
        _list("tokenizer.ggml.scores", _FLOAT32, [struct.pack("<f", 0.0)] * len(tokens)),
        _list("tokenizer.ggml.token_type", _INT32, [struct.pack("<i", kind) for kind in kinds]),
        _number("tokenizer.ggml.bos_token_id", 1),
        _number("tokenizer.ggml.eos_token_id", 2),
    ]
    tensors: list[tuple[str, tuple[int, ...]]] = [("token_embd.weight", (width, len(tokens)))]
    for layer in range(layers):
        block = f"blk.{layer}"
        tensors += [(f"{block}.{name}_norm.weight", (width,)) for name in ("attn", "ffn")]
        tensors += [
            (f"{block}.attn_{name}.weight", (width, width)) for name in ("q", "k", "v", "output")
        ]
        tensors += [(f"{block}.ffn_{name}.weight", (width, hidden)) for name in ("gate", "up")]
        tensors.append((f"{block}.ffn_down.weight", (hidden, width)))
    tensors += [("output_norm.weight", (width,)), ("output.weight", (width, len(tokens)))]
    noise = _noise()
    head, offset = [], 0
    for name, shape in tensors:
        kind = _F32 if len(shape) == 1 else _F16
        sizes = struct.pack(f"<{len(shape)}Q", *shape)
        head.append(_string(name) + struct.pack("<I", len(shape)) + sizes)
        head[-1] += struct.pack("<IQ", kind, offset)
        offset += _aligned(_count(shape) * (4 if kind == _F32 else 2))
    start = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    start += b"".join(metadata) + b"".join(head)
    with path.open("wb") as file:
        file.write(start.ljust(_aligned(len(start)), b"\0"))
        for number, (name, shape) in enumerate(tensors):
            # Only words are ever said: the rows of the other tokens are zero.
            silent = first_word * width if name == "output.weight" else 0
            data = _weights(shape, noise, number, silent)
            file.write(data.ljust(_aligned(len(data)), b"\0"))
    return sum(_count(shape) for _, shape in tensors)


def _noise() -> bytes:
    draw = random.Random(7)
    return struct.pack(f"<{_BLOCK}e", *(draw.gauss(0.0, 0.05) for _ in range(_BLOCK)))


def _weights(shape: tuple[int, ...], noise: bytes, number: int, silent: int) -> bytes:
    """Ones for a norm; else the noise over and over, from a place of its own."""
    if len(shape) == 1:
        return array.array("f", [1.0] * shape[0]).tobytes()
    size, start = 2 * _count(shape), 2 * (7919 * number % _BLOCK)
    turned = noise[start:] + noise[:start]
    data = turned * (size // len(turned) + 1)
    return bytes(2 * silent) + data[2 * silent : size]


def _count(shape: tuple[int, ...]) -> int:
    return shape[0] if len(shape) == 1 else shape[0] * shape[1]


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _key(name: str, kind: int) -> bytes:
    return _string(name) + struct.pack("<I", kind)


def _text(name: str, text: str) -> bytes:
    return _key(name, _STRING) + _string(text)


def _number(name: str, number: int) -> bytes:
    return _key(name, _UINT32) + struct.pack("<I", number)


def _list(name: str, kind: int, items: list[bytes]) -> bytes:
    return _key(name, _ARRAY) + struct.pack("<IQ", kind, len(items)) + b"".join(items)
