"""Levels of columns: how many there are, which determine others, which nobody planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.factors import LABELS, TITLES, plain, words_of
from oodometer.tables.cells import numeric_share
from oodometer.tables.vocabulary.titles import mentions_setting

if TYPE_CHECKING:
    import pandas as pd

_LENGTHS = frozenset({"epoch", "epochs", "steps", "iterations", "iters", "rounds"})  # of training


def id_column(frame: pd.DataFrame) -> list[str]:
    """Return the title of the ID set in a list, if there is one."""
    return ["id"] if "id" in frame.columns else []


def count_levels(frame: pd.DataFrame, column: str) -> int:
    """Return how many different levels a column has."""
    return len(frame[column].unique())


def determines(frame: pd.DataFrame, column: str, other: str) -> bool:
    """Whether every level of a column has one level of the other."""
    levels = count_levels(frame, column)
    return levels > 1 and len(frame[[column, other]].drop_duplicates()) == levels


def is_scattered(frame: pd.DataFrame, column: str) -> bool:
    """Whether most detectors have levels that no other has, all of them together."""
    own = frame.groupby("detector")[column].agg(frozenset)
    return len(own) > 2 and 2 * own.nunique() > len(own) and max(map(len, own)) > 2


def is_unplanned(frame: pd.DataFrame, column: str) -> bool:
    """Whether numbers differ from run to run as nobody sets them: scores, epochs until a stop.

    No title says what they are, or it says how long training took; and hardly two runs of a
    detector on the same data share one.
    """
    title = plain(column)
    known = title in TITLES or title in LABELS
    words = words_of(column)
    if known or (mentions_setting(column) and not words & _LENGTHS):
        return False
    cell = ["detector", *id_column(frame), "ood", "metric"]
    return (
        numeric_share(frame[column].unique()) == 1.0
        and is_scattered(frame, column)
        and 2 * frame.duplicated([*cell, column]).sum() < frame.duplicated(cell).sum() + 1
    )
