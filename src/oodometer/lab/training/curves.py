"""Learning curves: what is measured after each epoch, and what follows from it.

All functions here are pure functions of the curve so far, so a training run that resumes after an
interruption needs no state of schedules, of early stopping or of the best epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oodometer.errors import unknown

# Measure name -> one value per epoch; measures on the validation set are there only if it is.
Curve = Mapping[str, Sequence[float]]

VALIDATION = ("validation_loss", "validation_accuracy")
MEASURES = ("train_loss", *VALIDATION)  # those that can control training


def check_measure(name: str) -> str:
    """Return the measure if it is known, or say which are."""
    if name not in MEASURES:
        raise unknown("measure", name, MEASURES)
    return name


def badness(curve: Curve, measure: str) -> list[float]:
    """The values of a measure, turned so that less is better."""
    sign = -1.0 if measure.endswith("accuracy") else 1.0
    return [sign * value for value in curve[measure]]


def best_epoch(curve: Curve, measure: str) -> int:
    """The number of the best epoch, from 1.

    Of equal losses the first counts, of equal accuracies the last: so are "early" checkpoints
    chosen in the study of label noise (arXiv:2404.01775).
    """
    values = badness(curve, measure)
    least = min(values)
    if measure.endswith("accuracy"):
        return len(values) - values[::-1].index(least)
    return values.index(least) + 1


def epochs_without_gain(curve: Curve, measure: str) -> int:
    """How many epochs have passed since a value was better than all before it."""
    values = badness(curve, measure)
    return len(values) - 1 - values.index(min(values)) if values else 0
