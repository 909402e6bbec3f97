"""The fields of a study: what decides a training, what is varied, what a smaller scale changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictInt

Level = bool | int | float | str
FILE_IN_A_FIELD = re.compile(r"\bpath\s*=\s*([^,()]+?)\s*(?=[,)])")  # as in file(path=labels.txt)


def _refuse_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


def _number_of_epoch(value: object) -> object:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not whole and value not in ("last", "best"):
        raise ValueError("must be 'last', 'best' or the number of an epoch from 1")
    return value


def _split(value: object) -> object:
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32
    if not whole and not (isinstance(value, str) and value):
        raise ValueError("must be a whole number from 0, or a split such as od_test")
    return value


def _in_order(classes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(set(classes)))


Number = Annotated[float, BeforeValidator(_refuse_bool)]  # takes "1e-3", a text to YAML


class TrainSpec(BaseModel):
    """All that decides one trained classifier. Any field may be a factor of a study."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    data: str = Field(min_length=1)  # a known name, or the path of an .npz file
    held_out_classes: Annotated[
        tuple[Annotated[StrictInt, Field(ge=0)], ...], AfterValidator(_in_order)
    ] = ()  # never trained on
    # 0: as the data come; another number: train and test drawn anew; or a name, such as od_test
    split: Annotated[int | str, BeforeValidator(_split)] = 0
    test_size: Annotated[StrictInt, Field(ge=1)] | None = None  # at most so many, outliers too
    ood_draw: Annotated[StrictInt, Field(ge=0)] | None = None  # which subset of each outlier set
    features: Literal["forward", "skip_stem_relu"] = "forward"  # how detectors' features are taken
    network: str = "small_cnn"
    width: Annotated[StrictInt, Field(ge=1, le=2**16)] | None = None  # None: the network's own
    optimizer: str = "adam"
    learning_rate: Annotated[Number, Field(gt=0)] | None = None  # None: the optimizer's own
    epochs: Annotated[StrictInt, Field(ge=1)] = 10
    batch_size: Annotated[StrictInt, Field(ge=1)] = 32
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32)] = 0  # of weights and batches
    weight_decay: Annotated[Number, Field(ge=0)] = 0.0
    loss: str = "cross_entropy"
    adversarial: Annotated[Number, Field(ge=0)] = 0.0  # step of images that train as well
    schedule: str = "constant"  # of the learning rate
    stopping: str = "none"
    validation: Annotated[Number, Field(ge=0, lt=1)] = 0.0  # share of the training set set aside
    augment: str = "none"
    label_noise: str = "none"  # of what is trained on; the validation part stays clean
    fitted_on: Literal["train", "validation"] = "train"  # what detectors are fitted to
    train_size: Annotated[StrictInt, Field(ge=1)] | None = None  # None: all; else class-balanced
    epoch: Annotated[int | str, BeforeValidator(_number_of_epoch)] = "last"  # the one to use
    best_by: Literal["validation_accuracy", "validation_loss", "train_loss"] = "validation_accuracy"

    @property
    def checkpoint(self) -> int | str:
        """Which weights of a training are used: a number of epochs, "last", or best by what."""
        return self.best_by if self.epoch == "best" else self.epoch


class Factor(BaseModel):
    """An axis of variation: a field of TrainSpec and the values that it takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str
    levels: tuple[StrictInt | float | bool | str | tuple[StrictInt, ...], ...] = Field(min_length=1)


class Scale(BaseModel):
    """What a smaller version of a study changes; what it does not name stays as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: Mapping[str, object] = Field(default_factory=dict)  # fields of TrainSpec
    factors: tuple[Factor, ...] = ()  # other levels of the same factors
    detectors: Literal["all"] | tuple[str, ...] | None = None
    ood: tuple[str, ...] | None = None
