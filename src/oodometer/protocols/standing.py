"""Who is best in a results table, how surely, and what changes the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, islice

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Claim, Finding
from oodometer.protocols.blocks import Blocks, blocks
from oodometer.protocols.differences import paired_difference
from oodometer.protocols.standing_views import (
    difference_table,
    intervals,
    mean_table,
    range_table,
    rank_map,
    rank_table,
    set_table,
    share_table,
    strips,
)
from oodometer.protocols.words import (
    LEVEL,
    SHOWN,
    SIGNIFICANT,
    count,
    in_all,
    listing,
    missing_lines,
    never_otherwise,
    number,
    points,
    points_and_p,
)
from oodometer.results import Results, results
from oodometer.scores import ScoreTable
from oodometer.stats.agreement import kendall_w
from oodometer.stats.comparison import Difference, holm
from oodometer.stats.intervals import runs_interval
from oodometer.stats.paired import sign_flip_test, win_probability
from oodometer.stats.power import runs_needed
from oodometer.stats.variance import FactorRange, VarianceShares, one_at_a_time, variance_shares

# What labels mere repeats, the likeliest first: its share of the variance is all that is within.
REPLICATES = ("seed", "run", "trial", "repetition", "repeat", "replicate", "fold", "split")
PAIRS = 200_000  # of runs, looked at per factor; more are not told apart by a reader


def standing(table: ScoreTable, rng: np.random.Generator) -> Finding:
    """Say which detector is best over the runs of a study, how surely, and what explains it."""
    return standing_of(results(table), rng)


def standing_of(table: Results, rng: np.random.Generator) -> Finding:
    """The same, of a results table."""
    field = blocks(table)
    differences = _against_best(field, rng)
    shares = _shares(field, rng)
    ranges = {} if shares else _ranges(field)
    return Finding(
        protocol="standing",
        title=f"Which detector has the best {field.metric}, and how surely?",
        question="Would other runs, or other outlier sets, give the same order?",
        claims=(
            *_claim_best(field, differences, rng),
            *_claim_sets(field, rng),
            *_claim_factors(field),
            *_claim_shares(shares),
            *_claim_ranges(ranges),
            *_claim_power(field, differences),
        ),
        tables=tuple(
            table
            for table in (
                mean_table(field, rng),
                rank_table(field, rng),
                difference_table(field, differences),
                set_table(field),
                share_table(field, shares),
                range_table(field, ranges),
            )
            if table is not None
        ),
        series=(*intervals(field, rng), rank_map(field), *strips(field)),
        caveats=_caveats(field),
        missing=missing_lines(table.missing, len(field.units)),
        facts=(
            ("metric", field.metric),
            ("detectors", str(len(field.detectors))),
            (f"{field.unit}s", str(len(field.units))),
            ("outlier sets", str(len(field.sets))),
        ),
    )


def _against_best(field: Blocks, rng: np.random.Generator) -> dict[str, Difference]:
    """How far the best is ahead of every other, by the units, with adjusted p values."""
    best, others = field.oriented(0), field.detectors[1:]
    if len(field.units) < 2:
        return {}
    found = [
        paired_difference(best, field.oriented(row + 1), len(others), rng)
        for row in range(len(others))
    ]
    adjusted = holm([difference.p_value for difference in found])
    return {
        name: difference._replace(p_value=float(p))
        for name, difference, p in zip(others, found, adjusted, strict=True)
    }


def _claim_best(
    field: Blocks, differences: Mapping[str, Difference], rng: np.random.Generator
) -> list[Claim]:
    best = field.detectors[0]
    mean = runs_interval(field.values[0], rng=rng, level=LEVEL, bounds=(0.0, 1.0))
    word = "highest" if field.results.higher_is_better else "lowest"
    where = f"over {count(len(field.sets), 'outlier set')}"
    if len(field.detectors) == 1:
        text = f"{best}, the only detector here, has a mean {field.metric} of {number(mean.value)}."
        return [Claim(text, "undecided", "there is nothing to compare it with")]
    if len(field.units) < 2:
        text = (
            f"{best} has the {word} {field.metric}, {number(mean.value)}, in the one run {where}."
        )
        return [Claim(text, "undecided", "one number per detector cannot tell chance from merit")]
    leads = field.order[0] == field.order.min(axis=0)
    alone = leads & ((field.order == field.order.min(axis=0)).sum(axis=0) == 1)
    firsts = in_all(int(leads.sum()), len(field.units), field.unit)
    verdict = never_otherwise(int((~alone).sum()), len(alone))
    means = field.values.mean(axis=1)
    equal = [name for name, other in zip(field.detectors, means, strict=True) if other == means[0]]
    shared = listing(equal) if len(equal) <= SHOWN else count(len(equal), "detector")
    claims = [
        Claim(
            f"{shared} share the {word} mean {field.metric}, {number(mean.value)}, {where}."
            if len(equal) > 1
            else f"{best} has the {word} mean {field.metric}, {number(mean.value)}, {where}, and "
            f"ranks first {firsts}.",
            "undecided" if len(equal) > 1 else verdict,
            f"95 % interval {number(mean.low)} to {number(mean.high)}, for the mean over "
            f"{field.unit}s like these",
        )
    ]
    tied = [name for name, d in differences.items() if d.p_value >= SIGNIFICANT]
    if tied:
        shown = listing(tied) if len(tied) <= 3 else count(len(tied), "other detector")
        evidence = "; ".join(f"{best} − {n}: {points_and_p(differences[n])}" for n in tied[:4])
        claims.append(Claim(f"{best} cannot be told apart from {shown}.", "undecided", evidence))
    else:
        nearest = field.detectors[1]
        text = f"{best} is ahead of every other detector."
        evidence = f"{best} − {nearest}, the nearest: {points_and_p(differences[nearest])}"
        claims.append(Claim(text, "holds", evidence))
    chance = win_probability(field.oriented(0), field.oriented(1), level=LEVEL)
    # Signs alone, by their exact test: Wilson's interval is a little too narrow for a few cases.
    signs = np.sign(field.oriented(0) - field.oriented(1))
    decided = sign_flip_test(signs, np.zeros_like(signs), rng=rng).p_value < SIGNIFICANT
    claims.append(
        Claim(
            f"In another {field.unit} like these, {best} beats {field.detectors[1]} with "
            f"probability {chance.value:.2f}.",
            "holds" if decided else "undecided",
            f"95 % interval {chance.low:.2f} to {chance.high:.2f}; ties count one half",
        )
    )
    return claims


def _claim_sets(field: Blocks, rng: np.random.Generator) -> list[Claim]:
    """Do the outlier sets agree on the order?"""
    if len(field.sets) < 2 or len(field.detectors) < 2:
        return []
    means = np.array([values.mean(axis=1) for values in field.sets.values()]).T
    signed = means if field.results.higher_is_better else -means
    winners = {
        name: field.detectors[int(signed[:, n].argmax())] for n, name in enumerate(field.sets)
    }
    first = [name for name, winner in winners.items() if winner == field.detectors[0]]
    others = {name: winner for name, winner in winners.items() if name not in first}
    agreement = kendall_w(signed, rng=rng)
    concordance = "undefined" if agreement.value is None else f"{agreement.value:.2f}"
    evidence = f"Kendall's W of the order over outlier sets is {concordance} (1 = all agree)"
    text = f"{field.detectors[0]} has the best mean on {len(first)} of {len(winners)} outlier sets"
    if others:
        named = [f"{name} ({winner})" for name, winner in list(others.items())[:4]]
        text += f"; another is best on {listing(named)}{' and more' if len(others) > 4 else ''}"
    return [Claim(f"{text}.", never_otherwise(len(others), len(winners)), evidence)]


def _claim_factors(field: Blocks) -> list[Claim]:
    """How often does the winner change if one factor changes and nothing else does?"""
    if not field.are_runs or len(field.detectors) < 2:
        return []
    winner = field.order.argmin(axis=0)
    found: dict[str, tuple[int, int]] = {}  # factor -> pairs of runs with another winner, all pairs
    for factor in field.results.factors:
        groups: dict[tuple[str, ...], list[int]] = {}
        for unit, levels in enumerate(field.levels):
            rest = tuple(level for name, level in levels.items() if name != factor)
            groups.setdefault(rest, []).append(unit)
        pairs = list(islice((p for g in groups.values() for p in combinations(g, 2)), PAIRS))
        if pairs:
            found[factor] = (sum(int(winner[a] != winner[b]) for a, b in pairs), len(pairs))
    told = {
        factor: f"{changed} of {count(many, 'pair of runs', 'pairs of runs')}"
        for factor, (changed, many) in found.items()
    }
    evidence = "pairs of runs that agree in everything else"
    if len(found) <= 2:
        return [
            Claim(
                f"Changing only the {factor} changes the winner over all outlier sets in "
                f"{told[factor]}.",
                never_otherwise(changed, many),
                f"{len({levels[factor] for levels in field.levels})} levels; {evidence}",
            )
            for factor, (changed, many) in found.items()
        ]
    changed = sum(part for part, _ in found.values())
    parts = listing([f"{factor} in {text}" for factor, text in told.items()])
    text = f"Changing one factor alone changes the winner over all outlier sets: {parts}."
    return [Claim(text, never_otherwise(changed, min(m for _, m in found.values())), evidence)]


def _shares(field: Blocks, rng: np.random.Generator) -> dict[str, VarianceShares]:
    """How much of each detector's variance each factor explains, where the design tells."""
    factors = list(field.results.factors)
    if not field.are_runs or len(factors) < 1 or len(field.units) < 4:
        return {}
    columns = {name: [levels[name] for levels in field.levels] for name in factors}
    found = {}
    for row, detector in enumerate(field.detectors):
        try:
            found[detector] = variance_shares(
                field.values[row], columns, rng=rng, replicate=_replicate(factors), level=LEVEL
            )
        except UserError:  # the runs form no grid
            continue
    return found


