"""The search for outliers that fool a detector."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from scipy import stats
from torch import Tensor

import oodometer as om
from oodometer.errors import UserError
from oodometer.lab.search import METHODS, Variation, affine, color, generated, linf
from oodometer.lab.search.chains import effective_samples
from oodometer.lab.training import color as augmenting


def line(dimensions: int = 1, start: float | None = None) -> Variation:
    """Points of the box as images of one row, so that a score can be any function of the point."""

    def make(images: Tensor, latent: Tensor) -> Tensor:
        return latent[:, None, None, :]

    first = None if start is None else torch.full((dimensions,), start)
    return Variation("line", dimensions, make, start=first)


def pictures(count: int, channels: int = 3, side: int = 8, seed: int = 0) -> Tensor:
    return torch.rand(count, channels, side, side, generator=torch.Generator().manual_seed(seed))


def of_point(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda images: function(images[:, 0, 0, :])


def brightness(images: Tensor) -> Tensor:
    return images.mean((1, 2, 3))


def contrast(images: Tensor) -> Tensor:
    return -images.std((1, 2, 3))


def empty(count: int) -> Tensor:
    return torch.zeros(count, 1, 1, 1)


# ---- what chains visit


@pytest.mark.parametrize("method", ["metropolis(proposal=0.3)", "tempering(proposal=0.3)"])
def test_chains_visit_points_in_proportion_to_the_target(method: str) -> None:
    """The last points of 6,000 chains are a sample of exp(-E), whose distribution is known."""
    energy = lambda z: 3 * torch.cos(2 * torch.pi * z[:, 0]) + z[:, 0]  # noqa: E731
    found = om.search(
        of_point(energy), line(), empty(6000), method=method, steps=60, start="random", seed=3
    )
    last = found.state["latent"][:, 0]
    grid = np.linspace(0, 1, 4001)
    density = np.exp(-(3 * np.cos(2 * np.pi * grid) + grid))
    cumulative = np.cumsum(density) / density.sum()
    assert stats.kstest(last, lambda x: np.interp(x, grid, cumulative)).pvalue > 0.01


def test_published_clamping_makes_chains_stick_to_the_faces() -> None:
    flat = of_point(lambda z: 0 * z[:, 0])
    ends = {}
    for bounds in ("reflect", "clamp"):
        method = f"metropolis(proposal=0.3, bounds={bounds})"
        found = om.search(flat, line(), empty(4000), method=method, steps=30, start="random")
        last = found.state["latent"][:, 0]
        ends[bounds] = float(((last == 0) | (last == 1)).mean())
    assert ends["reflect"] < 0.001
    assert ends["clamp"] > 0.2


def test_chains_on_the_sphere_follow_von_mises_and_fisher() -> None:
    """In three dimensions the mean of the first coordinate is coth k - 1 / k."""
    strength = 2.0
    on_sphere = generated(lambda z: (z[:, None, None, :] + 1) / 2, 3)
    energy = of_point(lambda x: -strength * (2 * x[:, 0] - 1))
    found = om.search(energy, on_sphere, chains=6000, method="metropolis(proposal=0.6)", steps=60)
    last = found.state["latent"]
    assert np.allclose(np.linalg.norm(last, axis=1), 1, atol=1e-5)
    expected = 1 / math.tanh(strength) - 1 / strength
    assert abs(last[:, 0].mean() - expected) < 4 * last[:, 0].std() / math.sqrt(6000)


def test_acceptance_has_the_right_sign() -> None:
    """Chains go down; the sign of the paper's appendix would drive them up."""
    found = om.search(
        of_point(lambda z: 50 * z[:, 0]), line(), empty(200), steps=100, start="random"
    )
    assert found.state["latent"].mean() < 0.1


def test_metropolis_finds_the_hidden_minimum_where_coordinate_descent_sticks() -> None:
    """A wide valley at the start, and a deep narrow one that lies along no axis."""

    def energy(z: Tensor) -> Tensor:
        wide = (z - 0.3).square().sum(1)
        deep = 3 * torch.exp(-(z - 0.85).square().sum(1) / (2 * 0.05**2))
        return wide - deep

    lowest = {}
    for method in ("metropolis(proposal=0.15)", "coordinate_descent"):
        found = om.search(of_point(energy), line(2, 0.3), empty(50), method=method, steps=800)
        lowest[method] = found.scores
    assert (lowest["coordinate_descent"] > -0.1).all()
    assert (lowest["metropolis(proposal=0.15)"] < -1).mean() > 0.9


