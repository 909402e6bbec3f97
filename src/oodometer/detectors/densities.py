"""Detectors that fit a density, or the border of one, to the training features."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from oodometer.detectors._arrays import blocks, by_rows, precise
from oodometer.detectors._checks import require_labelled, require_range
from oodometer.detectors._gaussians import per_class, require_room, tied
from oodometer.detectors._shared import labelled_sums, numbered_labels, once
from oodometer.outputs import View
from oodometer.registry import Scorer, detector


@detector(
    paper="Mukhoti et al. 2023, DDU, arXiv:2102.11582",
    needs={"features", "labels"},
    grid={"covariance": ("full", "tied", "diagonal")},
)
def gaussian_mixture(train: View, *, covariance: str = "full") -> Scorer:
    """Minus the log-likelihood of the feature under one Gaussian per class.

    -log sum_c q_c N(x; m_c, S_c), q_c the share, m_c the mean and S_c the covariance (divided by
    the number of samples) of class c in the training labels. covariance: "full" per class, one
    "tied" for all, or each class's "diagonal". Classes are known, so no iteration is needed. A
    direction without variance in a class gets the smallest variance that can be resolved there; a
    class without any variance, such as a single sample, uses the tied covariance. pytorch-ood adds
    1e-6 to every variance instead, which is the same if all can be resolved.
    """
    require_labelled("gaussian_mixture", train.labels)
    if covariance == "full":
        require_room("gaussian_mixture", covariance, train, "features")
    sums = labelled_sums(train)
    counts = sums.counts[sums.counts > 0]
    width, classes = train.features.shape[1], len(counts)
    share = (counts / counts.sum()).log() - width / 2 * math.log(2 * math.pi)
    log_terms = {"full": _full, "tied": _tied, "diagonal": _diagonal}[covariance](train, share)

    def scored(test: View) -> Tensor:
        # Blocks as large as memory allows: with many classes, each costs a step per block.
        parts = blocks(len(test), 5 * width + 3 * classes)
        return -torch.cat([log_terms(precise(test.features[rows])).logsumexp(1) for rows in parts])

    return scored


LogTerms = Callable[[Tensor], Tensor]  # rows -> logarithm of every class's part of the density


def _full(train: View, share: Tensor) -> LogTerms:
    """One covariance for each class."""
    fitted = per_class(train, "features")
    offset = share + torch.stack([each.log_volume for each in fitted])
    return lambda rows: (
        offset - torch.stack([each.squared_distance(rows) for each in fitted], dim=1) / 2
    )


def _tied(train: View, share: Tensor) -> LogTerms:
    """One covariance for all classes."""
    fitted = tied(train, "features")
    return lambda rows: share + fitted.log_volume - fitted.squared_distances(rows) / 2


def _diagonal(train: View, share: Tensor) -> LogTerms:
    """One variance for each unit of each class."""
    fitted = once(train, "diagonal mixture", lambda: _variances(train))
    origin, means, precision = fitted.origin, fitted.means, 1 / fitted.variances
    pull = means * precision
    offset = share - fitted.variances.log().sum(1) / 2 - (pull * means).sum(1) / 2

    def log_terms(rows: Tensor) -> Tensor:
        gap = rows - origin
        return offset + gap @ pull.T - gap.square() @ precision.T / 2

    return log_terms


class _Units(NamedTuple):
    """What is usual for every unit in every class."""

    origin: Tensor  # (width,)
    means: Tensor  # (classes, width), relative to the origin
    variances: Tensor  # (classes, width)


@torch.no_grad()
def _variances(train: View) -> _Units:
    """Means and variances of the units by class; what has no spread gets the usual one."""
    sums = labelled_sums(train)
    present = sums.counts > 0
    counts = sums.counts[:, None]
    origin = sums.sums.sum(0) / counts.sum()
    squares, sizes = torch.zeros_like(sums.sums), torch.zeros_like(sums.sums)
    for part in blocks(len(train), 4 * len(origin)):
        labels = numbered_labels(train)[part].to(origin.device)
        rows = precise(train.features[part])[labels >= 0]
        labels = labels[labels >= 0]
        squares.index_add_(0, labels, (rows - sums.means[labels]).square())
        sizes.index_add_(0, labels, rows.square())
    smallest = (4 * torch.finfo(train.features.dtype).eps) ** 2
    noise = smallest * sizes / counts.clamp_min(1)
    pooled = squares.sum(0) / counts.sum()
    alive = pooled > smallest * sizes.sum(0) / counts.sum()
    usual = torch.where(alive, pooled, pooled[alive].amin() if bool(alive.any()) else 1.0)
    variances = squares / counts.clamp_min(1)
    variances = torch.where(variances > noise, variances, usual)
    return _Units(origin, (sums.means - origin)[present], variances[present])


def _in_order(features: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the rows in float64, sorted: what is fitted must not depend on their order."""
    rows = precise(features.detach()).cpu().numpy()
    ordered: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = rows[np.lexsort(rows.T[::-1])]
    return ordered


