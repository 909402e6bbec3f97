"""What stands beside the claims about robustness: caveats, gaps and facts."""

from __future__ import annotations

import math
from collections import Counter

from oodometer.protocols.common.cells import Pair
from oodometer.protocols.common.words import DOMINANT, SHOWN, SIGNIFICANT, listing, missing_lines
from oodometer.protocols.robustness.runs import state_spreads
from oodometer.protocols.robustness.scored import ScoredMetric
from oodometer.protocols.robustness.views import metric_label, pair_label, unit


def caveats(metric: ScoredMetric) -> tuple[str, ...]:
    """What a reader must bear in mind."""
    scores = metric.detector_scores
    lines = [
        "The score measures variation relative to the mean: a detector that is equally bad under "
        f"every {metric.factor} scores well. Read it together with the means.",
        f"The mean in the score weights each {metric.factor} by 1 / standard deviation, so it can "
        "rank close detectors differently than the plain mean over runs.",
        "P-values are adjusted by Holm's method for all comparisons, also for having picked the "
        f"best from the same data; the significance level is {SIGNIFICANT:.0%}. Intervals "
        "of comparisons are adjusted in the same way; those of scores are for one at a time.",
    ]
    if metric.re_evaluations:
        lines.append(
            f"Runs that differ only in {listing(metric.re_evaluations)} are re-evaluations of the "
            "same training run: their mean counts as one run."
        )
    if metric.others:
        lines.append(
            f"Values are averaged over {listing(metric.others)} first, so that it does not count "
            f"as variation under one {metric.factor}."
        )
    if metric.within is not None:
        lines.append(
            f"The variance over {metric.factor} is taken within each data set, then averaged over "
            "data sets, which weigh the same. Each data set is one case: intervals and tests are "
            "for other data sets like these."
        )
        if any(score.over_runs is not None for score in scores.values()):
            lines.append(
                "What a training run does may be alike on all data sets: differences must stand "
                "out over training runs, too, and two runs decide nothing."
            )
    elif metric.outer.shared:
        name = metric.factor if metric.levels_are_cases else metric.shared_level
        lines += metric.outer.shared_caveats(metric.training_runs)
        lines.append(f"Intervals are for other levels of {name} like these.")
    elif any(len(score.units) and len(score.units[0]) == 1 for score in scores.values()):
        lines.append(
            f"Some cells have fewer than three runs per {metric.factor}: their intervals treat the "
            f"levels of {metric.factor} as a sample, and are not for other runs."
        )
    elif scores:
        lines.append(f"Intervals are for other runs under the same levels of {metric.factor}.")
    heavy = [
        f"{detector} on {pair_label(metric, pair)} ({score.heaviest:.0%})"
        for (pair, detector), score in scores.items()
        if score.heaviest > DOMINANT and len(metric.levels_of(pair)) > 1
    ]
    if heavy:
        shown = listing(heavy[:SHOWN]) + (f" and {len(heavy) - SHOWN} more" * (len(heavy) > SHOWN))
        lines.append(
            f"The mixture weights levels by 1 / standard deviation, so a level of {metric.factor} "
            "whose runs hardly differ can dominate, and the score then depends on epsilon; here "
            f"for {shown}."
        )
    senseless = [
        f"{detector} on {pair_label(metric, pair)}"
        for (pair, detector), score in scores.items()
        if not math.isfinite(score.value)
    ]
    if senseless:
        lines.append(f"No score where the mean is not above 0: {listing(senseless[:SHOWN])}.")
    if state_spreads(metric.cells):
        lines.append(
            "Standard deviations are those stated in the table, which does not say whether they "
            "were divided by N or N - 1."
        )
    if metric.epsilon == "published":
        lines.append("With the published epsilon the weights add up to a little less than one.")
    return tuple(lines)


def missing(metric: ScoredMetric) -> tuple[str, ...]:
    """What the table says itself, and the gaps that it does not mention."""
    stated = metric.results.missing
    by_level: dict[str, int] = {}
    by_pair: Counter[Pair] = Counter()
    for (pair, level), wanted in metric.wanted.items():
        by_level[level] = max(wanted, by_level.get(level, 0))
        by_pair[pair] += wanted
    lines = list(missing_lines(stated, sum(by_level.values())))
    for pair in metric.pairs:
        for detector in metric.detectors:
            lacks = metric.lacking(pair, detector)
            known = any(
                part.detector in ("", detector) and part.dataset in ("", pair.ood, pair.id)
                for part in stated
            )
            if lacks and not known:
                levels = ", ".join(level for level in lacks if level)
                where = f" ({metric.factor} {levels})" if levels else ""
                lines.append(
                    f"{detector} on {pair_label(metric, pair)}: {sum(lacks.values())} of "
                    f"{by_pair[pair]} values {'is' if sum(lacks.values()) == 1 else 'are'} "
                    f"missing{where}; not scored"
                )
    return tuple(lines)


def facts(metric: ScoredMetric) -> tuple[tuple[str, str], ...]:
    """What was done."""
    per_level = sorted(set(metric.wanted.values()))
    outliers = {pair.ood for pair in metric.pairs if pair.ood}
    id_sets = list(dict.fromkeys(pair.id for pair in metric.pairs if pair.id))
    lines = [
        ("metric", metric_label(metric)),
        ("factor", metric.factor or "none"),
        ("levels", ", ".join(level for level in metric.levels if level) or "none"),
        ("runs per level", "–".join(map(str, dict.fromkeys((per_level[0], per_level[-1]))))),
        ("detectors", str(len(metric.detectors))),
        *((("outlier sets", str(len(outliers))),) if outliers else ()),
        ("means and variances in", unit(metric)),
        *((("epsilon", "as published"),) if metric.epsilon == "published" else ()),
    ]
    named = ", ".join(id_sets) if len(id_sets) <= SHOWN else str(len(id_sets))
    return ((("in-distribution data", named),) if id_sets else ()) + tuple(lines)
