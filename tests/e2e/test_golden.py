"""The figures of the worked examples, to the digits that they print, through the command line."""

import pytest

from tests.conftest import GOLDEN

SCALING = [  # K, mean, std, S, E: Output 5.2.1
    (1, 1.0047, 0.0091, 1.00, 1.000),
    (2, 0.5343, 0.0098, 1.88, 0.940),
    (4, 0.3032, 0.0034, 3.31, 0.828),
    (8, 0.1884, 0.0039, 5.33, 0.667),
    (16, 0.1392, 0.0026, 7.22, 0.451),
    (32, 0.1189, 0.0026, 8.45, 0.264),
    (64, 0.1140, 0.0022, 8.82, 0.138),
]
COSTS = [  # K, T, S, E, cost, communication %, idle %: Output 41.7.2
    (1, 800.0, 1.00, 1.00, 0.711, 0.0, 0.0),
    (2, 430.0, 1.86, 0.93, 0.764, 4.2, 2.8),
    (4, 260.0, 3.08, 0.77, 0.924, 13.1, 10.0),
    (8, 206.0, 3.88, 0.49, 1.465, 28.2, 23.3),
    (16, 235.0, 3.40, 0.21, 3.342, 40.4, 38.3),
]
MARGINAL = [(1, 2, 0.86, 0.053, 16.13), (2, 4, 1.22, 0.160, 7.60), (4, 8, 0.81, 0.540, 1.49),
            (8, 16, -0.48, 1.877, -0.26)]  # fmt: skip
RUBRIC = [  # K, T, S, E, quality, cost, cost/work, work/$: Output 41.6.1
    (1, 3600, 1.00, 1.000, 0.871, 1.00, "8.333e-07", 1200000),
    (2, 1880, 1.91, 0.957, 0.871, 1.04, "8.704e-07", 1148936),
    (4, 1010, 3.56, 0.891, 0.871, 1.12, "9.352e-07", 1069307),
    (8, 560, 6.43, 0.804, 0.871, 1.24, "1.037e-06", 964286),
    (16, 340, 10.59, 0.662, 0.870, 1.51, "1.259e-06", 794118),
    (32, 250, 14.40, 0.450, 0.871, 2.22, "1.852e-06", 540000),
]
TEXTBOOK = [  # K, S, E %, hours, cost: Output 3.9.1
    (1, 1.00, 100.00, 1.000, 11.100),
    (2, 1.94, 96.81, 0.516, 6.818),
    (4, 3.61, 90.25, 0.277, 4.820),
    (8, 6.18, 77.28, 0.162, 4.173),
    (16, 8.84, 55.25, 0.113, 4.819),
    (24, 9.53, 39.71, 0.105, 6.232),
    (32, 9.36, 29.26, 0.107, 8.139),
    (48, 8.28, 17.26, 0.121, 13.254),
    (64, 7.16, 11.19, 0.140, 20.027),
]
LAW = ["decide", "--law", "s=0.03,c=0.0015", "--t1", "1h", "--price", "2.10", "--max-nodes", "64"]


def by_scale(rows):
    return {row["K"]: row for row in rows}


def printed(value: float, digits: int) -> float:
    return round(value, digits)


def test_scaling_table(nodewise):
    result = nodewise("scale", GOLDEN / "step-times.csv", "--json").json
    rows = by_scale(result["rows"])
    for nodes, mean, std, speedup, efficiency in SCALING:
        row = rows[nodes]
        assert printed(row["seconds"], 4) == mean
        assert printed(row["std"], 4) == std
        assert printed(row["speedup"], 2) == speedup
        assert printed(row["efficiency"], 3) == efficiency
    assert result["bend"]["first_below"] == 8
    assert result["bend"]["threshold"] == 0.70


