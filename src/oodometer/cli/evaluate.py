"""The command for a user's own classifier: evaluate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from oodometer.cli.common import SeveralValues, app, console, require_folder
from oodometer.errors import UserError
from oodometer.needs import ENSEMBLE, Need

if TYPE_CHECKING:
    import torch

    from oodometer.lab.data.own_data import OwnData
    from oodometer.outputs import Outputs
    from oodometer.registry import Choice
    from oodometer.scores import ScoreTable

Detectors = Literal["all"] | Sequence[str]


@app.command(cls=SeveralValues)
def evaluate(
    outputs: Annotated[
        list[str] | None,
        typer.Option(help="Saved outputs: train=FILE id=FILE NAME=FILE... (.npz, Parquet, ...)."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="What makes the classifier: package.module:factory, or factory(a=1)."),
    ] = None,
    weights: Annotated[
        list[Path] | None,
        typer.Option(help="Its weights; several files become several runs. Else as it is made."),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(help="What it was trained on: name, path, or package.module:dataset."),
    ] = None,
    id: Annotated[str | None, typer.Option(help="Other data of the same kind.")] = None,
    ood: Annotated[
        list[str] | None, typer.Option(help="Outlier sets, likewise; NAME=... gives a name.")
    ] = None,
    detectors: Annotated[str, typer.Option(help="Names with commas between, or all.")] = "all",
    mean: Annotated[
        str, typer.Option(help="Subtracted from pixels in [0, 1], per channel: 0.49,0.48,0.45.")
    ] = "",
    std: Annotated[str, typer.Option(help="What they are then divided by: 0.25,0.24,0.26.")] = "",
    head: Annotated[
        str, typer.Option(help="Name of the last linear layer, if it is not found by itself.")
    ] = "",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    memory: Annotated[
        str, typer.Option(help="What a detector may hold at once beside the outputs: 512MB, 4GiB.")
    ] = "",
    out: Annotated[Path, typer.Option(help="Folder for scores, tables and the report.")] = Path(
        "oodometer-evaluation"
    ),
) -> None:
    """Score your own classifier, or outputs that you saved, with every detector."""
    from oodometer.engine.lead.estimates import read_memory

    chosen: Detectors = "all" if detectors == "all" else _split_names(detectors)
    allowed = read_memory(memory) if memory else None
    for_models = {"model": model, "weights": weights, "train": train, "id": id, "ood": ood,
                  "mean": mean, "std": std, "head": head,
                  "device": "" if device == "cpu" else device}  # fmt: skip
    if outputs and any(for_models.values()):
        clash = ", ".join(f"--{name}" for name, value in for_models.items() if value)
        raise UserError(
            f"{clash} cannot stand beside --outputs: give either that, or --model with --train, "
            "--id, --ood and, mostly, --weights."
        )
    if outputs:
        files = _named_files(outputs)
        require_folder(out)
        table = _score_saved(files, chosen, allowed)
        _write(table, out, [(f"outputs of {name}", file) for name, file in files.items()])
        return
    lacking = [f"--{name}" for name in ("model", "train", "id", "ood") if not for_models[name]]
    if lacking:
        raise UserError(
            f"{', '.join(lacking)} missing: evaluate needs --outputs train=FILE id=FILE "
            "NAME=FILE..., or --model, --train, --id, --ood and, unless the model has its own, "
            "--weights."
        )
    assert model and train and id and ood  # or something would be lacking
    from oodometer.engine.lead.run import check_device
    from oodometer.lab.data.own_data import load_own_data

    require_folder(out)
    check_device(device, here=True)
    data = load_own_data(train, id, ood, _numbers("mean", mean), _numbers("std", std))
    table = _score_models(model, weights or [], data, chosen, head or None, device, allowed)
    told = {**for_models, "ood": ", ".join(ood), "weights": ", ".join(map(str, weights or []))}
    _write(table, out, [(name, str(value)) for name, value in told.items() if value])


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


def _numbers(name: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")] if text else []
    except ValueError:
        raise UserError(f"--{name} takes numbers with commas between, got '{text}'.") from None


def _note(text: str) -> None:
    typer.echo(f"note: {text}", err=True)


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


def _score_saved(files: Mapping[str, str], detectors: Detectors, memory: int | None) -> ScoreTable:
    import torch

    from oodometer.outputs import Refusal
    from oodometer.saved import load_outputs
    from oodometer.scoring import choices, score

    chosen = choices(detectors)
    _require_comparable(chosen)
    needs = {need for choice in chosen for need in choice.detector.needs}
    outputs = load_outputs(files, _note)
    for what in ("features", "logits"):
        one, other = (getattr(outputs[name], what) for name in ("train", "id"))
        if one is not None and other is not None and torch.equal(one, other):
            raise UserError(
                f"'{files['train']}' and '{files['id']}' hold the same {what}: detectors must not "
                "be tried on what they are fitted to."
            )
    told = {
        name: part.refusing({str(need): Refusal(_why(need)) for need in needs - part.available})
        for name, part in outputs.items()
    }
    return score(told, detectors, train="train", id="id", memory=memory)


def _require_comparable(chosen: Sequence[Choice]) -> None:
    """Refuse detectors that all learn from outliers: the tables are about the others."""
    if all(choice.detector.learns_from_outliers for choice in chosen):
        raise UserError(
            f"{', '.join(choice.label for choice in chosen)}: evaluate compares detectors that "
            "have seen no outliers; name one of those too, such as max_softmax."
        )


def _why(need: Need) -> str:
    """Say why saved outputs do not have what a detector needs."""
    if need.beyond_outputs:
        return "the network itself must be asked: give --model instead of --outputs"
    return "weight and bias were not saved" if need.name == "head" else f"{need} were not saved"


def _score_models(
    factory: str,
    weights: Sequence[Path],
    data: OwnData,
    detectors: Detectors,
    head: str | None,
    device: str,
    memory: int | None,
) -> ScoreTable:
    """Ask and score one model after the other; of each, no more is kept than an ensemble needs."""
    from oodometer.lab.asking.extract import extract
    from oodometer.lab.asking.models import load_model
    from oodometer.scores import Missing, join_runs
    from oodometer.scoring import choices, needs_of, score

    # Unknown names and unfit files are refused before anything is computed.
    chosen = choices(detectors)
    _require_comparable(chosen)
    together = [choice.label for choice in chosen if ENSEMBLE in choice.detector.needs]
    alone = [choice.label for choice in chosen if choice.label not in together]
    runs = _run_names(weights)
    if not weights:
        _note(f"no --weights: the model is taken as '{factory}' makes it")
    for later in weights[1:]:
        load_model(factory, data.shape, data.classes, later)
    tables: dict[str, ScoreTable] = {}
    answers: dict[str, dict[str, torch.Tensor]] = {}
    for run, path in runs.items():
        if len(runs) > 1:
            typer.echo(f"{run}: {len(answers) + 1} of {len(runs)}", err=True)
        model = load_model(factory, data.shape, data.classes, path)
        outputs = extract(
            model, data.batches(), needs=needs_of(alone) if alone else (), head=head,
            device=device, lenient=True,
        )  # fmt: skip
        _note_accuracy(run, outputs["id"])
        if alone:
            tables[run] = score(outputs, alone, train="train", id="id", memory=memory)
        answers[run] = {
            name: part.logits[:1].clone() if name == "train" else part.logits
            for name, part in outputs.items()
            if together and part.logits is not None
        }
        del model, outputs  # before the next are made
    if together and len(runs) > 1:
        joint = _score_together(list(answers.values()), together)
        tables = {
            run: replace(tables[run], rows=tables[run].rows + joint.rows) if alone else joint
            for run in runs
        }
    elif together:
        why = "an ensemble needs several --weights of the same classifier."
        if not alone:
            raise UserError(f"No detector could be used: {why}")
        missing = tuple(Missing(why, detector=label, lasting=True) for label in together)
        tables = {run: replace(t, missing=t.missing + missing) for run, t in tables.items()}
    return next(iter(tables.values())) if len(tables) == 1 else join_runs(tables, "weights")


def _run_names(weights: Sequence[Path]) -> dict[str, Path | None]:
    """Call runs by the names of their files, and by as much of the path as tells them apart."""
    if not weights:
        return {"": None}
    seen = set()
    for path in weights:
        if path.resolve() in seen:
            raise UserError(f"--weights names '{path}' twice.")
        seen.add(path.resolve())
    for parts in range(1, 1 + max(len(path.parts) for path in weights)):
        names = ["/".join((*path.parts[-parts:-1], path.stem)) for path in weights]
        if len(set(names)) == len(names):
            return dict(zip(names, weights, strict=True))
    return {str(path): path for path in weights}


def _note_accuracy(run: str, outputs: Outputs) -> None:
    """Say so if a classifier only guesses: its weights or inputs are not what they should be."""
    labels, logits = outputs.labels, outputs.logits
    if labels is None or logits is None or not (labels >= 0).all() or logits.shape[1] < 2:
        return
    right = float((logits.argmax(1) == labels).double().mean())
    most = float(labels.bincount().max() / len(labels))  # of one who always names the same class
    if right <= max(most, 1.2 / logits.shape[1]) and len(labels) >= 20:
        of = f" of {run}" if run else ""
        _note(
            f"the accuracy{of} on --id is {right:.1%}, no better than chance: are these the "
            "weights, the normalisation and the order of classes of its training?"
        )


def _score_together(
    answers: Sequence[Mapping[str, torch.Tensor]], detectors: Sequence[str]
) -> ScoreTable:
    """Score what all models say together; every run gets the scores of the whole."""
    import torch

    from oodometer.lab.asking.votes import summarize_votes
    from oodometer.outputs import Outputs
    from oodometer.scoring import score

    made = {}
    for name in answers[0]:
        logits = [answer[name] for answer in answers]
        if len({part.shape for part in logits}) > 1:
            raise UserError(
                f"The classifiers of --weights give logits of different shapes on '{name}': "
                f"{', '.join(sorted({str(tuple(part.shape)) for part in logits}))}."
            )
        votes = summarize_votes(torch.stack(logits)).to(logits[0].dtype)
        made[name] = Outputs(logits[0], answers={ENSEMBLE: votes})
    return score(made, detectors, train="train", id="id")


def _write(table: ScoreTable, out: Path, provenance: Sequence[tuple[str, str]]) -> None:
    """Print the table with intervals; write it, the scores of every sample, and the report."""
    import numpy as np

    from oodometer import reports
    from oodometer.protocols.ranking.protocol import ranking
    from oodometer.protocols.spread.protocol import spread

    summary = table.summary()
    protocols = (ranking, spread) if len(table.runs) > 1 else (ranking,)
    findings = [conclude(table, np.random.default_rng(0)) for conclude in protocols]
    for finding in findings:
        console().print(reports.terminal(finding))
    try:
        out.mkdir(parents=True, exist_ok=True)
        summary.to_csv(out / "summary.csv", index=False)
        summary.to_parquet(out / "summary.parquet", index=False)
        _write_scores(table, out / "scores.parquet")
    except OSError as problem:
        raise UserError(f"Cannot write to '{out}': {problem.strerror or problem}.") from None
    for name in ("summary.csv", "summary.parquet", "scores.parquet"):
        typer.echo(f"written: {(out / name).resolve()}")
    compared = {row.detector for row in table.rows if row.default}
    learned = sorted({row.detector for row in table.rows} - compared)
    if learned:
        _note(
            f"{', '.join(learned)}: learned from half of each outlier set, so that the tables do "
            "not compare them with the others; their scores are in scores.parquet"
        )
    title = "Oodometer: evaluation"
    for path in reports.report(findings, out, title=title, provenance=provenance):
        typer.echo(f"report: {path.resolve()}")


def _write_scores(table: ScoreTable, path: Path) -> None:
    """One line per run, detector, setting, data set and sample, a part at a time."""
    import numpy as np
    import pyarrow
    from pyarrow import parquet

    kinds = [(name, pyarrow.string()) for name in ("run", "detector", "setting", "dataset")]
    schema = pyarrow.schema([*kinds, ("sample", pyarrow.int64()), ("score", pyarrow.float64())])
    with parquet.ParquetWriter(path, schema) as file:
        for row in table.rows:
            size = len(row.scores)
            same = [pyarrow.repeat(getattr(row, name), size) for name, _ in kinds]
            columns = [*same, pyarrow.array(np.arange(size)), pyarrow.array(row.scores)]
            file.write_table(pyarrow.Table.from_arrays(columns, schema=schema))
