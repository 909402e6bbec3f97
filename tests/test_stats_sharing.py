"""Shared variances: against the F distribution, by brute force, and in simulated worlds."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from scipy.optimize import minimize_scalar
from scipy.special import stdtrit

from oodometer.stats import sharing
from oodometer.stats.leaderboard import from_values, leaderboard
from oodometer.stats.pairwise import declared_growth, shared_over_runs
from oodometer.stats.sharing import (
    PRIORS,
    _fit,
    independent_rows,
    logit_scales,
    pair_variances,
    shared_variances,
)
from oodometer.stats.summary import UNBOUNDED


@pytest.fixture
def rng():
    """Random numbers, the same in every test."""
    return np.random.default_rng(0)


def test_pair_variances_are_those_of_differences(rng):
    values = rng.normal(size=(2, 4, 5))
    expected = [[[np.var(a - b, ddof=1) for a in table] for b in table] for table in values]
    np.testing.assert_allclose(pair_variances(values), expected, atol=1e-15)


def test_the_usual_variance_has_the_largest_likelihood(rng):
    """Against SciPy's F density, maximised by its own search."""
    variances = rng.chisquare(2, size=40) * np.exp(rng.normal(size=40))
    likelihoods, usual = _fit(variances, np.full(40, 2.0), np.zeros(40))
    differences = []
    for number, prior in enumerate(PRIORS):

        def minus(log_scale, prior=prior):
            density = scipy.stats.f.logpdf(variances / np.exp(log_scale), 2, prior) - log_scale
            return -density.sum()

        best = minimize_scalar(minus, bounds=(-8, 8), method="bounded", options={"xatol": 1e-9})
        assert usual[number] == pytest.approx(best.x, abs=2e-3)
        differences.append(likelihoods[number] + best.fun)
    assert np.ptp(differences) < 1e-3  # but for what does not depend on the prior


def test_alike_variances_are_pooled_and_unlike_ones_are_not(rng):
    alike = rng.normal(size=(300, 18, 3))
    unlike = alike * np.exp(1.5 * rng.normal(size=(300, 18, 1)))
    pooled, apart = (shared_over_runs(worlds, UNBOUNDED) for worlds in (alike, unlike))
    assert np.median(pooled.prior) > 5.0
    assert np.median(apart.prior) < 1.5
    off = ~np.eye(18, dtype=bool)
    spread = np.log(pooled.variance[:, off]).std()
    assert spread < 0.5 * np.log(pooled.own[:, off]).std()
    # Drawn variances lie between the own one and the usual one of their table.
    assert (pooled.variance[:, off] > pooled.own[:, off]).mean() > 0.5
    np.testing.assert_allclose(pooled.variance[:, off].mean(), 2.0, rtol=0.25)


def test_detectors_that_move_together_count_as_few(rng):
    runs = 4
    independent = independent_rows(rng.normal(size=(500, 12, runs)))
    two_families = np.repeat(rng.normal(size=(500, 2, runs)), 6, axis=1)
    families = independent_rows(two_families + 0.05 * rng.normal(size=(500, 12, runs)))
    assert np.median(independent) > 8.0
    assert np.quantile(families, 0.95) < 1.2
    assert (independent_rows(rng.normal(size=(5, 12, 2))) == 1.0).all()  # two runs show nothing
    assert independent_rows(np.zeros((12, 3))) >= 1.0  # nor do values that never vary


