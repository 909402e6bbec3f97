"""Tables of HTML: cells that cover several columns or lines, captions, headings."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise

from oodometer.errors import UserError
from oodometer.tables.cells import Rows
from oodometer.tables.pages.outline import BOLD, CAPTION, Outline, PageTable, Span, expanded

_HEADINGS = {f"h{level}": level for level in range(1, 7)} | {"summary": BOLD}
_BLOCKS = frozenset({"p", "div", "li", "ul", "ol", "section", "article", "br", "pre", "dd", "dt"})
_SILENT = frozenset({"script", "style", "template", "noscript", "svg", "math", "select"})
_LONGEST_MARK = 3  # characters of the mark of a footnote
_GAIN = re.compile(r"[+\-−↑↓▲▼]\s*\d")  # over another line, below or above a number
_MOST_COLUMNS, _MOST_LINES, _MOST_CELLS = 1000, 65_534, 5_000_000  # the first two: as browsers


def html_tables(text: str) -> list[PageTable]:
    """Return all tables of a page."""
    outline = Outline()
    read_html(text, outline)
    return outline.tables


def read_html(text: str, outline: Outline) -> None:
    """Pass the headings, lines and tables of a text."""
    reader = _Reader(outline)
    reader.feed(text)
    reader.close()
    reader.finish()


def text_of_html(cell: str) -> str:
    """Return what a cell with tags says.

    >>> text_of_html("91.2<sub>0.3</sub>"), text_of_html("<b>MSP</b> (5)<sup>1</sup>")
    ('91.2_{0.3}', 'MSP (5)')
    """
    reader = _Reader(None)
    reader.feed(cell)
    reader.close()
    return reader.text()


class _Table:
    """A table that is being read."""

    def __init__(self) -> None:
        self.rows: list[list[Span]] = []
        self.groups = [0]  # the lines with which head, body and foot begin
        self.caption = ""
        self.cell: Span | None = None  # as its tag says


class _Reader(HTMLParser):
    """Walks through the tags of a page."""

    def __init__(self, outline: Outline | None) -> None:
        """Begin a page, or a text whose lines are one, where there is no outline."""
        super().__init__(convert_charrefs=True)
        self._outline = outline
        self._tables: list[_Table] = []
        self._texts: list[list[str]] = [[]]  # of the page, and of each table around this place
        self._silent = 0
        self._script = ""  # sub or sup

    def text(self) -> str:
        """Return what was said since the last call."""
        said = " ".join("".join(self._texts[-1]).split())
        self._texts[-1] = []
        return said

    def finish(self) -> None:
        """End what the page does not."""
        while self._tables:
            self._end_table()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        elif tag == "table":
            if not self._tables:
                self._say()
            self._tables.append(_Table())
            self._texts.append([])
        elif self._tables and tag in ("tr", "td", "th", "caption"):
            self._end_cell()
            table = self._tables[-1]
            if tag == "tr" or not table.rows:
                table.rows.append([])
            if tag in ("td", "th"):
                spans = dict(attrs)
                columns = min(max(_number(spans.get("colspan")), 1), _MOST_COLUMNS)
                table.cell = Span("", columns, _number(spans.get("rowspan")))
        elif self._tables and tag in ("thead", "tbody", "tfoot"):
            self._end_cell()
            self._tables[-1].groups.append(len(self._tables[-1].rows))
        elif tag in ("sub", "sup"):
            self._script = tag
        elif tag in _BLOCKS or tag in _HEADINGS:
            self._break()

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag in ("sub", "sup"):
            self._script = ""
        elif tag in _HEADINGS and not self._tables and self._outline is not None:
            self._outline.heading(_HEADINGS[tag], self.text())
        elif tag == "caption" and self._tables:
            self._tables[-1].caption = self.text()
        elif tag in ("td", "th", "tr") and self._tables:
            self._end_cell()
        elif tag == "table" and self._tables:
            self._end_table()
        elif tag in _BLOCKS:
            self._break()

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        before = self._texts[-1]
        if self._script and before and (before[-1][-1:].isalnum() or before[-1][-1:] in ")]"):
            data = _script(self._script, data.strip(), before[-1][-1].isdigit())
        if data:
            before.append(data)

    def _break(self) -> None:
        """Begin another line; outside of tables, what was said is a line of prose."""
        if self._tables or self._outline is None:
            self._texts[-1].append(" ")
        else:
            self._say()

    def _say(self) -> None:
        said = self.text() if self._outline is not None else ""
        if said and self._outline is not None:
            self._outline.say(said)

    def _end_cell(self) -> None:
        table = self._tables[-1]
        if table.cell is not None:
            table.rows[-1].append(Span(self.text(), table.cell.columns, table.cell.lines))
            table.cell = None

    def _end_table(self) -> None:
        self._end_cell()
        table = self._tables.pop()
        self._texts.pop()
        captions = {CAPTION: table.caption} if table.caption else None
        if self._outline is not None:
            self._outline.table(_laid_out(table), captions)


def _script(kind: str, said: str, behind_number: bool) -> str:
    """Return what is raised or lowered: a spread behind a number; a mark of a footnote is none."""
    if behind_number and _GAIN.match(said):
        return f" ({said})"
    spread = "±" in said or "." in said or "+/-" in said
    if kind == "sup" and not spread:
        return f" {said}" if len(said) > _LONGEST_MARK else ""
    return f"_{{{said}}}" if behind_number and spread and said[:1].isdigit() else said


def _number(text: str | None) -> int:
    return int(text) if text and text.strip().isdecimal() and len(text) < 9 else 1


def _laid_out(table: _Table) -> Rows:
    """Put every cell where a browser shows it; one of several lines stands in each of its group."""
    starts = sorted({*table.groups, len(table.rows)})
    ends = {line: end for start, end in pairwise(starts) for line in range(start, end)}
    covered: dict[int, tuple[int, Span]] = {}  # column -> lines that are left, cell
    laid: list[list[Span]] = []
    cells = 0
    for number, row in enumerate(table.rows):
        waiting = list(reversed(row))
        shown: list[Span] = []
        column, last = 0, max(covered, default=-1)
        while waiting or column <= last:
            if column in covered:
                left, span = covered.pop(column)
            elif waiting:
                span = waiting.pop()
                left = min(span.lines or _MOST_LINES, ends[number] - number)
            else:
                left, span = 1, Span("")
            if left > 1:
                covered[column] = left - 1, span
            shown.append(span)
            column += span.columns
            cells += span.columns
            if cells > _MOST_CELLS:
                raise UserError(f"A table of the page has more than {_MOST_CELLS:,} cells.")
        laid.append(shown)
    return expanded([row for row in laid if row])
