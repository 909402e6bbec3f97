"""Thresholds of a reject function: reject a sample if its score is above the threshold."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from oodometer.metrics.counts import Floats, finite_scores, sorted_scores

Fit = Literal["exact", "hinge"]
FITS: tuple[Fit, ...] = ("exact", "hinge")


def exact_threshold(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Threshold with the highest accuracy if ID and OOD samples are equally likely.

    Candidates are the midpoints between neighbouring distinct scores, and "reject all" and "accept
    all" at the ends; the lowest of the best is taken.

    >>> exact_threshold([0.0, 1.0, 2.0], [2.0, 3.0, 4.0])
    1.5
    """
    id_sorted = sorted_scores(id_scores, "id_scores")
    ood_sorted = sorted_scores(ood_scores, "ood_scores")
    pooled = np.concatenate([id_sorted, ood_sorted])
    order = np.argsort(pooled, kind="stable")  # recognises two ascending runs, and merges them
    pooled = pooled[order]
    ends = np.flatnonzero(np.append(pooled[1:] != pooled[:-1], True))  # of equal scores
    accepted = np.cumsum(order < id_sorted.size)[ends]
    # Share of ID accepted less share of OOD accepted, in whole numbers: ties are exact.
    gain = accepted * ood_sorted.size - (ends + 1 - accepted) * id_sorted.size
    best = int(gain.argmax())
    if gain[best] <= 0:
        return -np.inf  # rejecting all is as good as anything, and the lowest threshold
    below, above = float(pooled[ends[best]]), float(pooled[ends[best] + 1])
    middle = 0.5 * below + 0.5 * above
    return middle if below <= middle < above else below  # neighbours among floats have no middle


def accepting_threshold(id_scores: ArrayLike, share: float = 0.95) -> float:
    """Lowest threshold that accepts this share of ID samples: no outlier is needed for it."""
    ordered = sorted_scores(id_scores, "id_scores")
    # A hair less than needed: 0.07 * 100 exceeds 7 in floats, yet 7 of 100 are enough.
    needed = int(np.ceil(share * ordered.size * (1.0 - 1e-12)))
    return float(ordered[max(needed, 1) - 1])


def hinge_threshold(id_scores: ArrayLike, ood_scores: ArrayLike, rng: np.random.Generator) -> float:
    """Threshold as published: Adagrad on the hinge loss without margin, the best epoch kept.

    Each sample is kept for fitting with chance 0.8, the others are held out. The threshold starts
    midway between the mean scores of both groups; loss mean max(0, -y (score - threshold)), y = 1
    for outliers and -1 for ID; Adagrad at rate 0.1, batches of 2048, 100 epochs; the rate falls to
    a tenth if the loss has not fallen by a tenth in 10 epochs; the earliest epoch with the highest
    accuracy on what was held out is taken. This is the perceptron's loss, not accuracy: see
    `exact_threshold`. Shafaei et al. 2019, arXiv:1809.04729.
    """
    id_vector, ood_vector = (
        finite_scores(id_scores, "id_scores"),
        finite_scores(ood_scores, "ood_scores"),
    )
    scores = np.concatenate([id_vector, ood_vector])
    signs = np.repeat([-1.0, 1.0], [id_vector.size, ood_vector.size])
    fitted = rng.random(scores.size) < 0.8
    # With a handful of samples a part may be empty: then all serve for both.
    if len(set(signs[fitted])) < 2 or fitted.all():
        fitted = np.ones(scores.size, dtype=np.bool_)
        held_out = fitted
    else:
        held_out = ~fitted
    return _adagrad(scores[fitted], signs[fitted], scores[held_out], signs[held_out], rng)


def _adagrad(
    scores: Floats, signs: Floats, others: Floats, other_signs: Floats, rng: np.random.Generator
) -> float:
    threshold = 0.5 * float(scores[signs < 0].mean()) + 0.5 * float(scores[signs > 0].mean())
    rate, squares = 0.1, 0.0
    lowest, waited = np.inf, 0
    best, kept = -1.0, threshold
    for _ in range(100):
        order = rng.permutation(scores.size)
        losses = []
        for first in range(0, scores.size, 2048):
            batch = order[first : first + 2048]
            wrong = np.maximum(0.0, -signs[batch] * (scores[batch] - threshold))
            losses.append(float(wrong.mean()))
            gradient = float((signs[batch] * (wrong > 0.0)).mean())
            squares += gradient**2
            if squares > 0.0:
                threshold -= rate * gradient / (squares**0.5 + 1e-10)
        loss = float(np.mean(losses))
        if loss < lowest * 0.9:
            lowest, waited = loss, 0
        else:
            waited += 1
        if waited > 10:
            slower = max(0.1 * rate, 1e-8)
            rate, waited = (slower if rate - slower > 1e-8 else rate), 0
        accuracy = float(((others > threshold) == (other_signs > 0)).mean())
        if accuracy > best:
            best, kept = accuracy, threshold
    return kept
