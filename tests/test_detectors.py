"""Independent witnesses for every detector: another library, brute force, exact arithmetic."""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import scipy
import torch
from detector_data import made_up, scores
from scipy.spatial.distance import cdist
from scipy.spatial.distance import mahalanobis as scipy_mahalanobis
from sklearn.covariance import EmpiricalCovariance
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors

from oodometer.detectors import _arrays
from oodometer.errors import UserError
from oodometer.outputs import Head, Outputs
from oodometer.registry import DETECTORS, choose
from oodometer.testing import toy_outputs

PLAIN = {"logits", "features", "labels", "head"}  # what every test here has at hand
BUILT_IN = sorted(
    name
    for name, card in DETECTORS.items()
    if card.build.__module__.startswith("oodometer.") and card.needs <= PLAIN
)


def parts(outputs: Outputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return outputs.features.numpy(), outputs.logits.numpy(), outputs.labels.numpy()


def only_logits(rows: list[list[float]], dtype: torch.dtype = torch.float64) -> Outputs:
    labels = torch.arange(len(rows)) % len(rows[0])
    return Outputs(logits=torch.tensor(rows, dtype=dtype), labels=labels)


# --- another library -------------------------------------------------------------------------

MADE = json.loads(Path(__file__).parent.joinpath("oracles/pytorch_ood.json").read_text("utf-8"))

# How its scores follow from ours: it returns -max p, H and the mean in place of logarithms, half
# the squared distance with a covariance that is not divided by n, and a gradient divided by K.
THEIRS: dict[str, Callable[[np.ndarray, dict[str, object]], np.ndarray]] = {
    "max_softmax": lambda s, _: np.expm1(s),
    "odin_without_perturbation": lambda s, _: np.expm1(s),
    "temperature_scaling": lambda s, _: np.expm1(s),
    "cosine_to_class_weight": lambda s, _: np.expm1(s),
    "openmax": lambda s, _: 1 / (1 + np.exp(-s)),
    "pnml": lambda s, _: np.exp(s),
    "entropy": lambda s, _: np.exp(s),
    "generalized_entropy": lambda s, settings: np.exp(s) / min(settings["top"], 5),
    "mahalanobis": lambda s, _: s / 2 / 160,
    "relative_mahalanobis": lambda s, _: s / 160,
    "gradnorm": lambda s, _: s / 5,
}
# It adds 1e-6 to the covariance's diagonal, computes several in float32, and its fit of a Weibull
# distribution stops early.
ROUGH = {
    "mahalanobis": 1e-6,
    "relative_mahalanobis": 2e-6,
    "vim": 1e-4,
    "residual": 1e-5,
    "dice": 1e-6,
    "nci": 2e-6,
    "fdbd": 2e-6,
    "pnml": 1e-5,
    "nnguide": 2e-6,
    "cosine_to_class_weight": 1e-6,
    "openmax": 1e-5,
}


def frozen() -> tuple[Outputs, Outputs]:
    arrays = {name: torch.tensor(np.array(value)) for name, value in MADE["arrays"].items()}
    head = Head(arrays["weight"], arrays["bias"])
    train = Outputs(features=arrays["train"], labels=arrays["labels"], head=head)
    return train, Outputs(features=arrays["test"], head=head)


@pytest.mark.parametrize("text", MADE["scores"])
def test_pytorch_ood_agrees(text: str) -> None:
    train, test = frozen()
    chosen = choose(text)
    name = chosen.detector.name
    ours = scores(text, train, test)
    theirs = np.array(MADE["scores"][text])
    ours = THEIRS.get(name, lambda s, _: s)(ours, dict(chosen.settings))
    rows = np.full(len(ours), True)
    if name in ("entropy", "generalized_entropy"):
        # It lifts probabilities to 1e-7, which changes the score of a sure prediction by up to
        # 15 %; only rows without such probabilities are the same definition.
        rows = test.logits.softmax(1).amin(1).numpy() > 1e-7
        assert 15 < rows.sum() < len(rows)
    rough = ROUGH.get(name, 1e-8)
    floor = 1e-7 if rough > 1e-8 else 0  # of scores that may cancel, in float32
    np.testing.assert_allclose(ours[rows], theirs[rows], rtol=rough, atol=floor)


# --- exact arithmetic: softmax scores in 1,000 digits -----------------------------------------

SURE = [
    [1000.0, 0.0, -5.0, 3.0],
    [1000.0, 0.5, -5.0, 3.0],
    [0.0, 0.0, 0.0, 0.0],
    [1e4, 1e4 - 600, -1e4, 9e3],
    [-1e4, -1e4 + 1, -1e4 + 2, -1e4 + 3],
    [3.0, 2.5, -1.0, 0.25],
    [40.0, 0.0, 39.5, -2.0],
    [0.0, 900.0, 1.0, 899.0],
]


def exact_softmax(row: list[float], temperature: float = 1.0) -> list[Decimal]:
    terms = [(Decimal(z) / Decimal(temperature)).exp() for z in row]
    return [term / sum(terms) for term in terms]


def exactly(formula: Callable[[list[float]], Decimal]) -> np.ndarray:
    with decimal.localcontext() as context:
        context.prec, context.Emin, context.Emax = 1000, -99999999, 99999999
        return np.array([float(formula(row)) for row in SURE])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("max_softmax", lambda z: (1 - max(exact_softmax(z))).ln()),
        (
            "odin_without_perturbation(temperature=1000)",
            lambda z: (1 - max(exact_softmax(z, 1000))).ln(),
        ),
        (
            "odin_without_perturbation(temperature=10)",
            lambda z: (1 - max(exact_softmax(z, 10))).ln(),
        ),
        ("entropy", lambda z: (-sum(p * p.ln() for p in exact_softmax(z))).ln()),
        (
            "margin",
            lambda z: (1 - sorted(exact_softmax(z))[-1] + sorted(exact_softmax(z))[-2]).ln(),
        ),
        ("energy", lambda z: -sum(Decimal(x).exp() for x in z).ln()),
        (
            "energy(temperature=100)",
            lambda z: -100 * sum((Decimal(x) / 100).exp() for x in z).ln(),
        ),
        (
            "generalized_entropy(gamma=2, top=3)",
            lambda z: sum(p**2 * (1 - p) ** 2 for p in sorted(exact_softmax(z))[1:]).ln(),
        ),
        (
            "generalized_entropy(gamma=1, top=1)",
            lambda z: (max(exact_softmax(z)) * (1 - max(exact_softmax(z)))).ln(),
        ),
    ],
)
def test_softmax_scores_are_exact(text: str, formula: Callable, dtype: torch.dtype) -> None:
    test = only_logits(SURE, dtype)
    np.testing.assert_allclose(scores(text, test, test), exactly(formula), rtol=1e-12, atol=1e-15)


