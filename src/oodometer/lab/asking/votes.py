"""Several opinions on the same samples: how unsure is their mean, and how far do they disagree."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

# The logarithm that stands for 0, where all opinions are the same: finite, below all others.
LOG_NOTHING = -1e6


def summarize_votes(logits: Tensor) -> Tensor:
    """(n, 4): logarithms of entropy, mutual information, doubt and variance.

    `logits` are (members, n, classes). With p_s the softmax of member s and m their mean:
    H(m) = -sum_c m_c log m_c, and I = H(m) - mean_s H(p_s) = mean_s KL(p_s || m). The difference
    cancels to nothing where all members are sure; here I is a sum of terms that are never
    negative, m_c f(log p_sc - log m_c) with f(r) = r e^r - e^r + 1, added up in logarithms. The
    doubt is 1 - max_c m_c, the variance that of p_sc over the members (divided by their number
    less one), mean over the classes, from m_c^2 (e^r - 1)^2.
    """
    log_p = logits.double().log_softmax(2)
    members = len(log_p)
    log_mean = log_p.logsumexp(0) - math.log(members)
    ratio = log_p - log_mean
    # f(r) = r^2 / 2 + r^3 / 3 + ... cancels close to 0.
    small = ratio.abs() < 1e-4
    series = ratio.square() / 2 * (1 + 2 * ratio / 3)
    bent = torch.where(small, series, ratio * ratio.exp() - torch.expm1(ratio))
    # exp(-1e4) times 1e4 is nothing, not NaN; log 0 is -inf, which adds nothing.
    parts = log_mean + bent.clamp_min(0).log()
    information = parts.logsumexp((0, 2)) - math.log(members)
    doubt, variance = _doubt_and_variance(log_p, log_mean)
    summary = torch.stack([log_entropy(log_mean), information, doubt, variance], dim=1)
    return summary.clamp_min(LOG_NOTHING)


def _doubt_and_variance(log_p: Tensor, log_mean: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithms of 1 - max_c m_c, and of the variance of p_sc, mean over the classes."""
    members, _, classes = log_p.shape
    top = log_mean.argmax(1, keepdim=True)
    doubt = log_mean.scatter(1, top, -torch.inf).logsumexp(1)
    # The top class varies as much as all others together, whose digits are not lost near 1.
    place = top.expand(members, -1, 1)
    others = log_p.scatter(2, place, -torch.inf).logsumexp(2, keepdim=True)
    mean = log_mean.scatter(1, top, doubt[:, None])
    ratio = log_p.scatter(2, place, others) - mean
    squares = 2 * (mean + torch.expm1(ratio).abs().log())
    return doubt, squares.logsumexp((0, 2)) - math.log(max(1, members - 1) * classes)


def log_entropy(log_p: Tensor) -> Tensor:
    """Logarithm of the entropy of (n, classes) log-probabilities, without loss near 0."""
    top, place = log_p.max(dim=1, keepdim=True)
    log_odds = (log_p - top).scatter(1, place, -torch.inf).logsumexp(1)
    log_top = logsigmoid(-log_odds)
    # log(-log p) of the top class tends to the log-odds against it.
    sure = log_odds < -36
    surprise = torch.where(sure, log_odds, (-log_top).masked_fill(sure, 1.0).log())
    rest = (log_p - top).scatter(1, place, -torch.inf) + log_top[:, None]
    absent = rest.isneginf()  # 0 log 0 = 0
    others = rest + (-rest).masked_fill(absent, 1.0).log()
    return torch.logaddexp(log_top + surprise, others.logsumexp(1))
