"""Ranks of detectors over columns, such as trainings or outlier sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from oodometer.errors import UserError
from oodometer.metrics.counts import Floats


def _rising(values: ArrayLike, higher_is_better: bool) -> Floats:
    """Return (detectors, columns) such that higher is better, or raise a `UserError`."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or not table.size:
        raise UserError(
            f"values must be a table (detectors, columns) with content, got shape {table.shape}."
        )
    missing = np.argwhere(np.isnan(table))
    if missing.size:
        row, column = missing[0]
        raise UserError(
            f"values must not be NaN, but {len(missing)} of {table.size} are, the first in row "
            f"{row}, column {column}: compare detectors only where all have a value."
        )
    return table if higher_is_better else -table


def rank_matrix(values: ArrayLike, *, higher_is_better: bool = True) -> Floats:
    """Rank of each detector in each column: 1 is best, equal values share the mean of their ranks.

    The ranks of a column add up to k (k + 1) / 2 for k detectors, ties or not.

    >>> rank_matrix([[0.9, 0.7], [0.8, 0.7]]).tolist()
    [[1.0, 1.5], [2.0, 1.5]]
    """
    table = _rising(values, higher_is_better)
    better = np.array([(table > row).sum(axis=0) for row in table])
    equal = np.array([(table == row).sum(axis=0) for row in table])
    return np.asarray(better + 0.5 * (equal + 1))
