"""Metrics against scikit-learn, SciPy, brute force, closed forms and published numbers."""

import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from oodometer import metrics
from oodometer.errors import UserError
from oodometer.metrics import METRICS, Estimate
from oodometer.metrics.bootstrap import _resamples
from oodometer.metrics.counts import Counts
from oodometer.metrics.delong import delong, hidden_share, placements

NAMES = [
    "auroc",
    "aupr_in",
    "aupr_out",
    "fpr95",
    "tnr95",
    "detection_error",
    "detection_error_min",
    "detection_accuracy",
]

# Few distinct whole numbers make ties likely, within a group and across groups.
tied = st.lists(st.integers(-5, 5), min_size=1, max_size=30)
free = st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=30)
scores = st.one_of(tied, free)


def holds_for(*strategies, **options):
    """`given`, without a limit of time: a busy machine is no defect."""
    return lambda test: settings(deadline=None, **options)(given(*strategies)(test))


def labelled(id_scores, ood_scores):
    truth = np.r_[np.zeros(len(id_scores)), np.ones(len(ood_scores))]
    return truth, np.r_[np.asarray(id_scores, float), np.asarray(ood_scores, float)]


def random_groups(seed, id_size=40, ood_size=25, decimals=1):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=id_size).round(decimals),
        rng.normal(1.0, 1.3, size=ood_size).round(decimals),
    )


# Point metrics


@holds_for(scores, scores)
def test_auroc_is_the_share_of_ordered_pairs(id_scores, ood_scores):
    gaps = np.subtract.outer(np.asarray(ood_scores, float), np.asarray(id_scores, float))
    assert metrics.auroc(id_scores, ood_scores) == pytest.approx(
        (gaps > 0).mean() + 0.5 * (gaps == 0).mean()
    )
    assert metrics.auroc(id_scores, ood_scores, ties="pessimistic") == pytest.approx(
        (gaps > 0).mean()
    )


@holds_for(scores, scores)
def test_areas_agree_with_scikit_learn(id_scores, ood_scores):
    truth, pooled = labelled(id_scores, ood_scores)
    assert metrics.auroc(id_scores, ood_scores) == pytest.approx(
        sklearn.metrics.roc_auc_score(truth, pooled)
    )
    assert metrics.aupr_out(id_scores, ood_scores) == pytest.approx(
        sklearn.metrics.average_precision_score(truth, pooled)
    )
    assert metrics.aupr_in(id_scores, ood_scores) == pytest.approx(
        sklearn.metrics.average_precision_score(1 - truth, -pooled)
    )


@holds_for(scores, scores, st.sampled_from([0.05, 0.5, 0.8, 0.95, 1.0]))
def test_rates_agree_with_scikit_learns_roc_curve(id_scores, ood_scores, tpr):
    truth, pooled = labelled(id_scores, ood_scores)
    ood_accepted, id_accepted, _ = sklearn.metrics.roc_curve(
        1 - truth, -pooled, drop_intermediate=False
    )
    first = np.argmax(id_accepted >= tpr)
    fpr = metrics.fpr_at_tpr(id_scores, ood_scores, tpr=tpr)
    assert fpr == pytest.approx(ood_accepted[first])
    assert metrics.tnr_at_tpr(id_scores, ood_scores, tpr=tpr) == pytest.approx(1 - fpr)
    errors = 0.5 * (1 - id_accepted) + 0.5 * ood_accepted
    assert metrics.detection_error(id_scores, ood_scores, at="min") == pytest.approx(errors.min())
    assert metrics.detection_accuracy(id_scores, ood_scores) == pytest.approx(1 - errors.min())
    if tpr == 0.95:
        assert metrics.detection_error(id_scores, ood_scores) == pytest.approx(errors[first])


