"""Results as bytes and back: safetensors for arrays, Parquet for tables, JSON for the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from oodometer.engine.store import DamagedError
from oodometer.scores import Missing, ScoreRow, ScoreTable

Arrays = Mapping[str, NDArray[Any]]


def arrays_to_bytes(arrays: Arrays) -> bytes:
    """Write named arrays as safetensors."""
    # Not ascontiguousarray, which makes a vector of a single number.
    return safetensors.numpy.save({name: np.asarray(a, order="C") for name, a in arrays.items()})


def bytes_to_arrays(payload: bytes) -> dict[str, NDArray[Any]]:
    """Read named arrays."""
    try:
        # Sorted, because the order in which the library returns them is not defined.
        return dict(sorted(safetensors.numpy.load(payload).items()))
    except safetensors.SafetensorError as problem:
        raise DamagedError(f"not safetensors: {problem}") from None


def table_to_bytes(table: ScoreTable) -> bytes:
    """Write a score table as Parquet: one line per cell, its scores as a list."""
    lengths = [len(row.scores) for row in table.rows]
    values = np.concatenate([row.scores for row in table.rows]) if table.rows else np.empty(0)
    columns = {
        name: pa.array([getattr(row, name) for row in table.rows], pa.string()).dictionary_encode()
        for name in ("run", "detector", "setting", "dataset")
    }
    columns["default"] = pa.array([row.default for row in table.rows], pa.bool_())
    columns["scores"] = pa.ListArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32()), pa.array(values)
    )
    about = {
        "id": table.id,
        "runs": {run: dict(levels) for run, levels in table.runs.items()},
        "missing": [vars(missing) for missing in table.missing],
        "correct": {run: np.packbits(right).tolist() for run, right in table.correct.items()},
        "correct_sizes": {run: len(right) for run, right in table.correct.items()},
        "same_samples": table.same_samples,
    }
    arrow = pa.table(columns).replace_schema_metadata({"oodometer": json.dumps(about)})
    sink = pa.BufferOutputStream()
    pq.write_table(arrow, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def bytes_to_table(payload: bytes) -> ScoreTable:
    """Read a score table."""
    arrow = pq.read_table(pa.BufferReader(payload))
    about = json.loads(arrow.schema.metadata[b"oodometer"])
    names = {
        name: arrow[name].to_pylist()
        for name in ("run", "detector", "setting", "dataset", "default")
    }
    lists = arrow["scores"].combine_chunks()
    values = lists.values.to_numpy(zero_copy_only=False)
    offsets = lists.offsets.to_numpy()
    rows = tuple(
        ScoreRow(run, detector, setting, dataset, values[start:end], default)
        for run, detector, setting, dataset, default, start, end in zip(
            *names.values(), offsets[:-1], offsets[1:], strict=True
        )
    )
    correct = {
        run: np.unpackbits(np.array(bits, np.uint8), count=about["correct_sizes"][run]).astype(bool)
        for run, bits in about["correct"].items()
    }
    return ScoreTable(
        about["id"],
        rows,
        runs=about["runs"],
        missing=tuple(Missing(**missing) for missing in about["missing"]),
        correct=correct,
        same_samples=about["same_samples"],
    )
