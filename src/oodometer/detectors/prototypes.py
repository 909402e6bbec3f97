"""Detectors that compare a feature with one vector per class, or with stored training features."""

from __future__ import annotations

import torch
from torch import Tensor

from oodometer.detectors._arrays import blocks, by_rows, precise
from oodometer.detectors._checks import (
    require_labelled,
    require_range,
    require_two_classes,
    usable_neighbors,
)
from oodometer.detectors._neighbors import Neighbors, as_given
from oodometer.detectors._shared import (
    Same,
    class_sums,
    energies,
    feature_mean,
    head_of,
    labelled_sums,
    largest_feature,
    once,
    posterior,
)
from oodometer.outputs import View
from oodometer.registry import Scorer, detector


def _unit(rows: Tensor) -> Tensor:
    """Return the rows at length one; a row of zeros has no direction and stays zero."""
    length = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / torch.where(length > 0, length, 1.0)


@detector(
    paper="Zhang et al. 2023, SHE, ICLR, openreview.net/forum?id=KkazG4lgKL",
    needs={"features", "relative_logits", "labels"},
    grid={"metric": ("inner", "cosine", "euclidean")},
)
def she(train: View, *, metric: str = "inner") -> Scorer:
    """Simplified Hopfield energy: minus the inner product with the predicted class's pattern.

    -x . s_c, c the predicted class, s_c the mean feature of the correctly classified training
    samples of class c: the paper's simplified form, not its HE, which stores every sample. The
    other metrics are ablations of the paper: minus the cosine, and ||x - s_c||. A class without a
    correct sample (an error in pytorch-ood) uses the mean of the samples labelled OR predicted c;
    without these either, the mean of all training features.
    """
    require_labelled("she", train.labels)
    patterns = once(train, "she patterns", lambda: _patterns(train))
    if metric == "cosine":
        patterns = _unit(patterns)

    def score(features: Tensor, logits: Tensor) -> Tensor:
        stored = patterns[logits.argmax(1)]
        if metric == "euclidean":
            distance: Tensor = torch.linalg.vector_norm(features - stored, dim=1)
            return distance
        rows = _unit(features) if metric == "cosine" else features
        return -(rows * stored).sum(1)

    return lambda test: by_rows(
        score,
        test.features,
        test.relative_logits,
        numbers_per_row=4 * test.features.shape[1] + test.relative_logits.shape[1],
    )


@torch.no_grad()
def _patterns(train: View) -> Tensor:
    """Return the stored pattern of every class, (classes, width)."""
    classes, labels = train.relative_logits.shape[1], train.labels
    guess = train.relative_logits.argmax(1).to(labels.device)
    right = torch.where(guess == labels, labels, -1)
    correct = class_sums(train.features, right, classes)
    # Labelled OR predicted: every row counts for its guess, a wrong one for its label too.
    guessed = class_sums(train.features, guess, classes)
    sums, counts = guessed.sums, guessed.counts
    wrong = torch.where(guess != labels, labels, -1)
    if bool((wrong >= 0).any()):
        also = class_sums(train.features, wrong, classes)
        sums, counts = sums + also.sums, counts + also.counts
    either = sums / counts.clamp_min(1)[:, None]
    stored = torch.where(counts[:, None] > 0, either, feature_mean(train))
    return torch.where(correct.counts[:, None] > 0, correct.means, stored)


@detector(paper="Mensink et al. 2013, doi:10.1109/TPAMI.2013.83", needs={"features", "labels"})
def cosine_to_class_mean(train: View) -> Scorer:
    """Minus the cosine similarity to the nearest class mean.

    -max_c cos(x, m_c), m_c the mean feature of the training samples labelled c: the nearest-mean
    rule of the paper with the angle instead of its learned distance. A class without samples has
    no mean; a zero feature has cosine 0.
    """
    require_labelled("cosine_to_class_mean", train.labels)
    means = _unit(labelled_sums(train).means)

    def score(features: Tensor) -> Tensor:
        return -(_unit(features) @ means.T).amax(1)

    per_row = 3 * train.features.shape[1] + len(means)
    return lambda test: by_rows(score, test.features, numbers_per_row=per_row)


