"""Detectors that read every stage of a network, not its end alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from oodometer.detectors._arrays import blocks, by_rows, energy_of, precise
from oodometer.detectors._checks import require_labelled, require_range, usable_neighbors
from oodometer.detectors._gaussians import moments
from oodometer.detectors._neighbors import Neighbors, on_unit_sphere
from oodometer.errors import UserError
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.whitening import Gaussians, around_classes

_NEIGHBORS = (1, 10, 50, 200)


@detector(paper="Lee et al. 2018, arXiv:1807.03888", needs={"layers", "labels"})
def mahalanobis_ensemble(train: View) -> Scorer:
    """Half the squared Mahalanobis distances to the nearest class mean, summed over the layers.

    sum_l min_c d_lc^2 / 2, d_lc as in `mahalanobis` on the spatial mean of layer l, with one
    covariance per layer. Every layer has weight one and the inputs are not perturbed, as in
    OpenOOD's label-noise study (Humblot-Renaud et al. 2024); the paper learns the weights on
    outliers, see `mahalanobis_weighted`.
    """
    distances = layer_distances("mahalanobis_ensemble", train)
    return lambda test: distances(test).sum(1) / 2


def layer_distances(detector: str, train: View) -> Callable[[View], Tensor]:
    """Return what gives (n, layers): squared distances to the nearest class mean."""
    require_labelled(detector, train.labels)
    fitted = {name: _classes_of(train, name) for name in train.layers}

    def distances(test: View) -> Tensor:
        _require_layers(detector, fitted, test)
        parts = [
            by_rows(
                gaussians.squared_distance,
                test.layers[name],
                numbers_per_row=4 * test.layers[name].shape[1] + len(gaussians.means),
            )
            for name, gaussians in fitted.items()
        ]
        return torch.stack(parts, dim=1)

    return distances


def _classes_of(train: View, name: str) -> Gaussians:
    """One mean per class and one covariance of a layer."""
    return train.shared(
        ("classes of layer", name),
        lambda: around_classes(moments(train.layers[name], train.labels)),
    )


@detector(
    paper="Sun et al. 2022, arXiv:2204.06507; Papernot & McDaniel 2018, arXiv:1803.04765",
    needs={"layers"},
    grid={"k": _NEIGHBORS},
)
def multi_layer_knn(train: View, *, k: int = 50) -> Scorer:
    """Distance to the k-th nearest training sample, summed over the layers.

    sum_l ||x_l - x_l(k)||, x_l the spatial mean of layer l with unit norm: `knn` in every layer
    (the first paper) where the second searches for neighbours. All distances are in [0, 2], so no
    layer dominates. The default k is reduced to the size of a smaller training set; any other k
    that is too large is an error.
    """
    k = usable_neighbors("multi_layer_knn", "k", k, default=50, available=len(train))
    ranks = tuple(sorted({k, *(other for other in _NEIGHBORS if other <= len(train))}))
    banks = {name: _neighbors_of(train, name) for name in train.layers}

    def distance(bank: Neighbors, name: str, test: View) -> Tensor:
        rows = test.layers[name]
        places = test.shared((bank, ranks), lambda: bank.ranked(rows.detach(), ranks))
        column = ranks.index(k)
        return bank.distances(rows, places[:, column : column + 1])[:, 0]

    def score(test: View) -> Tensor:
        _require_layers("multi_layer_knn", banks, test)
        return torch.stack([distance(bank, name, test) for name, bank in banks.items()]).sum(0)

    return score


def _neighbors_of(train: View, name: str) -> Neighbors:
    values = train.layers[name]
    return train.shared(("neighbors of layer", name), lambda: Neighbors(values, on_unit_sphere))


def _require_layers(detector: str, known: Iterable[str], test: View) -> None:
    lacking = [name for name in known if name not in test.layers]
    if lacking:
        raise UserError(
            f"Detector '{detector}' was fitted on the layers {', '.join(known)}, but these outputs "
            f"lack {', '.join(lacking)}."
        )


@detector(
    paper="Sastry & Oore 2020, arXiv:1912.12510",
    needs={"probe:gram", "relative_logits"},
    grid={"variant": ("paper", "code", "openood")},
)
def gram(train: View, *, variant: str = "paper") -> Scorer:
    """Deviation of Gram matrices of the layers from their range for the predicted class.

    sum_l d_l / E[d_l]; d_l sums, over channels and powers p = 1..10, how far the row sums of the
    p-th order Gram matrix of layer l, under a signed p-th root, lie below the smallest or above
    the largest value of the training samples predicted as the same class, relative to that value.
    E[d_l] is the mean over the training samples, each excluded from its own range; the paper
    estimates it on a tenth of the test data, pytorch-ood on a tenth of the training data.
    variant="code" divides by the maximum softmax probability, as the authors' code does but the
    paper does not; "openood" does so too and omits E[d_l], so that the layer with the largest
    values dominates (Humblot-Renaud et al. 2024). Published code has returned the negative.
    """

    def usual() -> Tensor:
        mean = precise(train.probe("gram")).sum(2).mean(0)
        # Without any deviation in training (copies of one sample), a layer counts as it is.
        return torch.where(mean > 0, mean, 1.0)

    expected = None if variant == "openood" else train.shared("gram of layers", usual)

    def score(test: View) -> Tensor:
        deviation = precise(test.probe("gram")).sum(2)
        total = (deviation if expected is None else deviation / expected).sum(1)
        if variant == "paper":
            return total
        return by_rows(
            lambda z, d: d / z.softmax(1).amax(1),
            test.relative_logits,
            total,
            numbers_per_row=3 * test.relative_logits.shape[1],
        )

    return score


@detector(
    paper="Liu et al. 2024, arXiv:2306.02879",
    needs={"probe:nac", "layers"},
    grid={"steepness": (10.0, 100.0, 1000.0), "bins": (50, 500), "full": (50, 500)},
)
def nac(train: View, *, steepness: float = 100.0, bins: int = 50, full: int = 50) -> Scorer:
    """Minus the share of neurons whose state was covered in training.

    -sum_l mean over the neurons i of layer l of min(count_i(u_i) / full, 1).
    u = sigmoid(steepness * z dL/dz) is the neuron's state, z its output and L the divergence of
    the softmax from the uniform one; count_i is the number of training samples in the same of
    `bins` even bins of [0, 1]. A feature map is represented by the mean of z dL/dz over positions.
    Counts are integers, so samples can tie. pytorch-ood spaces its bins geometrically; the paper
    uses even ones.
    """
    require_range("nac", "steepness", steepness, above=0)
    require_range("nac", "bins", bins, at_least=2, at_most=10_000)
    require_range("nac", "full", full, at_least=1, at_most=10**9)
    widths = [values.shape[1] for values in train.layers.values()]
    known = train.probe("nac")
    if known.dim() != 2 or known.shape[1] != sum(widths):
        raise UserError(
            f"Detector 'nac' needs one number per neuron of the layers, ({sum(widths)}), in its "
            f"probe, got shape {tuple(known.shape)}."
        )

    def places(values: Tensor) -> Tensor:
        """Return the bin of each neuron, counted through all neurons."""
        which = (torch.sigmoid(steepness * precise(values)) * bins).long().clamp(max=bins - 1)
        return which + bins * torch.arange(values.shape[1], device=which.device)

    @torch.no_grad()
    def count() -> Tensor:
        size = known.shape[1] * bins
        parts = blocks(len(known), 3 * known.shape[1])
        return torch.stack(
            [torch.bincount(places(known[rows]).flatten(), minlength=size) for rows in parts]
        ).sum(0)

    counts = train.shared(("nac", steepness, bins), count)

    def score(values: Tensor) -> Tensor:
        covered = (counts[places(values)].double() / full).clamp(max=1.0)
        return -torch.stack([part.mean(1) for part in torch.split(covered, widths, dim=1)]).sum(0)

    return lambda test: by_rows(
        score, test.probe("nac"), numbers_per_row=4 * test.probe("nac").shape[1]
    )


@detector(
    paper="Song et al. 2022, arXiv:2209.08590",
    needs={"probe:rankfeat"},
    grid={"blocks": ("both", "last", "previous")},
)
def rankfeat(train: View, *, blocks: str = "both") -> Scorer:
    """Energy of the logits after removing the leading singular direction of the last maps.

    -log sum_c exp(z_c), z the mean of the logits after the rank-one part is removed from the map of
    the last stage, and from that of the stage before; or one of them alone. Singular vectors are
    exact; the published code uses 20 power iterations from a random start. If only one stage
    returns a map, that one is used.
    """

    def score(test: View) -> Tensor:
        logits = test.probe("rankfeat")
        if blocks == "previous" and logits.shape[1] < 2:
            raise UserError(
                "Setting blocks of 'rankfeat' cannot be previous: one stage of this network alone "
                "gives a map."
            )
        if blocks != "both":
            place = 0 if blocks == "last" else 1
            logits = logits[:, place : place + 1]
        return by_rows(
            lambda z: energy_of(z.mean(1)), logits, numbers_per_row=4 * logits[:1].numel()
        )

    return score
