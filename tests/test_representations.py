"""SSD, CSI and SNGP: closed forms, exact results of others, and what training changes."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import oodometer as om
from oodometer.errors import UserError
from oodometer.lab.data.samples import Images
from oodometer.lab.detector_models import find_model
from oodometer.lab.detector_models.representations import csi, ensemble, sngp, ssd
from oodometer.lab.detector_models.representations.contrastive import (
    Changes,
    Views,
    contrastive_loss,
)
from oodometer.lab.detector_models.representations.encoders import convolutions
from oodometer.lab.training.task import Batch
from oodometer.lab.training.train import Training
from oodometer.study import TrainSpec

GREY = (1, 12, 12)


def spec_of(size: str = "tiny", **fields: object) -> TrainSpec:
    return TrainSpec(data="digits", model_size=size, **fields)


def fresh(task, size: str = "tiny", shape: tuple[int, ...] = GREY, classes: int = 10) -> nn.Module:
    return task.fresh_network(spec_of(size), shape, classes)


def images(count: int, shape: tuple[int, ...] = GREY, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(seed))


def batches_of(inputs: torch.Tensor, size: int = 16) -> list[Batch]:
    return [Batch(part, torch.zeros(len(part), dtype=torch.int64)) for part in inputs.split(size)]


def finished(task, model: nn.Module, inputs: torch.Tensor) -> nn.Module:
    with torch.no_grad():
        task.finish(spec_of(), model.eval(), batches_of(inputs))
    return model


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


# ---- the contrastive loss ----------------------------------------------------------------------


def test_nt_xent_of_orthogonal_images_with_identical_views():
    vectors = torch.eye(2).double().repeat(2, 1)
    loss = contrastive_loss(vectors, torch.tensor([0, 1, 0, 1]), 0.5)
    assert loss.item() == pytest.approx(math.log(1 + 2 * math.exp(-2)), abs=1e-12)
    assert loss.item() == pytest.approx(0.23954, abs=5e-6)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_nt_xent_of_equal_vectors(count):
    vectors = torch.full((2 * count, 3), 0.7, dtype=torch.float64)
    loss = contrastive_loss(vectors, torch.arange(count).repeat(2), 0.5)
    assert loss.item() == pytest.approx(math.log(2 * count - 1), abs=1e-12)


def test_contrastive_loss_is_that_of_the_formula():
    random = np.random.default_rng(0)
    vectors = random.normal(size=(10, 4))
    groups = np.array([0, 1, 2, 0, 1] * 2)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    total = 0.0
    for a in range(10):
        others = [j for j in range(10) if j != a]
        below = sum(math.exp(unit[a] @ unit[j] / 0.2) for j in others)
        positives = [j for j in others if groups[j] == groups[a]]
        total -= sum(unit[a] @ unit[p] / 0.2 - math.log(below) for p in positives) / len(positives)
    ours = contrastive_loss(torch.from_numpy(vectors), torch.from_numpy(groups), 0.2)
    assert ours.item() == pytest.approx(total / 10, rel=1e-12)


def test_ssd_with_labels_that_all_differ_is_ssd_without_labels():
    model = fresh(ssd.SELF_SUPERVISED)
    batch = Batch(images(8), torch.arange(8).flip(0))
    losses = []
    for task in (ssd.SELF_SUPERVISED, ssd.SUPERVISED):
        torch.manual_seed(0)
        losses.append(task.loss(spec_of(), model, batch)[0].item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    same = Batch(batch.inputs, torch.zeros(8, dtype=torch.int64))
    torch.manual_seed(0)
    assert ssd.SUPERVISED.loss(spec_of(), model, same)[0].item() != pytest.approx(losses[0])


# ---- views -------------------------------------------------------------------------------------


def test_a_view_without_changes_is_the_image():
    changes = Views(scale=(1.0, 1.0), flip=0, jitter=0, grey=0).draw(1, torch.Generator())
    whole = Changes(
        torch.tensor([[1.0, 1.0, 0.0, 0.0]]),
        changes.flipped,
        changes.jittered,
        changes.factors,
        changes.turns,
        changes.grey,
    )
    given = images(5, (3, 9, 7))
    torch.testing.assert_close(whole(given), given, atol=1e-6, rtol=0)
    mirrored = Changes(whole.windows, ~whole.flipped, *list(vars(whole).values())[2:])
    torch.testing.assert_close(mirrored(given), given.flip(3), atol=1e-6, rtol=0)


def test_crops_have_the_area_and_ratio_that_they_should_and_lie_inside():
    random = torch.Generator().manual_seed(0)
    windows = Views(scale=(0.2, 1.0)).draw(4000, random).windows.double()
    wide, high, x, y = windows.T
    assert ((x.abs() + wide <= 1 + 1e-6) & (y.abs() + high <= 1 + 1e-6)).all()
    area, ratio = wide * high, wide / high
    assert 0.2 <= area.min() < 0.21 < 0.95 < area.max() <= 1
    assert 0.75 - 1e-6 <= ratio.min() < 0.77 < 1.3 < ratio.max() <= 4 / 3 + 1e-6
    assert x.mean().abs() < 0.02
    fixed = Views(scale=(0.54, 0.54)).draw(100, random).windows.double()
    torch.testing.assert_close(fixed[:, 0] * fixed[:, 1], torch.full((100,), 0.54).double())


def test_a_crop_reads_the_part_of_the_image_that_it_names():
    slope = torch.linspace(0, 1, 64).expand(1, 1, 64, 64)
    plain = Views(scale=(0.3, 0.3), flip=0, jitter=0, grey=0).draw(1, torch.Generator())
    view = plain(slope)[0, 0]
    half, _, centre, _ = plain.windows[0].tolist()
    steps = (2 * np.arange(64) + 1) / 64 - 1
    expected = ((half * steps + centre + 1) * 32 - 0.5) / 63
    np.testing.assert_allclose(view[0], expected.clip(0, 1), atol=1e-5)


def test_the_same_change_for_all_images_depends_on_none_of_them():
    changes = Views(scale=(0.54, 0.54), jitter=1, grey=1).draw(1, torch.Generator().manual_seed(3))
    given = images(6, (3, 8, 8))
    together = changes(given)
    torch.testing.assert_close(changes(given[4:]), together[4:])
    assert (together[:, 0] - together[:, 1]).abs().max() == 0  # grey


# ---- SSD ---------------------------------------------------------------------------------------


def trained_ssd(count: int = 80) -> tuple[ssd.Representation, torch.Tensor]:
    model = fresh(ssd.SELF_SUPERVISED)
    known = images(count)
    finished(ssd.SELF_SUPERVISED, model, known)
    assert isinstance(model, ssd.Representation)
    return model, known


def test_ssd_distances_of_training_images_average_to_the_rank():
    model, known = trained_ssd()
    with torch.no_grad():
        distances = model.distances(known)[:, 0, 0]
        features = model.features(known).double()
    rank = int(torch.linalg.matrix_rank(torch.cov(features.T), rtol=1e-10))
    assert distances.mean().item() == pytest.approx(rank, rel=1e-4)


def test_ssd_with_one_cluster_is_the_mahalanobis_distance_of_plain_features():
    """Standardizing is an affine map: it cannot change the distance."""
    model, known = trained_ssd()
    asked = images(20, seed=1)
    with torch.no_grad():
        features, others = (model.features(part).double().numpy() for part in (known, asked))
        ours = model.distances(asked)[:, 0, 0].numpy()
    gap = others - features.mean(0)
    inverse = np.linalg.pinv(np.cov(features.T, bias=True), rcond=1e-12)
    np.testing.assert_allclose(ours, np.einsum("ni,ij,nj->n", gap, inverse, gap), rtol=2e-3)


def test_ssd_published_subtracts_the_mean_again():
    model, known = trained_ssd()
    with torch.no_grad():
        rows = ((model.features(known) - model.mean) / model.deviation).double()
        ours = model.distances(known)[:, 1, 0]
    gap = (rows - rows.mean(0) - model.mean.double()).numpy()
    inverse = np.linalg.pinv(np.cov(rows.numpy().T, bias=True), rcond=1e-12)
    np.testing.assert_allclose(ours, np.einsum("ni,ij,nj->n", gap, inverse, gap), rtol=2e-3)
    assert not np.allclose(ours, model.distances(known)[:, 0, 0].detach())


def test_ssd_clusters_find_groups_that_one_covariance_hides():
    model = fresh(ssd.SELF_SUPERVISED)
    assert isinstance(model, ssd.Representation)
    random = torch.Generator().manual_seed(0)
    centers = functional.normalize(torch.randn(10, 16, generator=random), dim=1)
    rows = centers.repeat(60, 1) + 0.02 * torch.randn(600, 16, generator=random)
    ssd.fit_clusters(model, functional.normalize(rows, dim=1))
    model.encoder = nn.Identity()
    with torch.no_grad():
        inside = model.distances(rows)[:, 0]
        between = model.distances(rows.roll(1, 0) + rows)[:, 0]
    one, ten = ((between[:, k].median() / inside[:, k].median()).item() for k in (0, 1))
    assert ten > 20 * one


def test_ssd_survives_fewer_different_images_than_clusters():
    model = finished(ssd.SELF_SUPERVISED, fresh(ssd.SELF_SUPERVISED), images(2).repeat(6, 1, 1, 1))
    assert isinstance(model, ssd.Representation)
    assert model.distances(images(3)).isfinite().all()


def test_ssd_sizes():
    paper = fresh(ssd.SELF_SUPERVISED, "paper", (3, 32, 32))
    assert parameters(paper.encoder) == 23_500_352
    assert parameters(paper.head) == 2048 * 2048 + 2048 + 2048 * 128 + 128
    small = fresh(ssd.SELF_SUPERVISED, "small", (1, 28, 28))
    assert parameters(small.head) == 64 * 64 + 64 + 64 * 32 + 32


# ---- CSI ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shifted() -> tuple[csi.ShiftedInstances, torch.Tensor]:
    known = images(40)
    model = finished(csi.TASK, fresh(csi.TASK), known)
    assert isinstance(model, csi.ShiftedInstances)
    return model, known


def test_mean_csi_score_of_the_training_images_is_2(shifted):
    model, known = shifted
    with torch.no_grad():
        both, contrastive, shift = model.parts(known).double().mean(0)
    assert contrastive.item() == pytest.approx(1, abs=1e-5)
    assert shift.item() == pytest.approx(1, abs=1e-5)
    assert both.item() == pytest.approx(2, abs=1e-5)


def test_csi_is_its_formula(shifted):
    model, known = shifted
    asked = images(6, seed=5)
    with torch.no_grad():
        known_f, known_c = (part.double().numpy() for part in model.averages(known))
        f, c = (part.double().numpy() for part in model.averages(asked))
        ours = csi.csi_shifts(model, asked).numpy()
    axes = known_f / np.linalg.norm(known_f, axis=2, keepdims=True)
    total = np.zeros(6)
    for k in range(4):
        reach = (f[:, k] @ axes[:, k].T).max(1) / np.linalg.norm(known_f[:, k], axis=1).mean()
        total += (reach + c[:, k] / known_c[:, k].mean()) / 4
    np.testing.assert_allclose(ours[:, 0], -total, rtol=1e-4)


def test_turned_images_permute_the_terms_of_csi_without_augmentation(shifted):
    model, known = shifted
    with torch.no_grad():
        plain, _ = model.averages(known[:8], augmentations=0)
        turned, _ = model.averages(known[:8].rot90(1, (2, 3)), augmentations=0)
    torch.testing.assert_close(turned, plain.roll(-1, dims=1))


def test_csi_scores_do_not_depend_on_the_batch_nor_on_global_randomness(shifted):
    model, known = shifted
    with torch.no_grad():
        torch.manual_seed(1)
        whole = csi.csi_shifts(model, known)
        before = torch.get_rng_state()
        torch.manual_seed(2)
        parts = torch.cat([csi.csi_shifts(model, part) for part in known.flip(0).split(7)]).flip(0)
    torch.testing.assert_close(whole, parts, rtol=1e-4, atol=1e-5)
    torch.manual_seed(1)
    assert torch.equal(before, torch.get_rng_state())


def test_csi_counts_other_turns_of_an_image_as_negatives():
    """With a projection that is the same for all turns, the loss is that of its formula."""

    class Constant(nn.Module):
        def forward(self, views: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.ones(len(views), 2), torch.zeros(len(views), 4)

    loss, measures = csi.TASK.loss(spec_of(), Constant(), batches_of(images(5))[0])
    assert loss.item() == pytest.approx(math.log(8 * 5 - 1) + math.log(4), rel=1e-6)
    assert measures["accuracy"] == pytest.approx(5 / 4)


def test_csi_is_restored_with_all_its_axes_and_keeps_a_bounded_number(shifted, monkeypatch):
    model, known = shifted
    copy = fresh(csi.TASK).eval()
    copy.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert torch.equal(csi.csi_shifts(copy, known[:4]), csi.csi_shifts(model, known[:4]))
    monkeypatch.setattr(csi, "_MOST_AXES", 15)
    few = finished(csi.TASK, fresh(csi.TASK), known)
    assert few.axes.shape == (4, 14, 16)  # every third of 40, from the first
    with torch.no_grad():
        assert few.parts(known[::3])[:, 0].mean().item() == pytest.approx(2, abs=1e-5)


def test_csi_sizes_and_what_it_refuses():
    paper = fresh(csi.TASK, "paper", (3, 32, 32))
    assert parameters(paper.encoder) == 11_168_832
    assert parameters(paper.project) == 512 * 512 + 512 + 512 * 128 + 128
    assert parameters(paper.shift) == 512 * 4 + 4
    with pytest.raises(UserError, match="turns images: they must be square, got \\(28, 20\\)"):
        fresh(csi.TASK, shape=(1, 28, 20))
    with pytest.raises(UserError, match="Model 'csi' needs images, got data of shape \\(40,\\)"):
        fresh(csi.TASK, shape=(40,))


def test_csi_alone_saved_and_loaded_scores_the_same(tmp_path):
    known = (255 * images(60)).to(torch.uint8).numpy()
    fitted = om.fit_detector("csi", known, size="tiny")
    expected = fitted.score(known[:9])
    assert len(np.unique(expected)) == 9
    fitted.save(tmp_path / "csi.safetensors")
    again = om.load_detector(tmp_path / "csi.safetensors")
    assert np.array_equal(again.score(known[:9]), expected)
    assert fitted.score(known).mean() == pytest.approx(-2, abs=0.01)


# ---- SNGP --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stride", "kernel"), [(1, 3), (2, 3), (1, 1), (2, 1)])
def test_spectral_norm_is_that_of_the_unrolled_convolution(stride, kernel):
    torch.manual_seed(0)
    plain = nn.Conv2d(2, 3, kernel, stride, kernel // 2, bias=False)
    layer = sngp.BoundedConvolution(plain, (5, 5), 3.0)
    for _ in range(300):
        layer.iterate()
    units = torch.eye(50).reshape(50, 2, 5, 5)
    unrolled = functional.conv2d(units, plain.weight, None, stride, kernel // 2).flatten(1)
    exact = torch.linalg.svdvals(unrolled.double()).amax()
    assert layer.norm().item() == pytest.approx(exact.item(), rel=1e-4)


@pytest.mark.parametrize("size", [0.5, 40.0])
def test_bounded_layers_stretch_no_image_by_more_than_the_limit(size):
    torch.manual_seed(0)
    network = sngp.bounded(convolutions(1, (4, 6))[:-1], (1, 6, 6), limit=3.0)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                module.weight.mul_(size)
            if isinstance(module, nn.BatchNorm2d):
                module.weight.mul_(size)
    network.train()
    for _ in range(60):
        network(images(4, (1, 6, 6)))
    network.eval()
    for module in network.modules():
        if isinstance(module, sngp.BoundedConvolution | sngp.BoundedNorm):
            shape = {4: (1, 6, 6), 6: (4, 6, 6)}
            width = module.weight.shape[0]
            given = shape[width] if isinstance(module, nn.Conv2d) else (width, 3, 3)
            jacobian = torch.autograd.functional.jacobian(
                lambda x, module=module: module(x).flatten(), torch.zeros(1, *given)
            )
            norm = torch.linalg.matrix_norm(jacobian.flatten(1), 2).item()
            assert norm < 3.01
            if size == 40.0:
                assert norm == pytest.approx(3.0, rel=0.01)


def test_small_weights_are_left_alone():
    plain = nn.Conv2d(2, 3, 3, padding=1)
    layer = sngp.BoundedConvolution(plain, (5, 5), 100.0)
    given = images(4, (2, 5, 5))
    torch.testing.assert_close(layer(given), plain(given))


def test_random_features_reproduce_the_gaussian_kernel():
    torch.manual_seed(0)
    count = 4096
    features = sngp.RandomFeatures(8, count)
    points = 0.7 * torch.randn(30, 8)
    found = features(points) * 2 * math.sqrt(2 / count)
    exact = (-torch.cdist(points, points).square() / 2).exp()
    error = (found @ found.T - exact).abs() * math.sqrt(count)
    assert (error < 3).double().mean() > 0.99
    assert error.max() < 5
    prior = features(points).square().sum(1)
    torch.testing.assert_close(prior, torch.full((30,), count / 8), rtol=0.05, atol=0)


def test_random_features_have_orthogonal_blocks_with_chi_lengths():
    torch.manual_seed(0)
    weight = sngp.RandomFeatures(16, 400).weight.double()
    first = weight[:16] / weight[:16].norm(dim=1, keepdim=True)
    torch.testing.assert_close(first @ first.T, torch.eye(16).double(), atol=1e-5, rtol=0)
    assert weight.norm(dim=1).mean().item() == pytest.approx(
        math.sqrt(2) * math.gamma(8.5) / math.gamma(8), rel=0.03
    )
    assert weight.norm(dim=1).std() > 0.4


def test_covariance_is_that_of_the_exact_gaussian_process():
    torch.manual_seed(0)
    known, asked = torch.randn(40, 12).double(), torch.randn(7, 12).double()
    for ridge in (1.0, 0.3):
        covariance = sngp.posterior_covariance(known.split(9), ridge)
        ours = ridge * ((asked @ covariance) * asked).sum(1)
        kernel = known @ known.T + ridge * torch.eye(40).double()
        cross = known @ asked.T
        exact = asked.square().sum(1) - (cross * torch.linalg.solve(kernel, cross)).sum(0)
        torch.testing.assert_close(ours, exact, rtol=1e-12, atol=1e-13)
    whole = sngp.posterior_covariance([known])
    torch.testing.assert_close(sngp.posterior_covariance(known.split(20)), whole)


def test_sngp_scores():
    zero = torch.zeros(3, 10).double()
    assert sngp.dempster_shafer(zero).sigmoid().tolist() == pytest.approx([0.5] * 3)
    logits = torch.randn(20, 10).double() * 3
    exact = 10 / (10 + logits.exp().sum(1))
    torch.testing.assert_close(sngp.dempster_shafer(logits).sigmoid(), exact)
    model = fresh(sngp.TASK)
    assert isinstance(model, sngp.GaussianProcessClassifier)
    known = images(50)
    finished(sngp.TASK, model, known)
    with torch.no_grad():
        features = model.featured(known).double()
        plain = model(known).double()
        answers = sngp.sngp_due(model, known).numpy()
    exact = np.linalg.inv(np.eye(32) + features.numpy().T @ features.numpy())
    variance = np.einsum("ni,ij,nj->n", features.numpy(), exact, features.numpy())
    flat = plain.numpy() / np.sqrt(1 + 25 * variance)[:, None]
    shares = np.exp(flat) / np.exp(flat).sum(1, keepdims=True)
    np.testing.assert_allclose(answers[:, 0], np.log(10) - np.log(np.exp(flat).sum(1)), rtol=1e-5)
    np.testing.assert_allclose(answers[:, 1], np.log(variance), rtol=1e-5)
    np.testing.assert_allclose(answers[:, 2], np.log(1 / shares.max(1) - 1), rtol=1e-5)


def test_sngp_of_google_differs_where_it_should():
    card, other = find_model("sngp_due"), find_model("sngp_google")
    recipes = [each.recipe(spec_of("paper"), (500, 3, 32, 32)) for each in (card, other)]
    assert [r.epochs for r in recipes] == [200, 250]
    assert [r.learning_rate for r in recipes] == [0.05, 0.08]
    assert recipes[0].schedule == recipes[1].schedule == "steps(at=60/120/160, factor=0.2)"
    ours, theirs = (each.task.fresh_network(spec_of(), GREY, 10) for each in (card, other))
    assert (ours.mean_field, theirs.mean_field) == (25.0, 20.0)
    limits = {m.limit for m in theirs.modules() if isinstance(m, sngp.BoundedConvolution)}
    assert limits == {6.0}


def test_sngp_sizes():
    paper = fresh(sngp.TASK, "paper", (3, 32, 32))
    assert parameters(paper.encoder) == 36_472_784
    assert paper.project.weight.shape == (128, 640)
    assert paper.features.weight.shape == (1024, 128)
    assert parameters(paper.head) == 1024 * 10 + 10
    assert sum(isinstance(module, nn.Dropout) for module in paper.modules()) == 12
    widths = [m.weight.shape[0] for m in paper.modules() if isinstance(m, sngp.BoundedConvolution)]
    assert len(widths) == 28
    assert all(a <= b for a, b in pairwise(sorted(widths)))


# ---- training ----------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [ssd.SUPERVISED, csi.TASK, sngp.TASK, ensemble.RANGED])
def test_interrupted_training_ends_with_the_same_bytes(task):
    values = (255 * images(40)).to(torch.uint8).numpy()
    samples = Images("noise", values, np.arange(40) % 4)
    spec = spec_of(epochs=2, batch_size=20, optimizer="sgd_momentum", learning_rate=0.05)
    whole, first, second = (Training(spec, samples, 4, task=task) for _ in range(3))
    whole.run_epoch()
    whole.run_epoch()
    first.run_epoch()
    second.restore(first.snapshot())
    second.run_epoch()
    expected, found = whole.finished_weights(), second.finished_weights()
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert np.array_equal(value, found[name]), name
    assert whole.curve == second.curve
