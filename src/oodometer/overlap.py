"""Measurements of two image sets: what they share, and what separates them at a glance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oodometer.metrics import Estimate

FEWEST_FOR_SHORTCUTS = 25  # images per set
SHARED = 0.01  # of a set: copies in it, from which they are worth a word
_MOSTLY = 0.9  # of the rows of a set are distinct, unless a network answers everything alike
_CHUNK = 4096  # rows that are hashed at once


class Copy(NamedTuple):
    """A row of the ID set, a row of the OOD set that is its copy, and their correlation."""

    id_row: int
    ood_row: int
    correlation: float


class SharedName(NamedTuple):
    """A class of the ID set and one of the OOD set, with what their names have in common."""

    id_class: str
    ood_class: str
    kind: Literal["same", "shared word"]


class ImageStatistic(NamedTuple):
    """One number per image: its means in both sets, and how well it alone separates them."""

    name: str
    meaning: str
    auroc: Estimate  # above 0.5: larger in the OOD set
    id_mean: float
    ood_mean: float


class Shortcuts(NamedTuple):
    """How well simple statistics separate two sets: a model on all of them, and each alone."""

    model: Estimate
    statistics: tuple[ImageStatistic, ...]


@dataclass(frozen=True)
class Overlap:
    """All that was measured of an ID set and an OOD set."""

    id_name: str
    ood_name: str
    id_count: int
    ood_count: int
    near: float  # correlation from which two images are near copies
    exact_copies: tuple[Copy, ...]
    near_copies: tuple[Copy, ...]  # without the exact ones
    shared_names: tuple[SharedName, ...] | None  # None: the classes of a set have no names
    shortcuts: Shortcuts | None  # None: fewer than FEWEST_FOR_SHORTCUTS images


def shared_rows(rows: NDArray[np.floating], known: NDArray[np.floating]) -> int:
    """Count the rows of a matrix that another one also has, bit by bit.

    Returns 0 if rows of `known` mostly repeat each other: equal rows are no copies then.

    >>> shared_rows(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[3.0, 4.0], [5.0, 6.0]]))
    1
    """
    distinct = np.unique(_hashes(known))
    if distinct.size < _MOSTLY * len(known):
        return 0
    return int(np.isin(_hashes(rows), distinct).sum())


def _hashes(matrix: NDArray[np.floating]) -> NDArray[np.uint64]:
    """Return a number per row, the same for equal rows: a random sum of their bits, mod 2^64."""
    words = np.ascontiguousarray(matrix[:1], dtype=np.float64).view(np.uint32).shape[1]
    weights = np.random.default_rng(0).integers(1, 2**63, words, dtype=np.uint64)
    made = np.empty(len(matrix), dtype=np.uint64)
    for start in range(0, len(matrix), _CHUNK):
        some = np.ascontiguousarray(matrix[start : start + _CHUNK], dtype=np.float64)
        made[start : start + _CHUNK] = some.view(np.uint32).astype(np.uint64) @ weights
    return made
