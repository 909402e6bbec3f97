"""Mean AUROC and differences over runs: jackknife, meaning, and coverage under simulation."""

import math

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from oodometer import metrics
from oodometer.errors import UserError
from oodometer.stats import Placements, against_best, auroc_difference, holm, mean_auroc
from oodometer.stats.spread import sample_part, widenings

relaxed = settings(deadline=None)


def simulate(rng, runs, id_size, ood_size, *, area, tau, detectors=1, shared=True):
    """Return scores (detectors, runs, samples) of ID and OOD, whose expected AUROC is `area`.

    Each score is the sum of what is the sample's own (shared by runs and, in part, by detectors)
    and what sample and run do together; each run has its own separation with deviation `tau`.
    """

    def noise(size):
        samples = (1 if shared else runs), size
        return (
            math.sqrt(0.5) * rng.normal(size=(1, *samples))
            + math.sqrt(0.2) * rng.normal(size=(detectors, *samples))
            + math.sqrt(0.2) * rng.normal(size=(1, runs, size))
            + math.sqrt(0.1) * rng.normal(size=(detectors, runs, size))
        )

    # P(N(shift, tau²) + N(0, 2) > 0) = area
    shift = ndtri(area) * math.sqrt(2 + tau**2)
    training = rng.normal(size=(1, runs, 1)) + rng.normal(size=(detectors, runs, 1))
    return noise(id_size), noise(ood_size) + shift + tau * math.sqrt(0.5) * training


def runs_of(id_scores, ood_scores):
    return list(zip(id_scores, ood_scores, strict=True))


def sklearn_auroc(id_scores, ood_scores):
    truth = np.r_[np.zeros(len(id_scores)), np.ones(len(ood_scores))]
    return sklearn.metrics.roc_auc_score(truth, np.r_[id_scores, ood_scores])


# Mean


def test_value_is_the_mean_of_the_runs():
    id_scores, ood_scores = simulate(
        np.random.default_rng(0), 4, 30, 20, area=0.8, tau=0.2, detectors=2
    )
    each = np.array(
        [
            [sklearn_auroc(a, b) for a, b in zip(id_scores[d], ood_scores[d], strict=True)]
            for d in range(2)
        ]
    )
    placed = Placements.of_runs(runs_of(id_scores[0], ood_scores[0]))
    np.testing.assert_allclose(placed.values, each[0])
    assert mean_auroc(placed).value == pytest.approx(each[0].mean())
    difference = auroc_difference(placed, runs_of(id_scores[1], ood_scores[1]))
    assert difference.value == pytest.approx((each[0] - each[1]).mean())


@relaxed
@given(
    st.lists(st.integers(-4, 4), min_size=1, max_size=20),
    st.lists(st.integers(-4, 4), min_size=1, max_size=20),
    st.floats(0.5, 0.99),
    st.booleans(),
)
def test_one_run_is_auroc_interval(id_scores, ood_scores, level, shared):
    found = mean_auroc([(id_scores, ood_scores)], level, shared_samples=shared)
    expected = metrics.auroc_interval(id_scores, ood_scores, level=level)
    assert found == pytest.approx(expected, abs=1e-9)


def test_repeating_one_run_tells_nothing_new():
    rng = np.random.default_rng(1)
    run = rng.normal(size=50), rng.normal(1, 1, size=40)
    assert mean_auroc([run] * 6) == pytest.approx(metrics.auroc_interval(*run))


def test_sample_variance_is_that_of_the_jackknife_over_samples():
    # Equal AUROC in all runs leaves sampling alone: remove a sample from all runs at a time.
    rng = np.random.default_rng(2)
    id_scores, ood_scores = simulate(rng, 3, 12, 9, area=0.8, tau=0.0)
    runs = runs_of(id_scores[0], ood_scores[0])
    variance = 0.0
    for group in range(2):
        size = len(runs[0][group])
        means = []
        for sample in range(size):
            kept = [
                [np.delete(p, sample) if g == group else p for g, p in enumerate(run)]
                for run in runs
            ]
            means.append(np.mean([sklearn_auroc(*run) for run in kept]))
        variance += (size - 1) * np.var(means)
    placed = Placements.of_runs(runs)
    parts = (
        sample_part(placed.id, placed.id_sizes, True, 1),
        sample_part(placed.ood, placed.ood_sizes, True, 1),
    )
    assert parts[0].mean + parts[1].mean == pytest.approx(variance)


