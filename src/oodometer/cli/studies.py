"""The commands for studies: demo, run, report."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oodometer.cli.common import (
    Verbose,
    app,
    console,
    open_existing,
    require_folder,
    say,
    show_findings,
    uncollected,
)
from oodometer.cli.running import Display, duration, stoppable, summary
from oodometer.errors import UserError, unknown

if TYPE_CHECKING:
    from rich.console import Console

    from oodometer.engine.lead.forecast import Forecast
    from oodometer.engine.lead.runner import Settings
    from oodometer.engine.plan.plan import Plan
    from oodometer.engine.plan.study_index import Outcome
    from oodometer.reports import LatexStyle
    from oodometer.study import Study

STUDIES = Path(__file__).parents[1] / "studies"
_RUNS_SHOWN = 10  # by a dry run, of a study that has more
PARTS_MISSING = 3  # exit code of a study that ended, but of which parts failed

Cores = Annotated[
    int | None,
    typer.Option(min=1, help="Number of parallel tasks; default: one per core."),
]
Device = Annotated[str, typer.Option(help="Device for networks: cpu, cuda, cuda:0 or mps.")]
Memory = Annotated[
    str | None,
    typer.Option(
        help="Memory limit for all parallel tasks, such as 4GB; a larger task runs alone."
    ),
]
ClusterAddress = Annotated[
    str | None,
    typer.Option(
        metavar="auto|ADDRESS|local",
        help="Ray cluster: auto (the running one), its address, or local (start one here).",
    ),
]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the store and the report.")] = Path(
        "oodometer-demo"
    ),
    workers: Cores = None,
    cluster: ClusterAddress = None,
    verbose: Verbose = False,
) -> None:
    """Train 9 small classifiers on handwritten digits, score detectors, write a report."""
    from oodometer.study import load_study

    study = load_study(STUDIES / "demo.yaml")
    _run(study, str(out / "store"), out, workers, cluster, verbose=verbose)


@app.command()
def run(
    study: Annotated[str, typer.Argument(help="A YAML file, or the name of an included study.")],
    store: Annotated[
        str,
        typer.Option(help="Where results are stored: a folder, or a URL such as s3://bucket/name."),
    ] = "oodometer-store",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report; default: inside the store.")
    ] = None,
    workers: Cores = None,
    scale: Annotated[
        str | None,
        typer.Option(help="smoke, small or paper; default: small if the study has it."),
    ] = None,
    cluster: ClusterAddress = None,
    device: Device = "cpu",
    gpu_share: Annotated[
        float,
        typer.Option(min=0.01, help="Fraction of a GPU that each task reserves on the cluster."),
    ] = 1.0,
    memory: Memory = None,
    strict_versions: Annotated[
        bool,
        typer.Option(
            "--strict-versions",
            help="Recompute results of other versions of torch, numpy, scipy, scikit-learn and of "
            "what own detectors import; default: only if the first two numbers differ.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the work to be done and exit.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Run a study: train, score, analyze, report. Resumes where it left off.

    Exit code: 0 complete, 1 internal error, 2 invalid input, 3 parts missing
    (the report lists them, a rerun retries them), 130 or 143 interrupted.
    """
    from oodometer.engine.lead.estimates import read_memory
    from oodometer.engine.lead.run import check_device
    from oodometer.engine.lead.runner import Settings

    loaded = at_scale(find_study(study), scale)
    limit = None if memory is None else read_memory(memory)
    settings = Settings(device, gpu_share, limit)
    if dry_run:
        check_device(device, here=cluster is None)
        with uncollected():
            _print_plan(loaded, store, workers, verbose)
    else:
        _run(
            loaded, store, out, workers, cluster, settings,
            strict_versions=strict_versions, verbose=verbose,
        )  # fmt: skip


