"""Grid tables of reStructuredText whose cells span several columns, with all of their cells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby, pairwise

_BORDER = re.compile(r"\s*\+(?:[-=]+\+)+\s*")
_FEWEST = 3  # borders: above, below the header, at the end


def with_spans(text: str) -> str:
    """Write a cell that spans several columns into each of them; all else stays.

    Which columns there are is said by the crosses of all borders.
    """
    if "+-" not in text:
        return text
    written: list[str] = []
    for is_table, lines in groupby(text.splitlines(), key=_is_drawn):
        block = list(lines)
        written += _spread(block) if is_table else block
    return "\n".join(written)


def _is_drawn(line: str) -> bool:
    bare = line.strip()
    return bool(_BORDER.fullmatch(line)) or (len(bare) > 1 and bare[0] == bare[-1] == "|")


def _spread(block: list[str]) -> list[str]:
    """Repeat what spans columns, if every row is one line; else nothing is changed."""
    borders = [line for line in block if _BORDER.fullmatch(line)]
    rows = [line for line in block if line not in borders]
    cuts = sorted({place for line in borders for place in _places(line, "+")})
    # As many bars in every row as crosses in every border: cells are merely not aligned.
    counts = {len(_places(row, "|")) for row in rows} | {len(_places(b, "+")) for b in borders}
    spans = len(counts) > 1 and any(len(_ends(row, cuts)) < len(cuts) for row in rows)
    alone = all(a in borders or b in borders for a, b in pairwise(block))
    whole = all({cuts[0], cuts[-1]} <= {*_ends(row, cuts)} for row in rows) if cuts else False
    if len(borders) < _FEWEST or not (spans and alone and whole):
        return block
    cells = [_cells(row, cuts) for row in rows]
    bars = ["| " + " | ".join(row) + " |" for row in cells]
    head = next((n for n, line in enumerate(borders) if "=" in line), 1)
    title = [cells[0][0], ""] if head > 1 and len({*cells[0]}) == 1 else []  # above all columns
    first = 1 if title else 0
    return [*title, *bars[first:head], "|---" * (len(cuts) - 1) + "|", *bars[head:]]


def _places(line: str, sign: str) -> list[int]:
    return [place for place, letter in enumerate(line) if letter == sign]


def _ends(row: str, cuts: Sequence[int]) -> list[int]:
    """Return where the cells of a row begin and end."""
    return [cut for cut in cuts if cut < len(row) and row[cut] == "|"]


def _cells(row: str, cuts: Sequence[int]) -> list[str]:
    """Return one text for each column of the table."""
    own = list(pairwise(_ends(row, cuts)))
    texts = {span: row[span[0] + 1 : span[1]].strip() for span in own}
    return [next(t for (a, b), t in texts.items() if a <= start < b) for start in cuts[:-1]]
