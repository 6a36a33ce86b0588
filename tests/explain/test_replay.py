"""The step of a job with a pipeline, rebuilt from its operations and replayed."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from nodewise.base.errors import DataError, SpecError
from nodewise.explain.trace.replay import BACKWARD, FORWARD, replay
from nodewise.importers.profilers import operations
from nodewise.study.trace import Operations

SHARED = Path(__file__).parents[3] / "shared" / "data" / "stragglers"
STAGES, REPLICAS, STEPS, BATCHES = 2, 2, 3, 2
MOVE = 0.001  # seconds of a transfer between stages


def table(forward=None) -> str:
    """1F1B with two stages, two micro-batches: forward 1 s, backward 2 s, unless planted.

    `forward(replica, stage, step)` are the seconds of a forward. The starts are those of a machine
    that does exactly what the operations depend on, worked out by hand for this schedule.
    """
    forward = forward or (lambda *_: 1.0)
    rows = ["dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc"]
    for step in range(STEPS):
        cells, ends = [], []
        for replica in range(REPLICAS):
            first, last = (forward(replica, stage, step) for stage in range(STAGES))
            backward = 2.0

            def add(stage, kind, number, start, end, replica=replica, cells=cells):
                chunk = 0 if "compute" in kind else -1
                model = stage if "compute" in kind else -1
                cells.append((replica, stage, kind, number, start, end, chunk, model))

            at = [first * (i + 1) for i in range(BATCHES)]  # ends of the forwards of stage 0
            for i, end in enumerate(at):
                add(0, FORWARD, i, end - first, end)
            busy = 0.0  # until when stage 1 works
            ready = received = sent = 0.0
            done = []
            for i in range(BATCHES):
                received = max(at[i], ready, received) + MOVE
                add(0, "forward-send", i, at[i], received)
                add(1, "forward-recv", i, ready, received)
                begin = max(received, busy)
                ready = begin + last
                add(1, FORWARD, i, begin, ready)
                busy = ready + backward
                add(1, BACKWARD, i, ready, busy)
                done.append(busy)
            free = 0.0
            for i, end in enumerate(done):
                waits = at[0] if i == 0 else free
                arrived = max(end, waits, sent) + MOVE
                add(1, "backward-send", i, end, arrived)
                add(0, "backward-recv", i, waits, arrived)
                begin = max(arrived, at[-1], free)
                free = begin + backward
                add(0, BACKWARD, i, begin, free)
                sent = arrived
            ends.append((free, done[-1]))
        clip = max(max(pair) for pair in ends) + 0.1
        for replica, pair in enumerate(ends):
            for stage, end in enumerate(pair):
                cells.append((replica, stage, "optimizer-clip-main-grad", 0, end, clip, -1, -1))
                cells.append((replica, stage, "optimizer", 0, clip, clip + 0.2, -1, -1))
        rows += [
            f"{replica},{stage},{replica * STAGES + stage},{step},{kind},{start},{end - start},"
            f"{number},{chunk},{number},{model}"
            for replica, stage, kind, number, start, end, chunk, model in cells
        ]
    return "\n".join(rows) + "\n"


def read(tmp_path, text) -> Operations:
    path = tmp_path / "operations.csv"
    path.write_text(text)
    return operations.read(path)


class TestReplay:
    def test_an_even_job_replays_to_its_clock_and_has_no_straggler(self, tmp_path):
        found = replay(read(tmp_path, table()))
        assert found.step_seconds == pytest.approx(found.measured_seconds, rel=1e-6)
        assert found.slowdown == pytest.approx(1.0, abs=1e-3)

    def test_a_slow_last_stage_is_found_and_removed(self, tmp_path):
        found = replay(read(tmp_path, table(lambda _, stage, __: 3.0 if stage else 1.0)))
        assert found.step_seconds == pytest.approx(found.measured_seconds, rel=1e-6)
        assert next(iter(found.by_stage)) == 1
        assert next(iter(found.by_kind)) == FORWARD
        assert found.last_stage_share is not None and found.last_stage_share > 0.9

    def test_a_slow_worker_is_found(self, tmp_path):
        slow = table(lambda replica, stage, _: 4.0 if (replica, stage) == (1, 0) else 1.0)
        found = replay(read(tmp_path, slow))
        assert found.step_seconds == pytest.approx(found.measured_seconds, rel=1e-6)
        assert next(iter(found.by_replica)) == 1
        assert next(iter(found.by_stage)) == 0
        assert found.slowest_workers == (2,)
        assert found.worker_share is not None and found.worker_share > 0.7

    def test_what_if_that_worker_were_ideal(self, tmp_path):
        slow = table(lambda replica, stage, _: 4.0 if (replica, stage) == (1, 0) else 1.0)
        job = read(tmp_path, slow)
        found = replay(job, {"rank": "2"})
        lost = found.step_seconds - found.ideal_seconds
        assert found.changed_seconds == pytest.approx(
            found.step_seconds - found.worker_share * lost, rel=1e-9
        )
        nothing = replay(job, {"rank": "1", "optype": "optimizer"})
        assert nothing.changed_seconds == pytest.approx(found.step_seconds, rel=1e-6)

    def test_slow_node_is_the_slowest_worker(self, tmp_path):
        slow = table(lambda replica, stage, _: 4.0 if (replica, stage) == (1, 0) else 1.0)
        job = read(tmp_path, slow)
        by_name, by_rank = replay(job, {"slow-node": "fixed"}), replay(job, {"rank": "2"})
        assert by_name.slowest_workers == (2,)
        assert by_name.changed_seconds == pytest.approx(by_rank.changed_seconds, rel=1e-12)

    def test_shorter_transfers_save_their_part_of_the_longest_path(self, tmp_path):
        found = replay(read(tmp_path, table()), {"communication": "fixed"})
        # In the first stage of this schedule two transfers and the clipping are waited for.
        assert found.step_seconds - found.changed_seconds == pytest.approx(2 * MOVE + 0.1, rel=1e-3)
        half = replay(read(tmp_path, table()), {"link": "100Gbit:200Gbit"})
        also = replay(read(tmp_path, table()), {"communication": "0.5x"})
        assert half.changed_seconds == also.changed_seconds
        assert found.changed_seconds < half.changed_seconds < found.step_seconds

    def test_changes_add_to_each_other(self, tmp_path):
        slow = table(lambda replica, stage, _: 4.0 if (replica, stage) == (1, 0) else 1.0)
        job = read(tmp_path, slow)
        one, other = {"slow-node": "fixed"}, {"communication": "0.5x"}
        both = replay(job, one | other).changed_seconds
        assert both < min(replay(job, one).changed_seconds, replay(job, other).changed_seconds)

    def test_ranks_that_wait_for_each_other_are_not_slow(self, tmp_path):
        """The whole step of rank 0 is longer because of rank 1; only rank 1 is to blame."""
        slow = table(lambda replica, stage, _: 3.0 if (replica, stage) == (1, 1) else 1.0)
        found = replay(read(tmp_path, slow))
        assert found.by_replica[1] > 1.05 > found.by_replica[0]


class TestRefused:
    def test_an_operation_is_missing(self, tmp_path):
        lines = table().splitlines()
        with pytest.raises(DataError, match=r"is missing in step 2, replica 1"):
            replay(read(tmp_path, "\n".join(lines[:-1])))

    def test_an_operation_is_there_twice(self, tmp_path):
        lines = table().splitlines()
        with pytest.raises(DataError, match="twice"):
            replay(read(tmp_path, "\n".join([*lines, lines[-1]])))

    def test_a_column_is_missing(self, tmp_path):
        with pytest.raises(DataError, match="lacks gmc"):
            read(tmp_path, table().replace("gmc", "x", 1))

    def test_a_time_is_not_a_number(self, tmp_path):
        with pytest.raises(DataError, match="not a table of pipeline operations"):
            read(tmp_path, table().replace(",1.0,", ",soon,", 1))

    @pytest.mark.parametrize(
        "changes",
        [
            {"stage": "9"}, {"colour": "red"}, {"rank": "x"}, {"slow-node": "0.5x"},
            {"communication": "2x"}, {"link": "400Gbit"}, {"link": "400Gbit:100Gbit"},
            {"link": "fast:faster"}, {"link": "1Gbit:2Gbit:3Gbit"},
        ],
    )  # fmt: skip
    def test_a_change_that_cannot_be_replayed(self, tmp_path, changes):
        with pytest.raises(SpecError):
            replay(read(tmp_path, table()), changes)


@pytest.mark.skipif(not SHARED.exists(), reason="public data is not beside the project")
class TestPublished:
    def test_the_published_results_of_a_real_job(self):
        found = replay(operations.read(SHARED / "trace-ST.csv.gz"))
        want = json.loads((SHARED / "expected.json").read_text())["ST"]
        got = {
            "S": found.slowdown, "step_s": found.step_seconds, "ideal_step_s": found.ideal_seconds,
            "M_S": found.last_stage_share, "M_W": found.worker_share,
        }  # fmt: skip
        assert got == pytest.approx({key: want[key] for key in got}, rel=1e-9)
        assert found.by_kind == pytest.approx(want["S_by_optype"], rel=1e-9)
        by = {"S_by_stage": found.by_stage, "S_by_dp_rank": found.by_replica}
        for key, slowdowns in by.items():
            assert {str(k): v for k, v in slowdowns.items()} == pytest.approx(want[key], rel=1e-9)

    def test_every_step_is_the_published_one(self):
        found = replay(operations.read(SHARED / "trace-ST.csv.gz"))
        want = json.loads((SHARED / "result-ST.json").read_text())["blocking_step_slowdown"]
        assert {str(k): v for k, v in found.by_step.items()} == pytest.approx(want, rel=1e-9)


def test_the_command(nodewise, tmp_path):
    path = tmp_path / "job.csv.gz"
    path.write_bytes(gzip.compress(table(lambda _, stage, __: 3.0 if stage else 1.0).encode()))
    done = nodewise("trace", str(path), "--what-if", "stage=1")
    assert "Slowest: stage 1" in done.out
    assert "What if stage=1: " in done.out
    as_json = nodewise("trace", path, "--json").json
    assert as_json["slowdown"] == pytest.approx(replay(operations.read(path)).slowdown)
    assert np.isfinite(as_json["measured_seconds"])
