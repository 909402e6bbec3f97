"""Labelled images and texts in memory: by name, or from a file or folder of the user."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError, unknown
from oodometer.lab import catalog
from oodometer.lab.cards import CARDS, Card
from oodometer.lab.readers import FORMATS, Format, Labelled, LabelledTexts, Request, recognise
from oodometer.lab.readers.pictures import recolour, resize

Part = Literal["train", "test", "all"]


@dataclass(frozen=True, eq=False)
class Images:
    """Images with labels: (n, channels, height, width), int64 (n,), -1 = no known class.

    `pixels` are uint8 or float32, as they were read: a set of bytes takes a quarter of the memory.
    `floats` gives them as networks take them.
    """

    name: str
    pixels: NDArray[Any]
    labels: NDArray[np.int64]

    def __post_init__(self) -> None:
        if not len(self.pixels):
            raise UserError(f"Data set '{self.name}' is empty.")
        if self.pixels.ndim != 4 or not self.pixels.size:
            raise UserError(
                f"Images of '{self.name}' must have shape (n, channels, height, width), "
                f"got {self.pixels.shape}."
            )
        if self.pixels.dtype not in (np.uint8, np.float32):
            raise UserError(
                f"Images of '{self.name}' must be uint8 or float32, got {self.pixels.dtype}."
            )
        if self.labels.shape != (len(self.pixels),):
            raise UserError(
                f"Data set '{self.name}' has {len(self.pixels)} images but labels of shape "
                f"{self.labels.shape}: it needs one label per image."
            )
        if self.pixels.dtype == np.uint8:
            return
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
        """A hash of the content alone: the same images under another name or path agree.

        Bytes and the floats that they stand for are different content.
        """
        content = hashlib.blake2b(digest_size=20)
        for array in (self.pixels, self.labels):
            content.update(f"{array.dtype.str}{array.shape}".encode())
            content.update(np.ascontiguousarray(array).data)
        return content.hexdigest()

    def floats(self, rows: slice | NDArray[np.int64] = slice(None)) -> NDArray[np.float32]:
        """Return these images as float32; bytes become [0, 1]."""
        if self.pixels.dtype == np.uint8:
            return self.pixels[rows].astype(np.float32) / np.float32(255)
        chosen: NDArray[np.float32] = self.pixels[rows]
        return chosen

    def batches(self, size: int = 256) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Yield floats and labels in order, a part at a time: never all of them as floats."""
        for start in range(0, len(self), size):
            yield self.floats(slice(start, start + size)), self.labels[start : start + size]

    def take(self, rows: NDArray[np.int64], name: str | None = None) -> Images:
        """Return these rows, in this order."""
        return Images(name or self.name, self.pixels[rows], self.labels[rows])