@detector(
    paper="Ming et al. 2022, MCM, arXiv:2211.13445",
    needs={"features", "head"},
    grid={"temperature": (0.01, 0.1, 1.0)},
)
def cosine_to_class_weight(train: View, *, temperature: float = 1.0) -> Scorer:
    """Maximum concept matching: softmax over cosine similarities to the class weights.

    log(1 - max_c softmax(cos(x, w_c) / T)_c). The paper matches images with the text embeddings
    of a vision-language model, which are the weights of its head; other networks use their own
    head's weights. The bias is not used. The paper's confidence is the softmax itself, which gives
    the same order.
    """
    require_range("cosine_to_class_weight", "temperature", temperature, above=0)
    weight, _ = head_of(train)
    require_two_classes("cosine_to_class_weight", weight.T)
    directions = _unit(weight)

    def score(features: Tensor) -> Tensor:
        return posterior(_unit(features) @ directions.T, temperature).log_not_top

    per_row = 3 * weight.shape[1] + 5 * len(weight)
    return lambda test: by_rows(score, test.features, numbers_per_row=per_row)


@detector(
    paper="Liu & Qin 2025, NCI, arXiv:2311.01479",
    needs={"features", "logits", "head"},
    grid={"alpha": (0.0001, 0.0, 0.001, 0.01, 0.1)},
)
def nci(train: View, *, alpha: float = 0.0001) -> Scorer:
    """Neural collapse inspired: how well the centred feature fits its class weight, and its norm.

    -(x - m) . w_c / ||x - m|| - alpha ||x||_1, m the mean training feature, c the predicted class.
    The projection is the cosine times ||w_c||, as in the authors' code. alpha weighs the second
    term and must be tuned, because features have no common scale; alpha=0 uses the projection only
    (the default of pytorch-ood). At the mean itself the first term is 0.
    """
    require_range("nci", "alpha", alpha, at_least=0)
    weight, _ = head_of(train)
    mean = feature_mean(train)

    def score(features: Tensor, logits: Tensor) -> Tensor:
        direction = _unit(features - mean)
        projection = (direction * weight[logits.argmax(1)]).sum(1)
        return torch.stack([-projection, -features.abs().sum(1)], dim=1)

    def scored(test: View) -> Tensor:
        per_row = 4 * weight.shape[1] + len(weight)
        terms = once(
            test,
            ("nci", Same(mean)),
            lambda: by_rows(score, test.features, test.logits, numbers_per_row=per_row),
        )
        return terms[:, 0] + alpha * terms[:, 1]

    return scored


@detector(
    paper="Liu & Qin 2024, fDBD, arXiv:2312.11536",
    needs={"features", "logits", "head"},
    grid={"normalizer": ("mean", "origin")},
)
def fdbd(train: View, *, normalizer: str = "mean") -> Scorer:
    """Minus the mean distance to the decision boundaries, relative to that to the training mean.

    -mean over c != k of (z_k - z_c) / (||w_k - w_c|| ||x - m||), k the predicted class, m the mean
    training feature. normalizer="origin" divides by ||x||, an option of OpenOOD. Classes with
    equal weights have no boundary between them and are skipped; if all are equal the score is 0.
    ||x - m|| is at least the rounding error of the features.
    """
    require_two_classes("fdbd", train.logits)
    weight, _ = head_of(train)
    mean = feature_mean(train)
    between = torch.cdist(weight, weight, compute_mode="donot_use_mm_for_euclid_dist")
    apart = between > 0
    share = torch.where(apart, 1 / torch.where(apart, between, 1.0), 0.0)
    share = share / apart.sum(1, keepdim=True).clamp_min(1)
    origin = mean if normalizer == "mean" else torch.zeros_like(mean)
    rounding = torch.finfo(train.features.dtype).eps * largest_feature(train)
    smallest = rounding.clamp_min(1e-30)

    def score(features: Tensor, logits: Tensor) -> Tensor:
        top, place = logits.max(1, keepdim=True)
        distance = ((top - logits) * share[place[:, 0]]).sum(1)
        length = torch.linalg.vector_norm(features - origin, dim=1)
        return -distance / torch.maximum(length, smallest)

    per_row = 3 * weight.shape[1] + 4 * len(weight)
    return lambda test: by_rows(score, test.features, test.logits, numbers_per_row=per_row)


