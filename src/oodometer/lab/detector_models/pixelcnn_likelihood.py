"""The discretized mixture of logistic distributions of PixelCNN++.

Salimans et al. 2017, arXiv:1701.05517. Pixel values 0 to 255 are placed at x = v / 127.5 - 1; a
value has the probability of the interval x - 1/255 to x + 1/255, the first and the last one that of
everything beyond, too.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

_HALF = 1 / 255  # of the interval of a value
_EDGE = 0.999  # beyond it, a value is 0 or 255
_LOWEST_LOG_SCALE = -7.0


class Mixture(NamedTuple):
    """What the network says of a pixel: logits (n, M, 1, h, w), the others (n, M, C, h, w).

    Red has a mean of its own; that of green depends on red, that of blue on red and green.
    """

    logits: Tensor
    means: Tensor
    log_scales: Tensor
    coefficients: Tensor | None  # of the channels before, for colors: red in green, ...


def outputs_per_pixel(channels: int, components: int) -> int:
    """How many numbers describe a pixel: 3 M if it is grey, 10 M if it has three colors."""
    return components * (1 + 3 * channels if channels == 3 else 3 * channels)


def mixture_of(outputs: Tensor, channels: int) -> Mixture:
    """Divide outputs (n, k, h, w): M logits, then M means, M log-scales, M coefficients each."""
    kinds = 3 if channels == 3 else 2
    components = outputs.shape[1] // (1 + kinds * channels)
    n, _, height, width = outputs.shape
    logits = outputs[:, :components, None]
    rest = outputs[:, components:].reshape(n, channels, kinds, components, height, width)
    means, log_scales, *others = rest.permute(2, 0, 3, 1, 4, 5)
    coefficients = torch.tanh(others[0]) if others else None
    return Mixture(logits, means, log_scales.clamp(min=_LOWEST_LOG_SCALE), coefficients)


def conditional_means(mixture: Mixture, values: Tensor) -> Tensor:
    """Means (n, M, C, h, w), given the true values (n, C, h, w) of the colors before."""
    if mixture.coefficients is None:
        return mixture.means
    red, green = values[:, None, 0], values[:, None, 1]
    in_green, red_in_blue, green_in_blue = mixture.coefficients.unbind(2)
    shifts = [torch.zeros_like(in_green), in_green * red, red_in_blue * red + green_in_blue * green]
    return mixture.means + torch.stack(shifts, 2)


def log_probabilities(outputs: Tensor, values: Tensor) -> Tensor:
    """Log-probability (n, h, w) of each pixel, in nats; values (n, C, h, w) from -1 to 1.

    With a = exp(-s), p = a (x - m + 1/255), q = a (x - m - 1/255) and the logistic function S, the
    interval has S(p) - S(q) = S(p) S(-q) (1 - exp(q - p)), whose logarithm needs no difference of
    nearly equal numbers. Of the three factors, 0 lacks S(-q) and the last, 255 S(p) and the last.
    """
    mixture = mixture_of(outputs, values.shape[1])
    distance = values[:, None] - conditional_means(mixture, values)
    inverse = torch.exp(-mixture.log_scales)
    below = functional.softplus(-inverse * (distance + _HALF))  # -log S(p)
    above = functional.softplus(inverse * (distance - _HALF))  # -log S(-q)
    width = torch.log(-torch.expm1(-2 * _HALF * inverse))
    lowest, highest = values[:, None] < -_EDGE, values[:, None] > _EDGE
    logs = (
        width.masked_fill(lowest | highest, 0)
        - below.masked_fill(highest, 0)
        - above.masked_fill(lowest, 0)
    )
    weights = functional.log_softmax(mixture.logits, 1)[:, :, 0]
    return torch.logsumexp(weights + logs.sum(2), 1)


def draw_pixels(outputs: Tensor, channels: int, generator: torch.Generator) -> Tensor:
    """Draw values (n, C, h, w) on the grid of 256, from -1 to 1.

    A component is drawn by its weight; then each color from its logistic distribution, rounded,
    given the ones before.
    """
    mixture = mixture_of(outputs, channels)
    noise = torch.rand(mixture.logits.shape, generator=generator, dtype=outputs.dtype)
    chosen = (mixture.logits - torch.log(-torch.log(noise))).argmax(1, keepdim=True)

    def of_chosen(part: Tensor) -> Tensor:
        return part.gather(1, chosen.expand(-1, -1, channels, -1, -1))

    means, log_scales = of_chosen(mixture.means), of_chosen(mixture.log_scales)
    coefficients = None if mixture.coefficients is None else of_chosen(mixture.coefficients)
    drawn = torch.zeros_like(means[:, 0])
    uniform = torch.rand(drawn.shape, generator=generator, dtype=outputs.dtype)
    offsets = log_scales[:, 0].exp() * torch.logit(uniform)
    for channel in range(channels):
        one = Mixture(chosen[:, :, :1], means, log_scales, coefficients)
        value = conditional_means(one, drawn)[:, 0, channel] + offsets[:, channel]
        drawn[:, channel] = (127.5 * (value + 1)).round().clamp(0, 255) / 127.5 - 1
    return drawn
