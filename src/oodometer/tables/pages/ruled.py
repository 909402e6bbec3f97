"""Tables between lines of equals signs, as reStructuredText has them, written with bars."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_RULE = re.compile(r"\s*={2,}(?:\s+={2,})+\s*")
_LINK = re.compile(r"`([^`<>]+?)(?:\s*<[^<>]*>)?`__?")  # `MSP`_, `MSP <https://...>`_
_FILLER = "\0"  # in the second place of a sign that takes two
_FEWEST = 2  # lines between two rules: titles and numbers


def with_bars(text: str) -> str:
    """Write simple tables of reStructuredText as those of Markdown; all else stays."""
    lines = text.splitlines()
    rules = [number for number, line in enumerate(lines) if _RULE.fullmatch(line)]
    if len(rules) < 2:
        return text
    written: list[str] = []
    done = 0
    while rules:
        first, *rest = rules
        # The next rules without a blank line before them are those of the same table.
        ends = [n for n in rest if all(lines[m].strip() for m in range(first, n))]
        rules = [n for n in rest if n not in ends]
        if not ends or ends[-1] - first - len(ends) < _FEWEST:
            continue
        inside = [lines[n] for n in range(first + 1, ends[-1]) if n not in ends]
        rows = [_cells(line, _starts(lines[first])) for line in inside]
        bars = ["| " + " | ".join(row) + " |" for row in rows]
        written += [*lines[done:first], bars[0], "|---" * len(rows[0]) + "|", *bars[1:]]
        done = ends[-1] + 1
    return "\n".join([*written, *lines[done:]])


def _starts(rule: str) -> list[int]:
    return [found.start() for found in re.finditer("=+", rule)]


def _cells(line: str, starts: Sequence[int]) -> list[str]:
    """Cut a line where columns start; what follows a tab is cut at spaces."""
    front, tab, back = line.partition("\t")
    wide = "".join(sign + _FILLER * _extra(sign) for sign in front)
    ends = [*starts[1:], len(wide)]
    cuts = zip(starts, ends, strict=True)
    cells = [wide[start:end].replace(_FILLER, "").strip() for start, end in cuts]
    if tab:
        cells = [cell for cell in cells if cell] + back.split()
    return [_LINK.sub(r"\1", cell).replace("|", "/") for cell in cells]


def _extra(sign: str) -> int:
    """Count the places that a sign takes beyond one: wide letters and pictures take two."""
    return int(unicodedata.east_asian_width(sign) in "WF")
