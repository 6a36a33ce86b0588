"""Control groups of version 2 on plain files, as here version 1 may hold the controllers.

Version 1 is tested where it is used: on virtual nodes.
"""

import os
import threading
from pathlib import Path

import pytest

from nodewise.measure.engines.rehearsal import control_groups
from nodewise.measure.engines.rehearsal.control_groups import (
    Groups,
    UnifiedGroups,
    make_groups,
    missing_for_groups,
)
from nodewise.study.spec import Rehearsal


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Groups:
    """A set with one node, as it is made where only version 2 is mounted."""
    monkeypatch.setattr(control_groups, "_mounts", lambda: {"unified": tmp_path})
    monkeypatch.setattr(control_groups, "_set_name", lambda: "nodewise-1-1-0")
    (tmp_path / "nodewise-1-1-0").mkdir()
    for file, text in (
        ("cgroup.procs", ""),
        ("cgroup.controllers", "cpu io memory pids"),
        ("cgroup.subtree_control", "cpu pids"),
        ("nodewise-1-1-0/cgroup.subtree_control", ""),
    ):
        (tmp_path / file).write_text(text)
    groups = make_groups(Rehearsal(memory_bytes=10_000_000, disk_bytes_per_second=5_000_000))
    groups.make("node0")
    return groups


def test_controllers_are_handed_down(tmp_path: Path, groups: Groups) -> None:
    assert isinstance(groups, UnifiedGroups)
    group = tmp_path / "nodewise-1-1-0"
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+io +memory"
    assert (group / "cgroup.subtree_control").read_text() == "+cpu +io +memory"
    assert (group / "node0" / "cgroup.subtree_control").read_text() == "+cpu"
    assert (group / "node0" / "job" / "cgroup.type").read_text() == "threaded"
    assert groups.procs_files("node0") == [group / "node0" / "job" / "cgroup.procs"]


def test_limits_are_written_as_the_kernel_takes_them(tmp_path: Path, groups: Groups) -> None:
    group = tmp_path / "nodewise-1-1-0"
    groups.shield(True)
    assert (group / "cpu.weight").read_text() == "10000"
    groups.shield(False)
    assert (group / "cpu.weight").read_text() == "100"
    groups.limit_memory("node0", 10_000_000)
    groups.limit_disk("node0", "8:0", 5_000_000)
    assert (group / "node0" / "memory.max").read_text() == "9998336"
    assert (group / "node0" / "io.max").read_text() == "8:0 rbps=5000000 wbps=5000000"
    quota = group / "node0" / "job" / "cpu.max"
    groups.limit_cpu("node0", 0.1)
    assert quota.read_text() == "2000 20000"
    assert groups.cores("node0") == 0.1
    groups.limit_cpu("node0", None)
    assert quota.read_text() == "max 20000"
    assert groups.cores("node0") is None


def test_what_was_used_is_read(tmp_path: Path, groups: Groups) -> None:
    node = tmp_path / "nodewise-1-1-0" / "node0"
    (node / "job" / "cpu.stat").write_text(
        "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n"
        "nr_periods 40\nnr_throttled 30\nthrottled_usec 900000\n"
    )
    (node / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 2\n")
    assert groups.cpu_seconds("node0") == 1.5
    assert groups.periods("node0") == (40, 30)
    assert groups.memory_kills("node0") == 2


def test_threads_that_move_bytes_leave_the_quota(tmp_path: Path, groups: Groups) -> None:
    node = tmp_path / "nodewise-1-1-0" / "node0"
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    try:
        own = thread.native_id
        Path(f"/proc/self/task/{own}/comm").write_text("gloo_tcp_loop")
        (node / "job" / "cgroup.threads").write_text(f"{os.getpid()}\n{own}\n")
        assert groups.release_communication("node0") == 1
    finally:
        over.set()
        thread.join()
    assert (node / "communication" / "cgroup.threads").read_text() == str(own)


@pytest.mark.usefixtures("groups")
def test_a_controller_that_is_not_offered_is_named(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("memory pids")
    assert missing_for_groups(Rehearsal()) == "a control group controller for cpu"
