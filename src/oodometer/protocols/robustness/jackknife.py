"""How far a robustness score carries: what becomes of it if a run is left out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.metrics.delong import welch_freedom
from oodometer.protocols.robustness.score import Moments
from oodometer.stats.comparison import Difference


@dataclass(frozen=True, eq=False)
class Score:
    """A robustness score with what it becomes if one unit (a run, or a part) is left out."""

    moments: Moments  # of the mixture
    value: float  # infinite where the mean is not above 0
    heaviest: float  # the largest weight of a part, or of all whose runs agree
    units: tuple[tuple[str, ...], ...]  # names of what is left out, one stratum after another
    logs: Floats  # logarithm of the score without each unit
    strata: NDArray[np.intp]  # how many units there are in each stratum
    most: float = math.inf  # no score can be larger

    @property
    def moves(self) -> bool:
        """Whether leaving out can show how far the score carries."""
        finite = self.logs.size > 0 and bool(np.isfinite(self.logs).all())
        return finite and 0.0 < self.value < math.inf

    def interval(self, level: float) -> Estimate | None:
        """Interval by the jackknife on the logarithm, with Student's quantile.

        The estimate of the bias moves its centre: a variance divided by N is too small by 1 / N.
        """
        if not self.moves:
            return None
        error, freedom, bias = _jackknife(self.logs, self.strata, math.log(self.value))
        reach = float(stdtrit(freedom, 0.5 + 0.5 * level)) * error
        return Estimate(
            self.value,
            min(self.value, self.value * math.exp(-bias - reach)),
            max(self.value, min(self.most, self.value * math.exp(min(-bias + reach, 700.0)))),
        )


def ratio(one: Score, other: Score, level: float) -> Difference:
    """How many times the one score is the other, with interval and p value.

    Paired where both leave out the same runs, otherwise as independent. Where nothing varies, the
    interval is everything: nothing can be told.
    """
    if not (one.moves and other.moves):
        return Difference(1.0 if one.value == other.value else math.nan, 0.0, math.inf, 1.0)
    difference = math.log(one.value) - math.log(other.value)
    if one.units == other.units:
        error, freedom, _ = _jackknife(one.logs - other.logs, one.strata, difference)
    else:
        parts = [_jackknife(s.logs, s.strata, math.log(s.value)) for s in (one, other)]
        error = math.hypot(parts[0][0], parts[1][0])
        freedom = welch_freedom((part[0] ** 2, part[1]) for part in parts)
    if abs(difference) < 1e-9:
        p_value = 1.0
    else:
        # Without any error no more is known than by the signs of so many units.
        p_value = 2.0 ** (1.0 - one.logs.size)
        if error > 1e-9:
            p_value = 2.0 * float(stdtr(freedom, -abs(difference) / error))
    reach = float(stdtrit(freedom, 0.5 + 0.5 * level)) * error
    return Difference(
        math.exp(difference), math.exp(difference - reach), math.exp(difference + reach), p_value
    )


def _jackknife(
    left_out: Floats, strata: NDArray[np.intp], value: float
) -> tuple[float, float, float]:
    """Standard error, degrees of freedom and bias, by leaving out one unit of one stratum.

    Variance: sum over strata of (n - 1) / n sum (x_j - mean x)^2; bias: sum over strata of
    (n - 1) (mean x - x). Efron & Stein 1981, doi:10.1214/aos/1176345462.
    """
    ends = np.cumsum(strata)
    terms, bias = [], 0.0
    for first, last in pairwise((0, *ends)):
        part, size = left_out[first:last], last - first
        middle = float(part.mean())
        terms.append(((size - 1) / size * float(((part - middle) ** 2).sum()), size - 1.0))
        bias += (size - 1) * (middle - value)
    error = math.sqrt(sum(variance for variance, _ in terms))
    freedom = welch_freedom(terms)
    return error, freedom if math.isfinite(freedom) else float(ends[-1] - len(strata)), bias
