"""The fields of a study: what determines a training run, what varies, what a scale changes."""

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
        raise ValueError("must be 'last', 'best' or an epoch number from 1")
    return value


def _split(value: object) -> object:
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32
    if not whole and not (isinstance(value, str) and value):
        raise ValueError("must be a whole number from 0, or a named split such as od_test")
    return value


def _in_order(classes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(set(classes)))


Number = Annotated[float, BeforeValidator(_refuse_bool)]  # accepts "1e-3", which YAML reads as text


@dataclass(frozen=True)
class _Varies:
    """The kind of a factor that varies this field; fields without it are conditions."""

    kind: factors.Kind
    is_drawn: bool = False  # see factors.Factor


_REPEAT = _Varies("repeat")
_RE_EVALUATION = _Varies("re_evaluation")  # what is chosen after training: the same training run


class TrainSpec(BaseModel):
    """Everything that determines one trained classifier. Any field may be a factor of a study."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    data: str = Field(min_length=1)  # a name, or a path
    held_out_classes: Annotated[
        tuple[Annotated[StrictInt, Field(ge=0)], ...], AfterValidator(_in_order)
    ] = ()  # never trained on
    # 0: as provided; another number: train and test sets resampled; or a name, such as od_test
    split: Annotated[int | str, BeforeValidator(_split), _REPEAT] = 0
    # At most this many test samples, and as many of each outlier set.
    test_size: Annotated[Annotated[StrictInt, Field(ge=1)] | None, _RE_EVALUATION] = None
    # Which subset of each outlier set; nothing is trained again for another one.
    ood_draw: Annotated[
        Annotated[StrictInt, Field(ge=0, lt=10_000)] | None,
        _Varies("re_evaluation", is_drawn=True),
    ] = None
    # How the features for detectors are extracted.
    features: Annotated[Literal["forward", "skip_stem_relu"], _RE_EVALUATION] = "forward"
    # How large the networks of detector models are; "paper" is as published.
    model_size: Literal["tiny", "small", "paper"] = "small"
    # Of detector models that do not depend on the classifier; runs that differ in seed share them.
    model_seed: Annotated[StrictInt, Field(ge=0, lt=2**32), _REPEAT] = 0
    # Outliers that some detector models learn from: a data set, of which the training part is used.
    auxiliary: str = ""
    network: str = "small_cnn"
    width: Annotated[StrictInt, Field(ge=1, le=2**16)] | None = None  # None: that of the network
    optimizer: str = "adam"
    learning_rate: Annotated[Number, Field(gt=0)] | None = None  # None: that of the optimizer
    epochs: Annotated[StrictInt, Field(ge=1, le=10**8)] = 10
    batch_size: Annotated[StrictInt, Field(ge=1, le=10**8)] = 32
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32), _REPEAT] = 0  # of weights and batches
    weight_decay: Annotated[Number, Field(ge=0)] = 0.0
    gradient_norm: Annotated[Number, Field(ge=0)] = 0.0  # clipped to this norm; 0: never
    loss: str = "cross_entropy"
    adversarial: Annotated[Number, Field(ge=0)] = 0.0  # step size of FGSM samples added to training
    schedule: str = "constant"  # of the learning rate
    stopping: str = "none"
    validation: Annotated[Number, Field(ge=0, lt=1)] = (
        0.0  # share of the training set that is held out
    )
    augment: str = "none"
    label_noise: str = "none"  # of the training set; the validation set stays clean
    # What detectors are fitted on.
    fitted_on: Annotated[Literal["train", "validation"], _RE_EVALUATION] = "train"
    train_size: Annotated[StrictInt, Field(ge=1)] | None = (
        None  # None: all; otherwise class-balanced
    )
    # Which checkpoint is used.
    epoch: Annotated[int | str, BeforeValidator(_number_of_epoch), _RE_EVALUATION] = "last"
    best_by: Annotated[
        Literal["validation_accuracy", "validation_loss", "train_loss"], _RE_EVALUATION
    ] = "validation_accuracy"

    @property
    def checkpoint(self) -> int | str:
        """Which weights of a training run are used: an epoch, "last", or the measure of "best"."""
        return self.best_by if self.epoch == "best" else self.epoch


def factor_of(field: str) -> factors.Factor:
    """Return the factor that varies a field of TrainSpec, with its kind.

    >>> factor_of("seed").kind, factor_of("epoch").kind, factor_of("optimizer").kind
    ('repeat', 're_evaluation', 'condition')
    """
    marks = [mark for mark in TrainSpec.model_fields[field].metadata if isinstance(mark, _Varies)]
    mark = marks[0] if marks else _Varies("condition")
    return factors.Factor(field, mark.kind, mark.is_drawn)


# What comes after training: runs that differ in these alone share a training run.
RE_EVALUATED = frozenset(
    field for field in TrainSpec.model_fields if factor_of(field).kind == "re_evaluation"
)


# What detector models depend on and classifiers do not.
OF_DETECTOR_MODELS = frozenset({"model_size", "model_seed", "auxiliary"})


class Factor(BaseModel):
    """An axis of variation: a field of TrainSpec and its levels."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str
    levels: tuple[StrictInt | float | bool | str | tuple[StrictInt, ...], ...] = Field(min_length=1)


# Variations that are networks, trained on the training part of each outlier set.
GENERATED = ("stylegan2",)


class Searches(BaseModel):
    """A search for outliers that fool each detector, around images of every outlier set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variations: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    method: str = "metropolis"
    methods: Mapping[str, str] = Field(default_factory=dict)  # variation -> another method
    steps: Annotated[StrictInt, Field(ge=1)] = 300  # of each chain
    images: Annotated[StrictInt, Field(ge=2)] = 200  # the first of each set, one chain each
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32)] = 0
    repeats: Annotated[StrictInt, Field(ge=1, le=100)] = 1  # of each search, with seeds one by one
    detectors: Literal["all"] | tuple[str, ...] = "all"  # of the study, that can be searched

    @property
    def generators(self) -> tuple[str, ...]:
        """The networks among the variations, by name."""
        names = [text.partition("(")[0].strip() for text in self.variations]
        return tuple(name for name in GENERATED if name in names)

    def method_of(self, variation: str) -> str:
        """How a variation is searched."""
        return self.methods.get(variation, self.method)


class Scale(BaseModel):
    """What a smaller version of a study changes; everything else is unchanged."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: Mapping[str, object] = Field(default_factory=dict)  # fields of TrainSpec
    factors: tuple[Factor, ...] = ()  # other levels of the same factors
    detectors: Literal["all"] | tuple[str, ...] | None = None
    ood: tuple[str, ...] | None = None
    searches: Mapping[str, object] = Field(default_factory=dict)  # fields of Searches
    accuracy: Annotated[Number, Field(ge=0, le=1)] = 0.0  # not that of the whole study
    keep_unlearned: bool = False
