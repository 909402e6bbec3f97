"""Readers of what people have on disk: each turns a path into the parts of a data set.

A reader promises data or one `UserError` that names the file and its fault, whatever the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from oodometer.lab.data.readers import cifar, folders, idx, sentences, stanford, tables
from oodometer.lab.data.readers.common import (
    ImageParts,
    Labelled,
    LabelledTexts,
    Request,
    TextParts,
)


@dataclass(frozen=True)
class Format:
    """A format on disk: how to recognise it and how to read it."""

    summary: str
    matches: Callable[[Path], bool]
    parts: Callable[[Path, Request], ImageParts]


@dataclass(frozen=True)
class TextFormat:
    """A format of texts on disk."""

    summary: str
    matches: Callable[[Path], bool]
    parts: Callable[[Path, Request], TextParts]


# In the order in which they are tried: the most specific first.
FORMATS: dict[str, Format | TextFormat] = {
    "npz": Format("NumPy .npz", tables.matches_npz, tables.npz),
    "idx": Format("IDX, plain or .gz", idx.matches, idx.parts),
    "emnist-letters": Format("IDX of EMNIST Letters", idx.matches_letters, idx.letters),
    "cifar": Format("CIFAR, Python or binary", cifar.matches, cifar.parts),
    "svhn": Format("SVHN .mat", stanford.matches_svhn, stanford.svhn),
    "stl10": Format("STL-10 binary", stanford.matches_stl10, stanford.stl10),
    "usps": Format("USPS in libsvm's format", tables.matches_usps, tables.usps),
    "tiny-imagenet": Format("Tiny ImageNet", folders.matches_tiny_imagenet, folders.tiny_imagenet),
    "food-101": Format("Food-101", folders.matches_food101, folders.food101),
    "newsgroups": TextFormat(
        "scikit-learn's cache", sentences.matches_newsgroups, sentences.newsgroups
    ),
    "table": TextFormat("CSV or JSON lines", sentences.matches_table, sentences.table),
    "pair": TextFormat("two CSV or JSON lines", sentences.matches_pair, sentences.pair),
    "parquet": Format("Parquet of images", tables.matches_parquet, tables.parquet),
    "text-parquet": TextFormat("Parquet of texts", sentences.matches_parquet, sentences.parquet),
    "images": Format("folder of images", folders.matches_images, folders.images),
    "texts": TextFormat("folder of texts", folders.matches_texts, folders.texts),
}


def recognise(path: Path) -> str | None:
    """Return the name of the format that a path has, or None."""
    return next((name for name, known in FORMATS.items() if known.matches(path)), None)


__all__ = [
    "FORMATS",
    "Format",
    "ImageParts",
    "Labelled",
    "LabelledTexts",
    "Request",
    "TextFormat",
    "TextParts",
    "recognise",
]
