"""Frames with further or other columns, whatever their titles are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def with_columns(
    frame: pd.DataFrame,
    columns: Mapping[str, pd.Series[str] | pd.Series[int] | pd.Series[float] | Sequence[str]],
) -> pd.DataFrame:
    """The frame with these columns, new or replaced.

    Unlike `frame.assign(**columns)`, which takes no column called "self".
    """
    changed = frame.copy(deep=False)
    for name, values in columns.items():
        changed[name] = values
    return changed
