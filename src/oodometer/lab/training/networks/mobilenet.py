"""MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381)."""

from __future__ import annotations

from torch import Tensor, nn

from oodometer.lab.training.networks._parts import conv_norm, conv_norm_relu, global_average, staged
from oodometer.lab.training.networks.resnet import LARGE

_BASE = 32  # the stem's channels, in which the table's are counted

# expansion, channels, blocks, stride of the first block
_GROUPS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class InvertedResidual(nn.Module):
    """Widen, filter each channel, narrow without a ReLU; a shortcut where the size stays."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
        super().__init__()
        wide = expansion * inputs
        self.body = nn.Sequential(
            conv_norm_relu(inputs, wide, 1),
            conv_norm_relu(wide, wide, 3, stride, groups=wide),
            nn.Sequential(conv_norm(wide, outputs, 1)),
        )
        self.shortcut: nn.Module | None = None
        if stride == 1:
            # The paper has no shortcut where the channels change; the reference projects them.
            same = inputs == outputs
            self.shortcut = nn.Identity() if same else nn.Sequential(conv_norm(inputs, outputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Add the shortcut, if there is one."""
        out: Tensor = self.body(x)
        return out if self.shortcut is None else out + self.shortcut(x)


def mobilenet_v2(channels: int, height: int, width: int, classes: int, units: int) -> nn.Module:
    """MobileNetV2 of kuangliu/pytorch-cifar; `width` channels in the stem, 40 x as many features.

    Stem and second group keep the size of images up to 64 pixels, as the reference does for
    CIFAR; of larger ones they halve it, as the paper does. PyTorch's own initial weights.
    """
    first = 2 if min(height, width) > LARGE else 1
    stages: dict[str, nn.Module] = {"stem": conv_norm_relu(channels, units, 3, first)}
    inputs = units
    for number, (expansion, base, blocks, stride) in enumerate(_GROUPS, start=1):
        outputs = max(1, round(base * units / _BASE))
        layers = []
        for position in range(blocks):
            step = first if number == 2 else stride
            layers.append(InvertedResidual(inputs, outputs, expansion, 1 if position else step))
            inputs = outputs
        stages[f"stage{number}"] = nn.Sequential(*layers)
    features = 40 * units
    stages["last"] = conv_norm_relu(inputs, features, 1)
    return staged(stages, global_average(), nn.Linear(features, classes))
