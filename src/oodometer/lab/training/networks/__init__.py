"""Networks with a linear head: images or texts in, logits out. Each has `stage_names`."""

from __future__ import annotations

from functools import partial

from torch import nn

from oodometer.calls import parse_call
from oodometer.errors import UserError, unknown
from oodometer.lab.options import choose
from oodometer.lab.training.networks._parts import Network, Staged
from oodometer.lab.training.networks.custom import build_custom, inputs_of, load_factory
from oodometer.lab.training.networks.encoder import encoder
from oodometer.lab.training.networks.fast_resnet import fast_resnet
from oodometer.lab.training.networks.mixer import mlp_mixer
from oodometer.lab.training.networks.mobilenet import mobilenet_v2
from oodometer.lab.training.networks.resnet import (
    resnet18,
    resnet50,
    resnet50_od_test,
    resnet101_kuangliu,
    resnet101_torchvision,
    resnet110,
    resnet152,
)
from oodometer.lab.training.networks.small import cnn, mlp, small_cnn
from oodometer.lab.training.networks.texts import text_bag, text_cnn
from oodometer.lab.training.networks.transformers import cct7
from oodometer.lab.training.networks.vgg import vgg16, vgg16_od_test
from oodometer.lab.training.networks.wide_resnet import wide_resnet_28_10, wide_resnet_40_2

__all__ = ["KNOWN", "Network", "Staged", "build_network", "check_network", "load_factory"]

KNOWN: dict[str, Network] = {
    build.__name__: Network(build, default_width)
    for build, default_width in (
        (mlp, 16),
        (small_cnn, 16),
        (cnn, 32),
        (fast_resnet, 16),
        (vgg16, 64),
        (vgg16_od_test, 64),
        (resnet18, 64),
        (resnet50, 64),
        (resnet50_od_test, 64),
        (resnet101_kuangliu, 64),
        (resnet101_torchvision, 64),
        (resnet110, 16),
        (resnet152, 64),
        (wide_resnet_40_2, 16),
        (wide_resnet_28_10, 16),
        (mobilenet_v2, 32),
        (cct7, 256),
        (mlp_mixer, 512),
    )
} | {
    build.__name__: Network(build, default_width, "texts")
    for build, default_width in ((text_bag, 64), (text_cnn, 100), (encoder, None))
}


def _choose(name: str) -> partial[nn.Module]:
    """A known network, with its settings filled in."""
    return choose("network", name, {known: entry.build for known, entry in KNOWN.items()})


def check_network(name: str) -> None:
    """Raise, unless this is a known network or ``package.module:factory`` that can be imported."""
    if ":" in name:
        load_factory(name)
    elif parse_call("network", name)[0] not in KNOWN:
        raise unknown("network", name, [*KNOWN, "package.module:factory"])
    else:
        _choose(name)


def build_network(
    name: str, shape: tuple[int, ...], classes: int, units: int | None = None
) -> nn.Module:
    """Build a network for images (channels, height, width) or texts (length) of this shape.

    `name` is a known one or ``package.module:factory``; `units` is the width of a study, and None
    means the network's own. Initial weights are drawn from PyTorch's global state.
    """
    check_network(name)
    if classes < 2:
        raise UserError(f"Network '{name}' needs at least 2 classes, got {classes}.")
    if units is not None and units < 1:
        raise UserError(f"The width of network '{name}' must be at least 1, got {units}.")
    if ":" in name:
        return build_custom(name, shape, classes, units)
    known = KNOWN[parse_call("network", name)[0]]
    given = "images" if len(shape) == 3 else "texts"
    if known.takes != given:
        others = ", ".join(other for other, network in KNOWN.items() if network.takes == given)
        raise UserError(
            f"Network '{name}' takes {known.takes}, but the data are {given}; networks that take "
            f"{given}: {others}."
        )
    width = known.default_width if units is None else units
    try:
        return _choose(name)(*inputs_of(shape).values(), classes, width)
    except RuntimeError as problem:
        if "allocate memory" not in str(problem):
            raise
        raise UserError(
            f"Network '{name}' of width {width} is too large for the memory of this machine."
        ) from None
