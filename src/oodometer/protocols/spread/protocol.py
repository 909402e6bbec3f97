"""How far do trainings of one classifier differ: what a choice between them is worth."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from oodometer.errors import UserError
from oodometer.finding import Claim, Finding, Table
from oodometer.protocols.common.score_cases import ScoreCases, score_cases
from oodometer.protocols.common.words import LEVEL, SIGNIFICANT, count, number, points, points_and_p
from oodometer.scores import ScoreTable
from oodometer.stats.averaging import average_over_sets
from oodometer.stats.comparison import Difference, Placements, auroc_difference, holm


def spread(table: ScoreTable, rng: np.random.Generator) -> Finding:
    """Compare the runs, detector by detector: lowest and highest AUROC, and is that chance?"""
    field = score_cases(table)
    if len(field.runs) < 2:
        raise UserError("How far trainings differ can be told from two on; there is one.")
    values = dict(zip(field.detectors, field.run_values, strict=True))
    # One that has the same scores in every run, as an ensemble of them, has nothing to spread.
    moved = [name for name in field.detectors if np.ptp(values[name]) > 0]
    ordered = sorted(moved, key=lambda name: -float(np.ptp(values[name])))
    best = next((name for name in field.detectors if name in moved), None)
    claims = [] if best is None else [_claim(field, best)]
    if len(ordered) > 1:
        most, least = ordered[0], ordered[-1]
        claims.append(
            Claim(
                f"{most} depends most on which of the {len(field.runs)} it is, {least} least.",
                "undecided",
                f"highest less lowest mean AUROC: {points(float(np.ptp(values[most])))} and "
                f"{points(float(np.ptp(values[least])))}",
            )
        )
    if not claims:
        text = f"All detectors score the same in {count(len(field.runs), 'training')}."
        claims = [Claim(text, "undecided", "are these different weights?")]
    return Finding(
        protocol="spread",
        title="How far do the trainings differ?",
        question="What does it matter which of these trainings is taken?",
        claims=tuple(claims),
        tables=(_table(field),),
        caveats=(
            "Differences between two trainings are tested on the samples that both scored; p "
            "values are adjusted by Holm's rule for all pairs of trainings.",
        ),
    )


def _claim(field: ScoreCases, detector: str) -> Claim:
    """Say how far the mean AUROC of a detector moves, and whether other samples could do that."""
    values = field.run_values[field.detectors.index(detector)]
    low, high = int(values.argmin()), int(values.argmax())
    pairs = list(combinations(range(len(field.runs)), 2))
    differences = [_difference(field, detector, b, a) for a, b in pairs]
    adjusted = holm([difference.p_value for difference in differences])
    place = pairs.index((min(low, high), max(low, high)))
    widest = _difference(field, detector, high, low)._replace(p_value=float(adjusted[place]))
    beyond = sum(p < SIGNIFICANT for p in adjusted)
    text = (
        f"Which training it is moves the mean AUROC of {detector} by "
        f"{points(float(values[high] - values[low]))}: from {number(float(values[low]))} "
        f"({field.runs[low]}) to {number(float(values[high]))} ({field.runs[high]})"
    )
    chance = "" if beyond else ", which other test samples alone could do"
    return Claim(
        f"{text}{chance}.",
        "holds" if beyond else "undecided",
        f"{field.runs[high]} − {field.runs[low]}: {points_and_p(widest)}; "
        f"{beyond} of {count(len(pairs), 'pair')} of trainings differ beyond chance",
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


def _table(field: ScoreCases) -> Table:
    rows = []
    for name, values in zip(field.detectors, field.run_values, strict=True):
        low, high = int(values.argmin()), int(values.argmax())
        rows.append(
            (name, float(values[low]), field.runs[low], float(values[high]), field.runs[high],
             round(100 * float(values[high] - values[low]), 1))
        )  # fmt: skip
    return Table(
        "spread",
        "Lowest and highest mean AUROC of each detector",
        ("detector", "lowest", "lowest in", "highest", "highest in", "points between"),
        tuple(rows),
        f"Means over {count(len(field.table.ood), 'outlier set')}; each number is of one training.",
    )
