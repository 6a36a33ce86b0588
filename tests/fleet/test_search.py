"""The search for the number of replicas, on fleets in virtual time whose capacity is known."""

import math
from contextlib import contextmanager

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewise.fleet.decide import FleetQuestion, decide_fleet
from nodewise.fleet.load.replicas import ReplicaFailed
from nodewise.fleet.load.sweep import follow
from nodewise.fleet.search import Search, Step
from nodewise.fleet.spec import Demand, FleetSpec, LoadSpec, Server
from nodewise.study.service_objective import Objective
from nodewise.study.window import Request, Window

ADDRESS = ("http://127.0.0.1:1",)


def spec(replicas=(1, 2, 4), demand=None, rounds=1, share=0.99, goal="cost", spares=0, **load):
    load = {"first_rate_per_second": 5.0, "window_seconds": 10.0, "warmup_seconds": 0.0} | load
    return FleetSpec(
        name="virtual",
        replicas=replicas,
        rounds=rounds,
        server=Server(endpoints=ADDRESS),
        load=LoadSpec(**load),
        objective=Objective(latency=1.0, share=share),
        demand=Demand(per_second=demand, goal=goal, spares=spares),
    )


class Virtual:
    """A fleet whose windows are made by a function of the step."""

    def __init__(self, made, started):
        self.made, self.started = made, started

    @contextmanager
    def opened(self, count):
        self.started.append(count)
        yield self

    def window(self, step):
        return self.made(step)


def plain(capacity: float, delay=0.0):
    """Each replica keeps the limit up to a rate; above it the queue grows."""

    def made(step: Step) -> Window:
        times = [at / step.rate for at in range(max(round(step.rate * step.seconds), 1))]
        load = step.rate / (capacity * step.replicas)
        if load <= 1 + 1e-9:
            return window(step, times, [0.1] * len(times), delay)
        return window(step, times, [1.5 + at * (load - 1) for at in times], delay)

    return made


def window(step: Step, times, latencies, delay=0.0) -> Window:
    return Window(
        replicas=step.replicas,
        round=step.round,
        offered_per_second=step.rate,
        seconds=step.seconds,
        client_seconds=step.seconds,
        requests=tuple(
            Request(intended=at, sent=at + delay, first=at + took, last=at + took, output_tokens=1)
            for at, took in zip(times, latencies, strict=True)
        ),
    )


def queue(service: float, seed: int, warmup: float = 5.0):
    """One queue before one exponential server for each replica, a request to each by chance."""

    def made(step: Step) -> Window:
        draw = np.random.default_rng([seed, step.replicas, step.look, round(1000 * step.rate)])
        whole = step.seconds + warmup
        times = np.sort(draw.uniform(0.0, whole, max(round(step.rate * whole), 1))) - warmup
        where = draw.integers(0, step.replicas, len(times))
        latencies = np.zeros(len(times))
        for replica in range(step.replicas):
            own = where == replica
            needed = draw.exponential(service, int(own.sum()))
            if own.any():
                steps = np.concatenate([[0.0], needed[:-1] - np.diff(times[own])])
                total = np.cumsum(steps)
                waits = total - np.minimum.accumulate(np.minimum(total, 0.0))
                latencies[own] = waits + needed
        kept = times >= 0
        return window(step, times[kept].tolist(), latencies[kept].tolist())

    return made


def run(fleet: FleetSpec, made, before=()):
    """All windows of a sweep, which fleets were started, and what was said to be left."""
    windows, started, left = list(before), [], []
    search = Search(fleet)
    for one in before:
        search.add(one)
    virtual = Virtual(made, started)
    follow(search, fleet, virtual.opened, windows.append, lambda *seen: left.append(seen[2]))
    return windows, started, left


def decide(fleet: FleetSpec, windows):
    demand = fleet.demand
    question = FleetQuestion(
        objective=fleet.objective,
        demand_per_second=demand.per_second,
        goal=demand.goal,
        spares=demand.spares,
    )
    return decide_fleet("virtual", windows, question)


def test_the_demand_is_the_rate_and_the_search_stops_when_the_choice_is_decided():
    fleet = spec(demand=58.0)
    windows, started, _ = run(fleet, plain(66.0))
    assert {(one.replicas, one.offered_per_second) for one in windows} == {(1, 58.0)}
    assert decide(fleet, windows).chosen == 1
    fleet = spec(demand=70.0)
    windows, started, _ = run(fleet, plain(66.0))
    assert {one.offered_per_second for one in windows} == {70.0}
    assert started == [1, 2]
    assert decide(fleet, windows).chosen == 2


