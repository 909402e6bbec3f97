"""From values to pixels: the range shown, its ticks, and the straight line between."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """A linear map from values `low`..`high` to pixels `left`..`right`."""

    low: float
    high: float
    left: float
    right: float

    def __call__(self, value: float) -> float:
        """Return where `value` is drawn."""
        share = (value - self.low) / (self.high - self.low)
        return self.left + share * (self.right - self.left)


def value_range(values: Iterable[float]) -> tuple[float, float]:
    """Return the range to show: a little wider than the values, never beyond [0, 1] without need.

    >>> value_range([0.6, 1.0]), value_range([])
    ((0.584, 1.0), (0.0, 1.0))
    """
    known = list(values)
    if not known:
        return 0.0, 1.0
    low, high = min(known), max(known)
    width = high - low
    if width <= 1e-9 * max(abs(low), abs(high), 1e-9):
        margin = 0.05 * max(abs(low), abs(high)) or 0.5
    else:
        margin = 0.04 * width
    within = low >= 0 and high <= 1
    low, high = low - margin, high + margin
    return (max(low, 0.0), min(high, 1.0)) if within else (low, high)


def ticks(low: float, high: float, count: int) -> list[tuple[float, str]]:
    """Return about `count` round values within the range, each with its text.

    >>> ticks(0.584, 1.0, 2)
    [(0.6, '0.6'), (0.8, '0.8'), (1.0, '1.0')]
    """
    rough = (high - low) / (max(count, 1) + 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.9)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    found = [index * step for index in range(first, last + 1)]
    if max(abs(low), abs(high)) >= 1e6 or step < 1e-6:
        return [(value, f"{value:.3g}") for value in found]
    places = next(p for p in range(9) if math.isclose(round(step, p), step, rel_tol=1e-9) or p == 8)
    return [(round(value, places), f"{value + 0.0:.{places}f}") for value in found]
