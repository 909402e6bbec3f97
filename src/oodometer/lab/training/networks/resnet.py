"""Residual networks (He et al. 2016, arXiv:1512.03385), as several code bases build them.

The name "ResNet" does not tell a network: one with the stem for CIFAR differs from one with the
stem for ImageNet, and the initial weights differ between code bases. Here they are kept apart.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from torch import Tensor, nn

from oodometer.lab.training.networks._parts import (
    Staged,
    conv_norm,
    conv_norm_relu,
    global_average,
    init_kaiming,
    staged,
)

LARGE = 64  # images with both sides above this get the stem of the networks for ImageNet


class Residual(nn.Module):
    """``relu(body(x) + shortcut(x))``."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut, self.relu = body, shortcut, nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Add what the body computes to what the shortcut carries."""
        out: Tensor = self.relu(self.body(x) + self.shortcut(x))
        return out


class PadShortcut(nn.Module):
    """Shortcut without weights ("option A"): every second position, new channels are zero."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        before = (outputs - inputs) // 2
        self.padding = (0, 0, 0, 0, before, outputs - inputs - before)

    def forward(self, x: Tensor) -> Tensor:
        """Take every second row and column, and pad the channels on both sides."""
        return nn.functional.pad(x[:, :, ::2, ::2], self.padding)


def _projection(inputs: int, outputs: int, stride: int) -> nn.Module:
    """Shortcut with weights where the shape changes ("option B")."""
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(conv_norm(inputs, outputs, 1, stride))


def _basic_body(inputs: int, units: int, stride: int) -> nn.Module:
    return nn.Sequential(
        conv_norm_relu(inputs, units, 3, stride), nn.Sequential(conv_norm(units, units, 3))
    )


def _basic(inputs: int, units: int, stride: int) -> Residual:
    return Residual(_basic_body(inputs, units, stride), _projection(inputs, units, stride))


def _basic_padded(inputs: int, units: int, stride: int) -> Residual:
    same = stride == 1 and inputs == units
    shortcut = nn.Identity() if same else PadShortcut(inputs, units)
    return Residual(_basic_body(inputs, units, stride), shortcut)


def _bottleneck(inputs: int, units: int, stride: int) -> Residual:
    # The stride is that of the 3 x 3 convolution, in all code bases here; the paper has it before.
    body = nn.Sequential(
        conv_norm_relu(inputs, units, 1),
        conv_norm_relu(units, units, 3, stride),
        nn.Sequential(conv_norm(units, 4 * units, 1)),
    )
    return Residual(body, _projection(inputs, 4 * units, stride))


Block = Callable[[int, int, int], Residual]


def _stem(channels: int, units: int, kernel: int, stride: int, *, pool: bool) -> nn.Sequential:
    modules = OrderedDict(conv_norm_relu(channels, units, kernel, stride).named_children())
    if pool:
        modules["pool"] = nn.MaxPool2d(3, 2, padding=1)
    return nn.Sequential(modules)


def _usual_stem(channels: int, height: int, width: int, units: int) -> nn.Sequential:
    """3 x 3 as for CIFAR; for large images 7 x 7 with stride 2 and max-pooling."""
    if min(height, width) > LARGE:
        return _stem(channels, units, 7, 2, pool=True)
    return _stem(channels, units, 3, 1, pool=False)


def _assemble(
    stem: nn.Module, block: Block, expansion: int, blocks: Sequence[int], units: int, classes: int
) -> Staged:
    """Stages of `units`, 2 x, 4 x, ... channels; each but the first halves the size."""
    stages = {"stem": stem}
    inputs = units
    for number, count in enumerate(blocks):
        wide = units * 2**number
        layers = []
        for position in range(count):
            layers.append(block(inputs, wide, 2 if number and not position else 1))
            inputs = expansion * wide
        stages[f"stage{number + 1}"] = nn.Sequential(*layers)
    return staged(stages, global_average(), nn.Linear(inputs, classes))


def _as_torchvision(network: Staged) -> Staged:
    """Initial weights of torchvision; a 3 x 3 stem was put in afterwards, with PyTorch's own."""
    stem = network.get_submodule("stem.conv")
    assert isinstance(stem, nn.Conv2d)
    for name, module in network.named_children():
        if name != "stem" or stem.kernel_size[0] == 7:
            init_kaiming(module, mode="fan_out")
    return network


