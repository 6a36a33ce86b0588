"""Probes: their bookkeeping exactly, their figures only for sense; machines are noisy."""

import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import msgspec
import psutil
import pytest

from nodewise.diagnose.machine import compute, limits, links, measured, memory
from nodewise.diagnose.machine.disk import disk
from nodewise.diagnose.machine.identity import identity, key
from nodewise.diagnose.machine.probe_all import thread_counts
from nodewise.diagnose.machine.watching import watch
from nodewise.diagnose.machine.windows import Window, ceiling, ceiling_of, joint_rates, loop
from nodewise.study.machine import Machine


def window(start: int, end: int, delay: int = 0) -> Window:
    return Window(start, end, end - start - delay, delay)


def test_only_windows_in_which_every_core_was_ours_count():
    first = [window(0, 10), window(10, 30, delay=10), window(30, 40)]
    second = [window(1, 11), window(11, 31), window(31, 41, delay=3)]
    assert joint_rates([first], 10) == [1e9, 1e9]
    assert joint_rates([first, second], 10) == [2e9]


def test_a_disturbed_window_falls_back_on_cpu_time():
    found = ceiling([lambda: lambda: sum(range(1000))], 1000.0, "1/s", 0.0, "sums")
    assert found.windows == 1
    assert found.how == "sums; by CPU time"


def test_the_median_has_its_interval():
    found = ceiling_of([float(n) for n in range(100)], "B/s", "")
    assert (found.value, found.low, found.high) == (49.5, 39.0, 60.0)
    few = ceiling_of([3.0, 1.0], "B/s", "")
    assert (few.low, few.high) == (1.0, 3.0)


@pytest.mark.parametrize("count", range(6, 31))
def test_the_interval_of_a_ceiling_holds_the_median_in_95_of_100_cases(count):
    found = ceiling_of([float(n) for n in range(count)], "B/s", "")
    cut = int(found.low)
    assert found.high == count - 1 - cut
    missed = Fraction(2 * sum(math.comb(count, below) for below in range(cut + 1)), 2**count)
    assert 1 - missed >= Fraction(95, 100)


def test_a_loop_ends_and_has_at_least_one_window():
    assert len(loop(lambda: None, 0.0)) == 1
    assert all(one.end >= one.start for one in loop(lambda: None, 0.01))


def test_several_cores_are_measured_by_processes_of_their_own():
    code = (
        "from nodewise.diagnose.machine.memory import stream\n"
        "found = stream(2**20, 2, 0.2)\n"
        "print(found.windows > 0, found.low <= found.value <= found.high)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert done.stdout.split() == ["True", "True"], done.stderr


def test_the_clock_is_a_clock_and_theory_a_bound():
    hertz = compute.clock()
    if hertz is None:
        pytest.skip("no x86-64, or memory that may not be executed")
    assert 5e8 < hertz < 8e9
    peaks, _ = compute.theory(hertz)
    assert peaks["float32"] == 2 * peaks["float64"]


def test_memory_of_a_control_group_counts(tmp_path):
    group = tmp_path / "a" / "b"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    (tmp_path / "a" / "memory.max").write_text("1000000\n")
    assert limits._group_limit(["0::/a/b"], tmp_path) == 1e6
    old = tmp_path / "memory" / "c"
    old.mkdir(parents=True)
    (old / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert limits._group_limit(["4:memory:/c"], tmp_path) is None
    assert min(limits.limits().values()) > 0


def test_working_sets_grow_from_level_to_level():
    sizes = list(memory.working_sets(8 * 2**30).values())
    assert sizes == sorted(sizes)
    assert thread_counts(6) == [1, 2, 4, 6]


def test_the_disk_is_given_back(tmp_path):
    found, missing = disk(tmp_path, 0.05)
    assert list(tmp_path.iterdir()) == []
    assert found["read, cached"].value > 0
    assert "read, direct" in found or "disk, direct" in missing
    assert disk(tmp_path / "nowhere", 0.05)[1]["disk"]


def test_links_have_a_latency_and_a_bandwidth():
    code = (
        "from nodewise.diagnose.machine.links import processes\n"
        "found = processes(0.2)\n"
        "print(all(one.value > 0 for kind in found.values() for one in kind.values()),"
        " sorted(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert done.stdout.startswith("True ['TCP on this node', 'process to process']"), done.stderr


def test_a_peer_that_is_not_there_is_an_error_with_the_fix():
    from nodewise.base.errors import RunError

    with pytest.raises(RunError, match="nodewise machine --serve 1"):
        links.peer("127.0.0.1", 1, 0.1)


def test_another_identity_is_another_file(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = measured.cache_file(Path())
    facts = identity(Path())
    monkeypatch.setattr(measured, "identity", lambda folder: {**facts, "cores": 999})
    assert measured.cache_file(Path()) != before
    assert key(facts) != key({**facts, "kernel": "other"})


def test_stored_ceilings_are_used_until_the_machine_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    def probes(folder: Path, peer: str = "") -> Machine:
        calls.append(folder)
        return Machine(identity={}, measured="now", seconds=1.0, capacity={"installed": 1.0})

    monkeypatch.setattr(measured, "measure", probes)
    assert measured.machine(Path())[1] is True
    assert measured.machine(Path())[1] is False
    assert measured.machine(Path(), refresh=True)[1] is True
    facts = identity(Path())
    monkeypatch.setattr(measured, "identity", lambda folder: {**facts, "cores": 999})
    assert measured.machine(Path())[1] is True
    assert len(calls) == 3
    measured.cache_file(Path()).write_text("torn {")
    assert measured.machine(Path())[1] is True


def test_watching_sees_a_busy_program_and_ends_a_long_one():
    code = "while True: sum(range(10000))"
    seen = watch((sys.executable, "-c", code), 2.5)
    assert seen.stopped
    assert seen.exit_code is None
    assert len(seen.samples) >= 2
    last = seen.samples[-1]
    assert last.user + last.run_delay > 0.3 * last.seconds
    msgspec.json.decode(msgspec.json.encode(seen), type=type(seen))


def test_watching_keeps_what_a_program_complains_about():
    seen = watch((sys.executable, "-c", "raise MemoryError"), 10)
    assert seen.exit_code == 1
    assert "MemoryError" in seen.error_tail


def test_nothing_of_a_watched_program_is_left(tmp_path):
    left = tmp_path / "pid"
    code = (
        "import os, pathlib, signal, time\n"
        "if os.fork() == 0:\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"    pathlib.Path({str(left)!r}).write_text(str(os.getpid()))\n"
        "    time.sleep(60)\n"
        "time.sleep(60)\n"
    )
    assert watch((sys.executable, "-c", code), 1.5).stopped
    child = int(left.read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
