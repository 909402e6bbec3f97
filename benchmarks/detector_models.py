"""Time training and scoring of detector models beside the arithmetic that they take.

    OMP_NUM_THREADS=1 python benchmarks/detector_models.py [model ...] [--size small] [--write FILE]

The limit is the time of a model's multiply-adds, counted by PyTorch, at the rate of a plain matrix
product on the same core in the same run. Two batches are trained and 64 images scored, the shorter
of two times counts; all times are CPU times. *Channels* is the width of layers in which half of the
multiply-adds are done, where the width of a layer is the smaller of its numbers of inputs and
outputs per pixel: convolutions from or to few channels read and write more than they compute, and
stay far from the limit. All models take a few minutes; --write keeps the table as CSV
(docs/results/detector-model-speed.csv). Wants an idle machine.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from oodometer.errors import UserError
from oodometer.lab.data.samples import Images
from oodometer.lab.detector_models import MODELS, DetectorModel, answers_of
from oodometer.lab.training.train import Training
from oodometer.study import TrainSpec

SHAPES = {"grey": (1, 28, 28), "color": (3, 32, 32)}
BATCHES, SCORED, CLASSES = 2, 64, 10


def seconds(action: Callable[[], object], repeats: int = 2) -> float:
    """The shortest CPU time of an action; the caller has done it once before."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        action()
        times.append(time.process_time() - started)
    return min(times)


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations by PyTorch's own formulas, without its hooks, which attacks break."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.by_width: Counter[int] = Counter()

    def __torch_dispatch__(  # type: ignore[no-untyped-def]
        self, func, types, args=(), kwargs=None
    ):
        """Do an operation and add what it takes."""
        made = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            count = int(formula(*args, **(kwargs or {}), out_val=made))
            self.by_width[_width([a for a in args if isinstance(a, Tensor)])] += count
        return made


def _width(tensors: list[Tensor]) -> int:
    """The smaller of inputs and outputs per pixel or row of a convolution or matrix product."""
    # Of a convolution, forward or backward, the weights are the last with four dimensions.
    weight = [t for t in tensors if t.dim() >= 2][-1]
    return min(weight.shape[:2]) if weight.dim() == 4 else min(weight.shape[-2:])


@dataclass(frozen=True)
class Operations:
    """How many multiplications and additions an action takes in matrix products."""

    total: int
    channels: int  # width of layers in which half of them are done, or more


def operations(action: Callable[[], object]) -> Operations:
    """Count the operations of an action."""
    counting = Counting()
    with counting:
        action()
    total, so_far = counting.by_width.total(), 0
    for width, count in sorted(counting.by_width.items(), reverse=True):
        so_far += count
        if 2 * so_far >= total:
            return Operations(total, width)
    return Operations(total, 0)


def fastest_rate(side: int = 768) -> float:
    """Operations per second of a plain matrix product."""
    left, right = torch.randn(2, side, side)
    torch.mm(left, right)
    return 2 * side**3 / seconds(lambda: left @ right, repeats=20)


def images(count: int, shape: tuple[int, ...], classes: int) -> Images:
    """Noise with labels."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (count, *shape), np.uint8)
    return Images("noise", pixels, np.arange(count) % classes)


def measure(card: DetectorModel, size: str, kind: str, rate: float) -> dict[str, str]:
    """One row of the table."""
    shape = SHAPES[kind]
    study = TrainSpec.model_validate({"data": "noise", "model_size": size, "auxiliary": "noise"})
    spec = card.recipe(study, (10**6, *shape), member=int(card.members > 1))
    classes = 2 if card.per == "outliers" else CLASSES
    trained = images(BATCHES * spec.batch_size, shape, classes)
    changes = {"train_size": None, "validation": 0.0, "epoch": "last", "stopping": "none"}
    if "validation" in spec.schedule:
        changes["schedule"] = "constant"
    spec = spec.model_copy(update=changes)
    training = Training(
        spec, trained, classes, task=card.task,
        auxiliary=trained if card.task.outliers_per_input else None,
    )  # fmt: skip
    training.run_epoch()  # some layers start with what the first batch shows
    step = operations(training.run_epoch)
    step_seconds = seconds(training.run_epoch)
    model = card.task.fresh_network(spec, shape, classes)
    weights = training.finished_weights("last")
    model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    scored = images(SCORED, shape, classes)

    def score() -> None:
        answers_of(card, model.eval(), scored)

    asked = operations(score)
    asked_seconds = seconds(score)
    return {
        "model": card.name,
        "size": size,
        "data": kind,
        "channels": str(asked.channels or step.channels),
        "MMAC per image": f"{asked.total / 2e6 / SCORED:.1f}",
        "ms per step": f"{1000 * step_seconds / BATCHES:.0f}",
        "step over limit": f"{step_seconds * rate / step.total:.1f}",
        "ms per image scored": f"{1000 * asked_seconds / SCORED:.2f}",
        "scoring over limit": (f"{asked_seconds * rate / asked.total:.1f}" if asked.total else ""),
    }


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="*", help="names of detector models; all by default")
    parser.add_argument("--size", default="small", choices=("tiny", "small", "paper"))
    parser.add_argument("--write", type=Path, help="CSV file to write the table to")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"matrix product: {fastest_rate() / 1e9:.0f} GFLOP/s")
    rows: list[dict[str, str]] = []
    for name in arguments.model or MODELS:
        for kind in SHAPES:
            rate = fastest_rate()  # anew: the speed of a core changes with its load
            try:
                rows.append(measure(MODELS[name], arguments.size, kind, rate))
            except UserError as refused:  # such as a network that is for color images only
                print(f"# {name}, {kind}: {refused}", flush=True)
                continue
            if len(rows) == 1:
                print(",".join(rows[0]))
            print(",".join(rows[-1].values()), flush=True)
    if arguments.write is not None:
        with arguments.write.open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            table.writeheader()
            table.writerows(rows)


if __name__ == "__main__":
    main()
