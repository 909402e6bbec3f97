"""Measurements of two image sets: what they share, and what separates them at a glance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from oodometer.metrics import Estimate

FEWEST_FOR_SHORTCUTS = 25  # images per set


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
