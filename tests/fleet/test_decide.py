"""How many replicas: worked figures, the choice under each goal, and laws that it obeys."""

import json
import math

import altair as alt
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewise.base.errors import DataError, SpecError
from nodewise.decide.prices.bill import Price
from nodewise.explain.scaling import scale
from nodewise.fleet.as_study import fleet_study
from nodewise.fleet.cost import cost_per_million, fleet_per_hour
from nodewise.fleet.day import rate_at
from nodewise.fleet.decide import FleetQuestion, decide_fleet
from nodewise.fleet.fleet_checks import fleet_checks
from nodewise.fleet.latency import served
from nodewise.fleet.window_checks import SATURATION
from nodewise.report.charts.fleet import capacity_chart, latency_chart, token_cost_chart
from nodewise.report.charts.look import sized
from nodewise.report.terminal import show
from nodewise.report.text.fleet import fleet_report, fleets_table
from nodewise.study.check import Check
from nodewise.study.service_objective import Objective
from nodewise.study.window import Request, Summary, Window

LIMITS = Objective(ttft=0.2)
PRICE = Price(per_node_hour=2.10, source="the textbook's node")


def window(replicas: int, rate: float, ttft: float, tokens=50, count=400, **more) -> Window:
    """Requests that are all alike, evenly spaced."""
    requests = tuple(
        Request(
            intended=at / rate,
            sent=at / rate,
            first=at / rate + ttft,
            last=at / rate + ttft + 0.1,
            input_tokens=100,
            output_tokens=tokens,
        )
        for at in range(count)
    )
    return Window(
        replicas=replicas,
        offered_per_second=rate,
        seconds=count / rate,
        requests=requests,
        client_seconds=1.0,
        **more,
    )


def sweep(rates: dict[int, float], quick: float = 0.1) -> list[Window]:
    """Fleets that keep the limit up to a rate, and break above it."""
    kept = [window(replicas, rate, quick) for replicas, rate in rates.items()]
    return [*kept, *(window(replicas, 1.25 * rate, 0.3) for replicas, rate in rates.items())]


SWEEP = sweep({1: 10.0, 2: 20.0, 4: 36.0})


def decide(windows=SWEEP, price=PRICE, **asked):
    asked.setdefault("objective", LIMITS)
    return decide_fleet("a fleet", windows, FleetQuestion(**asked), price)


def test_the_arithmetic_of_a_token():
    # a node at $2.10 an hour that gives 1000 tokens/s: 3.6 million of them an hour
    assert cost_per_million(2.10, 1000.0) == pytest.approx(2.10 / 3.6)
    # the textbook's fleet: eight nodes, and $9.00 an hour whatever their number
    assert fleet_per_hour(Price(per_node_hour=2.10, fixed_per_hour=9.0), 8) == pytest.approx(25.80)


def test_allocation_usage_and_utilisation():
    row = decide(demand_per_second=5.0).row(1)
    assert row.rate_per_second == 10.0
    assert row.breaks_at == 12.5
    assert row.utilisation == pytest.approx(0.5)
    assert row.usage.amount == pytest.approx(2.10 / 3600 / (10 * 50) * 1e6)
    assert row.allocation.amount == pytest.approx(2 * row.usage.amount)
    assert row.allocation.amount * row.utilisation == pytest.approx(row.usage.amount)
    assert row.blended == pytest.approx(row.allocation.amount * 50 / 150)


def test_efficiency_is_the_rate_of_a_replica_against_the_smallest_fleet():
    result = decide()
    assert [row.efficiency for row in result.rows] == pytest.approx([1.0, 1.0, 0.9])


@pytest.mark.parametrize(("demand", "chosen"), [(5.0, 1), (10.0, 1), (11.0, 2), (30.0, 4)])
def test_the_cheapest_fleet_that_serves_the_demand(demand, chosen):
    assert decide(demand_per_second=demand).chosen == chosen


def test_a_demand_above_all_fleets_is_refused_with_the_reason():
    result = decide(demand_per_second=50.0)
    assert result.chosen is None
    assert "r=4 serves 36 of 50 requests/s" in result.because


