"""Torch on virtual nodes: a real training at K = 1 to 8, and the server its ranks fork from."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nodewise.explain.attribute import attribute
from nodewise.measure.engines.base import Finished, Job
from nodewise.measure.engines.rehearsal.control_groups import remove_leftovers
from nodewise.measure.engines.rehearsal.rehearsal import RehearsalEngine
from nodewise.measure.engines.rehearsal.virtual_nodes import missing
from nodewise.study import store
from nodewise.study.spec import Rehearsal

pytest.importorskip("torch", reason="torch is not installed: pip install 'nodewise[torch]'")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")
_LACKING = missing(Rehearsal(cpu="quota", link="real"))
pytestmark = pytest.mark.skipif(_LACKING is not None, reason=f"This machine lacks {_LACKING}.")

ROOT = Path(__file__).parents[2]
NODES = Rehearsal(launcher="torchrun", cores_per_node=0.2)

HARNESS = """
    import os, sys
    from pathlib import Path
    from nodewise.measure.engines.base import Job
    from nodewise.measure.engines.rehearsal.rehearsal import RehearsalEngine
    from nodewise.study.spec import Rehearsal

    folder = Path(sys.argv[1])
    job = Job(
        command=("python", str(folder / "wait.py")), nodes=2, directory=folder, folder=folder,
        environment=dict(os.environ), timeout_seconds=60,
    )
    engine = RehearsalEngine(Rehearsal(launcher="torchrun"))
    engine.run(job, lambda leaders: print(*leaders, flush=True))
