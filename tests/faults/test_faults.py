"""What goes wrong in practice. After each fault nothing is lost but the run under way, nothing is
left behind, and the message is true; docs/reliability.md has the list."""

import contextlib
import datetime
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from benchmarks import fuzz_readers

from nodewise.measure.engines.rehearsal.virtual_nodes import missing
from nodewise.measure.scratch import scratch_folder
from nodewise.study import store
from nodewise.study.spec import Rehearsal

pytestmark = pytest.mark.slow

NOTHING_WORKED = 4  # the exit code where no run of a study ended well

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
elif kind == "slow" or (kind == "slow at first" and os.environ["NODEWISE_ROUND"] == "0"):
    time.sleep(300)
elif kind == "ranks":
    from mpi4py import MPI
    time.sleep(300)
elif kind == "diverged":
    from nodewise import probe
    probe.quality(loss=float("nan"))
    probe.fact(rate=float("inf"))
elif kind == "forged":
    open(os.environ["NODEWISE_RUN"] + "/rank-0.json", "w").write("{")
elif kind == "jump":
    from nodewise import probe
    begin = time.time()
    for step in probe.steps(range(4)):
        with probe.compute():
            time.sleep(0.05)
        if step == 1:
            open(mark + "/jumped", "w").close()
    probe.fact(wall_seconds=time.time() - begin)