def _replicate(factors: Sequence[str]) -> str | None:
    known = {name.casefold(): name for name in factors}
    return next((known[name] for name in REPLICATES if name in known), None)


def _ranges(field: Blocks) -> dict[str, tuple[FactorRange, ...]]:
    """How far each factor alone moves each detector, for designs without a grid."""
    factors = list(field.results.factors)
    if not field.are_runs or len(factors) < 2:
        return {}
    columns = {name: [levels[name] for levels in field.levels] for name in factors}
    found = {
        detector: one_at_a_time(field.values[row], columns, replicate=_replicate(factors))
        for row, detector in enumerate(field.detectors)
    }
    return {detector: ranges for detector, ranges in found.items() if ranges}


def _claim_shares(shares: Mapping[str, VarianceShares]) -> list[Claim]:
    """What explains most of the variance of the best detector?"""
    detector = next(iter(shares), None)
    if detector is None or len(shares[detector].effects) < 2 or not shares[detector].variance:
        return []
    effects = sorted(shares[detector].effects, key=lambda effect: -effect.share)
    named = [f"{' and '.join(effect.factors)} {effect.share:.0%}" for effect in effects[1:3]]
    leading, next_ = effects[:2]
    text = (
        f"{' and '.join(leading.factors)} explains {leading.share:.0%} of the variance of "
        f"{detector}, {', '.join(named)}."
    )
    if leading.low is None or leading.high is None:
        return [Claim(text, "undecided", " ".join(shares[detector].notes) or "no interval")]
    surely = leading.low > (next_.high if next_.high is not None else next_.share)
    evidence = f"95 % interval {leading.low:.0%} to {leading.high:.0%}"
    if next_.low is not None and next_.high is not None:
        evidence += f", of the next {next_.low:.0%} to {next_.high:.0%}"
    return [Claim(text, "holds" if surely else "undecided", evidence)]


