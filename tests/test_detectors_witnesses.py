"""Second witnesses: closed forms, exact fractions, loops from the papers, other solvers."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from detector_data import scores
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from scipy.special import logsumexp, softmax
from scipy.stats import entropy as scipy_entropy
from sklearn.neighbors import NearestNeighbors
from torch import nn

import oodometer as om
from oodometer.detectors import temperature
from oodometer.lab.asking.probes import dropout
from oodometer.lab.asking.votes import summarize_votes
from oodometer.needs import ENSEMBLE
from oodometer.outputs import Head, Outputs
from oodometer.registry import DETECTORS

MADE = json.loads(Path(__file__).parent.joinpath("oracles/pytorch_ood.json").read_text("utf-8"))


def drawn(rows: int, seed: int, width: int = 5, classes: int = 3, shift: float = 0.0) -> Outputs:
    """Features around one point per class; the same head for every seed."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(77)
    head = Head(torch.tensor(fixed.normal(size=(classes, width))), torch.zeros(classes).double())
    labels = np.arange(rows) % classes
    features = fixed.normal(size=(classes, width))[labels] + rng.normal(size=(rows, width)) + shift
    return Outputs(features=torch.tensor(features), labels=torch.tensor(labels), head=head)


# --- logits -------------------------------------------------------------------------------------


def test_max_logit_is_the_energy_of_a_cold_network() -> None:
    test = Outputs(logits=torch.tensor(np.random.default_rng(0).normal(size=(20, 5))))
    cold = scores("energy(temperature=1e-4)", test, test)
    np.testing.assert_allclose(scores("max_logit", test, test), cold, atol=1e-6)


def test_the_margin_of_two_classes_is_a_hyperbolic_tangent() -> None:
    """p_1 - p_2 = tanh(d / 2), and 1 - tanh(d / 2) = 2 / (1 + e^d)."""
    gaps = np.array([0.0, 1e-9, 0.3, 2.0, 40.0, 900.0])
    test = Outputs(logits=torch.tensor(np.stack([gaps - 5, np.full(6, -5.0)], axis=1)))
    expected = math.log(2) - np.logaddexp(0, gaps)
    np.testing.assert_allclose(scores("margin", test, test), expected, atol=1e-15)


def test_standardized_max_logit_by_exact_fractions() -> None:
    """Mean and deviation by Python's statistics, which adds fractions; 1,000 of spread one."""
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(60, 3)) * [1, 2, 5] + 1000
    by_class: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for row in logits.tolist():
        by_class[row.index(max(row))].append(max(row))
    assert min(map(len, by_class.values())) > 3
    asked = rng.normal(size=(30, 3)) * 9 + 1000
    expected = []
    for row in asked.tolist():
        usual = by_class[row.index(max(row))]
        expected.append((statistics.mean(usual) - max(row)) / statistics.pstdev(usual))
    train, test = (Outputs(logits=torch.tensor(part)) for part in (logits, asked))
    np.testing.assert_allclose(scores("standardized_max_logit", train, test), expected, rtol=1e-9)
    own = scores("standardized_max_logit", train, train)
    for group in range(3):  # the training samples of each class have mean 0 and spread 1
        part = own[logits.argmax(1) == group]
        assert part.mean() == pytest.approx(0, abs=1e-9) and part.std() == pytest.approx(1)


