"""Evidence beside the looks, and answers by experiment."""

import errno
import fcntl
import mmap
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from nodewise.diagnose.confirm import confirmed
from nodewise.diagnose.machine import watching
from nodewise.diagnose.machine.evidence import (
    FileLocks,
    Opened,
    group_kills,
    is_python,
    memory_group,
    tcp_traffic,
)
from nodewise.diagnose.machine.inside import Inside
from nodewise.diagnose.machine.memory import fresh_pages
from nodewise.diagnose.machine.touching import Touch, seconds_of_a_mark
from nodewise.diagnose.machine.trials import trials
from nodewise.diagnose.own_time import joined
from nodewise.diagnose.symptoms import classify
from nodewise.diagnose.window_rules import Roofs
from nodewise.study.observed import Observation, Rank, Sample, Trials
from tests.jobs import wait_until

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


def test_a_refusal_of_the_kernel_is_not_an_empty_list(monkeypatch):
    refusal = struct.pack("=IHHIIi", 20, 2, 0, 0, 0, -errno.ENOENT)  # NLMSG_ERROR

    class Link(socket.socket):
        def recv(self, *_):
            super().recv(65536)
            return refusal

    if tcp_traffic() is None:
        pytest.skip("the kernel refuses socket statistics")
    monkeypatch.setattr(socket, "socket", Link)
    assert tcp_traffic() is None


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


def test_what_the_question_costs_a_program_is_no_time_of_its_own():
    """Half of the moment goes into marking 25,000 small pages again, none into huge ones."""
    roofs = ROOFS._replace(cache=1.6e7, mark=4e-7)
    small = changed(touched_bytes=1e8, touched_seconds=0.02, touched_of_bytes=1e9, touched_huge=0.0)
    assert watched(small, roofs).figures["touched_share"] == pytest.approx(0.616, abs=0.01)
    huge = msgspec.structs.replace(small, touched_huge=1.0)
    assert watched(huge, roofs).figures["touched_share"] == pytest.approx(0.315, abs=0.01)


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


def test_helpers_that_wait_for_work_are_no_lock():
    waiting = changed(lock_threads=2.5, switches=300, user=0.5, active_threads=3)
    assert watched(waiting).ceiling == "coordination"
    led = msgspec.structs.replace(waiting, busiest_thread=0.49)
    assert watched(led).ceiling == "compute"
    shared = msgspec.structs.replace(waiting, busiest_thread=0.2)
    assert watched(shared).ceiling == "coordination"


def test_threads_that_take_turns_are_alike_though_each_window_has_another_busiest():
    """A lock that is handed on twice a second: in a window, most threads have none of it."""
    turns = [
        changed(lock_threads=2.8, active_threads=4, user=0.5, busiest_thread=0.4,
                thread_seconds={f"7.{at % 4}": 0.4, f"7.{(at + 1) % 4}": 0.1})
        for at in range(8)
    ]  # fmt: skip
    assert joined(turns[:4]).busiest_thread == pytest.approx(0.5)
    program = Observation(command=("./job",), seconds=4.0, samples=tuple(turns), cores=2)
    assert classify(program, ROOFS).ceiling == "coordination"
    led = [msgspec.structs.replace(one, thread_seconds={"7.0": 0.48}) for one in turns]
    assert (
        classify(msgspec.structs.replace(program, samples=tuple(led)), ROOFS).ceiling == "compute"
    )


def test_where_other_load_hides_waits_for_a_lock_compute_is_not_named():
    sharing = changed(user=0.48, run_delay=1.5, lock_threads=0.18, switches=60)
    assert watched(sharing).ceiling is None
    assert watched(msgspec.structs.replace(sharing, run_delay=0.05)).ceiling == "compute"
    assert watched(msgspec.structs.replace(sharing, lock_threads=0.0)).ceiling == "compute"


def test_threads_that_want_all_cores_and_do_not_get_them_are_not_sure_to_wait_for_a_lock():
    """Frames that threads code in turn, on cores that others have: like a fight for a lock."""
    coding = changed(user=0.13, run_delay=1.2, active_threads=4, lock_threads=1.5, switches=60,
                     thread_seconds={f"7.{thread}": 0.03 for thread in range(4)})  # fmt: skip
    assert watched(coding).ceiling is None
    assert watched(msgspec.structs.replace(coding, run_delay=0.3)).ceiling == "coordination"


