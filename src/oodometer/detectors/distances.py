"""Detectors that measure a distance to the training samples or to their classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from oodometer.detectors import _arrays
from oodometer.detectors._arrays import blocks, by_rows, precise
from oodometer.detectors._checks import require_labelled, require_range, usable_neighbors
from oodometer.detectors._neighbors import Neighbors, as_given, on_unit_sphere
from oodometer.detectors._shared import once
from oodometer.errors import UserError
from oodometer.outputs import View
from oodometer.registry import Scorer, detector

_KNN_GRID = (50, 100, 200, 500, 1000)
_LOF_GRID = (10, 20, 50)


@dataclass(frozen=True, eq=False)
class _Moments:
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


@torch.no_grad()
def _moments(values: Tensor, group: Tensor) -> _Moments:
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
    largest = torch.zeros_like(shift)
    for part in parts():
        rows, place = rows_of(part)
        if len(rows):
            largest = torch.maximum(largest, rows.abs().amax(0))
        sums.index_add_(0, place, rows - shift)
        sizes += torch.bincount(place, minlength=len(present))
    centre = sums.sum(0) / count
    means = sums / sizes[:, None]
    within = shift.new_zeros((width, width))
    for part in parts():
        rows, place = rows_of(part)
        gap = rows - shift - means[place]
        within.addmm_(gap.T, gap, alpha=1 / count)
    rounding = 4 * torch.finfo(values.dtype).eps * largest
    return _Moments(shift + centre, means - centre, sizes, within, rounding)


@torch.no_grad()
def _whitening(covariance: Tensor, rounding: Tensor) -> Tensor | None:
    """Return the matrix that makes this covariance the identity; None if there is no spread.

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
    noise = (rounding / spread)[alive].amax() ** 2
    variances, directions = torch.linalg.eigh(covariance / spread / spread[:, None])
    floor = torch.maximum(noise, variances[-1] * len(spread) * torch.finfo(torch.float64).eps)
    resolved = variances > floor
    lowest = variances[resolved].amin() if bool(resolved.any()) else variances[-1]
    variances = torch.where(resolved, variances, lowest)
    whiten: Tensor = directions / variances.sqrt() / spread[:, None]
    return whiten


@dataclass(frozen=True, eq=False)
class _Gaussians:
    """Normal distributions with one covariance, in coordinates in which that is the identity."""

    origin: Tensor  # (width,)
    whiten: Tensor  # (width, width)
    means: Tensor  # (groups, width), whitened, relative to the origin

    @classmethod
    def of(cls, origin: Tensor, means: Tensor, covariance: Tensor, rounding: Tensor) -> _Gaussians:
        """Without any spread, the distance is Euclidean."""
        whiten = _whitening(covariance, rounding)
        if whiten is None:
            whiten = torch.eye(len(origin), dtype=origin.dtype, device=origin.device)
        return cls(origin, whiten, means @ whiten)

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


def _space(outputs: View, space: str) -> Tensor:
    return outputs.features if space == "features" else outputs.logits


def _moments_of(train: View, space: str) -> _Moments:
    return train.shared(("moments", space), lambda: _moments(_space(train, space), train.labels))


def _tied(train: View, space: str) -> _Gaussians:
    """One mean per class, one covariance for all."""

    def fit() -> _Gaussians:
        known = _moments_of(train, space)
        return _Gaussians.of(known.origin, known.means, known.within, known.rounding)

    return train.shared(("tied", space), fit)


def _per_class(train: View, space: str) -> tuple[_Gaussians, ...]:
    """One mean and one covariance per class; a class without any spread borrows the shared one."""

    def fit() -> tuple[_Gaussians, ...]:
        values, fitted = _space(train, space), []
        labels, order = train.labels.sort(stable=True)
        sizes = torch.unique_consecutive(labels[labels >= 0], return_counts=True)[1].tolist()
        for rows in torch.split(order[len(labels) - sum(sizes) :], sizes):
            own = _moments(values[rows], torch.zeros_like(rows))
            whiten = _whitening(own.within, own.rounding)
            if whiten is None:
                whiten = _tied(train, space).whiten
            fitted.append(_Gaussians(own.origin, whiten, own.means @ whiten))
        return tuple(fitted)

    return train.shared(("per class", space), fit)


def _distance_to(fitted: Sequence[_Gaussians], outputs: View, space: str) -> Tensor:
    """Squared distance of each sample to the nearest of these distributions."""

    def compute() -> Tensor:
        values = _space(outputs, space)
        per_row = 4 * values.shape[1] + max(len(each.means) for each in fitted)

        def score(rows: Tensor) -> Tensor:
            nearest = fitted[0].squared_distance(rows)
            for each in fitted[1:]:
                nearest = torch.minimum(nearest, each.squared_distance(rows))
            return nearest

        return by_rows(score, values, numbers_per_row=per_row)

    return once(outputs, (*fitted, space), compute)


@detector(
    paper="Lee et al. 2018, arXiv:1807.03888",
    needs={"features", "logits", "labels"},
    grid={"space": ("features", "logits"), "covariance": ("tied", "per_class")},
)
def mahalanobis(train: View, *, space: str = "features", covariance: str = "tied") -> Scorer:
    """Squared Mahalanobis distance to the nearest class mean.

    min_c (x - m_c)' S^-1 (x - m_c), S the covariance around the class means over all training
    samples, or with covariance="per_class" over those of class c. x is what enters the last layer,
    or the logits. One layer and no input perturbation, as most re-implementations; classes are the
    training labels, samples labelled -1 are left out, and a class without samples has no mean.
    Covariances are divided by the number of samples. Directions without spread: see `_whitening`;
    a class without any (of one sample) borrows the shared covariance. Other variants in use: half
    of this, or a covariance that is not divided, or the root of the distance (the same order).
    """
    require_labelled("mahalanobis", train.labels)
    if covariance == "per_class":
        _require_room(train, space)
        fitted = _per_class(train, space)
    else:
        fitted = (_tied(train, space),)
    return lambda test: _distance_to(fitted, test, space).clone()  # the shared one stays as it is


