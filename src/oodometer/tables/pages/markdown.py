"""Tables of Markdown pages, and of texts whose tables are drawn with bars."""

from __future__ import annotations

import html
import re

from oodometer.tables.cells import Rows, holds_numbers
from oodometer.tables.pages.html import read_html, text_of_html
from oodometer.tables.pages.latex_cells import latex_text
from oodometer.tables.pages.outline import BOLD, CAPTION, Outline, PageTable

CAPTIONED = re.compile(
    r"[*_>\s#]*(?:Table|Tab\.|Tabelle|Tableau)\s*[A-Z]?[\dIVX.]+\s*[*_]*\s*(?:[:.|—–-]|\()",
    re.IGNORECASE,
)
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+(\S.*)")
_HTML_HEADING = re.compile(r"\s*<h([1-6])[^<>]*>(.*)</h\1>\s*", re.IGNORECASE)
_BOLD = re.compile(r"\s*(?:[-*+]\s+)?(?:\*\*|__)([^*_|]+)(?:\*\*|__)\s*:?\s*")
_SUMMARY = re.compile(r"<summary[^<>]*>([^\n]*)</summary>", re.IGNORECASE)
_UNDERLINE = re.compile(r"\s{0,3}(?:={3,}|-{3,}|~{3,}|\^{3,}|'{3,}|\"{3,})\s*")
_ESCAPED = re.compile(r"\\([_*#])")  # Average\_Rank
_LEVELS = "=-~^'\""  # of headings by the signs below them
_RULE = frozenset("|+:=- \t")
_LINK = re.compile(r"!?\[([^][]*)\]\([^()\s]*(?:\s\"[^\"]*\")?\)")
_TAG = re.compile(r"</?(table)(?=[\s>/])", re.IGNORECASE)
_FEWEST_BLOCKS = 2  # of lines between bars, on a page
_DASHES = re.compile(r"[-─━═]{9,}")  # below a header, without bars
_TWO_BARS = re.compile(r"(?<=[^\s|]\s)\|\|(?=\s[^\s|])|(?<=\w)\|\|(?=\w)")  # KL(p || q)
_BAR = re.compile(r"(?<!\\)\|")
_SPACED_BAR = re.compile(r"\s\|\s")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_FORMULA = re.compile(r"\$[^$]*(?:[\\_^]|\d\s+\d)[^$]*\$")  # $\mathbf{91.2}_{+1.3}$
# Tables drawn with lines, as terminals show them: bars between cells, dashes between rows.
_DRAWN = {
    n: "|" if chr(n) in "│┃║╎┆┊" else "-" if chr(n) in "─━═╌╍┄┅┈┉" else "+"
    for n in range(0x2500, 0x2580)
}


def drawn(text: str) -> str:
    """Return a text with its box-drawing characters as bars, dashes and crosses."""
    return text.translate(_DRAWN) if any(bar in text for bar in "│┃║") else text


def has_tables(text: str) -> bool:
    """Whether a text has a table of Markdown or HTML."""
    lines = text.splitlines()
    return bool(_TAG.search(text)) or any(_begins(lines, n) for n in range(len(lines)))


def with_rules(text: str) -> str:
    """Write a rule below the first of several lines between bars, where a page has no rules.

    A page with one such block is nothing but a table, and is read as that.
    """
    if "|" not in text:
        return text
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        is_row = len(line.strip()) > 1 and line.strip()[0] == line.strip()[-1] == "|"
        if bool(blocks[-1]) and is_row != (blocks[-1][-1].strip()[-1:] == "|"):
            blocks.append([])
        blocks[-1].append(line)
    tables = [block for block in blocks if _is_block(block)]
    if len(tables) < _FEWEST_BLOCKS or has_tables(text):
        return text
    for block in tables:
        block.insert(1, "|---" * (len(_BAR.findall(block[0])) - 1) + "|")
    return "\n".join(line for block in blocks for line in block)


def _is_block(lines: list[str]) -> bool:
    """Whether lines between bars have as many cells each, and numbers below the first."""
    bars = {len(_BAR.findall(line)) for line in lines}
    if len(lines) < 3 or len(bars) != 1 or min(bars) < 3:
        return False
    return all(any(map(holds_numbers, row)) for line in lines[1:] for row in _lines(line))


