"""GOOD: a classifier whose low confidence around outliers is guaranteed by interval bounds.

Bitterwolf et al. 2020, arXiv:2007.08473.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from oodometer.errors import UserError
from oodometer.lab.detector_models.cards import detector_model
from oodometer.lab.detector_models.with_outliers.ceda import ceda_loss, plain_network
from oodometer.lab.detector_models.with_outliers.intervals import (
    ball,
    difference_bounds,
    least_score,
)
from oodometer.lab.detector_models.with_outliers.losses import accuracy, doubt, ramp
from oodometer.lab.detector_models.with_outliers.networks import Shape
from oodometer.lab.detector_models.with_outliers.recipes import (
    GOOD_COLOR,
    GOOD_GREY,
    SMALL,
    TINY,
    colors,
    recipe,
)
from oodometer.lab.training.task import Batch, Measures, Task
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.study import TrainSpec

_PAPER = "Bitterwolf et al. 2020, arXiv:2007.08473"


class _Growth(NamedTuple):
    """A number that grows to `most` between two epochs: linearly, or by a factor from `first`."""

    most: float
    start: float
    end: float
    first: float = 0.0  # share of `most`

    def at(self, epoch: float) -> float:
        passed = ramp(epoch, self.start, self.end)
        return self.most * (self.first ** (1 - passed) if self.first else passed)


# In which epochs the network is trained as CEDA first; weight and radius of the bounds, and between
# which epochs, counted from there, each grows. Bounds of a network that was not trained for them
# are thousands of times too wide for the small color images: a radius that grows evenly soon asks
# for more than any network gives that still tells the classes apart.
_PHASES: dict[tuple[str, str], tuple[int, _Growth, _Growth]] = {
    ("tiny", "grey"): (5, _Growth(0.3, 0, 3), _Growth(0.03, 0, 3)),
    ("tiny", "color"): (5, _Growth(1.0, 0, 3), _Growth(0.01, 0, 3)),
    ("small", "grey"): (3, _Growth(0.3, 0, 4), _Growth(0.1, 0, 4)),
    ("small", "color"): (3, _Growth(0.3, 0, 1), _Growth(0.01, 0, 6, first=1e-4)),
    ("paper", "grey"): (0, _Growth(0.3, 2, 102), _Growth(0.3, 10, 130)),
    ("paper", "color"): (420, _Growth(1.0, -2, 298), _Growth(0.01, 4, 204)),
}
# First as CEDA, then 900 epochs that start at a rate of 1e-4.
_COLOR = {
    **GOOD_COLOR,
    "epochs": 1320,
    "schedule": "steps(at=30/100/420/870/1170/1270, factor=0.2/0.2/3.2/0.2/0.2/0.2)",
}


def spread_penalty(spread: Tensor) -> Tensor:
    """log(1 + m^2 / 2) of the largest difference m of two logits, or of its bound."""
    return torch.log1p(spread.square() / 2)


def quantile_loss(bounds: Tensor, logits: Tensor, quantile: float) -> Tensor:
    """Mean penalty of a batch of outliers: the `quantile` with the lowest bounds by their bounds.

    The others count with their logits, so that images that look like the known classes need not be
    uncertain.
    """
    worst = bounds.amax((1, 2))
    order = worst.argsort(stable=True)
    certified = int(quantile * len(worst) + 1e-9)
    spread = logits.amax(1) - logits.amin(1)
    chosen = torch.cat((worst[order[:certified]], spread[order[certified:]]))
    return spread_penalty(chosen).mean()


def radius_of(spec: TrainSpec, shape: Shape, progress: float = float("inf")) -> float:
    """Radius of the ball at this time of the training."""
    before, _, radius = _PHASES[spec.model_size, colors(shape)]
    return radius.at(progress - before)


def _network(spec: TrainSpec, shape: Shape, classes: int) -> nn.Module:
    network = plain_network(spec, shape, classes)
    network.register_buffer("radius", torch.tensor(radius_of(spec, shape)))
    return network


def _answer(model: nn.Module, inputs: Tensor) -> Tensor:
    assert isinstance(model.radius, Tensor)
    bounds = difference_bounds(model, ball(inputs, float(model.radius)))
    return torch.stack((doubt(model(inputs)), least_score(bounds)), 1)


def _task(quantile: float) -> Task:
    def loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
        """Mean CE of the images + weight times the outliers' penalty; CEDA's loss before that.

        The balls are not cut at [0, 1], as published.
        """
        assert batch.outliers is not None
        shape = batch.inputs.shape[1:]
        before, weight, _ = _PHASES[spec.model_size, colors(shape)]
        if batch.progress < before:
            return ceda_loss(spec, model, batch)
        logits = model(batch.inputs)
        radius = radius_of(spec, shape, batch.progress)
        bounds = difference_bounds(model, ball(batch.outliers, radius, within_pixels=False))
        penalty = quantile_loss(bounds, model(batch.outliers), quantile)
        known = functional.cross_entropy(logits, batch.targets)
        loss = known + weight.at(batch.progress - before) * penalty
        return loss, accuracy(logits, batch.targets)

    return Task(
        network=_network,
        loss=loss,
        measures=("accuracy",),
        labelled=True,
        outliers_per_input=1.0,
    )


_REDUCED = recipe(
    tiny={**TINY, "epochs": 14}, small={**SMALL, "epochs": 11}, grey=GOOD_GREY, color=_COLOR
)


def _recipe(spec: TrainSpec, shape: Shape) -> TrainSpec:
    """The rate stays high until the radius has grown, as in the paper."""
    made = _REDUCED(spec, shape)
    if (spec.model_size, colors(shape)) != ("small", "color"):
        return made
    return made.model_copy(update={"epochs": 12, "schedule": "steps(at=10, factor=0.1)"})


@detector_model(task=_task(0.8), spec=_recipe, columns=2)
def good_80_classifier(model: nn.Module, inputs: Tensor) -> Tensor:
    """Log odds against the predicted class, and their least value within the radius."""
    return _answer(model, inputs)


@detector_model(task=_task(1.0), spec=_recipe, columns=2)
def good_100_classifier(model: nn.Module, inputs: Tensor) -> Tensor:
    """Log odds against the predicted class, and their least value within the radius."""
    return _answer(model, inputs)


_MODELS = {0.8: "good_80_classifier", 1.0: "good_100_classifier"}


@detector(
    paper=_PAPER,
    needs={f"model:{name}" for name in _MODELS.values()},
    grid={"quantile": (0.8,)},
    needs_for={"quantile": {share: {f"model:{name}"} for share, name in _MODELS.items()}},
    only_by_name=True,
)
def good(train: View, *, quantile: float = 0.8) -> Scorer:
    """Confidence of a classifier whose low confidence around auxiliary outliers is guaranteed.

    score = log((1 - p) / p), p the largest softmax probability. Interval bounds limit the
    confidence within a small distance of the `quantile` of the outliers (0.8 or 1) for which that
    is easiest.
    """
    if quantile not in _MODELS:
        raise UserError(f"quantile of 'good' must be 0.8 or 1, got {quantile:g}.")
    name = _MODELS[quantile]
    return lambda view: view.model(name)[:, 0]
