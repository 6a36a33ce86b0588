import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.base.errors import DataError
from nodewise.explain.laws import Law
from nodewise.explain.scaling import scale
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.study.study import MpiCalls, MpiRecord, Rank, Run, Study
from nodewise.study.table import parse_table
from tests.conftest import golden_study


def study_of(times: dict[int, list[float]], regime="strong") -> Study:
    runs = [
        Run(nodes=nodes, round=number, seconds=seconds)
        for nodes, values in times.items()
        for number, seconds in enumerate(values)
    ]
    return Study(name="made", regime=regime, runs=tuple(runs))


@given(st.floats(1e-3, 1e3), st.integers(0, 50))
def test_speedup_does_not_depend_on_the_unit_of_time(unit, seed):
    study = simulate(
        PlantedTruth(law=Law(s=0.05, c=0.001), rounds=6, seed=seed, scales=(1, 2, 4, 8))
    )
    scaled = msgspec.structs.replace(
        study,
        runs=tuple(msgspec.structs.replace(r, seconds=unit * r.seconds) for r in study.runs),
    )
    one, other = scale(study), scale(scaled)
    for row, again in zip(one.rows, other.rows, strict=True):
        assert again.speedup == pytest.approx(row.speedup)
        assert again.efficiency == pytest.approx(row.efficiency)
        assert again.speedup_low == pytest.approx(row.speedup_low)
    assert (one.knee, one.fastest, one.bend.first_below) == (
        other.knee,
        other.fastest,
        other.bend.first_below,
    )


def test_without_k_1_everything_is_relative_to_the_smallest_scale_and_said():
    result = scale(study_of({4: [100.0], 8: [60.0], 16: [40.0]}))
    assert [row.speedup for row in result.rows] == pytest.approx([1.0, 100 / 60, 2.5])
    assert [row.efficiency for row in result.rows] == pytest.approx([1.0, 100 / 120, 0.625])
    assert result.base_nodes == 4
    assert any("relative to K=4" in check.evidence for check in result.checks)


def test_weak_scaling_is_measured_against_the_flat_line():
    result = scale(study_of({1: [10.0], 4: [10.5], 64: [11.0]}, "weak"))
    assert [row.efficiency for row in result.rows] == pytest.approx([1.0, 10 / 10.5, 10 / 11])
    assert result.rows[-1].speedup == pytest.approx(64 * 10 / 11)
    assert result.laws.amdahl is None
    assert result.laws.gustafson is not None


def test_one_system_under_both_regimes():
    """The same system looks like a failure under one plot and a success under the other."""
    law = Law(s=0.04, c=0.01, growth="log2")
    weak = msgspec.structs.replace(law, regime="weak")
    strong_result = scale(simulate(PlantedTruth(law=law, noise=0)))
    weak_result = scale(simulate(PlantedTruth(law=weak, noise=0)))
    assert strong_result.rows[-1].efficiency < 0.15
    assert weak_result.rows[-1].efficiency > 0.94


def test_fewer_than_six_rounds_are_a_range_and_one_has_none():
    five = scale(golden_study("step-times"))
    assert five.interval == "range of 5 rounds"
    samples = {k: [r.seconds for r in golden_study("step-times").at(k)] for k in (1, 8)}
    ratios = np.array(samples[1]) / np.array(samples[8])
    row = five.row(8)
    assert (row.speedup_low, row.speedup_high) == pytest.approx((ratios.min(), ratios.max()))
    single = scale(golden_study("breakdown"))
    assert single.rows[1].speedup_low is None
    assert single.rows[1].std is None
    assert any("single runs" in check.evidence for check in single.checks)


def test_resampled_intervals_hold_the_true_speedup():
    law = Law(s=0.05, c=0.002)
    truth = float(law.seconds(np.array([1.0]))[0] / law.seconds(np.array([8.0]))[0])
    held = 0
    for seed in range(100):
        plan = PlantedTruth(law=law, rounds=10, noise=0.03, seed=seed, scales=(1, 2, 4, 8))
        row = scale(simulate(plan)).row(8)
        held += row.speedup_low <= truth <= row.speedup_high
    assert held >= 90


