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
_NEAR = 0.01  # by which a mean may differ from that of rounded numbers
_Values = dict[tuple[str, str], list[float]]  # by the name of a line and a metric


def is_of_differences(grid: Grid) -> bool:
    """Whether all numbers of a table have a sign, as gains over others do."""
    numbers = [cells for cells in zip(*grid.rows, strict=True) if numeric_share(cells) > 0.5]
    return are_gains([cell for cells in numbers for cell in cells])


def averages(grid: Grid, heading: str, others: Sequence[Grid]) -> bool:
    """Whether a table holds the means of what other tables state of the same names one by one.

    Its heading says so, or all titles of its metrics do, and its numbers are those of means of the
    others, which have several columns of a metric, several lines of a name, or are several tables.
    """
    metrics = _metrics(grid)
    said = not words_of(heading).isdisjoint(_MEANS)
    if not metrics or not (said or all(is_average(what) for what in _of_what(grid))):
        return False
    names = set(_names(grid))
    alike = [g for g in others if _metrics(g) >= metrics and len(names & {*_names(g)}) >= _FEWEST]
    detailed = len(alike) > 1 or any(map(_is_detailed, alike))
    return detailed and _are_means(_values([grid]), _values(alike))


def _are_means(own: _Values, others: _Values) -> bool:
    """Whether others state what each number may be the mean of, and a single one of a name is it.

    Several, such as those of near and of far outliers, are means of parts that nothing names.
    """
    if not own.keys() <= others.keys():
        return False
    for key, values in own.items():
        low, high = min(others[key]), max(others[key])
        if len(values) == 1:
            low = high = sum(others[key]) / len(others[key])
        near = [_NEAR * abs(value) for value in values]
        if any(v < low - n or v > high + n for v, n in zip(values, near, strict=True)):
            return False
    return True


def _values(grids: Sequence[Grid]) -> _Values:
    """Return the numbers of each name and metric."""
    found: _Values = {}
    for grid in grids:
        metrics = {n: m for n, title in enumerate(grid.titles) if (m := metric_named(title))}
        for name, row in zip(_names(grid), grid.rows, strict=False):
            for place, metric in metrics.items():
                if (value := value_of(row[place])) == value:
                    found.setdefault((name, metric), []).append(value)
    return found


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
