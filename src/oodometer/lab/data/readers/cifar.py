"""CIFAR-10 and CIFAR-100, in the binary and in the Python version of their authors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from oodometer.errors import UserError
from oodometer.lab.data.readers.common import (
    ImageParts,
    Labelled,
    Request,
    check_labels,
    fault,
    read_all,
    read_records,
)
from oodometer.lab.data.readers.pickled import PickledArray, read_pickle

_PIXELS = 3 * 32 * 32
_TEN = ({"train": [f"data_batch_{k}" for k in range(1, 6)], "test": ["test_batch"]}, 10)
_HUNDRED = ({"train": ["train"], "test": ["test"]}, 100)
_COARSE = 20


def matches(path: Path) -> bool:
    """Whether this is a folder with the batches of CIFAR-10 or CIFAR-100."""
    return path.is_dir() and bool(_batches(path))


def parts(path: Path, request: Request) -> ImageParts:
    """Train and test of either set; `request.coarse` asks CIFAR-100 for its 20 superclasses."""
    return {
        part: partial(_join, files, read, request.coarse)
        for part, (files, read) in _batches(path).items()
    }


_Reader = Callable[[Path, bool], Labelled]


def _batches(folder: Path) -> dict[str, tuple[list[Path], _Reader]]:
    """Find the files of each part and how to read them."""
    for names, classes in (_TEN, _HUNDRED):
        for suffix in ("", ".bin"):
            read = partial(read_binary if suffix else read_python, classes=classes)
            found: dict[str, tuple[list[Path], _Reader]] = {}
            for part, stems in names.items():
                files = [folder / f"{stem}{suffix}" for stem in stems]
                present = [file for file in files if file.is_file()]
                # The sign of CIFAR-100 is a bare "train": believe it with its companion alone.
                if present and (classes == 10 or suffix or (folder / "meta").is_file()):
                    found[part] = files, read
            if found:
                return found
    return {}


def _join(files: list[Path], read: _Reader, coarse: bool) -> Labelled:
    batches = [read(file, coarse) for file in files]
    return Labelled(
        np.concatenate([batch.pixels for batch in batches]),
        np.concatenate([batch.labels for batch in batches]),
    )


def read_binary(path: Path, coarse: bool = False, *, classes: int) -> Labelled:
    """Records of label bytes (CIFAR-100: coarse, then fine), then red, green and blue planes."""
    columns = 1 if classes == 10 else 2
    records = read_records(path, columns + _PIXELS)
    column = 0 if classes == 10 or coarse else 1
    allowed = _COARSE if classes == 100 and coarse else classes
    labels = check_labels(path, records[:, column], len(records), allowed)
    pixels = np.ascontiguousarray(records[:, columns:]).reshape(-1, 3, 32, 32)
    return Labelled(pixels, labels)


def read_python(path: Path, coarse: bool = False, *, classes: int) -> Labelled:
    """A pickled dict with the array `data` (n, 3072) and lists of labels; nothing is executed."""
    content = read_pickle(read_all(path), path)
    if not isinstance(content, dict):
        raise fault(path, f"is not a CIFAR batch: it holds a {type(content).__name__}, not a dict")
    key = "labels" if classes == 10 else "coarse_labels" if coarse else "fine_labels"
    pixels, labels = _entry(path, content, "data"), _entry(path, content, key)
    if not isinstance(pixels, PickledArray):
        raise fault(path, "is not a CIFAR batch: its data are not an array")
    try:
        table = pixels.array()
        numbers = np.array(labels) if isinstance(labels, list) else labels.array()
    except (ValueError, TypeError, AttributeError, OverflowError) as problem:
        if isinstance(problem, UserError):
            raise
        raise fault(path, f"is a damaged CIFAR batch: {problem}") from None
    if table.dtype != np.uint8 or table.ndim != 2 or table.shape[1] != _PIXELS or not len(table):
        raise fault(
            path, f"is not a CIFAR batch: its data are {table.dtype} of shape {table.shape}, not "
            f"uint8 of (n, {_PIXELS})"
        )  # fmt: skip
    if numbers.dtype.kind not in "iu":
        raise fault(path, f"is mislabelled: its {key} are not whole numbers")
    allowed = classes if key != "coarse_labels" else _COARSE
    return Labelled(table.reshape(-1, 3, 32, 32), check_labels(path, numbers, len(table), allowed))


def _entry(path: Path, content: dict[Any, Any], key: str) -> Any:
    """Look a key up as text or as bytes: it depends on the Python that wrote the file."""
    for spelling in (key, key.encode()):
        if spelling in content:
            return content[spelling]
    raise fault(path, f"is not a CIFAR batch of this kind: it lacks '{key}'")