def test_the_limit_changes_the_chosen_number():
    slow_alone = [window(1, 8.0, 0.15), window(2, 8.0, 0.05), *SWEEP]
    loose = decide(slow_alone, demand_per_second=8.0)
    tight = decide(slow_alone, demand_per_second=8.0, objective=Objective(ttft=0.08))
    assert (loose.chosen, tight.chosen) == (1, 2)
    assert "TTFT <= 80 ms" in tight.constraint


def test_a_fixed_cost_makes_the_larger_fleet_cheaper_for_a_token():
    fixed = Price(per_node_hour=2.10, fixed_per_hour=9.0)
    assert decide().chosen == 1
    assert decide(price=fixed).chosen == 4


def test_the_gap_to_the_largest_throughput():
    result = decide(demand_per_second=8.0)
    assert (result.chosen, result.most_throughput) == (1, 4)
    each = 2.10 / 3600 / (8 * 50) * 1e6
    assert result.gap_per_million == pytest.approx(3 * each)


def test_goals_are_said_and_followed():
    throughput = decide(goal="throughput")
    assert throughput.chosen == 4
    assert throughput.objective == "most good tokens a second"
    windows = [window(1, 8.0, 0.15), window(2, 8.0, 0.06), window(4, 8.0, 0.06)]
    latency = decide(windows, goal="latency", demand_per_second=8.0)
    assert latency.chosen == 2  # four are no quicker
    assert latency.objective == "lowest TTFT of 99 % of the requests"
    assert latency.constraint == "at least 8 requests/s"
    with pytest.raises(SpecError):
        FleetQuestion(objective=LIMITS, goal="latency")


def test_spares_and_headroom():
    result = decide(demand_per_second=9.0, spares=1)
    assert result.chosen == 2
    assert result.row(1).why == "with 1 lost it serves 0 of 9 requests/s"
    assert result.row(4).rate_one_lost == pytest.approx(28.0)


def test_between_two_fleets_that_never_broke_any_rate_is_possible():
    assert rate_at(2, {1: math.inf, 3: math.inf}) == math.inf
    assert rate_at(2, {1: 10.0, 3: math.inf}) == math.inf
    kept = [window(1, 5.0, 0.1), window(3, 20.0, 0.1)]
    row = decide(kept, demand_per_second=20.0, spares=1).row(3)
    assert row.undecided and "with 1 lost may serve less than 20" in row.why


def test_for_the_most_throughput_a_larger_undecided_fleet_is_a_rival():
    few = [window(4, 60.0, 0.1, count=200), window(4, 90.0, 0.3)]
    result = decide([*sweep({1: 10.0, 2: 20.0}), *few], goal="throughput", demand_per_second=15.0)
    assert (result.chosen, result.rivals) == (2, (4,))
    text = show(fleet_report(result), 200, colour=False, level=2)
    assert "add rounds: their rates may be the same" in text
    assert decide([*sweep({1: 10.0, 2: 20.0}), few[0]], goal="throughput").rivals == (4,)
    worse = [window(4, 16.0, 0.1, count=200), window(4, 18.0, 0.3)]
    result = decide([*sweep({1: 10.0, 2: 20.0}), *worse], goal="throughput", demand_per_second=15.0)
    assert result.row(4).undecided and result.rivals == ()


def test_spares_are_asked_of_the_quickest_fleet_too():
    windows = [window(1, 8.0, 0.06), window(2, 8.0, 0.06), window(4, 8.0, 0.06)]
    assert decide(windows, goal="latency", demand_per_second=8.0).chosen == 1
    spared = decide(windows, goal="latency", demand_per_second=8.0, spares=1)
    assert spared.chosen == 2
    assert spared.constraint == "at least 8 requests/s, also with 1 lost"
    assert spared.row(1).why == "with 1 lost no window shows that 8 requests/s are served"
    lost = [msgspec.structs.replace(one, error="no connection") for one in windows[0].requests]
    broken = msgspec.structs.replace(windows[0], requests=tuple(lost))  # one alone answers nothing
    result = decide([broken, *windows[1:]], goal="latency", demand_per_second=8.0, spares=1)
    assert result.chosen == 4


