"""Classification reports of scikit-learn in logs and notebooks, written with bars."""

from __future__ import annotations

import re

_HEAD = re.compile(r"[\s#>]*precision\s+recall\s+f1-score\s+support\s*")
_LINE = re.compile(r"[\s#>]*(\S.*?)\s+(\d*\.\d+)\s+(\d*\.\d+)\s+(\d*\.\d+)\s+(\d+)\s*")
_ACCURACY = re.compile(r"[\s#>]*accuracy\s+\d*\.\d+\s+\d+\s*")
_BLANK = re.compile(r"[\s#>]*")


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
