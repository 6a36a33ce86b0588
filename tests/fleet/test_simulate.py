"""Replicas with continuous batching: exact cases, queueing theory, limits, calibration."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewise.base.errors import DataError, SpecError
from nodewise.base.queueing import waiting
from nodewise.fleet.batching import Engine, Traffic, poisson_traffic, replayed, simulate
from nodewise.fleet.simulate import calibrate, predict
from nodewise.report.terminal import show
from nodewise.report.text.fleet import prediction_report
from nodewise.study.service_objective import Objective

ENGINE = Engine(step=0.002, per_sequence=0.0001, per_prompt_token=5e-5, slots=16)
LENGTHS = ([20, 40, 64, 100], [16, 32, 96, 48])
LIMITS = Objective(ttft=0.06, tpot=0.0045)


def traffic(*requests: tuple[float, int, int]) -> Traffic:
    columns = list(zip(*requests, strict=True))
    return Traffic(np.array(columns[0]), np.array(columns[1]), np.array(columns[2]))


def latencies(window) -> np.ndarray:
    return np.array([one.last - one.intended for one in window.requests])


def test_a_lone_request_takes_its_prompt_and_its_steps():
    [one] = simulate(ENGINE, traffic((1.0, 64, 10)), seconds=2.0).requests
    first = 0.002 + 0.0001 + 64 * 5e-5
    assert one.first - 1.0 == pytest.approx(first)
    assert one.last - 1.0 == pytest.approx(first + 9 * 0.0021)


def test_a_second_request_waits_for_the_edge_of_a_step_and_slows_the_first():
    engine = Engine(step=1.0, per_sequence=0.5)
    one, two = simulate(engine, traffic((0.0, 0, 4), (2.0, 0, 2)), seconds=9.0).requests
    # alone, steps of 1.5 s end at 1.5 and 3.0; together, steps of 2 s end at 5 and 7
    assert (one.first, one.last) == (1.5, 7.0)
    assert (two.first, two.last) == (5.0, 7.0)


def test_time_of_its_own_passes_while_it_waits_and_holds_up_nobody():
    engine = Engine(step=1.0, per_request=5.0, slots=2)
    stream = traffic((0.0, 0, 9), (1.0, 0, 2), (2.0, 0, 1))
    one, two, three = simulate(engine, stream, seconds=9.0).requests
    assert (one.first, one.last) == (6.0, 14.0)
    assert (two.first, two.last) == (7.0, 8.0)
    assert three.first == 9.0  # ready at 7, and a slot is free at 8


def test_slots_bound_the_batch():
    engine = Engine(step=1.0, slots=1)
    made = simulate(engine, traffic((0.0, 0, 3), (0.1, 0, 2)), seconds=9.0).requests
    assert [one.last for one in made] == [3.0, 5.0]


def test_a_budget_takes_a_long_prompt_in_pieces():
    engine = Engine(step=1.0, per_prompt_token=0.01, prefill_budget=100)
    short, long = simulate(engine, traffic((0.0, 10, 6), (0.5, 300, 1)), seconds=9.0).requests
    # beside the first sequence 99 tokens fit into a step, so 300 need four of them
    assert long.first == pytest.approx(1.1 + 3 * 1.99 + 1.03)
    whole = simulate(
        msgspec.structs.replace(engine, prefill_budget=None),
        traffic((0.0, 10, 6), (0.5, 300, 1)),
        seconds=9.0,
    ).requests
    assert whole[1].first == pytest.approx(1.1 + 4.0)
    assert short.first == whole[0].first


def test_a_full_cache_pushes_out_who_came_last():
    engine = Engine(step=1.0, kv_tokens=20)
    one, two = simulate(engine, traffic((0.0, 5, 8), (0.0, 5, 8)), seconds=9.0).requests
    # at ten tokens each the cache is full after the fifth step; the second starts again later
    assert one.last == 8.0
    assert two.first == 1.0
    assert two.last > 8.0
    free = simulate(Engine(step=1.0), traffic((0.0, 5, 8), (0.0, 5, 8)), seconds=9.0).requests
    assert [request.last for request in free] == [8.0, 8.0]


def test_a_request_that_never_fits_fails():
    engine = Engine(step=1.0, kv_tokens=10)
    one, two = simulate(engine, traffic((0.0, 8, 8), (0.0, 2, 2)), seconds=9.0).requests
    assert one.error and one.last is None
    assert two.last == 2.0


@pytest.mark.parametrize("busy", [0.5, 0.8])
def test_within_three_percent_of_the_textbook_queue(busy):
    """One slot and answers of geometric length are M/M/1."""
    count = 120_000
    draw = np.random.default_rng(1)
    answers = draw.geometric(1 / 1000, count)
    arrivals = np.cumsum(draw.exponential(1 / busy, count))
    made = latencies(
        simulate(Engine(step=1 / 1000, slots=1), Traffic(arrivals, np.zeros(count, int), answers))
    )
    theory = waiting(arrivals_per_second=busy, service_seconds=1.0, servers=1)
    assert made.mean() == pytest.approx(theory.mean_seconds + 1.0, rel=0.03)
    assert np.median(made) == pytest.approx(math.log(2) / (1 - busy), rel=0.03)
    assert np.quantile(made, 0.99) == pytest.approx(math.log(100) / (1 - busy), rel=0.06)


def test_exactly_the_recursion_of_a_single_queue():
    """The same arrivals and services by Lindley's recursion, at a load where chance is large."""
    count = 20_000
    draw = np.random.default_rng(2)
    answers = draw.geometric(1 / 100, count)
    arrivals = np.cumsum(draw.exponential(1 / 0.95, count))
    made = latencies(
        simulate(Engine(step=1 / 100, slots=1), Traffic(arrivals, np.zeros(count, int), answers))
    )
    wait, expected = 0.0, []
    for number, service in enumerate(answers / 100):
        if number:
            gap = arrivals[number] - arrivals[number - 1]
            wait = max(0.0, wait + answers[number - 1] / 100 - gap)
        expected.append(wait + service)
    assert made == pytest.approx(np.array(expected), abs=1e-6)


