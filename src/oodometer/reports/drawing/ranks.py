"""Draw ranks from case to case, the best on top: a line that crosses others changes its place."""

from __future__ import annotations

import math

from oodometer.finding import Series
from oodometer.reports.drawing import palette
from oodometer.reports.drawing.lines import spread
from oodometer.reports.drawing.marks import distinct, named
from oodometer.reports.drawing.panels import Drawing
from oodometer.reports.drawing.scales import Scale, value_range
from oodometer.reports.drawing.svg import LABEL_SIZE, TICK_SIZE, element, text, title
from oodometer.reports.words import decimals, number, one_line, rounded, shorten, text_width

_ROW = 19.0
_LEFT = 34.0
_TOP = 30.0
_WIDEST_STEP = 90.0
_LONGEST = 150.0  # of a rotated name


def draw_ranks(series: Series, width: float) -> Drawing:
    """Draw one line per label over the cases; names stand at the right end, once."""
    labels, cases = distinct(series.points, "label"), distinct(series.points, "case")
    room = min(max(text_width(label, LABEL_SIZE) for label in labels), width * 0.38) + 16
    step = min((width - _LEFT - room) / max(1, len(cases) - 1), _WIDEST_STEP)
    right = _LEFT + step * max(0, len(cases) - 1)
    bottom = _TOP + max(60.0, _ROW * (len(labels) - 1))
    known = {
        (one_line(point["label"]), one_line(point["case"])): value
        for point in series.points
        if (value := number(point["value"])) is not None
    }
    low, high = min(known.values(), default=0.0), max(known.values(), default=1.0)
    low, high = (low, high) if low < high else value_range([low])
    ends = (bottom, _TOP) if series.higher_is_better else (_TOP, bottom)
    down = Scale(low, high, *ends)
    parts = [text(_words(series), 2, 8, css="axis")]
    for y, written in _ticks(down, len(labels)):
        parts.append(element("line", x1=_LEFT, x2=right, y1=y, y2=y, class_="guide"))
        parts.append(text(written, _LEFT - 8, y, css="tick", anchor="end"))
    last: list[tuple[float, str]] = []
    for index, label in enumerate(labels):
        own = [
            (_LEFT + place * step, down(known[label, case]), case)
            for place, case in enumerate(cases)
            if (label, case) in known
        ]
        if own:
            said = [known[label, case] for *_, case in own]
            parts.append(_path(series, label, index, own, said))
            last.append((own[-1][1], label))
    for y, label in spread(last, _TOP, max(bottom, _TOP + _ROW * len(last))):
        shown = text(shorten(label, room - 14, LABEL_SIZE), right + 12, y, full=label)
        parts.append(element("g", shown, **named(series, label=label)))
    below, height = _case_names(cases, step, bottom)
    return Drawing("".join(parts) + below, right + room, height)


def _ticks(down: Scale, rows: int) -> list[tuple[float, str]]:
    """Return every rank, as rows leave room for all; other values as they come."""
    if down.low == int(down.low) and down.high == int(down.high) and down.high - down.low <= rows:
        return [(down(rank), str(rank)) for rank in range(int(down.low), int(down.high) + 1)]
    return down.ticks(min(rows, 8), TICK_SIZE)


def _words(series: Series) -> str:
    best = {None: "", True: ", highest on top", False: ", lowest on top"}
    return series.value_label + best[series.higher_is_better]


def _path(
    series: Series,
    label: str,
    index: int,
    places: list[tuple[float, float, str]],
    values: list[float],
) -> str:
    """Draw the line of one label; after the first eight, lines are grey until they are selected."""
    css = f"hue-{index}" if index < palette.HUES else "faint"
    digits = decimals(values)
    line = element(
        "path", d="M" + "L".join(f"{x:.1f},{y:.1f}" for x, y, _ in places), class_=f"open {css}"
    )
    dots = [
        element(
            "circle",
            title(f"{label}, {case}: {series.value_label} {rounded(value, digits)}"),
            cx=x,
            cy=y,
            r=3.2,
            class_=f"mark {css}",
            data_value=repr(value),
        )
        for (x, y, case), value in zip(places, values, strict=True)
    ]
    return element("g", line, *dots, **named(series, label=label))


def _case_names(cases: tuple[str, ...], step: float, bottom: float) -> tuple[str, float]:
    """Write the cases below; rotated where they do not fit, some left out where they crowd."""
    every = max(1, math.ceil(14 / max(step, 0.1)))
    straight = all(text_width(case, TICK_SIZE) + 8 <= step for case in cases)
    longest = max(min(text_width(case, TICK_SIZE), _LONGEST) for case in cases)
    parts = []
    for place, case in enumerate(cases):
        x = _LEFT + place * step
        if straight:
            parts.append(text(case, x, bottom + 20, css="tick", anchor="middle"))
        elif place % every == 0:
            shown = shorten(case, _LONGEST, TICK_SIZE)
            parts.append(
                text(shown, x, bottom + 14, css="tick", anchor="end", rotate=-90, full=case)
            )
    return "".join(parts), bottom + (34 if straight else longest + 26)
