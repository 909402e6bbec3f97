"""The binary task of OD-test: a network that learns to tell one outlier set from known data.

BinClass of Shafaei et al. 2019, arXiv:1809.04729.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.lab.data.portions import portion_rows, split_portions
from oodometer.lab.data.samples import Images, Samples, Tokens
from oodometer.lab.data.sources import Source
from oodometer.scores import validation_half
from oodometer.study import TrainSpec

FEWEST_OUTLIERS = 4  # in a set: half is for testing, of the others one is held out
_HELD_OUT = 0.2  # of either side, by which the epoch is chosen
_MOST_EPOCHS = 29
_GOOD_ENOUGH = "reached(on=validation_accuracy, value=0.9999)"


@dataclass(frozen=True)
class Against:
    """What a network learns to tell from the known data, and how much each side weighs."""

    outliers: str  # name of the outlier set
    balanced: bool  # samples of the smaller side are repeated until both are as many
    spec: TrainSpec  # of the classifier whose task, data and network these are

    @property
    def in_words(self) -> dict[str, object]:
        """What the specification of the binary network does not tell."""
        return {
            "outliers": self.outliers,
            "balanced": self.balanced,
            "train_size": self.spec.train_size,
            "validation": self.spec.validation,
        }


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
    if len(outliers) < FEWEST_OUTLIERS:
        raise UserError(
            f"A network cannot learn outliers from half of the {len(outliers)} of "
            f"'{outliers.name}': it needs a set of at least {FEWEST_OUTLIERS}."
        )
    spec = against.spec.model_copy(update={"label_noise": "none"})
    trained, aside = split_portions(spec, source.train, source.classes)
    validating = source.validation if aside is None else aside
    known = [part for part in (trained, validating, _learned_half(source.test)) if part is not None]
    parts = [*known, _learned_half(outliers)]
    labels = np.repeat([0] * len(known) + [1], [len(part) for part in parts]).astype(np.int64)
    rows, held_out = _divided(spec, labels)
    if against.balanced:
        rows, held_out = (_balanced(part, labels) for part in (rows, held_out))
    test = replace(source.test, labels=np.zeros(len(source.test), np.int64))
    train, validation = (_gathered(parts, part, labels[part]) for part in (rows, held_out))
    return Source(source.name, train, test, None, classes=2, validation=validation)


def _learned_half(samples: Samples) -> Samples:
    return samples.take(np.flatnonzero(validation_half(len(samples))))


def _divided(
    spec: TrainSpec, labels: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to train on and rows held out: a fifth of either side, and one at least."""
    share = spec.model_copy(update={"train_size": None, "validation": _HELD_OUT})
    rows, held_out = portion_rows(share, labels)
    for side in (0, 1):
        if side not in labels[held_out]:  # so small that its fifth is rounded to none
            held_out = np.append(held_out, rows[labels[rows] == side][0])
    return np.setdiff1d(rows, held_out), np.sort(held_out)


def _gathered(
    parts: Sequence[Samples], rows: NDArray[np.int64], labels: NDArray[np.int64]
) -> Samples:
    """Rows of all parts, counted through; bytes and floats together are floats."""
    alike = len({part.values.dtype for part in parts}) == 1
    kind = parts[0].values.dtype if alike else np.float32
    values = np.empty((len(rows), *parts[0].shape), kind)
    start = 0
    for part in parts:
        here = (start <= rows) & (rows < start + len(part))
        own = rows[here] - start
        if isinstance(part, Images) and not alike:
            values[here] = part.floats(own)
        else:
            values[here] = part.values[own]
        start += len(part)
    make = Images if isinstance(parts[0], Images) else Tokens
    return make("known data and outliers", values, labels)


def _balanced(rows: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Repeat rows of the smaller side, one after the other, until both sides are as many."""
    sides = [rows[labels[rows] == side] for side in (0, 1)]
    most = max(map(len, sides))
    return np.concatenate([np.resize(side, most) for side in sides])
