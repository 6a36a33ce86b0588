"""A real Ray Serve with one and two replicas behind one port; Ctrl-C leaves nothing of it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from nodewise.fleet.load import windows

pytest.importorskip("httptools", reason="httptools is not installed: pip install 'nodewise[fleet]'")
EXAMPLES = Path(__file__).parents[2] / "examples" / "fleet"


def small(folder: Path) -> Path:
    """The example, with one short window for each number of replicas."""
    text = (EXAMPLES / "ray_serve.toml").read_text()
    for old, new in (
        ("rounds = 2", "rounds = 1"),
        ('"ray_serve.py"', f'"{EXAMPLES / "ray_serve.py"}"'),
        ("ttft = 0.5", "ttft = 9.0"),
        ("share = 0.95", "share = 0.5"),
        ("\nwindow_seconds = 6\n", "\nwindow_seconds = 2\nmost_rate_per_second = 4\n"),
        ("most_window_seconds = 40", "most_window_seconds = 4"),
    ):
        assert old in text
        text = text.replace(old, new)
    path = folder / "ray_serve.toml"
    path.write_text(text)
    return path


class Sweep:
    """`nodewise fleet sweep`, under way, and every process that was ever seen below it.

    A worker of Ray writes its title over its environment, so no mark in there would find it.
    """

    def __init__(self, spec: Path, out: Path) -> None:
        command = [sys.executable, "-m", "nodewise", "fleet", "sweep", str(spec), "-o", str(out)]
        self.said = spec.parent / "said"
        with self.said.open("w") as said:
            self.process = subprocess.Popen(command, stdout=said, stderr=said)
        self.seen: dict[int, psutil.Process] = {}
        self.titles: set[str] = set()

    def watch(self, until, seconds: float = 300) -> None:
        """Look at the processes until something is so, or the sweep is over."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None and not until():
            assert time.monotonic() < deadline, self.said.read_text()
            try:
                below = psutil.Process(self.process.pid).children(recursive=True)
            except psutil.NoSuchProcess:
                break
            for one in below:
                self.seen[one.pid] = one
                try:
                    self.titles.add(" ".join(one.cmdline()))
                except psutil.Error:
                    continue
            time.sleep(0.1)

    def left(self) -> list[psutil.Process]:
        """What still runs of them after some time to end; a pid used anew is another process."""
        deadline = time.monotonic() + 10
        while (alive := [one for one in self.seen.values() if _runs(one)]) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.1)
        return alive

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for one in self.left():
            one.kill()


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def begin(tmp_path):
    # In a process of its own: it warns of its own libraries, and a warning fails a test.
    tried = [sys.executable, "-c", "import ray.serve"]
    lacking = subprocess.run(tried, capture_output=True, text=True, timeout=120).stderr
    if "ModuleNotFoundError" in lacking:
        pytest.skip(f"Ray Serve is not installed (pip install 'nodewise[ray]'): {lacking[-200:]}")
    made = []

    def start() -> Sweep:
        made.append(Sweep(small(tmp_path), tmp_path / "out"))
        return made[-1]

    yield start
    for sweep in made:
        sweep.close()


def test_a_sweep_behind_ray_serve_survives_ctrl_c_and_leaves_nothing_behind(begin, tmp_path):
    out = tmp_path / "out"
    sweep = begin()
    sweep.watch(lambda: (out / windows.WINDOWS).exists() and windows.load(out))
    os.kill(sweep.process.pid, signal.SIGINT)
    assert sweep.process.wait(timeout=60) == 3, sweep.said.read_text()
    for part in ("raylet", "gcs_server", "ray::ServeReplica", "ray::ProxyActor"):
        assert any(part in title for title in sweep.titles), part
    assert sweep.left() == []

    sweep = begin()  # goes on where it stopped
    sweep.watch(lambda: False)
    assert sweep.process.wait(timeout=60) in (0, 1), sweep.said.read_text()
    assert sweep.left() == []

    made = windows.load(out)
    assert {window.replicas for window in made} == {1, 2}, sweep.said.read_text()
    answered = [request for window in made for request in window.requests]
    assert answered and not any(request.error for request in answered)
    assert {request.endpoint for request in answered} == {0}
    assert all(4 <= request.output_tokens <= 12 for request in answered)
    assert all(request.input_tokens >= 4 for request in answered)
    # A replica sleeps 0.1 s before its first token, and 0.02 s before each further one.
    for request in answered:
        assert request.first - request.sent >= 0.1 - 1e-3
        assert request.last - request.sent >= 0.1 + 0.02 * (request.output_tokens - 1) - 1e-3
    assert not any("usage" in note for window in made for note in window.notes)
    for count in (1, 2):
        assert f"{count} replicas behind" in (out / f"logs/{count}-replicas/all/log").read_text()