def _as_kuangliu(network: Staged) -> Staged:
    """PyTorch's own initial weights with the stem for CIFAR, else those of torchvision."""
    stem = network.get_submodule("stem.conv")
    assert isinstance(stem, nn.Conv2d)
    return _as_torchvision(network) if stem.kernel_size[0] == 7 else network


def resnet18(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """ResNet-18; `width` channels in stem and stage 1, doubled by each later stage.

    For images up to 64 pixels as kuangliu/pytorch-cifar and OpenOOD build it (3 x 3 stem), above
    as torchvision does (7 x 7 stem, max-pooling).
    """
    stem = _usual_stem(channels, height, width, units)
    return _as_kuangliu(_assemble(stem, _basic, 1, (2, 2, 2, 2), units, classes))


def resnet50(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """ResNet-50; `width` channels in the stem and 4 x as many after stage 1.

    torchvision's initial weights; 3 x 3 stem without max-pooling up to 64 pixels, above it 7 x 7.
    """
    stem = _usual_stem(channels, height, width, units)
    return _as_torchvision(_assemble(stem, _bottleneck, 4, (3, 4, 6, 3), units, classes))


def resnet50_od_test(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """OD-test's variant of ResNet-50, which depends on the image size; `width` as for resnet50.

    Below 32 pixels 2, 3, 5, 2 blocks instead of 3, 4, 6, 3; a 3 x 3 stem always, with max-pooling
    from 64 pixels, with stride 2 instead from 96 (Shafaei et al. 2019, arXiv:1809.04729, code).
    The published networks begin with (x - 0.449) * 4.42477, which is left to the data here.
    """
    side = min(height, width)
    blocks = (2, 3, 5, 2) if side < 32 else (3, 4, 6, 3)
    stem = _stem(channels, units, 3, 2 if side >= 96 else 1, pool=64 <= side < 96)
    return _as_torchvision(_assemble(stem, _bottleneck, 4, blocks, units, classes))


def resnet101_kuangliu(
    channels: int, height: int, width: int, classes: int, units: int
) -> nn.Module:
    """ResNet-101 of kuangliu/pytorch-cifar (type-0); `width` as for resnet50.

    PyTorch's own initial weights. The three types are those of Szyc et al. 2023 (UAI, "Why
    Out-of-Distribution Detection Experiments Are Not Reliable").
    """
    stem = _usual_stem(channels, height, width, units)
    return _as_kuangliu(_assemble(stem, _bottleneck, 4, (3, 4, 23, 3), units, classes))


def resnet101_torchvision(
    channels: int, height: int, width: int, classes: int, units: int
) -> nn.Module:
    """ResNet-101 of torchvision with 3 x 3 stem, no max-pooling (type-1); `width` as for resnet50.

    The same layers as resnet101_kuangliu; what differs is the initial weights, which are
    He-normal by the number of outputs everywhere but in the stem (y0ast/pytorch-snippets).
    """
    stem = _usual_stem(channels, height, width, units)
    return _as_torchvision(_assemble(stem, _bottleneck, 4, (3, 4, 23, 3), units, classes))


def resnet110(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """ResNet-110 for CIFAR of akamaster (type-2); `width`, 2 x and 4 x `width` channels.

    Three stages of 18 basic blocks, shortcuts without weights (option A), He-normal initial
    weights by the number of inputs, in the head too (akamaster/pytorch_resnet_cifar10).
    """
    stem = _stem(channels, units, 3, 1, pool=False)
    network = _assemble(stem, _basic_padded, 1, (18, 18, 18), units, classes)
    init_kaiming(network, mode="fan_in")
    head = network.get_submodule("head")
    assert isinstance(head, nn.Linear)
    nn.init.kaiming_normal_(head.weight)
    return network


def resnet152(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """ResNet-152 of kuangliu/pytorch-cifar; `width` as for resnet50."""
    stem = _usual_stem(channels, height, width, units)
    return _as_kuangliu(_assemble(stem, _bottleneck, 4, (3, 8, 36, 3), units, classes))
