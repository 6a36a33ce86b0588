"""Money through the command line: every published figure where a user would meet it."""

import json
from datetime import timedelta

import pytest

from nodewise.decide.prices.lookup import today
from tests.conftest import GOLDEN

LAW = ["decide", "--law", "s=0.03,c=0.0015", "--price", "2.10", "--json"]
LONG = [*LAW, "--fixed", "9", "--t1", "100h"]
SPOT = ["--checkpoint", "1m", "--downtime", "5m", "--restart", "2m"]
OWNED = GOLDEN / "owned-node.toml"


def regime(decision, name, accounting=""):
    return next(
        one
        for one in decision["regimes"]
        if (one["regime"], one["accounting"]) == (name, accounting)
    )


@pytest.mark.parametrize(
    ("options", "nodes"),
    [
        (["--fixed", "0"], 1), (["--fixed", "1"], 3), (["--fixed", "2"], 5),
        (["--fixed", "4.5"], 6), (["--fixed", "18"], 11), (["--fixed", "50"], 15),
        (["--fixed", "200"], 20), (["--fixed", "1000"], 24),
        *((["--fixed", "9", "--startup", f"{minutes}min"], nodes)
          for minutes, nodes in ((0, 8), (1, 8), (2, 7), (3, 6), (5, 6), (8, 5), (10, 4), (15, 4),
                                 (30, 3))),
        *((["--fixed", "9", "--price", str(2.10 * (1 - discount))], nodes)
          for discount, nodes in ((0.3, 9), (0.5, 11), (0.7, 13), (0.8, 14), (0.9, 17))),
        (["--fixed", "9", "--price", "55.04"], 2),
        (["--fixed", "9", "--price", "55.04", "--value-per-hour", "100"], 6),
        (["--fixed", "9", "--price", "20.74"], 3),
        (["--fixed", "9", "--price", "20.74", "--value-per-hour", "100"], 9),
        (["--fixed", "9", "--billing-unit", "60s"], 9),
        (["--fixed", "9", "--billing-unit", "1h"], 1),
        (["--fixed", "9", "--t1", "1min", "--billing-unit", "1s", "--billing-minimum", "60s"], 1),
    ],
)  # fmt: skip
def test_how_prices_move_the_best_scale(nodewise, options, nodes):
    found = nodewise(*LAW, *options).json
    by = "recommended" if "--value-per-hour" in options else "cheapest"
    assert found[by]["K"] == nodes


def test_golden_spot_at_three_scales(nodewise):
    decision = nodewise(*LONG, "--spot", "0.3", "--preempt", "0.05/h", *SPOT).json
    spot = regime(decision, "spot")
    assert (spot["cheapest"]["K"], spot["fastest"]["K"]) == (11, 19)
    rows = {row["K"]: row for row in spot["rows"]}
    golden = {8: (19.035369, 267.256575), 11: (16.273879, 259.242893), 25: (14.879203, 368.260282)}
    for nodes, (hours, cost) in golden.items():
        assert rows[nodes]["seconds"] / 3600 == pytest.approx(hours, abs=5e-7)
        assert rows[nodes]["cost"] == pytest.approx(cost, abs=5e-7)
    assert regime(decision, "on-demand")["cheapest"]["K"] == 8
    bill = spot["bill"]
    assert sum(bill.values()) == pytest.approx(spot["cheapest"]["cost"])
    assert min(bill["restarts"], bill["idle"], bill["saving"]) > 0
    assert "taxes" in decision["unpriced"]


MOVES = {
    0: ((11, 273.7), (13, 210.8), (17, 139.6), 25),
    0.01: ((10, 293.5), (12, 227.6), (16, 153.2), 23),
    0.05: ((9, 329.4), (11, 259.2), (14, 179.5), 19),
    0.2: ((7, 424.6), (8, 344.8), (11, 254.4), 13),
    1: ((4, 821.3), (4, 716.8), (5, 599.1), 6),
}


