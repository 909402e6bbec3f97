"""CSI: contrastive learning in which a turned image is another image.

Tack et al. 2020, arXiv:2007.08176.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from oodometer.lab.detector_models.cards import detector_model
from oodometer.lab.detector_models.representations.contrastive import (
    Changes,
    Views,
    contrastive_loss,
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

SHIFTS = 4  # turns by 0, 90, 180 and 270 degrees
PARTS = ("both", "contrastive", "shift")
_TRAINING = Views(scale=(0.08, 1.0), flip=0.0)  # flips come before the turns
_SCORING = Views(scale=(0.54, 0.54), flip=0.0)
_AUGMENTATIONS = 10  # of each turned image, when scoring
_TEMPERATURE = 0.5
_MOST_AXES = 60_000  # training images that are kept; of more, evenly spaced ones
_VIEWS_AT_ONCE = 256  # have no influence but on memory, as the next one
_PRODUCTS_AT_ONCE = 2**22


@dataclass(frozen=True)
class _Size:
    body: str | tuple[int, ...]
    projected: int
    recipe: Mapping[str, object]


_SIZES = {
    "tiny": _Size((8, 16), 16, {"epochs": 1, "batch_size": 32, "train_size": 96}),
    "small": _Size((16, 32, 64, 64), 32, {"epochs": 8, "batch_size": 32, "train_size": 10_000}),
    "paper": _Size(
        "resnet18",
        128,
        {
            "epochs": 1000,
            "batch_size": 128,
            "optimizer": "lars(momentum=0.9)",
            "learning_rate": 1.0,
            "weight_decay": 1e-6,
            "schedule": "cosine(warm_up=10)",
        },
    ),
}


class ShiftedInstances(nn.Module):
    """An encoder with two heads, and what they say about the training images."""

    axes: Tensor  # (shifts, images, width) of length 1
    weights: Tensor  # (2, shifts): of the contrastive and of the shift part

    def __init__(self, body: nn.Module, width: int, channels: int, projected: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(Standardized(channels, cifar=False), body)
        self.project = projection(width, projected)
        self.shift = nn.Linear(width, SHIFTS)
        self.register_buffer("axes", torch.zeros(SHIFTS, 0, projected))
        self.register_buffer("weights", torch.zeros(2, SHIFTS))

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Tensor], prefix: str, *rest: object
    ) -> None:
        """Make room for as many axes as were kept."""
        self.axes = self.axes.new_empty(state_dict[f"{prefix}axes"].shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Projections, and logits of the shifts."""
        features = self.encoder(images)
        return self.project(features), self.shift(features)

    def averages(
        self, images: Tensor, augmentations: int = _AUGMENTATIONS
    ) -> tuple[Tensor, Tensor]:
        """(n, shifts, width) mean projections, and (n, shifts) mean logits of the true shifts.

        Each augmentation has a generator of its own and is the same for all images, so that no
        score depends on the other images. With none, images are turned and nothing else.
        """
        drawn = [_drawn(number) for number in range(augmentations)] or [_Shifted(flip=False)]
        parts = []
        for part in torch.split(images, _VIEWS_AT_ONCE // SHIFTS):
            answers = [self._answers(shifted(part)) for shifted in drawn]
            parts.append([torch.stack(each).mean(0) for each in zip(*answers, strict=True)])
        projections, logits = (torch.cat(each) for each in zip(*parts, strict=True))
        return projections, logits

    def _answers(self, views: Tensor) -> tuple[Tensor, Tensor]:
        """Projections and logits of the true shift, of all images turned by 0, by 90 degrees..."""
        projections, logits = self(views)
        per_shift = logits.unflatten(0, (SHIFTS, -1))
        return (
            projections.unflatten(0, (SHIFTS, -1)).transpose(0, 1),
            per_shift.diagonal(dim1=0, dim2=2),
        )

    def parts(self, images: Tensor) -> Tensor:
        """(n, 3): how known images look: by both parts, by the nearest axis, by the shifts."""
        projections, logits = self.averages(images)
        nearest = [
            _largest_products(rows, axes)
            for rows, axes in zip(projections.unbind(1), self.axes, strict=True)
        ]
        contrastive = (self.weights[0] * torch.stack(nearest, dim=1)).mean(1)
        shift = (self.weights[1] * logits).mean(1)
        return torch.stack([contrastive + shift, contrastive, shift], dim=1)


@dataclass(frozen=True)
class _Shifted:
    """Turn images by 0, 90, 180 and 270 degrees, and change each turn in its own way."""

    flip: bool
    changes: tuple[Changes, ...] = ()

    def __call__(self, images: Tensor) -> Tensor:
        turned = turns(images.flip(3) if self.flip else images)
        if not self.changes:
            return turned
        changed = zip(self.changes, turned.chunk(SHIFTS), strict=True)
        return torch.cat([change(part) for change, part in changed])


def _drawn(number: int) -> _Shifted:
    random = torch.Generator().manual_seed(number)
    flip = bool(torch.rand((), generator=random) < 0.5)
    return _Shifted(flip, tuple(_SCORING.draw(1, random) for _ in range(SHIFTS)))


def turns(images: Tensor) -> Tensor:
    """All images, then all of them turned by 90 degrees, by 180 and by 270."""
    return torch.cat([images.rot90(number, (2, 3)) for number in range(SHIFTS)])


def _largest_products(rows: Tensor, axes: Tensor) -> Tensor:
    """Largest product of each row with any axis, some axes at a time."""
    best = rows.new_full((len(rows),), -torch.inf)
    for part in torch.split(axes, max(1, _PRODUCTS_AT_ONCE // len(rows))):
        best = torch.maximum(best, (rows @ part.T).amax(1))
    return best


def _network(spec: TrainSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
    require_images("csi", shape, square=True)
    size = _SIZES[spec.model_size]
    return ShiftedInstances(*encoder(size.body, shape), shape[0], size.projected)


def _loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    """NT-Xent, in which other turns of the same image are negatives, plus the loss of the turns."""
    images = batch.inputs
    flipped = torch.rand(2, len(images), 1, 1, 1).to(images.device) < 0.5
    views = torch.cat([turns(torch.where(each, images.flip(3), images)) for each in flipped])
    changes = _TRAINING.draw(len(views), torch.default_generator)
    projections, logits = model(changes(views))
    instances = torch.arange(SHIFTS * len(images), device=images.device).repeat(2)
    shifts = torch.div(instances, len(images), rounding_mode="floor")
    contrast = contrastive_loss(projections, instances, _TEMPERATURE)
    hits = (logits.detach().argmax(1) == shifts).sum() / (2 * SHIFTS)
    return contrast + functional.cross_entropy(logits, shifts), {"accuracy": float(hits)}


def _finish(spec: TrainSpec, model: nn.Module, batches: Iterable[Batch]) -> None:
    """Keep the axes of the training images and the weights by which their mean parts are 1."""
    assert isinstance(model, ShiftedInstances)
    every = -(-sum(len(batch.inputs) for batch in batches) // _MOST_AXES)
    found, start = [], 0
    for batch in batches:
        kept = batch.inputs[-start % every :: every]
        start += len(batch.inputs)
        if len(kept):
            found.append(model.averages(kept))
    projections, logits = (torch.cat(part) for part in zip(*found, strict=True))
    lengths = torch.linalg.vector_norm(projections, dim=2)
    model.axes = (projections / lengths[:, :, None].clamp_min(1e-12)).transpose(0, 1).contiguous()
    model.weights = 1 / torch.stack([lengths.mean(0), logits.mean(0)])


def _recipe(spec: TrainSpec, shape: tuple[int, ...]) -> TrainSpec:
    usual = {"optimizer": "adam", "learning_rate": 1e-3}
    return spec.model_copy(update={**usual, **_SIZES[spec.model_size].recipe})


TASK = Task(network=_network, loss=_loss, measures=("accuracy",), finish=_finish)


@detector_model(task=TASK, per="data", spec=_recipe, columns=len(PARTS))
def csi_shifts(model: nn.Module, inputs: Tensor) -> Tensor:
    """(n, 3): how unknown an image looks: by both parts of the score, and by each alone."""
    assert isinstance(model, ShiftedInstances)
    return -model.parts(inputs)


@detector(
    paper="Tack et al. 2020, arXiv:2007.08176",
    needs={"model:csi_shifts"},
    grid={"parts": PARTS},
    only_by_name=True,
)
def csi(train: View, *, parts: str = "both") -> Scorer:
    """Contrastive encoder that also tells by how much an image was turned.

    -1/4 sum_k [ max_m f_k a_km / mean_m |f_km| + c_k / mean_m c_km ]: f_k the mean projection of
    the image turned by k * 90 degrees over 10 augmentations, a_km that of training image m brought
    to length 1, c_k the mean logit of the true turn. The mean over the training images is -2. The
    10 augmentations are the same for all images; the published code draws other ones for every
    place in a batch. 40 forward passes per image; images must be square.
    """
    column = PARTS.index(parts)
    return lambda test: test.model("csi_shifts")[:, column].double()
