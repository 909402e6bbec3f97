"""A table in text form as rows of cells: header lines, headings, footnotes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from oodometer.errors import UserError
from oodometer.tables.cells import is_gap, read_cell
from oodometer.tables.names import (
    DETECTOR_TITLES,
    ID_TITLES,
    OOD_TITLES,
    REPLICATE_TITLES,
    is_set,
    metric_named,
    plain,
)
from oodometer.tables.splitting import Rows, split

_HEADER_LINES = 3  # at most: groups of groups of columns
_CAPTION = re.compile(r"\\caption\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")
_SHOWN = 60  # characters of a line that a note quotes
SECTION = "section"  # title of a column for headings between the lines


class Grid(NamedTuple):
    """The titles of a table, its lines, and notes on what had to be done to get them."""

    titles: list[str]
    rows: Rows
    notes: list[str]
    about: str  # what stands above the table, or in its caption


def read_grid(text: str, where: str) -> Grid:
    """Find the table in a text; `where` names the file for whoever has to repair it."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise UserError(f"{where} is empty.")
    rows = split(lines, where)
    about = " ".join(_CAPTION.findall(text))
    width = Counter(len(row) for row in rows).most_common(1)[0][0]
    if width < 2:
        raise UserError(f"{where} has one column only: it is no table with , ; tab or | between.")
    notes: list[str] = []
    about += " ".join(cell for row in rows if _is_comment(row, width) for cell in row)
    rows = [row for row in rows if not _is_comment(row, width)]
    start = next((number for number, row in enumerate(rows) if len(row) == width), len(rows))
    above = [len(row) for row in rows[:start] if len(row) > 1]
    if above and start < len(rows) and any(map(read_cell, rows[start])):
        # What follows is no header: a decimal comma has split the numbers below the real one.
        raise UserError(
            f"Line {start + 1} of {where} has {width} cells, but the header has {above[-1]}."
        )
    if start:
        notes.append(f"lines above the header were left out: {start}")
        about += " ".join(cell for row in rows[:start] for cell in row)
    rows = [row for row in rows[start:] if any(row)]
    if len(rows) < 2:
        raise UserError(f"{where} has a header and no lines below it.")
    numeric = _numeric_columns(rows, width)
    depth = _header_depth(rows, numeric)
    titles = _titles(rows[:depth], numeric, width)
    if depth < len(rows) - 1 and _names_the_index(rows[depth], numeric):
        # pandas writes what the lines are below the titles of several levels.
        titles = [cell or title for cell, title in zip(rows[depth], titles, strict=False)]
        depth += 1
    body = [row for row in rows[depth:] if row not in rows[:depth]]
    repeated = len(rows) - depth - len(body)
    if repeated:
        notes.append(f"repetitions of the header were left out: {repeated}")
    for number, row in enumerate(body, start=start + depth + 1):
        if len(row) > width and any(row[width:]):
            raise UserError(
                f"Line {number} of {where} has {len(row)} cells, but the header has {width}."
            )
    titles, body = _sections(titles, body, numeric, width, notes)
    body = _without_remarks(body, numeric, width, notes)
    if not body:
        raise UserError(f"{where} has a header and no lines below it.")
    double = [name for name, times in Counter(titles).items() if times > 1]
    if double:
        raise UserError(f"{where} has {titles.count(double[0])} columns called '{double[0]}'.")
    return Grid(titles, [(row + [""] * len(titles))[: len(titles)] for row in body], notes, about)


def _is_comment(row: Sequence[str], width: int) -> bool:
    return row[0].startswith("#") and (len(row) != width or not any(row[1:]))


def _numeric_columns(rows: Rows, width: int) -> list[int]:
    """Columns in which most cells below the first line are numbers."""
    found = []
    for column in range(width):
        cells = [row[column] for row in rows[1:] if len(row) > column]
        filled = [cell for cell in cells if not is_gap(cell)]
        if filled and 2 * sum(read_cell(cell) is not None for cell in filled) > len(filled):
            found.append(column)
    return found


def _header_depth(rows: Rows, numeric: Sequence[int]) -> int:
    """Count the lines of the header: below the first, those with words where numbers stand."""
    depth = 1
    while depth < min(_HEADER_LINES, len(rows) - 1) and numeric:
        cells = [rows[depth][column] for column in numeric if len(rows[depth]) > column]
        words = [cell for cell in cells if cell and read_cell(cell) is None]
        if not words or len(words) < len([cell for cell in cells if cell]) or len(words) < 2:
            break
        depth += 1
    return depth


