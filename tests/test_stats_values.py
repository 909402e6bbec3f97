"""Bad input to the statistics is told in one sentence, whichever function meets it."""

import numpy as np
import pytest

from oodometer.errors import UserError
from oodometer.stats import friedman, intervals, order, paired, ranks, tuning, variance

PAIR = ([1.0, 2.0, 3.0], [2.0, 2.0, 1.0])
SEEDED = [
    lambda rng: order.aso(*PAIR, rng=rng),
    lambda rng: intervals.runs_interval(PAIR[0], rng=rng),
    lambda rng: intervals.hierarchical_interval([PAIR], rng=rng),
    lambda rng: paired.sign_flip_test(*PAIR, rng=rng),
    lambda rng: friedman.friedman(PAIR, rng=rng),
    lambda rng: ranks.places(PAIR, rng=rng),
    lambda rng: ranks.mean_ranks(PAIR, rng=rng),
    lambda rng: variance.variance_shares([1, 2], {"a": [0, 1]}, rng=rng),
    lambda rng: tuning.half(4, rng),
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
    for call in (paired.wilcoxon_test, paired.t_test, paired.win_probability):
        with pytest.raises(UserError, match=message):
            call([1.0, 2.0, 3.0], bad)
