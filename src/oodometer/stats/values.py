"""What the statistics take: one number per run, or a table of detectors and blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from oodometer.errors import UserError
from oodometer.metrics.counts import Floats, finite_scores

LARGEST = 1e150  # the squares of larger numbers overflow


def run_values(values: ArrayLike, name: str) -> Floats:
    """Return one value per run as a vector of numbers that can be squared, or raise."""
    vector = finite_scores(values, name)
    largest = float(np.abs(vector).max())
    if largest > LARGEST:
        raise UserError(f"{name} must lie within -{LARGEST:g} and {LARGEST:g}, got {largest:g}.")
    return vector


def paired_values(a: ArrayLike, b: ArrayLike) -> tuple[Floats, Floats]:
    """Return the values of two methods in the same runs."""
    first, second = run_values(a, "a"), run_values(b, "b")
    if first.size != second.size:
        raise UserError(
            f"a has {first.size} values and b {second.size}: a paired comparison needs the same "
            "runs, in the same order."
        )
    return first, second


def midranks(values: Floats) -> Floats:
    """Ranks from 1 up; equal values share the mean of their ranks."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, side="left")
    return np.asarray(0.5 * (below + np.searchsorted(ordered, values, side="right") + 1))


def check_generator(rng: object) -> None:
    """Raise unless `rng` is a generator: a bare seed would be the same draws at every call."""
    if not isinstance(rng, np.random.Generator):
        raise UserError(
            f"rng must be a NumPy generator, such as numpy.random.default_rng(0), got {rng!r}."
        )


def table_values(values: ArrayLike) -> Floats:
    """Return a table (detectors, columns) without gaps, or raise."""
    try:
        raw = np.asarray(values)
        if raw.dtype.kind not in "biufO":
            raise TypeError
        table = raw.astype(np.float64)
    except (TypeError, ValueError):
        raise UserError(
            "values must be a table (detectors, columns) of real numbers, every row of the same "
            "length."
        ) from None
    if table.ndim != 2 or not table.size:
        raise UserError(
            f"values must be a table (detectors, columns) with content, got shape {table.shape}."
        )
    missing = np.argwhere(np.isnan(table))
    if missing.size:
        row, column = missing[0]
        raise UserError(
            f"values must not be NaN, but {len(missing)} of {table.size} are, the first in row "
            f"{row}, column {column}: compare detectors only where all have a value."
        )
    return table