def test_softmax_scores_rank_sure_predictions() -> None:
    """Logits of size 1e4 in float32: every plain formula says 0 or 1 for all of these."""
    rows = [[1e4 - step, 0.0, 100.0 + step] for step in range(0, 500, 5)]
    test = only_logits(rows, torch.float32)
    for name in (
        "max_softmax",
        "temperature_scaling",
        "entropy",
        "margin",
        "generalized_entropy",
        "energy",
    ):
        assert (np.diff(scores(name, test, test)) > 0).all(), name


# --- brute force -----------------------------------------------------------------------------


def tied_covariance(x: np.ndarray, y: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    means = [x[y == c].mean(0) for c in np.unique(y)]
    weights = [np.mean(y == c) for c in np.unique(y)]
    within = [np.cov(x[y == c].T, bias=True) for c in np.unique(y)]
    return means, sum(w * np.atleast_2d(s) for w, s in zip(weights, within, strict=True))


@pytest.mark.parametrize("space", ["features", "logits"])
def test_mahalanobis_is_scipys_distance_to_the_nearest_mean(space: str) -> None:
    train, test = made_up(), made_up(20, seed=1)
    x, rows = (getattr(o, space).numpy() for o in (train, test))
    means, covariance = tied_covariance(x, train.labels.numpy())
    inverse = np.linalg.inv(covariance)
    expected = [min(scipy_mahalanobis(row, m, inverse) ** 2 for m in means) for row in rows]
    np.testing.assert_allclose(scores(f"mahalanobis(space={space})", train, test), expected)


def test_relative_mahalanobis_subtracts_sklearns_distance() -> None:
    train, test = made_up(), made_up(20, seed=1)
    background = EmpiricalCovariance().fit(train.features.numpy())
    expected = scores("mahalanobis", train, test) - background.mahalanobis(test.features.numpy())
    np.testing.assert_allclose(scores("relative_mahalanobis", train, test), expected)


def test_mahalanobis_ignores_unlabelled_rows() -> None:
    train, test = made_up(), made_up(20, seed=1)
    wild = Outputs(features=1e3 * train.features[:9], labels=torch.full((9,), -1), head=train.head)
    both = Outputs(
        features=torch.cat([train.features, wild.features]),
        labels=torch.cat([train.labels, wild.labels]),
        head=train.head,
    )
    for name in ("mahalanobis", "relative_mahalanobis"):
        np.testing.assert_allclose(scores(name, both, test), scores(name, train, test))


def with_features(outputs: Outputs, features: torch.Tensor) -> Outputs:
    head = Head(torch.ones(4, features.shape[1]).to(features), torch.arange(4.0).to(features))
    return Outputs(features=features, labels=outputs.labels, head=head)


@pytest.mark.parametrize("name", ["mahalanobis", "relative_mahalanobis"])
def test_mahalanobis_inside_the_span_is_the_pseudo_inverse(name: str) -> None:
    """Dead and copied units: there the distance is that of the living ones."""
    train, test = made_up(), made_up(20, seed=1)
    mix = torch.tensor(np.random.default_rng(5).normal(size=(7, 12)))
    mix[:, 3] = 0.0
    wide = [with_features(o, o.features @ mix) for o in (train, test)]
    np.testing.assert_allclose(scores(name, *wide), scores(name, train, test), rtol=1e-6)
    if name == "mahalanobis":
        means, covariance = tied_covariance(wide[0].features.numpy(), train.labels.numpy())
        inverse = scipy.linalg.pinvh(covariance, rtol=1e-10)
        gaps = wide[1].features.numpy()[:, None] - np.stack(means)
        expected = np.einsum("ncd,de,nce->nc", gaps, inverse, gaps).min(1)
        np.testing.assert_allclose(scores(name, *wide), expected, rtol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_an_outlier_that_lights_a_dead_unit_is_seen(seed: int) -> None:
    """By the distance to a class; one less the other knows nothing about such a direction.

    The witness of that is a little noise in the dead unit, the same for all classes: however
    little it is, both distances grow alike.
    """
    train, test = made_up(seed=10 + seed), made_up(20, seed=1)
    dead = torch.zeros(90, 1, dtype=torch.float64)
    noise = torch.tensor(np.random.default_rng(seed).normal(size=(90, 1)))
    basis = torch.cat([train.features, torch.nn.functional.one_hot(train.labels)], 1)
    noise = 1e-3 * (noise - basis @ torch.linalg.lstsq(basis, noise).solution)  # unlike all else
    silent = with_features(train, torch.cat([train.features, dead], 1))
    murmuring = with_features(train, torch.cat([train.features, noise], 1))
    quiet = with_features(test, torch.cat([test.features, dead[:20]], 1))
    loud = with_features(test, torch.cat([test.features, dead[:20] + 3], 1))
    assert (scores("mahalanobis", silent, loud) > scores("mahalanobis", silent, quiet) + 1).all()
    for name in ("mahalanobis", "relative_mahalanobis"):
        plain = scores(name, train, test)
        np.testing.assert_allclose(scores(name, silent, quiet), plain, rtol=1e-9)
    for fitted in (silent, murmuring):
        found = scores("relative_mahalanobis", fitted, loud)
        np.testing.assert_allclose(found, plain, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["mahalanobis", "relative_mahalanobis"])
def test_mahalanobis_survives_features_far_from_zero(name: str) -> None:
    """Mean 1e4 times the spread, in float32, and units of very different size."""
    train, test = made_up(relu=False), made_up(20, seed=1, relu=False)
    size = torch.logspace(-3, 3, 7, dtype=torch.float64)
    far = [with_features(o, ((o.features + 1e4) * size).float()) for o in (train, test)]
    # The inputs themselves are rounded to 1e-3 of the spread.
    np.testing.assert_allclose(scores(name, *far), scores(name, train, test), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("k", [1, 2, 50, 90])
def test_knn_is_sklearns_neighbour(
    k: int, normalize: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_arrays, "BLOCK_BYTES", 400)  # tiles of 40, the last one not full
    train, test = made_up(), made_up(20, seed=1)
    bank, rows = (o.features.numpy() + 0.0 for o in (train, test))
    if normalize:
        bank, rows = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (bank, rows))
    search = NearestNeighbors(algorithm="kd_tree").fit(bank)
    expected = search.kneighbors(rows, n_neighbors=k)[0][:, -1]
    got = scores(f"knn(k={k}, normalize={normalize})", train, test)
    np.testing.assert_allclose(got, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_knn_keeps_tiny_distances(dtype: torch.dtype) -> None:
    """The way over squared norms would return 0 or 1e-4 for all of these."""
    train = made_up(dtype=dtype)
    for step in (0.0, 1e-6, 1e-5, 1e-4):
        moved = train.features.clone()
        moved[:, 0] += step
        expected = np.diag(cdist(train.features.double().numpy(), moved.double().numpy()))
        got = scores("knn(k=1, normalize=False)", train, with_features(train, moved))
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-15)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("neighbors", [1, 10, 20, 50])
def test_local_outlier_factor_is_sklearns(
    metric: str, neighbors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_arrays, "BLOCK_BYTES", 400)  # tiles of 40, the last one not full
    train, test = made_up(), made_up(20, seed=1)
    reference = LocalOutlierFactor(n_neighbors=neighbors, metric=metric, novelty=True)
    expected = -reference.fit(train.features.numpy()).score_samples(test.features.numpy())
    got = scores(f"local_outlier_factor(neighbors={neighbors}, metric={metric})", train, test)
    np.testing.assert_allclose(got, expected, rtol=1e-8)


def plain_energy(logits: np.ndarray) -> float:
    return -np.log(sum(np.exp(z) for z in logits))


@pytest.mark.parametrize("percentile", [80, 99])
def test_react_by_hand(percentile: int) -> None:
    train, test = made_up(), made_up(20, seed=1)
    ceiling = np.percentile(train.features.numpy(), percentile)
    weight, bias = train.head.weight.numpy(), train.head.bias.numpy()
    expected = [
        plain_energy([sum(w * min(x, ceiling) for w, x in zip(ws, row, strict=True)) + b
                      for ws, b in zip(weight, bias, strict=True)])
        for row in test.features.numpy()
    ]  # fmt: skip
    np.testing.assert_allclose(scores(f"react(percentile={percentile})", train, test), expected)


@pytest.mark.parametrize("relu", [True, False])
def test_dice_by_hand(relu: bool) -> None:
    train, test = made_up(relu=relu), made_up(20, seed=1, relu=relu)
    weight, bias = train.head.weight.numpy(), train.head.bias.numpy()
    products = weight * train.features.numpy().mean(0)
    threshold = np.percentile(products, 70)
    expected = []
    for row in test.features.numpy():
        logits = bias.copy()
        for c, j in np.argwhere(products > threshold):
            logits[c] += weight[c, j] * row[j]
        expected.append(plain_energy(logits))
    np.testing.assert_allclose(scores("dice(percentile=70)", train, test), expected)


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("variant", ["s", "b", "p"])
@pytest.mark.parametrize("percentile", [0, 65, 90])
def test_ash_by_hand(variant: str, percentile: int, relu: bool) -> None:
    train, test = made_up(relu=relu), made_up(20, seed=1, relu=relu)
    weight, bias = train.head.weight.numpy(), train.head.bias.numpy()
    keep = max(1, 7 - round(7 * percentile / 100))
    expected = []
    fewer = 0  # rows with fewer lit units than may be kept
    for row in test.features.numpy():
        places = [j for j in np.argsort(-np.abs(row), kind="stable")[:keep] if row[j] != 0]
        fewer += len(places) < keep
        shaped = np.zeros(7)
        total, strong = np.abs(row).sum(), np.abs(row[places]).sum()
        for j in places:
            factor = {
                "p": row[j],
                "s": row[j] * np.exp(total / strong),
                "b": np.sign(row[j]) * total / len(places),
            }
            shaped[j] = factor[variant]
        if variant == "b":
            assert np.abs(shaped).sum() == pytest.approx(total)  # the paper: the sum stays
        expected.append(plain_energy(weight @ shaped + bias))
    assert fewer or not (relu and percentile == 0)
    got = scores(f"ash(percentile={percentile}, variant={variant})", train, test)
    np.testing.assert_allclose(got, expected)


@pytest.mark.parametrize("percentile", [0, 65, 90])
def test_signed_features_are_pruned_and_summed_as_published(percentile: int) -> None:
    """The steps of the papers' code: sum, keep the largest, sum, multiply; nothing is absolute."""
    train, test = made_up(relu=False), made_up(20, seed=1, relu=False)
    weight, bias = train.head.weight.numpy(), train.head.bias.numpy()
    keep = max(1, 7 - round(7 * percentile / 100))
    expected: dict[str, list[float]] = {"s": [], "b": [], "p": [], "scale": []}
    for row in test.features.numpy():
        pruned = np.where(row >= np.sort(row)[-keep], row, 0.0)
        ratio = row.sum() / pruned.sum()
        expected["p"].append(plain_energy(weight @ pruned + bias))
        expected["s"].append(plain_energy(weight @ (pruned * np.exp(ratio)) + bias))
        filled = np.where(pruned != 0, row.sum() / keep, 0.0)
        expected["b"].append(plain_energy(weight @ filled + bias))
        expected["scale"].append(plain_energy(weight @ (row * np.exp(ratio)) + bias))
    settings = f"percentile={percentile}, negative=signed"
    for variant in ("s", "b", "p"):
        got = scores(f"ash({settings}, variant={variant})", train, test)
        np.testing.assert_allclose(got, expected[variant])
    np.testing.assert_allclose(scores(f"scale({settings})", train, test), expected["scale"])
    rectified = made_up(20, seed=1, relu=True)
    for name in ("ash", "scale"):  # without negative features both are the same
        same = scores(f"{name}({settings})", made_up(relu=True), rectified)
        plain = scores(f"{name}(percentile={percentile})", made_up(relu=True), rectified)
        np.testing.assert_allclose(same, plain)


def test_kl_matching_is_scipys_divergence() -> None:
    train, test = made_up(), made_up(20, seed=1)
    posterior = scipy.special.softmax(train.logits.numpy(), axis=1)
    guess = posterior.argmax(1)
    typical = [posterior[guess == c].mean(0) for c in range(4)]
    rows = scipy.special.softmax(test.logits.numpy(), axis=1)
    expected = [min(scipy.stats.entropy(row, d) for d in typical) for row in rows]
    np.testing.assert_allclose(scores("kl_matching", train, test), expected, atol=1e-12)


def test_kl_matching_gives_a_class_that_is_never_predicted_its_one_hot() -> None:
    train = only_logits([[5.0, 1.0, 0.0], [4.0, 0.5, 0.0], [0.0, 4.0, 0.0]])
    test = only_logits([[0.0, 0.0, 30.0], [0.0, 0.0, 3.0], [4.5, 0.7, 0.0]])
    sure, unsure, usual = scores("kl_matching", train, test)
    assert abs(sure) < 1e-9 < usual < unsure


@pytest.mark.parametrize("kept", [0, 2, 6])
def test_vim_by_singular_values(kept: int) -> None:
    train, test = made_up(), made_up(20, seed=1)
    x, logits, _ = parts(train)
    weight, bias = train.head.weight.numpy(), train.head.bias.numpy()
    origin = np.linalg.lstsq(weight, -bias, rcond=None)[0]  # the smallest point of no opinion
    main = np.linalg.svd(x - origin)[2][: kept or 3]

    def residual(rows: np.ndarray) -> np.ndarray:
        return np.linalg.norm((rows - origin) - (rows - origin) @ main.T @ main, axis=1)

    alpha = logits.max(1).mean() / residual(x).mean()
    energies = [plain_energy(row) for row in test.logits.numpy()]
    expected = abs(alpha) * residual(test.features.numpy()) + energies
    np.testing.assert_allclose(scores(f"vim(kept={kept})", train, test), expected, rtol=1e-8)


@pytest.mark.parametrize(("width", "kept"), [(7, 3), (767, 383), (768, 512), (2048, 1000)])
def test_vim_keeps_as_many_dimensions_as_the_authors(width: int, kept: int) -> None:
    train, test = made_up(12, width), made_up(6, width, seed=1)
    by_rule = scores("vim", train, test)
    np.testing.assert_array_equal(by_rule, scores(f"vim(kept={kept})", train, test))


def test_vim_does_not_take_a_large_unit_for_rounding_of_all() -> None:
    """One of a million, with weights of a millionth: the residual of the others still counts."""
    train, test = made_up(), made_up(20, seed=1)
    size = torch.ones(7, dtype=torch.float64)
    size[2] = 1e6

    def with_large_unit(outputs: Outputs, dtype: torch.dtype) -> Outputs:
        head = Head((outputs.head.weight / size).to(dtype), outputs.head.bias.to(dtype))
        return Outputs(features=(outputs.features * size).to(dtype), head=head)

    exact, single = (
        scores("vim(kept=3)", *(with_large_unit(o, dtype) for o in (train, test)))
        for dtype in (torch.float64, torch.float32)
    )
    np.testing.assert_allclose(single, exact, rtol=1e-3, atol=1e-3)


def test_vim_does_not_make_a_score_of_rounding() -> None:
    """Features that lie in the kept subspace have no residual: the energy remains."""
    train, test = made_up(), made_up(20, seed=1)
    mix = torch.tensor(np.random.default_rng(5).normal(size=(7, 32)))
    fixed = torch.tensor(np.random.default_rng(6).normal(size=(4, 32)))
    head = Head(fixed.float(), torch.zeros(4))
    flat = [Outputs(features=(o.features @ mix).float(), head=head) for o in (train, test)]
    gap = scores("vim", *flat) - scores("energy", *flat)
    assert np.abs(gap).max() < 0.05 * flat[0].logits.amax(1).mean()


def test_she_by_hand_with_both_fallbacks() -> None:
    train, test = made_up(classes=6), made_up(60, classes=6, seed=1)
    x, logits, labels = parts(train)
    guess = logits.argmax(1)
    labels = np.where((labels == 0) & (guess == 0), 1, labels)  # class 0: labelled, never right
    never = int(np.bincount(guess, minlength=6).argmin())
    labels[labels == never], x = 1, x[guess != never]  # and one neither labelled nor predicted
    labels, guess = labels[guess != never], guess[guess != never]
    train = Outputs(features=torch.tensor(x), labels=torch.tensor(labels), head=train.head)
    expected = []
    for row, z in zip(test.features.numpy(), test.logits.numpy(), strict=True):
        c = z.argmax()
        right = x[(labels == c) & (guess == c)]
        either = x[(labels == c) | (guess == c)]
        stored = right if len(right) else either if len(either) else x
        expected.append(-row @ stored.mean(0))
    assert {0, never} <= set(test.logits.argmax(1).tolist())
    np.testing.assert_allclose(scores("she", train, test), expected)


def test_gradnorm_is_a_backward_pass() -> None:
    test = made_up(20, seed=1, relu=False)
    expected = []
    for row in test.features:
        weight = test.head.weight.clone().requires_grad_()
        logits = torch.nn.functional.linear(row, weight, test.head.bias)
        torch.nn.functional.cross_entropy(logits, torch.ones(4).double()).backward()
        expected.append(-float(weight.grad.abs().sum()))
    np.testing.assert_allclose(scores("gradnorm", test, test), expected)


# --- settings, corners, sizes -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("knn(k=0)", "Setting k of 'knn' must be at least 1, got 0."),
        ("knn(k=91)", "Setting k of 'knn' must be at most 90, .* got 91."),
        ("local_outlier_factor(neighbors=0)", "must be at least 1, got 0."),
        ("local_outlier_factor(neighbors=90)", "must be at most 89, .* got 90."),
        ("energy(temperature=0)", "'energy' must be above 0, got 0."),
        (
            "odin_without_perturbation(temperature=-1)",
            "'odin_without_perturbation' must be above 0, got -1.",
        ),
        ("generalized_entropy(gamma=0)", "gamma of 'generalized_entropy' must be above 0, got 0."),
        ("generalized_entropy(top=0)", "top of 'generalized_entropy' must be at least 1, got 0."),
        ("react(percentile=150)", "'react' must be above 0 and at most 100, got 150."),
        ("dice(percentile=100)", "'dice' must be at least 0 and below 100, got 100."),
        ("ash(percentile=-1)", "'ash' must be at least 0 and below 100, got -1."),
        ("ash(variant=x)", "Unknown variant of 'ash' 'x'"),
        ("mahalanobis(space=pixels)", "Unknown space of 'mahalanobis' 'pixels'"),
        ("vim(kept=7)", "Setting kept of 'vim' must be at least 0 and below 7, got 7."),
    ],
)
def test_a_setting_out_of_range_is_named(text: str, allowed: str) -> None:
    with pytest.raises(UserError, match=allowed):
        scores(text, made_up(), made_up())


