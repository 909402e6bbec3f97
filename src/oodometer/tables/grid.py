"""Rows of cells as a table: what is its header, a heading between lines, a footnote."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from oodometer.errors import UserError
from oodometer.tables.cells import is_gap, numeric_share, read_cell
from oodometer.tables.headers import (
    header_depth,
    is_turned,
    joined_titles,
    knows_titles,
    names_the_index,
    under_headings,
)
from oodometer.tables.roles import SECTION
from oodometer.tables.splitting import Rows, numbered, split

_CAPTION = re.compile(r"\\caption\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")
_SHOWN = 60  # characters of a line that a note quotes


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
    about = " ".join(_CAPTION.findall(text))
    return grid_of(split(lines, where), where, about)


def grid_of(rows: Rows, where: str, about: str = "") -> Grid:
    """Find titles and lines among rows of cells; `about` is what is said around the table."""
    rows = [row for row in rows if any(row)]
    if not rows:
        raise UserError(f"{where} is empty.")
    notes: list[str] = []
    width = Counter(len(row) for row in rows).most_common(1)[0][0]
    if width < 2:
        raise UserError(f"{where} has one column only: it is no table with , ; tab or | between.")
    comments = [row for n, row in enumerate(rows) if _is_comment(rows, n, width)]
    about += " ".join(cell for row in comments for cell in row)
    rows = under_headings(rows, width)
    rows = [row for n, row in enumerate(rows) if not _is_comment(rows, n, width)]
    if len(rows) > 1 and len(rows[0]) == width - 1 and numbered(rows[1:]):
        rows[0] = ["", *rows[0]]
    if is_turned(rows, width):
        rows = [list(column) for column in zip(*rows, strict=True)]
        width = len(rows[0])
        notes.append("titles stand in the first column: the table was turned")
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
    rows = rows[start:]
    if len(rows) < 2:
        raise UserError(f"{where} has a header and no lines below it.")
    numeric = _numeric_columns(rows, width)
    depth = header_depth(rows, numeric)
    titles = joined_titles(rows[:depth], numeric, width)
    if depth < len(rows) - 1 and names_the_index(rows[depth]):
        # pandas writes what the lines are below the titles of several levels.
        titles = [cell or title for cell, title in zip(rows[depth], titles, strict=False)]
        depth += 1
    head = rows[:depth]
    body = [row for row in rows[depth:] if row not in head]
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
    wide = len(titles)
    body = [row if len(row) == wide else (row + [""] * wide)[:wide] for row in body]
    return Grid(titles, body, notes, about)


def _is_comment(rows: Rows, number: int, width: int) -> bool:
    """Tell whether a line is a remark; "# one, two" may have as many cells as the table."""
    row = rows[number]
    if not row[0].startswith("#"):
        return False
    below = rows[number + 1] if number + 1 < len(rows) else []
    by_chance = row[0].startswith("# ") and knows_titles(below, 1) and not knows_titles(row, 1)
    return len(row) != width or not any(row[1:]) or by_chance


def _numeric_columns(rows: Rows, width: int) -> list[int]:
    """Columns in which most cells below the first line are numbers."""
    found = []
    below = rows[1:]
    for column in range(width):
        if numeric_share([row[column] for row in below if len(row) > column]) > 0.5:
            found.append(column)
    return found


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
