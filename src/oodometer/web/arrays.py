"""Single arrays of a safetensors file, so that a curve does not cost reading all weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer.engine.stores import DamagedError

_TYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8",
    "U16": "<u2", "U32": "<u4", "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
_LONGEST_HEADER = 10_000_000  # bytes


def read_arrays(payload: memoryview, wanted: Callable[[str], bool]) -> dict[str, NDArray[Any]]:
    """Read the arrays whose names are wanted, without copying the others.

    The file begins with the length of its header, 8 bytes, and the header, JSON: for each name
    dtype, shape and where its bytes lie behind the header (huggingface.co/docs/safetensors).
    """
    try:
        length = int.from_bytes(payload[:8], "little")
        if length > _LONGEST_HEADER:
            raise ValueError("its header is too long")
        header = json.loads(bytes(payload[8 : 8 + length]))
        found = {}
        for name in sorted(set(header) - {"__metadata__"}):
            if wanted(name):
                about = header[name]
                start, end = about["data_offsets"]
                part = bytes(payload[8 + length + start : 8 + length + end])
                found[name] = np.frombuffer(part, _TYPES[about["dtype"]]).reshape(about["shape"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise DamagedError(f"not safetensors: {problem!r}") from None
    return found
