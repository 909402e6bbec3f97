"""Losses by name: of logits and targets, which are class numbers or a probability per class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from oodometer.lab.options import choose, require

Loss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy() -> Loss:
    """Mean of -log p of the true class."""
    return functional.cross_entropy


def logistic() -> Loss:
    """One yes-or-no question per class: mean over samples and classes of the logistic loss."""

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        wanted = as_probabilities(targets, logits.shape[1], logits.dtype)
        return functional.binary_cross_entropy_with_logits(logits, wanted)

    return loss


def label_smoothing(*, amount: float = 0.1) -> Loss:
    """Cross-entropy to (1 - amount) [true class] + amount / classes. arXiv:1512.00567."""
    require(0 <= amount < 1, "The amount of label_smoothing", amount, "at least 0 and below 1")

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(logits, targets, label_smoothing=amount)

    return loss


LOSSES: Mapping[str, Callable[..., Loss]] = {
    make.__name__: make for make in (cross_entropy, logistic, label_smoothing)
}


@cache
def make_loss(text: str) -> Loss:
    """Build the loss that a text names, such as ``label_smoothing(amount=0.2)``."""
    return choose("loss", text, LOSSES)()


def as_probabilities(targets: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """Turn class numbers into rows with a single 1; leave probabilities as they are."""
    if targets.dim() == 2:
        return targets.to(dtype)
    return functional.one_hot(targets, classes).to(dtype)


def as_classes(targets: Tensor) -> Tensor:
    """Turn probabilities into the most probable class; leave class numbers as they are."""
    return targets.argmax(1) if targets.dim() == 2 else targets
