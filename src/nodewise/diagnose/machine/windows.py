"""Short timed windows, of which only those count in which no other process had the core.

The kernel says how long a thread was ready to run and had to wait. A window in which that figure
did not move was not disturbed by other load, so ceilings come out (nearly) the same on a busy
machine. Where windows are too long to stay clean, the thread's own CPU time replaces the wall.
"""

import array
import bisect
import contextlib
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

from nodewise.base.interval import median_interval
from nodewise.study.machine import Ceiling, Unit

ENOUGH_CLEAN = 20
_MOST_WINDOWS = 20_000
Kernel = Callable[[], object]
Maker = Callable[[], Kernel]


class Window(NamedTuple):
    """One call of a kernel, in nanoseconds."""

    start: int
    end: int
    cpu: int
    delay: int

    @property
    def clean(self) -> bool:
        """Whether the thread had its core from begin to end."""
        return self.delay == 0


@contextlib.contextmanager
def run_delay() -> Iterator[Callable[[], int]]:
    """Nanoseconds that the calling thread has waited for a core so far; 0 where not counted."""
    try:
        file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        yield lambda: 0
        return
    try:
        yield lambda: int(os.pread(file, 64, 0).split()[1])
    finally:
        os.close(file)


def loop(kernel: Kernel, seconds: float) -> list[Window]:
    """Call the kernel again and again for so long, at least once."""
    windows: list[Window] = []
    with run_delay() as delay:
        kernel()  # caches, pages and clocks warm
        until = time.perf_counter_ns() + int(seconds * 1e9)
        while len(windows) < _MOST_WINDOWS:
            waited, cpu, start = delay(), time.thread_time_ns(), time.perf_counter_ns()
            kernel()
            end = time.perf_counter_ns()
            windows.append(Window(start, end, time.thread_time_ns() - cpu, delay() - waited))
            if end > until:
                break
    return windows


def together(makers: Sequence[Maker], seconds: float) -> list[list[Window]]:
    """Each kernel in a process of its own, all at once.

    Processes, because threads of Python would wait for each other between the windows. They run
    free: a hand-off for every window would put them to sleep. Each makes its own kernel, so that
    its memory is its own.
    """
    if len(makers) == 1:
        return [loop(makers[0](), seconds)]
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(_child(maker, seconds)) for maker in makers]
        for _, ready, _ in children:
            ready.read(1)
        for go, _, _ in children:
            go.write(b"g")
            go.flush()
        return [_windows(result.read()) for _, _, result in children]


@contextlib.contextmanager
def _child(maker: Maker, seconds: float) -> Iterator[tuple[BinaryIO, BinaryIO, BinaryIO]]:
    """A process that makes its kernel, says so, waits for us, and sends its windows."""
    (go_read, go_write), (said_read, said_write) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(go_write)
            kernel = maker()
            os.write(said_write, b"r")
            os.read(go_read, 1)
            numbers = array.array("q", itertools.chain(*loop(kernel, seconds)))
            with os.fdopen(said_write, "wb") as said:
                said.write(numbers.tobytes())
            status = 0
        finally:
            os._exit(status)
    os.close(go_read)
    os.close(said_write)
    with os.fdopen(go_write, "wb") as go, os.fdopen(said_read, "rb", buffering=0) as said:
        yield go, said, said
    os.waitpid(child, 0)


def _windows(raw: bytes) -> list[Window]:
    numbers = array.array("q")
    numbers.frombytes(raw)
    return [Window(*numbers[at : at + 4]) for at in range(0, len(numbers), 4)]


def joint_rates(threads: Sequence[Sequence[Window]], amount: float) -> list[float]:
    """Rates of all threads together, in moments in which every one of them ran undisturbed."""
    first, *others = ([window for window in windows if window.clean] for windows in threads)
    starts = [[window.start for window in windows] for windows in others]
    rates = []
    for window in first:
        rate = _rate(window, amount)
        for windows, begin in zip(others, starts, strict=True):
            partner = _overlapping(window, windows, begin)
            if partner is None:
                break
            rate += _rate(partner, amount)
        else:
            rates.append(rate)
    return rates


def _rate(window: Window, amount: float) -> float:
    return amount / max(window.end - window.start, 1) * 1e9


def _overlapping(window: Window, windows: Sequence[Window], starts: list[int]) -> Window | None:
    """The clean window of another thread that shares most of this one's time."""
    at = bisect.bisect_right(starts, window.start)
    best, shared = None, (window.end - window.start) / 2
    for other in windows[max(at - 1, 0) : at + 2]:
        overlap = min(window.end, other.end) - max(window.start, other.start)
        if overlap >= shared:
            best, shared = other, overlap
    return best


def ceiling(
    makers: Sequence[Maker], amount: float, unit: Unit, seconds: float, how: str
) -> Ceiling:
    """The rate at which so many kernels run at once; `amount` is what one call does.

    Too few clean windows: CPU time, which other load lengthens only through the caches.
    """
    threads = together(makers, seconds)
    everything = [window for windows in threads for window in windows]
    clean = sum(window.clean for window in everything) / len(everything)
    rates = joint_rates(threads, amount)
    if len(rates) < ENOUGH_CLEAN:
        how = f"{how}; by CPU time"
        least = min(len(windows) for windows in threads)
        rates = [
            sum(amount / max(windows[at].cpu, 1) * 1e9 for windows in threads)
            for at in range(least)
        ]
    return ceiling_of(rates, unit, how, clean)


def ceiling_of(values: Sequence[float], unit: Unit, how: str, clean: float = 1.0) -> Ceiling:
    """The median of values with its 95 % interval; below six values, their range."""
    low, high = median_interval(np.array(values))
    return Ceiling(
        value=statistics.median(values),
        low=low,
        high=high,
        unit=unit,
        windows=len(values),
        clean=clean,
        how=how,
    )
