"""Commands for scores that join a study of a store: import, data export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oodometer.cli.common import app, console, open_existing, require_folder, say, show_findings
from oodometer.cli.compare import ColumnRoles, Direction, InDistribution, parse_directions
from oodometer.cli.data import data_app
from oodometer.errors import UserError

StudyName = Annotated[str, typer.Option(help="Name of a study in the store.")]
StoreAddress = Annotated[str, typer.Option(help="A folder, or a URL such as s3://bucket/name.")]


@app.command("import")
def import_scores(
    scores: Annotated[
        list[str] | None,
        typer.Argument(help="Files of per-sample scores of one detector, as 'compare' reads them."),
    ] = None,
    detector: Annotated[str, typer.Option(help="What to call the detector.")] = "",
    study: StudyName = "",
    store: StoreAddress = "oodometer-store",
    sets: Annotated[
        Path | None,
        typer.Option(help="The sets.json that 'data export' wrote beside the samples."),
    ] = None,
    runs: Annotated[
        str,
        typer.Option(
            help='"all" if scores without a run hold for all of them; else the label of one run.'
        ),
    ] = "",
    id: InDistribution = "",
    higher: Direction = "",
    columns: ColumnRoles = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace scores of this name that were imported.")
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the detector's imported scores instead.")
    ] = False,
) -> None:
    """Import a detector's scores into a study: they join its statistics, marked as imported."""
    from oodometer.engine.lead.importing import forget_import, read_digests
    from oodometer.engine.lead.importing import import_scores as import_table
    from oodometer.other_scores import read_scores

    if not detector.strip() or not study.strip():
        lacking = "--detector" if not detector.strip() else "--study"
        raise UserError(f"{lacking} is missing: import needs --detector NAME and --study NAME.")
    opened = open_existing(store)
    if remove:
        outcome = forget_import(detector, study, opened)
        say(f"removed: imported scores of {detector}")
    else:
        if not scores:
            raise UserError("No score files were given.")
        digests = None if sets is None else read_digests(sets)
        table, reading = read_scores(
            scores, id=id, higher=parse_directions(higher), columns=columns
        )
        done = import_table(
            table, detector, study, opened,
            source=", ".join(text.rpartition("/")[2] for text in scores),  # not where it lies
            digests=digests, runs=runs, replace_earlier=replace,
        )  # fmt: skip
        outcome = done.outcome
        for title, text in reading:
            say(f"{title}: {text}")
        say(f"imported: {done.made.detector}, {len(done.made.scores)} runs ({done.made.key[:12]})")
    if outcome is None:
        say(f"study {study} is not finished: the scores join it when it is")
    else:
        show_findings(console(), outcome.findings, verbose=False)
        say(f"'oodometer report {store} --study {study}' writes the report")


@data_app.command("export")
def data_export(
    study: StudyName,
    store: StoreAddress = "oodometer-store",
    out: Annotated[Path, typer.Option(help="Folder for the samples.")] = Path("oodometer-samples"),
) -> None:
    """Write the samples that a study scores, in their order, with digests for 'import --sets'."""
    from oodometer.engine.lead.importing import export_sets

    opened = open_existing(store)
    require_folder(out)
    try:
        for path in export_sets(study, opened, out):
            say(f"written: {path.resolve()}")
    except OSError as problem:
        raise UserError(f"Cannot write to '{out}': {problem.strerror or problem}.") from None
