"""The disk below a folder: written and read past the page cache, and through it."""

import contextlib
import mmap
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from nodewise.diagnose.machine.windows import ceiling_of
from nodewise.study.machine import Ceiling

_BLOCK = 4 * 2**20
_SMALL = 4096
_FILE_BYTES = 256 * 2**20
_LEAST_BLOCKS = 4
_MOST_BLOCKS = 5000
_DIRECT = os.O_RDONLY | os.O_DIRECT


def disk(folder: Path, seconds: float) -> tuple[dict[str, Ceiling], dict[str, str]]:
    """Ceilings of the disk, each within so many seconds; and what could not be had."""
    found: dict[str, Ceiling] = {}
    missing: dict[str, str] = {}
    buffer = mmap.mmap(-1, _BLOCK)  # aligned to a page, as direct access wants it
    buffer.write(random.Random(0).randbytes(_BLOCK))
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".nodewise-probe-") as file:
            path = Path(file.name)
            found["write, synced"] = _write_buffered(path, buffer, seconds)
            _evict(path)
            found["read, cold"] = _read(path, os.O_RDONLY, buffer, seconds, at_once=4)
            found["read, cached"] = _read(path, os.O_RDONLY, buffer, seconds / 2)
            try:
                found["write, direct"] = _write_direct(path, buffer, seconds)
                found["read, direct"] = _read(path, _DIRECT, buffer, seconds)
                found["random 4 KiB read"] = _read_small(path, seconds)
            except OSError as error:
                missing["disk, direct"] = f"{folder}: {(error.strerror or str(error)).lower()}"
    except OSError as error:
        missing["disk"] = f"{folder}: {(error.strerror or str(error)).lower()}"
    finally:
        buffer.close()
    return found, missing


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _repeat(step: Callable[[int], int], most: int, seconds: float) -> list[float]:
    """Bytes per second of each step, until the time is up."""
    rates: list[float] = []
    until = time.perf_counter() + seconds
    for at in range(most):
        start = time.perf_counter()
        size = step(at)
        end = time.perf_counter()
        rates.append(size / max(end - start, 1e-9))
        if end > until and len(rates) >= _LEAST_BLOCKS:
            break
    return rates


def _blocks(path: Path) -> int:
    return path.stat().st_size // _BLOCK


def _write_buffered(path: Path, buffer: mmap.mmap, seconds: float) -> Ceiling:
    """Write and have it on the disk: eight blocks, then a sync."""
    with _opened(path, os.O_WRONLY) as file:

        def write(_: int) -> int:
            size = sum(os.write(file, buffer) for _ in range(8))
            os.fdatasync(file)
            return size

        rates = _repeat(write, _FILE_BYTES // (8 * _BLOCK), seconds)
    return ceiling_of(rates, "B/s", "32 MiB at a time through the page cache")


def _evict(path: Path) -> None:
    with _opened(path, os.O_RDONLY) as file:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def _read(path: Path, flags: int, buffer: mmap.mmap, seconds: float, at_once: int = 1) -> Ceiling:
    """Read the file; several blocks at once where the system reads ahead of single ones.

    Over and over where no cache answers the second time: the speed of a disk changes more slowly.
    """
    steps = _blocks(path) // at_once
    with _opened(path, flags) as file:

        def read(step: int) -> int:
            start = step % steps * at_once * _BLOCK
            places = range(start, start + at_once * _BLOCK, _BLOCK)
            return sum(os.preadv(file, [buffer], place) for place in places)

        rates = _repeat(read, steps if at_once > 1 else _MOST_BLOCKS, seconds)
    return ceiling_of(rates, "B/s", f"{at_once * 4} MiB at a time")


def _write_direct(path: Path, buffer: mmap.mmap, seconds: float) -> Ceiling:
    blocks = _blocks(path)
    with _opened(path, os.O_WRONLY | os.O_DIRECT) as file:
        rates = _repeat(
            lambda at: os.pwrite(file, buffer, at % blocks * _BLOCK), _MOST_BLOCKS, seconds
        )
    return ceiling_of(rates, "B/s", "4 MiB at a time past the page cache")


def _read_small(path: Path, seconds: float) -> Ceiling:
    places = random.Random(0)
    pages = path.stat().st_size // _SMALL
    with mmap.mmap(-1, _SMALL) as small, _opened(path, _DIRECT) as file:

        def read(_: int) -> int:
            return os.preadv(file, [small], places.randrange(pages) * _SMALL)

        rates = _repeat(read, _MOST_BLOCKS, seconds)
    return ceiling_of([_SMALL / rate for rate in rates], "s", "one at a time, direct")
