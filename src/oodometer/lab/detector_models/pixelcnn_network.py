"""The network of PixelCNN++: two streams over the pixels before, at three resolutions.

Salimans et al. 2017, arXiv:1701.05517.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from oodometer.lab.detector_models.pixelcnn_likelihood import outputs_per_pixel

_RESOLUTIONS = 3  # each half of the one before
_MULTIPLE = 2 ** (_RESOLUTIONS - 1)  # to which sides are padded


@dataclass(frozen=True)
class Structure:
    """The size of a network."""

    filters: int
    components: int  # of the mixture
    blocks: int = 5  # per resolution and stream
    dropout: float = 0.5
    drops_channels: bool = True  # whole ones, or else single numbers


def _normalized(direction: Tensor, gain: Tensor, axis: int) -> Tensor:
    """Weights of the norm `gain` for every output, which is counted by this axis."""
    others = [number for number in range(direction.dim()) if number != axis]
    norms: Tensor = torch.linalg.vector_norm(direction, dim=others, keepdim=True)
    return direction * (gain / norms)


class _Convolution(nn.Conv2d):
    """A convolution of `rows` up to its own, and of columns `before` and `behind` its own.

    Weights are normalized (Salimans and Kingma 2016, arXiv:1602.07868), the border is zero.
    """

    def __init__(
        self, inputs: int, outputs: int, rows: int, before: int, behind: int, stride: int = 1
    ) -> None:
        super().__init__(inputs, outputs, (rows, before + 1 + behind), stride)
        norms = torch.linalg.vector_norm(self.weight.detach(), dim=(1, 2, 3), keepdim=True)
        self.gain = nn.Parameter(norms)
        self._border = (rows - 1, before)  # on all sides: PyTorch knows no other, the rest is cut

    def forward(self, inputs: Tensor) -> Tensor:
        """Convolve."""
        height, width = (side // self.stride[0] for side in inputs.shape[2:])
        weight = _normalized(self.weight, self.gain, 0)
        made = functional.conv2d(inputs, weight, self.bias, self.stride, self._border)
        return made[:, :, :height, :width]


class _Enlargement(nn.ConvTranspose2d):
    """The transposed convolution that doubles both sides, with normalized weights."""

    def __init__(self, filters: int, columns: int) -> None:
        super().__init__(filters, filters, (2, columns), 2)
        norms = torch.linalg.vector_norm(self.weight.detach(), dim=(0, 2, 3), keepdim=True)
        self.gain = nn.Parameter(norms)
        self._border = (0, columns - 2)

    def forward(self, inputs: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Enlarge."""
        weight = _normalized(self.weight, self.gain, 1)
        border = self._border
        return functional.conv_transpose2d(inputs, weight, self.bias, 2, border, border)


def _both_signs(values: Tensor) -> Tensor:
    """Twice as many channels: elu([x, -x])."""
    return functional.elu(torch.cat([values, -values], 1))


class _Block(nn.Module):
    """A gated residual block: x + a S(b), with [a, b] from x and from a side input."""

    def __init__(self, structure: Structure, behind: int, sides: int) -> None:
        super().__init__()
        filters = structure.filters
        self.first = _Convolution(2 * filters, filters, 2, 1, behind)
        self.side = _Convolution(2 * sides * filters, filters, 1, 0, 0) if sides else None
        self.second = _Convolution(2 * filters, 2 * filters, 2, 1, behind)
        kind = nn.Dropout2d if structure.drops_channels else nn.Dropout
        self.dropout = kind(structure.dropout)

    def forward(self, values: Tensor, *sides: Tensor) -> Tensor:
        """Return the new values."""
        inner = self.first(_both_signs(values))
        if self.side is not None:
            inner = inner + self.side(_both_signs(torch.cat(sides, 1)))
        made: Tensor = self.second(self.dropout(_both_signs(inner)))
        change, gate = made.chunk(2, 1)
        return values + change * torch.sigmoid(gate)


class _Stream(nn.Module):
    """One of two streams: of the rows above, or of what is above and on the left."""

    def __init__(self, structure: Structure, *, above: bool) -> None:
        super().__init__()
        filters, behind = structure.filters, 1 if above else 0
        sides = 0 if above else 1  # the other stream
        self._up = [structure.blocks] * _RESOLUTIONS
        self._down = [structure.blocks + (level > 0) for level in range(_RESOLUTIONS)]
        self.blocks = nn.ModuleList(
            _Block(structure, behind, sides + extra)
            for extra, counts in enumerate((self._up, self._down))  # on the way down, what was kept
            for _ in range(sum(counts))
        )
        smaller = range(_RESOLUTIONS - 1)
        self.reduce = nn.ModuleList(
            _Convolution(filters, filters, 2, 1, behind, stride=2) for _ in smaller
        )
        self.enlarge = nn.ModuleList(_Enlargement(filters, 2 + behind) for _ in smaller)

    def up(self, level: int) -> nn.ModuleList:
        """The blocks of a resolution on the way to the smallest one."""
        start = sum(self._up[:level])
        return self.blocks[start : start + self._up[level]]

    def down(self, level: int) -> nn.ModuleList:
        """The blocks of a resolution on the way back, from the smallest one."""
        start = sum(self._up) + sum(self._down[:level])
        return self.blocks[start : start + self._down[level]]


