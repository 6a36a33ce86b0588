import math
import re

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewise.base.errors import DataError
from nodewise.decide.candidates import Needs
from nodewise.decide.forecast import advise, predict
from nodewise.decide.inputs import Question
from nodewise.decide.prices.bill import Price
from nodewise.explain.laws import Law
from nodewise.explain.scaling import scale
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.report.charts.draw import beyond
from nodewise.report.findings import find
from nodewise.report.page.html import page
from nodewise.report.terminal import show
from nodewise.report.text.forecast import advice_report, forecast_report
from nodewise.study.study import Run, Study
from nodewise.study.table import parse_table
from tests.conftest import golden_study

TEXTBOOK = Law(s=0.03, c=0.0015, base_seconds=3600.0)
PRICED = Question(price=Price(per_node_hour=2.1, fixed_per_hour=9.0))


def ladder(*scales: int, noise: float = 0.0, rounds: int = 1) -> Study:
    return simulate(PlantedTruth(law=TEXTBOOK, scales=scales, rounds=rounds, noise=noise))


def test_the_textbook_optimum_is_found_from_half_of_its_ladder():
    found = predict(ladder(1, 2, 4, 8), PRICED, (16, 25, 32))
    assert found.cheapest.nodes == 8
    assert found.cheapest.low <= 8 <= found.cheapest.high
    rows = {row.nodes: row for row in found.rows}
    assert [row.nodes for row in found.rows if row.measured] == [1, 2, 4, 8]
    for nodes in (16, 25, 32):
        assert rows[nodes].seconds == pytest.approx(
            float(TEXTBOOK.seconds(np.array([float(nodes)]))[0]), rel=0.02
        )
    assert rows[8].cost == pytest.approx(4.17315, rel=1e-4)
    assert found.fastest.low <= 25 <= found.fastest.high


def test_a_fastest_scale_beyond_the_runs_never_stands_without_its_bounds():
    found = predict(golden_study("step-times"), PRICED)
    text = show(forecast_report(found), 100, colour=False, level=2)
    assert "Fastest: K=91 (80 % interval 64\N{EN DASH}256 or more)." in text
    assert text.count("predicted ") == 2 * 2 + 1  # two rows, and the headline


@settings(max_examples=15)
@given(st.floats(1e-3, 1e3))
def test_the_time_unit_changes_no_choice(unit):
    study = ladder(1, 2, 4, 8, noise=0.02, rounds=3)
    scaled = msgspec.structs.replace(
        study,
        runs=tuple(msgspec.structs.replace(run, seconds=run.seconds * unit) for run in study.runs),
    )
    first, second = (advise(one, PRICED) for one in (study, scaled))
    assert (first.best, first.measure) == (second.best, second.measure)
    assert second.expected_cost == pytest.approx(first.expected_cost * unit)


def test_a_choice_outside_of_the_runs_is_looked_at_first():
    study = Study(
        name="linear", regime="strong",
        runs=tuple(Run(nodes=k, round=0, seconds=100 / k) for k in (1, 2, 4)),
    )  # fmt: skip
    advice = advise(study, Question(price=Price(per_node_hour=1.0, fixed_per_hour=100.0)))
    assert advice.best == 4
    assert advice.measure == advice.better.nodes > 4
    assert "predicted to cost less" in advice.because


def test_money_that_is_not_there_is_not_spent():
    advice = advise(ladder(1, 2, 4, noise=0.05), PRICED, spend=4.0)
    assert all(run.cost <= 4.0 for run in advice.runs)
    nothing = advise(ladder(1, 2, 4, noise=0.05), PRICED, spend=0.0)
    assert nothing.measure is None
    assert nothing.runs == ()


def test_a_shorter_run_costs_less_and_is_worth_more():
    whole = {run.nodes: run for run in advise(ladder(2, 4, 8, noise=0.05), PRICED).runs}
    tenth = {run.nodes: run for run in advise(ladder(2, 4, 8, noise=0.05), PRICED, share=0.1).runs}
    for nodes, run in whole.items():
        assert tenth[nodes].cost == pytest.approx(0.1 * run.cost)
        assert tenth[nodes].saving == run.saving


def test_scales_between_the_doublings_are_candidates_and_none_beyond_twice_the_largest():
    advice = advise(ladder(4, 8, 32, noise=0.05), PRICED)
    offered = {run.nodes for run in advice.runs}
    proposed = {advice.better.nodes} if advice.better else set()
    assert any(8 < nodes < 32 and nodes != 16 for nodes in offered)
    assert max(offered - proposed) <= 64


