"""ACET: a classifier whose confidence on outliers is pushed down in the worst case nearby.

Hein et al. 2019, arXiv:1812.05720, with noise; with auxiliary outliers as in Bitterwolf et al.
2020, arXiv:2007.08473, or as in the repository of Chen et al. 2021, arXiv:2006.15207.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from oodometer.lab.detector_models.cards import detector_model
from oodometer.lab.detector_models.with_outliers.attacks import ascend, frozen, random_start
from oodometer.lab.detector_models.with_outliers.ceda import HEIN, PAPER, plain_network
from oodometer.lab.detector_models.with_outliers.losses import (
    accuracy,
    doubt,
    log_confidence,
    uniform_cross_entropy,
)
from oodometer.lab.detector_models.with_outliers.networks import Shape, densenet, plain_cnn
from oodometer.lab.detector_models.with_outliers.noise import smooth_noise
from oodometer.lab.detector_models.with_outliers.recipes import (
    ATOM,
    GOOD_COLOR,
    GOOD_GREY,
    SMALL,
    TINY,
    colors,
    recipe,
)
from oodometer.lab.training.task import Batch, Measures, Task
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.study import TrainSpec

RADII = {"grey": 0.1, "color": 0.01}  # of the attack, in the smaller sizes
_PUBLISHED_RADII = {"grey": 0.3, "color": 0.01}
_FIVE_EPOCHS = {**SMALL, "epochs": 5}


def _steps(spec: TrainSpec) -> int:
    return 40 if spec.model_size == "paper" else 5


def _radius(spec: TrainSpec, shape: Shape) -> float:
    radii = _PUBLISHED_RADII if spec.model_size == "paper" else RADII
    return radii[colors(shape)]


def _loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    """Mean CE of the images + weight times the mean CE to uniform of the attacked outliers.

    In the published size, the outliers count from epoch 2 and are attacked from epoch 6.
    """
    assert batch.outliers is not None
    published = spec.model_size == "paper"
    shape = batch.inputs.shape[1:]
    logits = model(batch.inputs)
    loss = functional.cross_entropy(logits, batch.targets)
    measures = accuracy(logits, batch.targets)
    if published and batch.progress < 2:
        return loss, measures
    outliers = batch.outliers
    if not published or batch.progress >= 6:
        radius, steps = _radius(spec, shape), _steps(spec)
        with frozen(model):
            outliers = ascend(
                lambda images: uniform_cross_entropy(model(images)),
                outliers,
                radius=radius,
                step=2 * radius / (steps + 1),
                steps=steps,
            )
    weight = 0.3 if published and colors(shape) == "grey" else 1.0
    return loss + weight * uniform_cross_entropy(model(outliers)).mean(), measures


def _noise_loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    """(CE of the images + largest log-probability of attacked noise) / 2, both as means."""
    radius, steps = 0.3, _steps(spec)
    noise = smooth_noise(batch.inputs)
    with frozen(model):
        attacked = ascend(
            lambda images: log_confidence(model(images)),
            noise,
            radius=radius,
            step=radius / steps,
            steps=steps,
            start=random_start(noise, radius * float(torch.rand(()))),
        )
    logits = model(batch.inputs)
    sure = log_confidence(model(attacked)).mean()
    loss = (functional.cross_entropy(logits, batch.targets) + sure) / 2
    return loss, accuracy(logits, batch.targets)


def _half_loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    """Mean CE of the images + mean CE to uniform of outliers of which one half is attacked."""
    assert batch.outliers is not None
    clean, rest = batch.outliers.chunk(2) if len(batch.outliers) > 1 else (batch.outliers,) * 2
    with frozen(model):
        attacked = ascend(
            lambda images: uniform_cross_entropy(model(images)),
            rest,
            radius=8 / 255,
            step=2 / 255,
            steps=5,
        )
    logits, others = model(torch.cat((batch.inputs, clean, attacked))).split(
        (len(batch.inputs), len(clean) + len(attacked))
    )
    loss = functional.cross_entropy(logits, batch.targets) + uniform_cross_entropy(others).mean()
    return loss, accuracy(logits, batch.targets)


def _half_network(spec: TrainSpec, shape: Shape, classes: int) -> nn.Module:
    if spec.model_size == "paper":
        return densenet(shape, classes)
    return plain_cnn(spec.model_size, shape, classes)


@detector_model(
    task=Task(
        network=plain_network,
        loss=_loss,
        measures=("accuracy",),
        labelled=True,
        outliers_per_input=1.0,
    ),
    spec=recipe(tiny=TINY, small=_FIVE_EPOCHS, grey=GOOD_GREY, color=GOOD_COLOR),
)
def acet_classifier(model: nn.Module, inputs: Tensor) -> Tensor:
    """Log odds against the predicted class."""
    return doubt(model(inputs))


@detector_model(
    task=Task(network=plain_network, loss=_noise_loss, measures=("accuracy",), labelled=True),
    spec=recipe(tiny=TINY, small=_FIVE_EPOCHS, grey=HEIN, color=HEIN),
)
def acet_noise_classifier(model: nn.Module, inputs: Tensor) -> Tensor:
    """Log odds against the predicted class."""
    return doubt(model(inputs))


@detector_model(
    task=Task(
        network=_half_network,
        loss=_half_loss,
        measures=("accuracy",),
        labelled=True,
        outliers_per_input=2.0,
    ),
    spec=recipe(tiny=TINY, small=_FIVE_EPOCHS, grey=ATOM, color=ATOM),
)
def acet_half_classifier(model: nn.Module, inputs: Tensor) -> Tensor:
    """Log odds against the predicted class."""
    return doubt(model(inputs))


_MODELS = {
    "auxiliary": "acet_classifier",
    "noise": "acet_noise_classifier",
    "half": "acet_half_classifier",
}


@detector(
    paper=PAPER,
    needs={f"model:{name}" for name in _MODELS.values()},
    grid={"variant": ("auxiliary",)},
    needs_for={"variant": {variant: {f"model:{name}"} for variant, name in _MODELS.items()}},
    only_by_name=True,
)
def acet(train: View, *, variant: str = "auxiliary") -> Scorer:
    """Confidence of a classifier trained to have little on auxiliary outliers under attack.

    score = log((1 - p) / p), p the largest softmax probability. With variant="noise" the outliers
    are smoothed noise, as in the original paper, and no auxiliary set is needed; with
    variant="half" one half of the auxiliary outliers is attacked, as in ATOM's repository.
    """
    name = _MODELS[variant]
    return lambda view: view.model(name)
