"""ATOM: a classifier with a class for outliers, which learns from informative, attacked outliers.

Chen et al. 2021, arXiv:2006.15207.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from oodometer.lab.detector_models.cards import detector_model
from oodometer.lab.detector_models.with_outliers.attacks import ascend, frozen, random_start
from oodometer.lab.detector_models.with_outliers.losses import accuracy, rejected, rejection
from oodometer.lab.detector_models.with_outliers.networks import Shape, densenet, plain_cnn
from oodometer.lab.detector_models.with_outliers.recipes import ATOM, SMALL, TINY, colors, recipe
from oodometer.lab.training.task import Batch, Candidates, Measures, Task
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.study import TrainSpec

_PAPER = "Chen et al. 2021, arXiv:2006.15207"
_OUTLIERS = 2.0  # for each image
_CANDIDATES = 4  # for each outlier that is kept
_QUANTILE = 0.125  # of the candidates: the hardest, which are left out
_AT_ONCE = 512  # candidates that are scored together
STEPS = 5


def attack_size(spec: TrainSpec, shape: Shape) -> tuple[float, float]:
    """Radius and step of the attack: 8 / 255 and 2 / 255; 0.1 for grey images of smaller sizes."""
    if spec.model_size != "paper" and colors(shape) == "grey":
        return 0.1, 0.025
    return 8 / 255, 2 / 255


def informative(scores: Tensor, keep: int, quantile: float) -> Tensor:
    """Rows of `keep` outliers in ascending order of score, after the `quantile` of the lowest.

    The lowest are those that look most like known images; where they are too few, they count too.
    """
    order = scores.argsort(stable=True)
    start = min(int(quantile * len(order)), max(len(order) - keep, 0))
    return order[start : start + keep]


def mine(
    spec: TrainSpec,
    model: nn.Module,
    candidates: Candidates,
    count: int,
    generator: torch.Generator,
) -> Tensor:
    """Choose the outliers of an epoch: score four times as many, leave out the hardest eighth."""
    rows = torch.randperm(len(candidates), generator=generator)[: _CANDIDATES * count]
    scores = torch.cat([rejection(model(candidates(part))) for part in torch.split(rows, _AT_ONCE)])
    chosen = rows[informative(scores.cpu(), count, _QUANTILE)]
    return chosen[torch.randperm(len(chosen), generator=generator)]


def _loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    """Mean CE of the images + mean CE of the outliers, the second half of them attacked."""
    assert batch.outliers is not None
    radius, step = attack_size(spec, batch.inputs.shape[1:])
    half = len(batch.outliers) // 2
    clean, rest = batch.outliers[:half], batch.outliers[half:]
    with frozen(model):
        attacked = ascend(
            lambda images: rejected(model(images)),
            rest,
            radius=radius,
            step=step,
            steps=STEPS,
            start=random_start(rest, radius, levels=255),
        )
    logits, others = model(torch.cat((batch.inputs, clean, attacked))).split(
        (len(batch.inputs), len(batch.outliers))
    )
    loss = functional.cross_entropy(logits, batch.targets) + rejected(others).mean()
    return loss, accuracy(logits, batch.targets)


def rejecting_network(spec: TrainSpec, shape: Shape, classes: int) -> nn.Module:
    """DenseNet-BC-100 with one more class, that of the outliers; smaller, a plain network."""
    if spec.model_size == "paper":
        return densenet(shape, classes + 1)
    return plain_cnn(spec.model_size, shape, classes + 1)


@detector_model(
    task=Task(
        network=rejecting_network,
        loss=_loss,
        measures=("accuracy",),
        labelled=True,
        outliers_per_input=_OUTLIERS,
        choose_outliers=mine,
    ),
    spec=recipe(tiny=TINY, small={**SMALL, "epochs": 5}, grey=ATOM, color=ATOM),
)
def atom_classifier(model: nn.Module, inputs: Tensor) -> Tensor:
    """Log odds of the class of outliers."""
    return rejection(model(inputs))


@detector(paper=_PAPER, needs={"model:atom_classifier"}, only_by_name=True)
def atom(train: View) -> Scorer:
    """Outlier class of a network that learned from informative auxiliary outliers under attack.

    score = log(p / (1 - p)), p the probability of the additional class. Before each epoch the
    outliers are chosen that are neither easy nor the very hardest; half of them are attacked.
    """
    return lambda view: view.model("atom_classifier")
