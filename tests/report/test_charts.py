"""Figures show the numbers of the structs, in the palette alone, and only what the study has."""

import copy
import functools
import json
import math
import re
from typing import Any

import altair as alt
import jsonschema
import msgspec
import pytest
import vl_convert

from nodewise.base.interval import Interval
from nodewise.decide.decide import decide_law
from nodewise.decide.energy import NodePower, Site, find_grid
from nodewise.decide.inputs import Question, with_range
from nodewise.decide.prices.bill import Price
from nodewise.decide.prices.files import shipped_grids
from nodewise.explain.compare import compare as compare_studies
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.report.charts.draw import CHARTS, compare, draw, figures
from nodewise.report.charts.energy import energy
from nodewise.report.charts.look import PALETTE, Figure, sized
from nodewise.report.charts.money import cost, sensitivity
from nodewise.report.charts.speedup import speedup
from nodewise.report.findings import Findings, find
from nodewise.study.study import Run, Study
from nodewise.study.table import parse_table
from tests.conftest import DATA, golden_study

PRICE = Price(per_node_hour=2.10, fixed_per_hour=9.0, source="list, 2026-08")
SITE = Site(
    power=NodePower(idle_watts=100, busy_watts=350),
    shared_watts=300.0,
    grid=find_grid(shipped_grids(), "FRA"),
)
TEXTBOOK = Law(s=0.03, c=0.0015, base_seconds=3600.0)
# The whole chart at once: altair builds every part as an object and checks each on its own.
VEGA_LITE = jsonschema.Draft7Validator(alt.load_schema())
EVIL = "<script>alert('1')</script> " + "a study with a long name " * 8


def table(name: str) -> Study:
    return parse_table((DATA / f"{name}.csv").read_text(), name)


def broken_at_eight() -> Study:
    good = simulate(
        PlantedTruth(law=Law(s=0.02, c=0.001), scales=(1, 2, 4), rounds=3, detail="stages")
    )
    lost = tuple(Run(nodes=8, round=r, seconds=3.0, outcome="out of memory") for r in range(3))
    return msgspec.structs.replace(good, name=EVIL, runs=(*good.runs, *lost))


WEAK = Law(s=0.1, c=0.02, growth="log2", regime="weak")
STUDIES = {
    "breakdown": lambda: golden_study("breakdown"),
    "rubric": lambda: golden_study("rubric"),
    "step-times": lambda: golden_study("step-times"),
    "ddp-step": lambda: golden_study("ddp-step"),
    "weak": lambda: simulate(PlantedTruth(law=WEAK, detail="ranks", scales=(1, 2, 4, 8))),
    "two": lambda: parse_table("K,time_s\n2,10\n4,6\n", "two"),
    "broken": broken_at_eight,
}


EVERY = tuple(STUDIES)
STUDIES["slow-node"] = lambda: table("ddp-slow-node")


@functools.cache
def answered(name: str, price: Price = PRICE) -> tuple[Study, Findings]:
    study = STUDIES[name]()
    return study, find(study, Question(price=price, site=SITE), ())


@functools.cache
def drawn(name: str) -> dict[str, Figure]:
    return {one.name: one for one in figures(*answered(name))}


@functools.cache
def spec_of(name: str, chart: str) -> dict[str, Any]:
    return json.loads(json.dumps(sized(drawn(name)[chart].chart)))