@dataclass(frozen=True, eq=False)
class Parts:
    """A labelled data set with its own train and test part, before anything is held out."""

    name: str
    train: Images
    test: Images


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts with labels, -1 = no known class."""

    name: str
    texts: tuple[str, ...]
    labels: NDArray[np.int64]
    taken: str = ""  # from a table: which columns were taken for what

    def __post_init__(self) -> None:
        if not self.texts or self.labels.shape != (len(self.texts),):
            raise UserError(
                f"Data set '{self.name}' has {len(self.texts)} texts and labels of shape "
                f"{self.labels.shape}: it needs one label per text, and at least one."
            )

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def digest(self) -> str:
        """A hash of the content alone."""
        content = hashlib.blake2b(digest_size=20)
        for text in self.texts:
            encoded = text.encode("utf-8", "surrogatepass")
            content.update(f"{len(encoded)} ".encode() + encoded)
        content.update(np.ascontiguousarray(self.labels).data)
        return content.hexdigest()


def load_digits() -> Parts:
    """Handwritten digits 0-9, 1,797 grey images of 8 x 8, shipped with scikit-learn."""
    found = catalog.find("digits")
    if found is None:
        raise UserError("The digits come with scikit-learn, which is not installed.")
    with gzip.open(found.path, "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    pixels = (table[:, :-1] / np.float32(16)).reshape(-1, 1, 8, 8)
    # The set has no official split: half and half leaves outlier metrics a test set of some size.
    return _split("digits", Images("digits", pixels, table[:, -1].astype(np.int64)), share=0.5)


def load_parts(data: str) -> Parts:
    """Load train and test of a known data set or of a path.

    A set that is not divided is: a fifth of it, always the same, becomes the test part.
    """
    place = _locate(data)
    if place.name == "digits" and place.card is not None:
        return _resized(load_digits(), place.size)
    readers = place.readers()
    if "all" in readers and not {"train", "test"} <= set(readers):
        whole = place.read("all", readers["all"])
        _require_labels(place, whole, "labels")
        return _split(place.name, whole, share=0.2)
    if not {"train", "test"} <= set(readers):
        raise UserError(
            f"Data set '{data}' has no {'test' if 'train' in readers else 'train'} part, and can "
            "only serve as outliers; to train on it, it needs both (in an .npz file: train_images, "
            "train_labels, test_images, test_labels)."
        )
    train, test = (place.read(part, readers[part]) for part in ("train", "test"))
    _require_labels(place, train, "train_labels")
    _require_labels(place, test, "test_labels")
    if train.pixels.shape[1:] != test.pixels.shape[1:]:
        if place.size is None:
            raise UserError(
                f"Train and test images of '{data}' differ in shape: {train.pixels.shape[1:]} and "
                f"{test.pixels.shape[1:]}."
            )
        test = conform(test, *train.pixels.shape[1:])
    return Parts(place.name, train, test)


def load_part(data: str, part: Part = "test", size: tuple[int, int] | None = None) -> Images:
    """Load one part of a known data set or of a path, or all that it has if it is not divided.

    `size` (height, width) resizes files of many sizes while they are read.
    """
    place = _locate(data, size)
    if place.name == "digits" and place.card is not None:
        digits = load_digits()
        return digits.train if part == "train" else digits.test
    readers = place.readers()
    chosen = next(name for name in (part, "all", "test", "train") if name in readers)
    return place.read(chosen, readers[chosen])


def load_texts(data: str) -> dict[str, Texts]:
    """Load the parts that a set of texts has: "train" and "test", or "all" if it is not divided."""
    place = _locate(data)
    known = FORMATS.get(place.format)
    if known is None or isinstance(known, Format):
        raise UserError(f"Data set '{data}' holds images; texts are needed.")
    parts = {part: read() for part, read in known.parts(place.path, place.request).items()}
    names = sorted({name for part in parts.values() for name in part.names})
    made = {}
    for part, found in parts.items():
        labels = _renumber(found, names)
        _check_range(place, labels)
        made[part] = Texts(place.name, found.texts, labels, found.taken)
    return made


def conform(images: Images, channels: int, height: int, width: int) -> Images:
    """Bring images to the shape that a classifier takes: resize, then change the colours.

    Bilinear as in Pillow; grey becomes three channels alike, colour Pillow's "L". Shafaei et al.
    2019, arXiv:1809.04729, bring outliers to their source in this order.
    """
    pixels = recolour(resize(images.pixels, (height, width)), channels)
    return images if pixels is images.pixels else Images(images.name, pixels, images.labels)


@dataclass(frozen=True)
class _Place:
    """Where a data set lies and how it is read."""

    name: str
    path: Path
    format: str
    card: Card | None
    size: tuple[int, int] | None

    @property
    def request(self) -> Request:
        if self.card is None:
            return Request(size=self.size)
        return Request(self.size, self.card.coarse, self.card.tolerated)

    def readers(self) -> dict[str, Callable[[], Labelled]]:
        known = FORMATS[self.format]
        if not isinstance(known, Format):
            raise UserError(f"Data set '{self.name}' holds texts; images are needed here.")
        return dict(known.parts(self.path, self.request))

    def read(self, part: str, reader: Callable[[], Labelled]) -> Images:
        found = reader()
        pixels = found.pixels
        if self.card is not None and self.card.negative and self.format == "images":
            pixels = np.uint8(255) - pixels
        if self.size is not None:
            pixels = resize(pixels, self.size)
        _check_range(self, found.labels)
        return Images(self.name, pixels, found.labels)


def _locate(data: str, size: tuple[int, int] | None = None) -> _Place:
    """Find a data set by its name or path; "(size=N)" behind it asks for N x N pixels."""
    match = re.fullmatch(r"(.+?)\s*\(size=([1-9][0-9]{0,3})\)", data)
    if match is not None:
        data, size = match[1], (int(match[2]), int(match[2]))
    if data in CARDS:
        found = catalog.find(data)
        if found is None:
            raise catalog.not_found(data)
        return _Place(data, found.path, found.format, CARDS[data], size)
    path = Path(data)
    if "/" not in data and not path.suffix and not path.exists():
        raise unknown("data set", data, [*CARDS, "path/to/your/data"])
    format = recognise(path)
    if format is None:
        if not path.exists():
            raise UserError(f"Data file '{data}' does not exist.")
        forms = ", ".join(known.summary for known in FORMATS.values())
        raise UserError(f"'{data}' is in no format that is read here: {forms}.")
    plain = path if path.suffix not in (".gz", ".bz2") else path.with_suffix("")
    name = path.resolve().name if path.is_dir() else plain.stem
    return _Place(name, path, format, None, size)


def _check_range(place: _Place, labels: NDArray[np.int64]) -> None:
    classes = place.card.classes if place.card is not None else None
    if classes is not None and labels.size and labels.max() >= classes:
        raise UserError(
            f"'{place.path}' is mislabelled: it has the label {labels.max()}, but '{place.name}' "
            f"has the classes 0 to {classes - 1}."
        )


def _require_labels(place: _Place, images: Images, array: str) -> None:
    if (images.labels >= 0).all():
        return
    needed = f"lacks {array}" if place.format == "npz" else "has images without a class"
    advice = "; to train on a folder, it needs one folder per class"
    raise UserError(
        f"Data set '{place.path}' {needed}, and can only serve as outliers"
        f"{advice if place.format == 'images' else ''}."
    )


def _renumber(found: LabelledTexts, names: list[str]) -> NDArray[np.int64]:
    """Number named classes over all parts alike."""
    if not found.names:
        return found.labels
    return np.array([names.index(name) for name in found.names], np.int64)[found.labels]


def _split(name: str, whole: Images, share: float) -> Parts:
    """Divide a set that comes in one piece, always in the same way."""
    order = np.random.default_rng(0).permutation(len(whole))
    cut = len(whole) - round(share * len(whole)) if share < 0.5 else len(whole) // 2
    if not 0 < cut < len(whole):
        raise UserError(f"Data set '{name}' has {len(whole)} images, too few to be divided.")
    return Parts(name, whole.take(order[:cut]), whole.take(order[cut:]))


def _resized(parts: Parts, size: tuple[int, int] | None) -> Parts:
    if size is None:
        return parts
    train, test = (conform(p, p.pixels.shape[1], *size) for p in (parts.train, parts.test))
    return Parts(parts.name, train, test)