def markdown_tables(text: str) -> list[PageTable]:
    """Return all tables of a page, also those in HTML."""
    page = _Page(text.splitlines())
    while page.number < len(page.lines):
        page.read()
    return page.outline.tables


def _is_rule(line: str) -> bool:
    """Whether a line only divides a header from what is below, as |---|---| does."""
    return ("-" in line or "=" in line) and ("|" in line or "+" in line) and _RULE.issuperset(line)


def _begins(lines: list[str], number: int) -> bool:
    """Whether a table begins here: bars, above a line that divides, or above more such lines."""
    if "|" not in lines[number] or _is_rule(lines[number]):
        return False
    below = number + 1
    while (
        below < min(len(lines), number + 4) and "|" in lines[below] and not _is_rule(lines[below])
    ):
        below += 1
    underlined = lines[number].count("|") > 1 and _underlines(lines, number + 1)
    return (below < len(lines) and _is_rule(lines[below])) or underlined


def _underlines(lines: list[str], number: int) -> bool:
    """Whether a long line of dashes stands here, below a header and above a line with bars."""
    below = lines[number + 1] if number + 1 < len(lines) else ""
    return "|" in below and bool(_DASHES.fullmatch(lines[number].strip()))


def _without_spare(row: list[str], width: int) -> list[str]:
    """Leave out the only empty cell of a line that has one cell more than the header.

    Of several cells that are all the same, the last one is left out, as pages show them.

    >>> _without_spare(["MSP", "", "91"], 2), _without_spare(["MSP", "90", "91"], 2)
    (['MSP', '91'], ['MSP', '90', '91'])
    >>> _without_spare(["Random", "25", "25", "25"], 3)
    ['Random', '25', '25']
    """
    if len(row) != width + 1:
        return row
    if row.count("") == 1 and row[-1] != "":
        return [cell for cell in row if cell]
    return row[:-1] if len(set(row[-3:])) == 1 else row


