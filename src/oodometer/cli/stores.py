"""Commands about stores: status, show, verify, prune."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from oodometer.cli.common import app, console, open_existing, say
from oodometer.cli.running import duration, progress_notes, stage_counts
from oodometer.errors import UserError

if TYPE_CHECKING:
    from oodometer.engine.stores import Kind, Store
    from oodometer.engine.upkeep.survey import StudyState
    from oodometer.engine.upkeep.watch import RunnerReport

StoreAddress = Annotated[str, typer.Argument(help="A folder, or a URL such as s3://bucket/name.")]


@app.command()
def status(
    store: StoreAddress,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show what a store holds, the progress of its studies, and who is working on them."""
    from rich.table import Table

    from oodometer.engine.upkeep.survey import as_data, survey

    found = survey(open_existing(store))
    if as_json:
        say(json.dumps(as_data(found), indent=1))
        return
    screen = console()
    kinds = Table(box=None, pad_edge=False)
    for column in ("kind", "count", "size"):
        kinds.add_column(column, justify="left" if column == "kind" else "right")
    for kind, sizes in found.sizes.items():
        if sizes:
            kinds.add_row(kind, f"{len(sizes):,}", _size(sum(sizes.values())))
    screen.print(kinds)
    for state in found.studies:
        say(_describe(state))
    for report in found.runners:
        _echo_report(report)
    for claim in found.claims:
        ended = ", whose process has ended" if claim.stale else ""
        say(
            f"claimed: {claim.name} by {_owner(claim.owner)}, "
            f"renewed {duration(claim.age)} ago{ended}"
        )
    _echo_files("incomplete files, which are ignored", found.halves)
    _echo_files("files that do not belong to the store", found.strays)


@app.command()
def show(
    digest: Annotated[str, typer.Argument(help="A result's digest, or a unique prefix.")],
    store: Annotated[str, typer.Option(help="Where the result is stored.")] = "oodometer-store",
) -> None:
    """Show a result's provenance: specification, inputs, versions, machine, time and seed."""
    from oodometer.engine.stores import DamagedError
    from oodometer.engine.upkeep.find import find_artefacts, parents_of

    opened = open_existing(store)
    for kind, key in find_artefacts(opened, digest):
        try:
            record = opened.record(kind, key)
        except DamagedError as problem:
            raise UserError(f"{problem}; the next run recomputes it.") from None
        try:
            opened.view(kind, key)
            state = "intact"
        except DamagedError:
            state = "damaged: the next run recomputes it"
        say(f"{kind} {key}")
        size = int(str(record["bytes"]))
        say(f"  content: {_size(size)}, {state}, sha256 {record['sha256']}")
        saved = time.localtime(float(str(record["saved"])))
        say(f"  saved: {time.strftime('%Y-%m-%d %H:%M:%S %z', saved)}")
        _echo_fields(record["made_by"], skip=())
        _echo_fields(record["made_from"], skip=("parents",))
        for parent_kind, parent, words in parents_of(opened, record):
            say(f"  parent: {parent_kind} {parent} {words}".rstrip())


@app.command()
def verify(
    store: StoreAddress,
    sample: Annotated[int, typer.Option(min=0, help="Number of results to recompute.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for choosing them.")] = 0,
) -> None:
    """Check every checksum, then recompute a random sample and compare it byte by byte."""
    import numpy as np

    from oodometer.engine.upkeep.verify import check_all, recompute

    opened = open_existing(store)
    intact = damaged = 0
    for (kind, key), problem in check_all(opened):
        intact += not problem
        if problem:
            damaged += 1
            say(f"damaged: {problem}; {_drop(opened, kind, key)}")
    say(f"checksums: {intact:,} correct, {damaged:,} wrong")
    damaged += _verify_decoded()
    different = 0
    if sample:
        again = recompute(opened, sample, np.random.default_rng(seed))
        different = len(again.differences)
        for difference in again.differences:
            say(
                f"different: {difference.name} ({difference.kind} {difference.key}): "
                f"{difference.reason}"
            )
        reasons: dict[str, int] = {}
        for _, reason in again.impossible:
            reasons[reason] = reasons.get(reason, 0) + 1
        for reason, count in reasons.items():
            say(f"not recomputed: {count}, because: {reason}")
        say(f"recomputed: {len(again.same)} identical, {different} different")
    if damaged or different:
        raise typer.Exit(1)


