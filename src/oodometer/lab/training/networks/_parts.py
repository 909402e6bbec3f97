"""What several networks share: the chain of stages, convolutions, initial weights."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

Factory = Callable[..., nn.Module]


@dataclass(frozen=True)
class Network:
    """A known network: ``build(channels, height, width, classes, units)``, and its usual `units`.

    One for texts is built by ``build(length, words, classes, units)``. `units` is what studies call
    width: the base number of channels, from which all other numbers of channels follow in the
    published proportions.
    """

    build: Factory
    default_width: int | None  # gives the published size; None: the width is fixed
    takes: Literal["images", "texts"] = "images"

    def __post_init__(self) -> None:
        # Listings show the docstring of an entry: that of the network, not of this class.
        object.__setattr__(self, "__doc__", self.build.__doc__)


class Staged(nn.Sequential):
    """A chain of modules; `stage_names` are those whose outputs layer-wise detectors may read.

    The last stage is what the pooling takes; the last module is the linear head.
    """

    stage_names: tuple[str, ...]

    def __init__(
        self, modules: Mapping[str, nn.Module] | None = None, stage_names: tuple[str, ...] = ()
    ) -> None:
        super().__init__(OrderedDict(modules or {}))
        self.stage_names = stage_names


def staged(stages: Mapping[str, nn.Module], pool: nn.Module, head: nn.Linear) -> Staged:
    """Chain named stages, a pooling to one vector per sample, and the head."""
    return Staged({**stages, "pool": pool, "head": head}, tuple(stages))


def numbered(*modules: nn.Module, stages: tuple[int, ...]) -> Staged:
    """Chain modules by their numbers; `stages` are the numbers of those that end a stage."""
    names = tuple(str(number) for number in stages)
    return Staged({str(number): module for number, module in enumerate(modules)}, names)


def global_average() -> nn.Module:
    """Average over all positions: what the fixed poolings of the references are at 32 pixels."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Tokens(nn.Module):
    """A map of features as a row of tokens: (n, channels, h, w) becomes (n, h * w, channels)."""

    def forward(self, x: Tensor) -> Tensor:
        """Reorder; nothing is computed."""
        return x.flatten(2).transpose(1, 2)


def conv_norm(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> OrderedDict[str, nn.Module]:
    """Convolution that keeps the size but for its stride, and batch norm; no bias, norm has one."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return OrderedDict(conv=conv, norm=nn.BatchNorm2d(outputs))


def conv_norm_relu(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """The same, and a ReLU, which is a module: whoever walks over the modules must meet it."""
    modules = conv_norm(inputs, outputs, kernel, stride, groups)
    return nn.Sequential(OrderedDict(**modules, relu=nn.ReLU()))


def init_kaiming(network: nn.Module, *, mode: str) -> None:
    """Draw all convolutions from N(0, 2 / fan) (He et al. 2015, arXiv:1502.01852), biases 0."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")  # type: ignore[arg-type]
            if module.bias is not None:
                nn.init.zeros_(module.bias)
