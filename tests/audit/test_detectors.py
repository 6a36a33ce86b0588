"""Detectors on planted defects, and on honest curves; rates are counted by benchmarks/audit.py."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.audit.detectors import (
    averaged_ratios,
    bends_back,
    column_mismatch,
    dependent_repeats,
    identical_repeats,
    idle_digits,
    missing_scales,
    summary_used,
    too_straight,
)
from nodewise.explain.baseline import Points, points_of, slow_baseline, superlinear
from nodewise.explain.laws import Law
from nodewise.explain.simulate import PlantedTruth, simulate
from nodewise.explain.validity import changed_amount

LADDER = (1, 2, 4, 8, 16, 32, 64)


def bare(seconds, nodes=None, regime="strong") -> Points:
    nodes = nodes or [2**n for n in range(len(seconds))]
    return points_of(nodes, [np.array([value]) for value in seconds], regime)


def planted(factor=1.0, rounds=7, seed=7, noise=0.02, **law) -> Points:
    plan = PlantedTruth(
        law=Law(**{"s": 0.03, "c": 0.0003, "growth": "linear"} | law),
        baseline_factor=factor, rounds=rounds, seed=seed, noise=noise,
    )  # fmt: skip
    study = simulate(plan)
    samples = [np.array([run.seconds for run in study.at(n)]) for n in study.scales]
    return points_of(study.scales, samples, study.regime)


@pytest.mark.parametrize("rounds", [1, 7])
def test_a_slow_baseline_is_found_at_its_size(rounds):
    found = slow_baseline(planted(1.8, rounds))
    assert found.seen
    assert found.size == pytest.approx(1.8, rel=0.06)
    assert found.low < 1.8 < found.high
    assert found.evidence.startswith("T(1) is 1.8 times what the rest of the curve implies")


def test_an_honest_baseline_is_not_blamed():
    alarms = sum(bool(slow_baseline(planted(seed=seed)).seen) for seed in range(60))
    assert alarms <= 3


def test_a_curve_that_no_law_describes_says_nothing_of_its_base():
    saturated = bare([1, 0.5, 0.25, 0.13, 0.3, 0.9, 3.0])
    assert slow_baseline(saturated).seen is None
    worse = bare([1, 0.96, 1.67, 2.1, 2.0, 2.4, 2.4, 2.5], nodes=list(range(1, 9)))
    assert not slow_baseline(worse).seen


def test_two_scales_imply_nothing():
    assert slow_baseline(bare([10, 6])).seen is None
    assert slow_baseline(
        bare([10, 3])
    ).seen  # more than ideal: the base is at least so much too slow


@pytest.mark.parametrize("regime", ["strong", "weak"])
def test_a_perfect_line_is_suspected(regime):
    seconds = [1, 1 / 2, 1 / 4, 1 / 8] if regime == "strong" else [1, 1, 1, 1]
    assert too_straight(bare(seconds, regime=regime)).seen
    assert too_straight(bare(seconds[:3], regime=regime)).seen is None
    assert too_straight(planted()).seen is False


def test_faster_than_ideal_is_named_with_its_scales():
    found = superlinear(bare([10, 4.0, 2.4, 1.3]))
    assert found.seen and "K=2" in found.evidence
    assert superlinear(bare([10, 4.95, 2.48, 1.3])).seen is False


def test_less_work_on_the_way_is_seen():
    seconds = [100, 52, 28, 16, 7, 4.2]
    assert bends_back(bare(seconds)).seen
    assert "K=16" in bends_back(bare(seconds)).evidence
    assert bends_back(planted()).seen is False


def test_a_batch_that_begins_to_grow_is_seen_in_the_serial_share():
    k = np.array([1, 2, 4, 8, 16, 32, 64, 128.0])
    overhead = 0.03 + 0.004 * k
    seconds = 1 / k + overhead / np.maximum(k / 8, 1)
    points = points_of(
        k.astype(int).tolist(), [np.array([t, t * 1.001]) for t in seconds], "strong"
    )
    assert bends_back(points).seen


def test_columns_are_held_to_their_digits():
    nodes, seconds = [1, 2, 4], [(100.0, 0.05), (52.4, 0.05), (27.9, 0.05)]
    right = [(1.0, 0.005), (1.91, 0.005), (3.58, 0.005)]
    assert column_mismatch(nodes, seconds, right, None, "strong").seen is False
    wrong = [*right[:2], (3.7, 0.05)]
    assert column_mismatch(nodes, seconds, wrong, None, "strong").seen
    efficiency = [(1.0, 0.005), (0.95, 0.005), (0.90, 0.005)]
    assert column_mismatch(nodes, seconds, right, efficiency, "strong").seen is False
    assert column_mismatch(nodes, seconds, None, [*efficiency[:2], (0.95, 0.005)], "strong").seen


def test_weak_efficiency_is_the_ratio_of_times():
    seconds = [(10.0, 0.05), (10.5, 0.05)]
    assert column_mismatch([1, 2], seconds, None, [(1, 0.005), (0.95, 0.005)], "weak").seen is False


@given(st.lists(st.floats(0.5, 500), min_size=2, max_size=8, unique=True), st.integers(0, 4))
def test_honestly_rounded_columns_always_agree(times, decimals):
    times = sorted(times, reverse=True)
    nodes = [2**n for n in range(len(times))]
    half = 0.5 * 10.0**-decimals
    seconds = [(round(t, decimals), half) for t in times]
    speedup = [(round(times[0] / t, 2), 0.005) for t in times]
    if min(value for value, _ in seconds) > half:
        assert column_mismatch(nodes, seconds, speedup, None, "strong").seen is False


def test_how_speedups_were_made_from_repeats():
    draw = np.random.default_rng(3)
    samples = [t * (1 + 0.05 * draw.standard_normal(5)) for t in (100.0, 52.0, 28.0)]
    k = np.array([1.0, 2, 4])

    def used(speedups):
        return summary_used(samples, [(round(float(s), 3), 5e-4) for s in speedups], "strong", k)

    assert used([samples[0].mean() / v.mean() for v in samples]) == "ratio of means"
    assert used([np.mean(samples[0] / v) for v in samples]) == "mean of ratios"
    assert used([samples[0].mean() / v.min() for v in samples]) == "best of the repeats"
    assert used([1, 1.5, 2.2]) is None


def test_an_arithmetic_mean_of_ratios_is_told_from_a_geometric_one():
    assert averaged_ratios([1.0, 4.0], (2.5, 0.05)).seen
    assert averaged_ratios([1.0, 4.0], (2.0, 0.05)).seen is False


def test_digits_end_two_behind_the_spread():
    assert idle_digits([(12.345, 0.0005)], [0.5]).seen
    assert idle_digits([(12.35, 0.005)], [0.5]).seen is False


def test_equal_repeats_are_chance_only_where_digits_are_coarse():
    assert identical_repeats([np.array([10.123456, 10.123456, 10.2])]).seen
    coarse = [np.array([10.1, 10.1, 10.2]), np.array([5.0, 5.1, 5.1])]
    assert identical_repeats(coarse).seen is False
    assert identical_repeats([np.array([1.0])]).seen is None


def test_a_copied_pattern_is_seen():
    first = np.array([10.1, 9.7, 10.4, 9.9, 10.2])
    assert identical_repeats([first, first * 0.513]).seen


def test_holes_in_a_ladder():
    assert "K=8, 16" in missing_scales([1, 2, 4, 32, 64, 128]).evidence
    assert missing_scales([1, 2, 4, 8, 16]).seen is False
    assert missing_scales([10, 20, 30, 50]).seen
    assert missing_scales([1, 2]).seen is None
    assert missing_scales([1, 3, 7, 12]).seen is False


def test_repeats_that_follow_each_other_are_worth_less():
    walk = np.cumsum(np.random.default_rng(5).standard_normal(40))
    drifting = 100 + walk
    assert dependent_repeats([drifting]).seen
    assert dependent_repeats([100 + np.random.default_rng(5).standard_normal(40)]).seen is False
    assert dependent_repeats([np.array([1.0, 2.0])]).seen is None


def test_work_is_fixed_or_grows_with_k():
    assert changed_amount({1: 512, 2: 512}, None).seen is False
    assert changed_amount({1: 512, 2: 1024}, None).seen is False
    assert changed_amount({1: 512, 2: 1024}, "strong").seen
    switched = changed_amount({1: 512, 2: 512, 4: 1024}, None)
    assert switched.seen and "from K=4 on" in switched.evidence


@given(st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=12), st.sampled_from(["strong", "weak"]))
def test_no_numbers_break_a_detector(seconds, regime):
    points = bare(seconds, regime=regime)
    for detect in (slow_baseline, too_straight, superlinear, bends_back):
        assert detect(points).evidence
