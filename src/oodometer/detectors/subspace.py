"""Detectors that measure what falls outside the main subspace of the training features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from oodometer.detectors._arrays import blocks, by_rows, precise
from oodometer.detectors._checks import require_range
from oodometer.detectors._shared import energies, once
from oodometer.outputs import View
from oodometer.registry import Scorer, detector


@dataclass(frozen=True, eq=False)
class _Complement:
    """The directions beyond the leading ones of the training features, around an origin."""

    origin: Tensor  # (width,)
    directions: Tensor  # (width, width - kept), orthonormal
    rounding: Tensor  # how long the part of a feature may be that is rounding only

    def norms(self, outputs: View) -> Tensor:
        """Length of each feature's part in these directions."""

        def norm(features: Tensor) -> Tensor:
            rest: Tensor = torch.linalg.vector_norm(
                (features - self.origin) @ self.directions, dim=1
            )
            return rest

        per_row = 3 * len(self.origin)
        return once(outputs, self, lambda: by_rows(norm, outputs.features, numbers_per_row=per_row))


def _complement(name: str, train: View, kept: int) -> _Complement:
    """Fit the complement; kept=0 is ViM's rule for how many directions count as leading."""
    require_range(name, "kept", kept, at_least=0)
    width = train.features.shape[1]
    require_range(name, "kept", kept, at_least=0, below=width)
    kept = kept or (1000 if width >= 2048 else 512 if width >= 768 else width // 2)
    moment = train.shared("second moment", lambda: _second_moment(train))
    directions = moment.directions[:, : width - kept]
    # What rounding of each unit leaves in these directions, far below if they avoid a large unit.
    given = (moment.squares * directions.square().sum(1)).sum().sqrt()
    given = torch.finfo(train.features.dtype).eps * given
    computed = torch.finfo(torch.float64).eps * moment.size
    rounding = 100 * torch.maximum(given, computed)
    return train.shared(
        ("complement", kept), lambda: _Complement(moment.origin, directions, rounding)
    )


class _SecondMoment(NamedTuple):
    """The training features around the point at which the head has no opinion."""

    origin: Tensor  # (width,)
    directions: Tensor  # (width, width) principal directions around the origin, weakest first
    size: Tensor  # root mean square distance from the origin
    squares: Tensor  # (width,) mean square of each unit


@torch.no_grad()
def _second_moment(train: View) -> _SecondMoment:
    weight, bias = precise(train.head.weight), precise(train.head.bias)
    origin = -torch.linalg.pinv(weight) @ bias
    width = len(origin)
    moment, squares = origin.new_zeros((width, width)), torch.zeros_like(origin)
    for part in blocks(len(train), 3 * width):
        rows = precise(train.features[part])
        gap = rows - origin
        moment.addmm_(gap.T, gap, alpha=1 / len(train))
        squares += rows.square().sum(0) / len(train)
    size = moment.trace().clamp_min(0).sqrt()
    return _SecondMoment(origin, torch.linalg.eigh(moment).eigenvectors, size, squares)


@detector(
    paper="Wang et al. 2022, arXiv:2203.10807",
    needs={"features", "head"},
    grid={"kept": (0,)},
)
def residual(train: View, *, kept: int = 0) -> Scorer:
    """Norm of the feature outside the principal training subspace.

    ||R (x - u)||, where u = -W^+ b is the point at which all logits are 0, and R projects onto the
    directions beyond the `kept` leading ones of the training features' second moment around u.
    kept=0 is the authors' rule, as in `vim`, of which this is the part without logits.
    """
    outside = _complement("residual", train, kept)
    return lambda test: outside.norms(test).clone()  # the shared ones stay as they are


@detector(
    paper="Wang et al. 2022, arXiv:2203.10807",
    needs={"features", "logits", "head"},
    grid={"kept": (0,)},
)
def vim(train: View, *, kept: int = 0) -> Scorer:
    """Feature norm outside the principal training subspace, as one more logit, minus the energy.

    alpha ||R (x - u)|| - log sum_c exp(z_c), where u = -W^+ b is the point at which all logits are
    0, R projects onto the directions beyond the `kept` leading ones of the training features'
    second moment around u, and alpha = mean max logit / mean ||R (x - u)|| over the training set.
    kept=0 is the authors' rule: 1000 for a width from 2048, 512 from 768, otherwise half of it;
    other libraries leave that number to the user (with the same number pytorch-ood agrees). Two
    safeguards: alpha is positive (all-negative logits would reverse the residual), and its
    denominator is at least the rounding error of the features, so that features without a residual
    do not turn rounding into a score.
    """
    outside = _complement("vim", train, kept)
    with torch.no_grad():
        rounding = torch.where(outside.rounding > 0, outside.rounding, 1.0)
        largest = precise(train.logits.amax(1)).mean().abs()
        alpha = largest / torch.maximum(outside.norms(train).mean(), rounding)
    return lambda test: alpha * outside.norms(test) + energies(test)
