"""Measure what two image sets share, and how well simple statistics separate them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from oodometer.errors import UserError
from oodometer.lab.data import duplicates, shortcuts
from oodometer.lab.data.cards import CARDS
from oodometer.lab.data.class_names import shared_names
from oodometer.lab.data.datasets import load_part, split_options
from oodometer.lab.data.duplicates import Pixels
from oodometer.lab.data.outliers import load_outliers
from oodometer.lab.data.samples import Images
from oodometer.lab.data.sources import Source, at_most
from oodometer.metrics import auroc_interval
from oodometer.overlap import FEWEST_FOR_SHORTCUTS, ImageStatistic, Overlap, Shortcuts

NEAR = 0.95  # correlation from which two images are near copies


def compare_images(
    id_images: ArrayLike,
    ood_images: ArrayLike,
    *,
    id_name: str,
    ood_name: str,
    id_classes: Sequence[str] = (),
    ood_classes: Sequence[str] = (),
    near: float = NEAR,
    seed: int = 0,
) -> Overlap:
    """Measure copies, shared class names and shortcuts of two sets.

    Compared are: pixels in 256 steps (exact copies); grey images without coarse shading at the
    best shift of up to one pixel, mirrored or not (near copies: correlation of at least `near`);
    class names, if both sets have them; and, given enough images, a logistic model on up to nine
    statistics such as brightness and sharpness, by the AUROC of five-fold cross-validation.
    """
    known, outliers = _pixels(id_images, id_name), _pixels(ood_images, ood_name)
    if known.shape[1:] != outliers.shape[1:]:
        raise UserError(
            f"Images of '{id_name}' have shape {known.shape[1:]}, those of '{ood_name}' "
            f"{outliers.shape[1:]}: both must agree."
        )
    if not 0 < near < 1:
        raise UserError(f"near must be a correlation between 0 and 1, got {near}.")
    exact = duplicates.exact_copies(known, outliers)
    copied = {copy.ood_row for copy in exact}
    close = [c for c in duplicates.near_copies(known, outliers, near) if c.ood_row not in copied]
    named = bool(id_classes and ood_classes)
    enough = min(len(known), len(outliers)) >= FEWEST_FOR_SHORTCUTS
    return Overlap(
        id_name=id_name,
        ood_name=ood_name,
        id_count=len(known),
        ood_count=len(outliers),
        near=near,
        exact_copies=tuple(exact),
        near_copies=tuple(close),
        shared_names=tuple(shared_names(id_classes, ood_classes)) if named else None,
        shortcuts=_shortcuts(known, outliers, seed) if enough else None,
    )


def compare_sets(data: str, outliers: Sequence[str], max_images: int | None) -> Iterator[Overlap]:
    """Compare a data set with outlier sets, all by the names that studies use.

    All parts of the data set count, because an outlier must have a copy in none of them.
    """
    for name in outliers:
        if outliers.count(name) > 1:
            raise UserError(f"Outlier set '{name}' is named twice.")
    known = at_most(load_part(data, "all"), max_images)
    source = Source(known.name, known, known, None, 0, test_size=max_images)
    for name in outliers:
        samples = load_outliers(name, source)
        assert isinstance(samples, Images), "the outliers of images are images"
        yield compare_images(
            known.pixels,
            samples.pixels,
            id_name=known.name,
            ood_name=samples.name,
            id_classes=_class_names(data),
            ood_classes=_class_names(name),
        )


def _class_names(data: str) -> tuple[str, ...]:
    card = CARDS.get(split_options(data, ["part", "size", "rule"])[0])
    return () if card is None else card.class_names


def _pixels(images: ArrayLike, name: str) -> Pixels:
    array = np.asarray(images)
    if array.ndim != 4 or not array.size or array.shape[1] not in (1, 3):
        raise UserError(
            f"Images of '{name}' must have shape (n, 1 or 3, height, width), got {array.shape}."
        )
    if array.dtype == np.uint8:
        return array.astype(np.float32) / np.float32(255)
    pixels = array.astype(np.float32)
    if not (np.isfinite(pixels).all() and pixels.min() >= 0 and pixels.max() <= 1):
        raise UserError(f"Images of '{name}' must lie in [0, 1], or be bytes.")
    return pixels


def _shortcuts(known: Pixels, outliers: Pixels, seed: int) -> Shortcuts:
    ours, theirs = shortcuts.statistics(known), shortcuts.statistics(outliers)
    return Shortcuts(
        auroc_interval(*shortcuts.probe(ours, theirs, seed)),
        tuple(
            ImageStatistic(
                name,
                shortcuts.MEANINGS[name],
                auroc_interval(ours[name], theirs[name]),
                float(ours[name].mean()),
                float(theirs[name].mean()),
            )
            for name in ours
        ),
    )