def test_the_percentile_is_that_of_the_share_and_of_no_other():
    """The slowest ten of 4000 requests are beyond p99 and within p99.9."""
    one = window(1, 8.0, 0.06, count=4000)
    slow = [
        msgspec.structs.replace(request, first=request.first + 0.04) if at % 400 == 0 else request
        for at, request in enumerate(one.requests)
    ]
    one = msgspec.structs.replace(one, requests=tuple(slow))
    for share, seconds in ((0.99, 0.06), (0.999, 0.1)):
        objective = Objective(ttft=0.2, share=share)
        result = decide([one], objective=objective, goal="latency", demand_per_second=8.0)
        assert result.row(1).latency_at_floor == pytest.approx(seconds)
        (row,) = latency_chart(result).rows
        assert row["ms"] == pytest.approx(1000 * seconds)
        assert row["median"] == pytest.approx(60)  # the other end of the fan


def test_a_percentile_that_nobody_can_certify_is_not_replaced_by_another():
    asked = {"objective": Objective(ttft=0.2, share=0.999), "demand_per_second": 8.0}
    result = decide([window(1, 8.0, 0.06)], goal="latency", **asked)
    assert result.chosen is None
    assert result.row(1).why == (
        "its TTFT of 99.9 % of the requests is not known: needs 2995 requests"
    )
    with pytest.raises(DataError, match=r"99.9 %.*\n.*2995"):
        latency_chart(result)


def test_the_quickest_fleet_may_keep_no_rate_and_has_no_price_then():
    windows = [window(1, 10.0, 0.1), window(4, 50.0, 0.3)]  # the limit is 0.2 s
    result = decide(windows, goal="latency", demand_per_second=40.0, demand_curve=(5.0, 8.0))
    assert (result.chosen, result.row(4).allocation) == (4, None)
    assert result.day[0].most == 1
    assert "no price" in token_cost_chart(result).caption


def test_what_lies_between_is_worth_measuring_and_never_chosen():
    result = decide(demand_per_second=25.0)
    assert (result.chosen, result.untried) == (4, 3)
    assert "28 requests/s" in result.untried_because


def test_simulated_fleets_are_never_chosen():
    simulated = [msgspec.structs.replace(one, simulated=True) for one in sweep({2: 20.0, 4: 40.0})]
    result = decide([*sweep({1: 10.0}), *simulated], demand_per_second=15.0)
    assert result.chosen is None
    assert result.untried == 2
    assert result.row(2).evidence == "simulated"


def test_a_day_of_demand():
    curve = (5.0, 5.0, 15.0, 28.0)
    result = decide(demand_curve=curve, spares=1)
    peak, scaled, peak_spare, scaled_spare = result.day
    assert (peak.most, peak.replicas) == (3, 3.0)
    assert scaled.replicas == pytest.approx((1 + 1 + 2 + 3) / 4)
    assert peak.cost_per_day == pytest.approx(24 * 3 * 2.10)
    tokens = 86_400 * sum(curve) / 4 * 50
    assert scaled.cost_per_million == pytest.approx(24 * 1.75 * 2.10 / tokens * 1e6)
    assert peak_spare.most == 4
    assert scaled_spare.replicas == scaled.replicas + 1
    assert scaled.cost_per_day <= peak.cost_per_day


def test_an_autoscaler_pays_for_replicas_from_their_start():
    curve = (5.0, 5.0, 15.0, 28.0)
    _, scaled, ahead = decide(demand_curve=curve, startup_seconds=10_800.0).day
    # parts of six hours: 1, 1, 2 and 3 replicas, and each rise half a part earlier
    assert ahead.way == "autoscaler, starts 3h00m ahead"
    assert ahead.replicas == pytest.approx((1 + 1.5 + 2.5 + 3) / 4)
    assert ahead.cost_per_day == pytest.approx(24 * 2.10 * ahead.replicas)
    assert scaled.cost_per_day < ahead.cost_per_day
    week = decide(demand_curve=curve, startup_seconds=10_800.0, curve_days=7.0).day[2]
    assert week.replicas == pytest.approx(1.75 + 2 * 0.5 / 4 / 7)
    always = decide(demand_curve=curve, startup_seconds=1e6).day[2]
    assert always.replicas == 3.0


