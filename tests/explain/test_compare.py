import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.base.errors import DataError
from nodewise.explain.compare import compare
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.study.scale_unit import ScaleUnit
from nodewise.study.study import Run, Study


def study(seconds: dict[int, list[float]], name="x", regime="strong") -> Study:
    runs = [
        Run(nodes=nodes, round=number, seconds=value)
        for nodes, values in seconds.items()
        for number, value in enumerate(values)
    ]
    return Study(name=name, regime=regime, runs=tuple(runs))


def test_a_fix_at_one_scale_is_seen_there_only():
    before = simulate(
        PlantedTruth(law=Law(s=0.05, c=0.001), scales=(1, 2, 4, 8), rounds=8, noise=0.02)
    )
    after = msgspec.structs.replace(
        simulate(
            PlantedTruth(
                law=Law(s=0.05, c=0.001), scales=(1, 2, 4, 8), rounds=8, noise=0.02, seed=9
            )
        ),
        name="after",
    )
    runs = [
        msgspec.structs.replace(run, seconds=run.seconds * (0.8 if run.nodes == 8 else 1.0))
        for run in after.runs
    ]
    after = msgspec.structs.replace(after, runs=tuple(runs))
    result = compare(before, after, 0.7)
    assert [row.second_is for row in result.rows] == ["not distinguishable"] * 3 + ["faster"]
    last = result.rows[-1]
    assert last.ratio_low < 0.8 < last.ratio_high
    assert last.second_speedup > last.first_speedup


@given(st.floats(0.001, 1000.0), st.lists(st.floats(1.0, 2.0), min_size=6, max_size=9))
def test_the_time_unit_changes_nothing(unit, values):
    slow = {1: values, 2: [v / 2 for v in reversed(values)]}
    slower = {1: [v * 1.5 for v in values], 2: values}
    first, second = study(slow), study(slower)
    scaled = [
        study({nodes: [v * unit for v in values] for nodes, values in seconds.items()})
        for seconds in (slow, slower)
    ]
    for row, other in zip(
        compare(first, second, 0.7).rows, compare(*scaled, 0.7).rows, strict=True
    ):
        assert row.ratio == pytest.approx(other.ratio)
        assert row.ratio_low == pytest.approx(other.ratio_low)
        assert row.second_is == other.second_is


def test_swapping_the_studies_inverts_the_ratio():
    generator = np.random.default_rng(2)
    first = study({k: list(1 / k + 0.05 * generator.random(7)) for k in (1, 2)})
    second = study({k: list(2 / k + 0.05 * generator.random(7)) for k in (1, 2)})
    for row, other in zip(
        compare(first, second, 0.7).rows, compare(second, first, 0.7).rows, strict=True
    ):
        assert row.ratio == pytest.approx(1 / other.ratio)
        assert row.ratio_low == pytest.approx(1 / other.ratio_high)
        assert (row.second_is, other.second_is) == ("slower", "faster")


def test_few_rounds_give_a_range_and_single_runs_no_verdict():
    result = compare(study({1: [1.0, 1.1], 2: [0.6]}), study({1: [2.0, 2.2], 2: [1.2]}), 0.7)
    assert result.rows[0].ratio_low == pytest.approx(2.0 / 1.1)
    assert result.rows[1].ratio_low is None
    assert [row.second_is for row in result.rows] == ["not distinguishable", "unknown"]
    assert result.interval == "none (single runs)"


def test_what_cannot_be_compared_is_refused():
    strong = study({1: [1.0], 2: [0.6]})
    with pytest.raises(DataError, match="is weak scaling"):
        compare(strong, study({1: [1.0], 2: [1.0]}, regime="weak"), 0.7)
    with pytest.raises(DataError, match="no scale in common"):
        compare(strong, study({4: [1.0], 8: [1.0]}), 0.7)


def staged(rows: dict[int, dict[str, float]], name="x", rounds=1, noise=0.0) -> Study:
    generator = np.random.default_rng(len(name))
    runs = []
    for nodes, stages in rows.items():
        for number in range(rounds):
            drawn = {stage: s * (1 + noise * generator.normal()) for stage, s in stages.items()}
            wall = sum(drawn.values())
            runs.append(Run(nodes=nodes, round=number, seconds=wall, stages=drawn))
    return Study(name=name, regime="strong", runs=tuple(runs))


