import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.base.errors import DataError
from nodewise.explain.compare import compare
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
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
    assert [row.second_is for row in result.rows] == ["not told apart"] * 3 + ["faster"]
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


def test_few_rounds_give_a_range_and_no_verdict():
    result = compare(study({1: [1.0, 1.1], 2: [0.6]}), study({1: [2.0, 2.2], 2: [1.2]}), 0.7)
    assert result.rows[0].ratio_low == pytest.approx(2.0 / 1.1)
    assert result.rows[1].ratio_low is None
    assert {row.second_is for row in result.rows} == {"unknown"}
    assert result.interval == "none: single runs"


def test_what_cannot_be_compared_is_refused():
    strong = study({1: [1.0], 2: [0.6]})
    with pytest.raises(DataError, match="is weak scaling"):
        compare(strong, study({1: [1.0], 2: [1.0]}, regime="weak"), 0.7)
    with pytest.raises(DataError, match="no scale in common"):
        compare(strong, study({4: [1.0], 8: [1.0]}), 0.7)
