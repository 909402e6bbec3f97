"""Samples with labels: images, texts, and texts as the numbers that networks take."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError

Rows = NDArray[np.int64]
_AT_ONCE = 512  # images that are checked together


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
        parts = np.array_split(self.pixels, -(-len(self.pixels) // _AT_ONCE))  # bounds the memory
        finite = [np.isfinite(part).reshape(len(part), -1).all(axis=1) for part in parts]
        bad = np.flatnonzero(~np.concatenate(finite))
        if bad.size:
            raise UserError(
                f"Data set '{self.name}' holds NaN or infinity in {bad.size} of "
                f"{len(self.pixels)} images, the first at index {bad[0]}."
            )

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def values(self) -> NDArray[Any]:
        """What batches are cut from, one row per image."""
        return self.pixels

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of an image."""
        return self.pixels.shape[1:]

    @cached_property
    def digest(self) -> str:
        """A hash of the content alone: the same images under another name or path agree.

        Bytes and the floats that they stand for are different content.
        """
        return _digest(self.pixels, self.labels)

    def floats(self, rows: slice | Rows = slice(None)) -> NDArray[np.float32]:
        """Return these images as float32; bytes become [0, 1]."""
        if self.pixels.dtype == np.uint8:
            return self.pixels[rows].astype(np.float32) / np.float32(255)
        chosen: NDArray[np.float32] = self.pixels[rows]
        return chosen

    def batches(self, size: int = 256) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Yield floats and labels in order, a part at a time: never all of them as floats."""
        for start in range(0, len(self), size):
            yield self.floats(slice(start, start + size)), self.labels[start : start + size]

    def take(self, rows: Rows, name: str | None = None) -> Images:
        """Return these rows, in this order."""
        return Images(name or self.name, self.pixels[rows], self.labels[rows])

    def joined(self, other: Images) -> Images:
        """Return these images and then the others."""
        pixels = np.concatenate([self.pixels, other.pixels])
        return Images(self.name, pixels, np.concatenate([self.labels, other.labels]))


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts with labels, -1 = no known class."""

    name: str
    texts: tuple[str, ...]
    labels: NDArray[np.int64]
    columns: str = ""  # of a table: which hold the texts and labels

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

    def take(self, rows: Rows, name: str | None = None) -> Texts:
        """Return these rows, in this order."""
        texts = tuple(self.texts[row] for row in rows.tolist())
        return replace(self, name=name or self.name, texts=texts, labels=self.labels[rows])

    def joined(self, other: Texts) -> Texts:
        """Return these texts and then the others."""
        labels = np.concatenate([self.labels, other.labels])
        return replace(self, texts=self.texts + other.texts, labels=labels)


@dataclass(frozen=True, eq=False)
class Tokens:
    """Texts as networks take them: (n, length) numbers of words, 0 behind the end; and labels."""

    name: str
    words: NDArray[np.int32]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.words)

    @property
    def values(self) -> NDArray[Any]:
        """What batches are cut from, one row per text."""
        return self.words

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of places for words in a text."""
        return self.words.shape[1:]

    @cached_property
    def digest(self) -> str:
        """A hash of the content alone."""
        return _digest(self.words, self.labels)

    def batches(self, size: int = 256) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield numbers of words and labels in order, a part at a time."""
        for start in range(0, len(self), size):
            rows = slice(start, start + size)
            yield self.words[rows].astype(np.int64), self.labels[rows]

    def take(self, rows: Rows, name: str | None = None) -> Tokens:
        """Return these rows, in this order."""
        return Tokens(name or self.name, self.words[rows], self.labels[rows])


Samples: TypeAlias = Images | Tokens  # what networks take
Raw: TypeAlias = Images | Texts  # what data sets hold


def _digest(*arrays: NDArray[Any]) -> str:
    content = hashlib.blake2b(digest_size=20)
    for array in arrays:
        content.update(f"{array.dtype.str}{array.shape}".encode())
        content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()
