"""Labelled images in memory: by name, or from a user's own .npz file."""

from __future__ import annotations

import gzip
import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError, unknown
from oodometer.study import TrainSpec


@dataclass(frozen=True, eq=False)
class Images:
    """Images with labels: float32 (n, channels, height, width), int64 (n,), -1 = no known class."""

    name: str
    pixels: NDArray[np.float32]
    labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        if not len(self.pixels):
            raise UserError(f"Data set '{self.name}' is empty.")
        if self.pixels.ndim != 4 or not self.pixels.size:
            raise UserError(
                f"Images of '{self.name}' must have shape (n, channels, height, width), "
                f"got {self.pixels.shape}."
            )
        if self.labels.shape != (len(self.pixels),):
            raise UserError(
                f"Data set '{self.name}' has {len(self.pixels)} images but labels of shape "
                f"{self.labels.shape}: it needs one label per image."
            )
        finite = np.isfinite(self.pixels).reshape(len(self.pixels), -1).all(axis=1)
        bad = np.flatnonzero(~finite)
        if bad.size:
            raise UserError(
                f"Data set '{self.name}' holds NaN or infinity in {bad.size} of "
                f"{len(self.pixels)} images, the first at index {bad[0]}."
            )

    def __len__(self) -> int:
        return len(self.pixels)

    @cached_property
    def digest(self) -> str:
        """A hash of the content alone: the same images under another name or path agree."""
        content = hashlib.blake2b(digest_size=20)
        for array in (self.pixels, self.labels):
            content.update(f"{array.dtype.str}{array.shape}".encode())
            content.update(np.ascontiguousarray(array).data)
        return content.hexdigest()

    def take(self, rows: NDArray[np.int64], name: str | None = None) -> Images:
        """Return these rows, in this order."""
        return Images(name or self.name, self.pixels[rows], self.labels[rows])


@dataclass(frozen=True, eq=False)
class Source:
    """An in-distribution data set, split: known classes to train and test, the rest held out."""

    name: str
    train: Images
    test: Images
    held_out: Images | None
    classes: int


@dataclass(frozen=True, eq=False)
class Parts:
    """A labelled data set with its own train and test part, before anything is held out."""

    name: str
    train: Images
    test: Images


