"""Draw values against a number, such as AUROC against the epoch: one line per label."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oodometer.finding import Series, Value
from oodometer.reports.drawing import palette
from oodometer.reports.drawing.marks import Point, distinct, named
from oodometer.reports.drawing.panels import LEGEND_HEIGHT, Drawing, legend_rows
from oodometer.reports.drawing.scales import Scale, Span, ticks, value_span
from oodometer.reports.drawing.svg import LABEL_SIZE, TICK_SIZE, element, text, title
from oodometer.reports.words import (
    MISSING,
    decimals,
    number,
    one_line,
    rounded,
    shorten,
    text_width,
)

_HEIGHT = 260.0
_LEAST = 13.0  # between two names at the right end
_LEFT = 44.0
_GAP = 20.0
_SMALLEST = 230.0  # width of a panel among others
_MOST_DOTS = 25
_DASHES = (None, "6 3", "2 3")  # with eight colours, 24 lines before a pair comes twice


def draw_lines(series: Series, width: float) -> Drawing:
    """Draw one panel per `panel`, below each other; names stand at the right end of their lines."""
    panels: dict[str, list[Mapping[str, Value]]] = {}
    for point in series.points:
        panels.setdefault(one_line(point["panel"]), []).append(point)
    labels = list(dict.fromkeys(one_line(point["label"]) for point in series.points))
    if len(panels) > 1 and all(len(distinct(p, "label")) == len(labels) for p in panels.values()):
        return _grid(series, panels, labels, width)
    widest = max(text_width(label, LABEL_SIZE) for label in labels)
    room = min(widest, width * 0.38) + 14
    height = max(_HEIGHT, _LEAST * len(labels) + 20)
    bodies, top = [], 0.0
    said = len(panels) == 1 and next(iter(panels)) in one_line(series.title)  # above the figure
    for name, points in panels.items():
        start = top + (22 if said else 42)
        place = (start, start + height, width - room)
        bodies += [] if said else [text(name, _LEFT, top + 10, css="panel-title")]
        bodies.append(_own_panel(series, points, labels, place))
        top = start + height + 34
    return Drawing("".join(bodies), width, top)


def _grid(
    series: Series, panels: Mapping[str, list[Point]], labels: list[str], width: float
) -> Drawing:
    """Draw panels of the same lines side by side, below one legend."""
    across = max(1, min(len(panels), int((width + _GAP) // (_SMALLEST + _GAP))))
    across = math.ceil(len(panels) / math.ceil(len(panels) / across))
    each = min((width + _GAP) / across - _GAP, 2 * _SMALLEST)
    used = across * (each + _GAP) - _GAP
    parts, top = [], 0.0
    for row in legend_rows([f"{label}  " for label in labels], used):
        for index, words, start in row:
            y = top + LEGEND_HEIGHT / 2
            key = element(
                "line", x1=start, x2=start + 12, y1=y, y2=y,
                class_=f"key thick hue-{index % palette.HUES}", stroke_dasharray=_dash(index),
            )  # fmt: skip
            name = text(words.strip(), start + 16, y, css="legend")
            parts.append(element("g", key, name, **named(series, label=labels[index])))
        top += LEGEND_HEIGHT
    top += 6
    axes = _Axes.of(series, series.points)
    if axes is None:
        return Drawing(text(MISSING, _LEFT, top + 10, css="tick gap-word"), used, top + 24)
    # One scale for all panels, so that they can be compared, and its words once.
    words = axes.span.words(series.value_label, series.higher_is_better, upward=True)
    parts.append(text(shorten(words, used, LABEL_SIZE), 2, top + 8, css="axis", full=words))
    top += 26
    height = _SMALLEST * 0.72
    for place, (name, points) in enumerate(panels.items()):
        x, y = place % across * (each + _GAP), top + place // across * (height + 52)
        ends = (22.0, 22.0 + height, each - 10)  # half of the last tick is beyond
        drawn = _panel(series, points, labels, axes.placed(*ends), names=False)
        heading = text(shorten(name, each - _LEFT, LABEL_SIZE), _LEFT, 8, css="panel-title")
        where = f"translate({x:.1f},{y:.1f})"
        parts.append(element("g", heading, drawn, transform=where, **named(series, panel=name)))
    bottom = top + math.ceil(len(panels) / across) * (height + 52)
    below = shorten(series.x_label, used - 4, LABEL_SIZE)
    parts += [text(below, _LEFT, bottom, css="axis", full=series.x_label)] if below else []
    return Drawing("".join(parts), used, bottom + (12 if below else 0))


def _dash(index: int) -> str | None:
    return _DASHES[index // palette.HUES % len(_DASHES)]


@dataclass(frozen=True)
class _Axes:
    """The ranges that one panel, or all panels, show."""

    span: Span
    first: float
    last: float
    whole: bool  # all x are whole numbers, such as epochs

    @staticmethod
    def of(series: Series, points: Iterable[Point]) -> _Axes | None:
        """Return the ranges of all points; None if there is nothing to draw."""
        every = [pair for point in points if (pair := _pair(point)) is not None]
        if not every:
            return None
        first, last = min(x for x, _ in every), max(x for x, _ in every)
        span = value_span((value for _, value in every), series.higher_is_better)
        whole = all(x == int(x) for x, _ in every)
        return _Axes(span, first, last if last > first else first + 1, whole)

    def placed(self, top: float, bottom: float, right: float) -> _Frame:
        """Return a panel with these axes."""
        across = Scale(self.first, self.last, _LEFT + 4, right - 6)
        return _Frame(top, bottom, right, across, self.span.across(bottom, top), self.whole)


@dataclass(frozen=True)
class _Frame:
    """Where one panel is drawn, and the scales of its axes."""

    top: float
    bottom: float
    right: float
    across: Scale
    up: Scale
    whole: bool


def _pair(point: Point) -> tuple[float, float] | None:
    x, value = number(point["x"]), number(point["value"])
    return None if x is None or value is None else (x, value)


def _own_panel(
    series: Series, points: list[Point], labels: list[str], place: tuple[float, float, float]
) -> str:
    """Draw a panel with axes, words and names of its own."""
    top, bottom, right = place
    axes = _Axes.of(series, points)
    if axes is None:
        return text(MISSING, _LEFT, (top + bottom) / 2, css="tick gap-word")
    words = axes.span.words(series.value_label, series.higher_is_better, upward=True)
    parts = [text(words, _LEFT, top - 12, css="axis")]
    if series.x_label:
        below = shorten(series.x_label, right - _LEFT, LABEL_SIZE)
        parts.append(text(below, right, bottom + 27, css="axis", anchor="end"))
    return "".join(parts) + _panel(series, points, labels, axes.placed(*place))


def _panel(
    series: Series, points: list[Point], labels: list[str], frame: _Frame, *, names: bool = True
) -> str:
    known: dict[str, list[tuple[float, float]]] = {}
    for point in points:
        if (pair := _pair(point)) is not None:
            known.setdefault(one_line(point["label"]), []).append(pair)
    parts = [_axes(frame)]
    places = decimals([value for pairs in known.values() for _, value in pairs])
    ends: list[tuple[float, str]] = []
    for index, label in enumerate(labels):
        if label in known:
            own = [(frame.across(x), frame.up(v), x, v) for x, v in sorted(known[label])]
            parts.append(_line(series, label, index, own, places))
            ends.append((own[-1][1], label))
    if names:
        parts.append(_names(series, ends, labels, frame))
    return "".join(parts)


def _axes(frame: _Frame) -> str:
    """Draw the guides with their values, and the numbers below."""
    across, up, right = frame.across, frame.up, frame.right
    parts = []
    for y, written in up.ticks(6, TICK_SIZE):
        parts.append(element("line", x1=_LEFT, x2=right, y1=y, y2=y, class_="guide"))
        parts.append(text(written, _LEFT - 5, y, css="tick", anchor="end"))
    y = frame.bottom + TICK_SIZE
    for value, written in ticks(across.low, across.high, max(2, int((right - _LEFT) / 70))):
        if frame.whole and value != int(value):
            continue
        name = f"{value:g}" if frame.whole else written
        parts.append(text(name, across(value), y, css="tick", anchor="middle"))
    parts.append(
        element("line", x1=_LEFT, x2=right, y1=frame.bottom, y2=frame.bottom, class_="grid")
    )
    return "".join(parts)


def _names(series: Series, ends: list[tuple[float, str]], labels: list[str], frame: _Frame) -> str:
    """Write each line's name at its right end."""
    parts = []
    for y, label in spread(ends, frame.top, frame.bottom):
        hue = f"hue-{labels.index(label) % palette.HUES}"
        dot = element("circle", cx=frame.right + 2, cy=y, r=3, class_=hue)
        shown = text(shorten(label, 200.0, LABEL_SIZE), frame.right + 8, y, full=label)
        parts.append(element("g", dot, shown, **named(series, label=label)))
    return "".join(parts)