@pytest.mark.parametrize("luck", [0.94, 1.0])
def test_a_scale_that_is_the_cheapest_by_luck_is_repeated(luck):
    """The other single runs, which one law meets, tell that K=12 costs more than K=8."""
    question = msgspec.structs.replace(PRICED, needs=Needs(value_per_hour=0.0))
    exact = ladder(2, 4, 6, 8, 12, 16)
    runs = [
        msgspec.structs.replace(run, seconds=run.seconds * (luck if run.nodes == 12 else 1.0))
        for run in exact.runs
    ]
    advice = advise(msgspec.structs.replace(exact, runs=tuple(runs)), question)
    if luck < 1:
        assert advice.best == advice.measure == 12
    else:
        assert advice.best != 12 != advice.measure


def test_it_stops_when_no_run_can_change_the_choice():
    advice = advise(ladder(1, 2, 4, 8, 16, 32, 64, rounds=5, noise=0.002), PRICED)
    assert advice.measure is None
    first = show(advice_report(advice), 200, colour=False, level=2).splitlines()[0]
    assert first.count("stop") == 1
    assert f"stop measuring, because {advice.because}." in first


@pytest.mark.parametrize("seed", range(10))
def test_one_run_at_a_time_finds_the_cheapest_scale(seed):
    """Within 4 % of the least cost for at most half of the money of the whole ladder."""
    generator = np.random.default_rng(seed)
    law = Law(
        s=float(10 ** generator.uniform(-2.5, -1)), c=float(10 ** generator.uniform(-4, -2)),
        base_seconds=3600.0,
    )  # fmt: skip
    every = np.arange(1.0, 65.0)
    seconds = dict(zip(map(int, every), law.seconds(every), strict=True))

    def cost(nodes: int) -> float:
        return seconds[nodes] / 3600 * (2.1 * nodes + 9.0)

    def run(nodes: int, number: int = 0) -> Run:
        noisy = seconds[nodes] * (1 + 0.01 * generator.normal())
        return Run(nodes=nodes, round=number, seconds=noisy)

    money = sum(cost(nodes) for nodes in (1, 2, 4, 8, 16, 32, 64)) / 2
    study = Study(name="truth", regime="strong", runs=(run(4), run(8), run(16)))
    question = msgspec.structs.replace(PRICED, needs=Needs(value_per_hour=0.0))
    money -= sum(cost(one.nodes) for one in study.runs)
    for number in range(1, 20):
        advice = advise(study, question, spend=money, largest=64)
        chosen = [advice.measure] if advice.measure else advice.repeat
        if not chosen:
            break
        money -= sum(map(cost, chosen))
        more = [run(nodes, number) for nodes in chosen]
        study = msgspec.structs.replace(study, runs=(*study.runs, *more))
    assert money >= -0.01 * cost(64)
    assert cost(advice.best) <= 1.04 * min(cost(nodes) for nodes in seconds)


def test_beyond_a_saturation_nothing_is_claimed():
    rates = ((1, 100), (4, 390), (16, 900), (64, 930))
    runs = tuple(Run(nodes=k, round=0, seconds=k / rate) for k, rate in rates)
    study = Study(name="load", regime="weak", runs=runs)
    found = predict(study, PRICED, (128,))
    assert found.unknown_beyond == 64
    row = found.rows[-1]
    assert (row.nodes, row.seconds, row.high95, row.cost) == (128, None, None, None)
    assert found.laws == () and not found.fastest.at_least
    text = show(forecast_report(found), 100, colour=False, level=2)
    assert "Nothing is predicted above K=64" in text
    assert "128  unknown" in [line.strip() for line in text.splitlines()]
    figure = beyond(find(study, PRICED).forecast)
    assert figure is not None and figure.caption.startswith("Nothing is predicted above K=64")
    assert figure.rows[-1]["K"] == 64


def test_the_chart_keeps_measured_and_predicted_apart():
    figure = beyond(find(golden_study("step-times"), PRICED).forecast)
    assert figure is not None
    kinds = {row["K"]: row["kind"] for row in figure.rows}
    assert kinds == dict.fromkeys((1, 2, 4, 8, 16, 32, 64), "measured") | {
        128: "predicted", 256: "predicted",
    }  # fmt: skip
    styles = {}
    for layer in figure.chart["layer"]:
        if layer["mark"].get("style") in ("measured", "predicted"):
            values = (
                figure.chart["datasets"][layer["data"]["name"]]
                if ("name" in layer["data"])
                else layer["data"]["values"]
            )
            styles[layer["mark"]["style"]] = [row["K"] for row in values]
    assert styles == {"measured": [1, 2, 4, 8, 16, 32, 64], "predicted": [128, 256]}
    assert beyond(find(ladder(1, 2), PRICED).forecast) is None


