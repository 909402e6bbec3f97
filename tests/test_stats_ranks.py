"""Ranks, first places and wins against SciPy and by their meaning."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from oodometer.errors import UserError
from oodometer.stats import first_places, rank_matrix, win_matrix

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
@given(tables)
def test_first_places_share_each_column(table):
    shares = first_places(table)
    assert shares.sum() == pytest.approx(table.shape[1])
    expected = np.zeros(len(table))
    for column in table.T:
        winners = np.flatnonzero(column == column.max())
        expected[winners] += 1 / winners.size
    np.testing.assert_allclose(shares, expected)
    np.testing.assert_allclose(first_places(-table, higher_is_better=False), shares)


@relaxed
@given(tables)
def test_wins_add_up_and_give_the_mean_rank(table):
    wins = win_matrix(table)
    np.testing.assert_allclose(wins + wins.T, 1.0)
    np.testing.assert_allclose(np.diag(wins), 0.5)
    # A detector's rank is 1 + the number of detectors that beat it.
    losses = (1 - wins).sum(axis=1) - 0.5
    np.testing.assert_allclose(1 + losses, rank_matrix(table).mean(axis=1))
    np.testing.assert_allclose(win_matrix(table, higher_is_better=False), wins.T)


@relaxed
@given(tables, st.randoms(use_true_random=False))
def test_renaming_detectors_permutes_the_answers(table, random):
    order = list(range(len(table)))
    random.shuffle(order)
    np.testing.assert_array_equal(rank_matrix(table[order]), rank_matrix(table)[order])
    np.testing.assert_array_equal(first_places(table[order]), first_places(table)[order])
    np.testing.assert_array_equal(win_matrix(table[order]), win_matrix(table)[order][:, order])


@pytest.mark.parametrize("function", [rank_matrix, first_places, win_matrix])
def test_bad_tables_are_named(function):
    with pytest.raises(UserError) as caught:
        function([[0.5, 0.4], [0.3, np.nan]])
    assert str(caught.value) == (
        "values must not be NaN, but 1 of 4 are, the first in row 1, column 1: compare detectors "
        "only where all have a value."
    )
    with pytest.raises(UserError, match=r"got shape \(2,\)"):
        function([0.5, 0.4])
    with pytest.raises(UserError, match=r"got shape \(2, 0\)"):
        function(np.empty((2, 0)))