def test_more_runs_narrow_the_interval_only_to_what_samples_leave_open():
    rng = np.random.default_rng(3)
    id_scores, ood_scores = simulate(rng, 200, 100, 100, area=0.85, tau=0.3)
    widths = []
    for count in (3, 9, 200):
        estimate = mean_auroc(runs_of(id_scores[0][:count], ood_scores[0][:count]))
        widths.append(estimate.high - estimate.low)
    assert widths[0] > widths[1] > widths[2]
    independent = mean_auroc(runs_of(id_scores[0], ood_scores[0]), shared_samples=False)
    assert independent.high - independent.low < 0.5 * widths[2]


def test_perfect_separation_in_all_runs_is_not_certainty():
    runs = [(np.arange(40.0), 100 + np.arange(40.0))] * 3
    assert mean_auroc(runs) == metrics.auroc_interval(*runs[0])
    assert mean_auroc(runs).low < 0.96


@relaxed
@given(st.integers(0, 10_000), st.integers(1, 5), st.booleans())
def test_intervals_hold_their_values(seed, runs, shared):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, size=2)
    draw = [[rng.integers(0, 4, size=(runs, size)) for size in sizes] for _ in range(2)]
    a, b = (Placements.of_runs(runs_of(*groups), shared_samples=shared) for groups in draw)
    estimate = mean_auroc(a)
    assert 0.0 <= estimate.low <= estimate.value <= estimate.high <= 1.0
    assert estimate.low < estimate.high
    difference = auroc_difference(a, b)
    assert -1.0 <= difference.low <= difference.value <= difference.high <= 1.0
    assert difference.low < difference.high
    assert 0.0 <= difference.p_value <= 1.0
    opposite = auroc_difference(b, a)
    assert opposite[:4] == pytest.approx(
        (-difference.value, -difference.high, -difference.low, difference.p_value)
    )


# Difference


def test_identical_detectors_are_not_told_apart():
    id_scores, ood_scores = simulate(np.random.default_rng(4), 5, 60, 60, area=0.8, tau=0.2)
    runs = runs_of(id_scores[0], ood_scores[0])
    # A monotone map of the scores is the same detector.
    mapped = [(np.exp(a), np.exp(b)) for a, b in runs]
    for other in (runs, mapped):
        difference = auroc_difference(runs, other)
        assert difference.value == 0.0
        assert difference.p_value == 1.0
        hidden = 1 - metrics.auroc_interval(np.zeros(60), np.ones(60)).low
        assert difference[1:3] == pytest.approx((-hidden, hidden))


def test_perfect_against_constant_is_certain():
    perfect = [(np.zeros(500), np.ones(500))] * 3
    constant = [(np.zeros(500), np.zeros(500))] * 3
    difference = auroc_difference(perfect, constant)
    assert difference.value == 0.5
    assert difference.p_value < 1e-10
    assert 0.49 < difference.low < 0.5 < difference.high < 0.51


def test_p_value_and_interval_agree():
    rng = np.random.default_rng(5)
    decided = 0
    for _ in range(60):
        id_scores, ood_scores = simulate(rng, 3, 80, 80, area=0.8, tau=0.15, detectors=2)
        a = Placements.of_runs(runs_of(id_scores[0], ood_scores[0] + 0.15))
        b = Placements.of_runs(runs_of(id_scores[1], ood_scores[1]))
        p = auroc_difference(a, b).p_value
        for level in (0.5, 0.8, 0.95):
            difference = auroc_difference(a, b, level)
            assert difference.p_value == p
            excludes = difference.low > 0 or difference.high < 0
            assert excludes == (p < 1 - level)
            decided += excludes
    assert 20 < decided < 160


def test_one_run_is_delongs_paired_test():
    rng = np.random.default_rng(6)
    id_scores, ood_scores = simulate(rng, 1, 300, 250, area=0.85, tau=0.0, detectors=2)
    a, b = (runs_of(id_scores[d], ood_scores[d]) for d in range(2))
    # Covariance from the matrix of all pairs, independent of ranks.
    kernels = [
        (run[0][1][:, None] > run[0][0]) + 0.5 * (run[0][1][:, None] == run[0][0]) for run in (a, b)
    ]
    gap = kernels[0] - kernels[1]
    error = math.sqrt(
        gap.mean(axis=1).var(ddof=1) / gap.shape[0] + gap.mean(axis=0).var(ddof=1) / gap.shape[1]
    )
    difference = auroc_difference(a, b)
    assert difference.value == pytest.approx(gap.mean())
    expected = 2 * scipy.stats.norm.sf(abs(gap.mean()) / error)
    assert difference.p_value == pytest.approx(expected, rel=0.02)  # t with hundreds of degrees
    assert difference.high - difference.low == pytest.approx(2 * 1.96 * error, rel=0.01)


