"""The command that searches for outliers which fool a detector: attack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oodometer.cli.common import SeveralValues, Verbose, app, require_folder
from oodometer.cli.evaluate import (
    Auxiliary,
    Device,
    Head,
    Mean,
    Model,
    Out,
    Size,
    Std,
    Weights,
    note,
    numbers,
    split_names,
    write_evaluation,
)


@app.command(cls=SeveralValues)
def attack(
    train: Annotated[str, typer.Option(help="Training data: a name or a path.")],
    id: Annotated[str, typer.Option(help="Held-out in-distribution test data.")],
    ood: Annotated[list[str], typer.Option(help="Outlier sets to vary; NAME=DATA sets the name.")],
    detectors: Annotated[
        str, typer.Option("--detectors", "--detector", help="Comma-separated detector names.")
    ],
    model: Model = None,
    variation: Annotated[
        str,
        typer.Option(
            help="Comma-separated: affine, color, linf(radius=0.01), or a saved generator."
        ),
    ] = "affine,color",
    method: Annotated[
        str, typer.Option(help="metropolis, tempering, random_search, coordinate_descent, ...")
    ] = "metropolis",
    steps: Annotated[int, typer.Option(min=1, help="Steps of each chain.")] = 300,
    seconds: Annotated[
        float | None, typer.Option(min=0.0, help="Time limit for each search.")
    ] = None,
    images: Annotated[
        int, typer.Option(min=1, help="Images of each outlier set to vary, one chain each.")
    ] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search.")] = 0,
    repeats: Annotated[
        int, typer.Option(min=1, help="Repeats of each search, with the seeds that follow.")
    ] = 1,
    weights: Weights = None,
    mean: Mean = "",
    std: Std = "",
    head: Head = "",
    auxiliary: Auxiliary = "",
    size: Size = "small",
    device: Device = "cpu",
    out: Out = Path("oodometer-attack"),
    verbose: Verbose = False,
) -> None:
    """Search for outliers that your detectors take for known data.

    Searches are kept in the output folder: the same command resumes an interrupted one.
    """
    from oodometer import attacks
    from oodometer.engine.lead.run import check_device

    require_folder(out)
    check_device(device, here=True)
    result = attacks.attack(
        model, train, id, ood, detectors=split_names(detectors),
        variations=split_names(variation), method=method, steps=steps, seconds=seconds,
        images=images, seed=seed, repeats=repeats, weights=weights or [],
        mean=numbers("mean", mean), std=numbers("std", std), head=head or None, device=device,
        auxiliary=auxiliary or None, size=size, folder=out / "searches", notify=note,
    )  # fmt: skip
    said = {
        "model": model or "",
        "weights": ", ".join(map(str, weights or [])),
        "train": train,
        "id": id,
        "ood": ", ".join(ood),
        "variation": variation,
        "method": method,
    }
    provenance = [(name, value) for name, value in said.items() if value]
    write_evaluation(result, out, provenance, verbose=verbose, title="Oodometer: worst case")
