"""Numbers of repeats within what contains them, such as seeds within folds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable


def numbered_within(runs: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], tuple[int, ...]]:
    """Number the levels of each repeat within those that contain it, in their natural order.

    >>> numbered_within([("b", "7"), ("b", "10"), ("a", "3")])
    {('a', '3'): (1, 1), ('b', '7'): (2, 1), ('b', '10'): (2, 2)}
    """
    found: dict[tuple[str, ...], tuple[int, ...]] = {(): ()}
    ordered = sorted(runs, key=lambda run: tuple(map(_natural, run)))
    for depth in range(len(ordered[0]) if ordered else 0):
        deeper: dict[tuple[str, ...], tuple[int, ...]] = {}
        inside: Counter[tuple[int, ...]] = Counter()
        for prefix in dict.fromkeys(run[: depth + 1] for run in ordered):
            outer = found[prefix[:-1]]
            inside[outer] += 1
            deeper[prefix] = (*outer, inside[outer])
        found = deeper
    return found


def _natural(level: str) -> tuple[tuple[int, int, str], ...]:
    """Sort the numbers within a text by their size."""
    parts = re.findall(r"\d+|\D+", level)
    return tuple((1, int(own), "") if own.isdecimal() else (0, 0, own) for own in parts)
