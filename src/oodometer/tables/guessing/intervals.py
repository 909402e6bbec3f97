"""Columns of confidence intervals: they belong to the results beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.factors import words_of
from oodometer.tables.cells import interval_of, is_gap, numeric_share, read_cell

if TYPE_CHECKING:
    import pandas as pd

INTERVALS = "intervals of results"  # why a column is not used
_WORDS = frozenset({"ci", "cis", "interval", "intervals", "confint", "bounds"})


def are_intervals(frame: pd.DataFrame, column: str) -> bool:
    """Whether cells are intervals that the title calls so, or that hold the results of their lines.

    Bins such as [0, 10) and [10, 20), which lines are sorted into, are not.
    """
    filled = [text for text in frame[column] if not is_gap(text)]
    if not filled or any(interval_of(text) is None for text in filled):
        return False
    words = words_of(column)
    return bool(words & _WORDS) or any(
        _hold(frame[column], frame[other])
        for other in map(str, frame.columns)
        if other != column and numeric_share(frame[other]) > 0.5
    )


def _hold(intervals: pd.Series[str], results: pd.Series[str]) -> bool:
    """Whether each interval holds the number beside it, and no two lines share one."""
    pairs = [
        (bounds, cell.value)
        for text, result in zip(intervals, results, strict=True)
        if (bounds := interval_of(text)) and (cell := read_cell(result))
    ]
    inside = [low <= value <= high for (low, high), value in pairs]
    return len(pairs) > 1 and all(inside) and 2 * len({b for b, _ in pairs}) > len(pairs)