def test_fpr_takes_the_first_threshold_that_reaches_the_rate():
    id_scores = np.arange(20)
    assert metrics.fpr_at_tpr(id_scores, [17.5, 18.0, 18.5, 30]) == 0.5  # t = 18: 19 of 20
    assert metrics.fpr_at_tpr(id_scores[:19], [16.5, 17, 17.5, 18, 18.5]) == 0.8  # 18 of 19 < .95
    # 7 of 100 is 0.07 although 0.07 * 100 > 7 in floating point.
    assert metrics.fpr_at_tpr(np.arange(100), [6.0, 6.5], tpr=0.07) == 0.5


def test_every_share_of_every_size_is_reached_exactly():
    for size in range(1, 120):
        ladder = np.arange(size)
        for needed in range(1, size + 1):
            found = metrics.fpr_at_tpr(ladder, ladder, tpr=needed / size)
            assert round(found * size) == needed


@pytest.mark.parametrize("area", [0.6, 0.85, 0.99])
def test_binormal_closed_forms(area):
    shift = math.sqrt(2) * ndtri(area)
    quantiles = ndtri((np.arange(20_000) + 0.5) / 20_000)
    id_scores, ood_scores = quantiles, quantiles + shift
    assert metrics.auroc(id_scores, ood_scores) == pytest.approx(area, abs=1e-4)
    assert metrics.fpr_at_tpr(id_scores, ood_scores) == pytest.approx(
        ndtr(ndtri(0.95) - shift), abs=2e-4
    )
    assert metrics.detection_error(id_scores, ood_scores, at="min") == pytest.approx(
        ndtr(-shift / 2), abs=2e-4
    )


@holds_for(scores, scores, st.randoms(use_true_random=False))
def test_order_of_samples_and_monotone_maps_change_nothing(id_scores, ood_scores, random):
    before = {name: METRICS[name].function(id_scores, ood_scores) for name in NAMES}
    ladder = {value: rank for rank, value in enumerate(sorted({*id_scores, *ood_scores}))}
    id_mapped = [math.exp(ladder[value] / 10) for value in id_scores]
    ood_mapped = [math.exp(ladder[value] / 10) for value in ood_scores]
    random.shuffle(id_mapped)
    random.shuffle(ood_mapped)
    for name in NAMES:
        assert METRICS[name].function(id_mapped, ood_mapped) == pytest.approx(before[name])


@holds_for(scores, scores)
def test_swapping_groups_and_turning_scores(id_scores, ood_scores):
    negated = -np.asarray(ood_scores, float), -np.asarray(id_scores, float)
    area = metrics.auroc(id_scores, ood_scores)
    assert metrics.auroc(ood_scores, id_scores) == pytest.approx(1 - area)
    assert metrics.auroc(*negated) == pytest.approx(area)
    assert metrics.aupr_in(*negated) == pytest.approx(metrics.aupr_out(id_scores, ood_scores))
    assert metrics.detection_accuracy(*negated) == pytest.approx(
        metrics.detection_accuracy(id_scores, ood_scores)
    )


@holds_for(scores, scores)
def test_bounds(id_scores, ood_scores):
    found = {name: METRICS[name].function(id_scores, ood_scores) for name in NAMES}
    assert all(0.0 <= value <= 1.0 for value in found.values())
    assert found["detection_error_min"] <= found["detection_error"] + 1e-12
    assert found["detection_error_min"] <= 0.5
    # P(ood > id) is at least P(id accepted) P(ood rejected), whatever the threshold.
    assert found["auroc"] >= 2 * found["detection_accuracy"] - 1 - 1e-12


def test_best_and_worst_and_useless_detectors():
    perfect = {name: METRICS[name].function([1, 2], [3, 4, 5]) for name in NAMES}
    assert all(perfect[name] == METRICS[name].higher_is_better for name in NAMES)
    constant = {name: METRICS[name].function([1] * 4, [1] * 12) for name in NAMES}
    assert constant == {
        "auroc": 0.5,
        "aupr_in": 0.25,
        "aupr_out": 0.75,
        "fpr95": 1.0,
        "tnr95": 0.0,
        "detection_error": 0.5,
        "detection_error_min": 0.5,
        "detection_accuracy": 0.5,
    }
    assert metrics.auroc([3, 4], [1, 2]) == 0.0
    assert metrics.auroc([1] * 4, [1] * 12, ties="pessimistic") == 0.0


