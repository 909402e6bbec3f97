"""Tests of two methods on the same runs, and how often one beats the other."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, stdtr

from oodometer.metrics import Estimate, auroc_interval
from oodometer.metrics.bootstrap import wilson
from oodometer.metrics.counts import Floats, check_count, finite_scores
from oodometer.metrics.delong import check_level
from oodometer.stats.summary import Summary, mean_interval
from oodometer.stats.values import check_generator, paired_values

EXACT_FLIPS = 20  # pairs that differ: 2^19 sums are made in milliseconds
EXACT_RANKS = 200  # pairs: beyond, the normal approximation is right to three digits
CHUNK = 1 << 20


class PairedTest(NamedTuple):
    """A paired difference and the chance of one at least as large if there were none.

    `smallest` is the smallest p value that so many pairs could have given: if that exceeds the
    level, the test cannot find anything, whatever the data.
    """

    value: float
    p_value: float
    smallest: float
    method: Literal["exact", "Monte Carlo", "normal approximation", "t"]


def sign_flip_test(
    a: ArrayLike, b: ArrayLike, *, rng: np.random.Generator, resamples: int = 9999
) -> PairedTest:
    """Permutation test of the mean difference a - b: were a and b exchanged in some of the runs?

    If the methods are alike, every difference could as well have had the other sign. Two-sided p:
    the share of all sign patterns with a sum at least as far from 0. Exact up to 20 pairs that
    differ; beyond, (1 + hits) / (1 + resamples) of random patterns, which keeps the level too
    (Phipson & Smyth 2010, doi:10.2202/1544-6115.1585). Equal pairs carry no sign and drop out.

    >>> test = sign_flip_test([3, 4, 5, 6, 7], [1, 1, 1, 1, 1], rng=np.random.default_rng(0))
    >>> test.value, test.p_value
    (4.0, 0.0625)
    """
    check_generator(rng)
    first, second = paired_values(a, b)
    differences = first - second
    check_count(resamples, "resamples")
    value = float(differences.mean())
    sizes = np.abs(differences[differences != 0.0])
    if not sizes.size:
        return PairedTest(value, 1.0, 1.0, "exact")
    sizes /= sizes.max()
    differences = differences[differences != 0.0] / np.abs(differences).max()
    # A hair less than observed: equal sums differ by rounding.
    reached = abs(float(differences.sum())) - 1e-12 * sizes.size
    smallest = 2.0 ** (1 - sizes.size)
    if sizes.size <= EXACT_FLIPS:
        sums = sizes[:1]  # the other sign of the first gives the same sums, negated
        for size in sizes[1:]:
            sums = np.concatenate([sums + size, sums - size])
        return PairedTest(value, float((np.abs(sums) >= reached).mean()), smallest, "exact")
    hits = 0
    step = max(1, CHUNK // sizes.size)
    for start in range(0, resamples, step):
        number = min(step, resamples - start)
        signs = rng.integers(2, size=(number, sizes.size)) * 2.0 - 1.0
        hits += int((np.abs(signs @ sizes) >= reached).sum())
    p_value = (1.0 + hits) / (1.0 + resamples)
    return PairedTest(value, p_value, max(smallest, 1.0 / (1.0 + resamples)), "Monte Carlo")


def wilcoxon_test(a: ArrayLike, b: ArrayLike) -> PairedTest:
    """Wilcoxon's signed rank test of a - b, exact with ties and zeros.

    The ranks of |a - b| get the signs of the differences; the two-sided p is the share of all sign
    patterns whose positive ranks sum to something as far from the middle. Ties share the mean of
    their ranks; zeros take part in the ranking and then drop out (Pratt 1959). The distribution is
    counted rank by rank, up to 200 pairs; beyond, its normal approximation with the tie-corrected
    variance. `value` is the median of the means of all pairs of differences (Hodges & Lehmann).
    """
    first, second = paired_values(a, b)
    differences = first - second
    means = (differences[:, None] + differences)[np.triu_indices(differences.size)] / 2.0
    value = float(np.median(means))
    # Values with few digits tie in their differences; in floats only nearly so.
    sizes = np.round(np.abs(differences) / (np.abs([first, second]).max() or 1.0), 12)
    ranks = _midranks(sizes) * np.sign(differences)
    ranks = ranks[ranks != 0.0]
    if not ranks.size:
        return PairedTest(value, 1.0, 1.0, "exact")
    smallest = 2.0 ** (1 - ranks.size)
    reached = abs(float(ranks.sum()))
    if ranks.size > EXACT_RANKS:
        p_value = 2.0 * float(ndtr(-max(0.0, reached - 1.0) / np.sqrt(ranks @ ranks)))
        return PairedTest(value, min(1.0, p_value), smallest, "normal approximation")
    doubled = np.rint(2.0 * np.abs(ranks)).astype(np.intp)  # whole numbers, ties or not
    total = int(doubled.sum())
    chances = np.zeros(total + 1)  # of each sum of the positive doubled ranks
    chances[0] = 1.0
    for rank in doubled:
        chances[rank:] += chances[:-rank].copy()
        chances *= 0.5
    far = np.abs(2 * np.arange(total + 1) - total) >= round(2.0 * reached)
    return PairedTest(value, min(1.0, float(chances[far].sum())), smallest, "exact")


def t_test(a: ArrayLike, b: ArrayLike) -> PairedTest:
    """Student's paired t test of the mean of a - b, for so few runs that no permutation test can.

    It takes the differences to be normal, which a few runs cannot show. Differences that are the
    same in every run leave t undefined; their p value is then that of `sign_flip_test`, 2^(1 - n).
    """
    first, second = paired_values(a, b)
    differences = first - second
    size = differences.size
    value = float(differences.mean())
    error = float(differences.std(ddof=1)) / math.sqrt(size) if size > 1 else 0.0
    rounding = 1e-12 * float(np.abs([first, second]).max())
    if abs(value) <= rounding and error <= rounding:
        return PairedTest(value, 1.0, 1.0, "exact")
    if error <= rounding:
        return PairedTest(value, 2.0 ** (1 - size), 2.0 ** (1 - size), "exact")
    p_value = 2.0 * float(stdtr(size - 1, -abs(value) / error))
    return PairedTest(value, min(1.0, p_value), 0.0, "t")


def difference_interval(a: ArrayLike, b: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Mean of a - b over the runs with Student's interval, which leaves out 0 as `t_test` rejects.

    95 % intervals cover 95 % if the differences are normal, and 94 % to 96 % in simulation of two
    detectors near AUROC = 1, whose skewness cancels in part. If one of them varies far more than
    the other, it does not: 88 % with 3 or 5 runs if differences are skewed like an exponential.
    """
    check_level(level)
    first, second = paired_values(a, b)
    differences = first - second
    value = float(differences.mean())
    if differences.size == 1:
        return Estimate(value, -math.inf, math.inf)
    # Not widened for skewness: it is to leave out 0 exactly where the test rejects.
    return mean_interval(Summary(value, float(differences.std(ddof=1)), differences.size), level)


