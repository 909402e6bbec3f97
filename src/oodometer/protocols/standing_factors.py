"""What changes the order of detectors, and what explains the variance of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, islice

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Claim
from oodometer.protocols.blocks import Blocks
from oodometer.protocols.differences import independent_changes
from oodometer.protocols.words import LEVEL, listing, never_otherwise, points
from oodometer.stats.ranks import rank_matrix
from oodometer.stats.variance import FactorRange, VarianceShares, one_at_a_time, variance_shares

# What labels mere repeats, the likeliest first: its share of the variance is all that is within.
REPLICATES = (
    "seed", "run", "trial", "repetition", "repeat", "replicate", "fold", "split", "runid",
    "trialid", "modelid", "checkpointid", "jobid",
)  # fmt: skip
PAIRS = 200_000  # of runs, looked at per factor; more are not told apart by a reader


def factor_claims(field: Blocks, surely: bool) -> list[Claim]:
    """How often does the winner change if one factor changes and nothing else does?

    Pairs of the same runs are no independent cases: n trainings that agree in everything else
    count for n - 1. Nor does a winner last that may owe its place to chance: see `surely`.
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
    if len(found) <= 2:
        return [
            Claim(
                f"Changing only the {factor} changes the winner over all outlier sets in "
                f"{told[factor]}.",
                never_otherwise(changed, cases, surely=surely),
                f"{len({levels[factor] for levels in field.levels})} levels; {evidence}",
            )
            for factor, (changed, _, cases) in found.items()
        ]
    changes = sum(changed for changed, _, _ in found.values())
    fewest = min(cases for _, _, cases in found.values())
    parts = listing([f"{factor} in {text}" for factor, text in told.items()])
    text = f"Changing one factor alone changes the winner over all outlier sets: {parts}."
    return [Claim(text, never_otherwise(changes, fewest, surely=surely), evidence)]


def shares_of(field: Blocks, rng: np.random.Generator) -> dict[str, VarianceShares]:
    """How much of each detector's variance each factor explains, where the design tells."""
    factors = list(field.results.factors)
    if not field.are_runs or len(factors) < 1 or len(field.levels) < 4:
        return {}
    columns = {name: [levels[name] for levels in field.levels] for name in factors}
    found = {}
    for row, detector in enumerate(field.detectors):
        try:
            found[detector] = variance_shares(
                field.run_values[row], columns, rng=rng, replicate=_replicate(factors), level=LEVEL
            )
        except UserError:  # the runs form no grid
            continue
    return found


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
    surely = leading.low > (next_.high if next_.high is not None else next_.share)
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
