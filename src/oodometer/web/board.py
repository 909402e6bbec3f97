"""The leaderboard of a study by any metric: the same statistics as in its report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from oodometer import metrics
from oodometer.errors import UserError
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
    best_rank: int | None  # plausible ranks, from
    worst_rank: int | None  # to
    group: str  # letters: two detectors without a common one can be separated
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
) -> Board:
    """Compare the detectors of a study by their values, on one outlier set or on all.

    Intervals are over training runs where there are several, else over outlier sets.
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
    higher = metrics.METRICS[metric].higher_is_better
    made = [_row(name, own, standing) for name, own in by_detector.items()]
    made.sort(key=lambda row: -row.value if higher else row.value)
    return Board(tuple(made), "" if standing is None else standing.scope, left_out)


def _same_in_all_runs(own: Sequence[tuple[Result, float]]) -> bool:
    """Whether runs say nothing of retraining a detector: a network of its own serves all of them.

    Such a detector has a mean, but neither an interval nor plausible ranks.
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
        return BoardRow(name, mean, None, None, None, None, "", len(runs), len(sets), mark)
    place = standing.detectors.index(name)
    mean_ = standing.means[name]
    bare = mean_.low == mean_.high == mean_.value
    first, last = standing.board.ranks[place]
    return BoardRow(
        name,
        mean_.value,
        None if bare else mean_.low,
        None if bare else mean_.high,
        first,
        last,
        standing.board.letters[place],
        len(runs),
        len(sets),
        mark,
    )
