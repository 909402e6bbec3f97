"""Coordinates in which a covariance is the identity, and the distances that they measure."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Moments:
    """Means of the groups and the scatter around them, of all rows whose group is known."""

    origin: Tensor  # (width,) mean of all rows
    means: Tensor  # (groups, width), relative to the origin
    sizes: Tensor  # (groups,)
    within: Tensor  # (width, width) covariance around the means, divided by the number of rows
    rounding: Tensor  # (width,) how far rounding of the features may have moved each unit

    @property
    def total(self) -> Tensor:
        """Covariance around the origin, regardless of the group."""
        return self.within + (self.means.T * (self.sizes / self.sizes.sum())) @ self.means


@dataclass(frozen=True, eq=False)
class Whitening:
    """What makes a covariance the identity."""

    matrix: Tensor  # (width, width): points @ matrix has the identity as its covariance
    log_volume: Tensor  # logarithm of the size of its determinant
    noise: Tensor  # variance, after whitening, that is only rounding

    @classmethod
    def none(cls, like: Tensor, rounding: Tensor) -> Whitening:
        """Leave everything as it is."""
        width = len(rounding)
        same = torch.eye(width, dtype=like.dtype, device=like.device)
        return cls(same, like.new_zeros(()), rounding.amax().square())


@torch.no_grad()
def whitening(covariance: Tensor, rounding: Tensor) -> Whitening | None:
    """Return what makes this covariance the identity; None if there is no spread.

    Units are first scaled to spread one, so that their size does not decide which directions can
    be resolved. A direction without spread beyond the rounding of the features (a dead unit, fewer
    samples than dimensions) has no variance to divide by. The pseudo-inverse of other libraries
    gives it weight zero: an outlier that lights a dead unit is then not seen at all. Here it gets
    the smallest variance that could be resolved. Samples that stay inside the span of the training
    data, where both are defined, get the same distance either way.
    """
    spread = covariance.diagonal().clamp_min(0).sqrt()
    alive = spread > rounding
    if not bool(alive.any()):
        return None
    spread = torch.where(alive, spread, spread[alive].amin())
    rounded = (rounding / spread)[alive].amax() ** 2
    variances, directions = torch.linalg.eigh(covariance / spread / spread[:, None])
    floor = torch.maximum(rounded, variances[-1] * len(spread) * torch.finfo(torch.float64).eps)
    resolved = variances > floor
    lowest = variances[resolved].amin() if bool(resolved.any()) else variances[-1]
    variances = torch.where(resolved, variances, lowest)
    matrix = directions / variances.sqrt() / spread[:, None]
    return Whitening(matrix, -variances.log().sum() / 2 - spread.log().sum(), floor / lowest)


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Normal distributions with one covariance, in coordinates in which that is the identity."""

    origin: Tensor  # (width,)
    whiten: Tensor  # (width, width)
    log_volume: Tensor  # logarithm of the size of its determinant
    means: Tensor  # (groups, width), whitened, relative to the origin

    @property
    def groups(self) -> int:
        """How many distributions these are."""
        return len(self.means)

    def squared_distance(self, rows: Tensor) -> Tensor:
        """Squared Mahalanobis distance of each row to its nearest mean."""
        points = (rows - self.origin) @ self.whiten
        if len(self.means) == 1:
            return (points - self.means).square().sum(1)
        with torch.no_grad():
            order = torch.addmm(self.means.square().sum(1) / 2, points, self.means.T, alpha=-1)
            which = order.argmin(1)
        # From the difference itself: squared norms would cancel close to a mean.
        return (points - self.means[which]).square().sum(1)

    def squared_distances(self, rows: Tensor) -> Tensor:
        """Squared Mahalanobis distance of each row to every mean, (n, groups)."""
        points = (rows - self.origin) @ self.whiten
        squares = points.square().sum(1, keepdim=True) - 2 * points @ self.means.T
        return (squares + self.means.square().sum(1)).clamp_min(0)


def around_classes(known: Moments) -> Gaussians:
    """One mean per class and one covariance for all; without any spread, Euclidean distances."""
    white = whitening_within(known)
    return Gaussians(known.origin, white.matrix, white.log_volume, known.means @ white.matrix)


def whitening_within(known: Moments) -> Whitening:
    """What makes the covariance around the means the identity; nothing, without any spread."""
    found = whitening(known.within, known.rounding)
    return found or Whitening.none(known.origin, known.rounding)