def load_digits() -> Parts:
    """Handwritten digits 0-9, 1,797 grey images of 8 x 8, shipped with scikit-learn."""
    # Read from the wheel without importing scikit-learn, which would cost a second.
    try:
        path = distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")
    except PackageNotFoundError:
        raise UserError("The digits come with scikit-learn, which is not installed.") from None
    with gzip.open(str(path), "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    pixels = (table[:, :-1] / np.float32(16)).reshape(-1, 1, 8, 8)
    whole = Images("digits", pixels, table[:, -1].astype(np.int64))
    # The set has no official split: half and half leaves outlier metrics a test set of some size.
    order = np.random.default_rng(0).permutation(len(whole))
    half = len(whole) // 2
    return Parts("digits", whole.take(order[:half]), whole.take(order[half:]))


KNOWN: dict[str, Callable[[], Parts]] = {"digits": load_digits}


def load_source(spec: TrainSpec) -> Source:
    """Load what a specification trains on: its split, without its held-out classes."""
    parts = _read_parts(spec.data)
    if spec.split:
        parts = _resplit(parts, spec.split)
    present = np.unique(np.concatenate([parts.train.labels, parts.test.labels]))
    for number in spec.held_out_classes:
        if number not in present:
            raise UserError(
                f"held_out_classes names class {number}, but '{parts.name}' has the classes "
                f"{', '.join(map(str, present))}."
            )
    kept = np.unique(parts.train.labels[~np.isin(parts.train.labels, spec.held_out_classes)])
    if len(kept) < 2:
        raise UserError(
            f"A classifier needs at least 2 classes to train on; '{parts.name}' leaves {len(kept)} "
            f"after holding out {list(spec.held_out_classes)}."
        )
    held_out = None
    if spec.held_out_classes:
        everything = _join(parts.name, parts.train, parts.test)
        unseen = np.flatnonzero(np.isin(everything.labels, spec.held_out_classes))
        held_out = Images(
            f"held-out {parts.name}", everything.pixels[unseen], np.full(len(unseen), -1)
        )
    return Source(
        name=parts.name,
        train=_only_classes(parts.train, kept),
        test=_only_classes(parts.test, kept),
        held_out=held_out,
        classes=len(kept),
    )


def load_outlier_file(path: str) -> Images:
    """Read an outlier set from an .npz file: its test images, or all that it has."""
    arrays = _read_npz(path)
    key = next((name for name in ("test_images", "images") if name in arrays), None)
    if key is None:
        raise UserError(
            f"Data file '{path}' lacks an array test_images or images; it holds "
            f"{', '.join(sorted(arrays)) or 'nothing'}."
        )
    pixels = _to_pixels(arrays[key], path, key)
    return Images(Path(path).stem, pixels, np.full(len(pixels), -1))


def _read_parts(data: str) -> Parts:
    if data in KNOWN:
        return KNOWN[data]()
    if not data.endswith(".npz"):
        raise unknown("data set", data, [*KNOWN, "path/to/your.npz"])
    arrays = _read_npz(data)
    needed = ("train_images", "train_labels", "test_images", "test_labels")
    lacking = [name for name in needed if name not in arrays]
    if lacking:
        raise UserError(
            f"Data file '{data}' lacks {', '.join(lacking)}; to train on it, it needs "
            f"{', '.join(needed)}; it holds {', '.join(sorted(arrays)) or 'nothing'}."
        )
    name = Path(data).stem
    parts = []
    for part in ("train", "test"):
        labels = arrays[f"{part}_labels"]
        if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer) or (labels < 0).any():
            raise UserError(
                f"{part}_labels of '{data}' must be a vector of integers from 0, got "
                f"{labels.dtype} of shape {labels.shape}."
            )
        pixels = _to_pixels(arrays[f"{part}_images"], data, f"{part}_images")
        parts.append(Images(name, pixels, labels.astype(np.int64)))
    if parts[0].pixels.shape[1:] != parts[1].pixels.shape[1:]:
        raise UserError(
            f"train_images and test_images of '{data}' differ in shape: "
            f"{parts[0].pixels.shape[1:]} and {parts[1].pixels.shape[1:]}."
        )
    return Parts(name, *parts)


def _read_npz(path: str) -> dict[str, NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise UserError(f"Data file '{path}' is a single array; an .npz file is needed.")
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise UserError(f"Data file '{path}' does not exist.") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as problem:
        if isinstance(problem, UserError):
            raise
        raise UserError(f"Data file '{path}' cannot be read as .npz: {problem}.") from None


def _to_pixels(array: NDArray[Any], path: str, key: str) -> NDArray[np.float32]:
    """Bring images to float32 (n, channels, height, width); bytes become [0, 1]."""
    if array.dtype == np.uint8:
        pixels = array.astype(np.float32) / np.float32(255)
    elif np.issubdtype(array.dtype, np.floating):
        with np.errstate(over="ignore"):  # what overflows is reported as infinite by Images
            pixels = array.astype(np.float32)
    else:
        raise UserError(f"{key} of '{path}' must be uint8 or float, got {array.dtype}.")
    if pixels.ndim == 3:
        return pixels[:, None]
    if pixels.ndim == 4 and pixels.shape[3] in (1, 3):
        return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    if pixels.ndim == 4 and pixels.shape[1] in (1, 3):
        return pixels
    raise UserError(
        f"{key} of '{path}' must have shape (n, height, width) or (n, height, width, 1 or 3), "
        f"got {array.shape}."
    )


def _join(name: str, first: Images, second: Images) -> Images:
    return Images(
        name,
        np.concatenate([first.pixels, second.pixels]),
        np.concatenate([first.labels, second.labels]),
    )


def _resplit(parts: Parts, seed: int) -> Parts:
    """Pool train and test and draw new parts of the same sizes."""
    pool = _join(parts.name, parts.train, parts.test)
    order = np.random.default_rng(seed).permutation(len(pool))
    cut = len(parts.train)
    return Parts(parts.name, pool.take(order[:cut]), pool.take(order[cut:]))


def _only_classes(images: Images, kept: NDArray[np.int64]) -> Images:
    """Keep these classes and number them 0, 1, ... in their old order."""
    rows = np.flatnonzero(np.isin(images.labels, kept))
    labels = np.searchsorted(kept, images.labels[rows]).astype(np.int64)
    return Images(images.name, images.pixels[rows], labels)
