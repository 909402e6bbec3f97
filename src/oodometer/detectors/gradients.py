"""Detectors that read the gradient of a loss, where it has a closed form in the outputs."""

from __future__ import annotations

from torch import Tensor

from oodometer.detectors._arrays import by_rows
from oodometer.outputs import View
from oodometer.registry import Scorer, detector


@detector(paper="Huang et al. 2021, arXiv:2110.00218", needs={"features", "logits"})
def gradnorm(train: View) -> Scorer:
    """Minus the L1 norm of the head's weight gradient when every class is the target.

    -sum_j |x_j| * sum_c |K p_c - 1|, K the number of classes: the gradient of
    -sum_c log p_c with respect to the weight is the outer product of K p - 1 and x, so its L1
    norm is the product of theirs and needs no backward pass. With the uniform target 1/K of the
    paper's text, in place of the ones of its code, everything is divided by K: the same order.
    """

    def score(features: Tensor, logits: Tensor) -> Tensor:
        classes = logits.shape[1]
        pull = (classes * logits.softmax(1) - 1).abs().sum(1)
        return -features.abs().sum(1) * pull

    return lambda test: by_rows(
        score,
        test.features,
        test.logits,
        numbers_per_row=2 * test.features.shape[1] + 4 * test.logits.shape[1],
    )