def test_drift_that_hits_whole_rounds_does_not_widen_a_paired_interval():
    drift = [1.0, 1.2, 1.4, 1.6, 1.8, 2.0]
    result = scale(study_of({1: [10 * d for d in drift], 2: [6 * d for d in drift]}))
    assert result.row(2).speedup_low == pytest.approx(10 / 6)
    assert result.row(2).speedup_high == pytest.approx(10 / 6)


def test_the_bend_is_given_with_its_share_of_resamples():
    result = scale(golden_study("step-times"))
    assert result.bend.first_below == 8
    assert result.bend.last_above == 4
    assert result.bend.shares["8"] > 0.99
    straight = scale(study_of({1: [10.0], 2: [5.1], 4: [2.6]}))
    assert straight.bend.first_below is None
    assert straight.bend.last_above == 4


def test_the_knee_lies_on_the_fit_or_nowhere():
    textbook = scale(
        simulate(PlantedTruth(law=Law(s=0.03, c=0.0015), noise=0, scales=(1, 2, 4, 8, 16, 32)))
    )
    # S*E = 1/(K*T^2) is largest at K=12 for s=0.03, c=0.0015
    k = np.arange(1, 33)
    t = 0.03 + 0.97 / k + 0.0015 * (k - 1)
    assert textbook.knee == pytest.approx(int(k[np.argmax(1 / (k * t * t))]), abs=1)
    assert scale(study_of({1: [10.0], 2: [5.1], 4: [2.6]})).knee is None


def test_median_centre_is_not_moved_by_one_bad_run():
    times = {1: [10.0, 10.1, 9.9, 10.0, 30.0], 2: [5.0, 5.1, 4.9, 5.0, 5.05]}
    assert scale(study_of(times), center="median").row(1).seconds == 10.0
    result = scale(study_of(times))
    assert any("nodewise decide with --center median" in check.remedy for check in result.checks)


def test_superlinear_points_are_pointed_at():
    result = scale(study_of({1: [10.0], 2: [4.0], 4: [2.4]}))
    assert any("faster than ideal at K=2, 4" in check.evidence for check in result.checks)


def test_scales_of_different_rounds_are_not_paired_and_said():
    result = scale(study_of({1: [10.0, 10.1, 10.2], 2: [5.0, 5.1]}))
    assert any("not run in the same rounds" in check.evidence for check in result.checks)
    low, high = result.row(2).speedup_low, result.row(2).speedup_high
    assert (low, high) == pytest.approx((10.0 / 5.1, 10.2 / 5.0))


def test_one_scale_is_not_a_study():
    with pytest.raises(DataError, match="Only one scale"):
        scale(parse_table("K,time_s\n4,3\n"))


def test_every_scale_that_failed_is_named():
    ran = Run(nodes=1, round=0, seconds=3.0)
    ended = {2: ("crashed", "exit code 1"), 4: ("timeout", "stopped after 5 s")}
    failed = [
        Run(nodes=nodes, round=round, seconds=0.1, outcome=outcome, detail=detail)
        for nodes, (outcome, detail) in {**ended, 8: ended[4]}.items()
        for round in (0, 1)
    ]
    study = Study(name="job", regime="strong", runs=(ran, *failed[::-1]))
    with pytest.raises(DataError) as refused:
        scale(study)
    named = "K=2: crashed: exit code 1; K=4, 8: timeout: stopped after 5 s."
    assert refused.value.what == f"Only K=1 worked, and scaling needs two scales. {named}"


def test_amdahl_predicts_only_where_it_holds():
    def falls(law: Law) -> object:
        return scale(simulate(PlantedTruth(law=law, noise=0.001))).efficiency_falls

    assert falls(Law(s=0.03)).nodes == pytest.approx(1 / 0.03 + 1, rel=0.05)
    assert falls(Law(s=0.02, c=0.002)) is None


def test_many_recorded_mpi_calls_are_a_cost():
    def study(calls):
        record = MpiRecord(classes={"wait": MpiCalls(seconds=1.0, calls=calls)})
        rank = Rank(rank=0, stages={"compute": 5.0}, mpi=record)
        runs = [Run(nodes=n, round=1, seconds=8 / n, ranks=(rank,)) for n in (1, 2)]
        return Study(name="made", regime="strong", runs=tuple(runs))

    few, many = (
        [check for check in scale(study(calls)).checks if check.rule == "cost of recording"]
        for calls in (500_000, 5_000_000)
    )
    assert not few
    assert many[0].evidence == "recording the MPI calls takes up to 14 % of a run at K=2"
