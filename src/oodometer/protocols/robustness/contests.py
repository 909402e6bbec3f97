"""Contests between detectors, or between levels, for the smallest robustness score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from oodometer.protocols.common.cells import Pair
from oodometer.protocols.common.comparisons import Comparison, compare_all
from oodometer.protocols.common.words import LEVEL
from oodometer.protocols.robustness.field import Field, Runs, Score
from oodometer.stats.comparison import Difference
from oodometer.stats.jackknife import ratio
from oodometer.stats.unpaired import Stratum, stratified_difference


def score_contests(places: Mapping[str, Mapping[str, Score]]) -> list[Comparison]:
    """Contests by robustness score; who has none does not take part."""
    scores = {
        place: {name: score for name, score in named.items() if math.isfinite(score.value)}
        for place, named in places.items()
    }
    return compare_all(
        {p: {n: s.value for n, s in named.items()} for p, named in scores.items() if named},
        lambda place, other, first: ratio(scores[place][other], scores[place][first], LEVEL),
    )


def metric_contests(fields: Mapping[str, Field]) -> dict[Pair, list[Comparison]]:
    """Contests by robustness score on each pair, one by each metric, which is their place."""
    keys: dict[str, tuple[Pair, str]] = {}
    places: dict[str, dict[str, Score]] = {}
    for label, field in fields.items():
        for (pair, detector), score in field.detector_scores.items():
            place = f"{field.pairs.index(pair)} {label}"
            keys[place] = pair, label
            places.setdefault(place, {})[detector] = score
    held: dict[Pair, list[Comparison]] = {}
    for contest in score_contests(places):
        pair, label = keys[contest.context]
        held.setdefault(pair, []).append(replace(contest, context=label))
    return held


def mean_contests(field: Field) -> dict[Pair, list[Comparison]]:
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
    held: dict[Pair, list[Comparison]] = {}
    for contest in compare_all(values, compare):
        pair, level = keys[contest.context]
        held.setdefault(pair, []).append(replace(contest, context=level))
    return held


def mean_difference(parts: Sequence[tuple[Runs, Runs]]) -> Difference:
    """Mean over parts of the difference of means over runs; paired where the runs are the same."""
    strata = [Stratum(one.values, other.values, one.labels == other.labels) for one, other in parts]
    return stratified_difference(strata, LEVEL)
