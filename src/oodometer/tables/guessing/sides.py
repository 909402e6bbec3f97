"""Data sets on two sides of a table, in a column and in titles: which are the outliers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oodometer.tables.guessing.likeness import wide_names
from oodometer.tables.guessing.roles import Roles
from oodometer.tables.vocabulary.data_names import are_outliers_first
from oodometer.tables.vocabulary.titles import names_outliers

if TYPE_CHECKING:
    import pandas as pd


def part_sets(frame: pd.DataFrame, column: str, roles: Roles) -> None:
    """Say whether a column names the ID sets and titles the outliers, or the other way round."""
    names = frame[column].unique().tolist()
    if names_outliers(column) or are_outliers_first(names, wide_names(roles)):
        roles.ood, roles.sets = column, "id"
    else:
        roles.id, roles.ood = column, None


def part_columns(frame: pd.DataFrame, columns: Sequence[str], roles: Roles) -> bool:
    """Find the ID sets and the outliers in two columns without titles, if their names tell."""
    if len(columns) != 2:
        return False
    first, second = (frame[column].unique().tolist() for column in columns)
    if are_outliers_first(first, second) or are_outliers_first(second, first):
        roles.ood, roles.id = columns if are_outliers_first(first, second) else columns[::-1]
    return roles.ood is not None
