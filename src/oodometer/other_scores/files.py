"""Open files of scores: .npz, CSV and Parquet become columns. No file can run code."""

from __future__ import annotations

import csv
import math
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from oodometer.errors import UserError, describe, no_file
from oodometer.files import most_unpacked, refuse_special
from oodometer.other_scores.pieces import Columns

_PICKLED = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt", ".bin")
_PROBLEMS = (
    OSError, ValueError, KeyError, EOFError, TypeError, OverflowError, RuntimeError, SyntaxError,
    NotImplementedError, Warning, csv.Error, zipfile.BadZipFile,
)  # fmt: skip


def read_columns(path: Path) -> Columns:
    """Read the arrays or columns of a file."""
    refuse_special(path, "Score file")
    kind = path.suffix.lower()
    if kind in _PICKLED:
        raise UserError(
            f"'{path}' is a pickle, which could run code, and is not read: save the scores by "
            "numpy.savez, as the documentation of 'oodometer compare' shows."
        )
    if not path.exists():
        raise no_file("Score file", path, _READERS)
    if kind not in _READERS:
        raise UserError(
            f"Scores are read from {', '.join(_READERS)} files, but '{path}' is none of these."
        )
    import pyarrow as pa

    try:
        columns = _READERS[kind](path)
    except UserError:
        raise
    except (*_PROBLEMS, pa.ArrowException) as problem:
        reason = describe(problem, named=False).rstrip(".")
        raise UserError(f"'{path}' cannot be read as {kind[1:]}: {reason}.") from None
    if not columns:
        raise UserError(f"'{path}' has no columns.")
    return columns


def _npz(path: Path) -> Columns:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        size = sum(member.file_size for member in members)
        if size > most_unpacked(path.stat().st_size):
            raise ValueError(f"it unpacks to {size:,} bytes")
        for member in members:
            with archive.open(member) as content:
                _require_length(content, member)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except ValueError as problem:
        if "pickle" in str(problem).lower() or "object" in str(problem).lower():
            raise UserError(
                f"'{path}' holds Python objects, which could run code, and is not read: save "
                "arrays of numbers by numpy.savez."
            ) from None
        raise


def _require_length(content: IO[bytes], member: zipfile.ZipInfo) -> None:
    """Refuse an array whose header claims more than follows it, before room is made for it."""
    form = np.lib.format
    if not member.filename.endswith(".npy"):
        return
    first = form.read_magic(content) == (1, 0)
    shape, _, dtype = (form.read_array_header_1_0 if first else form.read_array_header_2_0)(content)
    if not dtype.hasobject and dtype.itemsize * math.prod(shape) > member.file_size:
        raise ValueError(f"{member.filename} is not as long as its header says")


def _csv(path: Path) -> Columns:
    import pandas as pd

    with path.open("rb") as file:
        first = file.readline(1 << 20)
    if b"\0" in first:
        raise ValueError("it contains zero bytes")
    text = first.decode("utf-8-sig")
    separator = max(",;\t", key=text.count)
    header = [name.strip() for name in next(csv.reader([text], delimiter=separator), [])]
    if not header:
        raise ValueError("it is empty")
    if all(_is_number(name) for name in header):
        raise ValueError("its first line holds numbers instead of the names of columns")
    known: set[str] = set()
    for name in header:
        if name in known:
            raise ValueError(f"two columns are called '{name}'")
        known.add(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # lines of other lengths
        frame = pd.read_csv(
            path, sep=separator, low_memory=False, encoding="utf-8-sig", header=None, skiprows=1,
            names=header, index_col=False,
        )  # fmt: skip
    if not len(frame):
        raise ValueError("it has no lines after the first")
    return {name: frame[name].to_numpy() for name in header}


def _parquet(path: Path) -> Columns:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(path).read(use_threads=False)
    columns = {}
    for name in table.column_names:
        column = table[name]
        if pa.types.is_nested(column.type):
            raise ValueError(f"column '{name}' holds {column.type}, not one number or text per row")
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        columns[name] = column.to_pandas().to_numpy()
    return columns


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_READERS: dict[str, Callable[[Path], Columns]] = {
    ".npz": _npz,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
    ".pq": _parquet,
}