def test_effective_sample_size_of_an_autoregression() -> None:
    """With correlation r between neighbours it is n (1 - r) / (1 + r)."""
    random = np.random.default_rng(0)
    rows, chains, share = 4000, 60, 0.8
    trace = np.zeros((rows, chains))
    for row in range(1, rows):
        trace[row] = share * trace[row - 1] + random.normal(size=chains)
    sizes = effective_samples(torch.from_numpy(trace))
    assert float(sizes.mean()) == pytest.approx(rows * (1 - share) / (1 + share), rel=0.08)
    assert effective_samples(torch.ones(50, 2)).tolist() == [1, 1]


# ---- methods


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_goes_down_and_more_steps_are_never_worse(method: str) -> None:
    target = torch.tensor([0.2, 0.9, 0.6])
    energy = of_point(lambda z: 30 * (z - target).square().sum(1))
    short, long = (
        om.search(energy, line(3, 0.5), empty(20), method=method, steps=steps, seed=1)
        for steps in (5, 60)
    )
    assert (long.scores <= short.scores).all()
    assert (short.visited_scores <= short.trace[0]).all()
    start = 30 * float((target - 0.5).square().sum())
    assert long.scores.mean() < start / 3


@pytest.mark.parametrize("method", list(METHODS))
def test_a_resumed_search_ends_with_the_same_bytes(method: str) -> None:
    energy = of_point(lambda z: (z * torch.arange(1, 4)).sin().sum(1))
    arguments = {"method": method, "seed": 5}
    whole = om.search(energy, line(3), empty(7), steps=23, **arguments)
    part = om.search(energy, line(3), empty(7), steps=11, **arguments)
    resumed = om.search(energy, line(3), empty(7), steps=23, resume=part, **arguments)
    assert resumed.state.keys() == whole.state.keys()
    for name, value in whole.state.items():
        assert value.tobytes() == resumed.state[name].tobytes(), name
    assert resumed.scores.tobytes() == whole.scores.tobytes()


def test_a_search_that_is_killed_is_resumed_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oodometer.lab.search.run._SECONDS_BETWEEN_SAVES", 0.0)
    images, calls = pictures(5), []

    def score(part: Tensor) -> Tensor:
        calls.append(len(part))
        if len(calls) == 9:
            raise KeyboardInterrupt
        return part.mean((1, 2, 3))

    whole = om.search(brightness, "color", images, steps=20)
    with pytest.raises(KeyboardInterrupt):
        om.search(score, "color", images, steps=20, folder=tmp_path)
    before = len(calls)
    resumed = om.search(score, "color", images, steps=20, folder=tmp_path)
    assert len(calls) - before < 18  # 20 steps, the start, and two to score what was found
    assert resumed.trace.tobytes() == whole.trace.tobytes()
    assert torch.equal(resumed.images, whole.images)
    # Another detector, seed or bound is another search.
    other = om.search(contrast, "color", images, steps=20, folder=tmp_path)
    assert other.trace.tobytes() == om.search(contrast, "color", images, steps=20).trace.tobytes()
    narrow = om.search(brightness, "color(hue=0.1)", images, steps=20, folder=tmp_path)
    assert not torch.equal(narrow.images, whole.images)


def test_a_damaged_file_of_a_search_is_not_used(tmp_path: Path) -> None:
    images = pictures(5)
    first = om.search(brightness, "color", images, steps=5, folder=tmp_path)
    (file,) = tmp_path.iterdir()
    content = bytearray(file.read_bytes())
    content[-40] ^= 1
    file.write_bytes(content)
    again = om.search(brightness, "color", images, steps=5, folder=tmp_path)
    assert again.trace.tobytes() == first.trace.tobytes()
    assert again.asked == first.asked


