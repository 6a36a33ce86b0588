"""Overhead of watching: fixed work with and without `nodewise diagnose`, in alternation.

    python benchmarks/diagnose_overhead.py              # programs of 10 s, five pairs of each
    python benchmarks/diagnose_overhead.py --pairs 3 --seconds 5

CPU is that of the program and of everything beside it. Where other load moves even that, the last
column tells: the CPU time of nodewise alone, over that of the program in the same run. Wall time is
from the start of the command to its end, so it holds the start of Python and the answer too. The
machine's own figures are stored before: that probe runs once on a machine.
Exits with 1 where a goal is missed.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from nodewise.diagnose.machine.measured import one_core

MOST_WALL, MOST_CPU = 1.10, 1.05
PROGRAMS = {
    "arithmetic": "for _ in range({n} * 40): sum(range(100_000))",
    "memory stream": "import numpy as np\na, b = np.ones(30_000_000), np.ones(30_000_000)\n"
    "for _ in range({n} * 3): a += b",
    "20 processes": "import multiprocessing as m\n"
    "def work(i): sum(range(100_000))\n"
    "with m.Pool(20) as p: p.map(work, range({n} * 40), chunksize=8)",
    "50 threads": "import hashlib, queue, threading\n"
    "q = queue.SimpleQueue(); b = bytes(1_000_000)\n"
    "def work():\n    while q.get(): hashlib.sha256(b).digest()\n"
    "t = [threading.Thread(target=work) for _ in range(50)]; [x.start() for x in t]\n"
    "for _ in range({n} * 60): q.put(1)\nfor _ in t: q.put(0)\nfor x in t: x.join()",
}
# What the program and the processes it waited for took, written down by the program.
_OWN = "\nimport os; t = os.times(); print(sum(t[:4]), file=open(os.environ['OWN_CPU'], 'w'))"
WATCH = (sys.executable, "-m", "nodewise", "diagnose", "--watch-for", "600s", "--")


class Cost(NamedTuple):
    """Of one run, with all that it started."""

    wall: float
    cpu: float
    own: float  # CPU seconds of the program alone; 0 where it does not tell


def run(command: tuple[str, ...]) -> Cost:
    """The wall and CPU seconds of a command."""
    with tempfile.NamedTemporaryFile() as told:
        begin = time.perf_counter()
        child = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OWN_CPU": told.name},
        )
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"{' '.join(command)[:80]} ended with code {child.returncode}")
        own = float(Path(told.name).read_text() or 0)
    return Cost(wall, used.ru_utime + used.ru_stime, own)


def sized(code: str, seconds: float) -> tuple[str, ...]:
    """The program with so much work that it takes about so long on free cores."""
    start = run((sys.executable, "-c", code.format(n=1)))
    units, cpu = 1, 0.0
    while cpu < 1:  # other load moves a shorter difference too much
        units *= 4
        cpu = run((sys.executable, "-c", code.format(n=1 + units))).cpu - start.cpu
    return (sys.executable, "-c", code.format(n=max(int(seconds * units / cpu), 1)) + _OWN)


def main(chosen: argparse.Namespace) -> int:
    """Each program in pairs; the ratio of a pair is of two runs next to each other."""
    one_core(Path.cwd())
    run((*WATCH, sys.executable, "-c", "pass"))  # files and caches warm
    print(f"load at the start {os.getloadavg()[0]:.1f}; {chosen.pairs} pairs of each program")
    print(
        "program          bare s  watched s  wall ratio (range)      CPU ratio (range)       "
        "nodewise alone"
    )
    missed = []
    for name in chosen.only:
        code = PROGRAMS[name]
        command = sized(code, chosen.seconds)
        pairs = []
        for number in range(chosen.pairs):
            first, second = ((), WATCH) if number % 2 == 0 else (WATCH, ())
            costs = {bool(how): run((*how, *command)) for how in (first, second)}
            pairs.append((costs[False], costs[True]))
        wall = sorted(watched.wall / bare.wall for bare, watched in pairs)
        cpu = sorted(watched.cpu / bare.cpu for bare, watched in pairs)
        alone = statistics.median((one.cpu - one.own) / one.own for _, one in pairs)
        print(
            f"{name:15s} {statistics.median(bare.wall for bare, _ in pairs):7.2f} "
            f"{statistics.median(watched.wall for _, watched in pairs):10.2f}  "
            f"{statistics.median(wall):.3f} ({wall[0]:.3f}..{wall[-1]:.3f})    "
            f"{statistics.median(cpu):.3f} ({cpu[0]:.3f}..{cpu[-1]:.3f})    "
            f"{alone:.1%}",
            flush=True,
        )
        if statistics.median(wall) > MOST_WALL or statistics.median(cpu) > MOST_CPU:
            missed.append(name)
    print(f"goals: wall {MOST_WALL}, CPU {MOST_CPU}; missed by: {', '.join(missed) or 'none'}")
    return bool(missed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", nargs="*", default=[*PROGRAMS], choices=[*PROGRAMS])
    sys.exit(main(parser.parse_args()))
