"""What goes wrong in practice. After each fault nothing is lost but the run under way, nothing is
left behind, and the message is true; docs/reliability.md has the list."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from nodewise import store

JOB = """
import os, signal, sys, time
kind, mark = sys.argv[1], sys.argv[2]
if kind == "daemon":
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(300)
        os._exit(0)
    time.sleep(0.2)
elif kind == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(300)
elif kind == "flood":
    for _ in range(2000):
        sys.stdout.write("x" * 50_000 + chr(10))
    sys.exit(3)
elif kind == "bytes":
    sys.stdout.buffer.write(b"\\xff\\xfe\\x00\\x1b[31mbad\\xff" + bytes([10]))
    sys.exit(3)
elif kind == "suicide":
    os.kill(os.getpid(), signal.SIGKILL)
elif kind == "slow":
    time.sleep(300)
"""


def write(folder: Path, kind: str, rounds: int = 1, timeout: float = 60) -> Path:
    (folder / "job.py").write_text(JOB)
    words = json.dumps(["{python}", "job.py", kind, str(folder)])
    spec = folder / "job.toml"
    spec.write_text(
        f'name = "job"\nscales = [1]\nrounds = {rounds}\ntimeout_seconds = {timeout}\n'
        f"[workload]\ncommand = {words}\n"
    )
    return spec


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "nodewise", *map(str, words)]


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=180)


def alive(folder: Path) -> list[psutil.Process]:
    """Processes of the job in this folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(folder) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def wait_until(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("kind", "outcome", "said"),
    [
        ("daemon", "ok", ""),
        ("stubborn", "timeout", "stopped after 2 s"),
        ("flood", "crashed", "exit code 3"),
        ("bytes", "crashed", "exit code 3"),
        ("suicide", "out of memory", "SIGKILL"),
    ],
)
def test_a_workload_that_misbehaves_is_recorded_and_ended(kind, outcome, said, tmp_path):
    done = run("measure", write(tmp_path, kind, timeout=2 if kind == "stubborn" else 60))
    assert done.returncode == 0, done.stderr
    [made] = store.load(tmp_path / "job.study")[1].runs
    assert made.outcome == outcome
    assert said in made.detail
    assert len(made.detail) < 20_000
    assert "\x1b" not in done.stderr
    assert alive(tmp_path) == []


def test_what_a_killed_harness_left_is_ended_by_the_next(tmp_path):
    spec = write(tmp_path, "slow", timeout=2)
    harness = subprocess.Popen(command("measure", spec), stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: alive(tmp_path))
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.wait(timeout=30)
    done = run("measure", spec)
    assert done.returncode == 0, done.stderr
    assert [made.outcome for made in store.load(tmp_path / "job.study")[1].runs] == ["timeout"]
    assert alive(tmp_path) == []


def test_ctrl_c_keeps_what_is_finished_and_leaves_nothing(tmp_path):
    spec = write(tmp_path, "slow")
    harness = subprocess.Popen(command("measure", spec), stderr=subprocess.PIPE, text=True)
    wait_until(lambda: alive(tmp_path))
    harness.send_signal(signal.SIGINT)
    _, said = harness.communicate(timeout=60)
    assert harness.returncode == 3
    assert "every finished run is kept" in said
    assert alive(tmp_path) == []


def test_two_harnesses_do_not_share_a_study(tmp_path):
    spec = write(tmp_path, "slow")
    first = subprocess.Popen(command("measure", spec), stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: alive(tmp_path))
        second = run("measure", spec)
        assert second.returncode == 3
        assert len(second.stderr.splitlines()) == 2
    finally:
        first.send_signal(signal.SIGINT)
        first.wait(timeout=60)
    assert alive(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 64 kB that can be made read-only."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_said_and_every_finished_run_is_kept(small_disk, tmp_path):
    spec = write(tmp_path, "quick", rounds=200)
    study = small_disk / "job.study"
    done = run("measure", spec, "-o", study)
    assert done.returncode == 3, done.stderr
    *runs, what, fix = done.stderr.splitlines()
    assert what.endswith(": no space left on device.")
    assert fix.startswith("  fix: ")
    kept = store.load(study)[1].runs
    assert len(kept) >= len(runs) > 0


def test_a_read_only_folder_is_said(small_disk, tmp_path):
    spec = write(tmp_path, "quick")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    done = run("measure", spec, "-o", small_disk / "job.study")
    assert done.returncode in (2, 3)
    assert len(done.stderr.splitlines()) == 2, done.stderr
    assert "ead-only" in done.stderr


@pytest.mark.parametrize("name", ["runs.jsonl", "study.toml"])
def test_a_damaged_study_is_named_and_never_a_crash(name, nodewise, tmp_path):
    assert run("measure", write(tmp_path, "quick", rounds=3)).returncode == 0
    file = tmp_path / "job.study" / name
    whole = file.read_bytes()
    chance = random.Random(7)
    for _ in range(150):
        hurt = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            hurt[chance.randrange(len(hurt))] = chance.randrange(256)
        file.write_bytes(hurt[: chance.randint(0, len(hurt))] if chance.random() < 0.5 else hurt)
        outcome = nodewise("scale", tmp_path / "job.study")
        assert outcome.code in (0, 2, 3, 4)
        if outcome.code:
            assert outcome.err.startswith("nodewise: ") and "\n  fix: " in outcome.err
