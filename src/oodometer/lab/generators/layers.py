"""Layers of StyleGAN2: Karras et al. 2020, arXiv:1912.04958."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

_TINY = 1e-8
_TAPS = (1.0, 3.0, 3.0, 1.0)  # of the low-pass filter along each axis


def leaky(values: Tensor) -> Tensor:
    """Leaky ReLU of slope 0.2 times √2, which keeps the second moment (1.04 for a normal input)."""
    return functional.leaky_relu(values, 0.2) * math.sqrt(2)


class EqualizedLinear(nn.Linear):
    """A linear map whose weights are drawn from N(0, 1) / m and used as w · m / √inputs.

    With the learning rate equalized, all layers learn at the same speed (Karras et al. 2018,
    arXiv:1710.10196); `rate` is m, by which a layer learns more slowly than the others.
    """

    def __init__(self, inputs: int, outputs: int, *, bias: float = 0.0, rate: float = 1.0) -> None:
        self.rate, self.first = rate, bias
        super().__init__(inputs, outputs)

    def reset_parameters(self) -> None:
        """Draw weights, and set the bias to its first value."""
        nn.init.normal_(self.weight, std=1 / self.rate)
        nn.init.constant_(self.bias, self.first)

    def forward(self, values: Tensor) -> Tensor:
        """Map rows."""
        weight = self.weight * (self.rate / math.sqrt(self.in_features))
        return functional.linear(values, weight, self.bias * self.rate)


class EqualizedConvolution(nn.Conv2d):
    """A convolution that keeps the size or, with `down`, is smoothed first and halves it."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, down: bool = False) -> None:
        self.down = down
        super().__init__(inputs, outputs, kernel, 2 if down else 1, 0 if down else kernel // 2)

    def reset_parameters(self) -> None:
        """Draw weights from N(0, 1); biases are 0."""
        nn.init.normal_(self.weight)
        assert self.bias is not None
        nn.init.zeros_(self.bias)

    def forward(self, values: Tensor) -> Tensor:
        """Convolve."""
        scale = 1 / math.sqrt(self.weight[0].numel())
        values = smooth(values, padding=2) if self.down else values
        weight = self.weight * scale
        return functional.conv2d(values, weight, self.bias, self.stride, self.padding)


def smooth(values: Tensor, *, padding: int, gain: float = 1.0) -> Tensor:
    """Filter every channel with [1, 3, 3, 1] along both axes, whose weights add up to the gain."""
    channels = values.shape[1]
    return functional.conv2d(values, _kernel(values, gain), padding=padding, groups=channels)


def enlarge(values: Tensor) -> Tensor:
    """Double the size: zeros between the pixels, then the filter; a constant stays one inside."""
    kernel, channels = _kernel(values, gain=4.0), values.shape[1]
    return functional.conv_transpose2d(values, kernel, stride=2, padding=1, groups=channels)


def _kernel(values: Tensor, gain: float) -> Tensor:
    taps = values.new_tensor(_TAPS)
    kernel = taps[:, None] * taps * (gain / taps.sum().square())
    return kernel.expand(values.shape[1], 1, -1, -1)


class ModulatedConvolution(nn.Module):
    """A convolution whose weights are scaled by a style, one per sample: W'_oik = s_i W_oik.

    Demodulation divides by the norm of what each output channel adds up, d_o = (sum of W'_oik^2 +
    1e-8)^(-1/2). Scales of inputs and outputs can be taken out of the sum, d · conv(W, s · x), so
    that one convolution serves all samples: that is faster than a group of channels per sample.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        style: int,
        *,
        up: bool = False,
        demodulate: bool = True,
    ) -> None:
        super().__init__()
        self.style = EqualizedLinear(style, inputs, bias=1.0)
        self.weight = nn.Parameter(torch.randn(outputs, inputs, kernel, kernel))
        self.up, self.demodulate = up, demodulate

    def forward(self, values: Tensor, latent: Tensor) -> Tensor:
        """Convolve each sample in its style; with `up` to twice the size."""
        styles = self.style(latent)
        scaled = 1.0
        if self.demodulate:
            squares = self.weight.square().sum((2, 3))
            scaled = (styles.square() @ squares.T + _TINY).rsqrt()[:, :, None, None]
        else:
            styles = styles / math.sqrt(self.weight[0].numel())
        values = values * styles[:, :, None, None]
        if self.up:
            values = functional.conv_transpose2d(values, self.weight.transpose(0, 1), stride=2)
            return smooth(values, padding=1, gain=4.0) * scaled
        return functional.conv2d(values, self.weight, padding=self.weight.shape[-1] // 2) * scaled


def add_deviation(values: Tensor, group: int) -> Tensor:
    """Append a channel: how much the samples of a group differ, √(variance + 1e-8) on average.

    So that a discriminator notices a generator whose images are all alike. Sample i is in a group
    with samples i + n/g, i + 2n/g ...; g is the largest size that divides `group` and n.
    """
    count, channels, height, width = values.shape
    size = math.gcd(count, group)
    apart = values.reshape(size, -1, channels, height, width)
    spread = (apart.var(0, unbiased=False) + _TINY).sqrt().mean((1, 2, 3))
    channel = spread.repeat(size).view(-1, 1, 1, 1).expand(-1, 1, height, width)
    return torch.cat([values, channel], 1)
