"""Draw means with intervals, the best first, and bars over what cannot be separated."""

from __future__ import annotations

from oodometer.finding import Series
from oodometer.reports.drawing.marks import (
    Point,
    chance,
    distinct,
    group_letters,
    interval_widths,
    letters_of,
    missing,
    named,
    remarks,
)
from oodometer.reports.drawing.panels import Drawing, Ground, Panel, Placed, draw_panels
from oodometer.reports.drawing.scales import value_span
from oodometer.reports.drawing.svg import TICK_SIZE, element, text, title
from oodometer.reports.words import decimals_of_intervals, number, one_line, rounded, text_width

_BAR = 9.0  # at most, from one bar to the next
_BARS = 0.2  # of the width, at most
_NUMBERS = 600.0  # from this width on, values are written, too


def draw_leaderboard(series: Series, width: float) -> Drawing:
    """Draw a row per label; rows under one bar (a letter) are not separated from each other."""
    labels = distinct(series.points, "label")
    numbers = [
        value
        for point in series.points
        for key in ("value", "low", "high")
        if (value := number(point[key])) is not None
    ]
    places = decimals_of_intervals(numbers, interval_widths(series.points))
    letters = group_letters(series.points)
    written = [_written(point, places) for point in series.points] if width >= _NUMBERS else []
    step = min(_BAR, _BARS * width / max(1, len(letters)))
    bars = step * len(letters) + 14 if letters else 0.0
    room = max((text_width(words, TICK_SIZE) for words in written), default=0.0)

    def marks(placed: Placed) -> str:
        right = placed.scale.right + 18
        parts = [_row(series, point, placed, places) for point in series.points]
        for index, letter in enumerate(letters):
            parts.append(_bar(series, letter, placed, right + index * step))
        for point, words in zip(series.points, written, strict=False):
            y = placed.row(one_line(point["label"]))
            parts += [text(words, right + bars, y, css="tick")] if words else []
        return "".join(parts)

    span = value_span(numbers, series.higher_is_better)
    ground = Ground(
        width - bars - room,
        22.0,
        span,
        span.words(series.value_label, series.higher_is_better, upward=False),
        chance(series, span),
        name_role=series.roles.get("label"),
    )
    drawn = draw_panels([Panel("", labels)], ground, marks)
    return Drawing(drawn.body, min(drawn.width + bars + room, width), drawn.height)


def _row(series: Series, point: Point, placed: Placed, places: int) -> str:
    label = one_line(point["label"])
    value, low, high = (number(point[key]) for key in ("value", "low", "high"))
    if value is None:
        return missing(series, placed, label, remarks(series, point))
    y, whisker = placed.row(label), ""
    if low is not None and high is not None:
        ends = placed.scale(low), placed.scale(high)
        whisker = element("line", x1=ends[0], x2=ends[1], y1=y, y2=y, class_="interval")
    said = f"{label}: {series.value_label} {_written(point, places)}{remarks(series, point)}"
    return element(
        "g",
        title(said),
        whisker,
        element("circle", cx=placed.scale(value), cy=y, r=3.8, class_="dot"),
        class_="mark" if point["leads"] == "yes" else "mark follower",
        data_value=repr(value),
        **named(series, label=label),
    )


def _bar(series: Series, letter: str, placed: Placed, x: float) -> str:
    """Draw a bar from the first to the last row of a group; a dot marks each of its rows."""
    own = [one_line(point["label"]) for point in series.points if letter in letters_of(point)]
    rows = [placed.row(label) for label in own]
    dots = [element("circle", cx=x, cy=y, r=2.4, class_="joint") for y in rows]
    line = element("line", x1=x, x2=x, y1=min(rows), y2=max(rows), class_="joint")
    return element("g", title(f"group {letter}, not separated: {', '.join(own)}"), line, *dots)


def _written(point: Point, places: int) -> str:
    value, low, high = (number(point[key]) for key in ("value", "low", "high"))
    if value is None:
        return ""
    interval = (
        "" if low is None or high is None else f" [{rounded(low, places)}, {rounded(high, places)}]"
    )
    return rounded(value, places) + interval
