"""Findings: one study, one question, everything computed once and told once."""

import warnings

import pytest

from nodewise.audit.rules import audit, read_rules
from nodewise.decide.candidates import Needs
from nodewise.decide.decide import decide_law
from nodewise.decide.inputs import Question
from nodewise.decide.prices.bill import Price
from nodewise.explain import scaling, validity
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.report.charts.draw import figures
from nodewise.report.findings import document, find, one_row_each
from nodewise.report.page.html import page
from nodewise.study.check import Check
from nodewise.study.claim import claim_of_study
from nodewise.study.study import Contention, Run, Study
from tests.conftest import golden_study

PRICED = Question(price=Price(per_node_hour=2.1, fixed_per_hour=9.0))


def test_a_page_resamples_the_timings_once(monkeypatch):
    counts = {"resample": 0}
    resample = scaling.resample

    def counted(*arguments):
        counts["resample"] += 1
        return resample(*arguments)

    monkeypatch.setattr(scaling, "resample", counted)
    study = simulate(PlantedTruth(law=Law(s=0.03, c=0.001), rounds=7, scales=(1, 2, 4, 8)))
    findings = find(study, PRICED, read_rules())
    page(study, findings, "nodewise report x", "")
    assert len(figures(study, findings)) > 5
    assert counts["resample"] == 1
    assert findings.forecast is findings.forecast
    assert findings.next_ceiling is findings.next_ceiling
    assert [row.nodes for row in findings.forecast.doublings] == [1, 2, 4, 8, 16, 32]


def test_idle_nodes_have_a_price():
    study = golden_study("breakdown")
    idling = find(study, Question(price=Price(per_node_hour=3.2))).idling
    assert (idling.nodes, idling.share) == (16, pytest.approx(90 / 235))
    assert idling.cost == pytest.approx(16 * 90 / 3600 * 3.2)
    assert find(golden_study("rubric"), PRICED).idling is None  # no stages


def test_two_scales_have_no_forecast():
    study = simulate(PlantedTruth(law=Law(s=0.03), scales=(1, 2)))
    assert find(study, Question()).forecast is None


def test_of_checks_that_answer_one_rule_the_gravest_is_kept():
    rows = [
        Check(rule="a", verdict="pass", evidence="1", key="x"),
        Check(rule="b", verdict="warn", evidence="2", key="x"),
        Check(rule="c", verdict="warn", evidence="3", key="x"),
        Check(rule="d", verdict="warn", evidence="4"),
        Check(rule="d", verdict="warn", evidence="4"),
        Check(rule="d", verdict="warn", evidence="5"),
    ]
    assert [check.evidence for check in one_row_each(rows)] == ["2", "4", "5"]


def crowded(delay: float) -> Study:
    runs = tuple(
        Run(nodes=k, round=r, seconds=8 / k + 0.1 * r, contention=Contention(run_delay=delay))
        for r in range(6)
        for k in (1, 2)
    )
    return Study(name="crowded", regime="strong", runs=runs)


@pytest.mark.parametrize(
    ("delay", "verdict"),
    [
        (0.9 * validity.SOME_LOAD, "pass"),
        (0.9 * validity.MUCH_LOAD, "warn"),
        (1.1 * validity.MUCH_LOAD, "fail"),
    ],
)
def test_foreign_load_is_shown_alike_by_study_and_audit(delay, verdict):
    study = crowded(delay)
    with_rules, alone = (find(study, Question(), rules).checks for rules in (read_rules(), ()))
    audited = audit(claim_of_study(study), read_rules()).checks
    for checks in (with_rules, audited, alone):
        shown = [check.shown_verdict for check in checks if check.key == "contention"]
        assert shown == ["pass" if verdict == "pass" else "warn"] or shown == []
        assert shown or (checks is alone and verdict == "pass")


@pytest.mark.parametrize(
    ("delay", "verdict"),
    [
        (0.9 * validity.SOME_LOAD, "pass"),
        (0.9 * validity.MUCH_LOAD, "warn"),
        (1.1 * validity.MUCH_LOAD, "fail"),
    ],
)
def test_foreign_load_is_told_once_with_and_without_the_rules(delay, verdict):
    findings = find(crowded(delay), Question(), read_rules())
    assert [c.verdict for c in findings.checks if c.key == "contention"] == [verdict]
    alone = [c.verdict for c in find(crowded(delay), Question()).checks if c.key == "contention"]
    assert alone == ([] if verdict == "pass" else [verdict])


def test_the_document_has_one_shape_for_studies_and_laws():
    made = find(golden_study("rubric"), Question()).document
    assert made["decision"]["rows"] == made["rows"]
    assert made["regimes"][0]["regime"] == "on-demand"
    assert {"question", "scaling", "attribution", "checks"} <= set(made)
    law = decide_law(Law(s=0.1), 4, PRICED)
    assert set(document(law, law.checks, PRICED)) == set(made)


def test_a_refusal_names_its_gate():
    study = golden_study("breakdown")
    asked = Question(price=Price(per_node_hour=3.2), needs=Needs(budget=1.0))
    rows = find(study, asked).decision.rows
    assert [row.refused_by for row in rows] == [None] * 3 + ["budget"] * 2
    assert rows[-1].excluded_because == "the cost exceeds the budget of $1.000"


def test_the_room_answers_to_its_name_of_version_0_1_with_a_warning():
    with pytest.warns(DeprecationWarning, match="nodewise.decide.decide.Needs"):
        from nodewise.decide import Needs as OldNeeds
    from nodewise.decide import decide

    with pytest.warns(DeprecationWarning, match="nodewise.decide.decide.decide"):
        decision = decide(
            golden_study("breakdown"), Price(per_node_hour=3.20), OldNeeds(deadline_seconds=250)
        )
    assert decision.recommended.nodes == 8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from nodewise.decide.decide import decide as decide_question

        assert decide_question(golden_study("breakdown"), PRICED).rows
