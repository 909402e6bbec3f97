"""One procedure for who is best: against SciPy, by brute force, and in simulated worlds."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from oodometer.errors import UserError
from oodometer.stats.comparison import Placements, auroc_difference, mean_auroc
from oodometer.stats.intervals import runs_interval
from oodometer.stats.leaderboard import (
    Pairwise,
    from_scores,
    from_summaries,
    from_values,
    leaderboard,
)
from oodometer.stats.summary import Summary
from oodometer.stats.unpaired import welch

relaxed = settings(deadline=None, max_examples=60)
tables = hnp.arrays(
    np.float64,
    st.tuples(st.integers(2, 6), st.integers(1, 6)),
    elements=st.integers(0, 20).map(lambda number: number / 20),
)


@pytest.fixture
def rng():
    """Random numbers, the same in every test."""
    return np.random.default_rng(0)


def equal_errors(means, error, df):
    """Pairwise comparisons that all have the same error, as with one pooled variance."""
    means = np.asarray(means, dtype=float)
    shape = (means.size, means.size)
    return Pairwise(
        means, np.full(shape, float(error)), np.full(shape, float(df)), "", lambda _: (None,) * 9
    )


def scored(rng, detectors=3, runs=4, sizes=(60, 50), spread=0.3, shared=True):
    """Placements of detectors that scored the same samples in the same runs."""

    def noise(size):
        common = rng.normal(size=(1, 1 if shared else runs, size))
        return common + 0.7 * rng.normal(size=(detectors, runs, size))

    shift = 1.5 + spread * rng.normal(size=(detectors, runs, 1))
    return [
        Placements.of_runs(list(zip(a, b, strict=True)), shared_samples=shared)
        for a, b in zip(noise(sizes[0]), noise(sizes[1]) + shift, strict=True)
    ]


def test_p_values_of_two_detectors_are_those_of_the_paired_t_test(rng):
    a, b = rng.normal(size=(2, 6))
    expected = scipy.stats.ttest_rel(a, b).pvalue
    found = leaderboard(from_values([a, b]), declared=0)
    assert min(one.p_value for one in found.behind) == pytest.approx(expected)
    ours = found.ours[1 - found.declared]
    assert ours.p_value == pytest.approx(expected)
    interval = scipy.stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx(tuple(interval))


def test_declared_comparisons_are_wider_than_dunnetts_by_little(rng):
    """With one pooled variance Dunnett's intervals are exact; Bonferroni's hold them."""
    k, n = 6, 5
    values = rng.normal(size=(k, n))
    pooled = math.sqrt(float(values.var(axis=1, ddof=1).mean()) * 2 / n)
    found = leaderboard(equal_errors(values.mean(axis=1), pooled, k * (n - 1)), declared=0)
    exact = scipy.stats.dunnett(*values[1:], control=values[0], random_state=0)
    interval = exact.confidence_interval(0.95)
    for place, row in enumerate(found.order):
        if row == 0:
            continue
        ours = found.ours[place]
        assert ours.value == pytest.approx(values[0].mean() - values[row].mean())
        assert exact.pvalue[row - 1] - 2e-3 <= ours.p_value
        width = float(interval.high[row - 1] - interval.low[row - 1])
        assert width - 0.01 <= ours.high - ours.low <= 1.06 * width


@relaxed
@given(tables)
def test_everything_follows_from_one_relation(table):
    found = leaderboard(from_values(table), declared=len(table) - 1)
    count = len(table)
    assert sorted(found.order) == list(range(count))
    assert list(np.diff([mean.value for mean in found.means]) <= 0) == [True] * (count - 1)
    letters = found.letters
    for i in range(count):
        best = bool(found.can_be_best[i])
        low, high = found.ranks[i]
        assert best == (low == 1) == (found.behind[i].p_value >= 0.05)
        assert best or found.behind[i].high == 0.0
        assert found.behind[i].low <= found.behind[i].value <= max(found.behind[i].high, 0.0) or (
            i == 0
        )
        assert low <= i + 1 <= high
        for j in range(i + 1, count):
            apart = bool(found.separated[i, j] or found.separated[j, i])
            assert apart == (not set(letters[i]) & set(letters[j]))
            assert not found.separated[i, j]  # who has the lower mean is never above
    assert found.can_be_best[0]
    assert found.is_decided == (found.behind[0].low == 0.0 and not found.can_be_best[1:].any())
    for place, ours in enumerate(found.ours):
        if place != found.declared and math.isfinite(ours.high):
            assert (ours.p_value < 0.05) == (ours.low > 0.0 or ours.high < 0.0)


def test_intervals_are_hsus(rng):
    """Constrained multiple comparisons with the best, written out again from Hsu 1984."""
    means = np.array([3.0, 2.8, 2.0, 0.5])
    error, df = 0.25, 9.0
    q = float(scipy.stats.t.isf(0.05 / 3, df)) * error
    found = leaderboard(equal_errors(means, error, df))
    highs = [
        max(0.0, min(m - o + q for j, o in enumerate(means) if j != i)) for i, m in enumerate(means)
    ]
    candidates = [i for i, high in enumerate(highs) if high > 0.0]
    assert candidates == [0, 1]
    lows = [
        min(0.0, *(m - means[j] - q for j in candidates if j != i)) for i, m in enumerate(means)
    ]
    assert [one.high for one in found.behind] == pytest.approx(highs)
    assert [one.low for one in found.behind] == pytest.approx(lows)
    assert found.ranks == ((1, 2), (1, 2), (3, 3), (4, 4))


@relaxed
@given(hnp.arrays(np.bool_, st.integers(1, 7).map(lambda k: (k, k))))
def test_groups_are_all_largest_sets_without_a_separated_pair(relation):
    from oodometer.stats.leaderboard import _groups, _runs

    apart = np.triu(relation, 1)
    apart = apart | apart.T
    count = len(apart)
    free = [
        set(chosen)
        for size in range(1, count + 1)
        for chosen in itertools.combinations(range(count), size)
        if not apart[np.ix_(chosen, chosen)].any()
    ]
    largest = [one for one in free if not any(one < other for other in free)]
    assert sorted(map(sorted, largest)) == [list(group) for group in _groups(apart)]
    # Of very many, groups have no gaps: two without a common one are apart all the same.
    runs = [set(group) for group in _runs(apart)]
    for i, j in itertools.combinations(range(len(apart)), 2):
        assert apart[i, j] or any({i, j} <= group for group in runs)
    ends = np.maximum.accumulate([max(np.flatnonzero(~row)) for row in apart])
    filled = ~np.array([[j <= ends[i] for j in range(len(apart))] for i in range(len(apart))])
    filled = np.triu(filled, 1) | np.triu(filled, 1).T
    assert [tuple(sorted(group)) for group in runs] == list(_groups(filled))


def test_one_case_separates_nobody():
    found = leaderboard(from_values([[0.9], [0.1], [0.5]]), declared=1)
    assert found.can_be_best.all()
    assert found.ranks == ((1, 3),) * 3
    assert all(one.p_value == 1.0 for one in (*found.behind, *found.ours))


def test_differences_without_spread_prove_no_more_than_their_signs():
    found = leaderboard(from_values([[0.5, 0.75, 0.25], [0.25, 0.5, 0.0]]))
    assert found.behind[1].p_value == pytest.approx(0.25)  # 2 * 2^-3
    many = np.linspace(0.0, 1.0, 8)
    found = leaderboard(from_values([many, many - 0.5]))
    assert found.behind[1].p_value == pytest.approx(2.0**-7)
    assert not found.can_be_best[1]


def test_equal_detectors_stay_together():
    row = [0.5, 0.7, 0.6, 0.55]
    found = leaderboard(from_values([row, row, [0.1, 0.0, 0.05, 0.1]]))
    assert found.ranks == ((1, 2), (1, 2), (3, 3))
    assert found.letters == ("a", "a", "b")


def test_means_have_the_intervals_of_their_runs(rng):
    values = rng.beta(19, 1, size=(3, 5))
    found = leaderboard(from_values(values, bounds=(0.0, 1.0)))
    for row, mean in zip(found.order, found.means, strict=True):
        assert mean[:3] == runs_interval(values[row], bounds=(0.0, 1.0))[:3]


def test_summaries_are_compared_by_welchs_test():
    summaries = [Summary(0.93, 0.01, 5), Summary(0.91, 0.02, 4)]
    expected = welch(*summaries)
    found = leaderboard(from_summaries(summaries), declared=0)
    assert found.ours[1][:4] == pytest.approx(expected[:4])


@pytest.mark.parametrize("shared", [True, False])
def test_one_run_of_scores_is_delongs(rng, shared):
    placed = scored(rng, runs=1, shared=shared)
    pairs = from_scores(placed, retraining=False)
    for i, j in itertools.combinations(range(3), 2):
        expected = auroc_difference(placed[i], placed[j])
        found = leaderboard(
            Pairwise(
                pairs.means[[i, j]],
                pairs.error[np.ix_([i, j], [i, j])],
                pairs.df[np.ix_([i, j], [i, j])],
                "",
                lambda _: (None, None),
            ),
            declared=0,
        )
        ours = found.ours[1 - found.declared]
        assert ours[:4] == pytest.approx(expected[:4], rel=1e-6)


def test_on_this_model_only_test_samples_vary(rng):
    """Runs that differ wildly do not matter if they are to stay as they are."""
    placed = scored(rng, runs=5, spread=3.0, sizes=(300, 300))
    here, again = (from_scores(placed, retraining=retraining) for retraining in (False, True))
    off = ~np.eye(3, dtype=bool)
    assert (here.error[off] < 0.3 * again.error[off]).all()
    assert (here.df[off] > 250).all()
    assert (again.df[off] < 9).all()
    for one, own in zip(placed, again.intervals(0.95), strict=True):
        assert own == mean_auroc(one)
    for one, own in zip(placed, here.intervals(0.95), strict=True):
        assert own.high - own.low < 0.5 * (mean_auroc(one).high - mean_auroc(one).low)


def test_sampling_errors_are_those_of_the_placements(rng):
    """Jackknife over samples of the mean AUROC over runs: DeLong's variance is its own."""
    placed = scored(rng, detectors=2, runs=3, sizes=(25, 20))
    error = from_scores(placed, retraining=False).error[0, 1]
    gap = [
        (a.reshape(3, -1) - b.reshape(3, -1)).mean(axis=0)
        for a, b in ((placed[0].id, placed[1].id), (placed[0].ood, placed[1].ood))
    ]
    assert error**2 == pytest.approx(sum(part.var(ddof=1) / part.size for part in gap))