def test_gradient_descent_reaches_the_corner_of_the_ball() -> None:
    """The lowest value of w·x in the ball is at x - r sign(w), cut to [0, 1]."""
    images = pictures(4)
    weights = torch.randn(images[0].numel(), generator=torch.Generator().manual_seed(1))
    found = om.search(
        lambda part: part.flatten(1) @ weights,
        linf((3, 8, 8), radius=0.05),
        images,
        method="gradient_descent(size=0.25)",
        steps=4,
    )
    corner = (images - 0.05 * weights.sign().view(3, 8, 8)).clamp(0, 1)
    assert torch.allclose(found.images, corner, atol=1e-6)


def test_zeroth_order_attack_lowers_a_linear_score_within_the_ball() -> None:
    images = pictures(6)
    weights = torch.randn(192, generator=torch.Generator().manual_seed(1))
    found = om.search(
        lambda part: part.flatten(1) @ weights, "linf", images, method="zeroth_order", steps=400
    )
    assert (found.images - images).abs().max() <= 0.01 + 1e-6
    best = 0.01 * float(weights.abs().sum())  # what moving every pixel by the radius can gain
    assert ((found.clean_scores - found.scores) > 0.2 * best).all()


def test_methods_with_gradients_refuse_scores_without() -> None:
    blind = of_point(lambda z: z.detach().sum(1))
    with pytest.raises(UserError, match="no gradient with respect to the images"):
        om.search(blind, line(2), empty(3), method="langevin", steps=2)


# ---- variations


def test_the_start_leaves_images_exactly_as_they_are() -> None:
    for channels in (1, 3):
        images = pictures(5, channels, 9)
        for made in (affine((channels, 9, 9)), color((channels, 9, 9)), linf((channels, 9, 9))):
            assert made.start is not None
            same = made.images(images, made.start.float().repeat(5, 1))
            assert torch.equal(same, images), made.name
            anywhere = made.make(images, torch.rand(5, made.dimensions))
            assert anywhere.min() >= 0
            assert anywhere.max() <= 1


def test_shifts_and_half_turns_move_pixels_exactly() -> None:
    images = pictures(1, 1, 8)
    made = affine((1, 8, 8), angle=180, shift=32)  # shifts of up to 8 pixels

    def at(angle: float, right: float, down: float) -> Tensor:
        z = [(angle + 180) / 360, (right + 8) / 16, (down + 8) / 16, 1 / 6, 0.5]
        return made.images(images, torch.tensor([z], dtype=torch.float64))

    shifted = at(0, 3, -2)[0, 0]
    assert torch.allclose(shifted[:6, 3:], images[0, 0, 2:, :5], atol=1e-5)
    assert shifted[6:].abs().max() < 1e-5
    assert shifted[:, :3].abs().max() < 1e-5
    assert torch.allclose(at(180, 0, 0)[0, 0], images[0, 0].flip(0, 1), atol=1e-5)


def test_affine_agrees_with_pillow() -> None:
    """Pillow takes the map from new to old places, with pixel centres at halves."""
    side, random = 33, np.random.default_rng(0)
    coarse = Image.fromarray(random.random((6, 6)).astype(np.float32))
    smooth = np.asarray(coarse.resize((side, side), Image.Resampling.BILINEAR))
    made = affine((1, side, side))
    for row in random.random((6, 5)):
        turn = math.radians(-45 + 90 * row[0])
        x, y = ((-10 + 20 * part) * side / 32 for part in row[1:3])
        scale, skew = 0.9 + 0.6 * row[3], math.tan(math.radians(30)) * (2 * row[4] - 1)
        turned = scale * np.array(
            [[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]]
        )
        forward = turned @ np.array([[1, skew], [0, 1]])
        back = np.linalg.inv(forward)
        centre = np.full(2, side / 2)
        offset = centre - back @ (centre + np.array([x, y]))
        coefficients = (*back[0], offset[0], *back[1], offset[1])
        picture = Image.fromarray(smooth)
        expected = np.asarray(
            picture.transform(
                (side, side), Image.Transform.AFFINE, coefficients, Image.Resampling.BILINEAR
            )
        )
        images = torch.from_numpy(smooth.copy())[None, None]
        got = made.images(images, torch.tensor(row[None], dtype=torch.float32))[0, 0].numpy()
        # They treat the border of the image differently: compare what comes from its inside.
        place = np.stack(np.meshgrid(np.arange(side), np.arange(side))) + 0.5
        source = np.einsum("ij,jkl->ikl", back, place) + offset[:, None, None]
        inner = ((source > 1) & (source < side - 1)).all(0)
        assert inner.sum() > 60
        assert np.abs(expected - got)[inner].max() < 1e-4


