"""Wide residual networks (Zagoruyko and Komodakis 2016, arXiv:1605.07146)."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

from oodometer.lab.training.networks._parts import Staged, global_average, init_kaiming, staged


class PreActivated(nn.Module):
    """Norm and ReLU come before each convolution; a changed shape is carried by a 1 x 1 one."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.activate = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        )
        same = stride == 1 and inputs == outputs
        self.project = None if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Add the body to the input, or to its projection, which is taken after activation."""
        active = self.activate(x)
        carried: Tensor = x if self.project is None else self.project(active)
        added: Tensor = self.body(active)
        return carried + added


def _wide_resnet(channels: int, classes: int, units: int, depth: int, factor: int) -> Staged:
    """WRN-depth-factor without dropout; initial weights as in xternalz/WideResNet-pytorch."""
    blocks = (depth - 4) // 6
    stages: dict[str, nn.Module] = {"stem": nn.Conv2d(channels, units, 3, padding=1, bias=False)}
    inputs = units
    for number in range(3):
        wide = factor * units * 2**number
        layers = []
        for position in range(blocks):
            layers.append(PreActivated(inputs, wide, 2 if number and not position else 1))
            inputs = wide
        stages[f"stage{number + 1}"] = nn.Sequential(*layers)
    stages["last"] = nn.Sequential(OrderedDict(norm=nn.BatchNorm2d(inputs), relu=nn.ReLU()))
    head = nn.Linear(inputs, classes)
    nn.init.zeros_(head.bias)
    network = staged(stages, global_average(), head)
    init_kaiming(network, mode="fan_out")
    return network


def wide_resnet_40_2(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """WRN-40-2; `width` channels in the stem, 2 x, 4 x and 8 x `width` in the three stages."""
    return _wide_resnet(channels, classes, units, 40, 2)


def wide_resnet_28_10(
    channels: int, height: int, width: int, classes: int, units: int
) -> nn.Module:
    """WRN-28-10; `width` channels in the stem, 10 x, 20 x and 40 x `width` in the three stages."""
    return _wide_resnet(channels, classes, units, 28, 10)
