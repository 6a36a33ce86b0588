"""Timing a step of a program: wall, CPU, fresh pages, and without other load's share."""

import resource
import time
from collections.abc import Callable

from nodewise.diagnose.machine.windows import run_delay
from nodewise.study.observed import TimedStep


def time_step(
    name: str,
    call: Callable[[], object],
    *,
    repeats: int,
    flops: float = 0.0,
    memory_bytes: float = 0.0,
    disk_bytes: float = 0.0,
    dtype: str = "float64",
) -> TimedStep:
    """Run the step once to warm up, then so many times.

    The time in which another process had the core of the calling thread is left out, so that a busy
    machine gives the same result as a quiet one.
    """
    runs = []
    call()
    with run_delay() as delay:
        for _ in range(repeats):
            waited, before = delay(), resource.getrusage(resource.RUSAGE_SELF)
            start = time.perf_counter()
            call()
            wall = time.perf_counter() - start
            after = resource.getrusage(resource.RUSAGE_SELF)
            # Threads of a library may have run while the calling one waited: then it was no loss.
            system = after.ru_stime - before.ru_stime
            cpu = after.ru_utime - before.ru_utime + system
            seconds = max(wall - (delay() - waited) / 1e9, min(cpu, wall) * 0.5, 1e-9)
            runs.append((seconds, cpu, system, after.ru_minflt - before.ru_minflt))
    middle = sorted(runs)[len(runs) // 2]
    return TimedStep(
        name=name,
        seconds=tuple(run[0] for run in runs),
        cpu_seconds=middle[1],
        system_seconds=middle[2],
        faults=float(middle[3]),
        flops=flops,
        memory_bytes=memory_bytes,
        disk_bytes=disk_bytes,
        dtype=dtype,
    )
