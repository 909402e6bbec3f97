"""Numbers per image that these classifiers learn and are scored by, from logits (n, K)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from oodometer.lab.training.losses import as_classes
from oodometer.lab.training.task import Measures


def uniform_cross_entropy(logits: Tensor) -> Tensor:
    """Cross-entropy of the uniform distribution and the softmax: logsumexp(z) - mean(z) >= ln K."""
    return logits.logsumexp(1) - logits.mean(1)


def log_confidence(logits: Tensor) -> Tensor:
    """Log of the largest softmax probability, >= -ln K."""
    return logits.amax(1) - logits.logsumexp(1)


def doubt(logits: Tensor) -> Tensor:
    """log((1 - p) / p) of the largest softmax probability p, which orders as -p does.

    The probability itself is 1 in single precision for most images of a good classifier.
    """
    top = logits.argmax(1, keepdim=True)
    others = logits.scatter(1, top, -torch.inf)
    return others.logsumexp(1) - logits.gather(1, top)[:, 0]


def rejection(logits: Tensor) -> Tensor:
    """log(p / (1 - p)) of the last class, that of the outliers."""
    return logits[:, -1] - logits[:, :-1].logsumexp(1)


def accuracy(logits: Tensor, targets: Tensor) -> Measures:
    """How many images of a batch have the right class."""
    return {"accuracy": int((logits.detach().argmax(1) == as_classes(targets)).sum())}


def rejected(logits: Tensor) -> Tensor:
    """Cross-entropy of the last class."""
    return -functional.log_softmax(logits, 1)[:, -1]


def ramp(progress: float, start: float, end: float) -> float:
    """0 until epoch `start`, then linear up to 1 at epoch `end`."""
    return min(max((progress - start) / (end - start), 0.0), 1.0)