class _Page:
    """Walks through the lines of a page."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.number = 0
        self.outline = Outline()
        self._fenced = False
        self._caption = ""  # above the next table

    def read(self) -> None:
        """Pass the next line, or the table that begins with it."""
        line = self.lines[self.number]
        if _begins(self.lines, self.number):
            self._pass(self._barred())
            return
        if _TAG.search(line):
            self._pass_html()
            return
        self.number += 1
        if line.lstrip().startswith(("```", "~~~")):
            self._fenced = not self._fenced
        elif line.strip() and not _is_rule(line) and not _DASHES.fullmatch(line.strip()):
            self._pass_line(line)

    def _pass_line(self, line: str) -> None:
        if CAPTIONED.match(line):
            self._pass_caption(_bare(line))
            return
        heading = None if self._fenced else heading_of(line, self._below())
        if heading:
            self.outline.heading(*heading)
            self._caption = ""
        elif not _UNDERLINE.fullmatch(line):
            self.outline.say(_bare(line))

    def _pass_caption(self, caption: str) -> None:
        """A caption is of the table above it, unless captions stand above tables here."""
        following = next((n for n in range(self.number, len(self.lines)) if self._below(n)), -1)
        table_follows = 0 <= following < self.number + 3 and (
            _begins(self.lines, following) or _TAG.search(self.lines[following])
        )
        if table_follows or not self.outline.is_after_table:
            self._caption = caption
        else:
            self.outline.caption_below(caption)

    def _pass(self, rows: Rows) -> None:
        self.outline.table(rows, {CAPTION: self._caption} if self._caption else None)
        self._caption = ""

    def _below(self, number: int | None = None) -> str:
        number = self.number if number is None else number
        return self.lines[number].strip() if number < len(self.lines) else ""

    def _barred(self) -> Rows:
        """Return the cells of the lines with bars from here on; one blank line may divide them."""
        rows: Rows = []
        while self.number < len(self.lines):
            line = self.lines[self.number]
            if "|" not in line and not _is_rule(line) and not _underlines(self.lines, self.number):
                goes_on = not line.strip() and "|" in self._below(self.number + 1)
                if not goes_on or _begins(self.lines, self.number + 1):
                    break
            elif _is_rule(line):
                rows = _fitting(rows, line, self.lines[self.number - 1])
            elif "|" in line:
                cells = _lines(line)
                wide = bool(rows) and len(cells[0]) > len(rows[0])
                whole = _lines(_TWO_BARS.sub(r"\\|\\|", line)) if wide else cells
                cells = whole if wide and len(whole[0]) == len(rows[0]) else cells
                rows += [_without_spare(row, len(rows[0])) for row in cells] if rows else cells
            self.number += 1
        return rows

    def _pass_html(self) -> None:
        """Pass a table of HTML, to its last line."""
        start, depth = self.number, 0
        while self.number < len(self.lines):
            tags = _TAG.finditer(self.lines[self.number])
            depth += sum(-1 if tag[0][1] == "/" else 1 for tag in tags)
            self.number += 1
            if depth <= 0:
                break
        read_html("\n".join(self.lines[start : self.number]), self.outline)
        if self._caption:
            self.outline.caption_below(self._caption)
            self._caption = ""


def heading_of(line: str, below: str = "") -> tuple[int, str] | None:
    """Return the level and the text of a heading, or of what serves as one: a line in bold."""
    marked = _HEADING.fullmatch(line)
    if marked:
        return len(marked[1]), _bare(marked[2].rstrip("# "))
    tagged = _HTML_HEADING.fullmatch(line)
    if tagged:
        return int(tagged[1]), _bare(tagged[2])
    if below and _UNDERLINE.fullmatch(below) and len(line) < 120 and "|" not in line:
        return _LEVELS.index(below.strip()[0]) + 1, _bare(line)
    bold = _BOLD.fullmatch(line) or _SUMMARY.search(line)
    return (BOLD, _bare(bold[1]).rstrip(":")) if bold else None


def _lines(line: str) -> Rows:
    """Return the cells between bars; those at the ends of a line are its frame.

    Where names have as many lines as the numbers beside them, each is a line of the table.
    """
    cells = _BAR.split(line.strip())
    inside = cells[not cells[0].strip() : -1 if len(cells) > 1 and not cells[-1].strip() else None]
    if not _BREAK.search(line):
        return [[_cell(cell) for cell in inside]]
    parts = [[_cell(part) for part in _BREAK.split(cell)] for cell in inside]
    several = [part for part in parts if len(part) > 1]
    numbers = [len(part) for part in several if all(map(holds_numbers, part))]
    names = [len(part) for part in several if not any(map(holds_numbers, part))]
    if len(set(numbers)) != 1 or numbers[0] not in names:
        return [[_cell(cell) for cell in inside]]
    size = numbers[0]
    return [[p[n] if len(p) == size else " ".join(p) for p in parts] for n in range(size)]


def _fitting(rows: Rows, rule: str, header: str) -> Rows:
    """Return the header above a rule with as many cells as that: | Error ||A - B|| | has one bar.

    Bars within a cell have no space on one of their sides.
    """
    size = len(_lines(rule)[0])
    if len(rows) != 1 or len(rows[0]) <= size:
        return rows
    whole = [_cell(cell) for cell in _SPACED_BAR.split(header.strip().strip("|"))]
    return [whole] if len(whole) == size else rows


def _cell(cell: str) -> str:
    cell = cell.replace("\\|", "|")
    if "$" in cell and _FORMULA.search(cell):
        cell = latex_text(cell)
    if "<" in cell:
        return text_of_html(cell)
    if "\\" in cell:
        cell = _ESCAPED.sub(r"\1", cell)
    return " ".join((html.unescape(cell) if "&" in cell else cell).split())


def _bare(line: str) -> str:
    """Return a line of prose without what makes it bold or links it."""
    line = _LINK.sub(r"\1", line)
    line = text_of_html(line) if "<" in line else html.unescape(line)
    return " ".join(line.replace("**", "").replace("__", "").replace("`", "").split())