def test_not_a_number_is_out_of_range() -> None:
    with pytest.raises(UserError, match="must be finite, got nan"):
        DETECTORS["energy"].fit(made_up(), temperature=float("nan"))


def corner(name: str, dtype: torch.dtype) -> Outputs:
    base = made_up(60, 12, dtype=dtype)
    changed = {
        "class without labels": lambda: (base.features, torch.arange(60) % 3),
        "one sample per class": lambda: (base.features[:4], torch.arange(4)),
        "two samples": lambda: (base.features[:2], torch.zeros(2, dtype=torch.int64)),
        "one labelled class": lambda: (base.features, torch.full((60,), 2)),
        "constant features": lambda: (torch.full_like(base.features, 0.3), base.labels),
        "zero features": lambda: (torch.zeros_like(base.features), base.labels),
        "duplicates": lambda: (base.features[:3].repeat(20, 1), base.labels),
        "some without class": lambda: (base.features, torch.arange(60) % 5 - 1),
        "huge features": lambda: (base.features * 1e6, base.labels),
        "tiny features": lambda: (base.features * 1e-12, base.labels),
        "negative features": lambda: (-base.features, base.labels),
        "fewer samples than width": lambda: (base.features[:7], base.labels[:7]),
    }
    if name in changed:
        features, labels = changed[name]()
        return Outputs(features=features, labels=labels, head=base.head)
    return made_up(
        60,
        width={"width one": 1, "width two": 2}.get(name, 12),
        classes={"two classes": 2, "1000 classes": 1000}.get(name, 4),
        dtype=dtype,
    )


