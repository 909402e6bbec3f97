"""Intervals over runs: SciPy, closed forms, and coverage under simulation."""

import math

import numpy as np
import pytest
import scipy.stats
from scipy.special import ndtr, ndtri

from oodometer import metrics
from oodometer.errors import UserError
from oodometer.stats.comparison import mean_auroc
from oodometer.stats.intervals import hierarchical_interval, runs_interval


def generator(seed=0):
    return np.random.default_rng(seed)


# One value per run


def test_few_runs_get_students_interval():
    values = [0.91, 0.88, 0.93, 0.90]
    found = runs_interval(values, rng=generator())
    low, high = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found[:3] == pytest.approx((np.mean(values), low, high), abs=1e-12)
    assert found.method == "t"


def test_jackknife_of_a_smooth_statistic():
    """The standard error of log(mean) is that of the mean over the mean, to first order."""
    values = 1 + 0.001 * generator(1).normal(size=9)
    found = runs_interval(values, rng=generator(), statistic=lambda v: np.log(v.mean()))
    plain = runs_interval(values, rng=generator())
    assert found.high - found.low == pytest.approx(
        (plain.high - plain.low) / values.mean(), rel=1e-4
    )


def test_many_runs_get_the_accelerated_bootstrap_widened():
    values = generator(2).exponential(size=25)
    found = runs_interval(values, rng=generator(), resamples=20_000)
    t = scipy.stats.t.ppf(0.975, 24) * math.sqrt(25 / 24)
    plain = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, confidence_level=2 * ndtr(t) - 1, rng=generator(3)
    ).confidence_interval
    assert found.method == "bca"
    assert (found.low, found.high) == pytest.approx(tuple(plain), abs=0.02)
    # Skewed to the right: the interval reaches farther up than down, which Student's cannot.
    assert found.high - found.value > 1.2 * (found.value - found.low)


def test_coverage_of_a_mean():
    """Normal values at every size; as skewed as an exponential, nine in ten or more."""
    rng = generator(4)
    for runs, simulations in ((2, 1500), (5, 1500), (12, 600), (30, 600)):
        hits = {"normal": 0, "exponential": 0}
        for _ in range(simulations):
            for kind, values, truth in (
                ("normal", rng.normal(size=runs), 0.0),
                ("exponential", rng.exponential(size=runs), 1.0),
            ):
                found = runs_interval(values, rng=rng, resamples=400)
                hits[kind] += found.low <= truth <= found.high
        # Chance alone moves a share of 600 by 0.9 points.
        assert 0.925 <= hits["normal"] / simulations <= 0.97
        assert hits["exponential"] / simulations >= (0.85 if runs < 10 else 0.90)


def test_bounded_means_use_the_logit_scale():
    """By hand: log odds of the mean, moved by t s / (m (1 - m)), in any unit."""
    values = np.array([0.9, 0.95, 0.99, 0.97])
    m = values.mean()
    step = scipy.stats.t.ppf(0.975, 3) * scipy.stats.sem(values) / (m * (1 - m))
    ends = [1 / (1 + (1 - m) / m * math.exp(sign * step)) for sign in (1, -1)]
    found = runs_interval(values, rng=generator(), bounds=(0, 1))
    assert found[:3] == pytest.approx((m, *ends)) and found.method == "logit t"
    percent = runs_interval(100 * values, rng=generator(), bounds=(0, 100))
    assert percent[:3] == pytest.approx(tuple(100 * end for end in found[:3]))


def test_coverage_of_a_bounded_mean():
    """As skewed as AUROC gets near 1: Beta(19, 1), whose mean is 0.95; and Beta(2, 2)."""
    rng = generator(5)
    for runs in (2, 3, 5, 12, 30):
        for a, b in ((19, 1), (2, 2)):
            found = [
                runs_interval(values, rng=rng, bounds=(0, 1))
                for values in rng.beta(a, b, size=(1500, runs))
            ]
            covered = np.mean([i.low <= a / (a + b) <= i.high for i in found])
            assert 0.925 <= covered <= 0.97


def test_what_cannot_show_spread_says_so():
    assert runs_interval([0.9], rng=generator(), bounds=(0, 1)) == (0.9, 0, 1, "one run")
    assert runs_interval([0.9], rng=generator()) == (0.9, -math.inf, math.inf, "one run")
    for runs in (2, 5, 30):
        found = runs_interval([0.9] * runs, rng=generator())
        assert found.method == "constant" and found.low == found.high == found.value
    two = runs_interval([0.90, 0.92], rng=generator())
    assert two[1:3] == pytest.approx((0.91 - 12.706 * 0.01, 0.91 + 12.706 * 0.01), abs=1e-4)


def test_statistics_without_acceleration_fall_back_to_percentiles():
    values = np.r_[np.zeros(9), np.ones(6)]
    found = runs_interval(values, rng=generator(), statistic=np.max)
    assert found.value == 1.0 and np.isfinite([found.low, found.high]).all()
    found = runs_interval(values, rng=generator(), statistic=np.median)
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0


