"""Draw where results are missing: a grid of rows by columns, a letter for each reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from oodometer.finding import Series
from oodometer.reports.drawing.columns import Layout, column_names, layout_of
from oodometer.reports.drawing.marks import Point, distinct
from oodometer.reports.drawing.panels import Drawing, row_name
from oodometer.reports.drawing.svg import LABEL_SIZE, LINE_HEIGHT, element, lines, text, title
from oodometer.reports.words import number, one_line, text_width, wrap

_ROW = 24.0
_REASON_LINES = 3


def draw_gaps(series: Series, width: float) -> Drawing:
    """Draw a cell per row and column; below, what the letters mean."""
    rows, columns = distinct(series.points, "row"), distinct(series.points, "column")
    found = {(one_line(point["row"]), one_line(point["column"])): point for point in series.points}
    counts: Counter[str] = Counter()
    for point in found.values():
        if amount := _amount(point):
            counts[one_line(point["reason"])] += amount
    letters = {reason: _letter(place) for place, (reason, _) in enumerate(counts.most_common())}
    widest = max(text_width(row, LABEL_SIZE) for row in rows)
    left = min(widest + 12, width * (0.26 if width >= 600 else 0.46))
    words = [_word(point, letters) for point in found.values()]
    layout = layout_of(columns, words, width, width - left - 4, gaps=False)
    named = {row: wrap(row, left - 12, LABEL_SIZE, 2) for row in rows}
    height = max(_ROW, max(map(len, named.values())) * LINE_HEIGHT + 6)
    parts, top = [], 4.0
    for start in range(0, len(columns), layout.across):
        block = columns[start : start + layout.across]
        head, top = column_names(block, left, layout.cell_width, layout.angle, top)
        parts.append(head)
        for row in rows:
            cells = [
                lines(named[row], left - 10, top + height / 2, css="label", anchor="end", full=row)
            ]
            for place, column in enumerate(block):
                where = (left + place * layout.cell_width, top, layout.cell_width, height)
                cells.append(_cell(series, row, column, found.get((row, column)), letters, where))
            parts.append(row_name("".join(cells), series.roles.get("row"), row))
            top += height
        top += 14
    legend, top = _legend(counts, letters, width, top)
    return Drawing("".join(parts) + legend, _across(layout, left, width), top + 4)


def _across(layout: Layout, left: float, width: float) -> float:
    # Reasons need room, even below a narrow grid.
    return min(width, max(left + layout.across * layout.cell_width + layout.overhang + 4, 520.0))


def _amount(point: Point) -> int:
    """Return how many results are missing."""
    return max(0, int(number(point["value"]) or 0))


def _letter(place: int) -> str:
    turn, own = divmod(place, 26)
    return chr(ord("A") + own) + (str(turn + 1) if turn else "")


def _word(point: Point, letters: dict[str, str]) -> str:
    """Return what a cell says: a letter, and how many are missing unless it is all of them."""
    amount = _amount(point)
    if not amount:
        return ""
    whole = amount == number(point["of"])
    return letters[one_line(point["reason"])] + ("" if whole else f" {amount}")


def _cell(
    series: Series,
    row: str,
    column: str,
    point: Point | None,
    letters: dict[str, str],
    where: tuple[float, float, float, float],
) -> str:
    x, y, width, height = where
    amount = 0 if point is None else _amount(point)
    said = "nothing is missing"
    parts = []
    if point is not None and amount:
        said = f"{amount} of {point['of']} missing: {one_line(point['reason'])}"
        word = _word(point, letters)
        middle = (x + width / 2, y + height / 2)
        parts.append(text(word, *middle, css="cell absent-word", anchor="middle"))
    box = element(
        "rect", x=x + 1, y=y + 1, width=width - 2, height=height - 2, rx=2.0,
        class_="absent" if amount else "there",
    )  # fmt: skip
    role = series.roles.get("column")
    marks = {f"data_{role}": column} if role else {}
    return element("g", title(f"{row}, {column}: {said}"), box, *parts, class_="mark", **marks)


def _legend(
    counts: Counter[str], letters: dict[str, str], width: float, top: float
) -> tuple[str, float]:
    """Write each reason once, the most frequent first; return the bottom."""
    parts = []
    for reason, amount in counts.most_common():
        said = f"{reason.rstrip('.')} ({amount} missing)"
        broken: Sequence[str] = wrap(said, min(width, 900.0) - 36, LABEL_SIZE, _REASON_LINES)
        parts.append(text(letters[reason], 8, top + 8, css="label absent-word"))
        for line in broken:
            parts.append(text(line, 32, top + 8, css="legend", full=said))
            top += LINE_HEIGHT + 1
        top += 3
    return "".join(parts), top