def test_metrics_are_listed_by_the_names_of_estimate_all():
    assert list(METRICS) == NAMES
    assert [name for name in NAMES if not METRICS[name].higher_is_better] == [
        "fpr95",
        "detection_error",
        "detection_error_min",
    ]
    assert METRICS["fpr95"].label == "FPR@95TPR"
    assert all(metric.name == name for name, metric in METRICS.items())


def test_anything_array_like_is_taken():
    import torch

    id_scores, ood_scores = [0.5, 1.5, 2.0], [1.0, 3.0]
    expected = metrics.auroc(id_scores, ood_scores)
    for kind in (np.float32, np.float16, np.int64):
        assert metrics.auroc(np.array([1, 3, 4], kind), np.array([2, 6], kind)) == expected
    for dtype in (torch.float32, torch.bfloat16):
        tensor = torch.tensor(id_scores, dtype=dtype, requires_grad=True)
        assert metrics.auroc(tensor, torch.tensor(ood_scores, dtype=dtype)) == expected


def test_scores_are_left_as_they_were():
    id_scores, ood_scores = random_groups(0)
    kept = id_scores.copy(), ood_scores.copy()
    metrics.estimate_all(id_scores, ood_scores, rng=np.random.default_rng(0), resamples=20)
    assert np.array_equal(id_scores, kept[0])
    assert np.array_equal(ood_scores, kept[1])


@pytest.mark.parametrize(
    ("id_scores", "ood_scores", "message"),
    [
        ([], [1.0], "id_scores is empty: at least one score is needed."),
        ([1.0], [], "ood_scores is empty: at least one score is needed."),
        ([[1.0], [2.0]], [1.0], "id_scores must be a vector, got shape (2, 1)."),
        (1.0, [1.0], "id_scores must be a vector, got shape ()."),
        ([1.0], ["high"], "ood_scores must be a vector of real numbers."),
        ([1.0], [1 + 2j], "ood_scores must be a vector of real numbers."),
        ([[1.0], [1.0, 2.0]], [1.0], "id_scores must be a vector of real numbers."),
        (
            [1.0],
            [0.0, np.nan, np.inf, 2.0],
            "ood_scores must be finite, but 2 of 4 scores are NaN or infinite, the first at "
            "index 1.",
        ),
        (
            [5.0, -np.inf],
            [0.0],
            "id_scores must be finite, but 1 of 2 scores are NaN or infinite, the first at "
            "index 1.",
        ),
    ],
)
def test_bad_scores_are_named(id_scores, ood_scores, message):
    rng = np.random.default_rng(0)
    for call in (
        *(metric.function for metric in METRICS.values()),
        metrics.auroc_interval,
        placements,
        lambda a, b: metrics.interval("auroc", a, b, rng=rng),
        lambda a, b: metrics.estimate_all(a, b, rng=rng),
    ):
        with pytest.raises(UserError) as caught:
            call(id_scores, ood_scores)
        assert str(caught.value) == message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.auroc([1], [2], ties="halve"), "Unknown rule for ties 'halve'. Did you"),
        (lambda: metrics.detection_error([1], [2], at="tpr59"), "Did you mean 'tpr95'?"),
        (lambda: metrics.auroc_interval([1], [2], scale="logits"), "Did you mean 'logit'?"),
        (lambda: metrics.auroc_interval([1], [2], level=95), "between 0 and 1, such as 0.95, got"),
        (lambda: metrics.fpr_at_tpr([1], [2], tpr=95), "tpr must be above 0 and at most 1, got 95"),
        (lambda: metrics.fpr_at_tpr([1], [2], tpr=math.nan), "tpr must be above 0 and at most 1"),
        (
            lambda: metrics.interval("fpr59", [1], [2], rng=np.random.default_rng(0)),
            "Unknown metric 'fpr59'. Did you mean 'fpr95'?",
        ),
        (
            lambda: metrics.estimate_all([1], [2], rng=np.random.default_rng(0), resamples=0),
            "resamples must be at least 1, got 0.",
        ),
        (
            lambda: metrics.estimate_all([1], [2], rng=np.random.default_rng(0), level=0.0),
            "level must be between 0 and 1",
        ),
    ],
)
def test_bad_options_are_named(call, message):
    with pytest.raises(UserError) as caught:
        call()
    assert message in str(caught.value)