def test_published_steps_may_end_at_a_negative_temperature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As they do for 200 samples without errors; the smallest logit is then the likeliest class."""
    monkeypatch.setattr(temperature, "_published_temperature", lambda *_: -7.5)
    logits = np.random.default_rng(0).normal(size=(20, 4)) * 9
    train = Outputs(logits=torch.tensor(logits), labels=torch.arange(20) % 4)
    expected = np.log1p(-softmax(logits / -7.5, axis=1).max(1))
    np.testing.assert_allclose(scores("temperature_scaling(steps=50)", train, train), expected)


# --- features -----------------------------------------------------------------------------------


def test_cosine_to_class_mean_in_the_plane_is_an_angle() -> None:
    """Two samples at a +- 20 degrees, equally long: their mean points to a, whatever its length."""
    middles = {0: 10.0, 1: 130.0, 3: 250.0}
    pairs = [(c, a + side, 5.0 ** (c - 1)) for c, a in middles.items() for side in (-20, 20)]
    angles = np.radians([angle for _, angle, _ in pairs])
    lengths = np.array([length for *_, length in pairs])[:, None]
    train = Outputs(
        features=torch.tensor(lengths * np.stack([np.cos(angles), np.sin(angles)], axis=1)),
        labels=torch.tensor([c for c, *_ in pairs]),
    )
    asked = np.arange(0, 360, 7.0)
    away = [min(abs((b - a + 180) % 360 - 180) for a in middles.values()) for b in asked]
    turned = np.radians(asked)
    rows = 1e-3 * np.stack([np.cos(turned), np.sin(turned)], axis=1)
    test = Outputs(features=torch.tensor(rows))
    expected = -np.cos(np.radians(away))
    np.testing.assert_allclose(scores("cosine_to_class_mean", train, test), expected, atol=1e-12)


def test_vra_is_pytorch_oods_where_all_units_have_the_same_numbers() -> None:
    """It has thresholds of its own for every unit: the same, if each holds the same numbers."""
    arrays = {name: np.array(value) for name, value in MADE["arrays"].items()}
    alike = np.stack([np.roll(arrays["train"][:101, 0], 7 * unit) for unit in range(12)], axis=1)
    head = Head(torch.tensor(arrays["weight"]), torch.tensor(arrays["bias"]))
    train, test = (
        Outputs(features=torch.tensor(part), head=head) for part in (alike, arrays["test"])
    )
    found = 0
    for name, theirs in MADE["others"].items():
        if name.startswith("vra("):
            ours = scores(name.partition(":")[0], train, test)
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
            found += 1
    assert found == 3


def percentile(values: Sequence[Fraction], percent: int) -> Fraction:
    """Percentile with linear interpolation, exactly."""
    ordered = sorted(values)
    place = Fraction(percent, 100) * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


@pytest.mark.parametrize(("weights", "clip"), [(10, 90), (50, 95), (90, 90)])
def test_line_in_exact_fractions(weights: int, clip: int) -> None:
    """Whole numbers with ties: what lies AT a threshold is out, and no rounding decides."""
    rng = np.random.default_rng(8)
    x, weight = rng.integers(0, 5, size=(30, 6)), rng.integers(-3, 4, size=(3, 6))
    labels, asked = np.arange(30) % 3, rng.integers(0, 9, size=(25, 6))
    head = Head(torch.tensor(weight).double(), torch.tensor([0.5, 0.0, -0.25]).double())
    train = Outputs(features=torch.tensor(x).double(), labels=torch.tensor(labels), head=head)
    test = Outputs(features=torch.tensor(asked).double(), head=head)
    bias = [Fraction(1, 2), Fraction(0), Fraction(-1, 4)]
    w = [[Fraction(int(v)) for v in row] for row in weight]
    ceiling = percentile([Fraction(int(v)) for v in x.flatten()], clip)
    importance = [
        [abs(sum(Fraction(int(v)) for v in x[labels == c, j]) / 10 * w[c][j]) for j in range(6)]
        for c in range(3)
    ]
    expected = []
    for row in asked.tolist():
        logits = [sum(a * v for a, v in zip(w[c], row, strict=True)) + bias[c] for c in range(3)]
        k = logits.index(max(logits))
        product = [[importance[k][j] * w[c][j] for j in range(6)] for c in range(3)]
        least = percentile([v for line in product for v in line], weights)
        unit = percentile(importance[k], weights)
        kept = [
            bias[c]
            + sum(
                w[c][j] * min(Fraction(row[j]), ceiling)
                for j in range(6)
                if importance[k][j] > unit and product[c][j] > least
            )
            for c in range(3)
        ]
        expected.append(-logsumexp([float(z) for z in kept]))
    got = scores(f"line(weights={weights}, percentile={clip})", train, test)
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("kept", [1, 2])
def test_the_residual_along_the_axes_is_known(kept: int) -> None:
    """Points on three axes, the longest first: what is left lies along the shorter ones."""
    axes = np.diag([5.0, 3.0, 1.0])
    head = Head(torch.tensor([[1.0, 2.0, 3.0]]).double(), torch.zeros(1).double())
    train = Outputs(features=torch.tensor(np.concatenate([axes, -axes])), head=head)
    asked = np.random.default_rng(0).normal(size=(9, 3))
    got = scores(f"residual(kept={kept})", train, Outputs(features=torch.tensor(asked), head=head))
    np.testing.assert_allclose(got, np.sqrt((asked[:, kept:] ** 2).sum(1)), rtol=1e-12)


def test_local_outlier_factor_as_its_paper_defines_it() -> None:
    train, test = drawn(40, 0), drawn(10, 1)
    points, k = [tuple(row) for row in train.features.tolist()], 7

    def near(point: tuple[float, ...], others: list[int]) -> list[int]:
        return sorted(others, key=lambda o: math.dist(point, points[o]))[:k]

    everybody = list(range(40))
    own = [near(points[i], [o for o in everybody if o != i]) for i in everybody]
    reach = [math.dist(points[i], points[own[i][-1]]) for i in everybody]  # the k-distance

    def density(point: tuple[float, ...], neighbors: list[int]) -> float:
        return k / sum(max(reach[o], math.dist(point, points[o])) for o in neighbors)

    dense = [density(points[i], own[i]) for i in everybody]
    expected = []
    for row in test.features.tolist():
        neighbors = near(tuple(row), everybody)
        expected.append(sum(dense[o] for o in neighbors) / k / density(tuple(row), neighbors))
    got = scores("local_outlier_factor(neighbors=7)", train, test)
    np.testing.assert_allclose(got, expected, rtol=1e-8)


@pytest.mark.parametrize("nu", [0.2, 0.6])
def test_one_class_svm_minimises_its_dual(nu: float) -> None:
    """Minimise a'Ka / 2 where the a add up to nu n and lie in [0, 1], by another solver."""
    train, test = drawn(30, 0), drawn(12, 1)
    x, asked = train.features.numpy(), test.features.numpy()
    narrow = 1 / (x.shape[1] * x.var())
    kernel, between = (np.exp(-narrow * cdist(rows, x, "sqeuclidean")) for rows in (x, asked))
    found = minimize(
        lambda a: a @ kernel @ a / 2,
        np.full(30, nu),
        jac=lambda a: kernel @ a,
        method="SLSQP",
        bounds=[(0, 1)] * 30,
        constraints={"type": "eq", "fun": lambda a: a.sum() - nu * 30},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert found.success
    got = scores(f"one_class_svm(nu={nu})", train, test)
    np.testing.assert_allclose(got, -np.log(between @ found.x), atol=1e-4)


def expected_depth(x: float, points: tuple[float, ...], limit: int) -> float:
    """Mean depth of x in an isolation tree of points on a line, over all its random cuts."""
    if limit == 0 or len(points) == 1:
        return harmonic_depth(len(points))
    total = points[-1] - points[0]
    depth = 1.0
    for cut in range(1, len(points)):
        left, right = points[cut - 1], points[cut]
        # A cut between two neighbours is as likely as their gap is wide, and even within it.
        below = min(max((right - x) / (right - left), 0.0), 1.0)  # the share that leaves x below
        share = (right - left) / total
        if below > 0:
            depth += share * below * expected_depth(x, points[:cut], limit - 1)
        if below < 1:
            depth += share * (1 - below) * expected_depth(x, points[cut:], limit - 1)
    return depth


def harmonic_depth(count: int) -> float:
    """Mean depth of an unsuccessful search among so many, as the paper corrects unfinished leaves.

    It writes the harmonic number as ln(n - 1) + 0.5772156649.
    """
    if count <= 2:
        return float(count - 1)
    return 2 * (math.log(count - 1) + 0.5772156649) - 2 * (count - 1) / count


def test_isolation_forest_finds_the_mean_depth_of_all_trees() -> None:
    """On a line the mean over all trees is a finite sum: 400 trees come close to it."""
    points = (-3.0, -1.1, -0.9, 0.0, 0.2, 0.25, 1.5, 6.0)
    train = Outputs(features=torch.tensor(points).double()[:, None])
    asked = np.array([-9.0, -2.0, -1.0, 0.1, 0.9, 3.0, 6.0, 50.0])
    exact = [2 ** (-expected_depth(x, points, 3) / harmonic_depth(8)) for x in asked]
    test = Outputs(features=torch.tensor(asked)[:, None])
    got = scores("isolation_forest(trees=400)", train, test)
    # Depths lie in 1..5: the mean of 400 is off by less than 0.2, four times its deviation.
    np.testing.assert_allclose(got, exact, rtol=0.2 / harmonic_depth(8) * math.log(2))
    assert np.ptp(exact) > 0.2


# --- learned from outliers ------------------------------------------------------------------------


def sides() -> tuple[Outputs, Outputs, Outputs, Outputs]:
    return drawn(50, 0), drawn(24, 1), drawn(16, 2, shift=0.9), drawn(12, 3, shift=0.5)


def standard(*parts: np.ndarray) -> list[np.ndarray]:
    learned_from = np.concatenate(parts[:2])
    return [(part - learned_from.mean(0)) / learned_from.std(0) for part in parts]


def dual_ascent(inliers: np.ndarray, outliers: np.ndarray) -> np.ndarray:
    """The machine with a weighted hinge loss, sample by sample in its dual; weights and offset."""
    x = np.concatenate([inliers, outliers])
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)  # the offset is weighed like a weight
    sizes = np.array([len(inliers), len(outliers)])
    y, most = np.repeat([-1.0, 1.0], sizes), np.repeat(sizes.sum() / 2 / sizes, sizes)
    share, w = np.zeros(len(x)), np.zeros(x.shape[1])
    for _ in range(4000):
        before = w.copy()
        for i in range(len(x)):
            step = (1 - y[i] * (w @ x[i])) / (x[i] @ x[i])
            changed = min(max(share[i] + step, 0.0), most[i])
            w += (changed - share[i]) * y[i] * x[i]
            share[i] = changed
        if np.abs(w - before).max() < 1e-13:
            break
    return w


