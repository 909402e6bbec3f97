"""Paired tests: brute force, SciPy, and their level and power under simulation."""

from itertools import product

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from oodometer.errors import UserError
from oodometer.stats.binomial import share_interval
from oodometer.stats.comparison import holm
from oodometer.stats.paired import (
    difference_interval,
    sign_flip_test,
    t_test,
    win_probability,
)

relaxed = settings(deadline=None, max_examples=60)
differences = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=9)


def generator(seed=0):
    return np.random.default_rng(seed)


def flipped(values):
    """Sums of the values under every pattern of signs."""
    return np.array([np.dot(signs, values) for signs in product((-1, 1), repeat=len(values))])


@relaxed
@given(differences, st.floats(-1, 1))
def test_flips_are_all_patterns_of_signs(values, offset):
    values = np.array(values)
    b = np.full(values.size, offset)
    expected = (np.abs(flipped(np.abs(values))) >= abs(values.sum()) - 1e-9).mean()
    found = sign_flip_test(values + b, b, rng=generator())
    assert found.p_value == pytest.approx(expected, abs=1e-12)
    assert found.value == pytest.approx(values.mean(), abs=1e-12)
    assert found.p_value >= found.smallest - 1e-15


def test_exact_and_approximate_meet():
    rng = generator(2)
    a, b = rng.normal(0.5, 1, 18), rng.normal(size=18)
    exact = sign_flip_test(a, b, rng=rng)
    extended = sign_flip_test(np.r_[a, 1.0], np.r_[b, 1.0 - 1e-9], rng=rng, resamples=99_999)
    assert (exact.method, extended.method) == ("exact", "Monte Carlo")
    assert extended.p_value == pytest.approx(exact.p_value, abs=0.005)


def test_t_is_scipys():
    rng = generator(6)
    for size in (2, 3, 10):
        a, b = rng.normal(size=(2, size))
        found = t_test(a, b)
        assert found.p_value == pytest.approx(scipy.stats.ttest_rel(a, b).pvalue)
        assert found.value == pytest.approx((a - b).mean())
    assert t_test([0.3, 0.8, 0.6], [0.2, 0.7, 0.5])[1:3] == (0.25, 0.25)  # always 0.1
    assert t_test([0.1 + 0.2, 0.5], [0.3, 0.5]).p_value == 1.0
    assert t_test([0.9], [0.1]).p_value == 1.0


def test_exact_tests_are_scipys_over_all_patterns():
    """With ties and zeros, SciPy tries all patterns of signs too."""
    rng = generator(7)
    for size in (2, 5, 8):
        a, b = rng.integers(0, 5, size=(2, size)).astype(float)
        a[0], b[0] = 1.0, 3.0
        everything = scipy.stats.permutation_test(
            (a, b), lambda x, y: (x - y).mean(), permutation_type="samples", n_resamples=np.inf
        )
        assert sign_flip_test(a, b, rng=rng).p_value == pytest.approx(everything.pvalue)


def test_difference_interval_is_scipys_and_agrees_with_the_test():
    rng = generator(8)
    for size in (2, 3, 12):
        for _ in range(20):
            a, b = rng.normal(0.7, 1, size), rng.normal(size=size)
            found = difference_interval(a, b)
            expected = scipy.stats.ttest_rel(a, b).confidence_interval(0.95)
            assert found == pytest.approx((np.mean(a - b), *expected))
            assert (found.low > 0 or found.high < 0) == (t_test(a, b).p_value < 0.05)
    assert difference_interval([0.9], [0.8])[1:] == (-np.inf, np.inf)
    assert difference_interval([2, 3, 4], [1, 2, 3]) == (1, 1, 1)


def all_tests(rng, resamples=999):
    return (
        lambda a, b: sign_flip_test(a, b, rng=rng, resamples=resamples),
        t_test,
    )


