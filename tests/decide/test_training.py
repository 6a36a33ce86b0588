"""The figures that trainings are compared by."""

import msgspec
import pytest

from nodewise.decide.candidates import Needs
from nodewise.decide.inputs import Question
from nodewise.report.findings import find
from nodewise.study.study import Run, Study

TOKENS, PARAMETERS, STEPS = 1_000_000, 2_000_000, 20


def trained(nodes: int) -> Run:
    """A run of 20 steps of 50,000 tokens; its loss falls by 0.1 a step from 5."""
    facts = {
        "global_batch": 64, "all_samples": 1280, "tokens": TOKENS, "parameters": PARAMETERS,
        "precision": "bfloat16", "quality_name": "loss", "quality_is_seen_loss": True,
    }  # fmt: skip
    losses = tuple((step, 5.0 - 0.1 * step) for step in range(STEPS))
    return Run(
        nodes=nodes, round=0, seconds=100.0 / nodes + 10, work=1280.0, steps=STEPS, facts=facts,
        quality=3.1, losses=losses,
    )  # fmt: skip


def training(**needs):
    runs = tuple(trained(nodes) for nodes in (1, 2, 4))
    question = msgspec.structs.replace(Question(), needs=Needs(**needs))
    return find(Study(name="job", regime="strong", runs=runs), question).training


def test_rates_of_each_scale():
    rows = training(peak_tflops=0.5).rows
    assert [row.nodes for row in rows] == [1, 2, 4]
    assert rows[1].tokens_per_second == pytest.approx(TOKENS / 60)
    assert rows[1].tokens_per_second_each == pytest.approx(TOKENS / 120)
    assert rows[1].samples_per_second == pytest.approx(1280 / 60)
    # 6 N D over seconds and ranks: 1.2e13 / 60 / 2 = 1e11 FLOP/s
    assert rows[1].teraflops_each == pytest.approx(0.1)
    assert rows[1].utilisation == pytest.approx(0.2)
    # without a price the cost is node hours: 120 node-seconds for a million tokens
    assert rows[1].cost_per_billion_tokens == pytest.approx(1000 * 120 / 3600)


def test_without_a_peak_there_is_no_utilisation():
    assert all(row.utilisation is None for row in training().rows)


def test_the_time_to_a_loss_is_where_the_smoothed_curve_comes_to_it():
    found = training(target_loss=4.0)
    # the mean of five steps is 4.0 after step 12: 13 of 20 steps
    assert [row.seconds_to_loss for row in found.rows] == pytest.approx(
        [110 * 13 / 20, 60 * 13 / 20, 35 * 13 / 20]
    )
    assert found.rows[1].cost_to_loss == pytest.approx(120 / 3600 * 13 / 20)
    assert "short runs" in found.checks[0].evidence


def test_a_loss_that_no_run_reached_is_not_extrapolated():
    found = training(target_loss=1.0)
    assert all(row.seconds_to_loss is None for row in found.rows)
    assert "no run at K=1, 2, 4 reaches 1; the lowest loss of a step is 3.1" in (
        found.checks[0].evidence
    )


def test_another_job_has_no_such_figures():
    runs = tuple(Run(nodes=nodes, round=0, seconds=100.0 / nodes) for nodes in (1, 2))
    assert find(Study(name="job", regime="strong", runs=runs), Question()).training is None


def test_a_loss_that_is_reached_in_the_warm_up_has_no_time():
    early = tuple((step - 10, loss) for step, loss in trained(1).losses)
    runs = tuple(msgspec.structs.replace(trained(nodes), losses=early) for nodes in (1, 2, 4))
    question = msgspec.structs.replace(Question(), needs=Needs(target_loss=4.7))
    found = find(Study(name="job", regime="strong", runs=runs), question).training
    assert [row.seconds_to_loss for row in found.rows] == [None] * 3
    assert [row.cost_to_loss for row in found.rows] == [None] * 3
    assert "reaches 4.7 in its warm-up, which is not timed" in found.checks[0].evidence
