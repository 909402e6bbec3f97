"""All tables of findings as one CSV, one line per cell, for whoever computes on."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from oodometer.finding import Finding
from oodometer.metrics import Estimate

COLUMNS = ("finding", "table", "row", "column", "value", "low", "high")


def csv_report(
    findings: Sequence[Finding], *, title: str, provenance: Sequence[tuple[str, str]] = ()
) -> str:
    """Return every claim and every cell: finding, table, row, column, value, low, high.

    `row` is the first cell of the table's line. Claims are a table too: the claim is the row, its
    verdict and evidence are columns.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, value in (("title", title), *provenance):
        writer.writerow(("", "provenance", name, "value", value, "", ""))
    for finding in findings:
        for claim in finding.claims:
            for column, said in (("verdict", claim.verdict), ("evidence", claim.evidence)):
                writer.writerow((finding.protocol, "claims", claim.text, column, said, "", ""))
        for table in finding.tables:
            for first, *cells in table.rows:
                for column, cell in zip(table.columns[1:], cells, strict=True):
                    numbers = cell if isinstance(cell, Estimate) else (cell, None, None)
                    shown = ("" if number is None else number for number in numbers)
                    writer.writerow((finding.protocol, table.name, first, column, *shown))
        for kind, lines in (("caveats", finding.caveats), ("missing", finding.missing)):
            for number, line in enumerate(lines, start=1):
                writer.writerow((finding.protocol, kind, number, "text", line, "", ""))
    return text.getvalue()
