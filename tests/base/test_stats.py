from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from nodewise.base.interval import Interval, median_interval
from nodewise.base.stats import (
    center_of,
    margins_of,
    median,
    normal_quantile,
    normal_share_below,
    percentile_interval,
    plausible_centers,
    plausible_reach,
    quantiles,
    ratio_interval,
    resample,
    resample_rounds,
    share_below,
    std,
    student_quantile,
)


def test_the_order_statistics_hold_the_median_as_often_as_promised():
    for n in [*range(6, 300), 999, 1000, 1001, 5000]:
        interval = median_interval(np.arange(n, dtype=float))
        cut = int(interval.low)
        assert interval.high == n - 1 - cut
        assert 1 - 2 * reference.binom.cdf(cut, n, 0.5) >= 0.95
        assert n > 1000 or 1 - 2 * reference.binom.cdf(cut + 1, n, 0.5) < 0.95


def test_below_six_values_it_is_the_range():
    assert median_interval(np.array([3.0, 1.0, 2.0, 9.0, 4.0])) == Interval(1.0, 9.0)


def test_resampling_is_reproducible_and_pairs_whole_rounds():
    generator = np.random.default_rng(1)
    drift = np.linspace(1, 2, 8)  # the machine slows down from round to round
    base = 10 * drift * (1 + 0.001 * generator.standard_normal(8))
    other = 5 * drift * (1 + 0.001 * generator.standard_normal(8))
    paired = resample([base, other], paired=True, center="mean")
    apart = resample([base, other], paired=False, center="mean")
    again = resample([base, other], paired=True, center="mean")
    assert np.array_equal(paired, again)
    assert np.std(paired[:, 0] / paired[:, 1]) < 0.05 * np.std(apart[:, 0] / apart[:, 1])


@pytest.mark.parametrize("rounds", [6, 7, 10, 15])
def test_resampled_intervals_hold_a_ratio_as_often_as_they_say(rounds):
    """Nominal 95 %; plain percentiles of seven rounds would hold it in 88."""
    generator = np.random.default_rng(rounds)
    held = 0
    for study in range(300):
        base, other = 1 + 0.05 * generator.standard_normal((2, rounds))
        picks = resample_rounds(rounds, 2000, seed=study)
        ratio = percentile_interval(base[picks].mean(axis=1) / other[picks].mean(axis=1), rounds)
        held += ratio.low <= 1 <= ratio.high
    assert 0.90 <= held / 300 <= 0.99


@pytest.mark.parametrize("freedom", [5, 6, 9, 20, 100])
def test_the_student_quantile(freedom):
    assert student_quantile(0.975, freedom) == pytest.approx(
        reference.t.ppf(0.975, freedom), abs=0.01
    )


def test_single_runs_give_no_resamples():
    assert resample([np.array([1.0]), np.array([2.0])], True, "mean") is None
    assert std(np.array([1.0])) is None


def test_centres():
    values = np.array([1.0, 2.0, 9.0])
    assert float(center_of(values, "mean")) == 4.0
    assert float(center_of(values, "median")) == 2.0


@given(st.floats(-6, 6))
def test_the_normal_distribution(value):
    assert normal_share_below(value) == pytest.approx(reference.norm.cdf(value), abs=1e-12)


def test_the_interval_of_a_ratio_is_that_of_a_paired_t_test_when_noise_is_small():
    generator = np.random.default_rng(3)
    above = 4 * (1 + 1e-4 * generator.standard_normal(7))
    below = 2 * (1 + 1e-4 * generator.standard_normal(7))
    expected = reference.ttest_rel(np.log(above), np.log(below)).confidence_interval(0.95)
    low, high = ratio_interval(above, below, paired=True)
    # the expansion of Student's quantile is right to three digits
    assert np.log([low, high]) == pytest.approx([expected.low, expected.high], abs=1e-7)


@pytest.mark.parametrize("paired", [True, False])
def test_equal_jobs_are_called_different_no_more_often_than_promised(paired):
    """Skewed noise with spikes, as on a busy machine; seven rounds."""
    generator = np.random.default_rng(5)
    studies = 2000
    noise = np.exp(0.2 * generator.standard_normal((studies, 2, 7)))
    spikes = generator.random((studies, 2, 7)) < 0.1
    seconds = noise + spikes * generator.exponential(1.0, (studies, 2, 7))
    intervals = [ratio_interval(above, below, paired) for above, below in seconds]
    assert sum(not low <= 1 <= high for low, high in intervals) < 0.055 * studies


