"""A Finding as Markdown, and as a renderable for the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from oodometer.finding import Finding, Table
from oodometer.reports.verdicts import BADGES, READING_TITLE
from oodometer.reports.words import MISSING, numeric_columns, one_line, show_rows

if TYPE_CHECKING:
    from oodometer.reports.brief import TerminalSummary
    from oodometer.reports.console import TerminalFinding

SCREEN = 19  # lines of a summary; with the path of the report there are 20
_SIGNS = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])")


def markdown(finding: Finding, *, level: int = 2) -> str:
    """Return a finding as GitHub Markdown, its title a heading of this `level`."""
    parts = [f"{'#' * level} {_escaped(finding.title)}"]
    if finding.question:
        parts.append(f"*{_escaped(finding.question)}*")
    if finding.answer:
        parts.append(f"**{_escaped(finding.answer)}**")
    sections = {
        "Claims": [_bullets(_claims(finding)) or ("" if finding.tables else "No claims.")],
        READING_TITLE: [
            _bullets(f"{_escaped(name)}: {_escaped(value)}" for name, value in finding.reading)
        ],
        "Setup": [
            _bullets(f"{_escaped(name)}: {_escaped(value)}" for name, value in finding.facts)
        ],
        "Figures (shown in the HTML report)": [
            _bullets(f"**{_escaped(s.title)}**: {_escaped(s.description)}" for s in finding.series)
        ],
        "Pictures (shown in the HTML report)": [
            _bullets(f"**{_escaped(g.title)}**: {len(g.pictures)}" for g in finding.galleries)
        ],
        "Tables": [part for table in finding.tables for part in _titled_table(table)],
        "Caveats": [_bullets(map(_escaped, finding.caveats))],
        "Missing": [_bullets(map(_escaped, finding.missing))],
    }
    for title, contents in sections.items():
        if any(contents):
            parts += [f"{'#' * (level + 1)} {title}", *contents]
    return "\n\n".join(parts) + "\n"


def markdown_report(
    findings: Sequence[Finding], *, title: str, provenance: Sequence[tuple[str, str]] = ()
) -> str:
    """Return several findings as one Markdown document."""
    answers = [
        f"{_escaped(finding.title)}{'' if finding.title.endswith('?') else ':'} "
        f"**{_escaped(finding.answer)}**"
        for finding in findings
        if finding.answer
    ]
    parts = [f"# {_escaped(title)}\n"]
    parts += [f"{_bullets(answers)}\n"] if len(answers) > 1 else []
    parts += (markdown(finding) for finding in findings)
    if provenance:
        lines = _bullets(f"{_escaped(name)}: {_escaped(value)}" for name, value in provenance)
        parts.append(f"## Provenance\n\n{lines}\n")
    return "\n".join(parts)


def terminal(finding: Finding) -> TerminalFinding:
    """Return a finding for `rich` to print; it adapts to the width it is given."""
    # Imported here: writing HTML need not load a terminal library.
    from oodometer.reports.console import TerminalFinding

    return TerminalFinding(finding)


def summary(
    findings: Sequence[Finding], *, lines: int = SCREEN, leaderboard: bool = False
) -> TerminalSummary:
    """Return claims and reading in at most `lines` lines, or claims and the leaderboard."""
    from oodometer.reports.brief import TerminalSummary

    return TerminalSummary(tuple(findings), lines, leaderboard)


def _claims(finding: Finding) -> list[str]:
    lines = []
    for claim in finding.claims:
        evidence = f" ({_escaped(claim.evidence)})" if claim.evidence else ""
        label = BADGES[claim.verdict].label
        lines.append(f"**{label}**: {_escaped(claim.text)}{evidence}")
    return lines


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _titled_table(table: Table) -> list[str]:
    parts = [f"**{_escaped(table.title)}**", _table(table)]
    return [*parts, _escaped(table.note)] if table.note else parts


def _table(table: Table) -> str:
    rows = show_rows(table)
    numeric = numeric_columns(rows, len(table.columns))
    lines = [
        [_escaped(column) for column in table.columns],
        ["---:" if right else "---" for right in numeric],
    ]
    for row in rows:
        # An interval's brackets stay as they are; those of a label might form a link.
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
