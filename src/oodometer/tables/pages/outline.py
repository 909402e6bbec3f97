"""What stands around a table on a page: headings, a caption, the line above it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from oodometer.tables.cells import Rows
from oodometer.tables.vocabulary.measures import metric_named
from oodometer.tables.vocabulary.uncertainty import NOTHING_SAID, Uncertainty, uncertainty_in

BOLD, CAPTION, SUBCAPTION = 7, 8, 9  # levels below those of headings, 0 to 6
_NUMBERING = re.compile(  # 1. , 2.3 , (a) , Table 4: ; not the 10 of "10 classes"
    r"^(?:(?:table|tab\.|tabelle|tableau)\s*[a-z]?[\divx.]*\d[\divx.]*\s*[:.|—–-]*|\d+(?:\.\d+)+\.?|"
    r"\d+[.)]|\([a-z\d]\)|[a-z]\))\s+(?=\S)",
    re.IGNORECASE,
)
_LONGEST = 300  # characters of a text around a table
_RULES = re.compile(r"^[=*~#_-]{3,}\s*|\s*[=*~#_-]{3,}$")  # ==== gptq ====
# Values are ROC-AUC / FPR@95
_OF_CELLS = re.compile(r"(?i)\b(?:values?|cells?|entries|entry|numbers?|tables?|columns?)\b")
_TWO = re.compile(r"([\w@%.\-]+)\s?[↑↓]?\s?/\s?([\w@%.\-]+)")
_FACT = re.compile(r"[-*+•]\s+([^\W\d_][\w \-/]{0,39}?)\s*[:=]\s*(\S.{0,79})")


@dataclass(frozen=True)
class PageTable:
    """A table on a page: its cells, and what is said around it."""

    rows: Rows
    levels: Mapping[int, str]  # headings above it, the caption
    above: str = ""  # the last line of prose
    facts: Mapping[str, str] = field(default_factory=dict)  # ID dataset -> CIFAR-10
    pairs: str = ""  # the last line that says what two numbers in a cell are
    problem: str = ""  # why it cannot be read, if it is known already
    uncertainty: Uncertainty = NOTHING_SAID  # on numbers after ±, in captions and prose


class Outline:
    """Where a reader of a page is: below which headings, and after which lines."""

    def __init__(self) -> None:
        self.tables: list[PageTable] = []
        self._levels: dict[int, str] = {}
        self._facts: dict[int, dict[str, str]] = {}  # by the level of the heading above
        self._uncertainty: dict[int, Uncertainty] = {}  # so, too; the last line of prose counts
        self._above = ""
        self._pairs = ""
        self._after_table = False

    def heading(self, level: int, text: str) -> None:
        """Go below a heading; those of its level and deeper ones end."""
        self._levels = {n: said for n, said in self._levels.items() if n < level}
        self._facts = {n: facts for n, facts in self._facts.items() if n < level}
        self._uncertainty = {n: said for n, said in self._uncertainty.items() if n < level}
        self._above, self._after_table = "", False
        if text.strip():
            self._levels[level] = _unnumbered(text)
            self._uncertainty[level] = uncertainty_in(text)

    def say(self, line: str) -> None:
        """Pass a line of prose."""
        level = max(self._levels, default=-1)
        before = self._uncertainty.get(level, NOTHING_SAID)
        self._uncertainty[level] = uncertainty_in(line, is_prose=True).or_else(before)
        line = " ".join(line[:_LONGEST].split())
        named = (all(map(metric_named, found.groups())) for found in _TWO.finditer(line))
        if _OF_CELLS.search(line) and any(named):
            self._pairs = line
        fact = _FACT.fullmatch(line)
        if fact:
            self._facts.setdefault(level, {})[fact[1]] = fact[2].strip()
        self._above, self._after_table = (_RULES.sub("", line) or line).rstrip(" :："), False

    @property
    def is_after_table(self) -> bool:
        """Whether nothing but captions was passed since a table."""
        return self._after_table

    def table(
        self, rows: Rows, captions: Mapping[int, str] | None = None, problem: str = ""
    ) -> None:
        """Pass a table, if it is more than a line or a column; `captions` are its own."""
        if len(rows) > 1 and max(map(len, rows)) > 1:
            own = {level: _unnumbered(said) for level, said in (captions or {}).items()}
            levels = {**self._levels, **own}
            facts = {key: value for said in self._facts.values() for key, value in said.items()}
            said = [uncertainty_in(caption) for caption in (captions or {}).values()]
            said += [self._uncertainty[level] for level in sorted(self._uncertainty, reverse=True)]
            uncertainty = reduce(Uncertainty.or_else, said, NOTHING_SAID)
            self.tables.append(
                PageTable(rows, levels, self._above, facts, self._pairs, problem, uncertainty)
            )
            self._after_table = True
        self._above = ""

    def caption_below(self, text: str) -> None:
        """Pass the caption of the table that was passed last, unless it has one."""
        if self.tables and CAPTION not in self.tables[-1].levels:
            last = self.tables.pop()
            levels = {**last.levels, CAPTION: _unnumbered(text)}
            said = uncertainty_in(text).or_else(last.uncertainty)
            self.tables.append(replace(last, levels=levels, uncertainty=said))


def _unnumbered(text: str) -> str:
    return _NUMBERING.sub("", " ".join(text[:_LONGEST].split()))


@dataclass(frozen=True)
class Span:
    """A cell that may cover several columns and lines; of lines, negative ones above it."""

    text: str
    columns: int = 1
    lines: int = 1


def expanded(spans: Sequence[Sequence[Span]]) -> Rows:
    """Write what a cell says into all columns that it covers, unless these are all: a heading.

    Columns in which no cell begins are none.
    """
    width = max((sum(cell.columns for cell in row) for row in spans), default=0)
    rows: Rows = []
    for row in spans:
        cells: list[str] = []
        for cell in row:
            whole = cell.columns >= width > 1
            more = "" if whole else cell.text
            cells += [cell.text, *[more] * (cell.columns - 1)]
        rows.append(cells)
    begun = _begun(spans)
    return [[cell for n, cell in enumerate(row) if n in begun] for row in rows]


def _begun(spans: Sequence[Sequence[Span]]) -> set[int]:
    """Return the columns in which a cell begins: others are only covered."""
    begun: set[int] = set()
    for row in spans:
        column = 0
        for cell in row:
            begun.add(column)
            column += cell.columns
    return begun