def test_independent_samples_reduce_to_the_paired_t_test_over_runs():
    """Never narrower, and the same where nothing is skewed: here each run comes in both roles."""
    rng = np.random.default_rng(7)
    id_scores, ood_scores = simulate(rng, 6, 400, 400, area=0.8, tau=0.4, detectors=2, shared=False)
    a, b = (runs_of(id_scores[d], ood_scores[d]) for d in range(2))
    for pair in ((a, b), (a[:3] + b[:3], b[:3] + a[:3])):
        one, other = (Placements.of_runs(runs, shared_samples=False) for runs in pair)
        expected = scipy.stats.ttest_rel(one.values, other.values)
        interval = expected.confidence_interval(0.95)
        difference = auroc_difference(one, other)
        assert difference.low <= interval.low and difference.high >= interval.high
        assert difference.p_value >= expected.pvalue - 1e-9
    # The logit is not quite straight at 0.8.
    assert difference[1:3] == pytest.approx((interval.low, interval.high), rel=0.01)


def test_very_small_p_values_do_not_vanish_or_break():
    rng = np.random.default_rng(8)
    good = [(rng.normal(size=2000), rng.normal(3, 1, size=2000))]
    bad = [(rng.normal(size=2000), rng.normal(0, 1, size=2000))]
    assert 0.0 <= auroc_difference(good, bad).p_value < 1e-100


# Several sizes


def test_runs_with_other_samples_need_to_be_declared():
    rng = np.random.default_rng(9)
    runs = [(rng.normal(size=n), rng.normal(1, 1, size=m)) for n, m in ((30, 20), (25, 20))]
    with pytest.raises(UserError) as caught:
        mean_auroc(runs)
    assert str(caught.value) == (
        "Run 1 has 25 ID and 20 OOD scores where run 0 has 30 and 20; if the runs do not share "
        "their test samples, pass shared_samples=False."
    )
    estimate = mean_auroc(runs, shared_samples=False)
    assert estimate.value == pytest.approx(np.mean([sklearn_auroc(*run) for run in runs]))


def test_bad_runs_are_named():
    rng = np.random.default_rng(10)
    runs = [(rng.normal(size=30), rng.normal(size=20)) for _ in range(3)]
    with pytest.raises(UserError, match="runs is empty: at least one run is needed"):
        mean_auroc([])
    with pytest.raises(UserError, match=r"^ood_scores of run 1 must be finite, but 1 of 2 scores"):
        mean_auroc([runs[0], ([1.0], [0.0, np.nan])])
    with pytest.raises(UserError, match="runs_a has 3 runs and runs_b 2: a paired comparison"):
        auroc_difference(runs, runs[:2])
    with pytest.raises(UserError, match="different numbers of scores"):
        auroc_difference(runs, [(a[1:], b) for a, b in runs])
    with pytest.raises(UserError, match="differ in shared_samples"):
        auroc_difference(Placements.of_runs(runs), Placements.of_runs(runs, shared_samples=False))
    with pytest.raises(UserError, match="level must be between 0 and 1"):
        mean_auroc(runs, 95)


# Coverage and level


@pytest.mark.parametrize("area", [0.75, 0.97])
@pytest.mark.parametrize(
    ("runs", "tau", "shared"),
    [
        (2, 0.3, True),
        (3, 0.1, True),
        (3, 0.3, True),
        (5, 0.2, True),
        (9, 0.2, True),
        (30, 0.2, True),
        (3, 0.3, False),
        (9, 0.2, False),
    ],
)
def test_intervals_cover_and_tests_keep_their_level(area, runs, tau, shared):
    rng = np.random.default_rng(11)
    repetitions = 200 if runs == 30 else 500
    covered = rejected = 0
    for _ in range(repetitions):
        id_scores, ood_scores = simulate(
            rng, runs, 80, 120, area=area, tau=tau, detectors=2, shared=shared
        )
        a, b = (
            Placements.of_runs(runs_of(id_scores[d], ood_scores[d]), shared_samples=shared)
            for d in range(2)
        )
        estimate = mean_auroc(a)
        covered += estimate.low <= area <= estimate.high
        rejected += auroc_difference(a, b).p_value < 0.05
    # With two or three runs the truth may be covered too often, never too seldom.
    margin = 4 * math.sqrt(0.05 * 0.95 / repetitions)
    assert 0.95 - margin < covered / repetitions < (1.0 if runs <= 3 else 0.97 + margin)
    assert rejected / repetitions < 0.05 + margin


