"""Operations and bytes of one call of a numpy function, where a formula can be trusted.

Bytes are a lower bound: inputs are read once and outputs written once. Functions whose operations
depend on how they are made (exponentials, sorting, Fourier transforms) have none here.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class ArrayCounts(NamedTuple):
    """What one call does."""

    flops: float
    memory_bytes: float
    dtype: str


_ONE_EACH = {"add", "subtract", "multiply", "divide", "true_divide", "sqrt", "negative", "absolute",
             "maximum", "minimum", "fmax", "fmin", "square", "reciprocal"}  # fmt: skip
_REDUCTIONS = {"sum", "mean", "prod", "max", "min", "amax", "amin"}
_PRODUCTS = {"matmul", "dot", "inner", "vdot"}
_COPIES = {"copyto", "copy", "array", "ascontiguousarray"}


def _side(arguments: list[Any]) -> int:
    return int(arguments[0].shape[-1])


def _right_hand(arguments: list[Any]) -> float:
    """How many right-hand sides each matrix of a stack has."""
    matrix, right = arguments[0], arguments[1]
    return 1.0 if right.ndim < matrix.ndim else float(right.shape[-1])


# Of a matrix of n x n, each of a stack, as Golub and Van Loan count them.
_LINEAR: dict[str, Callable[[list[Any]], float]] = {
    "solve": lambda given: 2 * _side(given) ** 3 / 3 + 2 * _side(given) ** 2 * _right_hand(given),
    "cholesky": lambda given: _side(given) ** 3 / 3,
    "inv": lambda given: 2.0 * _side(given) ** 3,
}


def array_counts(call: Callable[..., Any], arguments: tuple[Any, ...]) -> ArrayCounts | None:
    """What `call(*arguments)` does, or nothing if that is not known."""
    name = getattr(call, "__name__", "")
    ours = getattr(np, name, None) is call or getattr(np.linalg, name, None) is call
    arrays = [one for one in arguments if isinstance(one, np.ndarray)]
    if not ours or not arrays:
        return None
    out = call(*arguments)
    flops = _flops(name, call, arrays, out)
    if flops is None:
        return None
    made = out if isinstance(out, np.ndarray) else np.asarray(out if out is not None else arrays[0])
    read = arrays[1:] if name == "copyto" else arrays
    moved = sum(_size(one) for one in read) + _size(made)
    return ArrayCounts(flops, moved, str(np.result_type(*arrays)))


def _flops(name: str, call: Any, arrays: list[Any], out: Any) -> float | None:
    size = float(np.size(out))
    if name in _PRODUCTS:
        if len(arrays) < 2:
            return None
        inner = arrays[0].size if name == "vdot" else arrays[0].shape[-1]
        return float(2.0 * size * inner)
    if isinstance(call, np.ufunc):
        return size if name in _ONE_EACH else None
    if name in _REDUCTIONS:
        return float(arrays[0].size)
    if name in _COPIES:
        return 0.0
    if name in _LINEAR:
        return float(math.prod(arrays[0].shape[:-2])) * _LINEAR[name](arrays)
    return None


def _size(array: Any) -> float:
    """Bytes that it really has: what is repeated without being stored counts once."""
    lengths = [length for length, stride in zip(array.shape, array.strides, strict=True) if stride]
    return float(math.prod(lengths) * array.itemsize)
