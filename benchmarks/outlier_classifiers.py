"""Train classifiers that learn from outliers for real, beside the same networks without them.

    OMP_NUM_THREADS=1 python benchmarks/outlier_classifiers.py plain good_80_classifier \
        --data fashion-mnist --auxiliary cifar10 --images 5000

Prints one row per model and outlier set: accuracy on 2,000 test images, AUROC, mean probability of
the predicted class, and for two of the sets AUROC under attack and the guaranteed one, on 200
outliers. With --write the rows replace those of the same model and data in that CSV file
(docs/results/outlier-classifiers.csv).
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from trained_detectors import TESTED, probe_sets

from oodometer.lab.data.auxiliary import load_auxiliary
from oodometer.lab.data.samples import Images, Samples
from oodometer.lab.data.sources import Source, load_source
from oodometer.lab.detector_models import find_model
from oodometer.lab.detector_models.with_outliers.certificates import BOUNDED, certificate
from oodometer.lab.detector_models.with_outliers.losses import accuracy, doubt
from oodometer.lab.training.task import Batch, Measures, Task
from oodometer.lab.training.train import train
from oodometer.metrics import auroc
from oodometer.study import TrainSpec

ATTACKED = 200  # outliers
STEPS = 20
RADII = {1: 0.1, 3: 0.01}  # by the number of channels
PLAIN = {"plain": "ceda_classifier", "plain_exposure": "exposed_classifier"}
COLUMNS = (
    "model", "size", "data", "auxiliary", "images", "epochs", "parameters", "CPU minutes",
    "accuracy", "outliers", "AUROC", "mean confidence", "radius", "AUROC under attack",
    "guaranteed AUROC",
)  # fmt: skip


def plain_loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    """The loss of a classifier that learns nothing from outliers."""
    logits = model(batch.inputs)
    return functional.cross_entropy(logits, batch.targets), accuracy(logits, batch.targets)


def measure(
    name: str, study: TrainSpec, source: Source, auxiliary: Samples, images: int | None
) -> list[dict[str, str]]:
    """Train the model, score the sets and return the rows of the table."""
    card = find_model(PLAIN.get(name, name))
    spec = card.recipe(study, (len(source.train), *source.train.shape))
    if images is not None:
        spec = spec.model_copy(update={"train_size": images})
    task = card.task
    if name in PLAIN:
        task = Task(task.network, plain_loss, task.measures, labelled=True)
    started = time.process_time()
    trained = train(spec, source.train, source.classes, task=task, auxiliary=auxiliary)
    minutes = (time.process_time() - started) / 60
    model = trained.model

    def score(points: Tensor) -> Tensor:
        if name in PLAIN:
            return doubt(model(points))
        return card.answer(model, points).reshape(len(points), -1)[:, 0]

    def confidence(points: Tensor) -> Tensor:
        probabilities: Tensor = model(points).softmax(1)
        return probabilities[:, : source.classes].amax(1)

    known = scored(score, source.test)
    hits = scored(lambda points: model(points)[:, : source.classes].argmax(1), source.test)
    common = {
        "model": name,
        "size": study.model_size,
        "data": study.data,
        "auxiliary": study.auxiliary if task.outliers_per_input else "",
        "images": str(min(spec.train_size or len(source.train), len(source.train))),
        "epochs": str(trained.epoch),
        "parameters": str(sum(parameter.numel() for parameter in model.parameters())),
        "CPU minutes": f"{minutes:.1f}",
        "accuracy": f"{np.mean(hits == source.test.labels):.4f}",
    }
    rows = []
    for index, outliers in enumerate(probe_sets(source)):
        row = {**common, "outliers": outliers.name}
        row["AUROC"] = f"{auroc(known, scored(score, outliers)):.4f}"
        row["mean confidence"] = f"{np.mean(scored(confidence, outliers)):.4f}"
        if index == 0 or outliers.name == "uniform noise":
            assert isinstance(source.test, Images)
            bounded = "exposure" not in name and card.name in BOUNDED - {"exposed_classifier"}
            found = certificate(
                score,
                torch.from_numpy(source.test.floats(np.arange(TESTED))),
                torch.from_numpy(outliers.floats(np.arange(ATTACKED))),
                RADII[source.test.shape[0]],
                bounded=model if bounded else None,
                steps=STEPS,
            )
            row["radius"] = f"{found.radius:g}"
            row["AUROC under attack"] = f"{found.attacked:.4f}"
            row["guaranteed AUROC"] = "" if found.guaranteed is None else f"{found.guaranteed:.4f}"
        rows.append(row)
    return rows


def scored(score: Callable[[Tensor], Tensor], samples: Samples) -> np.ndarray:
    """Apply a function to all samples, batch by batch."""
    with torch.no_grad():
        parts = [score(torch.from_numpy(values)) for values, _ in samples.batches()]
    return torch.cat(parts).numpy()


def keep(rows: list[dict[str, str]], path: Path) -> None:
    """Write rows into a table, in place of those of the same model and data."""
    before: list[dict[str, str]] = []
    if path.exists():
        with path.open(newline="") as file:
            before = list(csv.DictReader(file))
    new = {(row["model"], row["data"]) for row in rows}
    kept = [row for row in before if (row["model"], row["data"]) not in new]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(sorted(kept + rows, key=lambda row: (row["data"], row["model"])))


def main() -> None:
    """Train, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", help="names of detector models, or plain")
    parser.add_argument("--data", default="fashion-mnist", help="data set to train on")
    parser.add_argument("--auxiliary", default="cifar10", help="data set of auxiliary outliers")
    parser.add_argument("--size", default="small", choices=("tiny", "small", "paper"))
    parser.add_argument("--images", type=int, help="train on this many")
    parser.add_argument("--write", type=Path, help="CSV file to add the rows to")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    study = TrainSpec(
        data=arguments.data,
        test_size=TESTED,
        model_size=arguments.size,
        auxiliary=arguments.auxiliary,
    )
    source = load_source(study)
    auxiliary = load_auxiliary(arguments.auxiliary, source)
    table = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    table.writeheader()
    for name in arguments.models:
        rows = measure(name, study, source, auxiliary, arguments.images)
        table.writerows(rows)
        sys.stdout.flush()
        if arguments.write is not None:
            keep(rows, arguments.write)


if __name__ == "__main__":
    main()