def test_a_day_that_cannot_be_served_says_so():
    result = decide(demand_per_second=5.0, demand_curve=(5.0, 50.0))
    assert result.day == ()
    why = "its peak is 50 requests/s, and no fleet serves more than 36"
    assert f"The day of demand has no price: {why}." in result.notes
    assert why in " ".join(show(fleet_report(result), 100, colour=False, level=2).split())
    hopeless = decide(objective=Objective(ttft=0.001), demand_curve=(5.0,))
    assert any("no fleet serves more than 0" in note for note in hopeless.notes)


def test_a_rate_that_was_tried_again_after_a_replica_died_is_judged_by_the_second_try():
    died = msgspec.structs.replace(window(1, 10.0, 0.3), died=1)
    assert decide([died, *SWEEP]).row(1).rate_per_second == 10.0
    assert fleet_study("a fleet", [died, *SWEEP], LIMITS).runs[0].seconds == pytest.approx(100.0)
    only = decide([window(1, 5.0, 0.1), died])
    assert (only.row(1).rate_per_second, only.row(1).breaks_at) == (5.0, 10.0)


def test_a_window_in_which_a_replica_died_is_in_no_latency_where_the_rate_was_tried_again():
    died = msgspec.structs.replace(window(1, 10.0, 0.3), died=1)
    result = decide([died, *SWEEP], goal="latency", demand_per_second=10.0)
    assert result.row(1).latency_at_floor == pytest.approx(0.1)
    [drawn] = [
        row for row in latency_chart(result).rows if (row["replicas"], row["rate"]) == (1, 10)
    ]
    assert (drawn["ms"], drawn["kept"]) == (pytest.approx(100.0), "kept")
    assert len(result.windows) == len(SWEEP)


def test_a_simulated_window_stands_for_no_measured_one():
    died = msgspec.structs.replace(window(1, 10.0, 0.3), died=1)
    simulated = msgspec.structs.replace(window(1, 10.0, 0.1), simulated=True)
    result = decide([window(1, 5.0, 0.1), died, simulated])
    assert (result.row(1).rate_per_second, result.row(1).breaks_at) == (5.0, 10.0)
    told = [(row["rate"], row["ms"], row["simulated"]) for row in latency_chart(result).rows]
    assert sorted(told) == [
        (5.0, pytest.approx(100.0), "measured"),
        (10.0, pytest.approx(100.0), "simulated"),
        (10.0, pytest.approx(300.0), "measured"),
    ]


def test_a_restart_that_failed_leaves_what_its_round_had_measured():
    died = msgspec.structs.replace(window(1, 40.0, 0.3), died=1)
    failed = Window(
        replicas=1, offered_per_second=10.0, seconds=0.0, requests=(), notes=("Not ready.",)
    )
    round_ = [window(1, 10.0, 0.1), window(1, 20.0, 0.1), died, failed]
    result = decide(round_)
    assert (result.row(1).rate_per_second, result.row(1).breaks_at) == (20.0, 40.0)
    assert "Not ready." in result.notes
    assert fleet_study("a fleet", round_, LIMITS).runs[0].seconds == pytest.approx(50.0)
    never = msgspec.structs.replace(failed, round=1)
    assert decide([*round_, never]).row(1).rounds == 2  # a round with nothing else


def test_a_lucky_window_above_a_broken_rate_counts_for_nothing():
    lucky = window(1, 14.0, 0.1)
    assert decide([*SWEEP, lucky]).row(1).rate_per_second == 10.0


def test_the_bounds_of_the_capacity_hold_what_differs_between_rounds():
    rounds = [
        msgspec.structs.replace(one, round=number)
        for number, rate in enumerate((8.0, 10.0, 12.0))
        for one in sweep({1: rate})
    ]
    row = decide(rounds).row(1)  # 10 was kept in one round and broken in another
    assert (row.rate_per_second, row.breaks_at) == (8.0, 12.5)
    assert 8.0 <= row.estimate <= 12.5
    usage = 2.10 / 3600 / 50 * 1e6
    assert row.usage.high == pytest.approx(usage / 8.0, rel=0.01)
    assert row.usage.low == pytest.approx(usage / 12.5, rel=0.01)


