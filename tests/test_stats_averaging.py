"""The mean over outlier sets: the same value as averaging by hand, and an honest interval."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from oodometer.errors import UserError
from oodometer.stats.averaging import average_over_sets, average_re_evaluations
from oodometer.stats.comparison import Placements, auroc_difference, mean_auroc


def draw(rng, runs=4, shift=(1.0, 2.0, 0.5), sizes=(50, 20, 80), ids=60):
    """Scores of several runs on one ID set and several outlier sets."""
    id_scores = rng.normal(size=(runs, ids))
    return [
        [(id_scores[run], rng.normal(s, 1, n)) for run in range(runs)]
        for s, n in zip(shift, sizes, strict=True)
    ]


def test_values_are_means_over_sets():
    sets = draw(np.random.default_rng(0))
    average = average_over_sets([Placements.of_runs(runs) for runs in sets])
    by_hand = [
        np.mean(
            [roc_auc_score([0] * 60 + [1] * len(o), [*i, *o]) for i, o in (s[run] for s in sets)]
        )
        for run in range(4)
    ]
    assert average.values == pytest.approx(by_hand, abs=1e-12)


def test_one_set_is_itself():
    (runs,) = draw(np.random.default_rng(1), shift=(1.0,), sizes=(40,))
    placed = Placements.of_runs(runs)
    assert mean_auroc(average_over_sets([placed])) == pytest.approx(mean_auroc(placed), abs=1e-12)


def test_interval_covers_new_samples_of_every_set():
    """One training, sets of different size and difficulty: 95 % of intervals hold the truth."""
    rng = np.random.default_rng(2)
    shift, sizes = (0.5, 1.0, 2.0), (30, 150, 60)
    from scipy.stats import norm

    truth = np.mean([norm.cdf(s / np.sqrt(2)) for s in shift])
    hits = 0
    for _ in range(1000):
        sets = draw(rng, 1, shift, sizes, ids=80)
        estimate = mean_auroc(average_over_sets([Placements.of_runs(runs) for runs in sets]))
        hits += estimate.low <= truth <= estimate.high
    assert 930 <= hits <= 970


def test_differences_are_paired():
    sets = draw(np.random.default_rng(3))
    a = average_over_sets([Placements.of_runs(runs) for runs in sets])
    same = auroc_difference(a, a)
    assert (same.value, same.p_value) == (0.0, 1.0)
    monotone = [[(np.exp(i), np.exp(o)) for i, o in runs] for runs in sets]
    b = average_over_sets([Placements.of_runs(runs) for runs in monotone])
    assert auroc_difference(a, b).p_value == 1.0


def test_runs_with_samples_of_their_own():
    rng = np.random.default_rng(4)
    runs = [
        [(rng.normal(size=30 + r), rng.normal(1, 1, 20 + r)) for r in range(3)] for _ in range(2)
    ]
    for first, second in zip(*runs, strict=True):
        assert len(first[0]) == len(second[0])
    sets = [Placements.of_runs(part, shared_samples=False) for part in runs]
    average = average_over_sets(sets)
    assert average.values == pytest.approx((sets[0].values + sets[1].values) / 2)
    assert mean_auroc(average).low < mean_auroc(average).value


def test_refusals():
    with pytest.raises(UserError, match="at least one outlier set"):
        average_over_sets([])
    rng = np.random.default_rng(5)
    one = Placements.of_runs([(rng.normal(size=5), rng.normal(size=5))])
    two = Placements.of_runs([(rng.normal(size=6), rng.normal(size=5))])
    with pytest.raises(UserError, match="same ID samples"):
        average_over_sets([one, two])


def test_looks_at_different_numbers_of_samples_are_as_certain_as_the_smallest():
    rng = np.random.default_rng(7)
    runs = [(rng.normal(size=n), rng.normal(1.0, size=n)) for n in (40, 10)]
    placed = Placements.of_runs(runs, shared_samples=False)
    one = average_re_evaluations(placed, [[0, 1]])
    assert one.values == pytest.approx([placed.values.mean()])
    assert one.id_sizes.tolist() == one.ood_sizes.tolist() == [10]
    alone = Placements.of_runs(runs[1:])
    assert one.id - one.id.mean() == pytest.approx(alone.id - alone.id.mean())


def test_the_variance_of_a_mean_over_sets_is_that_of_strata():
    """Outliers of each set vary on their own: the sum of the sets' variances over K^2."""
    sets = [Placements.of_runs(runs) for runs in draw(np.random.default_rng(8), runs=1)]
    ood = average_over_sets(sets).ood
    strata = sum(part.ood.var() / part.ood.size for part in sets) / len(sets) ** 2
    assert ood.var() / ood.size == pytest.approx(strata)
