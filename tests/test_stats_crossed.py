"""Shares of trainings, conditions and both together, against least squares."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import t

from oodometer.errors import UserError
from oodometer.stats.crossed import crossed_shares


def by_least_squares(table):
    """Expected mean squares of a crossed design, its sums of squares by regression on dummies."""
    trainings, conditions = table.shape
    row, column = (place.ravel() for place in np.indices(table.shape))
    ones = np.ones((table.size, 1))
    rows, columns = np.eye(trainings)[row], np.eye(conditions)[column]

    def left(*parts):
        design = np.hstack([ones, *parts])
        fitted = design @ np.linalg.lstsq(design, table.ravel(), rcond=None)[0]
        return float(((table.ravel() - fitted) ** 2).sum())

    rest = left(rows, columns) / ((trainings - 1) * (conditions - 1))
    of_rows = (left(columns) - left(rows, columns)) / (trainings - 1)
    of_columns = (left(rows) - left(rows, columns)) / (conditions - 1)
    parts = np.array(
        [
            # Conditions are all there are: their variance is divided by their number.
            (of_columns - rest) / trainings * (conditions - 1) / conditions,
            (of_rows - rest) / conditions,
            rest,
        ]
    )
    parts = np.maximum(parts, 0.0)
    return parts / parts.sum()


@pytest.mark.parametrize(("trainings", "conditions"), [(3, 2), (5, 4), (9, 3)])
def test_shares_are_those_of_least_squares(trainings, conditions):
    rng = np.random.default_rng(trainings)
    table = rng.normal(size=(trainings, 1)) + rng.normal(size=conditions)
    table = table + 0.5 * rng.normal(size=table.shape)
    found = crossed_shares(table)
    expected = by_least_squares(table)
    assert [share.value for share in found] == pytest.approx(expected)
    left = [by_least_squares(np.delete(table, out, axis=0)) for out in range(trainings)]
    logits = logit(np.clip(left, 1e-12, 1 - 1e-12))
    errors = np.sqrt((trainings - 1) * logits.var(axis=0))  # the jackknife's
    for level in (0.5, 0.95):
        reach = t.ppf(0.5 + 0.5 * level, trainings - 1) * errors
        for share, value, error in zip(crossed_shares(table, level=level), expected, reach,
                                       strict=True):  # fmt: skip
            low, high = expit(logit(np.clip(value, 1e-12, 1 - 1e-12)) + np.array([-error, error]))
            assert share.low == pytest.approx(min(low, value), rel=1e-6, abs=1e-9)
            assert share.high == pytest.approx(max(high, value), rel=1e-6, abs=1e-9)


def test_each_part_alone_has_all():
    column = np.array([[0.9], [0.8], [0.85], [0.7]])
    for place, table in enumerate((np.tile([0.9, 0.8, 0.7], (4, 1)), np.tile(column, (1, 3)))):
        found = crossed_shares(table)
        assert found[place].value == pytest.approx(1.0)
        assert sum(share.value for share in found) == pytest.approx(1.0)
    assert crossed_shares(np.full((4, 3), 0.9)) is None


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([[1, 2], [1]], "every row of the same length"),
        ([["a", "b"]] * 3, "of real numbers"),
        ([[1.0, math.nan], [1, 2], [2, 3]], "finite"),
        ([[1e200, 1.0], [1, 2], [2, 3]], "must lie within"),
        ([[1.0, 2.0]] * 2, "at least 3 runs"),
        ([], "at least 3 runs"),
    ],
)
def test_refusals(values, told):
    with pytest.raises(UserError, match=told):
        crossed_shares(values)