@detector(
    paper="Schölkopf et al. 2001, doi:10.1162/089976601750264965",
    needs={"features"},
    grid={"nu": (0.5, 0.1)},
)
def one_class_svm(train: View, *, nu: float = 0.5) -> Scorer:
    """Minus the logarithm of the kernel sum of a one-class support vector machine.

    -log sum_i a_i exp(-g ||x - x_i||^2) over the support vectors, g = 1 / (width * variance of
    all training values), fitted by scikit-learn. Its own score is the sum, which underflows far
    from the data; the logarithm has the same order and does not. `nu` bounds the share of training
    samples outside. Cost is quadratic in the number of training samples.
    """
    require_range("one_class_svm", "nu", nu, above=0, at_most=1)
    from sklearn.svm import OneClassSVM

    rows = _in_order(train.features)
    variance = rows.var()
    # Centred and scaled, which changes nothing but the rounding: the kernel reads differences.
    centre = rows.mean(0)
    rows = rows - centre
    size = float(np.abs(rows).max()) or 1.0
    narrow = size**2 / (rows.shape[1] * variance) if variance > 0 else 1.0
    machine = OneClassSVM(nu=nu, gamma=narrow, tol=1e-6)
    machine.random_state = 0  # it draws a seed that this solver never uses, from NumPy's own state
    machine.fit(rows / size)
    device = precise(train.features[:1]).device
    support = torch.from_numpy(machine.support_vectors_).to(device)
    log_weight = torch.from_numpy(machine.dual_coef_[0]).to(device).log()
    middle = torch.from_numpy(centre).to(device)

    def score(features: Tensor) -> Tensor:
        points = (features - middle) / size
        products = points @ support.T
        squares = points.square().sum(1, keepdim=True) + support.square().sum(1) - 2 * products
        return -(log_weight - narrow * squares).logsumexp(1)

    per_row = 2 * support.shape[1] + 4 * len(support)
    return lambda test: by_rows(score, test.features, numbers_per_row=per_row)


@detector(
    paper="Liu, Ting & Zhou 2008, doi:10.1109/ICDM.2008.17",
    needs={"features"},
    grid={"trees": (100,), "seed": (0,)},
)
def isolation_forest(train: View, *, trees: int = 100, seed: int = 0) -> Scorer:
    """How quickly random splits isolate the sample from the training features.

    2^(-mean depth / expected depth) over the trees, each grown on 256 training samples by
    scikit-learn, with a fixed random state. Features are centred and scaled first, which changes no
    split: scikit-learn treats values within 1e-7 as equal and reads float32. It has no gradient.
    """
    require_range("isolation_forest", "trees", trees, at_least=1)
    require_range("isolation_forest", "seed", seed, at_least=0, below=2**32)
    from sklearn.ensemble import IsolationForest

    rows = _in_order(train.features)
    middle = (rows.max(0) + rows.min(0)) / 2
    reach = np.abs(rows - middle).max(0)
    # By powers of two, which round nothing; a unit without spread stays as it is.
    size = np.exp2(np.frexp(np.where(reach > 0, reach, 1.0))[1])
    forest = IsolationForest(n_estimators=trees, random_state=seed).fit((rows - middle) / size)

    def score(features: Tensor) -> Tensor:
        if not len(features):
            return features.new_empty(0)
        # Farther out than this is beyond every cut; float32, which the trees read, ends at 1e38.
        points = ((features.detach().cpu().numpy() - middle) / size).clip(-1e6, 1e6)
        found = -forest.score_samples(points)
        return torch.from_numpy(found).to(features.device)

    per_row = 4 * train.features.shape[1]
    return lambda test: by_rows(score, test.features, numbers_per_row=per_row)
