"""How much work a task is, by the multiplications of its network, and how much memory it needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from oodometer.study import TrainSpec

if TYPE_CHECKING:
    from oodometer.lab.training.task import Task

# What decides how fast a network is.
_OF_A_STEP = ("network", "width", "model_size", "auxiliary", "optimizer", "batch_size", "loss",
              "adversarial", "augment", "gradient_norm", "epochs")  # fmt: skip

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
class Kind:
    """What decides how fast a network is: networks of one kind take the same time for a sample."""

    spec: TrainSpec  # only what decides it
    shape: tuple[int, ...]
    classes: int
    model: str = ""  # the detector model, if it is one


class Pace(NamedTuple):
    """Seconds of one core that a kind of network takes."""

    step: float  # for a training step,
    sample: float  # and for each sample of its batch
    finish: float  # to be finished after training, for each sample
    answer: float  # to answer one sample
    draw: float  # to draw images for the report after training
    whole: bool  # False: drawing them takes much longer
    timed: int  # steps
    spent: float  # on timing them, of one core
    waited: float  # by the clock, which tells how busy the machine is

    def training(self, epochs: int, samples: int, batch: int) -> float:
        """Seconds of a whole training."""
        steps = -(-samples // batch)
        trained = epochs * (steps * self.step + samples * self.sample)
        return trained + samples * self.finish + self.draw


@dataclass(frozen=True)
class Asking:
    """What a search, or the scoring of what was found, asks: units of work, by network."""

    name: str  # of all that take the same time
    networks: Mapping[str, float]  # `TrainingPlan.network` -> units

    @property
    def units(self) -> float:
        """All of it."""
        return sum(self.networks.values())


@dataclass(frozen=True)
class Cost:
    """What a run will take, in units of work (not seconds) and in bytes."""

    training: float
    extraction: float
    memory: int
    sample: float = 0.0  # one sample in one pass
    samples: int = 0  # that it is trained on
    probed: bool = False  # whether extraction asks more of the network than plain answers
    kind: Kind | None = None
    asking: Mapping[str, Asking] = field(default_factory=dict)  # unit of scoring -> what it asks


def kind_of(spec: TrainSpec, size: DataSize, model: str = "") -> Kind:
    """The kind of a network that is trained by a specification, on data of a size."""
    decides = {name: getattr(spec, name) for name in _OF_A_STEP}
    return Kind(TrainSpec(data="-", **decides), size.shape, size.classes, model)


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
        samples=samples,
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
