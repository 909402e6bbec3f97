"""PixelCNN++: enumeration, causality by gradients, published numbers of parameters."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from oodometer.lab.detector_models import pixelcnn
from oodometer.lab.detector_models.pixelcnn_likelihood import (
    draw_pixels,
    log_probabilities,
    outputs_per_pixel,
)
from oodometer.lab.detector_models.pixelcnn_network import (
    AveragedPixelCNN,
    PixelCNN,
    Structure,
    start_from,
)

GRID = torch.arange(256, dtype=torch.float64) / 127.5 - 1


def _random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _outputs(channels: int, components: int, seed: int, spread: float = 2.0) -> Tensor:
    size = (1, outputs_per_pixel(channels, components), 1, 1)
    return torch.randn(size, generator=_random(seed), dtype=torch.float64) * spread


def _network(channels: int, structure: Structure, seed: int = 0) -> PixelCNN:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return PixelCNN((channels, 8, 8), structure).double().eval()


def _naive(outputs: Tensor, values: Tensor) -> Tensor:
    """Probability of one pixel (C,), straight from the definition: differences of sigmoids."""
    channels = len(values)
    kinds = 3 if channels == 3 else 2
    components = len(outputs) // (1 + kinds * channels)
    weights = outputs[:components].softmax(0)
    total = torch.zeros((), dtype=outputs.dtype)
    for k in range(components):
        product = weights[k]
        blocks = outputs[components:].reshape(channels, kinds, components)[:, :, k]
        for c in range(channels):
            mean, inverse = blocks[c, 0], torch.exp(-blocks[c, 1].clamp(min=-7))
            if channels == 3 and c == 1:
                mean = mean + torch.tanh(blocks[0, 2]) * values[0]
            if channels == 3 and c == 2:
                mean = mean + torch.tanh(blocks[1, 2]) * values[0]
                mean = mean + torch.tanh(blocks[2, 2]) * values[1]
            high = torch.sigmoid(inverse * (values[c] - mean + 1 / 255))
            low = torch.sigmoid(inverse * (values[c] - mean - 1 / 255))
            if values[c] > 0.999:
                high = torch.ones_like(high)
            if values[c] < -0.999:
                low = torch.zeros_like(low)
            product = product * (high - low)
        total = total + product
    return total


@pytest.mark.parametrize("spread", [0.5, 2.0, 6.0])
def test_256_probabilities_sum_to_one(spread: float) -> None:
    """Also with narrow and with far components, where differences of sigmoids vanish."""
    values = GRID.reshape(256, 1, 1, 1)
    logs = log_probabilities(_outputs(1, 4, 0, spread).expand(256, -1, 1, 1), values)
    assert float(logs.exp().sum()) == pytest.approx(1, abs=1e-12)
    assert logs.isfinite().all()


def test_colors_sum_to_one_given_the_colors_before() -> None:
    """Of one component: the sum over blue and green is the probability of red alone."""
    outputs = _outputs(3, 1, 1, 0.7)
    reds = GRID[::85]
    values = torch.cartesian_prod(reds, GRID, GRID)[:, :, None, None]
    sums = log_probabilities(outputs.expand(len(values), -1, 1, 1), values).exp()
    alone = outputs[:, :3].expand(len(reds), -1, 1, 1)  # what a grey pixel has
    wanted = log_probabilities(alone, reds.reshape(-1, 1, 1, 1)).exp()
    assert torch.allclose(sums.reshape(len(reds), -1).sum(1), wanted.flatten(), atol=1e-12)


@pytest.mark.parametrize("channels", [1, 3])
def test_probabilities_are_those_of_the_definition(channels: int) -> None:
    places = torch.randint(0, 256, (40, channels), generator=_random(3))
    places[0], places[1] = 0, 255
    for seed, place in enumerate(places):
        outputs, values = _outputs(channels, 3, seed, 1.0), GRID[place]
        found = log_probabilities(outputs, values.reshape(1, channels, 1, 1)).exp()
        assert float(found) == pytest.approx(float(_naive(outputs[0, :, 0, 0], values)), rel=1e-9)


def test_an_interior_value_costs_at_least_what_the_narrowest_scale_allows() -> None:
    """-log2(2 S(e^7 / 255) - 1) = 0.0391 bits inside; black can cost nothing."""
    outputs = torch.tensor([0.0, 0.0, -20.0], dtype=torch.float64).reshape(1, 3, 1, 1)
    outputs[0, 1] = GRID[100]
    middle = -log_probabilities(outputs, GRID[100].reshape(1, 1, 1, 1)) / math.log(2)
    assert float(middle) == pytest.approx(0.0391, abs=5e-5)
    outputs[0, 1] = -3.0
    assert float(-log_probabilities(outputs, GRID[0].reshape(1, 1, 1, 1))) < 1e-6


@pytest.mark.parametrize("channels", [1, 3])
def test_drawn_pixels_have_the_probabilities_that_are_scored(channels: int) -> None:
    """Wide components leave black and white only: all 2^C pixels can be counted."""
    outputs = _outputs(channels, 2, 7, 1.0)
    blocks = outputs[:, 2:].reshape(1, channels, -1, 2, 1, 1)
    blocks[:, :, 1] += 6.0  # log-scales
    blocks[:, :, 0] *= 400.0  # means
    drawn = draw_pixels(outputs.expand(20_000, -1, 1, 1), channels, _random(0))
    corners = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * channels)
    corners = corners.reshape(2**channels, channels, 1, 1)
    wanted = log_probabilities(outputs.expand(len(corners), -1, 1, 1), corners).exp()
    assert 0.95 < float(wanted.sum()) <= 1
    for corner, share in zip(corners, wanted.flatten().tolist(), strict=True):
        found = float((drawn == corner).all(1).double().mean())
        assert found == pytest.approx(share, abs=5 * math.sqrt(share / 20_000) + 1e-3)


@pytest.mark.parametrize(("channels", "height", "width"), [(1, 8, 8), (3, 6, 5)])
def test_a_pixel_depends_on_the_pixels_before_and_on_no_other(
    channels: int, height: int, width: int
) -> None:
    """Also where sides are padded to a multiple of 4."""
    net = _network(channels, Structure(3, 2, blocks=1, dropout=0.0))
    size = (1, channels, height, width)
    images = torch.rand(size, generator=_random(0), dtype=torch.float64).requires_grad_()
    outputs = net(images)
    for place in range(height * width):
        row, column = divmod(place, width)
        made = outputs[0, :, row, column].square().sum()
        (gradient,) = torch.autograd.grad(made, images, retain_graph=True)
        of_pixel = gradient.abs().sum(1).flatten()
        assert not of_pixel[place:].any()
        near = [(row, column - 1), (row - 1, column), (row - 1, column + 1)]
        for above, beside in near:
            if above >= 0 and 0 <= beside < width:
                assert of_pixel[above * width + beside] > 0


def test_a_changed_pixel_changes_no_probability_before_it() -> None:
    net = _network(1, Structure(3, 2, blocks=1, dropout=0.0))
    images = torch.rand(1, 1, 8, 8, generator=_random(1), dtype=torch.float64)
    changed = images.clone()
    changed[0, 0, 4, 3] = 1 - changed[0, 0, 4, 3]
    with torch.no_grad():
        before, after = (
            log_probabilities(net(each), 2 * each - 1).flatten() for each in (images, changed)
        )
    differs = (before != after).nonzero().flatten()
    assert int(differs[0]) == 4 * 8 + 3
    assert len(differs) > 10


@torch.no_grad()
def test_all_images_of_a_small_world_have_probabilities_that_sum_to_one() -> None:
    """Over all values of the last pixel, they add up to the probability of the pixels before."""
    net = _network(1, Structure(4, 2, blocks=1, dropout=0.0), seed=2)
    image = torch.rand(1, 1, 4, 4, generator=_random(2), dtype=torch.float64)
    worlds = image.repeat(256, 1, 1, 1)
    worlds[:, 0, 3, 3] = (GRID + 1) / 2
    logs = log_probabilities(net(worlds), 2 * worlds - 1).sum((1, 2))
    earlier = log_probabilities(net(image), 2 * image - 1).flatten()[:-1].sum()
    assert float(logs.logsumexp(0)) == pytest.approx(float(earlier), abs=1e-10)


@torch.no_grad()
def test_drawing_images_and_scoring_them_agree_with_enumeration() -> None:
    """3 x 3 pixels, so wide a scale that they are black or white: 512 images have all the mass."""
    net = _network(1, Structure(4, 1, blocks=1, dropout=0.0), seed=3)
    net.last.gain[1], net.last.bias[2] = 1500.0, 6.0  # means follow the pixels before; log-scale
    corners = torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * 9)
    worlds = corners.reshape(512, 1, 3, 3)
    shares = log_probabilities(net(worlds), 2 * worlds - 1).sum((1, 2)).exp()
    assert 0.98 < float(shares.sum()) <= 1
    draws = 4_000
    net.shape = (1, 3, 3)
    drawn = pixelcnn.draw_images(net.float(), draws, _random(0))
    number = ((drawn > 0.5).flatten(1) * 2 ** torch.arange(8, -1, -1)).sum(1)
    counts = torch.bincount(number, minlength=512).double()
    expected = shares / shares.sum() * draws
    kept = expected > 5
    assert expected[kept].max() < 0.5 * draws  # or else there is nothing to compare
    freedom = int(kept.sum()) - 1
    statistic = ((counts - expected).square() / expected)[kept].sum()
    assert abs(float(statistic) - freedom) < 5 * math.sqrt(2 * freedom)


@pytest.mark.parametrize(
    ("channels", "filters", "components", "count"),
    [
        (3, 160, 10, 53_659_080),
        (3, 80, 10, 13_440_840),
        (1, 64, 5, 8_603_486),
        (1, 32, 5, 2_159_550),
    ],
)
def test_numbers_of_parameters_are_the_published_ones(
    channels: int, filters: int, components: int, count: int
) -> None:
    net = PixelCNN((channels, 32, 32), Structure(filters, components))
    assert sum(parameter.numel() for parameter in net.parameters()) == count


@torch.no_grad()
def test_a_start_from_data_makes_every_output_standard() -> None:
    net = _network(1, Structure(4, 2, blocks=1, dropout=0.0))
    images = torch.rand(16, 1, 8, 8, generator=_random(5), dtype=torch.float64)
    start_from(net, images)
    seen = {}
    for name, layer in net.named_modules():
        if hasattr(layer, "gain"):
            layer.register_forward_hook(
                lambda _, __, made, name=name: seen.update(
                    {name: torch.var_mean(made, (0, 2, 3), correction=0)}
                )
            )
    net(images)
    assert len(seen) > 40
    for name, (variance, mean) in seen.items():
        wanted = 0.01 if name.endswith("second") else 1.0
        assert torch.allclose(mean, torch.zeros_like(mean), atol=1e-9), name
        assert torch.allclose(variance, torch.full_like(variance, wanted), rtol=1e-6), name


def test_the_average_follows_the_weights_and_answers_alone() -> None:
    """Of the first steps it is the plain mean; later ones count by the decay."""
    net = AveragedPixelCNN((1, 4, 4), Structure(2, 1, blocks=1, dropout=0.0), decay=0.6)
    images = torch.rand(4, 1, 4, 4, generator=_random(6))
    net.train()(images)  # starts from data
    weight = net.network.last.bias
    history = [weight.detach().clone()]
    for value in (1.0, 5.0, -2.0):
        with torch.no_grad():
            weight.fill_(value)
        net(images)
        history.append(weight.detach().clone())
    mean = (history[0] + history[1]) / 2
    for later in history[2:]:
        mean = 0.6 * mean + 0.4 * later
    assert torch.allclose(net.average.last.bias, mean)
    assert torch.equal(net.eval()(images), net.average(images))
    assert not any(parameter.requires_grad for parameter in net.average.parameters())
