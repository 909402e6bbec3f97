"""SSD: distances between features that a contrastive loss has shaped.

Sehwag et al. 2021, arXiv:2103.12051.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.detector_models.cards import detector_model
from oodometer.lab.detector_models.representations.contrastive import (
    Views,
    contrastive_loss,
    pair_of_views,
)
from oodometer.lab.detector_models.representations.encoders import (
    Standardized,
    encoder,
    projection,
    require_images,
)
from oodometer.lab.training.task import Batch, Measures, Task
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.study import TrainSpec
from oodometer.whitening import whitening

CLUSTERS = (1, 10)
VARIANTS = ("corrected", "published")
_VIEWS = Views(scale=(0.2, 1.0))
_TEMPERATURE = 0.5
_WEIGHT = _TEMPERATURE / 0.07  # of the loss, in the published code: it acts on the step size
_TINY = 1e-10


@dataclass(frozen=True)
class _Size:
    body: str | tuple[int, ...]
    projected: int
    recipe: Mapping[str, object]


_SIZES = {
    "tiny": _Size(
        (8, 16), 16, {"epochs": 2, "batch_size": 64, "learning_rate": 0.02, "train_size": 256}
    ),
    "small": _Size(
        (16, 32, 64, 64),
        32,
        {"epochs": 20, "batch_size": 256, "learning_rate": 0.1, "train_size": 10_000},
    ),
    "paper": _Size(
        "resnet50",
        128,
        {
            "epochs": 500,
            "batch_size": 512,
            "learning_rate": 0.5,
            "weight_decay": 1e-4,
            "schedule": "cosine(minimum=0.0001, warm_up=10)",
        },
    ),
}


class Representation(nn.Module):
    """An encoder with a head for the loss, and what its features are like on training images."""

    mean: Tensor  # of the features of length 1
    deviation: Tensor
    centers: Tensor  # (clusters of all numbers, width), of standardized features
    whiten: Tensor  # (clusters of all numbers, width, width)

    def __init__(self, size: _Size, shape: tuple[int, ...]) -> None:
        super().__init__()
        body, width = encoder(size.body, shape)
        self.encoder = nn.Sequential(Standardized(shape[0]), body)
        self.head = projection(width, size.projected)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("deviation", torch.ones(width))
        self.register_buffer("centers", torch.zeros(sum(CLUSTERS), width))
        self.register_buffer("whiten", torch.zeros(sum(CLUSTERS), width, width))

    def features(self, images: Tensor) -> Tensor:
        """Features of the encoder, each row of length 1."""
        found = self.encoder(images)
        unit: Tensor = found / (torch.linalg.vector_norm(found, dim=1, keepdim=True) + _TINY)
        return unit

    def forward(self, images: Tensor) -> Tensor:
        """What the loss compares."""
        vectors: Tensor = self.head(self.encoder(images))
        return vectors

    def distances(self, images: Tensor) -> Tensor:
        """(n, variants, numbers of clusters): squared distance to the nearest cluster."""
        rows = ((self.features(images) - self.mean) / self.deviation).double()
        return torch.stack([self._nearest(rows), self._nearest(rows - self.mean)], dim=1)

    def _nearest(self, rows: Tensor) -> Tensor:
        squares = [
            ((rows - center.double()) @ matrix.double()).square().sum(1)
            for center, matrix in zip(self.centers, self.whiten, strict=True)
        ]
        per_number = torch.split(torch.stack(squares, dim=1), list(CLUSTERS), dim=1)
        return torch.stack([part.amin(1) for part in per_number], dim=1)


def _network(spec: TrainSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
    require_images("ssd", shape)
    return Representation(_SIZES[spec.model_size], shape)


def _self_supervised(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    groups = torch.arange(len(batch.inputs), device=batch.inputs.device)
    return _loss(model, batch.inputs, groups)


def _supervised(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    return _loss(model, batch.inputs, batch.targets)


def _loss(model: nn.Module, inputs: Tensor, groups: Tensor) -> tuple[Tensor, Measures]:
    vectors = model(pair_of_views(inputs, _VIEWS))
    return _WEIGHT * contrastive_loss(vectors, groups.repeat(2), _TEMPERATURE), {}


def _finish(spec: TrainSpec, model: nn.Module, batches: Iterable[Batch]) -> None:
    """Fit mean, deviation and the clusters to the features of the training images."""
    assert isinstance(model, Representation)
    features = torch.cat([model.features(batch.inputs) for batch in batches])
    fit_clusters(model, features)


def fit_clusters(model: Representation, features: Tensor) -> None:
    """Fit the buffers to features (n, width) of length 1."""
    rounding = 4 * torch.finfo(features.dtype).eps * features.square().mean(0).sqrt().double()
    mean, deviation = features.double().mean(0), features.double().std(0, correction=0)
    deviation = torch.where(deviation > rounding, deviation, 1.0)
    model.mean.copy_(mean)
    model.deviation.copy_(deviation)
    # By the rounded ones, as the distances will be.
    rows = ((features - model.mean) / model.deviation).double()
    everything = _whitened(rows, rounding / deviation, None)
    place = 0
    for number in CLUSTERS:
        parts = _clusters(rows, number)
        for cluster in range(number):
            part = parts[cluster % len(parts)]
            model.centers[place] = part.mean(0)
            model.whiten[place] = _whitened(part, rounding / deviation, everything)
            place += 1


def _whitened(rows: Tensor, rounding: Tensor, otherwise: Tensor | None) -> Tensor:
    """What makes the covariance of these rows the identity; without any spread, another's."""
    found = whitening(torch.cov(rows.T, correction=0), rounding)
    if found is not None:
        return found.matrix
    same = torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
    return same if otherwise is None else otherwise