def _names_the_index(row: Sequence[str], numeric: Sequence[int]) -> bool:
    """Tell whether a line below the header holds nothing but titles of columns without any."""
    known = DETECTOR_TITLES | OOD_TITLES | ID_TITLES | REPLICATE_TITLES
    filled = [column for column, cell in enumerate(row) if cell]
    return bool(filled) and all(c not in numeric and plain(row[c]) in known for c in filled)


def _titles(header: Rows, numeric: Sequence[int], width: int) -> list[str]:
    """Join the lines of a header; a title above several columns belongs to all of them."""
    levels: list[list[str]] = [[] for _ in range(width)]
    groups = [""] * len(header)
    for column in range(width):
        for level, row in enumerate(header):
            cell = (row[column] if column < len(row) else "").removeprefix("#").strip()
            if cell:
                groups[level:] = [""] * (len(header) - level)
            last = level == len(header) - 1
            if column in numeric and not last:
                groups[level] = cell or groups[level]
                cell = groups[level]
            levels[column].append(cell)
    for level in range(len(header) if len(header) > 1 else 0):
        if _tells_nothing([levels[column] for column in numeric], level):
            for column in numeric:
                levels[column][level] = ""
    titles = []
    for column, parts in enumerate(levels):
        told = [part for part in parts if part]
        joined = " ".join(dict.fromkeys(told)) if column in numeric else (told or [""])[-1]
        titles.append(joined or f"column {column + 1}")
    return titles


def _tells_nothing(columns: Sequence[Sequence[str]], level: int) -> bool:
    """Tell whether one line of the header says the same of all results, such as "OOD data sets"."""
    said = {parts[level] for parts in columns}
    if len(said) != 1 or len(columns) < 2:
        return False
    word = said.pop()
    if not plain(word):  # such as a line of percent signs
        return True
    metrics_below = all(metric_named(parts[-1]) is not None for parts in columns)
    return (
        level < len(columns[0]) - 1
        and not metrics_below
        and metric_named(word) is None
        and not is_set(word)
    )


def _sections(
    titles: list[str], rows: Rows, numeric: Sequence[int], width: int, notes: list[str]
) -> tuple[list[str], Rows]:
    """Make headings between the lines a column, if the lines below them begin alike.

    Headings that only group detectors ("post-hoc methods") are left out later; those that say of
    which of several tables the lines are ("CIFAR-10") must be kept.
    """
    heads = [_is_heading(row, numeric, width) for row in rows]
    if not any(heads) or not heads[0] or SECTION in titles:
        return titles, rows
    section = ""
    found: Rows = []
    labels: Counter[tuple[str, ...]] = Counter()
    for row, head in zip(rows, heads, strict=True):
        if head:
            section = row[0]
        else:
            found.append([*(row + [""] * width)[:width], section])
            labels[tuple(row[c] for c in range(min(width, len(row))) if c not in numeric)] += 1
    if not found or max(labels.values()) < 2:
        return titles, rows
    notes.append(f"headings between the lines became the column '{SECTION}'")
    return [*titles, SECTION], found


def _is_heading(row: Sequence[str], numeric: Sequence[int], width: int) -> bool:
    return bool(width > 2 and numeric and sum(map(bool, row)) == 1 and row[0])


def _without_remarks(rows: Rows, numeric: Sequence[int], width: int, notes: list[str]) -> Rows:
    """Leave out headings between the lines, and remarks below the last of them."""
    kept: Rows = []
    left_out: Rows = []
    last = max((n for n, row in enumerate(rows) if _has_number(row, numeric)), default=len(rows))
    for number, row in enumerate(rows):
        remark = number > last and (
            len(row) < width
            or any(column < len(row) and not is_gap(row[column]) for column in numeric)
        )
        (left_out if _is_heading(row, numeric, width) or remark else kept).append(row)
    if left_out:
        shown = "; ".join(" ".join(filter(None, row))[:_SHOWN] for row in left_out[:3])
        more = ", …" if len(left_out) > 3 else ""
        notes.append(f"lines without numbers were left out: {len(left_out)} ({shown}{more})")
    return kept


def _has_number(row: Sequence[str], numeric: Sequence[int]) -> bool:
    return any(column < len(row) and read_cell(row[column]) is not None for column in numeric)
