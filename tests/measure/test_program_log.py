"""The output of a run: figures from it, what is kept, what is searched, and for how long."""

import json
import os
import time
from pathlib import Path

import pytest
from benchmarks import log_samples

from nodewise.base import time_limit
from nodewise.importers.logs.survey import survey
from nodewise.measure import program_log
from nodewise.measure.engines import base
from nodewise.measure.engines.base import Job
from nodewise.measure.program_log import KEPT_BYTES, failure_lines, kept_output, with_figures
from nodewise.study import store
from nodewise.study.log_patterns import log_patterns, presets
from nodewise.study.spec import Workload
from nodewise.study.study import Rank, Run
from tests.jobs import wait_until
from tests.study.test_spec import MINIMAL

LAMMPS = """\
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
LOGS = Path("/work/shared/data/trainlogs/hpc")
RUN = Run(nodes=4, round=0, seconds=9.0, wall_seconds=9.5)


def read(tmp_path: Path, text: str, run: Run = RUN, since: float = 0.0, **workload: object) -> Run:
    log = tmp_path / "log"
    log.write_text(text)
    return with_figures(run, log_patterns(Workload(**workload)), log, tmp_path, since)


def test_a_run_keeps_both_clocks(tmp_path):
    run = read(tmp_path, "took 7.5 s\nmoved 2 s\nloss 0.25\n", seconds=r"took (\S+) s",
               quality=r"loss (\S+)", stage={"communication": r"moved (\S+) s"})  # fmt: skip
    assert (run.seconds, run.wall_seconds, run.quality) == (7.5, 9.5, 0.25)
    assert run.stages == {"communication": 2.0}
    assert run.provenance["clock"] == r"the program's log, took (\S+) s"


def test_figures_without_a_time_leave_the_clock_alone(tmp_path):
    run = read(tmp_path, "work 12\n", work=r"work (\S+)")
    assert (run.seconds, run.work) == (9.0, 12.0) and "clock" not in run.provenance


def test_without_patterns_a_run_is_left_as_it_is(tmp_path):
    assert read(tmp_path, "took 7.5 s") == RUN


def test_a_pattern_without_a_match_makes_the_run_invalid(tmp_path):
    run = read(tmp_path, "took seven s", seconds=r"took ([\d.]+) s")
    assert run.outcome == "no match"
    assert "workload.seconds: 'took ([\\d.]+) s' matches no line of the output" in run.detail
    assert "outputs/K4-round0.log" in run.detail


@pytest.mark.parametrize(
    ("text", "outcome"), [("took nan s", "not a number"), ("took 0 s", "no match")]
)
def test_a_time_that_is_none_is_refused(tmp_path, text, outcome):
    assert read(tmp_path, text, seconds=r"took (\S+) s").outcome == outcome


def test_a_failed_run_is_not_searched(tmp_path):
    crashed = Run(nodes=1, round=0, seconds=1.0, outcome="crashed")
    assert read(tmp_path, "", run=crashed, seconds="(x)") == crashed


def test_the_file_that_the_run_wrote_is_read_and_not_an_older_one(tmp_path):
    now = time.time()
    for name, seconds, age in (("out-1.txt", 5, 1000), ("out-2.txt", 6, 0)):
        (tmp_path / name).write_text(f"t={seconds}")
        os.utime(tmp_path / name, (now - age, now - age))
    find = {"seconds": r"t=(\S+)", "output": "out-*.txt"}
    assert read(tmp_path, "t=9", since=now - 10, **find).seconds == 6.0
    (tmp_path / "out-2.txt").unlink()
    missing = read(tmp_path, "t=9", since=now - 10, **find)
    assert missing.outcome == "no match" and "wrote no file out-*.txt" in missing.detail


def test_a_pattern_that_never_ends_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(time_limit, "SEARCH_SECONDS", 0.3)
    run = read(tmp_path, "a" * 60 + "!", seconds=r"((?:a+)+)b")
    assert run.outcome == "no match" and "takes longer than 0.3 s" in run.detail


@pytest.mark.parametrize("work", ["-5", "1e31"])
def test_work_that_no_run_can_have_is_refused_and_can_be_stored(tmp_path, work):
    run = read(tmp_path, f"work {work}\n", work=r"work (\S+)")
    assert run.outcome == "no match" and "gives work as" in run.detail
    store.create(tmp_path / "study", MINIMAL)
    store.append(tmp_path / "study", run)
    assert store.load(tmp_path / "study").runs == (run,)


def test_an_output_may_be_a_whole_path(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/out.txt").write_text("t=6\n")
    named = {"seconds": r"t=(\S+)", "output": str(tmp_path / "elsewhere/*.txt")}
    assert read(tmp_path, "", **named).seconds == 6.0


@pytest.mark.parametrize("name", ["a\0/*", "**.txt", ".", "/"])
def test_an_output_that_names_no_file_is_no_match(tmp_path, name):
    assert read(tmp_path, "t=6", seconds=r"t=(\S+)", output=name).outcome == "no match"


def test_an_output_that_is_gone_is_no_match(tmp_path, monkeypatch):
    (tmp_path / "out.txt").write_text("t=6")
    monkeypatch.setattr(Path, "is_file", lambda path: path.unlink(missing_ok=True) is None)
    run = read(tmp_path, "", seconds=r"t=(\S+)", output="out.txt")
    assert run.outcome == "no match" and "cannot read out.txt" in run.detail


def test_a_carriage_return_ends_a_line(tmp_path):
    text = "".join(f"\r{at} %" for at in range(3000)) + "\rtook 7.5 s\n"
    assert read(tmp_path, text, seconds=r"^took (\S+) s").seconds == 7.5


def test_an_output_that_is_searched_in_part_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(program_log, "_MAX_BYTES", 20)
    text = "took 7.5 s\n" + "x\n" * 20 + "took 9 s\n"
    run = read(tmp_path, text, seconds=r"took (\S+) s")
    assert run.seconds == 7.5
    assert run.provenance["output"] == "only the first 20 of 60 bytes are searched"
    missing = read(tmp_path, text, seconds=r"took (9) s")
    assert "of the output (only the first 20 of 60 bytes are searched)" in missing.detail


def test_the_beginning_and_the_end_of_a_long_output_are_kept(tmp_path):
    log = tmp_path / "log"
    assert kept_output(log) == b""
    log.write_bytes(b"a" * KEPT_BYTES + b"b" * 1000 + b"c" * KEPT_BYTES)
    kept = kept_output(log)
    assert kept.startswith(b"a" * KEPT_BYTES + b"\n[... 1000 bytes")
    assert kept.endswith(b"\n" + b"c" * KEPT_BYTES) and b"b" * 100 not in kept
    log.write_bytes(b"x" * 2 * KEPT_BYTES)
    assert kept_output(log) == b"x" * 2 * KEPT_BYTES


def test_the_output_is_kept_in_the_study_folder(tmp_path):
    store.keep_output(tmp_path, RUN, b"hello")
    assert (tmp_path / "outputs" / "K4-round0.log").read_bytes() == b"hello"


def test_the_cause_of_a_crash_is_kept_however_much_follows(tmp_path):
    log = tmp_path / "log"
    log.write_text("begin\nValueError: bad mesh\n" + "cleaning rank\n" * 500)
    lines = failure_lines(log)
    assert lines[0] == "ValueError: bad mesh" and len(lines) <= 22


def test_what_a_program_prints_as_it_is_stopped_is_not_why_it_hung(tmp_path):
    shell = "trap 'echo ERROR: segmentation fault; exit 1' TERM; echo step 1; while :; do :; done"
    job = Job(
        command=("sh", "-c", shell), nodes=1, directory=tmp_path, environment=os.environ,
        own_environment={}, folder=tmp_path, timeout_seconds=1,
    )  # fmt: skip
    worker = base.start(job.command, job, job.environment)
    wait_until(lambda: b"step 1" in job.log.read_bytes())
    finished = base.wait_for_all([worker], job, time.monotonic() - 2)
    assert finished.outcome == "timeout"
    assert b"segmentation" in job.log.read_bytes()
    assert failure_lines(job.log, finished.printed) == ["step 1"]


def test_stages_of_ranks_count_only_where_they_cover_the_timed_part():
    ranks = (Rank(rank=0, stages={"compute": 8.0}, seconds=9.0),)
    run = Run(nodes=1, round=0, seconds=9.0, ranks=ranks)
    assert run.timed_ranks == ranks
    of_log = Run(nodes=1, round=0, seconds=5.0, ranks=ranks, provenance={"clock": "log"})
    assert of_log.timed_ranks == () and not of_log.ranks_are_timed
    near = Run(nodes=1, round=0, seconds=8.8, ranks=ranks, provenance={"clock": "log"})
    assert near.timed_ranks == ranks


def test_lammps_prints_its_stages(tmp_path):
    run = read(tmp_path, LAMMPS, log="lammps")
    assert run.seconds == 9.9  # the longest loop
    assert run.provenance["clock"] == "the program's log (lammps)"
    last = read(tmp_path, LAMMPS[LAMMPS.index("Loop time of 4 ") :], log="lammps")
    assert (last.seconds, last.work) == (4.0, 200_000)  # not an empty loop after it
    assert last.stages == {
        "compute": 2.375, "communication": 0.5, "idle": 0.5, "io": 0.25, "overhead": 0.375,
    }  # fmt: skip


def test_own_patterns_come_before_those_of_a_program(tmp_path):
    text = LAMMPS + "Total wall time: 0:00:14\n"
    run = read(tmp_path, text, log="lammps", seconds=r"Total wall time: 0:00:(\d+)")
    assert (run.seconds, run.work) == (14.0, 5000)


@pytest.mark.parametrize("name", presets())
def test_a_program_without_its_time_makes_the_run_invalid(tmp_path, name):
    run = read(tmp_path, "hello\nworld\n", log=name, output="log")
    assert run.outcome == "no match"
    assert f"workload.log: {name} found no time (" in run.detail
    assert "Correct workload.log, or add seconds = 'PATTERN'" in run.detail


@pytest.mark.parametrize("name", presets())
def test_a_run_has_the_time_and_the_stages_of_an_import(tmp_path, name):
    """A measured run and a log that is imported are read by one reader."""
    text = log_samples.samples()[name][0].decode()
    run = read(tmp_path, text, log=name, output="log")
    [known] = survey([(None, tmp_path / "log")])
    assert (run.seconds, run.stages) == (known.run_seconds, known.stages)


def test_the_amount_of_work_is_not_a_number_of_steps(tmp_path):
    """A larger system has as many steps: in a weak study they would not grow."""
    for name in ("gromacs", "openfoam"):
        run = read(tmp_path, log_samples.samples()[name][0].decode(), log=name)
        assert run.outcome == "ok" and run.work is None


@pytest.mark.skipif(not LOGS.is_dir(), reason=f"no {LOGS}")
def test_real_logs_of_lammps_agree_with_their_truth(tmp_path):
    truth = json.loads((LOGS / "truth.json").read_text())
    logs = [name for name, facts in truth.items()
            if isinstance(facts, dict) and facts.get("program") == "LAMMPS"]  # fmt: skip
    assert logs
    for name in logs:
        run, facts = read(tmp_path, (LOGS / name).read_text(), log="lammps"), truth[name]
        assert run.seconds == facts["loop_s"]
        assert run.work == facts["steps"] * facts["atoms"]
        if "seconds_avg" in facts:
            moved = run.stages["communication"] + run.stages["idle"]
            assert moved == pytest.approx(facts["seconds_avg"]["Comm"])
