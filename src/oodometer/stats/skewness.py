"""What skewed values do to the interval of their mean."""

from __future__ import annotations

import math

import numpy as np

from oodometer.metrics.counts import Floats

FEWEST = 3  # two values are always symmetric


def skewness(values: Floats) -> float:
    """Mean cube of the deviations over the cube of their root mean square; 0 if all are equal."""
    deviations = values - values.mean()
    largest = float(np.abs(deviations).max())
    if values.size < FEWEST or largest <= 1e-12 * float(np.abs(values).max()):
        return 0.0
    deviations = deviations / largest
    return float((deviations**3).mean() / (deviations**2).mean() ** 1.5)


def skewed_quantiles(quantile: float, skew: float) -> tuple[float, float]:
    """Standard errors down and up to the ends of the interval of a mean with this skewness.

    Hall's cubic makes the studentised mean T symmetric: T + c T^2 / 3 + c^2 T^3 / 27 + c / 6, where
    c is the skewness of the mean, that of the values over sqrt(n) (Hall 1992, Journal of the Royal
    Statistical Society B 54:221-228). The ends are where it reaches `quantile`, and never nearer
    than without it: a skewness that few values show may be chance.
    """
    ends = [quantile, -quantile]
    if abs(skew) > 1e-9:
        ends = [3.0 / skew * (math.cbrt(1.0 + skew * (end - skew / 6.0)) - 1.0) for end in ends]
    return max(quantile, ends[0]), max(quantile, -ends[1])
