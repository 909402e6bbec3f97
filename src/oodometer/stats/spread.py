"""Parts of the variance of a mean over runs, and how skewed runs widen its interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, stdtrit

from oodometer.metrics.counts import Floats
from oodometer.metrics.delong import welch_freedom
from oodometer.stats.skewness import FARTHEST, skewed_quantiles, skewness_of_mean

Widening = Callable[[float], float]  # of Student's quantile


def plain(quantile: float) -> float:
    """The widening of runs that are not skewed: none."""
    return quantile


def per_run(numbers: Floats, sizes: NDArray[np.intp]) -> Floats:
    """Sums over the samples of each run."""
    return np.add.reduceat(numbers, np.cumsum(sizes) - sizes)


class Part(NamedTuple):
    """DeLong variances due to one group of samples, and what they rest on."""

    single: float  # of the AUROC of one run, mean over runs
    mean: float  # of the mean AUROC over runs
    freedom: float


def sample_part(placed: Floats, sizes: NDArray[np.intp], shared: bool, bound: float) -> Part:
    """Variance of mean placements; `bound` stands in where a single sample cannot show any."""
    runs = sizes.size
    smallest = int(sizes.min())
    if smallest == 1:
        return Part(bound, bound if shared else bound / runs, 1.0)
    deviations = placed - np.repeat(per_run(placed, sizes) / sizes, sizes)
    variances = per_run(deviations * deviations, sizes) / (sizes - 1) / sizes
    single = float(variances.mean())
    if not shared:
        return Part(single, single / runs, float(sizes.sum() - runs))
    together = deviations.reshape(runs, -1).mean(axis=0)
    mean = float(together @ together) / (smallest - 1) / smallest
    return Part(single, mean, smallest - 1.0)


class Spread(NamedTuple):
    """Parts of the variance of a mean over runs, with their degrees of freedom.

    `between`, the variance of the values over runs divided by their number R, holds the effect of
    training and what training and samples do together. `covariance`, that of the values of two
    runs, holds the effect of the samples that all runs share. Their sum is the variance of the
    mean. `sampling` is the variance for these very runs: chance may make `between` so small that
    the sum falls below it, and then it stands in.
    """

    sampling: float
    sampling_freedom: float
    between: float = 0.0
    between_freedom: float = 1.0
    covariance: float = 0.0
    covariance_freedom: float = 1.0

    @staticmethod
    def of(values: Floats, parts: tuple[Part, Part]) -> Spread:
        """Take apart the variance of the mean of `values`, one per run."""
        runs = values.size
        sampling = parts[0].mean + parts[1].mean
        sampling_freedom = welch_freedom((part.mean, part.freedom) for part in parts)
        if runs == 1:
            return Spread(sampling, sampling_freedom)
        # The mean's variance is single / R + covariance (R - 1) / R, so without shared samples
        # the covariance is 0. Estimates may fall below 0.
        covariances = [(runs * part.mean - part.single) / (runs - 1) for part in parts]
        return Spread(
            sampling,
            sampling_freedom,
            float(values.var(ddof=1)) / runs,
            runs - 1.0,
            max(0.0, sum(covariances)),
            welch_freedom(
                (max(0.0, covariance), part.freedom)
                for covariance, part in zip(covariances, parts, strict=True)
            ),
        )

    def quantile(self, tail: float, widened: Widening = plain) -> float:
        """Half the width of an interval that leaves out `tail` at each side.

        The quantiles of both parts, weighted by their variances: Cochran & Cox 1950. With few
        runs Satterthwaite's degrees of freedom would be too many just when the runs happen to
        agree: its 95% intervals cover 87% to 96% with two runs and 92% to 96% with three.
        `widened` says what Student's quantile of the runs becomes if they are skewed.
        """
        reach = -float(stdtrit(self.sampling_freedom, tail)) * math.sqrt(self.sampling)
        variance = self.between + self.covariance
        if self.between > 0.0:
            mixed = self.between * widened(-float(stdtrit(self.between_freedom, tail)))
            if self.covariance > 0.0:
                mixed -= self.covariance * float(stdtrit(self.covariance_freedom, tail))
            reach = max(reach, mixed / math.sqrt(variance))
        return reach

    def p_value(self, value: float, widened: Widening = plain) -> float:
        """Twice the tail at which the interval around `value` just reaches 0."""
        # Logarithms of the tail. SciPy's quantiles of Student's t have no sign, and then no sense,
        # in tails below 1e-150; what is rarer than 1e-100 is 0 to every reader.
        low, high = math.log(1e-100), math.log(0.5)
        if self.quantile(math.exp(low), widened) <= abs(value):
            return 0.0
        for _ in range(50):
            middle = 0.5 * (low + high)
            if self.quantile(math.exp(middle), widened) > abs(value):
                low = middle
            else:
                high = middle
        return 2.0 * math.exp(high)


def widenings(a: Floats, b: Floats, fewest: int) -> tuple[Widening, Widening]:
    """How skewness widens the interval of mean(a - b) downwards and upwards, AUROCs of runs.

    Two reasons. Near 1 a run can lose more than it can gain: the interval is found on the logit
    scales of both, log(a / (1 - a)) moving by q s Cov(a - b, a) / (Var(a - b) a (1 - a)), and so
    does b, where s is the standard error and q Student's quantile; with b fixed it is the logit
    interval of a. And the differences themselves may be skewed: q is widened for it
    (`skewed_quantiles`). Both together widen 2.5 times at most, and never narrow. Beyond the 95%
    quantile the factor stays that of 95%: the cubic describes usual levels, and grows without sense
    in far tails, which many comparisons ask for. Two runs are always symmetric: they get sqrt(2)
    times Student's quantile. `fewest` samples, of ID or OOD, keep AUROCs half a sample away from 0
    and 1.
    """
    runs = a.size
    differences = a - b
    error = math.sqrt(float(differences.var(ddof=1)) / runs)
    if error == 0.0:
        return plain, plain
    skew = skewness_of_mean(differences)
    places = np.clip([a.mean(), b.mean()], 0.5 / fewest, 1.0 - 0.5 / fewest)
    centred = differences - differences.mean()
    # Logits that a and b move with one standard error of the difference.
    moved = np.array([centred @ a, centred @ b]) / (centred @ centred) * error
    moved /= places * (1.0 - places)

    usual = -float(stdtrit(runs - 1.0, 0.025)) * (math.sqrt(2.0) if runs == 2 else 1.0)

    def widened(side: int) -> Widening:
        bounded = _on_logits(places, side * moved, error)

        def of(quantile: float) -> float:
            if quantile <= 0.0:
                return 0.0
            quantile *= math.sqrt(2.0) if runs == 2 else 1.0
            near = min(quantile, usual)
            skewed = skewed_quantiles(near, skew)[0 if side < 0 else 1]
            widest = max(bounded(near), skewed, min(bounded(skewed), FARTHEST * near))
            return widest * (quantile / near)

        return of

    return widened(-1), widened(1)


def _on_logits(places: Floats, moved: Floats, error: float) -> Widening:
    """Standard errors by which two AUROCs part if their logits move by a multiple of `moved`.

    At least as many as the quantile. If both move the same way, they may part and meet again: what
    was reached once counts, so that a larger quantile never gives a narrower interval.
    """
    (a, b), (a_moved, b_moved) = places.tolist(), moved.tolist()
    a_logit, b_logit = logit(places).tolist()

    def parted(quantile: ArrayLike) -> Floats:
        steps = np.asarray(quantile)
        ends = expit(a_logit + steps * a_moved) - a - (expit(b_logit + steps * b_moved) - b)
        return np.asarray(np.abs(ends) / error)

    tried = np.geomspace(1e-3, 1e6, 500)
    falls = np.flatnonzero(np.diff(parted(tried)) < 0.0)
    turning = float(tried[max(0, falls[0] - 1)]) if falls.size else math.inf
    return lambda quantile: max(quantile, float(parted(min(quantile, turning))))
