"""The process beside us: answers, errors, silence, its end; and what it is started with."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from nodewise.base.errors import RunError
from nodewise.measure.engines.base import Job
from nodewise.measure.engines.clusters.companion import (
    Companion,
    cluster_environment,
    driver_environment,
)

SESSION = """
    import contextlib, subprocess, sys, time
    from nodewise.measure.engines.clusters.companion import serve
    from nodewise.base.errors import RunError

    class Session:
        def __init__(self, library, wanted):
            print("a library that talks")
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
            self.first = {"told": wanted, "child": child.pid}

        def about(self):
            return self.first

        def add(self, a, b):
            return {"sum": a + b}

        def refuse(self):
            raise RunError("It will not.", "Ask again.")

        def crash(self):
            raise KeyError("of the library")

        def sleep(self):
            time.sleep(100)

    serve("msgspec", lambda *told: contextlib.nullcontext(Session(*told)))
"""


@pytest.fixture
def companion(tmp_path):
    (tmp_path / "session_of_test.py").write_text(textwrap.dedent(SESSION))
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path}
    made = Companion("session_of_test", {"workers": 3}, environment, restores=False)
    yield made
    made.close()


def test_requests_are_answered_and_all_ends_with_it(companion):
    first = companion.answer(30)
    assert first["told"] == {"workers": 3}
    assert first["version"] == msgspec.__version__
    assert first["startup_seconds"] > 0
    assert companion.ask("add", 30, a=1, b=2) == {"sum": 3}
    with pytest.raises(RunError, match="It will not") as caught:
        companion.ask("refuse", 30)
    assert caught.value.fix == "Ask again."
    assert companion.ask("add", 30, a=2, b=2) == {"sum": 4}  # it lives on
    companion.close()
    assert not companion.alive
    assert not psutil.pid_exists(first["child"])


def test_its_whole_group_dies_with_us(tmp_path):
    (tmp_path / "session_of_test.py").write_text(textwrap.dedent(SESSION))
    script = """
        import os, sys
        from nodewise.measure.engines.clusters.companion import Companion
        made = Companion("session_of_test", {}, dict(os.environ), restores=False)
        print(made.pid, made.answer(60)["child"], flush=True)
        sys.stdin.read()
    """
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], text=True,
        env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as harness:  # fmt: skip
        assert harness.stdout is not None
        started = [int(word) for word in harness.stdout.readline().split()]
        harness.kill()
    deadline = time.monotonic() + 30
    while any(map(_runs, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [pid for pid in started if _runs(pid)] == []


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_its_last_words_are_told(companion):
    companion.answer(30)
    with pytest.raises(RunError, match="ended") as caught:
        companion.ask("crash", 30)
    assert "KeyError: 'of the library'" in caught.value.fix
    with pytest.raises(RunError, match="ended"):
        companion.ask("add", 30, a=1, b=2)


def test_silence_has_an_end(companion):
    companion.answer(30)
    with pytest.raises(RunError, match=r"no answer in 0\.5 s"):
        companion.ask("sleep", 0.5)


def test_the_driver_is_timed_and_the_cluster_is_not(tmp_path):
    job = Job(
        command=("python", "part/job.py"),
        nodes=2,
        directory=tmp_path,
        environment={"NODEWISE_RUN": "r", "NODEWISE_GATE": "g", "A": "1", "PYTHONPATH": "/lib"},
        folder=Path("/nowhere"),
        timeout_seconds=1,
    )
    assert driver_environment(job) == {
        "NODEWISE_RUN": "r", "NODEWISE_RANK": "0", "A": "1", "PYTHONPATH": "/lib",
    }  # fmt: skip
    folders = os.pathsep.join([str(tmp_path.resolve() / "part"), str(tmp_path), "/lib"])
    assert cluster_environment(job) == {"A": "1", "PYTHONPATH": folders}