@pytest.mark.parametrize(("area", "runs"), [(0.9, 2), (0.9, 3), (0.9, 5), (0.97, 9)])
def test_level_is_kept_if_one_detector_varies_twelve_times_as_much(area, runs):
    """Student's t alone tells 8 % to 11 % of such equal detectors apart."""
    rng = np.random.default_rng(20)
    size, repetitions = 300, 400
    taus = np.array([[0.6], [0.05]])
    shifts = ndtri(area) * np.sqrt(2 + taus**2)
    rejected = 0
    for _ in range(repetitions):
        id_scores = rng.normal(size=(1, 1, size)) + np.zeros((2, runs, 1))
        separation = shifts + taus * rng.normal(size=(2, runs))
        ood_scores = rng.normal(size=(1, 1, size)) + separation[:, :, None]
        a, b = (Placements.of_runs(runs_of(id_scores[d], ood_scores[d])) for d in range(2))
        rejected += auroc_difference(a, b).p_value < 0.05
    assert rejected <= 0.05 * repetitions + 4 * math.sqrt(0.05 * 0.95 * repetitions)


@pytest.mark.parametrize("runs", [2, 3, 6])
def test_skewness_widens_and_never_narrows(runs):
    rng = np.random.default_rng(21)
    for _ in range(50):
        a, b = rng.beta(20, 1, runs), rng.beta(5, 1, runs)
        below, above = widenings(a, b, 100)
        there, back = widenings(b, a, 100)
        for quantile in (0.1, 2.0, 4.3, 40.0):
            assert below(quantile) >= quantile and above(quantile) >= quantile
            assert below(quantile) == pytest.approx(back(quantile))  # exchanged, they change roles
            assert above(quantile) == pytest.approx(there(quantile))
        grown = [below(quantile) for quantile in np.linspace(0.01, 20, 80)]
        assert (np.diff(grown) >= 0.0).all()  # so that a p value belongs to one interval


def test_logit_interval_of_one_detector_against_a_fixed_one():
    """If b never varies and differences look symmetric, the ends are those of a's logit."""
    a, b = np.array([0.93, 0.95, 0.97]), np.full(3, 0.9)
    below, _ = widenings(a, b, 1000)
    error, quantile = 0.02 / math.sqrt(3), 4.3
    logit = math.log(0.95 / 0.05) - quantile * error / (0.95 * 0.05)
    assert below(quantile) == pytest.approx((0.95 - 1 / (1 + math.exp(-logit))) / error)


def test_a_real_difference_is_found():
    rng = np.random.default_rng(12)
    found = 0
    for _ in range(100):
        id_scores, ood_scores = simulate(rng, 5, 300, 300, area=0.85, tau=0.1, detectors=2)
        a = Placements.of_runs(runs_of(id_scores[0], ood_scores[0] + 0.4))
        found += auroc_difference(a, runs_of(id_scores[1], ood_scores[1])).p_value < 0.05
    assert found > 90


def test_ignoring_either_source_of_variance_would_not_cover():
    # What the interval must not be: the runs' t interval, or one run's DeLong interval.
    rng = np.random.default_rng(13)
    only_runs = only_samples = both = 0
    for _ in range(300):
        id_scores, ood_scores = simulate(rng, 9, 80, 80, area=0.8, tau=0.25)
        placed = Placements.of_runs(runs_of(id_scores[0], ood_scores[0]))
        mean, error = placed.values.mean(), placed.values.std(ddof=1) / 3
        only_runs += abs(mean - 0.8) <= scipy.stats.t.ppf(0.975, 8) * error
        single = metrics.auroc_interval(id_scores[0][0], ood_scores[0][0])
        only_samples += single.low <= 0.8 <= single.high
        estimate = mean_auroc(placed)
        both += estimate.low <= 0.8 <= estimate.high
    assert only_runs < 0.85 * 300
    assert only_samples < 0.85 * 300
    assert both > 0.91 * 300


# Holm


