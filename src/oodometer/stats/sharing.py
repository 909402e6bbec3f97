"""Variances of differences that detectors share: what a few runs show of one, all show of each.

The variance of each difference, on few degrees of freedom d, is drawn towards what is usual among
all pairs (empirical Bayes: Smyth 2004, doi:10.2202/1544-6115.1027). If true variances scatter as
s0 d0 / chi-squared(d0), then (d0 s0 + d v) / (d0 + d) has d0 + d degrees of freedom. Five cautions
make it sound with 3 runs; `docs/statistics.md` has level and power in simulated worlds.

- d0 is the harmonic mean over a grid, weighted by likelihood: few detectors cannot show that
  variances are alike, and what is uncertain counts as unlike.
- Detectors that move together (families, or one cause behind all differences) count as few.
- Pairs of a detector that varies more than others are drawn towards its own, larger variance, and
  borrow no degrees of freedom if it varies so much more that chance does not explain it.
- Pairs are taken as they are, not as sums of two variances, so that correlations do no harm.
- A detector that was declared in advance may vary unlike all others: intervals of its differences
  are as wide as its own variance allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtrc, gammaln

from oodometer.metrics.counts import Floats

PRIORS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0, 50.0, 1e4)  # d0 that are weighed
STEPS = 30
ROW_POWER = 0.85
CAUTION = 0.75  # from Satterthwaite's degrees of freedom to Cochran's
_TOGETHER = 20_000  # numbers of all priors that are fitted at once: more leave the cache
FEWEST_ROWS = 4  # of three, 5% to 6.5% would be told apart wrongly, and hardly more be found
LEAST = 1e-3  # of the usual variance: below, a variance says no more


class Shared(NamedTuple):
    """Variances of differences (..., k, k), their degrees of freedom, and those of the prior."""

    variance: Floats
    df: Floats
    prior: Floats  # (...): 0 where nothing is shared
    own: Floats  # (..., k, k): variances as given
    declared_df: Floats  # (..., k, k): `df` for 95% intervals of a row that is declared in advance


def pair_variances(values: Floats) -> Floats:
    """Variances over the columns of the differences of all pairs of rows, of (..., k, n)."""
    centred = values - values.mean(axis=-1, keepdims=True)
    rows = (centred[..., [row], :] for row in range(values.shape[-2]))
    found = [((centred - row) ** 2).sum(axis=-1) for row in rows]
    return np.asarray(np.stack(found, axis=-1) / (values.shape[-1] - 1))


def independent_rows(values: Floats) -> Floats:
    """As how many independent detectors those of (..., k, n) count, from 1 to k - 1.

    The residuals of each detector in n runs, run effects common to all removed, are a direction in
    n - 1 dimensions. Of m independent ones the mean of u u' has a squared length of
    1 / m + (1 - 1 / m) / (n - 1) on average, whatever their variances; directions that agree have
    more. Two runs have one direction only: it counts once.
    """
    rows, runs = values.shape[-2:]
    residuals = values - values.mean(axis=-1, keepdims=True)
    residuals = residuals - residuals.mean(axis=-2, keepdims=True)
    lengths = np.sqrt((residuals**2).sum(axis=-1, keepdims=True))
    units = np.divide(residuals, lengths, out=np.zeros_like(residuals), where=lengths > 0.0)
    moving = np.maximum(1.0, (lengths > 0.0).sum(axis=(-2, -1)))
    together = np.swapaxes(units, -1, -2) @ units / moving[..., None, None]
    excess = (runs - 1) * (together**2).sum(axis=(-2, -1)) - 1.0
    room = max(runs - 2, 0)
    return np.asarray(np.clip(room / np.maximum(excess, 1e-9), 1.0, max(1.0, rows - 1.0)))


def logit_scales(means: Floats, bounds: tuple[float, float]) -> tuple[Floats, ...]:
    """What variances of differences are proportional to if logits within `bounds` vary alike."""
    low, high = bounds
    width = high - low
    if not np.isfinite(width):
        return ()
    shares = np.clip((means - low) / width, 1e-4, 1.0 - 1e-4)
    slopes = (width * shares * (1.0 - shares)) ** 2
    return (slopes[..., :, None] + slopes[..., None, :],)


def shared_variances(
    variances: Floats, df: ArrayLike, rows: ArrayLike, scales: Sequence[Floats] = ()
) -> Shared:
    """Draw the variances of all differences (..., k, k), on `df` each, towards what is usual.

    `rows`: as how many independent detectors they count. `scales` (..., k, k) are proportional to
    variances on other scales on which they may be alike, such as logits; what is usual is the
    geometric mean over scales, weighted by likelihood.
    """
    count = variances.shape[-1]
    own = np.broadcast_to(np.asarray(df, dtype=np.float64), variances.shape)
    if count < FEWEST_ROWS:
        return Shared(variances, own, np.zeros(variances.shape[:-2]), variances, own)
    first, second = np.triu_indices(count, 1)
    known = np.asarray(rows, dtype=np.float64)
    every = [np.ones_like(variances), *scales]
    fits = [
        _fit(
            variances[..., first, second] / scale[..., first, second],
            own[..., first, second],
            np.log(scale[..., first, second]),
        )
        for scale in every
    ]
    # Pairs share detectors: all of them tell as much as `rows` independent ones.
    likelihoods = (
        np.stack([fit[0] for fit in fits], axis=-1) * ((known / first.size)[..., None, None])
    )
    weights = np.exp(likelihoods - likelihoods.max(axis=(-2, -1), keepdims=True))
    weights /= weights.sum(axis=(-2, -1), keepdims=True)  # (..., priors, scales)
    unlike = (weights / np.array(PRIORS)[:, None]).sum(axis=(-2, -1))
    others = np.maximum(known - 1.0, 1e-9) * own.mean(axis=(-2, -1))  # df of the usual variance
    prior = 1.0 / (unlike + 1.0 / others)
    by_scale = weights.sum(axis=-2)[..., None, None, :]  # (..., 1, 1, scales)
    scale = np.exp((by_scale * np.log(np.stack(every, axis=-1))).sum(axis=-1))
    logs = (weights * np.stack([fit[1] for fit in fits], axis=-1)).sum(axis=(-2, -1))
    middle = np.exp(logs)[..., None, None]
    usual = scale * middle * _larger_rows(variances / (scale * middle))
    lent = _lent(variances, own, prior)
    total = lent + own
    drawn = (lent * usual + own * variances) / total
    declared = np.minimum(total, _own_freedom(variances, own)[..., :, None])
    return Shared(np.asarray(drawn), np.asarray(total), np.asarray(prior), variances, declared)


def _row_variances(variances: Floats) -> Floats:
    """Variances u (..., k) of detectors: u_i = (sum_j v_ij - sum u) / (k - 2), as v = u_i + u_j."""
    count = variances.shape[-1]
    sums = variances.sum(axis=-1) - np.diagonal(variances, axis1=-2, axis2=-1)
    total = sums.sum(axis=-1, keepdims=True) / (2.0 * (count - 1))
    return np.asarray(np.maximum((sums - total) / (count - 2), LEAST * total / count + 1e-300))


def _lent(variances: Floats, df: Floats, prior: Floats) -> Floats:
    """Degrees of freedom (..., k, k) of the prior that each pair borrows.

    If a detector varies far more than the others, what is usual tells nothing of it, and its few
    runs next to nothing of how far it varies. So its pairs borrow by how likely a variance as large
    is by chance: an F test against the median, on its own and the prior's degrees of freedom,
    adjusted for all detectors (Bonferroni).
    """
    rows = _row_variances(variances)
    ratios = rows / np.median(rows, axis=-1, keepdims=True)
    own = np.diagonal(df, axis1=-2, axis2=-1)
    chance = np.minimum(1.0, rows.shape[-1] * fdtrc(own, prior[..., None], ratios))
    return np.asarray(
        prior[..., None, None] * np.minimum(chance[..., :, None], chance[..., None, :])
    )


def _own_freedom(variances: Floats, df: Floats) -> Floats:
    """Degrees of freedom (..., k) of each detector's pairs if it may vary unlike all others.

    Its few runs may make a detector that varies far more than others look as tame as they are. Its
    variance u, on its own d degrees of freedom, and the mean w of the others', on the sum e of
    theirs, make up that of a difference. Satterthwaite's (u + w)^2 / (u^2 / d + w^2 / e) are too
    many just when its runs happen to agree, Cochran's (u + w) / (u / d + w / e) too few: a
    geometric mean of both, nearer to the latter, is taken.
    """
    count = variances.shape[-1]
    rows = _row_variances(variances)
    others = (rows.sum(axis=-1, keepdims=True) - rows) / (count - 1)
    own = np.diagonal(df, axis1=-2, axis2=-1)
    rest = own.sum(axis=-1, keepdims=True) - own
    share = rows / (rows + others)
    quadratic = 1.0 / (share**2 / own + (1.0 - share) ** 2 / rest)
    linear = 1.0 / (share / own + (1.0 - share) / rest)
    return np.asarray(quadratic ** (1.0 - CAUTION) * linear**CAUTION)


def _larger_rows(ratios: Floats) -> Floats:
    """How much more the more varying one of each pair of detectors varies than usual, at least 1.

    Of a detector: the geometric mean over its pairs, relative to that over all pairs. As it rests
    on few runs, it counts a little less, by its power 0.85.
    """
    count = ratios.shape[-1]
    logs = np.log(np.maximum(ratios, LEAST)) * ~np.eye(count, dtype=bool)
    rows = logs.sum(axis=-1) / (count - 1)
    excess = (rows - rows.mean(axis=-1, keepdims=True)) * (count - 1) / (count - 2)
    more = np.exp(ROW_POWER * np.maximum(excess, 0.0))
    return np.asarray(np.maximum(more[..., :, None], more[..., None, :]))


def _fit(variances: Floats, df: Floats, log_scales: Floats) -> tuple[Floats, Floats]:
    """Log likelihood and log of the best s0 for each d0 of `PRIORS`, the last axis.

    v / s0 is F-distributed with df and d0 degrees of freedom. The best s0 is the mean of v weighted
    by 1 / (d0 s0 + df v). What does not depend on d0 and the scale is left out.
    """
    parts = min(len(PRIORS), 1 + len(PRIORS) * variances.size // _TOGETHER)
    found = [_fit_of(priors, variances, df, log_scales) for priors in np.array_split(PRIORS, parts)]
    likelihoods, usual = zip(*found, strict=True)
    return np.concatenate(likelihoods, axis=-1), np.concatenate(usual, axis=-1)


def _fit_of(
    priors: Floats, variances: Floats, df: Floats, log_scales: Floats
) -> tuple[Floats, Floats]:
    """The fit of these d0, all at once: one after the other, most time goes into small calls."""
    least = (1e-30 * variances.max(axis=-1) + 1e-300)[..., None]
    values, freedom = variances[..., None, :], df[..., None, :]  # (..., priors, pairs)
    weighted = np.ascontiguousarray(freedom * values)  # sums depend on the order in memory
    middle = np.maximum(variances.mean(axis=-1)[..., None], least) + np.zeros(priors.size)
    for _ in range(STEPS):
        weights = 1.0 / ((priors * middle)[..., None] + weighted)
        middle = (weights * values).sum(axis=-1) / weights.sum(axis=-1)
        middle = np.maximum(middle, least)
    usual, prior = np.log(middle), priors[:, None]
    terms = gammaln(0.5 * (prior + freedom)) - gammaln(0.5 * prior) - 0.5 * freedom * np.log(prior)
    terms = terms - 0.5 * freedom * (usual[..., None] + log_scales[..., None, :])
    ratios = weighted / (priors * middle)[..., None]
    return (terms - 0.5 * (prior + freedom) * np.log1p(ratios)).sum(axis=-1), usual
