"""The binary task of OD-test: a network that learns to tell one outlier set from known data.

BinClass of Shafaei et al. 2019, arXiv:1809.04729.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.lab.portions import portion_rows, split_portions
from oodometer.lab.samples import Images, Samples, Tokens
from oodometer.lab.sources import Source
from oodometer.scores import validation_half
from oodometer.study import TrainSpec

_HELD_OUT = 0.2  # of either side, by which the epoch is chosen
_MOST_EPOCHS = 29
_GOOD_ENOUGH = "reached(on=validation_accuracy, value=0.9999)"


@dataclass(frozen=True)
class Against:
    """What a network learns to tell from the known data, and how much each side weighs."""

    outliers: str  # name of the outlier set
    balanced: bool  # samples of the smaller side are repeated until both are as many
    spec: TrainSpec  # of the classifier whose task, data and network these are


def binary_spec(spec: TrainSpec) -> TrainSpec:
    """The training of the binary network: the classifier's own, on the other task.

    At most 29 epochs, or until 99.99 % of what is held out are told apart, as published.
    """
    return spec.model_copy(
        update={
            "epochs": min(spec.epochs, _MOST_EPOCHS),
            "stopping": _GOOD_ENOUGH,
            "epoch": "best",
            "best_by": "validation_accuracy",
            "loss": "cross_entropy",
            "adversarial": 0.0,
            "label_noise": "none",
            "features": "forward",
            "fitted_on": "train",
            # What is trained on and what is held out, `binary_source` says.
            "train_size": None,
            "validation": 0.0,
        }
    )


def binary_source(source: Source, outliers: Samples, against: Against) -> Source:
    """The two sides as a data set: known samples have the label 0, outliers 1.

    Known are the classifier's samples, those that it validates on too, and the validation half of
    the test set; the outliers are the validation half of theirs. A fifth of either side is held
    out.
    """
    spec = against.spec.model_copy(update={"label_noise": "none"})
    trained, aside = split_portions(spec, source.train, source.classes)
    known = [part for part in (trained, aside, _learned_half(source.test)) if part is not None]
    strange = _learned_half(outliers)
    if len(strange) < 2:
        raise UserError(
            f"A network cannot learn outliers from {len(strange)} of '{outliers.name}': half of "
            "the set is for testing, and learning needs 2."
        )
    both = _joined([*known, strange], [0] * len(known) + [1])
    share = spec.model_copy(update={"train_size": None, "validation": _HELD_OUT})
    rows, held_out = portion_rows(share, both.labels)
    if against.balanced:
        rows, held_out = (_balanced(part, both.labels) for part in (rows, held_out))
    test = replace(source.test, labels=np.zeros(len(source.test), np.int64))
    return Source(
        source.name, both.take(rows), test, None, classes=2, validation=both.take(held_out)
    )


def _learned_half(samples: Samples) -> Samples:
    return samples.take(np.flatnonzero(validation_half(len(samples))))


def _joined(parts: list[Samples], sides: list[int]) -> Samples:
    """One set of all parts, labelled by their sides; bytes and floats together are floats."""
    labels = np.repeat(sides, [len(part) for part in parts]).astype(np.int64)
    name = "known data and outliers"
    images = [part for part in parts if isinstance(part, Images)]
    if not images:
        return Tokens(name, np.concatenate([part.values for part in parts]), labels)
    alike = len({part.pixels.dtype for part in images}) == 1
    pixels = np.concatenate([part.pixels if alike else part.floats() for part in images])
    return Images(name, pixels, labels)


def _balanced(rows: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Repeat rows of the smaller side, one after the other, until both sides are as many."""
    sides = [rows[labels[rows] == side] for side in (0, 1)]
    most = max(map(len, sides))
    return np.concatenate([np.resize(side, most) for side in sides if len(side)])
