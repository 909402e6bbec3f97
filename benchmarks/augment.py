"""Time augmentations of whole batches beside a loop over single images that does the same.

    python benchmarks/augment.py [images]

The loop runs on a few images and is extrapolated. Best of several repetitions; run with
OMP_NUM_THREADS=1 on a quiet machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from oodometer.lab.training.augment import KNOWN, augmentation

CLASSES = 10
FEW = 250  # images that the loop is timed on


def best_time(function: Callable[[], object], repetitions: int) -> float:
    """Return the shortest time in milliseconds: the one that other processes disturbed least."""
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def one_by_one(text: str, images: Tensor, targets: Tensor) -> None:
    """Augment each image as a batch of its own, as a data set with a transform does."""
    change, random = augmentation(text, CLASSES), torch.Generator().manual_seed(0)
    for row in range(len(images)):
        change(images[row : row + 1], targets[row : row + 1], random)


def main(count: int) -> None:
    """Print milliseconds for `count` images of 32 x 32 x 3."""
    torch.set_num_threads(1)
    images = torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    targets = torch.arange(count) % CLASSES
    few = min(FEW, count)
    print(f"{count} images{'':10}{'batch ms':>10}{'loop ms':>10}{'loop / batch':>14}")
    for text in KNOWN:
        change = augmentation(text, CLASSES)
        batch = best_time(lambda c=change: c(images, targets, torch.Generator()), 10)  # type: ignore[misc]
        single = best_time(lambda t=text: one_by_one(t, images[:few], targets[:few]), 2)  # type: ignore[misc]
        loop = single * count / few
        print(f"{text:21}{batch:10.0f}{loop:10.0f}{loop / batch:14.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
