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
    step: int = 0  # batches trained on before this one


class Candidates(Protocol):
    """Auxiliary outliers to choose from."""

    def __len__(self) -> int:
        """How many there are."""

    def __call__(self, rows: Tensor) -> Tensor:
        """The inputs in these rows, not augmented."""


Loss = Callable[[TrainSpec, nn.Module, Batch], tuple[Tensor, Measures]]
# (spec, model in eval mode, candidates, how many are wanted, generator) -> rows; None: any
ChooseOutliers = Callable[[TrainSpec, nn.Module, Candidates, int, torch.Generator], "Tensor | None"]
# (spec, model in eval mode, training data in order, not augmented, to be iterated repeatedly)
Finish = Callable[[TrainSpec, nn.Module, Iterable[Batch]], None]


def _allow(spec: TrainSpec) -> None:
    """Allow every specification."""


@dataclass(frozen=True)
class Turn:
    """A part of a network that learns by a loss of its own, while all other parts rest.

    `part` is the name of a submodule, as in ``model.get_submodule(part)``; "" is the whole network.
    The turn comes once in `every` batches, at the first of them.
    """

    part: str
    loss: Loss
    measures: tuple[str, ...] = ()
    every: int = 1


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

    Parts that learn against each other, as in a GAN, have several losses: `loss` is then a tuple of
    `Turn`s, taken one after the other on every batch. ``after_step(spec, model, batch)`` follows
    them, for running means of weights. `pace` of a part is c: its learning rate is multiplied by c,
    and Adam's betas are raised to the power of c.
    """

    network: Callable[[TrainSpec, tuple[int, ...], int], nn.Module]
    loss: Loss | tuple[Turn, ...]
    measures: tuple[str, ...] = ()
    labelled: bool = False  # whether the loss reads targets, so that every sample needs a class
    check: Callable[[TrainSpec], None] = _allow  # refuses what cannot be trained, without data
    outliers_per_input: float = 0.0  # how many auxiliary outliers a batch has for each input
    choose_outliers: ChooseOutliers | None = None
    finish: Finish | None = None
    after_step: Callable[[TrainSpec, nn.Module, Batch], None] | None = None
    pace: tuple[tuple[str, float], ...] = ()  # parts, and how much each is slowed down

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The losses, with the part of the network that learns by each."""
        if isinstance(self.loss, tuple):
            return self.loss
        return (Turn("", self.loss, self.measures),)

    def fresh_network(self, spec: TrainSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Build the network with initial weights that depend on the seed and on nothing else."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(spec.seed)  # inside the fork: layers draw from the global state
            return self.network(spec, shape, classes)


def checked_loss(
    turn: Turn, spec: TrainSpec, model: nn.Module, batch: Batch
) -> tuple[Tensor, Measures]:
    """Return the loss of a turn; refuse one that nothing could be learned from."""
    made = turn.loss(spec, model, batch)
    if not (
        isinstance(made, tuple)
        and len(made) == 2
        and isinstance(made[0], Tensor)
        and made[0].shape == ()
        and set(made[1]) == set(turn.measures)
    ):
        measured = ", ".join(turn.measures) or "nothing"
        raise UserError(
            f"Loss '{turn.loss.__name__}' must return the mean loss of the batch, one number, "
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
