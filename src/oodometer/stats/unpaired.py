"""Two methods that were measured in different runs, or of which only mean and spread are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from oodometer.metrics.counts import Floats
from oodometer.metrics.delong import check_level, welch_freedom
from oodometer.stats.comparison import Difference
from oodometer.stats.summary import Summary

ROUNDING = 1e-12  # of the larger mean: a spread below is none


def welch(a: Summary, b: Summary, level: float = 0.95) -> Difference:
    """Mean of a - b with Welch's t interval and two-sided p-value, for independent runs.

    t = (mean a - mean b) / sqrt(va + vb), v = spread^2 / runs, with Satterthwaite's degrees of
    freedom (va + vb)^2 / (va^2 / (na - 1) + vb^2 / (nb - 1)) (Welch 1947). Runs that a and b share
    are alike rather than opposed, and then p is too large rather than too small. If neither shows
    any spread, p is that of the permutation test, 2 / binomial(na + nb, na).

    >>> found = welch(Summary(0.93, 0.01, 5), Summary(0.91, 0.02, 4))
    >>> round(found.value, 3), round(found.p_value, 3)
    (0.02, 0.139)
    """
    check_level(level)
    first, second = a.check(), b.check()
    value = first.mean - second.mean
    total = first.variance + second.variance
    rounding = ROUNDING * max(abs(first.mean), abs(second.mean))
    if math.sqrt(total) <= rounding:
        same = abs(value) <= rounding
        p_value = 1.0 if same else 2.0 / math.comb(first.runs + second.runs, first.runs)
        return Difference(value, value, value, min(1.0, p_value))
    freedom = total**2 / (
        first.variance**2 / (first.runs - 1) + second.variance**2 / (second.runs - 1)
    )
    error = math.sqrt(total)
    reach = -float(stdtrit(freedom, 0.5 - 0.5 * level)) * error
    p_value = 2.0 * float(stdtr(freedom, -abs(value) / error))
    return Difference(
        value,
        value - reach,
        value + reach,
        min(1.0, p_value),
        lambda other: welch(a, b, other)[1:3],
    )


class Stratum(NamedTuple):
    """Runs of two methods under the same conditions; `paired`: they are the same runs."""

    a: Floats
    b: Floats
    paired: bool


def stratified_difference(strata: Sequence[Stratum], level: float = 0.95) -> Difference:
    """Mean over strata of the difference of means over runs, with Student's interval.

    The variance is the sum of the strata's over their number squared, that of a stratum of the
    paired differences, or of both samples if not `paired`; degrees of freedom by Satterthwaite. A
    sample with a single run leaves the interval unbounded.
    """
    values, terms = [], []
    for a, b, paired in strata:
        values.append(_mean(a) - _mean(b))
        for sample in [a - b] if paired else [a, b]:
            if sample.size < 2:
                return Difference(float(np.mean(values)), -math.inf, math.inf, 1.0)
            variance = float(sample.var(ddof=1)) / sample.size / len(strata) ** 2
            terms.append((variance, sample.size - 1.0))
    value = float(np.mean(values))
    error = math.sqrt(sum(variance for variance, _ in terms))
    rounding = ROUNDING * max(abs(_mean(stratum.a)) for stratum in strata)
    if error <= rounding:
        # Runs that agree to the last digit: no more is known than by the signs of n differences.
        cases = sum(freedom + 1.0 for _, freedom in terms)
        p_value = 1.0 if abs(value) <= rounding else 2.0 ** (1 - cases)
        return Difference(value, value, value, p_value)
    freedom = welch_freedom(terms)
    reach = float(stdtrit(freedom, 0.5 + 0.5 * level)) * error
    p_value = 2.0 * float(stdtr(freedom, -abs(value) / error))
    return Difference(
        value,
        value - reach,
        value + reach,
        p_value,
        lambda other: stratified_difference(strata, other)[1:3],
    )


def _mean(values: Floats) -> float:
    """The mean; of equal values it is that value, without rounding."""
    return float(values[0] if (values == values[0]).all() else values.mean())
