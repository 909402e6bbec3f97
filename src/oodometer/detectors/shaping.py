"""Detectors that reshape the features, the head or the logits and take the energy of the result."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import torch
from torch import Tensor

from oodometer.detectors._arrays import by_rows, energy_of, percentile_of
from oodometer.detectors._checks import require_labelled, require_range
from oodometer.detectors._shared import Same, class_sums, feature_mean, head_of, once
from oodometer.outputs import View
from oodometer.registry import Scorer, detector


def _level(train: View, percent: float) -> float:
    """Percentile of all numbers in the training features."""
    return once(
        train, ("feature percentile", percent), lambda: percentile_of(train.features, percent)
    )


@detector(
    paper="Sun, Guo & Li 2021, arXiv:2111.12797",
    needs={"features", "head"},
    grid={"percentile": (80, 85, 90, 95, 99)},
)
def react(train: View, *, percentile: int = 90) -> Scorer:
    """Energy after clipping the features at a percentile of all training activations.

    -log sum_c exp(z_c), z = W min(x, t) + b, t the percentile (linear interpolation) of all values
    in the training feature matrix.
    """
    require_range("react", "percentile", percentile, above=0, at_most=100)
    weight, bias = head_of(train)
    ceiling = _level(train, percentile)
    score = partial(_clipped_energy, ceiling=ceiling, weight=weight, bias=bias)
    per_row = 3 * weight.shape[1] + 3 * len(bias)
    return lambda test: by_rows(score, test.features, numbers_per_row=per_row)


def _clipped_energy(features: Tensor, ceiling: float, weight: Tensor, bias: Tensor) -> Tensor:
    return energy_of(features.clamp(max=ceiling) @ weight.T + bias)


@detector(
    paper="Xu et al. 2023, VRA, arXiv:2302.11716",
    needs={"features", "head"},
    grid={"low": (60, 75), "high": (90, 95, 99), "below": ("zero", "clip")},
)
def vra(train: View, *, low: int = 60, high: int = 95, below: str = "zero") -> Scorer:
    """Energy after suppressing small features and clipping large ones.

    -log sum_c exp(z_c), z = W x' + b, where x' is 0 below the threshold a and min(x, t) above it; a
    and t are percentiles of all values in the training feature matrix. below="clip" raises small
    features to a instead of removing them, as OpenOOD does; pytorch-ood does so too, with separate
    thresholds for every unit. Both use percentiles up to 15 for a, which after a ReLU are mostly 0
    and leave ReAct. The paper's VRA+ adds a constant to the values between.
    """
    require_range("vra", "high", high, above=0, at_most=100)
    require_range("vra", "low", low, at_least=0, below=high)
    weight, bias = head_of(train)
    floor, ceiling = _level(train, low), _level(train, high)

    def score(features: Tensor) -> Tensor:
        if below == "clip":
            shaped = features.clamp(floor, ceiling)
        else:
            shaped = torch.where(features < floor, 0.0, features.clamp(max=ceiling))
        return energy_of(shaped @ weight.T + bias)

    per_row = 4 * weight.shape[1] + 3 * len(bias)
    return lambda test: by_rows(score, test.features, numbers_per_row=per_row)


def _sparse(weight: Tensor, contribution: Tensor, percentile: float) -> Tensor:
    """Return the weights whose contribution lies above the percentile of all; zero for the rest."""
    return torch.where(contribution > percentile_of(contribution, percentile), weight, 0.0)


@detector(
    paper="Sun & Li 2022, arXiv:2111.09805",
    needs={"features", "head"},
    grid={"percentile": (10, 30, 50, 70, 90)},
)
def dice(train: View, *, percentile: int = 70) -> Scorer:
    """Energy with only the head weights that contribute most on the training data.

    -log sum_c exp(z_c), z = (M * W) x + b, M = 1 where mean(x)_j W_cj is above the percentile of
    all these products. The bias is unchanged.
    """
    require_range("dice", "percentile", percentile, at_least=0, below=100)
    weight, bias = head_of(train)
    kept = _sparse(weight, weight * feature_mean(train), percentile)

    def score(features: Tensor) -> Tensor:
        return energy_of(features @ kept.T + bias)

    per_row = 2 * weight.shape[1] + 3 * len(bias)
    return lambda test: by_rows(score, test.features, numbers_per_row=per_row)


@detector(
    paper="Ahn, Park & Kim 2023, LINe, arXiv:2303.13995",
    needs={"features", "logits", "labels", "head"},
    grid={"weights": (10, 50, 90), "percentile": (90, 95), "masks": ("class", "all")},
    needs_for={"masks": {"class": {"logits", "labels"}, "all": set()}},
)
def line(train: View, *, weights: int = 10, percentile: int = 90, masks: str = "class") -> Scorer:
    """Energy from clipped features, important units and important weights: ReAct with DICE.

    -log sum_c exp(z_c), z = (M_k * W) (a_k * min(x, t)) + b, k the predicted class (in the
    authors' code, the class predicted from the clipped features). The contribution of unit j to
    class k is s_kj = |mean over the training samples of class k of x_j W_kj|, the first-order
    Shapley value of the paper, which is exact for a linear head. a_k keeps the units with s_kj, and
    M_k the weights with s_kj W_cj, above their `weights`-th percentile; t is a percentile of all
    training activations. masks="all" is DICE after ReAct: one mask for all classes, W_cj mean(x)_j
    above the percentile, and no unit removed. A class without training samples uses the mean
    feature of all.
    """
    require_range("line", "weights", weights, at_least=0, below=100)
    require_range("line", "percentile", percentile, above=0, at_most=100)
    weight, bias = head_of(train)
    ceiling = _level(train, percentile)
    per_row = 3 * weight.shape[1] + 3 * len(bias)
    if masks == "all":
        kept = _sparse(weight, weight * feature_mean(train), weights)

        energy_of_all = partial(_clipped_energy, ceiling=ceiling, weight=kept, bias=bias)
        return lambda test: by_rows(energy_of_all, test.features, numbers_per_row=per_row)
    require_labelled("line", train.labels)
    sums = once(
        train, "line sums", lambda: class_sums(train.features.detach(), train.labels, len(bias))
    )
    means = torch.where(sums.counts[:, None] > 0, sums.means, feature_mean(train))
    contribution = (means * weight).abs()

    def threshold(group: int) -> float:
        """Percentile of the contributions of all weights; nothing else is the same for settings."""
        return once(
            train,
            ("line", group, weights),
            lambda: percentile_of(contribution[group] * weight, weights),
        )

    def scored(test: View) -> Tensor:
        guess = test.logits.argmax(1)
        found = bias.new_empty(len(test))
        for group in sorted(set(guess.tolist())):
            important = contribution[group]
            units = important > percentile_of(important, weights)
            kept = torch.where((important * weight > threshold(group)) & units, weight, 0.0)
            rows = (guess == group).nonzero()[:, 0]
            energy = partial(_clipped_energy, ceiling=ceiling, weight=kept, bias=bias)
            values = by_rows(energy, test.features[rows], numbers_per_row=per_row)
            found = found.index_put((rows.to(found.device),), values)
        return found

    return scored


# exp(_STEEPEST) times any logit is still a number; reached only if fewer than 1 in 500 are kept.
_STEEPEST = 500.0
_PERCENTILES = (65, 70, 75, 80, 85, 90, 95)


def _kept(width: int, percentile: float) -> int:
    """How many of the features are not pruned."""
    return max(1, width - round(width * percentile / 100))


# How large a feature counts that may be negative.
_SIZES: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {"absolute": torch.abs, "signed": torch.clone, "rectified": torch.relu}
)


def _ladder(view: View, percentile: float, size: str) -> Tensor:
    """Per sample: the smallest size kept, the sum of those kept, and the sum of all, (n, 3).

    One sort serves all percentiles.
    """
    width = view.features.shape[1]
    grid = _PERCENTILES if percentile in _PERCENTILES else (percentile,)
    counts = torch.tensor([_kept(width, value) for value in grid]) - 1

    def climb(features: Tensor) -> Tensor:
        ordered = _SIZES[size](features).sort(dim=1, descending=True).values
        sums = ordered.cumsum(1)
        places = counts.to(sums.device)
        total = sums[:, -1:].expand(-1, len(grid))
        return torch.stack([ordered[:, places], sums[:, places], total], dim=2)

    found = once(
        view,
        ("ladder", grid, size),
        lambda: by_rows(climb, view.features, numbers_per_row=5 * width),
    )
    return found[:, grid.index(percentile)]


def _concentration(strong: Tensor, total: Tensor) -> Tensor:
    """Sum of all over sum of the largest; 1 where these sum to nothing."""
    return torch.where(strong != 0, total / torch.where(strong != 0, strong, 1.0), 1.0)


def _steepness(strong: Tensor, total: Tensor) -> Tensor:
    """What features are multiplied by: exp(s1 / s2), as far as numbers go."""
    return _concentration(strong, total).clamp(-_STEEPEST, _STEEPEST).exp()


@detector(
    paper="Djurisic et al. 2023, arXiv:2209.09858",
    needs={"features", "head"},
    grid={
        "percentile": _PERCENTILES,
        "variant": ("s", "b", "p"),
        "negative": ("absolute", "signed"),
    },
)
def ash(
    train: View, *, percentile: int = 65, variant: str = "s", negative: str = "absolute"
) -> Scorer:
    """Energy after pruning small features of each sample and rescaling the rest.

    -log sum_c exp(z_c), z = W x' + b. Of n features, the n - round(n percentile / 100) largest are
    kept (at least one; ties with the smallest kept one are kept too). variant "p" leaves them as
    they are; "s" multiplies them by exp(s1 / s2), s1 and s2 the sums of all and of the kept
    features; "b" replaces each nonzero one by s1 / (their number), which keeps the sum (published
    code for "b" may also fill zeros, in arbitrary order). After a ReLU no feature is negative; for
    others (GELU, ViT), negative="absolute" lets absolute values decide, sums them and keeps signs,
    so that s1 / s2 is at least 1, as the paper has it. "signed" is what published code does with
    them: the largest values are kept and summed with their signs, and s1 / s2 may be anything.
    """
    require_range("ash", "percentile", percentile, at_least=0, below=100)
    weight, bias = head_of(train)

    classes, width = weight.shape

    def prune(features: Tensor, ladder: Tensor) -> Tensor:
        # Which features are kept does not change in a neighbourhood: no gradient flows there.
        chosen = _SIZES[negative](features) >= ladder[:, :1].detach()
        kept = torch.where(chosen, features, 0.0)
        lit = kept != 0
        signs = kept.sign() if negative == "absolute" else lit.to(kept.dtype)
        sums = torch.stack([_SIZES[negative](kept).sum(1), lit.sum(1).clamp_min(1)], dim=1)
        return torch.cat([kept @ weight.T, signs @ weight.T, sums], dim=1)

    def scored(test: View) -> Tensor:
        ladder = _ladder(test, percentile, negative)
        pruned = once(  # the variants differ in what follows
            test,
            ("pruned", percentile, negative, Same(train.head.weight)),
            lambda: by_rows(prune, test.features, ladder, numbers_per_row=6 * width + 2 * classes),
        )
        logits, signs = pruned[:, :classes], pruned[:, classes:-2]
        strong, count = pruned[:, -2:].T
        total = ladder[:, 2]
        if variant == "b":
            logits = signs * (total / count)[:, None]
        elif variant == "s":
            logits = logits * _steepness(strong, total)[:, None]
        return energy_of(logits + bias)

    return scored


@detector(
    paper="Xu et al. 2024, SCALE, arXiv:2310.00227",
    needs={"features", "head"},
    grid={"percentile": _PERCENTILES, "negative": ("absolute", "signed")},
)
def scale(train: View, *, percentile: int = 85, negative: str = "absolute") -> Scorer:
    """Energy after scaling the features by how little the largest ones dominate.

    -log sum_c exp(z_c), z = exp(s1 / s2) W x + b, s1 and s2 the sums of all features and of the
    n - round(n percentile / 100) largest, at least one: `ash` without pruning. For features that
    may be negative, absolute values are summed; negative="signed" is the published sum of the
    values themselves, as in `ash`.
    """
    require_range("scale", "percentile", percentile, at_least=0, below=100)
    weight, bias = head_of(train)

    def score(features: Tensor, factor: Tensor) -> Tensor:
        return energy_of(features @ weight.T * factor[:, None] + bias)

    def scored(test: View) -> Tensor:
        factor = _steepness(*_ladder(test, percentile, negative)[:, 1:].T)
        return by_rows(
            score, test.features, factor, numbers_per_row=weight.shape[1] + 4 * len(bias)
        )

    return scored


@detector(
    paper="Djurisic, Liu & Nikolic 2024, LTS, arXiv:2409.01175",
    needs={"features", "logits"},
    grid={"percentile": (80, 85, 90, 95)},
)
def lts(train: View, *, percentile: int = 95) -> Scorer:
    """Energy of the logits, scaled by how little the largest features dominate.

    -log sum_c exp(S z_c), S = (s1 / s2)^2, s1 and s2 the sums of all features and of the
    n - round(n percentile / 100) largest, at least one. Negative features count as zero in both
    sums, as in the authors' code; a sample without positive features keeps its logits.
    """
    require_range("lts", "percentile", percentile, at_least=0, below=100)

    def score(logits: Tensor, factor: Tensor) -> Tensor:
        return energy_of(logits * factor[:, None])

    def scored(test: View) -> Tensor:
        factor = _concentration(*_ladder(test, percentile, "rectified")[:, 1:].T).square()
        return by_rows(score, test.logits, factor, numbers_per_row=4 * test.logits.shape[1])

    return scored


_LEVELS = (60, 65, 70, 75, 80, 85, 90, 95, 99)
_PAIRS = tuple(f"{low}-{high}" for low, high in itertools.combinations(_LEVELS, 2))


@detector(
    paper="Regmi 2025, AdaSCALE, arXiv:2503.08023",
    needs={"features", "head", "probe:adascale"},
    grid={"percentiles": _PAIRS, "variant": ("a", "l")},
)
def adascale(train: View, *, percentiles: str = "75-85", variant: str = "a") -> Scorer:
    """Energy after scaling by `scale`'s factor at a percentile of the sample's own.

    -log sum_c exp(z_c), z = exp(r) W x + b (variant "a") or r^2 (W x + b) ("l"), r = s1 / s2, the
    sums of all features and of the n - round(n p / 100) largest, negative ones counting as zero.
    p = low + (1 - F(q)) (high - low), F the share of training samples with at most q, and
    q = C + 10 Q: where the input is moved at its least important values, C is the sum of the
    features that were the largest 5%, Q how far the largest 1% moved (of each at least one). The
    more stable the features, the higher p. OpenOOD takes F from 5,000 validation samples.
    """
    low, high = map(int, percentiles.split("-"))
    weight, bias = head_of(train)
    width = weight.shape[1]
    usual = train.shared("adascale", lambda: _instability(train).sort().values)

    def score(features: Tensor, unstable: Tensor) -> Tensor:
        stable = 1 - torch.searchsorted(usual, unstable, right=True) / len(usual)
        percent = low + stable * (high - low)
        kept = (width - (width * percent / 100).round().long()).clamp_min(1)
        sums = features.relu().sort(dim=1, descending=True).values.cumsum(1)
        ratio = _concentration(sums.gather(1, kept[:, None] - 1)[:, 0], sums[:, -1])[:, None]
        if variant == "l":
            return energy_of((features @ weight.T + bias) * ratio.square())
        return energy_of(features @ weight.T * ratio.clamp(max=_STEEPEST).exp() + bias)

    def scored(test: View) -> Tensor:
        unstable = once(test, "adascale", lambda: _instability(test))
        per_row = 4 * width + 4 * len(bias)
        return by_rows(score, test.features, unstable, numbers_per_row=per_row)

    return scored


def _instability(view: View) -> Tensor:
    """Q of `adascale`: how strong, and by ten times as much how unsteady the largest features."""
    width = view.features.shape[1]

    def measure(features: Tensor, moved: Tensor) -> Tensor:
        order = features.argsort(dim=1, descending=True, stable=True)
        largest, few = order[:, : max(1, width // 20)], order[:, : max(1, width // 100)]
        strength = moved.gather(1, largest).relu().sum(1)
        return strength + 10 * (features - moved).abs().gather(1, few).sum(1)

    return by_rows(measure, view.features, view.probe("adascale"), numbers_per_row=5 * width)
