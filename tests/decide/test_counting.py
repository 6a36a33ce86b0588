"""What K counts: whole nodes are billed, and nothing prices the GPUs of a machine as machines."""

import json

import msgspec
import pytest

from nodewise.base.errors import NodewiseError, SpecError
from nodewise.decide.counting import billed_units, scale_unit_of
from nodewise.decide.decide import decide, decide_law
from nodewise.decide.forecast import advise, predict
from nodewise.decide.inputs import Question, read_inputs
from nodewise.decide.prices.lookup import ask_today
from nodewise.explain.laws import Law
from nodewise.report.findings import find
from nodewise.report.terminal import LINES, WIDTH, show
from nodewise.report.text.findings import findings_report
from nodewise.study.scale_unit import ScaleUnit
from nodewise.study.study import Rank, Run, Study
from nodewise.study.table import parse_table

GPUS = "gpus,time_s\n8,3600\n16,1900\n32,1050\n64,640\n"
P5 = "aws:p5.48xlarge"  # 8 H100, $55.04


def asked(**inputs) -> Question:
    return ask_today(Question(), read_inputs(inputs))


def costs(text: str | Study, **inputs) -> dict[int, float]:
    study = parse_table(text) if isinstance(text, str) else text
    return {row.nodes: round(row.cost, 4) for row in decide(study, asked(**inputs)).rows}


def refusal(text: str, **inputs) -> NodewiseError:
    with pytest.raises(SpecError) as caught:
        decide(parse_table(text), asked(**inputs))
    assert str(caught.value).count("\n") == 1
    return caught.value


def test_eight_gpus_are_one_instance_of_eight():
    found = decide(parse_table(GPUS), asked(instance=P5, fixed=5))
    assert found.cheapest.nodes == 8
    assert found.row(8).cost == pytest.approx(60.04)
    assert found.row(64).cost == pytest.approx((8 * 55.04 + 5) * 640 / 3600)
    assert found.unit == ScaleUnit(unit="GPU", per_node=8)


def test_bills_are_for_whole_nodes():
    text = "gpus,time_s\n4,3600\n8,3600\n12,3600\n"
    assert costs(text, price=16, per_node=8) == {4: 16, 8: 16, 12: 32}
    assert costs(text, price="2/gpu", per_node=8) == {4: 16, 8: 16, 12: 32}
    assert costs(text, price="2/gpu") == {4: 8, 8: 16, 12: 24}


@pytest.mark.parametrize(
    ("text", "inputs", "cost"),
    [
        ("cores,time_s\n32,3600\n64,3600\n", {"price": "0.04/core", "per_node": 32}, 1.28),
        ("nodes,time_s\n1,3600\n2,3600\n", {"price": "2.10/gpu", "per_node": 8}, 16.8),
        ("nodes,gpus_per_node,time_s\n1,8,3600\n2,8,3600\n", {"price": "2.10/gpu"}, 16.8),
        ("K,time_s\n8,3600\n16,3600\n", {"price": "2.10/gpu", "unit": "gpus"}, 16.8),
        ("K,time_s\n1,3600\n2,3600\n", {"price": "2.10/node"}, 2.1),
        ("cores,time_s\n16,3600\n32,3600\n", {"instance": "aws:m7i.4xlarge"}, 0.8064),
        ("ranks,time_s\n16,3600\n32,3600\n", {"instance": "aws:m7i.4xlarge"}, 0.8064),
        ("ranks,nodes,time_s\n8,1,3600\n16,2,3600\n", {"instance": P5}, 55.04),
        ("ranks,time_s\n8,3600\n16,3600\n", {"instance": P5, "per_node": 8}, 55.04),
        ("gpus,time_s\n1,3600\n2,3600\n", {"instance": "aws:g5.xlarge"}, 1.006),
        ("nodes,time_s\n1,3600\n2,3600\n", {"instance": P5}, 55.04),
    ],
)
def test_prices_convert(text, inputs, cost):
    assert next(iter(costs(text, **inputs).values())) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("text", "inputs", "words"),
    [
        ("ranks,time_s\n8,9\n16,5\n", {"instance": P5}, "how many of them share one aws:p5"),
        ("workers,time_s\n8,9\n16,5\n", {"instance": "aws:m7i.4xlarge"}, "is not known"),
        (GPUS, {"instance": "aws:m7i.4xlarge"}, "is not known"),
        ("gpus,nodes,time_s\n8,1,9\n16,2,5\n", {"instance": "aws:g5.xlarge"}, "has 1"),
        (GPUS, {"price": "16/node"}, "how many GPUs share a node is not known"),
        (GPUS, {"price": "0.04/core"}, "The price is per core, and K counts GPUs"),
        ("K,time_s\n1,9\n2,5\n", {"price": "2/gpu"}, "The price is per GPU, and K counts nodes"),
        ("K,time_s\n1,9\n2,5\n", {"price": 2, "per_node": 8}, "K counts nodes"),
    ],
)
def test_what_cannot_be_converted_is_refused(text, inputs, words):
    error = refusal(text, **inputs)
    assert words in error.what
    assert error.fix


