"""What the tests of Ray, Dask and Spark share: one study that goes through everything.

Its jobs sleep instead of computing, so that two busy cores do not bend the curve. One task works
alone, then come pieces of which one is long. At K=2 a worker is killed in the first round.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from pathlib import Path

import psutil

from nodewise.explain.attribute import attribute
from nodewise.study import store
from nodewise.study.study import Study

ALONE, LONG, SHORT, PIECES = 1.5, 1.2, 0.1, 9
MARK = "CLUSTER_TEST_MARK"
SPEC = """
name = "job"
scales = [1, 2, 3]
rounds = {rounds}
timeout_seconds = 300
seed = 3
[workload]
command = ["{{python}}", "job.py"]
[workload.environment]
KILL_AT = "2"
[engine]
name = "{engine}"
{table}
"""
COMMON = f"""
    import os, signal, time
    from pathlib import Path

    LENGTHS = [{LONG}] + [{SHORT}] * {PIECES - 1}
    FLAG = Path({{flag!r}})

    def sleep_alone(seconds):
        time.sleep(seconds)
        return seconds

    def sleep_piece(seconds, process=os.getpid):
        if KILLS and not FLAG.exists():
            FLAG.write_text("")
            os.kill(process(), signal.SIGKILL)
        time.sleep(seconds)
        return seconds

    KILLS = os.environ.get("NODEWISE_NODES") == os.environ.get("KILL_AT")
"""


class Cluster:
    """A folder with a job and its spec, and the processes that come of measuring it."""

    def __init__(self, folder: Path, engine: str, job: str, table: str = "", rounds: int = 2):
        self.folder = folder
        self.mark = uuid.uuid4().hex
        common = textwrap.dedent(COMMON).format(flag=str(folder / "killed"))
        (folder / "job.py").write_text(common + textwrap.dedent(job))
        spec = SPEC.format(engine=engine, table=table, rounds=rounds)
        (folder / "job.toml").write_text(spec)

    def start(self) -> subprocess.Popen[str]:
        """`nodewise measure`, under way."""
        return subprocess.Popen(
            [sys.executable, "-m", "nodewise", "measure", "job.toml"],
            cwd=self.folder,
            env={**os.environ, MARK: self.mark},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )

    def processes(self) -> list[psutil.Process]:
        """All that a measuring of ours has started and that still runs."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and process.status() != "zombie":
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    def wait_until_gone(self) -> list[psutil.Process]:
        """What is left of the processes after some time to end."""
        deadline = time.monotonic() + 20
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return left

    def wait_for(self, word: str) -> None:
        """Until a process runs that has this word in its command."""
        deadline = time.monotonic() + 150
        while time.monotonic() < deadline:
            for process in self.processes():
                try:
                    if any(word in part for part in process.cmdline()):
                        return
                except psutil.Error:
                    continue
            time.sleep(0.1)
        raise AssertionError(f"no process with {word} was started")

    def stop_after_the_first_run(self) -> str:
        """Ctrl-C as soon as one run is made; what was said."""
        with self.start() as measuring:
            assert measuring.stderr is not None
            first = measuring.stderr.readline()
            measuring.send_signal(signal.SIGINT)
            rest = measuring.stderr.read()
        assert measuring.returncode == 3, first + rest
        return first + rest

    def go_on(self) -> str:
        """The same command again, to its end."""
        with self.start() as measuring:
            _, said = measuring.communicate(timeout=900)
        assert measuring.returncode == 0, said
        return said

    @property
    def study(self) -> Study:
        """What was measured so far."""
        return store.load(self.folder / "job.study")


def check_study(study: Study) -> None:
    """Three scales, one run with a killed worker, and the planted causes in the ledger."""
    assert len({(run.nodes, run.round) for run in study.runs}) == len(study.runs)
    failed = [run for run in study.runs if run.outcome != "ok"]
    assert [run.nodes for run in failed] == [2], [run.detail for run in failed]
    assert study.scales == (1, 2, 3)
    for run in study.good_runs:
        assert len(run.ranks) == run.nodes
        for rank in run.ranks:
            assert abs(sum(rank.stages.values()) - run.seconds) < 0.05 * run.seconds
            assert min(rank.stages.values()) >= 0
            assert rank.host
        facts = run.provenance
        assert facts["engine_version"]
        assert facts["engine_nodes"]
        assert facts["engine_workers"] == run.nodes
        assert facts["startup_seconds"] > 0
        assert facts["scheduling_seconds"] >= 0
        assert max(rank.stages["serial"] for rank in run.ranks) > 0.95 * ALONE
        total = LONG + (PIECES - 1) * SHORT
        assert sum(rank.stages["compute"] for rank in run.ranks) > 0.9 * total
    for run in study.at(3):
        compute = [rank.stages["compute"] for rank in run.ranks]
        assert compute[0] == max(compute) > 0.95 * LONG
        assert compute[0] > 1.2 * sum(compute) / 3  # an even share would be less
        assert run.ranks[0].stages["idle"] < run.ranks[-1].stages["idle"]
    row = attribute(study).row(3)
    lost = {loss.cause: loss.seconds for loss in row.causes}
    assert lost["serial fraction"] > 0.6 * ALONE * (1 - 1 / 3)


def check_survival(cluster: Cluster) -> None:
    """A study goes on after Ctrl-C, one worker is killed, and no process is left."""
    assert "Stopped" in cluster.stop_after_the_first_run()
    assert cluster.wait_until_gone() == []
    assert len(cluster.study.runs) == 1
    cluster.go_on()
    assert len(cluster.study.runs) == 6
    check_study(cluster.study)
    assert cluster.wait_until_gone() == []


def check_nothing_outlives_us(other: Cluster, word: str = "job.py") -> None:
    """Killed as soon as a process with this word in its command runs, we leave none behind."""
    with other.start() as measuring:
        other.wait_for(word)
        measuring.send_signal(signal.SIGKILL)
    assert other.wait_until_gone() == []
