"""Who is best at each level of a condition, on each outlier set, and is it the same one?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oodometer.protocols.common.comparisons import Comparison, compare_all, judge
from oodometer.protocols.common.differences import FEWEST_FOR_T
from oodometer.protocols.common.words import LEVEL, SIGNIFICANT
from oodometer.protocols.instability.spreads import Spread
from oodometer.stats.comparison import Difference
from oodometer.stats.paired import t_test


def winner_flips(parts: Sequence[Spread]) -> bool:
    """Whether on some outlier set one detector leads at one level, and another at another.

    Each lead is significant, by Student's paired test over the runs of a level, adjusted for all
    detectors, levels and outlier sets; or over its repeats in one context, adjusted for all pairs,
    levels, contexts and outlier sets. Where no detector is ahead at one level and behind at
    another, it is so in 0% to 5% of simulated tables.
    """
    if any(judge(comparisons) == "flips" for comparisons in level_comparisons(parts)):
        return True
    places = sum(len(part.places) for part in parts)
    for part in parts:
        best = [part.detectors.index(name) for name in part.changing_winners]
        flipped = part.significantly_flipped(SIGNIFICANT / (part.flips[1] * max(places, 1)))
        if flipped[np.ix_(best, best)].any():
            return True
    return False


def level_comparisons(parts: Sequence[Spread]) -> list[list[Comparison]]:
    """Comparisons at each level with repeats: a list for each outlier set.

    Where some level lacks runs under some context, a list for each context, too.
    """
    runs = {
        Place(number, context, part.level[here[0]]): (part, here)
        for number, part in enumerate(parts)
        for context, here in (_pooled(part) if _is_complete(part) else part.places)
    }
    values = {}
    for place, (part, here) in runs.items():
        sign = -1.0 if part.higher_is_better else 1.0
        means = sign * part.values[:, here].mean(axis=1)
        values[place] = dict(zip(part.detectors, means.tolist(), strict=True))

    def compare(place: Place, other: str, first: str) -> Difference:
        part, here = runs[place]
        one, two = (part.values[part.detectors.index(name), here] for name in (other, first))
        test = t_test(one, two, level=LEVEL)
        return Difference(test.value, test.low, test.high, test.p_value)

    by_context: dict[tuple[int, int], list[Comparison]] = {}
    found = compare_all(values, compare, lambda place: place.level)
    for place, comparison in zip(values, found, strict=True):
        by_context.setdefault((place.part, place.context), []).append(comparison)
    return list(by_context.values())


class Place(NamedTuple):
    """A level in one context on one outlier set."""

    part: int
    context: int
    level: str


def _is_complete(part: Spread) -> bool:
    """Whether every level was trained, and repeated, under every context alike."""
    runs = Counter(zip(part.contexts.tolist(), part.level, strict=True))
    whole = len(runs) == len(set(part.contexts.tolist())) * len(part.levels)
    return whole and len(set(runs.values())) == 1 and min(runs.values()) >= FEWEST_FOR_T


def _pooled(part: Spread) -> list[tuple[int, NDArray[np.intp]]]:
    """The runs of each level under all contexts."""
    return [(0, np.flatnonzero(np.array(part.level) == level)) for level in part.levels]
