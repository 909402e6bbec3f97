"""Results as bytes and back: safetensors for arrays, Parquet for tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from oodometer.engine.stores import DamagedError
from oodometer.errors import UserError
from oodometer.score_files import table_from_bytes
from oodometer.scores import ScoreTable

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


def bytes_to_table(payload: bytes | memoryview) -> ScoreTable:
    """Read a score table; a mapped file is read as it is needed."""
    try:
        return table_from_bytes(payload)
    except UserError as problem:
        raise DamagedError(f"not a score table: {problem}") from None
