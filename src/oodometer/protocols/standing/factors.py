"""What changes the order of detectors?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, islice

import numpy as np

from oodometer.factors import names
from oodometer.finding import Claim
from oodometer.protocols.common.cases import Cases
from oodometer.protocols.common.contests import (
    NO_REPEATS,
    WITHIN_CHANCE,
    Contest,
    comparisons,
    contests,
    judge,
    told_flips,
)
from oodometer.protocols.common.differences import (
    FEWEST_FOR_T,
    paired_difference,
)
from oodometer.protocols.common.training_runs import independent_changes
from oodometer.protocols.common.words import never_otherwise
from oodometer.stats.comparison import Difference
from oodometer.stats.ranks import rank_matrix

PAIRS = 200_000  # of runs, looked at per factor; more are not told apart by a reader


def factor_claims(field: Cases, surely: bool, rng: np.random.Generator) -> list[Claim]:
    """How often does the winner change if one factor changes and nothing else does?

    Pairs of the same runs are no independent cases: n trainings that agree in everything else
    count for n - 1. Nor does a winner last that may owe its place to chance: see `surely`. Under
    another condition the network was trained anew, which changes the winner by itself: the
    condition is to blame only if the lead changes beyond chance.
    """
    if not field.are_runs or len(field.detectors) < 2:
        return []
    ranks = rank_matrix(field.run_values, higher_is_better=field.results.higher_is_better)
    winner = ranks.argmin(axis=0)
    found: dict[str, tuple[int, int, int]] = {}  # factor -> changes, pairs, independent cases
    for factor in names(field.factors):
        groups: dict[tuple[str, ...], list[int]] = {}
        for run, levels in enumerate(field.run_levels):
            rest = tuple(level for name, level in levels.items() if name != factor)
            groups.setdefault(rest, []).append(run)
        pairs = list(islice((p for g in groups.values() for p in combinations(g, 2)), PAIRS))
        if pairs:
            changed = sum(int(winner[a] != winner[b]) for a, b in pairs)
            several = {
                str(run): field.run_levels[run]
                for group in groups.values()
                if len(group) > 1
                for run in group
            }
            cases = independent_changes(several, factor, field.factors)
            found[factor] = changed, len(pairs), cases
    told = {
        factor: f"{f'{changed:,}' if changed else 'none'} of {many:,} "
        f"{'pair' if many == 1 else 'pairs'} of runs"
        for factor, (changed, many, _) in found.items()
    }
    evidence = "pairs of runs that agree in everything else"
    conditions = names(field.factors, "condition")
    held = _by_level(field, [factor for factor in found if factor in conditions], rng)
    flips = told_flips(held)
    doubts = {
        factor: ""
        if not changed or factor not in conditions or judge(held[factor]) == "flips"
        else WITHIN_CHANCE
        if len(held[factor]) > 1
        else NO_REPEATS
        for factor, (changed, _, _) in found.items()
    }
    if len(found) <= 2:
        one_by_one = [
            Claim(
                f"Changing only the {factor} changes the winner over all outlier sets in "
                f"{told[factor]}{doubts[factor]}.",
                "undecided" if doubts[factor] else never_otherwise(changed, cases, surely=surely),
                f"{len({levels[factor] for levels in field.run_levels})} levels; {evidence}",
            )
            for factor, (changed, _, cases) in found.items()
        ]
        return [*flips, *one_by_one]
    changes = sum(changed for factor, (changed, _, _) in found.items() if not doubts[factor])
    fewest = min(cases for _, _, cases in found.values())
    parts = "; ".join(
        f"{factor} in {text}" + f" ({doubts[factor].lstrip(',; ')})" * bool(doubts[factor])
        for factor, text in told.items()
    )
    text = f"Changing one factor alone changes the winner over all outlier sets: {parts}."
    verdict = never_otherwise(changes, fewest, surely=surely and not any(doubts.values()))
    return [*flips, Claim(text, verdict, evidence)]


def _by_level(
    field: Cases, factors: Sequence[str], rng: np.random.Generator
) -> dict[str, list[Contest]]:
    """Who is best under each level of a condition that has trainings enough to tell.

    P values are adjusted for all levels of all conditions.
    """
    units: dict[str, list[int]] = {}  # factor and level -> trainings
    named: dict[str, tuple[str, str]] = {}
    for factor in factors:
        for unit, levels in enumerate(field.levels):
            place = f"{factor}\n{levels[factor]}"
            named[place] = factor, levels[factor]
            units.setdefault(place, []).append(unit)
    sign = -1 if field.results.higher_is_better else 1
    means = {p: sign * field.values[:, own].mean(axis=1) for p, own in units.items()}
    places = {
        place: dict(zip(field.detectors, means[place].tolist(), strict=True))
        for place, own in units.items()
        if len(own) >= FEWEST_FOR_T
    }
    many = comparisons(places)

    def compare(place: str, other: str, first: str) -> Difference:
        rows = [field.detectors.index(name) for name in (other, first)]
        one, two = (field.oriented(row)[units[place]] for row in rows)
        return paired_difference(one, two, many, rng)

    held: dict[str, list[Contest]] = {factor: [] for factor in factors}
    for contest in contests(places, compare):
        factor, level = named[contest.place]
        held[factor].append(replace(contest, place=level))
    return held
