"""Commands about stores: status, show, verify, prune."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from oodometer.cli.common import app, console, open_existing
from oodometer.errors import UserError

if TYPE_CHECKING:
    from oodometer.engine.stores import Kind, Store
    from oodometer.engine.upkeep.survey import StudyState

StoreAddress = Annotated[str, typer.Argument(help="A folder, or an address such as s3://...")]


@app.command()
def status(store: StoreAddress) -> None:
    """Say what a store holds, how far its studies are, and who is working on them."""
    from rich.table import Table

    from oodometer.engine.upkeep.survey import survey

    found = survey(open_existing(store))
    screen = console()
    kinds = Table(box=None, pad_edge=False)
    for column in ("kind", "count", "size"):
        kinds.add_column(column, justify="left" if column == "kind" else "right")
    for kind, sizes in found.sizes.items():
        if sizes:
            kinds.add_row(kind, f"{len(sizes):,}", _size(sum(sizes.values())))
    screen.print(kinds)
    for state in found.studies:
        typer.echo(_describe(state))
    for claim in found.claims:
        machine, process, *_ = [*claim.owner.split(":"), "?"]
        ended = ", whose process is gone" if claim.stale else ""
        typer.echo(
            f"in work: {claim.name} by process {process} on {machine.split('.')[0]}, "
            f"renewed {claim.age:.0f} s ago{ended}"
        )
    _tell_files("half-written files, which count for nothing", found.halves)
    _tell_files("files that are not the store's", found.strays)


@app.command()
def show(
    digest: Annotated[str, typer.Argument(help="The digest of a result, or how it begins.")],
    store: Annotated[str, typer.Option(help="Where it is kept.")] = "oodometer-store",
) -> None:
    """Say how a result came about: specification, parents, versions, machine, time, seed."""
    from oodometer.engine.stores import DamagedError
    from oodometer.engine.upkeep.find import find_artefacts, parents_of

    opened = open_existing(store)
    for kind, key in find_artefacts(opened, digest):
        try:
            record = opened.record(kind, key)
        except DamagedError as problem:
            raise UserError(f"{problem}; the next run makes it again.") from None
        try:
            opened.view(kind, key)
            state = "whole"
        except DamagedError:
            state = "damaged: the next run makes it again"
        typer.echo(f"{kind} {key}")
        size = int(str(record["bytes"]))
        typer.echo(f"  content: {_size(size)}, {state}, sha256 {record['sha256']}")
        saved = time.localtime(float(str(record["saved"])))
        typer.echo(f"  saved: {time.strftime('%Y-%m-%d %H:%M:%S %z', saved)}")
        _echo_fields(record["made_by"], skip=())
        _echo_fields(record["made_from"], skip=("parents",))
        for parent_kind, parent, words in parents_of(opened, record):
            typer.echo(f"  parent: {parent_kind} {parent} {words}".rstrip())


@app.command()
def verify(
    store: StoreAddress,
    sample: Annotated[int, typer.Option(min=0, help="How many results to make again.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the choice of the sample.")] = 0,
) -> None:
    """Check every checksum, make a random sample again, and compare it byte by byte."""
    import numpy as np

    from oodometer.engine.upkeep.verify import check_all, recompute

    opened = open_existing(store)
    whole = damaged = 0
    for (kind, key), problem in check_all(opened):
        whole += not problem
        if problem:
            damaged += 1
            typer.echo(f"damaged: {problem}; {_drop(opened, kind, key)}")
    typer.echo(f"checksums: {whole:,} right, {damaged:,} wrong")
    different = 0
    if sample:
        again = recompute(opened, sample, np.random.default_rng(seed))
        different = len(again.differences)
        for difference in again.differences:
            typer.echo(
                f"different: {difference.name} ({difference.kind} {difference.key}): "
                f"{difference.reason}"
            )
        reasons: dict[str, int] = {}
        for _, reason in again.impossible:
            reasons[reason] = reasons.get(reason, 0) + 1
        for reason, count in reasons.items():
            typer.echo(f"not made again: {count}, because: {reason}")
        typer.echo(f"made again: {len(again.same)} the same bytes, {different} different")
    if damaged or different:
        raise typer.Exit(1)


@app.command()
def prune(
    store: StoreAddress,
    dry_run: Annotated[bool, typer.Option(help="Only say what would be removed.")] = False,
    superseded: Annotated[
        bool, typer.Option(help="Also what only earlier versions of finished studies need.")
    ] = False,
    forget: Annotated[
        list[str] | None, typer.Option(help="Also a study of this name, and what only it needs.")
    ] = None,
) -> None:
    """Remove what no study of the store needs. A finished study keeps all that it is made of."""
    from oodometer.engine.upkeep import survey

    opened = open_existing(store)
    found = survey.find_prunable(opened, superseded=superseded, forget=forget or ())
    for name in found.unknown:
        typer.echo(
            f"what study {name} needs is not known, so no results are removed: run it once more"
        )
    for kind, sizes in found.artefacts.items():
        if sizes:
            typer.echo(f"  {kind:10} {len(sizes):8,}  {_size(sum(sizes.values()))}")
    if found.files:
        size = _size(sum(found.files.values()))
        typer.echo(f"  {'unfinished':10} {len(found.files):8,}  {size}")
    if found.claims:
        typer.echo(f"  {'claims':10} {len(found.claims):8,}")
    if not dry_run:
        survey.prune(opened, found)
    typer.echo(f"{'would free' if dry_run else 'freed'} {_size(found.bytes)}")


def _drop(store: Store, kind: Kind, key: str) -> str:
    """Forget a damaged artefact, so that it cannot be taken for there; say what follows."""
    try:
        store.discard(kind, key)
    except UserError as problem:
        return f"it stays: {problem}"
    return "the next run makes it again"


def _describe(state: StudyState) -> str:
    stages = ", ".join(f"{name} {done} of {all}" for name, (done, all) in state.stages.items())
    failed = f"; {state.failed} failed" if state.failed else ""
    earlier = f"; earlier versions: {state.earlier}" if state.earlier else ""
    done = "finished" if state.finished else "not finished"
    return f"study {state.name}: {done}{': ' if stages else ''}{stages}{failed}{earlier}"


def _tell_files(what: str, files: Mapping[str, object]) -> None:
    if files:
        names = ", ".join(sorted(files)[:3])
        typer.echo(f"{len(files):,} {what}: {names}{', ...' if len(files) > 3 else ''}")


def _echo_fields(fields: object, skip: Iterable[str]) -> None:
    if not isinstance(fields, Mapping):
        return
    for name, value in fields.items():
        if name in skip:
            continue
        if isinstance(value, Mapping):
            typer.echo(f"  {name}:")
            for inner, what in value.items():
                typer.echo(f"    {inner}: {what}")
        else:
            typer.echo(f"  {name}: {value}")


def _size(size: int) -> str:
    amount = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