def _verify_decoded() -> int:
    """Check the images that were decoded once for all studies; return how many sets are damaged."""
    from oodometer.lab.data.readers.decoded import check_kept

    checked = list(check_kept())
    damaged = [path for path, intact in checked if not intact]
    for path in damaged:
        say(f"damaged: decoded images {path}; removed, they will be decoded again")
    if checked:
        correct = len(checked) - len(damaged)
        say(f"decoded images: {correct:,} correct, {len(damaged):,} wrong")
    return len(damaged)


@app.command()
def prune(
    store: StoreAddress,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be removed.")
    ] = False,
    superseded: Annotated[
        bool,
        typer.Option(
            "--superseded", help="Also remove what only earlier versions of finished studies need."
        ),
    ] = False,
    forget: Annotated[
        list[str] | None, typer.Option(help="Also remove this study, and what only it needs.")
    ] = None,
) -> None:
    """Remove what no study of the store needs. Finished studies keep all their results."""
    from oodometer.engine.upkeep import survey

    opened = open_existing(store)
    found = survey.find_prunable(opened, superseded=superseded, forget=forget or ())
    for name in found.unknown:
        say(f"study {name} was planned by another version, so no results are removed: run it again")
    for kind, sizes in found.artefacts.items():
        if sizes:
            say(f"  {kind:10} {len(sizes):8,}  {_size(sum(sizes.values()))}")
    if found.files:
        size = _size(sum(found.files.values()))
        say(f"  {'unfinished':10} {len(found.files):8,}  {size}")
    if found.claims:
        say(f"  {'claims':10} {len(found.claims):8,}")
    if not dry_run:
        survey.prune(opened, found)
    say(f"{'would free' if dry_run else 'freed'} {_size(found.bytes)}")


def _drop(store: Store, kind: Kind, key: str) -> str:
    """Remove a damaged artefact, so that it is not used; say what happens next."""
    from oodometer.engine.plan.imports import imported_keys

    try:
        store.discard(kind, key)
    except UserError as problem:
        return f"it could not be removed: {problem}"
    if kind == "imports" or key in imported_keys(store):
        return "import it again"
    return "the next run recomputes it"


def _echo_report(report: RunnerReport) -> None:
    """Print how far a runner is and what its workers do."""
    parts = ", ".join((stage_counts(report.progress.stages), *progress_notes(report.progress)))
    ended = ", whose process has ended" if report.stale else ""
    say(
        f"running: study {report.study} by {_owner(report.owner)}, "
        f"for {duration(time.time() - report.started)}: {parts}; "
        f"updated {duration(report.age)} ago{ended}"
    )
    for task in report.tasks:
        what = f"{task.stage} {', '.join(task.detectors[:3])}".strip()
        more = f" and {len(task.detectors) - 3} more" if len(task.detectors) > 3 else ""
        say(f"  {what}{more}, run {task.run} ({duration(task.seconds)})")
    for failure in report.failures:
        say(f"  failed: {failure}")


def _owner(owner: str) -> str:
    from oodometer.engine.stores import Owner

    named = Owner.parse(owner)
    return f"process {named.process} on {named.host}"


def _describe(state: StudyState) -> str:
    stages = stage_counts(state.stages)
    failed = f"; {state.failed} failed" if state.failed else ""
    earlier = f"; earlier versions: {state.earlier}" if state.earlier else ""
    done = "finished" if state.finished else "not finished"
    return f"study {state.name}: {done}{': ' if stages else ''}{stages}{failed}{earlier}"


def _echo_files(what: str, files: Mapping[str, object]) -> None:
    if files:
        names = ", ".join(sorted(files)[:3])
        say(f"{len(files):,} {what}: {names}{', ...' if len(files) > 3 else ''}")


def _echo_fields(fields: object, skip: Iterable[str]) -> None:
    if not isinstance(fields, Mapping):
        return
    for name, value in fields.items():
        if name in skip:
            continue
        if isinstance(value, Mapping):
            say(f"  {name}:")
            for inner, what in value.items():
                say(f"    {inner}: {what}")
        else:
            say(f"  {name}: {value}")


def _size(size: int) -> str:
    amount = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