# DeLong


def test_published_delong_interval():
    # CT ratings 1 to 5 of 58 normal and 51 abnormal images, Hanley & McNeil 1982, Table I; area,
    # standard error and interval as in the manual of Stata's roctab.
    normal = np.repeat([1, 2, 3, 4, 5], [33, 6, 6, 11, 2])
    abnormal = np.repeat([1, 2, 3, 4, 5], [3, 2, 2, 11, 33])
    value, low, high = metrics.auroc_interval(normal, abnormal, scale="linear")
    assert value == pytest.approx(0.8932, abs=5e-5)
    assert low == pytest.approx(0.83295, abs=5e-6)
    assert high == pytest.approx(0.95339, abs=5e-6)


@pytest.mark.parametrize("decimals", [0, 1, 8])
def test_delong_variance_is_that_of_the_jackknife(decimals):
    groups = random_groups(1, 23, 17, decimals)
    value, *parts = delong(Counts.of_scores(*groups))
    assert value == pytest.approx(sklearn.metrics.roc_auc_score(*labelled(*groups)))
    for group, part in enumerate(parts):
        left_out = []
        for sample in range(groups[group].size):
            kept = list(groups)
            kept[group] = np.delete(groups[group], sample)
            left_out.append(sklearn.metrics.roc_auc_score(*labelled(*kept)))
        size = len(left_out)
        assert part == pytest.approx((size - 1) * np.var(left_out))


@holds_for(scores, scores)
def test_placements_are_shares_of_the_other_group(id_scores, ood_scores):
    gaps = np.subtract.outer(np.asarray(ood_scores, float), np.asarray(id_scores, float))
    ordered = (gaps > 0) + 0.5 * (gaps == 0)
    id_placed, ood_placed = placements(id_scores, ood_scores)
    np.testing.assert_allclose(ood_placed, ordered.mean(axis=1), atol=1e-12)
    np.testing.assert_allclose(id_placed, ordered.mean(axis=0), atol=1e-12)


@holds_for(scores, scores, st.sampled_from(["logit", "linear"]), st.floats(0.01, 0.999))
def test_auroc_interval_holds_the_value_and_is_never_empty(id_scores, ood_scores, scale, level):
    value, low, high = metrics.auroc_interval(id_scores, ood_scores, scale=scale, level=level)
    assert value == pytest.approx(metrics.auroc(id_scores, ood_scores))
    assert 0.0 <= low <= value <= high <= 1.0
    assert low < high


@holds_for(scores, scores)
def test_auroc_interval_turns_with_the_scores(id_scores, ood_scores):
    value, low, high = metrics.auroc_interval(id_scores, ood_scores)
    turned = metrics.auroc_interval(ood_scores, id_scores)
    assert turned == pytest.approx((1 - value, 1 - high, 1 - low), abs=1e-9)


@holds_for(scores, scores)
def test_higher_levels_give_wider_intervals(id_scores, ood_scores):
    narrow = metrics.auroc_interval(id_scores, ood_scores, level=0.5)
    wide = metrics.auroc_interval(id_scores, ood_scores, level=0.99)
    assert wide.low < narrow.low or narrow.low == 0.0
    assert wide.high > narrow.high or narrow.high == 1.0


