"""Files with results, as tables of texts: CSV of any dialect, pages, JSON, YAML, workbooks."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oodometer.errors import UserError, no_file
from oodometer.files import most_unpacked, refuse_special
from oodometer.tables.formats.json_lines import json_lines
from oodometer.tables.formats.json_nested import numbers_beside
from oodometer.tables.formats.json_parts import names_left_out, picked, tables_in
from oodometer.tables.formats.workbooks import is_workbook, workbook_grids
from oodometer.tables.formats.yaml_texts import yaml_content
from oodometer.tables.found import Found
from oodometer.tables.frames.grid import Grid, read_grid
from oodometer.tables.frames.named_levels import stacked
from oodometer.tables.pages.choosing import choose
from oodometer.tables.pages.finding import find_tables
from oodometer.tables.pages.keyed_lines import keyed_lines
from oodometer.tables.pages.logged import logged_tables, logs_beside, mixed_logs, named_lines
from oodometer.tables.pages.stacked import stacked_tables
from oodometer.tables.pages.text import is_page, text_tables
from oodometer.tables.vocabulary.uncertainty import NOTHING_SAID, Uncertainty

if TYPE_CHECKING:
    import pandas as pd

# Of files that are looked for in folders, where YAML holds configurations.
SUFFIXES = (".csv", ".tsv", ".txt", ".md", ".tex", ".parquet", ".json", ".jsonl", ".ndjson",
            ".html", ".htm", ".rst", ".xlsx", ".xlsm")  # fmt: skip
_OTHER_SPREADSHEETS = (".xls", ".ods", ".numbers", ".xlsb")
_GZIP, _BZIP2, _XZ = b"\x1f\x8b", b"BZ", b"\xfd7"  # how packed files begin
_NO_TEXT = re.compile(rb"[\x01-\x08\x0e-\x19]{2}|[\x01-\x08].*[\x01-\x08]", re.DOTALL)
_LARGEST = 1 << 30  # bytes; a results table is far smaller
_POINTER = "version https://git-lfs.github.com/"  # how a file begins that lies elsewhere
_SHOWN = 5  # names of a JSON object that an error lists
LEFT_OUT = "parts of the file that were left out"  # how a note on them begins
_DELIMITERS = (",", ";", "\t", "|")  # of files that are nothing but a table
_LONGEST_LINE = 1 << 24  # characters, on average: no table has such


@dataclass(frozen=True, eq=False)
class Table:
    """A table as it stands in a file: every cell a text."""

    frame: pd.DataFrame
    notes: tuple[str, ...] = ()  # on what was done to read it
    about: str = ""  # what stands above the table, or in its caption
    found: tuple[Found, ...] = ()  # all tables of the file
    uncertainty: Uncertainty = NOTHING_SAID  # on numbers after ±, in the text around it


def read_file(path: Path) -> dict[str, Table]:
    """Return the tables of a file; FILE#name picks a sheet or an object, FILE#3 a table of a page.

    There is one, called "", except in a workbook with several sheets of the same columns.
    """
    file, wanted = _part_named(path)
    suffix = file.suffix.casefold()
    content = _content(file, suffix)
    if suffix == ".parquet":
        return {"": Table(_from_parquet(content, file))}
    if content[:2] in (_GZIP, _BZIP2, _XZ):
        content = _unpacked(content, file)
        suffix = Path(file.stem).suffix.casefold() or suffix
    if is_workbook(content):
        return {name: _framed(grid) for name, grid in workbook_grids(content, file, wanted).items()}
    if suffix in (".xlsx", ".xlsm"):
        raise UserError(f"'{file}' is not a workbook, though its name says so.")
    text = _decoded(content, file)
    if len(text) > _LONGEST_LINE * (1 + text.count("\n")):
        raise UserError(f"'{file}' has a line of more than {_LONGEST_LINE:,} characters.")
    start = text.lstrip()[:200].casefold()
    if start.startswith(_POINTER):
        raise UserError(f"'{file}' is a pointer of Git LFS: get the file itself with git lfs pull.")
    if suffix in (".yaml", ".yml"):
        return {"": _of_objects(yaml_content(text, file), file, wanted)}
    if suffix in (".json", ".jsonl", ".ndjson") or start.startswith(("[{", '{"')):
        return {"": _of_objects(_parsed_json(text, file), file, wanted)}
    if start.startswith(("<!doctype html", "<html")) and not find_tables(text):
        raise UserError(f"'{file}' is a web page without a table.")
    return {"": _of_text(text, file, wanted)}


def _of_text(text: str, file: Path, wanted: str) -> Table:
    """Read the tables of a page, or a text that is nothing but a table."""
    tables = find_tables(text)
    tables = [*tables, *logs_beside(text)] if tables else logged_tables(text)
    tables = tables or (text_tables(text) if is_page(text) else []) or mixed_logs(text)
    tables = tables or named_lines(text) or keyed_lines(text)
    if not tables:
        try:
            grid = read_grid(text, f"'{file}'")
        except UserError:
            copied = "\n\n" in text.strip() or not any(map(text.__contains__, _DELIMITERS))
            tables = text_tables(text) if copied else []
            tables = tables or stacked_tables(text)
            if not tables:
                raise
        else:
            if wanted not in ("", "1"):
                raise UserError(f"'{file}' holds one table: leave out '#{wanted}'.")
            return _framed(grid)
    return _framed(*choose(tables, str(file), wanted))


def _content(file: Path, suffix: str) -> bytes:
    """Read a file, unless it cannot be a table that is read here."""
    try:
        if suffix in _OTHER_SPREADSHEETS and file.exists():
            raise UserError(f"'{file}' is a spreadsheet: save it as .xlsx or CSV, and give that.")
        refuse_special(file, "Table")
        if file.is_file() and file.stat().st_size > _LARGEST:
            raise UserError(f"'{file}' is larger than 1 GiB: a table of results is expected.")
        return file.read_bytes()
    except FileNotFoundError:
        raise no_file("Table", file, SUFFIXES) from None
    except OSError as problem:
        raise UserError(f"'{file}' cannot be read: {problem.strerror or problem}.") from None


def _from_parquet(content: bytes, file: Path) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:  # on this thread alone: see score_files
        table = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
        return texts(table.to_pandas(use_threads=False))
    except (OSError, ValueError):
        raise UserError(f"'{file}' is not a Parquet file, though its name says so.") from None


def _part_named(path: Path) -> tuple[Path, str]:
    """Part results.xlsx#Sheet, page.md#3 or runs.json#tables/main into file and what is wanted."""
    text = str(path)
    signs = [place for place, letter in enumerate(text) if letter == "#"]
    for place in [] if path.exists() else signs:
        if (file := Path(text[:place] or "#")).is_file():
            return file, text[place + 1 :]
    return path, ""