def _shifted(values: Tensor, down: int, right: int) -> Tensor:
    """Move a picture; what moves in is zero."""
    height, width = values.shape[2:]
    return functional.pad(values, (right, 0, down, 0))[:, :, :height, :width]


class PixelCNN(nn.Module):
    """Images (n, C, h, w) from 0 to 1 in; what the mixture of every pixel consists of out.

    Sides are padded below and on the right to a multiple of 4. The border is not scored: what is
    said of a pixel stays a probability given the pixels before.
    """

    def __init__(self, shape: Sequence[int], structure: Structure) -> None:
        super().__init__()
        channels, filters = shape[0], structure.filters
        self.shape, self.filters = tuple(shape), filters
        self.above_start = _Convolution(channels + 1, filters, 2, 1, 1)
        self.row_start = _Convolution(channels + 1, filters, 1, 1, 1)
        self.column_start = _Convolution(channels + 1, filters, 2, 0, 0)
        self.above = _Stream(structure, above=True)
        self.left = _Stream(structure, above=False)
        outputs = outputs_per_pixel(channels, structure.components)
        self.last = _Convolution(filters, outputs, 1, 0, 0)

    def forward(self, images: Tensor) -> Tensor:
        """Return the numbers (n, k, h, w)."""
        height, width = images.shape[2:]
        # The channel of ones tells pixels from the border.
        marked = torch.cat([2 * images - 1, torch.ones_like(images[:, :1])], 1)
        marked = functional.pad(marked, (0, -width % _MULTIPLE, 0, -height % _MULTIPLE))
        above = _shifted(self.above_start(marked), 1, 0)
        left = _shifted(self.row_start(marked), 1, 0) + _shifted(self.column_start(marked), 0, 1)
        kept = [(above, left)]
        for level in range(_RESOLUTIONS):
            if level:
                above = self.above.reduce[level - 1](above)
                left = self.left.reduce[level - 1](left)
                kept.append((above, left))
            for of_above, of_left in zip(self.above.up(level), self.left.up(level), strict=True):
                above = of_above(above)
                left = of_left(left, above)
                kept.append((above, left))
        above, left = kept.pop()
        for level in range(_RESOLUTIONS):
            if level:
                above = self.above.enlarge[level - 1](above)
                left = self.left.enlarge[level - 1](left)
            for of_above, of_left in zip(
                self.above.down(level), self.left.down(level), strict=True
            ):
                above_before, left_before = kept.pop()
                above = of_above(above, above_before)
                left = of_left(left, above, left_before)
        assert not kept, "every skip connection is used once"
        made: Tensor = self.last(functional.elu(left))
        return made[:, :, :height, :width]


class AveragedPixelCNN(nn.Module):
    """The network as in the authors' code: starts from data, answers with averaged weights.

    The average moves by max(1 - decay, 1 / t) at step t of a training.
    """

    steps: Tensor

    def __init__(self, shape: Sequence[int], structure: Structure, decay: float) -> None:
        super().__init__()
        self.shape, self.filters = tuple(shape), structure.filters
        self.network = PixelCNN(shape, structure)
        self.average = deepcopy(self.network).requires_grad_(False)
        self.register_buffer("steps", torch.tensor(0))
        self._decay = decay

    def forward(self, images: Tensor) -> Tensor:
        """Return the numbers (n, k, h, w): of the network in training, else of the average."""
        if not self.training:
            averaged: Tensor = self.average(images)
            return averaged
        if not self.steps:
            start_from(self.network, images)
        self._follow()
        made: Tensor = self.network(images)
        return made

    @torch.no_grad()
    def _follow(self) -> None:
        self.steps += 1
        share = max(1 - self._decay, 1 / int(self.steps))
        for kept, new in zip(self.average.parameters(), self.network.parameters(), strict=True):
            kept.lerp_(new, share)


@torch.no_grad()
def start_from(network: PixelCNN, images: Tensor) -> None:
    """Give every output of a convolution mean 0 and deviation 1 on these images.

    Where a block ends, the deviation is 0.1. Salimans and Kingma 2016, arXiv:1602.07868.
    """
    ends = {module.second for module in network.modules() if isinstance(module, _Block)}

    def rescale(layer: nn.Module, _: object, made: Tensor) -> Tensor:
        assert isinstance(layer, _Convolution | _Enlargement)
        assert layer.bias is not None
        variance, mean = torch.var_mean(made, (0, 2, 3), correction=0)
        factor = (0.1 if layer in ends else 1.0) / (variance + 1e-10).sqrt()
        layer.gain.mul_(factor.reshape(layer.gain.shape))
        layer.bias.sub_(mean).mul_(factor)
        return (made - mean[:, None, None]) * factor[:, None, None]

    layers = [each for each in network.modules() if isinstance(each, _Convolution | _Enlargement)]
    hooks = [layer.register_forward_hook(rescale) for layer in layers]
    network(images)
    for hook in hooks:
        hook.remove()
