"""Tables of findings for papers: LaTeX with booktabs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oodometer.finding import Finding, Table
from oodometer.reports.words import MISSING, Shown, numeric_columns, one_line, show_rows

_POWER = re.compile(r"(\d(?:\.\d+)?)e([+-]\d+)")
_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "−": "$-$", "–": "--", "×": r"$\times$", "±": r"$\pm$", "≥": r"$\geq$", "≤": r"$\leq$",
    "→": r"$\to$", "…": r"\dots{}",
}  # fmt: skip


def latex_report(
    findings: Sequence[Finding], *, title: str, provenance: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the claims and tables of several findings, to be included in a paper."""
    lines = [f"% {one_line(title)}", r"% needs \usepackage{booktabs}"]
    lines += [f"% {one_line(name)}: {one_line(value)}" for name, value in provenance]
    for finding in findings:
        lines += ["", rf"\subsection*{{{_escaped(finding.title)}}}", r"\begin{itemize}"]
        for claim in finding.claims:
            evidence = f" ({_escaped(claim.evidence)})" if claim.evidence else ""
            lines.append(rf"  \item \emph{{{claim.verdict}}}: {_escaped(claim.text)}{evidence}")
        if not finding.claims:
            lines.append(r"  \item This finding makes no claim.")
        lines.append(r"\end{itemize}")
        for table in finding.tables:
            lines += ["", *_table(table, finding.protocol)]
        notes = [*finding.caveats, *(f"Missing: {text}" for text in finding.missing)]
        lines += ["", *(_escaped(note) + "\n" for note in notes)]
    return "\n".join(lines).rstrip() + "\n"


def _table(table: Table, protocol: str) -> list[str]:
    rows = show_rows(table.rows)
    numeric = numeric_columns(rows, len(table.columns))
    lines = [
        r"\begin{table}[htbp]",
        r"  \centering",
        rf"  \caption{{{_escaped(' '.join(filter(None, (table.title + '.', table.note))))}}}",
        rf"  \label{{tab:{protocol}-{table.name}}}".replace("_", "-"),
        rf"  \begin{{tabular}}{{{''.join('r' if right else 'l' for right in numeric)}}}",
        r"    \toprule",
        "    " + " & ".join(_escaped(column) for column in table.columns) + r" \\",
        r"    \midrule",
    ]
    for row in rows:
        cells = (_cell(cell) for cell in row)
        lines.append("    " + " & ".join(cells) + r" \\")
    return [*lines, r"    \bottomrule", r"  \end{tabular}", r"\end{table}"]


def _cell(cell: Shown) -> str:
    """Write a cell; numbers with proper minus signs and powers of ten."""
    if cell.missing:
        return MISSING
    if not cell.numeric:
        return _escaped(cell.text)
    powers = _POWER.sub(lambda m: rf"{m[1]}$\times10^{{{int(m[2])}}}$", cell.full)
    return re.sub(r"(?<![\d{])-(?=\d)", "$-$", powers)


def _escaped(text: str) -> str:
    r"""Return `text` so that LaTeX shows it as it is.

    >>> _escaped("max_softmax & 5 %")
    'max\\_softmax \\& 5 \\%'
    """
    return "".join(_SPECIAL.get(sign, sign) for sign in one_line(text))
