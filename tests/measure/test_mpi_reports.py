"""What the interposer's files say: waiting told from transfer, one world, all ranks at its end."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.explain.attribute import attribute
from nodewise.explain.pop import pop
from nodewise.measure.collect import collect
from nodewise.measure.engines.base import Finished
from nodewise.measure.mpi.reports import (
    _STAMP,
    DamagedMpiReport,
    read_mpi_reports,
    unfinished,
    world_problem,
)
from nodewise.study.study import Study

ALL, FROM_ROOT, TO_ROOT, SENT, RECEIVED = 1, 2, 3, 4, 5
MS = 1_000_000
PACE = {"cpu_s", "paced_s", "late_s", "held_up_s", "pace_share", "counters", "no_counters"}


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
    assert unfinished(reports[:1], 3) == "ranks 1, 2 never reached MPI_Finalize"
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


def run_of(folder, nodes, computes, counters):
    """One run, collected from the reports of ranks that compute so long and count so much."""
    folder.mkdir()
    end = max(computes)
    for rank, (compute, counted) in enumerate(zip(computes, counters, strict=True)):
        came = int(1000 * compute)
        stamp = (came, came, int(1000 * end), 7, 0, nodes, ALL, 0)
        told = {"counters": counted} if counted else {"no_counters": "the machine has none"}
        leave_report(folder, rank, [stamp], nodes, end, end - compute, **told)
    (folder / "log").write_text("")
    return collect(
        Finished(outcome="ok", seconds=end), folder, folder / "log", nodes=nodes, ranks=nodes,
        number=1, baseline=False, provenance={}, started="",
    )  # fmt: skip


def study_of(*runs):
    return Study(name="s", regime="strong", runs=runs)


def counts(instructions, cycles):
    return {"instructions": instructions, "cycles": cycles}


def test_counters_of_ranks_divide_the_computation_scaling(tmp_path):
    """Twice 6 s instead of 8 s: a quarter more instructions, and a fifth longer for each."""
    one = run_of(tmp_path / "1", 1, [8.0], [counts(16e9, 8e9)])
    two = run_of(tmp_path / "2", 2, [6.0, 6.0], [counts(10e9, 5e9), counts(10e9, 7e9)])
    assert two.counters == {"instructions": 20e9, "cycles": 12e9}
    row = pop(study_of(one, two)).rows[-1]
    assert row.instruction_scaling == pytest.approx(16 / 20)
    assert row.ipc_scaling == pytest.approx((20 / 12) / 2)
    assert row.frequency_scaling == pytest.approx(1.0)
    product = row.instruction_scaling * row.ipc_scaling * row.frequency_scaling
    assert product == pytest.approx(row.computation_scaling) == pytest.approx(8 / 12)


def test_a_rank_without_counters_leaves_the_run_without(tmp_path):
    one = run_of(tmp_path / "1", 1, [8.0], [counts(16e9, 8e9)])
    two = run_of(tmp_path / "2", 2, [6.0, 6.0], [counts(10e9, 5e9), None])
    assert two.counters == {} and two.provenance["no_counters"] == "the machine has none"
    found = pop(study_of(one, two))
    assert found.rows[-1].ipc_scaling is None
    assert found.unknown["instructions, IPC and frequency"] == "no counters"


@pytest.mark.parametrize(("of_first", "cause"), [(12e9, "load imbalance"), (8e9, "slow node")])
def test_instructions_separate_more_work_from_a_slow_node(tmp_path, of_first, cause):
    """Rank 0 computes 6 s and rank 1 4 s, on nodes that are loaded more than the first was."""
    runs = [run_of(tmp_path / "1", 1, [6.0], [counts(16e9, 8e9)])]
    for number in (1, 2, 3):
        counted = [counts(of_first, 6e9), counts(8e9, 4e9)]
        run = run_of(tmp_path / f"2-{number}", 2, [6.0, 4.0], counted)
        runs.append(msgspec.structs.replace(run, round=number))
    row = attribute(study_of(*runs)).row(2)
    shares = {loss.cause: loss.share for loss in row.causes}
    waited = {name: shares.get(name, 0.0) for name in ("load imbalance", "slow node", "late rank")}
    assert max(waited, key=waited.get) == cause, shares
    assert row.late_rank == 0


@pytest.mark.parametrize("damage", ["no stage", "an absurd clock"])
def test_a_damaged_report_is_named(tmp_path, damage):
    leave_report(tmp_path, 0, [])
    (path,) = tmp_path.glob("mpi-*.json")
    report = json.loads(path.read_text())
    if damage == "no stage":
        del report["stages"]["compute"]
    else:
        report["mpi"]["clock_offset_ns"] = 10**30
    path.write_text(json.dumps(report))
    with pytest.raises(DamagedMpiReport, match="is damaged"):
        read_mpi_reports(tmp_path)
