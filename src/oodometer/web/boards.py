"""Make the leaderboards of a study; what its report says of the order, nothing else.

This runs where the index is kept up to date, never while a reader waits.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from oodometer import metrics
from oodometer.errors import UserError
from oodometer.finding import Finding
from oodometer.metrics import Estimate
from oodometer.protocols.common.cases import scopes_of
from oodometer.protocols.common.differences import compare_values
from oodometer.protocols.common.learned import unlearned
from oodometer.protocols.common.words import LEVEL
from oodometer.protocols.ranking.standing import turned
from oodometer.results import Results
from oodometer.scores import ScoreTable
from oodometer.study.fields import factor_of
from oodometer.web import queries
from oodometer.web.board import Board, BoardRow, WorstCase
from oodometer.web.index import METRICS
from oodometer.web.queries import Accuracy, Result, StudyEntry

Own = list[tuple[Result, float]]  # of one detector


def put_boards(connection: sqlite3.Connection, entry: StudyEntry) -> None:
    """Replace the leaderboards of a study by those of the results that are known now."""
    found = list(queries.results(connection, entry.number))
    outcome = queries.outcome_of(entry)
    without = unlearned_runs(entry, queries.accuracies(connection, entry.number))
    made = boards_of(entry, found, sorted(without), () if outcome is None else outcome.findings)
    rows = [(entry.number, metric, ood, board.to_json()) for metric, ood, board in made]
    connection.execute("delete from boards where study = ?", (entry.number,))
    connection.executemany("insert into boards values (?, ?, ?, ?)", rows)
    connection.execute(
        "update generations set boards = ? where study = ?", (entry.generation, entry.number)
    )
    connection.execute("update generations set number = number + 1 where study = 0")


def boards_of(
    entry: StudyEntry,
    found: Sequence[Result],
    without: Sequence[str] = (),
    findings: Sequence[Finding] = (),
) -> Iterator[tuple[str, str, Board]]:
    """Every leaderboard of a study, by metric and outlier set (empty: all of them)."""
    kept = [result for result in found if result.run not in without]
    concluded = _concluded(findings)
    for ood in ("", *dict.fromkeys(result.ood for result in kept)):
        own = [result for result in kept if result.ood == ood] if ood else kept
        for metric in METRICS:
            told = concluded if metric == "auroc" and not ood else {}
            yield metric, ood, _board(entry, own, metric, tuple(without), told)


def _board(
    entry: StudyEntry,
    found: Sequence[Result],
    metric: str,
    left_out: tuple[str, ...],
    concluded: dict[str, dict[str, Any]],
) -> Board:
    """List the detectors of a study by their values.

    Intervals are over training runs where there are several, else over outlier sets. Means of AUROC
    over all sets are those of the study's findings where it has them, with ranks and groups: these
    know the scores, too, and a page must not separate what the report does not.
    """
    clean, searched = _by_detector(found, metric)
    means, scope = _means(entry, clean, metric)
    worst: dict[str, list[WorstCase]] = {}
    for variation, found_by in searched.items():
        for name, mean in _means(entry, found_by, metric)[0].items():
            sets = {result.ood for result, _ in found_by[name]}
            samples = max(result.samples for result, _ in found_by[name])
            case = WorstCase(variation, mean.value, *_bounds(mean), len(sets), samples)
            worst.setdefault(name, []).append(case)
    higher = 1 if metrics.METRICS[metric].higher_is_better else -1
    rows = []
    for name, own in clean.items():
        mean = means[name]
        row = BoardRow(
            name,
            mean.value,
            *_bounds(mean),
            ranks="",
            group="",
            runs=len({result.run for result, _ in own}),
            sets=len({result.ood for result, _ in own}),
            mark=next((result.mark for result, _ in own if result.mark), ""),
            worst=tuple(sorted(worst.get(name, ()), key=lambda case: higher * case.value)),
        )
        rows.append(replace(row, **concluded.get(name, {})))
    rows.sort(key=lambda row: -higher * row.value)
    return Board(tuple(rows), scope, left_out)


def _by_detector(
    found: Sequence[Result], metric: str
) -> tuple[dict[str, Own], dict[str, dict[str, Own]]]:
    """Results with their values: of each detector, and by variation what searches found."""
    clean: dict[str, Own] = {}
    searched: dict[str, dict[str, Own]] = {}
    for result in found:
        value = result.values[metric]
        if value is not None:
            place = searched.setdefault(result.variation, {}) if result.variation else clean
            place.setdefault(result.detector, []).append((result, value))
    return clean, searched


def _bounds(mean: Estimate) -> tuple[float | None, float | None]:
    bare = mean.low == mean.high == mean.value
    return (None, None) if bare else (mean.low, mean.high)


def _means(
    entry: StudyEntry, by_detector: dict[str, Own], metric: str
) -> tuple[dict[str, Estimate], str]:
    """Mean of each detector with its interval, and what intervals are about."""
    plain = {name: float(np.mean([value for _, value in own])) for name, own in by_detector.items()}
    means = {name: Estimate(mean, mean, mean) for name, mean in plain.items()}
    varied = [pair for own in by_detector.values() if not _same_in_all_runs(own) for pair in own]
    table = _results(entry, varied, metric)
    if table is None:
        return means, ""
    try:
        field = next((own for own in scopes_of(table) if len(own.names) > 1), None)
    except UserError:  # too little yet to compare
        field = None
    if field is None:
        return means, ""
    intervals = compare_values(field, field.values).intervals(LEVEL)
    for name, mean in zip(field.detectors, intervals, strict=True):
        means[name] = turned(mean, field.sign)
    return means, field.scope


def _results(
    entry: StudyEntry, rows: Sequence[tuple[Result, float]], metric: str
) -> Results | None:
    import pandas as pd

    if not rows:
        return None
    fields = [factor.field for factor in entry.study.factors]
    columns = {
        "detector": [result.detector for result, _ in rows],
        "id": [entry.data] * len(rows),
        "ood": [result.ood for result, _ in rows],
        **{field: [entry.runs[result.run].get(field) for result, _ in rows] for field in fields},
        "value": [value for _, value in rows],
    }
    higher = metrics.METRICS[metric].higher_is_better
    factors = tuple(factor_of(field) for field in fields)
    try:
        return Results(pd.DataFrame(columns), factors, metric, higher)
    except UserError:
        return None


def _concluded(findings: Sequence[Finding]) -> dict[str, dict[str, Any]]:
    """What the findings of a study say about the order: detector -> fields of its row."""
    boards = [s for f in findings for s in f.series if s.kind == "leaderboard"]
    if not boards:
        return {}
    whole = max(boards, key=lambda series: len(series.points))
    return {
        str(point["label"]): {
            "value": point["value"],
            "low": point["low"],
            "high": point["high"],
            "ranks": point.get("plausible ranks", ""),
            "group": point["letters"],
        }
        for point in whole.points
    }


def _same_in_all_runs(own: Own) -> bool:
    """Whether runs say nothing of retraining a detector: a network of its own serves all of them.

    Such a detector has a mean, but no interval.
    """
    by_set: dict[str, list[float]] = {}
    for result, value in own:
        by_set.setdefault(result.ood, []).append(value)
    several = max(map(len, by_set.values())) > 1
    return several and all(len(set(values)) == 1 for values in by_set.values())


def unlearned_runs(entry: StudyEntry, known: dict[str, Accuracy]) -> set[str]:
    """Runs whose classifier did not learn, which no leaderboard counts; see `unlearned`."""
    if entry.study.keep_unlearned or not known:
        return set()
    table = ScoreTable(
        entry.data,
        (),
        entry.runs,
        correct={run: np.arange(samples) < right for run, (right, samples, _) in known.items()},
        chance={run: chance for run, (*_, chance) in known.items()},
        factors=tuple(factor_of(factor.field) for factor in entry.study.factors),
    )
    found = {run for part in unlearned(table) for run in part.runs}
    return found if found < set(entry.runs) else set()
