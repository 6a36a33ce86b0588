"""Least squares with coefficients that cannot be negative."""

import functools
import itertools

import numpy as np

from nodewise.base.stats import Floats

_EXACT = 1e-20  # squared errors below this share of the squared values are rounding


def nonnegative_fit(columns: Floats, values: Floats, weights: Floats | None = None) -> Floats:
    """Coefficients >= 0 of the columns with the least weighted squared error.

    `values` is one row or many, each fitted on its own; weights of 1/value make errors relative.
    The optimum is an ordinary solution on the columns that it uses, so all subsets of the (at most
    four) columns are solved at once, for all rows. Among equal fits, the one with fewest columns
    wins.

    >>> fit = nonnegative_fit(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([2.0, -1.0]))
    >>> [round(float(value), 12) for value in fit]
    [2.0, 0.0]
    """
    if weights is not None:
        columns, values = columns * weights[:, None], values * weights
    size = np.sqrt(np.sum(columns**2, axis=0))
    size[size == 0] = 1.0
    count = columns.shape[1]
    # The triangle of the columns replaces them, however many points there are.
    basis, triangle = np.linalg.qr(columns / size)
    targets = (values @ basis).reshape(-1, basis.shape[1]).T
    chosen = _subsets(count)
    solved = chosen[:, :, None] * (np.linalg.pinv(triangle * chosen[:, None, :]) @ targets)
    error = np.sum((targets - triangle @ solved) ** 2, axis=1)
    error[error < _EXACT * np.sum(targets**2, axis=0)] = 0.0
    error[np.any(solved < 0, axis=1)] = np.inf
    best = solved[np.argmin(error, axis=0), :, np.arange(targets.shape[1])] / size
    return np.asarray(best.reshape(*values.shape[:-1], count))


@functools.cache
def _subsets(count: int) -> Floats:
    """Every choice of columns, a row of ones and zeros each, the smaller ones first."""
    subsets = sorted(itertools.product((1.0, 0.0), repeat=count), key=sum)
    return np.array(subsets)
