"""Auxiliary outliers: what some detector models learn from besides the training data.

What a detector is later tested on must not be among them: neither a set, nor an image, nor a class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oodometer.calls import setting_text
from oodometer.errors import UserError
from oodometer.lab.data.cards import CARDS
from oodometer.lab.data.class_names import shared_names
from oodometer.lab.data.compatibility import overlaps
from oodometer.lab.data.datasets import split_options
from oodometer.lab.data.duplicates import (
    Sketches,
    alike,
    differ_by_noise,
    hashes,
    near_copies,
    sketches,
)
from oodometer.lab.data.outliers import KNOWN, OPTIONS, load_outliers
from oodometer.lab.data.samples import Images, Samples
from oodometer.lab.data.sources import Source

_CLASSES = "classes"  # setting by which shared class names are allowed
_OPTIONS = (*OPTIONS, _CLASSES)
_AT_ONCE = 4096  # images whose copies are looked for together
_LOOKED_AT = 500  # images of a set that are compared with all auxiliary outliers
_NEAR = 0.95  # correlation from which two images are near copies, as in the diagnostics
_SMALLEST = 16  # side of images of which near copies are told from chance
_FEWEST = 32  # images that a generator learns from
_MOST_NEAR = 0.05  # share of near copies that is still taken for chance


def load_auxiliary(name: str, source: Source) -> Samples:
    """Read the training part of a data set, all of it, in the shape of the source's inputs."""
    return training_part(name, source, "auxiliary")


def training_part(name: str, source: Source, role: str) -> Samples:
    """Read the training part of an outlier set; `role` is what it is read as."""
    data, options = _parted(name)
    if data in KNOWN:
        raise UserError(
            f"{role} must name a data set, got '{name}', which is made from the test set."
        )
    options.pop(_CLASSES, None)
    part = setting_text({"part": "train", **options})
    return load_outliers(f"{data}({part})", replace(source, test_size=None, ood_draw=None))


def untested_part(name: str, source: Source, tested: Samples) -> Samples:
    """Read what a generator of an outlier set learns from: its training part, or what is left of
    a set without parts, but no image that is tested.
    """  # noqa: D205
    part = training_part(name, source, "An outlier set that a generator learns from")
    if not isinstance(part, Images) or not isinstance(tested, Images):
        return part
    known = set(_fingerprints(tested))
    left = np.array([i for i, image in enumerate(_fingerprints(part)) if image not in known], int)
    if len(left) < _FEWEST:
        raise UserError(
            f"A generator of '{tested.name}' needs at least {_FEWEST} images that are not tested, "
            f"got {len(left)} of {len(part)}: set test_size below the size of the set, or take a "
            "set with a training part."
        )
    return part if len(left) == len(part) else part.take(left)


def check_auxiliary_name(name: str, data: str, ood: Sequence[str]) -> None:
    """Refuse auxiliary outliers of a set that is tested on, or that share classes with one.

    Classes that the in-distribution data show can be left out with ``(rule=strict)``; where a
    shared word means different things, ``(classes=any)`` says so, and findings repeat it.
    """
    own, options = _parted(name)
    others = [split_options(other, OPTIONS)[0] for other in (data, *ood)]
    if own in others:
        role = "the in-distribution data" if own == others[0] else "an outlier set of the study"
        raise UserError(
            f"auxiliary names '{own}', which is {role}: a detector must not learn from what it is "
            "tested on, so take another data set."
        )
    if options.get(_CLASSES) == "any":
        return
    for index, other in enumerate(others):
        if index == 0 and options.get("rule") == "strict":
            continue  # its classes are left out
        shared = _shared_classes(other, own)
        if shared:
            first = ", ".join(shared[:3])
            more = f" and {len(shared) - 3} more" if len(shared) > 3 else ""
            rule = f"{own}(rule=strict) to leave them out, or " if index == 0 else ""
            raise UserError(
                f"auxiliary '{own}' shares classes with '{other}' ({first}{more}): "
                f"write {rule}{own}(classes=any) if these are different things."
            )