def test_golden_table_of_discounts_and_rates(nodewise):
    decision = nodewise(*LONG, "--preempt", "0.05/h", *SPOT).json
    found = {
        (round(one["per_second"] * 3600, 6), round(one["discount"], 6)): one
        for one in decision["spot"]["moves"]
    }
    assert len(found) == 15
    for rate, (*cells, fastest) in MOVES.items():
        for discount, (nodes, cost) in zip((0.5, 0.7, 0.9), cells, strict=True):
            one = found[rate, discount]
            assert one["K"] == nodes
            assert one["cost"] == pytest.approx(cost, abs=0.06)
            assert one["fastest_nodes"] == fastest
    extra = [found[rate, 0.7]["ignoring_extra"] for rate in (0.01, 0.05, 0.2, 1)]
    assert [100 * one for one in extra] == pytest.approx([0.3, 1.7, 10.4, 97.6], abs=0.06)


@pytest.mark.parametrize(
    ("fraction", "hours", "saving", "without"),
    [
        ("0.5", "100h", 0.187, 0.0057),
        ("0.3", "100h", 0.345, 0.0086),
        ("0.1", "100h", 0.571, 0.0121),
        ("0.5", "1h", 0.343, None),
        ("0.3", "1h", 0.597, None),
        ("0.1", "1h", 0.938, None),
    ],
)
def test_golden_break_even_rates(nodewise, fraction, hours, saving, without):
    options = ["--fixed", "9", "--t1", hours, "--spot", fraction, "--preempt", "0.05/h"]
    # the figures of the short job are of quicker restarts
    times = SPOT if hours == "100h" else ["--downtime", "3m", "--restart", "1m"]
    outlook = nodewise(*LAW, *options, *times).json["spot"]
    assert outlook["break_even_per_node_hour"] == pytest.approx(saving, rel=0.01)
    if without is not None:
        assert outlook["break_even_without_saving"] == pytest.approx(without, abs=6e-5)


def test_a_run_that_saves_nothing(nodewise):
    decision = nodewise(*LONG, "--preempt", "0.001/h", "--checkpoint", "none").json
    assert decision["spot"]["interval_seconds"] is None
    assert decision["spot"]["break_even_per_node_hour"] is None
    assert decision["spot"]["break_even_without_saving"] == pytest.approx(0.0086, abs=6e-5)
    assert regime(decision, "spot")["bill"]["saving"] == 0


def test_nodes_that_go_together_stop_a_gang_less_often(nodewise):
    """The rate of a gang is K^g times that of a node: g = 0 is the rate of the gang itself."""
    options = [*LONG, "--preempt", "0.05/h", *SPOT]
    costs = [
        regime(nodewise(*options, "--correlation", share).json, "spot")["rows"][15]["cost"]
        for share in ("1", "0.17", "0")
    ]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > 1.1 * costs[1]
    gang = nodewise(*LONG, "--preempt", "0.05/gang-h", *SPOT).json
    assert costs[2] == pytest.approx(regime(gang, "spot")["rows"][15]["cost"])
    together = nodewise(*options, "--correlation", "0.17").json
    assert "K^0.17" in regime(together, "spot")["condition"]
    alone = nodewise(*options).json
    better = "break_even_per_node_hour"
    assert together["spot"][better] > alone["spot"][better]
    for wrong in (["--correlation", "0.5"], ["--preempt", "0.4/gang-h", "--correlation", "0.5"],
                  ["--preempt", "0.05/h", "--correlation", "2"]):  # fmt: skip
        refused = nodewise(*LONG, *wrong)
        assert (refused.code, len(refused.err.splitlines())) == (2, 2)


def test_who_is_paid_while_nodes_are_missing(nodewise):
    options = [*LONG, "--preempt", "0.2/h", *SPOT]
    paid = {
        who: regime(nodewise(*options, "--while-down", who).json, "spot")
        for who in ("all", "survivors", "none")
    }
    rows = {who: one["rows"][7]["cost"] for who, one in paid.items()}
    assert rows["all"] > rows["survivors"] > rows["none"]
    lost = rows["all"] - rows["none"]
    assert rows["all"] - rows["survivors"] == pytest.approx(lost / 8)
    assert paid["none"]["bill"]["idle"] == 0


