"""Detectors that measure a distance to the training samples or to their classes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from oodometer.detectors._arrays import blocks, by_rows, precise
from oodometer.detectors._checks import require_labelled, usable_neighbors
from oodometer.detectors._neighbors import as_given, distances_to, nearest, on_unit_sphere
from oodometer.outputs import View
from oodometer.registry import Scorer, detector


class _Gaussians(NamedTuple):
    """Normal distributions with one covariance, in coordinates in which that is the identity."""

    origin: Tensor  # (width,) mean of all rows
    whiten: Tensor  # (width, width)
    means: Tensor  # (groups, width), whitened, relative to the origin

    def squared_distance(self, rows: Tensor) -> Tensor:
        """Squared Mahalanobis distance of each row to its nearest mean."""
        points = (rows - self.origin) @ self.whiten
        with torch.no_grad():
            order = torch.addmm(self.means.square().sum(1) / 2, points, self.means.T, alpha=-1)
            which = order.argmin(1)
        # From the difference itself: squared norms would cancel close to a mean.
        return (points - self.means[which]).square().sum(1)


@torch.no_grad()
def _fit_gaussians(values: Tensor, group: Tensor) -> _Gaussians:
    """Fit one mean per group and one covariance for all, from the rows whose group is not -1.

    Maximum likelihood (divided by the number of rows), in float64 and in two passes around the
    mean, so that features far from zero lose no digits; units are first scaled to spread one, so
    that their size does not decide which directions can be resolved.

    A direction without spread beyond the rounding of the features (a dead unit, fewer samples
    than dimensions) has no variance to divide by. The pseudo-inverse of other libraries gives it
    weight zero: an outlier that lights a dead unit is then not seen at all. Here it gets the
    smallest variance that could be resolved. Samples that stay inside the span of the training
    data, where both are defined, get the same distance either way. Without any spread at all, the
    distance is Euclidean.
    """
    known = group >= 0
    present, inverse = torch.unique(group[known], return_inverse=True)
    which = torch.full_like(group, -1)
    which[known] = inverse
    count, width = int(known.sum()), values.shape[1]
    parts = list(blocks(len(values), 4 * width))

    def rows_of(part: slice) -> tuple[Tensor, Tensor]:
        chosen = which[part] >= 0
        rows = precise(values[part][chosen])
        return rows, which[part][chosen].to(rows.device)

    origin = torch.stack([rows_of(part)[0].sum(0) for part in parts]).sum(0) / count
    sums = origin.new_zeros((len(present), width))
    sizes = origin.new_zeros(len(present))
    largest = torch.zeros_like(origin)
    for part in parts:
        rows, place = rows_of(part)
        sums.index_add_(0, place, rows - origin)
        sizes.index_add_(0, place, torch.ones_like(rows[:, 0]))
        if len(rows):
            largest = torch.maximum(largest, rows.abs().amax(0))
    means = sums / sizes[:, None]
    scatter = origin.new_zeros((width, width))
    for part in parts:
        rows, place = rows_of(part)
        gap = rows - origin - means[place]
        scatter.addmm_(gap.T, gap, alpha=1 / count)

    spread = scatter.diagonal().sqrt()
    rounding = 4 * torch.finfo(values.dtype).eps * largest
    alive = spread > rounding
    smallest = spread[alive].amin() if bool(alive.any()) else spread.new_tensor(1.0)
    spread = torch.where(alive, spread, smallest)
    noise = (rounding / spread)[alive].amax() ** 2 if bool(alive.any()) else spread.new_tensor(0.0)
    variances, directions = torch.linalg.eigh(scatter / spread / spread[:, None])
    floor = torch.maximum(noise, variances[-1] * width * torch.finfo(torch.float64).eps)
    resolved = variances > floor
    lowest = variances[resolved].amin() if bool(resolved.any()) else spread.new_tensor(1.0)
    variances = torch.where(resolved, variances, lowest)
    whiten = directions / variances.sqrt() / spread[:, None]
    return _Gaussians(origin, whiten, means @ whiten)


@detector(
    paper="Lee et al. 2018, arXiv:1807.03888",
    needs={"features", "logits", "labels"},
    grid={"space": ("features", "logits")},
)
def mahalanobis(train: View, *, space: str = "features") -> Scorer:
    """Squared Mahalanobis distance to the nearest class mean, with one shared covariance.

    min_c (x - m_c)' S^-1 (x - m_c), S the covariance around the class means over all training
    samples. x is what enters the last layer, or the logits. One layer and no input perturbation,
    as most re-implementations; classes are the training labels, samples labelled -1 are left out,
    and a class without samples has no mean. Directions without spread: see `_fit_gaussians`.
    Other variants in use: half of this, with a covariance that is not divided by the number of
    samples (the same order); one covariance per class, and the root (another detector).
    """
    require_labelled("mahalanobis", train.labels)
    fitted = _fit_gaussians(_space(train, space), train.labels)
    return lambda test: _score_gaussians(fitted, _space(test, space))


def _space(outputs: View, space: str) -> Tensor:
    return outputs.features if space == "features" else outputs.logits


def _score_gaussians(fitted: _Gaussians, values: Tensor) -> Tensor:
    per_row = 4 * values.shape[1] + len(fitted.means)
    return by_rows(fitted.squared_distance, values, numbers_per_row=per_row)


@detector(paper="Ren et al. 2021, arXiv:2106.09022", needs={"features", "labels"})
def relative_mahalanobis(train: View) -> Scorer:
    """Mahalanobis distance to the nearest class, less the distance to all training data at once.

    min_c d_c^2 - d_0^2, d_c as in `mahalanobis`, d_0 with the mean and covariance of all labelled
    training samples regardless of class.
    """
    require_labelled("relative_mahalanobis", train.labels)
    classes = _fit_gaussians(train.features, train.labels)
    everything = _fit_gaussians(train.features, train.labels.clamp(max=0))
    return lambda test: (
        _score_gaussians(classes, test.features) - _score_gaussians(everything, test.features)
    )


@detector(
    paper="Sun et al. 2022, arXiv:2204.06507",
    needs={"features"},
    grid={"k": (50, 100, 200, 500, 1000), "normalize": (True, False)},
)
def knn(train: View, *, k: int = 50, normalize: bool = True) -> Scorer:
    """Distance to the k-th nearest training feature.

    ||x - x_(k)||, on features of length one (the paper) or as they are (normalize=False). Some
    libraries return the square: the same order. A row of zeros has no direction and stays at the
    origin. The default k shrinks to the size of a smaller training set; any other k that is too
    large is an error.
    """
    k = usable_neighbors("knn", "k", k, default=50, available=len(train))
    prepare = on_unit_sphere if normalize else as_given
    bank = train.features.detach()

    def score(test: View) -> Tensor:
        farthest = nearest(test.features, bank, k, prepare)[:, -1:]
        return distances_to(test.features, bank, farthest, prepare)[:, 0]

    return score


@detector(
    paper="Breunig et al. 2000, doi:10.1145/342009.335388",
    needs={"features"},
    grid={"neighbors": (10, 20, 50), "metric": ("euclidean", "cosine")},
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
    prepare = on_unit_sphere if metric == "cosine" else as_given
    bank = train.features.detach()

    def measured(rows: Tensor, places: Tensor) -> Tensor:
        distances = distances_to(rows, bank, places, prepare)
        return distances.square() / 2 if metric == "cosine" else distances

    def density(distances: Tensor, places: Tensor) -> Tensor:
        return 1 / (torch.maximum(distances, reach[places]).mean(1) + 1e-10)

    places = nearest(bank, bank, k, prepare, skip_self=True)
    distances = measured(bank, places)
    reach = distances.amax(1)  # the k-distance of every training sample
    densities = density(distances, places)

    def score(test: View) -> Tensor:
        near = nearest(test.features, bank, k, prepare)
        return densities[near].mean(1) / density(measured(test.features, near), near)

    return score


@detector(
    paper="Zhang et al. 2023, SHE, ICLR, openreview.net/forum?id=KkazG4lgKL",
    needs={"features", "logits", "labels"},
)
def simplified_hopfield(train: View) -> Scorer:
    """Minus the inner product with the stored pattern of the predicted class.

    -x . s_c, c the predicted class, s_c the mean feature of the training samples of class c that
    are classified correctly. A class without such a sample (which pytorch-ood refuses)
    stores the mean of those that are labelled OR predicted c; one without these too
    stores the mean of all training features.
    """
    require_labelled("simplified_hopfield", train.labels)
    patterns = _patterns(train)

    def score(features: Tensor, logits: Tensor) -> Tensor:
        return -(features * patterns[logits.argmax(1)]).sum(1)

    return lambda test: by_rows(
        score,
        test.features,
        test.logits,
        numbers_per_row=3 * test.features.shape[1] + test.logits.shape[1],
    )


@torch.no_grad()
def _patterns(train: View) -> Tensor:
    """Return the stored pattern of every class, (classes, width)."""
    classes, width = train.logits.shape[1], train.features.shape[1]
    sums: list[Tensor] = []
    for part in blocks(len(train), 4 * width):
        rows = precise(train.features[part])
        guess = train.logits[part].argmax(1).to(rows.device)
        label = train.labels[part].to(rows.device)
        right = guess == label
        # Labelled OR predicted: every row counts for its guess, a wrong one for its label too.
        also = (label >= 0) & ~right
        counted = torch.cat([rows, rows.new_ones((len(rows), 1))], dim=1)
        sums.append(
            torch.stack(
                [
                    _group_sums(counted[right], label[right], classes),
                    _group_sums(counted, guess, classes)
                    + _group_sums(counted[also], label[also], classes),
                    counted.sum(0).expand(classes, -1),
                ]
            )
        )
    correct, either, everything = torch.stack(sums).sum(0)
    best = torch.where(either[:, -1:] > 0, either, everything)
    best = torch.where(correct[:, -1:] > 0, correct, best)
    return best[:, :-1] / best[:, -1:]


def _group_sums(rows: Tensor, group: Tensor, groups: int) -> Tensor:
    return rows.new_zeros((groups, rows.shape[1])).index_add_(0, group, rows)
