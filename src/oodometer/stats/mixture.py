"""Moments over runs, their mixture over conditions, and the robustness score of the mixture.

Abdelzad, Czarnecki and Salay 2020, "The Effect of Optimization Methods on the Robustness of
Out-of-Distribution Detection Approaches", equations 2 to 8. All in percent, as in the paper.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from oodometer.errors import UserError, unknown
from oodometer.metrics.counts import Floats

Epsilon = Literal["printed", "published"]
EPSILONS: tuple[Epsilon, ...] = ("printed", "published")


class Moments(NamedTuple):
    """Mean and variance of a metric; arrays of them if there are several."""

    mean: Floats
    variance: Floats


def run_moments(values: ArrayLike) -> Moments:
    """Mean and variance over runs, the last axis: equations 2 and 3, divided by N and not N - 1.

    >>> run_moments([10.24, 7.47, 16.5, 7.57, 15.32])  # Table 2, FPR: 11.42 | 14.567
    Moments(mean=array(11.42), variance=array(14.56676))
    """
    runs = np.asarray(values, dtype=np.float64)
    if not runs.ndim or not runs.shape[-1]:
        raise UserError("values is empty: at least one run is needed.")
    # Equal values have no variance, not the square of a rounding error: weights depend on it.
    equal = (runs == runs[..., :1]).all(axis=-1)
    mean = np.where(equal, runs[..., 0], runs.mean(axis=-1))
    return Moments(mean, np.where(equal, 0.0, runs.var(axis=-1)))


def weights(variances: ArrayLike, epsilon: Epsilon = "printed") -> Floats:
    """Weight of each part of a mixture, by its confidence 1 / sqrt(variance): equations 4 and 5.

    ``printed``: c = 1 / sqrt(Var + 1e-6), w = c / sum c. ``published``: c = 1 / (sqrt(Var) + 1e-3),
    w = c / (sum c + 1e-3), which is what the tables of the paper were computed with; its weights
    add up to a little less than one.
    """
    confidence, rest = _confidences(np.asarray(variances, dtype=np.float64), epsilon)
    return np.asarray(confidence / (confidence.sum(axis=-1, keepdims=True) + rest))


def heaviest(variances: Floats, epsilon: Epsilon = "printed") -> float:
    """The largest weight of a part, or of all parts whose runs agree if others do not."""
    shares = weights(variances, epsilon)
    agreeing = variances <= 1e-6  # epsilon: below it, the confidence is epsilon's and not the runs'
    together = float(shares[agreeing].sum()) if not agreeing.all() else 0.0
    return max(float(shares.max()), together)


def _confidences(variances: Floats, epsilon: Epsilon) -> tuple[Floats, float]:
    """Confidences, and what is added to their sum."""
    if epsilon == "printed":
        return 1.0 / np.sqrt(variances + 1e-6), 0.0
    if epsilon == "published":
        return 1.0 / (np.sqrt(variances) + 1e-3), 1e-3
    raise unknown("form of epsilon", epsilon, EPSILONS)


def mixture(means: ArrayLike, variances: ArrayLike, epsilon: Epsilon = "printed") -> Moments:
    """Moments of the mixture of parts, the last axis: equations 6 and 7.

    mean = sum w mean_t, variance = sum w (variance_t + (mean - mean_t)^2).
    """
    parts = np.asarray(means, dtype=np.float64)
    spread = np.asarray(variances, dtype=np.float64)
    share = weights(spread, epsilon)
    mean = (share * parts).sum(axis=-1)
    apart = mean[..., None] - parts
    apart[np.abs(apart) <= 1e-13 * np.abs(parts)] = 0.0  # equal means differ by rounding only
    return Moments(mean, (share * (spread + apart**2)).sum(axis=-1))


def mixtures_without_each(means: Floats, variances: Floats, epsilon: Epsilon) -> Moments:
    """Moments of the mixture without each part in turn: from sums less that part, in linear time.

    Where little of a sum is left, its rounding would count: there the other parts are summed.
    """
    confidence, rest = _confidences(variances, epsilon)
    centre = (confidence * means).sum() / confidence.sum()
    apart = means - centre

    def without(terms: Floats) -> Floats:
        return np.asarray(terms.sum() - terms)

    left = without(confidence)
    first, second = without(confidence * apart), without(confidence * (variances + apart**2))
    shift = (first - rest * centre) / (left + rest)  # of the mean, from the centre
    variance = (second - 2 * shift * first + shift**2 * left) / (left + rest)
    spoilt = variance * (left + rest) <= 1e-6 * (confidence * (variances + apart**2)).sum()
    spoilt |= (left <= 1e-6 * confidence.sum()) | (variance <= 1e-12 * centre**2)
    mean = centre + shift
    for part in np.nonzero(spoilt)[0]:
        others = np.arange(len(means)) != part
        mean[part], variance[part] = mixture(means[others], variances[others], epsilon)
    return Moments(mean, variance)


def robustness_score(moments: Moments, *, higher_is_better: bool) -> Floats:
    """Coefficient of variation, smaller is more robust: equation 8; infinite where it has no sense.

    sqrt(variance) / mean; mean * sqrt(variance) if lower values of the metric are better. A ratio
    to a mean that is not above 0 says nothing.
    """
    mean, spread = np.asarray(moments.mean), np.sqrt(np.asarray(moments.variance))
    if not higher_is_better:
        return np.asarray(np.where(mean >= 0.0, mean * spread, np.inf))
    return np.asarray(np.divide(spread, mean, out=np.full(mean.shape, np.inf), where=mean > 0.0))
