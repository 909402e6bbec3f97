"""Text and numbers for display: cleaned, measured, wrapped, rounded."""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from oodometer.clean_text import clean
from oodometer.finding import Series, Table, TableCell, Value, less_than_one, p_value_text
from oodometer.metrics import Estimate

MISSING = "missing"
_MORE_DECIMALS = 3  # at most, to distinguish values that lie close to each other
_LEAST_WIDTH = 2.0  # of an interval, in units of the last decimal, and
_LEAST_RANGE = 10.0  # from the smallest to the largest value without an interval
_SHARE_DECIMALS = 3  # of numbers up to 1
_P_VALUES = re.compile(r"(adjusted )?p( \(.*\))?")  # the title of their column

_BREAKS = re.compile(r"(?<=[\s(=_/,:;\-])")


def one_line(value: object) -> str:
    r"""Return a name, level or cell as one clean line.

    >>> one_line("two\nlines"), one_line(None)
    ('two lines', 'none')
    """
    return "none" if value is None else " ".join(clean(str(value)).split())


def with_short_words(text: str, longest: int) -> str:
    """Cut words of more than `longest` letters, such as endless names, in their middle.

    >>> with_short_words("the name aaaaaaaaaaaaaaaa", 10)
    'the name aaaaa...aaaaa'
    """
    half = longest // 2
    return re.sub(
        rf"\S{{{longest + 4},}}", lambda word: f"{word[0][:half]}...{word[0][-half:]}", text
    )


