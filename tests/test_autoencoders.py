"""Autoencoder, VAE, normalized autoencoder: published sizes, closed forms, what they find."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from oodometer.engine.work.codecs import arrays_to_bytes, bytes_to_arrays
from oodometer.errors import UserError
from oodometer.lab.data.samples import Images
from oodometer.lab.data.sources import Source, load_source
from oodometer.lab.detector_models import MODELS, answers_of, draw_samples, vae
from oodometer.lab.detector_models import normalized_autoencoder as nae
from oodometer.lab.detector_models.autoencoder import (
    Autoencoder,
    Decoder,
    autoencoder_mse,
    cross_entropy,
    dequantized,
    evg_autoencoder,
    od_test_autoencoder,
    squared_error,
)
from oodometer.lab.training.task import Batch
from oodometer.lab.training.train import Training, check_spec
from oodometer.metrics import auroc
from oodometer.study import TrainSpec


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def shapes(module: nn.Module, images: Tensor) -> list[tuple[int, ...]]:
    """Heights of what the layers of a network return, from first to last."""
    seen: list[int] = []
    layers = [m for m in module.modules() if isinstance(m, nn.Conv2d | nn.ConvTranspose2d)]
    for layer in layers:
        layer.register_forward_hook(lambda m, i, out: seen.append(out.shape[2]))
    module(images)
    return seen


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        ((1, 28, 28), 6_204_193),
        ((3, 32, 32), 25_829_379),
        ((3, 64, 64), 37_632_771),
        ((3, 96, 96), 37_632_771),
    ],
)
def test_od_tests_autoencoder_has_the_published_size(shape, count):
    with torch.device("meta"):
        model = od_test_autoencoder("model", "paper", shape)
        assert parameters(model) == count
        assert model.eval()(torch.zeros(2, *shape))[1].shape == (2, *shape)


@pytest.mark.parametrize(("shape", "count"), [((1, 28, 28), 6_462_721), ((3, 32, 32), 27_272_451)])
def test_the_vae_has_the_published_size(shape, count):
    with torch.device("meta"):
        assert parameters(vae.VariationalAutoencoder("paper", shape)) == count


def test_evgs_autoencoder_has_the_published_size():
    with torch.device("meta"):
        model = evg_autoencoder("model", "paper", (3, 32, 32))
    assert parameters(model.encoder) == 5_913_344
    assert parameters(model.decoder) == 18_876_931
    small = evg_autoencoder("model", "small", (3, 32, 32))
    assert shapes(small.encoder, torch.rand(2, 3, 32, 32)) == [15, 6, 2, 1, 1, 1]
    assert shapes(small.decoder, torch.rand(2, 32, 1, 1)) == [8, 16, 32, 32]
    with pytest.raises(UserError, match="32 x 32 pixels, as published, got 28 x 28"):
        evg_autoencoder("model", "small", (1, 28, 28))


def test_the_normalized_autoencoder_has_the_published_size():
    with torch.device("meta"):
        grey, color = nae.build("paper", (1, 28, 28)), nae.build("paper", (3, 32, 32))
    assert parameters(grey) == 2_455_713
    assert parameters(color.encoder) == 5_142_560
    assert parameters(color.decoder) == 956_419
    grey, color = nae.build("small", (1, 28, 28)), nae.build("small", (3, 32, 32))
    assert shapes(grey.encoder, torch.rand(2, 1, 28, 28)) == [26, 24, 10, 8, 1, 1]
    assert shapes(grey.decoder, torch.rand(2, 16, 1, 1)) == [4, 10, 12, 26, 28]
    assert shapes(color.decoder, torch.rand(2, 16, 1, 1)) == [8, 16, 16, 32, 32]


def test_images_are_halved_and_enlarged_through_the_same_sizes():
    model = od_test_autoencoder("model", "tiny", (1, 28, 28))
    assert shapes(model.encoder, torch.rand(2, 1, 28, 28)) == [28, 14, 14, 7, 7, 3, 3, 1, 1]
    assert shapes(model.decoder, torch.rand(2, 8, 1, 1)) == [1, 3, 3, 7, 7, 14, 14, 28, 28]


def test_an_odd_size_gets_zeros_on_top_and_on_the_left():
    decoder = Decoder(1, [1, 1], 1, (3, 3))
    first, second = decoder.layers
    values = {}
    first.register_forward_hook(lambda module, inputs, output: values.update(first=output))
    second.register_forward_hook(lambda module, inputs, output: values.update(second=inputs[0]))
    decoder.eval()(torch.ones(1, 1, 1, 1))
    expected = torch.zeros(3, 3)
    expected[1:, 1:] = values["first"].item()
    assert torch.equal(values["second"][0, 0], expected)


@pytest.mark.parametrize("shape", [(1, 2, 2), (3, 7, 12), (1, 33, 16)])
def test_any_images_can_be_coded(shape):
    images = torch.rand(3, *shape)
    model = od_test_autoencoder("model", "tiny", shape).eval()
    assert model(images)[1].shape == images.shape
    model = vae.VariationalAutoencoder("tiny", shape).eval()
    assert model(images)[2].shape == images.shape
    if min(shape[1:]) >= 4:
        assert nae.build("tiny", shape).energy(images).shape == (3,)
    if min(shape[1:]) >= 8:
        assert nae.build("paper", (3, *shape[1:])).energy(torch.rand(2, 3, *shape[1:])).shape == (
            2,
        )


@pytest.mark.parametrize("shape", [(40,), (1, 1, 8)])
def test_other_inputs_are_refused_in_a_sentence(shape):
    for build in (partial(od_test_autoencoder, "model"), vae.VariationalAutoencoder, nae.build):
        with pytest.raises(UserError, match="is for images of at least"):
            build("tiny", shape)
    with pytest.raises(UserError, match="at least 4 x 4 pixels, got 3 x 9"):
        nae.build("tiny", (1, 3, 9))


# --- errors and bounds ----------------------------------------------------------------------------


def entropy(images: Tensor) -> Tensor:
    """What the cross-entropy of a perfect reconstruction is: -x log x - (1 - x) log(1 - x)."""
    terms = torch.special.entr(images) + torch.special.entr(1 - images)
    return terms.flatten(1).mean(1)


def test_the_cross_entropy_has_a_floor_and_grey_costs_log_2():
    images = torch.rand(5, 1, 6, 6, dtype=torch.float64)
    outputs = torch.randn_like(images)
    assert (cross_entropy(outputs, images) > entropy(images)).all()
    torch.testing.assert_close(cross_entropy(images.logit(), images), entropy(images))
    grey, black = torch.full((1, 1, 6, 6), 0.5), torch.zeros(1, 1, 6, 6)
    assert cross_entropy(grey.logit(), grey).item() == pytest.approx(math.log(2), abs=1e-6)
    assert cross_entropy(black - 100, black).item() == 0.0
    assert cross_entropy(black - 100, black + 1).item() == pytest.approx(100)  # never saturates
    torch.testing.assert_close(squared_error(images.logit(), images), torch.zeros(5).double())


class _Linear(nn.Module):
    """Logits of a linear map, so that the sigmoid of what comes out is linear."""

    def __init__(self, size: int, code: int) -> None:
        super().__init__()
        self.back = nn.Linear(code, size)

    def forward(self, code: Tensor) -> Tensor:
        return self.back(code).clamp(1e-6, 1 - 1e-6).logit()[:, None, None]


def test_a_linear_autoencoder_is_a_principal_component_analysis():
    rng = np.random.default_rng(0)
    deviations = np.array([0.12, 0.08, 0.05, 0.03, 0.02, 0.01])
    turned = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    values = 0.5 + 0.5 * (rng.normal(size=(200, 6)) * deviations) @ turned
    images = torch.from_numpy(values)[:, None, None]
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(6, 2))
    model = Autoencoder(encoder, _Linear(6, 2)).double()
    nn.init.constant_(model.decoder.back.bias, 0.5)
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=200, tolerance_grad=1e-12, tolerance_change=1e-16,
        line_search_fn="strong_wolfe",
    )  # fmt: skip
    task, spec = MODELS["autoencoder_mse"].task, TrainSpec(data="none")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss, _ = task.loss(spec, model, Batch(images, torch.zeros(200)))
        loss = 1e4 * loss  # so that the optimizer's tolerances are small
        loss.backward()
        return loss

    optimizer.step(closure)
    discarded = np.linalg.eigvalsh(np.cov(values.T, bias=True))[:4].sum() / 6
    assert autoencoder_mse(model, images)[:, 0].mean().item() == pytest.approx(discarded, rel=1e-5)


def test_levels_are_filled_to_the_next_one():
    images = torch.tensor([0.0, 1 / 255, 1.0]).repeat(4000, 1)
    filled = dequantized(images)
    levels = 256 * filled
    assert torch.equal(levels.floor(), torch.tensor([0.0, 1.0, 255.0]).expand(4000, 3))
    assert (levels - levels.floor()).mean().item() == pytest.approx(0.5, abs=0.02)


def test_the_divergence_is_that_of_closed_forms():
    mean, deviation = torch.tensor([[0.3], [-2.0]]), torch.tensor([[0.5], [3.0]])
    ours = vae.divergence(mean, 2 * deviation.log())
    theirs = torch.distributions.kl_divergence(
        torch.distributions.Normal(mean, deviation), torch.distributions.Normal(0.0, 1.0)
    ).sum(1)
    torch.testing.assert_close(ours, theirs)
    assert not vae.divergence(torch.zeros(2, 3), torch.zeros(2, 3)).any()


def test_a_vae_draws_in_training_only_and_its_bound_is_no_lower_than_the_entropy():
    model, images = vae.VariationalAutoencoder("tiny", (1, 8, 8)), torch.rand(6, 1, 8, 8)
    assert not torch.equal(model(images)[2], model(images)[2])
    answers = vae.variational_autoencoder(model.eval(), images)
    assert torch.equal(answers, vae.variational_autoencoder(model, images))
    assert answers.shape == (6, 1 + 8)
    assert (answers[:, 0] >= 64 * entropy(images)).all()


class _Unread(nn.Module):
    """A variational autoencoder whose decoder does not read the code."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.code = nn.Linear(size, 4)
        self.image = nn.Parameter(torch.zeros(1, 1, size))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.code(images.flatten(1)).chunk(2, 1)
        return mean, log_variance, self.image[None].expand(images.shape)


