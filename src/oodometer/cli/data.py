"""Commands about data: data get, diagnose."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oodometer.cli.common import SeveralValues, app, console, require_folder, say

if TYPE_CHECKING:
    from rich.progress import TaskID

data_app = typer.Typer(no_args_is_help=True, help="Download data sets.")
app.add_typer(data_app, name="data")


@data_app.callback()
def _data() -> None:
    """Download data sets from their official sources."""


@data_app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="A name from 'oodometer list datasets'.")],
    to: Annotated[
        Path | None, typer.Option(help="Destination folder. Default: $OODOMETER_DATA/NAME.")
    ] = None,
) -> None:
    """Download a data set's official files, verify and unpack them (resumable)."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from oodometer.lab.data.download import get, unchecked

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
            say("oodometer: interrupted; run the same command again to resume.", err=True)
            sys.exit(130)
    if files := unchecked(name):
        say(f"note: no checksum is known for {', '.join(files)}: it was not verified")
    say(f"{name}: {folder.resolve()}")


@app.command(cls=SeveralValues)
def diagnose(
    data: Annotated[str, typer.Option("--id", help="In-distribution set: a name or a path.")],
    ood: Annotated[list[str], typer.Option(help="One or more outlier sets: names or paths.")],
    max_images: Annotated[
        int, typer.Option(min=1, help="Use at most this many images per set (random sample).")
    ] = 10_000,
    out: Annotated[Path | None, typer.Option(help="Folder for the report.")] = None,
) -> None:
    """Check outlier sets for shared images, shared classes and statistical shortcuts."""
    from oodometer import reports
    from oodometer.diagnosis import diagnose_sets

    if out is not None:
        require_folder(out)
    findings = diagnose_sets(data, ood, max_images)
    for finding in findings:
        console().print(reports.terminal(finding))
    if out is not None:
        for path in reports.report(findings, out, title=f"Outlier sets for {data}"):
            say(f"report: {path.resolve()}")
