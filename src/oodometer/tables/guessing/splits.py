"""Lines on training, validation and test data: those on test data count."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from oodometer.factors import words_of
from oodometer.tables.cells import is_gap
from oodometer.tables.guessing.roles import option

if TYPE_CHECKING:
    import pandas as pd

_MOST = 50  # levels that are looked at
_ENDS = r"(?:[\W_].*)?"
_BEST_FIRST = (
    re.compile(rf"(?i)test(?:ing)?{_ENDS}"),
    re.compile(rf"(?i)(?:eval(?:uation)?|holdout){_ENDS}"),  # as some call it beside dev
    re.compile(rf"(?i)(?:val|valid(?:ation)?|dev){_ENDS}"),
    re.compile(rf"(?i)train(?:ing)?{_ENDS}"),
)


def on_test_data(
    frame: pd.DataFrame, chosen: Collection[str], said: str, notes: list[str]
) -> pd.DataFrame:
    """Keep the lines on test data where a column says which are; else those on the next best.

    A column of which the user says what it is stays whole.
    """
    for column in [title for title in map(str, frame.columns) if title not in chosen]:
        levels = [str(level) for level in frame[column].unique()[:_MOST]]
        places = {level: _place(level) for level in levels if not is_gap(level)}
        if len(places) < len(levels) or None in places.values() or len(set(places.values())) < 2:
            continue
        best = min(place for place in places.values() if place is not None)
        other = [level for level, place in places.items() if place != best]
        kept = frame[~frame[column].isin(other)]
        if len(kept) < frame[column].isin(other[:1]).sum():
            continue
        notes.append(
            f"rows with {column} {', '.join(other)} were left out: results on "
            f"{', '.join(level for level in places if level not in other)} count; "
            f"{option(said, re_evaluation=column)} keeps all"
        )
        frame = kept.reset_index(drop=True)
    return frame


def _place(level: str) -> int | None:
    """Return which data a level names; one that names two is how models were selected."""
    kinds = [any(map(kind.fullmatch, words_of(level))) for kind in _BEST_FIRST]
    first = (n for n, kind in enumerate(_BEST_FIRST) if kind.fullmatch(level))
    return next(first, None) if sum(kinds) < 2 else None
