"""StyleGAN2, trained by two losses in turn: Karras et al. 2020, arXiv:1912.04958."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from oodometer.lab.detector_models.cards import detector_model
from oodometer.lab.generators.cards import GENERATORS, Drawing, GeneratorCard
from oodometer.lab.generators.networks import WIDTHS, Generator, StyleGAN2
from oodometer.lab.training.task import Batch, Measures, Task, Turn
from oodometer.study import TrainSpec

_R1_EVERY = 16  # batches
_PATH_EVERY = 4  # batches; the penalty itself is off in this configuration, its pace is not
_RAMP = 0.05  # the mean's half-life is at most this share of the images seen so far

STEPS = {"tiny": 40, "small": 5_000, "paper": 200_000}
# Of the gradient penalty: at the published one, small networks make the same digit of all points.
PENALTY = {"tiny": 1.0, "small": 1.0, "paper": 0.01}
HALF_LIFE = {"tiny": 200, "small": 10_000, "paper": 500_000}  # of the mean of weights, in images
_RECIPES: dict[str, dict[str, object]] = {
    # Faster than published, for few steps.
    "tiny": {"batch_size": 16, "learning_rate": 0.01, "train_size": 640},
    "small": {"batch_size": 32, "learning_rate": 0.01, "train_size": 10_000},
    # Half of the images are mirrored, as published: digits, too.
    "paper": {"batch_size": 64, "learning_rate": 0.0025, "augment": "crop_flip(padding=0)"},
}


def recipe(spec: TrainSpec, shape: tuple[int, ...]) -> TrainSpec:
    """The training of a size on `shape[0]` images: as many epochs as make up its steps."""
    update = dict(_RECIPES[spec.model_size])
    images = shape[0]
    if "train_size" in update:
        update["train_size"] = images = min(images, int(str(update["train_size"])))
    per_epoch = math.ceil(images / int(str(update["batch_size"])))
    update |= {
        "epochs": math.ceil(STEPS[spec.model_size] / per_epoch),
        "optimizer": "adam(beta1=0, beta2=0.99, epsilon=1e-8)",
    }
    return spec.model_copy(update=update)


def _network(spec: TrainSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
    return StyleGAN2(WIDTHS[spec.model_size], shape)


def _made(model: StyleGAN2, batch: Batch) -> Tensor:
    """As many images of random points as there are in a batch."""
    dimensions = model.generator.dimensions
    latent = torch.randn(len(batch.inputs), dimensions, device=batch.inputs.device)
    images: Tensor = model.generator(latent, random_noise=True)
    return images


def discriminator_loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    """-log σ(D(x)) - log(1 - σ(D(g))): real images x from generated ones g."""
    assert isinstance(model, StyleGAN2)
    with torch.no_grad():
        made = _made(model, batch)
    real, fake = model.discriminator(model.raw(batch.inputs)), model.discriminator(made)
    loss = softplus(-real) + softplus(fake)
    measures = {
        "discriminator_loss": loss.sum().item(),
        "accuracy_on_real": float((real > 0).sum()),
        "accuracy_on_generated": float((fake < 0).sum()),
    }
    return loss.mean(), measures


def gradient_penalty(discriminator: nn.Module, images: Tensor) -> Tensor:
    """Half the squared norm of the gradient, (n,): R1 of Mescheder et al. 2018, arXiv:1801.04406.

    It is ½|v|² for a discriminator D(x) = v · x.
    """
    with torch.enable_grad():
        images = images.detach().requires_grad_()
        logits = discriminator(images)
        (slope,) = torch.autograd.grad(logits.sum(), images, create_graph=True)
    return 0.5 * slope.square().flatten(1).sum(1)


def penalty_loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    """R1, times as many batches as pass without it."""
    assert isinstance(model, StyleGAN2)
    penalty = gradient_penalty(model.discriminator, model.raw(batch.inputs))
    weight = _R1_EVERY * PENALTY[spec.model_size]
    return weight * penalty.mean(), {"gradient_penalty": _R1_EVERY * penalty.sum().item()}


def generator_loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    """-log σ(D(g)), which does not saturate: Goodfellow et al. 2014, arXiv:1406.2661."""
    assert isinstance(model, StyleGAN2)
    loss = softplus(-model.discriminator(_made(model, batch)))
    return loss.mean(), {"generator_loss": loss.sum().item()}


def kept_share(batch_size: int, step: int, half_life: int) -> float:
    """What the mean of weights keeps per step: ½^(B / min(half-life, 0.05 · B · steps))."""
    return float(0.5 ** (batch_size / min(half_life, _RAMP * batch_size * (step + 1))))


def _follow(spec: TrainSpec, model: nn.Module, batch: Batch) -> None:
    assert isinstance(model, StyleGAN2)
    model.follow(kept_share(len(batch.inputs), batch.step, HALF_LIFE[spec.model_size]))


def _dimensions(part: nn.Module) -> int:
    assert isinstance(part, Generator)
    return part.dimensions


def _images(part: nn.Module, latent: Tensor, drawing: Drawing) -> Tensor:
    assert isinstance(part, Generator)
    raw = part(
        latent,
        truncation=drawing.truncation,
        cutoff=drawing.cutoff,
        random_noise=drawing.random_noise,
    )
    return part.pictures(raw)


_DISCRIMINATING = ("discriminator_loss", "accuracy_on_real", "accuracy_on_generated")
TASK = Task(
    _network,
    (
        Turn("discriminator", discriminator_loss, _DISCRIMINATING),
        Turn("discriminator", penalty_loss, ("gradient_penalty",), every=_R1_EVERY),
        Turn("generator", generator_loss, ("generator_loss",)),
    ),
    (*_DISCRIMINATING, "gradient_penalty", "generator_loss"),
    after_step=_follow,
    pace=(
        ("discriminator", _R1_EVERY / (_R1_EVERY + 1)),
        ("generator", _PATH_EVERY / (_PATH_EVERY + 1)),
    ),
)

_CARD = GENERATORS["stylegan2"] = GeneratorCard(
    "stylegan2",
    TASK,
    recipe,
    part="average",
    space="sphere",
    dimensions=_dimensions,
    images=_images,
)


def _samples(model: nn.Module, count: int, generator: torch.Generator) -> Tensor:
    part = model.get_submodule(_CARD.part)
    return _images(part, torch.randn(count, _dimensions(part), generator=generator), Drawing())


@detector_model(task=TASK, per="outliers", spec=recipe, samples=_samples, of_outliers=True)
def stylegan2(model: nn.Module, images: Tensor) -> Tensor:
    """The discriminator's logit: how much images look like the outliers it was trained on."""
    assert isinstance(model, StyleGAN2)
    logits: Tensor = model.discriminator(model.raw(images))
    return logits
