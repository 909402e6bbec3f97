"""Commands about data: data get, diagnose."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oodometer.cli.common import SeveralValues, app, console, require_folder

if TYPE_CHECKING:
    from rich.progress import TaskID

data_app = typer.Typer(no_args_is_help=True, help="Get data sets.")
app.add_typer(data_app, name="data")


@data_app.callback()
def _data() -> None:
    """Get data sets from where their authors offer them."""


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="A name from 'oodometer list datasets'.")],
    to: Annotated[
        Path | None, typer.Option(help="Folder to put it into; default: NAME in $OODOMETER_DATA.")
    ] = None,
) -> None:
    """Download a data set's official files, check and unpack them. Goes on where it was cut."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from oodometer.lab.data.download import get

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=console(), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def show(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=None)
            bar.update(tasks[file], completed=done, total=total)

        try:
            folder = get(name, to, show)
        except KeyboardInterrupt:
            bar.stop()
            sys.stderr.write("oodometer: stopped; the same command goes on where this ended.\n")
            sys.exit(130)
    typer.echo(f"{name}: {folder.resolve()}")


@app.command(cls=SeveralValues)
def diagnose(
    data: Annotated[str, typer.Option("--id", help="The in-distribution set: a name or path.")],
    ood: Annotated[list[str], typer.Option(help="Outlier sets, one or several.")],
    most: Annotated[
        int, typer.Option(min=1, help="Look at no more images of each set; drawn if it has more.")
    ] = 10_000,
    out: Annotated[Path | None, typer.Option(help="Folder for a report.")] = None,
) -> None:
    """Say whether outlier sets are fair: shared images, shared classes, telling statistics."""
    from oodometer import reports
    from oodometer.lab.data.diagnostics import diagnose_sets

    if out is not None:
        require_folder(out)
    findings = diagnose_sets(data, ood, most)
    for finding in findings:
        console().print(reports.terminal(finding))
    if out is not None:
        for path in reports.report(findings, out, title=f"Outlier sets for {data}"):
            typer.echo(f"report: {path.resolve()}")
