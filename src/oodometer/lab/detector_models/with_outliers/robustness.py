"""How well a detector separates outliers that were moved to escape it, and what is guaranteed."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.detector_models.with_outliers.attacks import ascend, random_start
from oodometer.lab.detector_models.with_outliers.intervals import (
    ball,
    difference_bounds,
    least_score,
)
from oodometer.metrics import auroc

Score = Callable[[Tensor], Tensor]  # images (n, ...) in [0, 1] -> (n,), higher = more OOD

STEPS = 40
_AT_ONCE = 256  # images that are attacked together


class Robustness(NamedTuple):
    """AUROC of outliers as they are, under attack, and the least that any attack can leave.

    ``guaranteed <= attacked <= clean``. `guaranteed` is None if the score has no known bounds.
    """

    radius: float
    clean: float
    attacked: float
    guaranteed: float | None


def attack_score(
    score: Score, images: Tensor, radius: float, *, steps: int = STEPS, seed: int = 0
) -> Tensor:
    """Return images within `radius` (maximum norm) of the given ones that have a lower score.

    Projected gradient descent from each image and from a random point of its ball; the best point
    of both counts, so that no score rises.
    """
    if not 0 <= radius <= 1:
        raise UserError(f"radius is {radius}, but must be a share of the range of pixels, 0 to 1.")
    found = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for part in torch.split(images, _AT_ONCE):
            best = part
            for start in (None, random_start(part, radius)):
                moved = ascend(
                    lambda points: -score(points),
                    part,
                    radius=radius,
                    step=2.5 * radius / steps,
                    steps=steps,
                    start=start,
                )
                with torch.no_grad():
                    lower = score(moved) < score(best)
                best = torch.where(lower.reshape(-1, *[1] * (part.dim() - 1)), moved, best)
            found.append(best)
    return torch.cat(found)


def measure_robustness(
    score: Score,
    known: Tensor,
    outliers: Tensor,
    radius: float,
    *,
    bounded: nn.Module | None = None,
    steps: int = STEPS,
    seed: int = 0,
) -> Robustness:
    """Measure AUROC, AUROC under attack, and guaranteed AUROC of a score at this radius.

    `bounded` is the classifier if the score is the log odds against its predicted class: its
    interval bounds give the guarantee, in which equal scores count as errors. Only outliers move.
    """
    attacked = attack_score(score, outliers, radius, steps=steps, seed=seed)
    with torch.no_grad():
        inside, outside, moved = (
            torch.cat([score(part) for part in torch.split(images, _AT_ONCE)])
            .double()
            .cpu()
            .numpy()
            for images in (known, outliers, attacked)
        )
        least = None
        if bounded is not None:
            bounds = [
                least_score(difference_bounds(bounded, ball(part, radius)))
                for part in torch.split(outliers, _AT_ONCE)
            ]
            least = auroc(inside, torch.cat(bounds).double().cpu().numpy(), ties="pessimistic")
    return Robustness(radius, auroc(inside, outside), auroc(inside, moved), least)
