"""Glow: closed forms, Jacobians by autograd, published numbers of parameters."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from oodometer.lab.detector_models import glow_network
from oodometer.lab.detector_models.glow_network import Glow, Structure

COUPLINGS = ("sigmoid", "exponential")
VARIANTS = list(itertools.product(COUPLINGS, (False, True)))


def _stirred(shape: tuple[int, int, int], structure: Structure, seed: int = 0) -> Glow:
    """A network in double precision with weights that are far from those at the start."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = Glow(shape, structure).double()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
    return net.eval()


def _pixels(*shape: int, seed: int = 1) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=random, dtype=torch.float64) * 0.9 + 0.05


def _latent(net: Glow, flat: Tensor, shape: tuple[int, ...]) -> Tensor:
    """All latent numbers of one image, standardized by the priors, in one vector."""
    values = torch.logit(((2 * flat.reshape(1, *shape) - 1) * 0.9 + 1) / 2)
    found = []
    for level in net.levels:
        values = nn.functional.pixel_unshuffle(values, 2)
        for step in level.steps:
            values = step(values)[0]
        if level.prior is not None:
            values, rest = values.chunk(2, 1)
            told = level.prior(values)
            found.append(((rest - told[:, 0::2]) / told[:, 1::2].exp()).flatten())
    return torch.cat([*found, values.flatten()])


@pytest.mark.parametrize(("coupling", "triangular"), VARIANTS)
def test_the_density_is_that_of_the_latent_numbers_times_the_jacobian(
    coupling: glow_network.Coupling, triangular: bool
) -> None:
    """log p(x) = log N(z; 0, I) + log |det dz/dx|, with autograd's Jacobian of a 4 x 4 image."""
    shape = (1, 4, 4)
    net = _stirred(shape, Structure(2, 2, 6, coupling, triangular))
    image = _pixels(1, *shape)

    def made(flat: Tensor) -> Tensor:
        return _latent(net, flat, shape)

    jacobian = torch.autograd.functional.jacobian(made, image.flatten())
    latent = made(image.flatten())
    normal = -0.5 * (latent.square() + math.log(2 * math.pi)).sum()
    wanted = normal + torch.linalg.slogdet(jacobian)[1]
    assert torch.allclose(net(image)[0], wanted, atol=1e-9)


@pytest.mark.parametrize(("coupling", "triangular"), VARIANTS)
def test_steps_are_undone(coupling: glow_network.Coupling, triangular: bool) -> None:
    net = _stirred((2, 8, 8), Structure(1, 2, 6, coupling, triangular))
    values = _pixels(3, 8, 4, 4)
    for step in net.levels[0].steps:
        made, log_determinant = step(values)
        assert torch.allclose(step.inverse(made), values, atol=1e-10)
        flat = torch.autograd.functional.jacobian(
            lambda back, step=step: step.inverse(back.reshape(1, 8, 4, 4)).flatten(),
            made[:1].flatten(),
        )
        assert torch.allclose(torch.linalg.slogdet(flat)[1], -log_determinant[0], atol=1e-9)
        values = made


def test_levels_are_undone_and_draws_have_the_density_that_is_measured() -> None:
    """Noise -> image -> latent numbers is the identity, over levels and their priors."""
    shape = (1, 4, 4)
    net = _stirred(shape, Structure(2, 1, 4))
    noise = [_pixels(1, 2, 2, 2, seed=3) - 0.5, _pixels(1, 8, 1, 1, seed=4) - 0.5]
    values = net.levels[1].inverse(torch.empty(0), noise[1])
    values = net.levels[0].inverse(values, noise[0])
    pixels = ((values.sigmoid() * 2 - 1) / 0.9 + 1) / 2
    wanted = torch.cat([part.flatten() for part in noise])
    assert torch.allclose(_latent(net, pixels.flatten(), shape), wanted, atol=1e-9)


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_at_the_start_a_coupling_is_the_identity_or_a_constant(
    coupling: glow_network.Coupling,
) -> None:
    made = glow_network._Coupling(4, Structure(1, 1, 8, coupling))
    values = torch.randn(2, 4, 3, 3)
    moved, log_determinant = made(values)
    factor = 1.0 if coupling == "exponential" else 1 / (1 + math.exp(-2))
    assert torch.allclose(moved[:, :2], values[:, :2])
    assert torch.allclose(moved[:, 2:], values[:, 2:] * factor)
    assert torch.allclose(log_determinant, torch.full((2,), 18 * math.log(factor)), atol=1e-5)