def test_an_unknown_number_of_nodes_is_a_check():
    def rules(**inputs):
        return [check.evidence for check in decide(parse_table(GPUS), asked(**inputs)).checks]

    assert any("the price is counted per GPU" in one for one in rules(price=2))
    assert any("the price and the power are" in one for one in rules(price=2, watts="100..300"))
    assert not any("counted per GPU" in one for one in rules(price="2/gpu"))
    assert not any("counted per GPU" in one for one in rules(price=2, per_node=8))
    cores = decide(parse_table("cores,time_s\n16,9\n32,5\n"), asked(instance="aws:m7i.4xlarge"))
    assert any("16 cores a node, the vCPUs of" in check.evidence for check in cores.checks)


@pytest.mark.parametrize("unit", ["gpus", "ranks", "cores"])
def test_a_bare_price_of_one_of_k_is_the_first_doubt_on_the_screen(unit):
    study = parse_table(GPUS.replace("gpus", unit))
    text = show(findings_report(find(study, asked(price="16.8"))), width=WIDTH, colour=False)
    doubts = [row for row in text.splitlines() if row.startswith(("warn", "fail"))]
    assert doubts[0].startswith("warn  number of nodes: how many")
    assert len(text.splitlines()) <= LINES
    stated = find(study, asked(price="16.8", per_node=8))
    assert "share a node is not known" not in show(findings_report(stated), WIDTH, colour=False)


def test_power_preemptions_and_owned_nodes_count_nodes():
    """The same runs, once by GPU and once by node."""
    gpus = parse_table("gpus,time_s\n8,3600\n16,1900\n32,1050\n")
    nodes = parse_table("nodes,time_s\n1,3600\n2,1900\n4,1050\n")
    inputs = {"price": 16, "watts": "500..4000", "preempt": "0.05/h", "fixed": 3}
    first = decide(gpus, asked(per_node=8, **inputs))
    second = decide(nodes, asked(**inputs))
    for one, other in zip(first.rows, second.rows, strict=True):
        assert one.nodes == 8 * other.nodes
        assert (one.cost, one.energy_joules) == (other.cost, other.energy_joules)
    for one, other in zip(first.payments, second.payments, strict=True):
        assert [row.cost for row in one.rows] == pytest.approx([row.cost for row in other.rows])
    assert first.spot.nodes == 8 * second.spot.nodes
    assert [one.nodes for one in first.spot.moves] == [8 * one.nodes for one in second.spot.moves]
    assert first.spot.break_even_per_node_hour == pytest.approx(
        second.spot.break_even_per_node_hour
    )


