"""PixelCNN++: the probability of an image, pixel by pixel, given the pixels before.

Salimans et al. 2017, arXiv:1701.05517; as a detector in OD-test, Shafaei et al. 2019,
arXiv:1809.04729, and in the evaluation by generative models of Lee et al.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from oodometer.lab.detector_models.cards import detector_model
from oodometer.lab.detector_models.pixelcnn_likelihood import draw_pixels, log_probabilities
from oodometer.lab.detector_models.pixelcnn_network import AveragedPixelCNN, PixelCNN, Structure
from oodometer.lab.training.task import Batch, Measures, Task
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.study import TrainSpec

Variant = Literal["od_test", "evg", "official"]

_MOST_NUMBERS = 2**23  # of a layer while images are scored: skip connections keep many layers


@dataclass(frozen=True)
class _Published:
    """A network as published, and how it was trained."""

    grey: Structure
    color: Structure
    recipe: Mapping[str, object]


_PUBLISHED: Mapping[Variant, _Published] = {
    "od_test": _Published(
        grey=Structure(64, 5),
        color=Structure(160, 10),
        recipe={
            "epochs": 60,
            "batch_size": 128,
            "learning_rate": 1e-3,
            "schedule": "plateau(patience=10, threshold=0.01, factor=0.1, minimum=1e-5)",
            "validation": 0.2,
            "epoch": "best",
            "best_by": "validation_loss",
        },
    ),
    "evg": _Published(
        grey=Structure(80, 10),
        color=Structure(80, 10),
        recipe={
            "epochs": 200,
            "batch_size": 64,
            "learning_rate": 1e-4,
            "schedule": "exponential(factor=0.999995)",
            "augment": "crop_flip(padding=0)",
        },
    ),
    "official": _Published(
        grey=Structure(160, 10, drops_channels=False),
        color=Structure(160, 10, drops_channels=False),
        recipe={
            "epochs": 5000,
            "batch_size": 128,
            "learning_rate": 1e-3,
            "schedule": "exponential(factor=0.999995)",
        },
    ),
}
_MNIST = Structure(32, 5)  # in OD-test, which takes 64 filters for other grey images
_DECAYS = {"tiny": 0.9, "small": 0.99, "paper": 0.9995}  # of averaged weights, variant official
_REDUCED: Mapping[str, tuple[Structure, Mapping[str, object]]] = {
    "tiny": (
        Structure(8, 2, blocks=1, dropout=0.0),
        {"epochs": 2, "train_size": 400, "learning_rate": 5e-3, "batch_size": 16},
    ),
    "small": (Structure(16, 5, blocks=1, dropout=0.0), {"epochs": 4, "train_size": 10_000}),
}


def _structure(variant: Variant, spec: TrainSpec, channels: int) -> Structure:
    if spec.model_size != "paper":
        return _REDUCED[spec.model_size][0]
    if variant == "od_test" and spec.data == "mnist":
        return _MNIST
    return _PUBLISHED[variant].grey if channels == 1 else _PUBLISHED[variant].color


def _recipe(variant: Variant, spec: TrainSpec, shape: tuple[int, ...]) -> TrainSpec:
    if spec.model_size == "paper":
        return spec.model_copy(update={**_PUBLISHED[variant].recipe, "optimizer": "adam"})
    changes: dict[str, object] = {"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 32}
    return spec.model_copy(update={**changes, **_REDUCED[spec.model_size][1]})


def bits_per_dimension(model: nn.Module, images: Tensor) -> Tensor:
    """Negative log-likelihood (n,) of images from 0 to 1: bits per pixel and channel.

    Values between two of the 256 are scored by the same formula, with an interval around them.
    """
    nats = log_probabilities(model(images), 2 * images - 1).sum((1, 2))
    return -nats / (images[0].numel() * math.log(2))


def draw_images(model: nn.Module, count: int, generator: torch.Generator) -> Tensor:
    """Draw images (count, C, h, w) from 0 to 1, pixel by pixel.

    What comes below a row has no influence on it: the network sees the rows down to it only.
    """
    assert isinstance(model, PixelCNN | AveragedPixelCNN)
    channels, height, width = model.shape
    images = torch.zeros(count, channels, height, width)
    for row in range(height):
        for column in range(width):
            outputs = model(images[:, :, : row + 1])[:, :, row : row + 1, column : column + 1]
            drawn = draw_pixels(outputs, channels, generator)
            images[:, :, row, column] = (drawn[:, :, 0, 0] + 1) / 2
    return images


def _loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    return bits_per_dimension(model, batch.inputs).mean(), {}


def _as_given_and_rounded(model: nn.Module, images: Tensor) -> Tensor:
    """Bits per dimension (n, 2): of the images, and of the nearest ones with 256 values."""
    assert isinstance(model, PixelCNN | AveragedPixelCNN)
    rows = max(1, _MOST_NUMBERS // (model.filters * images[0, 0].numel()))

    def bits(pixels: Tensor) -> Tensor:
        return torch.cat([bits_per_dimension(model, part) for part in torch.split(pixels, rows)])

    rounded = (images.clamp(0, 1) * 255).round() / 255
    as_given = bits(images)
    same = torch.equal(rounded, images)  # as images that are stored as bytes
    return torch.stack([as_given, as_given if same else bits(rounded)], 1)


def _task(variant: Variant) -> Task:
    def network(spec: TrainSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
        structure = _structure(variant, spec, shape[0])
        if variant == "official":
            return AveragedPixelCNN(shape, structure, _DECAYS[spec.model_size])
        return PixelCNN(shape, structure)

    return Task(network=network, loss=_loss)


@detector_model(
    task=_task("od_test"), spec=partial(_recipe, "od_test"), columns=2, samples=draw_images
)
def pixelcnn_od_test(model: nn.Module, inputs: Tensor) -> Tensor:
    """Negative log-likelihoods by the network of OD-test."""
    return _as_given_and_rounded(model, inputs)


@detector_model(task=_task("evg"), spec=partial(_recipe, "evg"), columns=2, samples=draw_images)
def pixelcnn_evg(model: nn.Module, inputs: Tensor) -> Tensor:
    """Negative log-likelihoods by the network of EvG."""
    return _as_given_and_rounded(model, inputs)


@detector_model(
    task=_task("official"), spec=partial(_recipe, "official"), columns=2, samples=draw_images
)
def pixelcnn_official(model: nn.Module, inputs: Tensor) -> Tensor:
    """Negative log-likelihoods by the network of PixelCNN++'s authors."""
    return _as_given_and_rounded(model, inputs)


@detector(
    paper="Salimans et al. 2017, arXiv:1701.05517",
    needs={"model:pixelcnn_od_test", "model:pixelcnn_evg", "model:pixelcnn_official"},
    grid={"variant": ("od_test",), "quantise": (False,)},
    needs_for={
        "variant": {
            "od_test": {"model:pixelcnn_od_test"},
            "evg": {"model:pixelcnn_evg"},
            "official": {"model:pixelcnn_official"},
        },
    },
    only_by_name=True,
)
def pixelcnn(train: View, *, variant: Variant = "od_test", quantise: bool = False) -> Scorer:
    """Negative log-likelihood of PixelCNN++, an autoregressive model of pixels.

    score = -log2 p(x) / D for D pixels and channels; OD-test reports bits per pixel and EvG nats
    per image, which order images alike. p(x) is the product over pixels of a mixture of logistic
    distributions given the pixels before. Values between two of the 256 are scored by the same
    formula; quantise=True rounds them first. variant is the network and training of OD-test, that
    of EvG, which differs only at model_size: paper, or that of the authors' code, which starts from
    data, averages the weights over training and drops single numbers instead of whole channels.
    """
    name, column = f"pixelcnn_{variant}", int(quantise)
    return lambda test: test.model(name)[:, column]
