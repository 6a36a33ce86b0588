"""After distribution: the ceiling that binds a study, its axis, and the charts of it."""

import pytest

from nodewise.diagnose.next_ceiling import next_ceiling
from nodewise.explain.attribute import attribute
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.report.charts.ceilings import study_flow, study_roofline
from nodewise.report.text.diagnose import next_ceiling_report
from nodewise.study.study import Rank, Run, Study


def study(rows: dict[int, dict[str, float]], **facts: float) -> Study:
    runs = tuple(
        Run(nodes=nodes, round=1, seconds=sum(stages.values()), stages=stages, facts=facts)
        for nodes, stages in rows.items()
    )
    return Study(name="job", regime="strong", runs=runs)


def totals(seconds: dict[int, float], regime="strong") -> Study:
    runs = tuple(Run(nodes=nodes, round=1, seconds=wall) for nodes, wall in seconds.items())
    return Study(name="job", regime=regime, runs=runs)


def found(job: Study, proposal: str | None = None):
    return next_ceiling(job, attribute(job), proposal)


def answers(job: Study) -> dict[str, str]:
    return {one.question: one.answer for one in found(job).branches}


READING, WAITING, EXCHANGE, SERIAL, GROWTH = (
    "Is it reading and writing?",
    "Do ranks wait for each other?",
    "Is it the exchange of data?",
    "Does some work not split?",
    "Does the work itself grow?",
)
EXCHANGING = study({
    1: {"compute": 800.0},
    2: {"compute": 400.0, "communication": 60.0},
    8: {"compute": 100.0, "communication": 158.0},
})  # fmt: skip
# Compute takes half of the time at K=8, and yet nothing is lost to it.
SEED = study({
    1: {"compute": 800.0, "communication": 0.0, "idle": 0.0},
    4: {"compute": 200.0, "communication": 34.0, "idle": 26.0},
    8: {"compute": 100.0, "communication": 58.0, "idle": 48.0},
})  # fmt: skip


def test_the_recommended_and_the_largest_scale_are_judged_too():
    job = study({
        1: {"compute": 800.0},
        2: {"compute": 400.0, "communication": 20.0},
        8: {"compute": 100.0, "communication": 158.0},
        16: {"compute": 50.0, "communication": 250.0},
    })  # fmt: skip
    result = next_ceiling(job, attribute(job), recommended=2)
    assert result.nodes == 8
    recommended, largest = result.elsewhere
    assert recommended.startswith("the recommended scale: no ceiling is reached up to K=2")
    assert largest.startswith("the largest scale: communication binds at K=16")
    assert next_ceiling(job, attribute(job), recommended=8).elsewhere == (largest,)


def test_the_exchange_becomes_the_ceiling():
    result = found(EXCHANGING, "data-parallel")
    assert (result.first, result.ceiling, result.axis) == (
        "compute", "communication", "coordination",
    )  # fmt: skip
    assert result.second_axis_justified
    assert result.answer.answer == "no"
    lost = sum(part.seconds for part in result.parts)
    assert lost == pytest.approx(result.seconds - result.seconds * result.speedup / result.ideal)
    assert result.parts[0].speedup_without == pytest.approx(8)


def test_lost_time_binds_not_the_largest_stage():
    result = found(SEED)
    assert result.ceiling == "communication"
    assert result.verdict.startswith("communication binds at K=8: it takes 2.25x of the 4.12x lost")
    assert answers(SEED) == {
        READING: "not recorded",
        WAITING: "second",
        EXCHANGE: "binds",
        SERIAL: "not recorded",
        GROWTH: "fine",
    }


def test_no_second_axis_while_efficiency_is_high():
    fine = study({1: {"compute": 800.0}, 4: {"compute": 200.0, "communication": 10.0}})
    result = found(fine, "data-parallel")
    assert (result.first, result.ceiling) == ("compute", None)
    assert not result.second_axis_justified
    assert "no ceiling is reached up to K=4" in result.verdict
    assert "the largest loss is communication 0.19x" in result.verdict
    assert result.answer.answer == "yes"
    assert "binds" not in answers(fine).values()


def test_reading_that_does_not_shrink_is_the_data_axis():
    reading = study({
        1: {"compute": 800.0, "io": 100.0},
        8: {"compute": 100.0, "io": 300.0},
    })  # fmt: skip
    result = found(reading, "data-sharding")
    assert (result.ceiling, result.axis, result.answer.answer) == ("data I/O", "data", "yes")


def test_serial_work_is_lifted_by_no_axis():
    serial = study({
        1: {"compute": 100.0, "serial": 90.0},
        8: {"compute": 12.5, "serial": 90.0},
    })  # fmt: skip
    result = found(serial, "data-parallel")
    assert (result.ceiling, result.axis) == ("serial fraction", None)
    assert result.answer.answer == "no"
    assert not result.second_axis_justified
    assert answers(serial)[SERIAL] == "binds"
    assert "no axis raises it" in study_flow(result).caption


