"""Contests between detectors, or between levels, for the smallest robustness score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import stdtr, stdtrit

from oodometer.metrics.delong import welch_freedom
from oodometer.protocols.common.contests import Contest, contests
from oodometer.protocols.common.words import LEVEL
from oodometer.protocols.robustness.field import Field, Pair, Runs
from oodometer.protocols.robustness.jackknife import Score, ratio
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


def metric_contests(fields: Mapping[str, Field]) -> dict[Pair, list[Contest]]:
    """Contests by robustness score on each pair, one by each metric, which is their place."""
    keys: dict[str, tuple[Pair, str]] = {}
    places: dict[str, dict[str, Score]] = {}
    for label, field in fields.items():
        for (pair, detector), score in field.detector_scores.items():
            place = f"{field.pairs.index(pair)} {label}"
            keys[place] = pair, label
            places.setdefault(place, {})[detector] = score
    held: dict[Pair, list[Contest]] = {}
    for contest in score_contests(places):
        pair, label = keys[contest.place]
        held.setdefault(pair, []).append(replace(contest, place=label))
    return held


def mean_contests(field: Field) -> dict[Pair, list[Contest]]:
    """Contests by mean over runs, one under each level, between detectors with all runs there."""
    sign = -1.0 if field.results.higher_is_better else 1.0
    whole = {pair: field.whole(pair) for pair in field.pairs}
    keys = {
        f"{number} {level}": (pair, level)
        for number, pair in enumerate(field.pairs)
        for level in field.levels_of(pair)
        if len(whole[pair]) > 1
    }

    def compare(place: str, other: str, first: str) -> Difference:
        pair, level = keys[place]
        return mean_difference([(field.cells[pair, other, level], field.cells[pair, first, level])])

    values = {
        place: {n: sign * float(field.cells[pair, n, level].moments.mean) for n in whole[pair]}
        for place, (pair, level) in keys.items()
    }
    held: dict[Pair, list[Contest]] = {}
    for contest in contests(values, compare):
        pair, level = keys[contest.place]
        held.setdefault(pair, []).append(replace(contest, place=level))
    return held


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
