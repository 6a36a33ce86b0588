"""Failures and preemptions: expected times, deadlines against a drawn process, endless runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewise.base.errors import DataError
from nodewise.decide.decide import decide, decide_law
from nodewise.decide.inputs import Question, ask, read_inputs
from nodewise.decide.payment.in_time import share_in_time
from nodewise.decide.payment.spot import Checkpointing, expected
from nodewise.explain.laws import Law
from nodewise.study.table import parse_table

HOUR = 3600.0
TIMES = Checkpointing(save_seconds=60, downtime_seconds=300, restart_seconds=120)


def asked(table: str | Law, **inputs):
    """The decision on a table of K and seconds, or on a law to 64 nodes."""
    question = ask(Question(), read_inputs(inputs))
    if isinstance(table, Law):
        return decide_law(table, 64, question)
    return decide(parse_table(table, "job"), question)


def payment(decision, name: str):
    return next(one for one in decision.payments if one.payment == name)


def drawn(work, rate, times, segments, spread, generator, runs=40_000):
    """Times of runs, each stop drawn."""
    piece = work / segments * generator.choice(spread, runs)
    total = np.zeros(runs)
    for segment in range(segments):
        length = piece + (times.save_seconds if segment < segments - 1 else 0.0)
        todo, need = np.arange(runs), length.copy()
        while len(todo):
            up = generator.exponential(1 / rate, len(todo))
            fails = up < need
            total[todo] += np.where(fails, up + times.downtime_seconds, need)
            todo = todo[fails]
            need = length[todo] + times.restart_seconds
    return total


@pytest.mark.parametrize("noise", [0.0, 0.03])
@pytest.mark.parametrize(
    ("work", "per_hour", "times", "interval"),
    [
        (3600.0, 0.03, TIMES, "exact"),
        (36000.0, 0.5, TIMES, "exact"),
        (36000.0, 0.2, TIMES, "none"),
        (3600.0, 2.0, Checkpointing(downtime_seconds=300), 900.0),
        (3600.0, 2.0, Checkpointing(save_seconds=5), 300.0),
        (7200.0, 4.0, Checkpointing(save_seconds=1, downtime_seconds=600), 60.0),
        (3600.0, 1.0, Checkpointing(downtime_seconds=3000, restart_seconds=900), "none"),
    ],
)
def test_the_share_in_time_is_that_of_the_process(work, per_hour, times, interval, noise):
    generator = np.random.default_rng(5)
    spread = np.sort(1 + noise * generator.standard_normal(400))
    rate = per_hour / HOUR
    run = expected([work], [rate], times, interval)
    totals = drawn(work, rate, times, int(run.segments[0]), spread, generator)
    assert totals.mean() == pytest.approx(float(run.seconds[0]), rel=0.02)
    for quantile in (0.1, 0.5, 0.8, 0.95, 0.99):
        deadline = float(np.quantile(totals, quantile)) * 1.0001
        found = share_in_time(run, np.array([rate]), times, deadline, spread[:, None])
        # 40,000 runs tell a share to 0.005 with 95 %
        assert float(found[0]) == pytest.approx(float(np.mean(totals <= deadline)), abs=0.01)


@settings(max_examples=40, deadline=None)
@given(
    st.floats(10, 1e5), st.floats(1e-7, 1e-2), st.floats(0, 600), st.floats(0, 3000),
    st.floats(0, 500), st.floats(1, 20), st.floats(1, 3),
)  # fmt: skip
def test_more_time_is_never_less_likely_and_no_stop_is_the_least(
    work, rate, save, down, reload, factor, more
):
    times = Checkpointing(save_seconds=save, downtime_seconds=down, restart_seconds=reload)
    run, rates = expected([work], [rate], times), np.array([rate])
    calm = float(work + (run.segments[0] - 1) * save)
    early, late = (
        float(share_in_time(run, rates, times, calm * factor * longer)[0]) for longer in (1, more)
    )
    assert np.exp(-rate * calm) <= early + 1e-9
    assert early <= late + 2e-3
    assert late <= 1 + 1e-9
    assert share_in_time(run, rates, times, 0.99 * calm)[0] == 0


def test_a_deadline_on_spot_is_met_by_the_runs_that_are_not_stopped():
    table = "K,time_s\n4,7000\n8,3600\n16,2000\n"
    found = asked(table, price=2, deadline=3700, preempt="0.00375/h")
    spot = {row.nodes: row.in_time for row in payment(found, "spot").rows}
    assert spot[4] == 0
    assert spot[8] == pytest.approx(0.970, abs=0.001)
    assert spot[16] == pytest.approx(0.988, abs=0.001)
    assert payment(found, "spot").cheapest.nodes == 8


def test_the_noise_of_runs_counts_on_spot():
    seconds = [3500.0, 3550.0, 3600.0, 3650.0, 3700.0, 3750.0, 3800.0]
    rows = [f"{k},{at},{2 * one / k}" for k in (2, 4) for at, one in enumerate(seconds)]
    table = "\n".join(["K,round,time_s", *rows])
    late = asked(table, price=2, deadline=3700)
    spot = asked(table, price=2, deadline=3700, preempt="0.00001/h")
    on_demand = late.row(2).deadline_probability
    assert 0.5 < on_demand < 0.9
    assert payment(spot, "spot").rows[0].in_time == pytest.approx(on_demand, abs=0.01)


TABLE = "K,time_s\n1,36000\n2,18400\n4,9500\n8,5000\n16,2900\n"


def test_failures_lengthen_every_way_to_pay():
    calm, failing = asked(TABLE, price=2), asked(TABLE, price=2, mtbf="100h")
    expectation = expected(
        np.array([36000.0, 18400, 9500, 5000, 2900]),
        np.array([1.0, 2, 4, 8, 16]) / (100 * HOUR),
        TIMES,
    )
    for name in ("on-demand", "spot", "owned"):
        rows = payment(failing, name).rows
        assert [row.seconds for row in rows] == pytest.approx(expectation.seconds.tolist())
        assert [row.goodput for row in rows] == pytest.approx(expectation.goodput.tolist())
        for before, after in zip(payment(calm, name).rows, rows, strict=True):
            assert after.cost == pytest.approx(before.cost * after.seconds / before.seconds)
    goodput = expectation.goodput
    assert (np.diff(goodput) < 0).all()
    assert failing.row(8).seconds == pytest.approx(float(expectation.seconds[3]))
    assert failing.row(1).efficiency == 1
    assert failing.row(16).efficiency < calm.row(16).efficiency
    assert payment(calm, "on-demand").rows[0].goodput is None


def test_without_failures_nothing_changes():
    plain = asked(TABLE, price=2, fixed=3, deadline="4h")
    rare = asked(TABLE, price=2, fixed=3, deadline="4h", mtbf="1e9d")
    assert rare.recommended.nodes == plain.recommended.nodes
    for one, other in zip(plain.rows, rare.rows, strict=True):
        assert other.cost == pytest.approx(one.cost, rel=1e-5)


def test_on_spot_the_rates_add_up():
    both = asked(TABLE, price=2, preempt="0.01/h", mtbf="100h")
    sum_of_both = asked(TABLE, price=2, preempt="0.02/h")
    for one, other in zip(
        payment(both, "spot").rows, payment(sum_of_both, "spot").rows, strict=True
    ):
        assert one.seconds == pytest.approx(other.seconds)
    assert both.spot.preemptions == pytest.approx(sum_of_both.spot.preemptions)


def test_a_run_that_saves_nothing_starts_again():
    saved, unsaved = (
        asked(TABLE, price=2, mtbf="10h", checkpoint=one).row(1).seconds for one in ("60s", "none")
    )
    assert unsaved > 1.3 * saved
    hours = 10 * HOUR
    start_again = (hours + 300 + 120 * (1 + 120 / 2 / hours)) * np.expm1(36000 / hours)
    assert unsaved == pytest.approx(start_again, rel=0.01)


def test_failures_drive_the_cheapest_scale_inward():
    law = Law(s=0.03, c=0.0015, base_seconds=100 * HOUR)
    cheapest = [
        asked(law, price=2.1, fixed=9, **failures).cheapest.nodes
        for failures in ({}, {"mtbf": "1000h"}, {"mtbf": "50h"}, {"mtbf": "5h"})
    ]
    assert cheapest[0] == 8
    assert cheapest == sorted(cheapest, reverse=True)
    assert cheapest[-1] < 7


def test_a_deadline_on_demand_counts_failures():
    found = asked(TABLE, price=2, deadline=9600, mtbf="40h", checkpoint="none")
    # 4 nodes for 9500 s: no stop is forgiven
    chance = found.row(4).deadline_probability
    assert chance == pytest.approx(np.exp(-4 * 9500 / (40 * HOUR)), abs=0.01)
    assert found.row(4).refused_by == "deadline"


BIG = "K,time_s\n256,3000\n1024,1500\n"


def test_a_spot_run_that_never_ends_has_a_reason_and_no_price(nodewise, tmp_path):
    table = tmp_path / "big.csv"
    table.write_text(BIG)
    options = ["decide", table, "--price", "2", "--fixed", "9", "--preempt", "1/h"]
    options += ["--checkpoint", "10min"]
    found = nodewise(*options, "--json").json
    spot = next(one for one in found["regimes"] if one["regime"] == "spot")
    assert spot["cheapest"] is None
    assert [row["cost"] for row in spot["rows"]] == [None, None]
    assert [row["seconds"] for row in spot["rows"]] == [None, None]
    assert spot["rows"][0]["never_ends"] == "a save takes 10 min, the gang runs 14 s on average"
    assert found["spot"]["K"] is None
    assert found["spot"]["moves"][-1]["cost"] is None
    text = nodewise(*options, "-v").out
    assert "Spot never ends at K=256, 1024: at K=256 a save takes 10 min" in text
    assert all(len(word) < 20 for word in text.split() if word.startswith("$"))


def test_an_endless_scale_on_demand_is_excluded():
    found = asked("K,time_s\n1,1000\n2,520\n64,400\n", price=2, mtbf="20min", checkpoint="10min")
    assert [row.nodes for row in found.rows] == [1, 2]
    assert payment(found, "on-demand").rows[-1].never_ends.endswith("the gang runs 19 s on average")
    assert found.fastest.nodes == 2
    with pytest.raises(DataError, match="No run ever ends"):
        asked("K,time_s\n1,1000\n2,520\n", price=2, mtbf="10s", checkpoint="10min")


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({"checkpoint": "none", "preempt": "1000/h"}, "50 min of work are not saved"),
        ({"restart": "1h", "preempt": "1/h"}, "a restart takes 1 h"),
        ({"checkpoint": 0, "restart": 0, "downtime": "365d"}, "lost nodes take 8,760 h"),
    ],
)
def test_what_keeps_a_run_from_its_end_is_named(inputs, reason):
    found = asked(BIG, price=2, **{"preempt": "9/h", **inputs})
    assert payment(found, "spot").rows[0].never_ends.startswith(reason)


def test_a_long_run_that_makes_progress_ends():
    """A stop costs far more than the work, and yet a quarter of an hour later it is done."""
    run = expected([10.0], [0.1], Checkpointing(downtime_seconds=600), "none")
    assert run.goodput[0] < 0.01
    assert not run.never_ends[0]


def test_ranges_of_failures_are_ranges_of_the_cost():
    found = asked(TABLE, price=2, mtbf="50h..500h")
    for nodes, hours in ((1, 500), (16, 50)):
        one = asked(TABLE, price=2, mtbf=f"{hours}h").row(nodes)
        row = found.row(nodes)
        assert min(abs(row.cost_low - one.cost), abs(row.cost_high - one.cost)) < 1e-9
        assert row.cost_low < row.cost < row.cost_high


def test_failures_are_inputs_of_the_tornado_and_of_the_page(nodewise, tmp_path):
    table = tmp_path / "job.csv"
    table.write_text(TABLE)
    options = [table, "--price", "2", "--fixed", "9", "--mtbf", "100h"]
    found = nodewise("decide", *options, "--json").json
    moved = {row["input"]: row["regime"] for row in found["tornado"]}
    assert moved["mtbf"] == moved["checkpoint"] == "on-demand"
    text = nodewise("decide", *options, "-v").out
    assert "of the time is useful" in text
    page = tmp_path / "page.html"
    assert nodewise("report", *options, "--deadline", "2h", "-o", page).code == 0


RATES = "K,time_s,rate_per_hour\n1,36000,2\n2,18700,4\n4,9900,12\n8,5500,40\n16,3300,100\n"


def test_the_outlook_on_spot_has_the_prices_of_the_table():
    found = asked(RATES, fixed=10, preempt="0.05/h")
    cheapest = payment(found, "spot").cheapest
    [same] = [
        one
        for one in found.spot.moves
        if abs(one.discount - 0.7) < 1e-9 and abs(one.per_second * HOUR - 0.05) < 1e-9
    ]
    assert (same.nodes, same.cost) == (cheapest.nodes, pytest.approx(cheapest.cost))
    limit = found.spot.break_even_per_node_hour
    at_limit = asked(RATES, fixed=10, preempt=f"{limit}/h")
    assert payment(at_limit, "spot").cheapest.cost == pytest.approx(found.cheapest.cost, rel=1e-5)


def test_the_break_even_of_a_gang_is_told_by_the_gang_hour(nodewise, tmp_path):
    found = asked(TABLE, price=2, fixed=9, preempt="0.4/gang-h")
    assert found.spot.break_even_per_node_hour is None
    limit = found.spot.break_even_per_gang_hour
    at_limit = asked(TABLE, price=2, fixed=9, preempt=f"{limit}/gang-h")
    assert payment(at_limit, "spot").cheapest.cost == pytest.approx(found.cheapest.cost, rel=1e-5)
    table = tmp_path / "job.csv"
    table.write_text(TABLE)
    text = nodewise("decide", table, "--price", "2", "--preempt", "0.4/gang-h", "-v").out
    assert f"{limit:.3g}"[:2] in text
    assert "a gang-hour" in text
    assert "a node-hour" not in text


def test_what_moves_the_cheapest_scale_is_named():
    law = Law(s=0.03, c=0.0015, base_seconds=100 * HOUR)
    cheaper = asked(law, price=2.1, fixed=9)
    assert "from K=8 to K=13 on spot, to K=10 on owned: the price of" in cheaper.cheaper_nodes
    stopped = asked(law, price=2.1, fixed=9, preempt="1/h")
    by = [(one.by, one.before, one.after) for one in payment(stopped, "spot").moved]
    assert by == [("price", 8, 13), ("preemptions", 13, 4)]
    assert "preemptions make K=13 more expensive (K=4)" in stopped.cheaper_nodes
    plain = asked(TABLE, price=2, preempt="1/h", checkpoint="none")
    assert "do not move" in plain.cheaper_nodes
    in_budget = asked(TABLE, price=2, budget=15, value_per_hour=100)
    assert in_budget.cheapest is None
    assert "K=1 passes on spot" in in_budget.cheaper_nodes
    assert "the budget admits other scales" in in_budget.cheaper_nodes
    assert "an hour costs" not in in_budget.cheaper_nodes


def test_a_deadline_that_spot_misses_is_named():
    found = asked("K,time_s\n4,7000\n8,3600\n16,2000\n", price=2, deadline=3700, preempt="0.02/h")
    assert [one.by for one in payment(found, "spot").moved] == ["gates"]
    assert "at K=8 the deadline of 1h02m is kept in fewer" in found.cheaper_nodes


def test_assumed_fractions_are_called_so(nodewise, tmp_path):
    table = tmp_path / "job.csv"
    table.write_text(TABLE)
    assumed = nodewise("decide", table, "--price", "2", "--only", "payment").out
    assert "30 % assumed" in assumed
    assert "60 % assumed" in assumed
    options = ["--price", "2", "--spot", "0.3", "--set", "own=0.6", "--only", "payment"]
    stated = nodewise("decide", table, *options).out
    assert "on-demand" in stated
    assert "assumed" not in stated.partition("Not priced")[0]


def test_owned_nodes_without_a_stated_use_say_what_is_assumed(nodewise, tmp_path):
    table = tmp_path / "job.csv"
    table.write_text(TABLE)
    options = ["decide", table, "--price", "24", "--own", "examples/owned-node.toml"]
    text = nodewise(*options, "-v").out
    assert "100 % use (assumed, the best case: state --utilisation)" in text
    found = nodewise(*options, "--json").json
    full = next(one for one in found["regimes"] if one["accounting"] == "full")
    assert full["assumed"]
    assert found["ownership"]["assumed"]
    sure = nodewise(*options, "--utilisation", "60%", "-v").out
    assert "assumed" not in sure.partition("owned, full")[2].partition("Not priced")[0]


def test_runs_a_month_are_the_use_of_owned_nodes(nodewise, tmp_path):
    table = tmp_path / "job.csv"
    table.write_text(TABLE)
    options = ["decide", table, "--price", "24", "--own", "examples/owned-node.toml", "--json"]
    few = nodewise(*options, "--runs-per-month", "20").json
    rows = next(one for one in few["regimes"] if one["accounting"] == "full")["rows"]
    # 20 runs of 10 h are 200 of the 730 hours of one node
    used = nodewise(*options, "--utilisation", f"{200 / 730}").json
    same = next(one for one in used["regimes"] if one["accounting"] == "full")["rows"]
    assert rows[0]["cost"] == pytest.approx(same[0]["cost"])
    # a month of 16 nodes costs 16 times that of one: a run pays a twentieth of it
    energy = [row["K"] * row["seconds"] for row in rows]
    month = [row["cost"] - 0.84 / 3600 * used for row, used in zip(rows, energy, strict=True)]
    assert month[-1] == pytest.approx(16 * month[0], rel=1e-6)
    # 100 runs of 10 h need two nodes
    many = nodewise(*options, "--runs-per-month", "100").json
    assert many["ownership"]["utilisation"] <= 1
    both = nodewise(*options, "--runs-per-month", "9", "--utilisation", "50%")
    assert (both.code, len(both.err.splitlines())) == (2, 2)
    committed = nodewise("decide", table, "--price", "2", "--commit", "40%", "--json",
                         "--runs-per-month", "20").json  # fmt: skip
    row = next(one for one in committed["regimes"] if one["accounting"] == "committed")
    assert row["fraction"] == pytest.approx(0.6 * 730 / 200)
    assert not row["applies"]


def test_a_search_for_flips_may_pass_runs_that_never_end():
    table = "K,time_s\n512,86400\n1024,45000\n2048,25000\n"
    found = asked(table, price=2, mtbf="1000h", restart="60min")
    assert found.recommended.nodes is not None


def test_a_claim_says_what_of_it_is_without_failures():
    table = "K,time_s\n1,3600\n2,1850\n4,1000\n8,600\n"
    claim = asked(table, price="3", mtbf="2h").claim
    assert "1 h at K=1 without failures of nodes)" in claim
    assert "a run with failures;" in claim
    poor = "K,time_s\n1,3600\n2,3000\n4,2700\n"
    claim = asked(poor, price="3", mtbf="10min", checkpoint="none").claim
    assert claim.startswith("job does not scale where nodes fail this often")
