"""Interval bounds: what a network can answer anywhere within a ball of the maximum norm.

Gowal et al. 2018, arXiv:1810.12715; for out-of-distribution images Bitterwolf et al. 2020,
arXiv:2007.08473.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from oodometer.errors import UserError


class Box(NamedTuple):
    """All points within `radius` of `center`, value by value."""

    center: Tensor
    radius: Tensor


def ball(images: Tensor, radius: float, *, within_pixels: bool = True) -> Box:
    """Return the images within `radius` of each; only those in [0, 1] if `within_pixels`."""
    if not within_pixels:
        return Box(images, torch.full_like(images, radius))
    low, high = (images - radius).clamp(min=0), (images + radius).clamp(max=1)
    return Box((low + high) / 2, (high - low) / 2)


def through(layer: nn.Module, box: Box) -> Box:
    """Return a box that contains the layer's output for every point of the box.

    Affine: center W c + b, radius |W| r, which is the exact range of each output. Monotone
    functions map the ends.
    """
    center, radius = box
    if isinstance(layer, nn.Conv2d):
        return Box(
            layer(center),
            functional.conv2d(
                radius, layer.weight.abs(), None, layer.stride, layer.padding, layer.dilation,
                layer.groups,
            ),
        )  # fmt: skip
    if isinstance(layer, nn.Linear):
        return Box(layer(center), functional.linear(radius, layer.weight.abs()))
    if isinstance(layer, nn.Flatten | nn.AvgPool2d):
        return Box(layer(center), layer(radius))
    if isinstance(layer, nn.ReLU):
        low, high = functional.relu(center - radius), functional.relu(center + radius)
        return Box((low + high) / 2, (high - low) / 2)
    raise UserError(
        f"Interval bounds are known for convolutions, linear layers, ReLU, average pooling and "
        f"flattening; the network has a {type(layer).__name__}."
    )


def difference_bounds(network: nn.Module, box: Box) -> Tensor:
    """Upper bounds (n, K, K) of logit k minus logit l, for every point of the box; 0 for k = l.

    The last layer is bounded for each pair of classes at once, with the weights W_k - W_l.
    """
    *layers, head = network if isinstance(network, nn.Sequential) else (nn.Identity(),)
    if not isinstance(head, nn.Linear):
        raise UserError("Interval bounds need an nn.Sequential that ends in a linear layer.")
    for layer in layers:
        box = through(layer, box)
    logits: Tensor = head(box.center)
    apart = (head.weight[:, None] - head.weight[None]).abs()  # (K, K, features)
    reach = torch.einsum("nd,kld->nkl", box.radius, apart)
    return logits[:, :, None] - logits[:, None, :] + reach


def least_score(bounds: Tensor) -> Tensor:
    """Lower bound of the score log((1 - p) / p), p the confidence, by bounds of differences.

    p <= max_k 1 / sum_l exp(-bounds_kl), hence the score is at least min_k of the log of the sum
    over the other classes.
    """
    itself = torch.eye(bounds.shape[1], dtype=torch.bool, device=bounds.device)
    return (-bounds).masked_fill(itself, -torch.inf).logsumexp(2).amin(1)
