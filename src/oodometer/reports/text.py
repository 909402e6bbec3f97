"""A Finding in words: Markdown for files and comments, a renderable for the terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from oodometer.finding import Finding, Table
from oodometer.reports.words import MISSING, numeric_columns, one_line, show_rows

if TYPE_CHECKING:
    from oodometer.reports.console import TerminalFinding

_SIGNS = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])")


def markdown(finding: Finding, *, level: int = 2) -> str:
    """Return a finding as GitHub Markdown, its title a heading of this `level`."""
    head, sub = "#" * level, "#" * (level + 1)
    parts = [f"{head} {_escaped(finding.title)}"]
    if finding.question:
        parts.append(f"*{_escaped(finding.question)}*")
    parts.append(f"{sub} Claims")
    parts.append("\n".join(_claims(finding)) or "This finding makes no claim.")
    if finding.facts:
        facts = [f"- {_escaped(name)}: {_escaped(value)}" for name, value in finding.facts]
        parts += [f"{sub} What was measured", "\n".join(facts)]
    if finding.series:
        drawn = [
            f"- **{_escaped(series.title)}**: {_escaped(series.description)}"
            for series in finding.series
        ]
        parts += [f"{sub} Figures (drawn in the HTML report)", "\n".join(drawn)]
    if finding.tables:
        parts.append(f"{sub} Tables")
        for table in finding.tables:
            parts += [f"**{_escaped(table.title)}**", _table(table)]
            if table.note:
                parts.append(_escaped(table.note))
    if finding.caveats:
        parts += [f"{sub} Caveats", "\n".join(f"- {_escaped(text)}" for text in finding.caveats)]
    if finding.missing:
        parts += [f"{sub} Missing", "\n".join(f"- {_escaped(text)}" for text in finding.missing)]
    return "\n\n".join(parts) + "\n"


def markdown_report(
    findings: Sequence[Finding], *, title: str, provenance: Sequence[tuple[str, str]] = ()
) -> str:
    """Return several findings as one Markdown document."""
    parts = [f"# {_escaped(title)}\n", *(markdown(finding) for finding in findings)]
    if provenance:
        lines = [f"- {_escaped(name)}: {_escaped(value)}" for name, value in provenance]
        parts.append("## Provenance\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def terminal(finding: Finding) -> TerminalFinding:
    """Return a finding for `rich` to print; it adapts to the width it is given."""
    # Imported here: whoever writes HTML need not load a terminal library.
    from oodometer.reports.console import TerminalFinding

    return TerminalFinding(finding)


def _claims(finding: Finding) -> list[str]:
    lines = []
    for claim in finding.claims:
        evidence = f" ({_escaped(claim.evidence)})" if claim.evidence else ""
        lines.append(f"- **{claim.verdict}**: {_escaped(claim.text)}{evidence}")
    return lines


def _table(table: Table) -> str:
    rows = show_rows(table.rows)
    numeric = numeric_columns(rows, len(table.columns))
    lines = [
        [_escaped(column) for column in table.columns],
        ["---:" if right else "---" for right in numeric],
    ]
    for row in rows:
        # An interval's brackets are ours and stay as they are; a label's might form a link.
        lines.append(
            [
                f"*{MISSING}*"
                if cell.missing
                else cell.full
                if cell.numeric
                else _escaped(cell.text)
                for cell in row
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _escaped(text: str) -> str:
    r"""Return `text` so that Markdown shows it as it is.

    >>> _escaped("max_softmax | <b> *x*")
    'max_softmax \\| &lt;b> \\*x\\*'
    """
    line = one_line(text).replace("&", "&amp;").replace("<", "&lt;")
    return _SIGNS.sub(lambda sign: "\\" + sign.group(), line)
