"""All claims and tables of findings as one CSV file in long format, one row per cell."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from oodometer.files import inert
from oodometer.finding import Finding
from oodometer.metrics import Estimate
from oodometer.reports.verdicts import BADGES

COLUMNS = ("finding", "table", "row", "column", "value", "low", "high")


def csv_report(
    findings: Sequence[Finding], *, title: str, provenance: Sequence[tuple[str, str]] = ()
) -> str:
    """Return every claim and every cell: finding, table, row, column, value, low, high.

    `row` is the first cell of the table's row. Claims are a table too: the claim is the row, its
    verdict and evidence are columns.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, value in (("title", title), *provenance):
        writer.writerow(map(inert, ("", "provenance", name, "value", value, "", "")))
    for finding in findings:
        writer.writerows(map(inert, (finding.protocol, *row)) for row in _rows(finding))
    return text.getvalue()


def _rows(finding: Finding) -> Iterator[tuple[object, ...]]:
    for claim in finding.claims:
        yield "claims", claim.text, "verdict", BADGES[claim.verdict].label, "", ""
        yield "claims", claim.text, "evidence", claim.evidence, "", ""
    for name, value in finding.reading:
        yield "reading", name, "value", value, "", ""
    for table in finding.tables:
        for first, *cells in table.rows:
            for column, cell in zip(table.columns[1:], cells, strict=True):
                numbers = cell if isinstance(cell, Estimate) else (cell, None, None)
                yield table.name, first, column, *numbers
    for kind, lines in (("caveats", finding.caveats), ("missing", finding.missing)):
        for number, line in enumerate(lines, start=1):
            yield kind, number, "text", line, "", ""
