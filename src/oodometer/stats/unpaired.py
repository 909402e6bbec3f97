"""Two methods that were measured in different runs, or of which only mean and spread are known."""

from __future__ import annotations

import math

from scipy.special import stdtr, stdtrit

from oodometer.metrics.delong import check_level
from oodometer.stats.comparison import Difference
from oodometer.stats.summary import Summary

ROUNDING = 1e-12  # of the larger mean: a spread below is none


def welch(a: Summary, b: Summary, level: float = 0.95) -> Difference:
    """Mean of a - b with Welch's t interval and two-sided p value, for independent runs.

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
    return Difference(value, value - reach, value + reach, min(1.0, p_value))
