"""Outlier exposure: a classifier that learns to be unsure about auxiliary outliers.

Hendrycks et al. 2019, arXiv:1812.04606.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from oodometer.lab.detector_models.cards import detector_model
from oodometer.lab.detector_models.with_outliers.losses import (
    accuracy,
    doubt,
    uniform_cross_entropy,
)
from oodometer.lab.detector_models.with_outliers.networks import (
    Shape,
    all_convolutional,
    grey_cnn,
    plain_cnn,
)
from oodometer.lab.detector_models.with_outliers.recipes import SMALL, TINY, colors
from oodometer.lab.training.task import Batch, Measures, Task
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.study import TrainSpec

_PAPER = "Hendrycks et al. 2019, arXiv:1812.04606"
_WEIGHT = 0.5  # of the outliers' term
_OUTLIERS = 2.0  # for each image

_GREY = {
    "optimizer": "sgd_nesterov",
    "learning_rate": 0.01,
    "schedule": "cosine",
    "epochs": 10,
    "batch_size": 50,
}
_COLOR = {
    "optimizer": "sgd_nesterov",
    "learning_rate": 0.1,
    "weight_decay": 5e-4,
    "schedule": "cosine",
    "epochs": 100,
    "batch_size": 128,
    "augment": "crop_flip",
}
# With a mirrored border: a black one would make known images more like some outliers.
_SMALL_COLOR = {
    **SMALL,
    "learning_rate": 3e-3,
    "schedule": "one_cycle",
    "train_size": 20_000,
    "augment": "crop_flip(per=batch)",
}
_RECIPES = {
    ("tiny", "grey"): TINY,
    ("tiny", "color"): TINY,
    ("small", "grey"): _GREY,  # the published one is small
    ("small", "color"): _SMALL_COLOR,
    ("paper", "grey"): _GREY,
    ("paper", "color"): _COLOR,
}


def exposure_loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    """Mean CE of the images + 0.5 times the mean CE to uniform of the outliers, in one pass.

    Batch normalization sees both together, as published.
    """
    assert batch.outliers is not None
    logits, others = model(torch.cat((batch.inputs, batch.outliers))).split(
        (len(batch.inputs), len(batch.outliers))
    )
    loss = functional.cross_entropy(logits, batch.targets)
    unsure = uniform_cross_entropy(others).mean()
    return loss + _WEIGHT * unsure, accuracy(logits, batch.targets)


def exposure_network(spec: TrainSpec, shape: Shape, classes: int) -> nn.Module:
    """The published networks; for small color images and in size tiny, narrower ones."""
    if spec.model_size == "tiny" or (spec.model_size == "small" and colors(shape) == "color"):
        return plain_cnn(spec.model_size, shape, classes)
    return (grey_cnn if colors(shape) == "grey" else all_convolutional)(shape, classes)


def _recipe(spec: TrainSpec, shape: Shape) -> TrainSpec:
    return spec.model_copy(update=dict(_RECIPES[spec.model_size, colors(shape)]))


@detector_model(
    task=Task(
        network=exposure_network,
        loss=exposure_loss,
        measures=("accuracy",),
        labelled=True,
        outliers_per_input=_OUTLIERS,
    ),
    spec=_recipe,
    columns=2,
)
def exposed_classifier(model: nn.Module, inputs: Tensor) -> Tensor:
    """Log odds against the predicted class, and minus the cross-entropy to uniform."""
    logits = model(inputs)
    return torch.stack((doubt(logits), -uniform_cross_entropy(logits)), 1)


_COLUMNS = {"confidence": 0, "uniform": 1}


@detector(
    paper=_PAPER,
    needs={"model:exposed_classifier"},
    grid={"score": tuple(_COLUMNS)},
    only_by_name=True,
)
def outlier_exposure(train: View, *, score: str = "confidence") -> Scorer:
    """Confidence of a classifier that was trained to be unsure about auxiliary outliers.

    score = log((1 - p) / p), p the largest softmax probability; with score="uniform", minus the
    cross-entropy of the uniform distribution and the softmax.
    """
    column = _COLUMNS[score]
    return lambda view: view.model("exposed_classifier")[:, column]
