"""Means of several detectors and the standard errors of all their differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtr, stdtrit

from oodometer.errors import UserError
from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.metrics.delong import hidden_share, welch_freedom
from oodometer.stats.comparison import Difference, Placements, mean_auroc
from oodometer.stats.intervals import runs_interval
from oodometer.stats.sharing import (
    Shared,
    independent_rows,
    logit_scales,
    pair_variances,
    shared_variances,
)
from oodometer.stats.summary import UNBOUNDED, Summary, mean_interval
from oodometer.stats.values import run_values, table_values

# For each training run of a detector, the first one in which it had the same scores.
Sources = tuple[int, ...]

ROUNDING = 1e-12  # of the largest value: a spread below is none
# Training runs that decide: with two that agree by chance, test samples alone would judge, and one
# of eight equal detectors would differ significantly from another in up to 23% of simulated worlds.
FEWEST_RUNS = 3
USUAL = 0.95  # level at which differences without any spread get what the samples could hide


class Pairwise(NamedTuple):
    """Means of k detectors, higher is better, and all that comparing them needs."""

    means: Floats
    error: Floats  # (k, k): standard errors of the differences of means
    df: Floats  # (k, k): degrees of freedom of these errors
    method: str  # how errors and degrees of freedom were found, a sentence
    intervals: Callable[[float], tuple[Estimate, ...]]  # of each mean, at a level of confidence
    declared_df: Floats | None = None  # (k, k): `df` for 95% intervals of a row that is declared

    def of_declared(self, row: int) -> Pairwise:
        """The same with a detector that was declared in advance, and may vary unlike all others."""
        if self.declared_df is None:
            return self
        error = self.error.copy()
        error[row] *= declared_growth(self.df[row], self.declared_df[row])
        error[:, row] = error[row]
        return self._replace(error=error, declared_df=None)


def declared_growth(df: Floats, declared_df: Floats) -> Floats:
    """By how much errors grow so that 95% intervals are those on fewer degrees of freedom.

    These are kept otherwise: intervals for many comparisons at once would be far wider than a
    detector that varies unlike the others needs.
    """
    fewer = np.minimum(df, declared_df)
    return np.asarray(stdtrit(fewer, 0.5 + 0.5 * USUAL) / stdtrit(df, 0.5 + 0.5 * USUAL))


def difference(pairwise: Pairwise, first: int, second: int, level: float = USUAL) -> Difference:
    """One detector less another, as a pair by itself: two-sided, higher is better."""
    error, df = float(pairwise.error[first, second]), float(pairwise.df[first, second])
    value = float(pairwise.means[first] - pairwise.means[second])

    def interval(level: float) -> tuple[float, float]:
        reach = -float(stdtrit(df, 0.5 - 0.5 * level)) * error
        return value - reach, value + reach

    p_value = min(1.0, 2.0 * float(stdtr(df, -abs(value) / error))) if error > 0.0 else 1.0
    return Difference(value, *interval(level), p_value, interval)


def one_sided_p_values(pairwise: Pairwise) -> Floats:
    """(k, k): p-values of Student's one-sided tests that i is ahead of j; 1 on the diagonal."""
    gaps = pairwise.means[:, None] - pairwise.means[None, :]
    ratios = np.divide(gaps, pairwise.error, out=np.zeros_like(gaps), where=pairwise.error > 0.0)
    found = stdtr(pairwise.df, -ratios)
    np.fill_diagonal(found, 1.0)
    return np.asarray(found)


OWN = "The variance of each difference over the cases is its own."


def from_values(
    values: ArrayLike, *, bounds: tuple[float, float] = UNBOUNDED, shared: bool = True
) -> Pairwise:
    """Detectors x cases, such as training runs: errors of the paired differences.

    Their variances are `shared` between detectors (`sharing`), which suits the noise of training;
    how far data sets differ is a matter of the two detectors. One case shows no spread: errors are
    infinite. `bounds` are those of a value, such as (0, 1).
    """
    table = table_values(values)
    run_values(table.ravel(), "values")
    cases = table.shape[1]
    means = table.mean(axis=1)

    def intervals(level: float) -> tuple[Estimate, ...]:
        found = (runs_interval(row, level=level, bounds=bounds) for row in table)
        return tuple(Estimate(*interval[:3]) for interval in found)

    if cases == 1:
        return _unknown(means, "One case has no spread to test against.", intervals)
    spread = shared_over_runs(table, bounds) if shared else own_over_cases(table)
    error = _by_signs(means, spread, cases, ROUNDING * float(np.abs(table).max()))
    method = _words(spread, cases - 1.0, "case") if shared else OWN
    error = error / math.sqrt(cases)
    return Pairwise(means, error, spread.df, method, intervals, spread.declared_df)


