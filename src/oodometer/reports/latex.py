"""Tables of findings for papers: LaTeX with booktabs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from oodometer.errors import unknown
from oodometer.finding import Finding, Table, TableCell
from oodometer.metrics import Estimate
from oodometer.reports.verdicts import BADGES
from oodometer.reports.words import MISSING, Shown, numeric_columns, one_line, show_rows

_POWER = re.compile(r"(\d(?:\.\d+)?)e([+-]\d+)")
_GREEK = {
    sign: name.rsplit(maxsplit=1)[-1]
    for sign in "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΥΦΨΩ"
    if (name := unicodedata.name(sign).replace("LAMDA", "LAMBDA"))
}
_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "`": r"\textasciigrave{}",
    "[": "{[}", "]": "{]}", "*": "{*}",  # behind \\ they would be its options
    '"': r"\textquotedbl{}", "−": "$-$", "–": r"\textendash{}", "×": r"$\times$", "±": r"$\pm$",
    "≥": r"$\geq$", "≤": r"$\leq$", "→": r"$\to$", "←": r"$\leftarrow$", "↑": r"$\uparrow$",
    "↓": r"$\downarrow$", "≈": r"$\approx$", "≠": r"$\neq$", "∞": r"$\infty$", "√": r"$\surd$",
    "∅": r"$\emptyset$", "∈": r"$\in$", "·": r"$\cdot$", "…": r"\dots{}",
    **{
        sign: rf"$\{name.lower() if sign.islower() else name.capitalize()}$"
        for sign, name in _GREEK.items()
    },
}  # fmt: skip
# What pdfLaTeX can set with T1 fonts; whatever else there is gets a command that cannot fail.
_LATIN = frozenset(map(chr, range(0xA1, 0x17F))) - set("\u00adĸĿŀŉŦŧĦħ") | set("ȘșȚț—‘’“”„†‡•€™")
_PREAMBLE = (
    r"% needs \usepackage[T1]{fontenc} and \usepackage{booktabs,graphicx}",
    r"\providecommand{\unicodesign}[1]{\ifdefined\Umathchar\char" + '"#1' + r"\else[U+#1]\fi}",
    r"\providecommand{\fitted}[1]{\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}"
    r"{!}{#1}}",
)
_DASHES = re.compile(r"-(?=-)")  # two of them would become one longer
_ONE_COLUMN = 80  # letters, a little smaller than text
_LONG = 40  # rows; a longer table would run off the page
_FLOATS = 8  # pieces of a table in a row; LaTeX holds back no more than 18 floats
_WIDE = 9  # columns; a wider table of few rows is turned


@dataclass(frozen=True)
class LatexStyle:
    """What authors choose: their detector, percent instead of shares, and which columns."""

    ours: str = ""  # its row comes last, below a line
    percent: bool = False
    columns: tuple[str, ...] = ()  # besides the first; without any, all of all tables


def latex_report(
    findings: Sequence[Finding],
    *,
    title: str,
    provenance: Sequence[tuple[str, str]] = (),
    style: LatexStyle | None = None,
) -> str:
    """Return the claims and tables of several findings, to be included in a paper."""
    style = style or LatexStyle()
    _check(findings, style)
    lines = [f"% {one_line(title)}", *_PREAMBLE]
    lines += [f"% {one_line(name)}: {one_line(value)}" for name, value in provenance]
    for finding in findings:
        lines += ["", rf"\subsection*{{{_escaped(finding.title)}}}", r"\begin{itemize}"]
        for claim in finding.claims:
            evidence = f" ({_escaped(claim.evidence)})" if claim.evidence else ""
            lines.append(
                rf"  \item \emph{{{BADGES[claim.verdict].label}}}: {_escaped(claim.text)}{evidence}"
            )
        if not finding.claims:
            lines.append(r"  \item No claims.")
        lines.append(r"\end{itemize}")
        for table in map(partial(_chosen, style=style), finding.tables):
            lines += [] if table is None else ["", *_table(table, finding.protocol, style.ours)]
        notes = [f"Read: {name}: {value}" for name, value in finding.reading]
        notes += [*finding.caveats, *(f"Missing: {text}" for text in finding.missing)]
        lines += ["", *(_escaped(note) + "\n" for note in notes)]
    return "\n".join(lines).rstrip() + "\n"


def _check(findings: Sequence[Finding], style: LatexStyle) -> None:
    """Refuse names that no table has."""
    tables = [table for finding in findings for table in finding.tables]
    columns = dict.fromkeys(column for table in tables for column in table.columns[1:])
    for column in style.columns:
        if column not in columns:
            raise unknown("column", column, columns)
    rows = dict.fromkeys(str(row[0]) for table in tables for row in table.rows)
    if style.ours and style.ours not in rows:
        raise unknown("detector", style.ours, rows)


def _chosen(table: Table, style: LatexStyle) -> Table | None:
    """Return a table with the chosen columns, ours last and shares as percent; None if empty."""
    kept = [
        place
        for place, column in enumerate(table.columns)
        if not place or not style.columns or column in style.columns
    ]
    if len(kept) == 1 and style.columns:
        return None
    shares = set()
    if style.percent:
        shares = {place for place in kept if table.columns[place] in table.better
                  and _are_shares([row[place] for row in table.rows])}  # fmt: skip
    rows = [
        tuple(_percent(row[place]) if place in shares else row[place] for place in kept)
        for row in sorted(table.rows, key=lambda row: bool(style.ours) and row[0] == style.ours)
    ]
    note = " ".join(filter(None, (table.note, "In percent." if shares else "")))
    columns = tuple(table.columns[place] for place in kept)
    return replace(table, columns=columns, rows=tuple(rows), note=note)


def _are_shares(cells: Sequence[TableCell]) -> bool:
    values = [cell.value if isinstance(cell, Estimate) else cell for cell in cells]
    known = [value for value in values if isinstance(value, float)]
    return bool(known) and all(0 <= value <= 1 for value in known)


def _percent(cell: TableCell) -> TableCell:
    if isinstance(cell, Estimate):
        return Estimate(*(100 * number for number in cell))
    return 100 * cell if isinstance(cell, float) else cell


def _table(table: Table, protocol: str, ours: str) -> list[str]:
    """Write a table that fits the line; one that does not fit a page becomes several.

    Floats, since `longtable` is refused by classes with two columns.
    """
    rows = show_rows(table)
    titles = [_title(table, column) for column in table.columns]
    cells = _marked(table, rows)
    numeric = numeric_columns(rows, len(titles))
    turned = len(titles) > max(_WIDE, len(rows))
    if turned:
        first, *rest = zip(*cells, strict=True) if cells else [() for _ in titles]
        cells = [[title, *row] for title, row in zip(titles[1:], rest, strict=True)]
        titles, numeric = [titles[0], *first], [False, *([True] * len(first))]
    marked = r" Bold: best; underlined: second." if table.better else ""
    stop = "" if table.title.endswith(("?", ".", "!")) else "."
    caption = _escaped(" ".join(filter(None, (table.title + stop, table.note))) + marked)
    label = re.sub(r"[^A-Za-z0-9]+", "-", f"{protocol}-{table.name}")
    kinds = "".join("r" if right else "l" for right in numeric)
    head = ["    " + " & ".join(titles) + r" \\", r"    \midrule"]
    if table.sections and not turned:
        head = [*_sections(table), *head]
    body = ["    " + " & ".join(row) + r" \\" for row in cells]
    if ours and not turned and len(rows) > 1 and rows[-1][0].text == one_line(ours):
        body.insert(-1, r"    \midrule")
    # Over both columns of a two-column paper, where one is too narrow; elsewhere it is the same.
    kind = "table*" if _letters(rows, titles) > _ONE_COLUMN else "table"
    lines, pieces = [], [body[at : at + _LONG] for at in range(0, len(body), _LONG)] or [[]]
    for number, piece in enumerate(pieces):
        title = rf"\caption{{{caption}}}\par\smallskip", rf"  \label{{tab:{label}}}"
        if number:
            title = rf"Table~\ref{{tab:{label}}}, continued.\par\smallskip", ""
        lines += ["", r"\clearpage"] if number and not number % _FLOATS else [""] * bool(number)
        lines += [
            rf"\begin{{{kind}}}[htbp]", r"  \centering", f"  {title[0]}", *filter(None, title[1:]),
            rf"  \fitted{{\begin{{tabular}}{{{kinds}}}", r"    \toprule", *head, *piece,
            r"    \bottomrule", r"  \end{tabular}}", rf"\end{{{kind}}}",
        ]  # fmt: skip
    return lines


def _letters(rows: Sequence[Sequence[Shown]], titles: Sequence[str]) -> int:
    """Return how many letters wide a table is, with two between columns."""
    columns = zip(*rows, strict=True) if rows else [() for _ in titles]
    return sum(2 + max((len(cell.full) for cell in column), default=0) for column in columns)


def _title(table: Table, column: str) -> str:
    """Write the title of a column, with an arrow where one direction is better."""
    _, short = table.sections.get(column, ("", column))
    arrow = {True: r" $\uparrow$", False: r" $\downarrow$", None: ""}[table.better.get(column)]
    return _escaped(short) + arrow


def _sections(table: Table) -> list[str]:
    """Write the names of sections above their columns, each over a line of its own."""
    names, rules, place = [], [], 1
    for section, own in groupby(table.columns, key=lambda c: table.sections.get(c, ("", ""))[0]):
        count = len(list(own))
        names.append(rf"\multicolumn{{{count}}}{{c}}{{{_escaped(section)}}}")
        rules += [rf"\cmidrule(lr){{{place}-{place + count - 1}}}"] if section else []
        place += count
    return ["    " + " & ".join(names) + r" \\", "    " + "".join(rules)]


def _marked(table: Table, rows: Sequence[Sequence[Shown]]) -> list[list[str]]:
    """Write cells: the best of a column bold, the second underlined, as far as digits show it."""
    written = [[_cell(cell) for cell in row] for row in rows]
    for place, column in enumerate(table.columns):
        if column not in table.better:
            continue
        texts = {row[place].text: float(row[place].sort) for row in rows if row[place].numeric}
        order = sorted(texts, key=lambda text: texts[text], reverse=table.better[column])
        for text, command in zip(order, ("textbf", "underline"), strict=False):
            for number, row in enumerate(rows):
                if row[place].text == text:
                    value = _cell(replace(row[place], interval=""))
                    rest = written[number][place].removeprefix(value)
                    written[number][place] = rf"\{command}{{{value}}}{rest}"
    return written


def _cell(cell: Shown) -> str:
    """Write a cell; numbers with proper signs and powers of ten."""
    if cell.missing:
        return MISSING
    if not cell.numeric:
        return _escaped(cell.text)
    powers = _POWER.sub(lambda m: rf"{m[1]}$\times10^{{{int(m[2])}}}$", cell.full)
    return re.sub(r"(?<![\d{])-(?=\d)|<", lambda sign: f"${sign[0]}$", powers)


def _escaped(text: str) -> str:
    r"""Return `text` so that LaTeX shows it as it is, and never stops at it.

    >>> _escaped("max_softmax & 5 %"), _escaped("σ, 日")
    ('max\\_softmax \\& 5 \\%', '$\\sigma$, \\unicodesign{65E5}')
    """
    return _DASHES.sub("-{}", "".join(map(_sign, one_line(text))))


def _sign(sign: str) -> str:
    if sign in _SPECIAL:
        return _SPECIAL[sign]
    known = sign.isascii() or sign in _LATIN
    return sign if known else rf"\unicodesign{{{ord(sign):04X}}}"
