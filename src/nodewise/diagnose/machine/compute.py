"""Arithmetic: what matrix products reach, and what the clock would allow."""

import ctypes
import mmap
import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nodewise.diagnose.machine.windows import Kernel, ceiling, loop
from nodewise.study.machine import Ceiling

DTYPES = ("float64", "float32")
_SIZE = 1536  # smaller products reach only part of the peak, larger ones stay clean less often
# Operations of one core in one cycle on 64-bit numbers, by what the processor says it can do:
# two units, a multiplication and an addition each, on so many numbers at once.
_OPERATIONS = (("avx512f", 32), ("fma", 16), ("avx", 8), ("sse2", 4), ("asimd", 8))
_CYCLES_OF_A_PRODUCT = 3  # of 64-bit integers, when each needs the one before
_PRODUCTS = 20


def products(dtype: str, threads: int, seconds: float) -> Ceiling:
    """FLOP/s of matrix products, one on each of so many cores at once.

    The BLAS must be set to one thread itself, before numpy is loaded.
    """
    return ceiling(
        [lambda: _product(dtype)] * threads,
        2.0 * _SIZE**3,
        "FLOP/s",
        seconds,
        f"matrix product of {_SIZE} x {_SIZE}",
    )


def _product(dtype: str) -> Kernel:
    generator = np.random.default_rng(0)
    left, right = (generator.random((_SIZE, _SIZE)).astype(dtype) for _ in range(2))
    out = np.empty_like(left)
    return lambda: np.matmul(left, right, out=out)


def theory(clock_hertz: float) -> tuple[dict[str, float], str]:
    """The most FLOP/s of one core at this clock, and the instructions that it takes for granted.

    Processors with one unit instead of two reach half of it, so it is an upper bound.
    """
    flags = _flags()
    for name, operations in _OPERATIONS:
        if name in flags:
            peak = operations * clock_hertz
            return {"float64": peak, "float32": 2 * peak}, f"{name}, {operations} a cycle"
    return {}, ""


def _flags() -> set[str]:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return set(line.partition(":")[2].split())
    except OSError:
        pass
    return set()


def clock() -> float | None:
    """The core's real frequency in hertz, or nothing if it cannot be measured.

    Nominal figures are off by a fifth and more on machines that speed up. So a chain of integer
    products is timed, each of which needs the one before: three cycles each on x86-64.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        return None
    try:
        chain, keep = _chain()
    except (OSError, ValueError):  # memory that may be written may not be executed here
        return None
    rounds = 20_000
    windows = [window for window in loop(lambda: chain(rounds), 0.3)]
    times = sorted(window.cpu for window in windows if window.clean) or sorted(
        window.cpu for window in windows
    )
    keep.close()
    return rounds * _PRODUCTS * _CYCLES_OF_A_PRODUCT / times[len(times) // 2] * 1e9


def _chain() -> tuple[Callable[[int], int], mmap.mmap]:
    """A loop of products in machine code, as a function of the number of rounds."""
    products = b"\x48\x0f\xaf\xc0" * _PRODUCTS  # imul rax, rax
    body = products + b"\x48\xff\xc9"  # dec rcx
    back = -(len(body) + 6)
    code = (
        b"\x48\x89\xf9"  # mov rcx, rdi
        + b"\xb8\x03\x00\x00\x00"  # mov eax, 3
        + body
        + b"\x0f\x85"
        + back.to_bytes(4, "little", signed=True)  # jnz to the first product
        + b"\xc3"  # ret
    )
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    place = ctypes.c_char.from_buffer(memory)
    address = ctypes.addressof(place)
    del place
    return ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64)(address), memory