def over_folds(pairwise: Pairwise, cases: int, folds: int) -> Pairwise:
    """Enlarge errors of means over the folds of a (repeated) cross-validation.

    Folds share training data: the variance of a mean over J of them is s (1 / J + n2 / n1), with
    n2 / n1 = 1 / (folds - 1) tested per trained samples (Nadeau & Bengio 2003,
    doi:10.1023/A:1024068626366).
    """
    return pairwise._replace(error=pairwise.error * math.sqrt(1.0 + cases / (folds - 1)))


def more_careful(runs: Pairwise, levels: Pairwise, name: str, many: int) -> Pairwise:
    """Compare runs that share the levels of a repeat, such as splits, as the levels allow.

    Runs with the same split may differ less than those with another one, or not. So the larger
    error counts, that over runs or that over the means of the levels, on the fewer degrees of
    freedom; an interval is as wide as the wider one. Two levels (`many`) decide no more than
    two runs do: nothing.
    """

    def intervals(level: float) -> tuple[Estimate, ...]:
        pairs = zip(runs.intervals(level), levels.intervals(level), strict=True)
        return tuple(Estimate(a.value, min(a.low, b.low), max(a.high, b.high)) for a, b in pairs)

    return Pairwise(
        runs.means,
        np.maximum(runs.error, levels.error if many >= FEWEST_RUNS else math.inf),
        np.minimum(runs.df, levels.df),
        f"{runs.method} Runs share the levels of {name}: errors are no smaller than those between "
        "its levels, on no more degrees of freedom.",
        intervals,
        np.minimum(declared_freedom(runs), declared_freedom(levels)),
    )


def declared_freedom(pairwise: Pairwise) -> Floats:
    """Degrees of freedom of the pairs of a detector that was declared in advance, by its row."""
    return pairwise.df if pairwise.declared_df is None else pairwise.declared_df


def own_over_cases(values: Floats) -> Shared:
    """Variances over the columns of (k, n) of all differences, each its own."""
    variances = pair_variances(values)
    df = np.full(variances.shape, values.shape[-1] - 1.0)
    return Shared(variances, df, np.zeros(()), variances, df)


def shared_over_runs(values: Floats, bounds: tuple[float, float]) -> Shared:
    """Variances over the columns of (..., k, n) of all differences, shared between rows."""
    return shared_variances(
        pair_variances(values),
        values.shape[-1] - 1.0,
        independent_rows(values),
        logit_scales(values.mean(axis=-1), bounds),
    )


def _unknown(
    means: Floats, method: str, intervals: Callable[[float], tuple[Estimate, ...]]
) -> Pairwise:
    unknown = np.full((means.size, means.size), math.inf)
    return Pairwise(means, unknown, np.ones_like(unknown), method, intervals)


def _words(shared: Shared, own: float, case: str) -> str:
    """Say how variances were found; `own` are their degrees of freedom without the prior's.

    A detector that varies more than the others borrows fewer of the prior's.
    """
    if shared.prior < 0.5:
        return (
            f"The variance of each difference over the {case}s is its own ({own:.0f} degrees of "
            "freedom): nothing can be learned from other detectors."
        )
    lent = float(shared.prior)
    up_to = "up to " if float(shared.df.min()) < own + lent - 0.05 else ""
    return (
        f"The variance of each difference over the {case}s is drawn towards what is usual among "
        f"these detectors (empirical Bayes: {own:.0f} + {up_to}{lent:.1f} degrees of freedom)."
    )


def _by_signs(means: Floats, shared: Shared, cases: int, rounding: float) -> Floats:
    """Standard deviations of differences; those that never vary prove no more than their signs.

    Unless other detectors show the usual variance, their one-sided p-value becomes that of the
    permutation test, 2^-n. Two that agree in every case but for rounding differ by nothing.
    """
    gaps = np.abs(means[:, None] - means[None, :])
    deviation = np.sqrt(shared.variance)
    alone = (deviation <= rounding) | ((shared.prior < 1.0) & (shared.own <= rounding**2))
    same = alone & (gaps > rounding)
    deviation = np.where(alone & ~same, 0.0, deviation)
    by_signs = gaps * math.sqrt(cases) / -stdtrit(shared.df, 0.5**cases)
    return np.asarray(np.where(same, np.maximum(by_signs, deviation), deviation))


