"""Files with results, as a table of texts: CSV of any dialect, Markdown, Parquet, JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oodometer.errors import UserError
from oodometer.tables.cells import is_gap, read_cell
from oodometer.tables.names import metric_named

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".tsv", ".txt", ".md", ".parquet", ".json", ".jsonl")
_DELIMITERS = (",", ";", "\t", "|")
_LARGEST = 1 << 30  # bytes; a results table is far smaller


def read_file(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return a file's table, every cell a text, and notes on what had to be done to read it."""
    import pandas as pd

    try:
        if path.stat().st_size > _LARGEST:
            raise UserError(f"'{path}' is larger than 1 GiB: a table of results is expected.")
        if path.suffix == ".parquet":
            return texts(pd.read_parquet(path)), []
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"'{path}' does not exist.") from None
    except OSError as problem:
        raise UserError(f"'{path}' cannot be read: {problem.strerror or problem}.") from None
    except ValueError as problem:
        raise UserError(f"'{path}' is no Parquet file, as its name says: {problem}.") from None
    text = _decoded(content, path)
    if path.suffix in (".json", ".jsonl"):
        return _from_json(text, path), []
    return _from_text(text, path)


def texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of any types as texts; a named index becomes columns, gaps empty texts."""
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    if frame.columns.nlevels > 1:
        frame = frame.set_axis([" / ".join(map(str, parts)) for parts in frame.columns], axis=1)
    shown = {
        str(name): ["" if gap else _text(value) for value, gap in zip(column, gaps, strict=True)]
        for (name, column), gaps in zip(
            frame.items(), (frame[name].isna() for name in frame.columns), strict=True
        )
    }
    return type(frame)(shown)


def _text(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _decoded(content: bytes, path: Path) -> str:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif b"\0" in content:
        raise UserError(f"'{path}' holds zero bytes: it is no table in text form.")
    else:
        encoding = "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")  # what spreadsheets write on Windows


def _from_json(text: str, path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        entries = (
            [json.loads(line) for line in text.splitlines() if line.strip()]
            if path.suffix == ".jsonl"
            else json.loads(text)
        )
    except ValueError as problem:
        raise UserError(f"'{path}' is not valid JSON: {problem}.") from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UserError(f"'{path}' must hold a list of objects, one per line of the table.")
    return texts(pd.DataFrame(entries))


def _from_text(text: str, path: Path) -> tuple[pd.DataFrame, list[str]]:
    import pandas as pd

    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise UserError(f"'{path}' is empty.")
    rows = _split(lines, path)
    notes: list[str] = []
    width = Counter(len(row) for row in rows).most_common(1)[0][0]
    if width < 2:
        raise UserError(f"'{path}' has one column only: it is no table with , ; tab or | between.")
    start = next(number for number, row in enumerate(rows) if len(row) == width)
    if start:
        notes.append(f"{start} lines above the header were left out")
    header, body = _header([row for row in rows[start:] if any(cell for cell in row)], width)
    kept = [row for row in body if row != header]
    if len(kept) < len(body):
        notes.append(f"the header is repeated {len(body) - len(kept)} times; taken once")
    for number, row in enumerate(kept, start=start + 2):
        if len(row) > width and any(row[width:]):
            raise UserError(
                f"Line {number} of '{path}' has {len(row)} cells, but the header has {width}."
            )
    double = [name for name, times in Counter(header).items() if times > 1]
    if double:
        raise UserError(f"'{path}' has {header.count(double[0])} columns called '{double[0]}'.")
    if not kept:
        raise UserError(f"'{path}' has a header and no lines below it.")
    padded = [(row + [""] * width)[:width] for row in kept]
    return pd.DataFrame(padded, columns=header, dtype=str), notes


def _split(lines: Sequence[str], path: Path) -> list[list[str]]:
    """Split lines at the delimiter by which most of them have the same number of cells."""
    best: tuple[float, list[list[str]]] = (0.0, [])
    for delimiter in _DELIMITERS:
        try:
            reader = csv.reader(io.StringIO("\n".join(lines)), delimiter=delimiter, strict=False)
            rows = [[cell.strip() for cell in row] for row in reader]
        except csv.Error as problem:
            raise UserError(f"'{path}' cannot be read as a table: {problem}.") from None
        if delimiter == "|":
            rows = [_inside_pipes(row) for row in rows]
            rows = [row for row in rows if not all(re.fullmatch(r":?-+:?", c) for c in row)]
        if not rows:
            continue
        width, times = Counter(len(row) for row in rows).most_common(1)[0]
        # A comma that is a decimal sign splits numbers, and lines unevenly.
        worth = times / len(rows) * (width > 1) * _plausible(rows)
        if worth > best[0]:
            best = worth, rows
    return best[1] or [[line] for line in lines]


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


def _header(rows: list[list[str]], width: int) -> tuple[list[str], list[list[str]]]:
    """Take the header off: one line, or two of which the upper one groups the lower one."""
    first, rest = rows[0], rows[1:]
    second = rest[0] if rest else []
    grouped = (
        len(second) == width
        and sum(metric_named(cell) is not None for cell in second) >= 2
        and not any(read_cell(cell) for cell in second)
    )
    if not grouped:
        return [name or f"column {n + 1}" for n, name in enumerate(first)], rest
    titles, group = [], ""
    for upper, lower in zip(first, second, strict=False):
        group = upper or group
        named = metric_named(lower) is not None
        titles.append(f"{group} {lower}".strip() if named else lower or upper or group)
    return titles, rest[1:]
