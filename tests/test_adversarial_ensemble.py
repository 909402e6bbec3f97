"""Adversarially trained ensembles, and distances of layers weighted by outliers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from engine_studies import make_study, run_inside
from torch import nn
from torch.nn import functional

import oodometer as om
from oodometer.engine.stores import FolderStore
from oodometer.engine.upkeep.verify import recompute
from oodometer.engine.work.codecs import bytes_to_table
from oodometer.grids import MAHALANOBIS_STEPS
from oodometer.lab.asking.votes import summarize_votes
from oodometer.lab.detector_models import find_model
from oodometer.lab.detector_models.representations import ensemble
from oodometer.lab.training.task import Batch
from oodometer.outputs import Head, Outputs
from oodometer.registry import find
from oodometer.study import TrainSpec

SHAPE = (1, 4, 4)
SPEC = TrainSpec(data="digits", model_size="tiny")


def images(count: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, *SHAPE, generator=torch.Generator().manual_seed(seed))


def linear(classes: int = 3) -> ensemble.Ranged:
    torch.manual_seed(0)
    return ensemble.Ranged(nn.Sequential(nn.Flatten(), nn.Linear(16, classes)), SHAPE)


# ---- the attack and the loss -------------------------------------------------------------------


def test_attack_on_a_linear_softmax_is_its_closed_form():
    model, x = linear(), images(20)
    x[:, :, 0] = 0.3  # pixels that never change have no range, and are not moved
    y = torch.arange(20) % 3
    model.see(x[:11])
    model.see(x[11:])
    layer = model.body[1]
    slope = (model(x).softmax(1) - functional.one_hot(y, 3)) @ layer.weight
    spread = x.flatten(1).amax(0) - x.flatten(1).amin(0)
    expected = (x.flatten(1) + 0.01 * spread * slope.sign()).clamp(0, 1)
    moved = model.attacked(x, y, 0.01)
    torch.testing.assert_close(moved.flatten(1), expected)
    assert torch.equal(moved[:, :, 0], x[:, :, 0]) and not torch.equal(moved[:, :, 1], x[:, :, 1])


def test_the_loss_is_that_of_images_plus_that_of_attacked_images():
    model, x, y = linear(), images(12), torch.arange(12) % 3
    loss, measures = ensemble.RANGED.loss(SPEC, model, Batch(x, y))
    worse = model.attacked(x, y, 0.01)
    plain = functional.cross_entropy(model(x), y)
    expected = plain + functional.cross_entropy(model(worse), y)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert expected > 2 * plain
    assert measures["accuracy"] == int((model(x).argmax(1) == y).sum())
    assert not x.requires_grad


def test_batch_statistics_and_dropout_rest_while_the_gradient_is_taken():
    layers = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Dropout(0.9))
    model = ensemble.Ranged(nn.Sequential(*layers, nn.Linear(8, 3)), SHAPE).train()
    x, y = images(12), torch.arange(12) % 3
    model.see(x)
    assert torch.equal(model.attacked(x, y, 0.01), model.attacked(x, y, 0.01))
    assert model.body[2].num_batches_tracked == 0 and model.training
    ensemble.RANGED.loss(SPEC, model, Batch(x, y))
    assert model.body[2].num_batches_tracked == 1
    with torch.no_grad():  # as a validation part is measured
        ensemble.RANGED.loss(SPEC, model.eval(), Batch(x, y))


# ---- scores ------------------------------------------------------------------------------------


def answered(logits: torch.Tensor, variant: str = "lakshminarayanan") -> Outputs:
    """Outputs with the answers of an ensemble, (members, n, classes)."""
    name = f"ensemble_{variant}"
    needs = [om.needs.Need("model", name, member=k + 1) for k in range(len(logits))]
    return Outputs(logits=logits[0], answers=dict(zip(needs, logits, strict=True)))


def scores(logits: torch.Tensor, **settings: object) -> np.ndarray:
    given = answered(logits)
    return find("adversarial_ensemble").fit(given, **settings)(given).double().exp().numpy()


def test_scores_are_entropy_and_disagreement():
    logits = 2 * torch.randn(5, 30, 4, generator=torch.Generator().manual_seed(0)).double()
    p = logits.softmax(2).numpy()
    mean = p.mean(0)
    entropy = -(mean * np.log(mean)).sum(1)
    each = -(p * np.log(p)).sum(2)
    np.testing.assert_allclose(scores(logits), entropy, rtol=1e-9)
    np.testing.assert_allclose(
        5 * scores(logits, measure="disagreement"),
        (p * np.log(p / mean)).sum((0, 2)),  # sum of the divergences, as OD-test prints it
        rtol=1e-9,
    )
    assert (entropy >= each.mean(0)).all()
    np.testing.assert_allclose(scores(logits[:1]), each[0], rtol=1e-9)
    same = logits[:1].expand(5, -1, -1)
    assert (summarize_votes(same)[:, 1] < math.log(1e-30)).all()


def test_members_differ_in_their_seeds_and_the_recipes_are_published():
    for variant in ensemble.VARIANTS:
        card = find_model(f"ensemble_{variant}")
        paper = TrainSpec(data="digits", model_size="paper")
        made = [card.recipe(paper, (500, 3, 32, 32), member=k) for k in range(1, 6)]
        assert card.members == 5 and len({each.seed for each in made}) == 5
        assert (made[0].epochs, made[0].batch_size, made[0].validation) == (60, 64, 0.2)
        assert made[0].adversarial == (0.01 if variant == "od_test" else 0)
        network = card.task.fresh_network(paper, (1, 28, 28), 10)
        assert sum(p.numel() for p in network.parameters()) == 4_850_698


# ---- in a study --------------------------------------------------------------------------------


def test_representations_and_ensembles_in_a_study(stripes, tmp_path):
    names = ["ssd", "csi", "sngp", "adversarial_ensemble"]
    base = {"data": stripes, "network": "mlp", "width": 4, "epochs": 1, "model_size": "tiny"}
    seeds = [{"field": "seed", "levels": [0, 1]}]
    study = make_study(stripes, base=base, factors=seeds, detectors=names, ood=["uniform_noise"])
    store = FolderStore(tmp_path / "store")
    outcome = run_inside(study, store)
    assert not outcome.missing
    table = bytes_to_table(store.view("tables", *store.keys("tables")))
    rows = {(row.run, row.detector, row.dataset): row.scores for row in table.rows}
    for name in names:
        one, two = (rows[run, name, "uniform noise"] for run in table.runs)
        assert np.array_equal(one, two), "both seeds share the models of the data"
        assert len(np.unique(one)) > 20
    # CSI's axes and all other buffers are in the store: what is made again is the same.
    again = recompute(store, 1000, np.random.default_rng(0))
    assert not again.differences and not again.impossible
    assert len(set(store.keys("models"))) == 2 + 3 + 5


# ---- weighted distances of layers --------------------------------------------------------------


def layered(count: int, seed: int, shift: tuple[float, float] = (0, 0)) -> Outputs:
    """Two layers of 3 and 5 units around three class means; `shift` moves one unit of each."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    layers = {}
    for name, width, move in (("first", 3, shift[0]), ("second", 5, shift[1])):
        rows = torch.randn(count, width, generator=random).double()
        rows[:, 0] += 4 * labels
        rows[:, 1] += move
        layers[name] = rows
    features = layers["second"]
    head = Head(torch.eye(3, 5).double(), torch.zeros(3).double())
    return Outputs(features=features, labels=labels, head=head, layers=layers)


