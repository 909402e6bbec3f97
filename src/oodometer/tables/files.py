"""Files with results, as a table of texts: CSV of any dialect, Markdown, LaTeX, Parquet, JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from oodometer.errors import UserError, no_file
from oodometer.tables.grid import read_grid
from oodometer.tables.json_lines import json_lines

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".tsv", ".txt", ".md", ".tex", ".parquet", ".json", ".jsonl")
_SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
_LARGEST = 1 << 30  # bytes; a results table is far smaller


def read_file(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return a file's table, every cell a text, and notes on what had to be done to read it."""
    import pandas as pd

    suffix = path.suffix.casefold()
    if suffix in _SPREADSHEETS and path.exists():
        raise UserError(f"'{path}' is a spreadsheet: export it as CSV, and give that.")
    if path.is_file() and path.stat().st_size > _LARGEST:
        raise UserError(f"'{path}' is larger than 1 GiB: a table of results is expected.")
    try:
        if suffix == ".parquet":
            return texts(pd.read_parquet(path)), []
        content = path.read_bytes()
    except FileNotFoundError:
        raise no_file("Table", path, SUFFIXES) from None
    except OSError as problem:
        raise UserError(f"'{path}' cannot be read: {problem.strerror or problem}.") from None
    except ValueError:
        raise UserError(f"'{path}' is no Parquet file, though its name says so.") from None
    text = _decoded(content, path)
    if suffix in (".json", ".jsonl"):
        return _from_json(text, path), []
    return _from_text(text, path)


def texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of any types as texts; an index that tells something becomes columns.

    Gaps become empty texts. Line numbers tell nothing; names of detectors do, named or not.
    """
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    elif frame.index.nlevels > 1 or frame.index.dtype.kind not in "iu":
        names = [f"column {number + 1}" for number in range(frame.index.nlevels)]
        frame = frame.reset_index(names=names)
    if frame.columns.nlevels > 1:
        frame = frame.set_axis([" / ".join(map(str, parts)) for parts in frame.columns], axis=1)
    double = frame.columns[frame.columns.map(str).duplicated()]
    if len(double):
        raise UserError(f"The table has two columns called '{double[0]}'.")
    shown = {
        str(name): ["" if gap else _text(value) for value, gap in zip(column, gaps, strict=True)]
        for (name, column), gaps in zip(
            frame.items(), (frame[name].isna() for name in frame.columns), strict=True
        )
    }
    return type(frame)(shown, dtype=object)


def _text(value: object) -> str:
    return repr(float(value)) if isinstance(value, float) else " ".join(str(value).split())


def _decoded(content: bytes, path: Path) -> str:
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif content[:2] == b"\x1f\x8b":
        raise UserError(f"'{path}' is compressed: unpack it, and give what is inside.")
    elif b"\0" in content and 4 * content[1::2].count(0) > len(content):
        encoding = "utf-16-le"  # without the mark that should begin it
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
        content = (
            [json.loads(line) for line in text.splitlines() if line.strip()]
            if path.suffix.casefold() == ".jsonl"
            else json.loads(text)
        )
        if "\\ud" in text.casefold():  # half a character passes as JSON, but cannot be written
            json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as problem:
        raise UserError(f"'{path}' is not valid JSON: {problem}.") from None
    lines = json_lines(content)
    if lines is None:
        raise UserError(f"'{path}' must hold a list of objects, one per line of the table.")
    if not lines:
        raise UserError(f"'{path}' holds an empty list.")
    return texts(pd.DataFrame(lines))


def _from_text(text: str, path: Path) -> tuple[pd.DataFrame, list[str]]:
    import pandas as pd

    grid = read_grid(text, f"'{path}'")
    frame = pd.DataFrame(grid.rows, columns=grid.titles, dtype=object)
    frame.attrs["about"] = grid.about
    return frame, grid.notes
