"""Encoders and decoders of the normalized autoencoder, as the authors have configured them.

Yoon, Noh and Park 2021, arXiv:2105.05735.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from oodometer.lab.detector_models.autoencoder import Size


@dataclass(frozen=True)
class Widths:
    """Channels of the first four layers, of the one before the code, and of the code."""

    layers: tuple[int, int, int, int]
    last: int
    code: int


# Of the authors' networks for grey images; color images have another one in their paper.
WIDTHS = {
    "tiny": Widths((4, 8, 8, 8), 32, 8),
    "small": Widths((8, 16, 16, 32), 128, 16),
    "paper": Widths((32, 64, 64, 128), 1024, 32),
}


class PlainEncoder(nn.Sequential):
    """Two 3 x 3 convolutions, pooling, two more, pooling, and two layers on what remains."""

    def __init__(self, channels: int, widths: Widths, padding: int, kernel: Size) -> None:
        one, two, three, four = widths.layers
        super().__init__(
            *_convolution(channels, one, padding),
            *_convolution(one, two, padding),
            nn.MaxPool2d(2),
            *_convolution(two, three, padding),
            *_convolution(three, four, padding),
            nn.MaxPool2d(2),
            nn.Conv2d(four, widths.last, kernel),
            nn.ReLU(),
            nn.Conv2d(widths.last, widths.code, 1),
        )


def _convolution(inputs: int, outputs: int, padding: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inputs, outputs, 3, padding=padding), nn.ReLU()


class PlainDecoder(nn.Sequential):
    """The encoder backwards; what it pools is enlarged bilinearly, corners aligned."""

    def __init__(self, channels: int, widths: Widths, padding: int, pooled: list[Size]) -> None:
        one, two, three, four = widths.layers
        first, second, kernel = pooled
        super().__init__(
            nn.ConvTranspose2d(widths.code, four, kernel),
            nn.ReLU(),
            nn.Upsample(second, mode="bilinear", align_corners=True),
            *_transposed(four, three, padding),
            *_transposed(three, two, padding),
            nn.Upsample(first, mode="bilinear", align_corners=True),
            *_transposed(two, one, padding),
            nn.ConvTranspose2d(one, channels, 3, padding=padding),
            nn.Sigmoid(),
        )


def _transposed(inputs: int, outputs: int, padding: int) -> tuple[nn.Module, ...]:
    return nn.ConvTranspose2d(inputs, outputs, 3, padding=padding), nn.ReLU()


def plain_networks(shape: tuple[int, ...], widths: Widths) -> tuple[nn.Module, nn.Module]:
    """Encoder and decoder for grey images, and for color images in the smaller sizes.

    28 x 28 has no padding, as published; other sizes have, so that any from 4 x 4 will do.
    """
    channels, *size = shape
    padding = 0 if size == [28, 28] else 1
    pooled = [tuple(side - 4 * (1 - padding) for side in size)]
    pooled.append(tuple(side // 2 - 4 * (1 - padding) for side in pooled[0]))
    pooled.append(tuple(side // 2 for side in pooled[1]))
    sizes: list[Size] = [(height, width) for height, width in pooled]
    encoder = PlainEncoder(channels, widths, padding, sizes[-1])
    return encoder, PlainDecoder(channels, widths, padding, sizes)


class DownBlock(nn.Module):
    """Two 3 x 3 convolutions beside a skip; `halve` pools the sum."""

    def __init__(self, inputs: int, outputs: int, *, halve: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1, bias=False) if halve else nn.Identity()
        self.pool = nn.AvgPool2d(2) if halve else nn.Identity()

    def forward(self, values: Tensor) -> Tensor:
        """Return a map of half the size, or of the same."""
        inner = self.second(functional.leaky_relu(self.first(values), 0.2))
        return functional.leaky_relu(self.pool(inner + self.skip(values)), 0.2)


class UpBlock(nn.Module):
    """Two normalized 3 x 3 convolutions at the larger size, beside the enlarged input."""

    def __init__(self, width: int, size: Size) -> None:
        super().__init__()
        self.enlarge = nn.Upsample(size, mode="nearest")
        self.norms = nn.ModuleList(nn.GroupNorm(1, width) for _ in range(2))
        self.layers = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(2))

    def forward(self, values: Tensor) -> Tensor:
        """Return a map of the larger size."""
        inner = self.layers[0](self.enlarge(self.norms[0](values).relu()))
        summed: Tensor = self.layers[1](self.norms[1](inner).relu()) + self.enlarge(values)
        return summed


def residual_networks(
    shape: tuple[int, ...], width: int = 128, code: int = 32
) -> tuple[nn.Module, nn.Module]:
    """Encoder and decoder for color images, as published ("Conv32Big")."""
    channels, *size = shape
    sizes: list[Size] = [(size[0] >> halvings, size[1] >> halvings) for halvings in range(4)]
    encoder = nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1),
        nn.LeakyReLU(0.2),
        DownBlock(width, width, halve=True),
        DownBlock(width, width, halve=False),
        DownBlock(width, 2 * width, halve=True),
        DownBlock(2 * width, 2 * width, halve=False),
        DownBlock(2 * width, 2 * width, halve=True),
        DownBlock(2 * width, 2 * width, halve=False),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Conv2d(2 * width, code, 1),
    )
    decoder = nn.Sequential(
        nn.ConvTranspose2d(code, width, sizes[3]),
        *(UpBlock(width, larger) for larger in sizes[2::-1]),
        nn.GroupNorm(2, width),
        nn.ReLU(),
        nn.Conv2d(width, channels, 3, padding=1),
        nn.Sigmoid(),
    )
    for module in decoder.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.xavier_uniform_(module.weight)
    return encoder, decoder