def test_a_trace_counts_nodes():
    trace = json.dumps({"metadata": {"gap_seconds": 300}, "data": [4, 4, 3, 4] * 20})
    question = asked(price=16, per_node=8)
    from nodewise.decide.inputs import replaced

    question = replaced(question, ("payment", "trace"), trace)
    spot = next(
        one for one in decide(parse_table(GPUS), question).payments if one.payment == "spot"
    )
    assert [row.nodes for row in spot.rows] == [8, 16, 32]  # 64 GPUs are 8 nodes, of which 4 exist


def test_ranges_and_flips_use_the_units_that_are_paid():
    found = decide(parse_table(GPUS), asked(price="1..3/gpu", per_node=8, fixed=5))
    row = found.row(8)
    assert (row.cost_low, row.cost, row.cost_high) == (13, 21, 29)


def test_hours_without_a_price():
    assert decide(parse_table(GPUS), Question()).price.currency == "GPU-h"
    whole = decide(parse_table("gpus,time_s\n4,3600\n8,2000\n"), asked(per_node=8))
    assert whole.price.currency == "node-h"
    assert whole.row(4).cost == 1.0
    assert not whole.price.is_money
    assert len(whole.payments) == 1
    assert decide(parse_table("K,time_s\n1,9\n2,5\n"), Question()).price.currency == "node-h"


def test_a_law_counts_too():
    law = Law(s=0.03, c=0.0015, base_seconds=3600.0)
    found = decide_law(law, 16, asked(price=16, unit="gpus", per_node=8))
    assert found.row(1).cost == pytest.approx(16.0)
    assert found.row(16).bill.compute == pytest.approx(32 * found.row(16).seconds / 3600)


def test_predict_bills_whole_nodes_and_starts_at_the_smallest_measured_scale():
    study = parse_table(GPUS)
    forecast = predict(study, asked(instance=P5, fixed=5))
    assert forecast.rows[0].cost == pytest.approx(60.04)
    assert forecast.cheapest.nodes >= 8
    advice = advise(study, asked(price="2/gpu"))
    assert advice.best >= 8
    assert min(run.nodes for run in advice.runs) >= 8
    lower = predict(study, asked(price="2/gpu", least=1))
    assert lower.cheapest.nodes < 8
    inputs = {"price": "2/gpu", "per_node": 8, "value_per_hour": 0}
    on_two_nodes = advise(study, asked(**inputs), largest=2)
    assert max(run.nodes for run in on_two_nodes.runs) == 16
    higher = predict(study, asked(price="2/gpu", least=16))
    assert higher.cheapest.nodes >= 16


def test_the_least_scale_is_a_gate():
    found = decide(parse_table(GPUS), asked(price="2/gpu", fixed=5, least=16))
    assert found.row(8).refused_by == "least"
    assert "below K=16" in (found.row(8).excluded_because or "")
    assert found.cheapest.nodes == 16


def test_units_of_the_study_and_of_the_question():
    study = ScaleUnit(unit="GPU", per_node=8)
    assert scale_unit_of(study, Question()) == study
    assert scale_unit_of(study, Question(per_node=4)).per_node == 4
    assert scale_unit_of(study, Question(unit="rank")) == ScaleUnit(unit="rank")
    assert billed_units(study, "", [9]).tolist() == [2.0]


def test_a_currency_of_ones_own():
    found = decide(parse_table(GPUS), asked(price="2/gpu", currency="EUR"))
    assert found.price.currency == "EUR"
    assert asked(currency="usd").price.currency == "$"
    for inputs in ({"instance": P5, "currency": "EUR"}, {"egress": "5@aws", "currency": "€"}):
        with pytest.raises(SpecError, match="currency"):
            asked(**inputs)
    with pytest.raises(SpecError, match="not a currency"):
        asked(currency="node-h")


def test_a_price_per_core_does_not_count_gpus():
    table = "nodes,gpus_per_node,time_s\n1,8,100\n2,8,55\n4,8,30\n"
    assert "per core" in refusal(table, price="0.04/core").what
    assert costs(table, price="2/gpu")[1] == pytest.approx(8 * 2 * 100 / 3600, abs=1e-4)


