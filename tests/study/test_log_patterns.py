"""Figures from the output of programs: patterns, presets, and what is refused."""

import json
from pathlib import Path

import pytest

from nodewise.base.errors import SpecError
from nodewise.study.log_patterns import Figures, NoFigure, Reading, log_patterns, presets
from nodewise.study.spec import Pattern, Workload, parse_spec

LOGS = Path("/work/shared/data/trainlogs/hpc")
LAMMPS = """
Loop time of 0.3 on 2 procs for 0 steps with 100 atoms
Loop time of 9.9 on 2 procs for 50 steps with 100 atoms
Pair    | 8          | 8.5        | 9          |   0.0 | 80.00
Comm    | 0.5        | 0.6        | 0.9        |   0.0 | 10.00
Loop time of 4 on 2 procs for 100 steps with 2000 atoms

MPI task timing breakdown:
Section |  min time  |  avg time  |  max time  |%varavg| %total
---------------------------------------------------------------
Pair    | 1.5        | 2          | 2.5        |  40.8 | 50.00
Neigh   | 0.25       | 0.25       | 0.25       |   6.4 |  6.25
Comm    | 0.5        | 1          | 1.5        |  47.0 | 25.00
Output  | 2.5e-01    | 2.5e-01    | 2.5e-01    |   0.0 |  6.25
Modify  | 0.125      | 0.125      | 0.125      |   0.0 |  3.12
Other   |            | 0.375      |            |       |  9.38

Loop time of 1e-06 on 2 procs for 0 steps with 2000 atoms
Pair    | 0          | 0          | 0          |   0.0 |  0.00
Comm    | 0          | 0          | 0          |   0.0 |  0.00
"""


def read(workload: Workload, text: str) -> Figures:
    patterns = log_patterns(workload)
    assert patterns is not None
    return Reading(patterns).lines(text.splitlines())


def test_the_last_match_counts_by_default():
    text = "time 3 s\nwork 10 x 20\ntime 4 s\ntime 1,234.5 s\nerror 1e-3"
    found = read(
        Workload(seconds=r"time (\S+) s", work=r"work (\d+) x (\d+)", quality=r"error (\S+)"), text
    )
    assert found == (1234.5, 200.0, 0.001, {})


@pytest.mark.parametrize(("take", "expected"), [("last", 5.0), ("first", 3.0), ("sum", 12.0)])
def test_of_several_matches_one_is_taken_or_all_are_added(take, expected):
    stage = {"io": Pattern(pattern=r"io (\d)", take=take)}
    found = read(Workload(seconds=r"t=(\d)", stage=stage), "io 3\nt=9\nio 4\nio 5")
    assert found.stages == {"io": expected}


def test_lammps_prints_its_stages():
    found = read(Workload(log="lammps"), LAMMPS)
    assert found.seconds == 4.0  # not the equilibration before it, nor an empty run after it
    assert found.work == 200_000
    assert found.stages == {"compute": 2.375, "communication": 0.5, "idle": 0.5, "io": 0.25}


@pytest.mark.parametrize(
    ("name", "line", "seconds"),
    [
        ("gromacs", "       Time:     1904.055      239.372      795.4", 239.372),
        ("openfoam", "ExecutionTime = 12.31 s  ClockTime = 13 s", 13.0),
        ("hpcg", "Benchmark Time Summary::Total=60.4858", 60.4858),
        ("quantum-espresso", "     PWSCF        :      4.60s CPU      4.71s WALL", 4.71),
        ("quantum-espresso", "     PWSCF        :   1m12.34s CPU   1m20.12s WALL", 80.12),
        ("quantum-espresso", "     PWSCF        :   1h 2m CPU   1h 5m WALL", 3900.0),
    ],
)
def test_presets_find_the_time(name, line, seconds):
    assert read(Workload(log=name), f"before\n{line}\nafter").seconds == pytest.approx(seconds)


def test_gromacs_prints_its_stages():
    text = """
     R E A L   C Y C L E   A N D   T I M E   A C C O U N T I N G
 Domain decomp.         4    1         21       0.500          1.234   3.4
 Comm. coord.           4    1        200       0.250          1.234   3.4
 Force                  4    1        201       6.000          1.234   3.4
 Wait + Comm. F         4    1        201       0.750          1.234   3.4
 Write traj.            4    1          1       0.125          1.234   3.4
 Rest                                           0.010          0.123   0.5
       Time:      30.5      7.625      400.0
"""
    found = read(Workload(log="gromacs"), text)
    assert found.seconds == 7.625
    assert found.stages == {"compute": 6.5, "communication": 1.0, "io": 0.125}


