"""Which detector is best, how certain is that, and does the answer survive retraining?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oodometer.finding import Claim, Finding, Table
from oodometer.protocols.common.cases import Cases, cases_of
from oodometer.protocols.common.score_cases import ScoreCases, score_cases
from oodometer.protocols.common.views import difference_table
from oodometer.protocols.common.words import missing_lines
from oodometer.protocols.ranking import score_claims, score_views, value_claims, value_views
from oodometer.protocols.ranking.factors import score_factor_claims, value_factor_claims
from oodometer.protocols.ranking.power import power_claims
from oodometer.protocols.ranking.shares import (
    dominance_claims,
    range_claims,
    ranges_of,
    set_share_claims,
    share_claims,
    shares_of,
)
from oodometer.protocols.ranking.unpaired import spread_claims
from oodometer.results import Results, results
from oodometer.scores import ScoreTable
from oodometer.stats.variance import VarianceShares


def ranking(table: ScoreTable, rng: np.random.Generator) -> Finding:
    """Compare detectors by AUROC over all runs: intervals, ranks, and what retraining changes."""
    field = score_cases(table)
    differences = score_claims.score_differences(field)
    tied = value_claims.tied_with_best(differences)
    many = len(field.training_runs) > 1
    values = _values_of(field)
    shares = shares_of(values, rng)
    claims, tables = _explained(values, shares, tied, rng)
    ahead = difference_table(field.detectors[0], "mean AUROC", differences)
    return Finding(
        protocol="ranking",
        title="Which detector is best, and how certain is that?",
        question="Which detector is best, and would "
        + ("another training run of the same classifier" if many else "other test samples")
        + " agree?",
        claims=(
            *score_claims.best_claims(field, differences),
            *score_claims.baseline_claims(field),
            *score_claims.set_claims(field),
            *score_factor_claims(field, decided=not tied),
            *claims,
        ),
        tables=(
            score_views.auroc_table(field),
            *((score_views.rank_table(field),) if many else ()),
            *((ahead,) if ahead and many else ()),
            *tables,
        ),
        series=(
            score_views.intervals(field),
            *((score_views.rank_map(field),) if len(field.runs) > 1 else ()),
            *score_views.strips(field),
        ),
        caveats=score_claims.score_caveats(field),
        missing=missing_lines(
            [part for part in table.missing if not part.setting and not part.lasting],
            len(table.runs),
        ),
        facts=score_claims.score_facts(field),
    )


def ranking_of(table: Results, rng: np.random.Generator) -> Finding:
    """Compare detectors by the values of a results table: one per run, or per outlier set."""
    field = cases_of(table)
    differences = value_claims.value_differences(field, rng)
    tied = value_claims.tied_with_best(differences)
    decided = value_claims.is_decided(differences)
    shares = shares_of(field, rng)
    best = value_claims.best_claims(field, differences, rng)
    on_sets = value_claims.set_claims(field, decided, rng)
    by_factor = value_factor_claims(field, decided, rng)
    claims, tables = _explained(field, shares, tied, rng)
    shown = (
        value_views.mean_table(field),
        value_views.rank_table(field, rng),
        difference_table(field.detectors[0], f"{field.metric} per {field.case}", differences),
        value_views.set_table(field),
        *tables,
    )
    return Finding(
        protocol="ranking",
        title=f"Which detector has the best {field.metric}, and how certain is that?",
        question="Would other runs, or other outlier sets, give the same order?",
        claims=(*best, *on_sets, *by_factor, *claims, *spread_claims(table)),
        tables=tuple(table for table in shown if table is not None),
        series=(
            *value_views.intervals(field),
            value_views.rank_map(field),
            *value_views.strips(field),
        ),
        caveats=value_claims.value_caveats(field),
        missing=missing_lines(table.missing, len(field.names)),
        facts=(
            ("metric", field.metric),
            ("detectors", str(len(field.detectors))),
            *((("data sets", str(len(field.cells.ids))),) if field.unit == "data set" else ()),
            ("runs", str(len(field.training_runs))),
            ("outlier sets", str(len({pair.ood for pair in field.cells.pairs}))),
        ),
    )


def _values_of(field: ScoreCases) -> Cases:
    """The AUROCs of the same detectors, in the same order."""
    return cases_of(results(field.table), field.detectors)


def _explained(
    field: Cases,
    shares: Mapping[str, VarianceShares],
    tied: Sequence[str],
    rng: np.random.Generator,
) -> tuple[list[Claim], list[Table]]:
    """What explains the variance over runs, and how many runs would decide what is open."""
    ranges = {} if shares else ranges_of(field)
    claims = [
        *set_share_claims(field),
        *share_claims(field, shares),
        *dominance_claims(field, shares, rng),
        *range_claims(ranges),
        *power_claims(field, tied),
    ]
    tables = [
        value_views.share_table(field, shares),
        value_views.range_table(field, ranges),
        *value_views.order_tables(field),
    ]
    return claims, [table for table in tables if table is not None]