def from_summaries(
    summaries: Sequence[Summary], *, bounds: tuple[float, float] = UNBOUNDED
) -> Pairwise:
    """Detectors measured in runs of their own, or known by mean, spread and runs: Welch's errors.

    Runs that detectors share are alike rather than opposed: errors are then too large rather than
    too small.
    """
    known = [summary.check() for summary in summaries]
    means = np.array([one.mean for one in known])
    squares = np.array([one.spread**2 for one in known])
    runs = np.array([float(one.runs) for one in known])
    variances = squares / runs
    share = 1.0 / runs[:, None] + 1.0 / runs[None, :]
    total = variances[:, None] + variances[None, :]
    df = np.minimum(runs[:, None], runs[None, :]) - 1.0
    if len(known) == 2 and total[0, 1] > 0.0:  # nothing to share: Welch's own
        df = np.full_like(df, welch_freedom(zip(variances, runs - 1.0, strict=True)))
    pooled = shared_variances(total / share, df, len(known) - 1.0, logit_scales(means, bounds))
    rounding = ROUNDING * float(np.abs(means).max())
    deviation = _by_signs(means, pooled, int(runs.min()), rounding)
    return Pairwise(
        means,
        deviation * np.sqrt(share),
        pooled.df,
        _words(pooled, float(df.min()), "run"),
        lambda level: tuple(mean_interval(one, level, bounds) for one in known),
        pooled.declared_df,
    )


def from_scores(
    placements: Sequence[Placements], *, retraining: bool, sources: Sequence[Sources] = ()
) -> Pairwise:
    """Detectors that scored the same samples of the same runs: errors of differences of AUROC.

    Without `retraining`, for other test samples and these very runs: DeLong's covariances. With it,
    for other runs too: Obuchowski & Rockette 1995 as in `comparison.auroc_difference`. `sources`
    says in which runs a detector has the same scores as in others: these are one case of it. Two
    runs do not show how far runs differ, and decide nothing.
    """
    first = placements[0]
    for other in placements[1:]:
        if not (
            np.array_equal(first.id_sizes, other.id_sizes)
            and np.array_equal(first.ood_sizes, other.ood_sizes)
            and first.shared_samples == other.shared_samples
        ):
            raise UserError("Detectors can be compared only by scores of the same samples.")
    values = np.array([placed.values for placed in placements])
    means = values.mean(axis=1)
    runs = values.shape[1]

    def intervals(level: float) -> tuple[Estimate, ...]:
        return tuple(mean_auroc(one, level, retraining=retraining) for one in placements)

    if retraining and runs < FEWEST_RUNS:
        few = "One training run has" if runs == 1 else "Two training runs have"
        return _unknown(means, f"{few} no spread to test against.", intervals)
    bound = 1.0 - (means[:, None] - means[None, :]) ** 2
    by_id = _sampling(
        np.array([placed.id for placed in placements]), first.id_sizes, first.shared_samples, bound
    )
    by_ood = _sampling(
        np.array([placed.ood for placed in placements]),
        first.ood_sizes,
        first.shared_samples,
        bound,
    )
    sampling = by_id.mean + by_ood.mean
    df = _freedom((by_id.mean, by_id.df), (by_ood.mean, by_ood.df))
    hidden = hidden_share(int(first.id_sizes.min()), int(first.ood_sizes.min()), USUAL)
    least = (hidden / float(ndtri(0.5 + 0.5 * USUAL))) ** 2
    method = "Variances are those of drawing other test samples (DeLong)."
    variance, declared = sampling, df
    if retraining:
        drawn, words = _between_runs(values, sources)
        method = f"{words} Test samples add theirs (DeLong)."
        between = drawn.variance / runs
        shared = np.maximum(0.0, (runs * sampling - by_id.single - by_ood.single) / (runs - 1))
        variance = np.maximum(between + shared, sampling)
        of_samples = (variance - between, df)
        df = _cautious_freedom((between, drawn.df), of_samples)
        declared = _cautious_freedom((between, drawn.declared_df), of_samples)
    none = variance <= ROUNDING**2
    return Pairwise(
        means,
        np.sqrt(np.where(none, least, variance)),
        np.where(none, math.inf, df),
        method,
        intervals,
        np.where(none, math.inf, declared),
    )


