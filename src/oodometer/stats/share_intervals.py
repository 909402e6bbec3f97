"""Confidence intervals of shares of variance."""

from __future__ import annotations

import numpy as np
from scipy.special import chdtr, chndtrinc, ndtri

from oodometer.metrics.counts import Floats

QUICK = 1000.0  # of noncentral chi^2: beyond, its root is normal, and inverting it exactly is slow


def drawn_shares(
    raw: Floats,
    freedoms: Floats,
    added: float,
    residuals: Floats,
    cells: int,
    rng: np.random.Generator,
    number: int,
) -> Floats:
    """Shares (number, effects and noise) that the values leave possible.

    Drawn from the confidence distributions of the variances: that within cells is s^2 df / chi^2,
    and V / (`added` s^2) of an effect is noncentral chi^2, which is inverted. The share of an
    effect is that of its V in V + W + s^2, and of the noise s^2 / (s^2 + W), where W is the
    variance of all other effects taken as one: each alone is cut at 0, and a sum of many that are
    cut would be too large. So shares of one draw need not add up to 1.
    """
    freedom = float(residuals.size - cells)
    noise = float(residuals @ residuals) / freedom
    heavy = excess_kurtosis(residuals, residuals.size / cells)
    freedom /= 1.0 + 0.5 * heavy * freedom / residuals.size
    noises = noise * freedom / rng.chisquare(freedom, size=number)

    def variances(chosen: Floats) -> Floats:
        """Variance of the chosen effects together."""
        if not chosen.any():
            return np.zeros(number)
        observed = float(raw @ chosen) / (added * noises)
        return _centrality(observed, float(freedoms @ chosen), rng) * added * noises

    every = np.ones(raw.size)
    shares = np.empty((number, raw.size + 1))
    for place, alone in enumerate(np.eye(raw.size)):
        own, others = variances(alone), variances(every - alone)
        shares[:, place] = own / (own + others + noises)
    shares[:, -1] = noises / (noises + variances(every))
    return shares


def _centrality(observed: Floats, freedom: float, rng: np.random.Generator) -> Floats:
    """Noncentralities at which chi^2 falls below what is observed with a random chance."""
    chance = rng.random(observed.shape)
    found = (np.sqrt(observed) - ndtri(chance)) ** 2 - (freedom - 1.0)
    near = observed < QUICK
    exact = near & (chance < chdtr(freedom, observed))  # otherwise even 0 would be too large
    found[near] = 0.0
    found[exact] = chndtrinc(observed[exact], freedom, chance[exact])
    return np.maximum(found, 0.0)


def excess_kurtosis(residuals: Floats, size: float) -> float:
    """Excess kurtosis of the noise, more than 1/2: heavy tails make its variance less certain.

    Deviations from the mean of n values (`size`) have less of it than the values themselves, and
    few values show far less of it than many: hence 2.5 times what is seen and 0.6 more, as
    simulation asks for. Of 27 exponential values one half show less than a quarter of it.
    """
    kept = ((1.0 - 1.0 / size) ** 4 + (size - 1.0) / size**4) / (1.0 - 1.0 / size) ** 2
    excess = float((residuals**4).mean()) / float((residuals**2).mean()) ** 2 - 3.0
    unbiased = excess + (excess + 6.0) / residuals.size  # of normal values, it is 0 on average
    return 0.6 + max(0.0, 2.5 * unbiased / kept)
