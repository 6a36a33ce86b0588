"""Memory: bytes per second of each level, fresh pages, and how much of it there is."""

import contextlib
import mmap
from pathlib import Path

import numpy as np

from nodewise.diagnose.machine.windows import Kernel, ceiling
from nodewise.study.machine import Ceiling

# Read two arrays and write one of them in place: no cache line is fetched only to be overwritten,
# so the bytes that are counted are the bytes that move.
_BYTES_OF_AN_ADDITION = 24
_CHUNK_BYTES = 4 * 2**20  # of both arrays: well below a millisecond or so
_LEAST_WINDOW_BYTES = 2 * 2**20
_FRESH_BYTES = 2**20  # about a millisecond
_LADDER_MIB = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192)  # in which a cache is looked for
_FASTER_THAN_MEMORY = 1.25  # than the stream from memory, whose windows differ by less
LARGEST_BYTES = 320 * 2**20  # with the interpreters, less than half a gigabyte


def stream(working_set: int, threads: int, seconds: float) -> Ceiling:
    """Bytes per second of in-place additions, over so many bytes on each core."""
    chunk = min(working_set, _CHUNK_BYTES) // 16
    repeats = max(1, _LEAST_WINDOW_BYTES // (chunk * 16))
    return ceiling(
        [lambda: _addition(working_set // 16, chunk, repeats)] * threads,
        float(repeats * chunk * _BYTES_OF_AN_ADDITION),
        "B/s",
        seconds,
        f"in-place addition over {working_set // 1024} KiB",
    )


def _addition(length: int, chunk: int, repeats: int) -> Kernel:
    left, right = np.zeros(length), np.ones(length)
    left += right  # every page is there before the clock runs
    parts = [
        (left[at : at + chunk], right[at : at + chunk])
        for at in range(0, length - chunk + 1, chunk)
    ]
    position = 0

    def add() -> None:
        nonlocal position
        own, other = parts[position]
        position = (position + 1) % len(parts)
        for _ in range(repeats):
            np.add(own, other, out=own)

    return add


def cache_of_one_core(seconds: float) -> float:
    """Bytes that one core keeps close to itself: a larger array streams at the pace of memory.

    Measured, as a virtual machine sees the caches of the whole processor.
    """
    told = float(max(cache_sizes().values(), default=0))
    sets = [2**20 * size for size in _LADDER_MIB if 2**20 * size < told]
    memory = stream(LARGEST_BYTES, 1, seconds).value
    held = [size for size in sets if stream(size, 1, seconds).value > _FASTER_THAN_MEMORY * memory]
    return float(max(held)) if held else min(told, float(2**20 * _LADDER_MIB[0]))


def fresh_pages(seconds: float) -> Ceiling:
    """Bytes per second of memory that is asked for, touched once and given back."""

    def touch() -> None:
        with mmap.mmap(-1, _FRESH_BYTES) as memory:
            pages = np.frombuffer(memory, dtype=np.uint8)[:: mmap.PAGESIZE]
            pages[:] = 1
            del pages

    return ceiling(
        [lambda: touch], float(_FRESH_BYTES), "B/s", seconds, "first touch of fresh pages"
    )


def cache_sizes() -> dict[str, int]:
    """Bytes of the data caches of the first core, as the system states; often wrong if virtual."""
    found: dict[str, int] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        with contextlib.suppress(OSError, ValueError):
            if (folder / "type").read_text().strip() == "Instruction":
                continue
            level = f"L{(folder / 'level').read_text().strip()}"
            size = (folder / "size").read_text().strip()
            found[level] = int(size.rstrip("KM")) * (2**20 if size.endswith("M") else 2**10)
    return found


def working_sets(available: int) -> dict[str, int]:
    """Bytes to add over, so that they come from each level. L1 is too quick for Python's calls."""
    caches = cache_sizes()
    second = caches.get("L2", 2**20)
    sets = {"L2": second // 2}
    if caches.get("L3", 0) >= 4 * second:
        # Well inside: a virtual machine sees the whole cache and has a part of it.
        sets["L3"] = min(caches["L3"] // 4, 8 * second)
    sets["DRAM"] = max(min(LARGEST_BYTES, available // 8), 64 * 2**20)
    return sets
