"""Normalized autoencoder (NAE): one that is taught not to reconstruct what it could by chance.

Yoon, Noh and Park 2021, arXiv:2105.05735: the reconstruction error is the energy E of a density
proportional to exp(-E), and training lowers it on images and raises it on samples of that density.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from oodometer.errors import UserError
from oodometer.lab.detector_models.autoencoder import MIRRORED, dequantized, image_size
from oodometer.lab.detector_models.cards import Codes, detector_model
from oodometer.lab.detector_models.normalized_networks import (
    WIDTHS,
    plain_networks,
    residual_networks,
)
from oodometer.lab.training.task import Batch, Measures, Task
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.study import TrainSpec

Draw = torch.Generator | None  # None: torch's global one, which a training run lends
Function = Callable[[Tensor], Tensor]
Clip = Callable[[Tensor, float], Tensor]  # a gradient and its limit

BUFFER = 10_000  # latents that chains go on from
_REPLAYED = 0.95  # share of the chains that do


@dataclass(frozen=True)
class Chain:
    """A Langevin chain: x <- x - rate gradient + noise n, n standard normal."""

    steps: int
    rate: float
    noise: float


@dataclass(frozen=True)
class Sampling:
    """How negative samples are made, and how much the two further terms of the loss count."""

    latent: Chain
    visible: Chain
    limit: float = 0.01  # of the gradient in the visible chain
    square: float = 1.0  # of the mean squared energy of negative samples
    weights: float = 0.0  # of the squared weights of the encoder


_GREY = Sampling(Chain(10, 0.2, 0.05), Chain(50, 10.0, 0.05), weights=1e-4)
_COLOR = Sampling(Chain(20, 1.0, 0.02), Chain(40, 10.0, 0.02))
_PHASES = {  # epochs as an autoencoder, epochs as a normalized one, batch size: grey, color
    "tiny": ((6, 2, 32), (6, 2, 32)),
    "small": ((10, 3, 64), (10, 2, 32)),
    "paper": ((100, 50, 128), (180, 10, 128)),
}
_IMAGES = {"tiny": 2_000, "small": 10_000}  # as published, all
_STEPS = {"tiny": (2, 3), "small": (5, 10)}  # of the latent and the visible chain


def sampling_of(model_size: str, channels: int) -> Sampling:
    """The chains of a size, for grey or for color images."""
    printed = _GREY if channels == 1 else _COLOR
    if model_size == "paper":
        return printed
    latent, visible = _STEPS[model_size]
    # At their higher rate, the penalty shrinks the encoder to one code for all images.
    return replace(
        printed,
        weights=0.0,
        latent=replace(printed.latent, steps=latent),
        visible=replace(printed.visible, steps=visible),
    )


class NormalizedAutoencoder(nn.Module):
    """An autoencoder whose codes lie on the unit sphere, and the latents its chains ended at."""

    latents: Tensor
    pushed: Tensor

    def __init__(self, encoder: nn.Module, decoder: nn.Module, code: int) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.register_buffer("latents", torch.zeros(BUFFER, code))
        self.register_buffer("pushed", torch.zeros((), dtype=torch.int64))  # ever

    def decode(self, latents: Tensor) -> Tensor:
        """Images of latents, (n, code)."""
        images: Tensor = self.decoder(latents[:, :, None, None])
        return images

    def energy(self, images: Tensor) -> Tensor:
        """Mean squared reconstruction error of the pixels, (n,)."""
        code = on_sphere(self.encoder(images).flatten(1))
        return (images - self.decode(code)).square().flatten(1).mean(1)

    forward = energy

    def push(self, latents: Tensor) -> None:
        """Keep latents, in place of the oldest ones."""
        latents = latents[-BUFFER:]
        rows = (self.pushed + torch.arange(len(latents), device=latents.device)) % BUFFER
        self.latents[rows] = latents
        self.pushed += len(latents)

    def starts(self, count: int, generator: Draw = None) -> Tensor:
        """Where latent chains start: most at kept latents, the others anywhere on the sphere."""
        place = self.latents.device
        fresh = torch.randn((count, self.latents.shape[1]), generator=generator, device=place)
        kept = min(int(self.pushed), BUFFER)
        if not kept:
            return on_sphere(fresh)
        rows = torch.randint(kept, (count,), generator=generator, device=place)
        replayed = torch.rand((count, 1), generator=generator, device=place) < _REPLAYED
        return on_sphere(torch.where(replayed, self.latents[rows], fresh))

    def negatives(
        self, count: int, sampling: Sampling, clip: Clip, generator: Draw = None
    ) -> tuple[Tensor, Tensor]:
        """Samples of the model's density, (n, channels, height, width), and their latents."""
        latents = langevin(
            lambda points: self.energy(self.decode(points)),
            self.starts(count, generator),
            sampling.latent,
            keep=on_sphere,
            generator=generator,
        )
        with torch.no_grad():
            images = in_box(self.decode(latents))
        images = langevin(
            self.energy,
            images,
            sampling.visible,
            keep=in_box,
            clip=lambda gradient: clip(gradient, sampling.limit),
            annealed=True,
            generator=generator,
        )
        return images, latents


