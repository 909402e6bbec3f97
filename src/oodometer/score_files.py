"""Score tables as Parquet files: one format for `evaluate`, for stores, and for everybody else."""

from __future__ import annotations

import base64
import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from oodometer.errors import UserError, describe
from oodometer.factors import Factor
from oodometer.files import refuse_special
from oodometer.scores import Missing, ScoreRow, ScoreTable, SetInfo

_NAMES = ("run", "detector", "setting", "dataset", "learned_from")
_VERSION = 1


def save_scores(table: ScoreTable, path: str | os.PathLike[str]) -> Path:
    """Write a score table to a Parquet file that `load_scores` reads back equal."""
    file = Path(path).expanduser()
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(table_to_bytes(table))
        temporary.replace(file)
    except OSError as problem:
        temporary.unlink(missing_ok=True)
        raise UserError(f"Cannot write '{file}': {problem.strerror or problem}.") from None
    return file


def load_scores(path: str | os.PathLike[str]) -> ScoreTable:
    """Read a score table that `save_scores`, ``oodometer evaluate`` or a store has written."""
    file = Path(path).expanduser()
    refuse_special(file, "Score table")
    try:
        payload = file.read_bytes()
    except OSError as problem:
        raise UserError(f"Cannot read '{file}': {problem.strerror or problem}.") from None
    try:
        return table_from_bytes(payload)
    except UserError as problem:
        raise UserError(f"'{file}' is not a score table: {problem}") from None


def is_score_table(path: Path) -> bool:
    """Whether a Parquet file is a score table of ours, whole or not."""
    refuse_special(path, "Score table")
    try:
        return b"oodometer" in (pq.read_schema(path).metadata or {})
    except (OSError, pa.ArrowException):
        return False


def table_to_bytes(table: ScoreTable) -> bytes:
    """Write a score table as Parquet: one line per cell, its scores, one per sample, as a list.

    The same table gives the same bytes. `pandas.read_parquet` reads it; what is not a cell, such as
    the factor levels of the runs, is JSON in the schema's metadata under "oodometer".
    """
    lengths = [len(row.scores) for row in table.rows]
    values = np.concatenate([row.scores for row in table.rows]) if table.rows else np.empty(0)
    columns = {
        name: pa.array([getattr(row, name) for row in table.rows], pa.string()).dictionary_encode()
        for name in _NAMES
    }
    settings = [json.dumps(dict(row.settings)) for row in table.rows]
    columns["settings"] = pa.array(settings, pa.string()).dictionary_encode()
    columns["default"] = pa.array([row.default for row in table.rows], pa.bool_())
    columns["scores"] = pa.LargeListArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64()), pa.array(values)
    )
    about = {
        "version": _VERSION,
        "id": table.id,
        "sets": {name: vars(info) for name, info in table.sets.items()},
        "runs": {run: dict(levels) for run, levels in table.runs.items()},
        "factors": [vars(factor) for factor in table.factors],
        "missing": [vars(missing) for missing in table.missing],
        "correct": {run: _packed(right) for run, right in table.correct.items()},
        "correct_sizes": {run: len(right) for run, right in table.correct.items()},
        "chance": dict(table.chance),
        "same_samples": table.same_samples,
    }
    arrow = pa.table(columns).replace_schema_metadata({"oodometer": json.dumps(about)})
    sink = pa.BufferOutputStream()
    # Scores are all different: a dictionary of them would only cost, their bytes in turn help.
    pq.write_table(
        arrow,
        sink,
        compression="zstd",
        use_dictionary=[*_NAMES, "settings"],
        use_byte_stream_split=["scores.list.element"],
        row_group_size=10_000,
    )
    return bytes(sink.getvalue().to_pybytes())


def table_from_bytes(payload: bytes | memoryview) -> ScoreTable:
    """Read a score table; a mapped file is read as it is needed."""
    try:
        # Threads of Arrow's that still end when the process does may abort it (apache/arrow#34314).
        arrow = pq.ParquetFile(pa.BufferReader(pa.py_buffer(payload))).read(use_threads=False)
        about = _about(arrow)
        return ScoreTable(
            about["id"],
            _rows(arrow),
            runs=about["runs"],
            missing=tuple(Missing(**missing) for missing in about["missing"]),
            correct={
                run: _unpacked(bits, about["correct_sizes"][run])
                for run, bits in about["correct"].items()
            },
            same_samples=about["same_samples"],
            factors=tuple(Factor(**factor) for factor in about["factors"]),
            sets={name: SetInfo(**info) for name, info in about["sets"].items()},
            chance=about.get("chance", {}),  # which older files lack
        )
    except UserError:
        raise
    except (pa.ArrowException, ArithmeticError, AttributeError, LookupError, OSError,
            RecursionError, TypeError, ValueError) as problem:  # fmt: skip
        raise UserError(f"{describe(problem).rstrip('.')}.") from None


def _about(arrow: pa.Table) -> dict[str, Any]:
    """What is said of the whole table; Any: JSON, checked when the table is made."""
    text = (arrow.schema.metadata or {}).get(b"oodometer")
    about = None if text is None else json.loads(text)
    if not isinstance(about, dict):
        raise UserError("its schema has no metadata called 'oodometer'.")
    if about.get("version") != _VERSION:
        raise UserError(
            f"it has version {about.get('version')} of the format, this program reads {_VERSION}."
        )
    return about


def _rows(arrow: pa.Table) -> tuple[ScoreRow, ...]:
    columns = {name: arrow[name].to_pylist() for name in (*_NAMES, "settings", "default")}
    settings = {text: json.loads(text) for text in set(columns["settings"])}
    columns["settings"] = [settings[text] for text in columns["settings"]]
    lists = arrow["scores"].combine_chunks()
    values = lists.values.to_numpy(zero_copy_only=False)
    offsets = lists.offsets.to_numpy()
    columns["scores"] = [values[start:end] for start, end in pairwise(offsets)]
    lines = zip(*columns.values(), strict=True)
    return tuple(ScoreRow(**dict(zip(columns, line, strict=True))) for line in lines)


def _packed(right: NDArray[np.bool_]) -> str:
    return base64.b64encode(np.packbits(right).tobytes()).decode()


def _unpacked(bits: str, size: int) -> NDArray[np.bool_]:
    return np.unpackbits(np.frombuffer(base64.b64decode(bits), np.uint8), count=size).astype(bool)
