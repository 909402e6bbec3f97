"""The one thing every metric is computed from: how many ID and OOD samples have each score."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import index

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oodometer.errors import UserError

Floats = NDArray[np.float64]
NONE = 1e-9  # samples; stands for 0 in a denominator. Counts of populations may be fractions.


def score_vector(scores: ArrayLike, name: str) -> Floats:
    """Return scores as a float64 vector, or raise a `UserError` that names the argument."""
    if hasattr(scores, "detach"):  # a torch tensor, perhaps with a gradient, perhaps on a GPU
        scores = scores.detach().cpu().double().numpy()
    try:
        raw = np.asarray(scores)
        if raw.dtype.kind not in "biufO":
            raise TypeError
        vector = raw.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise UserError(f"{name} must be a vector of real numbers.") from None
    if vector.ndim != 1:
        raise UserError(f"{name} must be a vector, got shape {vector.shape}.")
    if not vector.size:
        raise UserError(f"{name} is empty: at least one score is needed.")
    return vector


def _not_finite(vector: Floats, name: str) -> UserError:
    bad = np.flatnonzero(~np.isfinite(vector))
    return UserError(
        f"{name} must be finite, but {bad.size} of {vector.size} scores are NaN or infinite, "
        f"the first at index {bad[0]}."
    )


def finite_scores(scores: ArrayLike, name: str) -> Floats:
    """Return scores as a vector in their own order; only finite scores can be ordered."""
    vector = score_vector(scores, name)
    if not np.isfinite(vector).all():
        raise _not_finite(vector, name)
    return vector


def check_count(number: int, name: str, least: int = 1) -> None:
    """Raise a `UserError` unless `number` is a whole number of at least `least`."""
    try:
        whole = index(number)
    except TypeError:
        raise UserError(f"{name} must be a whole number, got {number!r}.") from None
    if whole < least:
        raise UserError(f"{name} must be at least {least}, got {number}.")


def sorted_scores(scores: ArrayLike, name: str) -> Floats:
    """Return scores in ascending order; only finite scores can be ordered."""
    vector = score_vector(scores, name)
    ordered = np.sort(vector)
    # Sorting puts -inf first and inf, NaN last, so looking at both ends is enough.
    if not (np.isfinite(ordered[0]) and np.isfinite(ordered[-1])):
        raise _not_finite(vector, name)
    return ordered


def _merged(id_sorted: Floats, ood_sorted: Floats) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Return which of all samples, in ascending order, are OOD; and where each score ends."""
    pooled = np.concatenate([id_sorted, ood_sorted])
    # A stable sort recognises the two ascending runs and only merges them.
    order = np.argsort(pooled, kind="stable")
    pooled = pooled[order]
    last = np.empty(pooled.size, dtype=np.bool_)  # of all samples with the same score
    np.not_equal(pooled[1:], pooled[:-1], out=last[:-1])
    last[-1] = True
    return order >= id_sorted.size, np.flatnonzero(last)


@dataclass(frozen=True, eq=False)
class Counts:
    """ID and OOD samples at each distinct score, in ascending order of the score.

    All arrays have shape (..., distinct scores): a leading axis holds resamples, which therefore
    go through the very same code as the data itself.
    """

    id: Floats
    ood: Floats
    id_up_to: Floats  # cumulative, including the score itself
    ood_up_to: Floats
    id_total: int
    ood_total: int

    @staticmethod
    def of_scores(id_scores: ArrayLike, ood_scores: ArrayLike) -> Counts:
        """Count by sorting each group once."""
        id_sorted = sorted_scores(id_scores, "id_scores")
        ood_sorted = sorted_scores(ood_scores, "ood_scores")
        is_ood, ends = _merged(id_sorted, ood_sorted)
        # One block of memory for all: allocating it costs more than filling it.
        id, ood, id_up_to, ood_up_to = np.empty((4, ends.size))
        ood_up_to[:] = np.cumsum(is_ood)[ends]
        np.subtract(ends, ood_up_to, out=id_up_to)
        id_up_to += 1.0
        for count, up_to in ((id, id_up_to), (ood, ood_up_to)):
            count[0] = up_to[0]
            np.subtract(up_to[1:], up_to[:-1], out=count[1:])
        return Counts(id, ood, id_up_to, ood_up_to, id_sorted.size, ood_sorted.size)

    @staticmethod
    def of_counts(id: Floats, ood: Floats, id_total: int, ood_total: int) -> Counts:
        """Build from counts (..., distinct scores) of which every row has the given totals."""
        return Counts(id, ood, np.cumsum(id, axis=-1), np.cumsum(ood, axis=-1), id_total, ood_total)

    @cached_property
    def up_to(self) -> Floats:
        """Samples of both groups up to and including each score, never 0: to divide by."""
        return np.maximum(self.id_up_to + self.ood_up_to, NONE)