@pytest.mark.parametrize("runs", [1, 2, 3, 5, 6, 7, 10, 14, 25])
@pytest.mark.parametrize("digits", [0, 1, 9])
def test_every_interval_leaves_out_0_if_and_only_if_its_test_rejects(runs, digits):
    rng = generator(runs)
    decided = 0
    for shift in (0.0, 0.6, 0.6, -0.9, 1.5):
        a = np.round(rng.normal(shift, 1, runs), digits) + 0.3  # few digits: ties and zeros
        for test in all_tests(rng):
            found = test(a, np.full(runs, 0.3))
            outside = found.low > 0.0 or found.high < 0.0
            assert outside == (found.p_value < 0.05)
            assert found.low <= found.value <= found.high
            decided += outside
    assert decided or runs < 6


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_ends_are_where_the_shifted_test_begins_to_reject(level):
    rng = generator(11)
    for runs in (6, 9, 12):
        values = rng.normal(0.3, 1, runs)
        for test in all_tests(rng):
            found = test(values, np.zeros(runs))
            if level != 0.95:
                found = (
                    t_test(values, np.zeros(runs), level=level)
                    if test is t_test
                    else sign_flip_test(values, np.zeros(runs), level=level, rng=rng)
                )
            for end, outwards in ((found.low, -1e-6), (found.high, 1e-6)):
                if np.isfinite(end):
                    outer = test(values, np.full(runs, end + outwards)).p_value
                    inner = test(values, np.full(runs, end - outwards)).p_value
                    assert outer < 1 - level <= inner


def test_six_runs_reach_from_the_smallest_to_the_largest_difference():
    values = generator(12).normal(size=6)
    found = sign_flip_test(values, np.zeros(6), rng=generator())
    assert (found.low, found.high) == pytest.approx((values.min(), values.max()))
    for few in (1, 3, 5):
        found = sign_flip_test(values[:few], np.zeros(few), rng=generator())
        assert (found.low, found.high) == (-np.inf, np.inf)


@pytest.mark.parametrize("runs", [7, 20])
def test_permutation_intervals_cover(runs):
    rng = generator(13)
    held = 0
    for _ in range(500):
        found = sign_flip_test(rng.laplace(size=runs), np.zeros(runs), rng=rng, resamples=999)
        held += found.low <= 0.0 <= found.high
    assert 0.92 * 500 <= held <= 0.985 * 500


@pytest.mark.parametrize("runs", [5, 8, 12])
def test_level_is_kept_and_holm_keeps_it_for_many(runs):
    """Equal methods, skewed but symmetric in difference: at most 5 % are told apart."""
    rng = generator(runs)
    simulations, methods = 300, 4
    values = rng.exponential(size=(simulations, methods, runs))
    p_values = np.empty((simulations, methods - 1))
    for row in range(simulations):
        for other in range(1, methods):
            pair = values[row, 0], values[row, other]
            p_values[row, other - 1] = sign_flip_test(*pair, rng=rng).p_value
    # 900 dependent tests: the standard error is below 1 point.
    assert (p_values <= 0.05).mean() <= 0.07
    family = np.mean([(holm(row) <= 0.05).any() for row in p_values])
    assert family <= 0.08
    assert family <= (p_values <= 0.05).any(axis=1).mean()


def test_power_rises_with_runs():
    rng = generator(3)
    shares = [
        np.mean(
            [
                sign_flip_test(rng.normal(1, 1, runs), np.zeros(runs), rng=rng).p_value <= 0.05
                for _ in range(200)
            ]
        )
        for runs in (5, 7, 10, 16)
    ]
    assert shares[0] == 0.0  # 2 / 32 is the smallest p value of five runs
    assert shares == sorted(shares) and shares[-1] > 0.9


def test_equal_methods_and_single_runs():
    same = [0.9, 0.8, 0.7]
    found = sign_flip_test(same, same, rng=generator())
    assert (found.value, found.p_value, found.smallest) == (0.0, 1.0, 1.0)
    assert sign_flip_test([0.9], [0.1], rng=generator()).p_value == 1.0
    many = sign_flip_test(np.ones(50), np.zeros(50), rng=generator(), resamples=999)
    assert many.p_value == many.smallest == 1e-3