@pytest.mark.parametrize("name", ["score_svm", "logistic_svm", "knn_svm(k=4)"])
def test_machines_end_where_the_dual_ends(name: str) -> None:
    train, inliers, outliers, test = sides()
    shown = [part.logits.numpy() for part in (inliers, outliers, test)]
    if name.startswith("knn"):
        bank = NearestNeighbors(n_neighbors=4).fit(train.features.numpy())
        shown = [bank.kneighbors(part.features.numpy())[0] for part in (inliers, outliers, test)]
    *known, asked = standard(*shown)
    w = dual_ascent(*known)
    got = scores(name, train, test, validation=(inliers, outliers))
    np.testing.assert_allclose(got, asked @ w[:-1] + w[-1], atol=2e-4)


def test_binary_classifier_ends_where_newtons_steps_end() -> None:
    train, inliers, outliers, test = sides()
    *known, asked = standard(*(part.features.numpy() for part in (inliers, outliers, test)))
    x = np.concatenate(known)
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    sizes = np.array([len(known[0]), len(known[1])])
    y, weight = np.repeat([0.0, 1.0], sizes), np.repeat(sizes.sum() / 2 / sizes, sizes)
    ridge = np.diag([1.0] * 5 + [0.0])
    w = np.zeros(6)
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ w))
        slope = ridge @ w + x.T @ (weight * (p - y))
        w -= np.linalg.solve(ridge + (x.T * (weight * p * (1 - p))) @ x, slope)
    got = scores("binary_classifier", train, test, validation=(inliers, outliers))
    np.testing.assert_allclose(got, asked @ w[:-1] + w[-1], atol=1e-4)