def _clusters(rows: Tensor, number: int) -> list[Tensor]:
    """Rows by their k-means cluster: no more clusters than there are different rows."""
    import warnings

    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    if number == 1:
        return [rows]
    means = KMeans(min(number, len(rows)), n_init=1, max_iter=100, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rows that are the same
        labels = torch.from_numpy(means.fit_predict(rows.cpu().numpy())).to(rows.device)
    return [rows[labels == label] for label in torch.unique(labels)]


def _recipe(spec: TrainSpec, shape: tuple[int, ...]) -> TrainSpec:
    usual = {"optimizer": "sgd_momentum", "schedule": "cosine(minimum=0.0001)"}
    return spec.model_copy(update={**usual, **_SIZES[spec.model_size].recipe})


SELF_SUPERVISED = Task(network=_network, loss=_self_supervised, finish=_finish)
SUPERVISED = Task(network=_network, loss=_supervised, labelled=True, finish=_finish)


@detector_model(
    task=SELF_SUPERVISED, per="data", spec=_recipe, columns=len(CLUSTERS) * len(VARIANTS)
)
def ssd_simclr(model: nn.Module, inputs: Tensor) -> Tensor:
    """Squared distance to the nearest cluster, for each variant and number of clusters."""
    assert isinstance(model, Representation)
    return model.distances(inputs).flatten(1)


@detector_model(task=SUPERVISED, per="data", spec=_recipe, columns=len(CLUSTERS) * len(VARIANTS))
def ssd_supcon(model: nn.Module, inputs: Tensor) -> Tensor:
    """The same, by an encoder that was trained with class labels."""
    assert isinstance(model, Representation)
    return model.distances(inputs).flatten(1)


@detector(
    paper="Sehwag et al. 2021, arXiv:2103.12051",
    needs={"model:ssd_simclr", "model:ssd_supcon"},
    grid={"loss": ("simclr",), "clusters": CLUSTERS, "variant": VARIANTS},
    needs_for={"loss": {"simclr": {"model:ssd_simclr"}, "supcon": {"model:ssd_supcon"}}},
    only_by_name=True,
)
def ssd(
    train: View, *, loss: str = "simclr", clusters: int = 1, variant: str = "corrected"
) -> Scorer:
    """Squared Mahalanobis distance between features of a contrastive encoder.

    min_c (f - m_c)' S_c^-1 (f - m_c), f the features of length 1, standardized, m_c and S_c mean
    and covariance of the k-means cluster c of the training images; one cluster by default. With
    loss="simclr" the encoder learns without labels (NT-Xent), with "supcon" from class labels.
    Yoon et al. 2022 ("EvG") name k-means, but their code uses one cluster and subtracts the mean
    of the features a second time after standardizing: variant="published".
    """
    if clusters not in CLUSTERS:
        raise UserError(f"Setting clusters of 'ssd' must be one of 1 and 10, got {clusters}.")
    column = VARIANTS.index(variant) * len(CLUSTERS) + CLUSTERS.index(clusters)
    return lambda test: test.model(f"ssd_{loss}")[:, column].double()
