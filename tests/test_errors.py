"""What somebody may have meant: the nearest name, by an independent count of slips."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from oodometer.errors import _slips, nearest, unknown

OPTIMIZERS = ["adadelta", "adagrad", "adam", "adamax", "adamw", "nadam", "rmsprop", "sgd"]


def brute_force(first: str, second: str) -> int:
    """The recurrence as it is printed (optimal string alignment), without a table."""

    @lru_cache(None)
    def slips(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        ways = [slips(i - 1, j) + 1, slips(i, j - 1) + 1]
        ways.append(slips(i - 1, j - 1) + (first[i - 1] != second[j - 1]))
        if i > 1 and j > 1 and first[i - 2 : i] == second[j - 2 : j][::-1]:
            ways.append(slips(i - 2, j - 2) + 1)
        return min(ways)

    return slips(len(first), len(second))


def test_slips_are_counted_as_by_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(500):
        first, second = ("".join(rng.choice(list("abc"), rng.integers(8))) for _ in range(2))
        assert _slips(first, second) == brute_force(first, second), (first, second)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("adma", "adam"),
        ("ADAM", "adam"),
        ("adamm", "adam"),
        ("adagrda", "adagrad"),
        ("rmspro", "rmsprop"),
        ("rms", "rmsprop"),  # how a name begins
        ("sdg", "sgd"),
        ("zzz", None),
        ("", None),
    ],
)
def test_the_nearest_name(wrong, meant):
    assert nearest(wrong, OPTIMIZERS) == meant


def test_it_is_said_once_and_nothing_is_guessed_among_nothing():
    assert "Did you mean 'adam'?" in str(unknown("optimizer", "adma", OPTIMIZERS))
    assert str(unknown("study", "x", [])) == "Unknown study 'x'. Known: none."