# --- layers and probes ----------------------------------------------------------------------------


def layered(rows: int, seed: int) -> Outputs:
    plain = drawn(rows, seed)
    wide = torch.cat([plain.features.square(), plain.features], dim=1)
    return Outputs(
        features=plain.features,
        labels=plain.labels,
        head=plain.head,
        layers={"early": wide, "late": plain.features},
    )


def test_layers_one_by_one_by_scipy_and_sklearn() -> None:
    train, test = layered(80, 0), layered(15, 1)
    labels = train.labels.numpy()
    distances, neighbors = np.zeros(15), np.zeros(15)
    for name in ("early", "late"):
        x, rows = train.layers[name].numpy(), test.layers[name].numpy()
        means = np.array([x[labels == c].mean(0) for c in range(3)])
        inverse = np.linalg.inv(np.cov((x - means[labels]).T, bias=True))
        distances += cdist(rows, means, "mahalanobis", VI=inverse).min(1) ** 2 / 2
        x, rows = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (x, rows))
        neighbors += NearestNeighbors(n_neighbors=10).fit(x).kneighbors(rows)[0][:, -1]
    np.testing.assert_allclose(scores("mahalanobis_ensemble", train, test), distances)
    np.testing.assert_allclose(scores("multi_layer_knn(k=10)", train, test), neighbors)


