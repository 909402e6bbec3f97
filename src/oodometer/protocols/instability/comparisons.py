"""Who is best at each level of a condition, on each outlier set, and is it the same one?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oodometer.protocols.common.comparisons import Comparison, compare_all, judge
from oodometer.protocols.common.differences import FEWEST_FOR_T
from oodometer.protocols.common.words import LEVEL, SIGNIFICANT
from oodometer.protocols.instability.spreads import Spread
from oodometer.stats.comparison import Difference
from oodometer.stats.leaderboard import Leaderboard, leaderboard
from oodometer.stats.pairwise import Pairwise, difference
from oodometer.stats.unpaired import Stratum, stratified_difference


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


def is_decided(part: Spread, best: str, ours: str, *, any_two: bool) -> bool:
    """Whether one detector is significantly ahead of all others on a set, or any of any other.

    Over all training runs; where none is the `best` in all of them, in each context. The pairs of
    `ours` are judged as declared in advance.
    """
    places = [np.flatnonzero(part.contexts == own) for own in np.unique(part.contexts)]
    boards = [_board(part, own, ours) for own in ([np.arange(part.runs)] if best else places)]
    if any_two:  # everybody is a group of its own
        return all(board is not None and len(board.groups) == len(board.order) for board in boards)
    return all(board is not None and board.is_decided for board in boards)


def _board(part: Spread, runs: NDArray[np.intp], ours: str) -> Leaderboard | None:
    if len(np.unique(part.trained[runs])) < FEWEST_FOR_T:
        return None
    declared = part.detectors.index(ours) if ours in part.detectors else None
    return leaderboard(part.compared(runs), level=LEVEL, declared=declared)


def level_comparisons(parts: Sequence[Spread]) -> list[list[Comparison]]:
    """Comparisons at each level with repeats: a list for each outlier set.

    Runs are blocked by the other conditions, and re-evaluations of a training run averaged; where
    there are none to block by, few runs decide with the variance that detectors share. Runs that
    share a split decide as their splits do. Where some level lacks runs under some context, there
    is a list for each context, too.
    """
    strata = {
        Place(number, context, part.level[here[0][0]]): here
        for number, part in enumerate(parts)
        for context, here in (_pooled(part) if _is_complete(part) else _apart(part))
    }
    judged = {place: _compared(parts[place.part], own) for place, own in strata.items()}
    values = {
        place: dict(zip(parts[place.part].detectors, (-own.means).tolist(), strict=True))
        for place, own in judged.items()
    }

    def compare(place: Place, other: str, first: str) -> Difference:
        part = parts[place.part]
        rows = [part.detectors.index(name) for name in (other, first)]
        own = strata[place]
        if len(own) == 1 or not part.units.at(np.concatenate(own)).are_independent:
            return difference(judged[place], *rows)
        runs = [part.by_training_run(part.values[rows], here)[0] for here in own]
        return stratified_difference([Stratum(one, two, paired=True) for one, two in runs], LEVEL)

    by_context: dict[tuple[int, int], list[Comparison]] = {}
    found = compare_all(values, compare, lambda place: place.level)
    for place, comparison in zip(values, found, strict=True):
        by_context.setdefault((place.part, place.context), []).append(comparison)
    return list(by_context.values())


def _compared(part: Spread, strata: Sequence[NDArray[np.intp]]) -> Pairwise:
    """Compare detectors over runs within strata, each of which has the same number of runs.

    Strata that have splits of their own, and not the same ones, cost degrees of freedom.
    """
    if len(strata) == 1:
        return part.compared(strata[0])
    runs = np.concatenate(strata)
    centred = part.values.copy()
    for own in strata:
        middle = part.values[:, own].mean(axis=1) - part.values[:, runs].mean(axis=1)
        centred[:, own] -= middle[:, None]
    found = replace(part, values=centred).compared(runs, shared=False)
    shared = [
        {name: {*own.tolist()} for name, own in part.units.at(here).levels.items()}
        for here in strata
    ]
    lost = 0 if all(own == shared[0] for own in shared) else len(strata) - 1
    return found._replace(df=np.maximum(1.0, found.df - lost))


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


Strata = list[tuple[int, list[NDArray[np.intp]]]]  # context, and the runs of each stratum


def _pooled(part: Spread) -> Strata:
    """The runs of each level, a stratum for each of the other conditions."""
    levels = np.array(part.level)
    return [
        (0, [np.flatnonzero((levels == level) & (part.conditions == own))
             for own in np.unique(part.conditions)])
        for level in part.levels
    ]  # fmt: skip


def _apart(part: Spread) -> Strata:
    """The runs of each level in each context."""
    return [(context, [here]) for context, here in part.places]
