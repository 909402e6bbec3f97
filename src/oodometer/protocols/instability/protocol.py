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
from oodometer.finding import Finding, Table, folded, themed
from oodometer.protocols.common.cases import SEVERAL
from oodometer.protocols.common.cells import Cells
from oodometer.protocols.common.sources import left_out_claims, retrained
from oodometer.protocols.common.words import count, listing, missing_lines
from oodometer.protocols.instability.answer import answer
from oodometer.protocols.instability.claims import FactorEffect
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


def instability(table: ScoreTable, rng: np.random.Generator, ours: str = "") -> Finding:
    """For each factor of a study: how far it moves every detector, and which order survives."""
    table, shared = retrained(table, "Instability", 2)
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
    return instability_of(reduced, runs=len(table.runs), shared=shared, ours=ours)


def instability_of(
    table: Results,
    factors: Sequence[str] | None = None,
    *,
    published: bool = False,
    runs: int | None = None,
    shared: Sequence[str] = (),
    ours: str = "",
) -> Finding:
    """The same, of a results table; `factors` limits it to some.

    `published` gives the tables as the paper has them: in percent, ranks from 0, ties to the
    earlier name, standard deviations divided by n instead of n - 1. `runs` is how many there should
    be, by default those that have a value. `shared` names detectors that were left out because some
    training runs share their scores. `ours` was declared in advance: its pairs are judged as in the
    ranking.
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
    effects = [
        FactorEffect(parts, overall.get(factor, parts), ours) for factor, parts in moved.items()
    ]
    largest = max(_parts(moved), key=lambda part: part.runs)
    return Finding(
        protocol="instability",
        title="What moves the detectors, and how far?",
        question="Does the order of detectors survive a change of "
        f"{listing(list(moved)).replace(' and ', ' or ')}?",
        claims=(
            *folded(themed("changes", (c for e in effects for c in e.claims())), largest.tried, 3),
            *left_out_claims(shared, f"How far another {' or '.join(moved)} moves a detector"),
        ),
        tables=_tables(shown, published),
        series=(*moves(shown), *value_lines(shown)),
        caveats=(
            *_caveats(incomplete, published, [f for f in wanted if f not in moved], not are_many),
            *largest.units.caveats(largest.training_runs),
        ),
        missing=(
            *missing_lines(table.missing, runs),
            *(f"{name}: too many of its values are missing; left out" for name in left_out),
        ),
        facts=tuple((factor, _count_levels(parts)) for factor, parts in moved.items()),
        answer=answer(effects),
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
