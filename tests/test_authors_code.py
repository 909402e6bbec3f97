"""Networks of ours with the weights of published code: see oracles/make_authors_code.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from oodometer.lab.detector_models.pixelcnn import bits_per_dimension
from oodometer.lab.detector_models.pixelcnn_network import PixelCNN, Structure
from oodometer.lab.detector_models.representations.sngp import TASK as SNGP
from oodometer.lab.detector_models.representations.sngp import (
    GaussianProcessClassifier,
    posterior_covariance,
)
from oodometer.lab.detector_models.with_outliers.intervals import (
    ball,
    difference_bounds,
    least_score,
)
from oodometer.lab.detector_models.with_outliers.networks import plain_cnn
from oodometer.study import TrainSpec

STORED = Path(__file__).parent / "oracles" / "authors_code.json"
RADIUS = 0.02
CHANNELS = (1, 3)


def wave(shape: tuple[int, ...], pitch: float) -> Tensor:
    """Numbers between -1 and 1 that need no random generator, in double precision."""
    count = int(torch.Size(shape).numel())
    steps = torch.arange(1, count + 1, dtype=torch.float64)
    return torch.sin(pitch * steps + 3 * torch.cos(0.1 * pitch * steps)).reshape(shape)


@torch.no_grad()
def filled(network: nn.Module) -> nn.Module:
    """The network with such weights, small enough that bounds stay of order 1."""
    network = network.double().eval()
    for number, parameter in enumerate(network.parameters()):
        size = 0.1 if parameter.dim() == 1 else 2 / parameter[0].numel()
        parameter.copy_(size * wave(tuple(parameter.shape), 0.7 + 0.01 * number))
    return network


def images(channels: int, side: int) -> Tensor:
    """A wave, black, white and a slope, in steps of a byte."""
    slope = torch.linspace(0, 1, channels * side * side, dtype=torch.float64)
    first = (1 + wave((channels, side, side), 0.3)) / 2
    flat = torch.zeros(channels, side, side, dtype=torch.float64)
    four = torch.stack([first, flat, flat + 1, slope.reshape(flat.shape)])
    return (255 * four).round() / 255


def pixelcnn(channels: int) -> PixelCNN:
    """A small network; the gains of its layers must not be small."""
    network = PixelCNN((channels, 8, 8), Structure(4, 2, blocks=1))
    filled(network)
    with torch.no_grad():
        for number, (name, parameter) in enumerate(network.named_parameters()):
            if name.endswith("gain"):
                parameter.copy_(0.7 + 0.3 * wave(tuple(parameter.shape), 0.4 + 0.01 * number))
    return network


def good(channels: int) -> nn.Sequential:
    """The network of GOOD, narrow."""
    network = plain_cnn("tiny", (channels, 8, 8), 4)
    filled(network)
    return network


def sngp() -> GaussianProcessClassifier:
    """A tiny network, its encoder as it is made: what is compared comes after it."""
    spec = TrainSpec.model_validate({"data": "noise", "model_size": "tiny"})
    network = SNGP.fresh_network(spec, (1, 8, 8), 3)
    assert isinstance(network, GaussianProcessClassifier)
    filled(network)
    with torch.no_grad():
        network.features.weight = 2 * wave(tuple(network.features.weight.shape), 0.9)
        network.features.offset = 3 * wave(tuple(network.features.offset.shape), 0.8)
    return network


def vectors(network: GaussianProcessClassifier) -> tuple[Tensor, Tensor]:
    """What its last layers are fitted to, and what they are asked about."""
    width = network.features.weight.shape[1]
    return wave((40, width), 0.5), 2 * wave((5, width), 0.6)


@pytest.fixture(scope="module")
def stored() -> dict[str, list[float]]:
    """Numbers of the authors' code, by what they are."""
    numbers: dict[str, list[float]] = json.loads(STORED.read_text(encoding="utf-8"))["numbers"]
    return numbers


def close(found: Tensor, expected: list[float]) -> None:
    assert found.flatten().tolist() == pytest.approx(expected, abs=1e-7, rel=1e-7)


@pytest.mark.parametrize("channels", CHANNELS)
def test_pixelcnn_gives_images_the_likelihood_that_the_published_code_gives_them(stored, channels):
    with torch.no_grad():
        found = bits_per_dimension(pixelcnn(channels), images(channels, 8))
    close(found, stored[f"pixelcnn, {channels} channels, bits per dimension"])


@pytest.mark.parametrize("channels", CHANNELS)
def test_good_has_the_bounds_that_the_authors_code_has(stored, channels):
    with torch.no_grad():
        bounds = difference_bounds(good(channels), ball(images(channels, 8), RADIUS))
    name = f"good, {channels} channels"
    close(bounds, stored[f"{name}, bounds of differences"])
    close(-torch.log1p(least_score(bounds).exp()), stored[f"{name}, bound of log confidence"])


def test_sngp_has_the_variance_and_logits_that_the_published_code_has(stored):
    network = sngp()
    seen, asked = vectors(network)
    network.encoder = nn.Identity()
    with torch.no_grad():
        network.covariance = posterior_covariance([network.featured(seen)])
        logits, variance = network.predictions(asked)
    close(logits, stored["sngp, mean-field logits"])
    close(variance, stored["sngp, variance"])
