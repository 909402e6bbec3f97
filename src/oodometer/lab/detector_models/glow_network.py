"""The network of Glow: every layer can be undone, and its change of volume is known.

Kingma and Dhariwal 2018, arXiv:1807.03039.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

Coupling = Literal["exponential", "sigmoid"]

_SQUEEZE = 0.9  # of the range that pixels keep before the logit, which is infinite at its ends
_SMALLEST = 1e-6  # added to standard deviations
_LOG_TWO_PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class Structure:
    """The size of a network."""

    levels: int  # each halves the sides
    steps: int  # per level
    hidden: int  # channels within a coupling
    coupling: Coupling = "sigmoid"
    triangular: bool = False  # whether mixing matrices are learned by their LU decomposition


class _Normalization(nn.Module):
    """ActNorm: y = (x + b) exp(l) per channel, mean 0 and deviation 1 on the first batch.

    A convolution before or after it takes it into its weights, which saves passes over the values.
    """

    started: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(channels))
        self.log_scale = nn.Parameter(torch.zeros(channels))
        self.register_buffer("started", torch.tensor(False))

    @property
    def waits(self) -> bool:
        """Whether it is to learn from the next batch."""
        return self.training and not self.started

    @torch.no_grad()
    def start(self, values: Tensor) -> None:
        """Learn from the first batch of a training."""
        variance, mean = torch.var_mean(values, (0, 2, 3), correction=0)
        self.offset.copy_(-mean)
        self.log_scale.copy_(-torch.log(variance.sqrt() + _SMALLEST))
        self.started.fill_(True)

    def forward(self) -> tuple[Tensor, Tensor]:
        """Return factors and then addends per channel: y = x e^l + b e^l."""
        scale = self.log_scale.exp()
        return scale, self.offset * scale


class _Mixing(nn.Module):
    """A matrix over the channels, at first a random rotation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linalg.qr(torch.randn(channels, channels))[0])

    def matrix(self) -> tuple[Tensor, Tensor]:
        """Return the matrix and the logarithm of its absolute determinant."""
        return self.weight, torch.linalg.slogdet(self.weight)[1]


class _TriangularMixing(nn.Module):
    """The same by P L (U + diag(s)): fixed P and sign of s; learned L, U and log |s|."""

    permutation: Tensor
    signs: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        rotation = torch.linalg.qr(torch.randn(channels, channels))[0]
        permutation, lower, upper = torch.linalg.lu(rotation)
        diagonal = upper.diagonal()
        self.register_buffer("permutation", permutation)
        self.register_buffer("signs", diagonal.sign())
        self.lower = nn.Parameter(lower.tril(-1))
        self.upper = nn.Parameter(upper.triu(1))
        self.log_diagonal = nn.Parameter(diagonal.abs().log())

    def matrix(self) -> tuple[Tensor, Tensor]:
        """Return the matrix and the logarithm of its absolute determinant."""
        lower = self.lower.tril(-1) + torch.eye(len(self.signs)).to(self.lower)
        upper = self.upper.triu(1) + torch.diag(self.signs * self.log_diagonal.exp())
        return self.permutation @ lower @ upper, self.log_diagonal.sum()


class _ZeroConvolution(nn.Conv2d):
    """A convolution that starts at zero, times exp(3 l) per channel."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 3, padding=1)
        nn.init.zeros_(self.weight)
        assert self.bias is not None
        nn.init.zeros_(self.bias)
        self.log_scale = nn.Parameter(torch.zeros(outputs, 1, 1))

    def forward(self, inputs: Tensor) -> Tensor:
        """Convolve."""
        return super().forward(inputs) * (3 * self.log_scale).exp()


class _Convolution(nn.Conv2d):
    """A convolution, and the normalization of what it makes."""

    def __init__(self, inputs: int, outputs: int, side: int) -> None:
        super().__init__(inputs, outputs, side, padding=side // 2, bias=False)
        nn.init.normal_(self.weight, std=0.05)
        self.normalization = _Normalization(outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        """Convolve and normalize."""
        if self.normalization.waits:
            self.normalization.start(super().forward(inputs))
        scale, bias = self.normalization()
        weight = self.weight * scale[:, None, None, None]
        return functional.conv2d(inputs, weight, bias, padding=self.padding)


class _Coupling(nn.Module):
    """Shift and scale half of the channels by a function of the other half.

    y = (x + shift) e^f with f = g tanh(h), as in RealNVP (Dinh et al. 2017, arXiv:1605.08803), g
    learned per channel; or with e^f = S(h + 2), as in the code of Glow.
    """

    def __init__(self, channels: int, structure: Structure) -> None:
        super().__init__()
        hidden = structure.hidden
        self.network = nn.Sequential(
            _Convolution(channels // 2, hidden, 3),
            nn.ReLU(inplace=True),
            _Convolution(hidden, hidden, 1),
            nn.ReLU(inplace=True),
            _ZeroConvolution(hidden, channels),
        )
        bounded = structure.coupling == "exponential"
        self.range = nn.Parameter(torch.ones(channels // 2, 1, 1)) if bounded else None

    def _shift_and_log_scale(self, known: Tensor) -> tuple[Tensor, Tensor]:
        made = self.network(known)
        shift, scale = made[:, 0::2], made[:, 1::2]
        if self.range is None:
            return shift, functional.logsigmoid(scale + 2)
        return shift, self.range * scale.tanh()

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new values and the log-determinant (n,)."""
        known, other = values.chunk(2, 1)
        shift, log_scale = self._shift_and_log_scale(known)
        moved = (other + shift) * log_scale.exp()
        return torch.cat([known, moved], 1), log_scale.sum((1, 2, 3))

    def inverse(self, values: Tensor) -> Tensor:
        """Undo it."""
        known, moved = values.chunk(2, 1)
        shift, log_scale = self._shift_and_log_scale(known)
        return torch.cat([known, moved * (-log_scale).exp() - shift], 1)


