"""The parts of an .xlsx file: sheets as rows of texts, as a spreadsheet program shows them."""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from xml.etree import ElementTree

from oodometer.errors import UserError
from oodometer.tables.cells import Rows

_LARGEST = 1 << 28  # bytes of one part, unpacked
_MOST_CELLS = 20_000_000  # of one sheet, with the empty ones between
_MAIN = "{*}"  # strict and transitional workbooks have other namespaces for the same names
_DATES = {*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)}  # built-in formats
_PERCENTS = {9, 10}
_LITERAL = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^]]*\]', re.IGNORECASE)
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")


class Sheet(NamedTuple):
    """A sheet of a workbook, and the part of the archive that holds it."""

    name: str
    part: str
    hidden: bool


class Book(NamedTuple):
    """An open workbook: its texts, and how its numbers are shown."""

    archive: zipfile.ZipFile
    where: str
    strings: list[str]
    formats: list[str]  # of each style: "number", "percent" or "date"
    first_day: datetime


def opened(archive: zipfile.ZipFile, where: str) -> tuple[Book, list[Sheet]]:
    """Read what all sheets share; `where` names the file for whoever has to repair it."""
    book = _part(archive, "xl/workbook.xml", where)
    links = _part(archive, "xl/_rels/workbook.xml.rels", where)
    targets = {link.get("Id"): link.get("Target", "") for link in links}
    settings = book.find(f"{_MAIN}workbookPr")
    mac = settings is not None and settings.get("date1904") in ("1", "true")
    sheets = []
    for sheet in book.iterfind(f".//{_MAIN}sheet"):
        link = next((value for name, value in sheet.items() if name.endswith("}id")), "")
        target = targets.get(link, "")
        part = posixpath.normpath(posixpath.join("/xl", target)).lstrip("/")
        if part in archive.namelist() and "chartsheet" not in part:
            hidden = sheet.get("state", "visible") != "visible"
            sheets.append(Sheet(sheet.get("name", ""), part, hidden))
    strings, formats = [], ["number"]
    if "xl/sharedStrings.xml" in archive.namelist():
        table = _part(archive, "xl/sharedStrings.xml", where)
        strings = [_text(entry) for entry in table.iterfind(f"{_MAIN}si")]
    if "xl/styles.xml" in archive.namelist():
        formats = _formats(_part(archive, "xl/styles.xml", where))
    first_day = datetime(1904, 1, 1) if mac else datetime(1899, 12, 30)
    return Book(archive, where, strings, formats, first_day), sheets


def _part(archive: zipfile.ZipFile, name: str, where: str) -> ElementTree.Element:
    """Parse one part; entities, and what unpacks to far more than a table, are refused."""
    try:
        with archive.open(name) as stream:
            content = stream.read(_LARGEST + 1)
        tree = None if _is_hostile(content) else ElementTree.fromstring(content)
    except (ElementTree.ParseError, zipfile.BadZipFile, zlib.error, KeyError, OSError, ValueError,
            RuntimeError, NotImplementedError, EOFError):  # fmt: skip
        raise UserError(
            f"{where} is damaged or encrypted: its part {name} is unreadable."
        ) from None
    if tree is None:
        raise UserError(
            f"{where} is refused: its part {name} is larger than 256 MiB, or defines entities."
        )
    return tree


def _is_hostile(content: bytes) -> bool:
    """Whether a part is too large, or may define entities; UTF-16 would hide them."""
    return len(content) > _LARGEST or b"<!DOCTYPE" in content or b"\0" in content


def _text(entry: ElementTree.Element) -> str:
    """Join the runs of a rich text, without the readings above it."""
    above = {id(part) for reading in entry.iterfind(f".//{_MAIN}rPh") for part in reading.iter()}
    parts = [part.text or "" for part in entry.iterfind(f".//{_MAIN}t") if id(part) not in above]
    return _ESCAPE.sub(lambda code: chr(int(code[1], 16)), "".join(parts))


def _formats(styles: ElementTree.Element) -> list[str]:
    own = {
        entry.get("numFmtId"): _LITERAL.sub("", entry.get("formatCode", ""))
        for entry in styles.iterfind(f".//{_MAIN}numFmt")
    }
    kinds = []
    for style in styles.iterfind(f"{_MAIN}cellXfs/{_MAIN}xf"):
        number = style.get("numFmtId", "0")
        code = own.get(number, "")
        built_in = int(number) if number.isdigit() and number not in own else 0
        if "%" in code or built_in in _PERCENTS:
            kinds.append("percent")
        elif built_in in _DATES or re.search(r"[dmyhs]", code, re.IGNORECASE):
            kinds.append("date")
        else:
            kinds.append("number")
    return kinds or ["number"]


