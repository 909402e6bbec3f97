"""The command for results tables: analyze."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oodometer.cli.common import Verbose, app, console, require_folder, say, uncollected
from oodometer.errors import UserError

if TYPE_CHECKING:
    from oodometer.finding import Finding

LARGE_FILE = 20_000_000  # bytes; reading more takes several seconds
LARGE_TABLE = 100_000  # values; analyzing more takes several seconds


@app.command()
def analyze(
    results: Annotated[
        list[str],  # not Path: an empty text would be the working folder
        typer.Argument(
            help="Files (CSV, .xlsx, Markdown, LaTeX, HTML, text, Parquet, JSON) or folders; use "
            "FILE.xlsx#SHEET to select a sheet, PAGE.md#3 the third table of a page."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("oodometer-analysis"),
    columns: Annotated[
        str,
        typer.Option(
            help="Override detected column roles: 'detector=Method, ood=Test set, auroc=AUC'. "
            "Roles: detector, id, ood, metric, runs, repeat, condition, re_evaluation, part, "
            "covariate, ignore, a metric's name, or higher/lower for any metric (which is "
            "better); detector=Training+Method joins two columns."
        ),
    ] = "",
    runs: Annotated[
        int | None,
        typer.Option(help="Number of runs behind each mean ± standard deviation."),
    ] = None,
    ours: Annotated[
        str, typer.Option(help="Your detector: its comparisons are declared in advance.")
    ] = "",
    verbose: Verbose = False,
) -> None:
    """Analyze a results table: which conclusions does it support?"""
    from oodometer import reports
    from oodometer.analysis import COLUMNS

    if any(not name.strip() for name in results):
        raise UserError("The name of a results file is empty: give a file or a folder.")
    paths = [Path(name) for name in results]
    require_folder(out)
    try:
        findings = _findings(paths, columns, runs, ours)
        title = f"Oodometer: {', '.join(path.name or path.resolve().name for path in paths)}"
        files = reports.report(findings, out, title=title, formats=reports.DOCUMENTS)
    except KeyboardInterrupt:
        say("oodometer: interrupted.", err=True)
        sys.exit(130)
    screen = console()
    if verbose:
        for finding in findings:  # the report has the other tables
            tables = [finding.tables[0], *(t for t in finding.tables[1:] if t.name == COLUMNS)]
            screen.print(reports.terminal(replace(finding, tables=tuple(tables))))
    else:
        screen.print(reports.summary(findings))
    for path in files if verbose else files[:1]:
        say(f"report: {path.resolve()}")


def _findings(paths: Sequence[Path], columns: str, runs: int | None, ours: str) -> list[Finding]:
    """Read and analyze; announce what takes long."""
    from oodometer.analysis import findings_of
    from oodometer.tables import read_results

    size = sum(path.stat().st_size for path in paths if path.is_file())
    if size > LARGE_FILE:
        say(f"oodometer: reading {size / 1e6:.0f} MB...", err=True)
    with uncollected():
        reading = read_results(paths, columns, runs)
    numbers = sum(len(results.frame) for results in reading.results)
    if numbers > LARGE_TABLE:
        say(f"oodometer: analyzing {numbers} values...", err=True)
    return findings_of(reading, ours=ours)
