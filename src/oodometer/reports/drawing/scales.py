"""From values to pixels: the range shown, its ticks, and a straight or logit scale."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from oodometer.reports.words import text_width

_CLOSEST = 1e-4  # to 0 or 1 on a logit scale; what is closer is drawn there
_CROWDED = 0.8  # of the range; if half of the values lie beyond, they need more room
# The most telling first: those that run into an earlier one are left out.
_SHARES = (
    *("0.5", "0.9", "0.99", "0.999", "0.1", "0.01", "0.001", "0.95", "0.8", "0.2", "0.05", "0.98"),
    *("0.7", "0.3", "0.02", "0.995", "0.998", "0.005", "0.002", "0.9999", "0.0001"),
    *("0.6", "0.4", "0.85", "0.97", "0.96", "0.94", "0.93", "0.92", "0.91", "0.15", "0.03"),
)


@dataclass(frozen=True)
class Span:
    """The range of values that an axis shows; on a logit scale, the room near 0 and 1 is larger."""

    low: float
    high: float
    logit: bool = False

    def across(self, left: float, right: float) -> Scale:
        """Return the map from these values to pixels."""
        return Scale(self.low, self.high, left, right, self.logit)

    def share(self, value: float) -> float:
        """Return how far along the axis a value is, from 0 to 1 within the range."""
        return Scale(self.low, self.high, 0.0, 1.0, self.logit)(value)

    def words(self, value_label: str, higher_is_better: bool | None, *, upward: bool) -> str:
        """Write the title of the axis: what it shows, which end is better, and its scale."""
        said = {
            None: [],
            True: ["↑ higher is better" if upward else "higher is better →"],
            False: ["↓ lower is better" if upward else "← lower is better"],
        }[higher_is_better] + (["logit scale"] if self.logit else [])
        return f"{value_label} ({', '.join(said)})" if said else value_label


@dataclass(frozen=True)
class Scale:
    """A map from values `low`..`high` to pixels `left`..`right`: straight, or in logits."""

    low: float
    high: float
    left: float
    right: float
    logit: bool = False

    def __call__(self, value: float) -> float:
        """Return where `value` is drawn."""
        low, high = self.low, self.high
        if self.logit:
            value, low, high = (_logit(number) for number in (value, low, high))
            value = min(max(value, low), high)
        return self.left + (value - low) / (high - low) * (self.right - self.left)

    def ticks(self, count: int, size: float) -> list[tuple[float, str]]:
        """Return about `count` pixels with the text of their values, none running into another."""
        if not self.logit:
            found = [(self(value), name) for value, name in ticks(self.low, self.high, count)]
            words = max((text_width(name, size) for _, name in found), default=0.0)
            distance = abs(found[1][0] - found[0][0]) if len(found) > 1 else words + 6
            every = max(1, math.ceil((words + 6) / distance))
            return [(x, name if not index % every else "") for index, (x, name) in enumerate(found)]
        kept: list[tuple[float, str]] = []
        for name in _SHARES:
            if len(kept) >= count or not self.low <= float(name) <= self.high:
                continue
            x, half = self(float(name)), text_width(name, size) / 2
            if all(abs(x - y) > half + text_width(other, size) / 2 + 6 for y, other in kept):
                kept.append((x, name))
        return sorted(kept)


def value_span(values: Iterable[float], higher_is_better: bool | None = None) -> Span:
    """Return the range to show, and whether values crowd at the good end of [0, 1].

    >>> value_span([0.6, 0.7, 0.8, 0.9], True), value_span([0.2, 0.97, 0.98, 0.99], True).logit
    (Span(low=0.588, high=0.912, logit=False), True)
    """
    known = list(values)
    straight = Span(*value_range(known))
    if higher_is_better is None or len(known) < 4 or min(known) < 0 or max(known) > 1:
        return straight
    low, high = min(known), max(known)
    middle = (median(known) - low) / (high - low) if high > low else 0.5
    beyond = middle > _CROWDED if higher_is_better else middle < 1 - _CROWDED
    near = 1 - high if higher_is_better else low
    if not beyond or near > 1 - _CROWDED:
        return straight
    first, last = _logit(low), _logit(high)
    if first == last:
        return straight
    margin = 0.04 * (last - first)
    return Span(_share(first - margin), _share(last + margin), logit=True)


def _logit(value: float) -> float:
    kept = min(max(value, _CLOSEST), 1 - _CLOSEST)
    return math.log(kept / (1 - kept))


def _share(logit: float) -> float:
    return min(max(1 / (1 + math.exp(-logit)), _CLOSEST), 1 - _CLOSEST)


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
