"""Preemption on the textbook curve, s=0.03 and c=0.0015: golden figures, laws, replay, units."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nodewise.base.errors import DataError, SpecError
from nodewise.decide.payment.in_time import share_in_time
from nodewise.decide.payment.spot import (
    SPOT_ITEMS,
    Checkpointing,
    Preemptions,
    Trace,
    bill,
    break_even_rate,
    choices,
    exact_interval,
    expected,
    parse_preemptions,
    parse_trace,
    rate_check,
    replay,
    summarise,
    trace_of_samples,
    trace_of_stamps,
)
from nodewise.decide.prices.bill import Price
from nodewise.decide.prices.bill import bill as plain_bill
from nodewise.explain.laws import Law

HOUR = 3600.0
NODES = np.arange(1, 65, dtype=float)
WORK = Law(s=0.03, c=0.0015, base_seconds=100 * HOUR).seconds(NODES)
TIMES = Checkpointing(save_seconds=60, downtime_seconds=300, restart_seconds=120)
QUICKER = Checkpointing(save_seconds=60, downtime_seconds=180, restart_seconds=60)
ON_DEMAND = Price(per_node_hour=2.10, fixed_per_hour=9.0)

seconds = st.floats(1, 1e6)
rates = st.floats(0, 1e-2)
checkpointings = st.builds(
    Checkpointing,
    save_seconds=st.floats(0, 2000),
    downtime_seconds=st.floats(0, 5000),
    restart_seconds=st.floats(0, 500),
)


def per_node_hour(rate: float, exponent: float = 1.0) -> Preemptions:
    return Preemptions(per_second=rate / HOUR, correlation_exponent=exponent)


@pytest.mark.parametrize(
    ("nodes", "segments", "hours", "cost"),
    [(8, 58, 19.035369, 267.256575), (11, 57, 16.273879, 259.242893),
     (25, 69, 14.879203, 368.260282)],
)  # fmt: skip
def test_golden_time_and_cost(nodes, segments, hours, cost):
    run = expected(WORK, per_node_hour(0.05).of_gang(NODES), TIMES)
    bills = bill(ON_DEMAND, NODES, 0.63 * NODES, run)
    assert run.segments[nodes - 1] == segments
    assert run.seconds[nodes - 1] / HOUR == pytest.approx(hours, abs=5e-7)
    assert bills.total[nodes - 1] == pytest.approx(cost, abs=5e-7)
    assert NODES[bills.total.argmin()] == 11


@pytest.mark.parametrize(
    ("discount", "nodes", "cost"),
    [(0, 8, 4.173), (0.3, 9, 3.330), (0.5, 11, 2.737), (0.7, 13, 2.108), (0.8, 14, 1.768),
     (0.9, 17, 1.396)],
)  # fmt: skip
def test_discounts_without_preemption(discount, nodes, cost):
    [choice] = choices(WORK / 100, NODES, ON_DEMAND, TIMES, [discount], [per_node_hour(0)])
    assert (choice.nodes, choice.fastest_nodes) == (nodes, 25)
    assert choice.cost == pytest.approx(cost, abs=0.0005)


@pytest.mark.parametrize(
    ("rate", "fastest", "at_discounts", "ignoring_percent"),
    [
        (0, 25, ((11, 273.7), (13, 210.8), (17, 139.6)), 0),
        (0.01, 23, ((10, 293.5), (12, 227.6), (16, 153.2)), 0.3),
        (0.05, 19, ((9, 329.4), (11, 259.2), (14, 179.5)), 1.7),
        (0.2, 13, ((7, 424.6), (8, 344.8), (11, 254.4)), 10.4),
        (1.0, 6, ((4, 821.3), (4, 716.8), (5, 599.1)), 97.6),
    ],
)
def test_how_the_cheapest_scale_moves(rate, fastest, at_discounts, ignoring_percent):
    found = choices(WORK, NODES, ON_DEMAND, TIMES, [0.5, 0.7, 0.9], [per_node_hour(rate)])
    for choice, (nodes, cost) in zip(found, at_discounts, strict=True):
        assert (choice.nodes, choice.fastest_nodes) == (nodes, fastest)
        assert choice.cost == pytest.approx(cost, abs=0.06)
    assert 100 * found[1].ignoring_extra == pytest.approx(ignoring_percent, abs=0.06)


@pytest.mark.parametrize(
    ("job_hours", "times", "interval", "golden"),
    [
        (100, TIMES, "exact", (0.187, 0.345, 0.571)),
        (100, TIMES, "none", (0.0057, 0.0086, 0.0121)),
        # the figures of the short job are of quicker restarts: 3 min down, 1 min of reloading
        (1, QUICKER, "exact", (0.343, 0.597, 0.938)),
    ],
)
def test_break_even_rates(job_hours, times, interval, golden):
    for discount, per_hour in zip((0.5, 0.7, 0.9), golden, strict=True):
        work = WORK * job_hours / 100
        found = break_even_rate(work, NODES, ON_DEMAND, times, discount, interval=interval)
        assert found * HOUR == pytest.approx(per_hour, rel=0.01)


def test_golden_interval():
    assert float(exact_interval(0.4 / HOUR, 60.0)) / 60 == pytest.approx(16.66, abs=0.005)


@pytest.mark.parametrize(
    ("save_minutes", "per_hour", "young_percent"), [(1, 0.4, 0.008), (5, 2.5, 1.4), (10, 5, 10.8)]
)
def test_what_a_rule_of_thumb_loses(save_minutes, per_hour, young_percent):
    """In the long run: the time for a second of work is (e^(L(w+C)) - 1) / (L w)."""
    rate, save = per_hour / HOUR, 60.0 * save_minutes

    def stretch(interval):
        return np.expm1(rate * (interval + save)) / (rate * interval)

    best = stretch(exact_interval(rate, save))
    lost = 100 * (stretch(math.sqrt(2 * save / rate)) / best - 1)
    assert lost == pytest.approx(young_percent, rel=0.05)


@given(st.floats(1e-9, 1e-1), st.floats(1e-3, 1e4))
def test_the_exact_interval_solves_its_equation(rate, save):
    y = float(exact_interval(rate, save)) * rate
    lambert = pytest.importorskip("scipy.special").lambertw(-np.exp(-1 - rate * save)).real
    assert y == pytest.approx(1 + lambert, rel=1e-4, abs=1e-7)


@given(seconds, st.floats(1e-6, 1e-2), checkpointings)
def test_variance_is_that_of_the_textbook_formula(work, rate, times):
    """The plain formula, which cancels for short segments, where nothing is reloaded."""
    times = msgspec.structs.replace(times, restart_seconds=0.0)
    assume(0.05 < rate * work < 20)
    run = expected([work], [rate], times, "none")
    q = np.exp(-rate * work)
    once = 1 / rate - work * q / (1 - q)
    square = 2 / rate**2 - (work**2 + 2 * work / rate) * q / (1 - q)
    down = times.downtime_seconds
    variance = (1 - q) / q * (square - once**2) + (1 - q) / q**2 * (once + down) ** 2
    assert float(run.variance[0]) == pytest.approx(variance, rel=1e-6)


def test_golden_spread():
    """Ten hours in pieces of 15 min, 0.4 events an hour, 1 min to save, 5 min down."""
    times = Checkpointing(save_seconds=60, downtime_seconds=300)
    run = expected([10 * HOUR], [0.4 / HOUR], times, 900.0)
    spread = float(np.sqrt(run.variance[0])) / HOUR
    assert spread == pytest.approx(0.5058, abs=5e-5)
    assert float(run.seconds[0]) / HOUR + 1.645 * spread == pytest.approx(12.44, abs=0.005)


def test_spread_with_reloading_is_that_of_the_process():
    """The variance with reloading has no published figure: the process itself is drawn."""
    generator = np.random.default_rng(7)
    rate, work, down, reload = 1 / 4000, 3000.0, 500.0, 900.0
    totals = np.zeros(100_000)
    todo, left = np.arange(len(totals)), np.full(len(totals), work)
    # a reload that fails or work that fails begin both anew, so they are one longer attempt
    while len(todo):
        up = generator.exponential(1 / rate, len(todo))
        fails = up < left
        totals[todo] += np.where(fails, up + down, left)
        left, todo = np.full(fails.sum(), work + reload), todo[fails]
    run = expected(
        [work], [rate],
        Checkpointing(downtime_seconds=down, restart_seconds=reload), "none",
    )  # fmt: skip
    assert float(run.seconds[0]) == pytest.approx(totals.mean(), rel=0.02)
    assert float(np.sqrt(run.variance[0])) == pytest.approx(totals.std(), rel=0.03)


@given(seconds, rates, checkpointings)
def test_no_run_is_shorter_than_its_work_and_parts_add_up(work, rate, times):
    run = expected([work], [rate], times)
    assert run.seconds[0] >= work * (1 - 1e-12)
    assert run.variance[0] >= 0
    assert 0 < run.goodput[0] <= 1 + 1e-12
    parts = (run.work, run.saving, run.lost, run.reloading, run.down)
    assert all(part[0] >= 0 for part in parts)
    assert sum(float(part[0]) for part in parts) == pytest.approx(float(run.seconds[0]))


@given(seconds, checkpointings)
def test_without_preemption_it_is_the_plain_run(work, times):
    run = expected([work], [0.0], times)
    assert (run.seconds[0], run.segments[0], run.variance[0]) == (work, 1, 0)
    nodes = np.array([4.0])
    plain = plain_bill(ON_DEMAND, 2.1 * nodes, np.array([work])).total
    assert bill(ON_DEMAND, nodes, 2.1 * nodes, run).total == pytest.approx(plain)


@given(seconds, st.floats(1e-7, 1e-3), checkpointings)
def test_the_exact_interval_is_never_worse(work, rate, times):
    exact = expected([work], [rate], times).seconds[0]
    for rule in ("none", 600.0, 1800.0):
        assert exact <= expected([work], [rate], times, rule).seconds[0] * (1 + 1e-12)


@settings(max_examples=40)
@given(st.floats(100, 1e5), st.floats(1e-6, 1e-3), checkpointings)
def test_no_number_of_segments_is_better(work, rate, times):
    assume(times.save_seconds > 1)
    run = expected([work], [rate], times)
    for count in (*range(1, 20), *range(20, 400, 7)):
        other = expected([work], [rate], times, work / count).seconds[0]
        assert run.seconds[0] <= other * (1 + 1e-12)


@given(seconds, rates, st.floats(1, 10), st.floats(0.01, 100), st.floats(1, 3), checkpointings)
def test_cost_grows_with_price_and_rate(work, rate, faster, hourly, dearer, times):
    nodes = np.array([4.0])

    def cost(a_rate, a_price):
        run = expected([work], [a_rate], times)
        return bill(ON_DEMAND, nodes, a_price * nodes, run).total[0]

    assert cost(rate * faster, hourly) >= cost(rate, hourly) * (1 - 1e-9)
    assert cost(rate, hourly * dearer) >= cost(rate, hourly) * (1 - 1e-9)


@given(seconds, rates, checkpointings, st.sampled_from([1 / 3600, 1 / 60, 1e3]))
def test_the_time_unit_changes_nothing(work, rate, times, unit):
    scaled = Checkpointing(
        **{name: unit * getattr(times, name) for name in times.__struct_fields__}
    )
    run, other = expected([work], [rate], times), expected([work * unit], [rate / unit], scaled)
    assert other.seconds[0] == pytest.approx(unit * run.seconds[0])
    assert other.goodput[0] == pytest.approx(run.goodput[0])


@settings(max_examples=20)
@given(st.floats(0.05, 0.95), st.floats(1, 200), st.floats(0, 1))
def test_break_even_is_where_the_costs_are_equal(discount, hours, exponent):
    work = WORK * hours / 100
    rate = break_even_rate(work, NODES, ON_DEMAND, TIMES, discount, correlation_exponent=exponent)
    [choice] = choices(
        work, NODES, ON_DEMAND, TIMES, [discount], [per_node_hour(rate * HOUR, exponent)]
    )
    full = plain_bill(ON_DEMAND, 2.1 * NODES, work).total.min()
    assert choice.cost == pytest.approx(full, rel=1e-6)


def test_break_even_is_nothing_when_spot_is_no_cheaper():
    assert break_even_rate(WORK, NODES, ON_DEMAND, TIMES, 0.0) is None


def test_line_items_add_up_and_name_what_is_not_priced():
    run = expected(WORK, per_node_hour(0.2).of_gang(NODES), TIMES)
    price = msgspec.structs.replace(
        ON_DEMAND,
        startup_seconds=120.0,
        billing_unit_seconds=60.0,
        storage_per_hour=0.5,
        egress=3.0,
    )
    bills = bill(price, NODES, 0.63 * NODES, run, value_per_hour=5.0)
    one = bills.at(7)
    assert sum(getattr(one, item) for item in SPOT_ITEMS) == pytest.approx(bills.total[7])
    assert min(getattr(one, item) for item in SPOT_ITEMS) > 0
    assert "storage" not in price.unpriced
    assert set(ON_DEMAND.unpriced) >= {"storage", "egress", "start-up and tear-down", "taxes"}


def test_who_stays_on_the_meter_while_a_node_is_replaced():
    run = expected(WORK, per_node_hour(0.2).of_gang(NODES), TIMES)
    idle = {
        who: bill(ON_DEMAND, NODES, 0.63 * NODES, run, while_down=who).idle[7]
        for who in ("all", "survivors", "none")
    }
    assert idle["survivors"] == pytest.approx(7 / 8 * idle["all"])
    assert idle["none"] == 0


def test_draws_of_the_work_are_rows():
    draws = np.stack([WORK, 1.1 * WORK])
    run = expected(draws, per_node_hour(0.05).of_gang(NODES), TIMES)
    bills = bill(ON_DEMAND, NODES, 0.63 * NODES, run)
    assert bills.total.shape == (2, 64)
    assert bills.total[0, 7] == pytest.approx(267.256575)


def test_hopeless_runs_stay_numbers():
    run = expected([1e9], [1.0], TIMES, "none")
    assert np.isfinite(run.seconds).all()
    assert np.isfinite(run.variance).all()
    assert run.goodput[0] < 1e-50


def test_share_in_time_needs_no_chance_where_nothing_is_random():
    calm = expected([100.0], [0.0], TIMES)
    assert share_in_time(calm, np.zeros(1), TIMES, 99.0)[0] == 0
    assert share_in_time(calm, np.zeros(1), TIMES, 101.0)[0] == 1
    risky, rate = expected([36000.0], [0.5 / HOUR], TIMES), np.array([0.5 / HOUR])
    assert 0.4 < share_in_time(risky, rate, TIMES, float(risky.seconds[0]))[0] < 0.6


def test_correlation():
    """Gangs of 4 and 16 nodes were stopped 2.4 and 1.6 times as often as one node."""
    assert per_node_hour(1.0, 0.64).of_gang(np.array([4.0])) * HOUR == pytest.approx(2.4, abs=0.05)
    assert per_node_hour(1.0, 0.17).of_gang(np.array([16.0])) * HOUR == pytest.approx(1.6, abs=0.01)
    gang = Preemptions(per_second=1e-4, scope="gang")
    assert gang.of_gang(NODES) == pytest.approx(np.full(64, 1e-4))


def test_a_monthly_share_is_no_rate():
    share = parse_preemptions("20%/month")
    assert share.per_hour == pytest.approx(3.1e-4, rel=0.02)
    check = rate_check(share)
    assert check.verdict == "unknown"
    assert "that is a probability" in check.evidence


@pytest.mark.parametrize(
    ("text", "per_hour", "scope"),
    [("0.05/node-h", 0.05, "node"), ("0.05/h", 0.05, "node"), ("0.4 per gang-hour", 0.4, "gang"),
     ("1.2/day", 0.05, "node"), ("1/min", 60, "node"), ("7.3/month", 0.01, "node")],
)  # fmt: skip
def test_rates_with_units(text, per_hour, scope):
    rate = parse_preemptions(text)
    assert (rate.per_hour, rate.scope) == (pytest.approx(per_hour), scope)


@pytest.mark.parametrize("text", ["0.05", "20%", "5/fortnight", "often", "-1/h", "120%/month"])
def test_a_rate_without_its_unit_is_refused(text):
    with pytest.raises(SpecError) as error:
        parse_preemptions(text)
    assert len(str(error.value).splitlines()) == 2


def test_a_rate_in_the_wrong_unit_fails_its_check():
    assert rate_check(parse_preemptions("20/h")).verdict == "fail"
    assert rate_check(parse_preemptions("0.05/h")).verdict == "pass"
    assert rate_check(parse_preemptions("0/h")).verdict == "unknown"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Checkpointing(save_seconds=-1),
        lambda: Preemptions(per_second=-1),
        lambda: Preemptions(per_second=1, correlation_exponent=2),
        lambda: expected([0.0], [0.0], TIMES),
        lambda: expected([1.0], [-1.0], TIMES),
        lambda: expected([1.0], [1.0], TIMES, 0.0),
        lambda: choices(WORK, NODES, ON_DEMAND, TIMES, [-0.2], [per_node_hour(0)]),
        lambda: choices(WORK, NODES, Price(), TIMES, [0.2], [per_node_hour(0)]),
        lambda: bill(Price(fixed_per_hour=-9), NODES, NODES, expected(WORK, 0.0, TIMES)),
        lambda: Price(egress=-1.0),
        lambda: parse_trace("a,b\n1,2"),
        lambda: parse_trace("seconds,state\n0,up\n5,sideways"),
        lambda: parse_trace("seconds,state\n0,up\n0,down\n1,up"),
        lambda: parse_trace("seconds,state\n0,up\n1,up\n2,up"),
        lambda: parse_trace(""),
        lambda: parse_trace('{"metadata": {}, "data": [1, 0]}'),
        lambda: parse_trace('{"metadata": {"gap_seconds": 0}, "data": [1, 0]}'),
        lambda: parse_trace("seconds,state\n0,down\n1,up\n2,up"),
    ],
)
def test_what_cannot_be_is_two_lines(wrong):
    with pytest.raises((SpecError, DataError)) as error:
        wrong()
    assert len(str(error.value).splitlines()) == 2


def test_a_trace_from_stamps_and_from_samples():
    stamps = trace_of_stamps(np.array([0, 5, 10, 12, 20, 21, 30.0]),
                             np.array([False, True, False, True, True, False, True]))  # fmt: skip
    assert stamps.up_seconds.tolist() == [5, 9]
    assert stamps.down_seconds.tolist() == [2, 9]
    samples = trace_of_samples(np.array([True, True, False, True]), 60.0)
    assert samples.up_seconds.tolist() == [180]  # the open end joins the beginning
    assert samples.down_seconds.tolist() == [60]


def test_a_gang_needs_all_of_its_nodes():
    text = '{"metadata": {"gap_seconds": 300}, "data": [4, 4, 3, 3, 4, 0, 4, 4]}'
    one, four = parse_trace(text), parse_trace(text, nodes=4)
    assert one.up_seconds.tolist() == [2100]  # five samples, a gap, and two that close the ring
    assert four.up_seconds.tolist() == [1200, 300]
    assert four.rate_per_second > one.rate_per_second


def test_replay_by_hand():
    """Up 100 s, down 20 s; 130 s of work begun at second 50 and saved after 65 s, as in 70 s."""
    trace = Trace(np.array([100.0]), np.array([20.0]))
    times = Checkpointing(save_seconds=5.0, restart_seconds=10.0)
    took = replay(trace, np.array([40.0, 130.0, 1000.0]), times, interval=65.0, starts=1)
    # the second job: 50 s up and lost, 20 s down; 10 s reload and 70 s saved, the rest is too
    # short; down again; reload and the last 65 s
    assert took[0].tolist()[:2] == [40.0, 50 + 20 + 100 + 20 + 10 + 65]
    endless = replay(trace, np.array([1000.0]), times, interval="none", starts=3)
    assert np.isinf(endless).all()
    assert np.isinf(summarise(endless).p95).all()


def test_replay_of_random_up_times_agrees_with_the_formula():
    generator = np.random.default_rng(7)
    up = generator.exponential(2 * HOUR, 20_000)
    trace = Trace(up, generator.exponential(600.0, 20_000))
    times = Checkpointing(
        save_seconds=60, downtime_seconds=trace.mean_downtime_seconds, restart_seconds=120
    )
    work = np.array([2.0, 10.0]) * HOUR
    took = replay(trace, work, times, starts=4000)
    found = summarise(took, deadline_seconds=11 * HOUR)
    formula = expected(work, trace.rate_per_second, times)
    assert found.mean == pytest.approx(formula.seconds, rel=0.01)
    assert (found.p95 > found.median).all()
    assert found.in_time[0] > 0.95 > found.in_time[1] > 0
    assert rate_check(trace.preemptions).verdict == "pass"


def test_real_gaps_make_tails_that_a_mean_hides():
    """Up-times with a coefficient of variation above 1, as public traces have."""
    generator = np.random.default_rng(7)
    up = HOUR * generator.lognormal(0.0, 1.5, 3000)
    trace = Trace(up, 0.5 * HOUR * generator.lognormal(0.0, 1.5, 3000))
    found = summarise(replay(trace, np.array([4 * HOUR]), TIMES, starts=1000))
    assert found.p95[0] > 1.5 * found.median[0]
