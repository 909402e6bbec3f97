"""VGG-16 with batch norm (Simonyan and Zisserman 2015, arXiv:1409.1556), in two variants."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

from oodometer.lab.training.networks._parts import Staged, global_average, init_kaiming, staged

# Channels of the 3 x 3 convolutions of each stage, in multiples of the first.
_SIXTEEN = ((1, 1), (2, 2), (4, 4, 4), (8, 8, 8), (8, 8, 8))
_REDUCED = ((1,), (2, 2), (4, 4), (8, 8))


def _convolutions(channels: int, multiples: Iterable[int], units: int) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for multiple in multiples:
        outputs = multiple * units
        # With a bias although the norm has one: so have the references.
        layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
        channels = outputs
    return layers


def vgg16(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """VGG-16 with batch norm of kuangliu/pytorch-cifar; `width` channels first, 8 x at the end.

    One linear layer after an average over positions, no dropout. The max-pooling rounds sizes up,
    so that images of less than 32 pixels fit; at multiples of 32 nothing changes.
    """
    stages: dict[str, nn.Module] = {}
    for number, multiples in enumerate(_SIXTEEN, start=1):
        layers = _convolutions(channels, multiples, units)
        stages[f"stage{number}"] = nn.Sequential(*layers, nn.MaxPool2d(2, ceil_mode=True))
        channels = multiples[-1] * units
    return staged(stages, global_average(), nn.Linear(channels, classes))


def vgg16_od_test(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """OD-test's VGG-16 with batch norm and dropout, by image size; `width` as for vgg16.

    Two hidden layers of 64 x `width` units, each with dropout 1/2, on all positions of the last
    map. Below 32 pixels 7 convolutions and hidden layers of 4 x `width`; below 64 pixels no
    max-pooling at the end (Shafaei et al. 2019, arXiv:1809.04729, code). The published networks
    begin with (x - 0.449) * 4.42477, which is left to the data here.
    """
    side = min(height, width)
    table, hidden = (_REDUCED, 4 * units) if side < 32 else (_SIXTEEN, 64 * units)
    stages: dict[str, nn.Module] = {}
    for number, multiples in enumerate(table, start=1):
        layers = _convolutions(channels, multiples, units)
        channels = multiples[-1] * units
        # Of maps that are a single pixel high or wide, which no published size leads to, no more.
        if min(height, width) > 1 and not (32 <= side < 64 and number == len(table)):
            layers.append(nn.MaxPool2d(2))
            height, width = height // 2, width // 2
        stages[f"stage{number}"] = nn.Sequential(*layers)
    dense = nn.Sequential(
        nn.Flatten(),
        nn.Linear(channels * height * width, hidden),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Dropout(0.5),
    )
    return _as_torchvision(staged(stages, dense, nn.Linear(hidden, classes)))


def _as_torchvision(network: Staged) -> Staged:
    """Initial weights of torchvision's VGG: He-normal convolutions, small linear layers."""
    init_kaiming(network, mode="fan_out")
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0, 0.01)
            nn.init.zeros_(module.bias)
    return network