def test_the_reach_of_a_run_is_as_uncertain_as_its_rounds():
    generator = np.random.default_rng(5)
    few, many = (np.exp(0.1 * generator.standard_normal(count)) for count in (3, 300))
    once = np.array([1.0])
    reach = np.log(plausible_reach([few, many, once], 0.95, 4000))
    assert reach.shape == (4000, 3)
    spread = float(np.std(np.log(many), ddof=1))
    assert np.median(reach[:, 1]) == pytest.approx(reference.norm.ppf(0.95) * spread, rel=0.02)
    assert np.median(reach[:, 2]) == pytest.approx(np.median(reach[:, 1]), rel=0.05)
    wide, narrow = (np.ptp(np.quantile(column, [0.1, 0.9])) for column in reach.T[:2])
    assert wide > 5 * narrow
    more = np.log(plausible_reach([few, many, once], 0.95, 4000, more_rounds=[50, 50, 50]))
    assert np.ptp(np.quantile(more[:, 0], [0.1, 0.9])) < wide / 3


def test_further_rounds_of_one_scale_narrow_that_scale_alone():
    generator = np.random.default_rng(5)
    samples = [np.exp(0.1 * generator.standard_normal(6)) for _ in range(2)]
    rounds = [np.arange(6)] * 2
    widths = [
        np.ptp(
            np.quantile(
                np.log(plausible_centers(samples, rounds, "mean", more)), [0.1, 0.9], axis=0
            ),
            axis=0,
        )
        for more in ((), (0, 30), (30, 30))
    ]
    now, one, both = widths
    assert one[0] == pytest.approx(now[0], rel=0.01)
    assert one[1] < now[1] / 2
    assert both[0] < now[0] / 2
    same = [
        np.log(plausible_centers(samples[:1] * 2, rounds, "mean", more))
        for more in ((0, 30), (30, 30))
    ]
    assert np.ptp(same[1][:, 0] - same[1][:, 1]) == pytest.approx(0.0, abs=1e-12)  # paired
    assert np.ptp(same[0][:, 0] - same[0][:, 1]) > 0.1


def test_a_second_faster_run_does_not_lower_the_chance_to_be_in_time():
    one, two = np.array([159.6]), np.array([159.6, 154.6])
    limits = {"limit": 172.0, "spread": 0.02, "spread_freedom": 30}
    assert share_below(two, **limits) > share_below(one, **limits) > 0.95


def test_margins_of_two_rounds_use_the_spread_of_all_scales():
    generator = np.random.default_rng(0)
    samples = [k * (1 + 0.02 * generator.standard_normal(2)) for k in (100.0, 52.0, 29.0, 16.0)]
    margins = margins_of(samples, [np.arange(2)] * 4)
    assert margins is not None
    assert 0.01 < margins.max() < 0.3  # by two rounds of one pair alone it may be any
    assert margins_of([one[:1] for one in samples], [np.arange(1)] * 4) is None


@given(
    values=st.lists(st.floats(allow_infinity=False, width=32), min_size=1, max_size=40),
    columns=st.integers(1, 3),
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=3),
)
def test_quantiles_and_medians_are_exactly_those_of_numpy(values, columns, shares):
    table = np.outer(np.array(values), np.arange(1.0, columns + 1))
    for samples in (table, table[:, 0]):
        reference = np.quantile(samples, shares, axis=0)
        assert np.array_equal(quantiles(samples, shares), reference, equal_nan=True)
        for axis in range(samples.ndim):
            reference = np.median(samples, axis=axis)
            assert np.array_equal(median(samples, axis), reference, equal_nan=True)


@given(st.floats(1e-12, 1 - 1e-12))
def test_the_normal_quantile_is_that_of_the_standard_library(share):
    assert normal_quantile(share) == pytest.approx(NormalDist().inv_cdf(share), abs=1e-11)
    assert normal_share_below(normal_quantile(share)) == pytest.approx(share, abs=1e-12)