def check_auxiliary_images(auxiliary: Samples, others: Iterable[Samples]) -> None:
    """Refuse auxiliary outliers among which images of other sets are, exactly or nearly.

    Every image counts if it is equal in 256 steps, constant ones aside, or but for noise; of 500
    images of each set, 5 percent may be near copies by chance, and images below 16 x 16 may be
    near or noisy copies.
    """
    if not isinstance(auxiliary, Images):
        return
    sets = [other for other in others if isinstance(other, Images)]
    sets = [other for other in sets if other.shape == auxiliary.shape]
    known = _prints(auxiliary)
    for samples in sets:
        _refuse(auxiliary, samples, len(known & _prints(samples)), len(samples), "")
    if not sets or min(auxiliary.shape[1:]) < _SMALLEST:
        return
    drawn = _sketches(auxiliary)
    for samples in sets:
        _refuse(
            auxiliary, samples, _noisy(auxiliary, drawn, samples), len(samples), "noisy copies of "
        )
    looked_at = [_spread(samples) for samples in sets]
    for samples, part, near in zip(sets, looked_at, _near(auxiliary, looked_at), strict=True):
        if near > _MOST_NEAR * len(part):
            _refuse(auxiliary, samples, near, len(part), "near copies of ")


def _sketches(images: Images) -> Sketches:
    parts = [sketches(images.floats(rows)) for rows in _portions(images)]
    return Sketches(*map(np.concatenate, zip(*parts, strict=True)))


def _noisy(auxiliary: Images, drawn: Sketches, samples: Images) -> int:
    """How many images of a set are among the auxiliary outliers but for noise."""
    copied = np.zeros(len(samples), bool)
    for ours, theirs in alike(drawn, _sketches(samples)):
        for start in range(0, len(ours), _AT_ONCE):
            rows, others = ours[start : start + _AT_ONCE], theirs[start : start + _AT_ONCE]
            same = differ_by_noise(auxiliary.floats(rows), samples.floats(others))
            copied[others[same]] = True
    return int(copied.sum())


def _near(auxiliary: Images, parts: Sequence[NDArray[np.float32]]) -> list[int]:
    """How many images of each part are nearly among the auxiliary outliers."""
    together = np.concatenate(parts)
    copied = np.zeros(len(together), bool)
    for rows in _portions(auxiliary):
        copies = near_copies(auxiliary.floats(rows), together, _NEAR)
        copied[[copy.ood_row for copy in copies]] = True
    ends = np.cumsum([len(part) for part in parts])[:-1]
    return [int(part.sum()) for part in np.split(copied, ends)]


def _refuse(auxiliary: Samples, samples: Samples, found: int, looked_at: int, how: str) -> None:
    if found:
        raise UserError(
            f"Auxiliary outliers '{auxiliary.name}' contain {how}{found} of {looked_at} images of "
            f"'{samples.name}': take outliers that are neither in-distribution nor tested on."
        )


def _portions(images: Images) -> list[NDArray[np.int64]]:
    return np.array_split(np.arange(len(images)), -(-len(images) // _AT_ONCE))


def _spread(images: Images) -> NDArray[np.float32]:
    """Some images from all over a set."""
    rows = np.arange(0, len(images), max(1, len(images) // _LOOKED_AT))
    return images.floats(rows[:_LOOKED_AT])


def _parted(name: str) -> tuple[str, dict[str, bool | int | float | str]]:
    data, options = split_options(name, _OPTIONS)
    if options.get(_CLASSES, "any") != "any":
        raise UserError(f"In auxiliary '{name}', classes is {options[_CLASSES]}, but must be any.")
    return data, options


def _prints(images: Images) -> set[bytes]:
    """A fingerprint of every image that is not constant."""
    found: set[bytes] = set()
    for rows in _portions(images):
        pixels = images.floats(rows)
        flat = pixels.reshape(len(pixels), -1)
        found.update(hashes(pixels[flat.max(1) > flat.min(1)]))
    return found


def _fingerprints(images: Images) -> list[bytes]:
    return [mark for rows in _portions(images) for mark in hashes(images.floats(rows))]


def _shared_classes(one: str, other: str) -> tuple[str, ...]:
    """Classes of two known data sets that both show, by what is known of them or by their names."""
    known = tuple(dict.fromkeys(entry.name for entry in overlaps(one, other, "strict")))
    names = [card.class_names for card in map(CARDS.get, (one, other)) if card is not None]
    if known or len(names) < 2:
        return known
    return tuple(
        pair.id_class if pair.kind == "same" else f"{pair.id_class} and {pair.ood_class}"
        for pair in shared_names(*names)
    )
