"""The fields of a study: what decides a training, what is varied, what a smaller scale changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictInt

from oodometer import factors

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


@dataclass(frozen=True)
class _Varies:
    """Of what kind a factor is that varies this field; fields without it are conditions."""

    kind: factors.Kind


_REPEAT = _Varies("repeat")
_RE_EVALUATION = _Varies("re_evaluation")  # what is chosen after training: the same training run


class TrainSpec(BaseModel):
    """All that decides one trained classifier. Any field may be a factor of a study."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    data: str = Field(min_length=1)  # a known name, or the path of an .npz file
    held_out_classes: Annotated[
        tuple[Annotated[StrictInt, Field(ge=0)], ...], AfterValidator(_in_order)
    ] = ()  # never trained on
    # 0: as the data come; another number: train and test drawn anew; or a name, such as od_test
    split: Annotated[int | str, BeforeValidator(_split), _REPEAT] = 0
    # At most this many test samples, and as many of each outlier set.
    test_size: Annotated[Annotated[StrictInt, Field(ge=1)] | None, _RE_EVALUATION] = None
    # Which subset of each outlier set; nothing is trained again for another one.
    ood_draw: Annotated[Annotated[StrictInt, Field(ge=0)] | None, _RE_EVALUATION] = None
    # How detectors' features are taken.
    features: Annotated[Literal["forward", "skip_stem_relu"], _RE_EVALUATION] = "forward"
    network: str = "small_cnn"
    width: Annotated[StrictInt, Field(ge=1, le=2**16)] | None = None  # None: the network's own
    optimizer: str = "adam"
    learning_rate: Annotated[Number, Field(gt=0)] | None = None  # None: the optimizer's own
    epochs: Annotated[StrictInt, Field(ge=1)] = 10
    batch_size: Annotated[StrictInt, Field(ge=1)] = 32
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32), _REPEAT] = 0  # of weights and batches
    weight_decay: Annotated[Number, Field(ge=0)] = 0.0
    loss: str = "cross_entropy"
    adversarial: Annotated[Number, Field(ge=0)] = 0.0  # step of images that train as well
    schedule: str = "constant"  # of the learning rate
    stopping: str = "none"
    validation: Annotated[Number, Field(ge=0, lt=1)] = 0.0  # share of the training set set aside
    augment: str = "none"
    label_noise: str = "none"  # of what is trained on; the validation part stays clean
    # What detectors are fitted to.
    fitted_on: Annotated[Literal["train", "validation"], _RE_EVALUATION] = "train"
    train_size: Annotated[StrictInt, Field(ge=1)] | None = None  # None: all; else class-balanced
    # Which checkpoint is used.
    epoch: Annotated[int | str, BeforeValidator(_number_of_epoch), _RE_EVALUATION] = "last"
    best_by: Annotated[
        Literal["validation_accuracy", "validation_loss", "train_loss"], _RE_EVALUATION
    ] = "validation_accuracy"

    @property
    def checkpoint(self) -> int | str:
        """Which weights of a training are used: a number of epochs, "last", or best by what."""
        return self.best_by if self.epoch == "best" else self.epoch


def factor_of(field: str) -> factors.Factor:
    """Return the factor that varies a field of TrainSpec, with its kind.

    >>> factor_of("seed").kind, factor_of("epoch").kind, factor_of("optimizer").kind
    ('repeat', 're_evaluation', 'condition')
    """
    marks = [mark for mark in TrainSpec.model_fields[field].metadata if isinstance(mark, _Varies)]
    return factors.Factor(field, marks[0].kind if marks else "condition")


# What comes after training: runs that differ in these alone share a training run.
RE_EVALUATED = frozenset(
    field for field in TrainSpec.model_fields if factor_of(field).kind == "re_evaluation"
)


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