def test_the_shortest_queue_beats_round_robin_where_lengths_differ():
    draw = np.random.default_rng(5)
    answers = (1 + draw.exponential(60, 4000)).astype(int).tolist()
    asked = poisson_traffic(205, 8000, ([64] * len(answers), answers), 3)
    tails = {
        router: np.quantile(
            [one.first - one.intended for one in simulate(ENGINE, asked, 4, router).requests], 0.99
        )
        for router in ("round robin", "shortest queue")
    }
    assert tails["shortest queue"] < 0.8 * tails["round robin"]


def test_the_same_seed_gives_the_same_window():
    one, other = (
        simulate(ENGINE, poisson_traffic(30, 200, LENGTHS, 4), 2, seconds=5.0) for _ in range(2)
    )
    assert one == other
    assert one != simulate(ENGINE, poisson_traffic(30, 200, LENGTHS, 5), 2, seconds=5.0)
    assert replayed(one).arrivals.tolist() == [request.intended for request in one.requests]


engines = st.builds(
    Engine,
    step=st.floats(0.001, 1.0),
    per_request=st.sampled_from([0.0, 0.3, 4.0]),
    per_sequence=st.floats(0.0, 0.5),
    per_prompt_token=st.floats(0.0, 0.1),
    slots=st.one_of(st.none(), st.integers(1, 4)),
    kv_tokens=st.one_of(st.none(), st.integers(40, 90)),
    prefill_budget=st.one_of(st.none(), st.integers(4, 40)),
)
streams = st.lists(
    st.tuples(st.floats(0.0, 20.0), st.integers(0, 20), st.integers(1, 20)), min_size=1, max_size=25
).map(sorted)


@settings(max_examples=150, deadline=None)
@given(engines, streams, st.integers(1, 3), st.sampled_from(["round robin", "shortest queue"]))
def test_every_request_ends_in_order_and_no_sooner_than_alone(engine, stream, replicas, router):
    made = simulate(engine, traffic(*stream), replicas, router, seconds=21.0).requests
    assert len(made) == len(stream)
    for one, (arrival, prompt, answer) in zip(made, stream, strict=True):
        assert not one.error
        least = engine.step + engine.per_sequence
        assert (
            one.first
            >= arrival + engine.per_request + least + prompt * engine.per_prompt_token - 1e-6
        )
        assert one.last >= one.first + (answer - 1) * least - 1e-6


@settings(max_examples=60, deadline=None)
@given(engines, streams, st.floats(0.01, 100.0))
def test_the_unit_of_time_does_not_matter(engine, stream, unit):
    scaled = msgspec.structs.replace(
        engine,
        step=engine.step * unit,
        per_request=engine.per_request * unit,
        per_sequence=engine.per_sequence * unit,
        per_prompt_token=engine.per_prompt_token * unit,
    )
    one = simulate(engine, traffic(*stream), seconds=21.0)
    stream = [(arrival * unit, prompt, answer) for arrival, prompt, answer in stream]
    other = simulate(scaled, traffic(*stream), seconds=21.0 * unit)
    # an arrival on the very edge of a step may fall to either side by rounding
    close = np.isclose(latencies(other) / unit, latencies(one), rtol=1e-6)
    assert close.mean() > 0.5


@pytest.mark.parametrize(("replicas", "busy"), [(1, 0.8), (4, 0.9)])
def test_batching_waits_less_than_either_reading_of_the_closed_form(replicas, busy):
    draw = np.random.default_rng(0)
    answers = (1 + draw.exponential(48, 5000)).astype(int)
    full = ENGINE.step + 16 * ENGINE.per_sequence
    most = 1 / (answers.mean() * full / 16 + 64 * ENGINE.per_prompt_token)
    rate = busy * most * replicas
    asked = poisson_traffic(rate, 30_000, ([64] * len(answers), answers.tolist()), 1)
    window = simulate(ENGINE, asked, replicas)
    tail = np.quantile([one.first - one.intended for one in window.requests], 0.99)
    as_replicas = waiting(arrivals_per_second=rate, service_seconds=1 / most, servers=replicas)
    as_slots = waiting(arrivals_per_second=rate, service_seconds=16 / most, servers=16 * replicas)
    assert tail < as_slots.percentile(0.99) < as_replicas.percentile(0.99)