def test_perfect_detectors_differ_by_what_samples_could_hide():
    runs = [(np.arange(10.0), np.arange(10.0) + 20)]
    placed = [Placements.of_runs(runs), Placements.of_runs(runs)]
    found = leaderboard(from_scores(placed, retraining=False), declared=0)
    expected = auroc_difference(*placed)
    assert found.ours[1][:4] == pytest.approx(expected[:4])


def test_one_run_says_nothing_about_retraining(rng):
    found = leaderboard(from_scores(scored(rng, runs=1), retraining=True))
    assert found.can_be_best.all()


def test_scores_of_different_samples_are_refused(rng):
    with pytest.raises(UserError, match="same samples"):
        from_scores([*scored(rng), *scored(rng, sizes=(60, 40))], retraining=True)
    with pytest.raises(UserError, match="declared must be a row from 0 to 2, got 3"):
        leaderboard(from_scores(scored(rng), retraining=True), declared=3)


def test_the_best_is_rarely_excluded_and_equal_ones_rarely_told_apart():
    """Level of the whole procedure: 2,000 worlds of six detectors and five runs."""
    rng = np.random.default_rng(0)
    worlds, k, n = 2000, 6, 5
    anybody = best = covered = 0
    gaps = np.array([0.0, -0.3, -0.3, -1.0, -2.0, -4.0])
    truth = np.array([0.3, -0.3, -0.3, -1.0, -2.0, -4.0])
    for _ in range(worlds):
        noise = rng.normal(size=(k, n)) + rng.normal(size=n)
        anybody += not leaderboard(from_values(noise)).can_be_best.all()
        found = leaderboard(from_values(noise + gaps[:, None]))
        best += not found.can_be_best[found.order.index(0)]
        covered += all(
            one.low <= truth[row] + 1e-12 and truth[row] - 1e-12 <= one.high
            for one, row in zip(found.behind, found.order, strict=True)
        )
    assert anybody / worlds <= 0.055
    assert best / worlds <= 0.055
    assert covered / worlds >= 0.945