def test_a_rate_is_never_taken_for_another(nodewise):
    """A share a month is a thousand times less than the same figure by the hour."""
    share = nodewise(*LONG, "--preempt", "20%/month").json
    rates = [one["per_second"] for one in share["spot"]["moves"]]
    assert any(rate * 3600 == pytest.approx(3.1e-4, rel=0.02) for rate in rates)
    [doubt] = [one for one in share["checks"] if "rate" in one["rule"]]
    assert (doubt["verdict"], "that is a probability" in doubt["evidence"]) == ("unknown", True)
    absurd = nodewise(*LONG, "--preempt", "20/h").json
    assert [one["verdict"] for one in absurd["checks"] if "rate" in one["rule"]] == ["fail"]
    bare = nodewise(*LONG, "--preempt", "0.2")
    assert (bare.code, len(bare.err.splitlines())) == (2, 2)


def test_a_trace_gives_the_tail_and_the_deadline(nodewise):
    options = ["--fixed", "9", "--t1", "24h", "--trace", GOLDEN / "spot-trace.csv"]
    decision = nodewise(*LAW, *options, "--deadline", "5h").json
    spot = regime(decision, "spot")
    row = next(one for one in spot["rows"] if one["K"] == spot["cheapest"]["K"])
    assert row["median_seconds"] <= row["p95_seconds"]
    assert row["in_time"] >= 0.95
    assert "trace" in spot["condition"]
    strict = regime(nodewise(*LAW, *options, "--deadline", "160min").json, "spot")
    assert all(one["in_time"] < 0.95 for one in strict["rows"])
    assert strict["cheapest"] is None


