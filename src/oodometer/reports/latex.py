"""Tables of findings for papers: LaTeX with booktabs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from oodometer.finding import Finding, Table
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
    r"% needs \usepackage[T1]{fontenc} and \usepackage{booktabs,graphicx,longtable}",
    r"\providecommand{\unicodesign}[1]{\ifdefined\Umathchar\char" + '"#1' + r"\else[U+#1]\fi}",
    r"\providecommand{\fitted}[1]{\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}"
    r"{!}{#1}}",
)
_DASHES = re.compile(r"-(?=-)")  # two of them would become one longer
_LONG = 40  # rows; a longer table would run off the page
_WIDE = 9  # columns; a wider table of few rows is turned


def latex_report(
    findings: Sequence[Finding], *, title: str, provenance: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the claims and tables of several findings, to be included in a paper."""
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
        for table in finding.tables:
            lines += ["", *_table(table, finding.protocol)]
        notes = [f"Read: {name}: {value}" for name, value in finding.reading]
        notes += [*finding.caveats, *(f"Missing: {text}" for text in finding.missing)]
        lines += ["", *(_escaped(note) + "\n" for note in notes)]
    return "\n".join(lines).rstrip() + "\n"


def _table(table: Table, protocol: str) -> list[str]:
    """Write a table that fits the line; one that does not fit a page runs over several."""
    rows = show_rows(table.rows)
    titles = list(table.columns)
    if len(titles) > max(_WIDE, len(rows)):
        titles, rows = _turned(titles, rows)
    numeric = numeric_columns(rows, len(titles))
    caption = _escaped(" ".join(filter(None, (table.title + ".", table.note))))
    label = re.sub(r"[^A-Za-z0-9]+", "-", f"{protocol}-{table.name}")
    kinds = "".join("r" if right else "l" for right in numeric)
    head = ["    " + " & ".join(map(_escaped, titles)) + r" \\", r"    \midrule"]
    body = ["    " + " & ".join(map(_cell, row)) + r" \\" for row in rows]
    if len(rows) > _LONG:
        return [
            rf"\begin{{longtable}}{{{kinds}}}",
            rf"  \caption{{{caption}}}\label{{tab:{label}}}\\",
            r"    \toprule", *head, r"    \endfirsthead", r"    \toprule", *head,
            r"    \endhead", *body, r"    \bottomrule", r"\end{longtable}",
        ]  # fmt: skip
    return [
        r"\begin{table}[htbp]", r"  \centering", rf"  \caption{{{caption}}}\par\smallskip",
        rf"  \label{{tab:{label}}}", rf"  \fitted{{\begin{{tabular}}{{{kinds}}}",
        r"    \toprule", *head, *body, r"    \bottomrule", r"  \end{tabular}}", r"\end{table}",
    ]  # fmt: skip


def _turned(
    titles: Sequence[str], rows: Sequence[Sequence[Shown]]
) -> tuple[list[str], list[list[Shown]]]:
    """Write columns as rows; what the first cells name becomes the titles."""
    first, *rest = zip(*rows, strict=True) if rows else [() for _ in titles]
    turned = [[Shown(title), *cells] for title, cells in zip(titles[1:], rest, strict=True)]
    return [titles[0], *(cell.full for cell in first)], turned


def _cell(cell: Shown) -> str:
    """Write a cell; numbers with proper minus signs and powers of ten."""
    if cell.missing:
        return MISSING
    if not cell.numeric:
        return _escaped(cell.text)
    powers = _POWER.sub(lambda m: rf"{m[1]}$\times10^{{{int(m[2])}}}$", cell.full)
    return re.sub(r"(?<![\d{])-(?=\d)", "$-$", powers)


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
