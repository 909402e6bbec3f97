"""SVHN (cropped digits, MATLAB files) and STL-10 (plain bytes), as Stanford publishes them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from oodometer.lab.data.readers.common import (
    ImageParts,
    Labelled,
    Request,
    check_labels,
    fault,
    read_records,
)
from oodometer.lab.data.readers.matlab import read_matlab

_SVHN = {"train": "train_32x32.mat", "test": "test_32x32.mat"}
_STL = {"train": ("train_X.bin", "train_y.bin"), "test": ("test_X.bin", "test_y.bin")}


def matches_svhn(path: Path) -> bool:
    """Whether this is a folder with SVHN's cropped digits, or one such file."""
    if path.is_file():
        return path.suffix == ".mat"
    return any((path / name).is_file() for name in _SVHN.values())


def svhn(path: Path, request: Request) -> ImageParts:
    """Cropped house numbers, 32 x 32 in colour."""
    if path.is_file():
        return {"all": partial(read_svhn, path)}
    return {
        part: partial(read_svhn, path / name)
        for part, name in _SVHN.items()
        if (path / name).is_file()
    }


def read_svhn(path: Path) -> Labelled:
    """Read X (32, 32, 3, n) and y (n, 1), where 10 stands for the digit 0."""
    arrays = read_matlab(path)
    if "X" not in arrays or "y" not in arrays:
        names = ", ".join(sorted(arrays)) or "nothing"
        raise fault(path, f"is truncated or not from SVHN: it lacks X or y; it has {names[:80]}")
    pixels, labels = arrays["X"], arrays["y"].reshape(-1)
    if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[2] != 3 or not pixels.size:
        raise fault(
            path, f"must hold X as uint8 of shape (32, 32, 3, n), but it is {pixels.dtype} of "
            f"{pixels.shape}"
        )  # fmt: skip
    if labels.dtype.kind not in "iuf" or not np.isin(labels, np.arange(11)).all():
        raise fault(path, "is mislabelled: SVHN's labels are 1 to 10")
    images = np.ascontiguousarray(pixels.transpose(3, 2, 0, 1))
    return Labelled(images, check_labels(path, labels.astype(np.int64) % 10, len(images), 10))


def matches_stl10(path: Path) -> bool:
    """Whether this is the folder stl10_binary."""
    return any((path / images).is_file() for images, _ in _STL.values())


def stl10(path: Path, request: Request) -> ImageParts:
    """STL-10, 96 x 96 in colour; its unlabelled part is left alone."""
    return {
        part: partial(read_stl10, path / images, path / labels)
        for part, (images, labels) in _STL.items()
        if (path / images).is_file()
    }


def read_stl10(images: Path, labels: Path) -> Labelled:
    """Planes of red, green and blue, each stored column by column; labels from 1 to 10."""
    planes = read_records(images, 3 * 96 * 96).reshape(-1, 3, 96, 96)
    pixels = np.ascontiguousarray(planes.transpose(0, 1, 3, 2))
    numbers = read_records(labels, 1).reshape(-1).astype(np.int64) - 1
    return Labelled(pixels, check_labels(labels, numbers, len(pixels), 10))
