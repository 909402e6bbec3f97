"""Standard deviations pooled over groups of runs, with intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaincinv, logit, stdtr, stdtrit

from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats

_MOST = 100.0  # logarithm of a factor that makes any interval as wide as it can be


def pooled_variance(values: Floats, groups: NDArray[np.int64], *, unbiased: bool = True) -> Floats:
    """Variance within groups of each row of values (rows, runs).

    Sum over groups of squared deviations from the group's mean, divided by runs - groups, or by
    the number of runs if not `unbiased`.
    """
    squares = np.zeros(len(values))
    freedom = 0
    for group in np.unique(groups):
        part = values[:, groups == group]
        own = ((part - part.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        squares += np.where(np.ptp(part, axis=1) > 0.0, own, 0.0)  # equal values, but for rounding
        freedom += part.shape[1] - unbiased
    return np.asarray(squares / max(freedom, 1))


def deviation_interval(
    values: Floats, groups: NDArray[np.int64], level: float, *, freedom: int | None = None
) -> Estimate | None:
    """Pooled standard deviation of one value per run, with its interval; None if unknown.

    With f = runs - groups degrees of freedom, s^2 f / sigma^2 is chi-squared for normal values.
    `freedom`: if fewer, because some runs re-evaluate the same training run. Shares near 1 are
    skewed: as logits z they are nearly normal, their deviation m (1 - m) s_z moves with the middle
    m, and its error |1 - 2 m| s_z / sqrt(n) widens the interval. In simulation of 3 to 20 runs 95%
    intervals cover 96% to 98% of normal values, 94% to 98% of AUROCs about 0.85 and 0.95, 90%
    to 95% about 0.98, and 83% to 93% of values with an exponential tail.
    """
    most = len(values) - len(np.unique(groups))
    freedom = most if freedom is None else min(freedom, most)
    if freedom < 1:
        return None
    value = float(np.sqrt(pooled_variance(values[None, :], groups)[0]))
    other, pull = value, 0.0
    if values.min() > 0.0 and values.max() < 1.0:
        logits = logit(values)
        middles = expit(np.array([logits[groups == group].mean() for group in groups]))
        lines = np.array([middles * (1.0 - middles) * logits, (1.0 - 2.0 * middles) * logits])
        other, error = np.sqrt(pooled_variance(lines, groups)).tolist()
        pull = float(stdtrit(freedom, 0.5 + 0.5 * level)) * error / (freedom + 1) ** 0.5
    shrink, grow = (
        0.5 * float(np.log(freedom / (2.0 * gammaincinv(0.5 * freedom, share))))
        for share in ((1 + level) / 2, (1 - level) / 2)
    )
    high = max(value, other) * float(np.exp(min(np.hypot(grow, pull), _MOST)))
    if values.min() >= 0.0 and values.max() <= 1.0:
        high = min(high, max(value, 0.5))  # shares deviate by no more
    return Estimate(value, min(value, other) * float(np.exp(-np.hypot(shrink, pull))), high)


def deviations_p_value(one: Floats, other: Floats, groups: NDArray[np.int64], cases: int) -> float:
    """Whether paired values deviate as far from the medians of their groups (Brown & Forsythe).

    Student's paired test of absolute deviations, of which `cases` are independent. Variances of few
    runs that are skewed, or of which some fail, look far more certain than they are; this test
    errs in at most 5% of such worlds with 3 to 10 runs, and with 3 it finds nothing.

    >>> rng, group = np.random.default_rng(0), np.zeros(10, dtype=np.int64)
    >>> bool(deviations_p_value(5.0 * rng.normal(size=10), rng.normal(size=10), group, 10) < 0.05)
    True
    """
    if cases < 2:
        return 1.0
    apart = deviations(one, groups) - deviations(other, groups)
    error = float(apart.std(ddof=1)) / cases**0.5
    value = abs(float(apart.mean()))
    return 2.0 * float(stdtr(cases - 1.0, -value / error)) if error > 0.0 else 1.0


def deviations(values: Floats, groups: NDArray[np.int64]) -> Floats:
    """Absolute deviations from the median of each value's group."""
    medians = {group: float(np.median(values[groups == group])) for group in np.unique(groups)}
    return np.asarray(np.abs(values - np.array([medians[group] for group in groups])))
