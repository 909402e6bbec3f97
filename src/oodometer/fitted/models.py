"""Detector models, trained here and now: their networks and what these answer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.data.samples import Images
from oodometer.lab.detector_models import DetectorModel, answers_of
from oodometer.lab.training.task import Task
from oodometer.lab.training.train import Training
from oodometer.needs import Need
from oodometer.outputs import Outputs
from oodometer.registry import Choice
from oodometer.study import TrainSpec

Notify = Callable[[str], None]
SECONDS_BETWEEN_NOTES = 10.0


@dataclass(frozen=True, eq=False)
class FittedModel:
    """One trained network of a detector."""

    card: DetectorModel
    spec: TrainSpec
    network: nn.Module  # in eval mode
    epoch: int  # whose weights it has
    curve: Mapping[str, tuple[float, ...]]
    seconds: float  # of training

    def answers(self, images: Images) -> Tensor:
        """What it answers, one row per image."""
        return answers_of(self.card, self.network, images)


def models_needed(choice: Choice, *, grid: bool = False) -> list[Need]:
    """The detector models that a detector reads."""
    return sorted(need for need in choice.needs(grid=grid) if need.source == "model")


def spelt_out(card: DetectorModel) -> list[Need]:
    """The networks of a model: one, or the members of an ensemble."""
    members = range(1, card.members + 1) if card.members > 1 else [0]
    return [Need("model", card.name, member=member) for member in members]


def require_trainable(card: DetectorModel, detector: str, images: Images) -> None:
    """Refuse what needs a study, or classes that are not given."""
    if card.per == "outliers" or card.source is not None:
        raise UserError(
            f"Detector '{detector}' is trained with the data of a study: see 'oodometer run'."
        )
    if card.task.labelled and (images.labels < 0).any():
        raise UserError(f"Detector '{detector}' learns from classes: give a label for every image.")


def train_models(
    cards: Iterable[DetectorModel],
    images: Images,
    spec: TrainSpec,
    *,
    auxiliary: Images | None = None,
    device: str = "cpu",
    notify: Notify = lambda _: None,
) -> dict[Need, FittedModel]:
    """Train all networks of these models; `spec` has their size and seed."""
    wanted = [(card, need) for card in cards for need in spelt_out(card)]
    shape = (len(images), *images.shape)
    made = {}
    for number, (card, need) in enumerate(wanted, 1):
        recipe = card.recipe(spec, shape, need.member, seed=spec.seed)
        title = f"{card.name} {need.member} of {card.members}" if need.member else card.name
        left = Progress(title, recipe.epochs, len(wanted) - number, notify)
        trained = train_network(card.task, recipe, images, left, auxiliary=auxiliary, device=device)
        made[need] = FittedModel(
            card, recipe, trained.network, trained.epoch, trained.curve, trained.seconds
        )
    return made


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A network as training left it, in eval mode."""

    network: nn.Module
    epoch: int
    curve: dict[str, tuple[float, ...]]
    seconds: float


def train_network(
    task: Task,
    spec: TrainSpec,
    images: Images,
    progress: Progress,
    *,
    auxiliary: Images | None = None,
    device: str = "cpu",
) -> TrainedNetwork:
    """Train one network, to the epoch that the specification names."""
    classes = max(1, int(images.labels.max()) + 1)
    started = time.monotonic()
    training = Training(spec, images, classes, task=task, auxiliary=auxiliary, device=device)
    until = spec.epoch if isinstance(spec.epoch, int) else spec.epochs
    while training.epoch < until and not training.finished:
        training.run_epoch()
        progress.passed(training.epoch, training.curve["train_loss"][-1])
    weights = training.finished_weights(spec.checkpoint)
    network = task.fresh_network(spec, images.shape, classes)
    network.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    seconds = time.monotonic() - started
    epoch = training.used_epoch(spec.checkpoint)
    curve = {name: tuple(values) for name, values in training.curve.items()}
    return TrainedNetwork(network.to(device).eval(), epoch, curve, seconds)


class Progress:
    """Says now and then how far a training is and how long it will take."""

    def __init__(self, title: str, epochs: int, more: int, notify: Notify) -> None:
        self._title, self._epochs, self._more, self._notify = title, epochs, more, notify
        self._started = self._told = time.monotonic()

    def passed(self, epoch: int, loss: float) -> None:
        """Tell that an epoch has passed."""
        now = time.monotonic()
        if now - self._told < SECONDS_BETWEEN_NOTES or epoch == self._epochs:
            return
        self._told = now
        each = (now - self._started) / epoch
        left = each * (self._epochs - epoch + self._more * self._epochs)
        and_more = f", {self._more} more to train" if self._more else ""
        self._notify(
            f"{self._title}: epoch {epoch} of {self._epochs}, loss {loss:.4g}{and_more}; at most "
            f"about {_duration(left)} left"
        )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def training_outputs(answers: Mapping[Need, Tensor]) -> Outputs:
    """What a detector is fitted on that reads models only: their answers, where it reads these."""
    if answers:
        return Outputs(answers=answers)
    return Outputs(features=torch.zeros(1, 1))  # it has not declared to read them
