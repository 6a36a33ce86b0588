"""Real runs of small jobs through the whole command line."""

import json
import os
import pty
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from nodewise.audit.own_study import answers
from nodewise.explain.scaling import scale
from nodewise.study import store
from nodewise.study.spec import parse_file
from tests.jobs import interrupted, left_behind, measure, wait_until, workers, write_job

pytestmark = pytest.mark.slow

JOB = """
import os, time
from nodewise import probe
rank, nodes = int(os.environ["NODEWISE_RANK"]), int(os.environ["NODEWISE_NODES"])
with probe.setup():
    time.sleep(0.02 * rank)
for step in probe.steps(range(4)):
    with probe.compute():
        time.sleep(0.04 / nodes)
probe.work(items=12 / nodes)
probe.quality(accuracy=0.9, split="test", seed=0)
probe.fact(batch=12)
"""


def write(folder: Path, job: str = JOB, scales="1, 2", rounds=3, timeout=60, more="") -> Path:
    return write_job(folder, job, scales, rounds, timeout, more, workload="warmup_steps = 1")


def test_a_study_is_measured_in_randomised_blocks_and_analysed(tmp_path):
    outcome = measure(write(tmp_path), "--json", name="study")
    assert outcome.returncode == 0, outcome.stderr
    result = json.loads(outcome.stdout)
    assert json.loads((tmp_path / "job.study" / "result.json").read_text()) == result
    assert "nodewise-study" in (tmp_path / "job.study" / "report.html").read_text()
    assert [row["K"] for row in result["decision"]["rows"]] == [1, 2]
    assert result["decision"]["rows"][1]["quality"] == 0.9
    verdicts = {check["rule"]: check["verdict"] for check in result["checks"]}
    assert verdicts["warm-up and setup"] == "pass"
    assert verdicts["strong or weak"] == "pass"
    assert verdicts["T(1) baseline"] == "unknown"
    assert verdicts["repeats and spread"] == "fail"  # three rounds
    study = store.load(tmp_path / "job.study")
    assert {(run.nodes, run.round) for run in study.runs} == {
        (k, r) for k in (1, 2) for r in range(3)
    }
    rounds = [run.round for run in study.runs]
    assert rounds == sorted(rounds)
    run = next(run for run in study.runs if run.nodes == 2)
    assert run.outcome == "ok"
    assert [rank.rank for rank in run.ranks] == [0, 1]
    assert run.steps == 3
    assert run.facts["batch"] == 12
    assert run.provenance["command"].endswith("job.py")
    assert run.contention is not None
    assert run.ranks[1].setup_seconds >= 0.02
    assert (tmp_path / "job.study" / "ranks" / "K2-round0.bin").exists()


GATES = """
[gates]
least_efficiency = { 2 = 0.01 }
most_seconds = { 1 = 1e-6 }
"""


def test_a_gate_that_is_not_met_is_the_exit_code(tmp_path):
    outcome = measure(write(tmp_path, more=GATES, rounds=2), "--json", name="study")
    assert outcome.returncode == 1, outcome.stderr
    gates = {c["rule"]: c["verdict"] for c in json.loads(outcome.stdout)["checks"] if c["is_gate"]}
    assert gates == {
        "efficiency at least 0.01 at K=2": "pass",
        "seconds at most 1e-06 at K=1": "fail",
    }


def test_decide_takes_prices_from_the_spec_and_options_before_it(tmp_path):
    spec = write(tmp_path, more="[price]\nper_node_hour = 7.0\nsource = 'a list'", rounds=2)
    assert measure(spec).returncode == 0
    study = tmp_path / "job.study"
    asked = json.loads(measure(study, "--json", name="decide").stdout)["price"]
    assert (asked["per_node_hour"], asked["source"]) == (7.0, "a list")
    asked = json.loads(measure(study, "--price", "2", "--json", name="decide").stdout)["price"]
    assert (asked["per_node_hour"], asked["source"]) == (2.0, "")  # that of another price


