"""Draw a Series as SVG.

No plotting library: a few shapes and labels, coloured by CSS variables, so that one figure serves
light and dark themes. Only positions are computed here.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib.resources import files

from oodometer.finding import Series
from oodometer.reports.drawing import palette
from oodometer.reports.drawing.bars import draw_bars
from oodometer.reports.drawing.boxes import draw_boxes
from oodometer.reports.drawing.critical import draw_critical
from oodometer.reports.drawing.gaps import draw_gaps
from oodometer.reports.drawing.heatmap import draw_heatmap
from oodometer.reports.drawing.intervals import draw_intervals
from oodometer.reports.drawing.leaderboard import draw_leaderboard
from oodometer.reports.drawing.lines import draw_lines
from oodometer.reports.drawing.panels import Drawing
from oodometer.reports.drawing.ranks import draw_ranks
from oodometer.reports.drawing.strips import draw_strips
from oodometer.reports.drawing.svg import element, escape, font_rules, text

FONTS = ("Helvetica", "Arial", "Liberation Sans", "DejaVu Sans")
WIDE = 920.0  # pixels: a desktop column; at least 6 pt when printed
POINTS = 2 / 3  # per pixel on paper: labels are 8 pt
NARROW = 328.0  # pixels: a phone

KINDS: dict[str, Callable[[Series, float, str], Drawing]] = {
    "intervals": lambda series, width, _: draw_intervals(series, width),
    "leaderboard": lambda series, width, _: draw_leaderboard(series, width),
    "critical": lambda series, width, _: draw_critical(series, width),
    "strips": lambda series, width, _: draw_strips(series, width),
    "boxes": lambda series, width, _: draw_boxes(series, width),
    "bars": lambda series, width, _: draw_bars(series, width),
    "ranks": lambda series, width, _: draw_ranks(series, width),
    "lines": lambda series, width, _: draw_lines(series, width),
    "gaps": lambda series, width, _: draw_gaps(series, width),
    "heatmap": lambda series, width, key: draw_heatmap(series, width, f"{key}-hatch"),
}


def draw(
    series: Series,
    *,
    width: float = WIDE,
    identifier: str = "",
    standalone: bool = False,
    paper: bool = False,
) -> str:
    """Return `series` as one SVG element at its natural size.

    `width` is the available width: text keeps its size, panels wrap. `identifier` makes ids unique
    on a page with several figures. A `standalone` figure includes its style and may be saved as an
    .svg file; for `paper`, its size is in points, and colours are those of the light theme, written
    without CSS variables, which few programs other than browsers understand.
    """
    key = identifier or f"figure-{zlib.crc32(repr((series, width)).encode()):08x}"
    if not series.points:
        drawing = Drawing(text("No data", 2, 14, css="axis"), 120.0, 28.0)
    else:
        drawing = KINDS[series.kind](series, width, key)
    description = series.description or f"{series.value_label}, {len(series.points)} values."
    return element(
        "svg",
        f'<title id="{escape(key)}-title">{escape(series.title or series.name)}</title>',
        f'<desc id="{escape(key)}-desc">{escape(description)}</desc>',
        f"<style>{_style(paper)}</style>" if standalone else "",
        drawing.body,
        xmlns="http://www.w3.org/2000/svg" if standalone else None,
        class_=f"figure figure-{series.kind}",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
        width=f"{drawing.width * POINTS:.2f}pt" if paper else drawing.width,
        height=f"{drawing.height * POINTS:.2f}pt" if paper else drawing.height,
        viewBox=f"0 0 {drawing.width:.2f} {drawing.height:.2f}",
    )


def figure_rules() -> str:
    """Return the CSS rules for figures; colours come from the page's variables."""
    rules = files("oodometer.reports.drawing").joinpath("figures.css").read_text(encoding="utf-8")
    return font_rules() + rules + palette.scale_rules()


def _style(paper: bool) -> str:
    ground = "transparent" if paper else "var(--card)"
    fonts = ",".join(f"'{name}'" for name in FONTS)
    rules = f"{figure_rules()}svg.figure{{font-family:{fonts},sans-serif;background:{ground}}}\n"
    rules = palette.on_paper(rules) if paper else palette.stylesheet() + rules
    # The child combinator is the only character in the style sheet that XML must not contain.
    return rules.replace(">", "&gt;")
