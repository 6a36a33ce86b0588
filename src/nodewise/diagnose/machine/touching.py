"""Which memory a process uses within some milliseconds of its CPU time.

The marks of its pages are cleared, and counted when it has had some time on a core. So a busy
machine only makes the question longer. Each of the two walks over the pages takes its time: a page
is cleared, or seen, in the middle of a walk.
"""

import contextlib
import mmap
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# CPU seconds of the process, in turn: a stream uses all its memory in a long moment, which then
# tells nothing more; who works in the caches seems to stream in a short one.
_MOMENTS = (0.004, 0.03)
_AT_ONCE = 0.003  # seconds after which a process that runs may have had a short moment
_MOST_AT_ONCE = 0.06  # seconds: other load lets a process wait so long for its core
_MOST_SECONDS = 0.4  # by the clock; by then a process that runs at all has been on a core
_MARKED_PAGES = 20_000  # more than the caches hold
_MARK_REPEATS = 9
_COST = 0.01  # of one core, at most, for asking


class Touched(NamedTuple):
    """Bytes used within so many CPU seconds, of those that are resident; none: not asked."""

    bytes: float | None = None
    seconds: float = 0.0
    of_bytes: float = 0.0
    huge: float = 1.0  # share of them in huge pages, of which there are few to mark


class Touch:
    """Asks one process at a time, looked at again and again until it has had its time."""

    def __init__(self) -> None:
        """Nothing asked yet."""
        self._process: int | None = None
        self._asked = 0
        self._began = self._next = self._cost = 0.0
        self._cleared = self._clearing = 0.0  # its CPU seconds after and before that walk
        self._found = Touched()

    def look(self, busiest: Callable[[], int | None]) -> None:
        """Ask the busiest process if it is time to, or see whether the answer is due."""
        start, now = time.thread_time(), time.monotonic()
        try:
            if self._process is not None:
                self._answer(self._process, now)
            elif now >= self._next:
                self._ask(busiest(), now)
        except (OSError, ValueError, KeyError):  # it has just ended
            self._process = None
        self._cost += time.thread_time() - start
        if self._process is None:
            self._next = max(self._next, now + self._cost / _COST)
            self._cost = 0.0

    @property
    def _moment(self) -> float:
        return _MOMENTS[self._asked % len(_MOMENTS)]

    def taken(self) -> Touched:
        """The last answer, once."""
        found, self._found = self._found, Touched()
        return found

    def _ask(self, process: int | None, now: float) -> None:
        if process is None:
            return
        self._clearing = _cpu_of(process)
        Path(f"/proc/{process}/clear_refs").write_text("1")
        self._cleared = _cpu_of(process)
        self._process, self._began = process, now
        self._asked += 1
        is_short = self._moment == min(_MOMENTS)
        until = now + (_MOST_AT_ONCE if is_short else _AT_ONCE)
        while self._process is not None and time.monotonic() < until:
            time.sleep(_AT_ONCE)  # until the next look, a short moment would become a long one
            self._answer(process, now)

    def _answer(self, process: int, now: float) -> None:
        cpu = _cpu_of(process)
        if cpu - self._cleared < self._moment and now - self._began < _MOST_SECONDS:
            return
        self._process = None
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
        sizes = {line.split(":")[0]: float(line.split()[1]) * 1024 for line in lines}
        seconds = (cpu + _cpu_of(process) - self._clearing - self._cleared) / 2
        huge = sizes["AnonHugePages"] / max(sizes["Rss"], 1.0)
        self._found = Touched(sizes["Referenced"], seconds, sizes["Rss"], min(huge, 1.0))


def seconds_of_a_mark() -> float:
    """What it costs a program when a small page is used for the first time after the question.

    The processor then marks the page again, in a virtual machine by way of two tables. 0 where the
    marks cannot be cleared.
    """
    import numpy as np

    found = []
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    with mmap.mmap(-1, _MARKED_PAGES * mmap.PAGESIZE, flags=private) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        numbers = np.frombuffer(memory, dtype=np.float64)
        numbers[:] = 1
        for _ in range(_MARK_REPEATS):
            try:
                Path("/proc/self/clear_refs").write_text("1")
            except OSError:
                return 0.0
            clocks = [time.thread_time()]
            for _ in range(2):  # marked, then merely used
                numbers += 1
                clocks.append(time.thread_time())
            found.append(clocks[1] - clocks[0] - (clocks[2] - clocks[1]))
        del numbers
    return max(statistics.median(found), 0.0) / _MARKED_PAGES


def _cpu_of(process: int) -> float:
    """CPU seconds of all its threads."""
    total = 0
    for name in os.listdir(f"/proc/{process}/task"):  # noqa: PTH208 - many times a second
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int(Path(f"/proc/{process}/task/{name}/schedstat").read_text().split()[0])
    return total / 1e9
