"""The leaderboard of a study by any metric; what its report says of the order, nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oodometer import metrics
from oodometer.errors import UserError
from oodometer.finding import Finding
from oodometer.protocols.common.cases import scopes_of
from oodometer.protocols.ranking.standing import Standing, contest_of_values
from oodometer.results import Results
from oodometer.study.fields import factor_of
from oodometer.web.queries import Result, StudyEntry


@dataclass(frozen=True)
class BoardRow:
    """A detector in a leaderboard."""

    detector: str
    value: float
    low: float | None  # of the 95% interval; None: nothing varies that could give one
    high: float | None
    ranks: str  # plausible ones, as the study's report says; empty: it does not
    group: str  # letters: two detectors without a common one can be separated; likewise
    runs: int
    sets: int
    mark: str  # "imported", "submitted", or empty: made here


@dataclass(frozen=True)
class Board:
    """Detectors of one study by one metric, the best first."""

    rows: tuple[BoardRow, ...]
    scope: str  # what intervals and groups are about, such as "after retraining"
    left_out: tuple[str, ...] = ()  # runs whose classifier did not learn


def board_of(
    entry: StudyEntry,
    found: Iterable[Result],
    metric: str,
    *,
    ood: str = "",
    without: Sequence[str] = (),
    findings: Sequence[Finding] = (),
) -> Board:
    """List the detectors of a study by their values, on one outlier set or on all.

    Intervals are over training runs where there are several, else over outlier sets. Means of AUROC
    over all sets are those of the study's findings where it has them, with ranks and groups: these
    know the scores, too, and a page must not separate what the report does not.
    """
    rows = [
        (result, value)
        for result in found
        if (value := result.values[metric]) is not None
        and result.run not in without
        and (not ood or result.ood == ood)
    ]
    left_out = tuple(sorted(without))
    if not rows:
        return Board((), "", left_out)
    by_detector: dict[str, list[tuple[Result, float]]] = {}
    for result, value in rows:
        by_detector.setdefault(result.detector, []).append((result, value))
    varied = [
        (result, value)
        for name, own in by_detector.items()
        if not _same_in_all_runs(own)
        for result, value in own
    ]
    standing = _standing(entry, varied, metric)
    concluded = _concluded(findings) if metric == "auroc" and not ood else {}
    higher = metrics.METRICS[metric].higher_is_better
    made = [_row(name, own, standing) for name, own in by_detector.items()]
    made = [replace(row, **concluded.get(row.detector, {})) for row in made]
    made.sort(key=lambda row: -row.value if higher else row.value)
    return Board(tuple(made), "" if standing is None else standing.scope, left_out)


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


def _same_in_all_runs(own: Sequence[tuple[Result, float]]) -> bool:
    """Whether runs say nothing of retraining a detector: a network of its own serves all of them.

    Such a detector has a mean, but no interval.
    """
    by_set: dict[str, list[float]] = {}
    for result, value in own:
        by_set.setdefault(result.ood, []).append(value)
    several = max(map(len, by_set.values())) > 1
    return several and all(len(set(values)) == 1 for values in by_set.values())


def _standing(
    entry: StudyEntry, rows: Sequence[tuple[Result, float]], metric: str
) -> Standing | None:
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
    try:
        table = Results(
            pd.DataFrame(columns),
            tuple(factor_of(field) for field in fields),
            metric,
            metrics.METRICS[metric].higher_is_better,
        )
        return contest_of_values(scopes_of(table), "").main
    except UserError:  # too little yet to compare
        return None


def _row(name: str, own: Sequence[tuple[Result, float]], standing: Standing | None) -> BoardRow:
    runs, sets = {result.run for result, _ in own}, {result.ood for result, _ in own}
    mark = next((result.mark for result, _ in own if result.mark), "")
    if standing is None or name not in standing.detectors:
        mean = float(np.mean([value for _, value in own]))
        return BoardRow(name, mean, None, None, "", "", len(runs), len(sets), mark)
    mean_ = standing.means[name]
    bare = mean_.low == mean_.high == mean_.value
    return BoardRow(
        name,
        mean_.value,
        None if bare else mean_.low,
        None if bare else mean_.high,
        "",
        "",
        len(runs),
        len(sets),
        mark,
    )