@app.command()
def report(
    store: Annotated[str, typer.Argument(help="A store with a finished study.")],
    study: Annotated[
        str | None, typer.Option(help="Name of the study; default: the latest.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report; default: inside the store.")
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            help="html, md, latex or csv; svg, pdf or png write each figure to a file. Several "
            "with commas between."
        ),
    ] = "html",
    width: Annotated[
        str, typer.Option(help="Width of figures as files: one-column or two-column.")
    ] = "two-column",
    ours: Annotated[
        str, typer.Option(help="Your detector: the last row of LaTeX tables, below a line.")
    ] = "",
    percent: Annotated[
        bool, typer.Option("--percent", help="Percent instead of shares in LaTeX tables.")
    ] = False,
    columns: Annotated[
        str, typer.Option(help="Columns of LaTeX tables, with semicolons between; default: all.")
    ] = "",
) -> None:
    """Write the report of a finished study, or its figures as files for a paper."""
    from oodometer import reports
    from oodometer.engine.plan.study_index import studies_in

    formats = reports.read_formats(format)
    if width not in reports.WIDTHS:
        raise unknown("width", width, reports.WIDTHS)
    outcomes = studies_in(open_existing(store))
    if not outcomes:
        raise UserError(
            f"Store '{store}' contains no finished study; run one with 'oodometer run'."
        )
    name = study or next(reversed(outcomes))
    if name not in outcomes:
        raise unknown("study in this store", name, outcomes)
    folder = out or _report_folder(store, name)
    chosen = tuple(column.strip() for column in columns.split(";") if column.strip())
    latex = reports.LatexStyle(ours, percent, chosen)
    for path in _write_report(outcomes[name], store, folder, formats, width, latex):
        say(path)
    if "svg" in formats and not reports.has_typst():
        say(
            "oodometer: text in these SVG files relies on installed fonts; to write outlines "
            "instead: pip install 'oodometer[figures]'",
            err=True,
        )


def find_study(name: str) -> Study:
    """Load a study by its file, or by its name if it is included."""
    from oodometer.study import load_study

    known = {path.stem: path for path in sorted(STUDIES.glob("*.yaml"))}
    if not name.strip():
        raise UserError("The name of the study is empty: give a YAML file or an included study.")
    if name in known:
        return load_study(known[name])
    if not name.endswith((".yaml", ".yml")) and not Path(name).exists():
        raise unknown("study", name, [*known, "path/to/your.yaml"])
    return load_study(name)


def at_scale(study: Study, scale: str | None) -> Study:
    """Return the study at a scale; days of training (the paper's scale) are never the default."""
    if scale is None and "small" in study.scales:
        scale = "small"
        say(
            f"oodometer: running study {study.name} at scale small; use --scale paper for the "
            "published version",
            err=True,
        )
    if scale is None or scale == "paper":
        return study
    if scale not in study.scales:
        raise unknown(f"scale of study '{study.name}':", scale, [*study.scales, "paper"])
    return study.at_scale(scale)


def _run(
    study: Study,
    address: str,
    out: Path | None,
    workers: int | None,
    cluster: str | None,
    settings: Settings | None = None,
    *,
    strict_versions: bool = False,
    verbose: bool = False,
) -> None:
    started = time.monotonic()
    screen = console()
    if out is not None:
        require_folder(out)
    with stoppable():
        from oodometer.engine.lead.run import run_study
        from oodometer.engine.stores import open_store

        store = open_store(address)
        with Display(study.name, screen) as display:
            outcome = run_study(
                study,
                store,
                workers=workers,
                cluster=cluster,
                settings=settings,
                strict_versions=strict_versions,
                progress=display.update,
                tell=display.tell,
            )
        paths = _write_report(outcome, address, out or _report_folder(address, study.name))
        seconds = time.monotonic() - started
        _print_outcome(screen, outcome, seconds, summary(display.last), paths, verbose)
    if any(part.failure for part in outcome.missing):
        raise typer.Exit(PARTS_MISSING)


def _report_folder(address: str, study: str) -> Path:
    """Return the default folder of a report: inside the store, if that is a folder."""
    from oodometer.engine.stores import FolderStore, open_store

    store = open_store(address)
    if isinstance(store, FolderStore):
        return store.folder / "reports" / study
    return Path("oodometer-reports") / study