@pytest.mark.parametrize("side", [1, 3])
def test_the_first_batch_is_normalized_and_no_other(side: int) -> None:
    layer = glow_network._Convolution(2, 3, side)
    first, second = torch.randn(64, 2, 4, 4) * 5 + 2, torch.randn(64, 2, 4, 4)
    layer.eval()(first)
    assert not layer.normalization.started
    made = layer.train()(first)
    assert torch.allclose(made.mean((0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(made.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-4)
    before = layer.normalization.log_scale.clone()
    layer(second)
    assert torch.equal(layer.normalization.log_scale, before)


def test_without_steps_it_is_a_normal_distribution_of_logits() -> None:
    """K = 0, L = 1: the analytic density of independent logit-normal pixels."""
    net = Glow((1, 2, 2), Structure(1, 0, 1)).double()
    image = _pixels(5, 1, 2, 2)
    p = ((2 * image - 1) * 0.9 + 1) / 2
    logit = (p / (1 - p)).log()
    density = torch.distributions.Normal(0.0, 1.0).log_prob(logit) + (0.9 / (p * (1 - p))).log()
    assert torch.allclose(net(image), density.sum((1, 2, 3)))


@torch.no_grad()
def test_the_density_integrates_to_one() -> None:
    """Over a grid of the four logits of a 2 x 2 image, which is one pixel of four channels."""
    net = _stirred((1, 2, 2), Structure(1, 1, 3), seed=5)
    side = torch.linspace(-9, 9, 31, dtype=torch.float64)
    values = torch.cartesian_prod(side, side, side, side)[:, :, None, None]
    total = torch.zeros(len(values), dtype=torch.float64)
    for step in net.levels[0].steps:
        values, log_determinant = step(values)
        total += log_determinant
    logs = total - 0.5 * (values.square() + math.log(2 * math.pi)).sum((1, 2, 3))
    assert float(logs.exp().sum() * (side[1] - side[0]) ** 4) == pytest.approx(1.0, abs=1e-3)


def test_the_slope_of_the_logit_is_a_finite_difference() -> None:
    image = _pixels(1, 1, 1, 1)
    near = 1e-6
    low, high = (glow_network._to_logit(image + sign * near)[0] for sign in (-1, 1))
    assert float(glow_network._to_logit(image)[1]) == pytest.approx(
        math.log(float(high - low) / (2 * near)), abs=1e-8
    )


@pytest.mark.parametrize(
    ("shape", "structure", "count"),
    [
        ((3, 32, 32), Structure(3, 32, 512, "exponential"), 44_054_064),
        ((3, 32, 32), Structure(3, 32, 512, "sigmoid"), 44_052_720),
        ((1, 28, 28), Structure(2, 8, 64, "sigmoid"), 153_680),
        ((3, 32, 32), Structure(3, 8, 64, "sigmoid"), 715_248),
    ],
)
def test_numbers_of_parameters_are_the_published_ones(
    shape: tuple[int, int, int], structure: Structure, count: int
) -> None:
    with torch.device("meta"):
        made = sum(part.numel() for part in Glow(shape, structure).parameters())
    assert made == count


def test_sides_are_padded_with_black_that_counts() -> None:
    net = _stirred((1, 6, 5), Structure(2, 1, 4))
    images = _pixels(2, 1, 6, 5)
    framed = torch.zeros(2, 1, 8, 8, dtype=torch.float64)
    framed[:, :, 1:7, 1:6] = images
    whole = Glow((1, 8, 8), Structure(2, 1, 4)).double().eval()
    whole.load_state_dict(net.state_dict())
    assert torch.allclose(net(images), whole(framed))
    assert net.float().draw(2, torch.Generator().manual_seed(0)).shape == (2, 1, 6, 5)
