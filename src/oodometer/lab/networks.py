"""Networks with a linear head: image in, logits out."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from oodometer.errors import UserError, unknown


def mlp(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """Two hidden layers of 4 x `width` units."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(channels * height * width, 4 * units),
        nn.ReLU(),
        nn.Linear(4 * units, 4 * units),
        nn.ReLU(),
        nn.Linear(4 * units, classes),
    )


def small_cnn(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """Two convolutions of `width` and 2 x `width` channels, pooling, one hidden layer of 4 x."""
    if height < 4 or width < 4:
        raise UserError(
            f"Network 'small_cnn' needs images of at least 4 x 4, got {height} x {width}."
        )
    return nn.Sequential(
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
    )


KNOWN: dict[str, Callable[[int, int, int, int, int], nn.Module]] = {
    build.__name__: build for build in (mlp, small_cnn)
}


def build_network(
    name: str, image_shape: tuple[int, int, int], classes: int, units: int
) -> nn.Module:
    """Build a known network for images of this shape."""
    if name not in KNOWN:
        raise unknown("network", name, KNOWN)
    return KNOWN[name](*image_shape, classes, units)
