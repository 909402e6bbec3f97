"""What stands beside the claims about robustness: caveats, gaps and facts."""

from __future__ import annotations

import math

from oodometer.protocols.common.words import DOMINANT, SHOWN, SIGNIFICANT, listing, missing_lines
from oodometer.protocols.robustness.field import Field
from oodometer.protocols.robustness.views import metric_label, pair_label, unit


def caveats(field: Field) -> tuple[str, ...]:
    """What a reader must bear in mind."""
    scores = field.detector_scores
    lines = [
        "The score measures variation relative to the mean: a detector that is equally bad under "
        f"every {field.factor} scores well. Read it together with the means.",
        f"The mean in the score weights each {field.factor} by 1 / standard deviation, so it can "
        "rank close detectors differently than the plain mean over runs.",
        "P-values are adjusted by Holm's method for all comparisons, also for having picked the "
        f"best from the same data; the significance level is {SIGNIFICANT:.0%}. Intervals are for "
        "one score or comparison at a time.",
    ]
    if field.re_evaluations:
        lines.append(
            f"Runs that differ only in {listing(field.re_evaluations)} are re-evaluations of the "
            "same training run: their mean counts as one run."
        )
    if any(len(score.units) and len(score.units[0]) == 1 for score in scores.values()):
        lines.append(
            f"Some cells have fewer than three runs per {field.factor}: their intervals treat the "
            f"levels of {field.factor} as a sample, and are not for other runs."
        )
    elif scores:
        lines.append(f"Intervals are for other runs under the same levels of {field.factor}.")
    heavy = [
        f"{detector} on {pair_label(field, pair)} ({score.heaviest:.0%})"
        for (pair, detector), score in scores.items()
        if score.heaviest > DOMINANT and len(field.levels_of(pair)) > 1
    ]
    if heavy:
        shown = listing(heavy[:SHOWN]) + (f" and {len(heavy) - SHOWN} more" * (len(heavy) > SHOWN))
        lines.append(
            f"The mixture weights levels by 1 / standard deviation, so a level of {field.factor} "
            "whose runs hardly differ can dominate, and the score then depends on epsilon; here "
            f"for {shown}."
        )
    senseless = [
        f"{detector} on {pair_label(field, pair)}"
        for (pair, detector), score in scores.items()
        if not math.isfinite(score.value)
    ]
    if senseless:
        lines.append(f"No score where the mean is not above 0: {listing(senseless[:SHOWN])}.")
    if any(runs.spreads.any() for runs in field.cells.values()):
        lines.append(
            "Standard deviations are those stated in the table, which does not say whether they "
            "were divided by N or N - 1."
        )
    if field.epsilon == "published":
        lines.append("With the published epsilon the weights add up to a little less than one.")
    return tuple(lines)


def missing(field: Field) -> tuple[str, ...]:
    """What the table says itself, and the gaps that it does not mention."""
    told = field.results.missing
    runs = sum(
        max((n for (_, lv), n in field.wanted.items() if lv == level)) for level in field.levels
    )
    lines = list(missing_lines(told, runs))
    for pair in field.pairs:
        for detector in field.detectors:
            lacks = field.lacking(pair, detector)
            known = any(
                part.detector in ("", detector) and part.dataset in ("", pair.ood, pair.id)
                for part in told
            )
            if lacks and not known:
                total = sum(n for (p, _), n in field.wanted.items() if p == pair)
                where = ", ".join(level for level in lacks if level)
                lines.append(
                    f"{detector} on {pair_label(field, pair)}: {sum(lacks.values())} of {total} "
                    f"values are missing{f' ({field.factor} {where})' if where else ''}; not scored"
                )
    return tuple(lines)


def facts(field: Field) -> tuple[tuple[str, str], ...]:
    """What was done."""
    per_level = sorted(set(field.wanted.values()))
    id_sets = list(dict.fromkeys(pair.id for pair in field.pairs if pair.id))
    lines = [
        ("metric", metric_label(field)),
        ("factor", field.factor or "none"),
        ("levels", ", ".join(level for level in field.levels if level) or "none"),
        ("runs per level", "–".join(map(str, dict.fromkeys((per_level[0], per_level[-1]))))),
        ("detectors", str(len(field.detectors))),
        ("outlier sets", str(len({pair.ood for pair in field.pairs}))),
        ("moments in", unit(field)),
        ("epsilon", field.epsilon),
    ]
    return ((("in-distribution data", ", ".join(id_sets)),) if id_sets else ()) + tuple(lines)
