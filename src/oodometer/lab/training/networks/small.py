"""Small networks: quick to train, for trying things out and for images like those of MNIST."""

from __future__ import annotations

from torch import nn

from oodometer.errors import UserError
from oodometer.lab.training.networks._parts import numbered, staged


def mlp(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """Two hidden layers of 4 x `width` units."""
    return numbered(
        nn.Flatten(),
        nn.Linear(channels * height * width, 4 * units),
        nn.ReLU(),
        nn.Linear(4 * units, 4 * units),
        nn.ReLU(),
        nn.Linear(4 * units, classes),
        stages=(2, 4),
    )


def small_cnn(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """Two convolutions of `width` and 2 x `width` channels, pooling, one hidden layer of 4 x."""
    _refuse_small("small_cnn", 4, height, width)
    return numbered(
        nn.Conv2d(channels, units, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(units, 2 * units, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * units * (height // 4) * (width // 4), 4 * units),
        nn.ReLU(),
        nn.Linear(4 * units, classes),
        stages=(2, 5),
    )


def cnn(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """Keras' example for MNIST: 2 convolutions, 2 dense layers, dropout; `width` filters first.

    Convolutions without padding of `width` and 2 x `width` filters, max-pooling, dropout 1/4, a
    dense layer of 4 x `width` units, dropout 1/2, the head. Weights are Glorot-uniform and biases
    0, Keras' defaults. The file is examples/mnist_cnn.py of Keras 2.
    """
    _refuse_small("cnn", 6, height, width)
    network = staged(
        {
            "stage1": nn.Sequential(nn.Conv2d(channels, units, 3), nn.ReLU()),
            "stage2": nn.Sequential(nn.Conv2d(units, 2 * units, 3), nn.ReLU(), nn.MaxPool2d(2)),
        },
        nn.Sequential(
            nn.Dropout(0.25),
            nn.Flatten(),
            nn.Linear(2 * units * ((height - 4) // 2) * ((width - 4) // 2), 4 * units),
            nn.ReLU(),
            nn.Dropout(0.5),
        ),
        nn.Linear(4 * units, classes),
    )
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            assert module.bias is not None
            nn.init.zeros_(module.bias)
    return network


def _refuse_small(name: str, least: int, height: int, width: int) -> None:
    if min(height, width) < least:
        raise UserError(
            f"Network '{name}' needs images of at least {least} x {least}, got {height} x {width}."
        )
