"""Open files of scores: .npz, CSV and Parquet become columns. No file can run code."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from oodometer.errors import UserError, describe, no_file
from oodometer.files import most_unpacked, refuse_special
from oodometer.other_scores.pieces import Columns

_PICKLED = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt", ".bin")
_PROBLEMS = (
    OSError, ValueError, KeyError, EOFError, TypeError, OverflowError, RuntimeError, SyntaxError,
    NotImplementedError, zipfile.BadZipFile,
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
        sizes = {member.filename: member.file_size for member in archive.infolist()}
    if sum(sizes.values()) > most_unpacked(path.stat().st_size):
        raise ValueError(f"it unpacks to {sum(sizes.values()):,} bytes")
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


def _csv(path: Path) -> Columns:
    import pandas as pd

    with path.open("rb") as file:
        first = file.readline(1 << 20)
    separator = max(",;\t", key=lambda sign: first.count(sign.encode()))
    frame = pd.read_csv(path, sep=separator, low_memory=False, encoding="utf-8-sig")
    header = [str(name).strip() for name in frame.columns]
    if header and all(_is_number(name) for name in header):
        raise ValueError("its first line holds numbers instead of the names of columns")
    if not len(frame):
        raise ValueError("it has no lines after the first")
    frame.columns = header
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise ValueError(f"two columns are called '{twice[0]}'")
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