def test_data_sets_have_variances_of_their_own():
    """Two detectors that go together over data sets, among others that do not."""
    rng = np.random.default_rng(3)
    values = rng.normal(0.7, 0.1, size=(6, 4))
    values[1] = values[0] - 0.003 + rng.normal(0, 0.003, 4)
    own = from_values(values, shared=False)
    for row in range(6):
        for other in range(row):
            test = scipy.stats.ttest_rel(values[row], values[other])
            gap = (own.means[row] - own.means[other]) / own.error[row, other]
            assert gap == pytest.approx(test.statistic) and own.df[row, other] == test.df
    assert own.error[0, 1] < 0.2 * from_values(values).error[0, 1]


def test_two_that_agree_in_every_case_differ_by_nothing():
    """Not by the rounding of variances, which a page would show as [-1e-14, 1e-14]."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        twin = 0.9 + 0.01 * rng.random(4)
        values = np.array([twin, twin, twin - 0.1 + 0.02 * rng.random(4)])
        first, second, _ = leaderboard(from_values(values)).behind
        assert first[:3] == second[:3] == (0.0, 0.0, 0.0)
        constant = np.array([[0.9] * 4, [0.9] * 4, [0.8, 0.81, 0.8, 0.81]]) + 1e-3 * rng.random()
        assert leaderboard(from_values(constant)).behind[0][:3] == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("error", "differs"), [(0.4, True), (0.6, False)])
def test_the_others_are_told_apart_only_if_the_declared_one_differs_from_somebody(error, differs):
    """If it equals all, all are equal: two families of tests would err more often than one."""
    errors = np.where(np.eye(3, dtype=bool), 0.0, error)
    pairwise = Pairwise(
        np.array([0.0, 1.0, -1.0]), errors, np.full((3, 3), math.inf), "", lambda level: (None,) * 3
    )
    assert leaderboard(pairwise).separated.any()
    board = leaderboard(pairwise, declared=0)
    assert board.separated.any() == differs
    assert any(found.p_value < 0.05 for found in board.ours) == differs


def test_three_detectors_are_declared_as_by_holm():
    """Nothing is shared between three, and the winner adds no error to comparisons."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        values = rng.normal(size=(3, 4)) + rng.choice([0.0, 3.0], size=(3, 1))
        board = leaderboard(from_values(values), declared=0)
        p = [scipy.stats.ttest_rel(values[0], values[row]).pvalue for row in (1, 2)]
        sure = {row for row, own in zip(board.order, board.ours, strict=True) if own.p_value < 0.05}
        adjusted = (max(min(p) * 2, own if own > min(p) else min(p) * 2) for own in p)
        holm = {row for row, own in zip((1, 2), adjusted, strict=True) if own < 0.05}
        assert sure <= holm


def test_the_words_tell_the_degrees_of_freedom_that_runs_have():
    """Pairs of a detector that varies far more borrow fewer of the prior's, not of their own."""
    rng = np.random.default_rng(3)
    spreads = np.array([0.002] * 7 + [0.03])
    for runs in (3, 5):
        values = 0.8 + rng.normal(size=(8, runs)) * spreads[:, None]
        told = from_values(values, bounds=(0.0, 1.0)).method
        assert re.search(rf"\(empirical Bayes: {runs - 1} \+ up to [\d.]+ degrees", told), told
        told = from_values(values[:7], bounds=(0.0, 1.0)).method
        assert f"Bayes: {runs - 1} + " in told or f"its own ({runs - 1} degrees" in told
