"""What changes the order of detectors, and what explains the variance of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Claim
from oodometer.protocols.blocks import Blocks
from oodometer.protocols.contests import (
    NO_REPEATS,
    WITHIN_CHANCE,
    Contest,
    comparisons,
    contests,
    judge,
    told_flips,
)
from oodometer.protocols.differences import (
    FEWEST_FOR_T,
    SAME_TRAINING,
    independent_changes,
    paired_difference,
)
from oodometer.protocols.words import FEWEST, LEVEL, listing, never_otherwise, points
from oodometer.stats.comparison import Difference
from oodometer.stats.crossed import crossed_shares
from oodometer.stats.ranks import rank_matrix
from oodometer.stats.variance import (
    Effect,
    FactorRange,
    VarianceShares,
    one_at_a_time,
    variance_shares,
)

# What labels mere repeats, the likeliest first: its share of the variance is all that is within.
REPLICATES = (
    "seed", "run", "trial", "repetition", "repeat", "replicate", "fold", "split", "runid",
    "trialid", "modelid", "checkpointid", "jobid",
)  # fmt: skip
HALF = 0.5  # of the variance: what surely explains more explains most
PAIRS = 200_000  # of runs, looked at per factor; more are not told apart by a reader


def factor_claims(field: Blocks, surely: bool, rng: np.random.Generator) -> list[Claim]:
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
    for factor in field.results.factors:
        groups: dict[tuple[str, ...], list[int]] = {}
        for run, levels in enumerate(field.levels):
            rest = tuple(level for name, level in levels.items() if name != factor)
            groups.setdefault(rest, []).append(run)
        pairs = list(islice((p for g in groups.values() for p in combinations(g, 2)), PAIRS))
        if pairs:
            changed = sum(int(winner[a] != winner[b]) for a, b in pairs)
            several = {
                str(run): {name.casefold(): level for name, level in field.levels[run].items()}
                for group in groups.values()
                if len(group) > 1
                for run in group
            }
            cases = independent_changes(several, factor.casefold())
            found[factor] = changed, len(pairs), cases
    told = {
        factor: f"{changed:,} of {many:,} {'pair' if many == 1 else 'pairs'} of runs"
        for factor, (changed, many, _) in found.items()
    }
    evidence = "pairs of runs that agree in everything else"
    held = _by_level(field, [factor for factor in found if not _is_repeated(factor)], rng)
    flips = told_flips(held)
    doubts = {
        factor: ""
        if not changed or _is_repeated(factor) or judge(held[factor]) == "flips"
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
                f"{len({levels[factor] for levels in field.levels})} levels; {evidence}",
            )
            for factor, (changed, _, cases) in found.items()
        ]
        return [*flips, *one_by_one]
    changes = sum(changed for factor, (changed, _, _) in found.items() if not doubts[factor])
    fewest = min(cases for _, _, cases in found.values())
    parts = listing([f"{factor} in {text}{doubts[factor]}" for factor, text in told.items()])
    text = f"Changing one factor alone changes the winner over all outlier sets: {parts}."
    verdict = never_otherwise(changes, fewest, surely=surely and not any(doubts.values()))
    return [*flips, Claim(text, verdict, evidence)]


def _by_level(
    field: Blocks, factors: Sequence[str], rng: np.random.Generator
) -> dict[str, list[Contest]]:
    """Who is best under each level of a condition that has trainings enough to tell.

    P values are adjusted for all levels of all conditions.
    """
    units: dict[str, list[int]] = {}  # factor and level -> trainings
    named: dict[str, tuple[str, str]] = {}
    for factor in factors:
        for unit, levels in enumerate(field.unit_levels):
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


def _is_repeated(factor: str) -> bool:
    """Tell whether another level is but another repeat, or another look at the same training."""
    return is_repeat(factor) or factor.casefold() in SAME_TRAINING


def shares_of(field: Blocks, rng: np.random.Generator) -> dict[str, VarianceShares]:
    """How much of each detector's variance each factor explains, where the design tells.

    Looks at one training are no repeats of it: taken for some, they made the optimizer explain
    27 % where it explained nothing. The mean of each training counts. If nothing but looks was
    varied besides repeats, intervals are by leaving out trainings, or there are none.
    """
    factors = list(field.results.factors)
    looks = [name for name in factors if name.casefold() in SAME_TRAINING]
    trained = [name for name in factors if name not in looks and not is_repeat(name)]
    if not field.are_runs or len(factors) < 1 or len(field.levels) < 4:
        return {}
    values, levels, note = field.run_values, field.levels, ""
    if looks and trained and len(field.units) < len(field.levels):
        values, levels = field.values, field.unit_levels
        factors = [name for name in factors if name not in looks]
        note = f"Of the mean of each training: what {listing(looks)} does is left out."
    elif looks:
        note = f"Runs that differ in {listing(looks)} alone are one training: no intervals."
    columns = {name: [own[name] for own in levels] for name in factors}
    found = {}
    for row, detector in enumerate(field.detectors):
        try:
            shares = variance_shares(
                values[row], columns, rng=rng, replicate=_replicate(factors), level=LEVEL
            )
        except UserError:  # the runs form no grid
            continue
        if note:
            shares = shares._replace(notes=(*shares.notes, note))
        if looks and not trained:
            shares = _of_looks(field, row, looks) or _without_intervals(shares)
        found[detector] = shares
    return found


def _of_looks(field: Blocks, row: int, looks: Sequence[str]) -> VarianceShares | None:
    """Shares of looks and of trainings, where every training was looked at alike."""
    kinds = list(dict.fromkeys(tuple(own[name] for name in looks) for own in field.levels))
    if len(looks) > 1 or len(field.units) < FEWEST or len(kinds) < 2:
        return None
    known: dict[tuple[str, ...], dict[tuple[str, ...], float]] = {}
    for own, value in zip(field.levels, field.run_values[row].tolist(), strict=True):
        training = tuple(level for name, level in own.items() if name not in looks)
        known.setdefault(training, {})[tuple(own[name] for name in looks)] = value
    if any(len(values) < len(kinds) for values in known.values()):
        return None
    table = np.array([[values[kind] for kind in kinds] for values in known.values()])
    found = crossed_shares(table, level=LEVEL)
    repeats = tuple(name for name in field.results.factors if name not in looks)
    if found is None or not repeats:
        return None
    share, low, high = found.conditions
    note = f"{' × '.join(repeats)} includes what it does together with {listing(looks)}."
    return VarianceShares(
        (
            Effect(tuple(looks), share, low, high),
            Effect(repeats, 1.0 - share, 1.0 - high, 1.0 - low),
        ),
        float(table.var()),
        (note,),
    )


def _without_intervals(shares: VarianceShares) -> VarianceShares:
    plain = [effect._replace(low=None, high=None) for effect in shares.effects]
    return shares._replace(effects=tuple(plain))


def set_share_claims(field: Blocks) -> list[Claim]:
    """Do values of the best detector differ by the outlier set, or by the run?"""
    own = [values[0] for values in field.sets.values()]
    whole = all(len(values) == len(field.units) for values in own)
    if not field.are_runs or len(own) < 2 or not whole or len(field.units) < FEWEST:
        return []
    found = crossed_shares(np.array(own).T, level=LEVEL)
    if found is None:
        return []
    named = {"the outlier set": found[0], "the run": found[1], "both together": found[2]}
    first, second, third = sorted(named, key=lambda name: -named[name].value)
    share, low, high = named[first]
    verb = "explain" if first == "both together" else "explains"
    text = (
        f"Of the variance of {field.detectors[0]}'s {field.metric} over runs and outlier sets, "
        f"{first} {verb} {share:.0%}, {second} {named[second].value:.0%}, {third} "
        f"{named[third].value:.0%}."
    )
    evidence = f"95 % interval of the first {low:.0%} to {high:.0%}, for other runs and these sets"
    surely = low > HALF and first != "both together"  # chance is in that, too
    return [Claim(text, "holds" if surely else "undecided", evidence)]


def is_repeat(factor: str) -> bool:
    """Tell whether levels of a factor mean nothing by themselves, as those of seeds."""
    return _plain(factor) in REPLICATES


def _plain(name: str) -> str:
    return "".join(sign for sign in name.casefold() if sign.isalnum())


def _replicate(factors: Sequence[str]) -> str | None:
    known = {_plain(name): name for name in factors}
    return next((known[name] for name in REPLICATES if name in known), None)


def ranges_of(field: Blocks) -> dict[str, tuple[FactorRange, ...]]:
    """How far each factor alone moves each detector, for designs without a grid."""
    factors = list(field.results.factors)
    if not field.are_runs or len(factors) < 2:
        return {}
    columns = {name: [levels[name] for levels in field.levels] for name in factors}
    found = {
        detector: one_at_a_time(field.run_values[row], columns, replicate=_replicate(factors))
        for row, detector in enumerate(field.detectors)
    }
    return {detector: ranges for detector, ranges in found.items() if ranges}


def share_claims(field: Blocks, shares: Mapping[str, VarianceShares]) -> list[Claim]:
    """What explains most of the variance of the best detector?"""
    detector = next(iter(shares), None)
    if detector is None or len(shares[detector].effects) < 2 or not shares[detector].variance:
        return []
    effects = sorted(shares[detector].effects, key=lambda effect: -effect.share)
    named = [f"{' × '.join(effect.factors)} {effect.share:.0%}" for effect in effects[1:3]]
    leading, next_ = effects[:2]
    text = (
        f"{' × '.join(leading.factors)} explains {leading.share:.0%} of the variance of "
        f"{detector}'s {field.metric} over the runs, {', '.join(named)}."
    )
    if leading.low is None or leading.high is None:
        return [Claim(text, "undecided", " ".join(shares[detector].notes) or "no interval")]
    highs = [effect.share if effect.high is None else effect.high for effect in effects[1:]]
    surely = leading.low > max(highs)
    evidence = f"95 % interval of the share {leading.low:.0%} to {leading.high:.0%}"
    if next_.low is not None and next_.high is not None:
        evidence += f", of the next {next_.low:.0%} to {next_.high:.0%}"
    return [Claim(text, "holds" if surely else "undecided", evidence)]


def range_claims(ranges: Mapping[str, tuple[FactorRange, ...]]) -> list[Claim]:
    """Which factor alone moves the best detector farthest, where there is no grid?"""
    detector = next(iter(ranges), None)
    if detector is None:
        return []
    own = sorted(ranges[detector], key=lambda part: part.low - part.high)
    text = (
        f"Of the factors that change one at a time, {own[0].factor} moves {detector} farthest: "
        f"{points(own[0].high - own[0].low)} from {own[0].lowest} to {own[0].highest}."
    )
    others = [f"{part.factor} {points(part.high - part.low)}" for part in own[1:4]]
    evidence = (
        f"{'; '.join(others) or 'no other changes alone'}; ranges, not shares: without a grid"
    )
    return [Claim(text, "undecided", f"{evidence} nobody knows what factors do together")]
