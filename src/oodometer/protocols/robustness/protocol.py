"""Which detector varies least over optimizers, and how certain is that?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oodometer.finding import Claim, Finding, Table
from oodometer.protocols.common.sources import left_out_claims, retrained
from oodometer.protocols.common.words import missing_lines
from oodometer.protocols.robustness.answer import answer
from oodometer.protocols.robustness.claims import best_mean, by_pair, claims
from oodometer.protocols.robustness.notes import caveats, facts, missing
from oodometer.protocols.robustness.scored import ScoredMetric, arrange, conditions
from oodometer.protocols.robustness.views import (
    level_tables,
    metric_tables,
    moment_tables,
    run_strips,
    score_map,
    score_table,
)
from oodometer.results import Results, results
from oodometer.scores import ScoreTable
from oodometer.stats.mixture import Epsilon

MANY_SETS = 8  # beyond, moments and single runs on each of several data sets are not shown
MANY_LEVELS = 50  # beyond, moments under each level are not shown
MORE_FACTORS = 4  # beside the first, whose scores are shown without claims
METRICS = ("fpr95", "detection_error", "auroc", "aupr_out", "aupr_in")  # as the paper's tables


def robustness(table: ScoreTable, rng: np.random.Generator) -> Finding:
    """Measure how much each detector varies over optimizers, and which optimizer varies least.

    By FPR@95TPR, as in the paper; its other metrics stand beside it.
    """
    if not any(True for _ in table.pairs()):
        text = "Robustness is unknown: no detector has scores of the ID set and an outlier set."
        return Finding(
            protocol="robustness",
            title="Robustness",
            question="Which detector varies least if another optimizer is used?",
            claims=(Claim(text, "undecided", "nothing was scored"),),
            missing=missing_lines(table.missing, len(table.runs)),
        )
    table, shared = retrained(table, "Robustness")
    first, *others = (results(table, metric) for metric in METRICS)
    return robustness_of(first, *others, shared=shared)


def robustness_of(
    first: Results,
    *others: Results,
    factor: str | None = None,
    epsilon: Epsilon = "printed",
    shared: Sequence[str] = (),
) -> Finding:
    """Robustness score of any results table, over any factor; claims are about the first metric.

    `factor`: what takes the optimizer's place; by default the optimizer if it was varied, else the
    first condition that was, and scores over the other conditions stand beside it. `epsilon`: the
    equations as printed, or as the published tables were computed. `shared` names detectors that
    were left out because some training runs share their scores. Abdelzad, Czarnecki and Salay 2020.
    """
    each = arrange(first, factor, epsilon)  # by data set
    metrics = [
        one.over_data_sets()
        for one in (each, *(arrange(other, each.factor or None, epsilon) for other in others))
    ]
    metric = metrics[0]
    varied = len(metric.levels) > 1
    few = len(each.pairs) <= MANY_SETS
    more = [name for name in conditions(first) if factor is None and name != metric.factor]
    beside = [
        score_table(arrange(first, name, epsilon).over_data_sets(), name)
        for name in more[:MORE_FACTORS]
    ]
    readable = (few or metric.within is None) and len(each.levels) <= MANY_LEVELS
    moments = moment_tables(each) if readable else ()
    own = by_pair(metric) if varied else []
    means = best_mean(metric, own)
    return Finding(
        protocol="robustness",
        title=f"Robustness over {metric.factor}" if metric.factor else "Robustness",
        question=f"Which detector varies least if another {metric.factor or 'condition'} is used, "
        "and is it the same on every set?",
        claims=(
            *(claims(metrics, own, means) if varied else _claim_nothing_varied(metric)),
            *left_out_claims(shared, f"How far another {metric.factor} changes a detector"),
        ),
        tables=(*(_tables(each, metrics, beside) if varied else beside), *moments),
        series=(score_map(each), *((run_strips(each),) if few else ())) if varied else (),
        caveats=caveats(metric) if varied else (),
        missing=missing(each),
        facts=facts(each),
        answer=answer(metric, own, means) if varied else "",
    )


def _tables(
    each: ScoredMetric, metrics: Sequence[ScoredMetric], beside: Sequence[Table]
) -> list[Table]:
    """The scores of all metrics: by detector, and by level or data set where that can be read."""
    metric = metrics[0]
    by_level = metric.within is None and not metric.is_over_repeats  # see _claim_levels
    of_sets = (
        [] if metric.within is None or len(each.pairs) > MANY_SETS else [score_table(each, "sets")]
    )
    levels = list(level_tables(metric)) if by_level else []
    others = [
        table for one in metrics[1:] if by_level for table in level_tables(one, one.results.metric)
    ]
    return [score_table(metric), *of_sets, *levels, *beside, *metric_tables(metrics), *others]


def _claim_nothing_varied(metric: ScoredMetric) -> list[Claim]:
    if not metric.factor:
        text = "Robustness is unknown: nothing was varied between runs."
        return [Claim(text, "undecided", "a factor with at least two levels is needed")]
    text = f"Robustness over {metric.factor} is unknown: there is only one {metric.factor}, "
    return [Claim(f"{text}{metric.levels[0]}.", "undecided", "at least two levels are needed")]
