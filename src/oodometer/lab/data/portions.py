"""Which samples a specification trains on, and which it sets aside for validation."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oodometer.calls import parse_call
from oodometer.errors import UserError
from oodometer.lab.data.samples import Samples
from oodometer.study import TrainSpec

_SUBSAMPLE, _VALIDATION = 1, 2  # so that the two draws of one split seed have nothing in common


def split_seed(spec: TrainSpec) -> int:
    """Return the seed of the draws below: the split's own, where it has one, else 0."""
    if isinstance(spec.split, int):
        return spec.split
    seed = parse_call("split", spec.split)[1].get("seed", 0)
    return seed if isinstance(seed, int) else 0


def portion_rows(
    spec: TrainSpec, labels: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows to train on and those set aside for validation, each in ascending order.

    First `train_size` rows are drawn, as equally from the classes as these allow; then a share of
    `validation` of every class is set aside. Both draws depend on the split's seed alone, and a
    smaller `train_size` of the same seed is a part of a larger one.
    """
    rows = np.arange(len(labels))
    seed = split_seed(spec)
    if spec.train_size is not None:
        rows = _subsample(labels, spec.train_size, np.random.default_rng([seed, _SUBSAMPLE]))
    if not spec.validation:
        return rows, rows[:0]
    rng = np.random.default_rng([seed, _VALIDATION])
    aside = rows[_stratified(labels[rows], spec.validation, rng)]
    return np.setdiff1d(rows, aside, assume_unique=True), aside


def split_portions(
    spec: TrainSpec, samples: Samples, classes: int
) -> tuple[Samples, Samples | None]:
    """Return what is trained on, with its label noise, and the validation part, always clean."""
    rows, aside = portion_rows(spec, samples.labels)
    part = samples if len(rows) == len(samples) else samples.take(rows)
    if spec.label_noise != "none":
        part = replace(part, labels=_noisy(spec.label_noise, samples.labels, rows, classes))
    return part, samples.take(aside, f"validation part of {samples.name}") if len(aside) else None


def noise_digest(spec: TrainSpec) -> str:
    """Return a hash of the file that the label noise comes from; without a file, nothing."""
    from oodometer.lab.data.label_files import locate

    path = _noise_path(spec.label_noise)
    if path is None:
        return ""
    try:
        return hashlib.blake2b(Path(locate(path)).read_bytes(), digest_size=20).hexdigest()
    except OSError as problem:
        raise UserError(f"Label file '{path}' cannot be read: {problem.strerror}.") from None


@cache
def _noise_path(text: str) -> str | None:
    """The file that label noise names; a study has thousands of runs and few kinds of noise."""
    from oodometer.lab.data.label_noise import parse_noise

    path = parse_noise(text)[1].get("path")
    return None if path is None else str(path)


def _noisy(
    text: str, labels: NDArray[np.int64], rows: NDArray[np.int64], classes: int
) -> NDArray[np.int64]:
    """Return the noisy labels of these rows."""
    from oodometer.lab.data.label_noise import apply_noise, parse_noise

    if "path" in parse_noise(text)[1]:  # a file has a label for every image, not only for these
        return apply_noise(text, labels, classes)[rows]
    return apply_noise(text, labels[rows], classes)


def _subsample(labels: NDArray[np.int64], size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    present, counts = np.unique(labels, return_counts=True)
    if size > len(labels):
        raise UserError(f"train_size is {size}, but there are {len(labels)} images to train on.")
    if size < len(present):
        raise UserError(
            f"train_size is {size}, but the data have {len(present)} classes: each needs an image."
        )
    # Water runs into vessels of different depth: classes that have too few give all they have,
    # the others share the rest equally. Ranks within a class, drawn at random, do just that.
    order = rng.permutation(len(labels))
    shuffled = labels[order]
    by_class = np.argsort(shuffled, kind="stable")
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    rank = np.empty(len(labels), np.int64)
    rank[by_class] = np.arange(len(labels)) - starts
    return np.sort(order[np.argsort(rank, kind="stable")[:size]])


def _stratified(
    labels: NDArray[np.int64], share: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw the share of every class, but never all of it; the total is right to one image."""
    present, counts = np.unique(labels, return_counts=True)
    exact = share * counts
    quotas = np.minimum(np.floor(exact).astype(np.int64), counts - 1)
    # The largest fractions are rounded up, until the total is right.
    fractions = np.where(quotas < counts - 1, exact - quotas, -1.0)
    short = max(round(share * len(labels)) - int(quotas.sum()), 0)
    for index in np.argsort(-fractions, kind="stable")[:short]:
        quotas[index] += fractions[index] >= 0
    if not quotas.sum():
        raise UserError(
            f"validation is {share:g}, which leaves no image of the {len(labels)} to train on for "
            "validation: use a larger share or more images."
        )
    drawn = [
        rng.permutation(np.flatnonzero(labels == number))[:quota]
        for number, quota in zip(present, quotas, strict=True)
    ]
    return np.sort(np.concatenate(drawn))