def test_what_differs_between_scales_is_a_threat(tmp_path):
    measure(write(tmp_path, rounds=2))
    study = store.load(tmp_path / "job.study")
    check = answers(study, study.spec, scale(study))["same-place"]
    assert check.verdict == "pass"
    elsewhere = [
        msgspec.structs.replace(run, provenance={**run.provenance, "host": f"node{run.nodes}"})
        for run in study.runs
    ]
    study = msgspec.structs.replace(study, runs=tuple(elsewhere))
    check = answers(study, study.spec, scale(study))["same-place"]
    assert check.verdict == "fail"
    assert "host (node1, node2)" in check.evidence


def test_init_asks_on_a_terminal(tmp_path):
    ours, theirs = pty.openpty()
    try:
        os.write(ours, b"heat\n{python} heat.py\n1,2\nmpi\n2.5\n")
        command = [sys.executable, "-m", "nodewise", "init", "-o", "heat.toml"]
        done = subprocess.run(
            command, stdin=theirs, capture_output=True, text=True, cwd=tmp_path, timeout=240
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0, done.stderr
    spec, asked = parse_file((tmp_path / "heat.toml").read_text())
    assert (spec.name, spec.scales, spec.engine.name) == ("heat", (1, 2), "mpi")
    assert (spec.workload.command, asked["price"]["per_node_hour"]) == (
        ("{python}", "heat.py"),
        2.5,
    )


def test_a_finished_study_is_not_measured_again(tmp_path):
    spec = write(tmp_path, rounds=1)
    assert measure(spec).stderr.count("round 1") == 2
    again = measure(spec, "--json")
    assert again.stderr == ""
    made = json.loads(again.stdout)
    assert (made["name"], made["folder"]) == ("job", str(tmp_path / "job.study"))
    runs = {run.nodes: run.seconds for run in store.load(tmp_path / "job.study").runs}
    assert made["scales"] == [
        {"K": nodes, "baseline": False, "runs": 1, "failed": 0, "seconds": runs[nodes]}
        for nodes in (1, 2)
    ]


def same_place(folder: Path):
    study = store.load(folder)
    return answers(study, study.spec, scale(study))["same-place"]


def test_a_program_that_changed_is_told_before_and_after(tmp_path):
    spec = write(tmp_path, rounds=1)
    spec.write_text(spec.read_text().replace('"job.py"]', '"job.py", "out"]'))
    writes = "import time; open('out', 'w').write(str(time.time_ns()))"
    (tmp_path / "job.py").write_text(writes)
    measure(spec)
    spec.write_text(spec.read_text().replace("rounds = 1", "rounds = 2"))
    assert "warning" not in measure(spec).stderr
    check = same_place(tmp_path / "job.study")  # what a run writes is no program; rounds may grow
    assert check.verdict == "pass", check.evidence
    (tmp_path / "job.py").write_text(writes + "  # another")
    spec.write_text(spec.read_text().replace("rounds = 2", "rounds = 3"))
    told = measure(spec).stderr
    assert "warning: the program changed" in told and "job.py. To measure" in told and "-o" in told
    check = same_place(tmp_path / "job.study")
    assert check.verdict == "fail" and "-o" in check.remedy
    assert check.evidence == "the program changed: job.py"


ONLY_AT_TWO = "import os, signal, sys, time\nif os.environ['NODEWISE_NODES'] == '1': sys.exit(0)\n"
FAILURES = {
    "crashed": "print('no luck')\nsys.exit(3)",
    "timeout": "time.sleep(60)",
    "out of memory": "os.kill(os.getpid(), signal.SIGKILL)",
    "wrong workers": "if os.environ['NODEWISE_RANK'] == '0': import nodewise.probe",
}


@pytest.mark.parametrize("outcome", FAILURES)
def test_a_run_that_fails_is_a_result_and_the_study_goes_on(tmp_path, outcome):
    job = ONLY_AT_TWO + FAILURES[outcome]
    done = measure(write(tmp_path, job, rounds=3, timeout=8 if outcome == "timeout" else 60))
    assert done.returncode == 0, done.stderr
    study = store.load(tmp_path / "job.study")
    outcomes = {nodes: [r.outcome for r in study.runs if r.nodes == nodes] for nodes in (1, 2)}
    assert outcomes[1] == ["ok"] * 3
    assert outcomes[2] == [outcome] * 2  # and then it is given up
    told = [line for line in done.stderr.splitlines() if line.startswith("round")]
    given_up = [at for at, line in enumerate(told) if " K=2 " in line][1]
    left = len(told) - given_up - 1
    assert (f"({left} to go" if left else outcome) in told[given_up]
    assert "to go" not in told[-1]
    assert ["about" in line for line in told[:2]] == [False, True]  # once each scale ran
    if outcome == "crashed":
        assert "no luck" in next(run for run in study.runs if run.nodes == 2).detail
    assert left_behind(tmp_path.name) == []


def test_a_program_that_knows_nothing_of_us_is_still_measured(tmp_path):
    job = "x = bytearray(60_000_000)\nsum(i * i for i in range(3_000_000))"
    measure(write(tmp_path, job, rounds=1))
    study = store.load(tmp_path / "job.study")
    run = next(run for run in study.runs if run.nodes == 2)
    assert run.seconds > 0
    assert len(run.ranks) == 2
    for rank in run.ranks:
        assert rank.usage.cpu_seconds > 0
        assert rank.usage.memory_bytes > 50_000_000


def test_a_job_that_ignores_to_be_stopped_and_leaves_children_is_ended(tmp_path):
    job = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
time.sleep(60)
"""
    done = measure(write(tmp_path, job, scales="1", rounds=1, timeout=1), "--json")
    assert json.loads(done.stdout)["scales"][0]["failed"] == 1
    assert done.returncode == 4 and "No run of" in done.stderr
    assert left_behind(tmp_path.name) == []


@pytest.mark.parametrize(
    ("number", "ignored"),
    [
        (signal.SIGINT, None),
        (signal.SIGTERM, None),
        (signal.SIGHUP, None),
        # as a shell without job control starts what it leaves in the background
        (signal.SIGTERM, signal.SIGINT),
        (signal.SIGHUP, signal.SIGINT),
    ],
)
def test_a_signal_keeps_every_finished_run_and_leaves_no_process(tmp_path, number, ignored):
    spec = write(tmp_path, JOB.replace("0.04", "2.0"), rounds=5)
    words = ["study", str(spec)]
    code, errors = interrupted(words, lambda: workers(tmp_path.name), number, ignored)
    assert code == 3
    assert errors[-1].startswith("  fix: Continue with: nodewise study")
    assert left_behind(tmp_path.name) == []


def test_kill_9_at_random_moments_loses_at_most_the_run_under_way(tmp_path):
    """Ten murders, each within a run or soon after one; then a resume: every run is there once."""
    spec = write(tmp_path, rounds=6)
    chance = random.Random(3)
    runs = tmp_path / "job.study" / "runs.jsonl"
    for _ in range(10):
        process = subprocess.Popen(
            [sys.executable, "-m", "nodewise", "measure", str(spec)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_until(lambda one=process: workers(tmp_path.name) or one.poll() is not None)
        time.sleep(chance.uniform(0, 0.5))
        before = runs.read_bytes() if runs.exists() else b""
        process.kill()
        process.wait()
        assert (runs.read_bytes() if runs.exists() else b"").startswith(before)
    assert measure(spec).returncode == 0
    study = store.load(tmp_path / "job.study")
    keys = [(run.nodes, run.round) for run in study.runs]
    assert sorted(keys) == sorted({(k, r) for k in (1, 2) for r in range(6)})
    wait_until(lambda: left_behind(tmp_path.name) == [])


def test_the_faster_of_two_baselines_is_the_base_and_both_are_told(tmp_path):
    spec = write(tmp_path, JOB.replace("0.04", "0.2"), rounds=2)
    (tmp_path / "single.py").write_text(JOB.replace("0.04", "0.1"))
    more = '[baseline]\ncommand = ["{python}", "single.py"]\n'
    spec.write_text(spec.read_text() + more)
    assert measure(spec).returncode == 0
    study = store.load(tmp_path / "job.study")
    assert [run.round for run in study.runs if run.baseline] == [0, 1]
    assert study.base_is_baseline
    result = scale(study)
    assert result.rows[1].efficiency < 0.8  # half of what the distributed code on one worker says
    assert any("single-worker program" in check.evidence for check in result.checks)


def test_a_problem_that_changes_with_k_is_found(tmp_path):
    job = JOB.replace("batch=12", "batch=12 * nodes").replace("12 / nodes", "12")
    spec = write(tmp_path, job, rounds=1)
    spec.write_text('fixed = ["batch"]\n' + spec.read_text())
    outcome = measure(spec, "--json", name="study")
    verdicts = {c["rule"]: c for c in json.loads(outcome.stdout)["checks"]}
    assert verdicts["workload at every K"]["verdict"] == "fail"
    assert "batch changes" in verdicts["workload at every K"]["evidence"]
    assert verdicts["strong or weak"]["verdict"] == "fail"


def test_a_function_can_be_the_workload(tmp_path):
    spec = write(
        tmp_path,
        "def go():\n    from nodewise import probe\n    list(probe.steps([1, 2]))\n",
        rounds=1,
    )
    spec.write_text(
        spec.read_text().replace('command = ["{python}", "job.py"]', 'function = "job:go"')
    )
    assert measure(spec).returncode == 0
    assert store.load(tmp_path / "job.study").rounds == 1


def test_a_stored_study_is_replayed(tmp_path):
    spec = write(tmp_path)
    measure(spec)
    spec.write_text(
        spec.read_text().replace('name = "job"', 'name = "again"')
        + '\n[engine]\nname = "replay"\nstudy = "job.study"\n'
    )
    assert measure(spec).returncode == 0
    first, again = (store.load(tmp_path / f"{name}.study") for name in ("job", "again"))
    assert {(r.nodes, r.round, r.seconds) for r in first.runs} == {
        (r.nodes, r.round, r.seconds) for r in again.runs
    }


def test_a_precision_target_goes_on_until_the_speedup_is_known(tmp_path):
    spec = write(tmp_path, rounds=1, more="")
    spec.write_text(spec.read_text() + "[precision]\nspeedup = 0.5\nmost_rounds = 9\n")
    measure(spec)
    assert 6 <= store.load(tmp_path / "job.study").rounds <= 9


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (("{python}", "no-such-program"), 3, "No such program: no-such-program"),
        (("warmup_steps = 1", 'directory = "nowhere"'), 2, "workload.directory"),
        (("scales = [1, 2]", "scales = 3"), 2, "scales"),
        (("[workload]", '[engine]\nname = "replay"\n[workload]'), 2, "engine.study"),
    ],
)
def test_bad_specs_are_two_lines(tmp_path, change, code, words):
    spec = write(tmp_path)
    spec.write_text(spec.read_text().replace(*change))
    done = measure(spec)
    assert done.returncode == code
    what, fix = done.stderr.splitlines()
    assert words in what
    assert fix.startswith("  fix: ")


def test_the_schema_of_a_spec_is_exported():
    done = subprocess.run(
        [sys.executable, "-m", "nodewise", "init", "--schema"],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert "scales" in done.stdout
    assert json.loads(done.stdout)["$defs"]["Spec"]["required"] == ["name", "scales", "workload"]


def test_init_writes_a_spec_that_works_and_never_overwrites(tmp_path):
    spec = tmp_path / "study.toml"
    arguments = [
        sys.executable,
        "-m",
        "nodewise",
        "init",
        "-o",
        str(spec),
        "--command",
        "{python} job.py",
        "--scales",
        "1,2",
        "--price-source",
        'the "list", 2026-11-16',
    ]
    assert subprocess.run(arguments, capture_output=True, timeout=240).returncode == 0
    assert parse_file(spec.read_text())[1]["price"]["source"] == 'the "list", 2026-11-16'
    (tmp_path / "job.py").write_text(JOB)
    spec.write_text(spec.read_text().replace("rounds = 7", "rounds = 1"))
    assert measure(spec).returncode == 0
    assert subprocess.run(arguments, capture_output=True, timeout=240).returncode == 2
