"""How far does one factor move every detector, and does the order of detectors survive it?

Szyc et al. 2023, "Why out-of-distribution detection experiments are not reliable", vary the seed,
split, epoch, architecture, augmentation and the draw of outliers. Their tables have means, standard
deviations, differences between the highest and the lowest value, and ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from oodometer.errors import UserError, unknown
from oodometer.factors import names
from oodometer.finding import Claim, Finding, Table, Verdict, themed
from oodometer.protocols.common.cases import SEVERAL
from oodometer.protocols.common.cells import Cells
from oodometer.protocols.common.comparisons import NO_REPEATS, NOT_SIGNIFICANT
from oodometer.protocols.common.words import (
    LEVEL,
    SIGNIFICANT,
    count,
    listing,
    missing_lines,
    never_otherwise,
)
from oodometer.protocols.instability.comparisons import winner_flips
from oodometer.protocols.instability.spreads import (
    Spread,
    compared,
    over_data_sets,
    over_sets,
    spreads,
)
from oodometer.protocols.instability.views import (
    extremes_table,
    level_table,
    moves,
    spread_table,
    value_lines,
)
from oodometer.results import Results, results
from oodometer.scores import ScoreTable

FEW_LEVELS = 12  # up to this many, a table with a line per level can be read
MANY_SETS = 8  # beyond, tables and pictures show means over outlier sets; claims still name sets


def instability(table: ScoreTable, rng: np.random.Generator) -> Finding:
    """For each factor of a study: how far it moves every detector, and which order survives."""
    reduced = results(table)
    accuracy = {
        tuple(sorted((k, str(v)) for k, v in table.runs[run].items())): float(right.mean())
        for run, right in table.correct.items()
    }
    lines = reduced.frame[list(reduced.factor_names)].astype(str).to_dict("records")
    keys = [tuple(sorted((str(k), v) for k, v in line.items())) for line in lines]
    if all(key in accuracy for key in keys):
        known = np.array([accuracy[key] for key in keys])
        reduced = replace(reduced, frame=reduced.frame.assign(accuracy=known))
    return instability_of(reduced, runs=len(table.runs))


def instability_of(
    table: Results,
    factors: Sequence[str] | None = None,
    *,
    published: bool = False,
    runs: int | None = None,
) -> Finding:
    """The same, of a results table; `factors` limits it to some.

    `published` gives the tables as the paper has them: in percent, ranks from 0, ties to the
    earlier name, standard deviations divided by n instead of n - 1. `runs` is how many there should
    be, by default those that have a value.
    """
    wanted = _wanted(table, factors)
    runs = _count_runs(table) if runs is None else runs
    cells, left_out, incomplete = compared(table)
    overall = _overall(cells, wanted) if not published else {}
    moved = _moved(cells, wanted, published)
    every = _parts(moved)
    moved = {f: moved.get(f) or overall[f] for f in wanted if f in (*moved, *overall)}
    if not moved:
        raise _nothing_moved(wanted, incomplete)
    are_many = max(len(parts) for parts in moved.values()) > MANY_SETS and not published
    shown = _parts(overall)
    if not are_many:
        shown += every
    elif not shown:
        shown = _parts({factor: spreads(over_sets(cells), factor) for factor in moved})
    return Finding(
        protocol="instability",
        title="What moves the detectors, and how far?",
        question="Does the order of detectors survive a change of "
        f"{listing(list(moved)).replace(' and ', ' or ')}?",
        claims=tuple(
            claim
            for factor, parts in moved.items()
            for claim in themed("changes", _claims(parts, overall.get(factor, parts)))
        ),
        tables=_tables(shown, published),
        series=(*moves(shown), *value_lines(shown)),
        caveats=_caveats(
            incomplete, published, [f for f in wanted if f not in moved], not are_many
        ),
        missing=(
            *missing_lines(table.missing, runs),
            *(f"{name}: more than half of its values are missing; left out" for name in left_out),
        ),
        facts=tuple((factor, _count_levels(parts)) for factor, parts in moved.items()),
    )


def _parts(by_factor: Mapping[str, Sequence[Spread]]) -> list[Spread]:
    return [part for parts in by_factor.values() for part in parts]


def _count_levels(parts: Sequence[Spread]) -> str:
    return count(len({level for part in parts for level in part.levels}), "level")


def _wanted(table: Results, factors: Sequence[str] | None) -> tuple[str, ...]:
    """The factors to look at; refuse one that is none, and a table without anything to compare."""
    known = names(table.factors, "repeat", "re_evaluation", "condition")
    for factor in factors or ():
        if factor not in known:
            raise unknown("factor of a results table", factor, known)
    if len(table.detectors) < 2:
        raise UserError("Instability compares detectors: the table has only one.")
    return known if factors is None else tuple(factors)


def _moved(cells: Cells, factors: Sequence[str], published: bool) -> dict[str, list[Spread]]:
    """What each factor does that some runs differ in alone, on every outlier set."""
    found = {factor: spreads(cells, factor, published=published) for factor in factors}
    return {factor: parts for factor, parts in found.items() if parts}


def _nothing_moved(factors: Sequence[str], incomplete: int) -> UserError:
    lacking = f" ({incomplete} of them lack a detector)" if incomplete else ""
    return UserError(
        f"No two runs{lacking} differ in only one factor, so the effect of a factor is unknown; "
        f"the factors are {', '.join(factors) or 'none'}."
    )


def _overall(cells: Cells, factors: Sequence[str]) -> dict[str, list[Spread]]:
    """What each factor does on the mean over data sets, if there are several."""
    if len(cells.ids) < SEVERAL:
        return {}
    means = {factor: over_data_sets(cells, factor) for factor in factors}
    found = {f: spreads(mean, f) for f, mean in means.items() if mean is not None}
    return {factor: parts for factor, parts in found.items() if parts}


def _tables(parts: Sequence[Spread], published: bool) -> tuple[Table, ...]:
    few = [part for part in parts if len(part.levels) <= FEW_LEVELS]
    return (
        *(spread_table(part, published=published) for part in parts),
        *(level_table(part, published=published) for part in few),
        *(extremes_table(part) for part in parts),
    )


def _count_runs(table: Results) -> int:
    return len(table.frame[list(table.factor_names)].drop_duplicates()) if table.factors else 1


def _claims(parts: Sequence[Spread], overall: Sequence[Spread]) -> list[Claim]:
    """What one factor does, on the mean over data sets if that is known, and on each set."""
    turned = parts[0].is_condition and winner_flips(parts)
    winner = _claim_winner(parts, turned)
    if overall is not parts:
        return [*_claims(overall, overall), *winner]
    return [*winner, *_claim_pairs(parts, turned), *_claim_farthest(parts)]


def _claim_winner(parts: Sequence[Spread], turned: bool) -> list[Claim]:
    """Does the best detector stay the best, if this factor changes and nothing else does?"""
    factor = parts[0].factor
    changing = {part.set: part.changing_winners for part in parts if part.changing_winners}
    if not changing:
        text = f"Changing only the {factor} never changes the best detector{_on_mean(parts)}."
        evidence = f"{_sets(parts)}, {count(parts[0].runs, 'run')}" + " on each" * (
            not parts[0].is_mean
        )
        return [Claim(text, never_otherwise(0, parts[0].changes), evidence)]
    evidence = "; ".join(
        f"{name}: {listing(winners if len(winners) <= 5 else [*winners[:5], 'others'])}"
        for name, winners in list(changing.items())[:6]
    )
    where = f" on {len(changing)} of {len(parts)} {parts[0].set_word}s"
    where = _on_mean(parts) if len(parts) == 1 else where
    verdict, doubt = _due_to_the_factor(parts, turned, any_two=False)
    text = f"Changing only the {factor} changes the best detector{where}{doubt}."
    return [Claim(text, verdict, evidence)]


def _claim_pairs(parts: Sequence[Spread], turned: bool) -> list[Claim]:
    """How many pairs of detectors change places?"""
    flips = {part.set: part.flips for part in parts}
    pairs = next(iter(flips.values()))[1]
    worst = max(flips, key=lambda name: flips[name][0])
    by_set = ", ".join(f"{flipped} on {name}" for name, (flipped, _) in list(flips.items())[:8])
    most = flips[worst][0]
    verdict, doubt = (
        _due_to_the_factor(parts, turned, any_two=True)
        if most
        else (never_otherwise(0, parts[0].changes), "")
    )
    return [
        Claim(
            f"Changing only the {parts[0].factor} reverses the order of "
            f"{f'up to {most}' if most else 'none'} of {count(pairs, 'pair')} of "
            f"detectors{_on_mean(parts)}{doubt}.",
            verdict,
            f"{by_set}; a pair counts if each is ahead of the other in some run",
        )
    ]


def _due_to_the_factor(
    parts: Sequence[Spread], turned: bool, *, any_two: bool
) -> tuple[Verdict, str]:
    """Judge a change that was seen, and say what it may be due to if not to the factor.

    Under another condition the network was trained anew, which changes the order by itself: it is
    due to the factor only if one detector is significantly ahead at one level, and another at
    another: the best ones, which says `turned`, or any two, by p-values that are multiplied by the
    number of all pairs, levels, contexts and outlier sets.
    """
    if not parts[0].is_condition:
        return "flips", ""
    places = sum(len(part.places) for part in parts)
    if not places:
        return "undecided", NO_REPEATS
    if turned:
        return "flips", ""
    chance = SIGNIFICANT / (parts[0].flips[1] * places)
    if any_two and any(part.significantly_flipped(chance).any() for part in parts):
        return "flips", ""
    return "undecided", NOT_SIGNIFICANT


def _claim_farthest(parts: Sequence[Spread]) -> list[Claim]:
    """Which detector is moved farthest, and where?"""
    part = max(parts, key=lambda part: float(part.deltas.max()))
    far, near = int(part.deltas.argmax()), int(part.deltas.argmin())
    if not part.deltas[far]:
        text = f"The {part.factor} moves no detector at all."
        return [Claim(text, never_otherwise(0, part.changes), _sets(parts))]
    alike = len(part.detectors) > 1 and bool(np.isclose(part.deltas[far], part.deltas[near]))
    moved = "every detector" if alike else part.detectors[far]
    text = (
        f"The {part.factor} moves {moved} by {_amount(part, float(part.deltas[far]))} "
        f"{'points of' if part.is_share else 'in'} {part.metric} on {part.set}"
    )
    if far != near and not alike:
        text += f", and {part.detectors[near]} by {_amount(part, float(part.deltas[near]))}"
    if part.accuracy is not None:
        text += f"; the accuracy by {100 * part.largest_move(part.accuracy):.1f}"
    evidence = "; ".join(
        f"standard deviation of {part.detectors[row]} {_deviation(part, row)}"
        for row in dict.fromkeys((far, near))
    )
    intervals = sum(len(part.detectors) for part in parts)  # the farthest of all was picked
    differ = _apart(part, far, near, 1.0 - (1.0 - LEVEL) / intervals)
    return [Claim(f"{text}.", "holds" if differ else "undecided", evidence)]


def _sets(parts: Sequence[Spread]) -> str:
    return parts[0].set if _on_mean(parts) else count(len(parts), parts[0].set_word)


def _on_mean(parts: Sequence[Spread]) -> str:
    """Say that something is about the mean over data sets."""
    return f" on {parts[0].set}" if parts[0].is_mean else ""


def _deviation(part: Spread, row: int) -> str:
    spread = part.deviation(row, LEVEL)
    if spread is None:
        return "unknown"
    if not spread.value:
        zero = "0.00 points" if part.is_share else "0"
        return f"{zero}, without an interval because all values are identical"
    value, low, high = (
        f"{100 * end:.2f}" if part.is_share else f"{end:.3g}"
        for end in (spread.value, spread.low, spread.high)
    )
    return f"{value}{' points' * part.is_share} [{low}, {high}]"


def _amount(part: Spread, value: float) -> str:
    """Write a difference: of shares in hundredths."""
    return f"{100 * value:.1f}" if part.is_share else f"{value:.3g}"


def _apart(part: Spread, far: int, near: int, level: float) -> bool:
    """Whether the two spreads differ beyond their intervals."""
    one, other = part.deviation(far, level), part.deviation(near, level)
    if one is None or other is None or not other.value:  # equal values have no interval
        return False
    return one.low > other.high


def _caveats(
    incomplete: int, published: bool, unmoved: Sequence[str], sets_shown: bool
) -> tuple[str, ...]:
    caveats = [
        "Runs are compared that differ in one factor and agree in all others; where several such "
        "groups exist, differences are the largest within a group and standard deviations are "
        "pooled over the groups.",
        "The 95% confidence intervals of standard deviations assume normal values, or normal "
        "logits of "
        "shares; two standard deviations differ if their intervals, adjusted for all detectors and "
        "outlier sets, do not overlap.",
        "Re-evaluations of the same training run, such as its epochs, count as one case in tests. "
        "Another condition is also another training run: it changes an order only if the change of "
        "the lead is significant, by t tests over the repeats at each level.",
        "Test samples are taken as given here; the ranking accounts for other samples.",
    ]
    if incomplete:
        caveats.append(
            f"{count(incomplete, 'run')} on an outlier set in which a detector is missing "
            f"{'was' if incomplete == 1 else 'were'} left out."
        )
    if published:
        caveats.append(
            "As published: ranks count from 0, ties go to the earlier name, and standard "
            "deviations are divided by the number of runs."
        )
    if not sets_shown:
        caveats.append("There are many sets: tables and figures show means over them.")
    for name in unmoved:
        caveats.append(f"No two runs differ only in {name}.")
    return tuple(caveats)
