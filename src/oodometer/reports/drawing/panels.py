"""Panels of rows that share one axis, for intervals and strip plots."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oodometer.finding import Role
from oodometer.reports.drawing.scales import Scale, Span
from oodometer.reports.drawing.svg import (
    LABEL_SIZE,
    LINE_HEIGHT,
    TICK_SIZE,
    element,
    lines,
    text,
    title,
)
from oodometer.reports.words import shorten, text_width, wrap

_GAP = 16.0
_INSET = 9.0  # keeps marks at the ends of the range inside the panel
_NARROWEST, _WIDEST = 104.0, 680.0
_MARGIN = 8.0  # for half a tick label beyond the last panel
_TITLE_LINES = 3
LEGEND_HEIGHT = 18.0


@dataclass(frozen=True)
class Drawing:
    """Markup and its size in pixels."""

    body: str
    width: float
    height: float


@dataclass(frozen=True)
class Panel:
    """A group of rows under one title; `legend` lists the levels of its marks."""

    title: str
    labels: tuple[str, ...]
    legend: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placed:
    """A panel with its position: where its rows are and how values map to pixels."""

    panel: Panel
    scale: Scale
    top: float
    row_height: float

    def row(self, label: str) -> float:
        """Return the height at which the row of `label` is centred."""
        return self.top + (self.panel.labels.index(label) + 0.5) * self.row_height


Marks = Callable[[Placed], str]
LegendMark = Callable[[int, float, float], str]


@dataclass(frozen=True)
class Ground:
    """What all panels of a figure share."""

    width: float
    row_height: float
    span: Span
    axis: str  # its title
    reference: tuple[float, str] | None = None
    legend_mark: LegendMark | None = None
    name_role: Role | None = None  # what the names of rows are


def draw_panels(panels: Sequence[Panel], ground: Ground, marks: Marks) -> Drawing:
    """Draw panels side by side as far as the width allows, then below each other."""
    names = [label for panel in panels for label in panel.labels]
    widest = max((text_width(name, LABEL_SIZE) for name in names), default=0.0)
    label_width = min(widest + 12, ground.width * (0.26 if ground.width >= 600 else 0.46))
    wrapped = {name: wrap(name, label_width - 12, LABEL_SIZE, 2) for name in names}
    most_lines = max((len(broken) for broken in wrapped.values()), default=1)
    row_height = max(ground.row_height, most_lines * LINE_HEIGHT + 6)

    room = ground.width - label_width - _MARGIN
    across = _panels_across(panels, room)
    panel_width = min((room + _GAP) / across - _GAP, _WIDEST)
    width = label_width + across * panel_width + (across - 1) * _GAP + _MARGIN
    body: list[str] = []
    top = 4.0
    for start in range(0, len(panels), across):
        top += 14.0 if start else 0.0
        place = _Place(width, label_width, panel_width, row_height, top)
        row, top = _panel_row(panels[start : start + across], ground, marks, wrapped, place)
        body.append(row)
    return Drawing("".join(body), width, top)


def _panels_across(panels: Sequence[Panel], room: float) -> int:
    """Return how many panels stand side by side: those that share labels, in even rows."""
    if any(panel.labels != panels[0].labels for panel in panels):
        return 1
    # Legends need room for their words; plain titles need less.
    least = 190.0 if any(panel.legend for panel in panels) else _NARROWEST
    fitting = max(1, int((room + _GAP) // (least + _GAP)))
    return math.ceil(len(panels) / math.ceil(len(panels) / fitting))


@dataclass(frozen=True)
class _Place:
    width: float
    label_width: float
    panel_width: float
    row_height: float
    top: float


def _panel_row(
    panels: Sequence[Panel],
    ground: Ground,
    marks: Marks,
    wrapped: dict[str, list[str]],
    place: _Place,
) -> tuple[str, float]:
    """Draw panels side by side; return the markup and the bottom."""
    titles = [wrap(panel.title, place.panel_width, LABEL_SIZE, _TITLE_LINES) for panel in panels]
    legends = [legend_rows(panel.legend, place.panel_width) for panel in panels]
    title_height = max(len(lines_) if any(lines_) else 0 for lines_ in titles) * LINE_HEIGHT
    legend_height = max(len(legend) for legend in legends) * LEGEND_HEIGHT
    top = place.top + title_height + legend_height + 8
    labels = max((panel.labels for panel in panels), key=len)
    bottom = top + len(labels) * place.row_height

    parts: list[str] = []
    for index, label in enumerate(labels):
        middle = top + (index + 0.5) * place.row_height
        name = lines(
            wrapped[label], place.label_width - 10, middle, css="label", anchor="end", full=label
        )
        parts.append(row_name(name, ground.name_role, label))
    for index, panel in enumerate(panels):
        left = place.label_width + index * (place.panel_width + _GAP)
        scale = ground.span.across(left + _INSET, left + place.panel_width - _INSET)
        placed = Placed(panel, scale, top, place.row_height)
        for number, line in enumerate(titles[index]):
            middle = place.top + (number + 0.5) * LINE_HEIGHT
            parts.append(text(line, left, middle, css="panel-title", full=panel.title))
        parts.append(_legend(legends[index], ground, left, place.top + title_height + 4))
        parts.append(_frame(placed, ground, left, left + place.panel_width, bottom))
        parts.append(marks(placed))
    axis, last_line = _axis_title(ground, place, bottom + 32)
    return "".join(parts) + axis, last_line + 16


def row_name(markup: str, role: Role | None, name: str) -> str:
    """Return the written name of a row or line, marked as what it names."""
    return element("g", markup, **{f"data_{role}": name}) if role else markup


def _frame(placed: Placed, ground: Ground, left: float, right: float, bottom: float) -> str:
    """Draw guides, ticks and the reference line of one panel."""
    parts = []
    for index, label in enumerate(placed.panel.labels):
        height = placed.row(label)
        if not placed.panel.legend:
            parts.append(element("line", x1=left, x2=right, y1=height, y2=height, class_="guide"))
        elif index % 2 == 0:
            # A row with several lanes is a band; a single guide line would fit none of them.
            band = {"x": left, "y": height - placed.row_height / 2, "width": right - left}
            parts.append(element("rect", height=placed.row_height, class_="band", **band))
    for x, name in placed.scale.ticks(max(2, int((right - left) // 52)), TICK_SIZE):
        parts.append(element("line", x1=x, x2=x, y1=placed.top, y2=bottom, class_="grid"))
        if name:
            parts.append(text(name, x, bottom + 12, css="tick", anchor="middle"))
    if ground.reference is not None:
        value, name = ground.reference
        x = placed.scale(value)
        parts.append(
            element("line", title(name), x1=x, x2=x, y1=placed.top, y2=bottom, class_="reference")
        )
    return "".join(parts)


def _axis_title(ground: Ground, place: _Place, middle: float) -> tuple[str, float]:
    """Label the axis and the dashed reference line; return the markup and its last line."""
    key = ground.reference[1] if ground.reference else ""
    key_width = text_width(key, LABEL_SIZE) + 46 if key else 0.0
    words = shorten(ground.axis, place.width - 4, LABEL_SIZE)
    words_width = text_width(words, LABEL_SIZE)
    beside = words_width + key_width < place.width
    # Below the first panel, or further left if there is more room.
    used = words_width + (key_width if beside else 0.0)
    start = max(2.0, min(place.label_width + _INSET, place.width - used))
    parts = [text(words, start, middle, css="axis", full=ground.axis)]
    if key:
        start, middle = (start + words_width + 20, middle) if beside else (start, middle + 15)
        parts.append(
            element("line", x1=start, x2=start + 20, y1=middle, y2=middle, class_="reference")
        )
        parts.append(text(key, start + 26, middle, css="axis"))
    return "".join(parts), middle


def legend_rows(levels: Sequence[str], width: float) -> list[list[tuple[int, str, float]]]:
    """Arrange legend entries in rows: (index of the level, text, left end)."""
    rows: list[list[tuple[int, str, float]]] = []
    used = width
    for index, level in enumerate(levels):
        words = wrap(level, width - 18, LABEL_SIZE, 1)[0]
        needed = text_width(words, LABEL_SIZE) + 28
        if not rows or used + needed - 10 > width:
            rows.append([])
            used = 0.0
        rows[-1].append((index, words, used))
        used += needed
    return rows


def _legend(
    rows: list[list[tuple[int, str, float]]], ground: Ground, left: float, top: float
) -> str:
    parts = []
    for number, row in enumerate(rows):
        middle = top + (number + 0.5) * LEGEND_HEIGHT
        for index, words, start in row:
            if ground.legend_mark is not None:
                parts.append(ground.legend_mark(index, left + start + 5, middle))
            parts.append(text(words, left + start + 14, middle, css="legend"))
    return "".join(parts)