def _line(
    series: Series,
    label: str,
    index: int,
    places: list[tuple[float, float, float, float]],
    digits: int,
) -> str:
    hue = index % palette.HUES
    path = "M" + "L".join(f"{x:.2f},{y:.2f}" for x, y, *_ in places)
    parts = [
        element(
            "path",
            d=path,
            class_=f"open hue-{hue}",
            stroke_dasharray=_dash(index),
        )
    ]
    if len(places) > _MOST_DOTS:  # a smooth curve; dots would only make the page large
        return element("g", title(label), *parts, **named(series, label=label))
    for x, y, where, value in places:
        said = f"{label}, {where:g}: {series.value_label} {rounded(value, digits)}"
        parts.append(
            element(
                "circle", title(said), cx=x, cy=y, r=2.2, class_=f"mark hue-{hue}",
                data_value=repr(value),
            )
        )  # fmt: skip
    return element("g", *parts, **named(series, label=label))


def spread(ends: list[tuple[float, str]], top: float, bottom: float) -> list[tuple[float, str]]:
    """Move names apart so that none covers another; they keep their order."""
    placed: list[tuple[float, str]] = []
    lowest = top - _LEAST
    for y, label in sorted(ends):
        lowest = max(y, lowest + _LEAST)
        placed.append((lowest, label))
    beyond = placed[-1][0] - bottom if placed else 0.0
    if beyond > 0:  # push back up from the lower end
        limit = bottom
        for number_, (y, label) in reversed(list(enumerate(placed))):
            limit = min(y, limit)
            placed[number_] = (limit, label)
            limit -= _LEAST
    return placed