def _require_room(train: View, space: str) -> None:
    """Refuse covariances that together are far larger than the working memory."""
    classes, width = len(torch.unique(train.labels)), _space(train, space).shape[1]
    size, most = 8 * classes * width**2, 32 * _arrays.BLOCK_BYTES
    if size > most:
        raise UserError(
            f"Setting covariance of 'mahalanobis' cannot be per_class here: {classes} covariances "
            f"of width {width} take {size / 2**30:.1f} GiB, and the working memory allows "
            f"{most / 2**30:.1f}; use covariance=tied, or more memory."
        )


@detector(paper="Ren et al. 2021, arXiv:2106.09022", needs={"features", "labels"})
def relative_mahalanobis(train: View) -> Scorer:
    """Mahalanobis distance to the nearest class, less the distance to all training data at once.

    min_c d_c^2 - d_0^2, d_c as in `mahalanobis`, d_0 with the mean and covariance of all labelled
    training samples regardless of class.
    """
    require_labelled("relative_mahalanobis", train.labels)

    def background() -> _Gaussians:
        known = _moments_of(train, "features")
        nowhere = torch.zeros_like(known.origin[None])
        return _Gaussians.of(known.origin, nowhere, known.total, known.rounding)

    classes = _tied(train, "features")
    everything = train.shared("background", background)
    return lambda test: (
        _distance_to((classes,), test, "features") - _distance_to((everything,), test, "features")
    )


@detector(
    paper="Sun et al. 2022, arXiv:2204.06507",
    needs={"features"},
    grid={"k": _KNN_GRID, "normalize": (True, False), "share": (1.0,)},
)
def knn(train: View, *, k: int = 50, normalize: bool = True, share: float = 1.0) -> Scorer:
    """Distance to the k-th nearest training feature.

    ||x - x_(k)||, on features of length one (the paper) or as they are (normalize=False). Some
    libraries return the square: the same order. A row of zeros has no direction and stays at the
    origin. The default k shrinks to the size of a smaller training set; any other k that is too
    large is an error. share < 1 searches only that share of the training features, drawn at random
    but always the same: for training sets so large that all of them take too long.
    """
    require_range("knn", "share", share, above=0, at_most=1)
    bank = _neighbors(train, normalize, share)
    k = usable_neighbors("knn", "k", k, default=50, available=len(bank))
    # One search serves every k of the grid.
    ranks = tuple(sorted({k, *(other for other in _KNN_GRID if other <= len(bank))}))

    def score(test: View) -> Tensor:
        places = test.shared((bank, ranks), lambda: bank.ranked(test.features.detach(), ranks))
        column = ranks.index(k)
        return bank.distances(test.features, places[:, column : column + 1])[:, 0]

    return score


def _neighbors(train: View, normalize: bool, share: float = 1.0) -> Neighbors:
    def fit() -> Neighbors:
        rows, kept = train.features, max(1, round(share * len(train)))
        if kept < len(train):
            drawn = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[:kept]
            places = drawn.sort().values.to(rows.device)
            # In parts: around every row that is read of a file, the system reads more.
            rows = torch.cat([rows[places[part]] for part in blocks(kept, 8 * rows.shape[1])])
        return Neighbors(rows, on_unit_sphere if normalize else as_given)

    return train.shared(("neighbors", normalize, share), fit)


@detector(
    paper="Breunig et al. 2000, doi:10.1145/342009.335388",
    needs={"features"},
    grid={"neighbors": _LOF_GRID, "metric": ("euclidean", "cosine")},
)
def local_outlier_factor(train: View, *, neighbors: int = 20, metric: str = "euclidean") -> Scorer:
    """How much sparser the training features are around the sample than around its neighbours.

    mean over the k neighbours o of density(o) / density(x), where density(x) is 1 / (the mean of
    max(k-distance(o), d(x, o)) + 1e-10): scikit-learn's novelty mode, including the 1e-10 that
    keeps duplicates finite. metric="cosine" is one minus the cosine. Exactly `neighbors`
    neighbours count where the original definition also takes further ones at the same distance.
    The default shrinks on a training set of fewer samples; any other number that is too large is
    an error.
    """
    k = usable_neighbors(
        "local_outlier_factor", "neighbors", neighbors, default=20, available=len(train) - 1
    )
    bank = _neighbors(train, metric == "cosine")
    # One search serves every number of the grid.
    most = max(k, min(max(_LOF_GRID), len(train) - 1))

    def measured(rows: Tensor, places: Tensor) -> Tensor:
        distances = bank.distances(rows, places)
        return distances.square() / 2 if metric == "cosine" else distances

    def own_neighbors() -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            places = bank.nearest(train.features, most, skip_self=True)
            return places, measured(train.features, places)

    places, distances = train.shared((bank, most, metric), own_neighbors)
    reach = distances[:, k - 1]  # the k-distance of every training sample

    def density(distances: Tensor, places: Tensor) -> Tensor:
        return 1 / (torch.maximum(distances, reach[places]).mean(1) + 1e-10)

    densities = density(distances[:, :k], places[:, :k])

    def score(test: View) -> Tensor:
        rows = test.features
        near = test.shared((bank, most), lambda: bank.nearest(rows.detach(), most))[:, :k]
        return densities[near].mean(1) / density(measured(rows, near), near)

    return score
