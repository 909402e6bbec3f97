"""Detectors that fit a density, or the border of one, to the training features."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from oodometer.detectors._arrays import blocks, by_rows, precise
from oodometer.detectors._checks import require_labelled, require_range
from oodometer.detectors._shared import labelled_sums, once
from oodometer.errors import UserError
from oodometer.outputs import View
from oodometer.registry import Scorer, detector

_LARGEST = 4 * 2**30  # bytes of covariance matrices that are still reasonable


@detector(
    paper="Mukhoti et al. 2023, DDU, arXiv:2102.11582",
    needs={"features", "labels"},
    grid={"covariance": ("full", "tied", "diagonal")},
)
def gaussian_mixture(train: View, *, covariance: str = "full") -> Scorer:
    """Minus the log-likelihood of the feature under one Gaussian per class.

    -log sum_c q_c N(x; m_c, S_c), q_c the share, m_c the mean and S_c the covariance (divided by
    the number of samples) of class c in the training labels. covariance: one for each class, one
    "tied" for all, or each class's "diagonal". Classes are known, so nothing has to be found by
    iteration. A direction without spread in a class has no variance; it gets the smallest one that
    could be resolved there, and a class without any, such as a single sample, takes the tied one.
    pytorch-ood adds 1e-6 to every variance instead: the same where all can be resolved.
    """
    require_labelled("gaussian_mixture", train.labels)
    width = train.features.shape[1]
    sums = labelled_sums(train)
    present = int((sums.counts > 0).sum())
    needed = 8 * present * width**2
    if covariance == "full" and needed > _LARGEST:
        raise UserError(
            f"Detector 'gaussian_mixture' with covariance=full needs {needed / 2**30:.0f} GiB for "
            f"{present} classes of width {width}: use covariance=tied or covariance=diagonal."
        )
    fitted = once(train, ("gaussian mixture", covariance), lambda: _fit(train, covariance))

    def scored(test: View) -> Tensor:
        # Blocks as large as memory allows: with many classes, each costs a step per block.
        parts = blocks(len(test), 5 * width + 2 * present)
        found = [fitted.log_terms(precise(test.features[rows])).logsumexp(1) for rows in parts]
        return -torch.cat(found)

    return scored


class _Mixture(NamedTuple):
    """Gaussians by their means and what makes the covariance of each, or of all, the identity."""

    origin: Tensor  # (width,)
    means: Tensor  # (classes, width), relative to the origin
    whiten: Tensor  # (classes or 1, width, width), or (classes, width) if diagonal
    offset: Tensor  # (classes,) log of share and of the density at the mean

    def log_terms(self, features: Tensor) -> Tensor:
        """Logarithm of every class's part of the density, (n, classes)."""
        rows = features - self.origin
        if self.whiten.dim() == 2:
            precision = self.whiten.square()
            pull = self.means * precision
            constant = (pull * self.means).sum(1)
            squares = rows.square() @ precision.T - 2 * rows @ pull.T + constant
        elif len(self.whiten) == 1:
            points, means = rows @ self.whiten[0], self.means @ self.whiten[0]
            squares = points.square().sum(1, keepdim=True) - 2 * points @ means.T
            squares = squares + means.square().sum(1)
        else:
            gaps = [
                ((rows - mean) @ whiten).square().sum(1)
                for mean, whiten in zip(self.means, self.whiten, strict=True)
            ]
            squares = torch.stack(gaps, dim=1)
        return self.offset - squares / 2


@torch.no_grad()
def _fit(train: View, covariance: str) -> _Mixture:
    sums = labelled_sums(train)
    present = (sums.counts > 0).nonzero()[:, 0]
    counts, means = sums.counts[present], sums.means[present]
    origin = (means * counts[:, None]).sum(0) / counts.sum()
    means = means - origin
    width, total = train.features.shape[1], float(counts.sum())
    labels = train.labels.to(means.device)
    largest = precise(train.features.detach().abs().amax(0))
    noise = (4 * torch.finfo(train.features.dtype).eps * largest).square()

    def scatter(which: int) -> Tensor:
        """Sum of squares around the class's mean, and of products unless those are ignored."""
        rows = (labels == present[which]).nonzero()[:, 0]
        found = torch.zeros_like(tied)
        for part in blocks(len(rows), 2 * width):
            chosen = rows[part].to(train.features.device)
            gap = precise(train.features[chosen]) - origin - means[which]
            found += gap.square().sum(0) if covariance == "diagonal" else gap.T @ gap
        return found

    tied = origin.new_zeros((width,) if covariance == "diagonal" else (width, width))
    own = []
    for which in range(len(present)):
        squares = scatter(which)
        tied += squares / total
        if covariance != "tied":
            own.append(squares / counts[which])
    share = (counts / total).log() - width / 2 * math.log(2 * math.pi)
    if covariance == "diagonal":
        alive = tied > noise
        usual = torch.where(alive, tied, tied[alive].amin() if bool(alive.any()) else 1.0)
        variances = torch.stack(own)
        variances = torch.where(variances > noise, variances, usual)
        return _Mixture(origin, means, variances.rsqrt(), share - variances.log().sum(1) / 2)
    spare = _whitening(tied, noise, (torch.eye(width).to(tied), 0.0))
    if covariance == "tied":
        return _Mixture(origin, means, spare[0][None], share + spare[1])
    whitenings = [_whitening(part, noise, spare) for part in own]
    logs = share.new_tensor([log for _, log in whitenings])
    return _Mixture(origin, means, torch.stack([matrix for matrix, _ in whitenings]), share + logs)


def _whitening(
    covariance: Tensor, noise: Tensor, spare: tuple[Tensor, float]
) -> tuple[Tensor, float]:
    """Return what makes the covariance the identity, with the logarithm of its own determinant.

    Units are scaled to spread one first, so that their size does not decide what is resolved. A
    covariance without any spread gets the spare one.
    """
    spread = covariance.diagonal()
    alive = spread > noise
    if not bool(alive.any()):
        return spare
    scale = torch.where(alive, spread, spread[alive].amin()).sqrt()
    variances, directions = torch.linalg.eigh(covariance / scale / scale[:, None])
    rounding = torch.finfo(torch.float64).eps * len(scale)
    floor = torch.maximum((noise / scale.square())[alive].amax(), variances[-1] * rounding)
    resolved = variances > floor
    variances = torch.where(resolved, variances, variances[resolved].amin())
    whiten = directions / variances.sqrt() / scale[:, None]
    return whiten, float(-variances.log().sum() / 2 - scale.log().sum())


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
    all training numbers), fitted by scikit-learn. Its own score is the sum itself, which is 0 for
    everything far away; the logarithm has the same order and goes on. `nu` bounds the share of
    training samples outside. Costs the square of the number of training samples.
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
    """How soon random cuts part the sample from the training features.

    2^(-mean depth / usual depth) over the trees, each grown on 256 training samples by
    scikit-learn, with a random state of its own. It has no gradient.
    """
    require_range("isolation_forest", "trees", trees, at_least=1)
    require_range("isolation_forest", "seed", seed, at_least=0)
    from sklearn.ensemble import IsolationForest

    forest = IsolationForest(n_estimators=trees, random_state=seed).fit(_in_order(train.features))

    def score(features: Tensor) -> Tensor:
        if not len(features):
            return features.new_empty(0)
        found = -forest.score_samples(features.detach().cpu().numpy())
        return torch.from_numpy(found).to(features.device)

    per_row = 4 * train.features.shape[1]
    return lambda test: by_rows(score, test.features, numbers_per_row=per_row)
