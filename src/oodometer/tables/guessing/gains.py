"""Columns of differences to others, which are no results; something called Delta may have some."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from oodometer.factors import plain, words_of
from oodometer.tables.cells import value_of
from oodometer.tables.frames.differences import (
    are_gains,
    is_difference,
    words_beside_difference,
    words_of_difference,
)
from oodometer.tables.guessing.likeness import are_decimals
from oodometer.tables.lines.summaries import are_results
from oodometer.tables.vocabulary.measures import metric_named, without_metric
from oodometer.tables.vocabulary.statistics import OTHER_STATISTICS, is_qualifier

if TYPE_CHECKING:
    import pandas as pd

_LOOKED_AT = 500  # lines
_PLACES = 3  # decimals that must agree
_NAME = "delta"  # the word for differences that also names detectors and data sets


def holds_differences(
    frame: pd.DataFrame, column: str, columns: Sequence[str], *, asked: bool
) -> bool:
    """Whether a column holds differences to others, by its signs or by its title.

    Signs say nothing where the user `asked` for all numbers. Among titles such as "AUROC MSP", the
    numbers decide whether "AUROC Delta" is one of those that are compared.
    """
    if not asked and are_gains(frame[column].tolist()):
        return True
    if words_of_difference(column) and _stands_beside(column, columns):
        return True
    if _are_to_one_line(frame, column, columns):
        return True
    if not is_difference(column):
        return False
    metric = metric_named(column)
    others = [c for c in columns if metric_named(c) == metric and not is_difference(c)]
    named = [c for c in others if without_metric(c)]
    if metric is None or len(named) < 2 or not _may_be_name(without_metric(column)):
        return True
    return not is_one_of(frame, column, named)


def _are_to_one_line(frame: pd.DataFrame, column: str, columns: Sequence[str]) -> bool:
    """Whether numbers are those of another column less one of its own: 0 where that stands."""
    own = np.array([value_of(text) for text in frame[column].iloc[:_LOOKED_AT]])
    if not (own == 0).any() or not (own < 0).any():
        return False
    others = [c for c in columns if c != column and are_decimals(frame[c])]
    for other in others:
        values = np.array([value_of(text) for text in frame[other].iloc[:_LOOKED_AT]])
        less = {*np.round(values - own, _PLACES)}
        near = all(np.abs(values - one).min() < 2 * 10.0**-_PLACES for one in less)
        if near and 2 * len(less) <= len(own) and not (values < 0).any():
            return True
    return False


def _stands_beside(column: str, columns: Sequence[str]) -> bool:
    """Whether a title is that of another column with a word for differences: MSP, MSP drop.

    What is added with a plus is a part of a variant: ResNet+GAP, with a pooling called so.
    """
    said = words_of_difference(column)
    said -= {word for word in said if re.search(rf"(?i)\+\s*{word}(?!\w)", column)}
    if not said:
        return False
    rest = [w for w in re.split(r"[\W_]+", column) if w and plain(w) not in said]
    return bool(rest) and plain("".join(rest)) in {plain(c) for c in columns if c != column}


def is_one_of(frame: pd.DataFrame, column: str, others: Sequence[str]) -> bool:
    """Whether a column called like a statistic holds results like several others do."""
    if len(others) < 2:
        return False
    own, *rest = ([value_of(text) for text in frame[c]] for c in (column, *others))
    return are_results(np.array(own), np.array(rest))


def _may_be_name(text: str) -> bool:
    """Whether words may name something though one is that for differences: Delta, delta-x.

    Two others make a name of their own: max probability difference.
    """
    words = words_of(text)
    several = len(words_beside_difference(text)) > 1
    return several or (_NAME in words and not is_difference(text))


def beside_statistic(what: str) -> str:
    """Return the words of a name that are none of statistics or forms of a metric, as one.

    >>> beside_statistic("Max Logit"), beside_statistic("CI 95 low")
    ('logit', '')
    """
    words = [plain(word) for word in what.split() if not is_qualifier(word)]
    return "".join(w for w in words if w not in OTHER_STATISTICS and not w.isdigit())