def test_samples_of_nodes_say_something_about_gangs_that_were_there(nodewise, tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": [4, 4, 2, 3, 4, 4] * 9}))
    decision = nodewise(*LAW, "--fixed", "9", "--trace", path).json
    assert [row["K"] for row in regime(decision, "spot")["rows"]] == [1, 2, 3, 4]
    assert decision["recommended"]["K"] == 8
    path.write_text("{}")
    assert nodewise(*LAW, "--trace", path).code == 4


@pytest.mark.parametrize(("rent", "percent"), [("55.04", 26), ("24", 60), ("20.4", 71), ("16", 92)])
def test_golden_break_even_use(nodewise, rent, percent):
    options = ["--fixed", "9", "--own", OWNED, "--utilisation", "60%", "--price", rent]
    owned = nodewise(*LAW, *options).json["ownership"]
    assert 100 * owned["break_even_utilisation"] == pytest.approx(percent, abs=0.5)
    assert owned["per_useful_hour"] == pytest.approx(24.0, rel=0.01)


@pytest.mark.parametrize(
    ("line", "percent"),
    [("life_years = 3", 71), ("life_years = 5", 53), ("life_years = 6", 49),
     ("residual_share = 0", 70), ("staff_per_year = 40000", 72), ("capital = 450000", 75),
     ("per_kwh = 0.20", 64), ("pue = 1.58", 60.5)],
)  # fmt: skip
def test_golden_sensitivity_of_the_use(nodewise, tmp_path, line, percent):
    name = line.split(" = ")[0]
    lines = [old for old in OWNED.read_text().splitlines() if not old.startswith(name)]
    path = tmp_path / "node.toml"
    path.write_text("\n".join([*lines, line]))
    decision = nodewise(*LAW, "--own", path, "--utilisation", "60%", "--price", "24").json
    found = decision["ownership"]["break_even_utilisation"]
    assert 100 * found == pytest.approx(percent, abs=0.55)


def test_both_accounts_of_owned_nodes_are_shown_with_their_question(nodewise, tmp_path):
    path = tmp_path / "node.toml"
    path.write_text(OWNED.read_text().replace("idle_watts = 2500", "idle_watts = 0"))
    options = ["--fixed", "9", "--own", path, "--utilisation", "60%"]
    decision = nodewise(*LAW, *options).json
    marginal, full = (regime(decision, "owned", how) for how in ("marginal", "full"))
    assert marginal["cheapest"]["K"] == 10
    assert full["cheapest"]["K"] < 5
    assert "idle" in marginal["condition"]
    assert "queue" in full["condition"]
    assert regime(nodewise(*LAW, "--fixed", "9").json, "owned")["cheapest"]["K"] == 10


def test_a_commitment_pays_above_what_it_leaves(nodewise):
    for use, applies in (("70%", True), ("50%", False)):
        options = ["--fixed", "9", "--commit", "40%", "--utilisation", use]
        committed = regime(nodewise(*LAW, *options).json, "on-demand", "committed")
        assert committed["applies"] is applies
        assert committed["fraction"] == pytest.approx(0.6 / (float(use[:-1]) / 100))


@pytest.mark.parametrize(("shared_watts", "greenest"), [("0", 1), ("500", 5)])
def test_golden_greenest_scale(nodewise, shared_watts, greenest):
    options = ["--fixed", "9", "--watts", "350", "--shared-watts", shared_watts]
    decision = nodewise(*LAW, *options, "--grid", "FRA").json
    chosen = [decision[name]["K"] for name in ("cheapest", "fastest", "greenest")]
    assert chosen == [8, 25, greenest]
    assert decision["energy"]["basis"] == "modelled"
    assert "France, 2023" in decision["energy"]["grid"]
    row = decision["rows"][7]
    assert row["grams"] == pytest.approx(row["energy_joules"] / 3.6e6 * 56.0)
    ranged = nodewise(*LAW, "--watts", "100..350").json["rows"][7]
    assert ranged["energy_low"] < ranged["energy_joules"] < ranged["energy_high"]
    assert (
        "J interval"
        in nodewise(*[one for one in LAW if one != "--json"], "--watts", "9..35", "-v").out
    )


def test_energy_and_carbon_are_gates(nodewise):
    watts = ["--fixed", "9", "--watts", "350", "--grid", "FRA"]
    # K=2 takes 0.362 kWh and 20.2 g
    for budget in ("0.37kWh", "1332kJ", "20.5g"):
        decision = nodewise(*LAW, *watts, "--budget", budget).json
        assert decision["recommended"]["K"] == 2
        assert "modelled" in decision["rows"][2]["excluded_because"]
    both = nodewise(*LAW, *watts, "--budget", "20.5g", "--budget", "5")
    assert (both.code, both.json["recommended"]["K"]) == (1, None)
    unknown = nodewise(*LAW, "--budget", "5g")
    assert (unknown.code, len(unknown.err.splitlines())) == (2, 2)


def test_energy_is_a_column_that_nobody_calls_measured(nodewise):
    table = "K,time_s,energy_j,work\n1,100,900,10\n2,60,700,10\n4,50,950,10\n"
    decision = nodewise("decide", "-", "--price", "1", "--json", stdin=table).json
    assert decision["energy"]["basis"] == "imported"
    assert decision["greenest"]["K"] == 2
    assert decision["rows"][1]["energy_per_work"] == 70
    text = nodewise("decide", "-", "--price", "1", "-v", stdin=table).out
    assert "J imported" in text
    assert "greenest" in text


@pytest.mark.parametrize(
    ("minutes", "nodes", "point"), [("9", 11, 9), ("7.8", 14, 12), ("7.2", 18, 14)]
)
def test_golden_deadlines_with_confidence(nodewise, minutes, nodes, point):
    options = ["--fixed", "9", "--deadline", f"{minutes}min"]
    decision = nodewise(*LAW, *options, "--noise", "5%", "--confidence", "0.95").json
    assert decision["recommended"]["K"] == nodes
    assert nodewise(*LAW, *options).json["recommended"]["K"] == point
    assert 0.49 < decision["rows"][point - 1]["deadline_probability"] < 0.70
    relaxed = nodewise(*LAW, *options, "--noise", "5%", "--confidence", "0.5").json
    assert relaxed["recommended"]["K"] <= nodes
    assert nodewise(*LAW, "--deadline", "6.6min", "--noise", "5%").code == 1


def test_a_price_from_the_shipped_list_is_kept_in_the_result(nodewise):
    command = ["decide", "--law", "s=0.03,c=0.0015", "--instance", "aws:p5.48xlarge", "--json"]
    decision = nodewise(*command, "--fixed", "9").json
    assert decision["price"]["per_node_hour"] == 55.04
    assert decision["cheapest"]["K"] == 2
    assert regime(decision, "spot")["cheapest"]["K"] == 3
    plain, spot = decision["records"]
    assert (plain["option"], spot["option"]) == ("on-demand", "spot")
    assert spot["value"] == pytest.approx(20.74, abs=0.005)
    assert {"value", "currency", "unit", "includes", "source", "date", "region"} <= set(plain)
    assert "2026-08-22" in decision["price"]["source"]
    rules = {one["rule"]: one["verdict"] for one in decision["checks"]}
    assert rules["spot price against on-demand"] == "pass"
    assert nodewise(*command, "--price", "3").code == 2


def test_own_prices_age_and_must_be_dated(nodewise, tmp_path):
    path = tmp_path / "prices.toml"
    text = (GOLDEN / "prices.toml").read_text()
    command = ["decide", "--law", "s=0.03,c=0.0015", "--fixed", "9", "--json"]
    command += ["--prices", path, "--instance", "ours:big"]
    for days, verdict in ((10, "pass"), (91, "fail"), (-2, "fail")):
        day = today() - timedelta(days=days)
        path.write_text(text.replace("2026-08-22", day.isoformat()))
        decision = nodewise(*command).json
        found = [one["verdict"] for one in decision["checks"] if "price date" in one["rule"]]
        assert found == [verdict, verdict]
        assert decision["cheapest"]["K"] == 8
    path.write_text(text.replace("date = 2026-08-22\n", ""))
    undated = nodewise(*command)
    assert (undated.code, len(undated.err.splitlines())) == (4, 2)
    assert "`date`" in undated.err
    path.write_text(text.replace("0.63", "2.63"))
    dear = nodewise(*command, "--preempt", "0.05/h").json
    rules = {one["rule"]: one["verdict"] for one in dear["checks"]}
    assert rules["spot price against on-demand"] == "fail"
    assert not regime(dear, "spot")["applies"]


def test_a_catalogue_needs_its_day(nodewise, tmp_path):
    path = tmp_path / "aws.csv"
    path.write_text("InstanceType,Region,Price,SpotPrice\nbig,here,2.1,0.63\n")
    command = ["decide", "--law", "s=0.03,c=0.0015", "--instance", "aws:big", "--json"]
    assert nodewise(*command, "--prices", path).code == 4
    assert nodewise(*command, "--prices", f"{path}@soon").code == 2
    decision = nodewise(*command, "--prices", f"{path}@2026-08-22").json
    assert regime(decision, "spot")["fraction"] == pytest.approx(0.3)
    assert nodewise("decide", "--law", "s=0.1", "--prices", path).code == 2


def test_every_line_item_is_named(nodewise):
    options = ["--fixed", "9", "--startup", "2min", "--storage", "0.5", "--egress", "500@aws"]
    decision = nodewise(*LAW, *options, "--billing-unit", "60s").json
    bill = decision["rows"][7]["bill"]
    assert bill["egress"] == pytest.approx(45.0)
    assert min(bill[item] for item in ("compute", "startup", "fixed", "storage", "egress")) > 0
    assert sum(bill.values()) == pytest.approx(decision["rows"][7]["cost"])
    left = ["traffic between zones", "licences and support", "taxes"]
    assert decision["unpriced"] == left
    bare = nodewise(*LAW).json["unpriced"]
    assert bare == [
        "start-up and tear-down", "an overhead by the hour", "storage", "egress", *left,
    ]  # fmt: skip


def test_ranges_and_what_would_flip_it(nodewise):
    options = ["--fixed", "9", "--price", "2.1..3.5"]
    decision = nodewise(*LAW, *options).json
    shares = {row["K"]: row["probability_cheapest"] for row in decision["rows"]}
    assert sum(shares.values()) == pytest.approx(1)
    assert decision["ranges"] == {"price": {"low": 2.1, "high": 3.5}}
    flips = {(one["input"], one["side"]): one["K"] for one in decision["flips"]}
    assert flips["price", "above"] < decision["recommended"]["K"]
    assert decision["tornado"][0]["input"] in INPUTS
    text = nodewise(*[one for one in LAW if one != "--json"], *options, "-v").out
    for words in ("Least regret over the ranges", "Sensitivity",
                  "Price of a node, now $2.800"):  # fmt: skip
        assert words in text


INPUTS = ("price", "fixed", "s", "c")


def test_every_number_of_a_price_may_be_a_range(nodewise):
    options = ["--fixed", "5..12", "--startup", "1..5min", "--storage", "0.1..0.5",
               "--value-per-hour", "0..10", "--spot", "20..50%", "--preempt", "0.01..0.2/h",
               "--checkpoint", "30s..2min", "--downtime", "2..20min",
               "--restart", "1..5min"]  # fmt: skip
    decision = nodewise(*LAW, *options).json
    assert len(decision["ranges"]) == 9
    moved = {one["input"] for one in decision["tornado"] if one["is_range"]}
    assert moved == set(decision["ranges"])


@pytest.mark.parametrize(
    "wrong",
    [
        ["--fixed", "-9"], ["--startup", "-1s"], ["--storage", "-1"], ["--spot", "1.2"],
        ["--preempt", "0.05"], ["--preempt", "-1/h"], ["--preempt", "120%/month"],
        ["--price", "3..2"], ["--price", "2..x"], ["--watts", "5..x"],
        ["--pue", "0.5", "--watts", "9"],
        ["--budget", "3apples"], ["--set", "x"], ["--set", "luck=1"],
        ["--grid", "Nowhere"], ["--own", "none.toml"], ["--own", "2"], ["--egress", "5"],
        ["--egress", "x@aws"], ["--egress", "5@nimbus"], ["--commit", "100%"],
        ["--trace", "none.csv"], ["--checkpoint", "never"],
    ],
)  # fmt: skip
def test_what_cannot_be_is_two_lines(nodewise, wrong):
    outcome = nodewise(*LAW, *wrong)
    assert outcome.code in (2, 4)
    assert len(outcome.err.splitlines()) == 2
    assert outcome.out == ""


def test_cost_of_a_million_tokens(nodewise):
    table = "K,time_s\n1,3600\n2,2000\n"
    command = ["decide", "-", "--price", "2", "--json"]
    decision = nodewise(*command, "--work", "4e6tokens", stdin=table).json
    assert decision["rows"][0]["cost_per_million_tokens"] == pytest.approx(0.5)
    column = "K,time_s,work\n1,3600,4000000\n2,2000,4000000\n"
    assert nodewise(*command, "--work", "tokens", stdin=column).json["rows"][0][
        "cost_per_million_tokens"
    ] == pytest.approx(0.5)
    assert "cost/Mtoken" in nodewise(*command[:-1], "--work", "tokens", "-v", stdin=column).out
    assert nodewise(*command, "--work", "-3", stdin=table).code == 2


@pytest.mark.slow
def test_a_page_and_a_chart_take_the_whole_question(nodewise, tmp_path):
    page = tmp_path / "page.html"
    table = GOLDEN / "step-times.csv"
    asked = ["--instance", "aws:p4d.24xlarge", "--fixed", "5..9", "--preempt", "0.05/h"]
    asked += ["--own", OWNED, "--grid", "USA"]
    assert nodewise("report", table, *asked, "-o", page).code == 0
    again = nodewise("report", page, "-o", tmp_path / "again.html")
    assert again.code == 0, again.err
    assert "Not priced" in page.read_text()
    chart = nodewise("plot", table, "regimes", *asked, "-o", tmp_path / "regimes.json")
    assert chart.code == 0, chart.err


def test_shipped_prices_that_have_aged_are_a_failing_check_and_no_more(nodewise, monkeypatch):
    command = ["decide", "--law", "s=0.03,c=0.0015", "--instance", "aws:p5.48xlarge", "--json"]
    fresh = nodewise(*command)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1830000000")  # 2027-12-28
    old = nodewise(*command)
    assert (fresh.code, old.code) == (0, 0)
    verdicts = [
        {one["verdict"] for one in decision.json["checks"] if "price date" in one["rule"]}
        for decision in (fresh, old)
    ]
    assert verdicts == [{"pass"}, {"fail"}]
    assert fresh.json["rows"] == old.json["rows"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "tomorrow")
    assert nodewise(*command).code == 2
