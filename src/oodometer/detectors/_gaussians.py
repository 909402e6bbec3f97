"""Means and covariances of the training samples, and the distances that they measure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from oodometer.detectors import _arrays
from oodometer.detectors._arrays import blocks, precise
from oodometer.errors import UserError
from oodometer.outputs import View
from oodometer.whitening import Gaussians, Moments, around_classes, whitening, whitening_within


@torch.no_grad()
def moments(values: Tensor, group: Tensor) -> Moments:
    """Moments of the rows whose group is not -1; groups without rows are left out.

    In float64, block by block, in two passes, the second around the means of the groups: features
    far from zero lose no digits, and memory holds one block besides the result.
    """
    known = group >= 0
    present, inverse = torch.unique(group[known], return_inverse=True)
    which = torch.full_like(group, -1)
    which[known] = inverse
    count, width = len(inverse), values.shape[1]

    def parts() -> Iterator[slice]:
        return blocks(len(values), 4 * width)

    def rows_of(part: slice) -> tuple[Tensor, Tensor]:
        rows, place = values[part], which[part]
        chosen = place >= 0
        if not bool(chosen.all()):
            rows, place = rows[chosen], place[chosen]
        rows = precise(rows)
        return rows, place.to(rows.device)

    # Sums around some row: those of numbers far from zero would lose digits.
    shift = precise(values[int(known.nonzero()[0, 0])])
    sums = shift.new_zeros((len(present), width))
    sizes = shift.new_zeros(len(present))
    squares = torch.zeros_like(shift)
    for part in parts():
        rows, place = rows_of(part)
        squares += rows.square().sum(0)
        sums.index_add_(0, place, rows - shift)
        sizes += torch.bincount(place, minlength=len(present))
    centre = sums.sum(0) / count
    means = sums / sizes[:, None]
    within = shift.new_zeros((width, width))
    for part in parts():
        rows, place = rows_of(part)
        gap = rows - shift - means[place]
        within.addmm_(gap.T, gap, alpha=1 / count)
    # Of the size that counts in a covariance: one huge row must not drown the digits of all others.
    rounding = 4 * torch.finfo(values.dtype).eps * (squares / count).sqrt()
    return Moments(shift + centre, means - centre, sizes, within, rounding)


@torch.no_grad()
def around_everything(known: Moments) -> Gaussians:
    """One mean and one covariance of all samples, regardless of class.

    A direction that no sample has gets the variance that it has around the classes: what differs
    there is then as far from all samples as from a class, and says nothing about either.
    """
    white = whitening_within(known)
    means = known.means @ white.matrix
    share = known.sizes / known.sizes.sum()
    inside = white.matrix.T @ known.within @ white.matrix
    variances, directions = torch.linalg.eigh(inside + (means.T * share) @ means)
    rounded = variances[-1] * len(variances) * torch.finfo(torch.float64).eps
    resolved = variances > torch.maximum(rounded, white.noise)
    variances = torch.where(resolved, variances, 1.0)
    matrix = white.matrix @ (directions / variances.sqrt())
    log_volume = white.log_volume - variances.log().sum() / 2
    return Gaussians(known.origin, matrix, log_volume, torch.zeros_like(known.origin[None]))


def space_of(outputs: View, space: str) -> Tensor:
    """Return what a detector measures in: the features or the logits."""
    return outputs.features if space == "features" else outputs.logits


def class_moments(train: View, space: str) -> Moments:
    """Moments of the labelled training samples."""
    return train.shared(("moments", space), lambda: moments(space_of(train, space), train.labels))


def tied(train: View, space: str) -> Gaussians:
    """One mean per class, one covariance for all."""
    return train.shared(("tied", space), lambda: around_classes(class_moments(train, space)))


@dataclass(frozen=True, eq=False)
class FlatGaussian:
    """A normal distribution of fewer samples than dimensions, by the few directions they span.

    The same as `whitening` makes of their covariance: all other directions have the smallest
    variance of these.
    """

    origin: Tensor  # (width,)
    spread: Tensor  # (width,) of the units, to which they are scaled
    directions: Tensor  # (width, rank), orthonormal, of scaled units
    variances: Tensor  # (rank,)
    lowest: float  # the smallest of them

    groups = 1

    @property
    def log_volume(self) -> Tensor:
        """Logarithm of the size of the determinant of what makes the covariance the identity."""
        width, rank = self.directions.shape
        others = (width - rank) * math.log(self.lowest)
        return -(self.variances.log().sum() + others) / 2 - self.spread.log().sum()

    def squared_distance(self, rows: Tensor) -> Tensor:
        """Squared Mahalanobis distance of each row to the mean."""
        scaled = (rows - self.origin) / self.spread
        inside = scaled @ self.directions
        if self.lowest > 1e-6:
            outside = (scaled.square().sum(1) - inside.square().sum(1)).clamp_min(0)
        else:  # the difference of the squares would not have the digits
            outside = (scaled - inside @ self.directions.T).square().sum(1)
        return (inside.square() / self.variances).sum(1) + outside / self.lowest


@torch.no_grad()
def _flat(values: Tensor) -> FlatGaussian | None:
    """Fit to rows that are fewer than their width; None if they have no spread."""
    rows = precise(values)
    origin = rows[0] + (rows - rows[0]).mean(0)  # numbers far from zero would lose digits
    gap = rows - origin
    spread = gap.square().mean(0).sqrt()
    rounding = 4 * torch.finfo(values.dtype).eps * rows.square().mean(0).sqrt()
    alive = spread > rounding
    if not bool(alive.any()):
        return None
    spread = torch.where(alive, spread, spread[alive].amin())
    _, sizes, directions = torch.linalg.svd(gap / spread / len(gap) ** 0.5, full_matrices=False)
    variances = sizes.square()
    floor = torch.maximum(
        (rounding / spread)[alive].amax() ** 2,
        variances[0] * len(spread) * torch.finfo(torch.float64).eps,
    )
    rank = max(1, int((variances > floor).sum()))
    return FlatGaussian(
        origin, spread, directions[:rank].T, variances[:rank], float(variances[rank - 1])
    )


def per_class(train: View, space: str) -> tuple[Gaussians | FlatGaussian, ...]:
    """One mean and one covariance per class; a class without any spread borrows the shared one."""

    def fit() -> tuple[Gaussians | FlatGaussian, ...]:
        values = space_of(train, space).detach()
        labels, order = train.labels.sort(stable=True)
        sizes = torch.unique_consecutive(labels[labels >= 0], return_counts=True)[1].tolist()
        members = torch.split(order[len(labels) - sum(sizes) :], sizes)
        return tuple(_class(values[rows], lambda: tied(train, space)) for rows in members)

    return train.shared(("per class", space), fit)


def _class(values: Tensor, shared: Callable[[], Gaussians]) -> Gaussians | FlatGaussian:
    if 2 * len(values) <= values.shape[1]:
        flat = _flat(values)
        if flat is not None:
            return flat
    own = moments(values, torch.zeros(len(values), dtype=torch.int64, device=values.device))
    white = whitening(own.within, own.rounding)
    if white is not None:
        return Gaussians(own.origin, white.matrix, white.log_volume, own.means @ white.matrix)
    spare = shared()
    return Gaussians(own.origin, spare.whiten, spare.log_volume, own.means @ spare.whiten)


def require_room(detector: str, value: str, train: View, space: str) -> None:
    """Refuse covariances that together are far larger than the working memory."""
    counts = torch.unique(train.labels[train.labels >= 0], return_counts=True)[1]
    classes, width = len(counts), space_of(train, space).shape[1]
    ranks = torch.where(2 * counts <= width, counts, width)
    size, most = 8 * width * int(ranks.sum()), 32 * _arrays.BLOCK_BYTES
    if size > most:
        raise UserError(
            f"Setting covariance of '{detector}' cannot be {value} here: {classes} covariances of "
            f"width {width} take {size / 2**30:.1f} GiB, and the working memory allows "
            f"{most / 2**30:.1f}; use covariance=tied, or more memory."
        )
