"""Means that a table states: those that are not the means of its own numbers are pointed out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oodometer.tables.cells import value_of
from oodometer.tables.guessing.roles import MEAN_OF_OTHERS, Roles
from oodometer.tables.vocabulary.measures import metric_named

if TYPE_CHECKING:
    import pandas as pd

_FEWEST = 2  # numbers of a mean, and stated means that agree before another one is wrong
_UNITS = 2.5  # of the last decimal, by which a mean of rounded numbers may be off
_SHOWN = 3  # wrong means that a note names
Array = NDArray[np.float64]


def wrong_means(stated: Array, numbers: Array) -> NDArray[np.bool_]:
    """Which of the `stated` means are not those of their columns of `numbers`, unlike most others.

    Where most disagree, they are means of something else, and none is wrong.

    >>> numbers = np.array([[90.1, 80.3, 70.2], [92.3, 84.1, 72.4]])
    >>> wrong_means(np.array([91.2, 82.2, 78.3]), numbers).tolist()
    [False, False, True]
    """
    counts = (~np.isnan(numbers)).sum(axis=0)
    means = np.nansum(numbers, axis=0) / np.maximum(counts, 1)
    complete = ~np.isnan(stated) & (counts >= _FEWEST) & (counts == counts.max(initial=0))
    off = np.abs(stated - means) > _UNITS * max(_unit(stated[complete]), _unit(numbers))
    wrong: NDArray[np.bool_] = off & complete
    agree = int((complete & ~wrong).sum())
    return wrong if agree >= max(_FEWEST, wrong.sum()) else np.zeros_like(wrong)


def note_wrong_columns(
    lines: pd.DataFrame, frame: pd.DataFrame, roles: Roles, row: str, notes: list[str]
) -> None:
    """Point out lines whose stated mean is not that of their numbers; `row` names the line."""
    metrics = {metric for metric, _ in roles.measured.values()}
    for title, why in roles.ignored.items():
        metric = metric_named(title) or (next(iter(metrics)) if len(metrics) == 1 else None)
        if why != MEAN_OF_OTHERS or title not in frame.columns or metric not in metrics:
            continue
        own = lines[lines["metric"] == metric]
        place = own.groupby(row).cumcount()
        numbers = np.full((int(place.max()) + 1 if len(own) else 1, len(frame)), np.nan)
        numbers[place, own[row]] = own["value"]
        stated = np.array([value_of(text) for text in frame[title]])
        names = dict(zip(own[row], own["detector"], strict=True)) if "detector" in own else {}
        wrong = np.flatnonzero(wrong_means(stated, numbers))
        _note(f"'{title}'", [(str(names.get(i, f"line {i + 1}")), stated[i], numbers[:, i])
                             for i in wrong], notes)  # fmt: skip


def note_wrong_rows(
    label: str, columns: Sequence[str], stated: Array, numbers: Array, notes: list[str]
) -> None:
    """Point out the columns in which a line called `label` does not state the mean."""
    wrong = np.flatnonzero(wrong_means(stated, numbers))
    _note(f"'{label}'", [(columns[int(i)], stated[i], numbers[:, i]) for i in wrong], notes)


def _note(title: str, wrong: Sequence[tuple[str, float, Array]], notes: list[str]) -> None:
    if not wrong:
        return
    said = [f"{name} {own:g} instead of {np.nanmean(values):.4g}" for name, own, values in wrong]
    more = f" and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
    notes.append(f"{title} is not the mean of the numbers shown: {'; '.join(said[:_SHOWN])}{more}")


def _unit(numbers: Array) -> float:
    """Return the last decimal that numbers have."""
    given = numbers[~np.isnan(numbers)]
    places = max((len(f"{value:.10g}".partition(".")[2]) for value in given), default=0)
    return float(10.0**-places)
