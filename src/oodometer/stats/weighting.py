"""Differences that must stand out in two ways: by two weightings, or over sets and over runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.stats.pairwise import (
    FEWEST_RUNS,
    ROUNDING,
    Pairwise,
    declared_freedom,
    one_sided_p_values,
)
from oodometer.stats.summary import Summary, mean_interval

# With 1 instead, two runs that are alike on all data sets tell equal detectors apart in up to 10%
# of simulated tables, with 2 in up to 6.3%, with this in up to 5.2%.
CAUTION = 3.0


def weighted_values(values: Floats, weights: Floats) -> Floats:
    """Values (..., runs) whose plain mean is the weighted one, with its robust error.

    With weights w of sum 1 and n runs, m + n w (x - m) has the mean m = sum w x, and the variance
    of its mean is n / (n - 1) sum w^2 (x - m)^2 (White 1980, doi:10.2307/1912934).

    >>> weighted_values(np.array([1.0, 2.0, 6.0]), np.array([1.0, 1.0, 2.0])).mean()
    np.float64(3.75)
    """
    shares = weights / weights.sum()
    middle = (values * shares).sum(axis=-1, keepdims=True)
    return np.asarray(middle + shares.size * shares * (values - middle))


def weighted_freedom(counts: Sequence[int]) -> float:
    """Degrees of freedom (Satterthwaite) of a mean over conditions with these numbers of runs.

    A condition with one run shows no variance; it counts as if it had one degree of freedom.

    >>> weighted_freedom([5, 5]), round(weighted_freedom([10, 2]), 2)
    (8.0, 1.43)
    """
    parts = [(1.0 / n, max(n - 1.0, 1.0)) for n in counts]
    return sum(part for part, _ in parts) ** 2 / sum(part**2 / df for part, df in parts)


def also_weighted(plain: Pairwise, weighted: Pairwise, lost: float) -> Pairwise:
    """Compare as both weightings allow: the larger error counts, relative to its difference.

    Detectors whose order depends on the weights are not told apart. `lost`: degrees of freedom that
    weighted means have less than their number of runs says.
    """
    return plain._replace(
        error=np.maximum(plain.error, _error_beside(plain, weighted)),
        df=np.minimum(plain.df, np.maximum(1.0, weighted.df - lost)),
        declared_df=np.minimum(
            declared_freedom(plain), np.maximum(1.0, declared_freedom(weighted) - lost)
        ),
    )


def with_weighted_means(
    plain: Pairwise,
    means: Floats,
    summaries: Sequence[Summary],
    bounds: tuple[float, float],
) -> Pairwise:
    """The same with means of another weighting, and the p-values as they are.

    An interval is as wide as that of both means together.
    """

    def intervals(level: float) -> tuple[Estimate, ...]:
        return tuple(
            Estimate(value, min(a.low, b.low, value), max(a.high, b.high, value))
            for a, b, value in zip(
                plain.intervals(level),
                (mean_interval(own, level, bounds) for own in summaries),
                means.tolist(),
                strict=True,
            )
        )

    weighted = plain._replace(means=means, intervals=intervals)
    return weighted._replace(error=_error_beside(weighted, plain))


def weighted_summaries(
    values: Floats, weights: Floats, counts: Sequence[int]
) -> tuple[Summary, ...]:
    """Weighted means of rows with their robust errors, on the degrees of freedom of `counts`."""
    runs = 1 + max(1, math.floor(weighted_freedom(counts)))
    own = (Summary.of(row) for row in weighted_values(values, weights))
    return tuple(one._replace(spread=math.sqrt(one.variance * runs), runs=runs) for one in own)


def also_over_runs(sets: Pairwise, runs: Pairwise, many: int) -> Pairwise:
    """Compare by data sets as training runs, the same on all sets, allow, too.

    What a run does to a detector may be alike on all sets, which differences between sets do not
    show: with such runs, sets alone would tell equal detectors apart in up to 97% of simulated
    tables. So a difference must stand out from both, and of each pair the larger p-value counts.
    Nobody is then ahead on other data sets who is not after retraining on these: at most 5.5% of
    tables of equal detectors are wrong in either scope (a fixed sequence of tests), as far as
    simulations tell. Two runs (`many`) decide nothing by themselves: see `_beside_two_runs`.
    """
    if many < FEWEST_RUNS:
        error, df = _beside_two_runs(sets, float(runs.error.max()))
    else:
        over_runs = runs._replace(means=sets.means, error=_error_beside(sets, runs))
        by_runs, by_sets = (one_sided_p_values(own) for own in (over_runs, sets))
        counts = np.minimum(by_runs, by_runs.T) > np.minimum(by_sets, by_sets.T)
        error, df = (np.where(counts, a, b) for a, b in zip(over_runs[1:3], sets[1:3], strict=True))
    return sets._replace(
        error=error,
        df=df,
        method=f"{sets.method} Differences must stand out over training runs, too.",
        declared_df=None,
    )


def _beside_two_runs(sets: Pairwise, largest: float) -> tuple[Floats, Floats]:
    """Errors over data sets with what two runs, the same on all, may add, and their freedom.

    Two runs may agree by chance. So `CAUTION` times the square of the largest error over runs of
    any of k detectors' pairs is added, on k - 1 degrees of freedom: 1 / df is the mean of the
    parts' 1 / df, weighted by their variances (Cochran).
    """
    between, added = sets.error**2, CAUTION * largest**2
    total = between + added
    parts = between / sets.df + added / max(1, len(sets.means) - 1)
    df = np.divide(total, parts, out=sets.df.copy(), where=parts > 0.0)
    return np.sqrt(total), df


def _error_beside(first: Pairwise, second: Pairwise) -> Floats:
    """The second's errors relative to the first's differences; infinite where orders differ.

    Equal means of the first have the second's errors as they are.
    """
    gaps, others = (_gaps(own.means) for own in (first, second))
    same = gaps * others > 0.0
    ratio = np.divide(gaps, others, out=np.ones_like(gaps), where=same)
    return np.asarray(np.where(same | (gaps == 0.0), second.error * ratio, math.inf))


def _gaps(means: Floats) -> Floats:
    """Differences of all pairs of means; 0 where there is nothing but rounding."""
    gaps = means[:, None] - means[None, :]
    return np.where(np.abs(gaps) <= ROUNDING * np.abs(means).max(), 0.0, gaps)
