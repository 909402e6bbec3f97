"""Figures as files for papers: SVG, PDF and PNG at the width of one or two columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from oodometer.errors import UserError, unknown
from oodometer.finding import Finding
from oodometer.reports.drawing.figures import POINTS, draw
from oodometer.reports.outlines import outlined

FIGURE_FORMATS = ("svg", "pdf", "png")
WIDTHS = {"one-column": 3.25, "two-column": 6.75}  # inches, as in most two-column styles
_POINTS_PER_INCH = 72.0
_DOTS_PER_INCH = 300.0

# Typst embeds the fonts. Without a date, equal figures are equal files.
_PAGE = b"""
#set document(title: sys.inputs.title, date: none)
#set page(width: auto, height: auto, margin: 0pt, fill: none)
#image(bytes(sys.inputs.svg), format: "svg")
"""


def figure_files(
    findings: Sequence[Finding], format: str, width: str = "two-column"
) -> Iterator[tuple[str, bytes]]:
    """Draw every figure of the findings: name of the file, and its content."""
    if format not in FIGURE_FORMATS:
        raise unknown("figure format", format, FIGURE_FORMATS)
    if width not in WIDTHS:
        raise unknown("figure width", width, WIDTHS)
    taken: set[str] = set()
    for finding in findings:
        for series in finding.series:
            stem = _file_name(f"{finding.protocol}-{series.name}", taken)
            pixels = WIDTHS[width] * _POINTS_PER_INCH / POINTS
            drawn = draw(series, width=pixels, standalone=True, paper=True)
            title = series.title or series.name
            yield f"{stem}.{format}", _converted(drawn, title, format)


def _converted(drawn: str, title: str, format: str) -> bytes:
    if format == "svg":
        return (outlined(drawn) if has_typst() else drawn).encode("utf-8")
    try:
        import typst
    except ImportError as error:
        raise UserError(
            f"Figures as {format} files need the package typst: pip install 'oodometer[figures]'."
        ) from error
    return typst.compile(
        _PAGE,
        format="png" if format == "png" else "pdf",
        ppi=_DOTS_PER_INCH,
        sys_inputs={"svg": drawn, "title": title},
    )


def has_typst() -> bool:
    """Whether fonts can be embedded; without, text in SVG files stays text."""
    try:
        import typst  # noqa: F401 - whether it is there
    except ImportError:
        return False
    return True


def _file_name(name: str, taken: set[str]) -> str:
    r"""Return a short name without signs that a file system or LaTeX would stumble over.

    >>> _file_name("worst_case-transfer map noise/../x", set()), _file_name("a", {"a"})
    ('worst_case-transfer-map-noise-x', 'a-2')
    """
    stem = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:80] or "figure"
    number = 2
    unique = stem
    while unique in taken:
        unique, number = f"{stem}-{number}", number + 1
    taken.add(unique)
    return unique
