"""Titles and names without the dress that papers, pages and experiment trackers give them."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from oodometer.tables.cells import read_cell
from oodometer.tables.names import REPEAT_WORD

if TYPE_CHECKING:
    import pandas as pd

_TRACKED = re.compile(r"^(?:params|metrics|config|summary|tags|hparams|hyperparameters)[./]+(?=\w)")
_DRESSES = (
    (re.compile(r"!?\[([^][]+)\]\([^()\s]*\)"), r"\1"),  # a link
    (re.compile(r"\$?\\uparrow\$?"), "↑"),
    (re.compile(r"\$?\\downarrow\$?"), "↓"),
    (re.compile(r"\\(?:cite[a-z]*|footnote|label)\{[^{}]*\}"), ""),
    (re.compile(r"\\[a-zA-Z]+\{([^{}]*)\}"), r"\1"),  # \textbf{Avg.}
    (re.compile(r"\*\*(.+?)\*\*"), r"\1"),
    (re.compile(r"^`(.+)`$"), r"\1"),
    (re.compile(r"</?(?:b|i|u|em|strong|sub|sup|span)(?:\s[^<>]*)?>"), ""),
)
_UNTITLED = re.compile(r"column \d+|unnamed: ?\d+", re.IGNORECASE)
_REPEAT = rf"^(?i:({REPEAT_WORD}))[\s_#=\-]*(\d+)$"
_SIGNS = re.compile(r"[\\\[*`<]")  # a text without any of these wears none


def undressed(text: str) -> str:
    r"""Return a name without what only makes it bold or links it.

    >>> undressed("[MSP](https://example.org)"), undressed(r"\textbf{Avg.}"), undressed("a_b")
    ('MSP', 'Avg.', 'a_b')
    """
    bare = text
    if _SIGNS.search(text):
        for pattern, inside in _DRESSES:
            bare = pattern.sub(inside, bare)
    return " ".join(bare.split()) or text


def tidied(frame: pd.DataFrame) -> pd.DataFrame:
    """Undress titles and names; `attrs["titles"]` keeps what the changed titles were."""
    bare = {title: undressed(title) for title in frame.columns}
    short = {title: _TRACKED.sub("", name) for title, name in bare.items()}
    times = Counter(short.values())
    new = {
        title: name if name and times[name] == 1 else bare[title] or title
        for title, name in short.items()
    }
    if len(set(new.values())) < len(new):
        new = {title: title for title in new}
    frame = frame.rename(columns=new)
    frame.attrs["titles"] = {old: name for old, name in new.items() if old != name}
    for column in frame.columns:
        repeats = frame[column].str.extract(_REPEAT) if _UNTITLED.fullmatch(column) else None
        if (
            repeats is not None
            and repeats.notna().all(axis=None)
            and repeats[0].duplicated().sum() == len(repeats) - 1
        ):
            kind = str(repeats[0].iloc[0]).casefold()
            if kind not in frame.columns:
                frame = frame.assign(**{column: repeats[1]}).rename(columns={column: kind})
                continue
        dressed = [t for t in frame[column].unique() if _SIGNS.search(t) and read_cell(t) is None]
        if dressed:
            known = {text: undressed(text) for text in dressed}
            frame[column] = frame[column].map(lambda text, known=known: known.get(text, text))
    return frame