def test_own_patterns_come_before_those_of_a_preset():
    found = read(Workload(log="lammps", seconds=r"Total wall time: 0:00:(\d+)"),
                 LAMMPS + "Total wall time: 0:00:14")  # fmt: skip
    assert found.seconds == 14.0 and found.work == 200_000


def test_every_preset_can_be_searched():
    assert set(presets()) == {"lammps", "gromacs", "openfoam", "hpcg", "quantum-espresso"}
    for name in presets():
        with pytest.raises(NoFigure, match=r"workload\.seconds"):
            read(Workload(log=name), "hello\nworld")


@pytest.mark.parametrize(
    ("workload", "what"),
    [
        ({"seconds": "time (\\S+"}, "not a regular expression: missing ), unterminated"),
        ({"seconds": "time"}, "has no group"),
        ({"seconds": "(?P<minus>a)"}, "has no group"),
        ({"log": "lamps"}, "'lamps' is not a preset"),
        ({"seconds": "(a)", "stage": {"mpi": "(b)"}}, "unknown stage 'mpi'"),
        ({"output": "md.log"}, "no pattern is set to look for"),
    ],
)
def test_a_bad_pattern_is_refused_before_a_run(workload, what):
    with pytest.raises(SpecError) as refused:
        log_patterns(Workload(**workload))
    assert what in refused.value.what


def test_a_group_that_is_not_a_number_is_said():
    with pytest.raises(NoFigure, match="found 'fast', which is not a number"):
        read(Workload(seconds=r"took (\w+)"), "took fast")


def test_a_required_stage_that_is_missing_is_said():
    with pytest.raises(NoFigure, match=r"stage\.io"):
        read(Workload(seconds="t=(.)", stage={"io": "io=(.)"}), "t=1")


def test_the_spec_takes_patterns_and_arguments():
    spec = parse_spec(
        """
        name = "a"
        scales = [1, 8]
        [workload]
        command = ["app"]
        seconds = 'Loop time of (\\S+)'
        stage.communication = 'Comm (\\S+)'
        stage.io = { pattern = 'io (\\S+)', take = "sum" }
        [workload.arguments]
        1 = ["-s", "30"]
        8 = ["-s", "60"]
        """
    )
    assert spec.workload.arguments == {1: ("-s", "30"), 8: ("-s", "60")}
    assert spec.workload.stage["io"] == Pattern(pattern=r"io (\S+)", take="sum")


def test_arguments_must_be_there_for_every_scale():
    text = 'name = "a"\nscales = [1, 2]\n[workload]\ncommand = ["a"]\n[workload.arguments]\n1 = []'
    with pytest.raises(SpecError, match=r"K=2 has no arguments"):
        parse_spec(text)


def test_more_scales_with_their_arguments_continue_a_study():
    text = 'name = "a"\nscales = [{}]\n[workload]\ncommand = ["a"]\n[workload.arguments]\n{}'
    first = parse_spec(text.format("1", '1 = ["x"]'))
    assert parse_spec(text.format("1, 2", '1 = ["x"]\n2 = ["y"]')).continues(first)
    assert not parse_spec(text.format("1, 2", '1 = ["z"]\n2 = ["y"]')).continues(first)


@pytest.mark.skipif(not LOGS.is_dir(), reason=f"no {LOGS}")
def test_real_logs_of_lammps_agree_with_their_truth():
    truth = json.loads((LOGS / "truth.json").read_text())
    logs = [name for name, facts in truth.items()
            if isinstance(facts, dict) and facts.get("program") == "LAMMPS"]  # fmt: skip
    assert logs
    for name in logs:
        found = read(Workload(log="lammps"), (LOGS / name).read_text())
        facts = truth[name]
        assert found.seconds == facts["loop_s"]
        assert found.work == facts["steps"] * facts["atoms"]
        if "seconds_avg" in facts:
            moved = found.stages["communication"] + found.stages["idle"]
            assert moved == pytest.approx(facts["seconds_avg"]["Comm"])
