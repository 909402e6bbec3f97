"""Classification reports of scikit-learn: in logs and notebooks, and as tables of any kind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from oodometer.factors import TITLES, plain

if TYPE_CHECKING:
    import pandas as pd

_HEAD = re.compile(r"[\s#>]*precision\s+recall\s+f1-score\s+support\s*")
_LINE = re.compile(r"[\s#>]*(\S.*?)\s+(\d*\.\d+)\s+(\d*\.\d+)\s+(\d*\.\d+)\s+(\d+)\s*")
_ACCURACY = re.compile(r"[\s#>]*accuracy\s+\d*\.\d+\s+\d+\s*")
_BLANK = re.compile(r"[\s#>]*")
_OVER_CLASSES = frozenset({"macroavg", "weightedavg"})
_NO_CLASSES = frozenset({"accuracy", "microavg", "samplesavg"})  # lines beside these
_REPORTED = frozenset({"precision", "recall"})  # titles of a report
_CLASS = "class"  # title of a column of classes


def with_report_bars(text: str) -> str:
    """Write the reports of scikit-learn as tables of Markdown; all else stays.

    Their lines are parted by blank ones, and the accuracy of all classes stands among them, which
    is not a line of the table.
    """
    if "f1-score" not in text:
        return text
    written: list[str] = []
    inside = False
    for line in text.splitlines():
        if _HEAD.fullmatch(line):
            inside = True
            written += ["", "| class | precision | recall | f1-score | support |", "|---" * 5 + "|"]
        elif inside and (found := _LINE.fullmatch(line)):
            written.append("| " + " | ".join(found.groups()) + " |")
        elif not inside or not (_BLANK.fullmatch(line) or _ACCURACY.fullmatch(line)):
            written += ["", line] if inside else [line]
            inside = False
    return "\n".join(written)


def with_classes(frame: pd.DataFrame) -> pd.DataFrame:
    """Call the names of a report classes: they are parts of the data of one classifier.

    The line of its accuracy is left out, as in `with_report_bars`.
    """
    if not {plain(column) for column in map(str, frame.columns)} >= _REPORTED:
        return frame
    for column in map(str, frame.columns):
        if not set(map(plain, frame[column].unique())) >= _OVER_CLASSES:
            continue
        names = frame[column].map(plain)
        kept = frame[~names.isin(_NO_CLASSES)].reset_index(drop=True)
        known = plain(column) in TITLES or _CLASS in frame.columns
        return kept if known else kept.rename(columns={column: _CLASS})
    return frame
