"""Tables as pandas prints them: names of lines below those of columns, numbers to the right."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oodometer.tables.cells import Rows, holds_numbers, is_gap

_MOST_HEADER = 4  # lines above the one that names the lines
_FEWEST = 2  # lines below it
_WORD = re.compile(r"\S+")
_SPREAD = re.compile(r" (±|\+/-) ")


def printed_by_pandas(lines: Sequence[str]) -> Rows | None:
    """Return the cells of a frame that pandas printed with a named index, else None.

    A line that holds nothing right of the names stands between the titles and the numbers. Columns
    end where a word ends in each line of numbers and in the last line of titles, so that titles
    and names may hold single spaces, and stand next to each other. Empty names repeat those above.
    """
    lines = [_SPREAD.sub("\0\\1\0", line.rstrip()) for line in lines]
    for place in range(1, min(_MOST_HEADER + 1, len(lines) - _FEWEST + 1)):
        for first in range(place):  # behind a caption
            rows = _cut(lines[first:place], lines[place], lines[place + 1 :])
            if rows is not None:
                above = [[line] for line in lines[:first]]
                return [[cell.replace("\0", "") for cell in row] for row in [*above, *rows]]
    return None


def _cut(header: Sequence[str], names: str, body: Sequence[str]) -> Rows | None:
    ends = _ends([header[-1], *body], behind=len(names))
    if not names or not ends or any(len(line) > ends[-1] for line in (*header, *body)):
        return None
    firsts = [line[: ends[0]].rfind(" ") + 1 for line in body]
    width = min(firsts)  # of the names
    starts = [n for n in range(width) if _begins_there(n, names, body)]
    if width < len(names) or not starts or starts[0] > 0:
        return None
    labels = list(zip(starts, [*starts[1:], width], strict=True))
    results = list(zip([width, *ends[:-1]], ends, strict=True))
    numbers = [_cells(line, results) for line in body]
    if not all(holds_numbers(cell) or is_gap(cell) for row in numbers for cell in row):
        return None
    # A title may reach farther to the left than the numbers below it.
    behind = max(len(line[:width].rstrip()) for line in (names, *body)) + 1
    starts_of_titles = [line[: ends[0]].rfind("  ") + 2 for line in header]
    wide = max(behind, min([width, *starts_of_titles]))
    above = [(wide, ends[0]), *results[1:]]
    if not all(_ends_there(line, above) for line in header):
        return None  # a caption
    gaps = [""] * (len(labels) - 1)
    titles = [[line[:wide].strip(), *gaps, *_cells(line, above)] for line in header]
    named = [*_cells(names, labels), *[""] * len(results)]
    whole = _filled([_cells(line, labels) for line in body])
    rows = [[*own, *cells] for own, cells in zip(whole, numbers, strict=True)]
    return [*titles, named, *rows]


def _ends(lines: Sequence[str], behind: int) -> list[int]:
    """Return where a word ends in each of several lines, behind some place."""
    words = [{word.end() for word in _WORD.finditer(line)} for line in lines]
    return sorted(end for end in set.intersection(*words) if end > behind)


def _begins_there(place: int, names: str, body: Sequence[str]) -> bool:
    """Whether a column of names begins at a place: all lines have a space before it.

    One without a name begins where all lines have a word, and some of them no other before it.
    """
    if place and not all(line[place - 1 : place] in ("", " ") for line in (names, *body)):
        return False
    if place < len(names):
        return names[place] != " "
    alone = any(not line[:place].strip() for line in body)
    return alone and all(line[place : place + 1] not in ("", " ") for line in body)


def _ends_there(line: str, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether whatever a line holds in each column ends where the column does."""
    return all(
        not line[start:end].strip()
        or (line[end - 1 : end].strip() and not line[end : end + 1].strip())
        for start, end in spans
    )


def _cells(line: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    return [line[start:end].strip() for start, end in spans]


def _filled(rows: Rows) -> Rows:
    """Write names that pandas prints once for several lines on each of these."""
    filled: Rows = []
    for row in rows:
        above = filled[-1] if filled else [""] * len(row)
        filled.append([cell or name for cell, name in zip(row, above, strict=True)])
    return filled
