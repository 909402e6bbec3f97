"""Power: another library's sample sizes, simulation, and what cannot be told."""

import math

import numpy as np
import pytest
import scipy.stats

from oodometer.errors import UserError
from oodometer.stats.paired import t_test
from oodometer.stats.power import runs_needed, t_test_power


def generator(seed=0):
    return np.random.default_rng(seed)


def runs_with(effect, spread, size=10):
    """A pair of vectors whose difference has exactly this mean and standard deviation."""
    values = np.linspace(-1, 1, size)
    return effect + values * spread / values.std(ddof=1), np.zeros(size)


@pytest.mark.parametrize(
    ("effect", "wanted", "runs"),
    # statsmodels 0.15.0, rounded up; pingouin 0.7.0 power_ttest(contrast="paired") says the same:
    # TTestPower().solve_power(effect_size=effect, power=wanted, alpha=0.05) gives
    # 198.151, 33.367, 14.303, 53.941 and 9.938.
    [(0.2, 0.8, 199), (0.5, 0.8, 34), (0.8, 0.8, 15), (0.5, 0.95, 54), (1.0, 0.8, 10)],
)
def test_sample_sizes_are_statsmodels(effect, wanted, runs):
    assert runs_needed(*runs_with(effect, 1.0), power=wanted).runs == runs
    assert t_test_power(runs, effect) >= wanted > t_test_power(runs - 1, effect)


@pytest.mark.parametrize(
    ("runs", "effect", "comparisons"), [(3, 1.5, 1), (8, 0.8, 1), (8, 1.5, 10), (30, 0.5, 3)]
)
def test_power_is_the_share_of_simulated_tests(runs, effect, comparisons):
    draws = generator(runs).normal(effect, 1.0, size=(40_000, runs))
    p_values = scipy.stats.ttest_1samp(draws, 0.0, axis=1).pvalue
    share = (p_values < 0.05 / comparisons).mean()
    assert t_test_power(runs, effect, comparisons=comparisons) == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(("effect", "wanted"), [(2.5, 0.8), (1.2, 0.8), (0.6, 0.9)])
def test_the_promised_runs_have_the_promised_power(effect, wanted):
    """By our own test, on fresh runs; one run less falls short of it."""
    runs = runs_needed(*runs_with(effect, 1.0), power=wanted).runs
    rng = generator(runs)

    def share(number):
        return np.mean(
            [
                t_test(rng.normal(effect, 1.0, number), np.zeros(number)).p_value < 0.05
                for _ in range(4000)
            ]
        )

    # Chance alone moves a share of 4,000 by 0.6 points.
    assert share(runs) >= wanted - 0.02
    assert share(runs - 1) <= wanted + 0.02


def test_no_effect_has_the_level_for_power():
    assert t_test_power(7, 0.0) == pytest.approx(0.05)
    assert t_test_power(7, 0.0, comparisons=5) == pytest.approx(0.01)


def test_power_rises_with_runs_and_falls_with_comparisons_and_spread():
    by_runs = [t_test_power(runs, 0.5) for runs in range(2, 60)]
    assert by_runs == sorted(by_runs)
    by_comparisons = [t_test_power(10, 1.0, comparisons=k) for k in (1, 2, 10, 100)]
    assert by_comparisons == sorted(by_comparisons, reverse=True)
    needed = [runs_needed(*runs_with(0.01, 0.02), comparisons=k).runs for k in (1, 3, 30)]
    assert needed == sorted(needed) and needed[0] < needed[-1]
    assert t_test_power(10, -1.0) == t_test_power(10, 1.0)
    assert t_test_power(5, 1e12) == 1.0


def test_no_difference_is_never_told():
    a, b = runs_with(0.0, 1.0)
    found = runs_needed(a, b)
    assert found.runs is None and found.high is None and found.low is not None
    same = runs_needed([0.9, 0.8, 0.7], [0.9, 0.8, 0.7])
    assert same == (None, None, None, 0.0, 0.0)
    nearly = runs_needed([0.1 + 0.2, 0.3], [0.3, 0.1 + 0.2])  # rounding is no difference
    assert nearly.runs is None
    assert runs_needed(*runs_with(1e-4, 1.0)).runs is None  # more than a million


def test_the_same_difference_in_every_run():
    assert runs_needed([0.9, 0.8], [0.7, 0.6]).runs == 2


def test_bounds_hold_the_truth():
    """Few runs observe the difference badly; 95 % of bounds hold what it really takes."""
    rng = generator(1)
    truth = runs_needed(*runs_with(0.6, 1.0)).runs
    hits = 0
    for _ in range(300):
        found = runs_needed(rng.normal(0.6, 1.0, 8), np.zeros(8))
        hits += found.low <= truth <= (found.high or math.inf)
        assert found.runs is None or found.low <= found.runs <= (found.high or math.inf)
    assert 0.92 <= hits / 300 <= 0.99


def test_refusals():
    for call, message in (
        (lambda: runs_needed([0.9], [0.8]), "at least two"),
        (lambda: runs_needed([0.9, 0.8], [0.8]), "the same runs"),
        (lambda: runs_needed([0.9, 0.8], [0.8, np.nan]), "b must be finite"),
        (lambda: runs_needed([0.9, 0.8], [0.8, 0.8], power=1.0), "power must lie between 0.05"),
        (lambda: runs_needed([0.9, 0.8], [0.8, 0.8], comparisons=0), "comparisons must be"),
        (lambda: runs_needed([0.9, 0.8], [0.8, 0.8], level=5), "level must be"),
    ):
        with pytest.raises(UserError, match=message):
            call()


@pytest.mark.parametrize(("runs", "effect", "prior"), [(3, 2.5, 8.0), (5, 1.2, 4.0)])
def test_shared_variances_have_the_power_of_the_moderated_t_test(runs, effect, prior):
    """Smyth's world: variances scatter as prior / chi-squared(prior)."""
    rng = np.random.default_rng(3)
    spreads = np.sqrt(prior / rng.chisquare(prior, size=40_000))
    drawn = effect * spreads[:, None] + spreads[:, None] * rng.normal(size=(40_000, runs))
    variances = (prior + (runs - 1) * drawn.var(axis=1, ddof=1)) / (prior + runs - 1)
    ratios = drawn.mean(axis=1) / np.sqrt(variances / runs)
    found = (np.abs(ratios) > scipy.stats.t.isf(0.025, runs - 1 + prior)).mean()
    # The effect is relative to each true deviation, the moderated one only close to it.
    assert t_test_power(runs, effect, prior=prior) == pytest.approx(found, abs=0.04)
    assert t_test_power(runs, effect, prior=prior) > t_test_power(runs, effect) + 0.1


def test_shared_variances_need_fewer_runs():
    a, b = [0.3, 0.1, 0.2], [0.1, 0.0, 0.2]
    alone = runs_needed(a, b, comparisons=17)
    spread = float(np.std(np.subtract(a, b), ddof=1))
    shared = runs_needed(a, b, comparisons=17, shared=(spread, 8.0))
    assert shared.runs < alone.runs and shared.spread == spread
    assert runs_needed(a, b, comparisons=17, shared=(spread, 0.0)) == alone