def _claim_ranges(ranges: Mapping[str, tuple[FactorRange, ...]]) -> list[Claim]:
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


def _claim_power(field: Blocks, differences: Mapping[str, Difference]) -> list[Claim]:
    """How many runs would tell the best from the nearest that cannot be told apart from it."""
    tied = [name for name, d in differences.items() if d.p_value >= SIGNIFICANT]
    if not tied or not field.are_runs:
        return []
    best, rival = field.detectors[0], tied[0]
    row = field.detectors.index(rival)
    needed = runs_needed(
        field.oriented(0), field.oriented(row), level=LEVEL, comparisons=len(differences)
    )
    now = count(len(field.units), "run")
    if needed.runs is not None and needed.runs <= len(field.units):
        return []  # the spread is as good as none, and says nothing about further runs
    if needed.runs is None:
        text = f"No number of runs would tell {best} from {rival}: here they do not differ."
        return [Claim(text, "undecided", f"{now} so far")]
    high = "any number" if needed.high is None else f"{needed.high:,}"
    return [
        Claim(
            f"Telling {best} from {rival} would take about {needed.runs:,} runs like these.",
            "undecided",
            f"{now} so far; for 80 % power at the observed difference and spread, which allow "
            f"{needed.low:,} to {high}",
        )
    ]


def _caveats(field: Blocks) -> tuple[str, ...]:
    caveats = []
    if field.are_runs:
        caveats.append(
            "Each run is one case: a detector's value is its mean over the run's outlier sets. "
            "Intervals and tests are about further runs drawn like these."
        )
    elif len(field.units) > 1:
        caveats.append(
            "There is one run only: the outlier sets are the cases. What is said is about further "
            "outlier sets like these, and nothing about retraining."
        )
    else:
        caveats.append("There is one number per detector: nothing can be said about chance.")
    comparisons = count(len(field.detectors) - 1, "comparison")
    caveats.append(
        f"P values are adjusted by Holm's rule for {comparisons} with the leader and judged at "
        f"{SIGNIFICANT:.0%}; they come from a permutation test, or from Student's t, which takes "
        "differences as normal, where so few cases leave a permutation test no power."
    )
    if "spread" in field.results.frame.columns:
        caveats.append(
            "Some cells are means with a standard deviation. The runs behind them are not known, "
            "so detectors cannot be compared run by run, and the spread enters no test."
        )
    if field.left_out:
        caveats.append(f"Left out, because most cells are missing: {listing(field.left_out)}.")
    if field.incomplete:
        caveats.append(
            f"{count(field.incomplete, 'cell')} (run and outlier set) that some detector lacks "
            "were left out for all."
        )
    return tuple(caveats)
