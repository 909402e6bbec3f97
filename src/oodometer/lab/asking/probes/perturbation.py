"""Move the inputs a little, by the sign of a gradient, and ask again.

The step is taken in the space of the model's inputs. Published step sizes are for pixels in
[0, 1]: if the inputs were divided by a standard deviation before, a step of this size is larger by
it in pixels; a model that normalises inside takes them as they are. Nothing is clipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from oodometer.errors import UserError
from oodometer.grids import (
    FINE_STEPS,
    FINE_TEMPERATURES,
    IODIN_STEPS,
    MAHALANOBIS_STEPS,
    ODIN_STEPS,
    TEMPERATURES,
)
from oodometer.lab.asking.probes._card import probe
from oodometer.lab.asking.probes._question import Question, State, precise, rows_gradient
from oodometer.lab.asking.stages import as_matrix
from oodometer.whitening import Gaussians, Moments, around_classes

if TYPE_CHECKING:
    from oodometer.lab.asking.subject import Answer
    from oodometer.outputs import Outputs


@probe(wants={"graph"}, grid={"temperature": TEMPERATURES, "step": ODIN_STEPS})
def odin(question: Question, state: State) -> Tensor:
    """(n, temperatures, steps): how far the mean of the other classes lies above the top class.

    T * log mean over c != top of exp((z_c - z_top) / T), at x - step * sign(gradient by x of
    -log softmax(z / T)_top), sign(0) = 1 (Liang et al. 2018, arXiv:1706.02690). The maximum
    softmax probability at T is 1 / (1 + (K - 1) exp(this / T)): this form keeps the digits that
    the probability loses at T = 1000, where all are nearly 1 / K. One forward pass, one
    backward pass per temperature, one forward pass per temperature and step that is not 0.
    """
    return _moved("odin", question, TEMPERATURES, ODIN_STEPS, _sign)


@probe(wants={"graph"}, grid={"temperature": TEMPERATURES, "step": IODIN_STEPS})
def iodin(question: Question, state: State) -> Tensor:
    """(n, temperatures, steps): as `odin`, of every input moving the most important value only.

    That with the largest gradient, one channel of one pixel (Regmi et al. 2024, arXiv:2411.10794).
    """
    return _moved("iodin", question, TEMPERATURES, IODIN_STEPS, _sign_of_largest)


@probe(
    wants={"graph"},
    only_by_name=True,
    grid={"temperature": FINE_TEMPERATURES, "step": FINE_STEPS},
)
def odin_fine(question: Question, state: State) -> Tensor:
    """(n, temperatures, steps): as `odin`, at the 10 temperatures and 21 steps of OD-test."""
    return _moved("odin_fine", question, FINE_TEMPERATURES, FINE_STEPS, _sign)


def _moved(
    name: str,
    question: Question,
    temperatures: Sequence[float],
    steps: Sequence[float],
    direct: Callable[[Tensor], Tensor],
) -> Tensor:
    source, answer = question.source(name)
    if answer.logits.shape[1] < 2:
        raise UserError(f"Probe '{name}' needs logits of at least 2 classes, got 1.")
    columns = []
    for temperature in temperatures:
        with torch.enable_grad():
            surprise = -(answer.logits / temperature).log_softmax(1).amax(1)
            direction = direct(rows_gradient(surprise, source))
        for step in steps:
            logits = answer.logits.detach()
            if step:
                logits = question.again(source.detach() - step * direction).logits
            columns.append(_gap(logits, temperature))
    return torch.stack(columns, dim=1).reshape(-1, len(temperatures), len(steps))


def _sign(gradient: Tensor) -> Tensor:
    """1 where the gradient is 0: so in the published code, which moves every pixel."""
    return torch.where(gradient >= 0, 1.0, -1.0).to(gradient)


def _sign_of_largest(gradient: Tensor) -> Tensor:
    """The sign of the largest value of every input, 0 elsewhere; of equal ones, of the first."""
    rows = gradient.flatten(1)
    place = rows.abs().argmax(1, keepdim=True)
    alone = torch.zeros_like(rows).scatter(1, place, _sign(rows.gather(1, place)))
    return alone.reshape(gradient.shape)


def _gap(logits: Tensor, temperature: float) -> Tensor:
    exact = precise(logits)
    top, place = exact.max(dim=1, keepdim=True)
    rest = ((exact - top) / temperature).scatter(1, place, -torch.inf)
    return temperature * (rest.logsumexp(1) - math.log(logits.shape[1] - 1))


class ClassMeans:
    """Learns the means of the classes and their common covariance from the training features."""

    def see(self, question: Question) -> None:
        """Nothing: the features are kept anyway."""

    def learned(self, train: Outputs) -> tuple[State, None]:
        """Fit the normal distributions, in float64."""
        assert train.features is not None and train.labels is not None
        return vars(_class_means("mahalanobis", train.features, train.labels)), None


def _class_means(probe: str, features: Tensor, labels: Tensor) -> Gaussians:
    """One mean per class and one covariance of the features that have a class."""
    known = labels >= 0
    if not bool(known.any()):
        raise UserError(
            f"Probe '{probe}' needs training samples with a class, but all {len(labels)} labels "
            "are -1 (no known class)."
        )
    rows = features[known].double()
    _, group, sizes = torch.unique(labels[known], return_inverse=True, return_counts=True)
    rounding = 4 * torch.finfo(features.dtype).eps * rows.square().mean(0).sqrt()
    origin = rows.mean(0)
    rows -= origin
    sums = rows.new_zeros((len(sizes), rows.shape[1])).index_add_(0, group, rows)
    means = sums / sizes[:, None]
    rows -= means[group]
    within = rows.T @ rows / len(rows)
    return around_classes(Moments(origin, means, sizes, within, rounding))


@probe(wants={"graph"}, learner=ClassMeans, needs_head=True, grid={"step": MAHALANOBIS_STEPS})
def mahalanobis(question: Question, state: State) -> Tensor:
    """(n, steps): squared Mahalanobis distance to the nearest class mean, closer by one step.

    At x - step * sign(gradient by x of the distance) (Lee et al. 2018, arXiv:1807.03888), with
    features as they enter the head. The mean that is nearest at x gives the gradient; at the
    moved point, the nearest one counts again. One backward pass, one forward pass per step.
    """
    source, answer = question.source("mahalanobis")
    with torch.enable_grad():
        direction = _sign(rows_gradient(_distance(answer.features, state), source))
    columns = []
    for step in MAHALANOBIS_STEPS:
        features = answer.features.detach()
        if step:
            features = question.again(source.detach() - step * direction).features
        columns.append(_distance(features, state))
    return torch.stack(columns, dim=1)


def _distance(features: Tensor, state: State) -> Tensor:
    """Squared Mahalanobis distance to the nearest mean."""
    rows = precise(features)
    fitted = Gaussians(**{key: value.to(rows.device) for key, value in state.items()})
    return fitted.squared_distance(rows)


class ClassMeansOfLayers:
    """Learns class means and a shared covariance of the mean output of each stage."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Tensor]] = {}

    def see(self, question: Question) -> None:
        """Keep the means of a batch."""
        for stage, matrix in question.subject.matrices(question.answer).items():
            self._rows.setdefault(stage, []).append(matrix.mean(2).cpu())

    def learned(self, train: Outputs) -> tuple[State, Tensor | None]:
        """Return what was learned of all stages."""
        assert train.labels is not None
        state: State = {}
        for stage, parts in self._rows.items():
            found = _class_means("mahalanobis_layers", torch.cat(parts), train.labels)
            state |= {f"{stage}/{key}": value for key, value in vars(found).items()}
        return state, None


