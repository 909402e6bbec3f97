"""Noise images that stand in for outliers. Hein et al. 2019, arXiv:1812.05720, section 4."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_REACH = 7  # of the Gaussian, in pixels to either side
_WIDTHS = 1.0, 2.5  # of its standard deviation


def smooth_noise(images: Tensor) -> Tensor:
    """One noise image for each image: uniform pixels, or a permutation of the image's own.

    Smoothed by a Gaussian whose width is drawn for each image, and stretched to [0, 1]. Draws from
    PyTorch's global generator.
    """
    half = len(images) // 2
    values = images.flatten(2)
    order = torch.rand_like(values[half:, 0]).argsort(1)
    shuffled = values[half:].gather(2, order[:, None].expand_as(values[half:]))
    raw = torch.cat((torch.rand_like(values[:half]), shuffled)).reshape(images.shape)
    low, high = _WIDTHS
    widths = low + (high - low) * torch.rand(len(images), device=images.device)
    return stretch(blur(raw, widths))


def blur(images: Tensor, widths: Tensor) -> Tensor:
    """Each image smoothed by a Gaussian of its own width, mirrored at the border."""
    count, channels = images.shape[:2]
    offsets = torch.arange(-_REACH, _REACH + 1, device=images.device)
    weights = torch.exp(-(offsets**2) / (2 * widths[:, None] ** 2)).to(images.dtype)
    kernels = (weights / weights.sum(1, keepdim=True)).repeat_interleave(channels, 0)
    flat = images.reshape(1, count * channels, *images.shape[2:])
    for axis in (2, 3):
        places = _mirrored(images.shape[axis]).to(images.device)
        shape = (-1, 1, *((len(offsets), 1) if axis == 2 else (1, len(offsets))))
        wide = flat.index_select(axis, places)
        flat = functional.conv2d(wide, kernels.reshape(shape), groups=count * channels)
    return flat.reshape(images.shape)


def stretch(images: Tensor) -> Tensor:
    """Each image brought to [0, 1]; a constant one becomes 0."""
    values = images.flatten(1)
    low, high = values.amin(1), values.amax(1)
    shape = (-1, *[1] * (images.dim() - 1))
    return (images - low.reshape(shape)) / (high - low).clamp(min=1e-12).reshape(shape)


def _mirrored(length: int) -> Tensor:
    """Places along an axis with a border of `_REACH`: ... 1 0 | 0 1 2 ... | as often as needed."""
    places = torch.arange(-_REACH, length + _REACH) % (2 * length)
    return torch.where(places < length, places, 2 * length - 1 - places)