def _print_outcome(
    screen: Console,
    outcome: Outcome,
    seconds: float,
    progress: str,
    paths: Sequence[Path],
    verbose: bool,
) -> None:
    show_findings(screen, outcome.findings, verbose=verbose)
    screen.print(f"study {outcome.study.name}: {seconds:.1f} s, ", end="", highlight=False)
    missing = sum(part.failure for part in outcome.missing)
    gaps = f"{missing} parts missing (see the report)" if missing else "nothing missing"
    screen.print(gaps, highlight=False)
    screen.print(progress, highlight=False)
    for path in paths:
        # Plain text, so that a long path is not broken into lines.
        say(f"report: {path.resolve()}")


def _write_report(
    outcome: Outcome,
    address: str,
    out: Path,
    formats: Sequence[str] = ("html",),
    width: str = "two-column",
    latex: LatexStyle | None = None,
) -> list[Path]:
    from oodometer import reports
    from oodometer.engine.lead.reported import report_content
    from oodometer.engine.stores import open_store

    content = report_content(outcome, open_store(address), address)
    return reports.report(
        content.findings,
        out,
        title=content.title,
        provenance=content.provenance,
        formats=formats,
        width=width,
        latex=latex,
    )


def _print_plan(study: Study, address: str, workers: int | None, verbose: bool) -> None:
    from oodometer.engine.lead.forecast import forecast
    from oodometer.engine.lead.run import (
        build_own_networks,
        costs_of,
        count_done,
        make_plan,
        read_data_of,
    )
    from oodometer.engine.stores import open_store
    from oodometer.protocols.common.words import count

    contents, sizes = read_data_of(study)
    plan, store = make_plan(study, contents), open_store(address)
    build_own_networks(plan, sizes)
    say(
        f"study {study.name}: {_runs(plan)}, {count(len(study.ood), 'outlier set')}, "
        f"{count(len(plan.detectors), 'detector')}; store {address}"
    )
    for stage, (done, wanted) in count_done(plan, store).items():
        say(f"  {stage:8} {wanted - done:6} to do, {done:6} in the store")
    shown = plan.trainings if verbose else plan.trainings[:_RUNS_SHOWN]
    for run_plan in shown:
        say(f"  run {run_plan.label}")
    if len(shown) < len(plan.trainings):
        say(f"  and {len(plan.trainings) - len(shown)} more (--verbose lists them)")
    expected = forecast(plan, costs_of(plan, sizes), store)
    say(_expected(expected, workers or os.cpu_count() or 1))
    if any(run_plan.spec.stopping != "none" for run_plan in plan.trainings):
        say("  (at most: some training runs may stop early)")


def _runs(plan: Plan) -> str:
    """How many networks are trained, and how many runs evaluate them if these are more."""
    from oodometer.protocols.common.words import count

    trained = count(len({run.training for run in plan.trainings}), "training run")
    several = trained != count(len(plan.trainings), "training run")
    return f"{count(len(plan.trainings), 'run')} of {trained}" if several else trained


def _expected(expected: Forecast, workers: int) -> str:
    """Put an estimate of time into words, with what it rests on."""
    from oodometer.protocols.common.words import count

    if not (expected.training or expected.extraction or expected.searching):
        left = f"; not timed: {len(expected.untimed)} training runs" if expected.untimed else ""
        return f"estimated time: no training to do{left}"
    training, extraction = _timed(expected.training), _timed(expected.extraction)
    searches = f", searches {_timed(expected.searching)}" if expected.searching else ""
    left = f", {len(expected.untimed)} training runs not timed" if expected.untimed else ""
    return (
        f"estimated time: {_timed(expected.seconds(workers))} with {count(workers, 'worker')} "
        f"on idle cores (one core: training {training}, extraction {extraction}{searches}{left}; "
        f"extrapolated from {count(expected.steps, 'timed step')}; starting workers, probes and "
        "scoring come on top)"
    )


def _timed(seconds: float) -> str:
    """Nothing takes 0 s."""
    return duration(seconds) if seconds >= 1 else "less than 1 s"
