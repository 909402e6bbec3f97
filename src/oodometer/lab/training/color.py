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

    With the lowest channel l, chroma c and hue h in sixths of the circle, red is l + c * share of
    |h - 3| - 1, green of 2 - |h - 2| and blue of 2 - |h - 4|, each share cut to [0, 1].
    """
    red, green, blue = images.unbind(1)
    value = torch.maximum(torch.maximum(red, green), blue)
    lowest = torch.minimum(torch.minimum(red, green), blue)
    chroma = value - lowest
    scale = chroma.clamp(min=torch.finfo(images.dtype).tiny).reciprocal()
    # Where red is the brightest channel, where green is, and where blue is.
    hue = torch.where(
        value == red,
        (green - blue) * scale,
        torch.where(value == green, (blue - red) * scale + 2, (red - green) * scale + 4),
    )
    hue = (hue + 6 * shifts.view(-1, 1, 1)).remainder_(6)
    shares = ((hue - 3).abs_() - 1, 2 - (hue - 2).abs_(), 2 - (hue - 4).abs_())
    turned = [torch.addcmul(lowest, chroma, share.clamp_(0, 1)) for share in shares]
    return torch.stack(turned, dim=1).clamp_(0, 1)


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
