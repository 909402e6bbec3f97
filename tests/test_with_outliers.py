"""Classifiers that learn from outliers: closed forms, exact bounds, published parameter counts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import oodometer as om
from oodometer.errors import UserError
from oodometer.lab.data.samples import Images
from oodometer.lab.detector_models import find_model
from oodometer.lab.detector_models.with_outliers.atom import informative, mine
from oodometer.lab.detector_models.with_outliers.attacks import ascend, frozen, random_start
from oodometer.lab.detector_models.with_outliers.certificates import certificate
from oodometer.lab.detector_models.with_outliers.good import quantile_loss, radius_of
from oodometer.lab.detector_models.with_outliers.intervals import (
    Box,
    ball,
    difference_bounds,
    least_score,
    through,
)
from oodometer.lab.detector_models.with_outliers.losses import (
    accuracy,
    doubt,
    log_confidence,
    ramp,
    rejection,
    uniform_cross_entropy,
)
from oodometer.lab.detector_models.with_outliers.networks import (
    all_convolutional,
    densenet,
    grey_cnn,
    plain_cnn,
)
from oodometer.lab.detector_models.with_outliers.noise import blur, smooth_noise
from oodometer.lab.detector_models.with_outliers.rowl import other_classes, targeted_attack
from oodometer.lab.training.schedules import make_schedule
from oodometer.lab.training.task import Batch, Measures, Task
from oodometer.lab.training.train import Training, check_spec, train
from oodometer.metrics import auroc
from oodometer.study import TrainSpec

GREY, COLOR = (1, 28, 28), (3, 32, 32)


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def network() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return plain_cnn("tiny", (1, 8, 8), 4)


# Networks


@pytest.mark.parametrize(
    ("network", "published"),
    [
        (lambda: all_convolutional(COLOR, 10), 1_409_674),
        (lambda: grey_cnn(GREY, 10), 21_840),
        (lambda: plain_cnn("paper", GREY, 10), 13_257_290),
        (lambda: plain_cnn("paper", COLOR, 10), 35_449_226),
        (lambda: densenet(COLOR, 11), 769_505),
        (lambda: densenet(COLOR, 10), 769_162),
    ],
)
def test_published_networks_have_the_published_number_of_parameters(network, published):
    with torch.device("meta" if published > 10**7 else "cpu"):  # no time for random weights
        assert parameters(network()) == published


@pytest.mark.parametrize(
    ("shape", "operations"), [(GREY, 7.2e6), (COLOR, 9.7e6)], ids=["grey", "color"]
)
def test_small_network_has_the_multiply_adds_of_its_description(shape, operations):
    network, counted = plain_cnn("small", shape, 10), 0

    def count(module, inputs, output):
        nonlocal counted
        counted += module.weight.numel() * output[0].numel() // len(module.weight)

    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(count)
    network(torch.zeros(1, *shape))
    assert counted == pytest.approx(operations, rel=0.01)


def test_all_networks_take_images_of_their_shape_and_refuse_smaller_ones():
    for build in (grey_cnn, all_convolutional, densenet):
        for shape in (GREY, (3, 28, 36), (3, 40, 40)):
            assert build(shape, 5).eval()(torch.zeros(2, *shape)).shape == (2, 5)
    with pytest.raises(UserError, match="at least 20 x 20, got 8 x 8: use size tiny"):
        all_convolutional((3, 8, 8), 10)


# Losses and scores


def test_cross_entropy_to_uniform_has_its_closed_forms():
    logits = random(6, 5).double().requires_grad_()
    values = uniform_cross_entropy(logits)
    (gradient,) = torch.autograd.grad(values.sum(), logits)
    assert torch.allclose(gradient, logits.softmax(1) - 1 / 5)
    assert torch.allclose(uniform_cross_entropy(logits + 7), values)  # shifts change nothing
    assert (values >= math.log(5)).all()
    assert uniform_cross_entropy(torch.full((1, 5), 3.0)).item() == pytest.approx(math.log(5))
    divergence = (0.2 * (math.log(0.2) - logits.log_softmax(1))).sum(1)
    assert torch.allclose(values, math.log(5) + divergence)


def test_largest_log_probability_is_lowest_for_equal_logits():
    logits = random(50, 5)
    assert (log_confidence(logits) >= -math.log(5)).all()
    assert log_confidence(torch.zeros(1, 5)).item() == pytest.approx(-math.log(5))


def test_scores_order_as_probabilities_do_but_never_saturate():
    logits = random(200, 6).double()
    sure = logits.softmax(1)
    top = sure.amax(1)
    assert torch.allclose(doubt(logits), torch.log((1 - top) / top))
    assert torch.allclose(rejection(logits), torch.log(sure[:, -1] / (1 - sure[:, -1])))
    steep = torch.tensor([[0.0, 50.0, 400.0], [0.0, 50.0, 401.0]])
    assert steep.softmax(1).amax(1).tolist() == [1, 1]
    assert doubt(steep).tolist() == [-350, -351]
    assert rejection(steep).tolist() == [350, 351]


def test_ramps_are_linear_between_their_epochs():
    assert [ramp(epoch, 60, 360) for epoch in (0, 60, 210, 360, 500)] == [0, 0, 0.5, 1, 1]
    assert ramp(0, -2, 298) == pytest.approx(2 / 300)  # min((e + 2) / 300, 1)


# Attacks


def test_one_step_on_a_linear_model_is_the_closed_form():
    """The gradient of the cross-entropy to uniform of W x is W^T (p - 1 / K)."""
    weight, images = random(4, 6, seed=1), torch.rand(5, 6) * 0.4 + 0.3

    def objective(x: Tensor) -> Tensor:
        return uniform_cross_entropy(x @ weight.T)

    found = ascend(objective, images, radius=0.1, step=0.05, steps=1)
    direction = ((images @ weight.T).softmax(1) - 1 / 4) @ weight
    moved = images + 0.05 * direction.sign()
    better = objective(moved) > objective(images)
    assert better.any()
    assert torch.allclose(found, torch.where(better[:, None], moved, images))


def test_attack_stays_in_the_ball_and_among_images_and_never_loses(network):
    images = torch.rand(16, 1, 8, 8, generator=torch.Generator().manual_seed(3))
    images[0], images[1] = 0, 1

    def objective(x: Tensor) -> Tensor:
        return uniform_cross_entropy(network(x))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        starts = (None, random_start(images, 8 / 255), random_start(images, 8 / 255, levels=255))
    whole = (starts[2] - images) * 255
    assert torch.allclose(whole, whole.round(), atol=1e-4)
    assert {-8, 8} <= set(whole.round().flatten().tolist()) <= set(range(-8, 9))
    for start in starts:
        found = ascend(objective, images, radius=8 / 255, step=2 / 255, steps=5, start=start)
        assert (found - images).abs().max() <= 8 / 255 + 1e-6
        assert found.min() >= 0
        assert found.max() <= 1
        assert (objective(found) >= objective(images)).all()
        assert (objective(found) > objective(images)).float().mean() > 0.9
    assert all(parameter.grad is None for parameter in network.parameters())


def test_attack_keeps_the_best_point_and_judges_the_last_by_its_own_value():
    """A step that overshoots is not kept; a last step that gains is."""

    def hill(x: Tensor) -> Tensor:
        return -(x - 0.55).square().sum(1)

    found = ascend(hill, torch.full((1, 1), 0.5), radius=0.5, step=0.08, steps=4)
    assert found.item() == pytest.approx(0.58)  # 0.5, 0.58, 0.5 ...: never worse than the best
    found = ascend(hill, torch.full((1, 1), 0.4), radius=0.5, step=0.05, steps=3)
    assert found.item() == pytest.approx(0.55)  # the third and last step arrives


def test_attacks_are_in_evaluation_mode_and_give_the_mode_back():
    network = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
    for training in (True, False):
        network.train(training)
        with frozen(network):
            assert not any(module.training for module in network.modules())
        assert all(module.training == training for module in network.modules())


# Interval bounds


def test_one_affine_layer_is_exact_at_the_corners():
    layer = nn.Linear(5, 3).double()
    box = Box(random(2, 5).double(), random(2, 5, seed=1).double().abs())
    corners = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=5)), dtype=torch.float64)
    values = layer(box.center[:, None] + corners * box.radius[:, None])  # (2, 32, 3)
    center, radius = through(layer, box)
    assert torch.allclose(center - radius, values.amin(1))
    assert torch.allclose(center + radius, values.amax(1))
    low, high = box.center - box.radius, box.center + box.radius
    plus, minus = layer.weight.clamp(min=0), layer.weight.clamp(max=0)
    assert torch.allclose(center + radius, high @ plus.T + low @ minus.T + layer.bias)


def test_bounds_contain_sampled_points_and_grow_with_the_radius(network):
    images = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(5))
    logits = network(images)
    previous = logits[:, :, None] - logits[:, None, :]
    exact = difference_bounds(network, ball(images, 0.0))
    assert torch.allclose(exact, previous, atol=1e-5)
    assert torch.allclose(least_score(exact), doubt(logits), atol=1e-5)
    for radius in (0.01, 0.05, 0.2):
        bounds = difference_bounds(network, ball(images, radius))
        assert (bounds >= previous - 1e-6).all()
        assert (bounds.diagonal(dim1=1, dim2=2) == 0).all()
        points = images + radius * (2 * torch.rand(400, *images.shape) - 1)
        sampled = network(points.clamp(0, 1).flatten(0, 1)).unflatten(0, (400, 3))
        apart = sampled[..., :, None] - sampled[..., None, :]
        assert (bounds >= apart.amax(0) - 1e-5).all()
        assert (least_score(bounds) <= doubt(sampled.flatten(0, 1)).reshape(400, 3) + 1e-5).all()
        wide = difference_bounds(network, ball(images, radius, within_pixels=False))
        assert (wide >= bounds - 1e-6).all()
        previous = bounds


def test_bounds_of_pairs_are_at_most_those_of_single_logits(network):
    box = ball(torch.rand(3, 1, 8, 8), 0.1)
    bounds = difference_bounds(network, box)
    for layer in network:
        box = through(layer, box)
    low, high = box.center - box.radius, box.center + box.radius
    apart = (high[:, :, None] - low[:, None, :]).masked_fill(torch.eye(4).bool(), 0)
    assert (bounds <= apart + 1e-6).all()
    assert (bounds < apart - 1e-6).any()


def test_certificate_is_the_published_bound_of_the_confidence(network):
    bounds = difference_bounds(network, ball(torch.rand(6, 1, 8, 8), 0.05))
    published = (-(-bounds).logsumexp(2)).amax(1)  # of the log of the confidence
    score = least_score(bounds)
    assert torch.allclose(-torch.log1p(score.exp()), published, atol=1e-5)
    equal = least_score(torch.zeros(1, 4, 4))  # all differences 0: the confidence is 1 / K
    assert torch.sigmoid(-equal).item() == pytest.approx(1 / 4)


def test_networks_without_known_bounds_are_refused():
    with pytest.raises(UserError, match="the network has a Standardized"):
        difference_bounds(densenet(COLOR, 3, depth=10), ball(torch.zeros(1, *COLOR), 0.1))
    with pytest.raises(UserError, match="ends in a linear layer"):
        difference_bounds(nn.Linear(3, 3), ball(torch.zeros(1, 3), 0.1))


# Noise


def test_smoothing_is_that_of_scipy():
    from scipy.ndimage import gaussian_filter

    images, widths = torch.rand(3, 2, 12, 9).double(), torch.tensor([1.0, 1.7, 2.5]).double()
    found = blur(images, widths)
    for image, width, smooth in zip(images, widths, found, strict=True):
        for channel, values in zip(image, smooth, strict=True):
            wanted = gaussian_filter(channel.numpy(), float(width), mode="reflect", radius=7)
            assert torch.allclose(values, torch.from_numpy(wanted), atol=1e-6)


def test_noise_fills_the_range_of_every_image_and_keeps_colors_together():
    images = torch.rand(7, 3, 16, 16)
    images[:, 1:] = images[:, :1]  # grey: permuted pixels stay grey, uniform ones do not
    noise = smooth_noise(images)
    assert noise.shape == images.shape
    assert torch.allclose(noise.flatten(1).amin(1), torch.zeros(7), atol=1e-6)
    assert torch.allclose(noise.flatten(1).amax(1), torch.ones(7), atol=1e-6)
    grey = (noise - noise[:, :1]).abs().flatten(1).amax(1) < 1e-6
    assert grey.tolist() == [False] * 3 + [True] * 4


# Mining, quantiles, targeted attacks


def test_informative_outliers_follow_the_hardest():
    scores = torch.tensor([5.0, 1, 7, 0, 3, 6, 2, 4])
    kept = informative(scores, 2, 0.25)
    assert scores[kept].tolist() == [2, 3]  # positions 2 and 3 of 8 in ascending order
    assert scores[informative(scores, 3, 0.0)].tolist() == [0, 1, 2]  # the hardest first
    assert scores[informative(scores, 7, 0.25)].tolist() == [1, 2, 3, 4, 5, 6, 7]  # as many


def test_mining_asks_four_times_as_many_and_keeps_the_informative():
    asked: list[int] = []

    class Pool:
        def __len__(self) -> int:
            return 100

        def __call__(self, rows: Tensor) -> Tensor:
            asked.extend(rows.tolist())
            return rows[:, None].float()

    class Ascending(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat((torch.zeros_like(x), x), 1)  # the row is the log odds of rejection

    chosen = mine(SPEC, Ascending(), Pool(), 16, torch.Generator().manual_seed(0))
    assert len(asked) == len(set(asked)) == 64
    assert sorted(chosen.tolist()) == sorted(asked)[8:24]  # the hardest eighth is left out


def test_quantile_loss_is_that_of_sorting_by_hand():
    bounds, logits = random(5, 3, 3).abs(), random(5, 3, seed=2)
    worst = [float(bound.max()) for bound in bounds]
    spread = [float(row.max() - row.min()) for row in logits]
    order = sorted(range(5), key=worst.__getitem__)
    for quantile, certified in ((0.0, 0), (0.5, 2), (0.8, 4), (1.0, 5)):
        used = [worst[row] for row in order[:certified]] + [spread[r] for r in order[certified:]]
        wanted = sum(math.log(1 + m * m / 2) for m in used) / 5
        assert quantile_loss(bounds, logits, quantile).item() == pytest.approx(wanted, rel=1e-5)


def test_radius_grows_as_published():
    paper = SPEC.model_copy(update={"model_size": "paper"})
    assert [radius_of(paper, GREY, epoch) for epoch in (10, 70, 130)] == [0, 0.15, 0.3]
    assert radius_of(paper, COLOR, 420 + 104) == pytest.approx(0.005)  # 420 epochs of CEDA first
    assert radius_of(paper, COLOR) == 0.01


def test_radius_of_small_color_networks_grows_by_the_same_factor_before_the_rate_falls():
    small = SPEC.model_copy(update={"model_size": "small"})
    radii = [radius_of(small, COLOR, epoch) for epoch in range(3, 10)]
    assert radii[0] == pytest.approx(1e-6)
    assert radii[-1] == radius_of(small, COLOR) == 0.01
    steps = [after / before for before, after in itertools.pairwise(radii)]
    assert steps == pytest.approx([10 ** (2 / 3)] * 6)
    for name in ("good_80_classifier", "good_100_classifier"):
        spec = find_model(name).recipe(small, (50_000, *COLOR))
        schedule = make_schedule(spec.schedule, spec.epochs)
        rates = [
            schedule.rates(spec.learning_rate, 1, spec.epochs, {"train_loss": [1.0] * epoch})[0]
            for epoch in range(spec.epochs)
        ]
        assert min(rates[:10]) == spec.learning_rate > rates[10]


@pytest.mark.parametrize("void", [False, True])
def test_published_attack_of_rowl_changes_nothing_and_the_intended_one_does(network, void):
    images = torch.rand(20, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    targets = torch.arange(20) % 4
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        found = targeted_attack(
            network, images, targets, radius=0.1, step=0.025, steps=5, void=void
        )
        wrong = torch.stack([other_classes(targets, 4) for _ in range(100)])
    moved = (found != images).flatten(1).any(1).float().mean()
    assert moved == 0 if void else moved > 0.8  # an image that the first target suits best stays
    assert (found - images).abs().max() <= 0.1 + 1e-6
    assert (wrong != targets).all()
    for target, drawn in zip(targets.tolist(), wrong.T.tolist(), strict=True):
        assert set(drawn) == set(range(4)) - {target}


# Training


SHAPE = (1, 12, 12)
SPEC = TrainSpec(data="bars", model_size="tiny", auxiliary="patches")
LEARN_FROM_OUTLIERS = (
    "exposed_classifier", "ceda_classifier", "acet_classifier", "acet_half_classifier",
    "good_80_classifier", "good_100_classifier", "atom_classifier", "rowl_classifier",
    "rowl_void_classifier",
)  # fmt: skip
ALL = (*LEARN_FROM_OUTLIERS, "ceda_noise_classifier", "acet_noise_classifier")


def bars(count: int, seed: int) -> Images:
    """Dim noise with a bright row, column or diagonal: three classes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 3
    pixels = rng.uniform(0, 0.25, (count, *SHAPE)).astype(np.float32)
    for image, label, place in zip(pixels, labels, rng.integers(2, 10, count), strict=True):
        lines = (place, slice(None)), (slice(None), place), (np.arange(12), np.arange(12))
        image[0][lines[label]] = 0.9
    return Images("bars", pixels, labels)


