"""Brightness, contrast, saturation and hue of whole batches, changed in this order, and quickly.

The definitions are those of `lab.training.color`; here all changes of an image are made while its
pixels are in the cache, channel by channel, by as few operations as possible.
"""

from __future__ import annotations

import torch
from torch import Tensor

_GREY = (0.299, 0.587, 0.114)  # luma of ITU-R BT.601
_CACHED = 2**16  # pixels of a channel that are changed at once: more do not stay in the cache


def recolor(images: Tensor, factors: Tensor) -> Tensor:
    """Change images (n, channels, height, width) by factors, one row per image, in this order.

    Columns are brightness and contrast; for RGB images saturation and hue follow, the latter as a
    share of the full circle.
    """
    few = max(1, _CACHED // (images.shape[2] * images.shape[3]))
    parts = zip(torch.split(images, few), torch.split(factors, few), strict=True)
    return torch.cat([_changed(*part) for part in parts])


def _changed(images: Tensor, factors: Tensor) -> Tensor:
    brightness, contrast, *others = (part.view(-1, 1, 1) for part in factors.unbind(1))
    planes = (images.transpose(0, 1) * brightness).clamp_(max=1)
    means = _grey(planes.mean((2, 3))).view(-1, 1, 1)
    planes = (planes * contrast).add_((1 - contrast) * means).clamp_(0, 1)
    if not others:
        return planes.transpose(0, 1)
    saturation, hue = others
    planes = (planes * saturation).add_((1 - saturation) * _grey(planes)).clamp_(0, 1)
    red, green, blue = planes.unbind(0)
    return _turned(red, green, blue, hue)


def _grey(channels: Tensor) -> Tensor:
    """The grey value of channels, which come first."""
    if len(channels) == 1:
        return channels[0]
    red, green, blue = channels.unbind(0)
    return (red * _GREY[0]).add_(green, alpha=_GREY[1]).add_(blue, alpha=_GREY[2])


def _turned(red: Tensor, green: Tensor, blue: Tensor, turns: Tensor) -> Tensor:
    """Turn hues; saturation and value (HSV) stay.

    With the lowest channel l, the chroma c and the hue h in sixths of the circle from -3 to 3,
    counted from red towards green, red is l + c · (2 - |h|), green l + c · (|h + 1| - 1) and blue
    l + c · (|h - 1| - 1), each share of c cut to [0, 1]. The other way round,
    |h| = 1 + (green + blue - red - l) / c, and h has the sign of green - blue.
    """
    lowest = torch.minimum(torch.minimum(red, green), blue)
    chroma = torch.maximum(torch.maximum(red, green), blue).sub_(lowest)
    above = (green + blue).sub_(red).sub_(lowest)
    size = (above / chroma.clamp(min=torch.finfo(red.dtype).tiny)).add_(1)
    hue = torch.copysign(size, green - blue) + 6 * turns
    hue = hue.sub_((hue / 6).round_(), alpha=6)
    shares = (2 - hue.abs(), (hue + 1).abs_().sub_(1), (hue - 1).abs_().sub_(1))
    return torch.stack([torch.addcmul(lowest, chroma, s.clamp_(0, 1)) for s in shares], 1)