def test_what_the_answer_rests_on_is_tested_until_rare_stalls_would_have_been_met():
    short = spec(demand=58.0)
    assert short.objective.stall_seconds == pytest.approx(300, rel=0.01)
    windows = run(short, plain(66.0))[0]
    assert [one.seconds for one in windows] == [10.0, 20.0, 40.0]  # three are the most
    long = spec((1, 2), demand=70.0, window_seconds=200.0, most_window_seconds=400.0)
    windows = run(long, plain(66.0))[0]
    assert [(one.replicas, one.seconds) for one in windows] == [(1, 200.0), (2, 200.0), (2, 200.0)]
    # a fleet that is not chosen needs no further test
    assert run(spec(demand=58.0, share=0.5), plain(66.0))[2] == [(0.0, 0.0)]

    def stalling(step: Step) -> Window:
        if step.look == 0:
            return plain(66.0)(step)
        times = [at / step.rate for at in range(round(step.rate * step.seconds))]
        return window(step, times, [1.5 if at % 10 == 9 else 0.1 for at in range(len(times))])

    assert not decide(short, run(short, stalling)[0]).row(1).meets


def test_a_fleet_whose_replicas_die_in_further_tests_ends_the_search():
    def dying(step: Step) -> Window:
        made = plain(66.0)(step)
        return msgspec.structs.replace(made, died=1) if step.look else made

    fleet = spec((1, 2), demand=58.0, rounds=2)
    assert len(run(fleet, dying)[0]) <= 6


def test_a_fleet_that_is_far_too_small_is_skipped():
    sizes = (1, 2, 3, 4, 6, 8, 12, 16)
    fleet = spec(sizes, demand=700.0)
    windows, started, _ = run(fleet, plain(66.0))
    assert decide(fleet, windows).chosen == 12
    assert len(started) <= 5
    assert {8, 12} <= set(started)


def test_spares_ask_for_the_demand_from_what_is_left():
    fleet = spec((1, 2, 3), demand=100.0, spares=1)
    windows, _, _ = run(fleet, plain(66.0))
    assert decide(fleet, windows).chosen == 3
    assert {one.offered_per_second for one in windows} == {100.0}


@settings(max_examples=20, deadline=None)
@given(st.floats(4.0, 200.0), st.floats(3.0, 50.0))
def test_without_a_demand_the_capacity_of_every_fleet_is_bracketed(capacity, first):
    fleet = spec((1, 2), first_rate_per_second=first, window_seconds=1.0)
    windows, started, _ = run(fleet, plain(capacity))
    assert sorted(started) == [1, 2]
    for row in decide(fleet, windows).rows:
        truth = capacity * row.replicas
        tried = [one.offered_per_second for one in windows if one.replicas == row.replicas]
        assert len(tried) <= 24
        if not row.rate_per_second:
            assert min(tried) > truth or min(tried) < 2.6  # 299 requests take 115 s there
            continue
        assert row.rate_per_second <= truth * (1 + 1e-9) < row.breaks_at * (1 + 2e-9)
        assert row.breaks_at / row.rate_per_second <= 1.1**2 * 1.1**0.5 * 1.01


def test_a_late_client_does_not_lower_the_rate():
    """Requests leave late and are good all the same; so each rate is kept that the fleet keeps."""
    late = run(spec((1, 2)), plain(40.0, delay=0.08))[0]
    on_time = run(spec((1, 2)), plain(40.0))[0]
    rows = [decide(spec((1, 2)), windows).rows for windows in (late, on_time)]
    assert [row.rate_per_second for row in rows[0]] == [row.rate_per_second for row in rows[1]]


def test_what_a_late_client_misses_breaks_no_rate():
    """Above 50/s the client is late and requests miss by that: no word about the fleet."""

    def made(step: Step) -> Window:
        good = plain(200.0)(step)
        if step.rate <= 50.0:
            return good
        late = [
            msgspec.structs.replace(one, sent=one.intended + 1.4, first=one.intended + 1.5,
                                    last=one.intended + 1.5)
            for one in good.requests
        ]  # fmt: skip
        return msgspec.structs.replace(good, requests=tuple(late))

    fleet = spec((1,))
    windows, _, _ = run(fleet, made)
    row = decide(fleet, windows).row(1)
    assert 40.0 <= row.rate_per_second <= 50.0
    assert row.breaks_at is None
    assert len(windows) <= 30


