"""Evidence beside the looks, and answers by experiment."""

import os
import socket
import sys

import msgspec
import pytest

from nodewise.diagnose.confirm import confirmed
from nodewise.diagnose.machine.evidence import group_kills, is_python, memory_group, tcp_traffic
from nodewise.diagnose.machine.trials import trials
from nodewise.diagnose.symptoms import Roofs, classify
from nodewise.study.observed import Observation, Sample, Trials

ROOFS = Roofs(20e9, 1.5e9)
BUSY = Sample(seconds=0.5, user=0.98, active_threads=3, runnable_ticks=1.0, messages=0.0,
              message_bytes=0.0, touched_bytes=1e6, touched_seconds=0.01,
              python_lock_threads=0.0)  # fmt: skip


def watched(sample=BUSY, roofs=ROOFS, **more):
    """A program all of whose windows look alike, on two cores."""
    fields = {"command": ("./job",), "seconds": 4.0, "exit_code": 0, "cores": 2, **more}
    return classify(Observation(samples=(sample,) * 8, **fields), roofs)


def changed(**fields):
    return msgspec.structs.replace(BUSY, **fields)


def test_bytes_through_a_socket_are_counted():
    server = socket.create_server(("127.0.0.1", 0))
    own = socket.create_connection(server.getsockname())
    other, _ = server.accept()
    with server, own, other:
        inode = os.fstat(own.fileno()).st_ino
        before = tcp_traffic()
        if before is None:
            pytest.skip("the kernel refuses socket statistics")
        own.sendall(bytes(100_000))
        assert len(other.recv(100_000, socket.MSG_WAITALL)) == 100_000
        after = tcp_traffic()
    assert after[inode].bytes - before[inode].bytes >= 100_000
    assert after[inode].segments > before[inode].segments


def test_kills_of_both_kinds_of_control_groups(tmp_path):
    assert group_kills(tmp_path) is None
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert group_kills(tmp_path) == 1
    (tmp_path / "memory.events").write_text("low 0\noom 4\noom_kill 3\n")
    assert group_kills(tmp_path) == 3
    assert memory_group(2**30) is None


def test_a_python_program_is_known():
    assert is_python(os.getpid())
    assert not is_python(1)


def test_a_kill_by_the_group_is_memory_capacity():
    found = watched(group_kills=1, exit_code=1)
    assert (found.ceiling, found.confidence) == ("memory capacity", "high")
    assert watched(node_kills=1, exit_code=137).ceiling == "memory capacity"
    assert watched(node_kills=1, exit_code=1).ceiling == "compute"


def test_compute_is_not_named_where_memory_was_not_seen():
    assert watched().ceiling == "compute"
    unseen = watched(changed(touched_bytes=None))
    assert unseen.ceiling is None
    assert "--confirm" in unseen.evidence[0]
    # 200 of 220 MB within a long moment: it may have been used many times
    whole = changed(touched_bytes=2e8, touched_seconds=0.2, touched_of_bytes=2.2e8)
    assert watched(whole, ROOFS._replace(cache=3.2e7)).ceiling is None


def test_threads_that_wake_each_other_coordinate_and_those_that_send_communicate():
    waking = changed(user=0.1, system=0.9, switches=20_000, lock_threads=0.2)
    assert watched(waking).ceiling == "coordination"
    sending = msgspec.structs.replace(waking, sockets=2, messages=20_000, message_bytes=5e8)
    assert watched(sending).ceiling == "communication"


def test_lock_waits_cost_nothing_while_all_cores_work():
    waiting = changed(lock_threads=1.4, switches=300)
    assert watched(waiting).ceiling == "compute"
    in_python = msgspec.structs.replace(waiting, python_lock_threads=1.4)
    assert watched(in_python).ceiling == "coordination"


TRIALS = Trials(arithmetic=2.0, memory=2.0, reference_arithmetic=1.0, reference_memory=1.5,
                shared=2.0)  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "ceiling"),
    [
        ({}, "compute"),
        ({"memory": 2.8}, "memory bandwidth"),
        ({"memory": 2.3}, None),
        ({"memory": 2.8, "reference_memory": 1.02}, None),  # the machine cannot show it
        ({"memory": 2.8, "shared": 1.0}, None),  # a fixed duration
        ({"memory": None}, None),
    ],
)
def test_the_ceiling_is_what_reacts(fields, ceiling):
    undecided = watched(changed(touched_bytes=None))
    found = confirmed(undecided, msgspec.structs.replace(TRIALS, **fields))
    assert found.ceiling == ceiling


def test_an_experiment_denies_what_watching_said():
    streams = watched(changed(touched_bytes=2e8, touched_of_bytes=1e9))
    assert streams.ceiling == "memory bandwidth"
    assert confirmed(streams, TRIALS).ceiling is None


@pytest.mark.slow
def test_trials_give_cpu_seconds_of_every_run():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    found = trials((sys.executable, "-c", "sum(range(3_000_000))"), 30)
    assert all(seconds > 0 for seconds in msgspec.structs.asdict(found).values())