def noises(count: int) -> Images:
    """Uniform noise of many contrasts."""
    rng = np.random.default_rng(7)
    pixels = rng.uniform(0, 1, (count, *SHAPE)) * rng.uniform(0, 1, (count, 1, 1, 1))
    return Images("noises", pixels.astype(np.float32), np.full(count, -1))


def patches(count: int) -> Tensor:
    """Outliers that nobody learns from: random squares of 2 x 2."""
    small = torch.rand(count, 1, 6, 6, generator=torch.Generator().manual_seed(9))
    return small.repeat_interleave(2, 2).repeat_interleave(2, 3)


@cache
def trained(name: str, task: Task | None = None) -> nn.Module:
    card = find_model(name)
    spec = card.recipe(SPEC, (300, *SHAPE))
    return train(spec, bars(300, 0), 3, task=task or card.task, auxiliary=noises(400)).model


def score_by(name: str, model: nn.Module) -> Callable[[Tensor], Tensor]:
    def score(images: Tensor) -> Tensor:
        answers = find_model(name).answer(model, images)
        return answers if answers.dim() == 1 else answers[:, 0]

    return score


@pytest.mark.parametrize("name", ALL)
def test_each_model_is_resumed_to_the_same_bytes(name):
    card = find_model(name)
    short = {"epochs": 2, "validation": 0.2}
    spec = card.recipe(SPEC, (60, *SHAPE)).model_copy(update=short)

    def fresh() -> Training:
        return Training(spec, bars(60, 0), 3, task=card.task, auxiliary=noises(50))

    whole, first, second = fresh(), fresh(), fresh()
    whole.run_epoch()
    whole.run_epoch()
    first.run_epoch()
    second.restore(first.snapshot())
    second.run_epoch()
    assert all((value == second.weights()[key]).all() for key, value in whole.weights().items())
    assert set(whole.curve) >= {"train_accuracy", "validation_accuracy", "validation_loss"}
    assert card.task.outliers_per_input == 0 or name in LEARN_FROM_OUTLIERS


