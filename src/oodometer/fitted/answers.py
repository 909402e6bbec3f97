"""What detector models say about the data sets of an evaluation: trained once, then asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from oodometer.errors import UserError
from oodometer.fitted.fit import checked_auxiliary, training_spec
from oodometer.fitted.images import Pictures, gathered
from oodometer.fitted.models import (
    Notify,
    models_needed,
    require_trainable,
    train_models,
    training_outputs,
)
from oodometer.lab.data.inputs import Data
from oodometer.lab.data.samples import Images
from oodometer.lab.detector_models import find_model
from oodometer.needs import Need
from oodometer.outputs import Outputs, Refusal
from oodometer.registry import Choice


@dataclass
class ModelAnswers:
    """Answers by data set, and why there are none."""

    by_set: dict[str, dict[Need, Tensor]] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)  # need -> why

    def outputs(self, name: str) -> Outputs:
        """What detectors see of a data set if there is no classifier."""
        return training_outputs(self.by_set.get(name, {})).refusing(self.refused)

    def joined(self, name: str, outputs: Outputs) -> Outputs:
        """What detectors see of a data set beside the outputs of a classifier."""
        if not self.by_set and not self.refused:
            return outputs
        kind = next(iter(outputs.tensors().values())).dtype
        added = {need: values.to(kind) for need, values in self.by_set.get(name, {}).items()}
        answers = {**outputs.answers, **added}
        return replace(outputs, answers=answers).refusing(self.refused)


def answers_for(
    choices: Sequence[Choice],
    sets: Mapping[str, Images | Data],
    *,
    auxiliary: Pictures | None = None,
    size: str = "small",
    seed: int = 0,
    device: str = "cpu",
    notify: Notify = lambda _: None,
) -> ModelAnswers:
    """Train what the detectors need on the set "train", and ask about all sets.

    A model that cannot be trained leaves the reason to the detectors that need it.
    """
    made = ModelAnswers()
    needs = {need.name: choice.label for choice in choices for need in models_needed(choice)}
    if not needs:
        return made
    spec = training_spec(size, seed, auxiliary)
    images = {name: gathered(name, data) for name, data in sets.items()}
    train = images["train"]
    tested = {name: part for name, part in images.items() if name != "train"}
    outliers = checked_auxiliary(auxiliary, train, tested)
    for name, label in sorted(needs.items()):
        card = find_model(name)
        try:
            require_trainable(card, label, train)
            models = train_models(
                [card], train, spec, auxiliary=outliers, device=device, notify=notify
            )
            for title, samples in images.items():
                if title != "train" or card.of_training:
                    answers = {need: model.answers(samples) for need, model in models.items()}
                    made.by_set.setdefault(title, {}).update(answers)
        except UserError as problem:
            made.refused[str(Need("model", name))] = Refusal(str(problem).rstrip("."))
    return made
