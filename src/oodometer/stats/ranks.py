"""Ranks of detectors over columns, such as training runs or outlier sets."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.metrics.delong import check_level
from oodometer.stats.values import check_generator, run_values, table_values

ENOUGH_COLUMNS = 10  # with fewer, resampled means do not spread as the mean does


def _rising(values: ArrayLike, higher_is_better: bool) -> Floats:
    """Return (detectors, columns) such that higher is better, or raise a `UserError`."""
    table = table_values(values)
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


def places(
    values: ArrayLike,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    higher_is_better: bool = True,
    resamples: int = 2000,
) -> list[Estimate]:
    """Place of each detector by its mean over the columns, with the places it could deserve.

    A detector is above another only if the paired difference says so, allowing for all k - 1
    comparisons of this detector: |mean difference| / standard error is held against the quantile
    of its resampled maximum, or with fewer than ten columns against Student's with Bonferroni's
    correction. Places from 1 + (those above) to k - (those below) remain: Mogstad, Romano, Shaikh
    & Wilhelm 2024, doi:10.1093/restud/rdad006. Resampled places themselves would be too sure of
    themselves where detectors are equal. One column excludes nothing.
    """
    check_level(level)
    check_generator(rng)
    table = _rising(values, higher_is_better)
    detectors, columns = table.shape
    run_values(table.ravel(), "values")  # infinite values have ranks, but no mean
    middle = rank_matrix(table.mean(axis=1, keepdims=True))[:, 0]
    if columns == 1 or detectors == 1:
        return [Estimate(float(place), 1.0, float(detectors)) for place in middle]
    tail = 0.5 - 0.5 * level
    drawn = rng.integers(columns, size=(resamples, columns))
    found = []
    for row in range(detectors):
        differences = np.delete(table - table[row], row, axis=0)
        error = differences.std(axis=1, ddof=1) / math.sqrt(columns)
        needed = -float(stdtrit(columns - 1, tail / (detectors - 1)))
        if columns >= ENOUGH_COLUMNS:
            needed = min(needed, _largest(differences, drawn, level))
            needed = max(needed, -float(stdtrit(columns - 1, tail)))
        mean = differences.mean(axis=1)
        # Differences that are the same in all columns have no error but that of rounding.
        sure = np.abs(mean) > np.maximum(needed * error, 1e-12 * np.abs(table).max())
        found.append(
            Estimate(
                float(middle[row]),
                1.0 + int((sure & (mean > 0.0)).sum()),
                float(detectors - int((sure & (mean < 0.0)).sum())),
            )
        )
    return found


def _largest(differences: Floats, drawn: NDArray[np.intp], level: float) -> float:
    """Quantile over resampled columns of the largest studentised deviation of any difference."""
    centred = differences - differences.mean(axis=1, keepdims=True)
    largest = np.zeros(len(drawn))
    for row in centred:
        again = row[drawn]
        error = again.std(axis=1, ddof=1) / math.sqrt(row.size)
        deviation = np.abs(again.mean(axis=1))
        np.maximum(
            largest,
            np.divide(deviation, error, out=np.zeros_like(error), where=error > 0.0),
            out=largest,
        )
    return float(np.quantile(largest, level))
