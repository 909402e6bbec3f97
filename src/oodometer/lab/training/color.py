"""Changes of colour for whole batches: float images (n, channels, height, width) in [0, 1].

Each takes one factor per image. The definitions are those of torchvision and albumentations on
float images, so without their rounding to bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_GREY = (0.299, 0.587, 0.114)  # luma of ITU-R BT.601, the weights of Pillow and OpenCV


def luma(images: Tensor) -> Tensor:
    """Grey value of each pixel, (n, 1, height, width): 0.299 red + 0.587 green + 0.114 blue."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images[:, 0:1], images[:, 1:2], images[:, 2:3]
    return _GREY[0] * red + _GREY[1] * green + _GREY[2] * blue


def adjust_brightness(images: Tensor, factors: Tensor) -> Tensor:
    """Return factor * pixel, cut to [0, 1]."""
    return (images * _each(factors)).clamp_(0, 1)


def adjust_contrast(images: Tensor, factors: Tensor) -> Tensor:
    """Return mean + factor * (pixel - mean), cut to [0, 1]; the mean is that of the grey image."""
    means = luma(images).mean(dim=(1, 2, 3), keepdim=True)
    return torch.lerp(means, images, _each(factors)).clamp_(0, 1)


def adjust_saturation(images: Tensor, factors: Tensor) -> Tensor:
    """Return grey + factor * (pixel - grey), cut to [0, 1]."""
    return torch.lerp(luma(images), images, _each(factors)).clamp_(0, 1)


def adjust_hue(images: Tensor, shifts: Tensor) -> Tensor:
    """Turn the hue by a share of the full circle: saturation and value (HSV) stay.

    With value v, chroma c and hue h in sixths of the circle, each channel is
    v - c * min(k, 4 - k, 1), the minimum cut at 0 from below, where k = (h + m) mod 6 and m is
    5, 3, 1 for red, green, blue.
    """
    value, brightest = images.max(dim=1, keepdim=True)
    chroma = value - images.amin(dim=1, keepdim=True)
    red, green, blue = images[:, 0:1], images[:, 1:2], images[:, 2:3]
    # The two other channels, in the order in which hue runs through them.
    after = torch.where(brightest == 0, green, torch.where(brightest == 1, blue, red))
    before = torch.where(brightest == 0, blue, torch.where(brightest == 1, red, green))
    hue = 2 * brightest + (after - before) / chroma.clamp(min=torch.finfo(images.dtype).tiny)
    hue += 6 * _each(shifts)
    offsets = torch.tensor([5.0, 3.0, 1.0], dtype=images.dtype, device=images.device)
    place = (hue + offsets.view(1, 3, 1, 1)).remainder_(6)
    share = torch.minimum(place, 4 - place).clamp_(0, 1)
    return (value - chroma * share).clamp_(0, 1)


def jitter(images: Tensor, factors: Sequence[Tensor], turns: Tensor) -> Tensor:
    """Change brightness, contrast, saturation and hue of each image, in its own order.

    `factors` has one row per operation, `turns` (n, 4) the operations of each image in their order.
    Grey images have neither saturation nor hue: only the first two change them.
    """
    useful = 4 if images.shape[1] == 3 else 2
    result = images.clone()
    for turn in turns.unbind(1):  # those images that have the same operation go together
        for number in range(useful):
            rows = (turn == number).nonzero()[:, 0]
            if len(rows):
                result[rows] = _OPERATIONS[number](result[rows], factors[number][rows])
    return result


_OPERATIONS = (adjust_brightness, adjust_contrast, adjust_saturation, adjust_hue)


def _each(factors: Tensor) -> Tensor:
    return factors.view(-1, 1, 1, 1)
