"""CPU time and memory by the ranks of a study and by the traces of a job.

    .venv/bin/python benchmarks/scale.py [--ranks 256,1024,4096,10000] [--traces 4,16,64]

A simulated study has 7 rounds at K = 1, 4, 16, ... up to the largest, every rank with its stages. A
trace has 20 steps of 100 kernels. Beside each time stands its ratio to `import numpy`, measured in
the same run. Memory is the largest resident size of the command alone. `report` is run twice: the
second time it finds its charts drawn already.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.study import store

NODEWISE = str(Path(sys.executable).parent / "nodewise")
ROUNDS, STEPS, KERNELS = 7, 20, 100


class Cost(NamedTuple):
    """What a command took."""

    seconds: float  # of CPU time, its processes included
    megabytes: float


def cost(command: Sequence[str], environment: dict[str, str]) -> Cost:
    """Run a command to its end."""
    child = os.posix_spawnp(
        command[0],
        list(command),
        {**os.environ, **environment},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
    )
    _, status, used = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"{' '.join(command)} failed")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def write_study(folder: Path, most: int) -> int:
    """A study folder; the number of ranks in all of its runs."""
    scales = [4**power for power in range(9) if 4**power < most] + [most]
    truth = PlantedTruth(
        law=Law(s=0.002), scales=tuple(scales), rounds=ROUNDS, jitter=0.05, detail="ranks"
    )
    head = f'name = "scale"\nscales = {scales}\nrounds = {ROUNDS}\n'
    store.create(folder, f'{head}[workload]\ncommand = ["job"]\n')
    runs = simulate(truth).runs
    with (folder / store.RUNS).open("wb") as file:
        for run in runs:
            file.write(msgspec.json.encode(run) + b"\n")
    return sum(len(run.ranks) for run in runs)


def write_traces(folder: Path, count: int) -> None:
    """A Kineto trace for each rank."""
    folder.mkdir()
    for rank in range(count):
        events = []
        for step in range(STEPS):
            at = 1_690_000_000_000_000 + 100_000 * step
            events.append(_event("user_annotation", f"ProfilerStep#{step}", at, 99_000, {}))
            for kernel in range(KERNELS):
                begin, number = at + 900 * kernel + rank, 1000 * step + kernel
                name = "ncclDevKernel_AllReduce_Sum_f32" if kernel % 10 == 9 else "gemm"
                also = {"correlation": number}
                events.append(_event("cuda_runtime", "cudaLaunchKernel", begin - 5, 4, also))
                events.append(_event("kernel", name, begin, 700, {**also, "stream": 7}))
        about = {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": count}}
        (folder / f"rank{rank}.json").write_text(json.dumps({**about, "traceEvents": events}))


def _event(
    kind: str, name: str, at: float, lasts: float, also: dict[str, int]
) -> dict[str, object]:
    return {"ph": "X", "cat": kind, "name": name, "pid": 1, "tid": 1, "ts": at, "dur": lasts,
            "args": also}  # fmt: skip


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", default="256,1024,4096,10000")
    parser.add_argument("--traces", default="4,16,64")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        here = Path(place)
        plain = {"XDG_CACHE_HOME": place, "PYTHONDONTWRITEBYTECODE": ""}
        numpy = min(cost([sys.executable, "-c", "import numpy"], plain) for _ in range(5))
        print(f"import numpy: {numpy.seconds:.2f} s CPU, {numpy.megabytes:.0f} MB\n")
        write_study(here / "first.study", 4)  # bytecode and scripts are written once
        cost([NODEWISE, "report", str(here / "first.study")], plain)

        def shown(*words: object) -> str:
            taken = cost([NODEWISE, *map(str, words)], plain)
            ratio = taken.seconds / numpy.seconds
            return f"{taken.seconds:.1f} s ({ratio:.0f}x), {taken.megabytes:.0f} MB"

        print(
            "| ranks at the largest K | in all runs | attribute | decide | report | report again |"
        )
        print("|--:|--:|--:|--:|--:|--:|")
        for most in map(int, asked.ranks.split(",")):
            folder = here / f"{most}.study"
            in_all = write_study(folder, most)
            page = ("report", folder, "-o", here / "page.html")
            cells = [
                shown("attribute", folder),
                shown("decide", folder),
                shown(*page),
                shown(*page),
            ]
            print(f"| {most:,} | {in_all:,} | {' | '.join(cells)} |", flush=True)
        print("\n| traces | events in each | trace | its page |\n|--:|--:|--:|--:|")
        for count in map(int, asked.traces.split(",")):
            folder = here / f"{count}-traces"
            write_traces(folder, count)
            page = ("trace", folder, "--page", here / "trace.html")
            events = STEPS * (1 + 2 * KERNELS)
            print(
                f"| {count} | {events:,} | {shown('trace', folder)} | {shown(*page)} |", flush=True
            )


if __name__ == "__main__":
    main()
