"""Networks that exist to detect: one card each, by which a study trains it and asks it.

A detector declares ``model:NAME`` and reads the answers with ``view.model("NAME")``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from oodometer.calls import Setting, parse_call
from oodometer.errors import UserError, describe, unknown
from oodometer.lab.data.samples import Samples
from oodometer.lab.data.sources import Source
from oodometer.lab.training.task import Task
from oodometer.study import TrainSpec
from oodometer.study.fields import OF_DETECTOR_MODELS

Per = Literal["data", "run", "outliers"]  # how many there are, and who shares one
Answer = Callable[[nn.Module, Tensor], Tensor]
Recipe = Callable[[TrainSpec, tuple[int, ...]], TrainSpec]  # (spec of the run, shape of an input)
Draw = Callable[[nn.Module, int, torch.Generator], Tensor]  # (model, count, generator) -> images


@dataclass(frozen=True, eq=False)
class Codes:
    """The points that a model decodes: in the box [0, 1]^D, or on the unit sphere."""

    decode: Callable[[Tensor], Tensor]  # points (n, dimensions) -> images in [0, 1]
    dimensions: int
    space: Literal["box", "sphere"]
    note: str  # what the points are


Decode = Callable[[nn.Module, "Tensor | None"], Codes]  # (model, its answers about training data)

# The fields of a specification that say which samples there are; the others say what is done.
# So do those that say how large models are and what they learn from.
_OF_DATA = (
    "data", "held_out_classes", "split", "test_size", "ood_draw", "train_size", "validation",
    "fitted_on", *sorted(OF_DETECTOR_MODELS),
)  # fmt: skip
_NEVER_CHANGED = (
    "data", "held_out_classes", "split", "test_size", "ood_draw", *sorted(OF_DETECTOR_MODELS)
)  # fmt: skip
ONE_PER_CLASS = -1  # as the number of columns
_MEMBER_SEED = 3  # so that the seeds of members have nothing in common with other draws


@dataclass(frozen=True, eq=False)
class DetectorModel:
    """The card of a detector model: what it learns, from which samples, and what it answers.

    There is one per training data ("data"), shared by all runs that have the same; one per run of
    the study ("run"); or one per run and outlier set ("outliers"), shared where nothing differs.
    """

    name: str
    answer: Answer  # (model, inputs) -> (n, ...), one row per input
    task: Task
    per: Per
    spec: Recipe  # of its own training
    # (data of the run, `portion` of its specification, outliers) -> what it is trained on
    source: Callable[[Source, TrainSpec, Samples | None], Source] | None = None
    fewest_outliers: int = 1  # in an outlier set to train against
    of_training: bool = False  # whether detectors read answers about the training data, too
    columns: int = (
        0  # of its answers: 0 means shape (n,), k (n, k), ONE_PER_CLASS a logit per class
    )
    members: int = 1  # networks, each with a seed of its own; answers of several are stacked
    gradients: bool = False  # whether answering takes gradients with respect to the inputs
    samples: Draw | None = None  # of a generative model: images that it draws, for the report
    # Whether it learns from the training part of the outlier set, and from nothing else.
    of_outliers: bool = False
    codes: Decode | None = None  # of a model with a decoder: what this makes images of
    code: tuple[Callable[..., object], ...] = ()  # of somebody else's that it runs

    def __post_init__(self) -> None:
        if self.per not in get_args(Per):
            raise unknown(f"value of per in model '{self.name}'", self.per, get_args(Per))
        if not isinstance(self.task, Task):
            raise UserError(
                f"The task of model '{self.name}' must be a Task(network, loss), got {self.task!r}."
            )
        if self.members < 1 or self.columns < ONE_PER_CLASS:
            raise UserError(
                f"Model '{self.name}' must have at least 1 member and 0 columns, got "
                f"{self.members} and {self.columns}."
            )
        if self.per == "outliers" and self.source is None and not self.of_outliers:
            raise UserError(
                f"Model '{self.name}' is trained per outlier set: give a source, which joins "
                "the training data and the outliers."
            )

    def recipe(
        self,
        spec: TrainSpec,
        train_shape: tuple[int, ...],
        member: int = 0,
        *,
        seed: int | None = None,
    ) -> TrainSpec:
        """The specification of its training, from that of a run and the shape of its training data.

        What is shared by all runs of the same data must not depend on how their classifiers are
        trained: it starts from the defaults. It never trains on more samples than there are. The
        members of an ensemble differ in the seed. What runs share has the seed `model_seed`.
        """
        made = self._made(spec, train_shape if self.of_outliers else train_shape[1:])
        if seed is None and (self.per == "data" or self.of_outliers):
            seed = spec.model_seed
        if seed is not None:
            made = made.model_copy(update={"seed": seed})
        if made.train_size is not None and not self.of_outliers:
            most = min(made.train_size, spec.train_size or made.train_size, train_shape[0])
            made = made.model_copy(update={"train_size": most})
        if member:
            state = np.random.SeedSequence([made.seed, _MEMBER_SEED, member]).generate_state(1)
            made = made.model_copy(update={"seed": int(state[0])})
        if self.task.outliers_per_input and not spec.auxiliary:
            raise UserError(
                f"Model '{self.name}' learns from auxiliary outliers, but none are given: name a "
                "data set, such as auxiliary: svhn in the base of the study, --auxiliary svhn, or "
                "auxiliary='svhn' in Python."
            )
        return made

    def _made(self, spec: TrainSpec, shape: tuple[int, ...]) -> TrainSpec:
        of = f"The spec of model '{self.name}'"
        base = portion(spec) if self.per == "data" or self.of_outliers else spec
        if self.of_outliers:  # which samples the run has does not matter
            base = base.model_copy(
                update={"train_size": None, "validation": 0.0, "fitted_on": "train"}
            )
        try:
            made = self.spec(base, shape)
        except (Exception, SystemExit) as problem:
            raise UserError(f"{of} failed: {describe(problem)}") from problem
        if not isinstance(made, TrainSpec):
            raise UserError(f"{of} must return a TrainSpec, got {type(made).__name__}.")
        try:
            made = TrainSpec.model_validate(made.model_dump())  # `model_copy` checks nothing
        except ValidationError as problem:
            first = problem.errors()[0]
            raise UserError(
                f"{of} sets {first['loc'][0]} to {first['input']!r}: {first['msg']}."
            ) from None
        for field in _NEVER_CHANGED:
            if getattr(made, field) != getattr(spec, field):
                raise UserError(
                    f"{of} changes {field}, which the study decides: "
                    f"{getattr(spec, field)!r} became {getattr(made, field)!r}."
                )
        return made


MODELS: dict[str, DetectorModel] = {}


def portion(spec: TrainSpec) -> TrainSpec:
    """What of a specification says which samples there are; the rest is as by default."""
    return TrainSpec(**{field: getattr(spec, field) for field in _OF_DATA})


def detector_model(
    *,
    task: Task,
    per: Per = "data",
    spec: Recipe = lambda spec, shape: spec,
    source: Callable[[Source, TrainSpec, Samples | None], Source] | None = None,
    fewest_outliers: int = 1,
    of_training: bool = False,
    columns: int = 0,
    members: int = 1,
    gradients: bool = False,
    samples: Draw | None = None,
    of_outliers: bool = False,
    codes: Decode | None = None,
) -> Callable[[Answer], Answer]:
    """Register the decorated function as what a detector model answers, under its own name.

    The function takes the trained network, in eval mode, and a batch of inputs, and returns one
    row per input: one number or, with `columns`, several. `task` is what the network learns, `per`
    how many networks there are ("data", "run" or "outliers"), `spec` its recipe, such as the number
    of epochs, from the specification of the run and the shape of an input. `source` changes what it
    is trained on; with `of_outliers`, that is the training part of each outlier set alone, and
    `spec` is given the shape of all its images. With `members` an ensemble is trained, whose
    answers are stacked. `gradients` allows the function to take gradients. `samples(model, count,
    generator)` draws images, and `codes(model, answers)` says which points its decoder makes
    images of.
    """

    def add(answer: Answer) -> Answer:
        name = answer.__name__
        known = MODELS.get(name)
        # The same function again is a notebook cell run twice; another one would hide the first.
        if known is not None and known.answer.__module__ != answer.__module__:
            raise UserError(
                f"Model '{name}' of {answer.__module__} is already registered by "
                f"{known.answer.__module__}: choose another name."
            )
        MODELS[name] = DetectorModel(
            name,
            answer,
            task,
            per,
            spec,
            source,
            fewest_outliers,
            of_training,
            columns,
            members,
            gradients,
            samples,
            of_outliers,
            codes,
        )
        return answer

    return add


# Models with settings, by name: (complete settings) -> the card; ``Mine(k=3)`` is made when asked.
WITH_SETTINGS: dict[str, Callable[[Mapping[str, Setting]], DetectorModel]] = {}


def find_model(name: str, kind: str = "model") -> DetectorModel:
    """Look a model up; `kind` is what it is, for the error."""
    if name not in MODELS:
        base = name.partition("(")[0]
        if base == name or base not in WITH_SETTINGS:
            raise unknown(kind, name, MODELS)
        MODELS[name] = WITH_SETTINGS[base](parse_call(kind, name)[1])
    return MODELS[name]
