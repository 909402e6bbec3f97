"""Which detector is best, how certain is that, and does the answer survive retraining?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oodometer.errors import unknown
from oodometer.finding import Claim, Finding, Table, folded, themed
from oodometer.protocols.common.cases import Cases, cases_of, scopes_of
from oodometer.protocols.common.differences import has_shares
from oodometer.protocols.common.score_cases import ScoreCases, score_cases
from oodometer.protocols.common.sources import with_fewer_cases
from oodometer.protocols.common.words import missing_lines
from oodometer.protocols.ranking import notes, score_views, value_views
from oodometer.protocols.ranking.answer import answer
from oodometer.protocols.ranking.claims import first_claims, order_claims, retraining_claim
from oodometer.protocols.ranking.factors import score_factor_claims, value_factor_claims
from oodometer.protocols.ranking.order_views import (
    critical_differences,
    leaderboard_tables,
    leaderboards,
    rank_table,
)
from oodometer.protocols.ranking.power import power_claims, runs_for_best, runs_for_ours
from oodometer.protocols.ranking.score_curves import histograms, risk_curves, roc_curves
from oodometer.protocols.ranking.sets import (
    OnSets,
    Without,
    baseline_claims,
    chance_claims,
    left_out_claims,
    lost_sets,
    on_each_set,
    set_claims,
    set_table,
    without_each_set,
)
from oodometer.protocols.ranking.shares import (
    range_claims,
    ranges_of,
    set_share_claims,
    share_claims,
    shares_of,
)
from oodometer.protocols.ranking.standing import (
    Contest,
    contest_of_scores,
    contest_of_values,
)
from oodometer.protocols.ranking.unpaired import spread_claims
from oodometer.results import Results, results
from oodometer.scores import ScoreTable
from oodometer.stats.variance import VarianceShares


def ranking(table: ScoreTable, rng: np.random.Generator, ours: str = "") -> Finding:
    """Compare detectors by AUROC over all runs: intervals, ranks, and what retraining changes.

    `ours` names the detector whose comparisons with all others are declared in advance.
    """
    _require(ours, table.detectors)
    field = score_cases(table)
    contest = contest_of_scores(field, ours)
    values = _values_of(field)
    on_sets, without = on_each_set(contest), without_each_set(contest)
    shares = shares_of(values, rng)
    tied, fewer = _tied(contest), with_fewer_cases(field.sources)  # more runs are no more of these
    needed = runs_for_best(values, () if {contest.leader, *tied} & {*fewer} else tied)
    for_ours = runs_for_ours(values, contest.ours, contest.case)
    claims, tables = _explained(values, shares, power_claims(values, needed, contest.case), rng)
    factors = score_factor_claims(field, contest.is_decided)
    many = len(field.training_runs) > 1
    return Finding(
        protocol="ranking",
        title="Which detector is best, and how certain is that?",
        question="Would "
        + ("another training run of the same classifier" if many else "other test samples")
        + " agree?",
        claims=_folded(
            contest,
            *order_claims(contest, for_ours),
            *themed("missing", retraining_claim(contest)),
            *_set_claims(contest, on_sets, without),
            *themed("changes", [*factors.flips, *factors.others]),
            *claims,
        ),
        tables=_present(
            score_views.auroc_table(field, contest),
            *leaderboard_tables(contest, for_ours),
            rank_table(contest),
            set_table(contest, on_sets),
            score_views.metric_table(field, contest),
            *tables,
        ),
        series=(
            *leaderboards(contest),
            score_views.intervals(field, contest),
            *((score_views.rank_map(field),) if len(field.runs) > 1 else ()),
            *score_views.rank_lines(field),
            *critical_differences(contest),
            *score_views.strips(field),
            *value_views.share_bars(values, shares),
            *roc_curves(field),
            *risk_curves(field),
            *histograms(field),
            *score_views.gaps(field),
        ),
        caveats=notes.score_caveats(field, ours),
        missing=missing_lines(
            [part for part in table.missing if part.failure],
            len(table.runs),
        ),
        facts=notes.score_facts(field, ours),
        answer=answer(contest, on_sets, without, needed, factors.flips, is_trained_once=not many),
    )


def ranking_of(table: Results, rng: np.random.Generator, ours: str = "") -> Finding:
    """Compare detectors by the values of a results table, in every scope that it allows."""
    _require(ours, table.detectors)
    scopes = scopes_of(table)
    field = scopes[0]
    contest = contest_of_values(scopes, ours)
    on_sets, without = on_each_set(contest), without_each_set(contest)
    shares = shares_of(field, rng)
    factors = value_factor_claims(field, contest.is_decided)
    needed = runs_for_best(field, _tied(contest))
    for_ours = runs_for_ours(field, contest.ours, contest.case)
    claims, tables = _explained(field, shares, power_claims(field, needed, contest.case), rng)
    return Finding(
        protocol="ranking",
        title=f"Which detector has the best {field.metric}, and how certain is that?",
        question="Would other runs, or other sets, give the same order?",
        claims=_folded(
            contest,
            *order_claims(contest, for_ours),
            *_set_claims(contest, on_sets, without),
            *themed("changes", [*factors.flips, *factors.others]),
            *claims,
            *themed("missing", spread_claims(table)),
        ),
        tables=_present(
            value_views.mean_table(field, contest),
            *leaderboard_tables(contest, for_ours),
            rank_table(contest),
            value_views.set_table(field),
            set_table(contest, on_sets),
            *tables,
        ),
        series=(
            *leaderboards(contest),
            value_views.rank_map(field),
            *critical_differences(contest),
            *value_views.strips(field),
            *value_views.share_bars(field, shares),
            *value_views.gaps(field),
        ),
        caveats=notes.value_caveats(field, ours),
        missing=missing_lines(table.missing, len(field.names)),
        facts=notes.value_facts(field, ours),
        answer=answer(
            contest,
            on_sets,
            without,
            needed,
            factors.flips,
            is_trained_once=_is_one_run(field),
            is_second="runs" in table.frame.columns,
            kept=notes.kept_part(field),
        ),
    )


def _is_one_run(field: Cases) -> bool:
    """Whether all values come from one training run, as far as the table says."""
    is_one = field.unit in ("outlier set", "part") and len(field.cells.ids) == 1
    return is_one and not field.results.are_means


def _require(ours: str, detectors: Sequence[str]) -> None:
    if ours and ours not in detectors:
        raise unknown("detector, named by 'ours':", ours, detectors)


def _folded(contest: Contest, *claims: Claim) -> tuple[Claim, ...]:
    """Tell as one what the cases leave open."""
    tried = contest.tried
    return folded(claims, f"{tried[0].upper()}{tried[1:]}", 3)


def _tied(contest: Contest) -> tuple[str, ...]:
    return () if contest.main is None else tuple(contest.main.tied)


def _present(*tables: Table | None) -> tuple[Table, ...]:
    return tuple(table for table in tables if table is not None)


def _values_of(field: ScoreCases) -> Cases:
    """The AUROCs of the same detectors, in the same order."""
    return cases_of(results(field.table), field.detectors)


def _set_claims(contest: Contest, on_sets: OnSets, without: Without) -> list[Claim]:
    """What single cases and single sets change."""
    changes = [
        *first_claims(contest),
        *set_claims(contest, on_sets),
        *left_out_claims(contest, without),
        *chance_claims(contest, lost_sets(contest)),
    ]
    return [*baseline_claims(contest, on_sets), *themed("changes", changes)]


def _explained(
    field: Cases,
    shares: Mapping[str, VarianceShares],
    missing: Sequence[Claim],
    rng: np.random.Generator,
) -> tuple[list[Claim], list[Table | None]]:
    """What explains the variance over runs, and what more would decide what is open."""
    ranges = {} if shares else ranges_of(field)
    claims = [
        *themed(
            "explains",
            [
                *set_share_claims(field),
                *share_claims(field, shares, rng),
                *range_claims(ranges, are_shares=has_shares(field.results)),
            ],
        ),
        *themed("missing", missing),
    ]
    tables = [
        value_views.share_table(field, shares),
        value_views.range_table(field, ranges),
        *value_views.order_tables(field),
    ]
    return claims, tables
