"""One table and one question have one answer, whichever command is asked."""

import msgspec
import pytest
from hypothesis import given, settings

from nodewise.base.errors import DataError, NodewiseError
from nodewise.decide.decide import decide
from nodewise.decide.forecast import advise, predict
from nodewise.decide.inputs import Question
from nodewise.explain.predict.curve import FEWEST_SCALES
from nodewise.report.findings import find
from nodewise.report.notebook import Job
from nodewise.study.study import Run, Study
from nodewise.study.table import parse_table
from tests.one_answer import Case, answer_of, cases, unless_no_run_ends

TABLE = "K,time_s\n1,100\n2,55\n4,32\n8,22\n"


@settings(max_examples=20)
@given(cases())
def test_decide_next_predict_report_and_the_notebook_give_one_answer(case: Case):
    job, study = case.job, case.study
    question = job.question(**case.inputs)
    with unless_no_run_ends():
        decision = decide(study, question)
    answer = answer_of(decision)
    for other in (job.decide(**case.inputs), find(study, question).decision):
        assert (answer_of(other), other.recommended) == (answer, decision.recommended)
    assert find(study, question).sliders.chosen == answer.nodes
    if len(study.scales) < FEWEST_SCALES:
        for ask in (predict, advise):
            with pytest.raises(DataError):
                ask(study, question)
        return
    forecast, advice = job.predict(**case.inputs), advise(study, question)
    for one in (forecast, advice):
        assert one.recommended == decision.recommended
        assert (one.objective, one.better) == (decision.objective, decision.better)
        assert one.currency == decision.price.currency
    assert forecast == predict(study, question)
    shown = {row.nodes: row for row in forecast.rows}
    for row in decision.rows:
        one = shown[row.nodes]
        expected = row.seconds, row.speedup, row.cost, row.cost_with_waiting
        found = one.seconds, one.speedup, one.cost, one.cost_with_waiting
        assert found == pytest.approx(expected, rel=1e-9)
        assert one.energy_joules == (row.energy_joules and pytest.approx(row.energy_joules))
        if row.deadline_probability is not None:
            assert one.deadline_probability == row.deadline_probability
    if answer.nodes is not None and decision.better is None:
        assert advice.expected_cost == pytest.approx(answer.cost, rel=1e-9)


def test_a_threshold_of_zero_accepts_every_scale():
    study = parse_table(TABLE, "table")
    question = Job(study, Question()).question(price=2, threshold=0)
    assert decide(study, question).recommended.nodes == 8
    assert advise(study, question).best == 8
    nothing = Job(study, Question()).question(price=2, threshold=0, least=100)
    assert decide(study, nothing).recommended.nodes is None


def test_a_least_scale_beyond_the_curve_leaves_no_scale_in_any_command():
    study = parse_table(TABLE, "table")
    question = Job(study, Question()).question(price=2, least=1000)
    for one in (decide(study, question), predict(study, question), advise(study, question)):
        assert one.recommended.nodes is None
        assert "K=8" in one.recommended.because
    assert predict(study, question).cheapest is None
    with pytest.raises(NodewiseError, match="At most 2 are allowed"):
        advise(study, msgspec.structs.replace(question, needs=question.needs.__class__(
            least_scale=4)), largest=2)  # fmt: skip


def test_a_budget_at_the_bill_itself_is_kept():
    study = parse_table("K,time_s\n1,3600\n3,1300\n", "table")
    bill = decide(study, Job(study, Question()).question(price=0.1, fixed=0.2)).rows[1].cost
    question = Job(study, Question()).question(price=0.1, fixed=0.2, budget=bill * (1 - 1e-15))
    assert decide(study, question).recommended.nodes == 3


def test_energy_of_the_runs_is_known_to_predict_and_next_at_measured_scales_only():
    study = parse_table("K,time_s,energy_j\n1,100,500\n2,55,520\n4,32,600\n8,22,800\n", "table")
    question = Job(study, Question()).question(price=2, energy_budget=610)
    forecast = predict(study, question, (4, 6, 8))
    assert [row.energy_joules for row in forecast.rows] == [500, 520, 600, None, 800]
    advice = advise(study, question)
    assert advice.best == decide(study, question).recommended.nodes == 4
    assert advice.better is None


def test_next_weighs_no_scale_that_loses_quality():
    rows = "1,100,0.9\n2,55,0.9\n4,32,0.9\n8,17,0.8\n16,9.5,0.7\n"
    study = parse_table(f"K,time_s,quality\n{rows}", "table")
    question = Job(study, Question()).question(price=2, fixed=20)
    assert decide(study, question).recommended.nodes == 4
    advice = advise(study, question)
    assert all(run.saving == 0 for run in advice.runs if run.nodes >= 8)
    forecast = predict(study, question)
    assert forecast.payments[0].cheapest.nodes == 4


def test_no_scale_is_proposed_at_which_every_run_failed():
    times = {1: 100.0, 2: 52.0, 16: 10.0}
    runs = [Run(nodes=k, round=0, seconds=seconds) for k, seconds in times.items()]
    whole = Study(name="failed", regime="strong", runs=tuple(runs))
    question = Job(whole, Question()).question(price=2, deadline=40)
    better = decide(whole, question).better
    assert better is not None
    crash = Run(nodes=better.nodes, round=0, seconds=1.0, outcome="crashed")
    study = msgspec.structs.replace(whole, runs=(*runs, crash))
    for found in (decide(study, question).better, advise(study, question).better):
        assert found is None or found.nodes != better.nodes


def test_a_deadline_that_every_run_must_keep_has_a_page():
    study = parse_table("K,rep,time_s\n1,0,10\n1,1,10.4\n2,0,6\n2,1,6.3\n", "table")
    question = Job(study, Question()).question(price=2, deadline=8, confidence=1)
    findings = find(study, question)
    assert findings.sliders.chosen is findings.decision.recommended.nodes is None
    assert all(8 < seconds < float("inf") for seconds in findings.sliders.sure_seconds)


def test_a_choice_that_is_sure_is_moved_by_no_run():
    """A saving that needs no run, by taking a scale between the measured ones, is not its worth."""
    rows = [
        f"{k},{number},{3600 * (0.03 + 0.97 / k + 0.002 * k) * (1 + (3 * number + k) % 5 / 250)}"
        for number in range(5)
        for k in (2, 4, 8, 16, 32)
    ]
    study = parse_table("K,rep,time_s\n" + "\n".join(rows) + "\n", "table")
    advice = advise(study, Job(study, Question()).question(price=2))
    assert advice.recommended.probability > 0.99
    assert advice.runs
    assert all(run.could_change < 0.5 for run in advice.runs)
