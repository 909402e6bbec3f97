"""Attacks on images: the worst case within a ball, by projected gradient ascent on whole batches.

Madry et al. 2018, arXiv:1706.06083. Images lie in [0, 1], and the ball is that of the maximum norm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

Objective = Callable[[Tensor], Tensor]  # images (n, ...) -> one number each (n,), to be maximized


def ascend(
    objective: Objective,
    images: Tensor,
    *,
    radius: float,
    step: float,
    steps: int,
    start: Tensor | None = None,
    to_beat: Tensor | None = None,
) -> Tensor:
    """Return the best point that `steps` sign steps visit within `radius` of each image.

    Every point counts with its own value, the last and the image itself too, so that the objective
    never falls. `start` is where the ascent begins (the image); a point must be better than
    `to_beat`, which is the value of the image unless it is given.
    """
    images = images.detach()
    low, high = (images - radius).clamp(min=0), (images + radius).clamp(max=1)
    best, point = images, images if start is None else start.detach().clamp(low, high)
    record = to_beat
    if record is None and start is not None:
        with torch.no_grad():
            record = objective(images).detach()
    with torch.enable_grad():
        for left in range(steps, -1, -1):
            point = point.detach().requires_grad_()
            values = objective(point)
            with torch.no_grad():
                if record is None:
                    record = values.detach()
                better = values > record
                record = torch.where(better, values.detach(), record)
                best = torch.where(_rows(better, images), point, best)
            if left:
                (gradient,) = torch.autograd.grad(values.sum(), point)
                point = torch.minimum(torch.maximum(point + step * gradient.sign(), low), high)
    return best.detach()


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Evaluation mode for the time of an attack; batch statistics and dropout rest."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def random_start(images: Tensor, radius: float, levels: int | None = None) -> Tensor:
    """A random point of the ball: uniform, or in whole steps of 1 / `levels`."""
    if levels is None:
        return images + radius * (2 * torch.rand_like(images) - 1)
    reach = int(radius * levels + 1e-6)
    return images + torch.randint_like(images, -reach, reach + 1) / levels


def _rows(chosen: Tensor, images: Tensor) -> Tensor:
    return chosen.reshape(-1, *[1] * (images.dim() - 1))
