"""Glow: the density of an image, by an invertible network.

Kingma and Dhariwal 2018, arXiv:1807.03039.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from oodometer.lab.detector_models.cards import detector_model
from oodometer.lab.detector_models.glow_network import Coupling, Glow, Structure
from oodometer.lab.training.task import Batch, Measures, Task
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.study import TrainSpec

_VALUES = 256  # of a pixel


def bits_per_dimension(model: nn.Module, pixels: Tensor) -> Tensor:
    """Negative log-likelihood (n,) of images of 256 values: bits per pixel and channel."""
    assert isinstance(model, Glow)
    log_density: Tensor = model(pixels)
    dimensions = model.padded(pixels[:1]).numel()
    return math.log2(_VALUES) - log_density / (dimensions * math.log(2))


def _dequantized(images: Tensor, noise: Tensor) -> Tensor:
    """Spread each of the 256 values evenly over its share of 0 to 1."""
    return ((_VALUES - 1) * images + noise) / _VALUES


_SIZES: Mapping[str, Mapping[str, object]] = {
    "tiny": {"epochs": 2, "batch_size": 32, "learning_rate": 1e-3, "train_size": 400},
    "small": {"epochs": 10, "batch_size": 64, "learning_rate": 1e-3, "train_size": 10_000},
    "paper": {
        "epochs": 500,
        "batch_size": 64,
        "learning_rate": 1e-4,
        "gradient_norm": 0.1,
    },
}


def _structure(spec: TrainSpec, shape: tuple[int, ...]) -> Structure:
    if spec.model_size == "paper":
        return Structure(levels=3, steps=32, hidden=512)
    if spec.model_size == "tiny":
        return Structure(levels=2, steps=2, hidden=16)
    # Three levels need sides that 8 divides: a smaller one less, instead of a border.
    return Structure(levels=2 if any(side % 8 for side in shape[1:]) else 3, steps=8, hidden=64)


def _recipe(spec: TrainSpec, shape: tuple[int, ...]) -> TrainSpec:
    changes = {"optimizer": "adam", "gradient_norm": 1.0, **_SIZES[spec.model_size]}
    if spec.model_size == "small" and _structure(spec, shape).levels == 3:
        changes["epochs"] = 8
    return spec.model_copy(update=changes)


def _loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    pixels = _dequantized(batch.inputs, torch.rand_like(batch.inputs))
    return bits_per_dimension(model, pixels).mean(), {}


def _plain_and_noisy(model: nn.Module, images: Tensor) -> Tensor:
    """Bits per dimension (n, 2): of the images as they are, and with noise as in training.

    The noise is the same for all images, so that no score depends on what else is scored.
    """
    generator = torch.Generator().manual_seed(0)
    noise = torch.rand(images.shape[1:], generator=generator).to(images)
    pair = images, _dequantized(images, noise)
    return torch.stack([bits_per_dimension(model, pixels) for pixels in pair], 1)


def draw_images(model: nn.Module, count: int, generator: torch.Generator) -> Tensor:
    """Draw images (count, C, h, w) from 0 to 1."""
    assert isinstance(model, Glow)
    return model.draw(count, generator)


def _task(coupling: Coupling, *, triangular: bool) -> Task:
    def network(spec: TrainSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
        structure = _structure(spec, shape)
        return Glow(shape, replace(structure, coupling=coupling, triangular=triangular))

    return Task(network=network, loss=_loss)


@detector_model(
    task=_task("sigmoid", triangular=False), spec=_recipe, columns=2, samples=draw_images
)
def glow_sigmoid(model: nn.Module, inputs: Tensor) -> Tensor:
    """Negative log-likelihoods, by couplings with bounded factors."""
    return _plain_and_noisy(model, inputs)


@detector_model(
    task=_task("exponential", triangular=False), spec=_recipe, columns=2, samples=draw_images
)
def glow_exponential(model: nn.Module, inputs: Tensor) -> Tensor:
    """Negative log-likelihoods, by couplings as in RealNVP."""
    return _plain_and_noisy(model, inputs)


@detector_model(
    task=_task("sigmoid", triangular=True), spec=_recipe, columns=2, samples=draw_images
)
def glow_sigmoid_lu(model: nn.Module, inputs: Tensor) -> Tensor:
    """The same with mixing matrices that are learned by their LU decomposition."""
    return _plain_and_noisy(model, inputs)


@detector_model(
    task=_task("exponential", triangular=True), spec=_recipe, columns=2, samples=draw_images
)
def glow_exponential_lu(model: nn.Module, inputs: Tensor) -> Tensor:
    """The same with mixing matrices that are learned by their LU decomposition."""
    return _plain_and_noisy(model, inputs)


@detector(
    paper="Kingma and Dhariwal 2018, arXiv:1807.03039",
    needs={
        "model:glow_sigmoid",
        "model:glow_exponential",
        "model:glow_sigmoid_lu",
        "model:glow_exponential_lu",
    },
    grid={"coupling": ("sigmoid",), "lu": (False,), "noise": (False,)},
    needs_for={
        "coupling": {
            "sigmoid": {"model:glow_sigmoid", "model:glow_sigmoid_lu"},
            "exponential": {"model:glow_exponential", "model:glow_exponential_lu"},
        },
        "lu": {
            False: {"model:glow_sigmoid", "model:glow_exponential"},
            True: {"model:glow_sigmoid_lu", "model:glow_exponential_lu"},
        },
    },
    only_by_name=True,
)
def glow(
    train: View, *, coupling: Coupling = "sigmoid", lu: bool = False, noise: bool = False
) -> Scorer:
    """Negative log-likelihood of Glow, an invertible network.

    score = -(log N(z; 0, I) + log |det dz/dx|) / (D ln 2) + 8 bits, z the latent numbers of the
    image. coupling="exponential" bounds factors by exp(g tanh), as in RealNVP, and lu=True learns
    mixing matrices by their LU decomposition. Images are scored as they are, as published, although
    training spreads the 256 values by uniform noise; noise=True adds it, the same to all images.
    """
    name, column = f"glow_{coupling}" + ("_lu" if lu else ""), int(noise)
    return lambda test: test.model(name)[:, column]
