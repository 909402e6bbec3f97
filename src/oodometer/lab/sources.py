"""What a specification trains on: one data set, split, with classes held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.lab.datasets import Images, Parts, load_parts
from oodometer.study import TrainSpec


@dataclass(frozen=True, eq=False)
class Source:
    """An in-distribution data set, split: known classes to train and test, the rest held out."""

    name: str
    train: Images
    test: Images
    held_out: Images | None
    classes: int
    test_size: int | None = None  # at most so many test images, and outliers of each set
    ood_draw: int | None = None  # which draw of that many outliers; None: always the same


def load_source(spec: TrainSpec) -> Source:
    """Load what a specification trains on: its split, without its held-out classes."""
    parts = load_parts(spec.data)
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
    strange = np.setdiff1d(parts.test.labels, np.union1d(kept, spec.held_out_classes))
    if strange.size:
        raise UserError(
            f"The test part of '{parts.name}' holds classes that its training part lacks: "
            f"{', '.join(map(str, strange))}. Name them under held_out_classes, or take them out."
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
        test=at_most(_only_classes(parts.test, kept), spec.test_size),
        held_out=held_out,
        classes=len(kept),
        test_size=spec.test_size,
        ood_draw=spec.ood_draw,
    )


def at_most(images: Images, size: int | None) -> Images:
    """Draw so many images, always the same ones, in their old order; all if there are no more."""
    if size is None or size >= len(images):
        return images
    drawn = np.random.default_rng(0).permutation(len(images))[:size]
    return images.take(np.sort(drawn))


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
    if np.array_equal(kept, np.arange(len(kept))) and images.labels.max() < len(kept):
        return images  # nothing to leave out: no second copy of a large set
    rows = np.flatnonzero(np.isin(images.labels, kept))
    labels = np.searchsorted(kept, images.labels[rows]).astype(np.int64)
    return Images(images.name, images.pixels[rows], labels)
