"""The jackknife: how far a statistic carries, by what becomes of it if a unit is left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.metrics.delong import welch_freedom
from oodometer.stats.comparison import Difference
from oodometer.stats.unpaired import Stratum, stratified_difference

# Of the degrees of freedom of a ratio. Units tell less of how far a spread carries than of a mean:
# with all of them, 6% to 8% of simulated pages about 4 or 8 equal detectors tell some apart.
SHARE = 0.75
LARGEST_LOG = 700.0  # beyond, a ratio overflows


class Jackknife(NamedTuple):
    """Variance of a statistic with its degrees of freedom, and its bias."""

    variance: float
    freedom: float
    bias: float


def jackknife(
    left_out: Floats | Sequence[float], value: float, strata: NDArray[np.intp] | None = None
) -> Jackknife:
    """Variance and bias of a statistic from its values without each unit in turn.

    Variance: sum over strata of (n - 1) / n sum (x_j - mean x)^2; bias: sum over strata of
    (n - 1) (mean x - x). `strata`: how many units there are in each, one stratum after another.
    Efron & Stein 1981, doi:10.1214/aos/1176345462.
    """
    values = np.asarray(left_out, dtype=np.float64)
    ends = np.array([values.size]) if strata is None else np.cumsum(strata)
    terms, bias = [], 0.0
    for first, last in pairwise((0, *ends)):
        part, size = values[first:last], last - first
        middle = float(part.mean())
        terms.append(((size - 1) / size * float(((part - middle) ** 2).sum()), size - 1.0))
        bias += (size - 1) * (middle - value)
    freedom = welch_freedom(terms)
    if not math.isfinite(freedom):
        freedom = float(ends[-1] - len(ends))
    return Jackknife(sum(variance for variance, _ in terms), freedom, bias)


@dataclass(frozen=True, eq=False, kw_only=True)
class PositiveStatistic:
    """A statistic above 0, with its logarithm if one unit (a run, or a part) is left out."""

    value: float  # infinite where it is not defined
    units: tuple[tuple[str, ...], ...]  # names of what is left out, one stratum after another
    logs: Floats  # logarithm of the statistic without each unit
    strata: NDArray[np.intp]  # how many units there are in each stratum
    largest: float = math.inf  # the statistic cannot be larger
    deviations: Floats = field(default_factory=lambda: np.empty(0))  # of each unit, if it has any

    @property
    def varies(self) -> bool:
        """Whether leaving out units can show how far the statistic carries."""
        finite = self.logs.size > 0 and bool(np.isfinite(self.logs).all())
        return finite and 0.0 < self.value < math.inf

    def interval(self, level: float) -> Estimate | None:
        """Interval by the jackknife on the logarithm, with Student's quantile.

        The estimate of the bias moves its center: a variance divided by N is too small by 1 / N.
        """
        if not self.varies:
            return None
        variance, freedom, bias = jackknife(self.logs, math.log(self.value), self.strata)
        reach = float(stdtrit(freedom, 0.5 + 0.5 * level)) * math.sqrt(variance)
        return Estimate(
            self.value,
            min(self.value, self.value * math.exp(-bias - reach)),
            max(
                self.value,
                min(self.largest, self.value * math.exp(min(-bias + reach, LARGEST_LOG))),
            ),
        )


def ratio(one: PositiveStatistic, other: PositiveStatistic, level: float) -> Difference:
    """How many times the one statistic is the other, with interval and p-value.

    Paired where both leave out the same units, otherwise as independent. Where nothing varies, the
    interval is everything. Statistics of spread, with `deviations` of their units from the middle,
    must differ by these, too, in the same direction: units that are skewed, or of which one in ten
    fails, show too little of how far a spread carries.
    """
    if not (one.varies and other.varies):
        return Difference(1.0 if one.value == other.value else math.nan, 0.0, math.inf, 1.0)
    difference = math.log(one.value) - math.log(other.value)
    if one.units == other.units:
        variance, freedom, _ = jackknife(one.logs - other.logs, difference, one.strata)
        error = math.sqrt(variance)
    else:
        parts = [jackknife(s.logs, math.log(s.value), s.strata) for s in (one, other)]
        error = math.hypot(*(math.sqrt(part.variance) for part in parts))
        freedom = welch_freedom((part.variance, part.freedom) for part in parts)
    freedom *= SHARE
    if abs(difference) < 1e-9:
        p_value = 1.0
    else:
        # Without any error, only the signs of the units are known.
        p_value = 2.0 ** (1.0 - one.logs.size)
        if error > 1e-9:
            p_value = 2.0 * float(stdtr(freedom, -abs(difference) / error))
        by_deviations = _deviations_p_value(one, other, difference)
        if by_deviations > p_value:  # the interval is as wide as says the same
            p_value = by_deviations
            needed = float(stdtrit(freedom, 1.0 - 0.5 * p_value))
            error = abs(difference) / needed if needed > 0.0 else math.inf
    reach = float(stdtrit(freedom, 0.5 + 0.5 * level)) * error
    return Difference(
        math.exp(difference),
        math.exp(difference - reach),
        math.exp(min(difference + reach, LARGEST_LOG)),
        p_value,
        lambda other_level: ratio(one, other, other_level)[1:3],
    )


def _deviations_p_value(one: PositiveStatistic, other: PositiveStatistic, sign: float) -> float:
    """Whether units of the one deviate farther, or less far: Student's test within strata."""
    if not (one.deviations.size and other.deviations.size):
        return 0.0
    parts = [np.split(own.deviations, np.cumsum(own.strata)[:-1]) for own in (one, other)]
    if len(parts[0]) != len(parts[1]):
        return 1.0
    paired = one.units == other.units
    strata = [Stratum(a, b, paired) for a, b in zip(*parts, strict=True)]
    found = stratified_difference(strata)
    return found.p_value if found.value * sign > 0.0 else 1.0