def test_a_demand_between_the_rate_kept_and_the_rate_broken_is_undecided():
    """Kept at 55, broken at 90: nothing says that one replica does not serve 58."""
    windows = [window(1, 55.0, 0.1), window(1, 90.0, 0.3), window(2, 110.0, 0.1)]
    result = decide(windows, demand_per_second=58.0)
    assert (result.chosen, result.rivals) == (2, (1,))
    assert result.row(1).undecided
    text = show(fleet_report(result), 100, colour=False, level=2)
    assert "undecided between 1 and 2 replicas; so far 2" in text
    assert "measure r=1 at 58 requests/s" in text
    measured = decide([*windows, window(1, 58.0, 0.1)], demand_per_second=58.0)
    assert (measured.chosen, measured.rivals) == (1, ())
    alone = decide(windows[:2], demand_per_second=58.0)
    assert (alone.chosen, alone.rivals) == (None, (1,))
    assert "undecided; 1 replica may suffice" in show(
        fleet_report(alone), 100, colour=False, level=0
    )
    broken = decide(windows, demand_per_second=95.0)
    assert (broken.chosen, broken.rivals) == (2, ())


def test_windows_that_are_too_short_do_not_count_as_broken():
    """A third of a window's requests end after it: too short to be steady, and all are good."""
    short = [
        window(1, rate, 0.1, tokens=1, count=count) for rate, count in ((20.0, 400), (40.0, 8))
    ]
    short[1] = msgspec.structs.replace(
        short[1],
        requests=tuple(
            msgspec.structs.replace(one, last=one.first + 0.05) for one in short[1].requests
        ),
    )
    result = decide(short, objective=Objective(latency=0.5))
    assert not result.windows[1].is_steady
    assert result.row(1).rate_per_second == 20.0
    assert result.row(1).breaks_at is None


def late(one: Window) -> Window:
    """The window of a client that sent every request 50 ms late."""
    sent = (
        msgspec.structs.replace(request, sent=request.intended + 0.05) for request in one.requests
    )
    return msgspec.structs.replace(one, requests=tuple(sent))


def test_a_late_client_is_not_booked_as_a_slow_fleet():
    """All requests were good although they left late: the rate is kept. Misses then say nothing."""
    kept = decide([late(SWEEP[0]), *SWEEP[1:]])
    assert kept.row(1).rate_per_second == 10.0
    first = kept.checks[0]
    assert (first.verdict, first.rule) == ("fail", "load of the client")
    assert first.remedy
    missed = decide([*SWEEP, late(window(1, 8.0, 0.3)), late(window(1, 5.0, 0.3))])
    assert (missed.row(1).rate_per_second, missed.row(1).breaks_at) == (10.0, 12.5)


def test_where_the_client_was_always_late_another_machine_is_the_advice():
    """A longer window would be void too."""
    unknown = decide([late(window(1, 8.0, 0.3))])
    assert unknown.windows[0].verdict == "void"
    text = show(fleet_report(unknown), 200, colour=False, level=0)
    assert "To decide, load r=1 from an idle machine" in text


def test_the_client_is_blamed_for_its_own_check_only():
    slow = late(window(1, 8.0, 0.3, count=400))
    growing = Check(rule=SATURATION, verdict="fail", evidence="the queue grew", remedy="x")
    seen = served(slow, LIMITS)
    seen = msgspec.structs.replace(seen, checks=(growing, *seen.checks))
    (client, *_) = fleet_checks([seen], {}, LIMITS)
    assert client.verdict == "fail" and "requests left within 50 ms" in client.evidence


def test_windows_too_short_for_rare_stalls_are_named():
    """With TTFT within 200 ms for 99 %, three times 20 s show a stall as rare as matters."""

    def stalls(seconds: float, **limits: float) -> list[tuple[str, str]]:
        made = msgspec.structs.replace(window(1, 8.0, 0.06, count=400), seconds=seconds)
        objective = Objective(**limits) if limits else LIMITS
        found = decide([made], objective=objective, demand_per_second=8.0).checks
        return [(one.verdict, one.remedy) for one in found if one.rule == "rare stalls"]

    fix = "If your servers stall, set window_seconds to 60."
    assert stalls(50.0) == [("unknown", fix)]
    assert stalls(60.0) == [("pass", "")]
    assert stalls(50.0, ttft=0.2, share=0.95) == [("pass", "")]
    assert stalls(50.0, tpot=0.2) == []  # a stall hardly changes a mean