def sheet_rows(book: Book, sheet: Sheet, where: str) -> tuple[Rows, str]:
    """Return the filled rows of a sheet, and how many of its rows and columns are hidden."""
    tree = _part(book.archive, sheet.part, book.where)
    cells: dict[int, dict[int, str]] = {}
    hidden = 0
    for place, row in enumerate(tree.iterfind(f"{_MAIN}sheetData/{_MAIN}row"), start=1):
        texts = dict(_cells(book, row, where))
        if any(texts.values()):
            number = row.get("r", "")
            cells[int(number) if number.isdigit() else place] = texts
            hidden += _is_hidden(row)
    used = sorted({column for row in cells.values() for column, text in row.items() if text})
    if len(used) * len(cells) > _MOST_CELLS:
        raise UserError(f"The table in {where} has more than {_MOST_CELLS:,} cells.")
    for merged in tree.iterfind(f"{_MAIN}mergeCells/{_MAIN}mergeCell"):
        _spread(cells, merged.get("ref", ""), used)
    rows = [[cells[number].get(column, "") for column in used] for number in sorted(cells)]
    columns = sum(
        _is_hidden(column) and int(column.get("min", 0)) in used
        for column in tree.iterfind(f".//{_MAIN}col")
    )
    counts = ((hidden, "rows"), (columns, "columns"))
    hidden_parts = (f"{n} {what.removesuffix('s') if n == 1 else what}" for n, what in counts if n)
    return _without_margins(rows), " and ".join(hidden_parts)


def _is_hidden(part: ElementTree.Element) -> bool:
    return part.get("hidden") in ("1", "true")


def _cells(book: Book, row: ElementTree.Element, where: str) -> Iterator[tuple[int, str]]:
    for place, cell in enumerate(row.iterfind(f"{_MAIN}c"), start=1):
        reference = cell.get("r", "")
        column = _column(reference) or place
        value = cell.findtext(f"{_MAIN}v") or ""
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            inside = cell.find(f"{_MAIN}is")
            value = "" if inside is None else _text(inside)
        elif not value and kind != "str" and cell.find(f"{_MAIN}f") is not None:
            raise UserError(
                f"Cell {reference} in {where} is a formula without a stored value: open the file "
                "in a spreadsheet program and save it."
            )
        elif kind == "s":
            index = int(value) if value.isdigit() else -1
            value = book.strings[index] if 0 <= index < len(book.strings) else ""
        elif kind == "n" and value:
            value = _shown(book, value, cell.get("s", "0"))
        yield column, " ".join(value.split())


def _column(reference: str) -> int:
    number = 0
    for letter in reference.rstrip("0123456789"):
        number = 26 * number + ord(letter.upper()) - 64
    return number


def _shown(book: Book, value: str, style: str) -> str:
    """Write a number as its format shows it: a percentage, a date, or as it is."""
    kind = book.formats[int(style)] if style.isdigit() and int(style) < len(book.formats) else ""
    try:
        number = float(value)
        if kind == "percent":
            return f"{100 * number:.12g}%"
        if kind == "date":
            when = book.first_day + timedelta(days=number)
            return when.isoformat(" ", "seconds").removesuffix(" 00:00:00")
    except (ValueError, OverflowError):
        return value
    return repr(number) if "." in value or "E" in value.upper() else value


def _spread(cells: dict[int, dict[int, str]], reference: str, used: list[int]) -> None:
    """Write the text of merged cells into each; not across a line that has nothing else."""
    first, _, last = reference.partition(":")
    ends = re.fullmatch(r"[A-Za-z]+(\d+):[A-Za-z]+(\d+)", reference)
    if ends is None:
        return
    top, bottom = int(ends[1]), int(ends[2])
    columns = [column for column in used if _column(first) <= column <= _column(last)]
    text = cells.get(top, {}).get(_column(first), "")
    alone = top == bottom and sum(map(bool, cells.get(top, {}).values())) == 1
    for number in [] if alone or not text else [n for n in cells if top <= n <= bottom]:
        cells[number] |= dict.fromkeys(columns, text)


def _without_margins(rows: Rows) -> Rows:
    """Leave lines with one text above the table as such: they are not a header."""
    first = next((n for n, row in enumerate(rows) if sum(map(bool, row)) > 1), len(rows))
    return [*([" ".join(filter(None, row))] for row in rows[:first]), *rows[first:]]
