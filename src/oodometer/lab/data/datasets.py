"""Labelled images and texts in memory: by name, or from a file or folder of the user."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from oodometer.calls import Setting, parse_call
from oodometer.errors import UserError, unknown
from oodometer.files import real_path
from oodometer.lab.data import catalog
from oodometer.lab.data.cards import CARDS, Card
from oodometer.lab.data.readers import (
    FORMATS,
    Format,
    Labelled,
    LabelledTexts,
    Request,
    TextFormat,
    recognise,
)
from oodometer.lab.data.readers.pictures import recolour, resize
from oodometer.lab.data.samples import Images, Raw, Texts

# "unlabelled": images without a class that an official set has beside its parts.
Part = Literal["train", "test", "all", "unlabelled"]


@dataclass(frozen=True, eq=False)
class Parts:
    """A labelled data set with its own train and test part, before anything is held out."""

    name: str
    train: Raw
    test: Raw


def split_options(data: str, allowed: Collection[str]) -> tuple[str, dict[str, Setting]]:
    """Take a name or path apart from the settings behind it.

    >>> split_options("svhn(part=train)", ["part", "size"])
    ('svhn', {'part': 'train'})
    """
    match = re.fullmatch(r"(.+?)\s*\((\s*\w+\s*=[^()]*)\)\s*", data)
    if match is None:
        return data, {}
    _, options = parse_call("data set", f"data({match[2]})")
    for option, value in options.items():
        if option not in allowed:
            raise unknown(f"setting of data set '{match[1]}'", option, allowed)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if option == "size" and not (whole and 1 <= int(value) <= 9999):
            raise UserError(
                f"The size of data set '{data}' must be a number of pixels from 1 to 9999, got "
                f"{value!r}."
            )
    return match[1], options


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
    """Load train and test of a known data set or of a path, of images or of texts.

    A set that is not divided is: a fifth of it, always the same, becomes the test part.
    """
    place = _locate(data)
    if place.name == "digits" and place.card is not None:
        return _resized(load_digits(), place.size)
    readers = place.readers()
    if "all" in readers and not {"train", "test"} <= set(readers):
        whole = readers["all"]()
        _require_labels(place, whole, "labels")
        return _split(place.name, whole, share=0.2)
    if not {"train", "test"} <= set(readers):
        raise UserError(
            f"Data set '{data}' has no {'test' if 'train' in readers else 'train'} part, and can "
            "only serve as outliers; to train on it, it needs both (in an .npz file: train_images, "
            "train_labels, test_images, test_labels)."
        )
    train, test = (readers[part]() for part in ("train", "test"))
    _require_labels(place, train, "train_labels")
    _require_labels(place, test, "test_labels")
    if isinstance(train, Images) and isinstance(test, Images) and train.shape != test.shape:
        if place.size is None:
            raise UserError(
                f"Train and test images of '{data}' differ in shape: {train.shape} and "
                f"{test.shape}."
            )
        test = conform(test, *train.shape)
    return Parts(place.name, train, test)


def read_part(data: str, part: Part = "test", size: tuple[int, int] | None = None) -> Raw:
    """Load one part of a known data set or of a path, or all that it has if it is not divided.

    `size` (height, width) resizes files of many sizes while they are read.
    """
    place = _locate(data, size)
    if place.name == "digits" and place.card is not None:
        digits = load_digits()
        if part == "all":
            return _joined(digits.train, digits.test)
        return digits.train if part == "train" else digits.test
    readers = place.readers()
    if part == "unlabelled" and part not in readers:
        raise UserError(f"Data set '{data}' was found without its unlabelled images.")
    if part == "all" and "all" not in readers and {"train", "test"} <= set(readers):
        return _joined(readers["train"](), readers["test"]())
    return readers[next(name for name in (part, "all", "test", "train") if name in readers)]()


def load_part(data: str, part: Part = "test", size: tuple[int, int] | None = None) -> Images:
    """Load one part of a set of images, see `read_part`."""
    found = read_part(data, part, size)
    if isinstance(found, Texts):
        raise UserError(f"Data set '{data}' holds texts; images are needed here.")
    return found


def load_texts(data: str) -> dict[str, Texts]:
    """Load the parts that a set of texts has: "train" and "test", or "all" if it is not divided."""
    place = _locate(data)
    known = FORMATS.get(place.format)
    if not isinstance(known, TextFormat):
        raise UserError(f"Data set '{data}' holds images; texts are needed.")
    return place.texts(known)


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

    def readers(self) -> Mapping[str, Callable[[], Raw]]:
        """The parts that there are, each read when called."""
        known = FORMATS[self.format]
        if isinstance(known, Format):
            parts = known.parts(self.path, self.request)
            return {part: self._reader(read) for part, read in parts.items()}
        return {part: partial(_given, texts) for part, texts in self.texts(known).items()}

    def texts(self, known: TextFormat) -> dict[str, Texts]:
        """All parts of a set of texts, since classes are numbered over all of them alike."""
        parts = {
            part: self._chosen(read())
            for part, read in known.parts(self.path, self.request).items()
        }
        names = sorted({name for part in parts.values() for name in part.names})
        made = {}
        for part, found in parts.items():
            labels = _renumber(found, names)
            _check_range(self, labels)
            made[part] = Texts(self.name, found.texts, labels, found.columns)
        return made

    def _chosen(self, found: LabelledTexts) -> LabelledTexts:
        """Keep the outlier class of a set, without labels, or all the others; see its card."""
        if self.card is None or not self.card.outlier_class:
            return found
        names = [name for name in found.names if name != self.card.outlier_class]
        number = {name: index for index, name in enumerate(names)}
        labels = np.array([number.get(found.names[label], -1) for label in found.labels], np.int64)
        rows = np.flatnonzero((labels < 0) == self.card.is_outlier_class)
        texts = tuple(found.texts[row] for row in rows)
        if not texts:
            raise UserError(f"'{self.path}' has no texts of '{self.name}'.")
        kept = () if self.card.is_outlier_class else tuple(names)
        return LabelledTexts(texts, labels[rows], kept, found.columns)

    def _reader(self, read: Callable[[], Labelled]) -> Callable[[], Raw]:
        return lambda: self._images(read())

    def _images(self, found: Labelled) -> Images:
        pixels = found.pixels
        if self.card is not None and self.card.negative and self.format == "images":
            pixels = np.uint8(255) - pixels
        if self.size is not None:
            pixels = resize(pixels, self.size)
        _check_range(self, found.labels)
        return Images(self.name, pixels, found.labels)


def _locate(data: str, size: tuple[int, int] | None = None) -> _Place:
    """Find a data set by its name or path; "(size=N)" behind it asks for N x N pixels."""
    data, options = split_options(data, ["size"])
    if "size" in options:
        size = (int(options["size"]), int(options["size"]))
    if not data:
        raise UserError("The name of a data set is empty: give a known name or a path.")
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
        raise UserError(f"'{data}' has an unsupported format; supported: {forms}.")
    plain = path if path.suffix not in (".gz", ".bz2") else path.with_suffix("")
    name = real_path(path).name if path.is_dir() else plain.stem
    return _Place(name, path, format, None, size)


def _check_range(place: _Place, labels: NDArray[np.int64]) -> None:
    classes = place.card.classes if place.card is not None else None
    if classes is not None and labels.size and labels.max() >= classes:
        raise UserError(
            f"'{place.path}' is mislabelled: it has the label {labels.max()}, but '{place.name}' "
            f"has the classes 0 to {classes - 1}."
        )


def _require_labels(place: _Place, samples: Raw, array: str) -> None:
    if (samples.labels >= 0).all():
        return
    kind = "texts" if isinstance(samples, Texts) else "images"
    needed = f"lacks {array}" if place.format == "npz" else f"has {kind} without a class"
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


def _split(name: str, whole: Raw, share: float) -> Parts:
    """Divide a set that comes in one piece, always in the same way."""
    order = np.random.default_rng(0).permutation(len(whole))
    cut = len(whole) - round(share * len(whole)) if share < 0.5 else len(whole) // 2
    if not 0 < cut < len(whole):
        raise UserError(f"Data set '{name}' has {len(whole)} samples, too few to be divided.")
    return Parts(name, whole.take(order[:cut]), whole.take(order[cut:]))


def _joined(first: Raw, second: Raw) -> Raw:
    if isinstance(first, Images) and isinstance(second, Images):
        return first.joined(conform(second, *first.shape))
    assert isinstance(first, Texts) and isinstance(second, Texts)
    return first.joined(second)


def _resized(parts: Parts, size: tuple[int, int] | None) -> Parts:
    if size is None:
        return parts
    train, test = (
        conform(part, part.shape[0], *size)
        for part in (parts.train, parts.test)
        if isinstance(part, Images)
    )
    return Parts(parts.name, train, test)


def _given(texts: Texts) -> Raw:
    return texts