def test_cost_analysis_with_its_marginal_table(nodewise):
    decision = nodewise("decide", GOLDEN / "breakdown.csv", "--price", "3.20", "--json").json
    ledger = by_scale(nodewise("attribute", GOLDEN / "breakdown.csv", "--json").json["rows"])
    rows = by_scale(decision["rows"])
    for nodes, seconds, speedup, efficiency, cost, comm, idle in COSTS:
        row = rows[nodes]
        assert printed(row["seconds"], 1) == seconds
        assert printed(row["speedup"], 2) == speedup
        assert printed(row["efficiency"], 2) == efficiency
        assert printed(row["cost"], 3) == cost
        shares = {loss["cause"]: 100 * loss["share"] for loss in ledger[nodes]["causes"]}
        assert printed(shares.get("communication", 0.0), 1) == comm
        assert printed(shares.get("idle", 0.0), 1) == idle
    for step, (low, high, speedup, cost, ratio) in zip(decision["marginal"], MARGINAL, strict=True):
        assert (step["from"], step["to"]) == (low, high)
        assert printed(step["speedup"], 2) == speedup
        assert printed(step["cost"], 3) == cost
        assert printed(step["speedup_per_dollar"], 2) == ratio
    assert (decision["cheapest"]["K"], decision["fastest"]["K"]) == (1, 8)
    assert printed(decision["price_of_speed"]["cost_ratio"], 2) == 2.06
    assert printed(decision["price_of_speed"]["speed_ratio"], 2) == 3.88


def test_regimes_at_eight_nodes(nodewise):
    decision = nodewise("decide", GOLDEN / "breakdown.csv", "--price", "3.20", "--json").json
    costs = {one["regime"]: by_scale(one["rows"])[8]["cost"] for one in decision["regimes"]}
    assert costs == pytest.approx(
        {"on-demand": 1.464888888888889, "spot": 0.43946666666666667, "owned": 0.8789333333333333}
    )
    assert "do not move" in decision["cheaper_nodes"]


def test_ledger_at_eight_nodes(nodewise):
    result = nodewise("attribute", GOLDEN / "breakdown.csv", "--json").json
    row = by_scale(result["rows"])[8]
    folds = {loss["cause"]: loss["folds"] for loss in row["causes"]}
    assert printed(folds["communication"], 2) == 2.25
    assert printed(folds["idle"], 2) == 1.86
    assert printed(row["lost_folds"], 2) == 4.12
    assert sum(folds.values()) == pytest.approx(8 - row["speedup"], rel=1e-12)
    assert result["dominant_cause"] == "communication"


def test_rubric(nodewise):
    decision = nodewise("decide", GOLDEN / "rubric.csv", "--work", "1200000", "--json").json
    rows = by_scale(decision["rows"])
    for nodes, seconds, speedup, efficiency, quality, cost, per_work, per_dollar in RUBRIC:
        row = rows[nodes]
        assert printed(row["seconds"], 0) == seconds
        assert printed(row["speedup"], 2) == speedup
        assert printed(row["efficiency"], 3) == efficiency
        assert row["quality"] == quality
        assert printed(row["cost"], 2) == cost
        assert f"{row['cost_per_work']:.3e}" == per_work
        assert printed(row["work_per_dollar"], 0) == per_dollar
    assert decision["cheapest"]["K"] == 1
    assert decision["quality"]["held"] is True
    assert printed(decision["quality"]["max_drift"], 3) == 0.001
    assert decision["recommended"]["K"] == 8


def test_rubric_law(nodewise):
    scaling = nodewise("scale", GOLDEN / "rubric.csv", "--at-efficiency", "0.50", "--json").json
    amdahl = scaling["laws"]["amdahl"]
    assert printed(amdahl["s"], 4) == 0.0376
    assert printed(amdahl["ceiling"], 1) == 26.6
    assert printed(amdahl["speedup"][-1], 2) == 14.77
    assert printed(scaling["efficiency_falls"]["K"], 3) == 27.587
    assert scaling["bend"]["last_above"] == 8


def test_a_degraded_row_is_shown_flagged_and_never_recommended(nodewise):
    degraded = (GOLDEN / "rubric.csv").read_text().replace("250.0,32.0,0.871", "250.0,32.0,0.860")
    decision = nodewise("decide", "-", "--json", stdin=degraded).json
    assert [row["K"] for row in decision["rows"] if row["excluded"]] == [32]
    assert decision["recommended"]["K"] == 8
    assert decision["fastest"]["K"] == 16
    assert decision["quality"]["held"] is False
    text = nodewise("decide", "-", "-v", stdin=degraded).out
    assert "excluded: K=32: quality drifts by -0.011, tolerance 0.005." in text


