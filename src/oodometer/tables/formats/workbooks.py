"""Workbooks: which sheet holds the table, and what it shows."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from oodometer.errors import UserError, unknown
from oodometer.tables.cells import numeric_share
from oodometer.tables.formats.xlsx import Book, Sheet, opened, sheet_rows
from oodometer.tables.frames.grid import Grid, grid_of


def is_workbook(content: bytes) -> bool:
    """Whether bytes are an .xlsx workbook, whatever the file is called."""
    if content[:4] != b"PK\x03\x04":
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def workbook_grids(content: bytes, file: Path, wanted: str = "") -> dict[str, Grid]:
    """Return the table of a workbook, or those of several sheets with the same titles.

    `wanted` names a sheet; else those that are shown and hold a table with numbers are read.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        book, sheets = opened(archive, f"'{file}'")
        if wanted:
            named = {sheet.name: sheet for sheet in sheets}
            if wanted not in named:
                raise unknown("sheet", wanted, named)
            return {"": _grid(book, named[wanted])}
        grids: dict[str, Grid] = {}
        refused: dict[str, str] = {}
        for sheet in sheets:
            if sheet.hidden:
                refused[sheet.name] = f"sheet '{sheet.name}' of '{file}' is hidden."
                continue
            try:
                grid = _grid(book, sheet)
            except UserError as problem:
                refused[sheet.name] = str(problem)
                continue
            if _has_numbers(grid):
                grids[sheet.name] = grid
            else:
                refused[sheet.name] = (
                    f"sheet '{sheet.name}' of '{file}' holds no column of numbers."
                )
    if not grids:
        reason = next(iter(refused.values()), f"'{file}' has no sheets.")
        raise UserError(reason[0].upper() + reason[1:])
    names = ", ".join(f"'{name}'" for name in grids)
    if len({tuple(grid.titles) for grid in grids.values()}) > 1:
        raise UserError(
            f"'{file}' has tables with different columns in the sheets {names}: name one of them, "
            f"such as {file.name}#{next(iter(grids))}."
        )
    if refused:
        left = ", ".join(f"'{name}'" for name in refused)
        first = next(iter(grids.values()))
        first.notes.append(
            f"sheets that are hidden or hold no table were left out: {left}; read: {names}"
        )
    return {"": next(iter(grids.values()))} if len(grids) == 1 else grids


def _grid(book: Book, sheet: Sheet) -> Grid:
    where = f"sheet '{sheet.name}' of {book.where}"
    rows, hidden = sheet_rows(book, sheet, where)
    grid = grid_of(rows, where)
    if hidden:
        grid.notes.append(f"hidden in sheet '{sheet.name}', but read: {hidden}")
    return grid


def _has_numbers(grid: Grid) -> bool:
    return any(numeric_share(cells) > 0.5 for cells in zip(*grid.rows, strict=True))
