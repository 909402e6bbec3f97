"""Train a generator for real, and measure how good its images are.

    python benchmarks/generators.py stylegan2 --data mnist --save mnist.safetensors

Compares 2,000 generated images with twice as many test images, on the features of a small
classifier that is trained here, too. Prints one row; with --write it replaces the row of the same
generator, size and data in that CSV file (docs/results/generators.csv). --file measures a generator
that was saved before.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path

import torch

import oodometer as om
from oodometer.lab.data.datasets import load_part
from oodometer.lab.data.portions import portion_rows

COUNT = 2000  # generated images
COLUMNS = (
    "generator", "size", "data", "images", "batches", "CPU minutes", "Fréchet distance",
    "of two real halves", "nearer to training images", "possible copies",
)  # fmt: skip


def measure(generator: om.FittedGenerator, data: str, minutes: float) -> dict[str, str]:
    """A row of the table."""
    quality, spec = generator.quality(data, data, count=COUNT), generator.spec
    images = len(portion_rows(spec, load_part(data, "train").labels)[0])
    epochs = len(generator.curve["train_loss"])
    figures = (
        generator.name, spec.model_size, data, f"{images:,}",
        f"{epochs * -(-images // spec.batch_size):,} of {spec.batch_size}", f"{minutes:.0f}",
        f"{quality.distance:.3g}", f"{quality.real_distance:.3g}", f"{quality.nearer:.2f}",
        f"{quality.copied:.3f}",
    )  # fmt: skip
    return dict(zip(COLUMNS, figures, strict=True))


def keep(row: dict[str, str], path: Path) -> None:
    """Write a row into a table, in place of that of the same generator, size and data."""
    same = COLUMNS[:3]
    rows: list[dict[str, str]] = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    rows = [old for old in rows if any(old[key] != row[key] for key in same)]
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(sorted([*rows, row], key=lambda each: [each[key] for key in same]))


def main() -> None:
    """Train, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("generator", help="name of a generator")
    parser.add_argument("--data", default="mnist", help="data set to train on")
    parser.add_argument("--size", default="small", choices=("tiny", "small", "paper"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, help="file to save the generator to")
    parser.add_argument("--file", type=Path, help="a saved generator, which is not trained again")
    parser.add_argument("--write", type=Path, help="CSV file to add the row to")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.file is None:
        started = time.process_time()
        made = om.fit_generator(
            arguments.generator, arguments.data, size=arguments.size, seed=arguments.seed,
            notify=lambda text: print(text, file=sys.stderr, flush=True),
        )  # fmt: skip
        minutes = (time.process_time() - started) / 60
        if arguments.save is not None:
            made.save(arguments.save)
    else:
        made = om.load_generator(arguments.file)
        minutes = made.seconds / 60
    row = measure(made, arguments.data, minutes)
    print(",".join(COLUMNS))
    print(",".join(row.values()))
    if arguments.write is not None:
        keep(row, arguments.write)


if __name__ == "__main__":
    main()