def test_a_check_of_nothing_is_unknown():
    assert {one.verdict for one in fleet_checks([], {}, LIMITS)} == {"unknown"}
    empty = window(1, 8.0, 0.1, count=0, notes=("It did not start.",))
    assert {one.verdict for one in decide([empty]).checks} == {"unknown"}
    short = decide([window(1, 8.0, 0.1, count=200)])
    driven = short.checks[-1]
    assert (driven.verdict, driven.evidence) == ("unknown", "r=1 neither kept nor broke any rate")
    assert driven.remedy == "Lengthen the windows, or add rounds."


def test_the_headline_carries_the_doubt_about_shared_cores():
    busy = [msgspec.structs.replace(one, machine_busy=0.97) for one in SWEEP]
    text = show(fleet_report(decide(busy)), 100, colour=False, level=0)
    assert "doubtful: client and replicas shared one machine, whose cores were 97 % busy" in (
        " ".join(text.split())
    )
    idle = [msgspec.structs.replace(one, machine_busy=0.3) for one in SWEEP]
    assert "doubtful" not in show(fleet_report(decide(idle)), 100, colour=False, level=0)


def test_without_tokens_the_unit_is_a_request():
    plain = [window(1, 10.0, 0.1, tokens=0), window(1, 12.5, 0.3, tokens=0)]
    result = decide(plain)
    assert result.unit == "requests"
    assert result.row(1).usage.amount == pytest.approx(2.10 / 3600 / 10 * 1e6)
    assert any("good requests" in note for note in result.notes)


@pytest.mark.parametrize("price", [None, Price(), Price(source="nobody said")])
def test_without_a_price_costs_are_hours_of_replicas(price):
    result = decide(price=price)
    assert result.row(1).usage.amount == pytest.approx(1 / 3600 / 500 * 1e6)
    assert "replica-hours" in result.objective
    assert "No price is given: costs are hours of a replica." in result.notes
    assert "$" not in show(fleet_report(result), 100, colour=False, level=2)


def test_money_beside_the_replicas_needs_a_price_of_them():
    with pytest.raises(SpecError, match="a replica has none"):
        decide(price=Price(fixed_per_hour=9.0))


@pytest.mark.parametrize("curve", [(4.0, -1.0), (4.0, float("nan")), (float("inf"),)])
def test_a_demand_that_nobody_can_have_is_refused(curve):
    with pytest.raises(SpecError, match="demand"):
        decide(demand_curve=curve)


def test_a_summary_decides_and_says_what_it_cannot_tell():
    figures = [
        Summary(
            replicas=replicas, offered_per_second=10.0 * replicas, seconds=100.0,
            completed=1000 * replicas, output_tokens=50_000 * replicas, tool="GuideLLM",
            ttft={"0.5": 0.05, "1": 0.19},
        )
        for replicas in (1, 2)
    ]  # fmt: skip
    result = decide(figures, demand_per_second=15.0)
    assert result.chosen == 2
    assert any("GuideLLM kept summaries" in note for note in result.notes)


def test_the_study_of_a_sweep_has_the_rates_as_its_speedup():
    study = fleet_study("a fleet", SWEEP, LIMITS)
    assert [run.seconds for run in study.runs] == pytest.approx([100.0, 50.0, 1000 / 36])
    assert {run.work for run in study.runs} == {1000.0}
    assert [run.facts["good_tokens"] for run in study.runs] == pytest.approx([50_000.0] * 3)
    rows = scale(study).rows
    assert [row.efficiency for row in rows] == pytest.approx([1.0, 1.0, 0.9])
    hopeless = fleet_study("a fleet", SWEEP, Objective(ttft=0.001))
    assert {run.outcome for run in hopeless.runs} == {"crashed"}
    assert "no rate is kept" in hopeless.runs[0].detail


