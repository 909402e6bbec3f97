"""Ranges of scores to accept: |score - center|^2 <= limit, learned from both sides."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def exact_range(inside: Floats, outside: Floats) -> tuple[float, float]:
    """Center and limit with the highest accuracy if ID and OOD samples are equally likely.

    Edges are midpoints between neighbouring scores. A range that begins with the lowest score is
    centered at 0, or at a negative lowest score, so that errors have no lower edge; one that ends
    with the highest is centered there. Of equally good ranges the one that ends first is taken.

    >>> exact_range(np.array([2.0, 3.0]), np.array([1.0, 4.0]))
    (2.5, 1.0)
    """
    values, places = np.unique(np.concatenate([inside, outside]), return_inverse=True)
    # Share of ID accepted less share of OOD accepted, in whole numbers: ties are exact.
    worth = np.repeat([outside.size, -inside.size], [inside.size, outside.size])
    total = np.append(0, np.cumsum(np.bincount(places, worth, values.size)))
    last = int(np.argmax(total[1:] - np.minimum.accumulate(total[:-1])))
    first = int(np.argmin(total[: last + 1]))
    highest = float(values[-1])
    upper = highest if last + 1 == values.size else float(values[last : last + 2].mean())
    if first == 0:
        center = min(0.0, float(values[0]))
        return center, (upper - center) ** 2
    lower = float(values[first - 1 : first + 1].mean())
    center = upper if last + 1 == values.size else (lower + upper) / 2
    return center, (center - lower) ** 2


def hinge_range(inside: Floats, outside: Floats) -> tuple[float, float]:
    """Center and limit as published: Adagrad on the hinge loss without margin, from 0 and 0.5.

    Each sample is kept for fitting with chance 0.8; the earliest epoch with the highest accuracy on
    the others is taken. Rate 0.1, batches of 2048, 100 epochs; the rate falls to a tenth if the
    loss has not fallen by a tenth in 10 epochs. Shafaei et al. 2019, arXiv:1809.04729.
    """
    rng = np.random.default_rng(0)
    scores = np.concatenate([inside, outside])
    signs = np.repeat([-1.0, 1.0], [inside.size, outside.size])
    fitted = rng.random(scores.size) < 0.8
    held_out = ~fitted
    if len(set(signs[fitted])) < 2 or fitted.all():  # of a handful, all serve for both
        fitted = held_out = np.ones(scores.size, dtype=np.bool_)
    return _adagrad(scores[fitted], signs[fitted], scores[held_out], signs[held_out] > 0, rng)


def _adagrad(
    scores: Floats,
    signs: Floats,
    others: Floats,
    outlying: NDArray[np.bool_],
    rng: np.random.Generator,
) -> tuple[float, float]:
    fit, squares, rate = np.array([0.0, 0.5]), np.zeros(2), 0.1
    kept, best = fit, -1.0
    lowest, waited = np.inf, 0
    for _ in range(100):
        losses = []
        for batch in np.split(rng.permutation(scores.size), range(2048, scores.size, 2048)):
            apart, sign = scores[batch] - fit[0], signs[batch]
            wrong = np.maximum(0.0, -sign * (apart**2 - fit[1]))
            losses.append(wrong.mean())
            counted = sign * (wrong > 0.0)
            gradient = np.array([(2.0 * counted * apart).mean(), counted.mean()])
            squares += gradient**2
            fit = fit - rate * gradient / (np.sqrt(squares) + 1e-10)
        loss = float(np.mean(losses))
        lowest, waited = (loss, 0) if loss < 0.9 * lowest else (lowest, waited + 1)
        if waited > 10:
            slower = max(0.1 * rate, 1e-8)
            rate, waited = (slower if rate - slower > 1e-8 else rate), 0
        accuracy = float((((others - fit[0]) ** 2 > fit[1]) == outlying).mean())
        if accuracy > best:
            best, kept = accuracy, fit
    return float(kept[0]), float(kept[1])