"""

# Every clock that can be set, set an hour off as soon as a file is there.
JUMPING = """
import datetime, os, time
off = lambda: float(os.environ["JUMP_SECONDS"]) if os.path.exists(os.environ["JUMPED"]) else 0.0
now = time.time
time.time = lambda: now() + off()
time.time_ns = lambda: int(time.time() * 1e9)
class Jumping(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=off())
datetime.datetime = Jumping
"""


def write(
    folder: Path, kind: str, rounds: int = 1, timeout: float = 60, scales: str = "1", more: str = ""
) -> Path:
    (folder / "job.py").write_text(JOB)
    words = json.dumps(["{python}", "job.py", kind, str(folder)])
    spec = folder / "job.toml"
    spec.write_text(
        f'name = "job"\nscales = [{scales}]\nrounds = {rounds}\ntimeout_seconds = {timeout}\n'
        f"[workload]\ncommand = {words}\n{more}"
    )
    return spec


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "nodewise", *map(str, words)]


def run(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), capture_output=True, text=True, timeout=180, env=os.environ | environment
    )


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
        ("diverged", "not a number", "quality is nan"),
        ("forged", "crashed", "the report rank-0.json is damaged"),
    ],
)
def test_a_workload_that_misbehaves_is_recorded_and_ended(kind, outcome, said, tmp_path):
    done = run("measure", write(tmp_path, kind, timeout=2 if kind == "stubborn" else 60))
    assert done.returncode == (0 if outcome == "ok" else NOTHING_WORKED), done.stderr
    [made] = store.load(tmp_path / "job.study").runs
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
        harness.wait(timeout=240)
    done = run("measure", spec)
    assert done.returncode == NOTHING_WORKED, done.stderr
    assert [made.outcome for made in store.load(tmp_path / "job.study").runs] == ["timeout"]
    assert alive(tmp_path) == []


def test_a_worker_that_is_killed_ends_its_run_alone(tmp_path):
    spec = write(tmp_path, "slow at first", rounds=2, timeout=200, scales="2")
    harness = subprocess.Popen(command("measure", spec), stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(alive(tmp_path)) == 2)
        alive(tmp_path)[0].kill()
        assert harness.wait(timeout=240) == 0
    finally:
        harness.kill()
        harness.wait(timeout=240)
    first, second = store.load(tmp_path / "job.study").runs
    assert (first.outcome, second.outcome) == ("out of memory", "ok")
    assert "SIGKILL" in first.detail
    assert alive(tmp_path) == []


@pytest.mark.skipif(
    missing(Rehearsal(cpu="quota", link="real")) is not None,
    reason="this machine cannot emulate nodes",
)
def test_a_node_that_is_killed_ends_its_run_alone(tmp_path):
    engine = '[engine]\nname = "rehearsal"\n[engine.rehearsal]\nlauncher = "local"\n'
    spec = write(tmp_path, "slow at first", rounds=2, timeout=200, scales="2", more=engine)
    harness = subprocess.Popen(command("measure", spec), stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: of_node_1(tmp_path))
        node = place_of(of_node_1(tmp_path)[0].pid)
        for process in psutil.process_iter():
            if place_of(process.pid) == node:
                process.kill()
        assert harness.wait(timeout=240) == 0
    finally:
        harness.send_signal(signal.SIGINT)
        harness.wait(timeout=240)
    first, second = store.load(tmp_path / "job.study").runs
    assert (first.outcome, second.outcome) == ("crashed", "ok")
    assert "node1 was killed" in first.detail
    assert alive(tmp_path) == []
    assert list(Path("/sys/fs/cgroup").glob(f"**/nodewise-{harness.pid}-*")) == []


def of_node_1(folder: Path) -> list[psutil.Process]:
    """The job there, once it is where it belongs."""
    here = place_of(os.getpid())
    found = []
    for process in alive(folder):
        with contextlib.suppress(psutil.Error):
            if process.environ().get("NODEWISE_RANK") == "1" and place_of(process.pid) != here:
                found.append(process)
    return found


def place_of(process: int) -> Path | None:
    """The name space of the host name: that of a node has all of its processes."""
    try:
        return Path(f"/proc/{process}/ns/uts").readlink()
    except OSError:
        return None


@pytest.mark.parametrize("seconds", [3600, -3600])
def test_a_jump_of_the_clock_changes_no_duration_and_loses_no_run(seconds, tmp_path):
    spec = write(tmp_path, "jump", rounds=2)
    (tmp_path / "sitecustomize.py").write_text(JUMPING)
    clock = {"JUMP_SECONDS": str(seconds), "JUMPED": str(tmp_path / "jumped")}
    done = run("measure", spec, PYTHONPATH=str(tmp_path), **clock)
    assert done.returncode == 0, done.stderr
    first, second = store.load(tmp_path / "job.study").runs
    begun = [datetime.datetime.fromisoformat(made.started) for made in (first, second)]
    # The job and we saw the clock jump: in the first run, between the two.
    assert abs(first.facts["wall_seconds"] - seconds) < 1800
    assert abs((begun[1] - begun[0]).total_seconds() - seconds) < 1800
    for made in (first, second):
        assert made.outcome == "ok"
        assert 0.2 <= made.ranks[0].stages["compute"] <= made.seconds < 1800
    again = run("measure", spec, PYTHONPATH=str(tmp_path), **clock)
    assert again.returncode == 0, again.stderr
    assert store.load(tmp_path / "job.study").runs == (first, second)


def test_a_damaged_note_of_who_runs_is_no_hindrance(tmp_path):
    spec = write(tmp_path, "quick")
    (tmp_path / "job.study").mkdir()
    (tmp_path / "job.study" / "running").write_bytes(b"\xff\n\xff 1\n99999999999999999999 nan\n")
    assert run("measure", spec).returncode == 0
    assert [made.outcome for made in store.load(tmp_path / "job.study").runs] == ["ok"]


def test_ctrl_c_keeps_what_is_finished_and_leaves_nothing(tmp_path):
    spec = write(tmp_path, "slow")
    harness = subprocess.Popen(command("measure", spec), stderr=subprocess.PIPE, text=True)
    wait_until(lambda: alive(tmp_path))
    harness.send_signal(signal.SIGINT)
    _, said = harness.communicate(timeout=240)
    assert harness.returncode == 3
    assert "all finished runs are kept" in said
    assert alive(tmp_path) == []


STARTS = {
    "measure": lambda folder: ["measure", folder / "job.toml"],
    "diagnose": lambda folder: [
        "diagnose",
        "--",
        sys.executable,
        folder / "job.py",
        "slow",
        folder,
    ],
}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("kind", STARTS)
def test_nothing_is_left_after_a_signal_and_the_next_start(kind, number, tmp_path, monkeypatch):
    """No process, no temporary folder: at once where we can act, else after the next start."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    home = tmp_path / "home"
    home.mkdir()
    write(home, "slow")
    (tmp_path / "next").mkdir()
    harness = subprocess.Popen(command(*STARTS[kind](home)), stderr=subprocess.DEVNULL)
    try:
        # the command line of `diagnose` names the job as well
        count = 2 if kind == "diagnose" else 1
        wait_until(lambda: len(alive(home)) >= count and any(temporary.iterdir()))
    finally:
        harness.send_signal(number)
        harness.wait(timeout=240)
    if number != signal.SIGKILL:
        assert list(temporary.iterdir()) == []
        assert ours(home) == []
    run("measure", write(tmp_path / "next", "quick"))
    assert list(temporary.iterdir()) == []
    assert ours(home) == []
    assert not list(home.rglob("*.part"))


