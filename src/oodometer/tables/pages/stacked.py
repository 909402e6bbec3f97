"""Tables copied from a PDF or a web page with one cell per line: titles, then names and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from oodometer.tables.cells import Rows, is_gap, read_cell
from oodometer.tables.pages.markdown import CAPTIONED
from oodometer.tables.pages.outline import CAPTION, Outline, PageTable
from oodometer.tables.vocabulary.measures import metric_named

_LONGEST_NAME = 80  # characters; more is prose
_MOST_COLUMNS = 30


class _Run(NamedTuple):
    """Lines below each other that are all numbers, or all texts."""

    are_numbers: bool
    lines: list[str]


def stacked_tables(text: str) -> list[PageTable]:
    """Return the tables of a text in which every cell has a line of its own.

    Each row is a name and as many numbers as there are titles behind the first. Where anything
    else stands between, it is not known to which row numbers belong, and nothing is returned.
    """
    lines = [line.strip().lstrip("#").strip() for line in text.splitlines()]
    runs = list(_runs([line for line in lines if line]))
    outline = Outline()
    place = 0
    while place + 1 < len(runs):
        found = _table(runs[place:])
        if found is None:
            return []
        rows, above, used = found
        captions = [n for n, line in enumerate(above) if CAPTIONED.match(line)]
        caption = " ".join(above[captions[-1] :]) if captions else " ".join(above[-2:])
        outline.table(rows, {CAPTION: caption} if caption else None)
        place += used
    return outline.tables


def _runs(lines: Sequence[str]) -> Iterator[_Run]:
    for are_numbers, group in groupby(lines, key=_is_number):
        yield _Run(are_numbers, list(group))


def _is_number(line: str) -> bool:
    return read_cell(line) is not None or is_gap(line)


def _table(runs: Sequence[_Run]) -> tuple[Rows, list[str], int] | None:
    """Return the rows of the table that begins here, the texts above it, and how many runs it is.

    A text of one line begins a row; one that is long enough for titles begins the next table.
    """
    if runs[0].are_numbers or len(runs) < 4:
        return None
    width = 1 + len(runs[1].lines)
    texts = runs[0].lines
    if len(texts) < width + 1 or width > _MOST_COLUMNS:
        return None
    titles, above = texts[-width - 1 : -1], texts[: -width - 1]
    if not any(map(metric_named, titles)) or max(map(len, texts[-width - 1 :])) > _LONGEST_NAME:
        return None
    rows = [titles]
    names = [texts[-1]]
    used = 0
    for text, numbers in zip(runs[::2], runs[1::2], strict=False):
        if used:
            names = text.lines
        if used and len(names) > width:  # titles and a name: the next table
            break
        if len(names) != 1 or len(numbers.lines) != width - 1 or len(names[0]) > _LONGEST_NAME:
            return None
        rows.append([names[0], *numbers.lines])
        used += 2
    left = len(runs) - used
    return (rows, above, used + (left == 1)) if len(rows) > 2 else None