def test_threads_that_wait_for_a_set_time_while_nothing_runs_wait_for_a_clock():
    idle = changed(user=0.01, runnable_ticks=0.02, active_threads=1, lock_threads=1.0, switches=60)
    assert watched(idle).ceiling is None  # who has the lock was not seen
    assert watched(msgspec.structs.replace(idle, timed_threads=1.0)).ceiling == "latency"


def test_requests_that_the_kernel_completes_are_the_disk_only_if_it_moves_bytes():
    asking = changed(user=0.02, system=0.06, runnable_ticks=0.2, active_threads=1,
                     completion_ticks=0.8, switches=2000)  # fmt: skip
    assert watched(msgspec.structs.replace(asking, storage_bytes=5e7)).ceiling == "data I/O"
    assert watched(asking).ceiling != "data I/O"


def test_one_end_of_a_stream_that_waits_for_the_other_communicates():
    """The other end is another program: this one waits with next to no CPU time of its own."""
    sending = changed(user=0.0, system=0.1, runnable_ticks=0.3, active_threads=1, switches=150,
                      sockets=1, socket_threads=0.7, messages=9000, message_bytes=5e8)  # fmt: skip
    assert watched(sending).ceiling == "communication"
    paced = msgspec.structs.replace(sending, messages=100, message_bytes=2e6)
    assert watched(paced).ceiling == "latency"


def test_ranks_that_wait_for_one_that_works_coordinate():
    spins = {"libraries": ("libmpi",)}
    uneven = changed(processes=2, own_samples=140, message_samples=100,
                     ranks={"1": Rank(2, 118, 0.05), "2": Rank(98, 22, 0.05)})  # fmt: skip
    found = watched(uneven, **spins)
    assert found.ceiling == "coordination"
    assert any("one rank works" in line for line in found.evidence)
    # it works on because other programs take its core: the next run may be even
    starved = {"1": Rank(2, 118, 0.4), "2": Rank(98, 22, 0.05)}
    assert watched(msgspec.structs.replace(uneven, ranks=starved), **spins).ceiling == "compute"
    even = {"1": Rank(50, 70), "2": Rank(50, 70)}
    assert watched(msgspec.structs.replace(uneven, ranks=even), **spins).ceiling == "compute"


BACKGROUND = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        end = time.monotonic() + 20
        while time.monotonic() < end: sum(range(10000))
    os._exit(0)
