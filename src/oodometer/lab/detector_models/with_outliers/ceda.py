"""CEDA: a classifier whose confidence on outliers, or on noise, is pushed down.

Hein et al. 2019, arXiv:1812.05720, with noise; with auxiliary outliers as in Bitterwolf et al.
2020, arXiv:2007.08473.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from oodometer.lab.detector_models.cards import detector_model
from oodometer.lab.detector_models.with_outliers.losses import (
    accuracy,
    doubt,
    log_confidence,
    ramp,
)
from oodometer.lab.detector_models.with_outliers.networks import Shape, plain_cnn
from oodometer.lab.detector_models.with_outliers.noise import smooth_noise
from oodometer.lab.detector_models.with_outliers.recipes import (
    GOOD_COLOR,
    GOOD_GREY,
    SMALL,
    TINY,
    Colors,
    Fields,
    colors,
    recipe,
)
from oodometer.lab.training.task import Batch, Measures, Task
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.study import TrainSpec

PAPER = "Hein et al. 2019, arXiv:1812.05720"

# Hein et al. train LeNet and a small ResNet; here it is the network of the other variant, which has
# no normalization and takes Adam instead of steps of 0.1.
HEIN: Fields = {
    "optimizer": "adam",
    "learning_rate": 1e-3,
    "weight_decay": 5e-4,
    "schedule": "steps(at=50/75/90, factor=0.1)",
    "epochs": 100,
    "batch_size": 128,
    "augment": "crop_flip",
}
# Weight of the outliers' term, and between which epochs it grows to it; 1 from the start elsewhere.
# Among outliers that look like the images, a network that is uncertain from its first step on
# never learns the classes.
_RAMPS: dict[tuple[str, Colors], tuple[float, float, float]] = {
    ("small", "color"): (1.0, 1, 7),
    ("paper", "grey"): (0.3, 2, 102),
    ("paper", "color"): (1.0, 60, 360),
}


def ceda_weight(spec: TrainSpec, shape: Shape, progress: float) -> float:
    """Weight of the outliers' term at this time of the training."""
    size = spec.model_size, colors(shape)
    if size not in _RAMPS:
        return 1.0
    weight, start, end = _RAMPS[size]
    return weight * ramp(progress, start, end)


def ceda_loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    """Mean CE of the images + weight times the mean largest log-probability of the outliers."""
    assert batch.outliers is not None
    logits = model(batch.inputs)
    weight = ceda_weight(spec, batch.inputs.shape[1:], batch.progress)
    loss = functional.cross_entropy(logits, batch.targets)
    loss = loss + weight * log_confidence(model(batch.outliers)).mean()
    return loss, accuracy(logits, batch.targets)


def _noise_loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    """Sum of the same two terms, on one noise image per image, over the number of both."""
    logits = model(batch.inputs)
    sure = log_confidence(model(smooth_noise(batch.inputs))).mean()
    loss = (functional.cross_entropy(logits, batch.targets) + sure) / 2
    return loss, accuracy(logits, batch.targets)


def plain_network(spec: TrainSpec, shape: Shape, classes: int) -> nn.Module:
    """The networks of Bitterwolf et al."""
    return plain_cnn(spec.model_size, shape, classes)


@detector_model(
    task=Task(
        network=plain_network,
        loss=ceda_loss,
        measures=("accuracy",),
        labelled=True,
        outliers_per_input=1.0,
    ),
    spec=recipe(tiny=TINY, small=SMALL, grey=GOOD_GREY, color=GOOD_COLOR),
)
def ceda_classifier(model: nn.Module, inputs: Tensor) -> Tensor:
    """Log odds against the predicted class."""
    return doubt(model(inputs))


@detector_model(
    task=Task(network=plain_network, loss=_noise_loss, measures=("accuracy",), labelled=True),
    spec=recipe(tiny=TINY, small=SMALL, grey=HEIN, color=HEIN),
)
def ceda_noise_classifier(model: nn.Module, inputs: Tensor) -> Tensor:
    """Log odds against the predicted class."""
    return doubt(model(inputs))


@detector(
    paper=PAPER,
    needs={"model:ceda_classifier", "model:ceda_noise_classifier"},
    grid={"variant": ("auxiliary",)},
    needs_for={
        "variant": {
            "auxiliary": {"model:ceda_classifier"},
            "noise": {"model:ceda_noise_classifier"},
        }
    },
    only_by_name=True,
)
def ceda(train: View, *, variant: str = "auxiliary") -> Scorer:
    """Confidence of a classifier that was trained to have little on auxiliary outliers.

    score = log((1 - p) / p), p the largest softmax probability. With variant="noise" the outliers
    are smoothed noise, as in the original paper, and no auxiliary set is needed.
    """
    name = {"auxiliary": "ceda_classifier", "noise": "ceda_noise_classifier"}[variant]
    return lambda view: view.model(name)
