import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewise.base.errors import SpecError
from nodewise.explain.laws import Law, amdahl_scale_at_efficiency, cannot_tell, fit_laws, parse_law

K = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
serials = st.floats(0.0, 0.3)
growths = st.floats(0.0, 0.01)


@given(serials, growths, st.floats(1e-3, 1e5), st.sampled_from(["linear", "log2"]))
def test_refitting_noiseless_data_returns_the_parameters(s, c, seconds, growth):
    law = Law(s=s, c=c, growth=growth, base_seconds=seconds)
    laws = fit_laws(K, law.seconds(K), None, "strong")
    fit = laws.universal if growth == "linear" else laws.log2
    assert fit.s == pytest.approx(s, abs=1e-7)
    assert fit.c == pytest.approx(c, abs=1e-7)
    assert fit.base_seconds == pytest.approx(seconds)
    assert fit.rms < 1e-6


@given(serials, st.floats(1e-3, 1e5))
def test_amdahl_returns_its_serial_fraction_and_ceiling(s, seconds):
    times = Law(s=s, growth="none", base_seconds=seconds).seconds(K)
    fit = fit_laws(K, times, None, "strong").amdahl
    assert fit.s == pytest.approx(s, abs=1e-9)
    if s > 1e-6:
        assert fit.ceiling == pytest.approx(1 / s, rel=1e-3)
        at_half = amdahl_scale_at_efficiency(s, 0.5)
        efficiency = 1 / (s * at_half + 1 - s)
        assert efficiency == pytest.approx(0.5)


@given(st.floats(0.0, 0.9))
def test_gustafson_returns_its_serial_fraction(s):
    times = 3.0 * K / (K - s * (K - 1))
    assert fit_laws(K, times, None, "weak").gustafson.s == pytest.approx(s, abs=1e-9)


def test_weak_growth_is_fitted_too():
    times = Law(c=0.02, growth="log2", regime="weak", base_seconds=5.0).seconds(K)
    laws = fit_laws(K, times, None, "weak")
    assert laws.amdahl is None
    assert laws.log2.c == pytest.approx(0.02)
    assert laws.nearest()[0] == "log2"


def test_the_ceiling_of_a_growing_law_is_where_it_turns():
    fit = fit_laws(K, Law(s=0.03, c=0.0015).seconds(K), None, "strong").universal
    assert fit.ceiling_at == pytest.approx(25.43, abs=0.005)  # sqrt((1-s)/c)
    assert fit.ceiling == pytest.approx(9.54, abs=0.005)


@given(st.floats(0.1, 1e4))
def test_laws_do_not_depend_on_the_unit_of_time(unit):
    generator = np.random.default_rng(3)
    times = Law(s=0.05, c=0.001).seconds(K) * (1 + 0.02 * generator.standard_normal(5))
    one, other = fit_laws(K, times, None, "strong"), fit_laws(K, unit * times, None, "strong")
    assert other.universal.s == pytest.approx(one.universal.s)
    assert other.log2.c == pytest.approx(one.log2.c)
    assert other.amdahl.ceiling == pytest.approx(one.amdahl.ceiling)


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    generator = np.random.default_rng(5)
    law = Law(s=0.05, c=0.002)
    held = 0
    for _ in range(200):
        samples = law.seconds(K) * (1 + 0.02 * generator.standard_normal((10, 5)))
        draws = samples[generator.integers(0, 10, (500, 10))].mean(axis=1)
        fit = fit_laws(K, samples.mean(axis=0), draws, "strong", rounds=10).universal
        held += fit.s_low <= 0.05 <= fit.s_high
    assert 180 <= held <= 200  # nominal 190


def test_points_outside_a_law_are_said_to_be():
    faster = fit_laws(K[:4], np.array([10.0, 1.0, 0.9, 0.8]), None, "strong").amdahl
    assert (faster.s, faster.holds, faster.ceiling) == (0.0, False, None)
    slower = fit_laws(K[:3], np.array([10.0, 20.0, 40.0]), None, "strong").amdahl
    assert (slower.s, slower.holds, slower.ceiling) == (1.0, False, 1.0)
    weak = fit_laws(K[:3], np.array([1.0, 10.0, 100.0]), None, "weak").gustafson
    assert weak.s == 1.0
    assert min(weak.speedup) > 0


def test_single_runs_get_the_range_of_leaving_one_scale_out():
    fit = fit_laws(K, Law(s=0.05, c=0.001).seconds(K), None, "strong").universal
    assert fit.interval == "range when one scale is left out"
    assert fit.s_low <= fit.s <= fit.s_high + 1e-12


def test_what_the_data_cannot_tell():
    def sentence(k, times):
        return cannot_tell(k, fit_laws(k, times, None, "strong"), "strong")

    assert "Only 2 scales" in sentence(K[:2], Law(s=0.1).seconds(K[:2]))
    assert "fourth scale" in sentence(K[:3], Law(s=0.1, c=0.01).seconds(K[:3]))
    assert "looks serial" in sentence(K, Law(s=0.1, growth="none").seconds(K))
    assert "grows with log2 K fits" in sentence(K, Law(s=0.1, c=0.01, growth="log2").seconds(K))
    noisy = Law(s=0.1, c=0.002).seconds(K) * np.array([1.0, 1.03, 0.97, 1.03, 0.98])
    assert "one larger scale would decide" in sentence(K, noisy)


def test_a_closer_fit_within_the_noise_is_not_called_closer():
    """Growth with log2 K, three parameters on five scales: chance alone fits a hair better."""
    k = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    laws = fit_laws(k, Law(s=0.02, c=0.004, growth="log2").seconds(k), None, "strong")
    assert laws.log2.rms < 0.1 * laws.universal.rms
    assert "about equally well" in cannot_tell(k, laws, "strong", error=0.01, freedom=25)


def test_three_scales_leave_no_residual_for_either_law():
    k = np.array([4.0, 8.0, 16.0]) / 4
    laws = fit_laws(k, np.array([7000.0, 3600.0, 2000.0]), None, "strong")
    assert "fourth scale" in cannot_tell(k, laws, "strong")


@pytest.mark.parametrize(
    "text",
    ["", "s", "s=", "s=x", "s=2", "c=-1", "s=0.1,s=0.2", "q=1", "s=0.1,growth=cubic", "s=nan"],
)
def test_bad_laws_are_refused(text):
    with pytest.raises(SpecError):
        parse_law(text)


def test_the_ceiling_is_over_the_measured_base():
    """A baseline 1.6 times too slow: the law's own base is another one."""
    k = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    times = np.array([1600, 515, 272.5, 151.25, 90.6, 60.3])
    fit = fit_laws(k, times, None, "strong").universal
    assert fit.ceiling >= max(times[0] / times.min(), *fit.speedup)


def test_a_small_serial_share_is_not_lost_in_the_noise_of_small_scales():
    k = np.array([1.0, 10.0, 100.0, 1000.0, 10000.0])
    times = Law(s=5e-5, growth="none", base_seconds=1e5).seconds(k)
    times[1] *= 0.99
    assert fit_laws(k, times, None, "strong").amdahl.s == pytest.approx(5e-5, rel=0.05)