os.wait()
time.sleep(4)
"""


@pytest.mark.slow
def test_a_process_in_the_background_is_watched_and_ended():
    found = watching.watch((sys.executable, "-c", BACKGROUND), 60)
    assert found.seconds < 20
    left = [
        one for one in psutil.process_iter(["cmdline"]) if BACKGROUND in (one.info["cmdline"] or ())
    ]
    assert left == []
    assert max(sample.processes for sample in found.samples) >= 2
    assert sum(sample.user + sample.run_delay for sample in found.samples) > 0.5


@pytest.mark.slow
def test_looks_that_take_long_make_longer_windows_and_lose_none(monkeypatch):
    monkeypatch.setattr(watching, "_LOOK_SECONDS", 0.3)
    found = watching.watch(("sleep", "4"), 60)
    assert sum(sample.seconds for sample in found.samples) > 2


def test_calls_that_carry_much_with_nothing_but_sockets_open_communicate():
    """Local sockets and pipes count no bytes of their own."""
    copying = changed(user=0.05, system=0.9, active_threads=2, sockets=4, files=0, io_bytes=8e8,
                      io_calls=50_000, switches=10)  # fmt: skip
    assert watched(copying).ceiling == "communication"
    reading = msgspec.structs.replace(copying, files=1)
    assert watched(reading).ceiling != "communication"


def test_tiny_items_through_pipes_communicate():
    passing = changed(user=0.5, system=0.3, active_threads=3, lock_threads=0.6, switches=20_000,
                      io_calls=40_000, io_bytes=1e6, pipes=4, files=0)  # fmt: skip
    assert watched(passing).ceiling in ("communication", "coordination")


def test_a_pipeline_that_stops_often_computes_if_most_of_its_time_is_its_own_code():
    packing = changed(user=0.45, system=0.05, active_threads=4, processes=4, pipes=6, switches=1200,
                      lock_threads=1.5, io_calls=6000, io_bytes=1e8)  # fmt: skip
    assert watched(packing).ceiling == "compute"
    passing = msgspec.structs.replace(packing, user=0.32, system=0.18)
    assert watched(passing).ceiling != "compute"


def test_bytes_through_pipes_are_not_read_from_files():
    passing = changed(user=0.1, system=0.85, active_threads=2, pipes=4, files=0, io_bytes=3e8,
                      io_calls=600_000, switches=80_000)  # fmt: skip
    assert watched(passing).ceiling == "communication"
    assert watched(msgspec.structs.replace(passing, files=1)).ceiling == "data I/O"


def test_time_in_the_kernel_without_huge_pages_is_no_page_fault():
    listing = changed(user=0.05, system=0.4, minor_faults=300, switches=2, touched_huge=0.0)
    assert watched(listing).ceiling is None
    huge = msgspec.structs.replace(listing, touched_huge=0.9)
    assert watched(huge).ceiling == "page faults"


def test_copying_by_the_kernel_is_no_huge_page():
    filling = changed(user=0.1, system=0.4, minor_faults=1000.0, switches=10)
    assert watched(filling).ceiling == "page faults"
    copying = msgspec.structs.replace(filling, io_bytes=8e8, storage_bytes=4e8, io_calls=100)
    assert watched(copying).ceiling == "data I/O"


OPENS = """
import os, socket, sys
ends = os.pipe()
door, file = socket.socket(), open(sys.argv[1], "w")
print(os.fstat(door.fileno()).st_ino, flush=True)
sys.stdin.readline()
door.close(), file.close(), os.close(ends[0]), os.close(ends[1])
print(flush=True)
sys.stdin.readline()
"""


def test_what_is_open(tmp_path):
    words = [sys.executable, "-c", OPENS, str(tmp_path / "file")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:
        inode = int(job.stdout.readline())
        assert Opened.of([job.pid]) == ([inode], 2, 1)  # not the pipes between it and us
        job.stdin.write("\n")
        job.stdin.flush()
        job.stdout.readline()
        assert Opened.of([job.pid]) == ([], 0, 0)


def _touched(code: str) -> float:
    """Bytes that a program uses in a second of its CPU time, in the median of some looks."""
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        program.stdout.readline()
        touch, seen, until = Touch(), [], time.monotonic() + 30
        while len(seen) < 4 and time.monotonic() < until:
            touch.look(lambda: program.pid)
            found = touch.taken()
            if found.bytes is not None and found.seconds > 0.002:
                seen.append(found.bytes / found.seconds)
            time.sleep(0.02)
    finally:
        program.kill()
        program.communicate()
    return statistics.median(seen)


def test_marking_a_page_takes_less_than_handing_one_out():
    assert 0 <= seconds_of_a_mark() < mmap.PAGESIZE / fresh_pages(0.2).value


def test_a_stream_touches_more_than_arithmetic_in_the_same_cpu_time():
    start = "import numpy as np; a, b = np.ones({n}), np.ones({n}); print(flush=True)\n"
    work = "while True: a += b"
    assert _touched(start.format(n=20_000_000) + work) > 3 * _touched(start.format(n=1000) + work)


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
    some = msgspec.structs.replace(TRIALS, memory=2.3)  # neither like a stream nor unlike one
    assert (confirmed(streams, some).ceiling, confirmed(streams, some).confidence) == (
        "memory bandwidth", "medium",
    )  # fmt: skip


@pytest.mark.slow
def test_trials_give_cpu_seconds_of_every_run():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    found = trials((sys.executable, "-c", "sum(range(3_000_000))"), 120)
    assert all(seconds > 0 for seconds in msgspec.structs.asdict(found).values())


HOLDS = """
import fcntl, sys
with open(sys.argv[1]) as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print(flush=True)
    sys.stdin.readline()
