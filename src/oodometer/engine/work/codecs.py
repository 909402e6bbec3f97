"""Results as bytes and back: safetensors for arrays, Parquet for tables, JSON for the rest."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from oodometer.engine.stores import DamagedError
from oodometer.factors import Factor
from oodometer.scores import Missing, ScoreRow, ScoreTable

Arrays = Mapping[str, NDArray[Any]]
REFUSED = "refused"  # the array that holds, instead of results, why there are none


def arrays_to_bytes(arrays: Arrays) -> bytes:
    """Write named arrays as safetensors."""
    # Not ascontiguousarray, which makes a vector of a single number.
    return safetensors.numpy.save({name: np.asarray(a, order="C") for name, a in arrays.items()})


def bytes_to_arrays(payload: bytes | memoryview) -> dict[str, NDArray[Any]]:
    """Read named arrays."""
    try:
        # Sorted, because the order in which the library returns them is not defined.
        return dict(sorted(safetensors.numpy.load(bytes(payload)).items()))
    except safetensors.SafetensorError as problem:
        raise DamagedError(f"not safetensors: {problem}") from None


def text_to_array(text: str) -> NDArray[np.uint8]:
    """Write a sentence as an array, to be kept where arrays are."""
    return np.frombuffer(text.encode(), np.uint8)


def array_to_text(array: NDArray[Any]) -> str:
    """Read a sentence that was written as an array."""
    return array.tobytes().decode()


def table_to_bytes(table: ScoreTable) -> bytes:
    """Write a score table as Parquet: one line per cell, its scores, one per sample, as a list.

    The same table gives the same bytes. `pandas.read_parquet` reads it; what is not a cell, such as
    the factor levels of the runs, is JSON in the schema's metadata under "oodometer".
    """
    lengths = [len(row.scores) for row in table.rows]
    values = np.concatenate([row.scores for row in table.rows]) if table.rows else np.empty(0)
    columns = {
        name: pa.array([getattr(row, name) for row in table.rows], pa.string()).dictionary_encode()
        for name in ("run", "detector", "setting", "dataset")
    }
    columns["default"] = pa.array([row.default for row in table.rows], pa.bool_())
    columns["scores"] = pa.LargeListArray.from_arrays(
        pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64()), pa.array(values)
    )
    about = {
        "id": table.id,
        "runs": {run: dict(levels) for run, levels in table.runs.items()},
        "factors": [vars(factor) for factor in table.factors],
        "missing": [vars(missing) for missing in table.missing],
        "correct": {run: _packed(right) for run, right in table.correct.items()},
        "correct_sizes": {run: len(right) for run, right in table.correct.items()},
        "same_samples": table.same_samples,
    }
    arrow = pa.table(columns).replace_schema_metadata({"oodometer": json.dumps(about)})
    sink = pa.BufferOutputStream()
    # Scores are all different: a dictionary of them would only cost, their bytes in turn help.
    pq.write_table(
        arrow,
        sink,
        compression="zstd",
        use_dictionary=list(columns)[:4],
        use_byte_stream_split=["scores.list.element"],
        row_group_size=10_000,
    )
    return bytes(sink.getvalue().to_pybytes())


def bytes_to_table(payload: bytes | memoryview) -> ScoreTable:
    """Read a score table; a mapped file is read as it is needed."""
    try:
        arrow = pq.read_table(pa.BufferReader(pa.py_buffer(payload)))
    except pa.ArrowException as problem:
        raise DamagedError(f"not Parquet: {problem}") from None
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
        run: np.unpackbits(
            np.frombuffer(base64.b64decode(bits), np.uint8), count=about["correct_sizes"][run]
        ).astype(bool)
        for run, bits in about["correct"].items()
    }
    return ScoreTable(
        about["id"],
        rows,
        runs=about["runs"],
        missing=tuple(Missing(**missing) for missing in about["missing"]),
        correct=correct,
        same_samples=about["same_samples"],
        factors=tuple(Factor(**factor) for factor in about["factors"]),
    )


def _packed(right: NDArray[np.bool_]) -> str:
    return base64.b64encode(np.packbits(right).tobytes()).decode()
