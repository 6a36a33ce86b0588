import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import optimize

from nodewise.base.fits import nonnegative_fit


@given(
    arrays(float, (7, 3), elements=st.floats(0.1, 10)),
    arrays(float, (4, 7), elements=st.floats(-5, 5)),
)
def test_fits_agree_with_scipy_in_a_batch_and_alone(columns, values):
    batch = nonnegative_fit(columns, values)
    assert np.all(batch >= 0)
    for row, target in zip(batch, values, strict=True):
        _, error = optimize.nnls(columns, target)
        assert np.linalg.norm(columns @ row - target) == pytest.approx(error, abs=1e-6)
        alone = nonnegative_fit(columns, target)
        assert np.linalg.norm(columns @ alone - target) == pytest.approx(error, abs=1e-6)


@given(arrays(float, 6, elements=st.floats(0.01, 100)), st.integers(2, 1000))
def test_weighted_fits_of_a_scaling_law_agree_with_scipy(seconds, largest):
    k = np.geomspace(1, largest, 6)
    columns = np.stack([1 / k, 1 - 1 / k, np.log2(k), k - 1], axis=1)
    found = nonnegative_fit(columns, seconds, 1 / seconds)
    _, error = optimize.nnls(columns / seconds[:, None], np.ones(6))
    assert np.linalg.norm(columns @ found / seconds - 1) == pytest.approx(error, abs=1e-6)


def test_of_equal_fits_the_one_with_fewer_and_earlier_columns_wins():
    k = np.array([1.0, 2.0, 4.0])
    columns = np.stack([1 / k, 1 - 1 / k, np.log2(k), k - 1], axis=1)
    assert nonnegative_fit(columns, 0.1 + 0.9 / k) == pytest.approx([1.0, 0.1, 0, 0], abs=1e-12)
    assert nonnegative_fit(columns, 0.1 + 0.9 / k + 0.01 * k)[3] == 0.0


def test_a_point_of_weight_zero_is_left_out_and_a_column_of_zeros_gets_nothing():
    columns = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    found = nonnegative_fit(columns, np.array([2.0, 2.0, 50.0]), np.array([1.0, 1.0, 0.0]))
    assert found == pytest.approx([2.0, 0.0])
