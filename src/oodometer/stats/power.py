"""How many runs are needed to tell two methods apart?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import nctdtr, stdtrit

from oodometer.errors import UserError
from oodometer.metrics.counts import check_count
from oodometer.metrics.delong import check_level
from oodometer.stats.values import paired_values

MOST_RUNS = 1_000_000  # whoever needs more will never tell the two apart


class RunsNeeded(NamedTuple):
    """Runs that a paired comparison needs; None: no number of runs, or more than a million.

    `low` and `high` are what the uncertainty of the observed difference allows, at the same level
    of confidence: the difference that a few runs show may be far from the true one.
    """

    runs: int | None
    low: int | None
    high: int | None
    effect: float  # mean of a - b over the observed runs
    spread: float  # its standard deviation over runs


def t_test_power(
    runs: int,
    effect: float,
    *,
    level: float = 0.95,
    comparisons: int = 1,
    prior: float = 0.0,
) -> float:
    """Chance that a paired two-sided t test finds a standardized mean difference `effect`.

    1 - T(t) + T(-t), where T is the noncentral t distribution with n - 1 degrees of freedom and
    noncentrality effect sqrt(n), and t the quantile at (1 - level) / (2 comparisons) (Bonferroni).
    `effect` is the mean difference over its standard deviation over runs, which is taken to be
    normal. `prior`: degrees of freedom that other detectors add (`sharing`).

    >>> round(t_test_power(34, 0.5), 3)
    0.808
    """
    freedom = runs - 1.0 + prior
    quantile = -float(stdtrit(freedom, (1.0 - level) / (2.0 * comparisons)))
    centrality = abs(effect) * math.sqrt(runs)
    below = float(nctdtr(freedom, centrality, quantile))
    # Far out the distribution function fails, where nothing is left below the quantile.
    if math.isnan(below):
        return 1.0
    other = float(nctdtr(freedom, centrality, -quantile))
    return min(1.0, max(0.0, 1.0 - below) + (0.0 if math.isnan(other) else other))


def runs_needed(
    a: ArrayLike,
    b: ArrayLike,
    *,
    level: float = 0.95,
    power: float = 0.8,
    comparisons: int = 1,
    shared: tuple[float, float] | None = None,
) -> RunsNeeded:
    """Runs needed to tell a from b if the difference and its spread are as observed.

    The smallest n whose `t_test_power` reaches `power`. `low` and `high` come from the interval of
    the standardised difference by inversion of the noncentral t distribution: if that holds 0, no
    number of runs can be promised to suffice, and `high` is None. Runs are paired; two at least.
    Differences that are the same in every run give 2, the fewest that show a spread. All this is
    for a t test; permutation tests cannot reject below 1 + log2(comparisons / (1 - level)) runs.
    `shared`: standard deviation of the difference and degrees of freedom that other detectors add,
    where variances are shared (`sharing`).
    """
    check_level(level)
    check_count(comparisons, "comparisons")
    if not 1.0 - level < power < 1.0:
        raise UserError(
            f"power must lie between {1.0 - level:g}, what chance alone gives, and 1, got {power}."
        )
    first, second = paired_values(a, b)
    if first.size < 2:
        raise UserError("a and b have one run each: at least two are needed to see a spread.")
    differences = first - second
    effect = float(differences.mean())
    spread, prior = shared or (float(differences.std(ddof=1)), 0.0)
    rounding = 1e-12 * float(np.abs([first, second]).max())
    if abs(effect) <= rounding:
        effect = 0.0
    if spread <= rounding:
        runs = 2 if effect else None
        return RunsNeeded(runs, runs, runs, effect, 0.0)
    size = first.size
    smaller, larger = _standardised_interval(abs(effect) / spread, size, prior, level)

    def needed(standardised: float) -> int | None:
        return _smallest(
            lambda runs: (
                t_test_power(runs, standardised, level=level, comparisons=comparisons, prior=prior)
                >= power
            )
        )

    least = max(abs(smaller), abs(larger))
    return RunsNeeded(
        needed(abs(effect) / spread) if effect else None,
        needed(least),
        needed(smaller) if smaller > 0.0 else None,
        effect,
        spread,
    )


def _smallest(enough: Callable[[int], bool]) -> int | None:
    """The smallest number of runs, from 2 up, that is enough; more are enough too."""
    low, high = 1, 2
    while not enough(high):
        low, high = high, 2 * high
        if high > MOST_RUNS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _standardised_interval(
    standardised: float, size: int, prior: float, level: float
) -> tuple[float, float]:
    """Ends between which mean / standard deviation of the population lies (Hedges & Olkin 1985)."""
    observed = standardised * math.sqrt(size)
    tail = 0.5 - 0.5 * level
    ends = []
    for chance in (1.0 - tail, tail):
        low, high = -2.0 * observed - 40.0, 2.0 * observed + 40.0
        for _ in range(50):  # to the last digits
            middle = 0.5 * (low + high)
            # The larger the noncentrality, the less likely is a value below the observed.
            if float(nctdtr(size - 1.0 + prior, middle, observed)) > chance:
                low = middle
            else:
                high = middle
        ends.append(0.5 * (low + high) / math.sqrt(size))
    return ends[0], ends[1]
