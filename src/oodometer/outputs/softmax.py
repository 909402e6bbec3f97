"""Tell logits from what a softmax makes of them."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from oodometer.outputs.mapped import release_pages

SoftmaxKind = Literal["probabilities", "log-probabilities"]
_NEAR = 0.02  # how far a sum of probabilities is from 1 when each was rounded to bfloat16
_PERCENT = 100.0  # what a row of percentages sums to
_FIRST = 8  # rows that tell most logits apart
_ROWS = 2**14  # checked at a time


def softmax_kind(logits: Tensor) -> SoftmaxKind | None:
    """What is given in place of logits, if all rows sum to 1 or 100, or their exponentials to 1.

    >>> softmax_kind(torch.tensor([[0.2, 0.8], [0.5, 0.5]]))
    'probabilities'
    >>> softmax_kind(torch.tensor([[20.0, 80.0], [50.0, 50.0]]))
    'probabilities'
    >>> softmax_kind(torch.tensor([[2.0, -1.0], [0.5, 0.5]])) is None
    True
    """
    if logits.dim() != 2 or logits.shape[1] < 2 or not len(logits):
        return None
    values = logits.detach()
    parts = (
        values[:_FIRST],
        *torch.split(values, _ROWS),
    )  # views: what is no softmax ends at the first
    for whole in (1.0, _PERCENT):
        if all(_sums_to(whole, part) for part in parts):
            return "probabilities"
    if all(_sums_to(1.0, part.exp()) for part in parts):
        return "log-probabilities"
    return None


def _sums_to(whole: float, rows: Tensor) -> bool:
    release_pages()
    return bool((rows >= 0).all() and ((rows.double().sum(1) / whole - 1).abs() <= _NEAR).all())


def log_probabilities(probabilities: Tensor) -> Tensor:
    """Logarithms of probabilities; 0 becomes the smallest normal number of float32.

    Those of percentages are larger by a constant, which relative logits leave open.
    """
    return probabilities.clamp_min(torch.finfo(torch.float32).tiny).log()