@pytest.mark.parametrize("shape", [GREY, COLOR])
@pytest.mark.parametrize("name", ALL)
def test_recipes_of_all_sizes_can_be_trained(name, shape):
    card = find_model(name)
    for size in ("tiny", "small", "paper"):
        spec = card.recipe(SPEC.model_copy(update={"model_size": size}), (50_000, *shape))
        check_spec(spec, task=card.task)


def test_outlier_exposure_is_better_on_unseen_outliers_and_loses_no_accuracy():
    def plain(spec: TrainSpec, model: nn.Module, batch: Batch) -> tuple[Tensor, Measures]:
        logits = model(batch.inputs)
        return functional.cross_entropy(logits, batch.targets), accuracy(logits, batch.targets)

    card = find_model("exposed_classifier")
    areas, test = [], bars(200, 1)
    for task in (Task(card.task.network, plain, ("accuracy",)), card.task):
        model = trained("exposed_classifier", task)
        with torch.no_grad():
            logits, others = model(torch.from_numpy(test.pixels)), model(patches(200))
        assert (logits.argmax(1).numpy() == test.labels).mean() > 0.99
        areas.append(auroc(doubt(logits).numpy(), doubt(others).numpy()))
    assert areas[1] > max(0.99, areas[0])


def test_only_good_guarantees_anything_and_the_three_areas_are_in_order():
    given, more, test = bars(300, 0), noises(400), bars(100, 1)
    found = {}
    for name, settings in (("ceda", {}), ("good", {"quantile": 1.0})):
        fitted = om.fit_detector(
            name, given.pixels, given.labels, auxiliary=more.pixels, size="tiny", **settings
        )
        assert fitted.curve["train_accuracy"][-1] > 0.9
        found[name] = om.certify(fitted, test.pixels, patches(100), radius=0.03, steps=5)
        assert found[name].guaranteed <= found[name].attacked <= found[name].auroc
        clean = om.metrics.auroc(fitted.score(test.pixels), fitted.score(patches(100)))
        assert found[name].auroc == pytest.approx(clean)
    assert found["ceda"].guaranteed < 0.01
    assert found["good"].guaranteed > 0.5
    with pytest.raises(UserError, match="radius must be above 0 and at most 1, got 8"):
        om.certify(fitted, test.pixels, patches(5), radius=8)
    with pytest.raises(UserError, match=r"trained on images of shape \(1, 12, 12\), got"):
        om.certify(fitted, test.pixels, torch.zeros(5, 3, 12, 12))


def test_certificate_of_an_answer_holds_against_the_attack():
    model, images = trained("good_100_classifier"), torch.from_numpy(bars(50, 1).pixels)
    score = score_by("good_100_classifier", model)
    assert isinstance(model.radius, Tensor)
    radius = float(model.radius)
    moved = ascend(lambda points: -score(points), images, radius=radius, step=radius / 3, steps=5)
    with torch.no_grad():
        plain, least = find_model("good_100_classifier").answer(model, images).T
        assert (least <= score(moved) + 1e-5).all()
        assert (score(moved) <= plain).all()
        assert (score(moved) < plain).any()


def test_atom_keeps_its_area_under_attack():
    model = trained("atom_classifier")
    known = torch.from_numpy(bars(100, 1).pixels)
    score = score_by("atom_classifier", model)
    found = certificate(score, known, patches(100), 0.05, bounded=None, steps=5)
    assert found.guaranteed is None
    assert found.attacked >= 0.8 * found.auroc
    assert found.auroc > 0.95
