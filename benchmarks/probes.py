"""What asking a network more than once costs, in bare passes: the same network, images and run.

python benchmarks/probes.py [rows]

A bare pass is a forward pass in eval mode without gradients. CPU time of one thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from torch import nn

from oodometer.lab.asking.extract import extract
from oodometer.lab.asking.probes import PROBES
from oodometer.lab.data.inputs import Data
from oodometer.lab.training.networks import build_network

ROWS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The quickest of several runs, in CPU time."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def bare(model: nn.Module, images: torch.Tensor) -> None:
    """One forward pass of all images."""
    model.eval()
    with torch.no_grad():
        for start in range(0, len(images), 256):
            model(images[start : start + 256])


def main() -> None:
    """Print one line per network and probe."""
    torch.set_num_threads(1)
    measure("cnn", (1, 28, 28), 32)
    measure("resnet18", (3, 32, 32), 16)


def measure(name: str, shape: tuple[int, ...], width: int) -> None:
    """Print one line per probe."""
    model = build_network(name, shape, 10, width)
    images = torch.rand(ROWS, *shape)
    labels = torch.arange(ROWS) % 10
    data: dict[str, Data] = {"train": (images, labels), "test": images}
    unit = 2 * seconds(lambda: bare(model, images))  # both data sets
    print(f"{name}: {ROWS} training and {ROWS} test images; one bare pass {unit:.2f} s")
    plain = seconds(lambda: extract(model, data))
    print(f"  extraction alone              {plain / unit:6.2f} bare passes")
    for need in ("layers", *(f"probe:{probe}" for probe in PROBES)):
        if need == "probe:mc_dropout" and name == "resnet18":
            continue  # it has no dropout
        cost = seconds(lambda: extract(model, data, needs=[need]), repeats=1)  # noqa: B023
        print(f"  with {need:25s}{cost / unit:6.2f} bare passes")


if __name__ == "__main__":
    main()
