"""The command for a user's own classifier: evaluate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from oodometer.cli.common import app, console
from oodometer.errors import UserError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from oodometer.lab.samples import Images
    from oodometer.outputs import Outputs
    from oodometer.scores import ScoreTable

_SEVERAL = ("--outputs", "--ood", "--weights")


class SeveralValues(TyperCommand):
    """Lets an option take several values in a row: ``--ood svhn textures``."""

    # Any: the context is click's or that of typer's own click, by typer's version.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the name of the option before each of its values."""
        spread: list[str] = []
        option = ""
        for argument in args:
            if argument.startswith("-"):
                option = argument if argument in _SEVERAL else ""
                if not option:
                    spread.append(argument)
            elif option:
                spread += [option, argument]
            else:
                spread.append(argument)
        return super().parse_args(ctx, spread)


@app.command(cls=SeveralValues)
def evaluate(
    outputs: Annotated[
        list[str] | None,
        typer.Option(help="Saved outputs: train=FILE id=FILE NAME=FILE... (.npz, Parquet)."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="package.module:factory that makes the classifier.")
    ] = None,
    weights: Annotated[
        list[Path] | None, typer.Option(help="Its weights; several files become several runs.")
    ] = None,
    train: Annotated[str | None, typer.Option(help="What it was trained on: name or path.")] = None,
    id: Annotated[str | None, typer.Option(help="Other data of the same kind.")] = None,
    ood: Annotated[list[str] | None, typer.Option(help="Outlier sets: names or paths.")] = None,
    detectors: Annotated[str, typer.Option(help="Names with commas between, or all.")] = "all",
    mean: Annotated[
        str, typer.Option(help="Subtracted from pixels in [0, 1], per channel: 0.49,0.48,0.45.")
    ] = "",
    std: Annotated[str, typer.Option(help="What they are then divided by: 0.25,0.24,0.26.")] = "",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    out: Annotated[Path, typer.Option(help="Folder for scores, tables and the report.")] = Path(
        "oodometer-evaluation"
    ),
) -> None:
    """Score your own classifier, or outputs that you saved, with every detector."""
    chosen: Literal["all"] | list[str] = "all" if detectors == "all" else _split_names(detectors)
    if outputs and (model or weights or train or id or ood):
        raise UserError("Give either --outputs, or --model with --weights, --train, --id, --ood.")
    if outputs:
        table = _score_saved(outputs, chosen)
    else:
        given = {"model": model, "weights": weights, "train": train, "id": id, "ood": ood}
        lacking = [f"--{name}" for name, value in given.items() if not value]
        if lacking:
            raise UserError(
                f"{', '.join(lacking)} missing: evaluate needs --outputs train=FILE id=FILE "
                "NAME=FILE..., or --model, --weights, --train, --id and --ood."
            )
        assert model and weights and train and id and ood  # or something would be lacking
        images = _load_data(train, id, ood, mean, std)
        table = _score_models(model, weights, images, chosen, device)
    _write(table, out)


def _split_names(text: str) -> list[str]:
    """Split at commas that are not inside brackets: ``knn(k=10, normalize=False),vim``."""
    names, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            names.append("")
        else:
            names[-1] += sign
    return [name.strip() for name in names if name.strip()]


def _score_saved(named: Sequence[str], detectors: Literal["all"] | Sequence[str]) -> ScoreTable:
    from oodometer.saved import load_outputs
    from oodometer.scoring import score

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
    return score(load_outputs(files), detectors, train="train", id="id")


def _load_data(train: str, id: str, ood: Sequence[str], mean: str, std: str) -> dict[str, Images]:
    import numpy as np

    from oodometer.lab.datasets import conform, load_part, split_options
    from oodometer.lab.samples import Images

    def load(data: str, part: str) -> Images:
        name, options = split_options(data, ("part", "size"))
        size = options.get("size")
        sizes = (int(size), int(size)) if size is not None else None
        return load_part(name, options.get("part", part), sizes)  # type: ignore[arg-type]

    first = load(train, "train")
    sets = {"train": first, "id": conform(load(id, "test"), *first.shape)}
    for data in ood:
        images = conform(load(data, "test"), *first.shape)
        if images.name in sets:
            raise UserError(f"Two data sets are called '{images.name}': rename one file.")
        sets[images.name] = images
    if not mean and not std:
        return sets
    channels = first.shape[0]
    shift, scale = (
        _per_channel("mean", mean, 0.0, channels),
        _per_channel("std", std, 1.0, channels),
    )
    if (scale == 0).any():
        raise UserError(f"--std must not be 0, got {std}.")
    return {
        name: Images(
            images.name, ((images.floats() - shift) / scale).astype(np.float32), images.labels
        )
        for name, images in sets.items()
    }


