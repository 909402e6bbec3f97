"""Means of several detectors and the standard errors of all their differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

from oodometer.errors import UserError
from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.metrics.delong import hidden_share
from oodometer.stats.comparison import Placements, mean_auroc
from oodometer.stats.intervals import runs_interval
from oodometer.stats.summary import UNBOUNDED, Summary, mean_interval
from oodometer.stats.values import run_values, table_values

ROUNDING = 1e-12  # of the largest value: a spread below is none
USUAL = 0.95  # level at which differences without any spread get what the samples could hide


class Pairwise(NamedTuple):
    """Means of k detectors, higher is better, and all that comparing them needs."""

    means: Floats
    error: Floats  # (k, k): standard errors of the differences of means
    df: Floats  # (k, k): degrees of freedom of these errors
    method: str  # how errors and degrees of freedom were found, a sentence
    intervals: Callable[[float], tuple[Estimate, ...]]  # of each mean, at a level of confidence


def from_values(values: ArrayLike, *, bounds: tuple[float, float] = UNBOUNDED) -> Pairwise:
    """Detectors x cases, such as training runs: errors of the paired differences.

    One case shows no spread: errors are infinite. `bounds` are those of a value, such as (0, 1).
    """
    table = table_values(values)
    run_values(table.ravel(), "values")
    detectors, cases = table.shape
    means = table.mean(axis=1)

    def intervals(level: float) -> tuple[Estimate, ...]:
        found = (runs_interval(row, level=level, bounds=bounds) for row in table)
        return tuple(Estimate(*interval[:3]) for interval in found)

    if cases == 1:
        unknown = np.full((detectors, detectors), math.inf)
        return Pairwise(means, unknown, np.ones_like(unknown), "One case: no spread.", intervals)
    df = np.full((detectors, detectors), cases - 1.0)
    error = np.sqrt(pair_variances(table) / cases)
    error = _by_signs(means, error, df, cases, ROUNDING * float(np.abs(table).max()))
    return Pairwise(means, error, df, _own(cases), intervals)


def _own(cases: int) -> str:
    return f"Each difference is judged by its own spread over {cases} cases (Student's t)."


def pair_variances(table: Floats) -> Floats:
    """Variances over the columns of the differences of all pairs of rows."""
    centred = table - table.mean(axis=1, keepdims=True)
    return np.asarray(
        ((centred[:, None, :] - centred[None, :, :]) ** 2).sum(axis=2) / (table.shape[1] - 1)
    )


def _by_signs(means: Floats, error: Floats, df: Floats, cases: int, rounding: float) -> Floats:
    """Errors where differences that agree to the last digit prove no more than their signs.

    Their one-sided p-value becomes that of the permutation test, 2^-n.
    """
    gaps = np.abs(means[:, None] - means[None, :])
    same = (error <= rounding) & (gaps > rounding)
    return np.asarray(np.where(same, gaps / -stdtrit(df, 0.5**cases), error))


def from_summaries(
    summaries: Sequence[Summary], *, bounds: tuple[float, float] = UNBOUNDED
) -> Pairwise:
    """Detectors measured in runs of their own, or known by mean, spread and runs: Welch's errors.

    Runs that detectors share are alike rather than opposed: errors are then too large rather than
    too small.
    """
    known = [summary.check() for summary in summaries]
    means = np.array([one.mean for one in known])
    variances = np.array([one.variance for one in known])
    freedom = np.array([one.runs - 1.0 for one in known])
    total = variances[:, None] + variances[None, :]
    parts = variances**2 / freedom
    spread = parts[:, None] + parts[None, :]
    df = np.divide(total**2, spread, out=np.ones_like(total), where=spread > 0.0)
    runs = int(freedom.min()) + 1
    error = _by_signs(means, np.sqrt(total), df, runs, ROUNDING * float(np.abs(means).max()))
    return Pairwise(
        means,
        error,
        df,
        "Each difference is judged by the spreads of both detectors (Welch's t).",
        lambda level: tuple(mean_interval(one, level, bounds) for one in known),
    )


def from_scores(placements: Sequence[Placements], *, retraining: bool) -> Pairwise:
    """Detectors that scored the same samples of the same runs: errors of differences of AUROC.

    Without `retraining`, for other test samples and these very runs: DeLong's covariances. With it,
    for other runs too: Obuchowski & Rockette 1995 as in `comparison.auroc_difference`.
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

    if retraining and runs == 1:
        unknown = np.full((means.size, means.size), math.inf)
        return Pairwise(
            means, unknown, np.ones_like(unknown), "One training run: no spread.", intervals
        )
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
    method = "Errors are those of sampling the test samples (DeLong)."
    variance = sampling
    if retraining:
        method = f"Errors combine test samples (DeLong) and {runs} training runs."
        between = pair_variances(values) / runs
        shared = np.maximum(0.0, (runs * sampling - by_id.single - by_ood.single) / (runs - 1))
        variance = np.maximum(between + shared, sampling)
        df = _cautious_freedom((between, runs - 1.0), (variance - between, df))
    none = variance <= ROUNDING**2
    return Pairwise(
        means,
        np.sqrt(np.where(none, least, variance)),
        np.where(none, math.inf, df),
        method,
        intervals,
    )


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
