"""Outputs of made-up classifiers, small and always the same: what the contract is measured on."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache

import torch
from torch import Tensor

from oodometer.lab.detector_models import MODELS, ONE_PER_CLASS
from oodometer.needs import ENSEMBLE, Need
from oodometer.outputs import Head, Outputs, View

WIDTH, CLASSES = 64, 5


_BINARY, _UNBALANCED = Need("model", "binary"), Need("model", "binary_unbalanced")
_BUILT_IN = frozenset({ENSEMBLE, _BINARY, _UNBALANCED})
_own_models: ContextVar[frozenset[Need]] = ContextVar("own models", default=frozenset())


@contextmanager
def answering(needs: Iterable[Need]) -> Iterator[None]:
    """Let detector models answer: numbers in the shape of their cards, higher for outliers."""
    models = frozenset(need for need in needs if need.source == "model")
    token = _own_models.set(models - _BUILT_IN)
    try:
        yield
    finally:
        _own_models.reset(token)


def toy_outputs(
    rows: int,
    seed: int,
    *,
    outliers: bool = False,
    faint: bool = False,
    sharpness: float = 1.0,
    dtype: torch.dtype = torch.float64,
) -> Outputs:
    """Outputs of a made-up classifier in which every detector has a fair chance."""
    return _with_models(_toy_outputs(rows, seed, outliers, faint, sharpness, dtype))


def _with_models(outputs: Outputs) -> Outputs:
    models = _own_models.get()
    return _answered(outputs, models) if models else outputs


@lru_cache(maxsize=64)
def _answered(outputs: Outputs, models: frozenset[Need]) -> Outputs:
    answers = dict(outputs.answers)
    for need in models:
        answers |= _answers_of(need, outputs)
    return replace(outputs, answers=answers)


def _answers_of(need: Need, outputs: Outputs) -> dict[Need, Tensor]:
    """What a model might answer: the more unusual a sample, the higher; not two models alike."""
    card = MODELS.get(need.name)
    usual, own = outputs.answers[_BINARY], zlib.crc32(need.name.encode()) % 97 / 100
    features = outputs.tensors()["features"]
    answer = usual * (1 + own) + own * features[:, 0]
    if card is not None and card.columns == ONE_PER_CLASS:
        answer = outputs.tensors()["logits"] * (1 + own)
    elif card is not None and card.columns:
        column = torch.arange(card.columns)
        answer = answer[:, None] * (1 + column / card.columns) + features[:, column % WIDTH]
    if card is None or card.members == 1:
        return {need: answer.to(usual.dtype)}
    members = range(1, card.members + 1)
    return {
        replace(need, member=each): (answer * (1 + each / 20)).to(usual.dtype) for each in members
    }


@lru_cache(maxsize=64)
def _toy_outputs(
    rows: int, seed: int, outliers: bool, faint: bool, sharpness: float, dtype: torch.dtype
) -> Outputs:
    """Outputs of the made-up classifier.

    Of 64 rectified units, all of the 5 classes light the first 16 and each lights 8 of its own;
    outliers light the last 8, which no class uses. The head adds up what its class lights.
    `faint` samples light nothing, `sharpness` scales the logits. The global random state is neither
    used nor changed.
    """
    generator = torch.Generator().manual_seed(seed)
    unit, names = torch.arange(WIDTH), torch.arange(CLASSES)
    owner, common = unit // 8 - 2, unit < 16  # which class a unit belongs to; the last to none
    labels = torch.full((rows,), -1) if outliers else torch.arange(rows) % CLASSES
    lit = (owner == torch.where(labels < 0, CLASSES, labels)[:, None]) | (common & ~outliers)
    noise = torch.randn(rows, WIDTH, generator=generator, dtype=torch.float64)
    strength = 1 + 0.2 * torch.randn(rows, 1, generator=generator, dtype=torch.float64)
    features = (1.5 * strength * (lit & (not faint)) + 0.4 * noise).relu()
    weight = sharpness * (1.2 * (owner == names[:, None]) + 0.2 * common - 0.1).double()
    bias = sharpness * torch.linspace(-0.5, 0.5, CLASSES, dtype=torch.float64)
    head = Head(weight.to(dtype), bias.to(dtype))
    features = features.to(dtype)
    layers = {"early": features[:, ::2].contiguous(), "late": features.clone()}
    usual = 1.5 * _lit_by_class()
    probes, answers = _toy_answers(features.double(), head(features).double(), usual, dtype)
    return Outputs(
        features=features, labels=labels, head=head, layers=layers, probes=probes, answers=answers
    )


def _lit_by_class() -> Tensor:
    """(classes, width): which units the samples of a class light."""
    unit = torch.arange(WIDTH)
    return ((unit // 8 - 2 == torch.arange(CLASSES)[:, None]) | (unit < 16)).double()


def _toy_answers(
    features: Tensor, logits: Tensor, usual: Tensor, dtype: torch.dtype
) -> tuple[dict[str, Tensor], dict[Need, Tensor]]:
    """What asking a made-up network more than once might give; `usual` are its typical features.

    Not what the probes compute, but of their shapes and with their directions: the more certain
    or the more usual a sample, the lower.
    """
    top, place = logits.max(1, keepdim=True)
    others = math.log(logits.shape[1] - 1)

    def doubts(*heats: float) -> Tensor:
        rest = (logits - top).scatter(1, place, -torch.inf)
        return torch.stack([h * ((rest / h).logsumexp(1) - others) for h in heats], dim=1)

    few, many = (1.0, 10.0, 100.0, 1000.0), (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    steps = torch.tensor([0.0, 0.00035, 0.0007, 0.0014, 0.0028], dtype=torch.float64)
    fine = 0.0002 * torch.arange(21, dtype=torch.float64)
    far, nearest = torch.cdist(features, usual).min(1)
    unusual = 0.0002 * (features - usual[nearest]) * (far - 3).clamp(max=8).exp()[:, None]
    near = torch.cdist(features[:, ::2], usual[:, ::2]).amin(1)
    more = torch.arange(1, 11, dtype=torch.float64)
    sure = logits.shape[1] * logits.softmax(1) - 1
    doubt = doubts(1.0)[:, 0]
    minds = torch.stack([doubt, 1.2 * doubt - 0.5, 0.9 * doubt - 1, 1.4 * doubt - 2], dim=1)
    closer = torch.tensor([1.0, 0.99, 0.98, 0.97, 0.96, 0.9, 0.8], dtype=torch.float64)
    made = {
        "odin": doubts(*few)[:, :, None] * (1 + 50 * steps),
        "odin_fine": doubts(*many)[:, :, None] * (1 + 50 * fine),
        "iodin": doubts(*few)[:, :, None] * (1 + 50 * steps[-2:]),
        "adascale": features + 0.05 * (far - 1).clamp(min=0)[:, None] * (1 + 0.1 * features),
        "grood": unusual,
        "pixel_neighbors": torch.stack([near, far + 1], dim=1).repeat(1, 4).cumsum(1),
        "mahalanobis": far.square()[:, None] * closer,
        "mahalanobis_layers": torch.stack([near, far], 1).square()[:, None] * closer[:, None],
        "gradient_uncertainty": 1.5 * sure.norm(dim=1) * features.norm(dim=1),
        "rankfeat": torch.stack([0.5 * logits, 0.4 * logits + 0.1], dim=1),
        "gram": torch.stack([near, 3 * far], dim=1)[:, :, None] * (1 + 0.1 * more),
        "nac": torch.cat([unusual[:, ::2], unusual], dim=1),
        "mc_dropout": torch.stack([minds, 1.01 * minds, 1.02 * minds], dim=1),
    }
    answers = {
        ENSEMBLE: minds,
        _BINARY: far + doubt,
        _UNBALANCED: far + doubt - 1,
    }
    return (
        {name: values.to(dtype) for name, values in made.items()},
        {need: values.to(dtype) for need, values in answers.items()},
    )


def wide_outputs(rows: int, seed: int) -> Outputs:
    """Many rows, many classes, flat posteriors: every setting can make itself felt here."""
    return _with_models(_wide_outputs(rows, seed))


@lru_cache(maxsize=4)
def _wide_outputs(rows: int, seed: int) -> Outputs:
    generator = torch.Generator().manual_seed(seed)
    draw = torch.randn(rows, 48, generator=generator, dtype=torch.float64)
    fixed = torch.Generator().manual_seed(1)
    weight = 0.1 * torch.randn(1050, 48, generator=fixed, dtype=torch.float64)
    head = Head(weight, weight[:, 0] / 2)
    features, labels = draw, torch.arange(rows) % 20  # no ReLU: signs matter, too
    layers = {"early": features[:, ::2].contiguous(), "late": features.clone()}
    usual = torch.eye(20, 48, dtype=torch.float64)
    probes, answers = _toy_answers(features, head(features), usual, torch.float64)
    return Outputs(
        features=features, labels=labels, head=head, layers=layers, probes=probes, answers=answers
    )


TRAIN_ROWS = 1200  # more than the largest k of a grid


def train_toys(sharpness: float = 1.0, dtype: torch.dtype = torch.float64) -> Outputs:
    """What detectors are fitted on; of the probes, only those that are asked of training data."""
    whole = toy_outputs(TRAIN_ROWS, 0, sharpness=sharpness, dtype=dtype)
    return _with_probes_of_training(whole)


@lru_cache(maxsize=8)
def _with_probes_of_training(outputs: Outputs) -> Outputs:
    of_training = {name: outputs.probes[name] for name in ("adascale", "gram", "grood", "nac")}
    answers = {need: values for need, values in outputs.answers.items() if _of_training(need)}
    return replace(outputs, probes=of_training, answers=answers)


def _of_training(need: Need) -> bool:
    """Whether there are answers about the training data."""
    card = MODELS.get(need.name)
    return need not in _BUILT_IN and (card is None or card.of_training)


def validation_toys(
    sharpness: float = 1.0, dtype: torch.dtype = torch.float64
) -> tuple[Outputs, Outputs]:
    """What some learn from besides: inliers, and outliers of another kind than those to find."""
    inliers = toy_outputs(80, 4, sharpness=sharpness, dtype=dtype)
    outliers = toy_outputs(60, 5, outliers=True, faint=True, sharpness=sharpness, dtype=dtype)
    return inliers, outliers


def scored_toys(sharpness: float = 1.0, dtype: torch.dtype = torch.float64) -> Outputs:
    """What the fitted detectors score: other samples of the same classes."""
    return toy_outputs(80, 1, sharpness=sharpness, dtype=dtype)


def shuffled(rows: int) -> Tensor:
    """Return a fixed permutation of `rows` rows."""
    return torch.randperm(rows, generator=torch.Generator().manual_seed(3))


class WatchedView(View):
    """A view that remembers what was read."""

    def __init__(
        self, outputs: Outputs, needs: frozenset[Need], reader: str, outliers: str = ""
    ) -> None:
        super().__init__(outputs, needs, reader, outliers)
        self.read: set[Need] = set()

    def _require_declared(self, need: Need) -> None:
        super()._require_declared(need)
        self.read.add(need)


@dataclass(frozen=True, eq=False)
class WatchedOutputs(Outputs):
    """Outputs that remember every view of them that a detector got."""

    views: list[WatchedView] = field(default_factory=list)

    @classmethod
    def of(cls, outputs: Outputs, views: list[WatchedView] | None = None) -> WatchedOutputs:
        """Return these outputs, watched from now on."""
        own = outputs.copy()
        given = (getattr(own, each.name) for each in fields(Outputs) if each.init)
        return cls(*given, *([] if views is None else [views]))

    def copy(self) -> WatchedOutputs:
        """Return a copy that is watched together with the original."""
        return self.of(super().copy(), self.views)

    def only(self, needs: Iterable[Need], reader: str, outliers: str = "") -> View:
        """Return a view that remembers what is read."""
        self.views.append(WatchedView(self, frozenset(needs), reader, outliers))
        return self.views[-1]