@pytest.mark.parametrize("engine", ["mpi", "rehearsal"])
def test_killed_ranks_leave_no_group_segment_or_folder_after_the_next_start(
    engine, tmp_path, monkeypatch
):
    """Control groups, segments of shared memory, temporary folders, processes."""
    if engine == "rehearsal" and (why := missing(Rehearsal(cpu="quota", link="real"))):
        pytest.skip(f"this machine cannot emulate nodes: {why}")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    spec = write(tmp_path, "ranks", scales="2", more=f'[engine]\nname = "{engine}"\n')
    harness = subprocess.Popen(command("measure", spec), stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(segments_of(tmp_path)) == 2, 120)
        segments = set().union(*segments_of(tmp_path))
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.wait(timeout=240)
    assert list(temporary.iterdir()) != []
    (tmp_path / "job.py").write_text("from mpi4py import MPI\n")
    assert run("measure", spec).returncode == 0
    assert list(temporary.iterdir()) == []
    assert ours(tmp_path) == []
    assert not any(segment.exists() for segment in segments)
    assert list(Path("/sys/fs/cgroup").glob(f"**/nodewise-{harness.pid}-*")) == []


def segments_of(folder: Path) -> list[set[Path]]:
    """The segments of shared memory of each rank that has some."""
    found = []
    for process in alive(folder):
        with contextlib.suppress(psutil.Error):
            paths = {one.path for one in process.memory_maps() if one.path.startswith("/dev/shm/")}
            found += [{Path(path.removesuffix(" (deleted)")) for path in paths}] if paths else []
    return found


def test_temporary_folders_of_living_processes_and_of_others_stay(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    over = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                          capture_output=True, text=True, check=True).stdout.strip()  # fmt: skip
    for name in (f"nodewise-{over}-left", "nodewise-notes", "nodewise-1-root", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / f"nodewise-{over}-link").symlink_to(tmp_path / "data")
    (tmp_path / f"nodewise-{over}-left" / "page.html").touch()
    with scratch_folder() as first, scratch_folder():
        assert first.is_dir()
        stays = {"nodewise-notes", "nodewise-1-root", "data", f"nodewise-{over}-link"}
        assert not (tmp_path / f"nodewise-{over}-left").exists()
        assert stays <= {path.name for path in tmp_path.iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == stays


def ours(folder: Path) -> list[psutil.Process]:
    """Processes of the job there that are left; they may take a moment to be gone."""
    end = time.monotonic() + 10
    while alive(folder) and time.monotonic() < end:
        time.sleep(0.05)
    return alive(folder)


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
        first.wait(timeout=240)
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
    *lines, what, fix = done.stderr.splitlines()
    assert what.endswith(": no space left on device.")
    assert fix.startswith("  fix: ")
    runs = [line for line in lines if line.startswith("round ")]
    kept = store.load(study).runs
    assert len(kept) >= len(runs) > 0


def test_a_read_only_folder_is_said(small_disk, tmp_path):
    spec = write(tmp_path, "quick")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    done = run("measure", spec, "-o", small_disk / "job.study")
    assert done.returncode in (2, 3)
    assert len(done.stderr.splitlines()) == 2, done.stderr
    assert "ead-only" in done.stderr


def study_folder(folder: Path) -> str:
    assert run("measure", write(folder, "quick", rounds=3, scales="1, 2")).returncode == 0
    return "scale"


def fleet_folder(folder: Path) -> str:
    (folder / "job.study").mkdir()
    for name, reader in fuzz_readers._load_readers().items():
        if name == "windows.jsonl":
            (folder / "job.study" / name).write_bytes(reader.samples[0])
            (folder / "job.study" / "fleet.toml").write_bytes(reader.beside["fleet.toml"])
    return "fleet decide"


@pytest.mark.parametrize(
    ("name", "made", "times"),
    [
        ("runs.jsonl", study_folder, 150),
        ("study.toml", study_folder, 150),
        ("windows.jsonl", fleet_folder, 80),
        ("fleet.toml", fleet_folder, 80),
    ],
)
def test_a_damaged_study_is_named_and_never_a_crash(name, made, times, nodewise, tmp_path):
    question = made(tmp_path).split()
    file = tmp_path / "job.study" / name
    whole = file.read_bytes()
    assert nodewise(*question, tmp_path / "job.study").code in (0, 1)
    chance = random.Random(7)
    for _ in range(times):
        hurt = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            hurt[chance.randrange(len(hurt))] = chance.randrange(256)
        file.write_bytes(hurt[: chance.randint(0, len(hurt))] if chance.random() < 0.5 else hurt)
        outcome = nodewise(*question, tmp_path / "job.study")
        assert outcome.code in (0, 1, 2, 3, 4)
        if outcome.code > 1:
            assert outcome.err.startswith("nodewise: ") and "\n  fix: " in outcome.err


@pytest.mark.parametrize(
    ("name", "made"), [("study.toml", study_folder), ("fleet.toml", fleet_folder)]
)
def test_a_study_of_a_later_format_is_refused(name, made, nodewise, tmp_path):
    question = made(tmp_path).split()
    file = tmp_path / "job.study" / name
    file.write_text("format = 2\n" + file.read_text())
    outcome = nodewise(*question, tmp_path / "job.study")
    assert outcome.code == 2
    assert outcome.err.startswith("nodewise: format: ")
