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
from oodometer.reports.html import render
from oodometer.reports.latex import latex_report
from oodometer.reports.text import markdown, markdown_report, summary, terminal

__all__ = ["FORMATS", "draw", "markdown", "render", "report", "summary", "terminal"]

_WRITERS: dict[str, tuple[str, Callable[..., str]]] = {
    "html": ("report.html", render),
    "md": ("report.md", markdown_report),
    "latex": ("report.tex", latex_report),
    "csv": ("report.csv", csv_report),
}
FORMATS = tuple(_WRITERS)


def report(
    findings: Sequence[Finding],
    directory: str | os.PathLike[str],
    *,
    title: str = "Oodometer report",
    provenance: Sequence[tuple[str, str]] = (),
    formats: Sequence[str] = ("html",),
) -> list[Path]:
    """Write the report to `directory` in each of `formats` (html, md, latex, csv).

    Return the files. Each is written under a temporary name and then renamed, so that a reader
    never sees half a report.
    """
    wanted = (formats,) if isinstance(formats, str) else tuple(formats)
    for name in wanted:
        if name not in _WRITERS:
            raise unknown("report format", name, _WRITERS)
    written = []
    for name in wanted:
        file_name, writer = _WRITERS[name]
        path = Path(directory) / file_name
        _replace(path, writer(findings, title=title, provenance=provenance))
        written.append(path)
    return written


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise UserError(f"Cannot write the report to '{path}': {reason}.") from error
