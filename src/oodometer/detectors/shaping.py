"""Detectors that reshape the features or the head and take the energy of the new logits."""

from __future__ import annotations

import torch
from torch import Tensor

from oodometer.detectors._arrays import blocks, by_rows, energy_of, percentile_of, precise
from oodometer.detectors._checks import require_range
from oodometer.outputs import View
from oodometer.registry import Scorer, detector


def _weights(train: View) -> tuple[Tensor, Tensor]:
    """Weight and bias of the head in float64, cut off from the network that they belong to."""
    return precise(train.head.weight.detach()), precise(train.head.bias.detach())


@detector(
    paper="Sun, Guo & Li 2021, arXiv:2111.12797",
    needs={"features", "head"},
    grid={"percentile": (80, 85, 90, 95, 99)},
)
def react(train: View, *, percentile: int = 90) -> Scorer:
    """Energy after clipping the features at a percentile of all training activations.

    -log sum_c exp(z_c), z = W min(x, t) + b, t the percentile (linear interpolation) of the
    numbers in the whole training feature matrix, over all units together.
    """
    require_range("react", "percentile", percentile, above=0, at_most=100)
    weight, bias = _weights(train)
    ceiling = percentile_of(train.features, percentile)

    def score(features: Tensor) -> Tensor:
        return energy_of(features.clamp(max=ceiling) @ weight.T + bias)

    per_row = 3 * weight.shape[1] + 3 * len(bias)
    return lambda test: by_rows(score, test.features, numbers_per_row=per_row)


@detector(
    paper="Sun & Li 2022, arXiv:2111.09805",
    needs={"features", "head"},
    grid={"percentile": (10, 30, 50, 70, 90)},
)
def dice(train: View, *, percentile: int = 70) -> Scorer:
    """Energy with only those head weights kept that contribute most on the training data.

    -log sum_c exp(z_c), z = (M * W) x + b, M = 1 where mean(x)_j W_cj lies above the percentile
    of all those products. The bias stays whole.
    """
    require_range("dice", "percentile", percentile, at_least=0, below=100)
    weight, bias = _weights(train)
    width = weight.shape[1]
    sums = [precise(train.features[rows].detach()).sum(0) for rows in blocks(len(train), width)]
    contribution = weight * (torch.stack(sums).sum(0) / len(train))
    kept = torch.where(contribution > percentile_of(contribution, percentile), weight, 0.0)

    def score(features: Tensor) -> Tensor:
        return energy_of(features @ kept.T + bias)

    per_row = 2 * width + 3 * len(bias)
    return lambda test: by_rows(score, test.features, numbers_per_row=per_row)


# exp(_STEEPEST) times any logit is still a number; reached only if fewer than 1 in 500 are kept.
_STEEPEST = 500.0


@detector(
    paper="Djurisic et al. 2023, arXiv:2209.09858",
    needs={"features", "head"},
    grid={"percentile": (65, 70, 75, 80, 85, 90, 95), "variant": ("s", "b", "p")},
)
def ash(train: View, *, percentile: int = 65, variant: str = "s") -> Scorer:
    """Energy after pruning the small features of each sample and strengthening the rest.

    -log sum_c exp(z_c), z = W x' + b. Of n features the n - round(n percentile / 100) largest are
    kept, at least one, and x' is: variant "p" those as they are; "s" those times exp(s1 / s2),
    s1 and s2 the sums of all and of the kept ones; "b" each of those replaced by s1 / (number
    kept). For features that may be negative (no ReLU before the head), where the paper's sums can
    vanish or change sign, size counts: largest in absolute value, sums of absolute values, signs
    kept; after a ReLU that is the same. Features that tie with the smallest kept one are kept.
    """
    require_range("ash", "percentile", percentile, at_least=0, below=100)
    weight, bias = _weights(train)
    width = weight.shape[1]
    count = max(1, width - round(width * percentile / 100))

    def score(features: Tensor) -> Tensor:
        size = features.abs()
        # topk needs no gradient: which features are kept does not change in a neighbourhood.
        smallest = size.detach().topk(count, dim=1).values[:, -1:]
        chosen = size >= smallest
        kept = torch.where(chosen, features, 0.0)
        total = size.sum(1, keepdim=True)
        if variant == "b":
            kept = kept.sign() * total / chosen.sum(1, keepdim=True)
        elif variant == "s":
            strong = kept.abs().sum(1, keepdim=True)
            ratio = torch.where(strong > 0, total / torch.where(strong > 0, strong, 1.0), 1.0)
            kept = kept * ratio.clamp(max=_STEEPEST).exp()
        return energy_of(kept @ weight.T + bias)

    per_row = 6 * width + 3 * len(bias)
    return lambda test: by_rows(score, test.features, numbers_per_row=per_row)
