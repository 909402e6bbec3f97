"""Tables of a page that say no more than others: means of their numbers, differences of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from oodometer.factors import plain, words_of
from oodometer.tables.cells import numeric_share, value_of
from oodometer.tables.frames.differences import are_gains
from oodometer.tables.frames.grid import Grid
from oodometer.tables.frames.titles import undressed
from oodometer.tables.vocabulary.measures import metric_named, without_metric
from oodometer.tables.vocabulary.statistics import is_average

_MEANS = frozenset({"average", "averages", "averaged", "mean", "means"})  # words of headings
_FEWEST = 2  # names that two tables must share
_NEAR = 0.01  # by which a mean of rounded numbers may lie beyond them


def is_of_differences(grid: Grid) -> bool:
    """Whether all numbers of a table have a sign, as gains over others do."""
    numbers = [cells for cells in zip(*grid.rows, strict=True) if numeric_share(cells) > 0.5]
    return are_gains([cell for cells in numbers for cell in cells])


def averages(grid: Grid, heading: str, others: Sequence[Grid]) -> bool:
    """Whether a table holds the means of what other tables state of the same names one by one.

    Its heading says so, or all titles of its metrics do, and its numbers lie among the others,
    which have several columns of a metric, several lines of a name, or are several tables.
    """
    metrics = _metrics(grid)
    said = not words_of(heading).isdisjoint(_MEANS)
    if not metrics or not (said or all(is_average(what) for what in _of_what(grid))):
        return False
    names = set(_names(grid))
    alike = [g for g in others if _metrics(g) >= metrics and len(names & {*_names(g)}) >= _FEWEST]
    detailed = len(alike) > 1 or any(map(_is_detailed, alike))
    return detailed and _lie_among(grid, alike)


def _lie_among(grid: Grid, others: Sequence[Grid]) -> bool:
    """Whether the numbers of each name are not beyond those that others state of it."""
    known: dict[tuple[str, str], list[float]] = {}
    for other in others:
        for key, value in _values(other):
            known.setdefault(key, []).append(value)
    return all(
        min(known[key]) - _NEAR * abs(value) <= value <= max(known[key]) + _NEAR * abs(value)
        for key, value in _values(grid)
        if key in known
    )


def _values(grid: Grid) -> list[tuple[tuple[str, str], float]]:
    """Return the numbers of a table, each with the name of its line and its metric."""
    metrics = {n: metric for n, title in enumerate(grid.titles) if (metric := metric_named(title))}
    return [
        ((name, metric), value)
        for name, row in zip(_names(grid), grid.rows, strict=False)
        for place, metric in metrics.items()
        if (value := value_of(row[place])) == value
    ]


def _metrics(grid: Grid) -> set[str]:
    return {metric for title in grid.titles if (metric := metric_named(title))}


def _of_what(grid: Grid) -> list[str]:
    """Return what titles say besides their metric."""
    return [without_metric(title) for title in grid.titles if metric_named(title)]


def _is_detailed(grid: Grid) -> bool:
    """Whether a table has several columns of a metric, or several lines of a name."""
    metrics = Counter(metric for title in grid.titles if (metric := metric_named(title)))
    lines = Counter(_names(grid))
    return max(metrics.values(), default=0) > 1 or min(lines.values(), default=0) > 1


def _names(grid: Grid) -> list[str]:
    """Return the names of the lines: the first column that holds words."""
    columns = zip(*grid.rows, strict=True)
    words = next((cells for cells in columns if numeric_share(cells) <= 0.5), ())
    return [plain(undressed(cell)) for cell in words]
