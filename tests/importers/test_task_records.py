"""Seconds of workers from tasks: each second has one name, and the names add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.importers.schedulers.task_records import Span, Task, one_at_a_time, ranks_of

SECOND = 1_000_000_000


def task(kind, worker, start, end, doing="compute", handed_in=None, ready=None):
    return Task(
        kind=kind,
        worker=worker,
        spans=(Span(doing, start * SECOND, end * SECOND),),
        handed_in=None if handed_in is None else handed_in * SECOND,
        ready=None if ready is None else ready * SECOND,
    )


def stages(tasks, workers="ab", begin=0, end=10):
    ranks = ranks_of(tasks, workers, begin * SECOND, end * SECOND)
    for rank in ranks:
        assert sum(rank.stages.values()) == pytest.approx(end - begin)
    return {rank.host: rank.stages for rank in ranks}


def test_every_second_has_a_name():
    tasks = [
        task("first", "a", 1, 3, handed_in=0, ready=0),  # one of its kind: all wait for it
        task("piece", "a", 4, 8, handed_in=3, ready=3),
        task("piece", "b", 4, 6, handed_in=3, ready=3),
    ]
    told = stages(tasks)
    assert told["a"] == {
        "compute": 4, "communication": 0, "io": 0, "overhead": 2, "serial": 4, "idle": 0,
    }  # fmt: skip
    assert told["b"] == {
        "compute": 2, "communication": 0, "io": 0, "overhead": 1, "serial": 4, "idle": 3,
    }  # fmt: skip


def test_moving_under_computing_costs_nothing():
    tasks = [task("x", "a", 0, 6), task("x", "a", 4, 8, "communication"), task("x", "b", 0, 9)]
    told = stages(tasks)
    assert (told["a"]["compute"], told["a"]["communication"]) == (6, 2)


def test_a_kind_is_serial_if_the_engine_never_knew_two_of_it():
    loop = [task("step", "a", 2 * n, 2 * n + 1, handed_in=2 * n) for n in range(3)]
    queue = [task("step", "a", 2 * n, 2 * n + 1, handed_in=0) for n in range(3)]
    unknown = [task("step", "a", 2 * n, 2 * n + 1) for n in range(3)]
    assert one_at_a_time(loop) == {"step"}
    assert one_at_a_time(queue) == one_at_a_time(unknown) == set()
    assert one_at_a_time(unknown[:1]) == {"step"}
    assert stages(loop, "a")["a"]["serial"] == 10  # with the time of the driver between them
    assert stages(queue, "a")["a"]["compute"] == 3


def test_the_tail_of_a_long_piece_is_no_serial_work():
    pieces = [task("piece", "a", 0, 10, handed_in=0), task("piece", "b", 0, 2, handed_in=0)]
    told = stages(pieces)
    assert told["a"] == {**dict.fromkeys(told["a"], 0.0), "compute": 10}
    assert (told["b"]["idle"], told["b"]["serial"]) == (8, 0)


def test_the_fullest_worker_comes_first_and_an_empty_one_is_there():
    ranks = ranks_of([task("x", "b", 0, 5), task("x", "c", 0, 4)], "abc", 0, 10 * SECOND)
    assert [rank.host for rank in ranks] == ["b", "c", "a"]
    assert [rank.rank for rank in ranks] == [0, 1, 2]
    assert ranks_of([], (), 0, SECOND) == []


moments = st.integers(-3, 13)
tasks_anywhere = st.builds(
    lambda kind, worker, doing, start, length, handed_in: task(
        kind, worker, start, start + length, doing, handed_in, handed_in
    ),
    st.sampled_from("xyz"),
    st.sampled_from("abc"),
    st.sampled_from(("compute", "communication", "io", "overhead")),
    moments,
    st.integers(0, 6),
    st.none() | moments,
)


@given(st.lists(tasks_anywhere, max_size=12))
def test_stages_add_up_whatever_was_recorded(tasks):
    for one in stages(tasks, "abc").values():
        assert min(one.values()) >= 0
