"""Detectors that read the gradient of a loss, where it has a closed form in the outputs."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from oodometer.detectors._arrays import blocks, by_rows, precise
from oodometer.detectors._checks import require_two_classes
from oodometer.detectors._shared import Posterior, head_of, posterior
from oodometer.outputs import View
from oodometer.registry import Scorer, detector


@detector(paper="Huang et al. 2021, arXiv:2110.00218", needs={"features", "relative_logits"})
def gradnorm(train: View) -> Scorer:
    """Minus the L1 norm of the head's weight gradient when every class is the target.

    -sum_j |x_j| * sum_c |K p_c - 1|, K the number of classes: the gradient of -sum_c log p_c with
    respect to the weight is the outer product of K p - 1 and x, so its L1 norm is the product of
    their norms and needs no backward pass. The uniform target 1/K of the paper's text, instead of
    the ones of its code, divides everything by K: the same order.
    """

    def score(features: Tensor, logits: Tensor) -> Tensor:
        classes = logits.shape[1]
        pull = (classes * logits.softmax(1) - 1).abs().sum(1)
        return -features.abs().sum(1) * pull

    return lambda test: by_rows(
        score,
        test.features,
        test.relative_logits,
        numbers_per_row=2 * test.features.shape[1] + 4 * test.relative_logits.shape[1],
    )


@detector(
    paper="Bibas, Feder & Hassner 2021, pNML, arXiv:2110.09246",
    needs={"features", "logits", "head"},
    grid={"normalize": (True, False)},
)
def pnml(train: View, *, normalize: bool = True) -> Scorer:
    """Logarithm of the regret of a last layer that could be fitted to any label of the sample.

    log(R / log K), R = log sum_c p_c / (p_c + (1 - p_c) p_c^g), g = q / (1 + q) with
    q = x' (X'X)^-1 x over the training features X. normalize=True uses features of unit norm and
    the head's probabilities for them (pytorch-ood; the paper's experiments); False uses features
    and probabilities unchanged (the authors' outline). The logarithm keeps the order and the
    precision: R is summed so that probabilities near 0 and 1 do not cancel. In directions that no
    training feature has, the pseudo-inverse would give q = 0 and a small R; here X'X gets the
    smallest value that can be resolved, so that R tends to its maximum.
    """
    require_two_classes("pnml", train.logits)
    weight, bias = head_of(train)
    width, classes = weight.shape[1], len(bias)

    def prepared(features: Tensor) -> Tensor:
        if not normalize:
            return features
        length = torch.linalg.vector_norm(features, dim=1, keepdim=True)
        return features / torch.where(length > 0, length, 1.0)

    with torch.no_grad():
        moment = weight.new_zeros((width, width))
        for part in blocks(len(train), 3 * width):
            rows = prepared(precise(train.features[part]))
            moment.addmm_(rows.T, rows)
        sizes, directions = torch.linalg.eigh(moment)
        single = torch.finfo(train.features.dtype).eps
        floor = sizes[-1] * max(width * torch.finfo(torch.float64).eps, (4 * single) ** 2)
        sizes = torch.maximum(sizes, floor)
        whiten = directions / torch.where(sizes > 0, sizes, 1.0).sqrt()

    def score(features: Tensor, logits: Tensor) -> Tensor:
        rows = prepared(features)
        p = posterior(rows @ weight.T + bias if normalize else logits)
        return _log_regret(p, (rows @ whiten).square().sum(1)) - math.log(math.log(classes))

    return lambda test: by_rows(
        score, test.features, test.logits, numbers_per_row=4 * width + 10 * classes
    )


def _log_regret(p: Posterior, lever: Tensor) -> Tensor:
    """Return log log sum_c t_c, t = p / (p + (1 - p) p^g), from t - p, as the p add up to one.

    t - p = p (1 - p) (1 - p^g) / (p + (1 - p) p^g), which is never negative.
    """
    g = (lever / (1 + lever))[:, None]

    def excess(log_p: Tensor, log_not: Tensor) -> Tensor:
        absent = log_p.isneginf()  # the place of the top class, or no probability at all
        log_p = log_p.masked_fill(absent, -1.0)
        log_not = log_not.masked_fill(absent, -1.0)
        power = (g * log_p).clamp(max=-torch.finfo(log_p.dtype).tiny)  # log p^g
        found = log_p + log_not + torch.log(-torch.expm1(power))
        found = found - torch.logaddexp(log_p, log_not + power)
        return found.masked_fill(absent, -torch.inf)

    top = excess(p.log_top[:, None], p.log_not_top[:, None])
    rest = excess(p.log_rest, torch.log1p(-p.log_rest.exp()))
    total = torch.cat([top, rest], dim=1).logsumexp(1)  # log of what the t sum to beyond one
    small = total < -30
    return torch.where(small, total, softplus(total.masked_fill(small, 0.0)).log())
