r"""Tables of LaTeX pages: tabular and its kin, sections and captions around them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from oodometer.tables.cells import Rows
from oodometer.tables.pages.latex_cells import latex_rows, latex_text
from oodometer.tables.pages.outline import CAPTION, SUBCAPTION, Outline, PageTable

# Environments that hold cells -> how many arguments follow their names.
_TABULARS = {
    "tabular": 1, "tabular*": 2, "tabularx": 2, "tabulary": 2, "longtable": 1, "longtable*": 1,
    "tabu": 1, "longtabu": 1, "xltabular": 2, "supertabular": 1, "tblr": 1, "longtblr": 1,
    "NiceTabular": 1, "NiceTabular*": 2, "array": 1,
}  # fmt: skip
_FLOATS = frozenset(
    {"table", "table*", "wraptable", "sidewaystable", "sidewaystable*", "figure", "figure*",
     "subtable", "subfigure", "minipage", "longtable", "longtable*", "longtabu", "xltabular"}
)  # fmt: skip
_PART_OF_FLOAT = ("subtable", "subfigure")
_HEADINGS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph",
             "subparagraph")  # fmt: skip
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)%[^\n]*")
_STRUCTURE = re.compile(
    r"\\(?P<what>begin|end)\s*\{(?P<name>[a-zA-Z]{1,30}\*?)\}"
    rf"|\\(?P<heading>{'|'.join(_HEADINGS)})\b\*?\s*(?:\[[^][\n]{{0,200}}\]\s*)?(?=\{{)"
    r"|\\(?P<caption>(?:sub)?caption)(?:of\s*\{\w{1,20}\})?(?![a-zA-Z])\*?\s*"
    r"(?:\[[^][]{0,400}\]\s*)?(?=\{)"
    r"|\\subfloat\s*\[(?P<part>[^][]{1,400})\]"
)
_MACRO = re.compile(
    r"\\(?:re|provide)?(?:newcommand|command)\*?\s*\{?\s*\\([a-zA-Z]+)\s*\}?\s*(?=\{)"
    r"|\\def\s*\\([a-zA-Z]+)\s*(?=\{)"
)
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_ARGUMENT = re.compile(r"\s*(?:\[[^][]{0,200}\]|to\s*[^\s{]{1,40}|spread\s*[^\s{]{1,40})?\s*")
_FIRST_HEAD = re.compile(r"\\endfirsthead\b.*\\end(?:head|foot|lastfoot)\b", re.DOTALL)


def without_comments(text: str) -> str:
    """Leave out what stands behind percent signs."""
    return _COMMENT.sub(r"\1", text) if "\\" in text else text


def is_latex(text: str) -> bool:
    """Whether a text without comments holds a tabular environment."""
    return "\\begin" in text and any(
        found["what"] == "begin" and found["name"] in _TABULARS
        for found in _STRUCTURE.finditer(text)
    )


def latex_tables(text: str) -> list[PageTable]:
    """Return all tables of a page without comments."""
    reader = _Reader(text)
    for found in _STRUCTURE.finditer(text):
        reader.read(found)
    return reader.finish()


def latex_captions(text: str) -> str:
    """Return the captions of a page, also of one whose rows no environment holds."""
    if "caption" not in text:
        return ""
    reader = _Reader(text)
    return " ".join(reader.said(f) for f in _STRUCTURE.finditer(text) if f["caption"])


@dataclass
class _Float:
    """A floating environment: captions that hold for what follows, and the tables in it."""

    name: str = ""
    captions: dict[int, str] = field(default_factory=dict)
    tables: list[tuple[Rows, dict[int, str]]] = field(default_factory=list)

    def caption(self, level: int, said: str) -> None:
        """Give a caption to the tables above that have none, or else to those below."""
        bare = [levels for _, levels in self.tables if level not in levels]
        for levels in bare:
            levels[level] = said
        if not bare:
            self.captions[level] = said

    def take(self, rows: Rows, levels: Mapping[int, str]) -> None:
        self.tables.append((rows, {**self.captions, **levels}))


class _Reader:
    """Walks through the structure of a page, from one command to the next."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._closing = _closing(text)
        self._macros = {
            (found[1] or found[2]): latex_text(self._argument(found.end()))
            for found in _MACRO.finditer(text)
        }
        self._outline = Outline()
        self._floats = [_Float()]
        self._opened: list[int] = []  # where the present tabular, and those in its cells, begin

    def read(self, found: re.Match[str]) -> None:
        """Pass a command."""
        name, begins = found["name"] or "", found["what"] == "begin"
        outside = not self._opened
        if name in _FLOATS and begins and outside:
            self._floats.append(_Float(name))
        if name in _TABULARS and begins:
            self._opened.append(found.end())
        elif name in _TABULARS and self._opened:
            start = self._opened.pop()
            if not self._opened:
                self._take(name, start, found.start())
                outside = True
        if found["caption"] or found["part"]:
            self._caption(found)
        elif found["heading"] and outside:
            self._outline.heading(_HEADINGS.index(found["heading"]), self.said(found))
        elif name in _FLOATS and not begins and outside and len(self._floats) > 1:
            self._close()

    def finish(self) -> list[PageTable]:
        """Return the tables, also those of environments that never end."""
        while len(self._floats) > 1:
            self._close()
        return self._outline.tables

    def said(self, found: re.Match[str]) -> str:
        """Return the text of a heading or a caption."""
        return latex_text(found["part"] or self._argument(found.end()), self._macros)

    def _caption(self, found: re.Match[str]) -> None:
        said = self.said(found)
        inner = self._floats[-1]
        part = found["caption"] != "caption" or inner.name in _PART_OF_FLOAT
        inner.caption(SUBCAPTION if part else CAPTION, said)

    def _take(self, name: str, start: int, end: int) -> None:
        """Read the cells of a tabular."""
        for _ in range(_TABULARS[name]):
            gap = _ARGUMENT.match(self._text, start)
            start = gap.end() if gap else start
            start = self._closing.get(start, start - 1) + 1
        body = self._text[start:end]
        if "\\endfirsthead" in body:  # what follows repeats the header on every page
            body = _FIRST_HEAD.sub(r"\\\\", body)
        self._floats[-1].take(latex_rows(body, self._macros), {})
        self._hand_on()

    def _close(self) -> None:
        """Leave a floating environment: its tables are those of the one around it."""
        inner = self._floats.pop()
        for rows, levels in inner.tables:
            self._floats[-1].take(rows, levels)
        self._hand_on()

    def _hand_on(self) -> None:
        """Tables outside of all floating environments are whole."""
        if len(self._floats) == 1:
            for rows, levels in self._floats[0].tables:
                self._outline.table(rows, levels)
            self._floats[0] = _Float()

    def _argument(self, start: int) -> str:
        """Return what stands between the brace here and the one that closes it."""
        return self._text[start + 1 : self._closing.get(start, start + 1)]


def _closing(text: str) -> dict[int, int]:
    """Return where each brace is closed."""
    closing: dict[int, int] = {}
    opened: list[int] = []
    for found in _BRACE.finditer(text):
        if found[0] == "{":
            opened.append(found.start())
        elif found[0] == "}" and opened:
            closing[opened.pop()] = found.start()
    return closing