def test_replicas_that_did_not_start_say_why():
    dead = Window(
        replicas=8,
        offered_per_second=80.0,
        seconds=10.0,
        requests=(),
        notes=("Replica 7 ended with code 1.",),
    )
    row = decide([*SWEEP, dead], demand_per_second=5.0).row(8)
    assert (row.rate_per_second, row.why) == (0.0, "Replica 7 ended with code 1")
    run = fleet_study("a fleet", [*SWEEP, dead], LIMITS).runs[-1]
    assert (run.nodes, run.outcome) == (8, "crashed")
    assert "Replica 7 ended with code 1" in run.detail


def test_no_window_no_decision():
    with pytest.raises(DataError):
        decide([])


def test_the_report_says_how_sure_kept_and_broken_are():
    text = " ".join(show(fleet_report(decide()), 100, colour=False, level=2).split())
    assert "kept, broken: tested at 95 % or more" in text and "broken: for certain" not in text


def test_the_report_says_objective_constraint_and_gap():
    text = show(fleet_report(decide(demand_per_second=8.0)), 100, colour=False, level=2)
    assert "a fleet: run 1 replica, $1.458 for a million good tokens" in text
    assert "Objective: least $ for a million good tokens." in text
    assert "at least 8 requests/s" in text
    assert "costs $4.375 more than at r=1" in text
    assert "no headroom" in text


def test_a_long_pause_between_tokens_is_said():
    def paused(one: Window, seconds: float) -> Window:
        first = msgspec.structs.replace(one.requests[0], longest_gap=seconds)
        return msgspec.structs.replace(one, requests=(first, *one.requests[1:]))

    kept, broken = SWEEP[0], SWEEP[3]  # a token each 0.1/49 s
    for windows, said in (
        ([paused(kept, 0.05), paused(broken, 0.9)], True),
        ([paused(kept, 0.01), paused(broken, 0.9)], False),
    ):
        text = show(fleet_report(decide(windows)), 100, colour=False, level=2)
        line = "r=1 at 10/s: a pause of 50 ms between tokens, 24 times the median TPOT."
        assert (line in text) == ("pause" in text) == said


def test_charts_hold_the_rows_of_the_decision():
    result = decide(demand_per_second=25.0)
    cost = token_cost_chart(result)
    assert {row["K"] for row in cost.rows} == {1, 2, 4}
    assert "r=4 serves a million good tokens" in cost.caption
    assert "r=2 keeps the limit up to 20 requests/s" in latency_chart(result).caption
    for figure in (cost, latency_chart(result)):
        alt.Chart.from_json(json.dumps(sized(figure.chart)))  # held to the schema of Vega-Lite
    with pytest.raises(DataError):
        token_cost_chart(decide(objective=Objective(ttft=0.001)))


def test_what_is_not_known_of_a_fleet_is_not_drawn_as_zero():
    """One replica is too slow, three serve the demand, and two are undecided."""
    windows = [window(1, 15.0, 0.5), window(2, 15.0, 0.1, count=100), window(3, 15.0, 0.1)]
    result = decide(windows, demand_per_second=15.0)
    assert (result.chosen, result.rivals) == (3, (2,))
    made = capacity_chart(result)
    rates = {row["K"]: row["rate"] for row in made.rows}
    assert rates[2] is None and rates[3] == 15.0
    assert made.caption == "r=3 serves at least 15 requests/s within the limit."
    assert "grey" not in made.reading  # in proportion to what?
    cells = {row[0]: row for row in fleets_table(result).rows}
    names = fleets_table(result).titles
    assert cells["2"][names.index("kept")] == cells["2"][names.index("tokens/s")] == ""
    assert cells["3"][names.index("kept")] == "15"


def test_a_rate_that_its_windows_keep_together_is_drawn_as_kept():
    """One miss in 400 requests is too many to tell, and three in 1200 are few."""
    windows = []
    for number in range(3):
        first, *others = window(1, 8.0, 0.06, round=number).requests
        slow = msgspec.structs.replace(first, first=0.5, last=0.6)
        made = window(1, 8.0, 0.06, round=number)
        windows.append(msgspec.structs.replace(made, requests=(slow, *others)))
    result = decide(windows, demand_per_second=8.0)
    assert {one.verdict for one in result.windows} == {"undecided"}
    assert result.row(1).rate_per_second == 8.0
    assert [row["kept"] for row in latency_chart(result).rows] == ["kept"]


