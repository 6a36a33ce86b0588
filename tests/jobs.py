"""What tests of real measuring share: a job and its spec in a folder, the command, what it left."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from nodewise.study import store
from nodewise.study.study import Run, Study

SPEC = """
name = "job"
scales = [{scales}]
rounds = {rounds}
timeout_seconds = {timeout}
[workload]
command = ["{{python}}", "job.py"]
{workload}
[workload.environment]
MARK = "{mark}"
{more}
"""


def write_job(
    folder: Path, job: str, scales: str, rounds: int, timeout: int, more: str, workload: str = ""
) -> Path:
    (folder / "job.py").write_text(job)
    spec = folder / "study.toml"
    words = {"scales": scales, "rounds": rounds, "timeout": timeout, "workload": workload}
    spec.write_text(SPEC.format(mark=folder.name, more=more, **words))
    return spec


def command(spec: Path, *more: str, name: str = "measure") -> list[str]:
    return [sys.executable, "-m", "nodewise", name, str(spec), *more]


def measure(spec: Path, *more: str, name: str = "measure") -> subprocess.CompletedProcess[str]:
    words = command(spec, *more, name=name)
    return subprocess.run(words, capture_output=True, text=True, timeout=300)


def runs_of(folder: Path) -> dict[tuple[int, int], Run]:
    return {(run.nodes, run.round): run for run in store.load(folder / "job.study").runs}


def marked(mark: str, **told: str) -> list[psutil.Process]:
    """The processes that were told this mark, and these variables too."""
    found = []
    for process in psutil.process_iter(["pid"]):
        try:
            if {"MARK": mark, **told}.items() <= process.environ().items():
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def left_behind(mark: str) -> list[int]:
    return [process.pid for process in marked(mark)]


def workers(mark: str, **told: str) -> list[psutil.Process]:
    """Those of them that run the job itself."""
    found = []
    for process in marked(mark, **told):
        try:
            if process.cmdline()[1:] == ["job.py"]:
                found.append(process)
        except psutil.Error:
            continue
    return found


def interrupted(
    words: list[str],
    ready: Callable[[], object],
    number: signal.Signals = signal.SIGINT,
    ignored: signal.Signals | None = None,
    **options: Any,
) -> tuple[int, list[str]]:
    """The exit code and the errors of a nodewise that gets a signal as soon as it is ready.

    `ignored` is a signal that it was started without.
    """

    def before() -> None:
        signal.signal(number, signal.SIG_DFL)  # nohup ignores SIGHUP
        if ignored is not None:
            signal.signal(ignored, signal.SIG_IGN)

    process = subprocess.Popen(
        [sys.executable, "-m", "nodewise", *words],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
        **options,
    )
    try:
        wait_until(ready)
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    return process.returncode, err.splitlines()


FOREIGN_LOAD_SHARE = 0.10  # from here on the report itself calls the machine a cause


def foreign_load(study: Study) -> float:
    """The largest share of a run in which other programs kept a rank from its core."""
    return max((run.contention.run_delay for run in study.runs if run.contention), default=0.0)


def skip_if_disturbed(study: Study) -> None:
    """Skip a test that went wrong while other programs took the cores."""
    if foreign_load(study) >= FOREIGN_LOAD_SHARE:
        pytest.skip(
            f"disturbed: a rank waited {foreign_load(study):.0%} of a run for a core of its own"
        )


def wait_until(true: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)