def win_probability(
    a: ArrayLike, b: ArrayLike, *, paired: bool = True, level: float = 0.95
) -> Estimate:
    """Chance that a beats b in another run, ties counting one half, with its interval.

    Paired: a and b in the same run; the share of runs with Wilson's interval, which covers 95 % on
    average over all chances but, as few runs can have few shares, 83 % to 99 % at a single one; it
    is wider than needed if there are ties. Not paired: a in one run against b in another; the
    share of all pairs of runs, which is AUROC, with DeLong's interval (`metrics.auroc_interval`):
    97 % to 100 % in simulation of 3 to 30 runs each.
    """
    check_level(level)
    if not paired:
        return auroc_interval(finite_scores(b, "b"), finite_scores(a, "a"), level=level)
    first, second = paired_values(a, b)
    differences = first - second
    wins = float((differences > 0.0).sum() + 0.5 * (differences == 0.0).sum())
    share = wins / differences.size
    down, up = wilson(wins, differences.size, level)
    return Estimate(share, max(0.0, share - down), min(1.0, share + up))


def _midranks(values: Floats) -> Floats:
    """Ranks from 1 up; equal values share the mean of their ranks."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, side="left")
    return np.asarray(0.5 * (below + np.searchsorted(ordered, values, side="right") + 1))