@pytest.mark.parametrize(("demand", "align"), [(6.0, "right"), (30.0, "left")])
def test_the_label_of_the_demand_is_away_from_the_line_of_the_capacity(demand, align):
    chart = capacity_chart(decide(demand_per_second=demand)).chart
    text = f"demand {demand:g}/s"
    (name,) = [key for key, rows in chart["datasets"].items() if rows[0].get("text") == text]
    (layer,) = [one for one in chart["layer"] if one["data"].get("name") == name]
    assert layer["mark"]["align"] == align


fleets = st.dictionaries(st.sampled_from([1, 2, 3, 4, 8]), st.floats(1.0, 80.0), min_size=1)


@settings(max_examples=40, deadline=None)
@given(fleets, st.floats(1.0, 60.0), st.integers(9, 16))
def test_a_dominated_fleet_changes_nothing(rates, demand, more):
    """More replicas that serve no more than the largest fleet already does."""
    before = decide(sweep(rates), demand_per_second=demand)
    worse = {**rates, more: max(rates.values())}
    after = decide(sweep(worse), demand_per_second=demand)
    assert after.chosen == before.chosen
    assert after.most_throughput == before.most_throughput


@settings(max_examples=40, deadline=None)
@given(fleets, st.floats(1.0, 60.0), st.floats(0.1, 10.0))
def test_the_currency_does_not_matter(rates, demand, factor):
    one = decide(sweep(rates), demand_per_second=demand)
    other = decide(sweep(rates), price=Price(per_node_hour=2.10 * factor), demand_per_second=demand)
    assert one.chosen == other.chosen


@settings(max_examples=40, deadline=None)
@given(fleets, st.lists(st.floats(0.0, 80.0), min_size=1, max_size=24))
def test_an_autoscaler_that_is_always_right_costs_no_more(rates, curve):
    for row in [decide(sweep(rates), demand_curve=tuple(curve)).day]:
        if row:
            assert row[1].cost_per_day <= row[0].cost_per_day * (1 + 1e-12)


def test_a_curve_is_priced_by_the_bill_of_the_day_and_not_at_its_peak():
    curve = (2.0, 2.0, 4.0, 9.0, 15.0, 9.0)
    result = decide(sweep({1: 5.5, 2: 11.0, 4: 22.0}), demand_curve=curve)
    assert result.chosen == 4
    row = result.row(4)
    tokens = 86_400 * sum(curve) / 6 * 50
    bill = 24 * 4 * 2.10
    assert row.allocation is not None and row.usage is not None and row.utilisation is not None
    assert row.allocation.amount == pytest.approx(1e6 * bill / tokens, rel=0.02)
    assert row.usage.amount == pytest.approx(row.allocation.amount * row.utilisation, rel=1e-6)
    headline = fleet_report(result).answer[0]
    assert f"${row.allocation.amount:.3f} for a million good tokens of the day" in headline
    # a demand without a curve is paid for as it is
    peak = decide(sweep({1: 5.5, 2: 11.0, 4: 22.0}), demand_per_second=15.0).row(4)
    assert peak.allocation is not None
    assert row.allocation.amount / peak.allocation.amount == pytest.approx(15 / (sum(curve) / 6))


def test_a_fleet_that_broke_at_every_rate_keeps_an_unknown_rate():
    """One replica was tried at 40/s only, and broke: what it serves is unknown, not zero."""
    result = decide([window(1, 40.0, 0.3, count=2000), *sweep({2: 40.0})], demand_per_second=40.0)
    assert (result.chosen, result.row(2).rate_one_lost) == (2, None)
    shown = show(fleet_report(result), 100, False, 0, "")
    assert "With one replica lost the demand is not served: r=1 breaks at 40 requests/s" in shown
    assert "the only measured fleet that meets it" in result.because