def test_color_agrees_with_pillow_and_colorsys() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    images = torch.from_numpy(picture).permute(2, 0, 1)[None].float() / 255
    made = color((3, 8, 8))
    neutral = [0.5, 0.5, 0.5, 0.5]
    enhancers = [ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color]
    for place, (enhance, low, width) in enumerate(
        zip(enhancers, (0.5, 0.5, 0.0), (1.0, 1.0, 2.0), strict=True)
    ):
        for value in (0.1, 0.4, 0.9):
            point = list(neutral)
            point[place] = value
            got = made.images(images, torch.tensor([point]))[0].permute(1, 2, 0).numpy() * 255
            expected = np.asarray(enhance(Image.fromarray(picture)).enhance(low + width * value))
            assert np.abs(got - expected).max() < 2.1  # Pillow rounds to bytes, the mean too
    turned = made.images(images, torch.tensor([[0.5, 0.5, 0.5, 0.75]]))[0].permute(1, 2, 0)
    for row, pixel in zip(turned.reshape(-1, 3)[:20], picture.reshape(-1, 3)[:20], strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*(pixel / 255))
        expected = colorsys.hsv_to_rgb((hue + 0.25) % 1, saturation, value)
        assert np.allclose(row.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_color_in_a_few_operations_is_color_one_change_after_the_other(channels: int) -> None:
    """Those of augmentation are made another way; grey, black, white and pure pixels included."""
    images = pictures(70, channels, 40)  # more than fit into one part
    images[0], images[1], images[2] = 0, 1, 0.5
    images[3] = torch.arange(channels).view(-1, 1, 1) / 2
    images[4:8] = images[4:8].round()  # two channels alike
    made = color((channels, 40, 40))
    latent = torch.rand(70, made.dimensions, generator=torch.Generator().manual_seed(1))
    expected, bounds = images, ((0.5, 1.5), (0.5, 1.5), (0.0, 2.0), (-0.5, 0.5))
    for place, (low, high) in enumerate(bounds[: made.dimensions]):
        factors = low + (high - low) * latent[:, place]
        expected = augmenting._OPERATIONS[place](expected, factors)
    assert (made.make(images, latent) - expected).abs().max() < 1e-5
    latent.requires_grad_()
    made.make(images, latent).square().sum().backward()
    assert latent.grad is not None and latent.grad[8:].abs().min() > 0


def test_grey_images_vary_in_brightness_and_contrast_and_this_is_said() -> None:
    found = om.search(lambda part: part.mean((1, 2, 3)), "color", pictures(3, 1), steps=5)
    assert found.parameters == ("brightness", "contrast")
    assert any("neither saturation nor hue" in note for note in found.notes)


# ---- blind spots that were planted


def test_a_blind_spot_for_rotated_images_is_found() -> None:
    """The detector takes everything that was turned by 20 to 25 degrees for known data."""
    images = torch.zeros(12, 1, 24, 24)
    images[:, :, 11:13, 2:22] = 1  # a bar: its direction can be measured

    def angle(part: Tensor) -> Tensor:
        place = torch.arange(24.0) - 11.5
        mass = part[:, 0]
        xx, yy = (mass * place.square()).sum((1, 2)), (mass * place[:, None].square()).sum((1, 2))
        xy = (mass * place * place[:, None]).sum((1, 2))
        return torch.rad2deg(0.5 * torch.atan2(2 * xy, xx - yy))

    def score(part: Tensor) -> Tensor:
        turned = angle(part)
        return torch.where((turned > 20) & (turned < 25), -5.0, 5.0)

    found = om.search(score, affine((1, 24, 24), shift=0, shear=0), images, steps=300)
    assert (found.clean_scores == 5).all()
    assert (found.scores == -5).mean() > 0.9
    turned = -45 + 90 * found.latent[found.scores == -5, 0]
    assert ((turned > 18) & (turned < 27)).all()


def test_a_blind_spot_for_pink_images_is_found() -> None:
    images = pictures(10) * torch.tensor([0.3, 0.5, 0.3]).view(1, 3, 1, 1) + 0.2

    def score(part: Tensor) -> Tensor:
        red, green, blue = part.mean((2, 3)).unbind(1)
        return 3.0 - 20 * (torch.minimum(red, blue) - green)

    found = om.search(score, "color", images, steps=300)
    red, green, blue = found.images.mean((2, 3)).unbind(1)
    assert (torch.minimum(red, blue) > green).all()
    assert (found.scores < found.clean_scores - 1).all()


# ---- detectors that misbehave


def test_scores_that_are_not_numbers_are_passed_over_and_counted() -> None:
    def score(part: Tensor) -> Tensor:
        level = part.mean((1, 2, 3))
        return torch.where(level > 0.55, torch.nan, -level)

    found = om.search(score, "color", pictures(8) * 0.8, steps=60)
    assert np.isfinite(found.scores).all()
    assert (found.images.mean((1, 2, 3)) <= 0.55).all()
    assert any("NaN or infinite" in note for note in found.notes)


def test_constant_scores_are_said() -> None:
    found = om.search(lambda part: torch.ones(len(part)), "affine", pictures(3), steps=4)
    assert any("same score to all images" in note for note in found.notes)


def test_a_detector_that_fails_on_the_way_keeps_what_was_found() -> None:
    calls = []

    def score(part: Tensor) -> Tensor:
        calls.append(len(part))
        if len(calls) > 6:
            raise RuntimeError("out of ink")
        return part.mean((1, 2, 3))

    found = om.search(score, "color", pictures(3), steps=50)
    assert found.steps == 5
    assert (found.visited_scores <= found.clean_scores).all()
    assert any("out of ink" in note for note in found.notes)
    with pytest.raises(UserError, match="out of ink"):
        om.search(score, "color", pictures(3), steps=50)


def test_every_image_that_is_scored_is_counted() -> None:
    calls = []

    def score(part: Tensor) -> Tensor:
        calls.append(len(part))
        return part.mean((1, 2, 3))

    found = om.search(score, "color", pictures(5), steps=10, batch_size=2)
    assert found.asked == sum(calls) == 5 * (1 + 10 + 1 + 1)
    assert max(calls) == 2


def test_a_detector_that_draws_at_random_is_said() -> None:
    random = torch.Generator().manual_seed(0)
    found = om.search(
        lambda part: torch.rand(len(part), generator=random), "color", pictures(4), steps=9
    )
    assert any("another score when asked for once more" in note for note in found.notes)


def test_a_budget_of_time_ends_the_search() -> None:
    found = om.search(
        lambda part: part.mean((1, 2, 3)), "color", pictures(2), steps=10**9, seconds=0.2
    )
    assert 1 <= found.steps < 10**9
    assert any("its time was over" in note for note in found.notes)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"variation": "afine"}, "Did you mean 'affine'"),
        ({"method": "metropolish"}, "Did you mean 'metropolis'"),
        ({"method": "metropolis(proposal=-1)"}, "above 0"),
        ({"method": "metropolis(bounds=wrap)"}, "reflect"),
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"start": "here"}, "'given' or 'random'"),
        ({"chains": 4}, "one chain per image"),
        ({"images": pictures(2) * 3}, r"lie in \[0, 1\]"),
        ({"images": torch.zeros(0, 3, 4, 4)}, "got shape"),
        ({"images": None}, "no images to vary"),
        ({"score": lambda part: part}, "one score per image"),
        ({"score": lambda part: part.mean((1, 2, 3)) > 0}, "real numbers"),
        ({"known_scores": np.array([1.0, np.nan])}, "finite numbers"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments: dict[str, object], sentence: str) -> None:
    given = {
        "score": lambda part: part.mean((1, 2, 3)),
        "variation": "affine",
        "images": pictures(2),
        "steps": 2,
    } | arguments
    score, variation, images = (given.pop(name) for name in ("score", "variation", "images"))
    with pytest.raises(UserError, match=sentence):
        om.search(score, variation, images, **given)  # type: ignore[arg-type]