"""


def test_a_training_keeps_its_accuracy_and_loses_to_communication(tmp_path):
    spec = tmp_path / "study.toml"
    text = (ROOT / "examples" / "digits_torch_rehearsal.toml").read_text()
    text = text.replace('directory = ".."', f'directory = "{ROOT}"')
    spec.write_text(text.replace("rounds = 7", "rounds = 2"))
    done = subprocess.run(
        [sys.executable, "-m", "nodewise", "measure", str(spec), "-o", str(tmp_path / "study")],
        capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    study = store.load(tmp_path / "study")
    assert [run.detail for run in study.runs if run.outcome != "ok"] == []
    assert study.scales == (1, 2, 4, 8)
    assert study.rounds == 2
    for run in study.runs:
        assert [rank.host for rank in run.ranks] == [f"node{rank}" for rank in range(run.nodes)]
        assert run.steps == 7
        assert run.quality == pytest.approx(study.at(1)[0].quality, abs=0.005)
        assert run.facts == {**study.runs[0].facts, "world_size": run.nodes}
        assert run.provenance["rehearsal_limited_by"] == "the gate"
    assert study.at(1)[0].quality > 0.8
    row = attribute(study).row(8)
    assert row.speedup > 1.5
    folds = {loss.cause: loss.folds for loss in row.causes}
    assert folds["communication"] > 0.25 * row.lost_folds, folds


@pytest.fixture(scope="module")
def engine() -> Iterator[RehearsalEngine]:
    """One engine for several runs, as a study has it."""
    made = RehearsalEngine(NODES)
    made.check([1, 2])
    yield made
    made.close()


def run(
    engine: RehearsalEngine, folder: Path, script: str, timeout_seconds: float = 60.0
) -> tuple[Finished, list[str]]:
    """How two ranks of a script ended, and what they said."""
    (folder / "script.py").write_text(textwrap.dedent(script))
    (folder / "log").unlink(missing_ok=True)
    outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    job = Job(
        command=("python", "script.py", "--word"),
        nodes=2,
        directory=folder,
        environment={**outer, "OMP_NUM_THREADS": "1", "NODEWISE_ROUND": str(time.time())},
        folder=folder,
        timeout_seconds=timeout_seconds,
    )
    finished = engine.run(job, lambda leaders: None)
    return finished, sorted(job.log.read_text().splitlines())


def test_a_fork_is_what_a_process_of_its_own_would_be(engine, tmp_path):
    script = """
        import os, sys, threading, numpy
        if os.environ["RANK"] == "0":
            print(os.getcwd(), sys.argv, os.path.realpath(sys.path[0]), __name__)
        else:
            print(os.uname().nodename, os.getpid() == os.getsid(0), threading.active_count())
        print(sys.stdin.read(), "draw", numpy.random.random())
    """
    finished, said = run(engine, tmp_path, script)
    assert finished.outcome == "ok", said
    draws = [line for line in said if line.strip().startswith("draw")]
    assert len(set(draws)) == 2  # different numbers, as nobody gave a seed
    place = os.path.realpath(tmp_path)
    assert sorted(set(said) - set(draws)) == [
        f"{tmp_path} ['script.py', '--word'] {place} __main__",
        "node1 True 1",
    ]


def test_a_fork_is_told_what_torchrun_tells(tmp_path):
    script = """
        import os, sys
        for name in {*os.environ} - {"TORCHELASTIC_RUN_ID", "MASTER_PORT"}:
            if name.startswith(("MASTER", "GROUP", "LOCAL", "ROLE", "TORCHELASTIC")) or name in (
                "RANK", "WORLD_SIZE", "NODEWISE_NODES", "OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME"
            ):
                sys.stdout.write(f"{name}={os.environ[name]}\\n")
    """
    told = []
    for options in ((), ("--max-restarts=0",)):
        one = RehearsalEngine(NODES, options)
        try:
            finished, said = run(one, tmp_path, script)
        finally:
            one.close()
        assert finished.outcome == "ok", said
        told.append([line for line in said if "=" in line and " " not in line])
    # The store is made by rank 0 itself where there is no agent, and errors stand in the log.
    agents = ("TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_SIGNALS")
    assert told[0] == [line for line in told[1] if not line.startswith(agents)]


def test_ends_are_told_and_the_server_lives_on(engine, tmp_path):
    finished, _ = run(engine, tmp_path, "import os, sys; sys.exit(3 * int(os.environ['RANK']))")
    assert (finished.outcome, finished.detail) == ("crashed", "exit code 3")
    finished, said = run(engine, tmp_path, "raise ValueError('of the script')")
    assert (finished.outcome, finished.detail) == ("crashed", "exit code 1")
    assert "ValueError: of the script" in said
    finished, _ = run(engine, tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert (finished.outcome, finished.detail) == ("crashed", "killed by SIGSEGV")
    finished, _ = run(engine, tmp_path, "import time; time.sleep(100)", timeout_seconds=0.5)
    assert finished.outcome == "timeout"
    server = engine._launcher._server._process.pid
    finished, said = run(engine, tmp_path, "print('fine')")
    assert finished.outcome == "ok"
    assert said == ["fine", "fine"]
    assert engine._launcher._server._process.pid == server
    assert psutil.Process(server).children() == []
    assert psutil.Process(server).num_threads() == 1


def test_another_environment_makes_another_server(engine, tmp_path, monkeypatch):
    script = "import os; print(os.environ.get('PLACE'))"
    run(engine, tmp_path, script)
    server = engine._launcher._server._process.pid
    monkeypatch.setenv("PLACE", "here")
    _, said = run(engine, tmp_path, script)
    assert said == ["here", "here"]
    assert engine._launcher._server._process.pid != server
    assert not psutil.pid_exists(server)


def test_nothing_outlives_a_killed_harness(tmp_path):
    (tmp_path / "wait.py").write_text("import time; time.sleep(1000)")
    command = [sys.executable, "-c", textwrap.dedent(HARNESS), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout is not None
        ranks = [psutil.Process(int(word)) for word in harness.stdout.readline().split()]
        server = ranks[0].parent()
        assert server.parent().pid == harness.pid
        harness.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs([server, *ranks], timeout=60)
    assert alive == []
    (name,) = remove_leftovers()
    assert name.startswith(f"nodewise-{harness.pid}-")
