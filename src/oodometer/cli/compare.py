"""The command for scores that were computed elsewhere: compare."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oodometer.cli.common import Verbose, app, require_folder
from oodometer.errors import UserError

if TYPE_CHECKING:
    from oodometer.score_arrays import Higher

# Options that say what a file of scores does not say itself.
Direction = Annotated[
    str,
    typer.Option(
        help='Whether scores are higher for "ood" or for "id" samples; "ood, msp=id" if not all '
        "are alike."
    ),
]
ColumnRoles = Annotated[
    str,
    typer.Option(
        help="Roles of columns: 'set=Source, run=seed+fold'. Roles: set, is_ood, is_id, detector, "
        "score, run, sample, ignore."
    ),
]
InDistribution = Annotated[str, typer.Option(help="Name of the in-distribution set.")]


@app.command()
def compare(
    scores: Annotated[
        list[str],  # not Path: NAME=FILE is allowed
        typer.Argument(
            help="Files of per-sample scores (.npz, CSV, Parquet), or folders of OpenOOD's score "
            "files; NAME=FILE names the detector, NAME@RUN=FILE its run, too."
        ),
    ],
    id: InDistribution = "",
    higher: Direction = "",
    columns: ColumnRoles = "",
    ours: Annotated[
        str, typer.Option(help="Your detector: its comparisons are declared in advance.")
    ] = "",
    out: Annotated[Path, typer.Option(help="Output folder for scores, tables and report.")] = Path(
        "oodometer-comparison"
    ),
    verbose: Verbose = False,
) -> None:
    """Compare detectors by scores on the same samples, whoever computed them."""
    from oodometer import comparison
    from oodometer.cli.evaluate import note, write_evaluation

    directions = parse_directions(higher)
    require_folder(out)
    result = comparison.compare(scores, id=id, higher=directions, columns=columns, ours=ours)
    for text in result.notes:
        note(text)
    said = [("scores", ", ".join(scores)), ("id", id), ("higher", higher), ("columns", columns)]
    provenance = [(name, value) for name, value in said if value]
    write_evaluation(
        result, out, provenance, verbose=verbose, title="Oodometer: comparison of scores"
    )


def parse_directions(text: str) -> Mapping[str, Higher] | None:
    """Read ``ood, msp=id``: detector ("" = all others) -> for which samples it is higher."""
    sides: dict[str, Higher] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, side = part.rpartition("=")
        name, side = name.strip(), side.strip()
        if side not in ("ood", "id"):
            raise UserError(f"--higher takes ood or id, or NAME=ood, NAME=id; got '{part}'.")
        if name in sides:
            raise UserError(f"--higher names '{name or side}' twice.")
        sides[name] = "ood" if side == "ood" else "id"
    return sides or None
