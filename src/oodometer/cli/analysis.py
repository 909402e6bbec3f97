"""Commands about results that others have: analyze."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oodometer.cli.common import app, console, require_folder
from oodometer.errors import UserError

if TYPE_CHECKING:
    from oodometer.finding import Finding

LARGE_FILE = 20_000_000  # bytes: from here on, reading takes more than some seconds
LARGE_TABLE = 100_000  # numbers: from here on, concluding does


@app.command()
def analyze(
    results: Annotated[
        list[str],  # not Path: an empty text would be the working folder
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

    if any(not name.strip() for name in results):
        raise UserError("A file or folder with results is needed, but its name is empty.")
    paths = [Path(name) for name in results]
    require_folder(out)
    try:
        findings = _findings(paths, columns, runs)
        title = f"Oodometer: {', '.join(path.name or path.resolve().name for path in paths)}"
        files = reports.report(findings, out, title=title, formats=reports.FORMATS)
    except KeyboardInterrupt:
        sys.stderr.write("oodometer: stopped.\n")
        sys.exit(130)
    screen = console()
    for finding in findings:  # claims and the first table; the report has all of them
        screen.print(reports.terminal(replace(finding, tables=finding.tables[:1])))
    for path in files:
        typer.echo(f"report: {path.resolve()}")


def _findings(paths: Sequence[Path], columns: str, runs: int | None) -> list[Finding]:
    """Read and conclude; say at once what columns were taken for, and that large tables last."""
    from oodometer.analysis import findings_of
    from oodometer.tables import read_results

    size = sum(path.stat().st_size for path in paths if path.is_file())
    if size > LARGE_FILE:
        sys.stderr.write(f"oodometer: reading {size / 1e6:.0f} MB\n")
    reading = read_results(paths, columns, runs)
    with contextlib.suppress(BrokenPipeError):  # as of `| head -3`: the report comes all the same
        for column, role in reading.columns:
            typer.echo(f"column {column}: {role}")
        for note in reading.notes:
            typer.echo(f"note: {note}")
    numbers = sum(len(results.frame) for results in reading.results)
    if numbers > LARGE_TABLE:
        sys.stderr.write(f"oodometer: {numbers} numbers were read; concluding\n")
    return findings_of(reading)
