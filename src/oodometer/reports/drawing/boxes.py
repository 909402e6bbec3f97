"""Draw many values as a box: quartiles, median, and a line to the lowest and the highest."""

from __future__ import annotations

from oodometer.finding import Series
from oodometer.reports.drawing.marks import Point, distinct, missing, named, remarks, value_ground
from oodometer.reports.drawing.panels import Drawing, Panel, Placed, draw_panels
from oodometer.reports.drawing.svg import element, title
from oodometer.reports.words import decimals, number, one_line, rounded

_THICK = 12.0
_ENDS = ("low", "lower", "value", "upper", "high")


def draw_boxes(series: Series, width: float) -> Drawing:
    """Draw a row per label in every panel; a label without values in one is missing there."""
    by_place: dict[tuple[str, str], Point] = {
        (one_line(point["panel"]), one_line(point["label"])): point for point in series.points
    }
    labels = distinct(series.points, "label")
    numbers = [
        value
        for point in by_place.values()
        for key in _ENDS
        if (value := number(point[key])) is not None
    ]
    places = decimals(numbers)

    def marks(placed: Placed) -> str:
        drawn = []
        for label in labels:
            point = by_place.get((placed.panel.title, label))
            ends = [] if point is None else [number(point[key]) for key in _ENDS]
            known = [end for end in ends if end is not None]
            if point is None or len(known) < len(_ENDS):
                drawn.append(missing(series, placed, label))
            else:
                drawn.append(_box(series, point, placed, known, places))
        return "".join(drawn)

    ground = value_ground(series, width, numbers)
    panels = [Panel(title, labels) for title in distinct(series.points, "panel")]
    return draw_panels(panels, ground, marks)


def _box(series: Series, point: Point, placed: Placed, ends: list[float], places: int) -> str:
    label = one_line(point["label"])
    y = placed.row(label)
    low, lower, middle, upper, high = (placed.scale(end) for end in ends)
    written = [rounded(end, places) for end in ends]
    where = ", ".join(filter(None, (label, placed.panel.title)))
    said = (
        f"{where}: median {series.value_label} {written[2]}, quartiles {written[1]} and "
        f"{written[3]}, lowest {written[0]}, highest {written[4]}{remarks(series, point)}"
    )
    top, bottom = y - _THICK / 2, y + _THICK / 2
    return element(
        "g",
        title(said),
        element("line", x1=low, x2=high, y1=y, y2=y, class_="whisker"),
        element("rect", x=lower, y=top, width=upper - lower, height=_THICK, class_="box"),
        element("line", x1=middle, x2=middle, y1=top, y2=bottom, class_="median"),
        class_="mark",
        data_value=repr(ends[2]),
        **named(series, label=label, panel=placed.panel.title),
    )
