"""What is known of the runs of one method, and the interval of their mean."""

from __future__ import annotations

import math
from typing import NamedTuple

from numpy.typing import ArrayLike
from scipy.special import stdtrit

from oodometer.errors import UserError
from oodometer.metrics import Estimate
from oodometer.metrics.delong import area_interval, check_level
from oodometer.stats.skewness import skewed_quantiles, skewness_of_mean
from oodometer.stats.values import run_values

UNBOUNDED = (-math.inf, math.inf)


class Summary(NamedTuple):
    """What is known of the runs of one method: their mean, standard deviation and number."""

    mean: float
    spread: float  # divided by runs - 1, as a sample's is
    runs: int
    skewness: float = 0.0  # of the mean; 0 where single values are not known

    @staticmethod
    def of(values: ArrayLike) -> Summary:
        """Summarise one value per run."""
        given = run_values(values, "values")
        spread = float(given.std(ddof=1)) if given.size > 1 else 0.0
        return Summary(float(given.mean()), spread, int(given.size), skewness_of_mean(given))

    def check(self) -> Summary:
        """Return this summary, or raise a `UserError` if it shows no spread."""
        if not (math.isfinite(self.mean) and math.isfinite(self.spread) and self.spread >= 0.0):
            raise UserError(
                f"mean and spread must be finite, spread not negative: {self.mean}, {self.spread}."
            )
        if self.runs < 2:
            raise UserError(f"runs must be at least 2, got {self.runs}: one run shows no spread.")
        return self

    @property
    def variance(self) -> float:
        """Variance of the mean."""
        return self.spread**2 / self.runs


def mean_interval(
    summary: Summary, level: float = 0.95, bounds: tuple[float, float] = UNBOUNDED
) -> Estimate:
    """Student's interval of a mean, widened for skewness, and on the logit scale within `bounds`.

    Between finite bounds it is never narrower than on either scale, and never leaves them.
    """
    check_level(level)
    summary.check()
    error = math.sqrt(summary.variance)
    quantile = -float(stdtrit(summary.runs - 1, 0.5 - 0.5 * level))
    down, up = skewed_quantiles(quantile, summary.skewness)
    low, high = summary.mean - down * error, summary.mean + up * error
    lowest, highest = bounds
    width = highest - lowest
    if width < math.inf:
        scaled = area_interval((summary.mean - lowest) / width, quantile * error / width, 0.0)
        low = min(low, lowest + width * scaled.low)
        high = max(high, lowest + width * scaled.high)
    return Estimate(summary.mean, max(lowest, low), min(highest, high))
