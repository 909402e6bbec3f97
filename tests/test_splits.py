"""Splits: the parts of the published studies, and draws that are what they say."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.errors import UserError
from oodometer.lab.data import splits
from oodometer.lab.data.portions import portion_rows
from oodometer.study import TrainSpec


@pytest.mark.parametrize(
    ("size", "first", "total"),
    [
        (50_000, [49457, 20706, 46059, 38076, 8394], 252_879_381),
        (73_257, [52257, 31311, 969, 57321, 6321], 369_955_562),
    ],
)
def test_the_fixed_subset_of_outliers(size, first, total):
    rows = next(splits.outlier_draws(size))
    assert rows[:5].tolist() == first
    assert len(set(rows)) == 10_000
    assert rows.sum() == total


def test_further_draws_continue_the_stream():
    random = np.random.RandomState(44)
    for rows in islice(splits.outlier_draws(50, 10), 100):
        expected = np.arange(50)
        random.shuffle(expected)
        assert np.array_equal(rows, expected[:10])


PUBLISHED = {  # train, valid, test, as validation outliers, as test outliers
    "mnist": (50_000, 10_000, 10_000, 60_000, 10_000),
    "fashion-mnist": (50_000, 10_000, 10_000, 60_000, 10_000),
    "cifar10": (40_000, 10_000, 10_000, 50_000, 10_000),
    "cifar100": (40_000, 10_000, 10_000, 50_000, 10_000),
    "stl10": (5_000, 4_000, 4_000, 5_000, 8_000),
    "tiny-imagenet": (100_000, 10_000, 10_000, 100_000, 10_000),
    "notmnist": (None, None, None, 9_362, 9_362),
}


@pytest.mark.parametrize("name", splits.OD_TEST)
def test_od_test_parts_have_their_sizes_and_do_not_meet(name):
    roles = ("train", "valid", "test", "validation_outlier", "test_outlier")
    rows = {}
    for role, size in zip(roles, PUBLISHED[name], strict=True):
        if size is None:
            assert role not in splits.OD_TEST[name]
            continue
        published = splits.OD_TEST[name][role]
        part, found = splits.od_test_rows(name, role, published.size)
        assert len(found) == size
        assert len(np.unique(found)) == size
        assert 0 <= found.min() <= found.max() < published.size
        rows[role] = {(part, row) for row in found.tolist()}
    apart = [("train", "valid"), ("train", "test"), ("valid", "test")]
    for first, second in [*apart, ("validation_outlier", "test_outlier")]:
        if first in rows:
            assert not rows[first] & rows[second], f"{first} and {second} share rows"


def test_halves_of_a_smaller_notmnist_cover_it():
    halves = [
        splits.od_test_rows("notmnist", role, 9_805, seed=3)[1]
        for role in ("validation_outlier", "test_outlier")
    ]
    assert sorted(np.concatenate(halves)) == list(range(9_805))
    other = splits.od_test_rows("notmnist", "test_outlier", 9_805, seed=4)[1]
    assert not np.array_equal(halves[1], other)


def test_ranges_follow_a_permutation_of_the_users_own():
    chosen = splits.Range("train", 2, 4, 6, permuted=True)
    assert chosen.rows(6, [5, 4, 3, 2, 1, 0]).tolist() == [3, 2]
    with pytest.raises(UserError, match="each of 0 to 5 once"):
        chosen.rows(6, [0, 0, 1, 2, 3, 4])


@pytest.mark.parametrize("generator", ["numpy", "torch"])
def test_resampled_parts_are_a_partition(generator):
    train, test = splits.resample(50, 10, 3, generator)
    assert len(train) == 50
    assert sorted(np.concatenate([train, test])) == list(range(60))
    assert not np.array_equal(train, splits.resample(50, 10, 4, generator)[0])


def test_the_split_of_torch_is_that_of_random_split():
    parts = torch.utils.data.random_split(
        range(60), [50, 10], generator=torch.Generator().manual_seed(7)
    )
    ours = splits.resample(50, 10, 7, "torch")
    assert [list(part.indices) for part in parts] == [rows.tolist() for rows in ours]


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 5), st.integers(20, 90), st.floats(0.1, 0.9))
def test_what_is_set_aside_for_validation_is_a_part_of_the_right_size(classes, size, share):
    labels = np.random.default_rng(size).integers(0, classes, size)
    train, valid = portion_rows(TrainSpec(data="digits", validation=share), labels)
    assert sorted(np.concatenate([train, valid])) == list(range(size))
    counts = np.bincount(labels, minlength=classes)
    found = np.bincount(labels[valid], minlength=classes)
    assert (found < np.maximum(counts, 1)).all(), "no class is set aside whole"
    whole = counts - share * counts < 1  # of such a class a share would leave nothing
    assert (np.abs(found - share * counts) <= 1 + 1e-9).all()
    assert len(valid) == round(share * size) or whole.any()


def test_bad_arguments_are_refused():
    for call, message in [
        (lambda: splits.od_test_rows("cifar-10", "test", 1), "Did you mean 'cifar10'"),
        (lambda: splits.od_test_rows("notmnist", "train", 1), "Unknown role of 'notmnist' 'train'"),
        (lambda: splits.od_test_rows("mnist", "train", 49_999), "this copy has only 49,999 rows"),
        (lambda: splits.resample(0, 5, 0), "at least 1 row"),
        (lambda: splits.resample(5, 5, 0, "jax"), "Unknown generator 'jax'"),
        (lambda: next(splits.outlier_draws(5, 10)), "between 1 and 5 can be drawn, got 10"),
    ]:
        with pytest.raises(UserError, match=message):
            call()