def measured(replicas: int, rate: float, seed: int = 0):
    asked = poisson_traffic(rate, 500, LENGTHS, 100 * replicas + seed)
    made = simulate(ENGINE, asked, replicas, offered_per_second=rate, seconds=500 / rate)
    return msgspec.structs.replace(made, simulated=False)


def test_calibration_finds_the_engine_again():
    found = calibrate([measured(1, rate) for rate in (5, 15, 30, 45)], slots=16)
    assert found.engine.step == pytest.approx(ENGINE.step, rel=0.02)
    assert found.engine.per_sequence == pytest.approx(ENGINE.per_sequence, rel=0.1)
    assert found.engine.per_prompt_token == pytest.approx(ENGINE.per_prompt_token, rel=0.05)
    assert found.engine.slots == 16
    assert found.off_by < 0.01


def test_calibration_finds_the_time_before_the_first_step():
    late = msgspec.structs.replace(ENGINE, per_request=0.03)
    windows = [
        msgspec.structs.replace(
            simulate(late, poisson_traffic(rate, 500, LENGTHS, rate), seconds=500 / rate),
            simulated=False,
        )
        for rate in (5, 15, 30)
    ]
    found = calibrate(windows, slots=16).engine
    assert found.per_request == pytest.approx(0.03, rel=0.05)
    assert found.step == pytest.approx(ENGINE.step, rel=0.02)


def test_disturbed_requests_do_not_move_the_engine():
    """A tenth of the answers take twice as long, as beside a busy neighbour."""
    windows = [measured(1, rate) for rate in (5, 15, 30)]
    disturbed = [
        msgspec.structs.replace(
            window,
            requests=tuple(
                msgspec.structs.replace(one, last=one.last + (one.last - one.first))
                if number % 10 == 0
                else one
                for number, one in enumerate(window.requests)
            ),
        )
        for window in windows
    ]
    found = calibrate(disturbed, slots=16)
    assert found.left_out > 100
    assert found.engine.step == pytest.approx(ENGINE.step, rel=0.1)


def test_a_calibrated_engine_predicts_the_fleets_it_was_not_calibrated_on():
    windows = [measured(1, rate) for rate in (5, 15, 30)]
    windows += [measured(2, 70), measured(4, 150)]
    result = predict(calibrate(windows, slots=16), windows, LIMITS, replicas=(2, 4))
    assert result.worst(0.5) < 0.15
    assert result.worst(0.99) < 0.25
    held_out = {row.replicas for row in result.residuals if not row.is_calibration}
    assert held_out == {2, 4}
    # pooling: a replica of a larger fleet can be driven harder
    two, four = result.fleets
    assert two.offered_per_second / 2 <= four.offered_per_second / 4
    assert all(window.simulated for window in result.windows)


def test_a_fleet_that_cannot_keep_the_limit_is_not_predicted():
    windows = [measured(1, 15)]
    hopeless = Objective(tpot=0.0001)
    assert predict(calibrate(windows), windows, hopeless, replicas=(2,)).fleets == ()


def test_nothing_to_calibrate_from():
    with pytest.raises(DataError, match="one replica"):
        calibrate([measured(2, 15)])


def test_an_engine_without_time_is_refused():
    with pytest.raises(SpecError):
        Engine(step=0.0)
    with pytest.raises(SpecError):
        Engine(step=1.0, slots=0)


def test_fleets_whose_replicas_slow_each_other_down_are_not_predicted():
    """Two replicas on shared cores: each step takes half as long again; then none is predicted."""
    lengths = ([20, 64, 100], [16, 32, 96])
    alone = Engine(step=0.002, per_sequence=0.0001, per_prompt_token=5e-5, slots=16)
    shared = Engine(step=0.003, per_sequence=0.00015, per_prompt_token=7.5e-5, slots=16)

    def window(engine, replicas, rate):
        made = simulate(engine, poisson_traffic(rate, 600, lengths), replicas, seconds=600 / rate)
        return msgspec.structs.replace(made, simulated=False)

    one = window(alone, 1, 30.0)
    objective = Objective(ttft=0.2)
    free = predict(calibrate([one], 16), [one, window(alone, 2, 60.0)], objective, (4,))
    assert (free.withheld, [fleet.replicas for fleet in free.fleets]) == ("", [4])
    assert free.slowdowns[0].factor == pytest.approx(1.0, abs=0.05)
    slow = predict(calibrate([one], 16), [one, window(shared, 2, 60.0)], objective, (4,))
    assert slow.fleets == ()
    assert slow.slowdowns[0].factor == pytest.approx(1.5, rel=0.1)
    assert "times as long with 2 replicas as with one" in slow.withheld
    assert "no prediction, because replicas slow each other down" in " ".join(
        show(prediction_report(slow), 100, colour=False, level=0).split()
    )
    busy = msgspec.structs.replace(one, machine_busy=0.95)
    assert "95% busy" in predict(calibrate([one], 16), [busy], objective, (4,)).withheld