def test_a_vae_that_ignores_its_code_answers_the_mean_image_and_the_prior():
    torch.manual_seed(0)
    model, images = _Unread(5).double(), torch.rand(40, 1, 1, 5, dtype=torch.float64)
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-16,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss, _ = vae.bound_loss(TrainSpec(data="none"), model, Batch(images, torch.zeros(40)))
        loss.backward()
        return loss

    optimizer.step(closure)
    mean, log_variance, outputs = model(images)
    torch.testing.assert_close(outputs[0].sigmoid(), images.mean(0), atol=1e-5, rtol=0)
    assert vae.divergence(mean, log_variance).max().item() < 1e-8


# --- the normalized autoencoder -------------------------------------------------------------------


def linear_nae(size: int = 6, code: int = 2) -> tuple[nae.NormalizedAutoencoder, Tensor]:
    """A linear one that projects, and the projection."""
    torch.manual_seed(0)
    basis = torch.linalg.qr(torch.randn(size, code, dtype=torch.float64))[0]
    encoder, decoder = nn.Conv2d(size, code, 1, bias=False), nn.Conv2d(code, size, 1, bias=False)
    encoder.weight.data, decoder.weight.data = basis.T[:, :, None, None], basis[:, :, None, None]
    return nae.NormalizedAutoencoder(encoder, decoder, code), basis @ basis.T


