"""Detectors that move the inputs by a gradient, or read the gradient of all weights.

The network was asked beforehand, at all settings of the grid: see the probes of the same names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from oodometer.detectors._arrays import by_rows, precise
from oodometer.detectors._checks import require_range, require_two_classes
from oodometer.detectors._shared import posterior
from oodometer.errors import UserError
from oodometer.grids import (
    FINE_STEPS,
    FINE_TEMPERATURES,
    IODIN_STEPS,
    MAHALANOBIS_STEPS,
    ODIN_STEPS,
    TEMPERATURES,
)
from oodometer.outputs import View
from oodometer.registry import Scorer, detector


def place_of(detector: str, setting: str, value: float, asked: Sequence[float]) -> int:
    """Where a setting stands in what the network was asked; refuse one that it was not."""
    if value not in asked:
        raise UserError(
            f"Setting {setting} of '{detector}' must be one of "
            f"{', '.join(f'{each:g}' for each in asked)}, for which the network was asked, got "
            f"{value:g}."
        )
    return asked.index(value)


@detector(
    paper="Liang et al. 2018, arXiv:1706.02690",
    needs={"relative_logits"},
    grid={"temperature": TEMPERATURES},
)
def odin_without_perturbation(train: View, *, temperature: float = 1000.0) -> Scorer:
    """Logarithm of one minus the maximum softmax probability at a high temperature.

    log(1 - max_c softmax(z / T)_c). Temperature only, from the logits; with the input perturbation
    of the paper: `odin`. T = 1 is max_softmax.
    """
    require_range("odin_without_perturbation", "temperature", temperature, above=0)
    require_two_classes("odin_without_perturbation", train.relative_logits)

    def score(logits: Tensor) -> Tensor:
        return posterior(logits, temperature).log_not_top

    return lambda test: by_rows(
        score, test.relative_logits, numbers_per_row=4 * test.relative_logits.shape[1]
    )


@detector(
    paper="Liang et al. 2018, arXiv:1706.02690",
    needs={"relative_logits", "probe:odin"},
    grid={"temperature": TEMPERATURES, "step": ODIN_STEPS},
)
def odin(train: View, *, temperature: float = 1000.0, step: float = 0.0014) -> Scorer:
    """Log of one minus the maximum softmax at a temperature, on inputs moved towards it.

    log(1 - max_c softmax(z(x') / T)_c) at x' = x - step * sign(gradient by x of
    -log max_c softmax(z(x) / T)_c), sign(0) = 1, without clipping. step=0 is
    `odin_without_perturbation`. Steps are in the space of the model's inputs: if inputs were
    divided by a standard deviation s, a step corresponds to s times as much in pixels. A finer
    grid: `odin_fine`.
    """
    row = place_of("odin", "temperature", temperature, TEMPERATURES)
    column = place_of("odin", "step", step, ODIN_STEPS)
    return _moved("odin", train, temperature, row, column)


@detector(
    paper="Liang et al. 2018, arXiv:1706.02690; Shafaei et al. 2019, arXiv:1809.04729",
    needs={"relative_logits", "probe:odin_fine"},
    grid={"temperature": FINE_TEMPERATURES, "step": FINE_STEPS},
    only_by_name=True,
)
def odin_fine(train: View, *, temperature: float = 1000.0, step: float = 0.0014) -> Scorer:
    """Score of `odin` on the grid that OD-test searches: 10 temperatures and 21 steps.

    The formula is that of `odin`; the 21 steps are evenly spaced between 0 and 0.004. With 200
    perturbed inputs per sample it is by far the most expensive detector, so it is not part of "all"
    and must be named.
    """
    row = place_of("odin_fine", "temperature", temperature, FINE_TEMPERATURES)
    column = place_of("odin_fine", "step", step, FINE_STEPS)
    return _moved("odin_fine", train, temperature, row, column)


@detector(
    paper="Regmi et al. 2024, arXiv:2411.10794",
    needs={"relative_logits", "probe:iodin"},
    grid={"temperature": TEMPERATURES, "step": IODIN_STEPS},
)
def iodin(train: View, *, temperature: float = 1000.0, step: float = 0.0014) -> Scorer:
    """Score of `odin` when only the most important value of every input is moved.

    The formula is that of `odin`, with x' = x - step * sign(g) at the one value (of one pixel and
    channel) where |g| is largest, g the gradient, and x elsewhere.
    """
    row = place_of("iodin", "temperature", temperature, TEMPERATURES)
    column = place_of("iodin", "step", step, IODIN_STEPS)
    return _moved("iodin", train, temperature, row, column)


def _moved(name: str, train: View, temperature: float, row: int, column: int) -> Scorer:
    """Read the score off the probe of this name."""
    require_two_classes(name, train.relative_logits)
    others = math.log(train.relative_logits.shape[1] - 1)

    def score(test: View) -> Tensor:
        gap = precise(test.probe(name)[:, row, column])
        return logsigmoid(gap / temperature + others)

    return score


@detector(
    paper="Lee et al. 2018, arXiv:1807.03888",
    needs={"probe:mahalanobis"},
    grid={"step": MAHALANOBIS_STEPS},
)
def mahalanobis_perturbed(train: View, *, step: float = 0.002) -> Scorer:
    """Squared Mahalanobis distance to the nearest class mean, on inputs moved towards it.

    min_c d_c(x')^2 at x' = x - step * sign(gradient by x of min_c d_c(x)^2), d_c as in
    `mahalanobis` on features with one shared covariance. step=0 is `mahalanobis`. Steps are in the
    space of the model's inputs, as for `odin`.
    """
    column = place_of("mahalanobis_perturbed", "step", step, MAHALANOBIS_STEPS)
    return lambda test: precise(test.probe("mahalanobis")[:, column])


@detector(
    paper="Lee & AlRegib 2020, arXiv:2008.08030",
    needs={"features", "relative_logits", "probe:gradient_uncertainty"},
    grid={"weights": ("all", "head")},
    needs_for={
        "weights": {"all": {"probe:gradient_uncertainty"}, "head": {"features", "relative_logits"}}
    },
)
def gradient_uncertainty(train: View, *, weights: str = "all") -> Scorer:
    """Minus the norm of the weight gradient when every class is the target.

    -||gradient of -sum_c log p_c||, with respect to all weights of the network or, with
    weights="head", to the weight and bias of the head, where it is ||K p - 1|| sqrt(||x||^2 + 1)
    and needs no backward pass (OpenOOD's choice). The paper trains a classifier on the squared
    norms per layer; their sum, as in pytorch-ood, is the square of this: the same order. A head
    without a bias counts as having one that is 0.
    """

    def head(features: Tensor, logits: Tensor) -> Tensor:
        pull = logits.shape[1] * logits.softmax(1) - 1
        lever = torch.cat([features, torch.ones_like(features[:, :1])], dim=1)
        product: Tensor = pull.square().sum(1) * lever.square().sum(1)
        return -product.sqrt()

    if weights == "all":
        return lambda test: -precise(test.probe("gradient_uncertainty"))
    return lambda test: by_rows(
        head,
        test.features,
        test.relative_logits,
        numbers_per_row=3 * test.features.shape[1] + 3 * test.relative_logits.shape[1],
    )