def test_exchange_changes_the_sign_only():
    rng = generator(4)
    a, b = rng.normal(size=(2, 9))
    there, back = sign_flip_test(a, b, rng=rng), sign_flip_test(b, a, rng=rng)
    assert there.p_value == pytest.approx(back.p_value)
    assert there.value == pytest.approx(-back.value)


# Chance to win


def odder(cases, wins, chance):
    """Chance of an outcome at least as odd as `wins`, by its definition (Blaker 2000)."""
    law = scipy.stats.binom(cases, chance)
    odd = [min(law.cdf(count), law.sf(count - 1)) for count in range(cases + 1)]
    return sum(law.pmf(count) for count in range(cases + 1) if odd[count] <= odd[wins] * (1 + 1e-9))


@pytest.mark.parametrize(("wins", "losses"), [(3, 0), (3, 2), (7, 3), (1, 11), (8, 8)])
def test_wins_have_blakers_interval(wins, losses):
    total = wins + losses
    found = win_probability([1.0] * wins + [0.0] * losses, [0.5] * total)
    assert found.value == wins / total
    for end, outwards in ((found.low, -1), (found.high, 1)):
        if 0 < end < 1:
            assert odder(total, wins, end + outwards * 1e-3) < 0.05
            assert odder(total, wins, end - outwards * 1e-4) >= 0.05
    widest = scipy.stats.binomtest(wins, total).proportion_ci(0.95, method="exact")
    assert widest.low - 1e-9 <= found.low and found.high <= widest.high + 1e-9


@pytest.mark.parametrize("runs", [3, 5, 10, 30, 130])
def test_wins_are_covered_at_every_chance(runs):
    """Summed over all outcomes; few cases cover too often, never too seldom."""
    intervals = [
        win_probability([1.0] * w + [0.0] * (runs - w), [0.5] * runs) for w in range(runs + 1)
    ]
    ends = np.array([(found.low, found.high) for found in intervals])
    chances = np.linspace(0.01, 0.99, 197)
    outcomes = scipy.stats.binom.pmf(np.arange(runs + 1)[:, None], runs, chances)
    held = (ends[:, :1] <= chances) & (chances <= ends[:, 1:])
    coverage = (outcomes * held).sum(axis=0)
    assert coverage.min() >= 0.95
    assert coverage.mean() < 0.99


@pytest.mark.parametrize("runs", range(1, 21))
def test_wins_leave_out_one_half_as_the_sign_test_rejects(runs):
    for wins in range(runs + 1):
        found = win_probability([1.0] * wins + [0.0] * (runs - wins), [0.5] * runs)
        rejected = scipy.stats.binomtest(wins, runs).pvalue < 0.05
        assert (found.low > 0.5 or found.high < 0.5) == rejected


def test_half_a_win_is_rounded_away_from_the_middle():
    found = win_probability([1, 1, 1, 1, 0, 0.5], [0.5] * 6)  # 4.5 of 6
    assert found.value == 0.75
    assert found.low == win_probability([1, 1, 1, 1, 0, 0], [0.5] * 6).low
    assert found.high == win_probability([1, 1, 1, 1, 1, 0], [0.5] * 6).high


def test_refusals():
    for call, message in (
        (lambda: t_test([1, 2], [1]), "a has 2 values and b 1"),
        (lambda: sign_flip_test([], [], rng=generator()), "a is empty"),
        (lambda: win_probability([1, np.nan], [1, 2]), "a must be finite"),
        (lambda: sign_flip_test([1], [2], rng=generator(), resamples=0), "resamples must be"),
        (lambda: win_probability([1], [2], level=0), "level must be"),
    ):
        with pytest.raises(UserError, match=message):
            call()


def test_refusals_of_shares():
    with pytest.raises(UserError, match="wins must be at most"):
        share_interval(6, 5, 0.95)
    with pytest.raises(UserError, match="cases must be at least 1"):
        share_interval(0, 0, 0.95)
