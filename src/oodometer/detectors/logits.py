"""Detectors that read the logits alone.

Softmax saturates: two samples with p = 1 - 1e-20 and p = 1 - 1e-90 are the same number in any
floating type, and a detector that returns 1 - p cannot rank them. The detectors here work from
the odds against the top class and return logarithms where the plain formula would round to 0 or
1: the same order, without ties.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from oodometer.detectors._arrays import blocks, by_rows, energy_of, precise
from oodometer.detectors._checks import require_labelled, require_range, require_two_classes
from oodometer.detectors._shared import once, posterior
from oodometer.outputs import View
from oodometer.registry import Scorer, detector

_TOPS = (10, 50, 100, 200, 500, 1000)  # of generalized_entropy
# The log-probability that stands for "never": the smallest normal number of float32.
_LOG_NEVER = -87.3365


@detector(paper="Hendrycks & Gimpel 2017, arXiv:1610.02136", needs={"relative_logits"})
def max_softmax(train: View) -> Scorer:
    """Logarithm of one minus the maximum softmax probability.

    log(1 - max_c p_c). The paper's confidence is max_c p_c; this is a strictly decreasing function
    of it, so every ranking is the same, but it does not saturate for confident predictions.
    """
    require_two_classes("max_softmax", train.relative_logits)

    def score(logits: Tensor) -> Tensor:
        return posterior(logits).log_not_top

    return lambda test: by_rows(
        score, test.relative_logits, numbers_per_row=4 * test.relative_logits.shape[1]
    )


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


@detector(paper="Lakshminarayanan et al. 2017, arXiv:1612.01474", needs={"relative_logits"})
def entropy(train: View) -> Scorer:
    """Logarithm of the entropy of the softmax.

    log H, H = -sum_c p_c log p_c. The logarithm keeps the order of H and also separates confident
    predictions whose H underflows; libraries that clamp probabilities at 1e-7 cannot. One network;
    the paper averages an ensemble.
    """
    require_two_classes("entropy", train.relative_logits)

    def score(logits: Tensor) -> Tensor:
        p = posterior(logits)
        # log(-log p) of the top class is log(log(1 + odds)), which tends to log(odds) itself.
        sure = p.log_odds < -36
        log_surprise = torch.where(sure, p.log_odds, (-p.log_top).masked_fill(sure, 1.0).log())
        top_term = p.log_top + log_surprise
        absent = p.log_rest.isneginf()  # 0 log 0 = 0
        surprise = (-p.log_rest).masked_fill(absent, 1.0).log()
        return torch.logaddexp(top_term, (p.log_rest + surprise).logsumexp(1))

    return lambda test: by_rows(
        score, test.relative_logits, numbers_per_row=8 * test.relative_logits.shape[1]
    )


@detector(paper="Scheffer et al. 2001, doi:10.1007/3-540-44816-0_31", needs={"relative_logits"})
def margin(train: View) -> Scorer:
    """Logarithm of one minus the gap between the two largest softmax probabilities.

    log(1 - (p_1 - p_2)) = log((1 - p_1) + p_2) with p_1 >= p_2 the two largest: the order of
    p_2 - p_1, without saturation at p_1 = 1.
    """
    require_two_classes("margin", train.relative_logits)

    def score(logits: Tensor) -> Tensor:
        p = posterior(logits)
        return torch.logaddexp(p.log_not_top, p.log_rest.amax(1))

    return lambda test: by_rows(
        score, test.relative_logits, numbers_per_row=4 * test.relative_logits.shape[1]
    )


@detector(paper="Jung et al. 2021, arXiv:2107.11264", needs={"logits"})
def standardized_max_logit(train: View) -> Scorer:
    """Minus the largest logit, standardized by the statistics of the predicted class.

    -(max_c z_c - m_k) / s_k, k the predicted class, m_k and s_k mean and standard deviation
    (divided by n) of the largest logit over the training samples predicted as k. The paper scores
    pixels and then smooths them; here each image has one score. A class that is never predicted
    uses the statistics of all training samples; one without variance, such as a single sample, the
    pooled standard deviation of the classes.
    """
    classes = train.logits.shape[1]
    top, guess = train.logits.detach().max(1)
    top = precise(top)
    guess = guess.to(top.device)
    count = torch.bincount(guess, minlength=classes).to(top)
    overall = top.mean()
    mean = torch.zeros_like(count).index_add_(0, guess, top) / count.clamp_min(1)
    mean = torch.where(count > 0, mean, overall)
    squares = torch.zeros_like(count).index_add_(0, guess, (top - mean[guess]).square())
    # The rounding of each class is its own: one huge logit must not drown the digits of others.
    sizes = torch.zeros_like(count).index_add_(0, guess, top.square())
    smallest = 4 * torch.finfo(train.logits.dtype).eps
    rounding = smallest * (sizes / count.clamp_min(1)).sqrt()
    noise = smallest * top.square().mean().sqrt()
    pooled = (squares.sum() / len(top)).sqrt()
    pooled = torch.where(pooled > noise, pooled, torch.where(noise > 0, noise, 1.0))
    spread = (squares / count.clamp_min(1)).sqrt()
    overall_spread = (top - overall).square().mean().sqrt()
    spread = torch.where(count > 0, spread, overall_spread)
    spread = torch.where(spread > rounding, spread, pooled)

    def score(logits: Tensor) -> Tensor:
        largest, place = logits.max(1)
        return (mean[place] - largest) / spread[place]

    return lambda test: by_rows(score, test.logits, numbers_per_row=2 * classes)


@detector(
    paper="Du et al. 2022, arXiv:2202.01197",
    needs={"logits", "labels"},
    grid={"weights": ("balanced", "frequency")},
)
def weighted_energy(train: View, *, weights: str = "balanced") -> Scorer:
    """Energy of the logits with a weight for every class.

    -log sum_c w_c exp(z_c). The paper learns w during training, against class imbalance. For other
    networks, w follows from the training labels: "balanced" is n / (K n_c), which removes the class
    frequencies from the logits; "frequency" is its inverse. A class without training samples counts
    as having one. Balanced classes give `energy`.
    """
    require_labelled("weighted_energy", train.labels)
    classes = train.logits.shape[1]
    device = precise(train.logits[:1]).device
    known = train.labels[train.labels >= 0].to(device)
    count = torch.bincount(known, minlength=classes).clamp_min(1).double()
    log_weight = math.log(len(known)) - math.log(classes) - count.log()
    if weights == "frequency":
        log_weight = -log_weight

    def score(logits: Tensor) -> Tensor:
        return energy_of(logits + log_weight)

    return lambda test: by_rows(score, test.logits, numbers_per_row=3 * classes)


@detector(
    paper="Liu, Lochman & Zach 2023, GEN, CVPR",
    needs={"relative_logits"},
    grid={
        "gamma": (0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0),
        "top": _TOPS,
    },
)
def generalized_entropy(train: View, *, gamma: float = 0.1, top: int = 100) -> Scorer:
    """Logarithm of the generalized entropy of the largest softmax probabilities.

    log sum over the `top` largest p of p^gamma (1 - p)^gamma; with fewer classes than `top`, over
    all of them. The paper limits gamma to (0, 1), where the sum is a proper entropy; its searches
    go up to 10. The logarithm keeps the order and the precision: at gamma = 10 the sum of a
    confident prediction underflows. Probabilities are not clamped at 1e-7, which in another library
    changes the scores of confident predictions at a small gamma by 15%.
    """
    require_range("generalized_entropy", "gamma", gamma, above=0)
    require_range("generalized_entropy", "top", top, at_least=1)
    require_two_classes("generalized_entropy", train.relative_logits)

    classes = train.relative_logits.shape[1]
    # Every number of classes to sum over at once: they share all but the last sum.
    tops = sorted({min(value, classes) for value in (*_TOPS, top)})

    def score(logits: Tensor) -> Tensor:
        p = posterior(logits)
        first = gamma * (p.log_top + p.log_not_top)[:, None]
        if tops[-1] == 1:
            return first
        log_p = p.log_rest.topk(tops[-1] - 1, dim=1).values  # the top class stands apart
        rest = gamma * (log_p + torch.log1p(-log_p.exp()))  # p <= 1/2 here: nothing cancels
        ends = [rest[:, : end - 1].logsumexp(1) for end in tops if end > 1]
        sums = torch.logaddexp(first, torch.stack(ends, dim=1))
        return torch.cat([first, sums], dim=1) if tops[0] == 1 else sums

    def scored(test: View) -> Tensor:
        found = once(
            test,
            ("generalized entropy", gamma, tuple(tops)),
            lambda: by_rows(score, test.relative_logits, numbers_per_row=7 * classes),
        )
        return found[:, tops.index(min(top, classes))]

    return scored


@detector(paper="Hendrycks et al. 2022, arXiv:1911.11132", needs={"relative_logits"})
def kl_matching(train: View) -> Scorer:
    """Smallest Kullback-Leibler divergence to the mean posterior of a class.

    min_c KL(p || d_c), d_c the mean softmax of the training samples that are predicted as c (the
    paper's choice: no labels). A class that is never predicted gets its one-hot posterior with
    zeros replaced by 1e-38: with true zeros the divergence would always be infinite. Means are
    computed in log space, so that posteriors of a saturated network keep their tails.
    """
    require_two_classes("kl_matching", train.relative_logits)
    guess, classes = train.relative_logits.detach().argmax(1), train.relative_logits.shape[1]
    first = precise(train.relative_logits[:1]).detach()
    typical = torch.full((classes, classes), _LOG_NEVER, dtype=first.dtype, device=first.device)
    typical.fill_diagonal_(0.0)
    for group in sorted(set(guess.tolist())):
        members = train.relative_logits.detach()[guess == group]
        total = torch.full_like(typical[group], -torch.inf)
        for rows in blocks(len(members), 2 * classes):
            log_p = precise(members[rows]).log_softmax(1)
            total = torch.logaddexp(total, log_p.logsumexp(0))
        typical[group] = total - math.log(len(members))

    def score(logits: Tensor) -> Tensor:
        log_p = logits.log_softmax(1)
        p = log_p.exp()
        return (p * log_p).sum(1) - (p @ typical.T).amax(1)

    return lambda test: by_rows(
        score, test.relative_logits, numbers_per_row=4 * test.relative_logits.shape[1]
    )
