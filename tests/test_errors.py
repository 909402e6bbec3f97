"""The nearest name, against an independent edit distance."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from oodometer.errors import _edits, nearest, unknown

OPTIMIZERS = ["adadelta", "adagrad", "adam", "adamax", "adamw", "nadam", "rmsprop", "sgd"]


def brute_force(first: str, second: str) -> int:
    """The recurrence as it is printed (optimal string alignment), without a table."""

    @lru_cache(None)
    def edits(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        ways = [edits(i - 1, j) + 1, edits(i, j - 1) + 1]
        ways.append(edits(i - 1, j - 1) + (first[i - 1] != second[j - 1]))
        if i > 1 and j > 1 and first[i - 2 : i] == second[j - 2 : j][::-1]:
            ways.append(edits(i - 2, j - 2) + 1)
        return min(ways)

    return edits(len(first), len(second))


def test_edits_are_counted_as_by_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(500):
        first, second = ("".join(rng.choice(list("abc"), rng.integers(8))) for _ in range(2))
        assert _edits(first, second) == brute_force(first, second), (first, second)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("adma", "adam"),
        ("ADAM", "adam"),
        ("adamm", "adam"),
        ("adagrda", "adagrad"),
        ("rmspro", "rmsprop"),
        ("rms", "rmsprop"),  # a prefix
        ("sdg", "sgd"),
        ("zzz", None),
        ("", None),
    ],
)
def test_the_nearest_name(wrong, meant):
    assert nearest(wrong, OPTIMIZERS) == meant


def test_the_sentence_and_no_suggestion_without_candidates():
    assert "Did you mean 'adam'?" in str(unknown("optimizer", "adma", OPTIMIZERS))
    assert str(unknown("study", "x", [])) == "Unknown study 'x'. Known: none."
