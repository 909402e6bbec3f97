"""The commands for suites: make, score."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from oodometer.cli.common import app, say
from oodometer.cli.running import stoppable
from oodometer.cli.studies import Cores, at_scale, find_study
from oodometer.errors import UserError
from oodometer.files import real_path, refuse_special

suites = typer.Typer(no_args_is_help=True, help="Suites: score any detector on fixed data sets.")
app.add_typer(suites, name="suite")


@suites.command()
def make(
    study: Annotated[str, typer.Argument(help="A YAML file, or the name of an included study.")],
    out: Annotated[Path, typer.Option(help="The file of the suite.")] = Path("suite.yaml"),
    scale: Annotated[
        str | None, typer.Option(help="smoke, small or paper; default: small if there is one.")
    ] = None,
) -> None:
    """Make a suite of a study: fix its evaluation sets by digest."""
    from oodometer.suites.suite import make_suite

    refuse_special(out, "Suite")
    if real_path(out) == real_path(Path(study)):
        raise UserError(f"'{out}' is the study itself: name another file with --out.")
    suite = make_suite(at_scale(find_study(study), scale))
    try:
        out.write_text(suite.to_yaml(), encoding="utf-8")
    except OSError as problem:
        raise UserError(f"Cannot write '{out}': {problem.strerror or problem}.") from None
    say(f"suite {suite.key[:12]} of study {suite.study.name}: {out}")


@suites.command()
def score(
    detector: Annotated[
        str, typer.Argument(help="A detector's name, with settings if wanted, or file.py:name.")
    ],
    suite: Annotated[Path, typer.Option(help="The file of the suite.")] = Path("suite.yaml"),
    store: Annotated[
        str, typer.Option(help="Where classifiers and scores are kept for reuse.")
    ] = "oodometer-store",
    out: Annotated[
        Path | None, typer.Option(help="The submission; default: DETECTOR.parquet.")
    ] = None,
    workers: Cores = None,
) -> None:
    """Score a detector on a suite and write a submission: scores, digests, versions."""
    from oodometer.engine.stores import open_store
    from oodometer.suites.submission import ENDING, score_suite, write_submission
    from oodometer.suites.suite import load_suite

    loaded = load_suite(suite)
    with stoppable():
        made = score_suite(loaded, detector, open_store(store), workers=workers)
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", made.detector).strip("-.")[:80] or "submission"
        path = write_submission(made, out or Path(f"{name}{ENDING}"))
    rows = len(made.table.rows)
    say(f"submission of {made.detector} to {made.suite}, {rows} score vectors: {path}")
