"""Columns that tell no more about runs than others do: names for them, or finer ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from oodometer.factors import LABELS, TITLES, are_checkpoints, by_title, plain
from oodometer.results import NOT_GIVEN
from oodometer.tables.cells import numeric_share
from oodometer.tables.lines.levels import count_levels, determines, id_column
from oodometer.tables.vocabulary.titles import (
    JOB_TITLES,
    REPEAT_TITLES,
    mentions_setting,
    repeat_name,
)

if TYPE_CHECKING:
    import pandas as pd

RUN_TITLES = REPEAT_TITLES | JOB_TITLES
_DATE = re.compile(r"(?:19|20)\d\d-\d\d(?:-\d\d|$)")
_CROSSED = 0.5  # of all pairs of detectors and levels: more, and they were combined on purpose


def reason_as_name(frame: pd.DataFrame, column: str, others: list[str]) -> str:
    """Say which other columns one is merely a name for, if it is."""
    parts = _parts(frame, column, others)
    if len(parts) < 2:
        return f"determined by {parts[0]}" if parts else ""
    return f"determined by {', '.join(parts[:-1])} and {parts[-1]} together"


def reason_as_finer(frame: pd.DataFrame, column: str, others: list[str]) -> str:
    """Say which condition, shared by detectors, tells lines apart as well as a finer one.

    Such is the tier of tuning, default or tuned, beside what was found by tuning on each set.
    """
    title = plain(column)
    known = title in {*TITLES, *LABELS, *RUN_TITLES} or "noise" in title or "train" in title
    if known or not are_as_distinct(frame, others, column):
        return ""
    shared = [c for c in others if plain(c) not in RUN_TITLES and _is_crossed(frame, c)]
    coarser = [c for c in shared if count_levels(frame, c) < count_levels(frame, column)]
    coarser = [c for c in coarser if determines(frame, column, c)]
    return f"finer than {coarser[0]}" if coarser else ""


def reason_beside_another(frame: pd.DataFrame, column: str, others: list[str]) -> str:
    """Say which other column determines a condition, if one does."""
    if plain(column) in RUN_TITLES:
        return _reason_as_label(frame, column, others)
    repeats = [
        c
        for c in others
        if plain(c) in JOB_TITLES or by_title(c, frame[c].unique()).kind == "repeat"
    ]
    levels = frame[column].unique()  # the names or dates of runs that are numbered, too
    named = are_checkpoints(levels) or all(map(_DATE.match, levels))
    same = [c for c in repeats if named or (frame[c] == frame[column]).all()]
    for other in [*(c for c in others if c not in repeats), *id_column(frame), *same]:
        finer = frame[other].nunique() >= frame[column].nunique()
        if finer and determines(frame, other, column):
            return f"determined by {other}"
    return ""


def reason_as_outcome(frame: pd.DataFrame, column: str, others: list[str]) -> str:
    """Say that numbers were found in each run on each data set, such as how many are anomalies.

    What was planned comes again and again, and not with one seed only.
    """
    known = plain(column) in {*TITLES, *LABELS, *RUN_TITLES} or mentions_setting(column)
    repeats = [c for c in others if by_title(c, frame[c].unique()).kind == "repeat"]
    if known or not repeats or numeric_share(frame[column].unique()) < 1:
        return ""
    runs = frame.groupby([*id_column(frame), "ood", *repeats])[column].nunique()
    alike = frame.groupby([*id_column(frame), "ood"])[column].nunique().min() == 1
    scattered = 2 * count_levels(frame, column) > len(runs)
    return "another one in each run" if runs.max() == 1 and scattered and not alike else ""


def partly_given(frame: pd.DataFrame, factors: list[str]) -> list[str]:
    """Name columns that are empty on some lines and keep detectors apart in a complete table.

    Such is the weight of classes, where each line has what was found best: lines are told apart
    without it.
    """
    left: list[str] = []
    for column in factors:
        known = plain(column) in {*TITLES, *LABELS} or "noise" in plain(column)
        if known or NOT_GIVEN not in frame[column].unique():
            continue
        others = [c for c in factors if c != column and c not in left]
        cell = [c for c in ("id", "ood", "metric", *others) if c in frame.columns]
        if frame.duplicated(["detector", *cell]).any():
            continue
        detectors = count_levels(frame, "detector")
        complete = frame.groupby(cell)["detector"].nunique().min() == detectors
        apart = frame.groupby([*cell, column])["detector"].nunique().min() < detectors
        left += [column] * bool(complete and apart)
    return left


def _reason_as_label(frame: pd.DataFrame, column: str, others: list[str]) -> str:
    """Say which condition or data set the name of a run merely repeats, one name for each."""
    is_name = repeat_name(column) in ("run", None) and not all(map(str.isdigit, frame[column]))
    known = [c for c in others if plain(c) not in RUN_TITLES] + id_column(frame)
    twins = [c for c in known if is_name and _determine_each_other(frame, column, c)]
    return f"determined by {twins[0]}" if twins else ""


def _parts(frame: pd.DataFrame, column: str, others: list[str]) -> list[str]:
    """Name the columns that together say what one says alone, which is a name for them.

    Such are the number of a job, the name of a run, and that of a configuration. A seed is more
    than a name, and what labels were trained on is known by that name only.
    """
    title = plain(column)
    is_known = title in TITLES and title not in RUN_TITLES  # an epoch, a patient
    if is_known or "noise" in title or "train" in title or repeat_name(column) not in (None, "run"):
        return []
    if title in RUN_TITLES:
        repeats = [other for other in others if plain(other) in REPEAT_TITLES]
        same = [other for other in repeats if _determine_each_other(frame, column, other)]
        if same or (title in REPEAT_TITLES and not repeats):
            return same[:1]
    finest = count_levels(frame, column)
    known = [*others, *(name for name in id_column(frame) if count_levels(frame, name) > 1)]
    parts = [c for c in known if count_levels(frame, c) < finest and determines(frame, column, c)]
    alike = len(parts) > 1 and len(frame[parts].drop_duplicates()) == finest
    return parts if alike else []


def are_as_distinct(frame: pd.DataFrame, columns: list[str], other: str) -> bool:
    """Whether lines are told apart by some columns as well as with another one."""
    cell = ["detector", *id_column(frame), "ood", "metric", *columns]
    return bool(frame.duplicated(cell).sum() == frame.duplicated([*cell, other]).sum())


def _is_crossed(frame: pd.DataFrame, column: str) -> bool:
    """Whether most detectors were measured at most levels of a column."""
    pairs = len(frame[["detector", column]].drop_duplicates())
    return pairs > _CROSSED * count_levels(frame, "detector") * count_levels(frame, column)


def _determine_each_other(frame: pd.DataFrame, column: str, other: str) -> bool:
    return determines(frame, column, other) and determines(frame, other, column)
