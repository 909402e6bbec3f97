"""StyleGAN2: its layers against closed forms and loops, its training, and what it makes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from oodometer.engine.work.codecs import arrays_to_bytes, bytes_to_arrays
from oodometer.errors import UserError
from oodometer.lab.data.samples import Images
from oodometer.lab.generators import Drawing, find_generator
from oodometer.lab.generators.layers import (
    EqualizedConvolution,
    EqualizedLinear,
    ModulatedConvolution,
    add_deviation,
    enlarge,
    leaky,
)
from oodometer.lab.generators.networks import WIDTHS, StyleGAN2
from oodometer.lab.generators.stylegan2 import TASK, gradient_penalty, kept_share, recipe
from oodometer.lab.training.task import Batch, Task, Turn
from oodometer.lab.training.train import Training
from oodometer.study import TrainSpec

CARD = find_generator("stylegan2")


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def one_sample(layer: ModulatedConvolution, image: Tensor, latent: Tensor) -> Tensor:
    """The formula, for one sample: scale the weights, normalize them, convolve, smooth."""
    scale = layer.style.weight / math.sqrt(layer.style.in_features)
    style = scale @ latent + layer.style.bias
    weight = layer.weight * style[None, :, None, None]
    if layer.demodulate:
        weight = weight / (weight.square().sum((1, 2, 3), keepdim=True) + 1e-8).sqrt()
    else:
        weight = weight / math.sqrt(weight[0].numel())
    if not layer.up:
        return functional.conv2d(image[None], weight, padding=weight.shape[-1] // 2)[0]
    # Zeros between the pixels, the kernel turned round, then the filter along each axis.
    channels, side, _ = image.shape
    apart = torch.zeros(channels, 2 * side - 1, 2 * side - 1)
    apart[:, ::2, ::2] = image
    values = functional.conv2d(apart[None], weight.flip(2, 3), padding=2)[0]
    padded = functional.pad(values, (1, 1, 1, 1))
    taps = torch.tensor([1.0, 3.0, 3.0, 1.0]) / 4
    rows = sum(t * padded[:, k : k + 2 * side] for k, t in enumerate(taps))
    return sum(t * rows[:, :, k : k + 2 * side] for k, t in enumerate(taps))


@pytest.mark.parametrize("kind", ["plain", "up", "image"])
def test_modulated_convolution_is_that_of_every_sample_by_itself(kind):
    torch.manual_seed(0)
    kernel = 1 if kind == "image" else 3
    layer = ModulatedConvolution(5, 4, kernel, 6, up=kind == "up", demodulate=kind != "image")
    images, latents = drawn(3, 5, 8, 8), drawn(3, 6, seed=1)
    wanted = torch.stack([one_sample(layer, x, w) for x, w in zip(images, latents, strict=True)])
    torch.testing.assert_close(layer(images, latents), wanted, rtol=1e-4, atol=1e-5)


def test_demodulation_gives_unit_variance_whatever_the_size_of_the_style():
    torch.manual_seed(0)
    layer = ModulatedConvolution(32, 8, 3, 4)
    images, latents = drawn(64, 32, 12, 12), drawn(64, 4, seed=1)
    inside = layer(images, latents)[:, :, 1:-1, 1:-1]
    assert inside.square().mean().item() == pytest.approx(1, abs=0.03)
    nn.init.zeros_(layer.style.weight)
    before = layer(images, latents)
    nn.init.constant_(layer.style.bias, 7.0)
    torch.testing.assert_close(layer(images, latents), before, rtol=1e-4, atol=1e-5)


def test_equalized_layers_start_with_outputs_as_large_as_inputs():
    torch.manual_seed(0)
    mapped = EqualizedLinear(256, 512, rate=0.01)(drawn(64, 256, seed=1))
    assert mapped.std().item() == pytest.approx(1, abs=0.05)
    convolved = EqualizedConvolution(64, 64, 3)(drawn(8, 64, 12, 12, seed=1))[:, :, 1:-1, 1:-1]
    assert convolved.std().item() == pytest.approx(1, abs=0.05)
    assert EqualizedConvolution(64, 8, 3, down=True)(drawn(2, 64, 12, 12)).shape == (2, 8, 6, 6)
    # ½ · 2 · (1 + 0.04)
    assert leaky(drawn(1_000_000)).square().mean().item() == pytest.approx(1.04, abs=0.01)


def test_enlarging_leaves_a_constant_alone_inside():
    large = enlarge(torch.full((1, 2, 4, 4), 3.0))
    assert large.shape == (1, 2, 8, 8)
    torch.testing.assert_close(large[:, :, 1:-1, 1:-1], torch.full((1, 2, 6, 6), 3.0))
    assert (large[:, :, 0] < 3).all()


def test_the_deviation_within_a_group():
    same = add_deviation(torch.ones(4, 3, 2, 2), 4)
    torch.testing.assert_close(same[:, 3], torch.full((4, 2, 2), 1e-4))
    # Groups of two: samples 0 and 2, which differ by 6, and 1 and 3, which are equal.
    values = torch.tensor([0.0, 5.0, 6.0, 5.0]).view(4, 1, 1, 1).expand(4, 3, 2, 2)
    spread = add_deviation(values, 2)[:, 3, 0, 0]
    torch.testing.assert_close(spread, torch.tensor([3.0, 1e-4, 3.0, 1e-4]))
    assert add_deviation(torch.ones(3, 1, 2, 2), 2).shape == (3, 2, 2, 2)  # no group of two fits


def test_the_gradient_penalty_of_a_linear_discriminator():
    torch.manual_seed(0)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(12, 1), nn.Flatten(0))
    penalty = gradient_penalty(linear, drawn(5, 3, 2, 2))
    half = 0.5 * linear[1].weight.square().sum()
    torch.testing.assert_close(penalty, half.expand(5))
    penalty.mean().backward()  # d ½|v|² / dv = v
    torch.testing.assert_close(linear[1].weight.grad, linear[1].weight.detach())


def test_the_mean_of_weights_in_closed_form():
    model = StyleGAN2(WIDTHS["tiny"], (1, 8, 8))
    with torch.no_grad():
        for mean, now in zip(model.average.parameters(), model.generator.parameters(), strict=True):
            mean.zero_()
            now.fill_(2.0)
    model.generator.mapping.mean.fill_(5.0)
    for _ in range(10):
        model.follow(0.9)
    for mean in model.average.parameters():
        torch.testing.assert_close(mean, torch.full_like(mean, 2 * (1 - 0.9**10)))
    assert (model.average.mapping.mean == 5).all()
    assert kept_share(64, 200_000, 500_000) == pytest.approx(0.999911, abs=1e-6)
    assert kept_share(64, 0, 500_000) == pytest.approx(0.5**20)  # it begins with the weights


@pytest.mark.parametrize(
    ("size", "shape", "generator", "discriminator"),
    [
        ("paper", (3, 32, 32), 19_718_163, 20_720_641),
        ("small", (1, 28, 28), 186_203, 211_761),
        ("small", (1, 32, 32), 186_203, 211_761),
    ],
)
def test_numbers_of_parameters(size, shape, generator, discriminator):
    with torch.device("meta"):
        model = StyleGAN2(WIDTHS[size], shape)
    assert sum(p.numel() for p in model.generator.parameters()) == generator
    assert sum(p.numel() for p in model.discriminator.parameters()) == discriminator


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 64, 64), (1, 6, 9)])
def test_images_are_in_range_and_depend_on_the_direction_of_the_point_alone(shape):
    torch.manual_seed(0)
    model = StyleGAN2(WIDTHS["tiny"], shape).eval()
    points = drawn(4, 8)
    with torch.no_grad():
        images = CARD.images(model.average, points, Drawing())
        again = CARD.images(model.average, 3 * points, Drawing())
        seen = model.discriminator(model.raw(images))
    assert images.shape == (4, *shape) and seen.shape == (4,)
    assert images.min() >= 0 and images.max() <= 1
    torch.testing.assert_close(again, images, rtol=1e-3, atol=1e-4)
    # What the discriminator sees of an image is the image: padded, and back.
    torch.testing.assert_close(model.generator.pictures(model.raw(images)), images)


def test_noise_and_truncation():
    torch.manual_seed(0)
    part = StyleGAN2(WIDTHS["tiny"], (1, 16, 16)).eval().generator
    with torch.no_grad():
        for name, value in part.named_parameters():
            if name.endswith("strength"):
                value.fill_(0.3)
        nn.init.normal_(part.mapping.mean)
        points = drawn(3, 8)

        def images(**drawing: object) -> Tensor:
            return CARD.images(part, points, Drawing(**drawing))

        plain = images()
        assert torch.equal(images(), plain)  # fixed noise: the same point, the same image
        assert not torch.equal(images(random_noise=True), images(random_noise=True))
        assert torch.equal(images(truncation=1.0, cutoff=2), plain)
        assert torch.equal(images(truncation=0.5, cutoff=0), plain)
        nearest = images(truncation=0.0)
        torch.testing.assert_close(nearest, nearest[:1].expand(3, -1, -1, -1))
        spread = [images(truncation=t).std(0).mean() for t in (0.3, 0.7, 1.0)]
        assert spread == sorted(spread)


# The loop: parts that learn in turn.


class Rivals(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)


def in_turn(every: int = 1, pace: tuple[tuple[str, float], ...] = ()) -> Task:
    def network(spec: TrainSpec, shape: tuple[int, ...], classes: int) -> nn.Module:
        return Rivals()

    def push(spec: TrainSpec, model: Rivals, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        return (model.first.weight * model.second.weight.detach()).sum(), {}

    def follow(spec: TrainSpec, model: Rivals, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        return (model.first.weight - model.second.weight).square().sum(), {"steps": batch.step}

    turns = (Turn("first", push), Turn("second", follow, ("steps",), every=every))
    return Task(network, turns, ("steps",), pace=pace)


def test_parts_learn_in_turn_by_their_own_losses():
    pictures = Images("zeros", np.zeros((6, 1, 2, 2), np.uint8), np.full(6, -1))
    spec = TrainSpec(data="x", epochs=2, batch_size=2, optimizer="sgd", learning_rate=0.1)
    training = Training(spec, pictures, 1, task=in_turn(every=2, pace=(("second", 0.5),)))
    a, b = (float(training.weights()[f"{part}.weight"][0, 0]) for part in ("first", "second"))
    for step in range(6):
        a -= 0.1 * b
        if step % 2 == 0:
            b -= 0.05 * 2 * (b - a)
        if step % 3 == 2:
            training.run_epoch()
    weights = training.weights()
    assert float(weights["first.weight"][0, 0]) == pytest.approx(a, rel=1e-5)
    assert float(weights["second.weight"][0, 0]) == pytest.approx(b, rel=1e-5)
    # Of the second part's turns at the steps 0, 2 and 4, each counted once for a batch.
    assert training.curve["train_steps"] == ((0 + 2) / 6, 4 / 6)


def test_adam_of_parts_that_also_take_turns_with_a_penalty():
    spec = recipe(TrainSpec(data="x", model_size="tiny"), (40, 1, 8, 8))
    published = recipe(TrainSpec(data="x", model_size="paper"), (50_000, 3, 32, 32))
    assert (published.epochs - 1) * 782 < 200_000 <= published.epochs * 782  # batches of 64
    spec = spec.model_copy(update={"learning_rate": published.learning_rate})
    pictures = Images("grey", np.full((40, 1, 8, 8), 99, np.uint8), np.full(40, -1))
    training = Training(spec, pictures, 1, task=TASK)
    training.run_epoch()
    discriminator, generator = training._optimizer.param_groups
    assert discriminator["lr"] == pytest.approx(0.0023529, abs=1e-7)
    assert discriminator["betas"] == pytest.approx((0, 0.990585), abs=1e-6)
    assert generator["lr"] == pytest.approx(0.002)
    assert generator["betas"] == pytest.approx((0, 0.99199), abs=1e-5)


def bars(count: int, seed: int = 0) -> Images:
    """One bright row or column on black."""
    random = np.random.default_rng(seed)
    pixels = np.zeros((count, 1, 8, 8), np.uint8)
    for image, place, down in zip(
        pixels, random.integers(8, size=count), random.integers(2, size=count), strict=True
    ):
        image[0, place if down else slice(None), slice(None) if down else place] = 255
    return Images("bars", pixels, np.full(count, -1))


def test_training_learns_the_images_and_resumes_to_the_same_bytes():
    pictures = bars(150)
    spec = recipe(TrainSpec(data="x", model_size="tiny"), (150, *pictures.shape))
    assert spec.epochs == 4
    spec = spec.model_copy(update={"epochs": 12})
    before = torch.get_rng_state()
    training = Training(spec, pictures, 1, task=TASK)
    for _ in range(5):
        training.run_epoch()
    kept = arrays_to_bytes(training.snapshot())
    while not training.finished:
        training.run_epoch()
    resumed = Training(spec, pictures, 1, task=TASK)
    resumed.restore(bytes_to_arrays(kept))
    while not resumed.finished:
        resumed.run_epoch()
    assert arrays_to_bytes(resumed.snapshot()) == arrays_to_bytes(training.snapshot())
    assert torch.equal(torch.get_rng_state(), before)
    model = TASK.fresh_network(spec, pictures.shape, 1).eval()
    state = {name: torch.from_numpy(value) for name, value in training.weights().items()}
    with torch.no_grad():
        fresh = CARD.images(model.average, drawn(64, 8), Drawing())
        model.load_state_dict(state)
        made = CARD.images(model.average, drawn(64, 8), Drawing())
    real = pictures.pixels.mean() / 255
    assert abs(made.mean().item() - real) < 0.1 < abs(fresh.mean().item() - real)
    assert (made[:-1] - made[1:]).abs().mean() > 0.02
    assert set(training.curve) >= {"train_generator_loss", "train_gradient_penalty"}


def test_a_training_that_diverges_says_so():
    pictures = bars(32)
    spec = recipe(TrainSpec(data="x", model_size="tiny"), (32, *pictures.shape))
    wild = replace(TASK, pace=(("discriminator", 1e30),))
    with pytest.raises(UserError, match=r"^Training diverged: in epoch \d, the (loss|weights)"):
        training = Training(spec, pictures, 1, task=wild)
        while not training.finished:
            training.run_epoch()


def test_images_that_are_too_large_or_no_images_are_refused():
    with pytest.raises(UserError, match="up to 64 x 64 pixels, got shape \\(3, 96, 96\\)"):
        StyleGAN2(WIDTHS["tiny"], (3, 96, 96))
    with pytest.raises(UserError, match="Unknown generator 'stylegan'.*stylegan2"):
        find_generator("stylegan")
