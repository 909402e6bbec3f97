"""Train a classifier from its specification: the same specification gives the same weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import nn

from oodometer.errors import UserError, unknown
from oodometer.lab.datasets import Images
from oodometer.lab.networks import build_network
from oodometer.study import TrainSpec

Parameters = Iterable[nn.Parameter]
OptimizerFactory = Callable[[Parameters, float], torch.optim.Optimizer]

# Name -> its usual learning rate and how to make it; settings are those of Keras, which the
# studies of optimizers use (its epsilon is 1e-7).
OPTIMIZERS: dict[str, tuple[float, OptimizerFactory]] = {
    "sgd": (1e-2, lambda p, lr: torch.optim.SGD(p, lr)),
    "sgd_momentum": (1e-2, lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9)),
    "adam": (1e-3, lambda p, lr: torch.optim.Adam(p, lr, eps=1e-7)),
    "adamax": (1e-3, lambda p, lr: torch.optim.Adamax(p, lr, eps=1e-7)),
    "nadam": (1e-3, lambda p, lr: torch.optim.NAdam(p, lr, eps=1e-7, momentum_decay=0.004)),
    "rmsprop": (1e-3, lambda p, lr: torch.optim.RMSprop(p, lr, alpha=0.9, eps=1e-7)),
    "adagrad": (
        1e-2,
        lambda p, lr: torch.optim.Adagrad(p, lr, initial_accumulator_value=0.1, eps=1e-7),
    ),
    "adadelta": (1e-1, lambda p, lr: torch.optim.Adadelta(p, lr, rho=0.95, eps=1e-7)),
}


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained classifier and its learning curve."""

    model: nn.Module
    losses: tuple[float, ...]  # mean training loss of each epoch


def fresh_network(spec: TrainSpec, image_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Build the network with initial weights that depend on the seed and on nothing else."""
    channels, height, width = image_shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)  # inside the fork: PyTorch's layers draw from the global state
        return build_network(spec.network, (channels, height, width), classes, spec.width)


def train(spec: TrainSpec, images: Images, classes: int) -> Trained:
    """Train from scratch; cross-entropy, the same order of batches for the same seed."""
    if spec.optimizer not in OPTIMIZERS:
        raise unknown("optimizer", spec.optimizer, OPTIMIZERS)
    pixels, labels = torch.from_numpy(images.pixels), torch.from_numpy(images.labels)
    model = fresh_network(spec, images.pixels.shape[1:], classes)
    usual_rate, make = OPTIMIZERS[spec.optimizer]
    optimizer = make(model.parameters(), spec.learning_rate or usual_rate)
    order = torch.Generator().manual_seed(spec.seed)
    losses = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)  # for dropout, which knows no other source
        model.train()
        for epoch in range(1, spec.epochs + 1):
            total = 0.0
            shuffled = torch.randperm(len(labels), generator=order)
            for batch in torch.split(shuffled, spec.batch_size):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(pixels[batch]), labels[batch])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                total += loss.item() * len(batch)
            losses.append(total / len(labels))
            if not math.isfinite(losses[-1]):
                raise UserError(
                    f"Training diverged: the loss of epoch {epoch} is {losses[-1]} with optimizer "
                    f"{spec.optimizer} at learning rate {spec.learning_rate or usual_rate:g}; "
                    "a smaller one may help."
                )
    model.eval()
    return Trained(model, tuple(losses))
