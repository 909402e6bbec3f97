"""Time training and scoring of detector models beside the arithmetic that they take.

    OMP_NUM_THREADS=1 python benchmarks/detector_models.py [model ...] [--size small]

The limit is the time of a model's multiply-adds, counted by PyTorch, at the rate of a plain matrix
product on the same core in the same run. Two batches are trained and 64 images scored, the shortest
of several times counts; all times are CPU times. Convolutions from or to few channels read and
write more than they compute, and stay far from the limit: PixelCNN++ of 16 filters takes 3.3 times
as long, Glow of 64 hidden channels 2 times for color images, but 3.5 times for grey ones, whose
couplings go from 2 or 4 channels to 64 and back. Wants an idle machine.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from oodometer.errors import UserError
from oodometer.lab.data.samples import Images
from oodometer.lab.detector_models import MODELS, DetectorModel, answers_of
from oodometer.lab.training.train import Training
from oodometer.study import TrainSpec

SHAPES = {"grey": (1, 28, 28), "color": (3, 32, 32)}
BATCHES, SCORED, CLASSES = 2, 64, 10


def seconds(action: Callable[[], object], repeats: int = 3) -> float:
    """The shortest CPU time of an action, which is done once before."""
    action()
    times = []
    for _ in range(repeats):
        started = time.process_time()
        action()
        times.append(time.process_time() - started)
    return min(times)


class Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations by PyTorch's own formulas, without its hooks, which attacks break."""

    total: int = 0

    def __torch_dispatch__(  # type: ignore[no-untyped-def]
        self, func, types, args=(), kwargs=None
    ):
        """Do an operation and add what it takes."""
        made = func(*args, **(kwargs or {}))
        formula = flop_registry.get(func._overloadpacket)
        if formula is not None:
            self.total += int(formula(*args, **(kwargs or {}), out_val=made))
        return made


def operations(action: Callable[[], object]) -> int:
    """How many multiplications and additions an action takes in matrix products."""
    counter = Counter()  # type: ignore[no-untyped-call]
    with counter:
        action()
    return counter.total


def fastest_rate(side: int = 768) -> float:
    """Operations per second of a plain matrix product."""
    left, right = torch.randn(2, side, side)
    return 2 * side**3 / seconds(lambda: left @ right, repeats=20)


def images(count: int, shape: tuple[int, ...], classes: int) -> Images:
    """Noise with labels."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (count, *shape), np.uint8)
    return Images("noise", pixels, np.arange(count) % classes)


def widest(model: nn.Module) -> int:
    """The most channels that a convolution makes."""
    made = [module.out_channels for module in model.modules() if isinstance(module, nn.Conv2d)]
    return max(made, default=0)


def measure(card: DetectorModel, size: str, kind: str, rate: float) -> str:
    """One line of the table."""
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
    step = operations(training.run_epoch) / BATCHES
    step_seconds = seconds(training.run_epoch) / BATCHES
    model = card.task.fresh_network(spec, shape, classes)
    weights = training.finished_weights("last")
    model.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    scored = images(SCORED, shape, classes)

    def score() -> None:
        answers_of(card, model.eval(), scored)

    asked, asked_seconds = operations(score), seconds(score)
    return (
        f"{card.name:28} {kind:5} {widest(model):8} {asked / 2e6 / SCORED:10.1f} "
        f"{1000 * step_seconds:9.0f} {step_seconds * rate / step:8.1f} "
        f"{1000 * asked_seconds / SCORED:9.2f} {asked_seconds * rate / asked:8.1f}"
    )


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="*", help="names of detector models; all by default")
    parser.add_argument("--size", default="small", choices=("tiny", "small", "paper"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"matrix product: {fastest_rate() / 1e9:.0f} GFLOP/s")
    print(
        f"{'model':28} {'data':5} {'channels':>8} {'MMAC/image':>10} {'step ms':>9} {'x limit':>8} "
        f"{'score ms':>9} {'x limit':>8}"
    )
    for name in arguments.model or MODELS:
        for kind in SHAPES:
            rate = fastest_rate()  # anew: the speed of a core changes with its load
            try:
                line = measure(MODELS[name], arguments.size, kind, rate)
            except UserError as refused:  # such as a network that is for color images only
                line = f"{name:28} {kind:5} {refused}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
