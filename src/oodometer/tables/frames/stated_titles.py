"""Columns without a title of their own, whose names all state it: optimizer=sgd, ID: CIFAR-10."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.factors import plain
from oodometer.tables.columns import with_columns
from oodometer.tables.frames.common_words import without_common_words
from oodometer.tables.guessing.compared import is_untitled
from oodometer.tables.guessing.roles import SECTION

if TYPE_CHECKING:
    import pandas as pd

_PLACES = frozenset({"sheet", "fromfile", "folder"})  # where names of lines were found


def with_stated_titles(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Take the title of names of headings, files or levels of JSON from these, if all state it."""
    for column in map(str, frame.columns):
        if not (is_untitled(column) or column.endswith(SECTION) or plain(column) in _PLACES):
            continue
        names = frame[column].unique().tolist()
        if len(names) < 2 or "" in names:
            continue
        title, bare = without_common_words(names)
        known = {plain(str(c)) for c in frame.columns}
        if not title or plain(title) in known or len(set(bare)) < len(names) or "" in bare:
            continue
        levels = dict(zip(names, bare, strict=True))
        frame = with_columns(frame, {column: frame[column].map(levels)})
        frame = frame.rename(columns={column: title})
        notes.append(f"names in {column} say that they are levels of {title}")
    return frame