@probe(
    wants={"graph", "stages"},
    learner=ClassMeansOfLayers,
    only_by_name=True,
    grid={"step": MAHALANOBIS_STEPS},
)
def mahalanobis_layers(question: Question, state: State) -> Tensor:
    """(n, steps, stages): as `mahalanobis`, of the mean output of every stage.

    Each stage has its own gradient, and so its own moved inputs: one backward pass per stage, one
    forward pass per stage and step that is not 0 (Lee et al. 2018, arXiv:1807.03888).
    """
    source, answer = question.source("mahalanobis_layers")
    columns = []
    for stage in answer.stages:
        own = {
            key.removeprefix(f"{stage}/"): value
            for key, value in state.items()
            if key.startswith(f"{stage}/")
        }
        with torch.enable_grad():
            start = _distance(_mean_output(question, answer, stage), own)
            direction = _sign(rows_gradient(start, source))
        found = [start.detach()]
        for step in MAHALANOBIS_STEPS[1:]:
            moved = question.again(source.detach() - step * direction, stages=True)
            found.append(_distance(_mean_output(question, moved, stage), own))
        columns.append(torch.stack(found, dim=1))
    return torch.stack(columns, dim=2)


def _mean_output(question: Question, answer: Answer, stage: str) -> Tensor:
    return as_matrix(answer.stages[stage], question.subject.stages[stage]).mean(2)


@probe(wants={"graph"}, needs_head=True, of_training=True)
def adascale(question: Question, state: State) -> Tensor:
    """(n, width): the features when the least important values of the input are moved.

    The 5% of the values with the smallest gradient of the largest logit, at least one, by 0.5
    times its sign, sign(0) = 0 (Regmi 2025, arXiv:2503.08023). One backward and one forward pass.
    """
    source, answer = question.source("adascale")
    with torch.enable_grad():
        slope = rows_gradient(answer.logits.amax(1), source).flatten(1)
    count = max(1, int(0.05 * slope.shape[1]))
    places = slope.abs().topk(count, dim=1, largest=False).indices
    move = torch.zeros_like(slope).scatter(1, places, slope.gather(1, places).sign())
    return question.again(source.detach() + 0.5 * move.reshape(source.shape)).features
