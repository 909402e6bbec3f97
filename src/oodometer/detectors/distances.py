"""Detectors that measure a distance to the training samples or to their classes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from oodometer.detectors._arrays import blocks, by_rows, precise
from oodometer.detectors._checks import require_labelled, require_range, usable_neighbors
from oodometer.detectors._gaussians import (
    FlatGaussian,
    around_everything,
    class_moments,
    per_class,
    require_room,
    space_of,
    tied,
)
from oodometer.detectors._neighbors import Neighbors, as_given, on_unit_sphere
from oodometer.detectors._shared import drawn_share, once
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.whitening import Gaussians

_KNN_GRID = (50, 100, 200, 500, 1000)
_LOF_GRID = (10, 20, 50)


def _distance_to(fitted: Sequence[Gaussians | FlatGaussian], outputs: View, space: str) -> Tensor:
    """Squared distance of each sample to the nearest of these distributions."""

    def compute() -> Tensor:
        values = space_of(outputs, space)
        per_row = 5 * values.shape[1] + max(each.groups for each in fitted)
        if len(fitted) == 1:
            return by_rows(fitted[0].squared_distance, values, numbers_per_row=per_row)
        found = []
        for part in blocks(len(values), per_row):  # large ones: each reads all covariances
            rows = precise(values[part])
            nearest = fitted[0].squared_distance(rows)
            for each in fitted[1:]:
                nearest = torch.minimum(nearest, each.squared_distance(rows))
            found.append(nearest)
        return torch.cat(found)

    return once(outputs, (*fitted, space), compute)


@detector(
    paper="Lee et al. 2018, arXiv:1807.03888",
    needs={"features", "logits", "labels"},
    grid={"space": ("features", "logits"), "covariance": ("tied", "per_class")},
    needs_for={"space": {"features": {"features"}, "logits": {"logits"}}},
)
def mahalanobis(train: View, *, space: str = "features", covariance: str = "tied") -> Scorer:
    """Squared Mahalanobis distance to the nearest class mean.

    min_c (x - m_c)' S^-1 (x - m_c), S the covariance around the class means over all training
    samples or, with covariance="per_class", over those of class c. x is the feature or the logits.
    One layer and no input perturbation, like most re-implementations; classes are the training
    labels, samples labelled -1 are ignored, and a class without samples has no mean. Covariances
    are divided by the number of samples. Directions without variance: see `whitening`; a class
    without any variance (one sample) uses the shared covariance. Other variants in use: half of
    this, an undivided covariance, or the square root (the same order).
    """
    require_labelled("mahalanobis", train.labels)
    if covariance == "per_class":
        require_room("mahalanobis", covariance, train, space)
        fitted: Sequence[Gaussians | FlatGaussian] = per_class(train, space)
    else:
        fitted = (tied(train, space),)
    return lambda test: _distance_to(fitted, test, space).clone()  # the shared one stays as it is


@detector(paper="Ren et al. 2021, arXiv:2106.09022", needs={"features", "labels"})
def relative_mahalanobis(train: View) -> Scorer:
    """Mahalanobis distance to the nearest class minus the distance to all training data.

    min_c d_c^2 - d_0^2, d_c as in `mahalanobis`, d_0 with the mean and covariance of all labelled
    training samples regardless of class. Deviations in a direction without training variance (a
    dead unit) contribute equally to both and cancel.
    """
    require_labelled("relative_mahalanobis", train.labels)

    classes = tied(train, "features")
    everything = train.shared(
        "background", lambda: around_everything(class_moments(train, "features"))
    )
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

    ||x - x_(k)||, on features of unit norm (the paper) or unchanged (normalize=False). Some
    libraries return the square: the same order. A zero feature stays at the origin. The default k
    is reduced to the size of a smaller training set; any other k that is too large is an error.
    share < 1 searches a fixed random share of the training features, for very large training
    sets.
    """
    require_range("knn", "share", share, above=0, at_most=1)
    require_range("knn", "k", k, at_least=1)
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
        rows = drawn_share(train, max(1, round(share * len(train))))
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
    neighbours are used; the original definition adds others at the same distance. The default is
    reduced on a training set with fewer samples; any other number that is too large is an error.
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
