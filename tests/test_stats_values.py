"""Bad input to the statistics is told in one sentence, whichever function meets it."""

import numpy as np
import pandas as pd
import pytest

from oodometer.errors import UserError
from oodometer.stats import (
    holm,
    intervals,
    mean_auroc,
    order,
    paired,
    power,
    variance,
)

PAIR = ([1.0, 2.0, 3.0], [2.0, 2.0, 1.0])
SEEDED = [
    lambda rng: order.aso(*PAIR, rng=rng),
    lambda rng: paired.sign_flip_test(*PAIR, rng=rng),
    lambda rng: variance.variance_shares([1, 2], {"a": [0, 1]}, rng=rng),
]


@pytest.mark.parametrize("call", SEEDED)
@pytest.mark.parametrize("seed", [0, None, np.random])
def test_seeds_are_no_generators(call, seed):
    with pytest.raises(UserError, match="rng must be a NumPy generator, such as"):
        call(seed)


@pytest.mark.parametrize("call", SEEDED)
def test_the_same_generator_gives_the_same_answer(call):
    first, second = (call(np.random.default_rng(3)) for _ in range(2))
    assert str(first) == str(second)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], "is empty"),
        ([1.0, np.nan, 2.0], "must be finite, but 1 of 3"),
        ([1.0, np.inf, 2.0], "must be finite, but 1 of 3"),
        ([[1.0, 2.0]], "must be a vector, got shape"),
        (["a", "b", "c"], "must be a vector of real numbers"),
        (None, "must be a vector"),
        ([1.0, 1e200, 2.0], "must lie within -1e\\+150 and 1e\\+150, got 1e\\+200"),
        ([1.0, 2.0], "the same runs"),
    ],
)
def test_bad_vectors(bad, message):
    for call in (paired.t_test, paired.win_probability):
        with pytest.raises(UserError, match=message):
            call([1.0, 2.0, 3.0], bad)


def refused():
    """Calls with something of another kind than meant, and what is said."""
    rng = np.random.default_rng(0)
    three = [1.0, 2.0, 3.0]
    return {
        "level must be between 0 and 1, such as 0.95, got '0.95'": (
            lambda: intervals.runs_interval(three, level="0.95")
        ),
        "bounds must be a lower and a higher number, got None": (
            lambda: intervals.runs_interval(three, bounds=None)
        ),
        "resamples must be a whole number, got 10.5": (
            lambda: order.aso(three, three, rng=rng, resamples=10.5)
        ),
        "samples must hold at least two methods, got None": (
            lambda: order.aso_matrix(None, rng=rng)
        ),
        "comparisons must be a whole number, got '3'": (
            lambda: power.runs_needed(three, three, comparisons="3")
        ),
        "p_values must be a vector of real numbers": lambda: holm(["a"]),
        "Run 0 is not a pair": lambda: mean_auroc([three]),
        "runs must be a list of pairs": lambda: mean_auroc({"a": three}),
        "factors must map each factor's name": (
            lambda: variance.variance_shares(three, ["a", "b", "a"], rng=rng)
        ),
    }


@pytest.mark.parametrize("message", refused())
def test_other_kinds_of_things_are_refused_in_one_sentence(message):
    with pytest.raises(UserError) as caught:
        refused()[message]()
    assert str(caught.value).startswith(message) and str(caught.value).endswith(".")


def test_pandas_is_as_good_as_lists():
    table = pd.DataFrame({"optimizer": [0, 0, 1, 1], "seed": [0, 1, 0, 1], "auroc": [1, 2, 3, 5.0]})
    there, here = (
        variance.variance_shares(
            values, factors, rng=np.random.default_rng(0), replicate="seed", resamples=50
        )
        for values, factors in (
            (table["auroc"], table[["optimizer", "seed"]]),
            ([1, 2, 3, 5], {"optimizer": [0, 0, 1, 1], "seed": [0, 1, 0, 1]}),
        )
    )
    assert there == here
    series = pd.Series([0.9, 0.8, 0.7], index=[7, 8, 9])
    found = intervals.runs_interval(series)
    assert found == intervals.runs_interval([0.9, 0.8, 0.7])
