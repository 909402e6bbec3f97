"""Networks that exist to detect: one card each, by which a study trains it and asks it.

A detector declares ``model:NAME`` and reads the answers with ``view.model("NAME")``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import ValidationError
from torch import Tensor, nn

from oodometer.errors import UserError, describe, unknown
from oodometer.lab.data.samples import Samples
from oodometer.lab.data.sources import Source
from oodometer.lab.training.task import Task
from oodometer.study import TrainSpec

Per = Literal["data", "run", "outliers"]  # how many there are, and who shares one
Answer = Callable[[nn.Module, Tensor], Tensor]

# The fields of a specification that say which samples there are; the others say what is done.
_OF_DATA = (
    "data", "held_out_classes", "split", "test_size", "ood_draw", "train_size", "validation",
    "fitted_on",
)  # fmt: skip
_NEVER_CHANGED = ("data", "held_out_classes", "split", "test_size", "ood_draw")


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
    spec: Callable[[TrainSpec], TrainSpec]  # its recipe, from that of the run
    # (data of the run, `portion` of its specification, outliers) -> what it is trained on
    source: Callable[[Source, TrainSpec, Samples | None], Source] | None = None
    fewest_outliers: int = 1  # in an outlier set to train against
    of_training: bool = False  # whether detectors read answers about the training data, too

    def __post_init__(self) -> None:
        if self.per not in get_args(Per):
            raise unknown(f"value of per in model '{self.name}'", self.per, get_args(Per))
        if not isinstance(self.task, Task):
            raise UserError(
                f"The task of model '{self.name}' must be a Task(network, loss), got {self.task!r}."
            )
        if self.per == "outliers" and self.source is None:
            raise UserError(
                f"Model '{self.name}' is trained per outlier set: give a source, which joins "
                "the training data and the outliers."
            )

    def recipe(self, spec: TrainSpec) -> TrainSpec:
        """The specification of its training, from that of a run.

        What is shared by all runs of the same data must not depend on how their classifiers are
        trained: it starts from the defaults.
        """
        of = f"The spec of model '{self.name}'"
        try:
            made = self.spec(portion(spec) if self.per == "data" else spec)
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
    spec: Callable[[TrainSpec], TrainSpec] = lambda spec: spec,
    source: Callable[[Source, TrainSpec, Samples | None], Source] | None = None,
    fewest_outliers: int = 1,
    of_training: bool = False,
) -> Callable[[Answer], Answer]:
    """Register the decorated function as what a detector model answers, under its own name.

    The function takes the trained network, in eval mode, and a batch of inputs, and returns one
    row per input. `task` is what the network learns, `per` how many networks there are ("data",
    "run" or "outliers"), `spec` its recipe, such as the number of epochs. `source` changes what
    it is trained on.
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
            name, answer, task, per, spec, source, fewest_outliers, of_training
        )
        return answer

    return add


def find_model(name: str, kind: str = "model") -> DetectorModel:
    """Look a model up; `kind` is what it is, for the error."""
    if name not in MODELS:
        raise unknown(kind, name, MODELS)
    return MODELS[name]
