r"""The cells of a LaTeX table: \multicolumn, \multirow, and what commands leave to read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate

from oodometer.tables.cells import Rows, read_cell
from oodometer.tables.pages.outline import Span, expanded

_PARTS = re.compile(
    r"\\\\\*?(?:\s*\[[^][\n]{0,40}\])?|\\tabularnewline\b|\\(?:begin|end)\s*\{[^{}]{0,40}\}"
    r"|\\[^a-zA-Z\\]|[{}&]"
)
# Commands that leave nothing to read: rules, colours, citations, spaces.
_SILENT = re.compile(
    r"\\(?:cmidrule|cline|cdashline|hhline|specialrule|addlinespace|vspace|hspace|noalign|"
    r"arrayrulecolor|(?:row|cell|column)colors?|color|cite[a-zA-Z]*|(?:[a-zA-Z]{0,10}ref)|label|"
    r"(?:table)?footnote(?:mark|text)?|tnote|tnotex|tablenotemark|setlength|caption|begin|end)\*?"
    r"(?:\s*(?:\([^()]{0,80}\)|\[[^][]{0,80}\]))*(?:\s*\{(?:[^{}]|\{[^{}]*\}){0,2000}\})+"
    r"|\\(?:hline|(?:top|mid|bottom)rule|addlinespace|Xhline|endhead|endfirsthead|endfoot|"
    r"endlastfoot|footnotemark|centering|xspace|strut)(?![a-zA-Z])(?:\s*\[[^][]{0,40}\])?"
)
# A table in a cell, by which its text has lines.
_INNER = re.compile(
    r"\\begin\s*\{[a-zA-Z]{0,20}\*?\}(?:\s*\[[^][]{0,40}\])?"
    r"(?:\s*\{(?:[^{}]|\{[^{}]*\}){0,200}\})?"
)
_SPANNING = re.compile(
    r"\\multi(column|row)(?![a-zA-Z])\s*(?:\[[^][]{0,40}\]\s*)?\{\s*(-?[\d.]+)\s*\}"
)
# A smaller number behind another, such as 91.2\std{0.3} or 91.2{\tiny 0.3}.
_SECOND = re.compile(
    r"(?<=[\d}$])\s*(?:\{\s*\\(?!pm)[a-zA-Z]+\s*|\\(?!pm)[a-zA-Z]+\s*\{\s*)"
    r"\(?\s*(\d*\.?\d+)\s*\)?\s*\}\s*$"
)
# A gain behind a number, raised, lowered or small: 91.2$_{\textcolor{red}{+1.3}}$. A minus without
# anything between is that of a range.
_OPENED = r"[{(\s$]*(?:\\(?!pm)[a-zA-Z]+[{(\s$]*)*"
_GAIN = re.compile(
    rf"(?<=[\d}}%$)])\s*\$?\s*(?:\\[,;!:]\s*)*(?:(?:[_^]{_OPENED}|(?=[{{(\\]){_OPENED})([+\-−↑↓▲▼])|([+↑↓▲▼]))"
    r"[\s$}]*(\d[\d.]*\s*\\?%?)[\s$)}]*$"
)
# A command of the paper with two numbers: \metric{0.91}{0.40}, \meanstd{91.2}{0.3}.
_TWO = re.compile(
    r"\\(?!frac|multi)([a-zA-Z]+)\s*\{\s*(\d*\.?\d+\s*\\?%?)\s*\}\s*\{\s*(\d*\.?\d+\s*\\?%?)\s*\}"
)
_SPREAD = re.compile(r"std|sd|pm|err|unc|var", re.IGNORECASE)
_MATH = re.compile(r"\$[^$]*\$")
_WITHIN_NUMBER = re.compile(r"(?<=[\d.])\s+(?=\d)")
_ARROW = re.compile(r"\\(?:(up|down)arrow|(blacktriangle(?:down)?))(?![a-zA-Z])")
_COLOURED = re.compile(r"\\textcolor(?:\[[^][]{0,40}\])?\s*\{[^{}]{0,40}\}")  # what follows is said
_SIGNS = {
    r"\uparrow": "↑", r"\downarrow": "↓", r"\&": "and", r"\%": "%", r"\_": "_", r"\#": "#",
    "~": " ", r"\checkmark": "✓", r"\cmark": "✓", r"\xmark": "✗", r"\times": "×", r"\to": "→",
    r"\rightarrow": "→", r"\Delta": "Δ", r"\lambda": "λ", r"\alpha": "α", r"\beta": "β",
    r"\gamma": "γ", r"\sigma": "σ", r"\epsilon": "ε", r"\tau": "τ", r"\delta": "δ", r"\mu": "μ",
    r"\theta": "θ", r"\rho": "ρ", r"\ell": "ℓ", r"\infty": "∞", r"\,": " ", r"\;": " ", r"\!": "",
}  # fmt: skip
_SIGN = re.compile(r"\\[a-zA-Z]+|\\[&%_#,;!]|~")
_COMMAND = re.compile(r"\\(?!pm(?![a-zA-Z]))[a-zA-Z]+\*?|[{}$]")
_FOOTNOTE = re.compile(r"\$?\^\s*\{?\s*(?:\\[a-zA-Z]+|\\[|#]|[*†‡§])\s*\}?\$?")
_PLACED = re.compile(r"(\\[a-zA-Z]+)\s*\[[a-z]{1,3}\](?=\s*\{)")  # \makecell[l]{MSP}
_NO_NAMES = frozenset(  # commands that do not stand for a name
    {"textbf", "bf", "bfseries", "textit", "it", "itshape", "em", "emph", "rm", "sc", "scshape",
     "sf", "sffamily", "tt", "ttfamily", "boldmath", "bm", "mathbf", "tiny", "scriptsize",
     "footnotesize", "small", "normalsize", "large", "Large", "displaystyle", "textstyle",
     "scriptstyle", "midrule", "hline", "rule", "quad", "qquad", "newline", "linebreak", "par",
     "hfill", "noindent", "left", "right", "big", "Big", "bigl", "bigr", "limits", "protect",
     "unskip", "relax", "leavevmode", "phantom", "dagger", "ddagger", "dag", "ddag", "ast",
     "star", "sharp", "textdagger", "textasteriskcentered", "circ", "cdot", "ding"}
)  # fmt: skip
# A command without an argument: a macro of the paper, which a style file may define.
_BARE = re.compile(r"\\([a-zA-Z]{2,})(?![a-zA-Z])\*?(?:\{\})?(?!\s*[{\[])")
_NESTED = 4  # commands within commands
_MOST_SPANNED = 1000  # columns or lines that a cell may cover


def latex_rows(body: str, macros: Mapping[str, str] | None = None) -> Rows:
    r"""Return the cells between & in rows that end with \\, or with a line where none does.

    Rows of one cell below the last rule are footnotes.
    """
    above, rule, below = body.rpartition("\\bottomrule")
    body = above if rule and not re.search(r"(?<!\\)&", below) else body
    if body.count("\\\\") + body.count("\\tabularnewline") < 2:
        body = body.replace("\n", " \\\\\n")
    spans: list[list[Span]] = []
    for row in _rows(body):
        cells = [_span(cell, macros or {}) for cell in row]
        if any(cell.text for cell in cells):
            spans.append(cells)
    return expanded(_filled(spans))


def _rows(body: str) -> list[list[str]]:
    r"""Cut at & and \\, but not within braces and environments, where cells have lines."""
    rows: list[list[str]] = [[]]
    depth = start = 0
    for found in _PARTS.finditer(body):
        part = found[0]
        if part == "{" or part.startswith("\\begin"):
            depth += 1
        elif part == "}" or part.startswith("\\end"):
            depth = max(0, depth - 1)
        elif depth == 0 and (part == "&" or part.startswith(("\\\\", "\\tab"))):
            rows[-1].append(body[start : found.start()])
            start = found.end()
            if part != "&":
                rows.append([])
    rows[-1].append(body[start:])
    return rows


def _span(cell: str, macros: Mapping[str, str]) -> Span:
    """Return what a cell says, and what it covers."""
    columns = lines = 1
    for _ in range(_NESTED):
        cell = _silenced(cell)
        found = _SPANNING.search(cell)
        if found is None:
            break
        number = int(float(found[2]))
        if found[1] == "column":
            columns = min(max(number, 1), _MOST_SPANNED)
        else:
            lines = max(min(number, _MOST_SPANNED), -_MOST_SPANNED)
        cell = _last_argument(cell, found.end())
    return Span(latex_text(cell, macros), columns, lines)


_BACKSLASH = re.compile(r"\\textbackslash\b(?:\{\})?|\$\s*\\backslash\s*\$")
_BOTH_AXES = re.compile(  # of a first cell with a diagonal: what lines are, then what columns are
    r"\\(?:diagbox|backslashbox|slashbox)(?:\[[^\[\]]*\])?\{([^{}]*)\}\{([^{}]*)\}"
)


def _last_argument(cell: str, start: int) -> str:
    """Return the argument that holds the text: the last one in braces, and what follows it."""
    depth, begin, text = 0, start, cell[start:]
    for found in re.finditer(r"[{}]", cell[start:]):
        depth += 1 if found[0] == "{" else -1
        if found[0] == "{" and depth == 1:
            begin = start + found.end()
        elif found[0] == "}" and depth == 0:
            text = cell[begin : start + found.start()]
    return text


def _silenced(cell: str) -> str:
    """Leave out commands without text, from the inside out."""
    if "\\" not in cell:
        return cell
    cell = _PLACED.sub(r"\1", _COLOURED.sub("", _INNER.sub(" ", cell)))
    for _ in range(_NESTED):
        less = _SILENT.sub(" ", cell)
        if less == cell:
            break
        cell = less
    return cell


def _filled(spans: list[list[Span]]) -> list[list[Span]]:
    """Write what a cell says into the empty cells below or above it that it covers, too."""
    starts = [dict(zip(_starts(row), range(len(row)), strict=True)) for row in spans]
    filled = [list(row) for row in spans]
    for number, row in enumerate(spans):
        for column, cell in zip(_starts(row), row, strict=True):
            step = 1 if cell.lines > 0 else -1
            for line in range(number + step, number + cell.lines, step):
                inside = starts[line] if 0 <= line < len(spans) else {}
                if column not in inside:
                    break
                covered = range(column, column + cell.columns)
                for place in (inside[c] for c in covered if c in inside):
                    if not spans[line][place].text:
                        filled[line][place] = replace(spans[line][place], text=cell.text)
    return filled


def _starts(row: list[Span]) -> list[int]:
    """Return the column in which each cell begins."""
    return [0, *accumulate(cell.columns for cell in row)][:-1]


def latex_text(cell: str, macros: Mapping[str, str] | None = None) -> str:
    r"""Return what a cell says without commands; one that only holds a command, its name.

    >>> latex_text(r"\textbf{MSP}~\cite{hendrycks}"), latex_text(r"\ours")
    ('MSP', 'ours')
    """
    cell = _BOTH_AXES.sub(r"\1 ⟍ \2", _BACKSLASH.sub(" ⟍ ", cell))
    cell = " ".join(_silenced(cell).replace("\\\\", " ").replace("\\ ", " ").split())
    if "$" in cell:  # where spaces are not shown
        cell = _MATH.sub(lambda math: _WITHIN_NUMBER.sub("", math[0]), cell)
    cell = _GAIN.sub(_in_brackets, _ARROW.sub(lambda sign: _arrow(sign[0]), cell))
    cell = _TWO.sub(_both, _SECOND.sub(r" ± \1", cell))
    if read_cell(cell) is not None:
        return cell.replace(r"\%", "%")
    known = macros or {}

    def said(found: re.Match[str]) -> str:
        return _SIGNS.get(found[0], known.get(found[0][1:], found[0]))

    plain = _SIGN.sub(said, _FOOTNOTE.sub("", cell)) if "\\" in cell or "~" in cell else cell
    text = _without_commands(plain)
    if "\\" not in plain or read_cell(text) is not None:
        return text
    whole = _without_commands(_BARE.sub(_name, plain))
    named = re.search(r"\\([a-zA-Z]{2,})", cell) if not whole else None
    return named[1] if named and named[1] not in _NO_NAMES else whole


def _without_commands(text: str) -> str:
    return " ".join(_COMMAND.sub("", text).split())


def _name(found: re.Match[str]) -> str:
    """Return the name of a macro that no line of the page defines, as its best guess."""
    return "" if found[1] in _NO_NAMES else f"{found[1]} "


def _in_brackets(found: re.Match[str]) -> str:
    """Write a gain as plain texts do, behind its number in brackets; the -3 of 10^{-3} is none."""
    sign, number = found[1] or found[2], found[3].strip()
    if not re.search(r"\d", found.string[: found.start()]):  # $+0.21$: a number with its sign
        return found[0]
    power = "^" in found[0] and sign in "-−" and "." not in number
    return found[0] if power else f" ({sign}{number})"


def _both(found: re.Match[str]) -> str:
    """Write two numbers of one command as a mean with its spread, if its name says so."""
    return f"{found[2]} {'±' if _SPREAD.search(found[1]) else '/'} {found[3]}"


def _arrow(command: str) -> str:
    return "↓" if "down" in command else "↑"
