"""What a score is worth if outliers may move: AUROC as they are, under attack, and guaranteed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from oodometer.lab.detector_models.with_outliers.intervals import (
    ball,
    difference_bounds,
    least_score,
)
from oodometer.lab.search import search
from oodometer.metrics import auroc

Score = Callable[[Tensor], Tensor]  # images (n, ...) in [0, 1] -> (n,), higher = more OOD

# Models whose score is the log odds against the predicted class, which interval bounds limit.
BOUNDED = frozenset(
    {
        "exposed_classifier", "ceda_classifier", "ceda_noise_classifier", "acet_classifier",
        "acet_noise_classifier", "acet_half_classifier", "good_80_classifier",
        "good_100_classifier",
    }
)  # fmt: skip
_AT_ONCE = 256  # images that are scored together
_REACH = 2.5  # radii that all steps of the attack add up to


class Certificate(NamedTuple):
    """AUROC of outliers as they are, under attack, and the least that any attack can leave.

    ``guaranteed <= attacked <= auroc``. `guaranteed` is None if the score has no known bounds.
    """

    radius: float
    auroc: float
    attacked: float
    guaranteed: float | None


def certificate(
    score: Score,
    known: Tensor,
    outliers: Tensor,
    radius: float,
    *,
    bounded: nn.Module | None,
    steps: int,
    seed: int = 0,
) -> Certificate:
    """Measure a score on outliers that move by at most `radius` in every pixel, within [0, 1].

    `bounded` is the classifier if the score is the log odds against its predicted class: its
    interval bounds give the guarantee, in which equal scores count as errors, as published. Known
    images stay as they are.
    """
    worst = search(
        score,
        f"linf(radius={radius})",
        outliers,
        method=f"gradient_descent(size={_REACH / (2 * steps)})",
        steps=steps,
        batch_size=_AT_ONCE,
        seed=seed,
    )
    with torch.no_grad():
        inside = torch.cat([score(part) for part in torch.split(known, _AT_ONCE)]).double().numpy()
        guaranteed = None
        if bounded is not None:
            bounds = [
                least_score(difference_bounds(bounded, ball(part, radius)))
                for part in torch.split(outliers, _AT_ONCE)
            ]
            least = torch.cat(bounds).double().numpy()
            guaranteed = auroc(inside, least, ties="pessimistic")
    return Certificate(
        radius, auroc(inside, worst.clean_scores), auroc(inside, worst.scores), guaranteed
    )