def _per_channel(name: str, text: str, default: float, channels: int) -> NDArray[np.float32]:
    import numpy as np

    try:
        numbers = [float(part) for part in text.split(",")] if text else [default]
    except ValueError:
        raise UserError(f"--{name} takes numbers with commas between, got '{text}'.") from None
    if len(numbers) not in (1, channels):
        raise UserError(
            f"--{name} has {len(numbers)} numbers, but the images have {channels} channels."
        )
    return np.array(numbers, dtype=np.float32)[:, None, None]


def _score_models(
    factory: str,
    weights: Sequence[Path],
    images: Mapping[str, Images],
    detectors: Literal["all"] | Sequence[str],
    device: str,
) -> ScoreTable:
    from oodometer.lab.extract import extract
    from oodometer.lab.models import load_model
    from oodometer.scores import join_runs
    from oodometer.scoring import needs_of, score

    train = images["train"]
    classes = int(train.labels.max()) + 1
    if classes < 1:
        raise UserError(f"The training data '{train.name}' have no labels.")
    needs = needs_of(detectors)  # unknown names are refused before anything is computed
    runs: dict[str, dict[str, Outputs]] = {}
    for path in weights:
        run = path.stem if path.stem not in runs else str(path)
        if run in runs:
            raise UserError(f"--weights names '{path}' twice.")
        model = load_model(factory, train.shape, classes, path)
        batches = {name: part.batches() for name, part in images.items()}
        runs[run] = extract(model, batches, needs=needs, device=device, lenient=True)
    _add_ensemble(list(runs.values()))
    tables = {run: score(made, detectors, train="train", id="id") for run, made in runs.items()}
    return next(iter(tables.values())) if len(tables) == 1 else join_runs(tables, "weights")


def _add_ensemble(runs: Sequence[dict[str, Outputs]]) -> None:
    """Add to the outputs of each model what all of them say together, for deep_ensemble."""
    import torch

    from oodometer.lab.extract import ENSEMBLE
    from oodometer.lab.votes import summarize_votes
    from oodometer.outputs import PROBE

    for name in runs[0]:
        logits = [run[name].logits for run in runs]
        known = [part for part in logits if part is not None]
        if len(known) < 2 or name == "train":
            why = "an ensemble needs several --weights of the same classifier."
            for run in runs:
                run[name] = replace(run[name], refused={**run[name].refused, ENSEMBLE: why})
            continue
        if len({part.shape for part in known}) > 1:
            raise UserError("--weights are of classifiers with different numbers of classes.")
        votes = summarize_votes(torch.stack(known)).to(known[0].dtype)
        for run in runs:
            probes = {**run[name].probes, ENSEMBLE.removeprefix(PROBE): votes}
            run[name] = replace(run[name], probes=probes)


def _write(table: ScoreTable, out: Path) -> None:
    """Print the table with intervals; write it, the scores of every sample, and the report."""
    import numpy as np
    import pandas as pd

    from oodometer import reports
    from oodometer.protocols.ranking import ranking

    summary = table.summary()
    per_sample = pd.concat(
        pd.DataFrame(
            {
                "run": row.run,
                "detector": row.detector,
                "setting": row.setting,
                "dataset": row.dataset,
                "sample": np.arange(len(row.scores)),
                "score": row.scores,
            }
        )
        for row in table.rows
    )
    finding = ranking(table, np.random.default_rng(0))
    console().print(reports.terminal(finding))
    for part in dict.fromkeys(str(part) for part in table.missing if not part.lasting):
        typer.echo(f"missing: {part}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        summary.to_csv(out / "summary.csv", index=False)
        summary.to_parquet(out / "summary.parquet", index=False)
        per_sample.to_parquet(out / "scores.parquet", index=False)
    except OSError as problem:
        raise UserError(f"Cannot write to '{out}': {problem.strerror or problem}.") from None
    for name in ("summary.csv", "summary.parquet", "scores.parquet"):
        typer.echo(f"written: {(out / name).resolve()}")
    for path in reports.report([finding], out, title="Oodometer: evaluation"):
        typer.echo(f"report: {path.resolve()}")
