"""Detectors that read the logits alone.

Softmax saturates: two samples with p = 1 - 1e-20 and p = 1 - 1e-90 are the same number in any
floating type, and a detector that returns 1 - p cannot rank them. The detectors here work from
the odds against the top class and return logarithms where the plain formula would round to 0 or
1: the same order, without ties.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from oodometer.detectors._arrays import blocks, by_rows, energy_of, precise
from oodometer.detectors._checks import require_range, require_two_classes
from oodometer.outputs import View
from oodometer.registry import Scorer, detector

# The log-probability that stands for "never": the smallest normal number of float32.
_LOG_NEVER = -87.3365


class _Posterior(NamedTuple):
    """Softmax in logarithms, the top class apart, so that nothing near 0 or 1 is rounded away."""

    log_top: Tensor  # (n,) log p of the top class
    log_not_top: Tensor  # (n,) log(1 - p) of the top class
    log_rest: Tensor  # (n, classes) log p of every other class; -inf in the place of the top one
    log_odds: Tensor  # (n,) log((1 - p) / p) of the top class


def _posterior(logits: Tensor, temperature: float = 1.0) -> _Posterior:
    top, place = logits.max(dim=1, keepdim=True)
    rest = ((logits - top) / temperature).scatter(1, place, -torch.inf)
    odds = rest.logsumexp(1)
    # p = 1 / (1 + odds) and 1 - p = odds / (1 + odds)
    log_top = logsigmoid(-odds)
    return _Posterior(log_top, logsigmoid(odds), rest + log_top[:, None], odds)


@detector(paper="Hendrycks & Gimpel 2017, arXiv:1610.02136", needs={"logits"})
def max_softmax(train: View) -> Scorer:
    """Logarithm of one minus the maximum softmax probability.

    log(1 - max_c p_c). The paper's confidence is max_c p_c; this falls strictly as that rises, so
    every ranking is the same, but it does not saturate when the network is sure.
    """
    require_two_classes("max_softmax", train.logits)

    def score(logits: Tensor) -> Tensor:
        return _posterior(logits).log_not_top

    return lambda test: by_rows(score, test.logits, numbers_per_row=4 * test.logits.shape[1])


@detector(paper="Hendrycks et al. 2022, arXiv:1911.11132", needs={"logits"})
def max_logit(train: View) -> Scorer:
    """Minus the largest logit.

    -max_c z_c.
    """
    return lambda test: -precise(test.logits.amax(1))


@detector(
    paper="Liu et al. 2020, arXiv:2010.03759",
    needs={"logits"},
    grid={"temperature": (1.0, 10.0, 100.0, 1000.0)},
)
def energy(train: View, *, temperature: float = 1.0) -> Scorer:
    """Free energy of the logits.

    -T log sum_c exp(z_c / T). As T grows this tends to minus the mean logit, up to a constant.
    """
    require_range("energy", "temperature", temperature, above=0)

    def score(logits: Tensor) -> Tensor:
        return temperature * energy_of(logits / temperature)

    return lambda test: by_rows(score, test.logits, numbers_per_row=3 * test.logits.shape[1])


@detector(paper="Lakshminarayanan et al. 2017, arXiv:1612.01474", needs={"logits"})
def entropy(train: View) -> Scorer:
    """Logarithm of the entropy of the softmax.

    log H, H = -sum_c p_c log p_c. The logarithm keeps the order of H and tells sure predictions
    apart whose H is below the smallest number; libraries that lift probabilities to 1e-7 first
    cannot. One network; the paper averages an ensemble.
    """
    require_two_classes("entropy", train.logits)

    def score(logits: Tensor) -> Tensor:
        p = _posterior(logits)
        # log(-log p) of the top class is log(log(1 + odds)), which tends to log(odds) itself.
        sure = p.log_odds < -36
        log_surprise = torch.where(sure, p.log_odds, (-p.log_top).masked_fill(sure, 1.0).log())
        top_term = p.log_top + log_surprise
        absent = p.log_rest.isneginf()  # 0 log 0 = 0
        surprise = (-p.log_rest).masked_fill(absent, 1.0).log()
        return torch.logaddexp(top_term, (p.log_rest + surprise).logsumexp(1))

    return lambda test: by_rows(score, test.logits, numbers_per_row=8 * test.logits.shape[1])


@detector(paper="Scheffer et al. 2001, doi:10.1007/3-540-44816-0_31", needs={"logits"})
def margin(train: View) -> Scorer:
    """Logarithm of one minus the gap between the two largest softmax probabilities.

    log(1 - (p_1 - p_2)) = log((1 - p_1) + p_2) with p_1 >= p_2 the two largest: the order of
    p_2 - p_1, without saturation at p_1 = 1.
    """
    require_two_classes("margin", train.logits)

    def score(logits: Tensor) -> Tensor:
        p = _posterior(logits)
        return torch.logaddexp(p.log_not_top, p.log_rest.amax(1))

    return lambda test: by_rows(score, test.logits, numbers_per_row=4 * test.logits.shape[1])


@detector(
    paper="Liang et al. 2018, arXiv:1706.02690",
    needs={"logits"},
    grid={"temperature": (1.0, 10.0, 100.0, 1000.0)},
)
def odin(train: View, *, temperature: float = 1000.0) -> Scorer:
    """Logarithm of one minus the maximum softmax probability at a high temperature.

    log(1 - max_c softmax(z / T)_c). Temperature only: the input perturbation of the paper needs
    the network and its images, not its outputs. T = 1 is max_softmax.
    """
    require_range("odin", "temperature", temperature, above=0)
    require_two_classes("odin", train.logits)

    def score(logits: Tensor) -> Tensor:
        return _posterior(logits, temperature).log_not_top

    return lambda test: by_rows(score, test.logits, numbers_per_row=4 * test.logits.shape[1])


@detector(
    paper="Liu, Lochman & Zach 2023, GEN, CVPR",
    needs={"logits"},
    grid={
        "gamma": (0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0),
        "top": (10, 50, 100, 200, 500, 1000),
    },
)
def generalized_entropy(train: View, *, gamma: float = 0.1, top: int = 100) -> Scorer:
    """Logarithm of the generalised entropy of the largest softmax probabilities.

    log sum over the `top` largest p of p^gamma (1 - p)^gamma; with fewer classes than `top`, over
    all of them. The paper limits gamma to (0, 1), where the sum is a proper entropy; its searches
    go up to 10. The logarithm keeps the order and the digits: at gamma = 10 the plain sum of a
    sure prediction is below the smallest number. No probability is lifted to 1e-7, which in
    another library changes the scores of sure predictions at a small gamma by 15 %.
    """
    require_range("generalized_entropy", "gamma", gamma, above=0)
    require_range("generalized_entropy", "top", top, at_least=1)
    require_two_classes("generalized_entropy", train.logits)

    def score(logits: Tensor) -> Tensor:
        p = _posterior(logits)
        first = gamma * (p.log_top + p.log_not_top)
        kept = min(top - 1, logits.shape[1] - 1)  # beside the top class, which stands apart
        if not kept:
            return first
        log_p = p.log_rest.topk(kept, dim=1).values
        rest = gamma * (log_p + torch.log1p(-log_p.exp()))  # p <= 1/2 here: nothing cancels
        return torch.logaddexp(first, rest.logsumexp(1))

    return lambda test: by_rows(score, test.logits, numbers_per_row=6 * test.logits.shape[1])


@detector(paper="Hendrycks et al. 2022, arXiv:1911.11132", needs={"logits"})
def kl_matching(train: View) -> Scorer:
    """Smallest Kullback-Leibler divergence to the typical posterior of a class.

    min_c KL(p || d_c), where d_c is the mean softmax of the training samples that the network
    PREDICTS as c (the paper's choice: no labels). A class that is never predicted gets its one-hot
    posterior, its zeros lifted to 1e-38: with true zeros the divergence would be infinite for
    every sample, and the class would not be there at all. Means are taken in log space, so a
    posterior of a saturated network keeps its tails.
    """
    require_two_classes("kl_matching", train.logits)
    guess, classes = train.logits.detach().argmax(1), train.logits.shape[1]
    first = precise(train.logits[:1]).detach()
    typical = torch.full((classes, classes), _LOG_NEVER, dtype=first.dtype, device=first.device)
    typical.fill_diagonal_(0.0)
    for group in sorted(set(guess.tolist())):
        members = train.logits.detach()[guess == group]
        total = torch.full_like(typical[group], -torch.inf)
        for rows in blocks(len(members), 2 * classes):
            log_p = precise(members[rows]).log_softmax(1)
            total = torch.logaddexp(total, log_p.logsumexp(0))
        typical[group] = total - math.log(len(members))

    def score(logits: Tensor) -> Tensor:
        log_p = logits.log_softmax(1)
        p = log_p.exp()
        return (p * log_p).sum(1) - (p @ typical.T).amax(1)

    return lambda test: by_rows(score, test.logits, numbers_per_row=4 * test.logits.shape[1])
