"""Contests between detectors, or between levels, for the smallest robustness score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import stdtr, stdtrit

from oodometer.metrics.delong import welch_freedom
from oodometer.protocols.contests import Contest, contests
from oodometer.protocols.robustness_field import Field, Pair, Runs
from oodometer.protocols.robustness_jackknife import Score, ratio
from oodometer.protocols.words import LEVEL
from oodometer.stats.comparison import Difference


def score_contests(places: Mapping[str, Mapping[str, Score]]) -> list[Contest]:
    """Contests by robustness score; who has none does not take part."""
    scores = {
        place: {name: score for name, score in named.items() if math.isfinite(score.value)}
        for place, named in places.items()
    }
    return contests(
        {p: {n: s.value for n, s in named.items()} for p, named in scores.items() if named},
        lambda place, other, first: ratio(scores[place][other], scores[place][first], LEVEL),
    )


def mean_contests(field: Field, pair: Pair) -> list[Contest]:
    """Contests by mean over runs, one under each level, between detectors with all runs there."""
    sign = -1.0 if field.results.higher_is_better else 1.0
    whole = [name for name in field.detectors if not field.lacking(pair, name)]
    places = {
        level: {name: sign * float(field.cells[pair, name, level].moments.mean) for name in whole}
        for level in field.levels_of(pair)
        if whole
    }
    return contests(
        places,
        lambda level, other, first: mean_difference(
            [(field.cells[pair, other, level], field.cells[pair, first, level])]
        ),
    )


def mean_difference(parts: Sequence[tuple[Runs, Runs]]) -> Difference:
    """Mean over parts of the difference of means over runs, with Student's interval.

    Paired where both have the same runs. Without at least two runs nothing can be told.
    """
    values, terms = [], []
    for one, other in parts:
        values.append(float(one.moments.mean - other.moments.mean))
        samples = (
            [one.values - other.values]
            if one.labels == other.labels
            else [one.values, other.values]
        )
        for sample in samples:
            if sample.size < 2:
                return Difference(float(np.mean(values)), -math.inf, math.inf, 1.0)
            variance = float(sample.var(ddof=1)) / sample.size / len(parts) ** 2
            terms.append((variance, sample.size - 1.0))
    value = float(np.mean(values))
    error = math.sqrt(sum(variance for variance, _ in terms))
    rounding = 1e-12 * max(abs(float(one.moments.mean)) for one, _ in parts)
    if error <= rounding:
        # Runs that agree to the last digit: no more is known than by the signs of n differences.
        cases = sum(freedom + 1.0 for _, freedom in terms)
        return Difference(
            value, value, value, 1.0 if abs(value) <= rounding else 2.0 ** (1 - cases)
        )
    freedom = welch_freedom(terms)
    reach = float(stdtrit(freedom, 0.5 + 0.5 * LEVEL)) * error
    p_value = 2.0 * float(stdtr(freedom, -abs(value) / error))
    return Difference(value, value - reach, value + reach, p_value)