def test_both_scales_meet_in_large_samples():
    groups = random_groups(2, 20_000, 20_000, 8)
    np.testing.assert_allclose(
        metrics.auroc_interval(*groups),
        metrics.auroc_interval(*groups, scale="linear"),
        atol=1e-4,
    )


@pytest.mark.parametrize(("id_size", "ood_size"), [(1, 1), (30, 30), (20, 500), (10_000, 10_000)])
def test_hidden_share_solves_newcombes_equation(id_size, ood_size):
    area = 1 - hidden_share(id_size, ood_size, 0.95)
    size = (id_size + ood_size) / 2
    first, second = area / (2 - area), 2 * area**2 / (1 + area)  # Hanley & McNeil's Q1, Q2
    variance = area * (1 - area) + (size - 1) * (first + second - 2 * area**2)
    variance /= id_size * ood_size
    assert 1 - area == pytest.approx(scipy.stats.norm.ppf(0.975) * math.sqrt(variance))


def test_perfect_separation_is_not_certainty():
    few = metrics.auroc_interval(np.arange(30), 100 + np.arange(30))
    many = metrics.auroc_interval(np.arange(3000), 10_000 + np.arange(3000))
    assert few.high == many.high == 1.0
    assert 0.92 < few.low < 0.94  # about 1 - 1.96 ** 2 / 60
    assert many.low == pytest.approx(0.99936, abs=2e-5)
    # One misordered pair among many is no reason to be surer than none.
    almost = metrics.auroc_interval(np.arange(3000), 2998.5 + np.arange(3000))
    assert almost.low <= many.low


def binomial_margin(nominal, repetitions):
    """Four standard errors: a seeded test that fails here fails for a reason."""
    return 4 * math.sqrt(nominal * (1 - nominal) / repetitions)


@pytest.mark.parametrize("area", [0.7, 0.9, 0.98, 0.995])
@pytest.mark.parametrize(
    ("id_size", "ood_size", "spread"), [(30, 30, 1.0), (200, 200, 1.0), (300, 30, 2.0)]
)
def test_auroc_interval_covers(area, id_size, ood_size, spread):
    rng = np.random.default_rng(3)
    shift = ndtri(area) * math.hypot(1, spread)
    repetitions = 1000
    covered = 0
    for _ in range(repetitions):
        _, low, high = metrics.auroc_interval(
            rng.normal(size=id_size), shift + spread * rng.normal(size=ood_size)
        )
        covered += low <= area <= high
    # The interval is exact for no distribution; 93 % to 99 % is what the default promises.
    assert 0.93 - binomial_margin(0.93, repetitions) < covered / repetitions
    assert covered / repetitions < 0.99 + binomial_margin(0.99, repetitions)


def test_auroc_interval_covers_with_ties():
    rng = np.random.default_rng(4)
    cuts = np.linspace(-1, 2, 5)
    id_shares = np.diff(np.r_[0, ndtr(cuts), 1])
    ood_shares = np.diff(np.r_[0, ndtr(cuts - 1.5), 1])
    area = ood_shares @ (np.cumsum(id_shares) - id_shares / 2)
    repetitions = 1000
    covered = 0
    for _ in range(repetitions):
        id_scores, ood_scores = rng.choice(6, 60, p=id_shares), rng.choice(6, 90, p=ood_shares)
        _, low, high = metrics.auroc_interval(id_scores, ood_scores)
        covered += low <= area <= high
    assert covered / repetitions == pytest.approx(0.95, abs=binomial_margin(0.95, repetitions))


# Bootstrap