def test_the_energy_of_a_linear_autoencoder_and_its_gradient_have_closed_forms():
    model, projection = linear_nae()
    points = torch.randn(7, 6, dtype=torch.float64)
    # Where the code lies on the sphere by itself, the autoencoder is the projection.
    points /= (points @ projection).norm(dim=1, keepdim=True)
    images = points[:, :, None, None].requires_grad_()
    energy = model.energy(images)
    rest = points - points @ projection
    torch.testing.assert_close(energy, rest.square().sum(1) / 6)
    (gradient,) = torch.autograd.grad(energy.sum(), images)
    torch.testing.assert_close(gradient[:, :, 0, 0], 2 * rest / 6)


@pytest.mark.parametrize(("rate", "noise", "steepness"), [(0.2, 0.05, 1.0), (0.5, 1.0, 3.0)])
def test_langevins_variance_is_the_stationary_one(rate, noise, steepness):
    generator = torch.Generator().manual_seed(0)
    chain = nae.Chain(60, rate, noise)
    ends = nae.langevin(
        lambda x: 0.5 * steepness * x.square(), torch.zeros(200_000), chain, generator=generator
    )
    expected = noise**2 / (1 - (1 - rate * steepness) ** 2)
    assert ends.var().item() == pytest.approx(expected, rel=0.02)  # 6 standard errors
    assert abs(ends.mean().item()) < 5 * math.sqrt(expected / 200_000)