def test_the_waiting_of_ranks_answers_without_an_idle_stage():
    """One of four ranks is slow: the others wait inside the collective."""

    def run(number: int, nodes: int, compute: list[float]) -> Run:
        wall = max(compute) + 1.0
        ranks = tuple(
            Rank(rank=at, stages={"compute": own, "communication": wall - own})
            for at, own in enumerate(compute)
        )
        return Run(nodes=nodes, round=number, seconds=wall, ranks=ranks)

    runs = [run(number, 1, [100.0]) for number in range(3)]
    runs += [run(number, 4, [25.0, 25.0, 25.0, 60.0]) for number in range(3)]
    job = Study(name="job", regime="strong", runs=tuple(runs))
    result = found(job, "orchestration")
    assert attribute(job).dominant_cause == result.ceiling == "slow node"
    assert (result.axis, result.answer.answer) == (None, "no")
    assert result.change.startswith("repair")
    assert answers(job) == {
        READING: "not recorded",
        WAITING: "binds",
        EXCHANGE: "fine",
        SERIAL: "not recorded",
        GROWTH: "fine",
    }


def test_bare_totals_leave_the_questions_open():
    job = simulate(PlantedTruth(law=Law(s=0.04, c=0.01), scales=(1, 2, 4, 8, 16), rounds=1))
    bare = totals({run.nodes: run.seconds for run in job.runs})
    result = found(bare)
    open_answers = answers(bare)
    assert result.first is None
    assert result.confidence == "low"
    assert open_answers[READING] == open_answers[GROWTH] == "not recorded"
    assert open_answers[EXCHANGE] == open_answers[SERIAL] == "not identifiable"
    assert "totals do not identify the cause" in result.verdict
    assert found(bare, "fsdp").answer.answer == "undecided"


def test_two_bare_times_name_nothing():
    bare = totals({1: 100.0, 8: 60.0})
    result = found(bare, "data-parallel")
    assert (result.ceiling, result.answer.answer) == (None, "undecided")
    assert result.verdict.startswith("undecided at K=8")
    assert set(answers(bare).values()) <= {"not recorded", "not identifiable"}


def test_a_stage_without_a_record_is_never_fine():
    """What the stages leave open is unexplained, not communication and not nothing."""
    runs = tuple(
        Run(nodes=nodes, round=1, seconds=wall, stages={"compute": 100.0 / nodes})
        for nodes, wall in ((1, 100.0), (2, 70.0), (4, 60.0))
    )
    job = Study(name="job", regime="strong", runs=runs)
    result = found(job)
    assert result.ceiling is None
    assert "no record explains 2.33x of the 2.33x lost" in result.verdict
    assert answers(job) == {
        READING: "not recorded",
        WAITING: "not recorded",
        EXCHANGE: "not recorded",
        SERIAL: "not recorded",
        GROWTH: "fine",
        "Is some of it unexplained?": "not known",
    }


def test_a_stage_that_takes_much_of_the_time_at_every_scale_is_not_fine():
    reading = study({
        1: {"compute": 400.0, "io": 400.0},
        2: {"compute": 200.0, "io": 200.0},
        4: {"compute": 100.0, "io": 102.0},
    })  # fmt: skip
    result = found(reading)
    assert (result.ceiling, answers(reading)[READING]) == (None, "second")
    assert "at every K much of the time is input/output (50 %)" in result.verdict
    assert result.change.startswith("read ahead")


def test_causes_that_cannot_be_separated_are_both_named():
    job = study({
        1: {"compute": 800.0, "communication": 0.0, "idle": 0.0},
        8: {"compute": 100.0, "communication": 50.0, "idle": 49.0},
    })  # fmt: skip
    result = found(job)
    assert result.ceiling is None
    assert "communication or idle takes most of the 3.98x lost" in result.verdict
    assert "reduce messages and waiting either way" in result.verdict
    assert answers(job)[WAITING] == answers(job)[EXCHANGE] == "second"


@pytest.mark.parametrize("job", [SEED, EXCHANGING], ids=["seed", "exchanging"])
def test_the_flow_agrees_with_the_ledger(job):
    ledger = attribute(job)
    row = ledger.row(ledger.nodes)
    binding = [one for one in next_ceiling(job, ledger).branches if one.answer == "binds"]
    assert [row.dominant_cause in one.evidence for one in binding] == [True]
    assert f"{row.causes[0].folds:.2f}x" in binding[0].evidence


def test_the_answers_are_drawn():
    figure = study_flow(found(EXCHANGING))
    assert [row["answer"] for row in figure.rows] == [
        "not recorded", "not recorded", "binds", "not recorded", "fine",
    ]  # fmt: skip
    assert "ends at communication" in figure.caption


def test_runs_that_tell_their_work_stand_under_the_roofline():
    assert study_roofline(EXCHANGING) is None
    told = study(
        {1: {"compute": 10.0}, 4: {"compute": 4.0}},
        flops=8e12, memory_bytes=1e11, peak_flops=1e12, memory_bandwidth=5e10,
    )  # fmt: skip
    rows = study_roofline(told).rows
    assert [row["flops"] for row in rows] == pytest.approx([8e11, 5e11])  # of one node
    assert [row["intensity"] for row in rows] == pytest.approx([80, 80])


def test_the_report_leads_with_the_verdict():
    lines = next_ceiling_report(found(EXCHANGING)).answer
    assert lines[0].startswith("**Communication binds at K=")