@pytest.mark.parametrize(("size", "decimals"), [(40, 1), (40, 8), (300, 0)])
def test_resamples_keep_group_sizes_and_draw_every_sample_equally(size, decimals):
    counts = Counts.of_scores(*random_groups(5, size, size, decimals))
    chunks = list(_resamples(counts, 2000, np.random.default_rng(6)))
    for drawn, given_counts in (
        (np.concatenate([chunk.id for chunk in chunks]), counts.id),
        (np.concatenate([chunk.ood for chunk in chunks]), counts.ood),
    ):
        assert drawn.shape == (2000, given_counts.size)
        assert (drawn.sum(axis=1) == size).all()
        assert (drawn[:, given_counts == 0] == 0).all()
        share = given_counts / size
        error = np.sqrt(size * share * (1 - share) / 2000)
        assert (np.abs(drawn.mean(axis=0) - given_counts) <= 5 * error + 1e-12).all()
        np.testing.assert_allclose(drawn.var(axis=0), size * share * (1 - share), rtol=0.25)


@holds_for(tied, tied, st.integers(0, 1000), max_examples=40)
def test_metrics_of_resampled_counts_are_metrics_of_the_resampled_samples(a, b, seed):
    pooled = np.unique([*a, *b]).astype(float)
    chunk = next(iter(_resamples(Counts.of_scores(a, b), 3, np.random.default_rng(seed))))
    for name in NAMES:
        batch = METRICS[name].of_counts(chunk)
        for row in range(3):
            single = METRICS[name].function(
                np.repeat(pooled, chunk.id[row].astype(int)),
                np.repeat(pooled, chunk.ood[row].astype(int)),
            )
            assert batch[row] == pytest.approx(single)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NAMES[-2:]])
def test_bootstrap_agrees_with_scipys(name):
    groups = random_groups(7, 150, 120, 1)
    ours = metrics.interval(name, *groups, rng=np.random.default_rng(8), resamples=4000)
    theirs = scipy.stats.bootstrap(
        groups,
        METRICS[name].function,
        n_resamples=4000,
        method="percentile",
        vectorized=False,
        rng=np.random.default_rng(9),
    )
    width = theirs.confidence_interval.high - theirs.confidence_interval.low
    assert ours.value == METRICS[name].function(*groups)
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=0.08 * width)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=0.08 * width)


def test_bootstrap_and_delong_agree_on_auroc():
    groups = random_groups(10, 800, 700, 8)
    ours = metrics.auroc_interval(*groups)
    drawn = metrics.interval("auroc", *groups, rng=np.random.default_rng(11), resamples=4000)
    np.testing.assert_allclose(ours, drawn, atol=0.05 * (ours.high - ours.low))


@pytest.mark.parametrize("size", [30, 400])
def test_first_error_after_none_is_bounded_as_by_clopper_and_pearson(size):
    groups = np.arange(2000), 5000 + np.arange(size)
    found = metrics.estimate_all(*groups, rng=np.random.default_rng(12), resamples=100)
    exact = scipy.stats.binomtest(0, size).proportion_ci(0.95, method="exact").high
    assert found["fpr95"].low == found["fpr95"].value == 0.0
    assert 0.94 * exact <= found["fpr95"].high <= exact + 1e-12
    reversed_groups = groups[1], groups[0]
    none = metrics.interval("tnr95", *reversed_groups, rng=np.random.default_rng(0))
    assert none.value == 0.0
    assert none.high >= 1 - 0.025 ** (1 / 2000) - 1e-12


@holds_for(scores, scores, st.integers(0, 100), max_examples=60)
def test_estimates_hold_their_values_and_none_is_empty(id_scores, ood_scores, seed):
    found = metrics.estimate_all(
        id_scores, ood_scores, rng=np.random.default_rng(seed), resamples=30
    )
    assert list(found) == NAMES
    assert found["auroc"] == metrics.auroc_interval(id_scores, ood_scores)
    for name, estimate in found.items():
        assert isinstance(estimate, Estimate)
        assert estimate.value == pytest.approx(METRICS[name].function(id_scores, ood_scores))
        assert 0.0 <= estimate.low <= estimate.value <= estimate.high <= 1.0
        assert estimate.low < estimate.high
    for one, other in (("fpr95", "tnr95"), ("detection_error_min", "detection_accuracy")):
        mirrored = 1 - found[one].value, 1 - found[one].high, 1 - found[one].low
        assert found[other] == pytest.approx(mirrored)