def test_one_odd_run_among_equal_ones():
    found = runs_interval([0.9] * 11 + [0.5], rng=generator(), bounds=(0, 1))
    assert found.low < found.value < found.high


def test_refusals_of_values():
    for call, message in (
        (lambda: runs_interval([], rng=generator()), "values is empty"),
        (lambda: runs_interval([0.1, np.inf], rng=generator()), "values must be finite"),
        (lambda: runs_interval([0.1, 2.0], rng=generator(), bounds=(0, 1)), "within the bounds"),
        (lambda: runs_interval([0.1, 0.2], rng=generator(), bounds=(1, 0)), "lower and a higher"),
        (lambda: runs_interval([0.1, 0.2], rng=generator(), level=95), "between 0 and 1"),
        (lambda: runs_interval([1, 2, 3], rng=generator(), statistic=lambda v: v), "one number"),
        (
            lambda: runs_interval([1, 2, 3], rng=generator(), statistic=lambda v: np.nan),
            "statistic gave nan for values such as",
        ),
    ):
        with pytest.raises(UserError, match=message):
            call()


# Scores of every run


def simulate(rng, runs, size, *, shift, tau, shared=True):
    """Scores whose samples are shared by the runs in part; each run has its own separation."""
    samples = 1 if shared else runs
    id_scores = math.sqrt(0.5) * (rng.normal(size=(samples, size)) + rng.normal(size=(runs, size)))
    ood_scores = math.sqrt(0.5) * (rng.normal(size=(samples, size)) + rng.normal(size=(runs, size)))
    ood_scores = ood_scores + shift + tau * rng.normal(size=(runs, 1))
    return list(zip(id_scores, ood_scores, strict=True))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("runs", [2, 5])
def test_auroc_agrees_with_the_closed_form(shared, runs):
    scores = simulate(generator(runs), runs, 150, shift=1.5, tau=0.2, shared=shared)
    found = hierarchical_interval(scores, rng=generator(), shared_samples=shared, resamples=4000)
    expected = mean_auroc(scores, shared_samples=shared)
    assert found.value == pytest.approx(expected.value, abs=1e-12)
    assert found.low == pytest.approx(expected.low, abs=0.004)
    assert found.high == pytest.approx(expected.high, abs=0.004)


@pytest.mark.parametrize(
    ("runs", "shared", "tau"), [(3, True, 0.3), (3, False, 0.3), (10, True, 0.3), (5, True, 0.0)]
)
def test_coverage_of_fpr95(runs, shared, tau):
    """P(OOD below the 95 % quantile of ID), averaged over trainings, has a closed form."""
    truth = ndtr((ndtri(0.95) - 2.0) / math.sqrt(1 + tau**2))
    rng = generator(runs)
    hits = 0
    simulations = 400
    for _ in range(simulations):
        scores = simulate(rng, runs, 200, shift=2.0, tau=tau, shared=shared)
        found = hierarchical_interval(scores, "fpr95", rng=rng, shared_samples=shared, resamples=60)
        hits += found.low <= truth <= found.high
    # 1,500 simulations each gave 97.1 %, 96.5 %, 94.5 % and 96.7 %; chance moves 400 by 1.1 points.
    assert 0.92 <= hits / simulations <= 0.99


def test_coverage_of_a_median_of_many_runs():
    """The median run: its separation is the middle one."""
    truth = ndtr(1.5 / math.sqrt(2))
    rng = generator(7)
    hits = 0
    for _ in range(100):
        scores = simulate(rng, 15, 100, shift=1.5, tau=0.3)
        found = hierarchical_interval(scores, rng=rng, statistic=np.median, resamples=60)
        hits += found.low <= truth <= found.high
    assert hits >= 90


def test_one_run_is_the_interval_of_its_samples():
    (pair,) = simulate(generator(8), 1, 50, shift=1, tau=0)
    found = hierarchical_interval([pair], "fpr95", rng=generator())
    assert found == metrics.interval("fpr95", *pair, rng=generator(), resamples=500)
    other = hierarchical_interval([pair], rng=generator(), statistic=np.median)
    assert other.low < other.value < other.high


def test_perfect_separation_hides_something():
    scores = [(np.arange(50.0), 100 + np.arange(50.0))] * 3
    found = hierarchical_interval(scores, "fpr95", rng=generator())
    assert found.value == found.low == 0.0
    alone = metrics.interval("fpr95", *scores[0], rng=generator())
    assert found.high == pytest.approx(alone.high) and alone.high > 0.07


def test_refusals_of_scores():
    good = (np.arange(5.0), np.arange(4.0))
    for call, message in (
        (lambda: hierarchical_interval([], rng=generator()), "runs is empty"),
        (lambda: hierarchical_interval([good], "auro", rng=generator()), "mean 'auroc'"),
        (
            lambda: hierarchical_interval([good, (good[0], [1.0])], rng=generator()),
            "shared_samples=False",
        ),
        (lambda: hierarchical_interval([good, ([], [1])], rng=generator()), "id_scores of run 1"),
    ):
        with pytest.raises(UserError, match=message):
            call()