_ASKED, _TILE = 256, 16_384  # samples that are compared at once with rows of the bank
_GROUP = 8  # products of which only the largest is sorted
_NEIGHBORS = (10, 50, 100)


@detector(
    paper="Park et al. 2023, NNGuide, arXiv:2309.14888",
    needs={"features", "logits"},
    grid={"k": _NEIGHBORS},
)
def nnguide(train: View, *, k: int = 10) -> Scorer:
    """Energy, guided by the similarity to training features of low energy.

    E(x) times the mean of the k largest values of e_i cos(x, x_i) over the training samples, where
    e_i = log sum_c exp(z_c) of sample i and E(x) is minus that of x. The whole training set is the
    bank; the authors use a random share of it. The default k is reduced to the size of a smaller
    training set; any other k that is too large is an error.
    """
    k = usable_neighbors("nnguide", "k", k, default=10, available=len(train))
    features, energy = train.features.detach(), energies(train)
    # One search serves every k of the grid.
    most = max([k, *(value for value in _NEIGHBORS if value <= len(train))])

    def scored(test: View) -> Tensor:
        nearest = once(
            test,
            ("nnguide", Same(energy), most),
            lambda: _largest_products(test.features, features, -energy.detach(), most),
        )
        guidance = precise(nearest[:, :k]).mean(1)
        return guidance * energies(test)

    return scored


def _largest_products(rows: Tensor, bank: Tensor, strength: Tensor, count: int) -> Tensor:
    """Return the `count` largest of cos(row, x_i) * strength_i over the bank, descending.

    In their own type: a search, not a sum. Of a bank in a file, one tile at a time is in memory.
    """
    found = rows.new_full((len(rows), count), -torch.inf)
    for tile in blocks(len(bank), 2 * bank.shape[1], 16 * _TILE * bank.shape[1]):
        known = _unit(bank[tile]) * strength[tile, None].to(bank)
        for part in blocks(len(rows), len(known), 8 * _ASKED * len(known)):
            largest = _largest(_unit(rows[part]) @ known.T, count)
            found[part] = torch.cat([found[part], largest], dim=1).topk(count, dim=1).values
    return found


def _largest(values: Tensor, count: int) -> Tensor:
    """Return the `count` largest of each row, or all if there are fewer.

    They lie in the `count` groups with the largest maxima: most numbers are looked at once only.
    """
    whole = values.shape[1] // _GROUP * _GROUP
    if whole < 4 * _GROUP * count:
        return values.topk(min(count, values.shape[1]), dim=1).values
    groups = values[:, :whole].view(len(values), _GROUP, -1)
    chosen = groups.amax(1).topk(count, dim=1).indices
    likely = groups.gather(2, chosen[:, None].expand(-1, _GROUP, -1)).flatten(1)
    return torch.cat([likely, values[:, whole:]], dim=1).topk(count, dim=1).values


@detector(
    paper="ElAraby et al. 2025, GROOD, arXiv:2312.14427",
    needs={"relative_logits", "labels", "probe:grood"},
)
def grood(train: View) -> Scorer:
    """Distance to the nearest training sample in gradients by a prototype of noise.

    min_j ||g(x) - g(x_j)|| over the training samples that are classified correctly (all, if none
    is). g(x) = s_0 (x - p_0) / ||x - p_0||, s_0 = exp(-||x - p_0||) / sum_c exp(-||x - p_c||),
    where p_c is the mean feature of class c and p_0, one of the terms of the sum, that of noise:
    the gradient by p_0 of the loss of the nearest prototype. OpenOOD can make p_0 from validation
    outliers, too, and searches approximately; it returns the square, which has the same order.
    """
    require_labelled("grood", train.labels)

    def fit() -> Neighbors:
        right = train.relative_logits.argmax(1).to(train.labels.device) == train.labels
        rows = train.probe("grood")
        return Neighbors(rows[right.to(rows.device)] if bool(right.any()) else rows, as_given)

    bank = train.shared("grood", fit)

    def score(test: View) -> Tensor:
        rows = test.probe("grood")
        return bank.distances(rows, bank.nearest(rows.detach(), 1))[:, 0]

    return score
