"""What a specification trains on: one data set, divided, with classes held out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.lab.data.datasets import load_parts
from oodometer.lab.data.divisions import divide
from oodometer.lab.data.encoders import Pieces, encoder_of
from oodometer.lab.data.samples import Images, Raw, Samples, Texts, Tokens
from oodometer.lab.data.vocabulary import Numbering, Vocabulary
from oodometer.study import TrainSpec

_Some = TypeVar("_Some", Images, Tokens, Images | Tokens)


@dataclass(frozen=True, eq=False)
class Source:
    """An in-distribution data set in its parts: known classes, and the rest held out."""

    name: str
    train: Samples
    test: Samples
    held_out: Samples | None
    classes: int
    validation: Samples | None = None  # where the split says what to validate on
    vocabulary: Numbering | None = None  # how texts become numbers, if it holds texts
    test_size: int | None = None  # maximum number of test samples, and of outliers per set
    ood_draw: int | None = None  # which draw of that many outliers; None: always the same


def load_source(spec: TrainSpec) -> Source:
    """Load what a specification trains on: its split, without its held-out classes."""
    parts = load_parts(spec.data)
    division = divide(spec.split, spec.data, parts)
    present = np.unique(np.concatenate([division.train.labels, division.test.labels]))
    present = present[present >= 0]
    for number in spec.held_out_classes:
        if number not in present:
            raise UserError(
                f"held_out_classes names class {number}, but '{parts.name}' has the classes "
                f"{', '.join(map(str, present))}."
            )
    trained = division.train.labels
    kept = np.unique(trained[~np.isin(trained, spec.held_out_classes)])
    if len(kept) < 2:
        raise UserError(
            f"A classifier needs at least 2 classes to train on; '{parts.name}' leaves {len(kept)} "
            f"after holding out {list(spec.held_out_classes)}."
        )
    strange = np.setdiff1d(present, np.union1d(kept, spec.held_out_classes))
    if strange.size:
        raise UserError(
            f"The test part of '{parts.name}' holds classes that its training part lacks: "
            f"{', '.join(map(str, strange))}. Name them under held_out_classes, or take them out."
        )
    train = _only_classes(division.train, kept)
    vocabulary = _numbering(spec, train) if isinstance(train, Texts) else None
    validation = division.validation
    return Source(
        name=parts.name,
        train=as_samples(train, vocabulary),
        test=at_most(as_samples(_only_classes(division.test, kept), vocabulary), spec.test_size),
        held_out=_held_out(parts.name, parts.train, parts.test, spec, vocabulary),
        classes=len(kept),
        validation=None
        if validation is None
        else as_samples(_only_classes(validation, kept), vocabulary),
        vocabulary=vocabulary,
        test_size=spec.test_size,
        ood_draw=spec.ood_draw,
    )


def as_samples(raw: Raw, vocabulary: Numbering | None) -> Samples:
    """Return what networks take: images as they are, texts as numbers."""
    if isinstance(raw, Images):
        return raw
    assert vocabulary is not None, "texts are numbered as the training texts are"
    return vocabulary.encode(raw)


def at_most(samples: _Some, size: int | None) -> _Some:
    """Draw `size` samples, always the same, in their order; all if there are no more."""
    if size is None or size >= len(samples):
        return samples
    drawn = np.random.default_rng(0).permutation(len(samples))[:size]
    return samples.take(np.sort(drawn))


def _numbering(spec: TrainSpec, train: Texts) -> Numbering:
    """An encoder brings its tokenizer; other networks take the words of the training texts."""
    _refuse_what_is_for_images(spec, train.name)
    encoder = encoder_of(spec.network)
    return Vocabulary.of(train.texts) if encoder is None else Pieces.of(encoder)


def _refuse_what_is_for_images(spec: TrainSpec, name: str) -> None:
    if spec.augment != "none":
        raise UserError(f"augment '{spec.augment}' is for images; '{name}' holds texts.")
    if spec.adversarial:
        raise UserError(f"adversarial {spec.adversarial:g} is for images; '{name}' holds texts.")


def _held_out(
    name: str, train: Raw, test: Raw, spec: TrainSpec, vocabulary: Numbering | None
) -> Samples | None:
    """All samples of the classes that are held out, without their labels."""
    if not spec.held_out_classes:
        return None
    unseen = [
        as_samples(part.take(rows), vocabulary)
        for part in (train, test)
        if (rows := np.flatnonzero(np.isin(part.labels, spec.held_out_classes))).size
    ]
    values = np.concatenate([part.values for part in unseen])
    kind = Images if isinstance(unseen[0], Images) else Tokens
    return kind(f"held-out {name}", values, np.full(len(values), -1))


def _only_classes(raw: Raw, kept: NDArray[np.int64]) -> Raw:
    """Keep these classes, and samples of none, and number them 0, 1, ... in their old order."""
    if np.array_equal(kept, np.arange(len(kept))) and raw.labels.max() < len(kept):
        return raw  # nothing to leave out: no second copy of a large set
    rows = np.flatnonzero(np.isin(raw.labels, kept) | (raw.labels < 0))
    if not rows.size:
        raise UserError(f"No sample of '{raw.name}' is left for a part after holding classes out.")
    left = raw.take(rows)
    numbers = np.searchsorted(kept, left.labels).astype(np.int64)
    return replace(left, labels=np.where(left.labels < 0, -1, numbers))