def exchanging(seconds: float, **more) -> dict[int, dict[str, float]]:
    return {
        nodes: {"compute": 800 / nodes, "communication": seconds * (nodes - 1), **more}
        for nodes in (1, 2, 4, 8)
    }


def test_speedups_are_against_the_smallest_common_scale():
    """One law, and the second study without K=1."""
    first = study({1: [100.0], 2: [60.0], 4: [40.0]})
    second = study({2: [30.0], 4: [20.0], 8: [15.0]})
    result = compare(first, second, 0.7)
    assert result.base_nodes == 2
    assert [(row.nodes, row.first_speedup, row.second_speedup) for row in result.rows] == [
        (2, 1.0, 1.0), (4, 1.5, 1.5),
    ]  # fmt: skip
    assert result.first_scaling.base_nodes == result.second_scaling.base_nodes == 2
    assert (result.only_first, result.only_second) == ((1,), (8,))


def test_weak_speedups_grow_with_the_common_scale():
    first = study({1: [10.0], 2: [11.0], 8: [16.0]}, regime="weak")
    second = study({2: [22.0], 8: [32.0]}, regime="weak")
    row = compare(first, second, 0.7).rows[-1]
    assert row.first_speedup == row.second_speedup == pytest.approx(4 * 11 / 16)


def test_the_ledgers_differ_by_what_the_fix_removed():
    result = compare(staged(exchanging(20.0)), staged(exchanging(8.0)), 0.7)
    at = next(one for one in result.ledger if one.nodes == 8)
    (cause,) = at.causes
    assert cause.cause == "communication"
    assert cause.first_folds == pytest.approx(8 * 140 / 240)
    assert cause.second_folds == pytest.approx(8 * 56 / 156)
    assert cause.second_loses == "unknown"  # single runs
    assert at.first_lost - at.second_lost == pytest.approx(cause.first_folds - cause.second_folds)


def test_a_difference_of_causes_needs_intervals_that_do_not_meet():
    fixed = compare(
        staged(exchanging(20.0), "a", 7, 0.01), staged(exchanging(8.0), "bb", 7, 0.01), 0.7
    )
    same = compare(
        staged(exchanging(20.0), "a", 7, 0.05), staged(exchanging(20.0), "bb", 7, 0.05), 0.7
    )

    def loses(result):
        found = next(one for one in result.ledger if one.nodes == 8)
        return next(one.second_loses for one in found.causes if one.cause == "communication")

    assert (loses(fixed), loses(same)) == ("less", "not distinguishable")


def test_a_stage_that_one_study_lacks_is_not_recorded():
    result = compare(staged(exchanging(20.0)), staged(exchanging(8.0, io=30.0)), 0.7)
    reading = next(one for one in result.ledger[-1].causes if one.cause == "input/output")
    assert reading.first_folds is None
    assert reading.second_folds > 0


def test_ledgers_of_different_evidence_are_not_compared():
    result = compare(staged(exchanging(20.0)), study({1: [800.0], 2: [450.0], 4: [280.0]}), 0.7)
    assert result.ledger == ()
    assert "different evidence: stage totals in x, fitted law in x" in result.ledger_note


def test_different_work_is_noted():
    def working(work: float) -> Study:
        runs = [Run(nodes=k, round=0, seconds=10.0 / k, work=work) for k in (1, 2)]
        return Study(name="x", regime="strong", runs=tuple(runs))

    assert compare(working(100), working(100), 0.7).notes == ()
    assert "do different work" in compare(working(100), working(200), 0.7).notes[0]


def test_different_units_of_k_are_noted():
    nodes = study({1: [10.0], 2: [6.0]}, "nodes")
    gpus = msgspec.structs.replace(nodes, name="gpus", scale_unit=ScaleUnit(unit="GPU", per_node=8))
    assert compare(nodes, nodes, 0.7).notes == ()
    (note,) = compare(nodes, gpus, 0.7).notes
    assert note.startswith("K counts nodes in nodes and GPUs, 8 a node in gpus")


def test_five_rounds_tell_what_lies_far_outside_their_noise():
    noise = (0.99, 1.0, 1.01, 1.005, 0.995)
    times = {nodes: [100 / nodes * one for one in noise] for nodes in (1, 2, 4)}
    faster = {nodes: [0.7 * one for one in rounds] for nodes, rounds in times.items()}
    assert {row.second_is for row in compare(study(times), study(faster), 0.7).rows} == {"faster"}
