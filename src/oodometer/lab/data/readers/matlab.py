"""Numeric arrays of MATLAB files, version 5 to 7.2: all that SVHN needs of the format.

SciPy reads the whole format, but a damaged file can end the process there; here every length is
checked against the bytes that are left.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer.files import RATIO, most_unpacked
from oodometer.lab.data.readers.common import fault, read_all

_MATRIX, _COMPRESSED = 14, 15
_TYPES = {
    1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8",
}  # fmt: skip
_CLASSES = {
    6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip


class _DamagedError(ValueError):
    """The bytes are not what the format wants."""


def read_matlab(path: Path) -> dict[str, NDArray[Any]]:
    """Return the numeric arrays of a file by their names; what else it has is left out."""
    content = read_all(path)
    if content[:10] == b"MATLAB 7.3":
        raise fault(path, "is of MATLAB 7.3; save it with '-v7' to have it read here")
    mark = bytes(content[126:128])  # "MI", written as a number of the machine's own byte order
    if mark not in (b"IM", b"MI"):
        raise fault(path, "is not a MATLAB file: its header is damaged")
    order = "<" if mark == b"IM" else ">"
    arrays: dict[str, NDArray[Any]] = {}
    try:
        for kind, payload in _elements(memoryview(content)[128:], order):
            if kind == _COMPRESSED:
                inner = next(_elements(_inflate(payload), order), (0, payload))
                kind, payload = inner
            found = _matrix(payload, order) if kind == _MATRIX else None
            if found is not None:
                arrays[found[0]] = found[1]
    except (_DamagedError, zlib.error, struct.error) as problem:
        raise fault(path, f"is a damaged MATLAB file: {problem}") from None
    return arrays


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Split bytes into data elements: type, length, content; each on a multiple of 8 bytes."""
    position = 0
    while position + 8 <= len(data):
        kind, size = struct.unpack_from(f"{order}II", data, position)
        start = position + 8
        if kind >> 16:  # up to 4 bytes lie in the tag itself
            kind, size, start = kind & 0xFFFF, kind >> 16, position + 4
            if size > 4:
                raise _DamagedError(f"a small element claims {size} bytes")
            position += 8
        else:
            position = start + size + (0 if kind == _COMPRESSED else -size % 8)
        if start + size > len(data):
            raise _DamagedError(f"it is truncated by {start + size - len(data):,} bytes")
        yield kind, data[start : start + size]


def _inflate(payload: memoryview) -> memoryview:
    unpacker = zlib.decompressobj()
    most = most_unpacked(len(payload))
    content = unpacker.decompress(payload, most + 1)
    if len(content) > most:
        raise _DamagedError(f"an element would unpack to over {RATIO} times its size")
    if not unpacker.eof:
        raise _DamagedError("a compressed element is truncated")
    return memoryview(content)


def _matrix(payload: memoryview, order: str) -> tuple[str, NDArray[Any]] | None:
    """Read flags, dimensions, name and values; None for anything but an array of real numbers."""
    parts = [part for part, _ in zip(_elements(payload, order), range(4), strict=False)]
    if len(parts) < 4 or len(parts[0][1]) != 8:
        return None
    (flags,) = struct.unpack_from(f"{order}I", parts[0][1])
    (kind, values), name = parts[3], bytes(parts[2][1]).decode("latin-1")
    if flags & 0xFF not in _CLASSES or flags & 0x0800 or kind not in _TYPES:
        return None
    if parts[1][0] != 5 or len(parts[1][1]) % 4:
        raise _DamagedError(f"the shape of '{name[:40]}' is missing")
    shape = tuple(int(size) for size in np.frombuffer(parts[1][1], f"{order}i4"))
    stored = np.dtype(f"{order}{_TYPES[kind]}")
    if min(shape, default=-1) < 0 or math.prod(shape) * stored.itemsize != len(values):
        raise _DamagedError(f"'{name[:40]}' of shape {shape} has {len(values):,} bytes")
    if len(shape) > 8:
        raise _DamagedError(f"'{name[:40]}' has {len(shape)} dimensions")
    with np.errstate(all="ignore"):  # a class is stored in whatever type is smaller
        array = np.frombuffer(values, stored).astype(_CLASSES[flags & 0xFF], copy=False)
    return name, array.reshape(shape, order="F")