def test_the_next_run_fills_its_nodes():
    study = parse_table("gpus,time_s\n8,3600\n16,1900\n32,1050\n64,640\n")
    found = decide(study, asked(price=24, per_node=8, deadline="20min", startup="3min"))
    assert found.better is None or found.better.nodes % 8 == 0
    forecast = advise(study, asked(price=24, per_node=8))
    assert all(run.nodes % 8 == 0 for run in forecast.runs)


def measured(hosts: tuple[str, ...] = (), **facts) -> Study:
    """Runs of one, two and four workers, with what the runs record of their machines."""
    runs = [
        Run(
            nodes=nodes,
            round=number,
            seconds=8 / nodes,
            ranks=tuple(
                Rank(rank=rank, stages={}, host=hosts[rank % len(hosts)])
                for rank in range(nodes if hosts else 0)
            ),
            provenance={"host": "a", "emulated": False, **facts},
        )
        for nodes in (1, 2, 4)
        for number in range(2)
    ]
    return Study(name="job", regime="strong", runs=tuple(runs))


def said_of_machines(study: Study, **inputs) -> list[str]:
    checks = decide(study, asked(**inputs)).checks
    return [check.evidence for check in checks if "shared one machine" in check.evidence]


@pytest.mark.parametrize(
    "study",
    [
        measured(hosts=("a",), engine="command"),
        measured(engine="local"),
        measured(engine="torchrun"),
    ],
)
def test_workers_of_one_machine_that_are_paid_as_machines_are_a_doubt(study):
    assert said_of_machines(study, price=3.2) == [
        "4 workers shared one machine, and the bill counts 4 machines"
    ]
    text = show(findings_report(find(study, asked(price=3.2))), width=WIDTH, colour=False)
    first = next(row for row in text.splitlines() if row.startswith(("warn", "fail")))
    assert first.startswith("warn  machines in the bill: 4 workers shared one machine")
    assert not said_of_machines(study)
    assert not said_of_machines(study, price=3.2, unit="ranks", per_node=4)


@pytest.mark.parametrize(
    "study",
    [
        measured(engine="command"),
        measured(engine="local", emulated=True),
        measured(hosts=("a",), engine="slurm", engine_nodes="a"),
        measured(hosts=("a", "b"), engine="command"),
        msgspec.structs.replace(measured(engine="local"), scale_unit=ScaleUnit(per_node=4)),
    ],
    ids=["no evidence", "emulated", "of a cluster", "two hosts", "stated"],
)
def test_without_evidence_nothing_is_said_of_machines(study):
    assert not said_of_machines(study, price=3.2)


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        (
            {"preempt": "5/h", "deadline": "15min"},
            "no scale passes: at K=64 the deadline of 15 min",
        ),
        (
            {"preempt": "0.05/h"},
            "by the same objective: run on 32 GPUs (4 nodes), 18m27s and $2.65",
        ),
        ({"spot": 0.5}, "On spot at 50 % of the price, by the same objective: run on 64 GPUs"),
        ({"preempt": "1/h", "deadline": "1min"}, "no scale passes: none passes on demand either"),
    ],
)
def test_a_question_of_spot_is_answered_on_the_first_screen(inputs, said):
    found = find(parse_table(GPUS), asked(price="0.90/gpu", per_node=8, **inputs))
    rows = show(findings_report(found), width=WIDTH, colour=False).splitlines()
    text = " ".join(" ".join(rows).split())
    assert said in text
    assert len(rows) <= LINES
    if found.decision.recommended.nodes:
        assert "a run; doubtful: single runs, no error bars On demand, the" in text


def test_spot_that_was_not_asked_for_is_not_in_the_answer():
    found = find(parse_table(GPUS), asked(price="0.90/gpu", per_node=8))
    assert "On spot" not in show(findings_report(found), WIDTH, colour=False)
    assert "On demand" not in show(findings_report(found), WIDTH, colour=False)
    spot = next(one for one in found.decision.payments if one.payment == "spot")
    assert spot.chosen is None