def test_short_windows_of_a_queue_do_not_ruin_the_capacity():
    """M/M/1, windows of 4 s, 95 %: the truth is 44/s, and no sweep may be far below it."""
    limit, service = 1.0, 1 / (44.0 + math.log(20) / 1.0)
    fleet = spec((1,), share=0.95, window_seconds=4.0, most_window_seconds=60.0)
    assert limit == fleet.objective.latency
    found = []
    for seed in range(12):
        row = decide(fleet, run(fleet, queue(service, seed))[0]).row(1)
        found.append(row.estimate / 44.0)
        assert row.rate_per_second <= 44.0 * 1.03
        assert row.breaks_at is None or row.breaks_at >= 44.0 * 0.97
    assert min(found) > 0.8
    assert np.std(found) < 0.1


def test_a_number_near_the_limit_is_right_or_undecided():
    """M/M/1 at 97 % and 103 % of what two replicas serve: never the wrong number for certain."""
    service = 1 / (40.0 + math.log(100) / 1.0)
    wrong = 0
    for seed in range(6):
        for part, truth in ((0.97, 2), (1.03, 3)):
            fleet = spec((1, 2, 3), demand=part * 80.0, most_window_seconds=40.0)
            result = decide(fleet, run(fleet, queue(service, seed))[0])
            wrong += truth not in (result.chosen, *result.rivals)
    assert wrong <= 1


def test_an_interrupted_search_goes_on_where_it_stopped():
    fleet = spec((1, 2), rounds=2, share=0.9, window_seconds=4.0, most_window_seconds=8.0)
    made = queue(1 / 45.0, 3)
    whole = run(fleet, made)[0]
    for cut in (1, len(whole) // 2, len(whole)):
        assert run(fleet, made, whole[:cut])[0] == whole


def test_rounds_go_on_only_where_the_choice_is_open():
    fleet = spec((1, 2), demand=30.0, rounds=3)
    assert {one.round for one in run(fleet, plain(66.0))[0]} == {0}
    near = 1 / (30.0 + math.log(100) / 1.0)  # one replica is just at its limit
    windows = run(fleet, queue(near, 1))[0]
    assert {one.round for one in windows if one.replicas == 1} == {0, 1, 2}


def test_the_length_is_estimated_before_and_meanwhile():
    fleet = spec((1, 2, 4), demand=130.0)
    likely, most = Search(fleet).seconds_left()
    windows, _, left = run(fleet, plain(66.0))
    took = sum(one.seconds for one in windows)
    assert most >= took
    assert took / 5 <= likely <= 5 * took
    assert left[-1] == (0.0, 0.0)
    likely, most = Search(spec((1, 2))).seconds_left()
    windows, _, left = run(spec((1, 2)), plain(66.0))
    took = sum(one.seconds for one in windows)
    assert took / 3 <= likely <= 3 * took
    assert left[-1] == (0.0, 0.0)
    assert left[len(left) // 2][0] < likely


def test_the_lowest_latency_needs_a_window_of_each_fleet_at_the_demand():
    fleet = spec((1, 2, 4), demand=50.0, goal="latency")
    windows, started, _ = run(fleet, plain(66.0))
    assert started == [1, 2, 4]
    assert {one.offered_per_second for one in windows} == {50.0}


def test_a_fleet_that_does_not_start_is_left_out():
    fleet = spec((1, 2, 4), demand=130.0, rounds=2)
    windows, started = [], []

    @contextmanager
    def opened(count):
        started.append(count)
        if count == 2:
            raise ReplicaFailed("no memory", "Buy some.")
        yield Virtual(plain(66.0), [])

    follow(Search(fleet), fleet, opened, windows.append, lambda *_: None)
    assert [one.replicas for one in windows if not one.requests] == [2]
    assert started.count(2) == 1
    result = decide(fleet, windows)
    assert (result.chosen, result.rivals) == (4, ())


@pytest.mark.slow
def test_a_sweep_at_99_percent_takes_a_quarter_of_an_hour():
    """M/M/c took 64 minutes of windows of 30 s."""
    service = 1 / (20.0 + math.log(100) / 1.0)
    fleet = spec((2,), window_seconds=30.0)
    minutes = []
    for seed in range(3):
        windows = run(fleet, queue(service, seed))[0]
        minutes.append(sum(one.seconds + 6 for one in windows) / 60)
    assert np.mean(minutes) <= 16
