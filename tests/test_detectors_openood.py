"""Detectors that OpenOOD has: against brute force and closed forms, written from the formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from detector_data import made_up, scores

import oodometer as om
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
