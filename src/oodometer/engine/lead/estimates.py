"""How long a task takes and how much memory it needs: as measured, else by the size of its work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from oodometer.engine.plan.artefacts import Stage
from oodometer.study import TrainSpec

if TYPE_CHECKING:
    from oodometer.lab.training.task import Task

# Python with PyTorch, before it has read any data.
BYTES_OF_A_WORKER = 350 * 2**20
_FLOAT = 4


@dataclass(frozen=True)
class DataSize:
    """How much data a run reads."""

    train: int  # samples
    scored: int  # samples, of all data sets that are scored
    shape: tuple[int, ...]  # of one sample
    classes: int
    bytes: int  # of all of it
    kept: int = 0  # bytes of data of other runs that a process may keep meanwhile


@dataclass(frozen=True)
class NetworkSize:
    """What one sample costs in one pass through a network."""

    parameters: int
    products: int  # multiplications
    activations: int  # numbers that all layers put out
    features: int  # numbers that enter the last layer


@dataclass(frozen=True)
class Cost:
    """What a run will take, in units of work (not seconds) and in bytes."""

    training: float
    extraction: float
    memory: int
    sample: float = 0.0  # one sample in one pass
    searching: float = 0.0  # passes that searches ask for


def estimate(
    spec: TrainSpec,
    size: DataSize,
    detectors: int,
    *,
    task: Task | None = None,
    keeps_inputs: bool = False,
) -> Cost:
    """Estimate a run's cost from its epochs, its data and its network.

    `task` is what it learns, if not to classify. `keeps_inputs`: a probe compares with all
    training inputs, as floats.
    """
    network = _network_size(
        spec.network, spec.width, size.shape, size.classes, task, spec.model_size
    )
    samples = size.train if spec.train_size is None else min(size.train, spec.train_size)
    batch = min(spec.batch_size, samples)
    training = (
        # Weights, gradients, two moments; forward and backward of a batch; that batch as floats.
        4 * network.parameters + 2 * batch * network.activations + batch * math.prod(size.shape)
    )
    # Outputs of the training set and the scored sets, and a copy for what a detector does to them.
    outputs = 2 * (samples + size.scored) * (network.features + size.classes)
    extraction = max(256 * network.activations, outputs) + network.parameters
    extraction += 2 * samples * math.prod(size.shape) if keeps_inputs else 0  # parts, and joined
    return Cost(
        # A backward pass costs twice a forward pass; each step of an optimizer reads all weights.
        training=spec.epochs * (3.0 * samples * network.products + _steps(samples, batch) * 1e5),
        extraction=float((samples + size.scored) * network.products) + detectors,
        memory=BYTES_OF_A_WORKER + size.kept + 2 * size.bytes + _FLOAT * max(training, extraction),
        sample=float(network.products),
    )


def _steps(samples: int, batch: int) -> int:
    return max(1, samples // max(1, batch))


@cache
def _network_size(
    name: str,
    width: int | None,
    shape: tuple[int, ...],
    classes: int,
    task: Task | None = None,
    model_size: str = "small",
) -> NetworkSize:
    """Measure a network by sending one sample of no content through it, on no device at all."""
    import torch
    from torch import nn

    from oodometer.lab.training.task import CLASSIFIER

    products = activations = features = 0

    def count(module: nn.Module, inputs: object, output: object) -> None:
        nonlocal products, activations, features
        if not isinstance(output, torch.Tensor):
            return
        activations += output.numel()
        weight = getattr(module, "weight", None)
        if isinstance(weight, torch.Tensor) and weight.dim() > 1:
            products += output.numel() * math.prod(weight.shape[1:])
        if isinstance(module, nn.Linear):
            features = module.in_features

    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad(), torch.device("meta"):
            fields = {"network": name, "width": width, "model_size": model_size}
            spec = TrainSpec.model_validate({"data": "-", **fields})
            model = (task or CLASSIFIER).network(spec, shape, classes).eval()
            leaves = [module for module in model.modules() if not list(module.children())]
            for module in leaves:
                module.register_forward_hook(count)
            kind = torch.float32 if len(shape) == 3 else torch.int64
            model(torch.zeros((1, *shape), dtype=kind))
            parameters = sum(parameter.numel() for parameter in model.parameters())
    except (Exception, SystemExit):  # noqa: BLE001 - somebody's own network: a guess must do
        inputs = math.prod(shape)
        return NetworkSize(2**20, inputs * 1000, inputs * 100, 1024)
    return NetworkSize(parameters, products, activations, features)


class Durations:
    """Seconds that tasks took, and by them what others will take."""

    def __init__(self) -> None:
        # stage, and which network or detector -> seconds, units of work
        self._seen: dict[tuple[Stage, str], tuple[float, float]] = {}

    def note(self, stage: Stage, name: str, units: float, seconds: float) -> None:
        """Learn from a task; what one network takes tells something about all of them, too."""
        for kind in {(stage, name), (stage, "")}:
            before = self._seen.get(kind, (0.0, 0.0))
            self._seen[kind] = before[0] + seconds, before[1] + units

    def guess(self, stage: Stage, name: str, units: float) -> float | None:
        """Seconds that so much work takes; None before anything was seen of its stage."""
        for kind in ((stage, name), (stage, "")):
            seconds, seen = self._seen.get(kind, (0.0, 0.0))
            if seen > 0:
                return seconds / seen * units
        return None


def read_memory(text: str) -> int:
    """Read a number of bytes such as "4GB", "512 MiB" or "2e9"."""
    from oodometer.errors import UserError

    units: Mapping[str, int] = {
        "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
        "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40,
        "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
    }  # fmt: skip
    plain = text.strip().lower().replace(" ", "")
    number = plain.rstrip("bkmgti")
    try:
        size = float(number) * units[plain[len(number) :]]
        if not 0 < size < math.inf:
            raise ValueError
    except (ValueError, KeyError):
        raise UserError(
            f"memory is '{text}', but must be a number of bytes such as 4GB, 512MiB or 2e9."
        ) from None
    return int(size)
