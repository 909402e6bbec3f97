"""Parts of the variance of a mean AUROC, and how skewed runs widen its interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import skew, t

from oodometer.stats.comparison import auroc_difference, mean_auroc
from oodometer.stats.spread import Spread, sample_part, widenings

STUDENT = float(t.ppf(0.975, 4))


def of_hall(quantile, values):
    """Standard errors up to where Hall's (1992) cubic reaches a quantile, found as a root."""
    c = float(skew(values)) / math.sqrt(len(values))
    return brentq(lambda x: x + c * x**2 / 3 + c**2 * x**3 / 27 + c / 6 - quantile, -50, 50)


def test_skewed_differences_reach_farther_to_their_longer_tail():
    """Near 1/2 and with hardly any spread, logits are straight: what is left is Hall's cubic."""
    lost = 1e-4 * np.array([0.0, 0.3, 0.2, 0.4, -0.3])  # one training is worse
    even = np.full(5, 0.5)
    down, up = widenings(even + lost, even, 10**6)
    assert down(STUDENT) == pytest.approx(of_hall(STUDENT, lost), rel=1e-3)
    assert STUDENT * 1.1 < down(STUDENT) < STUDENT * 2.5
    assert up(STUDENT) == pytest.approx(STUDENT, rel=1e-3)
    mirrored = widenings(even, even + lost, 10**6)
    assert mirrored[1](STUDENT) == pytest.approx(down(STUDENT))


def test_two_runs_look_symmetric_and_are_widened():
    """Two runs cannot show skewness: sqrt 2 times Student's quantile; three even ones once."""
    even = np.full(2, 0.5)
    for side in widenings(even + np.array([0.0, 1e-4]), even, 10**6):
        assert side(12.7) == pytest.approx(math.sqrt(2.0) * 12.7, rel=1e-2)
    even = np.full(3, 0.5)
    for side in widenings(even + np.array([-1e-4, 0.0, 1e-4]), even, 10**6):
        assert side(4.3) == pytest.approx(4.3, rel=1e-2)


def test_both_reasons_together_widen_no_more_than_two_and_a_half_times():
    """Unless the logit scale does so by itself: its end is known if one side never moves."""
    a = np.array([0.995, 0.993, 0.996, 0.994, 0.96])
    error = float(a.std(ddof=1)) / math.sqrt(a.size)
    mean = float(a.mean())
    end = expit(logit(mean) - STUDENT * error / (mean * (1.0 - mean)))
    down, _ = widenings(a, np.full(5, 0.5), 10**6)
    assert down(STUDENT) <= max(2.5 * STUDENT, (mean - end) / error) + 1e-9
    assert down(STUDENT) > 1.5 * STUDENT


def test_a_single_id_sample_is_the_same_in_every_run():
    """Five looks with one and the same ID sample know no more than one look does."""
    run = ([0.5], np.linspace(0.0, 1.0, 21))
    assert mean_auroc([run] * 5) == pytest.approx(mean_auroc([run]))
    apart = mean_auroc([run] * 5, shared_samples=False)  # five ID samples
    assert apart.low > mean_auroc([run]).low


def test_runs_with_their_own_samples_pool_their_variances():
    """N - R degrees of freedom, as every pooled variance has; the mean over equal runs is 1 / R."""
    placed = np.array([0.1, 0.3, 0.4, 0.8, 0.5, 0.6])
    sizes = np.array([2, 2, 2])
    part = sample_part(placed, sizes, False, 0.25)
    expected = np.mean([np.var(pair, ddof=1) / 2 for pair in placed.reshape(3, 2)])
    assert part.single == pytest.approx(expected)
    assert part.mean == pytest.approx(expected / 3) and part.freedom == 3.0


def test_runs_that_happen_to_agree_are_no_surer_than_their_samples():
    """Chance may make the spread over runs tiny; the samples still vary."""
    few = Spread(sampling=4.0, sampling_freedom=math.inf, between=1e-12, between_freedom=4.0)
    assert few.quantile(0.025) == pytest.approx(2.0 * 1.959964, rel=1e-6)
    rng = np.random.default_rng(0)
    runs = [(rng.normal(size=30), rng.normal(1.0, size=30)) for _ in range(2)]
    swapped = [(i[::-1], o) for i, o in runs]  # the same AUROCs: samples differ, values do not
    found = auroc_difference(runs, swapped)
    assert found.value == 0.0 and found.low < -0.05 and found.p_value > 0.99


def test_far_tails_are_widened_no_more_than_usual_ones():
    """Many comparisons ask for far tails; a clear lead must not drown in a correction's growth."""
    a = np.array([0.99, 0.98, 0.985, 0.97, 0.992, 0.96, 0.988, 0.99, 0.975])
    b = np.array([0.88, 0.92, 0.90, 0.89, 0.89, 0.87, 0.91, 0.95, 0.94])
    below, _ = widenings(a, b, 300)
    usual = float(t.ppf(0.975, 8))
    assert below(usual) > 1.02 * usual
    assert below(4 * usual) / (4 * usual) == pytest.approx(below(usual) / usual)
