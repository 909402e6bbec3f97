"""Variational autoencoder of OD-test: Shafaei et al. 2019, arXiv:1809.04729.

Kingma and Welling 2014, arXiv:1312.6114, with a Bernoulli decoder and a standard normal prior.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from oodometer.lab.detector_models.autoencoder import (
    COLUMNS,
    Decoder,
    Encoder,
    cross_entropy,
    image_size,
    layer_widths,
    od_test_recipe,
    widths_of,
)
from oodometer.lab.detector_models.cards import Codes, detector_model
from oodometer.lab.training.task import Batch, Measures, Task
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.study import TrainSpec


class VariationalAutoencoder(nn.Module):
    """OD-test's autoencoder with a code of twice the width, and two linear maps of it."""

    def __init__(self, model_size: str, shape: tuple[int, ...]) -> None:
        super().__init__()
        size = image_size("variational_autoencoder", shape)
        channels, widths = shape[0], widths_of(model_size, size)
        layers = layer_widths(widths, size)
        self.encoder = Encoder(channels, layers, 2 * widths.code)
        # Kernels of one pixel: a linear map wherever the code is one pixel itself.
        self.mean = nn.Conv2d(2 * widths.code, widths.code, 1)
        self.log_variance = nn.Conv2d(2 * widths.code, widths.code, 1)
        self.decoder = Decoder(widths.code, layers, channels, size)
        self.code_shape = self.decoder.code_shape

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean and log variance of the code, and the reconstruction before its sigmoid.

        The code is drawn in training; in evaluation it is the mean.
        """
        trunk = self.encoder(images)
        mean, log_variance = self.mean(trunk), self.log_variance(trunk)
        code = mean
        if self.training:
            code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return mean, log_variance, self.decoder(code)


def divergence(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Kullback-Leibler divergence from the standard normal prior in nats, (n,).

    Sum of (mean^2 + variance - 1 - log variance) / 2 over the code.
    """
    terms = mean.square() + log_variance.exp() - 1 - log_variance
    return 0.5 * terms.flatten(1).sum(1)


def negative_bound(model: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """Minus the evidence lower bound in nats, (n,), and the mean of the code, (n, code)."""
    mean, log_variance, outputs = model(images)
    pixels = images[0].numel()
    bound = pixels * cross_entropy(outputs, images) + divergence(mean, log_variance)
    return bound, mean.flatten(1)


def _network(spec: TrainSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
    return VariationalAutoencoder(spec.model_size, shape)


def _recipe(spec: TrainSpec, shape: tuple[int, ...]) -> TrainSpec:
    return od_test_recipe(spec, shape, code_width=2)  # its epochs go by the doubled code


def bound_loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    """Minus the evidence lower bound per pixel."""
    bound, _ = negative_bound(model, batch.inputs)
    return bound.mean() / batch.inputs[0].numel(), {}


def _samples(model: nn.Module, count: int, generator: torch.Generator) -> Tensor:
    assert isinstance(model, VariationalAutoencoder)
    images: Tensor = model.decoder(torch.randn((count, *model.code_shape), generator=generator))
    return images.sigmoid()


def _codes(model: nn.Module, answers: Tensor | None) -> Codes:
    """The sphere that most codes of the prior are near: its radius is the root of D."""
    assert isinstance(model, VariationalAutoencoder)
    dimensions = math.prod(model.code_shape)

    def decode(points: Tensor) -> Tensor:
        code = math.sqrt(dimensions) * points
        images: Tensor = model.decoder(code.view(-1, *model.code_shape)).sigmoid()
        return images

    note = f"Codes lie at distance {math.sqrt(dimensions):.3g} from the mean of the normal prior."
    return Codes(decode, dimensions, "sphere", note)


@detector_model(
    task=Task(_network, bound_loss),
    spec=_recipe,
    of_training=True,
    columns=COLUMNS,
    samples=_samples,
    codes=_codes,
)
def variational_autoencoder(model: nn.Module, images: Tensor) -> Tensor:
    """Minus the evidence lower bound in nats, and the mean of the code."""
    bound, code = negative_bound(model, images)
    return torch.cat([bound[:, None], code], 1)


@detector(
    paper="Kingma and Welling 2014, arXiv:1312.6114; Shafaei et al. 2019, arXiv:1809.04729",
    needs={"model:variational_autoencoder"},
    only_by_name=True,
)
def vae(train: View) -> Scorer:
    """Minus the evidence lower bound of a variational autoencoder, trained on the training images.

    score = sum over pixels of -x log s - (1 - x) log(1 - s), plus sum over the code of (m^2 + v - 1
    - log v) / 2: x the image, m and v mean and variance of its code, s the reconstruction from m.
    In nats. As with reconstruction_error(loss=bce), brightness counts, too.
    """
    return lambda test: test.model("variational_autoencoder")[:, 0]
