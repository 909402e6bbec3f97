"""IDX, the format of MNIST and its family: a header with the shape, then plain bytes."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oodometer.lab.data.readers.common import (
    ImageParts,
    Labelled,
    Request,
    check_labels,
    fault,
    first_file,
    opened,
    read_exactly,
)

_SPLITS = {"train": ("train",), "test": ("t10k", "test")}


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read one IDX file of unsigned bytes, plain or .gz.

    Two zero bytes, the type (8 = unsigned byte), the number of dimensions, and each dimension as
    32 bits, big end first; then the values.
    """
    with opened(path) as stream:
        magic = read_exactly(stream, 4, path)
        if magic[:2] != b"\0\0" or magic[2] != 8 or magic[3] not in (1, 3):
            raise fault(path, f"is not an IDX file of bytes: it begins with {magic.hex()}")
        header = read_exactly(stream, 4 * magic[3], path)
        shape = tuple(int(size) for size in np.frombuffer(header, ">u4"))
        count = math.prod(shape)
        if not count:
            raise fault(path, f"is empty: its shape is {shape}")
        content = read_exactly(stream, count, path)
        if stream.read(1):
            raise fault(path, f"continues after the {count:,} bytes that its header announces")
    return np.frombuffer(content, np.uint8).reshape(shape)


def matches(path: Path) -> bool:
    """Whether this is a folder with IDX images, or one file of them."""
    if path.is_file():
        return path.name.removesuffix(".gz").endswith(("idx3-ubyte", ".idx3"))
    return bool(_files(path, ""))


def parts(path: Path, request: Request) -> ImageParts:
    """Images with labels of a folder in MNIST's layout; a single file has no labels."""
    if path.is_file():
        return {"all": partial(_read, path, None, letters=False)}
    return {
        part: partial(_read, images, labels, letters=False)
        for part, (images, labels) in _files(path, "").items()
    }


def matches_letters(path: Path) -> bool:
    """Whether this is a folder with the files of EMNIST Letters."""
    return path.is_dir() and bool(_files(path, "emnist-letters-"))


def letters(path: Path, request: Request) -> ImageParts:
    """EMNIST Letters: stored with rows and columns exchanged, and labelled from 1."""
    return {
        part: partial(_read, images, labels, letters=True)
        for part, (images, labels) in _files(path, "emnist-letters-").items()
    }


def _files(folder: Path, prefix: str) -> dict[str, tuple[Path, Path | None]]:
    found: dict[str, tuple[Path, Path | None]] = {}
    for part, words in _SPLITS.items():
        for word in words:
            start = f"{prefix}{word}"
            # Some programs turn the dash before idx into a dot when they unpack.
            images = first_file(folder, f"{start}-images-idx3-ubyte", f"{start}-images.idx3-ubyte")
            if images is not None and part not in found:
                found[part] = (
                    images,
                    first_file(folder, f"{start}-labels-idx1-ubyte", f"{start}-labels.idx1-ubyte"),
                )
    return found


def _read(images: Path, labels: Path | None, *, letters: bool) -> Labelled:
    pixels = read_idx(images)
    if pixels.ndim != 3:
        raise fault(images, f"must hold images, but its shape is {pixels.shape}")
    if labels is None:
        return Labelled(pixels[:, None], np.full(len(pixels), -1))
    numbers = read_idx(labels).astype(np.int64)
    if letters:
        pixels, numbers = pixels.transpose(0, 2, 1), numbers - 1
    checked = check_labels(labels, numbers, len(pixels), 26 if letters else None)
    return Labelled(np.ascontiguousarray(pixels[:, None]), checked)