def on_sphere(points: Tensor) -> Tensor:
    """Points at distance 1 from the origin."""
    return functional.normalize(points, dim=1)


def in_box(images: Tensor) -> Tensor:
    """Pixels from 0 to 1."""
    return images.clamp(0, 1)


def clip_rows(gradient: Tensor, limit: float) -> Tensor:
    """Shorten each row of pixels to the limit, as the authors do."""
    length: Tensor = torch.linalg.vector_norm(gradient, dim=-1, keepdim=True)
    return limit * gradient / length.clamp(min=limit)


def clip_pixels(gradient: Tensor, limit: float) -> Tensor:
    """Limit each pixel by itself, as EvG does (Yoon et al. 2022, arXiv:2208.10940)."""
    return gradient.clamp(-limit, limit)


def _same(values: Tensor) -> Tensor:
    return values


def langevin(
    energy: Function,
    points: Tensor,
    chain: Chain,
    *,
    keep: Function = _same,
    clip: Function = _same,
    annealed: bool = False,
    generator: Draw = None,
) -> Tensor:
    """Follow a chain, without a Metropolis step, and return where it ends.

    `keep` brings points back to where they belong after each step. The noise of an annealed chain
    is full in its first two steps, then a half, a third and so on.
    """
    for step in range(chain.steps):
        with torch.enable_grad():
            points = points.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(energy(points).sum(), points)
        noise = chain.noise / max(step, 1) if annealed else chain.noise
        drawn = torch.randn(
            points.shape, generator=generator, device=points.device, dtype=points.dtype
        )
        points = keep(points.detach() - chain.rate * clip(gradient) + noise * drawn)
    return points.detach()


def build(model_size: str, shape: tuple[int, ...]) -> NormalizedAutoencoder:
    """The networks of a size for images of a shape."""
    model = "nae"
    residual = model_size == "paper" and shape[0] != 1
    fewest = 8 if residual else 4
    if min(image_size(model, shape)) < fewest:
        raise UserError(
            f"Model '{model}' is for images of at least {fewest} x {fewest} pixels, got "
            f"{shape[1]} x {shape[2]}."
        )
    widths = WIDTHS[model_size]
    made = residual_networks(shape) if residual else plain_networks(shape, widths)
    return NormalizedAutoencoder(*made, widths.code)