def test_textbook_curve(nodewise):
    decision = nodewise(*LAW, "--fixed", "9", "--json").json
    rows = by_scale(decision["rows"])
    for nodes, speedup, efficiency, hours, cost in TEXTBOOK:
        row = rows[nodes]
        assert printed(row["speedup"], 2) == speedup
        assert printed(100 * row["efficiency"], 2) == efficiency
        assert abs(row["seconds"] / 3600 - hours) <= 0.00051
        assert printed(row["cost"], 3) == cost
    assert decision["cheapest"]["K"] == 8
    assert printed(decision["cheapest"]["cost"], 3) == 4.173
    assert decision["fastest"]["K"] == 25
    assert printed(decision["fastest"]["cost"], 3) == 6.445
    assert printed(decision["price_of_speed"]["extra_cost"], 3) == 2.272
    assert decision["first_unfavourable_doubling"] == [8, 16]
    saved = [
        (
            step["from"],
            step["to"],
            printed(step["seconds_saved"] / 3600, 4),
            printed(step["cost"], 4),
        )
        for step in decision["doublings"][:5]
    ]
    assert saved == [
        (1, 2, 0.4835, -4.2822),
        (2, 4, 0.2395, -1.9980),
        (4, 8, 0.1152, -0.6466),
        (8, 16, 0.0486, 0.6460),
        (16, 32, 0.0063, 3.3200),
    ]


@pytest.mark.parametrize(
    ("changed", "cheapest", "cost", "fastest", "price_of_speed"),
    [
        (["--fixed", "4.5"], 6, 3.40575, 25, 2.56785),
        (["--fixed", "9", "--law", "s=0.03,c=0.0045"], 6, 4.6260, 15, 1.7595),
        (["--fixed", "9", "--deadline", "0.15h"], 9, 4.1788, 25, 2.2664),
    ],
)
def test_textbook_knobs(nodewise, changed, cheapest, cost, fastest, price_of_speed):
    decision = nodewise(*LAW, *changed, "--json").json
    assert decision["cheapest"]["K"] == decision["recommended"]["K"] == cheapest
    assert decision["cheapest"]["cost"] == pytest.approx(cost, abs=5e-7)
    assert decision["fastest"]["K"] == fastest
    assert decision["price_of_speed"]["extra_cost"] == pytest.approx(price_of_speed, abs=5e-7)


def test_full_precision_where_the_reference_is_at_hand(nodewise, shared):
    """Every figure that our output shares with the reference, to twelve digits."""
    import json

    golden = json.loads((shared / "golden" / "golden.json").read_text())
    scaling = by_scale(nodewise("scale", GOLDEN / "step-times.csv", "--json").json["rows"])
    for row in golden["scaling_table"]["rows"]:
        ours = scaling[row["K"]]
        mine = [ours["seconds"], ours["std"], ours["speedup"], ours["efficiency"]]
        assert mine == pytest.approx([row["mean"], row["std"], row["S"], row["E"]], rel=1e-12)
    costs = nodewise("decide", GOLDEN / "breakdown.csv", "--price", "3.2", "--json").json
    for row in golden["cost_analysis"]["rows"]:
        ours = by_scale(costs["rows"])[row["K"]]
        mine = [ours["seconds"], ours["speedup"], ours["efficiency"], ours["cost"]]
        assert mine == pytest.approx([row["T"], row["S"], row["E"], row["cost"]], rel=1e-12)
    for ours, row in zip(costs["marginal"], golden["cost_analysis"]["marginal"], strict=True):
        mine = [ours["speedup"], ours["cost"], ours["speedup_per_dollar"]]
        assert mine == pytest.approx([row["dS"], row["dcost"], row["S_per_dollar"]], rel=1e-12)
    textbook = nodewise(*LAW, "--fixed", "9", "--json").json
    for row in golden["cost_optimal"]["rows"]:
        ours = by_scale(textbook["rows"])[row["K"]]
        mine = [ours["speedup"], ours["efficiency"], ours["seconds"] / 3600, ours["cost"]]
        assert mine == pytest.approx([row["S"], row["E"], row["hours"], row["cost"]], rel=1e-12)
    rubric = nodewise("decide", GOLDEN / "rubric.csv", "--work", "1200000", "--json").json
    for row in golden["rubric"]["rows"]:
        ours = by_scale(rubric["rows"])[row["K"]]
        mine = [ours["cost"], ours["cost_per_work"], ours["work_per_dollar"]]
        theirs = [row["cost"], row["cost_per_work"], row["work_per_dollar"]]
        assert mine == pytest.approx(theirs, rel=1e-12)
