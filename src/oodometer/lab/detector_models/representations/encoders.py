"""Networks from images to vectors, which several detector models are built upon."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.training.networks import build_network
from oodometer.lab.training.networks._parts import conv_norm_relu, global_average

# Of the training images of CIFAR-10, with the deviations that Lee et al. 2018 and others print.
_MEAN, _DEVIATION = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


def require_images(model: str, shape: tuple[int, ...], *, square: bool = False) -> None:
    """Refuse data that are not images, or not square ones where a model turns them."""
    if len(shape) != 3:
        raise UserError(f"Model '{model}' needs images, got data of shape {shape}.")
    if square and shape[1] != shape[2]:
        raise UserError(f"Model '{model}' turns images: they must be square, got {shape[1:]}.")


class Standardized(nn.Module):
    """Images with each channel standardized: by CIFAR-10's values, or (x - 0.5) / 0.5."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, channels: int, *, cifar: bool = True) -> None:
        super().__init__()
        known = cifar and channels == len(_MEAN)
        mean, deviation = (_MEAN, _DEVIATION) if known else ((0.5,), (0.5,))
        for name, values in (("mean", mean), ("deviation", deviation)):
            self.register_buffer(name, torch.tensor(values).view(-1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Subtract the mean, divide by the deviation."""
        return (images - self.mean) / self.deviation


def convolutions(channels: int, widths: Sequence[int]) -> nn.Sequential:
    """3 x 3 convolutions with batch norm, each but the first halving the size, and their mean."""
    inputs = (channels, *widths)
    blocks = [
        conv_norm_relu(inputs[place], width, 3, 2 if place else 1)
        for place, width in enumerate(widths)
    ]
    return nn.Sequential(*blocks, global_average())


def without_head(name: str, shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    """A known network without its linear head, and how many features it has."""
    network = build_network(name, shape, 2)
    head = network.get_submodule("head")
    assert isinstance(head, nn.Linear)
    network.add_module("head", nn.Identity())
    return network, head.in_features


def encoder(body: str | Sequence[int], shape: tuple[int, ...]) -> tuple[nn.Module, int]:
    """A known network by its name, or convolutions by their widths; and the number of features."""
    if isinstance(body, str):
        return without_head(body, shape)
    return convolutions(shape[0], body), body[-1]


def projection(inputs: int, outputs: int) -> nn.Sequential:
    """A hidden layer as wide as the inputs, and a linear one: the head of a contrastive loss."""
    return nn.Sequential(nn.Linear(inputs, inputs), nn.ReLU(), nn.Linear(inputs, outputs))
