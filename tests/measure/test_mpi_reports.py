"""What the interposer's files say: waiting told from transfer, one world, all ranks at its end."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.measure.mpi.reports import _STAMP, read_mpi_reports, unfinished, world_problem

ALL, FROM_ROOT, TO_ROOT, SENT, RECEIVED = 1, 2, 3, 4, 5
MS = 1_000_000
PACE = {"cpu_s", "paced_s", "late_s", "held_up_s", "pace_share"}


def leave_report(folder, rank, stamps, ranks=2, seconds=1.0, inside=0.5, **world):
    """Files as interposer.c writes them; stamps in milliseconds."""
    rows = [(p * MS, e * MS, x * MS, *rest) for p, e, x, *rest in stamps]
    table = np.array(rows, _STAMP)
    kept = {"collectives_seen": int((table["kind"] < SENT).sum())}
    kept["messages_seen"] = len(table) - kept["collectives_seen"]
    pace = {key: world.pop(key) for key in PACE & {*world}}
    mpi = {
        "process": 100 + rank, "world_size": ranks, "library": "MPICH", "finalized": True,
        "aborted": False, "abort_code": 0, "begin_ns": 0, "end_ns": int(seconds * 1e9),
        "clock_offset_ns": 0, "clock_error_ns": -1, "hosts": 1, "unmatched": 0, **kept,
        "classes": {}, "communicators": [], **world,
    }  # fmt: skip
    report = {
        "rank": rank, "host": "h", "began": 0.0, "seconds": seconds, "usage": {},
        "stages": {"compute": seconds - inside, "communication": inside, "io": 0.0}, "mpi": mpi,
        **pace,
    }  # fmt: skip
    name = folder / f"mpi-{rank}-{mpi['process']}"
    name.with_suffix(".json").write_text(json.dumps(report))
    name.with_suffix(".stamps").write_bytes(table.tobytes())


def waits(folder):
    return [round(report.stages["idle"], 6) for report in read_mpi_reports(folder)]


# A stamp: post, enter, exit in ms; key, number, ranks, kind, whether this rank is the root.
@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((0, 0, 110, 7, 0, 2, ALL, 0), (100, 100, 110, 7, 0, 2, ALL, 0), [0.1, 0]),
        ((0, 0, 110, 7, 0, 2, FROM_ROOT, 0), (100, 100, 110, 7, 0, 2, FROM_ROOT, 1), [0.1, 0]),
        ((0, 0, 20, 7, 0, 2, FROM_ROOT, 1), (100, 100, 110, 7, 0, 2, FROM_ROOT, 0), [0, 0]),
        ((0, 0, 110, 7, 0, 2, TO_ROOT, 1), (100, 100, 110, 7, 0, 2, TO_ROOT, 0), [0.1, 0]),
        ((0, 0, 20, 7, 0, 2, TO_ROOT, 0), (100, 100, 110, 7, 0, 2, TO_ROOT, 1), [0, 0]),
        # A late sender, a late receiver, a send that was buffered.
        ((0, 0, 110, 7, 0, 2, RECEIVED, 0), (100, 100, 101, 7, 0, 2, SENT, 0), [0.1, 0]),
        ((0, 0, 110, 7, 0, 2, SENT, 0), (100, 100, 110, 7, 0, 2, RECEIVED, 0), [0.1, 0]),
        ((0, 0, 5, 7, 0, 2, SENT, 0), (100, 100, 110, 7, 0, 2, RECEIVED, 0), [0, 0]),
        # Sent long ago, but moved only when the sender came back into MPI.
        ((0, 20, 210, 7, 0, 2, RECEIVED, 0), (10, 200, 210, 7, 0, 2, SENT, 0), [0.18, 0]),
        # Sent long ago and arrived: the receiver left before the sender came back.
        ((0, 20, 30, 7, 0, 2, RECEIVED, 0), (10, 200, 210, 7, 0, 2, SENT, 0), [0, 0]),
        # Another number, another communicator: not the same call.
        ((0, 0, 110, 7, 0, 2, ALL, 0), (100, 100, 110, 7, 1, 2, ALL, 0), [0, 0]),
        ((0, 0, 110, 7, 0, 2, ALL, 0), (100, 100, 110, 8, 0, 2, ALL, 0), [0, 0]),
    ],
)  # fmt: skip
def test_waiting_is_told_from_transfer(tmp_path, first, second, expected):
    leave_report(tmp_path, 0, [first])
    leave_report(tmp_path, 1, [second])
    assert waits(tmp_path) == expected


def test_a_call_waits_for_the_last_of_its_messages_and_not_for_their_sum(tmp_path):
    receives = [(0, 0, 90, key, 0, 2, RECEIVED, 0) for key in (1, 2, 3)]
    sends = [(at, at, at + 1, key, 0, 2, SENT, 0) for key, at in ((1, 30), (2, 80), (3, 50))]
    leave_report(tmp_path, 0, receives)
    leave_report(tmp_path, 1, sends)
    assert waits(tmp_path) == [0.08, 0]


def test_clocks_of_other_hosts_are_shifted(tmp_path):
    leave_report(tmp_path, 0, [(0, 0, 110, 7, 0, 2, ALL, 0)], hosts=2)
    far = [(5100, 5100, 5110, 7, 0, 2, ALL, 0)]
    leave_report(
        tmp_path,
        1,
        far,
        hosts=2,
        clock_offset_ns=-5000 * MS,
        end_ns=6_000_000_000,
        clock_error_ns=9,
    )
    assert waits(tmp_path) == [0.1, 0]


def test_where_only_some_calls_were_kept_the_others_waited_alike(tmp_path):
    leave_report(tmp_path, 0, [(0, 0, 60, 7, 0, 2, ALL, 0)], collectives_seen=4)
    leave_report(tmp_path, 1, [(50, 50, 60, 7, 0, 2, ALL, 0)], collectives_seen=4)
    assert waits(tmp_path) == [0.2, 0]


def test_who_ends_first_waits_for_the_last(tmp_path):
    leave_report(tmp_path, 0, [], seconds=0.7)
    leave_report(tmp_path, 1, [], seconds=1.0)
    assert waits(tmp_path) == [0.3, 0]
    assert [report.seconds for report in read_mpi_reports(tmp_path)] == [1.0, 1.0]


@given(st.data())
def test_stages_add_up_to_the_time_and_nothing_is_negative(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("mpi")
    moment = st.integers(0, 400)
    for rank in range(3):
        stamps = []
        for number in range(data.draw(st.integers(0, 4))):
            post, enter, leave = sorted(data.draw(st.tuples(moment, moment, moment)))
            kind = data.draw(st.integers(1, 5))
            stamps.append((post, enter, leave, 7, number, 3 if kind < SENT else 2, kind, rank == 0))
        paced = {"cpu_s": 0.1, "late_s": 0.05, "held_up_s": 0.2, "pace_share": 0.5}
        leave_report(folder, rank, stamps, ranks=3, inside=0.4, **(paced if rank == 1 else {}))
    for report in read_mpi_reports(folder):
        assert sum(report.stages.values()) == pytest.approx(report.seconds)
        assert all(value >= -1e-9 for value in report.stages.values())


def test_what_the_lack_of_cores_adds_is_overhead_of_the_engine(tmp_path):
    emulated = {"cpu_s": 0.04, "late_s": 0.3, "held_up_s": 0.25, "pace_share": 0.1}
    leave_report(tmp_path, 0, [], ranks=1, inside=0.5, **emulated)
    (report,) = read_mpi_reports(tmp_path)
    assert report.stages["compute"] - report.late_s == pytest.approx(0.4)  # cpu / share
    assert report.stages["communication"] == pytest.approx(0.25)
    assert report.stages["overhead"] == pytest.approx(0.25)


def test_not_one_world_of_k_ranks(tmp_path):
    for rank in range(2):
        leave_report(tmp_path, 0, [], ranks=1, process=rank)
    alone = read_mpi_reports(tmp_path)
    assert world_problem(alone, 2) == ("2 processes ran in separate worlds of 1 rank, not in one")
    one = alone[:1]
    assert world_problem(one, 2) == "the world had 1 ranks, not 2"
    assert world_problem(one, 1) == world_problem(one, None) == ""


def test_how_ranks_end(tmp_path):
    leave_report(tmp_path, 0, [], ranks=3)
    leave_report(tmp_path, 1, [], ranks=3, finalized=False, aborted=True, abort_code=7)
    reports = read_mpi_reports(tmp_path)
    assert unfinished(reports, 3) == "rank 1 called MPI_Abort with code 7"
    assert unfinished(reports[:1], 3) == "ranks 1, 2 never came to MPI_Finalize"
    leave_report(tmp_path, 1, [], ranks=3, finalized=False)
    assert unfinished(read_mpi_reports(tmp_path), 3) == "rank 1 ended without MPI_Finalize"


def test_threads_that_compute_are_told_from_those_of_mpi(tmp_path):
    leave_report(tmp_path, 0, [], ranks=1, thread_cpu_s=[0.9, 0.0001, 0.45])
    (report,) = read_mpi_reports(tmp_path)
    assert report.busy_threads == report.record.thread_cpu_seconds == (0.9, 0.45)
    assert report.thread_efficiency is None  # how long they waited for a core is not known


def test_threads_of_a_rank_that_idle_lower_its_thread_efficiency(tmp_path):
    threads = {"thread_cpu_s": [0.7, 0.0001, 0.2], "thread_delay_s": [0.5, 0.0, 0.05]}
    leave_report(tmp_path, 0, [], ranks=1, **threads)
    (report,) = read_mpi_reports(tmp_path)
    seconds = report.stages["compute"]
    expected = (min(1.2, seconds) + 0.25) / (2 * seconds)
    assert report.thread_efficiency == report.record.thread_efficiency == pytest.approx(expected)
