"""Draw a Series as SVG: intervals, heat maps, strip plots and lines.

No plotting library: a few shapes and labels, coloured by CSS variables, so that one figure serves
light and dark themes. Only positions are computed here.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from importlib.resources import files

from oodometer.finding import POINT_KEYS, Series, Value
from oodometer.reports import palette
from oodometer.reports.heatmap import draw_heatmap
from oodometer.reports.lines import draw_lines
from oodometer.reports.panels import Drawing, Ground, Panel, Placed, draw_panels
from oodometer.reports.scales import value_range
from oodometer.reports.svg import element, escape, text, title
from oodometer.reports.words import MISSING, decimals, number, one_line, rounded

WIDE = 920.0  # pixels: a desktop column; at least 6 pt when printed
NARROW = 328.0  # pixels: a phone

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


def draw(
    series: Series, *, width: float = WIDE, identifier: str = "", standalone: bool = False
) -> str:
    """Return `series` as one SVG element at its natural size.

    `width` is the available width: text keeps its size, panels wrap. `identifier` makes ids unique
    on a page with several figures. A `standalone` figure includes its style and may be saved as an
    .svg file.
    """
    key = identifier or f"figure-{zlib.crc32(repr((series, width)).encode()):08x}"
    if not series.points:
        drawing = Drawing(text("No data", 2, 14, css="axis"), 120.0, 28.0)
    elif series.kind == "heatmap":
        drawing = draw_heatmap(series, width, f"{key}-hatch")
    elif series.kind == "lines":
        drawing = draw_lines(series, width)
    elif series.kind == "intervals":
        drawing = _intervals(series, width)
    else:
        drawing = _strips(series, width)
    description = series.description or f"{series.value_label}, {len(series.points)} values."
    return element(
        "svg",
        f'<title id="{escape(key)}-title">{escape(series.title or series.name)}</title>',
        f'<desc id="{escape(key)}-desc">{escape(description)}</desc>',
        f"<style>{_style()}</style>" if standalone else "",
        drawing.body,
        xmlns="http://www.w3.org/2000/svg" if standalone else None,
        class_=f"figure figure-{series.kind}",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
        width=drawing.width,
        height=drawing.height,
        viewBox=f"0 0 {drawing.width:.2f} {drawing.height:.2f}",
    )


def figure_rules() -> str:
    """Return the CSS rules for figures; colours come from the page's variables."""
    rules = files("oodometer.reports").joinpath("figures.css").read_text(encoding="utf-8")
    return rules + palette.scale_rules()


def _style() -> str:
    family = "svg.figure{font-family:system-ui,sans-serif;background:var(--card)}\n"
    # The child combinator is the only character in the style sheet that XML must not contain.
    return (palette.stylesheet() + figure_rules() + family).replace(">", "&gt;")


def _intervals(series: Series, width: float) -> Drawing:
    """Draw a dot and an interval per label, one panel per group."""
    groups: dict[str, list[Mapping[str, Value]]] = {}
    for point in series.points:
        groups.setdefault("" if point["group"] is None else one_line(point["group"]), []).append(
            point
        )
    own = {group: _distinct(points, "label") for group, points in groups.items()}
    every = _distinct(series.points, "label")
    # Groups without a common label are sections of one list.
    apart = len(groups) > 1 and sum(map(len, own.values())) == len(every)
    panels = [Panel(group, own[group] if apart else every) for group in groups]
    numbers = [
        value
        for point in series.points
        for key in ("value", "low", "high")
        if number(point["value"]) is not None and (value := number(point[key])) is not None
    ]
    places = decimals(numbers)

    def marks(placed: Placed) -> str:
        parts = []
        points = groups[placed.panel.title]
        for point in points:
            parts.append(_interval(series, point, placed, places))
        named = _distinct(points, "label")
        for label in placed.panel.labels:
            if label not in named:
                parts.append(_missing(placed, label))
        return "".join(parts)

    ground = Ground(
        width, 22.0, value_range(numbers), series.value_label, _reference(series, numbers)
    )
    return draw_panels(panels, ground, marks)


