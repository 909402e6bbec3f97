"""Detectors that measure what falls outside the main subspace of the training features."""

from __future__ import annotations

import torch
from torch import Tensor

from oodometer.detectors._arrays import blocks, by_rows, energy_of, precise
from oodometer.detectors._checks import require_range
from oodometer.outputs import View
from oodometer.registry import Scorer, detector


@detector(
    paper="Wang et al. 2022, arXiv:2203.10807",
    needs={"features", "logits", "head"},
    grid={"kept": (0,)},
)
def vim(train: View, *, kept: int = 0) -> Scorer:
    """Norm of the feature outside the main training subspace, as one more logit, less the energy.

    alpha ||R (x - u)|| - log sum_c exp(z_c), where u = -W^+ b is the point at which the head has
    no opinion, R projects on the directions beyond the `kept` leading ones of the training
    features' second moment around u, and alpha = mean max logit / mean ||R (x - u)|| over the
    training set. kept=0 is the authors' rule: 1000 of a width from 2048, 512 from 768, else half
    of it; other libraries leave that number to the user, so their results differ by it (at the
    same number pytorch-ood agrees). Two guards: alpha is taken positive (all-negative logits would
    turn the residual around), and its denominator is at least the rounding of the features, so
    that features without any residual do not turn rounding into a score.
    """
    width = train.features.shape[1]
    require_range("vim", "kept", kept, at_least=0, below=width)
    kept = kept or (1000 if width >= 2048 else 512 if width >= 768 else width // 2)
    with torch.no_grad():
        weight, bias = precise(train.head.weight), precise(train.head.bias)
        origin = -torch.linalg.pinv(weight) @ bias
        moment = origin.new_zeros((width, width))
        for part in blocks(len(train), 3 * width):
            gap = precise(train.features[part]) - origin
            moment.addmm_(gap.T, gap, alpha=1 / len(train))
        outside = torch.linalg.eigh(moment).eigenvectors[:, : width - kept]

    def residual(features: Tensor) -> Tensor:
        rest: Tensor = torch.linalg.vector_norm((features - origin) @ outside, dim=1)
        return rest

    with torch.no_grad():
        typical = by_rows(residual, train.features, numbers_per_row=3 * width).mean()
        scale = moment.trace().clamp_min(0).sqrt()
        rounding = 100 * torch.finfo(train.features.dtype).eps * scale
        rounding = torch.where(rounding > 0, rounding, 1.0)
        alpha = precise(train.logits.amax(1)).mean().abs() / torch.maximum(typical, rounding)

    def score(features: Tensor, logits: Tensor) -> Tensor:
        return alpha * residual(features) + energy_of(logits)

    return lambda test: by_rows(
        score,
        test.features,
        test.logits,
        numbers_per_row=3 * test.features.shape[1] + 2 * test.logits.shape[1],
    )
