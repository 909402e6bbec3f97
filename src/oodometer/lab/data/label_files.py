"""Labels from files: arrays in .npz, one label per line, or lists of image names with labels."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oodometer.errors import UserError, unknown
from oodometer.files import refuse_special
from oodometer.lab.data.readers.common import read_all
from oodometer.lab.data.readers.tables import npz_names, read_npz_array

Labels = NDArray[np.int64]


def locate(path: str) -> str:
    """Return where a label file lies: as it is named, or else under OODOMETER_DATA."""
    beside = Path(os.environ.get("OODOMETER_DATA") or ".") / path
    return str(beside) if not Path(path).exists() and beside.exists() else path


def read_labels(path: str, key: str | None, clean: ArrayLike) -> Labels:
    """Read as many labels as `clean` has, in its order, from one of three kinds of file.

    - .npz: the array `key`, or the only array in it (such as CIFAR-N's labels, saved by NumPy);
    - text: one label per line, also .gz;
    - text with lines ``.../<class>/<number>.png <label>``: the number counts the images of the
      class from 1 in the order of the data, which gives each line its place (`list_positions`).
    """
    known = np.asarray(clean)
    path = locate(path)
    refuse_special(Path(path), "Label file")
    labels = _from_npz(path, key) if path.endswith(".npz") else _from_text(path, key, known)
    if len(labels) != len(known):
        raise UserError(f"Label file '{path}' has {len(labels)} labels for {len(known)} images.")
    return labels


def read_names(path: str) -> list[str]:
    """Read the image names of a list, one per line, with or without a label behind; also .gz."""
    place = locate(path)
    refuse_special(Path(place), "List")
    lines = [line.split(maxsplit=1) for line in _text_of(place).splitlines()]
    names = [words[0] for words in lines if words]
    if not names:
        raise UserError(f"List '{path}' is empty.")
    return names


def list_positions(names: Sequence[str], clean: ArrayLike) -> Labels:
    """Place in the data's own order of each image that a list calls ``.../<class>/<number>.png``.

    The number is the 1-based count of the image among those of its class; folders of classes in
    alphabetical order are the classes 0, 1, ..., as torchvision numbers them.

    >>> list_positions(["dog/0001.png", "cat/0002.png", "cat/0001.png"], [0, 1, 0]).tolist()
    [1, 2, 0]
    """
    labels = np.asarray(clean)
    parts = [re.fullmatch(r"(?:.*/)?([^/]+)/(\d+)\.\w+", name) for name in names]
    for name, part in zip(names, parts, strict=True):
        if part is None:
            raise UserError(f"'{name}' must be written as <class>/<number>.png.")
    folders = [part[1] for part in parts if part]
    order = {folder: number for number, folder in enumerate(sorted(set(folders)))}
    classes = len(np.unique(labels[labels >= 0]))
    if len(order) < classes:
        raise UserError(
            f"The list names images of {len(order)} of {classes} classes: folders of all of them "
            "are needed to number them."
        )
    places = [np.flatnonzero(labels == number) for number in range(len(order))]
    positions = np.empty(len(names), dtype=np.int64)
    for row, (folder, part) in enumerate(zip(folders, parts, strict=True)):
        count = int(part[2]) if part else 0
        of_class = places[order[folder]]
        if not 1 <= count <= len(of_class):
            raise UserError(
                f"'{names[row]}' would be image {count} of class {order[folder]}, which has "
                f"{len(of_class)}."
            )
        positions[row] = of_class[count - 1]
    if len(np.unique(positions)) != len(positions):
        raise UserError("The list names an image twice.")
    return positions


def _from_npz(path: str, key: str | None) -> Labels:
    names = sorted(npz_names(Path(path)))
    if key is None and len(names) != 1:
        raise UserError(
            f"Label file '{path}' holds several arrays: set key to one of {', '.join(names)}."
        )
    if key is not None and key not in names:
        raise unknown(f"key of '{path}'", key, names)
    array = read_npz_array(Path(path), key or names[0])
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise UserError(
            f"Labels in '{path}' must be a vector of integers, got {array.dtype} of shape "
            f"{array.shape}."
        )
    labels: Labels = array.astype(np.int64)
    return labels


def _from_text(path: str, key: str | None, clean: NDArray[np.int64]) -> Labels:
    if key is not None:
        raise UserError(f"'{path}' is not an .npz file, so it has no key '{key}'.")
    text = _text_of(path)
    lines = [line.rsplit(maxsplit=1) for line in text.splitlines() if line.strip()]
    named = bool(lines) and len(lines[0]) == 2
    labels = np.empty(len(lines), dtype=np.int64)
    for row, words in enumerate(lines):
        if len(words) != 1 + named or not words[-1].isdecimal():
            wanted = "an image name and a label" if named else "a label"
            raise UserError(
                f"Line {row + 1} of '{path}' must hold {wanted}, got '{' '.join(words)}'."
            )
        labels[row] = int(words[-1])
    if not named:
        return labels
    if len(labels) != len(clean):
        raise UserError(f"Label file '{path}' has {len(labels)} labels for {len(clean)} images.")
    ordered = np.empty_like(labels)
    ordered[list_positions([words[0] for words in lines], clean)] = labels
    return ordered


def _text_of(path: str) -> str:
    try:
        return read_all(Path(path)).decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(
            f"Label file '{path}' must be .npz, or text with one label per line; save others, such "
            "as the .pt files of CIFAR-N, with numpy.savez first."
        ) from None
