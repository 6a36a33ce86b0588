"""After distribution: the next-tightest ceiling of a study, its axis, and the charts of it."""

import pytest

from nodewise.diagnose.next_ceiling import flow_of, next_ceiling
from nodewise.explain.attribute import attribute
from nodewise.report.charts.ceilings import study_flow, study_roofline
from nodewise.report.text.diagnose import next_ceiling_report
from nodewise.study.study import Run, Study


def study(rows: dict[int, dict[str, float]], **facts: float) -> Study:
    runs = tuple(
        Run(nodes=nodes, round=1, seconds=sum(stages.values()), stages=stages, facts=facts)
        for nodes, stages in rows.items()
    )
    return Study(name="job", regime="strong", runs=runs)


EXCHANGING = study({
    1: {"compute": 800.0},
    2: {"compute": 400.0, "communication": 60.0},
    8: {"compute": 100.0, "communication": 158.0},
})  # fmt: skip


def test_the_exchange_becomes_the_ceiling():
    found = next_ceiling(EXCHANGING, attribute(EXCHANGING), "data-parallel")
    assert (found.first, found.ceiling, found.axis) == (
        "compute", "communication", "coordination",
    )  # fmt: skip
    assert found.second_axis_justified
    assert found.next == "compute"
    assert found.answer.answer == "no"
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.seconds)
    communication = found.parts[0]
    assert communication.speedup_without == pytest.approx(8)


def test_no_second_axis_while_the_first_one_binds():
    fine = study({1: {"compute": 800.0}, 4: {"compute": 200.0, "communication": 10.0}})
    found = next_ceiling(fine, attribute(fine))
    assert found.ceiling == found.first == "compute"
    assert not found.second_axis_justified
    assert "not used up" in found.verdict
    assert found.next == "communication"


def test_reading_that_does_not_shrink_is_the_data_axis():
    reading = study({
        1: {"compute": 800.0, "io": 100.0},
        8: {"compute": 100.0, "io": 300.0},
    })  # fmt: skip
    found = next_ceiling(reading, attribute(reading), "data-sharding")
    assert (found.ceiling, found.axis, found.answer.answer) == ("data I/O", "data", "yes")


def test_serial_work_is_lifted_by_no_axis():
    serial = study({
        1: {"compute": 100.0, "serial": 90.0},
        8: {"compute": 12.5, "serial": 90.0},
    })  # fmt: skip
    found = next_ceiling(serial, attribute(serial))
    assert (found.ceiling, found.axis) == ("serial fraction", None)
    assert not found.second_axis_justified
    assert flow_of(found) is None
    assert study_flow(found) is None


def test_the_branch_taken_is_drawn():
    figure = study_flow(next_ceiling(EXCHANGING, attribute(EXCHANGING)))
    assert [row["answer"] for row in figure.rows] == [
        "not known",
        "not known",
        "binds",
        "not asked",
    ]
    assert "a second axis is justified: coordination" in figure.caption


def test_runs_that_tell_their_work_stand_under_the_roofline():
    assert study_roofline(EXCHANGING) is None
    told = study(
        {1: {"compute": 10.0}, 4: {"compute": 4.0}},
        flops=8e12, memory_bytes=1e11, peak_flops=1e12, memory_bandwidth=5e10,
    )  # fmt: skip
    rows = study_roofline(told).rows
    assert [row["flops"] for row in rows] == pytest.approx([8e11, 5e11])  # of one node
    assert [row["intensity"] for row in rows] == pytest.approx([80, 80])


def test_the_report_shows_every_part():
    lines = next_ceiling_report(next_ceiling(EXCHANGING, attribute(EXCHANGING)))
    assert lines[0].startswith("**Communication binds at K = ")


def test_what_was_not_recorded_has_no_share():
    flow = flow_of(next_ceiling(EXCHANGING, attribute(EXCHANGING)))
    assert [branch.evidence for branch in flow.branches[:2]] == ["not recorded", "not recorded"]


def test_totals_that_name_no_cause_give_no_ceiling():
    runs = tuple(Run(nodes=k, round=1, seconds=100 / k + 5) for k in (1, 2, 4, 8))
    bare = Study(name="bare", regime="strong", runs=runs)
    found = next_ceiling(bare, attribute(bare))
    assert "communication" not in {part.name for part in found.parts}
