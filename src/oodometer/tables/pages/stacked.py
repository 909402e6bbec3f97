"""Tables copied from a PDF or a web page with one cell per line: titles, then names and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from oodometer.factors import plain
from oodometer.tables.cells import Rows, is_gap, read_cell, value_of
from oodometer.tables.frames.headers import KNOWN_TITLES, OF_SETS
from oodometer.tables.pages.markdown import CAPTIONED
from oodometer.tables.pages.outline import CAPTION, Outline, PageTable
from oodometer.tables.vocabulary.measures import metric_named, without_metric
from oodometer.tables.vocabulary.statistics import is_average
from oodometer.tables.vocabulary.titles import MODEL_TITLES

_LONGEST_NAME = 80  # characters; more is prose
_MOST_COLUMNS = 30
_ROUNDED = 0.01  # of a mean, at most


class _Run(NamedTuple):
    """Lines below each other that are all numbers, or all texts."""

    are_numbers: bool
    lines: list[str]


def stacked_tables(text: str) -> list[PageTable]:
    """Return the tables of a text in which every cell has a line of its own.

    Each row is a name and as many numbers as there are titles behind the first. Where anything
    else stands between, it is not known to which row numbers belong, and nothing is returned.
    """
    lines = [line.strip().lstrip("#").strip() for line in text.splitlines()]
    runs = list(_runs([line for line in lines if line]))
    outline = Outline()
    place = 0
    while place + 1 < len(runs):
        found = _table(runs[place:])
        if found is None:
            return []
        rows, above, used = found
        captions = [n for n, line in enumerate(above) if CAPTIONED.match(line)]
        caption = " ".join(above[captions[-1] :]) if captions else " ".join(above[-2:])
        outline.table(rows, {CAPTION: caption} if caption else None)
        place += used
    return outline.tables


def _runs(lines: Sequence[str]) -> Iterator[_Run]:
    for are_numbers, group in groupby(lines, key=_is_number):
        yield _Run(are_numbers, list(group))


def _is_number(line: str) -> bool:
    said = plain(line)  # of gaps, words such as Error may name a line
    return read_cell(line) is not None or (is_gap(line) and said in ("", "na", "nan"))


def _table(runs: Sequence[_Run]) -> tuple[Rows, list[str], int] | None:
    """Return the rows of the table that begins here, the texts above it, and how many runs it is.

    A text of one line begins a row; below two lines of titles, which are counted by their metrics,
    a heading may stand above it. One that is long enough for titles begins the next table.
    """
    if runs[0].are_numbers or len(runs) < 4:
        return None
    width = 1 + len(runs[1].lines)
    texts = runs[0].lines
    found = _two_lines(texts, runs[1::2], width) or _one_line(texts, width)
    if found is None or width > _MOST_COLUMNS:
        return None
    header, above, names = found
    if max(map(len, (*(title for row in header for title in row), *names))) > _LONGEST_NAME:
        return None
    rows = [*header]
    used = 0
    for text, numbers in zip(runs[::2], runs[1::2], strict=False):
        if used:
            names = _whole_names(text.lines)
        if used and len(names) > max(width, 2):  # titles and a name: the next table
            break
        headings, name = names[:-1], names[-1]
        whole = len(numbers.lines) == width - 1 and len(name) <= _LONGEST_NAME
        if not whole or len(headings) > len(header) - 1:
            return None
        rows += [[heading, *[""] * (width - 1)] for heading in headings]
        rows.append([name, *numbers.lines])
        used += 2
    left = len(runs) - used
    return (rows, above, used + (left == 1)) if len(rows) > len(header) + 1 else None


def _whole_names(lines: Sequence[str]) -> list[str]:
    """Return texts above numbers; what stands in brackets belongs to the name before it."""
    whole: list[str] = []
    for line in lines:
        if whole and line.startswith(("(", "[", "+", "w/")):
            whole[-1] = f"{whole[-1]} {line}"
        else:
            whole.append(line)
    return whole


def _one_line(texts: Sequence[str], width: int) -> tuple[Rows, list[str], list[str]] | None:
    """Return the header, what stands above it and the first name, if each column has a title.

    Some title is a metric, or names are titles, and metrics stand before the numbers.
    """
    if len(texts) < width + 1:
        return None
    titles = list(texts[-width - 1 : -1])
    turned = metric_named(texts[-1]) is not None and _names_lines(titles[0])
    known = turned or any(map(metric_named, titles))
    return ([titles], list(texts[: -width - 1]), [texts[-1]]) if known else None


def _two_lines(
    texts: Sequence[str], numbers: Sequence[_Run], width: int
) -> tuple[Rows, list[str], list[str]] | None:
    """Return the same of a header with metrics below each of several data sets.

    Titles that cover both lines stand with the data sets: on which side of them, means tell.
    """
    metrics = [n for n, text in enumerate(texts) if _is_mere_metric(text)]
    if len(metrics) < 4 or metrics[-1] - metrics[0] != len(metrics) - 1:
        return None
    first, end = metrics[0], metrics[-1] + 1
    below = list(texts[first:end])
    size = len(set(below))
    count, more = len(below) // size, width - 1 - len(below)
    if below != below[:size] * count or count < 2 or more < 0 or not 1 <= len(texts) - end <= 2:
        return None
    start = _first_title(texts[:first], count + more)
    if start is None:
        return None
    titles = [text for text in texts[start + 1 : first] if not OF_SETS.fullmatch(plain(text))]
    single = [title for title in titles if metric_named(title) is not None]
    groups = [title for title in titles if title not in single]
    if len(groups) != count or len(single) != more:
        return None
    spread = [group for group in groups for _ in range(size)]
    before = [[texts[start], *single, *spread], ["", *[""] * more, *below]]
    behind = [[texts[start], *spread, *single], ["", *below, *[""] * more]]
    fitting = [h for h in (behind, before) if _means_fit(h, numbers)] if more else [behind]
    return (fitting[0], list(texts[:start]), list(texts[end:])) if len(fitting) == 1 else None


def _is_mere_metric(text: str) -> bool:
    return metric_named(text) is not None and not without_metric(text)


def _names_lines(title: str) -> bool:
    return plain(title) in KNOWN_TITLES.union(MODEL_TITLES)


def _first_title(texts: Sequence[str], fewest: int) -> int | None:
    """Return where the titles begin: with that of the names, behind a caption."""
    places = range(len(texts) - fewest - 1, -1, -1)
    known = [n for n in places if _names_lines(texts[n])]
    of_names = [n for n in known if not OF_SETS.fullmatch(plain(texts[n]))]
    return next(iter(of_names or known), None)


def _means_fit(header: Rows, numbers: Sequence[_Run]) -> bool:
    """Whether the columns called average hold the means of others with the same metric."""
    means = [n for n, title in enumerate(header[0]) if n and is_average(title)]
    if not means:
        return False
    for run in numbers:
        values = [value_of(text) for text in ("", *run.lines)]
        for place in means:
            below = header[1][place]
            others = [n for n, m in enumerate(header[1]) if n and m == below and n not in means]
            if max(others, default=0) >= len(values) or place >= len(values):
                return False
            mean = sum(values[n] for n in others) / len(others)
            if abs(mean - values[place]) > _ROUNDED * max(1.0, abs(mean)):
                return False
    return True