def weighted(train: Outputs, known: Outputs, outliers: Outputs, asked: Outputs) -> np.ndarray:
    card = find("mahalanobis_weighted")
    return card.fit(train, validation=(known, outliers))(asked).numpy()


def test_weights_fit_the_outliers_they_were_tuned_on_and_not_others():
    train, known, test = layered(600, 0), layered(200, 1), layered(200, 2)
    tuned, seen = layered(200, 3, (6, 0)), layered(200, 4, (6, 0))
    unseen = layered(200, 5, (0, 3))
    inside = weighted(train, known, tuned, test)
    on_seen, on_unseen = (
        om.metrics.auroc(inside, weighted(train, known, tuned, each)) for each in (seen, unseen)
    )
    assert on_seen > 0.97
    assert on_unseen < on_seen - 0.1
    equal = find("mahalanobis_ensemble").fit(train)
    plain = om.metrics.auroc(equal(test).numpy(), equal(unseen).numpy())
    assert plain > on_unseen + 0.05, "weights of one need no outliers, and lose nothing here"


def test_equal_layers_get_equal_weights_and_linear_maps_change_nothing():
    parts = [layered(300, 0), layered(120, 1), layered(120, 2, (2, 2)), layered(50, 3, (1, 1))]
    random = torch.Generator().manual_seed(9)
    turn = torch.randn(5, 5, generator=random).double()

    def twin(part: Outputs, change: torch.Tensor) -> Outputs:
        both = {"one": part.layers["second"], "two": part.layers["second"] @ change}
        return Outputs(features=part.features, labels=part.labels, head=part.head, layers=both)

    found = [
        weighted(*(twin(part, change) for part in parts))
        for change in (torch.eye(5).double(), turn)
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    alone = [
        Outputs(
            features=part.features,
            labels=part.labels,
            head=part.head,
            layers={"second": part.layers["second"]},
        )
        for part in parts
    ]
    single = weighted(*alone)
    # w d + w d + b: in a line with one layer alone, to the penalty's choice of w.
    slope = np.polyfit(single, found[0], 1)
    np.testing.assert_allclose(np.polyval(slope, single), found[0], atol=1e-6)


def test_mean_distance_to_the_own_class_is_the_dimension():
    train = layered(300, 0)
    rows, labels = train.layers["second"], train.labels
    means = torch.stack([rows[labels == c].mean(0) for c in range(3)])
    gap = (rows - means[labels]).numpy()
    inverse = np.linalg.pinv(gap.T @ gap / 300)
    own = np.einsum("ni,ij,nj->n", gap, inverse, gap)
    assert own.mean() == pytest.approx(5)
    layer = Outputs(features=rows, labels=labels, head=train.head, layers={"second": rows})
    ours = 2 * find("mahalanobis_ensemble").fit(layer)(layer).numpy()
    apart = rows.numpy()[:, None] - means.numpy()
    nearest = np.einsum("nci,ij,ncj->nc", apart, inverse, apart).min(1)
    np.testing.assert_allclose(ours, nearest, rtol=1e-8)


def test_the_probe_moves_inputs_for_each_layer_by_its_own_gradient():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Sequential(nn.Linear(6, 5), nn.Tanh()), nn.Sequential(nn.Linear(5, 4), nn.Tanh())
    )
    model = nn.Sequential(*network, nn.Linear(4, 3)).double()
    x, labels = torch.randn(60, 6).double(), torch.arange(60) % 3
    x[:, 0] += 2 * labels
    asked = torch.randn(7, 6).double()
    got = om.extract(
        model,
        {"train": (x, labels), "asked": asked},
        needs=["layers", "probe:mahalanobis_layers"],
        layers=["0", "1"],
    )
    ours = got["asked"].probes["mahalanobis_layers"]
    assert ours.shape == (7, len(MAHALANOBIS_STEPS), 2)
    for place, stage in enumerate((model[:1], model[:2])):
        rows = stage(x).detach()
        means = torch.stack([rows[labels == c].mean(0) for c in range(3)])
        gap = rows - means[labels]
        inverse = torch.linalg.inv(gap.T @ gap / 60)

        def distance(points, stage=stage, means=means, inverse=inverse):
            apart = stage(points)[:, None] - means
            return torch.einsum("nci,ij,ncj->nc", apart, inverse, apart).amin(1)

        source = asked.clone().requires_grad_()
        (slope,) = torch.autograd.grad(distance(source).sum(), source)
        for column, step in enumerate(MAHALANOBIS_STEPS):
            expected = distance(asked - step * slope.sign()).detach()
            torch.testing.assert_close(ours[:, column, place], expected, rtol=1e-5, atol=1e-7)
