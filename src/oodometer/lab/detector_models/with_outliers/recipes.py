"""How these classifiers are trained, by size and by the colors of the images."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from oodometer.lab.detector_models.with_outliers.networks import Shape, Size
from oodometer.study import TrainSpec

Colors = Literal["grey", "color"]
Fields = Mapping[str, object]  # of a TrainSpec

TINY: Fields = {
    "optimizer": "adam",
    "learning_rate": 5e-3,
    "epochs": 8,
    "batch_size": 25,
    "train_size": 2_000,
}
SMALL: Fields = {
    "optimizer": "adam",
    "learning_rate": 1e-3,
    "schedule": "cosine",
    "epochs": 8,
    "batch_size": 64,
    "train_size": 10_000,
}
# Bitterwolf et al. 2020 add losses up over a batch of 128; here they are averaged, so that the rate
# of gradient descent is 128 times theirs and the weight decay the 128th part. AutoAugment is left
# out.
GOOD_GREY: Fields = {
    "optimizer": "sgd_nesterov",
    "learning_rate": 0.005,
    "weight_decay": 0.05 / 128,
    "schedule": "steps(at=50/100/200/300/350, factor=0.2)",
    "epochs": 420,
    "batch_size": 128,
    "augment": "crop_flip(padding=4, flip=0)",
}
GOOD_COLOR: Fields = {
    "optimizer": "adam",
    "learning_rate": 0.1 / 128,
    "weight_decay": 0.005 / 128,
    "schedule": "steps(at=30/100, factor=0.2)",
    "epochs": 420,
    "batch_size": 128,
    "augment": "crop_flip",
}
# Of the repository of Chen et al. 2021.
ATOM: Fields = {
    "optimizer": "sgd_nesterov",
    "learning_rate": 0.1,
    "weight_decay": 1e-4,
    "schedule": "steps(at=50/75/90, factor=0.1)",
    "epochs": 100,
    "batch_size": 64,
    "augment": "crop_flip",
}


def colors(shape: Shape) -> Colors:
    """Whether images of this shape, (channels, height, width), are grey."""
    return "grey" if shape[0] == 1 else "color"


def recipe(
    *, tiny: Fields, small: Fields, grey: Fields, color: Fields
) -> Callable[[TrainSpec, Shape], TrainSpec]:
    """The recipe of a model: `grey` and `color` are those of the paper."""
    paper: Mapping[Colors, Fields] = {"grey": grey, "color": color}

    def change(spec: TrainSpec, shape: Shape) -> TrainSpec:
        size: Size = spec.model_size
        fields = {"tiny": tiny, "small": small, "paper": paper[colors(shape)]}[size]
        return spec.model_copy(update=dict(fields))

    return change
