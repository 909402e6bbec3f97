"""The command line: reads arguments, calls the library, prints. Nothing is computed here."""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import oodometer
from oodometer.errors import UserError, unknown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from oodometer.engine.collect import Outcome
    from oodometer.study import Study

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A meter for out-of-distribution detectors: which conclusions survive retraining?",
)

data_app = typer.Typer(no_args_is_help=True, help="Get data sets.")
app.add_typer(data_app, name="data")

CORES = os.cpu_count() or 1
STUDIES = Path(__file__).parent / "studies"
Workers = Annotated[
    int, typer.Option(min=1, help="Processes that work at a time; default: one per core.")
]


def main() -> None:
    """Run the command line; what a user did wrong is said in one sentence, without a traceback."""
    try:
        app(prog_name="oodometer")
    except UserError as problem:
        sys.stderr.write(f"oodometer: {problem}\n")
        sys.exit(2)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"oodometer {oodometer.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    show: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """A meter for out-of-distribution detectors: which conclusions survive retraining?"""


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the store and the report.")] = Path(
        "oodometer-demo"
    ),
    workers: Workers = CORES,
) -> None:
    """Train 9 small classifiers on handwritten digits, score detectors, and report."""
    from oodometer.study import load_study

    _run(load_study(STUDIES / "demo.yaml"), out / "store", out, workers)


@app.command()
def run(
    study: Annotated[str, typer.Argument(help="A YAML file, or the name of a known study.")],
    store: Annotated[Path, typer.Option(help="Folder that keeps every result.")] = Path(
        "oodometer-store"
    ),
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report; default: in the store.")
    ] = None,
    workers: Workers = CORES,
    scale: Annotated[
        str | None,
        typer.Option(help="smoke, small or paper; default: small where the study has it."),
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Only say what would be done.")] = False,
) -> None:
    """Run a study: train, extract, score, conclude, report. Goes on where it was stopped."""
    loaded = _at_scale(_find_study(study), scale)
    if dry_run:
        _say_what_would_be_done(loaded, store)
    else:
        _run(loaded, store, out or store / "reports" / loaded.name, workers)


@app.command()
def report(
    store: Annotated[Path, typer.Argument(help="A store that a study has been run in.")],
    study: Annotated[str | None, typer.Option(help="Which study, if there are several.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report; default: in the store.")
    ] = None,
    format: Annotated[str, typer.Option(help="html or md.")] = "html",
) -> None:
    """Write the report of a finished study again, as HTML or Markdown."""
    from oodometer import reports
    from oodometer.engine.collect import studies_in
    from oodometer.engine.store import FolderStore

    if format not in reports.FORMATS:
        raise unknown("format", format, reports.FORMATS)
    if not store.is_dir():
        raise UserError(f"Store '{store}' does not exist.")
    outcomes = studies_in(FolderStore(store))
    if not outcomes:
        raise UserError(f"Store '{store}' holds no finished study; 'oodometer run' makes one.")
    name = study or next(reversed(outcomes))
    if name not in outcomes:
        raise unknown("study in this store", name, outcomes)
    for path in _write_report(outcomes[name], out or store / "reports" / name, (format,)):
        typer.echo(path)


@app.command("list")
def list_known(
    what: Annotated[str, typer.Argument(help="detectors, datasets, networks, studies, protocols.")],
    as_json: Annotated[bool, typer.Option("--json", help="As a JSON list of objects.")] = False,
) -> None:
    """List what is known: names, what they are, and what they need."""
    listings = {
        "detectors": _list_detectors,
        "datasets": _list_datasets,
        "networks": _list_networks,
        "studies": _list_studies,
        "protocols": _list_protocols,
    }
    if what not in listings:
        raise unknown("list", what, listings)
    entries = listings[what]()
    if as_json:
        typer.echo(json.dumps(entries, indent=1))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    # Grids and papers would leave no room for names; --json and the docs have them.
    columns = [key for key in entries[0] if key not in ("defaults", "grid", "paper")]
    for column in columns:
        table.add_column(column, no_wrap=column == "name", overflow="fold")
    for entry in entries:
        table.add_row(*(_as_text(entry[column]) for column in columns))
    _console().print(table)


@app.command()
def check(
    detector: Annotated[str, typer.Argument(help="A name, package.module:name, or file.py:name.")],
) -> None:
    """Put a detector through the contract that every detector here must keep."""
    from oodometer.testing import check_detector

    results = check_detector(detector)
    failed = [result for result in results if result.outcome == "failed"]
    for result in failed:
        typer.echo(str(result))
    typer.echo(f"{detector}: {len(results) - len(failed)} of {len(results)} checks passed")
    if failed:
        raise typer.Exit(1)


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

    from oodometer.lab.download import get

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=_console(), transient=True) as bar:
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


def _find_study(name: str) -> Study:
    from oodometer.study import load_study

    known = {path.stem: path for path in sorted(STUDIES.glob("*.yaml"))}
    if name in known:
        return load_study(known[name])
    if not name.endswith((".yaml", ".yml")) and not Path(name).exists():
        raise unknown("study", name, [*known, "path/to/your.yaml"])
    return load_study(name)


def _at_scale(study: Study, scale: str | None) -> Study:
    """Days of training must be asked for: the scale of the paper is not the default."""
    if scale is None and "small" in study.scales:
        scale = "small"
        sys.stderr.write(
            f"oodometer: study {study.name} at scale small; --scale paper runs it as printed\n"
        )
    return study if scale in (None, "paper") else study.at_scale(str(scale))


def _run(study: Study, store: Path, out: Path, workers: int) -> None:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from oodometer.engine.run import run_study
    from oodometer.engine.store import FolderStore

    started = time.monotonic()
    console = _console()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"study {study.name}", total=None)
        try:
            outcome = run_study(
                study,
                FolderStore(store),
                workers=workers,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
            )
        except KeyboardInterrupt:
            bar.stop()
            sys.stderr.write("oodometer: stopped; the same command goes on where this ended.\n")
            sys.exit(130)
    paths = _write_report(outcome, out)
    _print_outcome(console, outcome, time.monotonic() - started, paths)


def _print_outcome(
    console: Console, outcome: Outcome, seconds: float, paths: Sequence[Path]
) -> None:
    from oodometer.reports import terminal

    for finding in outcome.findings:
        console.print(terminal(finding))
    console.print(f"study {outcome.study.name}: {seconds:.1f} s, ", end="", highlight=False)
    missing = sum(not part.setting for part in outcome.missing)
    console.print(f"{missing} parts missing" if missing else "nothing missing", highlight=False)
    for path in paths:
        # Plain text, so that a long path is not broken into lines.
        typer.echo(f"report: {path.resolve()}")


def _write_report(outcome: Outcome, out: Path, formats: Sequence[str] = ("html",)) -> list[Path]:
    from oodometer import reports

    provenance = [
        ("study", outcome.study.name),
        ("oodometer", oodometer.__version__),
        ("torch", version("torch")),
        ("specification", outcome.study.model_dump_json(exclude_defaults=True)),
        ("score table", outcome.table_key),
    ]
    title = f"Oodometer: {outcome.study.name}"
    return reports.report(
        outcome.findings, out, title=title, provenance=provenance, formats=formats
    )


def _say_what_would_be_done(study: Study, folder: Path) -> None:
    from oodometer.engine.run import count_done, make_plan, read_contents
    from oodometer.engine.store import FolderStore

    made = make_plan(study, read_contents(study))
    typer.echo(
        f"study {study.name}: {len(made.runs)} trainings, {len(study.ood)} outlier sets, "
        f"{len(made.detectors)} detectors; store {folder}"
    )
    for stage, (done, wanted) in count_done(made, FolderStore(folder)).items():
        typer.echo(f"  {stage:8} {wanted - done:6} to do, {done:6} in the store")
    for run_plan in made.runs:
        typer.echo(f"  run {run_plan.label}")


def _list_detectors() -> list[dict[str, object]]:
    import oodometer.detectors  # noqa: F401 - importing registers them
    from oodometer.registry import BROKEN_PLUGINS, DETECTORS

    for name, reason in BROKEN_PLUGINS.items():
        sys.stderr.write(f"oodometer: plugin '{name}' cannot be loaded: {reason}\n")
    return [
        {
            "name": card.name,
            "summary": card.summary,
            "needs": sorted(card.needs),
            "defaults": card.defaults,
            "grid": {name: list(values) for name, values in card.grid.items()},
            "paper": card.paper,
        }
        for card in sorted(DETECTORS.values(), key=lambda card: card.name)
    ]


def _list_datasets() -> list[dict[str, object]]:
    from oodometer.lab import catalog, outliers
    from oodometer.lab.cards import CARDS

    known: list[dict[str, object]] = []
    for card in CARDS.values():
        place = catalog.find(card.name)
        found = "" if place is None else str(place.path)
        known.append(
            {"name": card.name, "kind": card.kind, "summary": card.summary, "found": found}
        )
    return known + [
        {"name": name, "kind": "made from ID", "summary": _first_line(make), "found": ""}
        for name, make in outliers.KNOWN.items()
    ]


def _list_networks() -> list[dict[str, object]]:
    from oodometer.lab.networks import KNOWN

    return [{"name": name, "summary": _first_line(build)} for name, build in KNOWN.items()]


def _list_studies() -> list[dict[str, object]]:
    files = sorted(STUDIES.glob("*.yaml"))
    return [
        {"name": file.stem, "summary": file.read_text().partition("\n")[0].lstrip("# ")}
        for file in files
    ]


def _list_protocols() -> list[dict[str, object]]:
    from oodometer.protocols import PROTOCOLS

    return [{"name": name, "summary": _first_line(p)} for name, p in PROTOCOLS.items()]


def _first_line(function: object) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _as_text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_as_text(item)}" for key, item in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _console() -> Console:
    from rich.console import Console

    return Console()
