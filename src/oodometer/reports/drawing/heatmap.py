"""Heat maps: rows by columns, each cell a colour and its value as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from oodometer.finding import Role, Series
from oodometer.reports.drawing import palette
from oodometer.reports.drawing.columns import column_names, layout_of
from oodometer.reports.drawing.marks import Point
from oodometer.reports.drawing.panels import Drawing, row_name
from oodometer.reports.drawing.scales import Span, value_span
from oodometer.reports.drawing.svg import (
    LABEL_SIZE,
    LINE_HEIGHT,
    TICK_SIZE,
    element,
    lines,
    text,
    title,
)
from oodometer.reports.words import (
    MISSING,
    decimals,
    number,
    one_line,
    rounded,
    shorten,
    text_width,
    wrap,
)

_LEGEND_STEP = 22.0
_Column = tuple[str, str]  # section, name
_Place = tuple[str, _Column]


@dataclass(frozen=True)
class _Grid:
    """What all blocks of columns share."""

    rows: tuple[str, ...]
    values: dict[_Place, float]
    remarks: dict[_Place, str]
    places: int
    low: float
    high: float
    label_width: float
    cell_width: float
    row_height: float
    angle: float  # of the column names; 0: written straight
    value_label: str
    higher_is_better: bool | None
    logit: bool  # near 0 or 1, colours change faster
    hatch: str
    roles: Mapping[str, Role]

    def step(self, value: float) -> int:
        """Return which colour of the scale a value has: the better, the stronger."""
        if self.high <= self.low:
            return palette.STEPS // 2
        share = Span(self.low, self.high, self.logit).share(value)
        step = min(palette.STEPS - 1, int(share * palette.STEPS))
        return palette.STEPS - 1 - step if self.higher_is_better is False else step


def draw_heatmap(series: Series, width: float, hatch: str) -> Drawing:
    """Draw a heat map; columns that do not fit continue below, with the row names repeated."""
    values, remarks = _cells(series)
    rows = tuple(dict.fromkeys(one_line(point["row"]) for point in series.points))
    columns = tuple(dict.fromkeys(map(_column, series.points)))
    places = decimals(values.values())
    gaps = len(values) < len(rows) * len(columns)
    widest = max(text_width(row, LABEL_SIZE) for row in rows)
    label_width = min(widest + 12, width * (0.26 if width >= 600 else 0.46))
    words = [rounded(value, places) for value in values.values()]
    layout = layout_of([name for _, name in columns], words, width, width - label_width - 4, gaps)
    wrapped = max(len(wrap(row, label_width - 12, LABEL_SIZE, 2)) for row in rows)
    grid = _Grid(
        rows=rows,
        values=values,
        remarks=remarks,
        places=places,
        low=min(values.values(), default=0.0),
        high=max(values.values(), default=0.0),
        label_width=label_width,
        cell_width=layout.cell_width,
        row_height=max(25.0, wrapped * LINE_HEIGHT + 6),
        angle=layout.angle,
        value_label=series.value_label,
        higher_is_better=series.higher_is_better,
        logit=value_span(values.values(), series.higher_is_better).logit,
        hatch=hatch,
        roles=series.roles,
    )
    body, top = [_hatching(hatch)], 4.0
    for start in range(0, len(columns), layout.across):
        block, top = _block(grid, columns[start : start + layout.across], top)
        body.append(block)
    body.append(_legend(grid, top + 8, gaps))
    legend_width = _LEGEND_STEP * palette.STEPS + 190
    block_width = label_width + layout.across * grid.cell_width + layout.overhang + 4
    return Drawing("".join(body), max(block_width, min(legend_width, width)), top + 68)


def _cells(series: Series) -> tuple[dict[_Place, float], dict[_Place, str]]:
    """Return the values and the remarks by row and column."""
    values: dict[_Place, float] = {}
    remarks: dict[_Place, str] = {}
    for point in series.points:
        place = (one_line(point["row"]), _column(point))
        value = number(point["value"])
        if value is not None:
            values[place] = value
        further = [key for key in point if key not in ("row", "column", "value", "section")]
        remarks[place] = "".join(f"; {key}: {one_line(point[key])}" for key in further)
    return values, remarks


def _column(point: Point) -> _Column:
    return one_line(point.get("section") or ""), one_line(point["column"])


def _block(grid: _Grid, columns: Sequence[_Column], top: float) -> tuple[str, float]:
    """Draw some columns with their names above; return the markup and the bottom."""
    sections, top = _sections(grid, columns, top)
    head, body_top = column_names(
        [name for _, name in columns], grid.label_width, grid.cell_width, grid.angle, top
    )
    parts = [sections, head]
    for index, row in enumerate(grid.rows):
        y = body_top + index * grid.row_height
        middle = y + grid.row_height / 2
        name = wrap(row, grid.label_width - 12, LABEL_SIZE, 2)
        cells = [lines(name, grid.label_width - 10, middle, css="label", anchor="end", full=row)]
        for number_, column in enumerate(columns):
            x = grid.label_width + number_ * grid.cell_width
            cells.append(_cell(grid, row, column, x, y))
        parts.append(row_name("".join(cells), grid.roles.get("row"), row))
    return "".join(parts), body_top + len(grid.rows) * grid.row_height + 14


def _cell(grid: _Grid, row: str, column: _Column, x: float, y: float) -> str:
    value = grid.values.get((row, column))
    remark = grid.remarks.get((row, column), "")
    label = MISSING if value is None else f"{grid.value_label} {rounded(value, grid.places)}"
    role = grid.roles.get("column")
    name = ", ".join(filter(None, column))
    column_role = {f"data_{role}": name} if role else {}
    hover = title(f"{row}, {name}: {label}{remark}")
    box = {
        "x": x + 1,
        "y": y + 1,
        "width": grid.cell_width - 2,
        "height": grid.row_height - 2,
        "rx": 2.0,
    }
    centre, middle = x + grid.cell_width / 2, y + grid.row_height / 2
    if value is None:
        fits = text_width(MISSING, TICK_SIZE) + 2 <= grid.cell_width
        word = MISSING if fits else "–"
        # The word needs a plain background; the hatching stays visible around it.
        half = text_width(word, TICK_SIZE) / 2
        ground = element(
            "rect", x=centre - half, y=middle - 7, width=2 * half, height=14.0, class_="quiet"
        )
        return element(
            "g",
            hover,
            element("rect", class_="gap", fill=f"url(#{grid.hatch})", **box),
            ground,
            text(word, centre, middle, css="cell gap-word", anchor="middle"),
            class_="cell-missing",
            **column_role,
        )
    step = grid.step(value)
    return element(
        "g",
        hover,
        element("rect", class_=f"cell-ground step-{step}", **box),
        text(
            rounded(value, grid.places),
            centre,
            middle,
            css=f"cell on-step-{step}",
            anchor="middle",
        ),
        **column_role,
    )


def _sections(grid: _Grid, columns: Sequence[_Column], top: float) -> tuple[str, float]:
    """Write the name of each section once, above a line over its columns."""
    if not any(section for section, _ in columns):
        return "", top
    parts, start = [], 0
    for section, own in groupby(columns, key=lambda column: column[0]):
        count = len(list(own))
        left = grid.label_width + start * grid.cell_width
        right = left + count * grid.cell_width - 3
        shown = shorten(section, right - left, LABEL_SIZE)
        parts.append(text(shown, left + 1, top + 6, css="panel-title", full=section))
        parts.append(element("line", x1=left, x2=right, y1=top + 16, y2=top + 16, class_="grid"))
        start += count
    return "".join(parts), top + 22


def _legend(grid: _Grid, top: float, gaps: bool) -> str:
    """Draw the colour scale with its ends, and what hatching means."""
    span = Span(grid.low, grid.high, grid.logit)
    words = span.words(grid.value_label, grid.higher_is_better, upward=True)
    parts = [text(words, 2, top + 6, css="axis")]
    box_top = top + 17
    x = 2.0
    if grid.values:
        steps = list(range(palette.STEPS)) if grid.high > grid.low else [palette.STEPS // 2]
        if grid.higher_is_better is False:
            steps.reverse()
        low, high = rounded(grid.low, grid.places), rounded(grid.high, grid.places)
        for step in steps:
            css = f"cell-ground step-{step}"
            parts.append(
                element("rect", x=x, y=box_top, width=_LEGEND_STEP, height=12.0, class_=css)
            )
            x += _LEGEND_STEP
        parts.append(text(low, 2, box_top + 22, css="tick"))
        if grid.high > grid.low:
            parts.append(text(high, x, box_top + 22, css="tick", anchor="end"))
        x += 18
    if gaps:
        hatch = f"url(#{grid.hatch})"
        parts.append(
            element("rect", x=x, y=box_top, width=22.0, height=12.0, class_="gap", fill=hatch)
        )
        parts.append(text(MISSING, x + 28, box_top + 6, css="legend"))
    return "".join(parts)


def _hatching(identifier: str) -> str:
    stripe = element("line", x1=0.0, y1=0.0, x2=0.0, y2=7.0, class_="stripe")
    pattern = element(
        "pattern",
        element("rect", width=7.0, height=7.0, class_="quiet"),
        stripe,
        id=identifier,
        width=7.0,
        height=7.0,
        patternUnits="userSpaceOnUse",
        patternTransform="rotate(45)",
    )
    return element("defs", pattern)
