"""Rows and columns that are no results: differences to others, and statistics of all rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.factors import words_of
from oodometer.tables.cells import numeric_share, read_cell
from oodometer.tables.vocabulary.measures import metric_named

if TYPE_CHECKING:
    import pandas as pd

DIFFERENCES = "differences to others"  # why a column is not used
_SIGN = re.compile(r"[Δ∆]")  # the Greek letter and the sign
_WORDS = frozenset(
    {"delta", "diff", "difference", "gain", "improvement", "improv", "increase", "decrease", "drop",
     "degradation", "uplift", "lift", "gap", "reduction"}
)  # fmt: skip
# Words beside these that say so: Drop (%), gain over MSP.
_AROUND = frozenset(
    {"vs", "over", "versus", "rate", "to", "pct", "percent", "percentage", "relative", "rel",
     "absolute", "abs", "performance"}
)  # fmt: skip
_SIGNED = re.compile(r"[*_\\a-z{$\s]*[+−\-]\s?\.?\d")  # +1.3, **+1.3**
_DESCRIBED = frozenset({"count", "mean", "std", "min", "25%", "50%", "75%", "max"})  # by pandas


def is_difference(title: str) -> bool:
    """Whether a title says that its numbers are differences to those of another line or column.

    >>> is_difference("ΔAUROC vs MSP"), is_difference("Accuracy drop"), is_difference("delta")
    (True, True, False)
    """
    words = words_of(title)
    said = bool(words & _AROUND) or metric_named(title) is not None
    return bool(_SIGN.search(title)) or (bool(words & _WORDS) and said)


def words_of_difference(title: str) -> set[str]:
    """Return the words of a title that are those for differences.

    >>> words_of_difference("MSP drop"), words_of_difference("drop-path")
    ({'drop'}, {'drop'})
    """
    return words_of(title) & _WORDS


def words_beside_difference(title: str) -> set[str]:
    """Return the words of a title that have nothing to do with a difference that it names.

    >>> words_beside_difference("Absolute gain over MSP")
    {'msp'}
    """
    return set() if _SIGN.search(title) else set(words_of(title)) - _WORDS - _AROUND


def without_differences(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Leave out rows of gains over others, and those in which pandas describes the other rows."""
    return _without_gains(_without_description(frame, notes), notes)


def _without_description(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    for column in map(str, frame.columns):
        names = {text: text.strip().casefold() for text in frame[column].unique()}
        if not {"min", "25%", "75%", "max"} <= set(names.values()):
            continue
        described = frame[column].map(names).isin(_DESCRIBED)
        if described.all():
            raise UserError(
                f"The rows are statistics ({', '.join(frame[column].unique()[:4])}, …), as pandas "
                "describes a table: give the table that they describe."
            )
        notes.append("rows that describe the others were left out: count, mean, …, max")
        return frame[~described].reset_index(drop=True)
    return frame


def _without_gains(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Leave out rows whose numbers all have a sign, such as +1.3, where most rows have none."""
    numeric = [c for c in frame.columns if numeric_share(frame[c]) > 0.5]
    # A column of gains says nothing about the line: beside it, all others may be negative.
    numeric = [c for c in numeric if not is_difference(c)]
    plus = [c for c in numeric if frame[c].str.contains("+", regex=False).any()]
    numeric = [c for c in numeric if c not in plus or not are_gains(frame[c].tolist())]
    signed = (text for c in plus if c in numeric for text in frame[c].unique())
    if not any(text.lstrip("*_ ").startswith("+") for text in signed):
        return frame
    rows = frame[numeric].to_numpy().tolist()
    gains = [are_gains(row) for row in rows]
    if not any(gains) or 2 * sum(gains) > len(rows):
        return frame
    names = [" ".join(filter(None, line)) for line in frame.drop(columns=numeric).to_numpy()]
    shown = dict.fromkeys(name for name, gain in zip(names, gains, strict=True) if gain)
    notes.append(f"rows of differences to others were left out: {', '.join(shown)}")
    return frame[[not gain for gain in gains]].reset_index(drop=True)


def are_gains(texts: list[str]) -> bool:
    """Whether all of several numbers have a sign, and some of them a plus."""
    numbers = [text for text in texts if read_cell(text) is not None]
    signed = len(numbers) > 1 and all(map(_SIGNED.match, numbers))
    return signed and any("+" in text for text in numbers)
