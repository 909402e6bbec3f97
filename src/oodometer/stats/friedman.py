"""Many methods over many blocks: do they differ at all, and which do not differ significantly?"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import fdtrc

from oodometer.errors import UserError
from oodometer.metrics.counts import Floats, check_count
from oodometer.metrics.delong import check_level
from oodometer.stats.ranks import rank_matrix
from oodometer.stats.values import check_generator

# Ranks permuted in all: beyond, the approximation by F is as good and far quicker.
MOST_PERMUTED = 1 << 25
CHUNK = 1 << 20


class Friedman(NamedTuple):
    """Friedman's test: the chance of ranks at least as unequal if all methods were alike."""

    statistic: float  # chi-squared, corrected for ties
    p_value: float
    mean_ranks: Floats
    method: Literal["permutation", "F approximation", "all tied", "one block"]


class CriticalDifference(NamedTuple):
    """Groups of methods whose mean ranks do not differ significantly."""

    mean_ranks: Floats
    difference: float  # mean ranks that differ by less do not differ significantly
    p_value: float  # Friedman's: if it does not reject, all are one group
    groups: tuple[tuple[int, ...], ...]  # rows, best first; a method may be in several


def friedman(
    values: ArrayLike,
    *,
    rng: np.random.Generator,
    higher_is_better: bool = True,
    resamples: int = 9999,
) -> Friedman:
    """Friedman's rank test of k methods (rows) over n blocks (columns), ties allowed.

    chi^2 = (k - 1) sum over methods (R - n (k + 1) / 2)^2 / (sum of r^2 - n k (k + 1)^2 / 4), where
    r are the ranks within blocks and R their sums. Its p-value comes from permuting the ranks
    within blocks, since chi-squared and F are far off for few blocks: three methods in the same
    order in two blocks have p = 1/6, and F says 0. Large tables: Iman & Davenport 1980.
    """
    check_generator(rng)
    ranks = rank_matrix(values, higher_is_better=higher_is_better)
    methods, blocks = ranks.shape
    if methods < 2:
        raise UserError(f"values must hold at least two methods (rows), got {methods}.")
    check_count(resamples, "resamples")
    middle = ranks.mean(axis=1)
    spread = float((ranks**2).sum()) - blocks * methods * (methods + 1) ** 2 / 4.0
    if spread < 1e-9:
        return Friedman(0.0, 1.0, middle, "all tied")
    factor = (methods - 1) * blocks**2 / spread
    centred = ranks - (methods + 1) / 2.0
    statistic = factor * float((centred.mean(axis=1) ** 2).sum())
    if blocks == 1:
        return Friedman(statistic, 1.0, middle, "one block")
    if resamples * ranks.size > MOST_PERMUTED:
        return Friedman(statistic, _f_tail(statistic, methods, blocks), middle, "F approximation")
    hits = 0
    step = max(1, CHUNK // ranks.size)
    for start in range(0, resamples, step):
        number = min(step, resamples - start)
        again = rng.permuted(np.broadcast_to(centred.T, (number, *centred.T.shape)), axis=2)
        drawn = factor * (again.mean(axis=1) ** 2).sum(axis=1)
        hits += int((drawn >= statistic * (1.0 - 1e-9)).sum())
    return Friedman(statistic, (1.0 + hits) / (1.0 + resamples), middle, "permutation")


def _f_tail(statistic: float, methods: int, blocks: int) -> float:
    """P-value by Iman & Davenport's F."""
    room = blocks * (methods - 1) - statistic
    if room <= 0.0:
        # The same order in every block: as many ways as there are orders.
        return math.exp(-(blocks - 1) * math.lgamma(methods + 1))
    ratio = (blocks - 1) * statistic / room
    return float(fdtrc(methods - 1, (methods - 1) * (blocks - 1), ratio))


def critical_difference(
    values: ArrayLike,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    higher_is_better: bool = True,
    resamples: int = 9999,
) -> CriticalDifference:
    """Nemenyi's critical difference of mean ranks, and the groups it cannot tell apart.

    q sqrt(k (k + 1) / (6 n)), where q is the quantile of the studentised range of k normal values,
    divided by sqrt(2). Groups are the longest chains of methods, ordered by mean rank, whose ends
    are closer than that; if Friedman's test does not reject, all methods are one group. Nemenyi
    1963; Demšar 2006, jmlr.org/papers/v7/demsar06a.html.
    """
    from scipy.stats import studentized_range

    check_level(level)
    test = friedman(values, rng=rng, higher_is_better=higher_is_better, resamples=resamples)
    methods = test.mean_ranks.size
    blocks = np.asarray(values).shape[1]
    quantile = float(studentized_range.ppf(level, methods, np.inf)) / math.sqrt(2.0)
    difference = quantile * math.sqrt(methods * (methods + 1) / (6.0 * blocks))
    order = np.argsort(test.mean_ranks, kind="stable")
    reach = math.inf if test.p_value > 1.0 - level else difference
    groups = _chains(order, test.mean_ranks[order], reach)
    return CriticalDifference(test.mean_ranks, difference, test.p_value, groups)


def _chains(
    order: NDArray[np.intp], ordered: Floats, difference: float
) -> tuple[tuple[int, ...], ...]:
    """Longest runs of neighbours whose ends differ by less than `difference`."""
    ends = np.searchsorted(ordered, ordered + difference - 1e-9, side="left")
    chains = []
    reached = 0
    for start, end in enumerate(ends):
        if end > reached:  # otherwise the chain before holds this one
            chains.append(tuple(int(row) for row in order[start:end]))
            reached = int(end)
    return tuple(chains)
