"""Tables that reStructuredText writes as lists or as CSV, written with bars."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

from oodometer.tables.cells import Rows

_DIRECTIVE = re.compile(r"(\s*)\.\.\s+(list|csv)-table::\s*(.*)")
_OPTION = re.compile(r"\s*:([\w-]+):\s*(.*)")
_ROW = re.compile(r"\s*[*+-]\s+-(?:\s+(.*))?")
_CELL = re.compile(r"\s*-(?:\s+(.*))?")


def with_listed_tables(text: str) -> str:
    """Write the tables of list-table and csv-table as those of Markdown; all else stays."""
    if "-table::" not in text:
        return text
    lines = text.splitlines()
    written: list[str] = []
    number = 0
    while number < len(lines):
        found = _DIRECTIVE.fullmatch(lines[number])
        number += 1
        if found is None:
            written.append(lines[number - 1])
            continue
        inside: list[str] = []
        while number < len(lines) and _is_inside(lines[number], len(found[1])):
            inside.append(lines[number])
            number += 1
        rows = _listed(inside) if found[2] == "list" else _separated(inside)
        written += ["", f"**{found[3]}**", ""] if found[3] else [""]
        bars = ["| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in rows]
        written += [bars[0], "|---" * len(rows[0]) + "|", *bars[1:], ""] if bars else []
    return "\n".join(written)


def _is_inside(line: str, indent: int) -> bool:
    """Whether a line belongs to what stands further left: blank ones do."""
    return not line.strip() or len(line) - len(line.lstrip()) > indent


def _listed(lines: Sequence[str]) -> Rows:
    """Return the cells of a list of lists; lines without a mark continue a cell."""
    rows: Rows = []
    for line in lines:
        row, cell = _ROW.fullmatch(line), _CELL.fullmatch(line)
        if row is not None:
            rows.append([(row[1] or "").strip()])
        elif cell is not None and rows:
            rows[-1].append((cell[1] or "").strip())
        elif rows and line.strip():
            rows[-1][-1] = f"{rows[-1][-1]} {line.strip()}".strip()
    return rows


def _separated(lines: Sequence[str]) -> Rows:
    """Return the titles of the option `header`, and the cells of lines with commas."""
    rows: Rows = []
    for line in lines:
        option = _OPTION.fullmatch(line)
        if option is None and line.strip():
            rows += [[cell.strip() for cell in row] for row in _cells(line)]
        elif option is not None and option[1] == "header":
            rows = [*_cells(option[2]), *rows]
    return rows


def _cells(line: str) -> Rows:
    return list(csv.reader([line.strip()], skipinitialspace=True))
