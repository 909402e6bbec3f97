"""Draw a dot and an interval per label, one panel per group."""

from __future__ import annotations

from oodometer.finding import Series
from oodometer.reports.drawing.marks import (
    Point,
    distinct,
    interval_widths,
    missing,
    named,
    remarks,
    value_ground,
)
from oodometer.reports.drawing.panels import Drawing, Panel, Placed, draw_panels
from oodometer.reports.drawing.svg import element, title
from oodometer.reports.words import decimals_of_intervals, number, one_line, rounded


def draw_intervals(series: Series, width: float) -> Drawing:
    """Draw a dot and an interval per label, one panel per group."""
    groups: dict[str, list[Point]] = {}
    for point in series.points:
        groups.setdefault("" if point["group"] is None else one_line(point["group"]), []).append(
            point
        )
    own = {group: distinct(points, "label") for group, points in groups.items()}
    every = distinct(series.points, "label")
    # Groups without a common label are sections of one list.
    apart = len(groups) > 1 and sum(map(len, own.values())) == len(every)
    panels = [Panel(group, own[group] if apart else every) for group in groups]
    numbers = [
        value
        for point in series.points
        for key in ("value", "low", "high")
        if number(point["value"]) is not None and (value := number(point[key])) is not None
    ]
    places = decimals_of_intervals(numbers, interval_widths(series.points))

    def marks(placed: Placed) -> str:
        group = placed.panel.title
        parts = [_interval(series, point, placed, places) for point in groups[group]]
        absent = [label for label in placed.panel.labels if label not in own[group]]
        parts += [missing(series, placed, label) for label in absent]
        return "".join(parts)

    ground = value_ground(series, width, numbers)
    return draw_panels(panels, ground, marks)


def _interval(series: Series, point: Point, placed: Placed, places: int) -> str:
    label = one_line(point["label"])
    value, low, high = (number(point[key]) for key in ("value", "low", "high"))
    if value is None:
        return missing(series, placed, label, remarks(series, point))
    y = placed.row(label)
    said = f"{series.value_label} {rounded(value, places)}"
    whisker = ""
    if low is not None and high is not None:
        said += f" [{rounded(low, places)}, {rounded(high, places)}]"
        whisker = element(
            "line", x1=placed.scale(low), x2=placed.scale(high), y1=y, y2=y, class_="interval"
        )
    where = ", ".join(filter(None, (label, placed.panel.title)))
    return element(
        "g",
        title(f"{where}: {said}{remarks(series, point)}"),
        whisker,
        element("circle", cx=placed.scale(value), cy=y, r=3.3, class_="dot"),
        class_="mark",
        data_value=repr(value),
        **named(series, label=label, group=placed.panel.title),
    )
