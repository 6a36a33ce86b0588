"""`nodewise run`: a study of a command, without a spec file."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nodewise.cli.measure import _Progress
from nodewise.cli.progress import ProgressLine
from nodewise.cli.run import _unit
from nodewise.study import store
from nodewise.study.spec import Spec, Workload, parse_file
from nodewise.study.study import Run
from tests.jobs import interrupted, left_behind, marked

PROBED = """
import os, sys
from nodewise import probe
nodes = int(os.environ["NODEWISE_NODES"])
for _ in probe.steps(range(4)):
    with probe.compute():
        sum(i * i for i in range(40_000 // nodes))
"""
MPI = """
from mpi4py import MPI
from nodewise import probe
world = MPI.COMM_WORLD
for _ in probe.steps(range(3)):
    with probe.compute():
        sum(i * i for i in range(40_000 // world.size))
    with probe.comm():
        world.allreduce(1)
probe.fact(mpi_size=world.size)
"""


def start(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, "-m", "nodewise", *words], cwd=folder, capture_output=True, text=True,
        timeout=300, env={**os.environ, "PATH": path, "MARK": folder.name, **variables},
    )  # fmt: skip


def runs(folder: Path) -> list[Run]:
    return list(store.load(folder).runs)


@pytest.mark.slow
def test_a_run_without_a_step_is_the_last_one(tmp_path):
    text = "from nodewise import probe\nfor _ in probe.steps(()): pass\nprint('no data found')\n"
    (tmp_path / "empty.py").write_text(text)
    words = ("run", "-n", "1,2", "--rounds", "3", "--", "python", "empty.py")
    done = start(tmp_path, *words)
    assert done.returncode == 1, done.stderr
    answer, fix = done.stdout.splitlines()[-2:]
    assert answer.startswith("no answer: no step ran at K=")
    assert "no data found" in answer
    assert fix.startswith("  fix: ")
    assert len(runs(tmp_path / "empty.study")) == 1
    again = start(tmp_path, *words)
    assert (again.returncode, again.stdout.splitlines()[-2:]) == (1, [answer, fix])
    assert len(runs(tmp_path / "empty.study")) == 1


@pytest.mark.slow
def test_a_command_that_starts_its_own_workers_runs_once(tmp_path):
    script = tmp_path / "app.sh"
    script.write_text('echo "started for $1" >> starts\nsleep 0.01\n')
    words = ("run", "-n", "1,2,4", "--rounds", "2", "--price", "3.20", "--deadline", "1min")
    done = start(tmp_path, *words, "--", "sh", "app.sh", "{n}")
    assert done.returncode == 0, done.stderr
    starts = (tmp_path / "starts").read_text().splitlines()
    assert sorted(starts) == sorted(f"started for {nodes}" for nodes in (1, 2, 4) for _ in "12")
    made = runs(tmp_path / "app.study")
    assert [run.outcome for run in made] == ["ok"] * 6
    assert all(run.ranks == () for run in made)  # how many workers it had is unknown
    spec, asked = parse_file((tmp_path / "app.toml").read_text())
    assert spec.workload.command == ("sh", "app.sh", "{n}")
    assert spec.engine.name == "command"
    assert asked["price"] == {"per_node_hour": 3.2}
    assert asked["gates"] == {"deadline_seconds": "1min"}
    result = json.loads((tmp_path / "app.study" / "result.json").read_text())
    assert result["validity"]["state"] != "invalid"
    workers = next(check for check in result["checks"] if check["key"] == "workers")
    assert workers["verdict"] == "unknown"
    assert (tmp_path / "app.study" / "report.html").exists()
    assert "One round takes " in done.stderr
    assert "\x1b" not in done.stderr and "\r" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("round ")]) == 6


@pytest.mark.slow
def test_the_study_goes_on_with_the_same_command_and_with_its_spec(tmp_path):
    (tmp_path / "job.py").write_text(PROBED)
    words = ("run", "-n", "1,2", "--", "job.py")
    first = start(tmp_path, "run", "--rounds", "1", *words[1:])
    assert first.returncode == 0, first.stderr
    study, spec = tmp_path / "job.study", tmp_path / "job.toml"
    assert {len(run.ranks) for run in runs(study) if run.nodes == 2} == {2}
    assert "round" not in start(tmp_path, *words).stderr  # all is measured
    spec.write_text(spec.read_text().replace("# deadline_seconds = 900", "deadline_seconds = 900"))
    more = start(tmp_path, "run", "--rounds", "2", "--json", *words[1:])
    assert "Changed job.toml: rounds = 2." in more.stderr
    assert json.loads(more.stdout)["name"] == "job"
    assert len(runs(study)) == 4
    assert "\ndeadline_seconds = 900\n" in spec.read_text()
    spec.write_text(spec.read_text().replace("rounds = 2 ", "rounds = 3 "))
    assert start(tmp_path, "study", "job.toml").returncode == 0
    assert len(runs(study)) == 6
    wider = start(tmp_path, "run", "-n", "1,2,3", "--", "job.py")
    assert wider.returncode == 0, wider.stderr
    assert len(runs(study)) == 9
    fewer = start(tmp_path, "run", "--rounds", "2", "-n", "1,2,3", "--", "job.py")
    assert "round 1" not in fewer.stderr and len(runs(study)) == 9
    assert spec.read_text() == (study / "study.toml").read_text()


@pytest.mark.slow
def test_the_folder_may_be_elsewhere(tmp_path):
    (tmp_path / "job.py").write_text(PROBED)
    words = ("run", "-n", "1,2", "--rounds", "1", "-o", "out/deep/here.study", "--", "job.py")
    assert start(tmp_path, *words).returncode == 0
    assert len(runs(tmp_path / "out/deep/here.study")) == 2
    again = start(tmp_path, "study", "out/deep/here.toml")
    assert again.returncode == 0, again.stderr
    assert "round" not in again.stderr
    (tmp_path / "out/deep/here.toml").unlink()
    assert "round" not in start(tmp_path, *words).stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("--", "mpirun", "-n", "{n}", sys.executable), ("--engine", "mpi", "--")]
)
def test_ranks_under_mpi_are_found(tmp_path, words):
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    (tmp_path / "world.py").write_text(MPI)
    done = start(tmp_path, "run", "-n", "1,2", "--rounds", "2", *words, "world.py")
    assert done.returncode == 0, done.stderr
    for run in runs(tmp_path / "world.study"):
        assert [rank.rank for rank in run.ranks] == [*range(run.nodes)]
        assert run.facts["mpi_size"] == run.nodes


@pytest.mark.parametrize(
    ("words", "unit"),
    [
        (["{mpiexec}", "-n", "{n}", "./app"], "ranks"),
        (["{mpiexec}", "-np", "{n}", "./app"], "ranks"),
        (["{mpiexec}", "-n", "{2*n}", "./app"], None),  # K may be nodes
        (["{mpiexec}", "-hosts", "a,b", "-n", "{n}", "./app"], None),
        (["{mpiexec}", "-H", "a,b", "-n", "{n}", "./app"], None),
        (["{mpiexec}", "-machinefile", "two", "-n", "{n}", "./app"], None),
        (["sh", "-n", "{n}"], None),
    ],
)
def test_ranks_of_a_launcher_on_this_machine_are_not_called_nodes(words, unit):
    mpiexec = str(Path(sys.executable).parent / "mpiexec")
    words = [word.replace("{mpiexec}", mpiexec) for word in words]
    assert _unit(words, "command", {"scales": [1, 2]}).get("unit") == unit


@pytest.mark.slow
def test_a_program_that_reports_for_its_workers_has_no_rank(tmp_path):
    """Its stages are those of the run, also inside a job of a scheduler that gives ranks."""
    (tmp_path / "pool.py").write_text(PROBED)
    done = start(
        tmp_path, "run", "-n", "1,2", "--rounds", "2", "--", "pool.py", "--workers", "{n}",
        SLURM_PROCID="0",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for run in runs(tmp_path / "pool.study"):
        assert run.ranks == ()
        assert run.stages["compute"] > 0
    result = json.loads((tmp_path / "pool.study" / "result.json").read_text())
    assert result["validity"]["state"] != "invalid"


@pytest.mark.slow
def test_workers_that_do_not_follow_k_are_invalid(tmp_path):
    (tmp_path / "job.py").write_text(PROBED)
    line = f"RANK=0 exec {sys.executable} job.py # {{n}}"
    done = start(tmp_path, "run", "-n", "1,2", "--rounds", "2", "--json", "--", "sh", "-c", line)
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    assert result["validity"]["state"] == "invalid"
    assert "do not follow K" in result["validity"]["reasons"][0]


@pytest.mark.slow
def test_ctrl_c_leaves_no_process_and_loses_nothing(tmp_path):
    words = ["run", "-n", "1,2", "--rounds", "2", "--name", "nap", "--"]
    words += ["sh", "-c", 'test "$NODEWISE_ROUND" = 0 || sleep 60 & wait # {n}']
    code, errors = interrupted(
        words,
        lambda: marked(tmp_path.name, NODEWISE_ROUND="1"),
        cwd=tmp_path,
        env={**os.environ, "MARK": tmp_path.name},
    )
    assert code == 3
    assert errors[-1].startswith("  fix: Continue with: nodewise run -n 1,2")
    assert left_behind(tmp_path.name) == []
    assert [run.round for run in runs(tmp_path / "nap.study")] == [0, 0]
    assert start(tmp_path, "run", "--rounds", "1", *words[1:3], *words[5:]).returncode == 0


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_cannot_be_run_is_two_lines_and_writes_nothing(here, nodewise):
    for words, said in (
        (("-n", "1,2", "--", "no-such-program", "{n}"), "No such program: no-such-program"),
        (("-n", "1,2", "--engine", "mpi", "--", "true", "{n}"), "--engine mpi starts them too"),
        (("-n", "1,x", "--", "true"), "'1,x' is not a list of scales"),
        (("-n", "1,1", "--", "true"), "a scale is listed twice"),
        (("-n", "1,2", "--rounds", "0", "--", "true"), "'--rounds': 0 is below 1"),
        (("-n", "1,2", "--price", "dear", "--", "true"), "'--price': 'dear'"),
        (
            ("-n", "1,2", "--engine", "torchrun", "--price", "3.20/gpu", "--", "train.py"),
            "The price is per GPU, and K counts nodes",
        ),
        (("-n", "1,2", "--name", "a/b", "--", "true"), "is not a file name"),
        (("-n", "1,2", "--engine", "ssh", "--", "true"), "K=2 needs as many hosts"),
        (("-n", "1,2", "--", "true", "\udcff"), "The command is not UTF-8"),
        (("-n", "1,2"), "Missing argument 'COMMAND...'"),
        (("true",), "Missing option '-n'"),
    ):
        done = nodewise("run", *words)
        what, fix = done.err.splitlines()
        assert done.code in (2, 3)
        assert said in what
        assert fix.startswith("  fix: ")
        assert [*here.iterdir()] == []


def test_a_range_of_scales_is_said_to_be_its_doublings(here, nodewise):
    assert "1..8 (doublings)" in nodewise("run", "--help").out
    assert nodewise("run", "-n", "1..4", "--rounds", 1, "--", "true").code == 0
    assert sorted({run.nodes for run in runs(here / "true.study")}) == [1, 2, 4]


def test_another_job_of_the_same_name_is_refused(here, nodewise):
    words = ("run", "-n", "1,2", "--rounds", 1)
    assert nodewise(*words, "--", "sh", "-c", "exit 0").code == 0
    before = (here / "sh.toml").read_text()
    for other, said in (
        (("--", "sh", "-c", "exit 1"), "measures another command: sh -c 'exit 0'"),
        (("--engine", "mpi", "--", "sh", "-c", "exit 0"), "with the engine local"),
        (("--warmup-steps", 2, "--", "sh", "-c", "exit 0"), "after 0 warm-up steps"),
    ):
        refused = nodewise(*words, *other)
        what, fix = refused.err.splitlines()
        assert refused.code == 2
        assert said in what
        assert "--name NAME; or delete sh.toml and sh.study." in fix
    assert "also measures K=2" in nodewise("run", "-n", 1, "--", "sh", "-c", "exit 0").err
    assert (here / "sh.toml").read_text() == before
    named = nodewise(*words, "--name", "other", "--", "sh", "-c", "exit  0")
    assert named.code == 0, named.err
    assert (here / "other.study").is_dir()


def test_a_file_that_is_no_spec_is_not_overwritten(here, nodewise):
    (here / "train.py").write_text("pass")
    (here / "train.toml").write_text("learning_rate = 0.1\n")
    refused = nodewise("run", "-n", "1,2", "--", "train.py")
    assert refused.code == 2
    assert "train.toml already exists and is not a spec" in refused.err
    assert (here / "train.toml").read_text() == "learning_rate = 0.1\n"


def test_threads_of_the_workers_are_those_of_the_shell(here, nodewise, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert nodewise("run", "-n", "1,2", "--rounds", 1, "--name", "a", "--", "true").code == 0
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert nodewise("run", "-n", "1,2", "--rounds", 1, "--name", "b", "--", "true").code == 0
    assert nodewise("run", "-n", "1,2", "--rounds", 1, "--name", "c", "true", "{n}").code == 0
    threads = {
        name: parse_file((here / f"{name}.toml").read_text())[0].workload.environment
        for name in "abc"
    }
    assert threads == {"a": {"OMP_NUM_THREADS": "3"}, "b": {"OMP_NUM_THREADS": "1"}, "c": {}}


@pytest.mark.parametrize(
    ("round_seconds", "rounds", "said"),
    [
        (2.0, 7, "One round takes 2.0 s; all 7 rounds take about 14 s."),
        (99.0, 7, "all 7 rounds take about 11m33s."),
        (140.0, 7, "16m20s. For less, press Ctrl-C and repeat with --rounds 5."),
        (4000.0, 7, "7h47m. For less, press Ctrl-C and repeat with --rounds 3."),
        (4000.0, 3, "all 3 rounds take about 3h20m."),
    ],
)
def test_a_long_study_is_said_after_its_first_round(
    round_seconds, rounds, said, capsys, monkeypatch
):
    clock = iter([0.0, round_seconds / 2, round_seconds])
    monkeypatch.setattr("nodewise.cli.progress.time", SimpleNamespace(monotonic=clock.__next__))
    spec = Spec(name="a", scales=(1, 2), rounds=rounds, workload=Workload(command=("true",)))
    line = _Progress(spec, "--rounds {}", ProgressLine("first run"))
    line.finished(Run(nodes=1, round=0, seconds=1.0), 2 * rounds - 1)
    line.finished(Run(nodes=2, round=0, seconds=1.0), 2 * rounds - 2)
    told = capsys.readouterr().err.splitlines()
    assert told[-1].endswith(said)


def test_a_spec_with_a_price_of_something_else_is_refused_before_the_first_run(here, nodewise):
    spec = 'name = "job"\nscales = [1, 2]\n[workload]\ncommand = ["touch", "started"]\n'
    (here / "job.toml").write_text(spec + '[price]\nper_node_hour = "3.20/gpu"\n')
    for command in ("study", "measure"):
        done = nodewise(command, "job.toml")
        assert done.code == 2
        assert "The price is per GPU, and K counts nodes" in done.err
        assert [one.name for one in here.iterdir()] == ["job.toml"]
    (here / "job.toml").write_text('unit = "gpus"\n' + (here / "job.toml").read_text())
    assert "K=1" in nodewise("measure", "job.toml", "--dry-run").out


def test_a_dry_run_shows_the_commands_and_writes_nothing(here, nodewise):
    done = nodewise("run", "-n", "1,2", "--dry-run", "--", "mpirun", "-n", "{n}", "./app")
    assert done.out.splitlines() == ["# K=1", "mpirun -n 1 ./app", "# K=2", "mpirun -n 2 ./app"]
    assert not [*here.iterdir()]
    spec = 'name = "job"\nscales = [1, 2]\n[workload]\ncommand = ["touch", "started"]\n'
    (here / "job.toml").write_text(spec)
    assert "# K=2" in nodewise("study", "job.toml", "--dry-run").out
    assert [one.name for one in here.iterdir()] == ["job.toml"]
