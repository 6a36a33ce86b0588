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


def disk(folder: Path, seconds: float) -> tuple[dict[str, Ceiling], dict[str, str]]:
    """Ceilings of the disk, each within so many seconds; and what could not be had."""
    found: dict[str, Ceiling] = {}
    missing: dict[str, str] = {}
    buffer = mmap.mmap(-1, _BLOCK)  # aligned to a page, as direct access wants it
    buffer.write(random.Random(0).randbytes(_BLOCK))
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".nodewise-probe-") as file:
            path = Path(file.name)
            blocks = _write_buffered(path, buffer, seconds, found)
            _evict(path)
            _read(path, os.O_RDONLY, blocks, buffer, seconds, "read, cold", found, at_once=4)
            _read(path, os.O_RDONLY, blocks, buffer, seconds / 2, "read, cached", found)
            try:
                _write_direct(path, blocks, buffer, seconds, found)
                _read(path, _direct(), blocks, buffer, seconds, "read, direct", found)
                _read_small(path, blocks, seconds, found)
            except OSError as error:
                missing["disk, direct"] = f"{folder}: {(error.strerror or str(error)).lower()}"
    except OSError as error:
        missing["disk"] = f"{folder}: {(error.strerror or str(error)).lower()}"
    finally:
        buffer.close()
    return found, missing


def _direct() -> int:
    return os.O_RDONLY | os.O_DIRECT


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


def _write_buffered(
    path: Path, buffer: mmap.mmap, seconds: float, found: dict[str, Ceiling]
) -> int:
    """Write and have it on the disk: eight blocks, then a sync. Gives the blocks of the file."""
    with _opened(path, os.O_WRONLY) as file:

        def write(_: int) -> int:
            size = sum(os.write(file, buffer) for _ in range(8))
            os.fdatasync(file)
            return size

        rates = _repeat(write, _FILE_BYTES // (8 * _BLOCK), seconds)
    found["write, synced"] = ceiling_of(rates, "B/s", "32 MiB at a time through the page cache")
    return path.stat().st_size // _BLOCK


def _evict(path: Path) -> None:
    with _opened(path, os.O_RDONLY) as file:
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def _read(
    path: Path,
    flags: int,
    blocks: int,
    buffer: mmap.mmap,
    seconds: float,
    name: str,
    found: dict[str, Ceiling],
    at_once: int = 1,
) -> None:
    """Read the file; several blocks at once where the system reads ahead of single ones.

    Over and over where no cache answers the second time: a disk's moods last longer than one pass.
    """
    steps = blocks // at_once
    with _opened(path, flags) as file:

        def read(step: int) -> int:
            start = step % steps * at_once * _BLOCK
            places = range(start, start + at_once * _BLOCK, _BLOCK)
            return sum(os.preadv(file, [buffer], place) for place in places)

        rates = _repeat(read, steps if at_once > 1 else _MOST_BLOCKS, seconds)
    found[name] = ceiling_of(rates, "B/s", f"{at_once * 4} MiB at a time")


def _write_direct(
    path: Path, blocks: int, buffer: mmap.mmap, seconds: float, found: dict[str, Ceiling]
) -> None:
    with _opened(path, os.O_WRONLY | os.O_DIRECT) as file:
        rates = _repeat(
            lambda at: os.pwrite(file, buffer, at % blocks * _BLOCK), _MOST_BLOCKS, seconds
        )
    found["write, direct"] = ceiling_of(rates, "B/s", "4 MiB at a time past the page cache")


def _read_small(path: Path, blocks: int, seconds: float, found: dict[str, Ceiling]) -> None:
    places = random.Random(0)
    pages = blocks * _BLOCK // _SMALL
    with mmap.mmap(-1, _SMALL) as small, _opened(path, _direct()) as file:

        def read(_: int) -> int:
            return os.preadv(file, [small], places.randrange(pages) * _SMALL)

        rates = _repeat(read, _MOST_BLOCKS, seconds)
    times = [_SMALL / rate for rate in rates]
    found["random 4 KiB read"] = ceiling_of(times, "s", "one at a time, direct")
