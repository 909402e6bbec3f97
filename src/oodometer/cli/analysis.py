"""Commands about results that others have: analyze."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from oodometer.cli.common import app, console


@app.command()
def analyze(
    results: Annotated[
        list[Path],
        typer.Argument(
            help="CSV, .xlsx, Markdown, LaTeX, Parquet or JSON files, or folders; FILE.xlsx#SHEET "
            "names one of several sheets."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("oodometer-analysis"),
    columns: Annotated[
        str,
        typer.Option(
            help="Corrects what is guessed: 'detector=Method, ood=Test set, auroc=AUC'. Roles: "
            "detector, id, ood, metric, runs, factor, covariate, ignore, and names of metrics; "
            "detector=Training+Method joins two columns."
        ),
    ] = "",
    runs: Annotated[
        int | None,
        typer.Option(help="How many runs stand behind each mean ± standard deviation."),
    ] = None,
) -> None:
    """Say what a table of results allows to conclude, as HTML, Markdown, LaTeX and CSV."""
    from oodometer import reports
    from oodometer.analysis import findings_of
    from oodometer.tables import read_results

    reading = read_results(results, columns, runs)
    for column, role in reading.columns:
        typer.echo(f"column {column}: {role}")
    for note in reading.notes:
        typer.echo(f"note: {note}")
    findings = findings_of(reading)
    screen = console()
    for finding in findings:  # claims and the first table; the report has all of them
        screen.print(reports.terminal(replace(finding, tables=finding.tables[:1])))
    title = f"Oodometer: {', '.join(path.name for path in results)}"
    for path in reports.report(findings, out, title=title, formats=reports.FORMATS):
        typer.echo(f"report: {path.resolve()}")
