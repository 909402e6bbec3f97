"""Other tasks than classification, trained by the same loop: an autoencoder."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from oodometer.engine.work.codecs import arrays_to_bytes, bytes_to_arrays
from oodometer.errors import UserError
from oodometer.lab.data.sources import load_source
from oodometer.lab.training.task import CLASSIFIER, Batch, Measures, Task
from oodometer.lab.training.train import Training, check_spec, train
from oodometer.study import TrainSpec


def network(spec: TrainSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
    size, width = math.prod(shape), spec.width or 4
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(size, width),
        nn.Dropout(0.1),
        nn.Linear(width, size),
        nn.Unflatten(1, shape),
    )


def denoise(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
    """Mean squared error from noisy inputs: draws in training and in validation."""
    noisy = batch.inputs + 0.1 * torch.randn(batch.inputs.shape)
    return nn.functional.mse_loss(model(noisy), batch.inputs), {}


AUTOENCODER = Task(network, denoise)
SPEC = TrainSpec(
    data="digits", epochs=4, validation=0.2, augment="crop_flip", epoch="best",
    best_by="validation_loss", schedule="cosine",
)  # fmt: skip


@pytest.fixture(scope="module")
def digits():
    """Digits of which no class is known."""
    samples = load_source(TrainSpec(data="digits")).train
    return replace(samples, labels=np.full(len(samples), -1))


def test_an_autoencoder_needs_no_classes_and_validation_picks_its_epoch(digits):
    with pytest.raises(UserError, match="lie between -1 and -1"):
        train(SPEC, digits, 10)
    made = train(SPEC, digits, 10, task=AUTOENCODER)
    assert set(made.curve) == {"train_loss", "validation_loss", "learning_rate"}
    losses = made.curve["validation_loss"]
    assert made.epoch == 1 + int(np.argmin(losses))
    pixels = torch.from_numpy(digits.pixels)
    spread = float(pixels.var(0, unbiased=False).mean())  # the error of whoever answers the mean
    longer = SPEC.model_copy(update={"epochs": 25, "width": 16, "augment": "none"})
    assert train(longer, digits, 10, task=AUTOENCODER).curve["validation_loss"][-1] < 0.7 * spread


def test_interrupted_it_ends_with_the_same_bytes_and_leaves_the_global_state_alone(digits):
    def fresh() -> Training:
        return Training(SPEC, digits, 10, task=AUTOENCODER)

    before = torch.get_rng_state()
    whole, parts = fresh(), []
    while not whole.finished:
        whole.run_epoch()
        parts.append(arrays_to_bytes(whole.snapshot()))
    assert torch.equal(torch.get_rng_state(), before)
    resumed = fresh()
    with torch.random.fork_rng(devices=[]):
        torch.rand(3)
        resumed.restore(bytes_to_arrays(parts[1]))
        while not resumed.finished:
            resumed.run_epoch()
    assert arrays_to_bytes(resumed.snapshot()) == parts[-1]


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (lambda model, x: model(x).mean(), r"must return .* returned a tensor of shape \(\)"),
        (lambda model, x: (model(x).mean(1), {}), r"returned \(a tensor of shape \(32, 8, 8\)"),
        (
            lambda model, x: (model(x).mean(), {"accuracy": 1}),
            r"measures nothing; .*\['accuracy'\]",
        ),
        (lambda model, x: (0.5, {}), r"returned \(0.5, a dictionary of \[\]\)"),
        (
            lambda model, x: (model(x).mean() * math.nan, {}),
            "in epoch 1, the loss is nan",
        ),
    ],
)
def test_a_loss_that_teaches_nothing_is_one_sentence(digits, loss, sentence):
    def own(spec, model, batch):
        return loss(model, batch.inputs)

    with pytest.raises(UserError, match=sentence):
        train(SPEC, digits, 10, task=Task(network, own))


def test_what_is_not_measured_picks_no_epoch():
    wanted = SPEC.model_copy(update={"best_by": "validation_accuracy"})
    check_spec(wanted)
    with pytest.raises(UserError, match="by validation_accuracy, which is not measured here: use"):
        check_spec(wanted, task=AUTOENCODER)
    check_spec(SPEC.model_copy(update={"network": "nonsense"}), task=AUTOENCODER)
    with pytest.raises(UserError, match="Unknown network 'nonsense'"):
        check_spec(SPEC.model_copy(update={"network": "nonsense"}), task=CLASSIFIER)
