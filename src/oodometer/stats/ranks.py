"""Ranks of detectors over columns, such as training runs or outlier sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from oodometer.metrics.counts import Floats
from oodometer.stats.values import table_values

ROUNDING = 1e-12  # of the larger value, or a usual one: what differs by less is equal


def _rising(values: ArrayLike, higher_is_better: bool) -> Floats:
    """Return (detectors, columns) such that higher is better, or raise a `UserError`."""
    table = table_values(values)
    return table if higher_is_better else -table


def rank_matrix(values: ArrayLike, *, higher_is_better: bool = True) -> Floats:
    """Rank of each detector in each column: 1 is best, equal values share the mean of their ranks.

    The ranks of a column add up to k (k + 1) / 2 for k detectors, ties or not. Values that differ
    by rounding only, such as means of the same numbers in another order, are equal.

    >>> rank_matrix([[0.9, 0.7], [0.8, 0.7]]).tolist()
    [[1.0, 1.5], [2.0, 1.5]]
    """
    table = _rising(values, higher_is_better)
    sizes = np.where(np.isfinite(table), np.abs(table), 0.0)
    usual = np.median(sizes, axis=0)  # a loss that exploded in one run makes no others equal
    ranks = np.empty_like(table)
    for place, row in enumerate(table):
        near = ROUNDING * np.maximum(np.maximum(sizes, sizes[place]), usual)
        with np.errstate(invalid="ignore"):  # infinity less itself
            equal = (table == row) | (np.abs(table - row) <= near)
        ranks[place] = ((table > row) & ~equal).sum(axis=0) + 0.5 * (equal.sum(axis=0) + 1)
    return ranks
