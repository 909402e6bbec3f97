"""Ranks against SciPy and by their meaning."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from oodometer.errors import UserError
from oodometer.stats import rank_matrix

tables = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=7),
    elements=st.integers(0, 4).map(float),
)
relaxed = settings(deadline=None)


@relaxed
@given(tables, st.booleans())
def test_ranks_are_scipys(table, higher_is_better):
    expected = scipy.stats.rankdata(-table if higher_is_better else table, axis=0)
    np.testing.assert_array_equal(rank_matrix(table, higher_is_better=higher_is_better), expected)


@relaxed
@given(tables, st.randoms(use_true_random=False))
def test_renaming_detectors_permutes_the_answers(table, random):
    order = list(range(len(table)))
    random.shuffle(order)
    np.testing.assert_array_equal(rank_matrix(table[order]), rank_matrix(table)[order])


def test_only_rounding_makes_values_equal_not_a_run_that_exploded():
    sums = [0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1, 0.5]
    assert sums[0] != sums[1] and rank_matrix(np.c_[sums]).ravel().tolist() == [1.5, 1.5, 3.0]
    huge = rank_matrix([[1e15, 0.7], [2.0, 0.6], [1.0, 0.5]], higher_is_better=False)
    assert huge.tolist() == [[3.0, 3.0], [2.0, 2.0], [1.0, 1.0]]
    endless = rank_matrix([[np.inf, 0.7], [np.inf, 0.6], [1.0, 0.5]])
    assert endless[:, 0].tolist() == [1.5, 1.5, 3.0]
    assert rank_matrix([[0.0], [1e-17], [-0.4], [0.3]]).ravel().tolist() == [2.5, 2.5, 4.0, 1.0]


def test_bad_tables_are_named():
    with pytest.raises(UserError) as caught:
        rank_matrix([[0.5, 0.4], [0.3, np.nan]])
    assert str(caught.value) == (
        "values must not be NaN, but 1 of 4 are, the first in row 1, column 1: compare detectors "
        "only where all have a value."
    )
    with pytest.raises(UserError, match=r"got shape \(2,\)"):
        rank_matrix([0.5, 0.4])
    for table in ([[1, 2], [3]], [["a", "b"]], [[1j, 2]]):
        with pytest.raises(UserError, match="real numbers, every row of the same length"):
            rank_matrix(table)
    with pytest.raises(UserError, match=r"got shape \(2, 0\)"):
        rank_matrix(np.empty((2, 0)))
