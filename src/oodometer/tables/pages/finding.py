"""All tables of a page, whatever it is written in."""

from __future__ import annotations

from oodometer.tables.pages.classified import with_report_bars
from oodometer.tables.pages.directives import with_listed_tables
from oodometer.tables.pages.html import html_tables
from oodometer.tables.pages.latex import is_latex, latex_tables, without_comments
from oodometer.tables.pages.markdown import drawn, has_tables, markdown_tables, with_rules
from oodometer.tables.pages.outline import PageTable
from oodometer.tables.pages.ruled import with_bars
from oodometer.tables.pages.spanned import with_spans

_PAGES = ("<!doctype html", "<html", "<table", "<?xml", "<head", "<body")  # how HTML begins


def find_tables(text: str) -> list[PageTable]:
    """Return the tables of a page; none if the text is not a page, but may be a table itself."""
    if text[:200].lstrip().casefold().startswith(_PAGES):
        return html_tables(text)
    bare = without_comments(text)
    if is_latex(bare):
        return latex_tables(bare)
    text = with_rules(with_report_bars(with_bars(with_spans(drawn(with_listed_tables(text))))))
    return markdown_tables(text) if has_tables(text) else []
