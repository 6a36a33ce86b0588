"""The curve if a cause were smaller."""

import json
from pathlib import Path

import pytest

from nodewise.base.errors import DataError, SpecError
from nodewise.decide.inputs import Question
from nodewise.decide.what_if import Change, parse_changes, what_if
from nodewise.study.study import Rank, Run, Study

EXAMPLES = Path(__file__).parents[2] / "examples"
BREAKDOWN = EXAMPLES / "breakdown.csv"


def made(wait: float = 0.0) -> Study:
    """80 s of work, K^0.5 s of exposed communication, and a rank that is late."""
    runs = []
    for nodes in (1, 2, 4, 8):
        work, sent = 80 / nodes, nodes**0.5 if nodes > 1 else 0.0
        late = wait if nodes > 1 else 0.0
        ranks = tuple(
            Rank(
                rank=rank,
                items=100 / nodes,
                stages={
                    "compute": work + (late if rank == 0 else 0.0),
                    "communication": sent,
                    "idle": 0.0 if rank == 0 else late,
                },
            )
            for rank in range(nodes)
        )
        for one in range(3):
            runs.append(Run(nodes=nodes, round=one, seconds=work + sent + late, ranks=ranks))
    return Study(name="made", regime="strong", runs=tuple(runs))


def test_half_of_the_communication_is_half_of_its_seconds():
    result = what_if(made(), Question(), [Change(cause="communication", factor=0.5)])
    for row in result.rows:
        expected = 80 / row.nodes + (0.5 * row.nodes**0.5 if row.nodes > 1 else 0.0)
        assert row.seconds == pytest.approx(expected)
    assert result.after.rows[3].seconds == pytest.approx(result.rows[3].seconds)


def test_a_slow_node_that_is_repaired_returns_what_the_others_waited():
    result = what_if(made(wait=4.0), Question(), [Change(cause="slow node", factor=0.0)])
    for row in result.rows[1:]:
        assert row.seconds == pytest.approx(80 / row.nodes + row.nodes**0.5, rel=0.02)


def test_a_serial_stage_of_one_rank_counts_whole():
    def run(nodes, one):
        ranks = tuple(
            Rank(rank=r, stages={"compute": 80 / nodes, "serial": 6.0 if r == 0 else 0.0,
                                 "idle": 0.0 if r == 0 else 6.0})
            for r in range(nodes)
        )  # fmt: skip
        return Run(nodes=nodes, round=one, seconds=80 / nodes + 6, ranks=ranks)

    runs = tuple(run(nodes, one) for nodes in (1, 2, 4, 8) for one in range(3))
    study = Study(name="serial", regime="strong", runs=runs)
    result = what_if(study, Question(), [Change(cause="serial fraction", factor=0.0)])
    for row in result.rows:
        assert row.seconds == pytest.approx(80 / row.nodes)


def test_a_factor_of_one_changes_nothing_and_compute_is_never_taken():
    same = what_if(made(4.0), Question(), [Change(cause="communication", factor=1.0)])
    assert all(row.seconds == row.measured_seconds for row in same.rows)
    gone = [Change(cause=cause, factor=0.0) for cause in ("communication", "slow node", "idle")]
    least = what_if(made(4.0), Question(), gone)
    assert all(row.seconds >= 80 / row.nodes for row in least.rows)


def test_a_factor_of_one_is_the_forecast_and_the_stage_laws_continue():
    runs = tuple(
        Run(nodes=k, round=0, seconds=160 / k + sent, stages={"compute": 160 / k,
                                                             "communication": sent})
        for k, sent in ((1, 0.0), (2, 3.0), (4, 4.0), (8, 6.0), (16, 10.0))
    )  # fmt: skip
    study = Study(name="laws", regime="strong", runs=runs)
    same, half = (
        what_if(study, Question(), [Change(cause="communication", factor=factor)], [64])
        for factor in (1.0, 0.5)
    )
    assert [row.seconds for row in same.after.rows] == [row.seconds for row in same.before.rows]
    before, after = same.before.rows[-1].seconds, half.after.rows[-1].seconds
    assert before / 2 < after < before


def test_changes_as_they_are_typed():
    study = made()
    assert parse_changes("communication=0.5x, slow-node=fixed", study) == (
        Change(cause="communication", factor=0.5),
        Change(cause="slow node", factor=0.0),
    )
    (faster,) = parse_changes("link=100Gbit:400Gbit", study)
    assert (faster.cause, faster.factor) == ("communication", 0.25)
    for text, why in (
        ("speed=2", "is not a cause"),
        ("jitter=less", "is not a factor"),
        ("communication=2x", "between 0 and 1"),
        ("jitter=1,jitter=0.5", "twice"),
        ("link=400Gbit", "does not say what link"),
        ("link=fast", "is not a rate"),
        ("link=400Gbit:100Gbit", "slower link"),
    ):
        with pytest.raises(SpecError, match=why):
            parse_changes(text, study)


def test_bare_times_are_refused():
    runs = tuple(Run(nodes=k, round=0, seconds=80 / k + k) for k in (1, 2, 4, 8))
    with pytest.raises(DataError, match="needs the stages"):
        what_if(Study(name="bare", regime="strong", runs=runs), Question(), [])


def test_the_command(nodewise):
    done = nodewise("predict", BREAKDOWN, "--what-if", "communication=0.5x")
    assert done.code == 0
    assert "at K=16 a run would take 3m08s instead of 3m55s" in " ".join(done.out.split())
    found = json.loads(
        nodewise("predict", BREAKDOWN, "--what-if", "communication=0.5x", "--json").out
    )
    assert found["rows"][-1]["measured_seconds"] == 235
    assert found["rows"][-1]["saved"] == {"communication": pytest.approx(47.5)}
