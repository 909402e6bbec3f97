"""Deep ensembles that are trained on adversarial samples, too.

Lakshminarayanan et al. 2017, arXiv:1612.01474, and OD-test's form of it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from oodometer.lab.asking.votes import summarize_votes
from oodometer.lab.detector_models.cards import ONE_PER_CLASS, detector_model
from oodometer.lab.detector_models.representations.encoders import require_images
from oodometer.lab.detector_models.with_outliers.networks import plain_cnn
from oodometer.lab.training.losses import as_classes
from oodometer.lab.training.networks import build_network
from oodometer.lab.training.task import CLASSIFIER, Batch, Measures, Task
from oodometer.outputs import View
from oodometer.registry import Scorer, detector
from oodometer.study import TrainSpec

MEASURES = ("entropy", "disagreement")
VARIANTS = ("lakshminarayanan", "od_test")
_STEP = 0.01
_MEMBERS = 5

_SIZES: Mapping[str, Mapping[str, object]] = {
    "tiny": {"epochs": 2, "train_size": 256},
    "small": {"epochs": 3, "train_size": 10_000},
    "paper": {
        "epochs": 60,
        "validation": 0.2,
        "epoch": "best",
        "schedule": "plateau(on=validation_loss, patience=10, threshold=0.01, minimum=0.000001)",
    },
}


def _classifier(spec: TrainSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
    require_images("adversarial_ensemble", shape)
    if spec.model_size == "paper":
        return build_network("vgg16_od_test", shape, classes)
    return plain_cnn(spec.model_size, shape, classes)


class Ranged(nn.Module):
    """A classifier that remembers the lowest and highest value of each input dimension."""

    low: Tensor
    high: Tensor

    def __init__(self, body: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.body = body
        self.register_buffer("low", torch.ones(shape))
        self.register_buffer("high", torch.zeros(shape))

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the classifier."""
        logits: Tensor = self.body(images)
        return logits

    @torch.no_grad()
    def see(self, images: Tensor) -> None:
        """Widen the ranges to what these images have."""
        self.low.copy_(torch.minimum(self.low, images.amin(0)))
        self.high.copy_(torch.maximum(self.high, images.amax(0)))

    def attacked(self, images: Tensor, targets: Tensor, step: float) -> Tensor:
        """Move each pixel by a share of its range towards a larger loss, but not out of [0, 1].

        The gradient is that of the network as it is in use: dropout and batch statistics rest.
        """
        training = self.training
        self.eval()
        with torch.enable_grad():
            source = images.detach().requires_grad_()
            loss = functional.cross_entropy(self(source), targets, reduction="sum")
            (gradient,) = torch.autograd.grad(loss, source)
        self.train(training)
        reach = step * (self.high - self.low).clamp_min(0)
        return (images.detach() + reach * gradient.sign()).clamp(0, 1)


def _ranged(spec: TrainSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
    return Ranged(_classifier(spec, shape, classes), shape)


def _loss(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    """Loss of the images plus loss of the attacked ones, in one pass over both."""
    assert isinstance(model, Ranged)
    if model.training:
        model.see(batch.inputs)
    attacked = model.attacked(batch.inputs, batch.targets, _STEP)
    logits, worse = model(torch.cat([batch.inputs, attacked])).chunk(2)
    hits = (logits.detach().argmax(1) == as_classes(batch.targets)).sum()
    losses = (functional.cross_entropy(each, batch.targets) for each in (logits, worse))
    return torch.stack(list(losses)).sum(), {"accuracy": int(hits)}


def _recipe(spec: TrainSpec, shape: tuple[int, ...]) -> TrainSpec:
    usual = {"optimizer": "adam", "learning_rate": 1e-3, "batch_size": 64}
    return spec.model_copy(update={**usual, **_SIZES[spec.model_size]})


def _od_test_recipe(spec: TrainSpec, shape: tuple[int, ...]) -> TrainSpec:
    """The same with a step of 0.01 for all pixels, by the gradient of the training step itself."""
    return _recipe(spec, shape).model_copy(update={"adversarial": _STEP})


RANGED = Task(network=_ranged, loss=_loss, measures=("accuracy",), labelled=True)
OD_TEST = Task(_classifier, CLASSIFIER.loss, CLASSIFIER.measures, labelled=True)


@detector_model(task=RANGED, spec=_recipe, members=_MEMBERS, columns=ONE_PER_CLASS)
def ensemble_lakshminarayanan(model: nn.Module, inputs: Tensor) -> Tensor:
    """Logits."""
    logits: Tensor = model(inputs)
    return logits


@detector_model(task=OD_TEST, spec=_od_test_recipe, members=_MEMBERS, columns=ONE_PER_CLASS)
def ensemble_od_test(model: nn.Module, inputs: Tensor) -> Tensor:
    """Logits."""
    logits: Tensor = model(inputs)
    return logits


@detector(
    paper="Lakshminarayanan et al. 2017, arXiv:1612.01474; Shafaei et al. 2019, arXiv:1809.04729",
    needs={"model:ensemble_lakshminarayanan", "model:ensemble_od_test"},
    grid={"variant": VARIANTS[:1], "measure": MEASURES},
    needs_for={"variant": {name: {f"model:ensemble_{name}"} for name in VARIANTS}},
    only_by_name=True,
)
def adversarial_ensemble(
    train: View, *, variant: str = "lakshminarayanan", measure: str = "entropy"
) -> Scorer:
    """Log entropy of the mean softmax of five adversarially trained classifiers.

    log H(mean_s p_s) or, with measure="disagreement", log mean_s KL(p_s || mean_s p_s). Each of the
    five learns CE(x) + CE(x'), x' = x + e sign(gradient), cut to [0, 1]; e is 1% of the range of
    each pixel. variant="od_test" is the published code of OD-test: e = 0.01 for all pixels, and the
    gradient is taken in training mode, with dropout and batch statistics. `deep_ensemble` combines
    the runs of a study instead.
    """
    column = MEASURES.index(measure)

    def score(test: View) -> Tensor:
        logits = test.model(f"ensemble_{variant}")
        return summarize_votes(logits.transpose(0, 1))[:, column]

    return score
