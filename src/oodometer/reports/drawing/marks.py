"""What the marks of all kinds of figures share: shapes, tooltips, and what they stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from oodometer.finding import POINT_KEYS, Series, Value
from oodometer.reports.drawing import palette
from oodometer.reports.drawing.panels import Ground, Placed
from oodometer.reports.drawing.scales import Span, value_span
from oodometer.reports.drawing.svg import element, text, title
from oodometer.reports.words import MISSING, number, one_line

Point = Mapping[str, Value]

_CHANCE = 0.5

# Around the origin, about 9 pixels across; the last two are strokes and stay open.
_SHAPES = (
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
    "M-3.5,-3.5h7v7h-7z",
    "M0,-4.6L4.4,3.2H-4.4z",
    "M0,-4.9L4.9,0L0,4.9L-4.9,0z",
    "M0,4.6L4.4,-3.2H-4.4z",
    "M-4,-4L4,4M-4,4L4,-4",
    "M-4.6,0H4.6M0,-4.6V4.6",
)


def marker(index: int, x: float, y: float, hover: str = "", value: str | None = None) -> str:
    """Draw the marker of a level, identified by both colour and shape."""
    # Seven shapes and eight colours: 56 levels before a combination repeats.
    shape = index % len(_SHAPES)
    open_ = " open" if shape >= len(_SHAPES) - 2 else ""
    return element(
        "path",
        *([hover] if hover else []),
        d=_SHAPES[shape],
        transform=f"translate({x:.2f},{y:.2f})",
        class_=f"{'mark' if value else 'key'} hue-{index % palette.HUES}{open_}",
        data_value=value,
    )


def named(series: Series, **names: str) -> dict[str, str]:
    """Return the attributes that say what a mark stands for: `named(series, label="knn")`.

    A reader who selects a detector finds it by `data-detector` in every figure and table.
    """
    return {f"data_{series.roles[key]}": name for key, name in names.items() if key in series.roles}


def missing(series: Series, placed: Placed, label: str, remark: str = "") -> str:
    """Write where a mark is missing, in the row where it would be."""
    where = ", ".join(filter(None, (label, placed.panel.title)))
    word = text(MISSING, placed.scale.left, placed.row(label), css="tick gap-word")
    return element(
        "g",
        title(f"{where}: {MISSING}{remark}"),
        word,
        class_="mark-missing",
        **named(series, label=label),
    )


def chance(series: Series, span: Span) -> tuple[float, str] | None:
    """Return the chance level of AUROC, the only metric for which it is known here."""
    known = "auroc" in series.value_label.lower() and 0 <= span.low <= _CHANCE <= span.high <= 1
    return (_CHANCE, f"chance ({_CHANCE})") if known else None


def remarks(series: Series, point: Point) -> str:
    """Return the further keys of a point, for its tooltip."""
    further = [key for key in point if key not in POINT_KEYS[series.kind]]
    return "".join(f"; {key}: {one_line(point[key])}" for key in further)


def distinct(points: Iterable[Point], key: str) -> tuple[str, ...]:
    """Return the names under `key`, in the order of their first appearance."""
    return tuple(dict.fromkeys(one_line(point[key]) for point in points))


def letters_of(point: Point) -> list[str]:
    """Return the groups of a point: "ab" is in a and b, "za2" in z and a2."""
    return re.findall(r"[a-z]\d*", one_line(point["letters"] or ""))


def group_letters(points: Iterable[Point]) -> list[str]:
    """Return the letters of all groups, in their order."""
    found = {letter for point in points for letter in letters_of(point)}
    return sorted(found, key=lambda letter: (int(letter[1:] or 1), letter))


def value_ground(series: Series, width: float, numbers: list[float]) -> Ground:
    """The ground of panels whose rows share one axis of values."""
    span = value_span(numbers, series.higher_is_better)
    return Ground(
        width,
        22.0,
        span,
        span.words(series.value_label, series.higher_is_better, upward=False),
        chance(series, span),
        name_role=series.roles.get("label"),
    )


def interval_widths(points: Iterable[Point]) -> list[float]:
    """Return the widths of the intervals that points have."""
    ends = [(number(point["low"]), number(point["high"])) for point in points]
    return [high - low for low, high in ends if low is not None and high is not None]
