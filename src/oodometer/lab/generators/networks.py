"""Networks of StyleGAN2: mapping, synthesis by skips, and discriminator.

Karras et al. 2020, arXiv:1912.04958, in the configuration for 32 x 32 pixels of StudioGAN (Kang et
al. 2023, arXiv:2206.09479), which EvG (Yoon et al. 2022, arXiv:2208.10940) trained with 64 latents.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from oodometer.errors import UserError
from oodometer.lab.generators.layers import (
    EqualizedConvolution,
    EqualizedLinear,
    ModulatedConvolution,
    add_deviation,
    enlarge,
    leaky,
)

_FIRST = 4  # pixels along each side of the first block
_LARGEST = 64
_MEAN_KEPT = 0.995  # of the mean style, per batch
_SLOW = 0.01  # learning rate of the mapping, relative to the others


@dataclass(frozen=True)
class Widths:
    """Latents, styles, and channels by the side of a block."""

    latent: int
    style: int
    channels: dict[int, int]
    group: int  # of samples whose deviation the discriminator sees


WIDTHS = {
    "tiny": Widths(8, 16, {4: 16, 8: 16, 16: 8, 32: 8, 64: 8}, 4),
    "small": Widths(32, 64, {4: 64, 8: 64, 16: 32, 32: 16, 64: 16}, 8),
    "paper": Widths(64, 512, dict.fromkeys((4, 8, 16, 32, 64), 512), 32),
}


def padded_side(shape: tuple[int, ...]) -> int:
    """The side of the images inside: a power of two from 8 to 64.

    >>> padded_side((1, 28, 28))
    32
    """
    if len(shape) != 3 or max(shape[1:]) > _LARGEST:
        raise UserError(
            f"Generator 'stylegan2' is for images (channels, height, width) of up to {_LARGEST} x "
            f"{_LARGEST} pixels, got shape {shape}."
        )
    side = 2 * _FIRST
    while side < max(shape[1:]):
        side *= 2
    return side


def _sides(side: int) -> list[int]:
    return [size for size in (4, 8, 16, 32, 64) if size <= side]


class Mapping(nn.Module):
    """From latent points, whose length does not matter, to styles, and the mean style so far."""

    mean: Tensor

    def __init__(self, latent: int, style: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            EqualizedLinear(inputs, style, rate=_SLOW) for inputs in (latent, style)
        )
        self.register_buffer("mean", torch.zeros(style))

    def forward(self, latent: Tensor) -> Tensor:
        """Return styles, (n, style); in training, the mean follows them."""
        values = latent * (latent.square().mean(1, keepdim=True) + 1e-8).rsqrt()
        for layer in self.layers:
            values = leaky(layer(values))
        if self.training:
            self.mean.lerp_(values.detach().mean(0), 1 - _MEAN_KEPT)
        return values


class StyledLayer(nn.Module):
    """A modulated convolution, noise that all channels share, a bias and a leaky ReLU."""

    noise: Tensor

    def __init__(
        self, inputs: int, outputs: int, style: int, side: int, *, up: bool = False
    ) -> None:
        super().__init__()
        self.convolution = ModulatedConvolution(inputs, outputs, 3, style, up=up)
        self.strength = nn.Parameter(torch.zeros(()))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.register_buffer("noise", torch.randn(1, 1, side, side))  # what fixed noise is

    def forward(self, values: Tensor, style: Tensor, random: bool) -> Tensor:
        """Return the layer's values; random noise is drawn from torch's global state."""
        values = self.convolution(values, style)
        noise = self.noise
        if random:
            noise = torch.randn_like(noise.expand(len(values), -1, -1, -1))
        return leaky(values + noise * self.strength + self.bias.view(-1, 1, 1))


class ToImage(nn.Module):
    """A modulated convolution of one pixel to the channels of an image."""

    def __init__(self, inputs: int, channels: int, style: int) -> None:
        super().__init__()
        self.convolution = ModulatedConvolution(inputs, channels, 1, style, demodulate=False)
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, values: Tensor, style: Tensor) -> Tensor:
        """Return what a block adds to the image."""
        image: Tensor = self.convolution(values, style) + self.bias.view(-1, 1, 1)
        return image


class Generator(nn.Module):
    """Latent points to images: the sum of what blocks of growing size contribute."""

    def __init__(self, widths: Widths, shape: tuple[int, ...]) -> None:
        super().__init__()
        sides = _sides(padded_side(shape))
        style, channels = widths.style, [widths.channels[side] for side in sides]
        self.dimensions, self.shape = widths.latent, shape
        self.mapping = Mapping(widths.latent, style)
        self.constant = nn.Parameter(torch.randn(1, channels[0], _FIRST, _FIRST))
        self.first = StyledLayer(channels[0], channels[0], style, _FIRST)
        self.up = nn.ModuleList(
            StyledLayer(before, after, style, side, up=True)
            for (before, after), side in zip(pairwise(channels), sides[1:], strict=True)
        )
        self.same = nn.ModuleList(
            StyledLayer(width, width, style, side)
            for width, side in zip(channels[1:], sides[1:], strict=True)
        )
        self.images = nn.ModuleList(ToImage(width, shape[0], style) for width in channels)
        self.slots = 2 * len(sides)  # styles: one per convolution, and one for the last image

    def forward(
        self,
        latent: Tensor,
        *,
        truncation: float = 1.0,
        cutoff: int | None = None,
        random_noise: bool = False,
    ) -> Tensor:
        """Return images before padding is cut off, nominally from -1 to 1.

        The first `cutoff` styles (None: all) are drawn to the mean, mean + truncation (style -
        mean).
        """
        style = self.mapping(latent)
        near = style
        if truncation != 1:
            near = self.mapping.mean + truncation * (style - self.mapping.mean)
        last = self.slots if cutoff is None else cutoff
        styles = [near if slot < last else style for slot in range(self.slots)]
        return self.synthesis(styles, random_noise)

    def synthesis(self, styles: list[Tensor], random_noise: bool) -> Tensor:
        """Images of one style per slot; an image shares the slot of the convolution after it."""
        values = self.constant.expand(len(styles[0]), -1, -1, -1)
        values = self.first(values, styles[0], random_noise)
        image: Tensor = self.images[0](values, styles[1])
        blocks = zip(self.up, self.same, self.images[1:], strict=True)
        for number, (up, same, to_image) in enumerate(blocks):
            slot = 1 + 2 * number
            values = up(values, styles[slot], random_noise)
            values = same(values, styles[slot + 1], random_noise)
            image = enlarge(image) + to_image(values, styles[slot + 2])
        return image

    def pictures(self, raw: Tensor) -> Tensor:
        """Images in [0, 1], without the padding."""
        _, height, width = self.shape
        top, left = _before(raw.shape[2], height), _before(raw.shape[3], width)
        cut = raw[:, :, top : top + height, left : left + width]
        return ((cut + 1) / 2).clamp(0, 1)


class Discriminator(nn.Module):
    """How real images look, as a logit, with the deviation within a group of them."""

    def __init__(self, widths: Widths, shape: tuple[int, ...]) -> None:
        super().__init__()
        sides = _sides(padded_side(shape))[::-1]
        channels = [widths.channels[side] for side in sides]
        self.group = widths.group
        self.from_image = EqualizedConvolution(shape[0], channels[0], 1)
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                [
                    EqualizedConvolution(before, before, 3),
                    EqualizedConvolution(before, after, 3, down=True),
                ]
            )
            for before, after in pairwise(channels)
        )
        width = channels[-1]
        self.last = EqualizedConvolution(width + 1, width, 3)
        self.hidden = EqualizedLinear(width * _FIRST**2, width)
        self.out = EqualizedLinear(width, 1)

    def forward(self, raw: Tensor) -> Tensor:
        """Logits (n,) of padded images from -1 to 1."""
        values = leaky(self.from_image(raw))
        for block in self.blocks:
            assert isinstance(block, nn.ModuleList)
            for layer in block:
                values = leaky(layer(values))
        values = leaky(self.last(add_deviation(values, self.group)))
        logits: Tensor = self.out(leaky(self.hidden(values.flatten(1))))
        return logits[:, 0]


class StyleGAN2(nn.Module):
    """A generator, a discriminator, and the running mean of the generator's weights."""

    def __init__(self, widths: Widths, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.side = padded_side(shape)
        self.generator = Generator(widths, shape)
        self.discriminator = Discriminator(widths, shape)
        self.average = copy.deepcopy(self.generator).requires_grad_(False)

    def raw(self, images: Tensor) -> Tensor:
        """Images from 0 to 1 as the discriminator sees them: from -1 to 1, padded with black."""
        height, width = images.shape[2:]
        top, left = _before(self.side, height), _before(self.side, width)
        around = (left, self.side - width - left, top, self.side - height - top)
        return functional.pad(2 * images - 1, around, value=-1.0)

    @torch.no_grad()
    def follow(self, kept: float) -> None:
        """Move the mean: kept · mean + (1 - kept) · weights; buffers are copied."""
        for mean, now in zip(self.average.parameters(), self.generator.parameters(), strict=True):
            mean.lerp_(now, 1 - kept)
        current = self.generator.buffers()
        for buffer, value in zip(self.average.buffers(), current, strict=True):
            buffer.copy_(value)


def _before(side: int, inner: int) -> int:
    """Pixels of padding in front."""
    return (side - inner) // 2
