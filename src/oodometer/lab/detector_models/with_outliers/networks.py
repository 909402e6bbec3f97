"""Networks of the classifiers that learn from outliers: images in [0, 1] in, logits out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from oodometer.errors import UserError

Size = Literal["tiny", "small", "paper"]
Shape = tuple[int, ...]

_MEAN, _DEVIATION = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2615)  # of CIFAR's channels


def plain_cnn(size: Size, shape: Shape, outputs: int) -> nn.Sequential:
    """Five convolutions and dense layers with ReLU, without pooling or normalization.

    The networks L (grey) and XL (color) of Bitterwolf et al. 2020, arXiv:2007.08473, appendix C,
    and narrower ones. Every layer has simple interval bounds.
    """
    convolutions, hidden = _WIDTHS[size, "grey" if shape[0] == 1 else "color"]
    layers: list[nn.Module] = []
    for index, (inputs, width) in enumerate(pairwise((shape[0], *convolutions))):
        layers += [nn.Conv2d(inputs, width, 3, 2 if index == 2 else 1, padding=1), nn.ReLU()]
    layers.append(nn.Flatten())
    flat = convolutions[-1] * -(-shape[1] // 2) * -(-shape[2] // 2)
    for inputs, width in pairwise((flat, *hidden)):
        layers += [nn.Linear(inputs, width), nn.ReLU()]
    network = nn.Sequential(*layers, nn.Linear(hidden[-1], outputs))
    if size != "paper":  # so that few epochs are enough
        for module in layers:
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return network


_WIDTHS: dict[tuple[Size, str], tuple[Sequence[int], Sequence[int]]] = {
    ("tiny", "grey"): ((8, 8, 8, 8, 8), (32,)),
    ("tiny", "color"): ((8, 8, 8, 8, 8), (32,)),
    ("small", "grey"): ((16, 16, 32, 32, 32), (128,)),
    ("small", "color"): ((16, 16, 32, 32, 32), (128,)),
    ("paper", "grey"): ((64, 64, 128, 128, 128), (512,)),
    ("paper", "color"): ((128, 128, 256, 256, 256), (512, 512)),
}


class SigmoidGelu(nn.Module):
    """x sigmoid(1.702 x), the approximation of the GELU. arXiv:1606.08415."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to every value."""
        return x * torch.sigmoid(1.702 * x)


class Standardized(nn.Module):
    """Color images in [0, 1] by the mean and standard deviation of CIFAR-10's channels."""

    mean: Tensor
    deviation: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name, values in (("mean", _MEAN), ("deviation", _DEVIATION)):
            self.register_buffer(name, torch.tensor(values).reshape(3, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Subtract the mean, divide by the standard deviation."""
        return (x - self.mean) / self.deviation


def grey_cnn(shape: Shape, outputs: int) -> nn.Sequential:
    """The network for MNIST of Hendrycks et al. 2019, arXiv:1812.04606."""
    side = [(length - 4) // 2 for length in shape[1:]]
    side = [(length - 4) // 2 for length in side]
    _refuse_small("Outlier exposure", shape, 16)
    return nn.Sequential(
        nn.Conv2d(shape[0], 10, 5), SigmoidGelu(), nn.MaxPool2d(2),
        nn.Conv2d(10, 20, 5), nn.Dropout2d(0.5), SigmoidGelu(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(20 * side[0] * side[1], 50), SigmoidGelu(), nn.Linear(50, outputs),
    )  # fmt: skip


def all_convolutional(shape: Shape, outputs: int) -> nn.Sequential:
    """The network for CIFAR of Hendrycks et al. 2019: All-CNN-C with batch normalization.

    As released, its 1 x 1 convolutions are padded, and the mean is over the first 8 x 8 of 10 x 10
    positions.
    """
    _refuse_small("Outlier exposure", shape, 20)
    layers: list[nn.Module] = [Standardized()] if shape[0] == 3 else []

    def add(inputs: int, width: int, kernel: int = 3, padding: int = 1) -> None:
        layers.extend((nn.Conv2d(inputs, width, kernel, padding=padding), nn.BatchNorm2d(width)))
        layers.append(SigmoidGelu())

    for inputs, width in ((shape[0], 96), (96, 192)):
        for before in (inputs, width, width):
            add(before, width)
        layers += [nn.MaxPool2d(2), nn.Dropout(0.5)]
    add(192, 192, padding=0)
    add(192, 192, kernel=1)
    add(192, 192, kernel=1)
    sides = [length // 4 + 2 for length in shape[1:]]
    pool = min(8, *sides)
    flat = 192 * (sides[0] // pool) * (sides[1] // pool)
    return nn.Sequential(*layers, nn.AvgPool2d(pool), nn.Flatten(), nn.Linear(flat, outputs))


class DenseLayer(nn.Module):
    """Bottleneck of 4 x `growth` channels and `growth` new channels beside the old ones."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.new = nn.Sequential(
            nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Append the new channels."""
        return torch.cat((x, self.new(x)), 1)


def densenet(shape: Shape, outputs: int, depth: int = 100, growth: int = 12) -> nn.Sequential:
    """DenseNet-BC, Huang et al. 2017, arXiv:1608.06993, with standardization of color images."""
    layers: list[nn.Module] = [Standardized()] if shape[0] == 3 else []
    width = 2 * growth
    layers.append(nn.Conv2d(shape[0], width, 3, padding=1, bias=False))
    for block in range(3):
        for _ in range((depth - 4) // 6):
            layers.append(DenseLayer(width, growth))
            width += growth
        layers += [nn.BatchNorm2d(width), nn.ReLU()]
        if block < 2:
            layers += [nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
            width //= 2
    network = nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, outputs)
    )
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(
                module.weight, std=(2 / (module.weight[0, 0].numel() * module.out_channels)) ** 0.5
            )
    return network


def _refuse_small(name: str, shape: Shape, least: int) -> None:
    if min(shape[1:]) < least:
        raise UserError(
            f"{name} in this size needs images of at least {least} x {least}, got {shape[1]} x "
            f"{shape[2]}: use size tiny."
        )
