"""Detectors that OpenOOD has: against brute force and closed forms, written from the formulas."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from detector_data import made_up, scores
from scipy.special import logsumexp
from torch import nn

import oodometer as om
from oodometer.errors import UserError
from oodometer.lab.asking.probes.prototypes import _blurred
from oodometer.lab.asking.votes import summarize_votes
from oodometer.outputs import Outputs


def outputs(rows: int, seed: int) -> Outputs:
    return made_up(rows, 12, seed=seed)


# ---------------------------------------------------------------------------- relation


@pytest.mark.parametrize("power", [1, 4, 3])
def test_relation_is_the_sum_over_all_pairs(power):
    train, test = outputs(60, 0), outputs(7, 1)
    features, chances = train.features.numpy(), train.logits.softmax(1).numpy()
    for row, found in enumerate(scores(f"relation(power={power})", train, test)):
        x, p = test.features[row].numpy(), test.logits[row].softmax(0).numpy()
        total = 0.0
        for other, q in zip(features, chances, strict=True):
            cosine = float(x @ other / np.linalg.norm(x) / np.linalg.norm(other))
            related = max(0.0, cosine) * float(p @ q)
            total += related**power if related > 0.03 else 0.0
        assert found == pytest.approx(-total, rel=1e-9)


def test_relation_counts_those_that_are_alike():
    """Orthogonal features and certain classes: a sample is related to its own kind alone, by 1."""
    kinds = torch.eye(3, dtype=torch.float64)
    head = om.Head(60 * kinds, torch.zeros(3, dtype=torch.float64))
    train = Outputs(features=kinds[[0, 0, 0, 1, 1, 2]], labels=torch.zeros(6).long(), head=head)
    test = Outputs(features=kinds, labels=torch.zeros(3).long(), head=head)
    for power in (1, 8):
        assert scores(f"relation(power={power})", train, test) == pytest.approx([-3, -2, -1])


# ---------------------------------------------------------------------------- cfood


def unit(rows: torch.Tensor) -> np.ndarray:
    return (rows / rows.norm(dim=1, keepdim=True)).numpy()


@pytest.mark.parametrize("fraction", [0.001, 0.01, 0.05, 0.5])
def test_cfood_by_its_definition(fraction):
    """OpenOOD takes the first of its 230 ranks that enough training samples reach."""
    train, test = outputs(150, 0), outputs(9, 1)
    bank = unit(train.features)
    shares = np.concatenate(
        [np.linspace(0.001, 0.1, 100), np.linspace(0.105, 0.5, 81), np.linspace(0.51, 0.99, 49)]
    )
    places = (shares * 150 - 1).astype(int)
    kept = np.append(True, places[:-1] < places[1:])
    shares, places = shares[kept], places[kept]
    own = np.sort(np.linalg.norm(bank[:, None] - bank, axis=2), axis=1)
    reach = own[:, places + 1]  # its own distance, 0, comes first
    found = scores(f"cfood(fraction={fraction})", train, test)
    for score, x in zip(found, unit(test.features), strict=True):
        enough = (reach >= np.linalg.norm(bank - x, axis=1)[:, None]).mean(0) >= fraction
        ladder = [0, *shares, 1.5]
        place = 1 + (int(enough.argmax()) if enough.any() else len(shares))
        assert ladder[place - 1] < score <= ladder[place] + 1e-12


def test_cfood_is_the_concentration_free_outlier_factor():
    """The exact rank of a sample among the neighbors of those nearest to it, up to a step."""
    train, test = outputs(400, 2), outputs(40, 3)
    bank, queries = unit(train.features), unit(test.features)
    own = np.sort(np.linalg.norm(bank[:, None] - bank, axis=2), axis=1)[:, 1:]
    distances = np.linalg.norm(bank[:, None] - queries, axis=2)
    ranks = np.array([np.searchsorted(own[k], distances[k]) for k in range(400)])
    exact = np.sort(ranks, axis=0)[math.ceil(0.05 * 400) - 1] + 1  # k: its place among them
    found = scores("cfood(fraction=0.05)", train, test)
    assert np.abs(found - exact / 400).max() < 0.011 and len(set(found)) == 40


def test_cfood_of_far_samples_goes_on_with_their_distance():
    drawn = outputs(50, 0)
    train = Outputs(features=drawn.features + 3, labels=drawn.labels, head=drawn.head)
    far = Outputs(features=-train.features[:3], labels=drawn.labels[:3], head=drawn.head)
    inside = Outputs(features=train.features[:3], labels=drawn.labels[:3], head=drawn.head)
    assert (scores("cfood", train, far) > 1).all() and (scores("cfood", train, inside) < 0.5).all()


# ---------------------------------------------------------------------------- dropout samples


def test_doubt_and_variance_of_votes():
    logits = 2 * torch.randn(30, 8, 5, generator=torch.Generator().manual_seed(0))
    votes = logits.double().softmax(2)
    _, _, doubt, variance = summarize_votes(logits).T
    torch.testing.assert_close(doubt.exp(), 1 - votes.mean(0).amax(1), rtol=1e-9, atol=0)
    torch.testing.assert_close(variance.exp(), votes.var(0).mean(1), rtol=1e-9, atol=0)


def test_doubt_and_variance_of_sure_votes():
    """Two networks, two classes, odds e^-a and e^-b: closed forms where the softmax is 1."""
    a, b = 60.0, 62.0
    votes = torch.tensor([[[a, 0.0]], [[b, 0.0]]], dtype=torch.float64)
    _, _, doubt, variance = summarize_votes(votes)[0].tolist()
    p, q = math.exp(-a), math.exp(-b)
    assert doubt == pytest.approx(math.log((p + q) / 2), rel=1e-9)
    # In the second class p and q, in the first as far apart: the variance is (p - q)^2 / 2.
    assert variance == pytest.approx(math.log((p - q) ** 2 / 2), rel=1e-9)
    assert summarize_votes(votes[[0, 0]])[0, 3] == -1e6


# ---------------------------------------------------------------------------- further passes


def network() -> nn.Module:
    """Smooth, so that a step changes every answer; two channels of 5 x 5 pixels."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        return nn.Sequential(
            nn.Conv2d(2, 8, 3), nn.Tanh(), nn.Flatten(), nn.Linear(72, 40), nn.Softplus(),
            nn.Linear(40, 3),
        ).double()  # fmt: skip


