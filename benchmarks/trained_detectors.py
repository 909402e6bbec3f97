"""Train one detector model for real, and measure how well it tells outlier sets apart.

    OMP_NUM_THREADS=1 python benchmarks/trained_detectors.py pixelcnn_od_test --data fashion-mnist

Scores 2,000 test images against at most 2,000 of each outlier set: another grey set or SVHN and
CelebA, constant images (with color: grey ones, too), black images and uniform noise. --images and
--epochs shorten a recipe, which the table says; --untrained keeps the initial weights and does
only what follows training.
Where a score has parts, each of them alone has rows of its own; so have the members of an
ensemble, with the mean of their AUROCs.
With --store, the model that a study has trained is scored instead; how long that took on an idle
core is not known. Prints one row per set; with --write they replace the rows of the same model
and data in that CSV file (docs/results/trained-detectors.csv).
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from oodometer.engine.stores import open_store
from oodometer.engine.work.codecs import bytes_to_arrays
from oodometer.lab.asking.votes import summarize_votes
from oodometer.lab.data.outliers import load_outliers
from oodometer.lab.data.samples import Images, Samples
from oodometer.lab.data.sources import Source, load_source
from oodometer.lab.detector_models import DetectorModel, answers_of, find_model
from oodometer.lab.detector_models.representations import csi, sngp
from oodometer.lab.training.train import Training
from oodometer.metrics import auroc
from oodometer.study import TrainSpec

TESTED = 2000  # images of each set
ONE = ", one member"
GREY = ("mnist", "fashion-mnist", "kmnist")
COLOR = ("cifar10", "svhn", "celeba")
# What the numbers of an answer are, after the first, where a detector can score by one of them.
PARTS = {"csi_shifts": csi.PARTS[1:], "sngp_due": sngp.MEASURES[1:]}
COLUMNS = (
    "model", "size", "data", "images", "epochs", "parameters", "CPU minutes", "outliers", "AUROC",
)  # fmt: skip


def probe_sets(source: Source) -> Iterator[Images]:
    """Yield the outlier sets that every model is measured on."""
    own = source.test.shape
    for name in GREY if own[0] == 1 else COLOR:
        if name != source.name.lower():
            read = load_outliers(name, source)
            assert isinstance(read, Images)
            yield Images(name, read.pixels, read.labels)
    rng = np.random.default_rng(0)
    colors = rng.uniform(0, 1, (TESTED, own[0], 1, 1)).astype(np.float32)
    unknown = np.full(TESTED, -1)
    yield Images("constant", np.broadcast_to(colors, (TESTED, *own)).copy(), unknown)
    if own[0] > 1:  # random colors are rare in photographs
        grey = rng.uniform(0, 1, (TESTED, 1, 1, 1)).astype(np.float32)
        yield Images("constant grey", np.broadcast_to(grey, (TESTED, *own)).copy(), unknown)
    yield Images("black", np.zeros((TESTED, *own), np.float32), unknown)
    noise = load_outliers("uniform_noise", source)
    assert isinstance(noise, Images)
    yield Images("uniform noise", noise.pixels, noise.labels)


Reading = Callable[[Tensor], Tensor]  # of answers (members, n, columns), to scores (n,)


def readings(card: DetectorModel) -> Mapping[str, Sequence[Reading]]:
    """How answers become scores, by what is added to the model's name.

    The first is the detector's own: the first number of each answer or, of the logits of an
    ensemble, the entropy of the mean prediction. What a part does alone is another, or each of the
    members, whose AUROCs are averaged.
    """
    if card.members > 1:
        return {
            "": [partial(_entropy, slice(None))],
            ONE: [partial(_entropy, slice(one, one + 1)) for one in range(card.members)],
        }
    parts = ("", *(f", {part}" for part in PARTS.get(card.name, ())))
    return {part: [partial(_column, column)] for column, part in enumerate(parts)}


def _entropy(members: slice, answers: Tensor) -> Tensor:
    return summarize_votes(answers[members])[:, 0]


def _column(column: int, answers: Tensor) -> Tensor:
    return answers[0].double().reshape(answers.shape[1], -1)[:, column]


class Trained(NamedTuple):
    """A trained model, and what its rows say of the training."""

    model: nn.Module
    images: int
    epochs: int
    minutes: float | None  # of CPU, if known


def train(card: DetectorModel, spec: TrainSpec, source: Source, *, epochs: int) -> Trained:
    """Train a model as its recipe says, for at most so many epochs."""
    training = Training(spec, source.train, source.classes, task=card.task)
    started = time.process_time()
    while not training.finished and training.epoch < epochs:
        training.run_epoch()
        last = {measure: values[-1] for measure, values in training.curve.items()}
        shown = ", ".join(f"{measure} {value:.4g}" for measure, value in last.items())
        minutes = (time.process_time() - started) / 60
        print(f"epoch {training.epoch}, {minutes:.1f} min: {shown}", file=sys.stderr, flush=True)
    minutes = (time.process_time() - started) / 60
    weights = training.finished_weights(spec.checkpoint if training.epoch else "last")
    model = _filled(card, spec, source, weights)
    images = min(spec.train_size or len(source.train), len(source.train))
    return Trained(model, images, training.epoch, minutes)


def stored(card: DetectorModel, data: str, size: str, source: Source, address: str) -> Trained:
    """Read the model that a study has trained on this data, of this size, from its store."""
    store = open_store(address)
    found = []
    for key in store.keys("models"):
        about = store.record("models", key)["made_from"]
        assert isinstance(about, dict)
        spec = TrainSpec.model_validate(about["specification"])
        if about.get("detector model", {}).get("name") == card.name:
            found += [(key, spec)] if (spec.data, spec.model_size) == (data, size) else []
    if len(found) != 1:
        raise SystemExit(f"{address} holds {len(found)} models {card.name} of {data} and {size}")
    ((key, spec),) = found
    arrays = bytes_to_arrays(store.load("models", key))
    own = {n.removeprefix("weights/"): v for n, v in arrays.items() if n.startswith("weights/")}
    model = _filled(card, spec, source, own)
    return Trained(model, spec.train_size or len(source.train), int(arrays["epoch"]), None)


def _filled(
    card: DetectorModel, spec: TrainSpec, source: Source, weights: Mapping[str, NDArray[Any]]
) -> nn.Module:
    model = card.task.fresh_network(spec, source.train.shape, source.classes)
    model.load_state_dict({key: torch.from_numpy(value) for key, value in weights.items()})
    return model.eval()


def measure(
    name: str,
    data: str,
    size: str,
    changes: Mapping[str, int | None],
    address: str = "",
    *,
    seed: int = 0,
    untrained: bool = False,
) -> list[dict[str, str]]:
    """Train the model, or read it from a store, score the sets and return the rows of the table.

    `changes` of its recipe: those that are None change nothing.
    """
    card = find_model(name)
    fields = {"data": data, "test_size": TESTED, "model_size": size}
    study = TrainSpec.model_validate({**fields, "seed": seed, "model_seed": seed})
    source = load_source(study)
    if address:
        made = [stored(card, data, size, source, address)]
    else:
        made = []
        for member in range(1, card.members + 1) if card.members > 1 else [0]:
            spec = card.recipe(study, (len(source.train), *source.train.shape), member)
            given = {field: value for field, value in changes.items() if value is not None}
            spec = spec.model_copy(update=given)
            made.append(train(card, spec, source, epochs=0 if untrained else spec.epochs))
    return [
        {"model": f"{name}{', untrained' * untrained}{part}", "size": size, "data": data, **row}
        for part, row in _rows(card, made, source)
    ]


def _rows(
    card: DetectorModel, made: Sequence[Trained], source: Source
) -> Iterator[tuple[str, dict[str, str]]]:
    def answers(samples: Samples) -> Tensor:
        return torch.stack([answers_of(card, each.model, samples) for each in made])

    known = answers(source.test)
    for outliers in probe_sets(source):
        unknown = answers(outliers)
        for part, scores in readings(card).items():
            values = [auroc(score(known).numpy(), score(unknown).numpy()) for score in scores]
            shown = ", ".join(f"{value:.4f}" for value in values)
            print(f"{outliers.name}{part}: {shown}", file=sys.stderr, flush=True)
            some = made[:1] if part == ONE else made
            minutes = [each.minutes for each in some if each.minutes is not None]
            weights = [p.numel() for each in some for p in each.model.parameters()]
            row = {
                "images": str(made[0].images),
                "epochs": str(made[0].epochs),
                "parameters": str(sum(weights)),
                "CPU minutes": f"{sum(minutes):.1f}" if minutes else "",
                "outliers": outliers.name,
                "AUROC": f"{np.mean(values):.4f}",
            }
            yield part, row


def keep(rows: list[dict[str, str]], path: Path) -> None:
    """Write rows into a table, in place of those of the same model, size and data."""
    same = ("model", "size", "data")
    before: list[dict[str, str]] = []
    if path.exists():
        with path.open(newline="") as file:
            before = list(csv.DictReader(file))
    new = {tuple(row[key] for key in same) for row in rows}
    kept = [row for row in before if tuple(row[key] for key in same) not in new]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(sorted(kept + rows, key=lambda row: tuple(row[key] for key in same)))


def main() -> None:
    """Train, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="name of a detector model")
    parser.add_argument("--data", default="fashion-mnist", help="data set to train on")
    parser.add_argument("--size", default="small", choices=("tiny", "small", "paper"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--images", type=int, help="number of images to train on")
    parser.add_argument("--epochs", type=int, help="number of epochs")
    parser.add_argument("--untrained", action="store_true", help="keep the initial weights")
    parser.add_argument("--store", default="", help="store with the model, trained by a study")
    parser.add_argument("--write", type=Path, help="CSV file to add the rows to")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    changes = {
        "train_size": arguments.images,
        "epochs": arguments.epochs,
    }
    rows = measure(
        arguments.model,
        arguments.data,
        arguments.size,
        changes,
        arguments.store,
        seed=arguments.seed,
        untrained=arguments.untrained,
    )
    table = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    if arguments.write is not None:
        keep(rows, arguments.write)


if __name__ == "__main__":
    main()
