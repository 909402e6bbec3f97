"""Runs that fail, or are skewed, show too little of how far detectors vary."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from oodometer.analysis import analyze
from oodometer.stats.deviation import deviation_interval, deviations_p_value

GROUP = np.zeros(10, dtype=np.int64)


def _failing(rng, size):
    return rng.normal(size=size) - 80.0 * (rng.random(size) < 0.1)


@pytest.mark.parametrize(
    "draw",
    [
        _failing,
        lambda rng, size: -rng.exponential(size=size),
        lambda rng, size: rng.standard_t(3, size=size),
        lambda rng, size: rng.normal(size=size),
    ],
)
def test_detectors_that_deviate_alike_are_rarely_told_apart(draw):
    rng = np.random.default_rng(0)
    pairs = draw(rng, (1000, 2, 10))
    wrong = [deviations_p_value(one, other, GROUP, 10) < 0.05 for one, other in pairs]
    assert np.mean(wrong) < 0.06


def test_detectors_that_deviate_unlike_are_found():
    rng = np.random.default_rng(1)
    pairs = rng.normal(size=(300, 2, 10)) * [[4.0], [1.0]]
    assert np.mean([deviations_p_value(*pair, GROUP, 10) < 0.05 for pair in pairs]) > 0.65


def test_groups_of_two_are_one_case_each():
    """Both values of a pair lie as far from their median: five pairs are not ten cases."""
    rng, groups = np.random.default_rng(2), np.repeat(np.arange(5), 2)
    pairs = rng.normal(size=(1000, 2, 10))
    assert np.mean([deviations_p_value(*pair, groups, 5) < 0.05 for pair in pairs]) < 0.06
    assert np.mean([deviations_p_value(*pair, groups, 10) < 0.05 for pair in pairs]) > 0.1


STEADY = [90.1, 89.8, 90.3, 90.0, 89.9, 90.2, 89.7, 90.1, 90.0, 89.9]
TWO_FAILED = [90.1, 89.8, 90.2, 90.0, 50.3, 90.2, 89.7, 49.8, 90.1, 90.0]
UNSTEADY = [91.1, 88.2, 92.2, 87.0, 91.3, 89.0, 93.1, 86.9, 90.8, 88.3]


@pytest.mark.parametrize(("knn", "verdict"), [(TWO_FAILED, "undecided"), (UNSTEADY, "holds")])
def test_failures_of_single_runs_do_not_decide_who_varies_more(knn, verdict):
    """By the chi-squared distribution, intervals of both are far apart."""
    low, high = (deviation_interval(np.array(own), GROUP, 0.975) for own in (knn, STEADY))
    assert low.low > 2.0 * high.high
    lines = [(name, seed, value) for name, own in (("msp", STEADY), ("knn", knn))
             for seed, value in enumerate(own)]  # fmt: skip
    _, *others = analyze(pd.DataFrame(lines, columns=["method", "seed", "AUROC"]))
    told = {
        finding.protocol: next(
            claim.verdict
            for claim in finding.claims
            if "moves" in claim.text or "varies least" in claim.text
        )
        for finding in others
    }
    assert told == {"robustness": verdict, "instability": verdict}