@relaxed
@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_is_the_closed_test_of_bonferroni(p_values):
    # Closure: a hypothesis' adjusted p is the largest Bonferroni p of any subset that holds it.
    p = np.array(p_values)
    if p.size > 8:
        p = p[:8]
    expected = [
        max(
            (
                min(1.0, len(subset) * min(p[list(subset)]))
                for mask in range(1, 1 << p.size)
                if (subset := [k for k in range(p.size) if mask >> k & 1]) and index in subset
            ),
        )
        for index in range(p.size)
    ]
    np.testing.assert_allclose(holm(p), expected)


def test_holm_example_and_errors():
    # Four p values, by hand: 4 * .005, 3 * .01, 2 * .03, then at least the one before.
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    assert holm([]).size == 0
    for bad in ([0.5, np.nan], [-0.1], [1.1]):
        with pytest.raises(UserError, match="p_values must lie between 0 and 1"):
            holm(bad)
    with pytest.raises(UserError, match=r"must be a vector, got shape \(1, 1\)"):
        holm([[0.5]])


@relaxed
@given(st.lists(st.floats(0, 1), max_size=8), st.integers(0, 9))
def test_holm_among_more_is_holm_with_tests_that_found_nothing(p_values, more):
    found = holm(p_values, among=len(p_values) + more)
    np.testing.assert_allclose(found, holm([*p_values, *[1.0] * more])[: len(p_values)])


def test_the_best_by_chance_is_not_told_from_the_others():
    """Equal methods, the best of which is compared with all others by t tests over 8 runs."""
    rng = np.random.default_rng(15)
    for methods, holm_errs in ((3, 0.05), (10, 0.09)):
        values = rng.normal(size=(3000, methods, 8))
        best = values.mean(axis=2).argmax(axis=1)
        first = np.take_along_axis(values, best[:, None, None], axis=1)
        others = values[np.arange(methods) != best[:, None]].reshape(3000, methods - 1, 8)
        p_values = scipy.stats.ttest_rel(
            np.broadcast_to(first, others.shape), others, axis=2
        ).pvalue
        told = np.array([(against_best(row) < 0.05).any() for row in p_values])
        assert told.mean() < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 3000)
        # What it is for: Holm's rule does not know that the best was chosen.
        assert np.mean([(holm(row) < 0.05).any() for row in p_values]) > holm_errs


def test_the_best_against_the_others_by_hand():
    # Six pairs of four methods: 6 * .001, 5 * .004, and 4 * .03 but at most the largest.
    np.testing.assert_allclose(against_best([0.004, 0.03, 0.001]), [0.02, 0.03, 0.006])
    np.testing.assert_allclose(against_best([0.004, 0.5, 0.03]), [0.024, 0.5, 0.15])
    assert against_best([0.04]) == 0.04 and against_best([]).size == 0
    with pytest.raises(UserError, match="among must be at least the number of p_values, 2, got 1"):
        holm([0.1, 0.2], among=1)


def test_coverage_model_is_right():
    # The simulation's own truth, by brute force: AUROC of huge runs.
    rng = np.random.default_rng(14)
    id_scores, ood_scores = simulate(rng, 400, 2000, 2000, area=0.8, tau=0.3, shared=False)
    mean = np.mean(Placements.of_runs(runs_of(id_scores[0], ood_scores[0])).values)
    assert mean == pytest.approx(0.8, abs=4 * 0.08 / 20)
    assert ndtr(ndtri(0.8)) == pytest.approx(0.8)


@pytest.mark.parametrize("runs", range(2, 13))
@pytest.mark.parametrize("gap", [0.0, 0.4, 0.8, 1.6])
def test_the_p_value_and_the_interval_say_the_same(runs, gap):
    """Below 5 % exactly where the 95 % interval leaves out 0, whatever the degrees of freedom."""
    rng = np.random.default_rng(runs)

    def made(shift):
        means = shift + rng.normal(0, 0.5, runs)
        return [(rng.normal(0, 1, 60), rng.normal(mean, 1, 50)) for mean in means]

    difference = auroc_difference(made(1.0 + gap), made(1.0))
    outside = difference.low > 0 or difference.high < 0
    assert (difference.p_value < 0.05) == outside
    # 1 - p is the level at which the interval just reaches 0.
    if 1e-6 < difference.p_value < 0.9:
        rng = np.random.default_rng(runs)
        again = auroc_difference(made(1.0 + gap), made(1.0), 1 - difference.p_value)
        assert min(abs(again.low), abs(again.high)) < 1e-6