def inputs(rows: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(rows, 2, 5, 5, generator=generator, dtype=torch.float64)


def asked(*needs: str) -> tuple[nn.Module, Outputs, Outputs]:
    model = network()
    train = (inputs(60, 0), torch.arange(60) % 3)
    found = om.extract(model, {"train": train, "test": inputs(9, 1)}, needs=needs)
    return model, found["train"], found["test"]


def test_iodin_moves_one_value_and_asks_again():
    model, train, test = asked("probe:iodin")
    for row, x in enumerate(inputs(9, 1)):
        for temperature, step in ((1.0, 0.0028), (1000.0, 0.0014)):
            x = x.clone().requires_grad_()
            logits = model(x[None])[0] / temperature
            (slope,) = torch.autograd.grad(-logits.log_softmax(0).max(), x)
            place = int(slope.abs().argmax())
            moved = x.detach().flatten().clone()
            moved[place] -= step * (1 if slope.flatten()[place] >= 0 else -1)
            with torch.no_grad():
                chances = (model(moved.reshape(1, 2, 5, 5))[0] / temperature).softmax(0)
            text = f"iodin(temperature={temperature}, step={step})"
            found = scores(text, train, test)[row]
            assert found == pytest.approx(float((1 - chances.max()).log()), rel=1e-9)


def test_iodin_on_a_linear_network():
    """Two classes: the gap falls by the step times the largest difference of the weights."""
    weight = torch.tensor([[3.0, -1.0, 0.5], [-2.0, 1.0, 0.0]], dtype=torch.float64)
    model = nn.Linear(3, 2).double()
    model.load_state_dict({"weight": weight, "bias": torch.zeros(2).double()})
    x = torch.tensor([[0.4, 0.2, 0.1], [-0.3, 0.5, 0.2]], dtype=torch.float64)
    found = om.extract(model, {"a": x}, needs=["probe:iodin"])["a"].probes["iodin"]
    gap = (x @ (weight[1] - weight[0])).abs()
    for column, step in enumerate((0.0014, 0.0028)):
        torch.testing.assert_close(found[:, 0, column], -(gap + 5 * step))


def test_adascale_by_hand():
    model, train, test = asked("probe:adascale")
    head = model[-1]

    def measured(x: torch.Tensor) -> tuple[np.ndarray, float]:
        x = x.clone().requires_grad_()
        features = model[:-1](x[None])[0]
        (slope,) = torch.autograd.grad(head(features).max(), x, retain_graph=True)
        order = slope.flatten().abs().argsort()
        moved = x.detach().flatten().clone()
        moved[order[:2]] += 0.5 * slope.flatten()[order[:2]].sign()  # 5% of 50 values
        with torch.no_grad():
            after = model[:-1](moved.reshape(1, 2, 5, 5))[0]
        largest = features.detach().argsort(descending=True)
        # 5% of 40 units are 2; 1% would be less than one.
        unstable = after[largest[:2]].relu().sum() + 10 * (after - features)[largest[0]].abs()
        return features.detach().numpy(), float(unstable.detach())

    usual = np.array([measured(x)[1] for x in inputs(60, 0)])
    weight, bias = head.weight.detach().numpy(), head.bias.detach().numpy()
    for row, x in enumerate(inputs(9, 1)):
        features, unstable = measured(x)
        percent = 60 + (1 - (usual <= unstable).mean()) * (95 - 60)
        kept = 40 - round(40 * percent / 100)
        ratio = features.sum() / np.sort(features)[-kept:].sum()
        for variant, logits in (
            ("a", np.exp(ratio) * (weight @ features) + bias),
            ("l", ratio**2 * (weight @ features + bias)),
        ):
            found = scores(f"adascale(percentiles=60-95, variant={variant})", train, test)[row]
            assert found == pytest.approx(-logsumexp(logits), rel=1e-9)


def test_adascale_without_a_choice_is_scale():
    """Where all samples are as stable as can be, the percentile is the upper one."""
    train, test = outputs(60, 0), outputs(9, 1)
    train = replace(train, probes={"adascale": train.features + 5})
    test = replace(test, probes={"adascale": torch.zeros_like(test.features)})
    # Of a test sample, C + 10 Q must lie below all of training: its features are small.
    small = replace(test, features=test.features / 100, logits=None)
    found = scores("adascale(percentiles=60-85)", train, small)
    assert found == pytest.approx(scores("scale(percentile=85)", train, small), rel=1e-12)
    found = scores("adascale(percentiles=60-85, variant=l)", train, small)
    logits = (small.head(small.features)).numpy()
    kept = 12 - round(12 * 0.85)
    ratio = small.features.sum(1) / small.features.topk(kept).values.sum(1)
    assert found == pytest.approx(-logsumexp(logits * ratio.square().numpy()[:, None], axis=1))


def test_grood_is_a_gradient():
    """Autograd by the prototype of noise; then the nearest of the right training samples."""
    _, train, test = asked("probe:grood")
    labels, features = train.labels, train.features
    means = torch.stack([features[labels == group].mean(0) for group in range(3)])
    with om.Session(network(), needs=["probe:grood"], train=(inputs(60, 0), labels)) as session:
        session.learn()
        noise = session._request.states["grood"]["prototypes"][-1]
        torch.testing.assert_close(session._request.states["grood"]["prototypes"][:3], means)

    def gradient(row: torch.Tensor) -> torch.Tensor:
        place = noise.clone().requires_grad_()
        logits = -torch.cat([(row - means).norm(dim=1), (row - place).norm()[None]])
        return torch.autograd.grad(-logits.log_softmax(0)[1], place)[0]

    mine = torch.stack([gradient(row) for row in features])
    torch.testing.assert_close(train.probes["grood"], mine)
    right = train.logits.argmax(1) == labels
    assert 0 < right.sum() < 60
    for found, row in zip(scores("grood", train, test), test.features, strict=True):
        nearest = (gradient(row) - mine[right]).norm(dim=1).min()
        assert found == pytest.approx(float(nearest), rel=1e-9)


def test_the_noise_of_grood():
    """The mean feature of the ten inputs out of a hundred that the network is least sure of."""
    drawn = []

    class Spy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            drawn.append(x.detach().clone())
            return self.inner(x)

    model = Spy()
    labels = torch.arange(60) % 3
    with om.Session(model, needs=["probe:grood"], train=(inputs(60, 0), labels)) as session:
        session.learn()
        noise = session._request.states["grood"]["prototypes"][-1]
    (seen,) = [x for x in drawn if len(x) == 100]
    assert seen.min() >= 0 and seen.max() <= 1 and seen.std() < 0.28  # uniform: 0.289
    with torch.no_grad():
        least = model.inner(seen).logsumexp(1).argsort()[:10]
        torch.testing.assert_close(model.inner[:-1](seen[least]).mean(0), noise)


def test_blurring_keeps_flat_images_and_spreads_points():
    flat = torch.full((1, 2, 6, 9), 0.3)
    torch.testing.assert_close(_blurred(flat, 2.0), flat)
    point = torch.zeros(1, 1, 15, 15)
    point[0, 0, 7, 7] = 1
    spread = _blurred(point, 1.5)
    down, across = np.arange(7) - 3, np.arange(5) - 2
    bells = [np.exp(-(places**2) / (2 * 1.5**2)) for places in (down, across)]
    expected = np.outer(bells[0] / bells[0].sum(), bells[1] / bells[1].sum())
    assert spread[0, 0, 4:11, 5:10].numpy() == pytest.approx(expected, abs=1e-7)
    assert float(spread.sum()) == pytest.approx(1, abs=1e-6)


def test_what_has_no_noise_is_refused():
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vectors, self.head = nn.Embedding(9, 4), nn.Linear(4, 2)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            return self.head(self.vectors(words).mean(1))

    words = torch.randint(0, 9, (8, 5), generator=torch.Generator().manual_seed(0))
    with pytest.raises(UserError, match="asks about noise, but .* 'train' are not one tensor"):
        om.extract(Words(), {"train": (words, torch.arange(8) % 2)}, needs=["probe:grood"])