ONCE = (
    " Of detectors with the same scores in several training runs these are one case; where there "
    "is one case only, its variance is taken to be the largest of the others, on one degree of "
    "freedom."
)


def _between_runs(values: Floats, sources: Sequence[Sources]) -> tuple[Shared, str]:
    """Variances over runs of all differences, and how they were found.

    A detector in m < n different cases is compared as if by runs of its own (Welch): the variance
    of a mean difference is s1 / m1 + s2 / m2, on the fewest degrees of freedom of the two.
    """
    runs = values.shape[1]
    cases = np.array([len(set(own)) for own in sources] or [runs] * len(values))
    whole = np.flatnonzero(cases == runs)
    if whole.size == len(values):
        drawn = shared_over_runs(values, (0.0, 1.0))
        return drawn, _words(drawn, runs - 1.0, "training run")
    variance = np.ones((len(values), len(values)))  # no AUROC varies more
    df = np.asarray(np.maximum(1.0, np.minimum(cases[:, None], cases[None, :]) - 1.0))
    declared = df.copy()
    drawn = Shared(variance, df, np.zeros(()), variance, declared)
    method, largest = ONCE.removeprefix(" "), 1.0
    if whole.size > 1:
        inner = np.ix_(whole, whole)
        drawn = shared_over_runs(values[whole], (0.0, 1.0))
        method, largest = (
            f"{_words(drawn, runs - 1.0, 'training run')}{ONCE}",
            float(drawn.variance.max()),
        )
        variance[inner], df[inner] = drawn.variance, drawn.df
        declared[inner] = drawn.declared_df
    own = [np.var(row[sorted(set(of))], ddof=1) if len(set(of)) > 1 else largest
           for row, of in zip(values, sources, strict=True)]  # fmt: skip
    means = runs * np.array(own) / cases
    apart = (cases < runs)[:, None] | (cases < runs)[None, :]
    variance[apart] = (means[:, None] + means[None, :])[apart]
    return Shared(variance, df, drawn.prior, variance, declared), method


class _Part(NamedTuple):
    """DeLong variances of all differences due to one group of samples, as in `spread.Part`."""

    single: Floats  # in one run, mean over runs
    mean: Floats  # of the mean over runs
    df: float


def _sampling(placed: Floats, sizes: NDArray[np.intp], shared: bool, bound: Floats) -> _Part:
    runs, smallest = sizes.size, int(sizes.min())
    if smallest == 1:  # a single sample cannot show any variance
        return _Part(bound, bound if shared else bound / runs, 1.0)
    ends = np.cumsum(sizes)[:-1]
    centred = [part - part.mean(axis=1, keepdims=True) for part in np.split(placed, ends, axis=1)]
    single = np.mean([_of_pairs(part) for part in centred], axis=0)
    if not shared:
        return _Part(single, single / runs, float(sizes.sum() - runs))
    return _Part(single, _of_pairs(np.mean(centred, axis=0)), smallest - 1.0)


def _of_pairs(centred: Floats) -> Floats:
    """Variances of the means of the differences of all pairs of rows."""
    size = centred.shape[1]
    products = centred @ centred.T
    own = np.diag(products)
    squares = own[:, None] + own[None, :] - 2.0 * products
    rounding = 1e-14 * np.maximum(own[:, None], own[None, :])
    return np.asarray(np.where(squares > rounding, squares, 0.0) / (size - 1) / size)


def _freedom(*terms: tuple[Floats, float]) -> Floats:
    """Satterthwaite's degrees of freedom of sums of variances."""
    total = np.sum([variance for variance, _ in terms], axis=0)
    spread = np.sum([variance**2 / df for variance, df in terms], axis=0)
    df = np.divide(total**2, spread, out=np.full_like(total, math.inf), where=spread > 0.0)
    return np.asarray(df)


def _cautious_freedom(*terms: tuple[Floats, Floats | float]) -> Floats:
    """Degrees of freedom of sums of variances of which one rests on very few.

    1 / df is the mean of the parts' 1 / df, weighted by their variances, as the quantile is that of
    theirs in Cochran & Cox 1950: Satterthwaite's would be too many just when runs happen to agree.
    """
    total = np.sum([variance for variance, _ in terms], axis=0)
    weighted = np.sum([variance / df for variance, df in terms], axis=0)
    df = np.divide(total, weighted, out=np.full_like(total, math.inf), where=weighted > 0.0)
    return np.asarray(df)