def number(value: Value) -> float | None:
    """Return a point's value as a number, or None if there is none to draw."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value)


def decimals(values: Iterable[float]) -> int:
    """Return a suitable number of decimals for these values.

    >>> decimals([0.91, 0.5]), decimals([1.5, 12.25]), decimals([1.0, 7.0])
    (3, 1, 0)
    """
    known = list(values)
    largest = max((abs(value) for value in known), default=0.0)
    if largest > 1 and all(value == int(value) for value in known):
        return 0
    return _SHARE_DECIMALS if largest <= 1 else 2 if largest < 10 else 1


def decimals_of_intervals(values: Sequence[float], widths: Iterable[float]) -> int:
    """Return the decimals at which most intervals, of these widths, are seen to have a width.

    >>> decimals_of_intervals([0.95, 0.91], [0.03]), decimals_of_intervals([0.9995], [0.0008])
    (3, 4)
    """
    places, known = decimals(values), [width for width in widths if 0 < width < math.inf]
    for more in range(_MORE_DECIMALS):
        seen = [width * 10.0 ** (places + more) >= _LEAST_WIDTH for width in known]
        if 2 * sum(seen) >= len(seen):
            return places + more
    return places


def rounded(value: float, places: int) -> str:
    """Format a number with `places` decimals, or more if it would show as 0, or less than 1 as 1.

    >>> rounded(0.9125, 2), rounded(0.00042, 3), rounded(-0.00001, 3), rounded(3e9, 1)
    ('0.91', '0.0004', '-1.0e-05', '3.00e+09')
    >>> rounded(0.99956, 3), rounded(0.99999, 3), rounded(1.0, 3)
    ('0.9996', '0.9999', '1.000')
    """
    if abs(value) >= 1e7:
        return f"{value:.2e}"
    value = _unsummed(value)
    text = f"{value:.{places}f}"
    if places >= _SHARE_DECIMALS and abs(value) < 1 <= abs(float(text)):
        return less_than_one(value, places + 1)
    if value != 0 and not text.strip("-0."):
        closer = f"{value:.{places + 1}f}"
        return closer if places and closer.strip("-0.") else f"{value:.1e}"
    return text if value != 0 else f"{0:.{places}f}"


def _unsummed(value: float) -> float:
    """Return a number without what summing loses: a mean is written alike however it was summed."""
    return float(f"{value:.12g}")


@dataclass(frozen=True)
class Shown:
    """One table cell as text."""

    text: str
    interval: str = ""
    numeric: bool = False
    missing: bool = False
    sort: str = ""  # the sort key, at full precision

    @property
    def full(self) -> str:
        """The value with its interval, if any."""
        return f"{self.text} {self.interval}" if self.interval else self.text


def show_rows(table: Table) -> list[list[Shown]]:
    """Format cells; all numbers of a column have the same number of decimals."""
    shown = []
    for title, column in zip(table.columns, zip(*table.rows, strict=True), strict=False):
        if _P_VALUES.fullmatch(title):
            shown.append([_p_value(cell) for cell in column])
        else:
            places = _places(column)
            shown.append([_show(cell, places) for cell in column])
    return [list(row) for row in zip(*shown, strict=True)]


def _places(column: Sequence[TableCell]) -> int:
    """Return how many decimals tell the numbers of a column apart, and the ends of intervals."""
    if not any(map(_fraction, column)):
        return 0  # counts stay integers, but a 1 among fractions gets decimals too
    numbers = _numbers(column)
    widths = [cell.high - cell.low for cell in column if isinstance(cell, Estimate)]
    if widths or decimals(numbers) < _SHARE_DECIMALS:
        return decimals_of_intervals(numbers, widths)
    places, spread = decimals(numbers), max(numbers) - min(numbers)
    return places + (0 < spread * 10.0**places < _LEAST_RANGE)


def _p_value(cell: TableCell) -> Shown:
    """Write a p-value as claims do.

    >>> _p_value(0.0123).text, _p_value(3e-7).text, _p_value(1.0).text
    ('0.012', '< 0.0001', '1')
    """
    if isinstance(cell, (int, float)):
        return Shown(p_value_text(cell), numeric=True, sort=repr(cell))
    return _show(cell, 0)


def numeric_columns(rows: Sequence[Sequence[Shown]], count: int) -> list[bool]:
    """Return for each of `count` columns whether it is numeric (ignoring missing cells)."""
    return [
        any(row[index].numeric for row in rows)
        and all(row[index].numeric or row[index].missing for row in rows)
        for index in range(count)
    ]


def points_table(series: Series, keys: Sequence[str]) -> Table:
    """Return the points of a figure as a table, remarks included."""
    remarks = [key for point in series.points for key in point if key not in keys]
    columns = (*keys, *dict.fromkeys(remarks))
    names = tuple(series.value_label if key == "value" else key for key in columns)
    rows = tuple(tuple(point.get(key) for key in columns) for point in series.points)
    return Table(name=series.name, title=series.title, columns=names, rows=rows)


def _fraction(cell: TableCell) -> bool:
    return isinstance(cell, (float, Estimate))


def _numbers(cells: Iterable[TableCell]) -> list[float]:
    found: list[float] = []
    for cell in cells:
        if isinstance(cell, Estimate):
            found.extend(cell)
        elif isinstance(cell, (int, float)) and not isinstance(cell, bool):
            found.append(float(cell))
    return [_unsummed(value) for value in found if math.isfinite(value)]


def _show(cell: TableCell, places: int) -> Shown:
    if cell is None:
        return Shown(MISSING, missing=True)
    if isinstance(cell, Estimate):
        if not math.isfinite(cell.value):
            return Shown(MISSING, missing=True)
        ends = [
            rounded(end, places) if math.isfinite(end) else "?" for end in (cell.low, cell.high)
        ]
        interval = f"[{ends[0]}, {ends[1]}]"
        return Shown(rounded(cell.value, places), interval, numeric=True, sort=repr(cell.value))
    if isinstance(cell, bool):
        return Shown("yes" if cell else "no")
    if isinstance(cell, int):
        text = rounded(cell, places) if places else str(cell)
        return Shown(text, numeric=True, sort=str(cell))
    if isinstance(cell, float):
        return Shown(rounded(cell, places), numeric=True, sort=repr(cell))
    return Shown(one_line(cell))


@lru_cache(maxsize=8192)
def text_width(text: str, size: float) -> float:
    """Estimate the width of `text` in pixels at a font size, erring on the wide side."""
    return size * sum(_em(character) for character in text)


def shorten(text: str, limit: float, size: float) -> str:
    """Replace the middle of `text` by an ellipsis until it fits: names often differ at the end.

    >>> shorten("mahalanobis(space=logits)", 100, 12)
    'mahala…ogits)'
    """
    if text_width(text, size) <= limit + 1e-6:  # the limit is often this width, computed back
        return text

    def with_letters(kept: int) -> str:
        head = (kept + 1) // 2
        return f"{text[:head].rstrip()}…{text[len(text) - (kept - head) :].lstrip()}"

    # More letters are never narrower, so that the most that fit are found by halving.
    fitting = bisect_right(
        range(len(text)), limit, key=lambda kept: text_width(with_letters(kept), size)
    )
    return with_letters(max(1, fitting - 1))


def wrap(text: str, limit: float, size: float, lines: int) -> list[str]:
    """Break `text` into at most `lines` lines, at spaces and after punctuation.

    >>> wrap("mahalanobis(space=logits)", 110, 12, 2)
    ['mahalanobis(', 'space=logits)']
    """
    whole = _filled(text, limit, size, lines)
    # As even as possible: the narrowest width that needs no further line.
    for share in (0.5, 0.6, 0.7, 0.8, 0.9):
        even = _filled(text, share * limit, size, lines)
        if len(even) == len(whole) and all(text_width(line, size) <= limit for line in even):
            return even
    return [shorten(line, limit, size) for line in whole]


def _filled(text: str, limit: float, size: float, lines: int) -> list[str]:
    pieces = [piece for piece in _BREAKS.split(text) if piece]
    broken: list[str] = []
    for index, piece in enumerate(pieces):
        if broken and text_width((broken[-1] + piece).rstrip(), size) <= limit:
            broken[-1] += piece
        elif len(broken) < lines:
            broken.append(piece)
        else:
            broken[-1] += "".join(pieces[index:])
            break
    return [line.strip() for line in broken] or [""]


def _em(character: str) -> float:
    if character in "iljtfrI.,:;'|!()[] ":
        return 0.4
    if character in "mwMW@%…—":
        return 0.96
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    return 0.72 if character.isupper() else 0.62
