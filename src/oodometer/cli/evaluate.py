"""The command for a user's own classifier: evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oodometer.cli.common import (
    SeveralValues,
    Verbose,
    app,
    console,
    require_folder,
    say,
    show_findings,
)
from oodometer.errors import UserError

if TYPE_CHECKING:
    from oodometer.comparison import Evaluation
    from oodometer.evaluation import Detectors


# Options that other commands have, too.
Model = Annotated[
    str | None, typer.Option(help="Classifier: package.module:factory, or factory(depth=18).")
]
Weights = Annotated[
    list[Path] | None,
    typer.Option(help="Checkpoint file(s); each counts as one run. Default: as constructed."),
]
Auxiliary = Annotated[
    str, typer.Option(help="Outliers that some detectors are trained with: a name or a path.")
]
Size = Annotated[str, typer.Option(help="Networks of trained detectors: tiny, small or paper.")]
Mean = Annotated[str, typer.Option(help="Per-channel mean for normalization: 0.49,0.48,0.45.")]
Std = Annotated[
    str, typer.Option(help="Per-channel standard deviation for normalization: 0.25,0.24,0.26.")
]
Head = Annotated[
    str, typer.Option(help="Name of the last linear layer. Default: found automatically.")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 or mps.")]
Out = Annotated[Path, typer.Option(help="Output folder for scores, tables and report.")]


@app.command(cls=SeveralValues)
def evaluate(
    outputs: Annotated[
        list[str] | None,
        typer.Option(help="Saved outputs: train=FILE id=FILE NAME=FILE... (.npz, Parquet, ...)."),
    ] = None,
    model: Model = None,
    weights: Weights = None,
    train: Annotated[
        str | None,
        typer.Option(help="Training data: a name, a path, or package.module:dataset."),
    ] = None,
    id: Annotated[str | None, typer.Option(help="Held-out in-distribution test data.")] = None,
    ood: Annotated[
        list[str] | None,
        typer.Option(help="Outlier sets, several or comma-separated; NAME=DATA sets the name."),
    ] = None,
    detectors: Annotated[
        str, typer.Option(help='Comma-separated detector names, or "all".')
    ] = "all",
    ours: Annotated[
        str, typer.Option(help="Your detector: its comparisons are declared in advance.")
    ] = "",
    auxiliary: Auxiliary = "",
    size: Size = "small",
    mean: Mean = "",
    std: Std = "",
    head: Head = "",
    device: Device = "cpu",
    memory: Annotated[
        str, typer.Option(help="Memory limit per detector, on top of the outputs: 512MB, 4GiB.")
    ] = "",
    out: Out = Path("oodometer-evaluation"),
    verbose: Verbose = False,
) -> None:
    """Evaluate your own classifier, or its saved outputs, with every detector."""
    from oodometer.engine.lead.estimates import read_memory

    ood = [name for text in ood or [] for name in split_sets(text)]
    chosen: Detectors = "all" if detectors == "all" else split_names(detectors)
    allowed = read_memory(memory) if memory else None
    for_models = {"model": model, "weights": weights, "train": train, "id": id, "ood": ood,
                  "mean": mean, "std": std, "head": head, "auxiliary": auxiliary,
                  "device": "" if device == "cpu" else device}  # fmt: skip
    named = [name for name, value in for_models.items() if value]
    _require_either(bool(outputs), named, detectors)
    if outputs:
        from oodometer.evaluation import evaluate_outputs

        files = _named_files(outputs)
        require_folder(out)
        result = evaluate_outputs(files, detectors=chosen, ours=ours, memory=allowed, notify=note)
        provenance = [(f"outputs of {name}", file) for name, file in files.items()]
        write_evaluation(result, out, provenance, verbose=verbose)
        return
    assert train and id and ood  # or something would be missing
    from oodometer import evaluation
    from oodometer.engine.lead.run import check_device

    require_folder(out)
    check_device(device, here=True)
    result = evaluation.evaluate(
        model, train, id, ood, weights=weights or [], detectors=chosen, ours=ours,
        mean=numbers("mean", mean), std=numbers("std", std), head=head or None,
        auxiliary=auxiliary or None, size=size,
        device=device, memory=allowed, notify=note,
    )  # fmt: skip
    said = {
        **for_models,
        "ood": ", ".join(ood),
        "weights": ", ".join(map(str, weights or [])),
    }
    provenance = [(name, str(value)) for name, value in said.items() if value]
    write_evaluation(result, out, provenance, verbose=verbose)


def _require_either(outputs: bool, given: Sequence[str], detectors: str) -> None:
    """Refuse a mixture of the options for saved outputs and for models, or too few of either.

    Named detectors may have networks of their own and need no model: it is said later if not.
    """
    if outputs and given:
        raise UserError(
            f"{', '.join(f'--{name}' for name in given)} cannot be combined with --outputs: use "
            "either --outputs, or --model with --train, --id, --ood and usually --weights."
        )
    missing = [f"--{name}" for name in ("model", "train", "id", "ood") if name not in given]
    if missing == ["--model"] and detectors != "all" and "weights" not in given:
        return
    if missing and not outputs:
        raise UserError(
            f"{', '.join(missing)} missing: evaluate needs --outputs train=FILE id=FILE "
            "NAME=FILE..., or --model, --train, --id, --ood and, unless the model has its own, "
            "--weights."
        )


def split_names(text: str) -> list[str]:
    """Split at commas that are not inside brackets: ``knn(k=10, normalize=False),vim``."""
    names, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            names.append("")
        else:
            names[-1] += sign
    return [name.strip() for name in names if name.strip()]


def split_sets(text: str) -> list[str]:
    """Split the names of data sets at commas; a file may have commas in its name.

    >>> split_sets("svhn,textures")
    ['svhn', 'textures']
    """
    return [text] if Path(text.rpartition("=")[2]).exists() else split_names(text)


def numbers(name: str, text: str) -> list[float]:
    """Read the comma-separated numbers of an option."""
    try:
        return [float(part) for part in text.split(",")] if text else []
    except ValueError:
        raise UserError(f"--{name} takes comma-separated numbers, got '{text}'.") from None


def note(text: str) -> None:
    """Print what is worth knowing, apart from the results."""
    say(f"note: {text}", err=True)


def _named_files(named: Sequence[str]) -> dict[str, str]:
    files: dict[str, str] = {}
    for text in named:
        name, equals, file = text.partition("=")
        if not (name and equals and file):
            raise UserError(f"--outputs takes NAME=FILE, such as train=train.npz; got '{text}'.")
        if name in files:
            raise UserError(f"--outputs names '{name}' twice.")
        files[name] = file
    for name in ("train", "id"):
        if name not in files:
            raise UserError(f"--outputs needs {name}=FILE; it names {', '.join(files)}.")
    return files


def write_evaluation(
    result: Evaluation,
    out: Path,
    provenance: Sequence[tuple[str, str]],
    *,
    verbose: bool,
    title: str = "Oodometer: evaluation",
) -> None:
    """Print the findings; write scores, summary and report."""
    from oodometer import reports
    from oodometer.protocols.common.words import not_applicable

    show_findings(console(), result.findings, verbose=verbose)
    if not verbose:  # otherwise said among the caveats
        for line in not_applicable(result.table.missing, len(result.table.runs)):
            note(line)
    for path in result.save(out):
        say(f"written: {path.resolve()}")
    for path in reports.report(result.findings, out, title=title, provenance=provenance):
        say(f"report: {path.resolve()}")
