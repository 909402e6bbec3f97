"""ROWL: a classifier with a class for outliers, trained on all images and on attacked ones.

Sehwag et al. 2019, arXiv:1905.01726, as in the repository of Chen et al. 2021, arXiv:2006.15207.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from oodometer.lab.detector_models.cards import detector_model
from oodometer.lab.detector_models.with_outliers.atom import (
    STEPS,
    attack_size,
    rejecting_network,
)
from oodometer.lab.detector_models.with_outliers.attacks import ascend, frozen
from oodometer.lab.detector_models.with_outliers.losses import accuracy, rejection
from oodometer.lab.detector_models.with_outliers.recipes import ATOM, SMALL, TINY, recipe
from oodometer.lab.training.losses import as_classes
from oodometer.lab.training.task import Batch, Candidates, Measures, Task
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.study import TrainSpec

_PAPER = "Sehwag et al. 2019, arXiv:1905.01726"
_OUTLIERS = 0.1  # for each image: as many as a class of CIFAR-10 has


def other_classes(targets: Tensor, classes: int) -> Tensor:
    """A random wrong class for each target."""
    return (targets + torch.randint_like(targets, 1, classes)) % classes


def targeted_attack(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    radius: float,
    step: float,
    steps: int,
    void: bool,
) -> Tensor:
    """Move images towards a fresh random wrong class at each step.

    In the published script no step is ever accepted (`void`): a point must beat the cross-entropy
    of the true class, which is positive, while its own value is negative.
    """

    def towards(points: Tensor) -> Tensor:
        logits = model(points)
        wrong = other_classes(targets, logits.shape[1])
        return -functional.cross_entropy(logits, wrong, reduction="none")

    with torch.no_grad():
        own = functional.cross_entropy(model(images), targets, reduction="none") if void else None
    return ascend(towards, images, radius=radius, step=step, steps=steps, to_beat=own)


def same_outliers(
    spec: TrainSpec,
    model: nn.Module,
    candidates: Candidates,
    count: int,
    generator: torch.Generator,
) -> Tensor:
    """The same outliers in every epoch, as many as it takes, in another order."""
    rows = torch.randperm(len(candidates), generator=torch.Generator().manual_seed(spec.seed))[
        :count
    ]
    return rows[torch.randperm(len(rows), generator=generator)]


def _task(*, void: bool) -> Task:
    def loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
        """Mean CE of all images, outliers among them, + mean CE of the same under attack."""
        assert batch.outliers is not None
        radius, step = attack_size(spec, batch.inputs.shape[1:])
        images = torch.cat((batch.inputs, batch.outliers))
        logits = model(images)
        known = as_classes(batch.targets)
        background = known.new_full((len(batch.outliers),), logits.shape[1] - 1)
        targets = torch.cat((known, background))
        with frozen(model):
            attacked = targeted_attack(
                model, images, targets, radius=radius, step=step, steps=STEPS, void=void
            )
        both = functional.cross_entropy(logits, targets)
        both = both + functional.cross_entropy(model(attacked), targets)
        return both, accuracy(logits[: len(known)], known)

    return Task(
        network=rejecting_network,
        loss=loss,
        measures=("accuracy",),
        labelled=True,
        outliers_per_input=_OUTLIERS,
        choose_outliers=same_outliers,
    )


_PUBLISHED = {**ATOM, "batch_size": 116}  # 128 with the outliers
_RECIPE = recipe(tiny=TINY, small={**SMALL, "epochs": 5}, grey=_PUBLISHED, color=_PUBLISHED)


@detector_model(task=_task(void=False), spec=_RECIPE)
def rowl_classifier(model: nn.Module, inputs: Tensor) -> Tensor:
    """Log odds of the class of outliers."""
    return rejection(model(inputs))


@detector_model(task=_task(void=True), spec=_RECIPE)
def rowl_void_classifier(model: nn.Module, inputs: Tensor) -> Tensor:
    """Log odds of the class of outliers."""
    return rejection(model(inputs))


_MODELS = {False: "rowl_classifier", True: "rowl_void_classifier"}


@detector(
    paper=_PAPER,
    needs={f"model:{name}" for name in _MODELS.values()},
    grid={"void_attack": (False,)},
    needs_for={"void_attack": {void: {f"model:{name}"} for void, name in _MODELS.items()}},
    only_by_name=True,
)
def rowl(train: View, *, void_attack: bool = False) -> Scorer:
    """Outlier class of a network that was trained on attacked images of all classes.

    score = log(p / (1 - p)), p the probability of the additional class, which has as many images
    as another one. With void_attack=True the attack changes nothing, as in the published script.
    """
    name = _MODELS[void_attack]
    return lambda view: view.model(name)