def test_the_page_keeps_what_nobody_ran_in_a_section_of_its_own():
    def sections(study: Study) -> dict[str, str]:
        made = page(study, find(study, PRICED, ()), "nodewise report", vega="")
        parts = re.split(
            r'<details class="section[^"]*" id="([a-z]+)"', made.partition("<footer>")[0]
        )
        return dict(zip(parts[1::2], parts[2::2], strict=True))

    found = sections(golden_study("step-times"))
    assert list(found).index("cost") < list(found).index("forecast")
    assert found["forecast"].count('<td class="words">predicted</td>') == 4  # chart's rows, table
    assert "K=91 (80 % interval 64\N{EN DASH}256 or more)" in found["forecast"]
    assert 'data-chart="forecast"' in found["forecast"]
    assert not any(
        '"words">predicted<' in body for name, body in found.items() if name != "forecast"
    )
    assert "forecast" not in sections(ladder(1, 2))


def test_two_scales_are_too_few():
    with pytest.raises(DataError, match="needs 3 measured scales"):
        predict(ladder(1, 2), PRICED)


def test_the_commands(nodewise):
    shown = nodewise("predict", "examples/step-times.csv", "--at", "128", "--json").json
    assert [row["K"] for row in shown["rows"]][-1] == 128
    assert shown["currency"] == "node-h"
    assert "was measured" in nodewise("predict", "examples/step-times.csv", "--at", "1,2").out
    single = nodewise("predict", "examples/breakdown.csv")
    assert "the usual noise of a single run" in " ".join(single.out.split())
    outcome = nodewise("next", "examples/step-times.csv", "--price", "2.1", "--fixed", "9")
    assert outcome.code == 0
    assert math.isfinite(nodewise("next", "examples/step-times.csv", "--json").json["best"])


TIMES = "K,time_s\n1,412\n2,221\n4,130\n8,95\n16,88\n"


def noisy_job() -> Study:
    """Seven rounds of T = 80 + 3520/K + 3(K-1) with 1 % of noise."""
    generator = np.random.default_rng(1)
    return Study(
        name="job",
        regime="strong",
        runs=tuple(
            Run(
                nodes=k,
                round=number,
                seconds=(80 + 3520 / k + 3 * (k - 1)) * (1 + 0.01 * generator.normal()),
            )
            for number in range(7)
            for k in (1, 2, 4, 8, 16, 32)
        ),
    )


@pytest.mark.parametrize("share", [1.0, 0.1])
@pytest.mark.parametrize("study", [parse_table(TIMES, "times"), noisy_job()])
def test_the_proposed_run_is_a_row_with_the_same_figures(study, share):
    advice = advise(study, Question(price=Price(per_node_hour=2.5)), share=share)
    assert advice.better is not None
    assert advice.measure == advice.better.nodes
    row = next(run for run in advice.runs if run.nodes == advice.measure)
    assert row.cost == advice.cost == pytest.approx(share * advice.better.cost)
    assert row.could_change == advice.better.probability
    assert row.saving == max(run.saving for run in advice.runs) > 0


def test_it_does_not_stop_above_runs_that_change_the_choice():
    """A repeat of another scale says nothing about the choice; chance is not its worth."""
    study = noisy_job()
    question = Question(price=Price(per_node_hour=2.5, fixed_per_hour=9.0))
    advice = advise(study, question, spend=20)
    assert advice.measure is None and not advice.repeat
    assert advice.because == "no further run is expected to change the choice"
    assert advice.runs
    assert {run.could_change for run in advice.runs} == {run.saving for run in advice.runs} == {0.0}


def test_the_knee_is_that_of_the_scaling_table(nodewise, tmp_path):
    table = tmp_path / "times.csv"
    table.write_text(TIMES)
    lines = [
        re.search(r"Knee: .*?\.", " ".join(nodewise(*command).out.split())).group()
        for command in (("scale", table), ("predict", table, "--price", "3.2"))
    ]
    assert lines[0] == lines[1]
    assert "K=5 has the largest speedup x efficiency on the fit of" in lines[0]
    study = parse_table("K,time_s\n1,10\n2,5.1\n4,2.6\n", "table")
    knee = predict(study, PRICED)
    assert scale(study).knee is knee.measured_knee is None
    assert knee.knee is None or knee.knee.nodes > 4


