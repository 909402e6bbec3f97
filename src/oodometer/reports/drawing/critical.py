"""Draw values on one axis and bars over what is not separated (Demsar 2006, JMLR 7, Figure 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from oodometer.finding import Series
from oodometer.reports.drawing.marks import Point, distinct, group_letters, letters_of, named
from oodometer.reports.drawing.panels import Drawing
from oodometer.reports.drawing.scales import Scale, value_range
from oodometer.reports.drawing.svg import LABEL_SIZE, TICK_SIZE, element, text, title
from oodometer.reports.words import MISSING, number, one_line, rounded, shorten, text_width

_AXIS = 46.0  # its height
_BAR, _ROW = 9.0, 19.0  # from one to the next
_BOTH_SIDES = 600.0  # from this width on, names stand on both sides


@dataclass(frozen=True)
class _Name:
    """Where a name stands: its height, and at which side."""

    label: str
    value: float
    y: float
    on_left: bool


@dataclass(frozen=True)
class _Sides:
    """The room for names on each side, and that for their values within it."""

    room: float
    digits: float
    width: float


def draw_critical(series: Series, width: float) -> Drawing:
    """Draw names at the sides, the outermost on top, so that no line crosses another."""
    by_label: dict[str, Point] = {one_line(point["label"]): point for point in series.points}
    known = {
        label: value
        for label in distinct(series.points, "label")
        if (value := number(by_label[label]["value"])) is not None
    }
    if not known:
        return Drawing(text(MISSING, 2, 14, css="tick gap-word"), 120.0, 28.0)
    places = 2 if max(map(abs, known.values())) < 1000 else 0
    written = {label: rounded(value, places) for label, value in known.items()}
    digits = max(text_width(own, TICK_SIZE) for own in written.values()) + 8
    both = width >= _BOTH_SIDES and len(known) > 1
    share = 0.3 if both else 0.58
    widest = max(text_width(label, LABEL_SIZE) for label in known) + digits
    room = min(widest, share * width) + 14
    ends = (room + 10, width - (room if both else 6) - 10)
    low, high = math.floor(min(known.values())), math.ceil(max(known.values()))
    first, last = (low, high) if low < high else value_range([low])
    scale = Scale(first, last, *ends)
    letters = group_letters(by_label.values())
    names = _names(known, _AXIS + 16 + _BAR * len(letters) + 10, both)
    sides = _Sides(room, digits, width)
    lines = [_line(series, name, scale, sides, written[name.label]) for name in names]
    bars = []
    for place, letter in enumerate(letters):
        own = [label for label in known if letter in letters_of(by_label[label])]
        if own:
            places_of = [scale(known[label]) for label in own]
            bars.append(_bar(letter, own, places_of, _AXIS + 16 + place * _BAR))
    best = {None: "", True: " (higher is better →)", False: " (← lower is better)"}
    words = series.value_label + best[series.higher_is_better]
    heading = text(shorten(words, width - 4, LABEL_SIZE), 2, 8, css="axis", full=words)
    bottom = max(name.y for name in names) + 14
    return Drawing("".join([heading, _axis(scale), *lines, *bars]), width, bottom)


def _names(known: dict[str, float], top: float, both: bool) -> list[_Name]:
    """Place names: from the left end inwards, and on the other side from the right end."""
    order = sorted(known, key=lambda label: known[label])
    half = (len(order) + 1) // 2 if both else len(order)
    left = [(label, place, True) for place, label in enumerate(order[:half])]
    right = [(label, place, False) for place, label in enumerate(reversed(order[half:]))]
    return [
        _Name(label, known[label], top + place * _ROW, on_left)
        for label, place, on_left in (*left, *right)
    ]


def _line(series: Series, name: _Name, scale: Scale, sides: _Sides, written: str) -> str:
    """Draw a line from the axis down to a height of its own, and from there to the name."""
    x = scale(name.value)
    end = sides.room if name.on_left else sides.width - sides.room
    sign, anchor = (-1, "end") if name.on_left else (1, "start")
    shown = shorten(name.label, sides.room - sides.digits - 8, LABEL_SIZE)
    return element(
        "g",
        title(f"{name.label}: {series.value_label} {written}"),
        element("path", d=f"M{x:.2f},{_AXIS:.2f}V{name.y:.2f}H{end:.2f}", class_="open leader"),
        element("circle", cx=x, cy=_AXIS, r=2.6, class_="dot"),
        text(written, end + 6 * sign, name.y, css="tick", anchor=anchor),
        text(shown, end + (6 + sides.digits) * sign, name.y, anchor=anchor),
        class_="mark",
        data_value=repr(name.value),
        **named(series, label=name.label),
    )


def _bar(letter: str, own: list[str], places: list[float], y: float) -> str:
    """Draw a bar over a group; a dot marks each of its members, as others may lie between."""
    line = element("line", x1=min(places), x2=max(places), y1=y, y2=y, class_="joint thick")
    dots = [element("circle", cx=x, cy=y, r=2.8, class_="joint") for x in places]
    return element("g", title(f"group {letter}, not separated: {', '.join(own)}"), line, *dots)


def _axis(scale: Scale) -> str:
    parts = [
        element("line", x1=scale.left, x2=scale.right, y1=_AXIS, y2=_AXIS, class_="reference-axis")
    ]
    for x, written in _ticks(scale):
        parts.append(element("line", x1=x, x2=x, y1=_AXIS - 5, y2=_AXIS, class_="reference-axis"))
        parts.append(text(written, x, _AXIS - 13, css="tick", anchor="middle"))
    return "".join(parts)


def _ticks(scale: Scale) -> list[tuple[float, str]]:
    """Return whole numbers, as ranks are; of values that lie closer, what is usual."""
    room = max(2, int((scale.right - scale.left) / 34))
    step = next((s for s in (1, 2, 5, 10, 20, 50) if (scale.high - scale.low) / s < room), 0)
    if not step or scale.high - scale.low < 1:
        return scale.ticks(room, TICK_SIZE)
    first = math.ceil(scale.low / step)
    found = {first * step + n * step for n in range(int((scale.high - scale.low) // step) + 1)}
    # The best rank is the one that readers look for, though it is not a multiple of 5.
    kept = {whole for whole in found if whole <= scale.high and whole - scale.low > 0.6 * step}
    return [(scale(whole), f"{whole:g}") for whole in sorted(kept | {scale.low})]
