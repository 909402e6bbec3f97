"""Draw stacked bars: a bar per label, a section per part."""

from __future__ import annotations

from oodometer.finding import Series
from oodometer.reports.drawing import palette
from oodometer.reports.drawing.marks import Point, distinct, missing, named, remarks
from oodometer.reports.drawing.panels import Drawing, Ground, Panel, Placed, draw_panels
from oodometer.reports.drawing.scales import Span
from oodometer.reports.drawing.svg import element, title
from oodometer.reports.words import decimals, number, one_line, rounded

_THICK = 13.0


def draw_bars(series: Series, width: float) -> Drawing:
    """Draw a bar per label; what is below zero goes to the left."""
    labels, parts = distinct(series.points, "label"), distinct(series.points, "part")
    by_label: dict[str, list[Point]] = {}
    for point in series.points:
        by_label.setdefault(one_line(point["label"]), []).append(point)
    values = {
        label: [value for point in own if (value := number(point["value"])) is not None]
        for label, own in by_label.items()
    }
    ends = [sum(filter(sign, own)) for own in values.values() for sign in (_above, _below)]
    high = max(0.0, *ends)
    low = min(0.0, *ends)
    span = Span(low, high if high > low else low + 1)
    places = decimals([value for own in values.values() for value in own])

    def marks(placed: Placed) -> str:
        drawn = []
        for label in labels:
            if values[label]:
                drawn.append(_bar(series, by_label[label], parts, placed, places))
            else:
                drawn.append(missing(series, placed, label))
        return "".join(drawn)

    ground = Ground(
        width,
        22.0,
        span,
        span.words(series.value_label, series.higher_is_better, upward=False),
        legend_mark=_key,
        name_role=series.roles.get("label"),
    )
    return draw_panels([Panel("", labels, parts)], ground, marks)


def _bar(
    series: Series, points: list[Point], parts: tuple[str, ...], placed: Placed, places: int
) -> str:
    label = one_line(points[0]["label"])
    top = placed.row(label) - _THICK / 2
    drawn, reach = [], {True: 0.0, False: 0.0}
    for point in points:
        value = number(point["value"])
        if value is None:
            continue
        start, end = reach[value >= 0], reach[value >= 0] + value
        reach[value >= 0] = end
        left, right = sorted((placed.scale(start), placed.scale(end)))
        part = one_line(point["part"])
        said = f"{label}, {part}: {series.value_label} {rounded(value, places)}"
        drawn.append(
            element(
                "rect",
                title(said + remarks(series, point)),
                x=left,
                y=top,
                width=max(right - left - 1, 0.2),
                height=_THICK,
                class_=f"mark flat hue-{parts.index(part) % palette.HUES}",
                data_value=repr(value),
            )
        )
    return element("g", *drawn, **named(series, label=label))


def _key(index: int, x: float, y: float) -> str:
    css = f"key flat hue-{index % palette.HUES}"
    return element("rect", x=x - 4.5, y=y - 4.5, width=9.0, height=9.0, class_=css)


def _above(value: float) -> bool:
    return value > 0


def _below(value: float) -> bool:
    return value < 0