def test_noise_is_annealed_after_the_second_step():
    chain = nae.Chain(5, 1.0, 0.5)
    places: list[Tensor] = []

    def watch(points: Tensor) -> Tensor:
        places.append(points)
        return points

    flat = partial(torch.mul, 0.0)
    nae.langevin(
        flat, torch.zeros(3), chain, keep=watch, annealed=True,
        generator=torch.Generator().manual_seed(1),
    )  # fmt: skip
    again = torch.Generator().manual_seed(1)
    expected, here = [], torch.zeros(3)
    for part in (1, 1, 2, 3, 4):
        here = here + 0.5 / part * torch.randn(3, generator=again)
        expected.append(here)
    torch.testing.assert_close(torch.stack(places), torch.stack(expected))


def test_gradients_are_clipped_by_row_or_by_pixel():
    gradient = torch.tensor([[[[0.03, 0.04], [0.003, -0.004]]]])
    rows = torch.tensor([[[[0.006, 0.008], [0.003, -0.004]]]])
    pixels = torch.tensor([[[[0.01, 0.01], [0.003, -0.004]]]])
    torch.testing.assert_close(nae.clip_rows(gradient, 0.01), rows)
    torch.testing.assert_close(nae.clip_pixels(gradient, 0.01), pixels)


def test_samples_stay_in_the_box_and_their_latents_on_the_sphere():
    model = nae.build("tiny", (1, 8, 8))
    sampling = nae.Sampling(nae.Chain(9, 0.2, 0.5), nae.Chain(5, 10.0, 1.0))
    images, latents = model.negatives(20, sampling, nae.clip_rows)
    assert images.shape == (20, 1, 8, 8)
    assert images.min() == 0 and images.max() == 1
    torch.testing.assert_close(latents.norm(dim=1), torch.ones(20))
    assert not images.requires_grad and all(p.grad is None for p in model.parameters())


def test_the_buffer_keeps_the_newest_latents():
    model = nae.build("tiny", (1, 8, 8))
    numbers = torch.arange(25_000.0)[:, None].expand(-1, 8)
    for part in numbers.split(700):
        model.push(part)
    assert len(model.latents) == 10_000
    assert torch.equal(model.latents[:, 0].sort().values, torch.arange(15_000.0, 25_000.0))
    model = nae.build("tiny", (1, 8, 8))
    model.push(numbers)  # more at once than there is room for
    assert model.latents.min() == 15_000


def test_most_chains_start_where_others_ended():
    model = nae.build("tiny", (1, 8, 8))
    assert len(model.starts(3).unique(dim=0)) == 3  # the buffer is empty: anywhere
    kept = nae.on_sphere(torch.randn(5, 8))
    model.push(kept)
    starts = model.starts(4000, torch.Generator().manual_seed(0))
    near = (starts[:, None] - kept).norm(dim=2).min(1).values < 1e-5
    assert near.float().mean().item() == pytest.approx(0.95, abs=0.015)
    torch.testing.assert_close(starts.norm(dim=1), torch.ones(4000))


def test_nothing_is_learned_where_samples_and_images_coincide():
    model, images = nae.build("tiny", (1, 8, 8)), torch.rand(4, 1, 8, 8)
    energy = model.energy(images)
    nae.contrast(energy, model.energy(images), square=0.0).backward()
    assert all(not p.grad.any() for p in model.parameters())


def test_the_published_loss_of_grey_images_counts_the_weights_of_the_encoder():
    model, images = nae.build("paper", (1, 28, 28)).eval(), torch.rand(2, 1, 28, 28)
    spec = TrainSpec(data="none", model_size="paper")
    loss, _ = MODELS["nae"].task.loss(spec, model, Batch(images, torch.zeros(2)))
    penalty = 1e-4 * sum(p.square().sum() for p in model.encoder.parameters())
    torch.testing.assert_close(loss, model.energy(images).mean() + penalty)


