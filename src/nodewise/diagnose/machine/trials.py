"""Runs of a program with competitors: what `--confirm` measures.

The program gets one half of the cores. A competitor for memory or for nothing but arithmetic gets
each core of the other half; in the third run the arithmetic is on the program's own cores. A known
memory stream takes the place of the program too: if it does not react, nothing can be concluded.
"""

import contextlib
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from nodewise.base.errors import RunError
from nodewise.diagnose.machine.watching import start_adopting
from nodewise.measure.engines.base import SCRATCH_MARK, die_with_parent, end
from nodewise.measure.scratch import scratch_folder
from nodewise.study.observed import Trials

_MOST_COMPETITORS = 16
_READY_SECONDS = 20
_MEMORY = (
    "import numpy as np; a, b = np.ones(16_000_000), np.ones(16_000_000); print(flush=True)\n"
    "while True: a += b"
)
_REFERENCE = (
    "import numpy as np; a, b = np.ones(16_000_000), np.ones(16_000_000)\n"
    "for _ in range(150): a += b"
)
_ARITHMETIC = "print(flush=True)\nwhile True: sum(range(10000))"


def trials(command: tuple[str, ...], most_seconds: float) -> Trials:
    """CPU seconds of the command in each of the three runs, and of the known stream in two."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise RunError("--confirm needs two cores.", "Drop --confirm, or allow more cores.")
    own, others = cores[: len(cores) // 2], cores[len(cores) // 2 :][:_MOST_COMPETITORS]
    with scratch_folder() as folder:
        known = (sys.executable, "-c", _REFERENCE)
        with _competitors(_ARITHMETIC, others, folder):
            arithmetic = _cpu_seconds(command, own, most_seconds, folder)
            reference_arithmetic = _cpu_seconds(known, own, most_seconds, folder)
        with _competitors(_MEMORY, others, folder):
            memory = _cpu_seconds(command, own, most_seconds, folder)
            reference_memory = _cpu_seconds(known, own, most_seconds, folder)
        with _competitors(_ARITHMETIC, own, folder):
            shared = _cpu_seconds(command, own, most_seconds, folder)
    return Trials(
        arithmetic=arithmetic,
        memory=memory,
        reference_arithmetic=reference_arithmetic,
        reference_memory=reference_memory,
        shared=shared,
    )


@contextlib.contextmanager
def _competitors(code: str, cores: list[int], folder: Path) -> Iterator[None]:
    """One busy process on each of these cores, at work before the program starts."""
    with contextlib.ExitStack() as stack:
        for core in cores:
            one = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                env={**os.environ, SCRATCH_MARK: str(folder), "OPENBLAS_NUM_THREADS": "1"},
                preexec_fn=die_with_parent,
            )
            stack.callback(one.wait, timeout=_READY_SECONDS)
            stack.callback(one.kill)
            assert one.stdout is not None
            stack.enter_context(one.stdout)
            os.sched_setaffinity(one.pid, {core})
            one.stdout.readline()
        yield


def _cpu_seconds(
    command: tuple[str, ...], cores: list[int], most_seconds: float, folder: Path
) -> float | None:
    """Of the program and what it started and waited for; None if it failed or had no end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program, adopted = start_adopting(command, folder, subprocess.DEVNULL)
    began = time.monotonic()
    try:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(program.pid, cores)
        code = program.wait(timeout=most_seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        end(program)
        adopted.close()
    if code != 0 or time.monotonic() - began > most_seconds:
        return None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