def test_common_run_effects_and_units_do_not_matter(rng):
    values = rng.uniform(0.6, 0.9, size=(6, 4))
    moved = 100 * (values + rng.normal(size=4))
    one, other = shared_over_runs(values, UNBOUNDED), shared_over_runs(moved, UNBOUNDED)
    np.testing.assert_allclose(1e4 * one.variance, other.variance, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(one.df, other.df)
    percent = shared_over_runs(100 * values, (0.0, 100.0))
    np.testing.assert_allclose(1e4 * shared_over_runs(values, (0.0, 1.0)).df, 1e4 * percent.df)


def test_near_the_bounds_logits_vary_alike(rng):
    """Detectors at 0.7 and at 0.99 with the same spread of logits: each gets its own."""
    logits = np.repeat([1.0, 5.0], 9)[:, None] + 0.2 * rng.normal(size=(200, 18, 3))
    values = 1.0 / (1.0 + np.exp(-logits))
    truth = logit_scales(values.mean(axis=-1), (0.0, 1.0))[0] * 0.2**2
    bounded, unbounded = (shared_over_runs(values, b) for b in ((0.0, 1.0), UNBOUNDED))
    high = (slice(None), 9, slice(10, 18))  # two detectors near 1
    assert np.median(bounded.variance[high] / truth[high]) < 1.5
    assert np.median(bounded.df[high]) > 1.2 * np.median(unbounded.df[high])


def test_two_detectors_and_two_runs_keep_their_own_variance(rng):
    own = pair_variances(rng.normal(size=(2, 5)))
    assert shared_variances(own, 4.0, 1.0).variance is own
    two_runs = shared_over_runs(rng.normal(size=(8, 2)), UNBOUNDED)
    np.testing.assert_allclose(two_runs.df, 1.0, atol=1e-6)
    assert leaderboard(from_values(rng.normal(size=(8, 2)))).can_be_best.all()


def test_constant_differences_are_judged_by_what_is_usual(rng):
    """Runs of one pair that agree to the last digit are luck if those of others do not."""
    values = rng.normal(size=(8, 3))
    values[1] = values[0] + 0.1
    assert leaderboard(from_values(values)).can_be_best.all()
    steady = np.linspace(0.0, 7.0, 8)[:, None] + np.array([0.0, 0.5, 0.25])
    assert leaderboard(from_values(steady)).can_be_best.all()  # 2^-3 each: three runs prove nothing


def declared_errors(worlds, gap=0.0):
    """Shares of (any, each) of the comparisons of the first detector that are significant."""
    runs = worlds.shape[-1]
    shared = shared_over_runs(worlds, UNBOUNDED)
    others = worlds.shape[-2] - 1
    df = shared.df[:, 0, 1:]
    error = np.sqrt(shared.variance[:, 0, 1:] / runs)
    error *= declared_growth(df, shared.declared_df[:, 0, 1:])
    means = worlds.mean(axis=-1)
    found = np.abs(means[:, :1] - means[:, 1:] + gap) > error * -stdtrit(df, 0.025 / others)
    return found.any(axis=1).mean(), found.mean()


@pytest.mark.parametrize("detectors", [4, 18])
def test_level_and_power_with_three_runs(detectors):
    """The whole table is in docs/statistics.md, made by benchmarks/coverage.py."""
    rng = np.random.default_rng(1)
    shape = (1500, detectors, 3)
    normal = rng.normal(size=shape)
    worlds = {
        "equal": normal,
        "unequal": normal * np.exp(0.5 * rng.normal(size=(*shape[:2], 1))),
        "skewed": 1.0 - rng.exponential(size=shape),
        "failing": normal - 10.0 * ((rng.random(shape) < 0.1) - 0.1),
        "two families": normal + 2.0 * rng.normal(size=(1500, 2, 3))[:, np.arange(detectors) % 2],
    }
    for name, world in worlds.items():
        assert declared_errors(world)[0] <= 0.055 + 0.012, name  # two standard errors
    plain = np.sqrt(pair_variances(normal)[:, 0, 1:] / 3)
    means = normal.mean(axis=-1)
    quantile = -stdtrit(2, 0.025 / (detectors - 1))
    found = (np.abs(means[:, :1] - means[:, 1:] + 4.0) > quantile * plain).mean()
    assert declared_errors(normal, gap=4.0)[1] > (5.0 if detectors == 18 else 1.6) * found


@pytest.mark.parametrize(("factor", "runs"), [(3.0, 3), (3.0, 5), (2.0, 3)])
def test_a_declared_detector_may_vary_unlike_all_others(rng, factor, runs):
    """Its few runs often hide it: with what is usual alone, too few intervals cover."""
    values = rng.normal(size=(3000, 18, runs))
    values[:, 0] *= factor
    shared = shared_over_runs(values, UNBOUNDED)
    gaps = np.abs(values[:, :1].mean(axis=-1) - values[:, 1:].mean(axis=-1))
    error = np.sqrt(shared.variance[:, 0, 1:] / runs)
    df = shared.df[:, 0, 1:]
    growth = declared_growth(df, shared.declared_df[:, 0, 1:])
    usual, declared = (
        float((gaps <= -stdtrit(df, 0.025) * error * own).mean()) for own in (1.0, growth)
    )
    assert usual < 0.935 < declared < 0.96


def test_a_declared_detector_is_compared_with_many_on_shared_degrees_of_freedom(rng):
    """Its 95% intervals are those on fewer; cut at all levels, they would cost power."""
    values = rng.normal(size=(500, 18, 3))
    shared = shared_over_runs(values, UNBOUNDED)
    df, fewer = shared.df[:, 0, 1:], shared.declared_df[:, 0, 1:]
    growth = declared_growth(df, fewer)
    assert growth * stdtrit(df, 0.975) == pytest.approx(stdtrit(fewer, 0.975))
    error = np.sqrt(shared.variance[:, 0, 1:] / 3)
    gaps = np.abs(values[:, :1].mean(axis=-1) - values[:, 1:].mean(axis=-1) + 4.0)
    cut, grown = (
        float((gaps > -stdtrit(own, 0.025 / 17) * wide).mean())
        for own, wide in ((fewer, error), (df, growth * error))
    )
    assert grown > cut + 0.05


def test_declared_degrees_of_freedom_lie_between_one_own_variance_and_all(rng):
    shared = shared_over_runs(rng.normal(size=(200, 6, 4)), UNBOUNDED)
    off = ~np.eye(6, dtype=bool)
    assert (shared.declared_df >= 3.0 - 1e-9)[:, off].all()
    assert (shared.declared_df <= shared.df)[:, off].all()
    equal = shared_over_runs(np.ones((5, 3)), UNBOUNDED)  # no variance at all
    assert np.isfinite(equal.declared_df).all()


def test_only_the_pairs_of_a_declared_detector_are_judged_with_its_own(rng):
    pairwise = from_values(rng.normal(size=(8, 3)))
    with_row = pairwise.of_declared(2)
    others = np.arange(8) != 2
    assert (with_row.error[2, others] > pairwise.error[2, others]).all()
    assert (with_row.error == with_row.error.T).all()
    assert (with_row.error[np.ix_(others, others)] == pairwise.error[np.ix_(others, others)]).all()
    plain, ours = leaderboard(pairwise), leaderboard(pairwise, declared=2)
    assert plain.order == ours.order and ours.declared == plain.order.index(2)
    own = leaderboard(with_row, declared=2)  # twice changes nothing
    assert [one[:4] for one in own.ours] == [one[:4] for one in ours.ours]


def test_how_many_priors_are_fitted_at_once_changes_no_byte(rng, monkeypatch):
    values = rng.normal(size=(2, 7, 4))
    once = shared_variances(pair_variances(values), 3.0, np.full(2, 5.0))
    monkeypatch.setattr(sharing, "_TOGETHER", 1)
    again = shared_variances(pair_variances(values), 3.0, np.full(2, 5.0))
    assert all(np.array_equal(one, other) for one, other in zip(once, again, strict=True))


@pytest.mark.parametrize("factor", [8.0, 16.0])
def test_a_detector_that_varies_far_more_borrows_no_degrees_of_freedom(rng, factor):
    """What is usual tells nothing of it: with all of them, 90% of intervals cover."""
    values = rng.normal(size=(2000, 18, 3))
    values[:, 17] *= factor
    shared = shared_over_runs(values, UNBOUNDED)
    gaps = np.abs(values[:, 0].mean(axis=-1) - values[:, 17].mean(axis=-1))
    df = shared.df[:, 0, 17]
    growth = declared_growth(df, shared.declared_df[:, 0, 17])
    error = np.sqrt(shared.variance[:, 0, 17] / 3) * growth
    assert 0.92 < float((gaps <= -stdtrit(df, 0.025) * error).mean()) < 0.96


def test_variances_on_the_diagonal_say_nothing(rng):
    """Those of summaries have twice each detector's own there, those of runs nothing."""
    variances = pair_variances(rng.normal(size=(6, 4)))
    filled = variances + np.diag(np.arange(1.0, 7.0))
    apart = ~np.eye(6, dtype=bool)
    for one, other in zip(
        *(shared_variances(v, 3.0, 5.0) for v in (variances, filled)), strict=True
    ):
        if np.ndim(one):
            np.testing.assert_allclose(np.asarray(one)[apart], np.asarray(other)[apart])
