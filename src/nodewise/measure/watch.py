"""Watching a run from outside: what its processes use, and what other load takes from them."""

import contextlib
import os
import resource
import threading
from pathlib import Path

import psutil

from nodewise.study.study import Contention, Usage

_EVERY_SECONDS = 0.1
_LEAST_LEFT = 0.2  # of the CPU, to one more program on a full machine
_UNSEEN = Usage(run_delay_seconds=None)


class Watch:
    """Samples the process groups of a run: a program that knows nothing of us is measured too."""

    def __init__(self) -> None:
        """Nothing is watched before `follow` names the groups."""
        self._leaders: list[int] = []
        self._seen: dict[int, dict[int, Usage]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample_until_stopped, daemon=True)

    def __enter__(self) -> "Watch":
        """Note the state of the machine before the run."""
        self._before = _machine()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Note it after the run."""
        self._stop.set()
        self._thread.join(timeout=5)
        self._after = _machine()

    def follow(self, leaders: list[int]) -> None:
        """Watch these process groups from now on."""
        self._leaders = leaders

    def usage(self) -> list[Usage | None]:
        """What each group used, in the order of its leaders; nothing of one that was not seen."""
        return [_add(list(self._seen.get(leader, {}).values())) for leader in self._leaders]

    def contention(self, delays: list[float | None], seconds: float) -> Contention:
        """Other load during the run; `delays` are the ranks' own waits for a core, where known."""
        spent = self._spent()
        window = max(spent["total"], 1e-9)
        foreign = max(spent["busy"] - spent["own"], 0.0)
        known = [delay for delay in delays if delay is not None]
        whole = known and len(known) == len(delays)
        return Contention(
            run_delay=max(known) / max(seconds, 1e-9) if whole else None,
            foreign_cpu=foreign / window,
            steal=spent["steal"] / window,
            throttled=spent["throttled"] / max(seconds, 1e-9),
        )

    def share_used(self) -> float:
        """How much of the CPU that others left here the run used; a busy machine leaves some."""
        spent = self._spent()
        left = spent["own"] + spent["total"] - spent["busy"]
        return spent["own"] / max(left, _LEAST_LEFT * spent["total"], 1e-9)

    def _spent(self) -> dict[str, float]:
        return {name: self._after[name] - self._before[name] for name in self._before}

    def _sample_until_stopped(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            for leader in self._leaders:
                seen = self._seen.setdefault(leader, {})
                with contextlib.suppress(psutil.Error):
                    process = psutil.Process(leader)
                    for one in [process, *process.children(recursive=True)]:
                        with contextlib.suppress(psutil.Error, OSError):
                            seen[one.pid] = _usage_of(one, seen.get(one.pid, _UNSEEN))


def _usage_of(process: psutil.Process, before: Usage) -> Usage:
    times = process.cpu_times()
    counters = process.io_counters() if hasattr(process, "io_counters") else None
    delay = before.run_delay_seconds
    with contextlib.suppress(OSError, ValueError, IndexError):
        delay = int(Path(f"/proc/{process.pid}/schedstat").read_text().split()[1]) / 1e9
    return Usage(
        cpu_seconds=times.user + times.system,
        run_delay_seconds=delay,
        memory_bytes=max(process.memory_info().rss, before.memory_bytes),
        read_bytes=counters.read_bytes if counters else 0,
        written_bytes=counters.write_bytes if counters else 0,
    )


def _add(parts: list[Usage]) -> Usage | None:
    if not parts:
        return None
    delays = [part.run_delay_seconds for part in parts if part.run_delay_seconds is not None]
    return Usage(
        cpu_seconds=sum(part.cpu_seconds for part in parts),
        run_delay_seconds=max(delays, default=None),
        memory_bytes=sum(part.memory_bytes for part in parts),
        read_bytes=sum(part.read_bytes for part in parts),
        written_bytes=sum(part.written_bytes for part in parts),
    )


def _machine() -> dict[str, float]:
    """Seconds of all cores so far: in total, busy, stolen; and those of our finished children."""
    times = psutil.cpu_times()
    busy = sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "total": sum(times),
        "busy": busy,
        "steal": getattr(times, "steal", 0.0),
        "own": children.ru_utime + children.ru_stime + own.ru_utime + own.ru_stime,
        "throttled": _throttled_seconds(),
    }


def _throttled_seconds() -> float:
    """How long the quota of our own control group has held us up."""
    for path, name, unit in (
        ("/sys/fs/cgroup/cpu.stat", "throttled_usec", 1e-6),
        ("/sys/fs/cgroup/cpu/cpu.stat", "throttled_time", 1e-9),
    ):
        with contextlib.suppress(OSError, ValueError):
            for line in Path(path).read_text().splitlines():
                if line.startswith(f"{name} "):
                    return int(line.split()[1]) * unit
    return 0.0


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))
