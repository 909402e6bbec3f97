"""Witnesses for detectors that compare, fit or reshape features: loops, SciPy, scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import detector_data
import numpy as np
import pytest
import torch
from detector_data import scores
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm
from sklearn.ensemble import IsolationForest
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.svm import OneClassSVM

from oodometer.detectors import _arrays, prototypes
from oodometer.errors import UserError
from oodometer.outputs import Head, Outputs
from oodometer.registry import DETECTORS

NEW = (
    "cosine_to_class_mean", "cosine_to_class_weight", "fdbd", "gaussian_mixture",
    "isolation_forest", "line", "lts", "nci", "nnguide", "one_class_svm", "openmax", "pnml",
    "residual", "scale", "she", "standardized_max_logit", "temperature_scaling", "vra",
    "weighted_energy",
)  # fmt: skip


made_up = partial(detector_data.made_up, apart=True)


def arrays(outputs: Outputs) -> tuple[np.ndarray, ...]:
    named = outputs.tensors()
    return tuple(
        named[name].numpy() for name in ("features", "logits", "labels", "head.weight", "head.bias")
    )


def energy(logits: np.ndarray) -> float:
    return -logsumexp(logits)


# --- prototypes -------------------------------------------------------------------------------


def test_she_in_other_metrics() -> None:
    train, test = made_up(), made_up(20, seed=1)
    x, z, y, *_ = arrays(train)
    means = [x[(y == c) & (z.argmax(1) == c)].mean(0) for c in range(4)]
    rows, logits, *_ = arrays(test)
    stored = np.array(means)[logits.argmax(1)]
    expected = -np.diag(cosine_similarity(rows, stored))
    np.testing.assert_allclose(scores("she(metric=cosine)", train, test), expected)
    expected = np.sqrt(((rows - stored) ** 2).sum(1))
    np.testing.assert_allclose(scores("she(metric=euclidean)", train, test), expected)


def test_cosine_to_class_mean_is_sklearns() -> None:
    train, test = made_up(relu=False), made_up(20, seed=1, relu=False)
    x, _, y, *_ = arrays(train)
    y = np.where(y == 2, -1, y)  # a class without samples
    train = Outputs(features=train.features, labels=torch.tensor(y))
    means = np.array([x[y == c].mean(0) for c in (0, 1, 3)])
    expected = -cosine_similarity(test.features.numpy(), means).max(1)
    np.testing.assert_allclose(scores("cosine_to_class_mean", train, test), expected)


@pytest.mark.parametrize("temperature", [0.01, 1.0])
def test_cosine_to_class_weight_is_a_softmax_of_sklearns(temperature: float) -> None:
    train = made_up(relu=False)
    rows, _, _, weight, _ = arrays(train)
    logits = cosine_similarity(rows, weight) / temperature
    others = np.sort(logits, axis=1)[:, :-1]
    expected = logsumexp(others, axis=1) - logsumexp(logits, axis=1)
    got = scores(f"cosine_to_class_weight(temperature={temperature})", train, train)
    np.testing.assert_allclose(got, expected, rtol=1e-7)


def test_nci_by_hand() -> None:
    train, test = made_up(relu=False), made_up(20, seed=1, relu=False)
    x, _, _, weight, _ = arrays(train)
    mean = x.mean(0)
    expected = [
        -np.dot(row - mean, weight[z.argmax()]) / math.dist(row, mean) - 0.1 * sum(map(abs, row))
        for row, z in zip(test.features.numpy(), test.logits.numpy(), strict=True)
    ]
    np.testing.assert_allclose(scores("nci(alpha=0.1)", train, test), expected)


@pytest.mark.parametrize("normalizer", ["mean", "origin"])
def test_fdbd_is_the_distance_to_the_boundary(normalizer: str) -> None:
    """Each feature, moved by the distance towards a class, is undecided: no formula is repeated."""
    train, test = made_up(), made_up(12, seed=1)
    x, _, _, weight, bias = arrays(train)
    origin = x.mean(0) if normalizer == "mean" else np.zeros(7)
    expected = []
    for row in test.features.numpy():
        logits = weight @ row + bias
        k = logits.argmax()
        steps = []
        for c in set(range(4)) - {k}:
            normal = (weight[c] - weight[k]) / np.linalg.norm(weight[c] - weight[k])
            low, high = 0.0, 1e3
            for _ in range(200):
                middle = (low + high) / 2
                moved = weight @ (row + middle * normal) + bias
                low, high = (middle, high) if moved[k] > moved[c] else (low, middle)
            steps.append(low)
        expected.append(-np.mean(steps) / np.linalg.norm(row - origin))
    got = scores(f"fdbd(normalizer={normalizer})", train, test)
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_fdbd_leaves_out_classes_without_a_boundary() -> None:
    single = made_up(classes=3)
    weight, bias = single.head.weight, single.head.bias
    doubled = Head(torch.cat([weight, weight[:1]]), torch.cat([bias, bias[:1] - 1]))
    twice = Outputs(features=single.features, head=doubled)
    guess = single.logits.argmax(1).numpy()
    same, got = scores("fdbd", single, single), scores("fdbd", twice, twice)
    np.testing.assert_allclose(got[guess == 0], same[guess == 0])
    flat = Outputs(features=single.features, head=Head(torch.ones(3, 7).double(), bias))
    assert (scores("fdbd", flat, flat) == 0).all()


def test_what_lies_at_a_percentile_is_neither_kept_nor_removed_by_chance() -> None:
    """Eleven numbers have a median among them: DICE keeps what lies above, VRA removes below."""
    numbers = torch.arange(11.0, dtype=torch.float64)
    one = torch.ones(1, 11, dtype=torch.float64)
    head = Head(numbers[None], torch.zeros(1, dtype=torch.float64))
    same = Outputs(features=one, head=head)
    assert scores("dice(percentile=50)", same, same) == -(6 + 7 + 8 + 9 + 10)
    head = Head(one, torch.zeros(1, dtype=torch.float64))
    same = Outputs(features=numbers[None], head=head)
    assert scores("vra(low=50, high=90)", same, same) == -(5 + 6 + 7 + 8 + 9 + 9)


def test_vim_weighs_the_residual_positively_though_all_logits_are_negative() -> None:
    train, test = made_up(), made_up(20, seed=1)
    low = Head(train.head.weight, train.head.bias - 100)
    below, scored = (Outputs(features=part.features, head=low) for part in (train, test))
    weight = below.logits.amax(1).mean() / scores("residual", below, below).mean()
    assert weight < 0
    energy = -scored.logits.logsumexp(1).numpy()
    expected = -float(weight) * scores("residual", below, scored) + energy
    np.testing.assert_allclose(scores("vim", below, scored), expected)


def test_a_percentile_for_which_the_sample_misleads(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.arange(2.0**21)
    values[::2] = -1  # exactly what a regular sample of every second number looks at
    monkeypatch.setattr(_arrays, "_DIRECT", 1000)
    expected = np.percentile(values.numpy(), 80)
    assert _arrays.percentile_of(values, 80) == pytest.approx(expected, rel=1e-6)


def test_fdbd_at_the_training_mean_divides_by_the_rounding_of_the_features() -> None:
    features = torch.tensor([[-4.0, 0.0], [2.0, 0.0], [2.0, 0.0]])  # the largest is negative
    head = Head(torch.tensor([[3.0, 0.0], [0.0, 4.0]]), torch.tensor([1.0, 0.0]))
    train = Outputs(features=features, head=head)
    middle = Outputs(features=torch.zeros(1, 2), head=head)
    rounding = 4 * torch.finfo(torch.float32).eps
    np.testing.assert_allclose(scores("fdbd", train, middle), -(1 / 5) / rounding)


@pytest.mark.parametrize("k", [1, 10, 50, 60])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nnguide_by_sorting_everything(
    k: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prototypes, "_TILE", 333)  # several tiles, the last not full
    monkeypatch.setattr(prototypes, "_ASKED", 7)
    monkeypatch.setattr(prototypes, "_NEIGHBORS", (2, 5))
    train, test = made_up(1000, dtype=dtype), made_up(20, seed=1, dtype=dtype)
    x, z, rows, logits = (
        part.double().numpy() for o in (train, test) for part in (o.features, o.logits)
    )
    products = cosine_similarity(rows, x) * logsumexp(z, axis=1)
    guidance = np.sort(products, axis=1)[:, -k:].mean(1)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    got = scores(f"nnguide(k={k})", train, test)
    np.testing.assert_allclose(got, -guidance * logsumexp(logits, axis=1), rtol=tolerance)


# --- densities --------------------------------------------------------------------------------


@pytest.mark.parametrize("covariance", ["full", "tied", "diagonal"])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_gaussian_mixture_is_scipys_density(covariance: str, size: float) -> None:
    train, test = made_up(200, relu=False), made_up(20, seed=1, relu=False)
    x, _, y, *_ = arrays(train)
    x, rows = size * (x + 100), size * (test.features.numpy() + 100)
    own = [np.cov(x[y == c].T, bias=True) for c in range(4)]
    terms = []
    for c in range(4):
        mean = x[y == c].mean(0)
        if covariance == "diagonal":
            density = norm(mean, x[y == c].std(0)).logpdf(rows).sum(1)
        else:
            matrix = own[c] if covariance == "full" else sum(own) / 4
            density = multivariate_normal(mean, matrix, allow_singular=True).logpdf(rows)
        terms.append(np.log(1 / 4) + density)
    fitted = Outputs(features=torch.tensor(x), labels=train.labels)
    score = DETECTORS["gaussian_mixture"].fit(fitted, covariance=covariance)
    got = score(Outputs(features=torch.tensor(rows))).numpy()
    np.testing.assert_allclose(got, -logsumexp(terms, axis=0), rtol=1e-7)


def test_gaussian_mixture_of_dead_units_and_lone_samples() -> None:
    """What cannot be resolved neither hides an outlier nor drowns everything else."""
    train = made_up(200, relu=False)
    features = train.features.clone()
    features[:, 2] = 0.0
    labels = train.labels.clone()
    labels[labels == 3] = 2
    labels[7] = 3  # a class of one sample
    train = Outputs(features=features, labels=labels)
    asked = features[:50].clone()
    lit = asked.clone()
    lit[:, 2] = 10.0
    for covariance in ("full", "tied", "diagonal"):
        score = DETECTORS["gaussian_mixture"].fit(train, covariance=covariance)
        usual, unusual = score(Outputs(features=asked)), score(Outputs(features=lit))
        assert (unusual > usual + 10).all() and usual.std() < 100


def test_gaussian_mixture_that_would_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_arrays, "BLOCK_BYTES", 40)
    with pytest.raises(UserError, match="cannot be full here: 4 covariances of width 7 take"):
        DETECTORS["gaussian_mixture"].fit(made_up())
    DETECTORS["gaussian_mixture"].fit(made_up(), covariance="tied")


@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_one_class_svm_is_sklearns(nu: float) -> None:
    train, test = made_up(200), made_up(30, seed=1)
    machine = OneClassSVM(nu=nu, tol=1e-8).fit(train.features.numpy())
    expected = machine.score_samples(test.features.numpy())
    np.testing.assert_allclose(
        np.exp(-scores(f"one_class_svm(nu={nu})", train, test)), expected, rtol=1e-4
    )
    far = Outputs(features=test.features[:5] * torch.tensor([[1e2], [1e3], [1e4], [1e5], [1e6]]))
    got = DETECTORS["one_class_svm"].fit(train)(far)
    assert (got.diff() > 0).all()  # scikit-learn's own are all 0


def test_isolation_forest_is_sklearns() -> None:
    train, test = made_up(200), made_up(30, seed=1)
    rows = np.array(sorted(train.features.tolist()))
    expected = -IsolationForest(random_state=0).fit(rows).score_samples(test.features.numpy())
    np.testing.assert_allclose(scores("isolation_forest", train, test), expected)
    assert not np.allclose(scores("isolation_forest(seed=1)", train, test), expected)


@pytest.mark.parametrize("size", [1e-12, 1e12])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_isolation_forest_does_not_depend_on_the_size_of_the_features(
    size: float, offset: float
) -> None:
    """scikit-learn sees no difference below 1e-7 and reads float32: all would be one sample."""
    train, test = made_up(200), made_up(30, seed=1)
    moved = [Outputs(features=size * (o.features + offset)) for o in (train, test)]
    expected = scores("isolation_forest", train, test)
    found = DETECTORS["isolation_forest"].fit(moved[0])(moved[1]).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    far = Outputs(features=1e300 * torch.ones(1, 7, dtype=torch.float64))
    assert DETECTORS["isolation_forest"].fit(train)(far)[0] > float(np.median(expected))


# --- subspace and shaping ---------------------------------------------------------------------


def test_residual_by_singular_values() -> None:
    train, test = made_up(), made_up(20, seed=1)
    x, _, _, weight, bias = arrays(train)
    origin = np.linalg.lstsq(weight, -bias, rcond=None)[0]
    main = np.linalg.svd(x - origin)[2][:3]
    rows = test.features.numpy() - origin
    expected = np.linalg.norm(rows - rows @ main.T @ main, axis=1)
    np.testing.assert_allclose(scores("residual", train, test), expected, rtol=1e-9)


def shaped(test: Outputs, shape: Callable[[np.ndarray], np.ndarray]) -> list[float]:
    _, _, _, weight, bias = arrays(test)
    return [energy(weight @ shape(row) + bias) for row in test.features.numpy()]


@pytest.mark.parametrize("relu", [True, False])
def test_vra_by_hand(relu: bool) -> None:
    train = made_up(relu=relu)
    low, high = np.percentile(train.features.numpy(), [60, 90])
    expected = shaped(train, lambda row: np.array([0 if v < low else min(v, high) for v in row]))
    np.testing.assert_allclose(scores("vra(low=60, high=90)", train, train), expected)
    expected = shaped(train, lambda row: np.array([min(max(v, low), high) for v in row]))
    np.testing.assert_allclose(scores("vra(low=60, high=90, below=clip)", train, train), expected)


@pytest.mark.parametrize("percentile", [0, 65, 72, 90, 99])
@pytest.mark.parametrize("relu", [True, False])
def test_scale_and_lts_by_hand(percentile: int, relu: bool) -> None:
    train = made_up(relu=relu)
    keep = max(1, 7 - round(7 * percentile / 100))
    weight, bias = train.head.weight.numpy(), train.head.bias.numpy()
    scaled, tempered = [], []
    for row in train.features.numpy():
        sizes = sorted(map(abs, row), reverse=True)
        scaled.append(energy(np.exp(sum(sizes) / sum(sizes[:keep])) * weight @ row + bias))
        positive = sorted((max(v, 0) for v in row), reverse=True)
        factor = (sum(positive) / sum(positive[:keep])) ** 2 if any(positive) else 1.0
        tempered.append(energy(factor * (weight @ row + bias)))
    np.testing.assert_allclose(scores(f"scale(percentile={percentile})", train, train), scaled)
    np.testing.assert_allclose(scores(f"lts(percentile={percentile})", train, train), tempered)


def test_line_by_hand() -> None:
    """Contributions sample by sample, as a drop of the class's logit when a unit is removed."""
    train, test = made_up(), made_up(20, seed=1)
    x, _, y, weight, bias = arrays(train)
    ceiling = np.percentile(x, 90)
    importance = np.zeros((4, 7))
    for c in range(4):
        for j in range(7):
            drops = [
                weight[c] @ row - weight[c] @ np.where(np.arange(7) == j, 0, row)
                for row in x[y == c]
            ]
            importance[c, j] = abs(np.mean(drops))
    expected = []
    for row in test.features.numpy():
        k = (weight @ row + bias).argmax()
        logits = bias.copy()
        product = importance[k] * weight
        for c in range(4):
            for j in range(7):
                unit = importance[k, j] > np.percentile(importance[k], 50)
                if unit and product[c, j] > np.percentile(product, 50):
                    logits[c] += weight[c, j] * min(row[j], ceiling)
        expected.append(energy(logits))
    np.testing.assert_allclose(scores("line(weights=50)", train, test), expected)