def test_randomness_is_an_argument():
    groups = random_groups(13)

    def run(seed):
        return metrics.estimate_all(*groups, rng=np.random.default_rng(seed), resamples=50)

    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert run(1) == run(1)
    assert run(1) != run(2)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_estimates_do_not_depend_on_the_size_of_chunks(monkeypatch):
    groups = random_groups(14, 200, 200, 8)
    found = []
    for chunk in (1, 1 << 12, 1 << 20):
        monkeypatch.setattr("oodometer.metrics.bootstrap.CHUNK", chunk)
        estimates = metrics.estimate_all(*groups, rng=np.random.default_rng(0), resamples=500)
        found.append(np.array(list(estimates.values())))
    # The order of the draws differs, so the resamples do, but not what they say.
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=0.03)
        assert np.array_equal(other[:, 0], found[0][:, 0])


@pytest.mark.parametrize(("area", "size"), [(0.75, 60), (0.75, 250), (0.97, 60), (0.97, 250)])
def test_bootstrap_intervals_cover(area, size):
    rng = np.random.default_rng(15)
    shift = math.sqrt(2) * ndtri(area)
    quantiles = ndtri((np.arange(200_000) + 0.5) / 200_000)
    repetitions = 250
    names = NAMES[1:]
    truth = {name: METRICS[name].function(quantiles, quantiles + shift) for name in names}
    covered = dict.fromkeys(names, 0)
    for _ in range(repetitions):
        found = metrics.estimate_all(
            rng.normal(size=size), shift + rng.normal(size=size), rng=rng, resamples=200
        )
        for name in names:
            covered[name] += found[name].low <= truth[name] <= found[name].high
    for name in names:
        # Plain quantiles of the smallest error would cover some 75 %.
        assert covered[name] / repetitions > 0.92 - binomial_margin(0.92, repetitions), name


@pytest.mark.parametrize("size", [50, 300])
def test_a_useless_detector_is_not_claimed_to_be_useful(size):
    rng = np.random.default_rng(16)
    repetitions = 400
    covered = looks_useful = 0
    for _ in range(repetitions):
        id_scores, ood_scores = rng.normal(size=(2, size))
        estimate = metrics.interval(
            "detection_accuracy", id_scores, ood_scores, rng=rng, resamples=50
        )
        looks_useful += estimate.value > 0.5
        covered += estimate.low == 0.5
    assert looks_useful > 0.95 * repetitions
    assert covered / repetitions > 0.95 - binomial_margin(0.95, repetitions)


def test_interval_of_the_smallest_error_is_wilson_mover_and_optimism():
    id_scores, ood_scores = random_groups(17, 100, 100, 8)
    rng = np.random.default_rng(18)
    value, low, high = metrics.interval(
        "detection_error_min", id_scores, ood_scores, rng=rng, resamples=3000
    )
    errors = [((id_scores > t).sum(), (ood_scores <= t).sum()) for t in id_scores]
    rejected, accepted = min(errors, key=sum)
    assert value == (rejected + accepted) / 200
    id_ends, ood_ends = (
        scipy.stats.binomtest(int(count), 100).proportion_ci(0.95, method="wilson")
        for count in (rejected, accepted)
    )
    down = math.hypot(rejected / 100 - id_ends.low, accepted / 100 - ood_ends.low) / 2
    up = math.hypot(id_ends.high - rejected / 100, ood_ends.high - accepted / 100) / 2
    drawn = [
        metrics.detection_error(rng.choice(id_scores, 100), rng.choice(ood_scores, 100), at="min")
        for _ in range(3000)
    ]
    optimism = value - np.mean(drawn)
    assert optimism > 0.006
    assert low == pytest.approx(value - down)
    assert high == pytest.approx(value + up + optimism, abs=0.003)