@pytest.mark.parametrize("nodes", [(), (12, 14), (5, 6, 7)])
def test_every_row_says_how_likely_it_is_the_cheapest_and_they_add_up(nodes):
    found = predict(parse_table(TIMES, "times"), PRICED, nodes)
    chances = [row.probability_cheapest for row in found.rows]
    assert None not in chances
    assert sum(chances) + found.probability_other == pytest.approx(1)
    text = " ".join(show(forecast_report(found), 100, colour=False, level=2).split())
    assert ("other " in text) == (found.probability_other > 0)
    assert " (80 % interval " in text.partition("Doubtful")[0]
    assert "drift: no formula; a smooth curve" in text


WEAK = "K,time_s\n1,100\n2,104\n4,110\n8,125\n16,160\n"


def test_weak_scaling_is_compared_per_unit_of_work(nodewise, tmp_path):
    table = tmp_path / "weak.csv"
    table.write_text(WEAK)

    def said(command):
        out = nodewise(command, table, "--regime", "weak", "--price", "3.6", "-v").out
        return " ".join(out.split())

    decided = said("decide")
    assert "$1.000 a run ($0.125 per unit of work)" in decided
    assert "costs at most 1/0.70 times the cheapest per unit of work" in decided
    assert "no scale costs clearly less per unit of work than K=1" in decided
    assert "3.14 s less per unit of work; it is predicted to do more work per second" in decided
    assert "efficiency cost a run cost per unit of work" in decided
    assert "8 125.0 6.40 0.800 $1.000 $0.125 <- recommended" in decided
    assert "a unit is the work of the run at K=1" in decided
    assert "fastest: K=16, $0.160 per unit of work" in decided
    assert "step speedup cost per unit of work speedup/$ seconds saved per unit of work" in decided
    assert "less a run" not in decided
    predicted = said("predict")
    assert "Cheapest per unit of work: K=1" in predicted
    assert "cost a run cost per unit of work P(cheapest)" in predicted


def test_a_counted_work_is_the_unit(nodewise, tmp_path):
    table = tmp_path / "weak.csv"
    rows = [line.split(",") for line in WEAK.split()[1:]]
    text = "".join(f"{k},{seconds},{1500 * int(k)}\n" for k, seconds in rows)
    table.write_text(f"K,time_s,work\n{text}")
    out = " ".join(
        nodewise("decide", table, "--regime", "weak", "--price", "3.6", "-v").out.split()
    )
    assert "$1.000 a run ($0.0833 per thousand units of work)" in out  # 1 / 12
    assert "a unit is" not in out


def law_study(*scales: int, c: float = 0.001) -> Study:
    law = Law(s=0.03, c=c, base_seconds=1000.0)
    return simulate(PlantedTruth(law=law, scales=scales, noise=0.01, rounds=5, seed=3))


def test_a_deadline_is_a_gate_of_each_draw():
    """K=64 keeps it for five times the money of a scale between 4 and 64."""
    question = Question(
        price=Price(per_node_hour=2.0, currency="$"), needs=Needs(deadline_seconds=200)
    )
    result = predict(law_study(1, 2, 4, 64), question)
    assert result.recommended.nodes == 64
    assert result.better is not None
    assert 5 < result.cheapest.nodes < 12
    assert result.cheapest.low <= result.better.nodes <= result.cheapest.high


def test_free_nodes_are_cheapest_where_they_are_fastest():
    question = Question(price=Price(per_node_hour=0.0, currency="$"))
    result = predict(law_study(1, 2, 4, 8, 16, 32, 64), question)
    assert result.cheapest.nodes == result.fastest.nodes


def test_scales_at_which_no_run_ends_have_no_row(nodewise, tmp_path):
    table = tmp_path / "job.csv"
    law = Law(s=0.02, c=0.008, growth="log2", base_seconds=3600.0)
    times = (f"{k},{law.seconds(np.array([float(k)]))[0]}\n" for k in (1, 2, 4, 8, 16, 32))
    table.write_text("K,time_s\n" + "".join(times))
    failing = ("--price", "3", "--set", "mtbf=10min", "--set", "checkpoint=none")
    result = nodewise("predict", table, *failing, "--json").json
    assert [row["K"] for row in result["rows"]] == [1, 2, 4, 8]
    assert result["never_end"] == [16, 32, 64, 128]
    assert result["fastest"]["K"] == 1
    said = nodewise("next", table, *failing, "--json").json
    assert max(run["K"] for run in said["runs"]) < 16