def _unpacked(content: bytes, file: Path) -> bytes:
    most = min(_LARGEST, most_unpacked(len(content), harmless=1 << 24))
    try:
        with _opened(content) as packed:
            inside = packed.read(most + 1)
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error):
        raise UserError(f"'{file}' is compressed and damaged: it cannot be unpacked.") from None
    if len(inside) > most:
        raise UserError(f"'{file}' holds more than {most:,} bytes: a table of results is expected.")
    return inside


def _opened(content: bytes) -> gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile:
    stream = io.BytesIO(content)
    if content[:2] == _GZIP:
        return gzip.GzipFile(fileobj=stream)
    return bz2.BZ2File(stream) if content[:2] == _BZIP2 else lzma.LZMAFile(stream)


def texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of any types as texts; an index that tells something becomes columns.

    Gaps become empty texts. Line numbers tell nothing; names of detectors do, named or not.
    """
    if (stacked_frame := _stacked(frame)) is not None:
        return stacked_frame
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    elif frame.index.nlevels > 1 or frame.index.dtype.kind not in "iu":
        names = [f"column {number + 1}" for number in range(frame.index.nlevels)]
        frame = frame.reset_index(names=names)
    frame = frame.set_axis([_title(n, own) for n, own in enumerate(frame.columns, 1)], axis=1)
    double = frame.columns[frame.columns.duplicated()]
    if len(double):
        raise UserError(f"The table has two columns called '{double[0]}'.")
    shown = {
        name: ["" if gap else _text(value) for value, gap in zip(column, gaps, strict=True)]
        for (name, column), (_, gaps) in zip(frame.items(), frame.isna().items(), strict=True)
    }
    return type(frame)(shown, dtype=object)


def _stacked(frame: pd.DataFrame) -> pd.DataFrame | None:
    """Return a frame with named levels of titles, and a named index, with these as columns."""
    levels = ["" if name is None else str(name) for name in frame.columns.names]
    names = [str(name) for name in frame.index.names if name is not None]
    if not any(levels) or len(names) < frame.index.nlevels:
        return None
    gaps = [""] * (len(names) - 1)
    above = [
        [level, *gaps, *map(str, frame.columns.get_level_values(n))]
        for n, level in enumerate(levels)
    ]
    whole = texts(frame.set_axis(range(frame.shape[1]), axis=1).reset_index())
    titles = [*names, *map(str, range(frame.shape[1]))]
    header = [*above, [*names, *[""] * frame.shape[1]]]
    columns, rows = stacked(titles, header, whole.to_numpy().tolist(), len(names), [])
    return None if columns == titles else type(frame)(rows, columns=columns, dtype=object)


def _title(number: int, title: object) -> str:
    """Join the levels of a title; the number of the column, as in files, where there is none.

    >>> _title(2, ("SVHN", "AUROC")), _title(1, ("Method", "")), _title(1, None)
    ('SVHN AUROC', 'Method', 'column 1')
    """
    parts = title if isinstance(title, tuple) else (title,)
    given = [str(part) for part in parts if part is not None and part == part]  # not NaN
    return " ".join(part for part in given if part.strip()) or f"column {number}"


def _text(value: object) -> str:
    return repr(float(value)) if isinstance(value, float) else " ".join(str(value).split())


def _decoded(content: bytes, path: Path) -> str:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif content[:4] == b"PK\x03\x04":
        raise UserError(f"'{path}' is an archive: unpack it, and give what is inside.")
    elif b"\0" in content and 4 * content[1::2].count(0) > len(content):
        encoding = "utf-16-le"  # without the mark that should begin it
    elif _NO_TEXT.search(content[:4096]):
        raise UserError(f"'{path}' is not a text table.")
    elif b"\0" in content:
        raise UserError(f"'{path}' contains zero bytes: it is not a text table.")
    else:
        encoding = "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")  # what spreadsheets write on Windows


def _parsed_json(text: str, path: Path) -> object:
    lines = [line for line in text.splitlines() if line.strip()]
    by_line = len(lines) > 1 and all(line.strip()[-1] == "}" for line in lines[:2])
    try:
        content = [json.loads(line) for line in lines] if by_line else json.loads(text)
        if "\\ud" in text.casefold():  # half a character passes as JSON, but cannot be written
            json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as problem:
        raise UserError(f"'{path}' is not valid JSON: {problem}.") from None
    return content


def _of_objects(content: object, path: Path, wanted: str) -> Table:
    """Make a table of what a JSON or YAML file holds."""
    import pandas as pd

    content = picked(content, wanted, str(path))
    records = json_lines(content)
    if records is None:
        raise UserError(_why_no_table(content, path))
    if not records:
        raise UserError(f"'{path}' holds an empty list.")
    left = names_left_out(content)
    inside = f"{wanted}/{left[0]}" if wanted and left else "".join(left[:1])
    note = f"{LEFT_OUT}: {', '.join(left[:_SHOWN])}; {path.name}#{inside} reads it alone"
    notes = [note] if left else []
    read = {title for line in records for title in line}
    if beside := [name for name in numbers_beside(content) if name not in read]:
        notes.append(f"numbers beside those that were read are not used: {', '.join(beside)}")
    return Table(texts(pd.DataFrame(records)), tuple(notes))


def _why_no_table(content: object, path: Path) -> str:
    """Say what a JSON or YAML file should hold, and what it has instead."""
    tables = tables_in(content)
    if len(tables) > 1:
        shown = " or ".join(f"'{path}#{name}'" for name in tables[:_SHOWN])
        return f"'{path}' holds {len(tables)} tables of different things: give one, as {shown}."
    names = [repr(str(name)) for name in content] if isinstance(content, dict) else []
    has = f"; it has {', '.join(names[:_SHOWN])}{', …' * (len(names) > _SHOWN)}" if names else ""
    return (
        f"'{path}' holds no table: expected a list of objects, one per line, or names with a "
        f"number for each{has}."
    )


def _framed(grid: Grid, found: tuple[Found, ...] = ()) -> Table:
    import pandas as pd

    frame = pd.DataFrame(grid.rows, columns=grid.titles, dtype=object)
    return Table(frame, tuple(grid.notes), grid.about, found, grid.uncertainty)
