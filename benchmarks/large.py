"""Score outputs that do not fit into memory, and print how much memory that took.

    python benchmarks/large.py [--rows N] [--width N] [--memory MIB] [--folder DIR] [DETECTOR ...]

A million training features of width 2048, 8 GB in float32, are written to a file once and read
from there, memory-mapped. Every detector runs in a process of its own, so that its peak of resident
memory is known. `knn(share=0.01)` keeps one in a hundred of the training features, as its authors
do on ImageNet; plain `knn` is exact and reads all of them for every few hundred queries.

On a busy machine, one thread, at the default size: mahalanobis takes 257 s of CPU and 1.31 GiB at
its peak, vim 309 s and 1.13 GiB, knn(share=0.01) 2.3 s and 1.29 GiB.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from oodometer.outputs import Head, Outputs
from oodometer.scoring import score

CLASSES, QUERIES = 100, 1000


def write(folder: Path, rows: int, width: int) -> None:
    """Write training features class by class, and a few to score."""
    rng = np.random.default_rng(0)
    means = rng.standard_normal((CLASSES, width), np.float32)
    features = np.lib.format.open_memmap(folder / "train.npy", "w+", np.float32, (rows, width))
    labels = rng.integers(0, CLASSES, rows)
    noise = rng.standard_normal((4096, width), np.float32)
    for start in range(0, rows, len(noise)):
        part = labels[start : start + len(noise)]
        turned = np.roll(noise, start // len(noise), axis=1)[: len(part)]
        np.maximum(means[part] + turned, 0, out=features[start : start + len(part)])
        if start % 2**16 == 0:
            features.flush()
    np.save(folder / "labels.npy", labels)
    np.save(folder / "weight.npy", means / width)
    for name, shift in (("test", 1.0), ("noise", 0.0)):
        own = means[rng.integers(0, CLASSES, QUERIES)]
        drawn = shift * own + rng.standard_normal((QUERIES, width), np.float32)
        np.save(folder / f"{name}.npy", np.maximum(drawn, 0))


def peak_memory() -> float:
    """Return the most memory that this process had resident, in GiB; Linux only."""
    # Not ru_maxrss: that remembers the process which started this one.
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / 2**20


def run(folder: Path, detector: str, memory: int) -> None:
    """Score with one detector; print the time and the peak of resident memory."""
    torch.set_num_threads(1)
    weight = torch.from_numpy(np.load(folder / "weight.npy"))
    head = Head(weight, torch.zeros(len(weight)))
    start = peak_memory()
    started = time.process_time()
    outputs = {
        "train": Outputs(
            features=np.load(folder / "train.npy", mmap_mode="r"),
            labels=torch.from_numpy(np.load(folder / "labels.npy")),
            head=head,
        ),
        "test": Outputs(features=torch.from_numpy(np.load(folder / "test.npy")), head=head),
        "noise": Outputs(features=torch.from_numpy(np.load(folder / "noise.npy")), head=head),
    }
    checked = time.process_time() - started
    table = score(outputs, [detector], memory=memory * 2**20)
    spent = time.process_time() - started - checked
    auroc = float(table.summary()["auroc"].iloc[0])
    print(
        f"{detector:24} checking {checked:6.1f} s, scoring {spent:7.1f} s of CPU, peak "
        f"{peak_memory():.2f} GiB resident ({start:.2f} before), AUROC {auroc:.4f}",
        flush=True,
    )


def main() -> None:
    """Write the files, then run every detector in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("detectors", nargs="*")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--memory", type=int, default=256, help="working memory, in MiB")
    parser.add_argument("--folder", type=Path, help="where the files are, or are to be kept")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        run(given.folder, given.only, given.memory)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "noise.npy").exists():
            write(folder, given.rows, given.width)
        size = (folder / "train.npy").stat().st_size / 2**30
        print(f"{size:.2f} GiB of training features, {given.memory} MiB of working memory")
        names = given.detectors or ["mahalanobis", "vim", "knn(share=0.01)"]
        for name in names:
            command = [sys.executable, __file__, "--only", name, "--folder", str(folder)]
            subprocess.run([*command, "--memory", str(given.memory)], check=True)


if __name__ == "__main__":
    main()
