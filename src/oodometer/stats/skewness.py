"""What skewed values do to the interval of their mean."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from oodometer.metrics.counts import Floats
from oodometer.stats.sharing import FEWEST_ROWS, independent_rows

FEWEST = 3  # two values are always symmetric
FARTHEST = 2.5  # times Student's quantile


def skewness(values: Floats) -> float:
    """Mean cube of the deviations over the cube of their root mean square; 0 if all are equal."""
    deviations = values - values.mean()
    largest = float(np.abs(deviations).max())
    if values.size < FEWEST or largest <= 1e-12 * float(np.abs(values).max()):
        return 0.0
    deviations = deviations / largest
    return float((deviations**3).mean() / (deviations**2).mean() ** 1.5)


def common_skewness(values: Floats) -> tuple[float, float]:
    """Mean skewness of the rows of (k, n) runs, and the chance of so much if all are normal.

    Few runs of one row show next to nothing of a tail, those of many rows do. What moves all rows
    alike, the median of each run, is taken out, as it does no harm to differences. The variance of
    a normal row's skewness is 6 (n - 2) / ((n + 1) (n + 3)) (Fisher 1930); rows that move together
    count as few (`independent_rows`). Of three rows or fewer nothing is known.
    """
    rows, runs = values.shape
    if rows < FEWEST_ROWS or runs < FEWEST:
        return 0.0, 1.0
    own = values - np.median(values, axis=0)
    mean = float(np.mean([skewness(row) for row in own]))
    variance = 6.0 * (runs - 2.0) / ((runs + 1.0) * (runs + 3.0)) / float(independent_rows(values))
    return mean, 2.0 * float(ndtr(-abs(mean) / math.sqrt(variance)))


def skewness_of_mean(values: Floats) -> float:
    """Skewness of the mean of such values: that of the values over the root of their number."""
    return skewness(values) / math.sqrt(values.size)


def skewed_quantiles(quantile: float, skew: float) -> tuple[float, float]:
    """Standard errors down and up to the ends of the interval of a mean with this skewness.

    Hall's cubic makes the studentised mean T symmetric: T + c T^2 / 3 + c^2 T^3 / 27 + c / 6, where
    c is the skewness of the mean (Hall 1992, Journal of the Royal Statistical Society B
    54:221-228). The ends are where it reaches `quantile`; never nearer than without it, because a
    skewness that few values show may be chance, and never farther than 2.5 times that: where the
    cubic is flat, few values would reach out ten standard errors and more.

    Better is impossible: no interval of finite length covers the means of all skewed distributions
    (Bahadur & Savage 1956, Annals of Mathematical Statistics 27:1115-1122), and without a farthest
    end 3 and 5 exponential values are covered in 93%, normal ones already in 97%.

    What that costs and gives: how many of 100 95% intervals (`runs_interval`, bounds (0, 1)) cover
    the mean of 3, 5, 10 and 30 values, by simulation of 60,000 each.

    ============================  ======================  ======================
    values                        without a farthest end  2.5 times at most
    ============================  ======================  ======================
    normal, 0.9 +- 0.02           97.0  96.6  96.3  95.7  96.9  96.6  96.3  95.7
    Beta(95, 5)                   96.8  96.4  96.1  95.8  96.7  96.4  96.1  95.8
    Beta(19, 1)                   96.3  95.6  95.8  96.0  95.9  95.4  95.8  96.0
    logit-normal, 3 +- 0.6        96.2  95.2  94.9  95.7  96.0  95.1  94.9  95.7
    Phi(normal), 2 +- 0.5         95.0  93.4  93.8  95.5  94.5  93.1  93.7  95.5
    Beta(9, 1/2)                  94.6  93.8  95.1  96.2  94.3  93.1  94.7  96.2
    0.93 - gamma(4) / 100         96.0  95.4  95.5  95.7  95.8  95.4  95.5  95.7
    0.93 - exponential / 50       93.0  93.0  94.1  95.9  92.5  92.7  94.1  95.9
    mean width / t, normal        1.70  1.43  1.14  1.04  1.50  1.30  1.12  1.04
    mean width / t, Beta(19, 1)   1.76  1.68  1.57  1.22  1.59  1.44  1.38  1.19
    ============================  ======================  ======================
    """
    down, up = quantile, quantile
    if abs(skew) > 1e-9:
        ends = [
            3.0 / skew * (math.cbrt(1.0 + skew * (end - skew / 6.0)) - 1.0)
            for end in (quantile, -quantile)
        ]
        down, up = max(quantile, ends[0]), max(quantile, -ends[1])
    return min(down, FARTHEST * quantile), min(up, FARTHEST * quantile)