def phases(model_size: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Epochs as an autoencoder, epochs as a normalized one, and the size of batches."""
    grey, color = _PHASES[model_size]
    return grey if shape[0] == 1 else color


def recipe(spec: TrainSpec, shape: tuple[int, ...]) -> TrainSpec:
    """The authors' training; the first phase has a fixed length here.

    They end it after four validations without gain, and clip gradients in this phase alone.
    """
    first, second, batch = phases(spec.model_size, shape)
    update = {
        "epochs": first + second,
        "batch_size": batch,
        "learning_rate": 1e-4 if spec.model_size == "paper" else 1e-3,
        "schedule": f"steps(at={first}, factor=0.1)",
        "gradient_norm": 0.1,
        "augment": "none" if shape[0] == 1 else MIRRORED,
    }
    if spec.model_size in _IMAGES:
        update["train_size"] = _IMAGES[spec.model_size]
    return spec.model_copy(update=update)


def contrast(positive: Tensor, negative: Tensor, square: float) -> Tensor:
    """The second phase's loss, from the energies of images and of samples."""
    return positive.mean() - negative.mean() + square * negative.square().mean()


def _task(clip: Clip) -> Task:
    def network(spec: TrainSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
        return build(spec.model_size, shape)

    def energy_loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
        assert isinstance(model, NormalizedAutoencoder)
        shape, count = batch.inputs.shape[1:], len(batch.inputs)
        sampling = sampling_of(spec.model_size, shape[0])
        positive = model.energy(dequantized(batch.inputs) if model.training else batch.inputs)
        penalty = sampling.weights * sum(p.square().sum() for p in model.encoder.parameters())
        measures = {"energy": positive.sum().item(), "negative_energy": 0.0}
        if batch.progress < phases(spec.model_size, tuple(shape))[0]:
            return positive.mean() + penalty, measures
        images, latents = model.negatives(count, sampling, clip)
        if model.training:
            model.push(latents)
        negative = model.energy(images)
        measures["negative_energy"] = negative.sum().item()
        return contrast(positive, negative, sampling.square) + penalty, measures

    return Task(network, energy_loss, measures=("energy", "negative_energy"))


def _samples(model: nn.Module, count: int, generator: torch.Generator) -> Tensor:
    assert isinstance(model, NormalizedAutoencoder)
    channels = next(model.encoder.parameters()).shape[1]
    return model.negatives(count, sampling_of("paper", channels), clip_rows, generator)[0]


def _codes(model: nn.Module, answers: Tensor | None) -> Codes:
    assert isinstance(model, NormalizedAutoencoder)
    return Codes(model.decode, model.latents.shape[1], "sphere", "Codes lie on the unit sphere.")


@detector_model(task=_task(clip_rows), spec=recipe, samples=_samples, codes=_codes)
def nae(model: nn.Module, images: Tensor) -> Tensor:
    """Energy: mean squared error of the reconstruction."""
    energy: Tensor = model(images)
    return energy


@detector_model(task=_task(clip_pixels), spec=recipe, samples=_samples, codes=_codes)
def nae_by_pixel(model: nn.Module, images: Tensor) -> Tensor:
    """Energy, by a network whose samples were drawn with the other clipping of gradients."""
    energy: Tensor = model(images)
    return energy


@detector(
    paper="Yoon et al. 2021, arXiv:2105.05735",
    needs={"model:nae", "model:nae_by_pixel"},
    grid={"clip": ("row",)},
    needs_for={"clip": {"row": {"model:nae"}, "pixel": {"model:nae_by_pixel"}}},
    only_by_name=True,
)
def normalized_autoencoder(train: View, *, clip: str = "row") -> Scorer:
    """Reconstruction error of an autoencoder that was also taught what not to reconstruct.

    score = E(x) = mean over pixels of (x - reconstruction)^2, codes on the unit sphere. Trained as
    an autoencoder first, then to minimize mean E(x) - mean E(x') + mean E(x')^2 over images x and
    samples x' of the density proportional to exp(-E), which a Langevin chain of codes and then one
    of images draws. Gradients of the latter are clipped per row of pixels as in the authors' code,
    or with clip="pixel" one by one, as in EvG's.
    """
    name = {"row": "nae", "pixel": "nae_by_pixel"}[clip]
    return lambda test: test.model(name)
