"""How good generated images are: how far from real ones, and whether they are copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oodometer.errors import UserError

Features = Callable[[Tensor], Tensor]  # images (n, channels, height, width) -> (n, features)

_ROWS = 500  # images at a time
_COPIED = 0.01  # of held-out images, the share that is as near to a training image as a copy


@dataclass(frozen=True)
class Quality:
    """Generated images beside real ones that were not trained on.

    `distance` is the Fréchet distance of features between generated images and one half of the
    real ones, `real_distance` that between the two halves, all with equally many images: the
    nearer to it, the better. `nearer` is how often a generated image is nearer to a training image
    than a held-out image is (0.5 without copying, 1 if all are copies), and `copied` the share that
    is nearer than all but 1% of the held-out images.
    """

    distance: float
    real_distance: float
    nearer: float
    copied: float
    images: int  # on each side

    def __str__(self) -> str:
        return (
            f"Fréchet distance {self.distance:.3g} (two halves of real images: "
            f"{self.real_distance:.3g}), {self.nearer:.0%} nearer to training images than held-out "
            f"images are, {self.copied:.1%} possible copies"
        )


def measure_quality(
    generated: Tensor, held_out: Tensor, train: Tensor, features: Features
) -> Quality:
    """Compare generated images with twice as many held-out ones, and with the training images."""
    count = len(held_out) // 2
    if count < 2 or len(generated) != count:
        raise UserError(
            f"Quality needs half as many generated as held-out images, at least 2, got "
            f"{len(generated)} and {len(held_out)}."
        )
    first, second = held_out[:count], held_out[count : 2 * count]
    made, one, other = (_features(features, part) for part in (generated, first, second))
    known = nearest_distances(held_out, train)
    near = nearest_distances(generated, train)
    below = np.searchsorted(np.sort(known), near, side="left")
    up_to = np.searchsorted(np.sort(known), near, side="right")
    return Quality(
        distance=frechet_distance(made, one),
        real_distance=frechet_distance(other, one),
        nearer=float(1 - (below + up_to).mean() / (2 * len(known))),
        copied=float((near < np.quantile(known, _COPIED)).mean()),
        images=count,
    )


def frechet_distance(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Fréchet distance of two normal distributions with the moments of rows of features.

    |m - n|² + tr(S + T - 2 (S T)^½): Heusel et al. 2017, arXiv:1706.08500.
    """
    shift = first.mean(0) - second.mean(0)
    one, other = (np.atleast_2d(np.cov(part, rowvar=False)) for part in (first, second))
    values, vectors = np.linalg.eigh(one)
    root = (vectors * np.sqrt(values.clip(0))) @ vectors.T
    shared = np.sqrt(np.linalg.eigvalsh(root @ other @ root).clip(0)).sum()
    distance = shift @ shift + np.trace(one) + np.trace(other) - 2 * shared
    return float(max(distance, 0.0))


def nearest_distances(images: Tensor, train: Tensor) -> NDArray[np.float64]:
    """The Euclidean distance of each image to the nearest training image, (n,)."""
    rows = train.flatten(1)
    parts = [torch.cdist(part.flatten(1), rows).amin(1) for part in torch.split(images, _ROWS)]
    return torch.cat(parts).double().numpy()


def _features(features: Features, images: Tensor) -> NDArray[np.float64]:
    with torch.no_grad():
        parts = [features(part) for part in torch.split(images, _ROWS)]
    for part in parts:
        if not isinstance(part, Tensor) or part.dim() != 2:
            raise UserError("features must be a function from images to a tensor (n, features).")
    values: NDArray[np.float64] = torch.cat(parts).double().cpu().numpy()
    if len(values) != len(images) or not np.isfinite(values).all():
        raise UserError(
            f"features must return one finite row per image, got {len(values)} rows of "
            f"{len(images)} images."
        )
    return values