CORNERS = [
    "class without labels", "one sample per class", "two samples", "one labelled class",
    "constant features", "zero features", "duplicates", "some without class", "huge features",
    "tiny features", "negative features", "fewer samples than width", "width one", "width two",
    "two classes", "1000 classes",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CORNERS)
def test_corners_give_finite_scores(name: str, dtype: torch.dtype) -> None:
    train = corner(name, dtype)
    shape = train.features.shape
    noise = torch.tensor(np.random.default_rng(3).normal(size=shape)).to(dtype)
    none = torch.arange(0)
    for test in (train, Outputs(features=noise, head=train.head), train.take(none)):
        for detector in BUILT_IN:
            found = DETECTORS[detector].fit(train)(test)  # refuses NaN and infinity by itself
            assert found.shape == (len(test),)


@pytest.mark.parametrize(
    "name",
    [
        "max_softmax",
        "entropy",
        "margin",
        "temperature_scaling",
        "generalized_entropy",
        "kl_matching",
    ],
)
def test_softmax_of_one_class_is_refused(name: str) -> None:
    one = only_logits([[1.0], [2.0]])
    with pytest.raises(UserError, match=f"'{name}' needs logits of at least 2 classes, got 1."):
        DETECTORS[name].fit(one)


@pytest.mark.parametrize("name", ["mahalanobis", "relative_mahalanobis", "she"])
def test_training_data_without_any_class_is_refused(name: str) -> None:
    train = replace(made_up(), labels=torch.full((90,), -1))
    with pytest.raises(UserError, match=f"'{name}' needs training samples with a class, but all"):
        DETECTORS[name].fit(train)