def test_line_with_one_mask_is_dice_after_react() -> None:
    """DICE of features that are already clipped; its masks come from the features as they were."""
    train, test = made_up(), made_up(20, seed=1)
    ceiling = float(np.percentile(train.features.numpy(), 90))
    clipped = Outputs(features=test.features.clamp(max=ceiling), head=test.head)
    np.testing.assert_allclose(
        scores("line(weights=70, masks=all)", train, test),
        scores("dice(percentile=70)", train, clipped),
    )


# --- what is shared, settings, corners ----------------------------------------------------------


@pytest.mark.parametrize("name", NEW)
def test_two_classifiers_that_score_one_data_set_do_not_mix(name: str) -> None:
    """Outputs keep what detectors computed of them: that must not depend on another fit."""
    first, second, test = made_up(), made_up(90, seed=5), made_up(20, seed=1)
    fresh = DETECTORS[name].fit(second)(made_up(20, seed=1))
    DETECTORS[name].fit(first)(test)
    assert torch.equal(DETECTORS[name].fit(second)(test), fresh)


def test_gradients_are_there_after_scoring_without() -> None:
    train = made_up()
    for name in sorted(set(NEW) - {"isolation_forest"}):
        features = made_up(6, seed=1).features.clone().requires_grad_()
        test = Outputs(features=features, head=train.head)
        fitted = DETECTORS[name].fit(train)
        with torch.no_grad():
            fitted(test)
        fitted(test).sum().backward()
        assert features.grad.isfinite().all()
        assert (features.grad.abs().sum(1) > 0).all(), name


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nci(alpha=-1)", "alpha of 'nci' must be at least 0, got -1."),
        ("nnguide(k=91)", "k of 'nnguide' must be at most 90"),
        ("cosine_to_class_weight(temperature=0)", "must be above 0, got 0."),
        ("vra(low=95, high=90)", "low of 'vra' must be at least 0 and below 90, got 95."),
        ("scale(percentile=100)", "'scale' must be at least 0 and below 100, got 100."),
        ("lts(percentile=-1)", "'lts' must be at least 0 and below 100, got -1."),
        ("line(weights=100)", "weights of 'line' must be at least 0 and below 100, got 100."),
        ("one_class_svm(nu=0)", "nu of 'one_class_svm' must be above 0 and at most 1, got 0."),
        ("isolation_forest(trees=0)", "trees of 'isolation_forest' must be at least 1, got 0."),
        ("residual(kept=7)", "kept of 'residual' must be at least 0 and below 7, got 7."),
        ("she(metric=angle)", "Unknown metric of 'she' 'angle'"),
    ],
)
def test_a_setting_out_of_range_is_named(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        scores(text, made_up(), made_up())


def corner(name: str, dtype: torch.dtype) -> Outputs:
    base = made_up(60, 12, dtype=dtype)
    head = base.head
    if name == "duplicated classes":
        head = Head(head.weight[[0, 0, 1, 1]], head.bias[[0, 0, 1, 1]])
    if name == "never predicted":
        head = Head(head.weight, head.bias - torch.tensor([0, 0, 0, 1e4], dtype=dtype))
    features = {
        "constant": torch.full_like(base.features, 0.3),
        "zero": torch.zeros_like(base.features),
        "million": base.features * 1e6,
        "millionth": base.features * 1e-6,
        "negative": -base.features,
    }.get(name, base.features)
    labels = torch.arange(60) % 4
    if name == "never right":
        labels = (features @ head.weight.T + head.bias).argmin(1)
    if name == "one sample per class":
        features, labels = features[:4], labels[:4]
    if name == "one class":
        head, labels = Head(head.weight[:1], head.bias[:1]), torch.zeros_like(labels)
    return Outputs(features=features, labels=labels, head=head)


CORNERS = (
    "constant", "zero", "million", "millionth", "negative", "never predicted", "never right",
    "duplicated classes", "one sample per class", "one class",
)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CORNERS)
def test_corners_are_finite_or_refused_in_a_sentence(name: str, dtype: torch.dtype) -> None:
    train = corner(name, dtype)
    noise = torch.tensor(np.random.default_rng(3).normal(size=train.features.shape)).to(dtype)
    for detector in NEW:
        for settings in DETECTORS[detector].settings():
            for features in (train.features, noise, noise[:0]):
                test = Outputs(features=features, head=train.head)
                try:
                    found = DETECTORS[detector].fit(train, **settings)(test)
                except UserError as problem:
                    assert "NaN" not in str(problem)
                    few = detector == "nnguide" and "must be at most" in str(problem)
                    assert few or (name == "one class" and "at least 2 classes" in str(problem))
                else:
                    assert found.shape == (len(features),)
