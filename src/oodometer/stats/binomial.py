"""Exact interval of a share of few cases."""

from __future__ import annotations

import numpy as np
from scipy.special import bdtr, bdtrc, betaincinv

from oodometer.errors import UserError
from oodometer.metrics.counts import Floats, check_count
from oodometer.metrics.delong import check_level

MOST_CASES = 100  # beyond, Clopper & Pearson's interval is hardly wider, and quick
STEPS = 200  # of the search, twice over


def share_interval(wins: int, cases: int, level: float) -> tuple[float, float]:
    """Blaker's interval of the probability of a win, given the wins in a number of cases.

    It holds the chances p for which outcomes as odd as the observed one are not rarer than 1 -
    level, where the oddness of x is min(P(X >= x), P(X <= x)). So it never covers less than its
    level, is never wider than Clopper & Pearson's, and leaves out 1/2 if and only if the exact
    two-sided sign test rejects. Blaker 2000, Canadian Journal of Statistics 28:783-798. 95%
    intervals cover 95% to 100%, on average over all chances 98.5% of 3 cases, 97.3% of 10 and
    96.3% of 30: few cases have few shares, and none of their intervals covers 95% everywhere.
    """
    check_level(level)
    check_count(cases, "cases")
    check_count(wins, "wins", 0)
    if wins > cases:
        raise UserError(f"wins must be at most the number of cases, {cases}, got {wins}.")
    if 2 * wins > cases:
        low, high = share_interval(cases - wins, cases, level)
        return 1.0 - high, 1.0 - low
    tail = 0.5 - 0.5 * level
    low = float(betaincinv(wins, cases - wins + 1, tail)) if wins else 0.0
    high = float(betaincinv(wins + 1, cases - wins, 1.0 - tail))
    if cases > MOST_CASES:
        return low, high
    share = wins / cases
    low = _first_accepted(low, share, wins, cases, 1.0 - level) if wins else 0.0
    return low, _first_accepted(high, share, wins, cases, 1.0 - level)


def _first_accepted(outside: float, share: float, wins: int, cases: int, odds: float) -> float:
    """Last chance, coming from outside, before outcomes as odd as this one are common enough."""
    for _ in range(2):
        chances = np.linspace(outside, share, STEPS + 1)
        accepted = _oddness(chances, wins, cases) >= odds * (1.0 - 1e-9)
        first = max(1, int(np.argmax(accepted)))
        if accepted[0]:
            return outside
        outside, share = float(chances[first - 1]), float(chances[first])
    return outside


def _oddness(chances: Floats, wins: int, cases: int) -> Floats:
    """Chance of an outcome at least as odd as `wins`, for each chance of a win."""
    counts = np.arange(cases + 1)[:, None]
    at_most = bdtr(counts, cases, chances)
    at_least = np.where(counts > 0, bdtrc(counts - 1, cases, chances), 1.0)
    odd = np.minimum(at_most, at_least)
    few = np.where((at_most <= odd[wins] * (1.0 + 1e-9)), at_most, 0.0).max(axis=0)
    many = np.where((at_least <= odd[wins] * (1.0 + 1e-9)), at_least, 0.0).max(axis=0)
    return np.asarray(np.minimum(1.0, few + many))