class _Step(nn.Module):
    """Normalize, mix the channels, couple their halves."""

    def __init__(self, channels: int, structure: Structure) -> None:
        super().__init__()
        self.normalization = _Normalization(channels)
        self.mixing = (_TriangularMixing if structure.triangular else _Mixing)(channels)
        self.coupling = _Coupling(channels, structure)

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the new values and the log-determinant (n,)."""
        if self.normalization.waits:
            self.normalization.start(values)
        scale, shift = self.normalization()
        weight, log_volume = self.mixing.matrix()
        mixed = functional.conv2d(values, (weight * scale)[:, :, None, None], weight @ shift)
        coupled, log_determinant = self.coupling(mixed)
        constant = self.normalization.log_scale.sum() + log_volume
        return coupled, log_determinant + constant * values[0, 0].numel()

    def inverse(self, values: Tensor) -> Tensor:
        """Undo it; the matrix is inverted in double precision."""
        scale, shift = (part[:, None, None] for part in self.normalization())
        back = self.mixing.matrix()[0].double().inverse().to(values.dtype)
        mixed = functional.conv2d(self.coupling.inverse(values), back[:, :, None, None])
        undone: Tensor = (mixed - shift) / scale
        return undone


class _Level(nn.Module):
    """Squares of 2 x 2 pixels become channels; steps; half of the channels is described."""

    def __init__(self, channels: int, structure: Structure, *, last: bool) -> None:
        super().__init__()
        self.steps = nn.ModuleList(_Step(4 * channels, structure) for _ in range(structure.steps))
        self.prior = None if last else _ZeroConvolution(2 * channels, 4 * channels)

    def forward(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return what goes on to the next level, and the log-density (n,) of the rest."""
        values = functional.pixel_unshuffle(values, 2)
        total = values.new_zeros(len(values))
        for step in self.steps:
            values, log_determinant = step(values)
            total = total + log_determinant
        if self.prior is None:
            return values, total + _log_normal(values, None)
        kept, described = values.chunk(2, 1)
        return kept, total + _log_normal(described, self.prior(kept))

    def inverse(self, kept: Tensor, noise: Tensor) -> Tensor:
        """Make values from what the next level made and from standard normal noise."""
        values = noise
        if self.prior is not None:
            told = self.prior(kept)
            values = torch.cat([kept, told[:, 0::2] + told[:, 1::2].exp() * noise], 1)
        for step in reversed(self.steps):
            assert isinstance(step, _Step)
            values = step.inverse(values)
        return functional.pixel_shuffle(values, 2)


def _log_normal(values: Tensor, told: Tensor | None) -> Tensor:
    """Log-density (n,): standard normal, or with means and log-deviations in turn."""
    if told is None:
        return -0.5 * (values.square() + _LOG_TWO_PI).sum((1, 2, 3))
    mean, log_scale = told[:, 0::2], told[:, 1::2]
    standard = (values - mean) * (-log_scale).exp()
    return -(0.5 * (standard.square() + _LOG_TWO_PI) + log_scale).sum((1, 2, 3))


class Glow(nn.Module):
    """The network: images (n, C, h, w) from 0 to 1 in, log-densities out.

    Sides are padded with black to a multiple of 2^levels, half of it on either side, and the border
    counts as pixels.
    """

    def __init__(self, shape: Sequence[int], structure: Structure) -> None:
        super().__init__()
        channels, *sides = shape
        self.shape = (channels, *sides)
        self.border = [(-side) % 2**structure.levels for side in sides]
        self.levels = nn.ModuleList(
            _Level(channels * 2**level, structure, last=level == structure.levels - 1)
            for level in range(structure.levels)
        )

    def forward(self, pixels: Tensor) -> Tensor:
        """Log-density (n,) of pixels from 0 to 1, in nats."""
        values, total = _to_logit(self.padded(pixels))
        for level in self.levels:
            values, of_level = level(values)
            total = total + of_level
        return total

    def padded(self, images: Tensor) -> Tensor:
        """Add the black border."""
        low, wide = self.border
        if not low and not wide:
            return images
        border = (wide // 2, wide - wide // 2, low // 2, low - low // 2)
        return functional.pad(images, border)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw images (count, C, h, w) from 0 to 1."""
        channels, *sides = self.shape
        height, width = (s + b >> len(self.levels) for s, b in zip(sides, self.border, strict=True))
        values = torch.empty(0)
        for number in reversed(range(len(self.levels))):
            level = self.levels[number]
            assert isinstance(level, _Level)
            size = (
                count,
                channels * 2 ** (number + (2 if level.prior is None else 1)),
                height,
                width,
            )
            noise = torch.randn(size, generator=generator)
            values = level.inverse(values, noise)
            height, width = 2 * height, 2 * width
        pixels = ((torch.sigmoid(values) * 2 - 1) / _SQUEEZE + 1) / 2
        top, left = (border // 2 for border in self.border)
        return pixels[:, :, top : top + sides[0], left : left + sides[1]].clamp(0, 1)


def _to_logit(pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Stretch (0, 1) to all numbers; return the log-determinant (n,), too."""
    values = torch.logit(((2 * pixels - 1) * _SQUEEZE + 1) / 2)
    slopes = functional.softplus(values) + functional.softplus(-values) + math.log(_SQUEEZE)
    return values, slopes.sum((1, 2, 3))
