"""PixelCNN++ and Glow as detector models: recipes, tiny training runs, what they answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from oodometer.lab.data.samples import Images
from oodometer.lab.detector_models import answers_of, draw_samples, find_model, pixelcnn
from oodometer.lab.detector_models.glow_network import Glow
from oodometer.lab.detector_models.pixelcnn_network import PixelCNN
from oodometer.lab.training.train import Training
from oodometer.study import TrainSpec

NAMES = ("pixelcnn_official", "glow_sigmoid")
OTHERS = (
    "pixelcnn_od_test",
    "pixelcnn_evg",
    "glow_exponential",
    "glow_sigmoid_lu",
    "glow_exponential_lu",
)


def _stripes(count: int, seed: int, kind: type = np.uint8) -> Images:
    """Vertical stripes of random phase and contrast, with a little noise."""
    rng = np.random.default_rng(seed)
    phase, contrast = rng.uniform(0, 6, (2, count, 1, 1, 1))
    columns = np.sin(np.arange(8) + phase) * (40 + 10 * contrast)
    pixels = columns + 128 + rng.normal(0, 4, (count, 1, 4, 8))
    made: NDArray[np.uint8] = pixels.clip(0, 255).astype(kind)
    return Images("stripes", made, np.zeros(count, np.int64))


def _spec(size: str, data: str = "stripes") -> TrainSpec:
    return TrainSpec.model_validate({"data": data, "model_size": size})


@pytest.fixture(scope="module", params=NAMES)
def trained(request: pytest.FixtureRequest) -> tuple[str, Training]:
    card, images = find_model(request.param), _stripes(160, 0)
    training = Training(card.recipe(_spec("tiny"), (160, 1, 4, 8)), images, 1, task=card.task)
    while not training.finished:
        training.run_epoch()
    return request.param, training


def _model(name: str, training: Training) -> torch.nn.Module:
    model = find_model(name).task.fresh_network(training.spec, (1, 4, 8), 1)
    weights = training.finished_weights("last")
    model.load_state_dict({key: torch.from_numpy(value) for key, value in weights.items()})
    return model.eval()


def test_a_tiny_model_learns_and_finds_noise_less_likely(trained: tuple[str, Training]) -> None:
    name, training = trained
    curve = training.curve["train_loss"]
    assert curve[-1] < curve[0]
    model, card = _model(name, training), find_model(name)
    known = answers_of(card, model, _stripes(50, 1))
    noise = np.random.default_rng(0).integers(0, 256, (50, 1, 4, 8), np.uint8)
    found = answers_of(card, model, Images("noise", noise, np.full(50, -1)))
    assert known.shape == found.shape == (50, 2)
    assert float((found[:, 0] > known[:, 0].median()).float().mean()) > 0.95


def test_scores_do_not_depend_on_what_else_is_scored(trained: tuple[str, Training]) -> None:
    name, training = trained
    model, images = _model(name, training), _stripes(20, 2)
    together = answers_of(find_model(name), model, images)
    alone = torch.cat(
        [answers_of(find_model(name), model, images.take(np.array([row]))) for row in range(20)]
    )
    assert torch.allclose(together, alone, rtol=1e-4, atol=1e-4)


def test_an_interrupted_training_ends_with_the_same_weights(trained: tuple[str, Training]) -> None:
    name, training = trained
    card, images = find_model(name), _stripes(160, 0)
    first, second = (Training(training.spec, images, 1, task=card.task) for _ in range(2))
    first.run_epoch()
    second.restore(first.snapshot())
    second.run_epoch()
    for key, value in training.weights().items():
        assert np.array_equal(second.weights()[key], value), key


def test_it_draws_images(trained: tuple[str, Training]) -> None:
    name, training = trained
    model, card = _model(name, training), find_model(name)
    drawn, again = (draw_samples(card, model, 6, 3) for _ in range(2))
    assert drawn.shape == (6, 1, 4, 8)
    assert torch.equal(drawn, again)
    # Columns of stripes are alike, rows are not: draws have learned that.
    assert drawn.std(2).mean() < drawn.std(3).mean()


def test_values_between_two_of_256_are_rounded_if_asked_for() -> None:
    """Bytes give the same twice; floats give what their nearest bytes give."""
    card = find_model("pixelcnn_od_test")
    model = card.task.fresh_network(_spec("tiny"), (1, 4, 8), 1)
    images = _stripes(4, 0)
    shifted = images.pixels / np.float32(255) + np.float32(0.001)
    of_bytes = answers_of(card, model, images)
    of_floats = answers_of(card, model, Images("shifted", shifted, images.labels))
    assert torch.equal(of_bytes[:, 0], of_bytes[:, 1])
    assert torch.allclose(of_floats[:, 1], of_bytes[:, 1], atol=1e-5)
    assert not torch.allclose(of_floats[:, 0], of_bytes[:, 0], atol=1e-5)


def test_large_images_are_scored_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    card = find_model("pixelcnn_od_test")
    model = card.task.fresh_network(_spec("tiny"), (1, 4, 8), 1)
    images = _stripes(5, 0)
    together = answers_of(card, model, images)
    monkeypatch.setattr(pixelcnn, "_MOST_NUMBERS", 2 * 8 * 32)
    asked = []
    model.register_forward_pre_hook(lambda _, given: asked.append(len(given[0])))
    assert torch.allclose(answers_of(card, model, images), together, atol=1e-5)
    assert asked == [2, 2, 1]


@pytest.mark.parametrize(
    ("name", "data", "shape", "count"),
    [
        ("pixelcnn_od_test", "mnist", (1, 28, 28), 2_159_550),
        ("pixelcnn_od_test", "fashion-mnist", (1, 28, 28), 8_603_486),
        ("pixelcnn_evg", "cifar10", (3, 32, 32), 13_440_840),
        ("glow_exponential", "cifar10", (3, 32, 32), 44_054_064),
    ],
)
def test_the_size_paper_has_the_published_number_of_parameters(
    name: str, data: str, shape: tuple[int, ...], count: int
) -> None:
    card = find_model(name)
    spec = card.recipe(_spec("paper", data), (50_000, *shape))
    with torch.device("meta"):
        model = card.task.network(spec, shape, 10)
    assert isinstance(model, PixelCNN | Glow)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


@pytest.mark.parametrize("name", NAMES + OTHERS)
@pytest.mark.parametrize("size", ["tiny", "small", "paper"])
def test_recipes_can_be_trained(name: str, size: str) -> None:
    from oodometer.lab.training.train import check_spec

    card = find_model(name)
    made = card.recipe(_spec(size), (50_000, 3, 32, 32))
    check_spec(made, task=card.task)
    assert made.train_size == {"tiny": 400, "small": 10_000, "paper": None}[size]
