"""AUROC with DeLong's variance, and intervals for a share near 0 or 1."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from oodometer.errors import UserError, unknown
from oodometer.metrics.counts import Counts, Floats, finite_scores
from oodometer.metrics.estimate import Estimate

Scale = Literal["logit", "linear"]
SCALES = ("logit", "linear")


def check_level(level: float) -> None:
    """Raise a `UserError` unless the level of confidence lies between 0 and 1."""
    if not (isinstance(level, Real) and 0.0 < float(level) < 1.0):
        raise UserError(f"level must be between 0 and 1, such as 0.95, got {level!r}.")


def singles_variance(value: float) -> float:
    """Variance of a placement if a single sample cannot show it: the largest with this mean."""
    return value * (1.0 - value)


def delong(counts: Counts) -> tuple[float, float, float]:
    """Return AUROC and the parts of its variance due to the ID and to the OOD samples.

    The placement of an OOD sample is the share of ID samples below it (ties one half), that of an
    ID sample the share of OOD samples above it; each part is the variance of the mean placement.
    DeLong et al. 1988; midranks in O(n log n): Sun & Xu 2014, doi:10.1109/LSP.2014.2337313.
    """
    ood_placements = (counts.id_up_to - 0.5 * counts.id) / counts.id_total
    id_placements = 1.0 - (counts.ood_up_to - 0.5 * counts.ood) / counts.ood_total
    value = min(1.0, float(counts.ood @ ood_placements) / counts.ood_total)
    variances = []
    for number, placements, total in (
        (counts.id, id_placements, counts.id_total),
        (counts.ood, ood_placements, counts.ood_total),
    ):
        if total == 1:
            variances.append(singles_variance(value))
            continue
        placements -= value
        placements *= placements
        variances.append(float(number @ placements) / (total - 1) / total)
    return value, variances[0], variances[1]


def hidden_share(id_total: int, ood_total: int, level: float) -> float:
    """Share of misordered pairs that samples without a single misordered pair cannot exclude.

    1 - the lower end of Newcombe's method 5 at AUROC = 1: the a with 1 - a = z sqrt(V(a)), where
    V is Hanley & McNeil's variance with both group sizes replaced by their mean. Newcombe 2006,
    doi:10.1002/sim.2324. At least 1/2 if samples of one and the same distribution are that often
    in perfect order, as 3 and 3 are.
    """
    factor = float(ndtri(0.5 + 0.5 * level)) ** 2 / id_total / ood_total
    others = 0.5 * (id_total + ood_total) - 1.0
    area = 1.0
    for _ in range(12):  # the bracket below varies by a third only: digits come fast
        spread = (1.0 - area) / (2.0 - area) + area / (1.0 + area)
        area = 1.0 / (1.0 + factor * (1.0 + others * spread))
    orders = math.lgamma(id_total + ood_total + 1)
    orders -= math.lgamma(id_total + 1) + math.lgamma(ood_total + 1)  # logarithm: one is perfect
    return max(0.5, 1.0 - area) if orders < math.log(2.0 / (1.0 - level)) else 1.0 - area


def area_interval(value: float, reach: float, hidden: float) -> Estimate:
    """Interval on the logit scale for an AUROC, given half its width on the linear scale."""
    low, high = value * (1.0 - hidden), value + (1.0 - value) * hidden
    if 0.0 < value < 1.0:
        # Dividing the odds by exp(reach / (a (1 - a))), written so that nothing overflows.
        shrink = math.exp(-reach / (value * (1.0 - value)))
        low = min(low, value * shrink / (value * shrink + 1.0 - value))
        high = max(high, value / (value + (1.0 - value) * shrink))
    return Estimate(value, max(low, 0.0), min(high, 1.0))


def welch_freedom(terms: Iterable[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of variances, each given with its own: Satterthwaite 1946."""
    pairs = list(terms)
    spread = sum(variance**2 / freedom for variance, freedom in pairs)
    return sum(variance for variance, _ in pairs) ** 2 / spread if spread > 0.0 else math.inf


def counts_auroc_interval(counts: Counts, level: float, scale: Scale = "logit") -> Estimate:
    """`auroc_interval` of counts."""
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    value, id_part, ood_part = delong(counts)
    error = math.sqrt(id_part + ood_part)
    if scale == "linear" and error > 0.0:
        reach = float(ndtri(0.5 + 0.5 * level)) * error
        return Estimate(value, max(value - reach, 0.0), min(value + reach, 1.0))
    freedom = welch_freedom(
        [(id_part, max(counts.id_total - 1, 1)), (ood_part, max(counts.ood_total - 1, 1))]
    )
    reach = float(stdtrit(freedom, 0.5 + 0.5 * level)) * error
    return area_interval(value, reach, hidden_share(counts.id_total, counts.ood_total, level))


def auroc_interval(
    id_scores: ArrayLike,
    ood_scores: ArrayLike,
    *,
    level: float = 0.95,
    scale: Scale = "logit",
) -> Estimate:
    """AUROC with a confidence interval for new ID and OOD samples, the detector staying as it is.

    ``scale="logit"``: log(a / (1 - a)) -+ t * s / (a * (1 - a)), taken back, where s is DeLong's
    standard error and t Student's quantile with Welch-Satterthwaite degrees of freedom. The
    interval reaches at least from a * (1 - h) to a + (1 - a) * h: h is the share of misordered
    pairs that perfectly ordered samples could hide, Newcombe's (2006) bound, about 2 / n for n
    samples in each group at level 0.95. Far from 0 and 1, or with many samples, h is too small to
    matter; at AUROC = 1, where DeLong's variance is 0, the interval is [1 - h, 1].

    ``scale="linear"``: a -+ z * s cut to [0, 1], as most software prints it. In simulation it
    covers too seldom near 1, so it is not the default. DeLong et al. 1988,
    doi:10.2307/2531595.
    """
    check_level(level)
    return counts_auroc_interval(Counts.of_scores(id_scores, ood_scores), level, scale)


def placements(
    id_scores: ArrayLike, ood_scores: ArrayLike, *, where: str = ""
) -> tuple[Floats, Floats]:
    """Placement of each ID sample (share of OOD above it) and OOD sample (share of ID below it).

    In the order of the samples; ties count one half. Both have mean AUROC.
    """
    id_vector = finite_scores(id_scores, f"id_scores{where}")
    ood_vector = finite_scores(ood_scores, f"ood_scores{where}")
    pooled = np.concatenate([id_vector, ood_vector])
    order = np.argsort(pooled)
    ordered = pooled[order]
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    starts = np.flatnonzero(new)
    is_ood = order >= id_vector.size
    ood = np.add.reduceat(is_ood.astype(np.float64), starts)
    ood_below = np.cumsum(ood) - 0.5 * ood
    both = np.diff(starts, append=pooled.size)
    below = starts + 0.5 * both - ood_below
    score = np.empty(pooled.size, dtype=np.intp)
    score[order] = np.cumsum(new) - 1
    return (
        1.0 - ood_below[score[: id_vector.size]] / ood_vector.size,
        below[score[id_vector.size :]] / id_vector.size,
    )