def test_one_sample_has_no_neighbours() -> None:
    with pytest.raises(UserError, match="'local_outlier_factor' needs at least 2 training samples"):
        DETECTORS["local_outlier_factor"].fit(made_up(1))


def test_the_default_number_of_neighbours_shrinks() -> None:
    small, test = made_up(30), made_up(5, seed=1)
    np.testing.assert_array_equal(scores("knn", small, test), scores("knn(k=30)", small, test))


@pytest.mark.parametrize("name", BUILT_IN)
def test_small_blocks_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by working in blocks: the block size must not matter."""
    train, test = toy_outputs(300, 0), toy_outputs(40, 1)
    whole = scores(name, train, test)
    monkeypatch.setattr(_arrays, "BLOCK_BYTES", 9_000)
    np.testing.assert_allclose(scores(name, train, test), whole, rtol=1e-9)


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "isolation_forest"])
def test_gradients_reach_the_features(name: str) -> None:
    """An attack can differentiate a fitted detector, even where a head carries gradients too."""
    train = toy_outputs(200, 0)
    head = Head(train.head.weight.clone().requires_grad_(), train.head.bias.clone())
    fitted = DETECTORS[name].fit(Outputs(features=train.features, labels=train.labels, head=head))
    features = (toy_outputs(6, 1).features + 0.01).requires_grad_()
    fitted(Outputs(features=features, head=train.head)).sum().backward()
    assert features.grad.isfinite().all() and (features.grad.abs().sum(1) > 0).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_percentile_beyond_the_limit_of_torch(
    sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = torch.tensor(np.random.default_rng(0).normal(size=(1500, 700))).float()
    values = values.clamp_min(0.5) if sparse else values  # most numbers equal, as after a ReLU
    percents = (0, 0.001, 12.5, 50, 80, 99, 100)
    expected = np.percentile(values.double().numpy(), percents)
    with monkeypatch.context() as patched:
        for limit in (_arrays._DIRECT, 1000):
            patched.setattr(_arrays, "_DIRECT", limit)
            got = [_arrays.percentile_of(values, percent) for percent in percents]
            assert got == pytest.approx(expected.tolist(), rel=1e-12)
        flat = values.flatten()
        ranks = [_arrays._order_statistic(flat, rank) for rank in (0, 77, 1_049_999)]
        assert ranks == [float(flat.sort().values[r]) for r in (0, 77, 1_049_999)]
    big = values.expand(17, 1500, 700)  # 17.85 million numbers in the memory of one
    assert _arrays.percentile_of(big, 80) == pytest.approx(expected[percents.index(80)], rel=1e-5)
