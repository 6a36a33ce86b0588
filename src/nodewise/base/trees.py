"""Boosted regression trees that were learnt elsewhere: only their evaluation."""

import msgspec
import numpy as np

from nodewise.base.stats import Floats


class Trees(msgspec.Struct, frozen=True, kw_only=True):
    """A sum of trees of one depth, plus a linear part; a row of features gives one value.

    Each tree is full: `features` and `limits` of its nodes from the root down, left to right, then
    `values` of its leaves. A row goes right where its feature is above the limit.
    """

    start: float
    linear: list[float]
    features: list[list[int]]
    limits: list[list[float]]
    values: list[list[float]]

    def at(self, rows: Floats) -> Floats:
        """The value of each row."""
        features, limits = np.array(self.features), np.array(self.limits)
        values = np.array(self.values)
        each = np.arange(len(features))
        node = np.zeros((len(rows), len(features)), np.int64)
        for _ in range(int(np.log2(values.shape[1]))):
            above = rows[np.arange(len(rows))[:, None], features[each, node]] > limits[each, node]
            node = 2 * node + 1 + above
        leaves = values[each, node - features.shape[1]]
        return np.asarray(self.start + rows @ np.array(self.linear) + leaves.sum(1))
