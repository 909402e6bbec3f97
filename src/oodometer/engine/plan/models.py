"""Detector models to train: one for all runs that would train the same one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from oodometer.engine.plan.artefacts import About, Artefact, model_of
from oodometer.engine.plan.keys import DECLARING, code_version, digest, function_version
from oodometer.engine.plan.trainings import (
    READING,
    STEPS,
    DataContent,
    TrainingPlan,
    checkpoint_key,
    fitted_content,
    training_key,
)
from oodometer.lab.data.portions import noise_digest, split_seed
from oodometer.needs import Need
from oodometer.study import TrainSpec

if TYPE_CHECKING:  # importing it would load PyTorch, which a finished study does not need
    from oodometer.lab.detector_models import DetectorModel


@dataclass(frozen=True, kw_only=True)
class ModelPlan(TrainingPlan):
    """A detector model to train, and the keys of its answers."""

    name: str  # of its card
    outliers: str = ""  # name of the outlier set that it is trained against, if it is
    member: int = 0  # which network of an ensemble, from 1
    portion: TrainSpec  # which samples the runs have that share it
    answers: Mapping[str, str]  # data set ("" = what detectors are fitted to) -> key

    @property
    def network(self) -> str:
        """What kind of network it is, to guess how long its training takes."""
        return f"{self.name} {self.spec.network}"

    @property
    def record(self) -> dict[str, object]:
        """What its specification does not tell, for the records of what it leaves."""
        drawn = {"train_size": self.portion.train_size, "validation": self.portion.validation}
        of: dict[str, object] = {"name": self.name, "outliers": self.outliers}
        of |= {"member": self.member} if self.member else {}
        return {"detector model": {**of, **drawn}}

    @property
    def need(self) -> Need:
        """What detectors need it as."""
        return Need("model", self.name, self.outliers, self.member)

    @cached_property
    def artefacts(self) -> tuple[Artefact, ...]:
        """Its weights and its answers."""
        answers = (
            Artefact(
                "probes",
                key,
                "extract",
                About(self.label, str(self.need), name or "training data"),
                (self.model,),
            )
            for name, key in self.answers.items()
        )
        return (model_of(self, self.spec.checkpoint, self.model), *answers)


def plan_models(
    run: str,
    spec: TrainSpec,
    content: DataContent,
    cards: Sequence[DetectorModel],
    shared: dict[object, ModelPlan],
) -> dict[Need, ModelPlan]:
    """Plan the models that detectors of a run need; `shared` are those of runs before it."""
    plans = {}
    for card in cards:
        few = {name for name, size in content.sizes.items() if size < card.fewest_outliers}
        large = [name for name in content.ood if name not in few]
        for outliers in large if card.per == "outliers" else [""]:
            for member in range(1, card.members + 1) if card.members > 1 else [0]:
                made = _plan_model(run, spec, content, card, outliers, member)
                known = shared.setdefault((made.model, *made.answers.items()), made)
                plans[made.need] = known
    return plans


def _plan_model(
    run: str,
    spec: TrainSpec,
    content: DataContent,
    card: DetectorModel,
    outliers: str,
    member: int,
) -> ModelPlan:
    from oodometer.lab.detector_models import portion

    learned, shape = content, content.train_shape
    if card.of_outliers:  # which data the run has does not matter
        part, size = content.ood_train[outliers]
        learned = replace(content, train=part, test="", ood={}, noise="", validation="")
        shape = (size, *shape[1:])
    recipe = card.recipe(spec, shape, member)
    drawn = [spec.train_size, spec.validation, split_seed(spec)]  # what the run has of its data
    if recipe.label_noise != spec.label_noise:  # as the model's own recipe says
        learned = replace(learned, noise=noise_digest(recipe))
    training = digest(
        "detector model",
        card.name,
        _version(card),
        training_key(recipe, learned),
        [*drawn, content.test] if card.source is not None else [],
        content.ood[outliers] if outliers and not card.of_outliers else "",
        recipe.model_size,
        content.auxiliary if card.task.outliers_per_input else "",
    )
    model = checkpoint_key(training, recipe.checkpoint)
    code = code_version(
        "lab/detector_models/answers",
        apart_from=(*READING, "lab/training", *DECLARING),
    )
    read: dict[str, object] = {} if card.of_outliers else dict(content.scored)
    if card.of_training:
        read[""] = [fitted_content(spec, content), *drawn]
    against = f" {'of' if card.of_outliers else 'against'} {outliers}" if outliers else ""
    number = f" {member} of {card.members}" if member else ""
    return ModelPlan(
        label=f"{run}, model {card.name}{number}{against}",
        spec=recipe,
        content=content,
        training=training,
        checkpoints={recipe.checkpoint: model},
        name=card.name,
        outliers=outliers,
        member=member,
        portion=portion(spec),
        answers={
            name: digest("answers", STEPS["extract"], code, model, data)
            for name, data in read.items()
        },
    )


def _version(card: DetectorModel) -> str:
    """A hash of the code of a card: its module, and all that this imports."""
    module = card.answer.__module__
    if not module.startswith("oodometer."):
        # Of one module, they differ only where that is no file, but the cells of a notebook.
        task = card.task
        parts = (
            card.answer, task.network, *(turn.loss for turn in task.turns), task.after_step,
            task.choose_outliers, task.finish, card.spec, card.source, card.samples,
        )  # fmt: skip
        own = {
            function_version(p) for p in parts if inspect.isroutine(p) and p.__module__ == module
        }
        return digest(*sorted(own))
    path = module.removeprefix("oodometer.").replace(".", "/")
    version = code_version(path, apart_from=(*READING, *DECLARING))
    return digest(version, *map(function_version, card.code)) if card.code else version
