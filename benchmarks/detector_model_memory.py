"""Measure the memory that scoring takes: it must not grow with the number of images.

    OMP_NUM_THREADS=1 python benchmarks/detector_model_memory.py [model ...] [--images 10000]

Scores a fifth of the images, then all, of 96 x 96 pixels in three channels, with untrained weights
of the small size, and prints the peak memory of each above what the process had before, and its
ratio to the memory of the images. A model whose peak grows by more than 32 bytes per image and
number of its answer is marked. Linux with glibc only: the peak is that of /proc/self, and large
blocks of memory are given back at once, so that peaks do not depend on what was done before.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch

from oodometer.errors import UserError
from oodometer.fitted.images import as_images
from oodometer.lab.detector_models import MODELS, DetectorModel, answers_of
from oodometer.lab.training.task import Batch
from oodometer.study import TrainSpec

SHAPE, CLASSES, SHARE = (3, 96, 96), 10, 5
FITTED = 20  # images that statistics are fitted to
PER_NUMBER = 32  # bytes that may be kept of each image and number of its answer
NOISE = 2**20 * 8  # bytes that the allocator may or may not have given back


def memory(field: str) -> int:
    """A field of the status of this process, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split(f"{field}:")[1].split()[0]) * 1024


def peak_of(card: DetectorModel, spec: TrainSpec, pixels: np.ndarray) -> tuple[int, int]:
    """Score images; return the bytes at the peak beyond those before, and numbers per image."""
    model = card.task.fresh_network(spec, SHAPE, CLASSES).eval()
    if card.task.finish is not None:  # some compare with training images
        inputs, labels = torch.from_numpy(pixels[:FITTED]), torch.arange(FITTED) % CLASSES
        with torch.no_grad():
            card.task.finish(spec, model, [Batch(inputs, labels)])
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak so far
    before = memory("VmRSS")
    answers = answers_of(card, model, as_images(pixels))
    return memory("VmHWM") - before, answers[0].numel()


def main() -> None:
    """Measure and print a table."""
    if "MALLOC_MMAP_THRESHOLD_" not in os.environ:  # it is read when a process starts
        environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="*", help="names of detector models; all by default")
    parser.add_argument("--images", type=int, default=10_000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    part = rng.uniform(size=(100, *SHAPE)).astype(np.float32)
    pixels = np.tile(part, (arguments.images // 100, 1, 1, 1))
    few = len(pixels) // SHARE
    held = pixels.nbytes / 2**20
    print(f"{len(pixels)} images of {SHAPE} take {held:.0f} MiB as float32")
    print(f"{'model':28} {'MiB, ' + str(few):>12} {'MiB, ' + str(len(pixels)):>12} "
          f"{'over images':>12} {'seconds':>8}")  # fmt: skip
    study = TrainSpec.model_validate({"data": "noise", "model_size": "small", "auxiliary": "noise"})
    for name in arguments.model or MODELS:
        card, started = MODELS[name], time.process_time()
        try:
            spec = card.recipe(study, (10**5, *SHAPE), member=int(card.members > 1))
            peak_of(card, spec, pixels[:64])  # libraries reserve memory when they are first used
            first, _ = peak_of(card, spec, pixels[:few])
            last, numbers = peak_of(card, spec, pixels)
        except UserError as refused:
            print(f"{name:28} {refused}", flush=True)
            continue
        allowed = PER_NUMBER * numbers * (len(pixels) - few) + NOISE
        print(f"{name:28} {first / 2**20:12.1f} {last / 2**20:12.1f} "
              f"{last / pixels.nbytes:12.3f} {time.process_time() - started:8.0f}"
              f"{'  grows' * (last - first > allowed)}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