"""


def test_a_file_lock_is_waited_for_in_the_kernel_or_asked_for_again(tmp_path):
    path = tmp_path / "one.lock"
    path.touch()
    locks = FileLocks()
    words = [sys.executable, "-c", HOLDS, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with path.open() as ours:
        fcntl.flock(ours, fcntl.LOCK_EX)
        assert locks.waiting([os.getpid()]) == (set(), set())
        with subprocess.Popen(words, **pipes) as other:
            both = [os.getpid(), other.pid]
            try:
                wait_until(lambda: locks.waiting(both) == ({other.pid}, set()))
            finally:
                fcntl.flock(ours, fcntl.LOCK_UN)
            other.stdout.readline()
            assert locks.waiting(both) == (set(), {os.getpid()})  # it had the lock before
            assert locks.waiting([os.getpid()]) == (set(), set())  # no lock of another program
            other.communicate(b"\n")


SPINS = "int spin(long n) { volatile long i = 0; while (i < n) i++; return 0; }\n"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("library", ["libmpi", "libwork"])
def test_the_library_that_a_program_is_in_is_sampled(library, tmp_path):
    (tmp_path / "spin.c").write_text(SPINS)
    path = tmp_path / f"{library}.so"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", path, tmp_path / "spin.c"], check=True, timeout=60
    )
    code = f"import ctypes; ctypes.CDLL({str(path)!r}).spin(ctypes.c_long(1 << 60))"
    files = open_files()
    with subprocess.Popen([sys.executable, "-c", code]) as program:
        try:
            wait_until(lambda: library in Path(f"/proc/{program.pid}/maps").read_text())
            inside = Inside([program.pid])
            began = cpu_of(program.pid)
            wait_until(lambda: cpu_of(program.pid) - began > 0.5)
            found = inside.taken()
        finally:
            program.kill()
    assert open_files() == files
    if not found:
        pytest.skip("the kernel does not allow samples")
    messages, own = found[program.pid]
    assert messages + own > 50
    share = messages / (messages + own)
    assert share > 0.8 if library == "libmpi" else share < 0.2


def open_files():
    return len([*Path("/proc/self/fd").iterdir()])


def cpu_of(process):
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_processes_that_wait_for_a_file_lock_coordinate():
    one_works = changed(user=0.45, system=0.05, active_threads=1, processes=5.0,
                        file_lock_processes=3.0)  # fmt: skip
    assert watched(one_works).ceiling == "coordination"
    alone = msgspec.structs.replace(one_works, file_lock_processes=0.0)
    assert watched(alone).ceiling == "compute"
    all_cores = msgspec.structs.replace(one_works, user=0.95)
    assert watched(all_cores).ceiling == "compute"
    woken = msgspec.structs.replace(one_works, file_lock_processes=0.3, run_delay=2.0)
    assert watched(woken).ceiling is None  # those that wait for a core may have waited for the lock
    idle = msgspec.structs.replace(one_works, user=0.01, system=0.0, runnable_ticks=0.02)
    assert watched(idle).ceiling == "latency"


def test_ranks_inside_their_library_of_messages_communicate():
    def ranks(messages, own, **more):
        rank = changed(active_threads=2, processes=4.0, message_samples=messages,
                       own_samples=own, **more)  # fmt: skip
        return watched(rank, libraries=("libmpi",)).ceiling

    assert ranks(95.0, 5.0) == "communication"
    assert ranks(10.0, 90.0) == "compute"
    assert ranks(60.0, 40.0) is None
    assert ranks(60.0, 40.0, run_delay=1.0) == "compute"  # its partners had no core
    assert ranks(0.0, 0.0) is None  # not sampled


def test_pages_of_a_file_that_is_saved_are_data():
    saves = changed(user=0.04, system=0.22, runnable_ticks=0.7, disk_ticks=0.25, active_threads=1,
                    minor_faults=3e4, switches=1200, storage_bytes=1e9)  # fmt: skip
    assert watched(saves).ceiling == "data I/O"
    fresh = msgspec.structs.replace(
        saves, storage_bytes=0.0, disk_ticks=0.0, runnable_ticks=1.0, system=0.4, switches=9.0
    )
    assert watched(fresh).ceiling == "page faults"


def test_a_program_that_paces_its_own_writes_waits_for_a_clock():
    paced = changed(user=0.005, system=0.01, runnable_ticks=0.05, active_threads=0,
                    storage_bytes=1e6, io_bytes=2e6, io_calls=120, switches=40)  # fmt: skip
    assert watched(paced).ceiling == "latency"
    waits = msgspec.structs.replace(paced, disk_ticks=0.9)
    assert watched(waits).ceiling == "data I/O"
