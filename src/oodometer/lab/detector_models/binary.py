"""The binary task of OD-test: a network that learns to tell one outlier set from known data.

BinClass of Shafaei et al. 2019, arXiv:1809.04729.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.data.portions import portion_rows, split_portions
from oodometer.lab.data.samples import Images, Samples, Tokens
from oodometer.lab.data.sources import Source
from oodometer.lab.detector_models.cards import detector_model
from oodometer.lab.training.task import CLASSIFIER
from oodometer.scores import validation_half
from oodometer.study import TrainSpec

FEWEST_OUTLIERS = 4  # in a set: half is for testing, of the others one is held out
_HELD_OUT = 0.2  # of either side, by which the epoch is chosen
_MOST_EPOCHS = 29
_GOOD_ENOUGH = "reached(on=validation_accuracy, value=0.9999)"


def binary_spec(spec: TrainSpec, shape: tuple[int, ...]) -> TrainSpec:
    """The training of the binary network: the classifier's own, on the other task.

    At most 29 epochs, or until 99.99% of the held-out samples are separated, as published.
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


def binary_source(
    source: Source, spec: TrainSpec, outliers: Samples | None, *, balanced: bool
) -> Source:
    """The two sides as a data set: known samples have the label 0, outliers 1.

    Known are the classifier's samples, those that it validates on too, and the validation half of
    the test set; the outliers are the validation half of theirs. A fifth of either side is held
    out. If `balanced`, samples of the smaller side are repeated until both are as many.
    """
    assert outliers is not None, "it is trained against outliers"
    if len(outliers) < FEWEST_OUTLIERS:
        raise UserError(
            f"A network cannot learn outliers from half of the {len(outliers)} of "
            f"'{outliers.name}': it needs a set of at least {FEWEST_OUTLIERS}."
        )
    trained, aside = split_portions(spec, source.train, source.classes)
    validating = source.validation if aside is None else aside
    known = [part for part in (trained, validating, _learned_half(source.test)) if part is not None]
    parts = [*known, _learned_half(outliers)]
    labels = np.repeat([0] * len(known) + [1], [len(part) for part in parts]).astype(np.int64)
    rows, held_out = _divided(spec, labels)
    if balanced:
        rows, held_out = (_balanced(part, labels) for part in (rows, held_out))
    test = replace(source.test, labels=np.zeros(len(source.test), np.int64))
    train, validation = (_gathered(parts, part, labels[part]) for part in (rows, held_out))
    return Source(source.name, train, test, None, classes=2, validation=validation)


def _log_odds(model: nn.Module, inputs: Tensor) -> Tensor:
    logits: Tensor = model(inputs)
    return logits[:, 1] - logits[:, 0]


@detector_model(
    task=CLASSIFIER,
    per="outliers",
    spec=binary_spec,
    source=partial(binary_source, balanced=True),
    fewest_outliers=FEWEST_OUTLIERS,
)
def binary(model: nn.Module, inputs: Tensor) -> Tensor:
    """Log odds of being an outlier."""
    return _log_odds(model, inputs)


@detector_model(
    task=CLASSIFIER,
    per="outliers",
    spec=binary_spec,
    source=partial(binary_source, balanced=False),
    fewest_outliers=FEWEST_OUTLIERS,
)
def binary_unbalanced(model: nn.Module, inputs: Tensor) -> Tensor:
    """Log odds of being an outlier, by a network that learned from both sides as they are."""
    return _log_odds(model, inputs)


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
