"""Groups of outlier sets, near and far: means of others, or sets themselves."""

from __future__ import annotations

from collections.abc import Iterable

from oodometer.factors import plain

_GROUPS = frozenset({"near", "far", "nearood", "farood"})  # of outlier sets
_FEWEST_SETS = 2  # beside which groups of them are means


def is_group(title: str) -> bool:
    """Whether a title names outliers of some distance, which are a mean only beside their sets.

    >>> is_group("Near-OOD"), is_group("Average")
    (True, False)
    """
    return plain(title) in _GROUPS


def sure_means(names: Iterable[str], others: int) -> list[str]:
    """Return which of several averages are means of `others` sets beside them.

    Near and far outliers are, beside two sets; beside one at most, they are sets themselves.

    >>> sure_means(["Near-OOD", "Average"], 2), sure_means(["Near-OOD", "Average"], 1)
    (['Near-OOD', 'Average'], ['Average'])
    """
    return [name for name in names if others >= _FEWEST_SETS or not is_group(name)]
