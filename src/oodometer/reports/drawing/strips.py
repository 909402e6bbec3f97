"""Draw single values per label, one panel per factor, one lane per level."""

from __future__ import annotations

from oodometer.finding import Series
from oodometer.reports.drawing import palette
from oodometer.reports.drawing.marks import (
    Point,
    chance,
    distinct,
    marker,
    missing,
    named,
    remarks,
)
from oodometer.reports.drawing.panels import Drawing, Ground, Panel, Placed, draw_panels
from oodometer.reports.drawing.scales import value_span
from oodometer.reports.drawing.svg import element, title
from oodometer.reports.words import decimals, number, one_line, rounded


def draw_strips(series: Series, width: float) -> Drawing:
    """Draw single values per label, one panel per factor, one lane per level."""
    factors: dict[str, list[Point]] = {}
    for point in series.points:
        factors.setdefault(one_line(point["panel"]), []).append(point)
    every = distinct(series.points, "label")
    panels = [Panel(factor, every, distinct(points, "level")) for factor, points in factors.items()]
    numbers = [value for point in series.points if (value := number(point["value"])) is not None]
    places = decimals(numbers)
    lanes = max(len(panel.legend) for panel in panels)

    def marks(placed: Placed) -> str:
        lane = min(8.0, (placed.row_height - 10) / max(1, len(placed.panel.legend) - 1))
        by_row: dict[tuple[str, str], list[Point]] = {}
        for point in factors[placed.panel.title]:
            key = one_line(point["label"]), one_line(point["level"])
            by_row.setdefault(key, []).append(point)
        parts = []
        for (label, level), points in by_row.items():
            index = placed.panel.legend.index(level)
            offset = (index - (len(placed.panel.legend) - 1) / 2) * lane
            where = (index, placed.row(label) + offset, places)
            panel = placed.panel.title
            own = f"{panel}={level}" if series.roles.get("panel") == "factor" else level
            names = named(series, label=label, level=own, panel=panel)
            parts.append(element("g", _strip(series, points, placed, where), **names))
        drawn = {
            one_line(point["label"])
            for point in factors[placed.panel.title]
            if number(point["value"]) is not None
        }
        parts.extend(missing(series, placed, label) for label in every if label not in drawn)
        return "".join(parts)

    span = value_span(numbers, series.higher_is_better)
    ground = Ground(
        width,
        max(22.0, 10.0 + 6.5 * (lanes - 1) + 5.0),
        span,
        span.words(series.value_label, series.higher_is_better, upward=False),
        chance(series, span),
        lambda index, x, y: marker(index, x, y),
        series.roles.get("label"),
    )
    return draw_panels(panels, ground, marks)


def _strip(
    series: Series, points: list[Point], placed: Placed, lane: tuple[int, float, int]
) -> str:
    """Draw the values of one label at one level, with a thin line from lowest to highest."""
    index, y, places = lane
    known = [value for point in points if (value := number(point["value"])) is not None]
    parts = []
    if len(known) > 1:
        ends = placed.scale(min(known)), placed.scale(max(known))
        css = f"spread hue-{index % palette.HUES}"
        parts.append(element("line", x1=ends[0], x2=ends[1], y1=y, y2=y, class_=css))
    for point in points:
        value = number(point["value"])
        if value is not None:
            said = (
                f"{one_line(point['label'])}, {placed.panel.title} {one_line(point['level'])}: "
                f"{series.value_label} {rounded(value, places)}{remarks(series, point)}"
            )
            parts.append(marker(index, placed.scale(value), y, title(said), repr(value)))
    return "".join(parts)