def _interval(series: Series, point: Mapping[str, Value], placed: Placed, places: int) -> str:
    label = one_line(point["label"])
    value, low, high = (number(point[key]) for key in ("value", "low", "high"))
    if value is None:
        return _missing(placed, label, _remarks(series, point))
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
        title(f"{where}: {said}{_remarks(series, point)}"),
        whisker,
        element("circle", cx=placed.scale(value), cy=y, r=3.3, class_="dot"),
        class_="mark",
        data_value=repr(value),
    )


def _strips(series: Series, width: float) -> Drawing:
    """Draw single values per label, one panel per factor, one lane per level."""
    factors: dict[str, list[Mapping[str, Value]]] = {}
    for point in series.points:
        factors.setdefault(one_line(point["panel"]), []).append(point)
    every = _distinct(series.points, "label")
    panels = [
        Panel(factor, every, _distinct(points, "level")) for factor, points in factors.items()
    ]
    numbers = [value for point in series.points if (value := number(point["value"])) is not None]
    places = decimals(numbers)
    lanes = max(len(panel.legend) for panel in panels)

    def marks(placed: Placed) -> str:
        lane = min(8.0, (placed.row_height - 10) / max(1, len(placed.panel.legend) - 1))
        by_row: dict[tuple[str, str], list[Mapping[str, Value]]] = {}
        for point in factors[placed.panel.title]:
            by_row.setdefault((one_line(point["label"]), one_line(point["level"])), []).append(
                point
            )
        parts = []
        for (label, level), points in by_row.items():
            index = placed.panel.legend.index(level)
            offset = (index - (len(placed.panel.legend) - 1) / 2) * lane
            parts.append(
                _strip(series, points, placed, (index, placed.row(label) + offset, places))
            )
        drawn = {
            one_line(point["label"])
            for point in factors[placed.panel.title]
            if number(point["value"]) is not None
        }
        parts.extend(_missing(placed, label) for label in every if label not in drawn)
        return "".join(parts)

    ground = Ground(
        width,
        max(22.0, 10.0 + 6.5 * (lanes - 1) + 5.0),
        value_range(numbers),
        series.value_label,
        _reference(series, numbers),
        lambda index, x, y: _marker(index, x, y),
    )
    return draw_panels(panels, ground, marks)


def _strip(
    series: Series,
    points: list[Mapping[str, Value]],
    placed: Placed,
    lane: tuple[int, float, int],
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
                f"{series.value_label} {rounded(value, places)}{_remarks(series, point)}"
            )
            parts.append(_marker(index, placed.scale(value), y, title(said), repr(value)))
    return "".join(parts)


def _marker(index: int, x: float, y: float, hover: str = "", value: str | None = None) -> str:
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


def _missing(placed: Placed, label: str, remark: str = "") -> str:
    where = ", ".join(filter(None, (label, placed.panel.title)))
    word = text(MISSING, placed.scale.left, placed.row(label), css="tick gap-word")
    return element("g", title(f"{where}: {MISSING}{remark}"), word, class_="mark-missing")


def _reference(series: Series, numbers: list[float]) -> tuple[float, str] | None:
    """Return the chance level of AUROC, the only metric for which it is known here."""
    low, high = value_range(numbers)
    known = "auroc" in series.value_label.lower() and 0 <= low <= _CHANCE <= high <= 1
    return (_CHANCE, f"chance ({_CHANCE})") if known else None


def _remarks(series: Series, point: Mapping[str, Value]) -> str:
    further = [key for key in point if key not in POINT_KEYS[series.kind]]
    return "".join(f"; {key}: {one_line(point[key])}" for key in further)


def _distinct(
    points: tuple[Mapping[str, Value], ...] | list[Mapping[str, Value]], key: str
) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one_line(point[key]) for point in points))
