"""Render findings as HTML, SVG, Markdown, LaTeX, CSV or text. No statistics are computed here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from oodometer.errors import UserError, unknown
from oodometer.finding import Finding
from oodometer.reports.csv_file import csv_report
from oodometer.reports.drawing.figures import draw
from oodometer.reports.figure_files import FIGURE_FORMATS, WIDTHS, figure_files, has_typst
from oodometer.reports.html import render
from oodometer.reports.latex import LatexStyle, latex_report
from oodometer.reports.text import markdown, markdown_report, summary, terminal

__all__ = [
    "DOCUMENTS",
    "FORMATS",
    "WIDTHS",
    "LatexStyle",
    "draw",
    "has_typst",
    "markdown",
    "read_formats",
    "render",
    "report",
    "summary",
    "terminal",
]

_WRITERS: dict[str, tuple[str, Callable[..., str]]] = {  # of documents
    "html": ("report.html", render),
    "md": ("report.md", markdown_report),
    "latex": ("report.tex", latex_report),
    "csv": ("report.csv", csv_report),
}
DOCUMENTS = tuple(_WRITERS)
FORMATS = (*DOCUMENTS, *FIGURE_FORMATS)


def report(
    findings: Sequence[Finding],
    directory: str | os.PathLike[str],
    *,
    title: str = "Oodometer report",
    provenance: Sequence[tuple[str, str]] = (),
    formats: Sequence[str] = ("html",),
    width: str = "two-column",
    latex: LatexStyle | None = None,
) -> list[Path]:
    """Write the report to `directory` in each of `formats` (html, md, latex, csv, svg, pdf, png).

    The last three write each figure to a file of its own in the folder `figures`, at a `width` of
    one-column or two-column. pdf and png need the package typst; without it, text in svg files is
    shown in fonts of the reader, with it as outlines. `latex` is the style of LaTeX tables. Return
    the files. Each is written under a temporary name and then renamed, so that a reader never sees
    half a report.
    """
    wanted = read_formats(formats if isinstance(formats, str) else ",".join(formats))
    written = []
    for name in wanted:
        if name in FIGURE_FORMATS:
            folder = Path(directory) / "figures"
            for file_name, content in figure_files(findings, name, width):
                _replace(folder / file_name, content)
                written.append(folder / file_name)
            continue
        file_name, writer = _WRITERS[name]
        path = Path(directory) / file_name
        options = {"style": latex} if name == "latex" else {}
        text = writer(findings, title=title, provenance=provenance, **options)
        _replace(path, text.encode("utf-8"))
        written.append(path)
    return written


def read_formats(text: str) -> tuple[str, ...]:
    """Read names of formats with commas between.

    >>> read_formats("html, pdf")
    ('html', 'pdf')
    """
    wanted = tuple(name.strip() for name in text.split(","))
    for name in wanted:
        if name not in FORMATS:
            raise unknown("report format", name, FORMATS)
    return wanted


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise UserError(f"Cannot write the report to '{path}': {reason}.") from error