def test_few_id_samples_cannot_tell_where_95_percent_lie():
    # All 30 ID samples below the OOD: so they would be in 2.5 % of cases if 11.6 % of ID were not.
    def upper_end(id_size):
        groups = np.arange(id_size), 5000 + np.arange(4000)
        return metrics.interval("fpr95", *groups, rng=np.random.default_rng(0)).high

    unseen = 1 - 0.025 ** (1 / 30)
    assert upper_end(30) == pytest.approx(1 - 0.05 / unseen, abs=1e-3)
    assert upper_end(100) < 0.001


def test_unseen_id_samples_might_be_recognised_with_ease():
    groups = np.zeros(30), np.zeros(3000)
    found = metrics.interval("aupr_in", *groups, rng=np.random.default_rng(0))
    unseen = 1 - 0.025 ** (1 / 30)
    assert found.value == pytest.approx(30 / 3030)
    assert unseen < found.high < unseen + found.value


def test_import_is_light():
    code = (
        "import sys, oodometer.metrics, oodometer.stats; "
        "print([name for name in ('scipy.stats', 'sklearn', 'torch') if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


# --- other conventions --------------------------------------------------------------------------


def as_named(name, id_scores, ood_scores):
    return metrics.CONVENTIONS[name].function(id_scores, ood_scores)


@holds_for(scores, scores)
def test_conventions_of_openood_are_scikit_learns_curves(id_scores, ood_scores):
    truth, pooled = labelled(id_scores, ood_scores)
    false, true, _ = sklearn.metrics.roc_curve(truth, pooled, drop_intermediate=False)
    expected = false[np.argmax(true >= 0.95)]
    assert as_named("fpr95_ood_positive", id_scores, ood_scores) == pytest.approx(expected)
    for name, positive, sign in (("in", 1 - truth, -1), ("out", truth, 1)):
        precision, recall, _ = sklearn.metrics.precision_recall_curve(positive, sign * pooled)
        area = sklearn.metrics.auc(recall, precision)
        assert as_named(f"aupr_{name}_trapezoidal", id_scores, ood_scores) == pytest.approx(area)


@holds_for(scores, scores)
def test_closest_tpr_removes_samples_one_by_one(id_scores, ood_scores):
    """Sort, remove the least confident, ID first if equal; look at the TPR closest to 95%."""
    steps = sorted([(-s, 0) for s in id_scores] + [(-s, 1) for s in ood_scores])
    accepted = {0: len(id_scores), 1: len(ood_scores)}
    path = [tuple(accepted.values())]
    for _, group in steps:
        accepted[group] -= 1
        path.append(tuple(accepted.values()))
    distances = [abs(kept / len(id_scores) - 0.95) for kept, _ in path]
    expected = 1 - path[int(np.argmin(distances))][1] / len(ood_scores)
    assert as_named("tnr95_closest", id_scores, ood_scores) == pytest.approx(expected)
    wins = np.mean(np.less.outer(np.asarray(id_scores), np.asarray(ood_scores)))
    assert as_named("auroc_pessimistic", id_scores, ood_scores) == pytest.approx(wins)


def test_conventions_have_intervals_but_are_not_shown():
    id_scores, ood_scores = random_groups(0)
    rng = np.random.default_rng(0)
    for name, metric in metrics.CONVENTIONS.items():
        estimate = metrics.interval(name, id_scores, ood_scores, rng=rng)
        assert estimate.value == metric.function(id_scores, ood_scores)
        assert estimate.low <= estimate.value <= estimate.high
    assert not set(metrics.estimate_all(id_scores, ood_scores, rng=rng)) & set(metrics.CONVENTIONS)
    with pytest.raises(UserError, match="Did you mean 'tnr95_closest'"):
        metrics.interval("tnr95_closer", id_scores, ood_scores, rng=rng)
