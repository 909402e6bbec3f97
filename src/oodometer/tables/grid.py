"""A table in text form as rows of cells: delimiters, header lines, headings, footnotes."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from oodometer.errors import UserError
from oodometer.tables.cells import is_gap, read_cell

Rows = list[list[str]]

_DELIMITERS = (",", ";", "\t", "|", "&")
_LOOKED_AT = 500  # lines, to find the delimiter
_HEADER_LINES = 3  # at most: groups of groups of columns
_MULTICOLUMN = re.compile(r"\\multicolumn\{(\d+)\}\{[^}]*\}\{([^{}]*)\}")
_MULTIROW = re.compile(r"\\multirow\{[^}]*\}\{[^}]*\}\{([^{}]*)\}")
_SHOWN = 60  # characters of a line that a note quotes


class Grid(NamedTuple):
    """The titles of a table, its lines, and notes on what had to be done to get them."""

    titles: list[str]
    rows: Rows
    notes: list[str]


def read_grid(text: str, where: str) -> Grid:
    """Find the table in a text; `where` names the file for whoever has to repair it."""
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise UserError(f"{where} is empty.")
    rows = _split(lines, where)
    width = Counter(len(row) for row in rows).most_common(1)[0][0]
    if width < 2:
        raise UserError(f"{where} has one column only: it is no table with , ; tab or | between.")
    notes: list[str] = []
    rows = [row for row in rows if not _is_comment(row, width)]
    start = next((number for number, row in enumerate(rows) if len(row) == width), len(rows))
    above = [len(row) for row in rows[:start] if len(row) > 1]
    if above and start < len(rows) and any(map(read_cell, rows[start])):
        # What follows is no header: a decimal comma has split the numbers below the real one.
        raise UserError(
            f"Line {start + 1} of {where} has {width} cells, but the header has {above[-1]}."
        )
    if start:
        notes.append(f"{start} lines above the header were left out")
    rows = [row for row in rows[start:] if any(row)]
    if len(rows) < 2:
        raise UserError(f"{where} has a header and no lines below it.")
    numeric = _numeric_columns(rows, width)
    depth = _header_depth(rows, numeric)
    titles = _titles(rows[:depth], numeric, width)
    body = [row for row in rows[depth:] if row not in rows[:depth]]
    repeated = len(rows) - depth - len(body)
    if repeated:
        notes.append(f"the header is repeated {repeated} times; taken once")
    for number, row in enumerate(body, start=start + depth + 1):
        if len(row) > width and any(row[width:]):
            raise UserError(
                f"Line {number} of {where} has {len(row)} cells, but the header has {width}."
            )
    body = _without_remarks(body, numeric, width, notes)
    if not body:
        raise UserError(f"{where} has a header and no lines below it.")
    double = [name for name, times in Counter(titles).items() if times > 1]
    if double:
        raise UserError(f"{where} has {titles.count(double[0])} columns called '{double[0]}'.")
    return Grid(titles, [(row + [""] * width)[:width] for row in body], notes)


def _split(lines: Sequence[str], where: str) -> Rows:
    """Split lines at the delimiter by which most of them have the same number of cells."""
    best: tuple[float, str] = (0.0, "")
    for delimiter in _DELIMITERS:
        rows = _rows(lines[:_LOOKED_AT], delimiter)
        if not rows:
            continue
        width, times = Counter(len(row) for row in rows).most_common(1)[0]
        # A comma that is a decimal sign splits numbers, and lines unevenly.
        worth = times / len(rows) * (width > 1) * _plausible(rows)
        if worth > best[0]:
            best = worth, delimiter
    if best[1]:
        rows = _rows(lines, best[1])
        _require_closed_quotes(lines, rows, where)
        return rows
    for gap in (r"\s{2,}", r"\s+"):  # columns that are aligned with spaces
        rows = [re.split(gap, line.strip()) for line in lines]
        widths = {len(row) for row in rows}
        if len(widths) == 1 and widths != {1} and len(rows) > 1:
            return rows
    return [[line] for line in lines]


def _rows(lines: Sequence[str], delimiter: str) -> Rows:
    if delimiter == "&":
        return _latex_rows(lines)
    try:
        reader = csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter, strict=False)
        rows = [[" ".join(cell.split()) for cell in row] for row in reader]
    except csv.Error:  # a cell of more than 131,072 characters
        return []
    if delimiter == "|":
        rows = [_inside_pipes(row) for row in rows]
        rows = [row for row in rows if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    return rows


def _require_closed_quotes(lines: Sequence[str], rows: Rows, where: str) -> None:
    """Refuse a quotation mark that is never closed: it swallows all lines to the end."""
    if len(rows) < len(lines) and sum(line.count('"') for line in lines) % 2:
        opened = next((n for n, line in enumerate(lines) if line.count('"') % 2), 0)
        raise UserError(f'A quotation mark in line {opened + 1} of {where} is never closed: ".')


def _latex_rows(lines: Sequence[str]) -> Rows:
    """Cells between & in lines that end with a double backslash; rules and environments drop."""
    if sum(" & " in line or line.rstrip().endswith("\\\\") for line in lines) < 2:
        return []
    rows = []
    for line in lines:
        if "&" not in line:
            continue
        plain = re.sub(r"\\\\(\[[^]]*\])?.*$", "", line.replace("\\&", "and"))
        plain = re.sub(r"\\(hline|toprule|midrule|bottomrule)\b|\\cline\{[^}]*\}", "", plain)
        plain = _MULTIROW.sub(r"\1", plain)
        plain = _MULTICOLUMN.sub(lambda m: m[2] + " &" * (int(m[1]) - 1), plain)
        rows.append([" ".join(cell.split()) for cell in plain.split("&")])
    return rows


def _plausible(rows: Sequence[Sequence[str]]) -> float:
    """Return the share of cells that are a number, a gap or a text without digits at its ends."""
    cells = [cell for row in rows[1:50] for cell in row] or list(rows[0])
    good = sum(
        is_gap(cell) or read_cell(cell) is not None or not re.search(r"\d[;,]\d|\d\s*[;\t]", cell)
        for cell in cells
    )
    return good / len(cells)


def _inside_pipes(row: list[str]) -> list[str]:
    return row[1:-1] if len(row) > 2 and not row[0] and not row[-1] else row


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


def _titles(header: Rows, numeric: Sequence[int], width: int) -> list[str]:
    """Join the lines of a header; a title above several columns belongs to all of them."""
    titles = []
    groups = [""] * len(header)
    for column in range(width):
        parts = []
        for level, row in enumerate(header):
            cell = (row[column] if column < len(row) else "").removeprefix("#").strip()
            if cell:
                groups[level:] = [""] * (len(header) - level)
            last = level == len(header) - 1
            if column in numeric and not last:
                groups[level] = cell or groups[level]
                cell = groups[level]
            if cell:
                parts.append(cell)
        joined = " ".join(dict.fromkeys(parts)) if column in numeric else (parts or [""])[-1]
        titles.append(joined or f"column {column + 1}")
    return titles


def _without_remarks(rows: Rows, numeric: Sequence[int], width: int, notes: list[str]) -> Rows:
    """Leave out headings between the lines, and remarks below the last of them."""
    kept: Rows = []
    left_out: Rows = []
    last = max((n for n, row in enumerate(rows) if _has_number(row, numeric)), default=len(rows))
    for number, row in enumerate(rows):
        heading = width > 2 and numeric and sum(map(bool, row)) == 1 and bool(row[0])
        remark = number > last and (
            len(row) != width
            or any(column < len(row) and not is_gap(row[column]) for column in numeric)
        )
        (left_out if heading or remark else kept).append(row)
    if left_out:
        shown = "; ".join(" ".join(filter(None, row))[:_SHOWN] for row in left_out[:3])
        more = ", …" if len(left_out) > 3 else ""
        notes.append(f"{len(left_out)} lines without numbers were left out ({shown}{more})")
    return kept


def _has_number(row: Sequence[str], numeric: Sequence[int]) -> bool:
    return any(column < len(row) and read_cell(row[column]) is not None for column in numeric)
