"""How far do training runs of one classifier differ, and is that significant?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Claim, Finding, Table, themed
from oodometer.protocols.common.score_cases import ScoreCases, score_cases
from oodometer.protocols.common.sources import left_out_claims, with_fewer_cases
from oodometer.protocols.common.words import LEVEL, SIGNIFICANT, count, number, points, points_and_p
from oodometer.scores import ScoreTable
from oodometer.stats.averaging import average_over_sets
from oodometer.stats.comparison import Difference, Placements, auroc_difference, holm


def spread(table: ScoreTable, rng: np.random.Generator) -> Finding:
    """Compare the runs, detector by detector: lowest and highest AUROC, and is that significant?"""
    field = score_cases(table)
    if len(field.runs) < 2:
        raise UserError("How far training runs differ needs at least two of them; there is one.")
    values = dict(zip(field.detectors, field.run_values, strict=True))
    # One that has the same scores in several runs, as an ensemble of them, has nothing to spread.
    shared = with_fewer_cases({name: field.sources[name] for name in field.detectors})
    moved = [name for name in field.detectors if np.ptp(values[name]) > 0 and name not in shared]
    ordered = sorted(moved, key=lambda name: -float(np.ptp(values[name])))
    best = next((name for name in field.detectors if name in moved), None)
    claims = [] if best is None else themed("changes", [_claim(field, best)])
    if len(ordered) > 1:
        most, least = ordered[0], ordered[-1]
        claims.append(
            Claim(
                f"{most} varies most across the {len(field.runs)} {field.run_word}s, "
                f"{least} least.",
                "undecided",
                f"range of the mean AUROC: {points(float(np.ptp(values[most])))} and "
                f"{points(float(np.ptp(values[least])))}",
                "changes",
            )
        )
    if not claims:
        text = f"All detectors score the same in all {len(field.runs)} {field.run_word}s."
        claims = [Claim(text, "undecided", "check that these are different weights", "changes")]
    elif shared:
        claims += left_out_claims(shared, f"How far {field.run_word}s differ")
    return Finding(
        protocol="spread",
        title="How far do the training runs differ?",
        question="How much does it matter which of these training runs is used?",
        claims=tuple(claims),
        tables=(_table(field, moved or field.detectors),),
        caveats=(
            f"Differences between two {field.run_word}s are tested on the samples that both "
            f"scored; p-values are adjusted by Holm's method for all pairs of {field.run_word}s.",
        ),
        answer=_answer(field, ordered, best, claims[0]),
    )


def _answer(field: ScoreCases, ordered: Sequence[str], best: str | None, claim: Claim) -> str:
    """Say whether it matters which run is used: `claim` is about the best detector."""
    if best is None:
        return claim.text
    runs = f"{len(field.runs)} {field.run_word}s"
    varies = f"the mean AUROC of {best} varies by {points(_range(field, best))} across {runs}"
    matters = f"Which of the {field.run_word}s is used matters: {varies}"
    if claim.verdict == "undecided":
        matters = f"{varies[0].upper()}{varies[1:]}, which the choice of test samples alone could"
        matters += " explain"
    most = ordered[0]
    more = f"; {most} varies most, by {points(_range(field, most))}" if most != best else ""
    return f"{matters}{more}."


def _range(field: ScoreCases, detector: str) -> float:
    return float(np.ptp(field.run_values[field.detectors.index(detector)]))


def _claim(field: ScoreCases, detector: str) -> Claim:
    """How far the mean AUROC of a detector varies, and whether other samples could explain it."""
    values = field.run_values[field.detectors.index(detector)]
    low, high = int(values.argmin()), int(values.argmax())
    pairs = list(combinations(range(len(field.runs)), 2))
    differences = [_difference(field, detector, b, a) for a, b in pairs]
    adjusted = holm([difference.p_value for difference in differences])
    place = pairs.index((min(low, high), max(low, high)))
    widest = _difference(field, detector, high, low)._replace(p_value=float(adjusted[place]))
    significant = sum(p < SIGNIFICANT for p in adjusted)
    text = (
        f"The mean AUROC of {detector} varies by "
        f"{points(float(values[high] - values[low]))} across {field.run_word}s: from "
        f"{number(float(values[low]))} ({field.runs[low]}) to {number(float(values[high]))} "
        f"({field.runs[high]})"
    )
    chance = "" if significant else ", which the choice of test samples alone could explain"
    return Claim(
        f"{text}{chance}.",
        "holds" if significant else "undecided",
        f"{field.runs[high]} − {field.runs[low]}: {points_and_p(widest)}; "
        f"{significant} of {count(len(pairs), 'pair')} of {field.run_word}s differ significantly",
    )


def _difference(field: ScoreCases, detector: str, one: int, other: int) -> Difference:
    """How far one run's mean AUROC over the outlier sets is ahead of another's."""
    first, second = (_of_run(field, detector, field.runs[run]) for run in (one, other))
    return auroc_difference(first, second, LEVEL)


def _of_run(field: ScoreCases, detector: str, run: str) -> Placements:
    parts = []
    for ood in field.table.ood:
        inliers, outliers = (field.table.scores(run, detector, d) for d in (field.table.id, ood))
        assert inliers is not None and outliers is not None, "complete, or it is not comparable"
        parts.append(Placements.of_runs([(inliers, outliers)], shared_samples=True))
    return average_over_sets(parts)


def _table(field: ScoreCases, detectors: Sequence[str]) -> Table:
    rows = []
    for name in detectors:
        values = field.run_values[field.detectors.index(name)]
        low, high = int(values.argmin()), int(values.argmax())
        rows.append(
            (name, float(values[low]), field.runs[low], float(values[high]), field.runs[high],
             round(100 * float(values[high] - values[low]), 1))
        )  # fmt: skip
    return Table(
        "spread",
        "Lowest and highest mean AUROC of each detector",
        ("detector", "lowest", "lowest in", "highest", "highest in", "range (points)"),
        tuple(rows),
        f"Means over {count(len(field.table.ood), 'outlier set')} in a single {field.run_word}.",
    )