def test_the_first_phase_draws_nothing_and_the_second_fills_the_buffer():
    spec, images = TrainSpec(data="none", model_size="tiny"), torch.rand(6, 1, 8, 8)
    loss_of = MODELS["nae"].task.loss
    first = nae.phases("tiny", (1, 8, 8))[0]
    model = nae.build("tiny", (1, 8, 8))
    model.eval()
    loss, measures = loss_of(spec, model, Batch(images, torch.zeros(6), progress=first - 0.01))
    torch.testing.assert_close(loss, model.energy(images).mean())
    assert measures["negative_energy"] == 0 and not model.pushed
    with torch.no_grad():  # as in validation
        loss, measures = loss_of(spec, model, Batch(images, torch.zeros(6), progress=first))
    assert measures["negative_energy"] > 0 and not model.pushed
    model.train()
    loss_of(spec, model, Batch(images, torch.zeros(6), progress=first))
    assert model.pushed == 6


# --- training -------------------------------------------------------------------------------------

NAMES = ["autoencoder_mse", "autoencoder_bce", "variational_autoencoder", "nae"]


@pytest.fixture(scope="module")
def digits() -> Source:
    return load_source(TrainSpec(data="digits"))


def started(name: str, digits: Source, **changes: object) -> Training:
    card, train = MODELS[name], digits.train
    spec = card.recipe(TrainSpec(data="digits", model_size="tiny"), (len(train), *train.shape))
    spec = spec.model_copy(update={"train_size": 400, **changes})
    return Training(spec, train, digits.classes, task=card.task)


@pytest.mark.parametrize("name", NAMES)
def test_a_tiny_one_learns_and_tells_noise_from_digits(name, digits):
    training = started(name, digits)
    while not training.finished:
        training.run_epoch()
    measure = "train_energy" if name.startswith("nae") else "train_loss"
    assert training.curve[measure][-1] < training.curve[measure][0]
    card = MODELS[name]
    model = card.task.fresh_network(training.spec, digits.train.shape, digits.classes)
    model.load_state_dict({n: torch.from_numpy(v) for n, v in training.weights().items()})
    pixels = np.random.default_rng(0).random((300, *digits.test.shape), dtype=np.float32)
    noise = Images("noise", pixels, np.full(300, -1))
    known, unknown = (answers_of(card, model, part) for part in (digits.test, noise))
    if not name.startswith("nae"):
        assert known.shape[1] == 1 + 8
        known, unknown = known[:, 0], unknown[:, 0]
    assert auroc(known.numpy(), unknown.numpy()) > 0.9
    if card.samples is not None:
        drawn = draw_samples(card, model, 3, seed=0)
        assert drawn.shape == (3, *digits.test.shape) and drawn.std() > 0
        assert torch.equal(drawn, draw_samples(card, model, 3, seed=0))


def test_a_training_that_was_cut_ends_with_the_same_bytes_and_the_same_buffer(digits):
    whole = started("nae", digits, train_size=100)
    while not whole.finished:
        whole.run_epoch()
    assert whole.curve["train_negative_energy"][5] == 0 < whole.curve["train_negative_energy"][6]
    training = started("nae", digits, train_size=100)
    for _ in range(7):  # into the second phase
        training.run_epoch()
    kept = bytes_to_arrays(arrays_to_bytes(training.snapshot()))
    training = started("nae", digits, train_size=100)
    training.restore(kept)
    training.run_epoch()
    weights = training.weights()
    assert int(weights["pushed"]) == 2 * 100 and weights["latents"].any()
    assert arrays_to_bytes(weights) == arrays_to_bytes(whole.weights())
    assert training.curve == whole.curve


@pytest.mark.parametrize(
    ("name", "shape", "epochs"),
    [
        ("autoencoder_mse", (1, 28, 28), 240),
        ("autoencoder_bce", (3, 64, 64), 480),
        ("autoencoder_evg_mse", (3, 32, 32), 500),
        ("variational_autoencoder", (3, 32, 32), 480),
        ("variational_autoencoder", (3, 64, 64), 960),
        ("nae", (1, 28, 28), 150),
        ("nae", (3, 32, 32), 190),
    ],
)
def test_the_published_trainings(name, shape, epochs):
    spec = TrainSpec(data="fashion-mnist", model_size="paper")
    recipe = MODELS[name].recipe(spec, (60_000, *shape))
    assert (recipe.epochs, recipe.batch_size, recipe.train_size) == (epochs, 128, None)
    check_spec(recipe, task=MODELS[name].task)
    small = MODELS[name].recipe(spec.model_copy(update={"model_size": "small"}), (60_000, *shape))
    assert small.train_size == 10_000
    check_spec(small, task=MODELS[name].task)