def every_value(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return [one for value in node.values() for one in every_value(value)]
    if isinstance(node, list):
        return [one for value in node for one in every_value(value)]
    return [node]


def marks_of(spec: dict[str, Any], style: str) -> list[dict[str, Any]]:
    """The layers with one style of mark, in all panels."""
    panels = spec.get("vconcat", [spec])
    layers = [layer for panel in panels for layer in panel["layer"]]
    return [
        layer
        for layer in layers
        if isinstance(layer["mark"], dict) and layer["mark"].get("style") == style
    ]


def data_of(spec: dict[str, Any], layer: dict[str, Any]) -> list[dict[str, Any]]:
    data = layer["data"]
    return data["values"] if "values" in data else spec["datasets"][data["name"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_every_figure_is_valid_finite_and_drawn_in_the_palette(name: str):
    allowed = {*PALETTE.values(), "none", "transparent"}
    for chart in drawn(name):
        spec = spec_of(name, chart)
        VEGA_LITE.validate(spec)
        assert all(math.isfinite(v) for v in every_value(spec) if isinstance(v, float)), chart
        svg = vl_convert.vegalite_to_svg(json.dumps(spec))
        colors = set(re.findall(r'(?:fill|stroke)="([^"]*)"', svg))
        assert colors <= allowed, (chart, colors - allowed)


@pytest.mark.parametrize("name", EVERY)
def test_every_figure_says_the_regime_and_its_finding(name: str):
    study, _ = answered(name)
    for one in drawn(name).values():
        subtitle = " ".join(one.chart["title"]["subtitle"])
        assert f"{study.regime} scaling" in subtitle
        assert one.rows
        assert re.search(r"\d", one.caption) or one.name == "payment"
        assert one.caption.endswith(".")
        assert one.caption in one.description
        for row in one.rows:
            assert all(v is None or isinstance(v, str | int | float) for v in row.values())
            assert all(math.isfinite(v) for v in row.values() if isinstance(v, float))


def test_each_name_has_its_figure_and_each_color_its_role():
    assert set(drawn("ddp-step")) == set(CHARTS) - {"roofline"}  # its runs tell no operations
    assert len(set(PALETTE.values())) == len(PALETTE)
    assert all(re.fullmatch("#[0-9a-f]{6}", color) for color in PALETTE.values())
    assert draw("speedup", *answered("rubric")) is not None


def test_speedup_rows_are_those_of_the_worked_example():
    rows = drawn("step-times")["speedup"].rows
    assert [row["K"] for row in rows] == [1, 2, 4, 8, 16, 32, 64]
    assert [round(row["speedup"], 2) for row in rows] == [1.0, 1.88, 3.31, 5.33, 7.22, 8.45, 8.82]
    assert rows[3]["low"] < rows[3]["speedup"] < rows[3]["high"]
    assert "efficiency falls below 0.70 at K=8" in drawn("step-times")["speedup"].caption


def test_measured_points_are_the_rows_and_predicted_ones_lie_beyond():
    study, found = answered("step-times")
    spec = spec_of("step-times", "speedup")
    (points,), (beyond,) = marks_of(spec, "measured"), marks_of(spec, "predicted")
    shown = {row["K"]: row["speedup"] for row in data_of(spec, points)}
    assert shown == {row.nodes: row.speedup for row in found.scaling.rows}
    assert all(row["K"] > study.scales[-1] for row in data_of(spec, beyond))
    assert marks_of(spec, "interval") and len(marks_of(spec, "cap")) == 2
    ticks = points["encoding"]["x"]["axis"]["values"]
    assert ticks == [*study.scales, 2 * study.scales[-1]]  # the predicted one too


def test_a_strong_study_has_the_ideal_line_and_a_weak_one_never():
    strong = spec_of("step-times", "speedup")
    (line,) = marks_of(strong, "ideal")
    assert all(row["K"] == row["speedup"] for row in data_of(strong, line))
    for chart in drawn("weak"):
        spec = spec_of("weak", chart)
        assert "S = K" not in json.dumps(spec)
        for layer in marks_of(spec, "ideal"):
            values = data_of(spec, layer)
            assert len(values) == 1  # flat
            assert set(values[0].values()) == {1.0}


def test_the_waterfall_goes_from_the_ideal_to_the_measured_speedup():
    figure = drawn("breakdown")["ledger"]
    folds = {row["cause"]: row["speedup lost"] for row in figure.rows}
    assert round(folds["communication"], 2) == 6.47  # 16 * 95 s / 235 s
    assert round(folds["idle"], 2) == 6.13
    assert figure.title == "12.60x of 16x lost at K=16"
    spec = spec_of("breakdown", "ledger")
    bars = [row for rows in spec["datasets"].values() for row in rows if "bar" in row]
    ends = {row["bar"]: row["to"] for row in bars}
    assert math.isclose(ends["idle"], 800 / 235)


def test_stages_and_time_line_show_the_seconds_of_the_ranks():
    study, _ = answered("slow-node")
    rows = drawn("slow-node")["timeline"].rows
    last = [run.ranks[7].stages["compute"] for run in study.at(8)]
    assert len(rows) == 8
    assert math.isclose(rows[7]["compute"], sum(last) / len(last))
    assert "rank 7 is ready last" in drawn("slow-node")["timeline"].caption
    assert [row["communication"] for row in drawn("breakdown")["stages"].rows] == [
        0,
        18,
        34,
        58,
        95,
    ]


def test_causes_and_stages_of_one_name_have_one_color():
    spec = spec_of("slow-node", "ledger")
    assert PALETTE["communication"] in every_value(spec)
    assert PALETTE["communication"] in every_value(spec_of("slow-node", "stages"))


def test_cost_marks_the_textbook_optimum_and_the_price_of_speed():
    exact = PlantedTruth(law=TEXTBOOK, scales=tuple(range(1, 65)), rounds=1, noise=0.0)
    figure = cost(find(simulate(exact), Question(price=PRICE), ()).decision)
    assert "The cheapest scale is K=8: $4.173" in figure.caption
    assert "K=25, the fastest" in figure.caption and "$2.272 more" in figure.caption
    spec = sized(figure.chart)
    alt.Chart.from_json(json.dumps(spec))  # by the schema
    marks = spec["datasets"]["marks"]
    assert [(row["K"], row["role"].split(":")[0]) for row in marks] == [
        (8, "cheapest (K*)"), (22, "balanced"), (25, "fastest"),
    ]  # fmt: skip
    assert math.isclose(marks[2]["shown"] - marks[0]["shown"], 2.272, abs_tol=0.001)


def test_rows_of_money_equal_the_decision():
    _, found = answered("rubric")
    rows = drawn("rubric")["cost"].rows
    assert [row["cost"] for row in rows] == [row.cost for row in found.decision.rows]
    frontier = [row["K"] for row in drawn("rubric")["pareto"].rows if row["on the frontier"]]
    assert tuple(frontier) == found.decision.frontier
    steps = drawn("rubric")["marginal"].rows
    assert [row["speedup gained"] for row in steps] == [
        step.speedup for step in found.decision.marginal
    ]
    assert [row["quality"] for row in drawn("rubric")["triangle"].rows][4] == 0.87


def test_a_price_that_is_off_moves_the_cheapest_scale_as_a_new_decision_would():
    decision = decide_law(TEXTBOOK, 64, Question(price=PRICE))
    rows = sensitivity(decision).rows
    for row in rows:
        changed = {"node price": "per_node_hour", "overhead": "fixed_per_hour"}[row["what"]]
        price = msgspec.structs.replace(PRICE, **{changed: getattr(PRICE, changed) * row["factor"]})
        again = decide_law(TEXTBOOK, 64, Question(price=price))
        assert again.cheapest.nodes == row["cheapest K"]
        assert math.isclose(again.row(8).cost, row["cost"])


def test_given_ranges_are_drawn_instead_of_a_guess():
    question = with_range(Question(price=PRICE), "fixed", Interval(2.0, 20.0))
    decision = decide_law(TEXTBOOK, 64, question)
    chart = sensitivity(decision)
    by_name = {row["what"]: row for row in chart.rows}
    given = by_name["overhead"]
    assert (given["given"], given["from"], given["to"]) == ("a range", "$2.000", "$20.000")
    for end, fixed in (("from", 2.0), ("to", 20.0)):
        price = msgspec.structs.replace(PRICE, fixed_per_hour=fixed)
        again = decide_law(TEXTBOOK, 64, Question(price=price)).cheapest
        assert (again.nodes, again.cost) == (
            given[f"cheapest K {end}"], pytest.approx(given[f"least cost {end}"]),
        )  # fmt: skip
    assert by_name["node price"]["given"] == "+-20 %"
    assert "K=5 to K=11" in chart.caption


def test_energy_is_drawn_with_its_range_and_never_as_if_measured():
    chart = drawn("step-times")["energy"]
    _, found = answered("step-times")
    assert [row["joules"] for row in chart.rows] == [
        row.energy_joules for row in found.decision.rows
    ]
    assert all(row["grams low"] < row["grams"] for row in chart.rows)
    assert f"K={found.decision.greenest.nodes} emits the least" in chart.caption
    spec = spec_of("step-times", "energy")
    assert marks_of(spec, "predicted")
    assert not marks_of(spec, "measured")
    counted = parse_table("K,time_s,energy_j\n1,100,900\n2,60,700\n4,50,950\n", "counted")
    imported = energy(find(counted, Question(price=PRICE), ()).decision)
    assert "imported: column energy_j" in imported.chart["title"]["subtitle"][1]
    assert "K=2 consumes the least energy: 700 J a run, imported" in imported.caption


def test_what_a_study_lacks_is_not_drawn():
    assert not {"stages", "timeline", "repeats", "triangle"} & set(drawn("two"))
    assert not {"timeline", "repeats", "triangle"} & set(drawn("breakdown"))
    study, unpriced = answered("breakdown", Price())
    assert energy(find(study, Question(price=PRICE), ()).decision) is None
    without_money = {one.name for one in figures(study, unpriced)}
    assert not {"payment", "sensitivity"} & without_money
    assert {"cost", "pareto"} < without_money  # in node-hours
    _, plain = answered("breakdown", Price(per_node_hour=3.2))
    assert CHARTS["sensitivity"].draw(study, plain) is None


def test_every_chart_over_k_marks_the_recommended_scale_and_nothing_else_has_its_colour():
    _, found = answered("step-times")
    best = found.decision.recommended.nodes
    for name in ("speedup", "efficiency", "cost", "payment", "energy", "forecast"):
        spec = spec_of("step-times", name)
        lines = marks_of(spec, "chosen")
        assert lines, name
        assert all(data_of(spec, line) == [{"K": best}] for line in lines)
    assert not marks_of(spec_of("step-times", "efficiency"), "ring")
    bands = spec_of("step-times", "repeats")["layer"][-1]["encoding"]["x"]["axis"]
    assert bands["labelColor"]["condition"]["value"] == PALETTE["chosen"]


def test_a_scale_that_failed_is_crossed_out():
    for chart in ("speedup", "efficiency", "cost"):
        spec = spec_of("broken", chart)
        crossed = [row for cross in marks_of(spec, "refused") for row in data_of(spec, cross)]
        (row,) = [row for row in crossed if "outcome" in row]
        assert (row["K"], row["outcome"]) == (8, "out of memory")
    assert "Every run at K=8 failed: out of memory" in drawn("broken")["speedup"].caption


def test_names_of_users_are_text_and_are_shortened():
    subtitle = sized(drawn("broken")["speedup"].chart)["title"]["subtitle"]
    assert subtitle[0].startswith("<script>alert('1')</script>")
    assert max(len(line) for line in subtitle) < 120
    assert "…" in " ".join(subtitle)


@pytest.mark.parametrize("chart", ["speedup", "ledger", "triangle", "marginal"])
def test_a_paper_is_a_column_wide_and_a_slide_is_a_slide(chart: str):
    figure = drawn("ddp-step")[chart]
    before = copy.deepcopy(figure.chart)
    sizes = {}
    for size in ("paper", "slide"):
        svg = vl_convert.vegalite_to_svg(json.dumps(sized(figure.chart, size)))
        width, height = re.search(r'width="([\d.]+)" height="([\d.]+)"', svg).groups()
        sizes[size] = (float(width), float(height))
    assert 300 <= sizes["paper"][0] <= 335
    assert sizes["slide"][0] <= 1280 and sizes["slide"][1] <= 720
    assert figure.chart == before


def test_on_a_page_charts_are_a_third_of_it_and_let_it_shine_through():
    chart = sized(drawn("ddp-step")["speedup"].chart, "page", titled=False)
    spec = chart
    assert spec["width"] == 408 and isinstance(spec["height"], int)
    assert spec["config"]["background"] == "transparent"
    assert "title" not in spec


def test_two_studies_beside_each_other_show_the_numbers_of_the_comparison():
    comparison = compare_studies(golden_study("ddp-step"), table("ddp-slow-link"), 0.7)
    figure = compare(comparison)
    assert [row["K"] for row in figure.rows] == [1, 2, 4, 8]
    assert [row["ratio"] for row in figure.rows] == [row.ratio for row in comparison.rows]
    assert "range of 5 rounds" in " ".join(figure.chart["title"]["subtitle"])
    vl_convert.vegalite_to_svg(json.dumps(sized(figure.chart)))
    weak = simulate(PlantedTruth(law=WEAK))
    spec = compare(compare_studies(weak, weak, 0.7)).chart
    assert "S = K" not in json.dumps(spec)
    assert "simulated (first) and simulated (second)" in json.dumps(spec)


def test_a_job_that_only_slows_down_says_so():
    study = parse_table("K,rep,time_s\n1,0,10\n1,1,11\n2,0,11\n2,1,12\n", "slower")
    figure = speedup(find(study, Question(), ()).scaling)
    assert figure.caption.startswith("No scale is faster than K=1.")


def test_a_law_that_misses_is_not_drawn():
    wild = parse_table("K,time_s\n1,10\n2,90\n4,1\n8,70\n", "wild")
    found = find(wild, Question(), ())
    spec = speedup(found.scaling).chart
    assert not marks_of(spec, "law") and not marks_of(spec, "predicted")
    assert "No fitted law" in speedup(found.scaling).caption
