"""What a network learns: how it is made, its loss, and what is measured beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.training.losses import as_classes, make_loss
from oodometer.lab.training.networks import build_network, check_network
from oodometer.study import TrainSpec

Measures = Mapping[str, float]  # beside the loss: sums over the samples of a batch


@dataclass(frozen=True, eq=False)
class Batch:
    """Inputs, augmented if the specification says so, and what belongs to them."""

    inputs: Tensor
    targets: Tensor  # class numbers, or a probability per class where inputs were mixed
    outliers: Tensor | None = None  # of the auxiliary set, if the task asks for them
    progress: float = 0.0  # epochs trained so far, with the fraction of the present one


class Candidates(Protocol):
    """Auxiliary outliers to choose from."""

    def __len__(self) -> int:
        """How many there are."""

    def __call__(self, rows: Tensor) -> Tensor:
        """The inputs in these rows, not augmented."""


# (spec, model in eval mode, candidates, how many are wanted, generator) -> rows; None: any
ChooseOutliers = Callable[[TrainSpec, nn.Module, Candidates, int, torch.Generator], "Tensor | None"]
# (spec, model in eval mode, training data in order, not augmented, to be iterated repeatedly)
Finish = Callable[[TrainSpec, nn.Module, Iterable[Batch]], None]


def _allow(spec: TrainSpec) -> None:
    """Allow every specification."""


@dataclass(frozen=True)
class Task:
    """What a network learns.

    ``network(spec, shape, classes)`` makes the network for inputs of a shape, and ``loss(spec,
    model, batch)`` returns the mean loss of a batch with its measures: for each of `measures`, the
    sum over the samples of the batch. A learning curve has their means, and a training run can
    choose its epoch by "accuracy" if that is among them.

    A loss may draw from the global random state, which the training lends it, and keep state in
    buffers of the module. ``choose_outliers(spec, model, candidates, count, generator)`` returns
    the rows of the auxiliary outliers for the next epoch, or None: any. ``finish(spec, model,
    batches)`` fits buffers of a trained model to its training data, once for each checkpoint.
    """

    network: Callable[[TrainSpec, tuple[int, ...], int], nn.Module]
    loss: Callable[[TrainSpec, nn.Module, Batch], tuple[Tensor, Measures]]
    measures: tuple[str, ...] = ()
    labelled: bool = False  # whether the loss reads targets, so that every sample needs a class
    check: Callable[[TrainSpec], None] = _allow  # refuses what cannot be trained, without data
    outliers_per_input: float = 0.0  # how many auxiliary outliers a batch has for each input
    choose_outliers: ChooseOutliers | None = None
    finish: Finish | None = None

    def fresh_network(self, spec: TrainSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Build the network with initial weights that depend on the seed and on nothing else."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(spec.seed)  # inside the fork: layers draw from the global state
            return self.network(spec, shape, classes)

    def checked_loss(
        self, spec: TrainSpec, model: nn.Module, batch: Batch
    ) -> tuple[Tensor, Measures]:
        """Return the loss; refuse one that nothing could be learned from."""
        made = self.loss(spec, model, batch)
        if not (
            isinstance(made, tuple)
            and len(made) == 2
            and isinstance(made[0], Tensor)
            and made[0].shape == ()
            and set(made[1]) == set(self.measures)
        ):
            measured = ", ".join(self.measures) or "nothing"
            raise UserError(
                f"Loss '{self.loss.__name__}' must return the mean loss of the batch, one number, "
                f"and a dictionary that measures {measured}; it returned {_shown(made)}."
            )
        return made


def _shown(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    return f"a dictionary of {sorted(value)}" if isinstance(value, dict) else repr(value)


def _classifier_loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    logits = model(batch.inputs)
    hits = (logits.detach().argmax(1) == as_classes(batch.targets)).sum()
    return make_loss(spec.loss)(logits, batch.targets), {"accuracy": int(hits)}


def _check_classifier(spec: TrainSpec) -> None:
    check_network(spec.network)
    make_loss(spec.loss)


CLASSIFIER = Task(
    network=lambda spec, shape, classes: build_network(spec.network, shape, classes, spec.width),
    loss=_classifier_loss,
    measures=("accuracy",),
    labelled=True,
    check=_check_classifier,
)
