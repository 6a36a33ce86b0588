"""What is seen of a run from outside, and what is not."""

from pathlib import Path

import msgspec
import pytest

from nodewise.measure import watch
from nodewise.measure.engines.local import Local
from nodewise.measure.engines.own_workers import OwnWorkers
from nodewise.measure.loop import _shares_cores, _with_usage
from nodewise.study.study import Pace, Rank, Run, Usage

RUN = Run(nodes=2, round=0, seconds=10.0)


def watched(*groups: list[Usage]) -> watch.Watch:
    """A watch that is over, with what it saw of the processes of each group."""
    with watch.Watch() as made:
        made.follow(list(range(-len(groups), 0)))  # no process has such a number
    made._seen = {-len(groups) + at: dict(enumerate(group)) for at, group in enumerate(groups)}
    return made


def waited(seconds: float | None) -> Usage:
    return Usage(cpu_seconds=1.0, run_delay_seconds=seconds)


@pytest.mark.parametrize(
    ("groups", "ranks", "delay"),
    [
        ([[waited(1.0)], [waited(3.0)]], 2, 0.3),
        ([[waited(0.0), waited(2.0)]], 0, 0.2),  # a launcher: both ranks in one group
        ([[waited(1.0)], []], 2, None),  # one ended before it was seen
        ([[waited(None)]], 0, None),
        ([], 0, None),
    ],
)
def test_a_wait_for_cores_is_known_or_unknown_but_never_made_up(groups, ranks, delay):
    run = _with_usage(RUN, watched(*groups), 2)
    assert run.contention is not None
    assert (len(run.ranks), run.contention.run_delay) == (ranks, delay)


def test_a_paced_node_says_itself_how_late_it_was():
    pace = Pace(cpu_seconds=1.0, late_seconds=0.5)
    ranks = (
        Rank(rank=0, stages={}, pace=Pace(cpu_seconds=1.0)),
        Rank(rank=1, stages={}, pace=pace),
    )
    run = msgspec.structs.replace(RUN, ranks=ranks, provenance={"emulated": True})
    assert _with_usage(run, watched([waited(9.0)]), 2).contention.run_delay == 0.05


@pytest.mark.parametrize(
    ("groups", "delay"), [([[waited(1.0)], [waited(3.0)]], 0.1), ([[waited(4.0)]], 0.25)]
)
def test_under_a_quota_the_wait_for_the_next_period_is_no_foreign_load(groups, delay):
    held = {"rehearsal_node0.throttled_seconds": 1.5, "rehearsal_node1.throttled_seconds": 2.0}
    run = msgspec.structs.replace(RUN, provenance={"emulated": True, **held})
    assert _with_usage(run, watched(*groups), 2).contention.run_delay == delay


def test_what_an_emulated_node_waited_is_unknown_where_nothing_records_it():
    run = msgspec.structs.replace(RUN, provenance={"emulated": True})
    assert _with_usage(run, watched([waited(1.0)]), 2).contention.run_delay is None


def test_one_process_is_no_rank_where_the_command_starts_the_workers():
    alone = msgspec.structs.replace(RUN, nodes=1)
    run = _with_usage(alone, watched([waited(1.0)]), None)
    assert (run.ranks, run.contention.run_delay) == ((), 0.1)


def test_workers_that_a_command_starts_share_the_cores_where_they_keep_them_busy(monkeypatch):
    monkeypatch.setattr("nodewise.measure.loop.cores", lambda: 2)
    busy, idle = watched(), watched()
    busy._before = idle._before = {"total": 0.0, "busy": 0.0, "own": 0.0}
    busy._after = {"total": 20.0, "busy": 19.0, "own": 4.0}  # others took 15 s
    idle._after = {"total": 20.0, "busy": 15.1, "own": 0.1}
    assert _shares_cores(OwnWorkers(), 4, busy)
    assert not _shares_cores(OwnWorkers(), 4, idle)  # they ran on other machines
    idle._after = {"total": 20.0, "busy": 20.0, "own": 0.1}  # beside a full machine
    assert not _shares_cores(OwnWorkers(), 4, idle)
    assert not _shares_cores(OwnWorkers(), 2, busy)
    assert _shares_cores(Local(), 4, idle)


def test_a_system_without_the_figure_does_not_say_zero(monkeypatch):
    def no_file(_: Path) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", no_file)
    assert watch._usage_of(watch.psutil.Process(), watch._UNSEEN).run_delay_seconds is None
    assert watch._usage_of(watch.psutil.Process(), waited(2.0)).run_delay_seconds == 2.0
