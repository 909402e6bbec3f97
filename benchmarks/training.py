"""Time training beside the shortest loop that anybody would write, in one process.

    python benchmarks/training.py [epochs]

60,000 images of 28 x 28 (Fashion-MNIST if it is installed, else noise of the same size), a network
of two convolutions, Adam, batches of 128. All take turns epoch by epoch, so that other load on
the machine hits all. Then two trainings one after the other against two at once, in processes of
their own that are started and warm before the clock runs. Wants an idle machine; run with
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import gzip
import multiprocessing
import sys
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import torch
from torch import nn

from oodometer.lab.data.samples import Images
from oodometer.lab.training.task import CLASSIFIER
from oodometer.lab.training.train import Training
from oodometer.study import TrainSpec

FOLDER = Path("/usr/share/datasets/fashion-mnist")
SPEC = TrainSpec(data="fashion", network="small_cnn", width=16, batch_size=128, epochs=1000)


def load() -> Images:
    """Read Fashion-MNIST from its Debian package, or make noise of its size."""
    try:
        with gzip.open(FOLDER / "train-images-idx3-ubyte.gz") as file:
            pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 1, 28, 28)
        with gzip.open(FOLDER / "train-labels-idx1-ubyte.gz") as file:
            labels = np.frombuffer(file.read(), np.uint8, offset=8)
        return Images("Fashion-MNIST", pixels, labels.astype(np.int64))
    except FileNotFoundError:
        rng = np.random.default_rng(0)
        pixels = rng.integers(0, 256, (60000, 1, 28, 28), np.uint8)
        return Images("noise of its size", pixels, rng.integers(0, 10, 60000))


class MinimalLoop:
    """The shortest loop: floats in memory, batches by index, nothing measured but the loss."""

    def __init__(self, images: Images, layout: torch.memory_format) -> None:
        self.pixels = torch.from_numpy(images.pixels.astype(np.float32) / np.float32(255))
        self.labels = torch.from_numpy(images.labels)
        self.layout = layout
        self.model = CLASSIFIER.fresh_network(SPEC, (1, 28, 28), 10).to(memory_format=layout)  # type: ignore[call-overload]
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-3, eps=1e-7)

    def run_epoch(self) -> None:
        """Train one epoch."""
        for rows in torch.split(torch.randperm(len(self.labels)), SPEC.batch_size):
            self.optimizer.zero_grad()
            inputs = self.pixels[rows].contiguous(memory_format=self.layout)
            loss = nn.functional.cross_entropy(self.model(inputs), self.labels[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()


def seconds(training: MinimalLoop | Training) -> float:
    """Time one epoch."""
    started = time.perf_counter()
    training.run_epoch()
    return time.perf_counter() - started


def train_alone(images: Images, epochs: int, ready: Event, go: Event, done: Event) -> None:
    """Train in a process of its own: prepare, wait for the word, train."""
    torch.set_num_threads(1)
    training = Training(SPEC, images, 10)
    training.run_epoch()  # what is done only once is done now
    ready.set()
    go.wait()
    for _ in range(epochs):
        training.run_epoch()
    done.set()


def seconds_of(images: Images, *, at_once: bool, epochs: int = 10) -> tuple[float, float]:
    """Time two processes that train a sixth of the images each, at once or in turn.

    Return the seconds of training alone, and those with the start of the processes.
    """
    context = multiprocessing.get_context("spawn")
    part = images.take(np.arange(len(images) // 6))
    events = [[context.Event() for _ in range(3)] for _ in range(2)]
    processes = [
        context.Process(target=train_alone, args=(part, epochs, *three)) for three in events
    ]
    started = time.perf_counter()
    for process in processes:
        process.start()
    for ready, _, _ in events:
        ready.wait()
    prepared = time.perf_counter()
    for _, go, done in events:
        go.set()
        if not at_once:
            done.wait()
    for _, _, done in events:
        done.wait()
    ended = time.perf_counter()
    for process in processes:
        process.join()
    return ended - prepared, ended - started


def main() -> None:
    """Print seconds per epoch of both, their ratio, and what a second worker gains."""
    torch.set_num_threads(1)
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    images = load()
    print(f"{images.name}, {len(images):,} images, {SPEC.network}, {epochs} epochs each, in turn")
    both: dict[str, MinimalLoop | Training] = {
        "minimal loop": MinimalLoop(images, torch.contiguous_format),
        "minimal loop, channels last": MinimalLoop(images, torch.channels_last),
        "oodometer": Training(SPEC, images, 10),
    }
    times: dict[str, list[float]] = {name: [] for name in both}
    for _ in range(epochs):
        for name, training in both.items():
            times[name].append(seconds(training))
    least = {name: min(values) for name, values in times.items()}
    for name, values in times.items():
        ratio = least[name] / least["minimal loop"]
        print(f"{name:28} {min(values):6.2f} s per epoch, at best; {ratio:5.2f} x")
    pairs = [a / b for a, b in zip(times["oodometer"], times["minimal loop"], strict=True)]
    print(f"ratio to the minimal loop's epoch just before, median {np.median(pairs):.2f}")
    training = both["oodometer"]
    assert isinstance(training, Training)
    started = time.perf_counter()
    arrays = training.snapshot()
    size = sum(array.nbytes for array in arrays.values()) / 1e6
    print(f"{'snapshot':28} {1000 * (time.perf_counter() - started):6.2f} ms for {size:.1f} MB")
    (alone, _), (together, whole) = (seconds_of(images, at_once=now) for now in (False, True))
    print(f"{'two trainings':28} {alone:6.2f} s one after the other, {together:6.2f} s at once;")
    print(f"{'':28} {alone / together:6.2f} times as fast; ready in {whole - together:.1f} s")


if __name__ == "__main__":
    main()