def test_mahalanobis_perturbed_of_a_linear_network_is_known() -> None:
    """x' = x - step sign(2 A' S^-1 (A x + b - m)), m the nearest mean at x."""
    rng = np.random.default_rng(4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body, head = nn.Linear(6, 4).double(), nn.Linear(4, 3).double()
    train, asked = rng.normal(size=(60, 6)), rng.normal(size=(20, 6))
    labels = np.arange(60) % 3
    data = {"train": (torch.tensor(train), torch.tensor(labels)), "a": torch.tensor(asked)}
    made = om.extract(nn.Sequential(body, head), data, needs=["probe:mahalanobis"])
    a, b = body.weight.detach().numpy(), body.bias.detach().numpy()
    x = train @ a.T + b
    means = np.array([x[labels == c].mean(0) for c in range(3)])
    inverse = np.linalg.inv(np.cov((x - means[labels]).T, bias=True))

    def squares(rows: np.ndarray) -> np.ndarray:
        return cdist(rows @ a.T + b, means, "mahalanobis", VI=inverse) ** 2

    nearest = means[squares(asked).argmin(1)]
    slope = 2 * (asked @ a.T + b - nearest) @ inverse @ a
    for step in (0.0, 0.002, 0.01):
        expected = squares(asked - step * np.where(slope >= 0, 1.0, -1.0)).min(1)
        got = scores(f"mahalanobis_perturbed(step={step})", made["train"], made["a"])
        np.testing.assert_allclose(got, expected, rtol=1e-8)


def test_mc_dropout_against_all_masks_of_a_small_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three units that are dropped or not: eight networks, all as likely."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        network = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.Linear(3, 3)).double()
    x = 3 * torch.randn(5, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    monkeypatch.setattr(dropout, "SAMPLES", (2500,))
    made = om.extract(network, {"a": x}, needs=["probe:mc_dropout"])["a"]
    found = made.probes["mc_dropout"][:, 0].exp().numpy()
    with torch.no_grad():
        hidden = network[0](x)
        every = [
            network[2](hidden * 2 * torch.tensor(mask)).softmax(1).numpy()
            for mask in itertools.product((0.0, 1.0), repeat=3)
        ]
    mean = np.mean(every, axis=0)
    between = np.mean([scipy_entropy(p, mean, axis=1) for p in every], axis=0)
    np.testing.assert_allclose(found[:, 0], scipy_entropy(mean, axis=1), rtol=0.03)
    np.testing.assert_allclose(found[:, 1], between, rtol=0.12)


def test_two_networks_that_contradict_each_other() -> None:
    """p and 1 - p: their mean is a coin, and what they disagree by is ln 2 - H(p)."""
    gaps = torch.tensor([0.1, 1.0, 5.0, 30.0], dtype=torch.float64)
    one = torch.stack([gaps, torch.zeros(4).double()], dim=1)
    test = Outputs(logits=one, answers={ENSEMBLE: summarize_votes(torch.stack([one, -one]))})
    np.testing.assert_allclose(scores("deep_ensemble", test, test), math.log(math.log(2)))
    p = torch.sigmoid(gaps).numpy()
    inside = [scipy_entropy([value, 1 - value]) for value in p]
    got = scores("deep_ensemble(measure=disagreement)", test, test)
    np.testing.assert_allclose(np.exp(got), math.log(2) - np.array(inside), rtol=1e-9)


# --- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "cosine_to_class_mean",
        "mahalanobis",
        "relative_mahalanobis",
        "gaussian_mixture",
        "gaussian_mixture(covariance=diagonal)",
    ],
)
def test_the_names_of_classes_cost_nothing(text: str) -> None:
    """Three classes called 7, 2,000,001 and 2^62: an array up to the last would be no array."""
    train, test = drawn(60, 0), Outputs(features=drawn(9, 1).features)
    named = torch.tensor([7, 2_000_001, 2**62])[train.labels]
    few = Outputs(features=train.features, labels=train.labels)
    odd = Outputs(features=train.features, labels=named)
    np.testing.assert_allclose(scores(text, odd, test), scores(text, few, test))


# --- every card --------------------------------------------------------------------------------


def test_every_detector_has_two_witnesses() -> None:
    """docs/detectors.md names what the scores of each are tested against, besides the contract."""
    page = Path(__file__).parents[1].joinpath("docs/detectors.md").read_text("utf-8")
    for name, card in DETECTORS.items():
        if not card.build.__module__.startswith("oodometer."):
            continue
        entry = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        witnesses = entry.partition("- Tested against: ")[2].partition("\n")[0]
        assert len(witnesses.split("; ")) >= 2, f"{name} agrees with {witnesses or 'nobody'}"
