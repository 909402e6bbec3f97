"""Witnesses for the detectors that fit something to the logits: SciPy, another library, loops."""

from __future__ import annotations

import decimal
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import scipy
import torch
from detector_data import scores

import oodometer.builtin  # noqa: F401 - registers them
from oodometer.errors import UserError
from oodometer.outputs import Head, Outputs
from oodometer.registry import DETECTORS

MADE = json.loads(Path(__file__).parent.joinpath("oracles/pytorch_ood.json").read_text("utf-8"))


def noisy(rows: int = 300, classes: int = 4, seed: int = 0, size: float = 3.0) -> Outputs:
    """Logits of a network that is right most of the time."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    logits = rng.normal(size=(rows, classes)) * size
    logits[np.arange(rows), labels] += 1.5 * size
    return Outputs(logits=torch.tensor(logits), labels=torch.tensor(labels))


# --- temperature_scaling ----------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-3, 1.0, 40.0, 1e6])
def test_the_temperature_is_scipys_minimum(size: float) -> None:
    train = noisy(size=size)
    logits, labels = train.logits.numpy(), train.labels.numpy()

    def loss(log_temperature: float) -> float:
        log_p = scipy.special.log_softmax(logits / np.exp(log_temperature), axis=1)
        return -log_p[np.arange(len(labels)), labels].mean()

    around = np.log(size)
    best = scipy.optimize.minimize_scalar(loss, bracket=(around - 1, around + 1), tol=1e-12)
    expected = scores(
        f"odin_without_perturbation(temperature={float(np.exp(best.x))!r})", train, train
    )
    np.testing.assert_allclose(scores("temperature_scaling", train, train), expected, rtol=1e-6)


@pytest.mark.parametrize("case", ["no errors", "only errors", "constant"])
def test_a_temperature_without_minimum_is_bounded(case: str) -> None:
    train = noisy()
    labels = {"no errors": train.logits.argmax(1), "only errors": train.logits.argmin(1)}
    logits = torch.ones_like(train.logits) if case == "constant" else train.logits
    train = Outputs(logits=logits, labels=labels.get(case, train.labels))
    got = scores("temperature_scaling", train, train)
    spread = float((logits - logits.mean(1, keepdim=True)).square().mean().sqrt()) or 100.0
    bound = {"no errors": spread / 100, "only errors": spread * 100, "constant": 1.0}[case]
    expected = scores(f"odin_without_perturbation(temperature={bound!r})", train, train)
    np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_unlabelled_samples_do_not_set_the_temperature() -> None:
    train = noisy()
    wild = Outputs(
        logits=torch.cat([train.logits, 1e3 * train.logits[:50]]),
        labels=torch.cat([train.labels, torch.full((50,), -1)]),
    )
    np.testing.assert_allclose(
        scores("temperature_scaling", wild, train), scores("temperature_scaling", train, train)
    )


# --- standardized_max_logit, weighted_energy ---------------------------------------------------


def test_standardized_max_logit_by_hand_with_its_corners() -> None:
    """Class 3 is never predicted, class 2 once: both have no spread of their own."""
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(40, 4)) * [1, 1, 0.1, 0.1] + [2, 2, 0, -9]
    logits[7] = [0, 0, 5, 0]
    train = Outputs(logits=torch.tensor(logits))
    guess, top = logits.argmax(1), logits.max(1)
    assert list(np.bincount(guess, minlength=4)[2:]) == [1, 0]
    inside = np.concatenate([top[guess == c] - top[guess == c].mean() for c in (0, 1, 2)])
    usual = {c: (top[guess == c].mean(), top[guess == c].std()) for c in (0, 1)}
    usual[2] = (5.0, np.sqrt(np.mean(inside**2)))
    usual[3] = (top.mean(), top.std())
    asked = rng.normal(size=(30, 4)) * 3
    expected = [-(z.max() - usual[z.argmax()][0]) / usual[z.argmax()][1] for z in asked]
    got = scores("standardized_max_logit", train, Outputs(logits=torch.tensor(asked)))
    np.testing.assert_allclose(got, expected)


def test_one_huge_logit_does_not_spoil_the_other_classes() -> None:
    """Predicted as class 2, it can change what is usual for class 2 alone, in float32 too."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(300, 3, generator=generator, dtype=torch.float64)
    spoiled = logits.clone()
    spoiled[int(logits.argmax(1).eq(2).nonzero()[0]), 2] = 1e7
    others = logits[logits.argmax(1) != 2]
    for dtype in (torch.float32, torch.float64):
        plain, found = (
            DETECTORS["standardized_max_logit"].fit(Outputs(logits=train.to(dtype)))(
                Outputs(logits=others.to(dtype))
            )
            for train in (logits, spoiled)
        )
        torch.testing.assert_close(found, plain)


def test_weighted_energy_is_pytorch_oods() -> None:
    """Two of 130 training samples are of class 0."""
    arrays = {name: torch.tensor(np.array(value)) for name, value in MADE["arrays"].items()}
    head = Head(arrays["weight"], arrays["bias"])
    kept = (arrays["labels"] != 0) | (torch.arange(len(arrays["labels"])) < 10)
    train = Outputs(features=arrays["train"][kept], labels=arrays["labels"][kept], head=head)
    test = Outputs(features=arrays["test"], head=head)
    theirs = MADE["others"]["weighted_energy: class 0 is rare"]
    np.testing.assert_allclose(scores("weighted_energy", train, test), theirs, rtol=1e-8)
    assert not np.allclose(theirs, scores("energy", train, test), rtol=1e-2)


def test_weighted_energy_by_hand_with_an_absent_class() -> None:
    train = Outputs(
        logits=2 * torch.eye(4).double().repeat(3, 1),
        labels=torch.tensor([0, 1, 0, 1] * 2 + [0, 3, -1, -1]),
    )  # 5, 4, 0 and 1 samples, two without a class
    weight = 10 / 4 / np.array([5, 4, 1, 1])
    asked = np.random.default_rng(0).normal(size=(9, 4))
    test = Outputs(logits=torch.tensor(asked))
    expected = -np.log((weight * np.exp(asked)).sum(1))
    np.testing.assert_allclose(scores("weighted_energy", train, test), expected)
    expected = -np.log((np.exp(asked) / weight).sum(1))
    np.testing.assert_allclose(scores("weighted_energy(weights=frequency)", train, test), expected)


# --- openmax ----------------------------------------------------------------------------------


@np.errstate(over="ignore")
def openmax_by_hand(
    train: Outputs,
    test: Outputs,
    alpha: int,
    tail: int,
    combined: bool,
    ascending: bool,
    shift: int = 1,
) -> list[float]:
    """Log-odds of "unknown", sample by sample, with SciPy's distances and Weibull distribution."""
    logits, labels = train.logits.numpy(), train.labels.numpy()
    classes = logits.shape[1]

    def distance(a: np.ndarray, b: np.ndarray) -> float:
        straight = scipy.spatial.distance.euclidean(a, b)
        return straight / 200 + scipy.spatial.distance.cosine(a, b) if combined else straight

    models = {}
    for c in range(classes):
        members = logits[(labels == c) & (logits.argmax(1) == c)]
        members = members if len(members) else logits[labels == c]
        if not len(members):
            continue
        mean = members.mean(0)
        largest = np.sort([distance(row, mean) for row in members])[-tail:]
        moved = largest - largest.min() + shift
        # SciPy's own search ends far from the optimum if it starts far away.
        start = 1.2 * moved.mean() / moved.std()
        shape, _, scale = scipy.stats.weibull_min.fit(moved, start, floc=0, scale=moved.mean())
        models[c] = mean, largest.min(), scipy.stats.weibull_min(shape, 0, scale)
    found = []
    for z in test.logits.numpy():
        order = np.argsort(z, kind="stable")
        order = order if ascending else order[::-1]
        doubt = np.zeros(classes)
        for rank, c in enumerate(order[:alpha]):
            extreme = 1.0
            if c in models:
                mean, least, model = models[c]
                extreme = model.cdf(distance(z, mean) - least + shift)
            doubt[c] = (1 - rank / min(alpha, classes)) * extreme
        found.append((z * doubt).sum() - scipy.special.logsumexp(z * (1 - doubt)))
    return found


@pytest.mark.parametrize(
    ("text", "alpha", "tail", "combined", "ascending", "shift"),
    [
        ("openmax", 3, 20, False, False, 1),
        ("openmax(alpha=10, tail=8)", 10, 8, False, False, 1),
        ("openmax(distance=combined)", 3, 20, True, False, 1),
        ("openmax(ranking=ascending, alpha=2)", 2, 20, False, True, 1),
        ("openmax(shift=10000)", 3, 20, False, False, 10_000),
    ],
)
def test_openmax_by_hand(
    text: str, alpha: int, tail: int, combined: bool, ascending: bool, shift: int
) -> None:
    train, test = noisy(classes=5), noisy(20, classes=5, seed=1)
    expected = openmax_by_hand(train, test, alpha, tail, combined, ascending, shift)
    np.testing.assert_allclose(scores(text, train, test), expected, atol=2e-4)


# Twenty distances, and what libMR 0.1.9 (the authors' library, its default shift) says of others.
LIBMR_TAIL = (
    5.7952, 5.816, 5.8921, 6.2332, 6.5736, 6.5814, 6.648, 6.7913, 6.8084, 6.9899, 7.0275, 7.0305,
    7.0693, 7.0868, 7.6335, 8.141, 8.4381, 9.7631, 11.7191, 12.8532,
)  # fmt: skip
LIBMR = {
    4.2952: 0.0,
    5.2952: 0.04640453806551681,
    5.7952: 0.14005024944060085,
    6.9899: 0.42842147702414934,
    7.8976: 0.6306505533556268,
    12.8532: 0.9924743555726294,
    14.8532: 0.9991544556190057,
}


def test_openmax_doubts_as_libmr() -> None:
    """Two classes far apart, the first with these distances to its mean, on a line through it."""
    offsets = [0.0] * 20 + [sign * d for d in LIBMR_TAIL for sign in (1, -1)]
    mean = 1000.0
    line = torch.tensor(offsets).double()
    # Half of the tail lies on either side, so that the mean of the class is where it should be.
    train = Outputs(
        logits=torch.stack(
            [
                torch.cat([mean + line, torch.zeros(3).double()]),
                torch.cat([0 * line, torch.full((3,), mean).double()]),
            ],
            dim=1,
        ),
        labels=torch.tensor([0] * len(offsets) + [1] * 3),
    )
    asked = torch.tensor([[mean - d, 0.0] for d in LIBMR]).double()
    # With alpha = 1 only the largest logit is doubted: z_0 F_0 against log(e^(z_0 (1 - F_0)) + 1).
    found = scores("openmax(alpha=1, tail=40)", train, Outputs(logits=asked))
    top = asked[:, 0].numpy()
    expected = [
        z * f - np.logaddexp(z * (1 - f), 0.0) for z, f in zip(top, LIBMR.values(), strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_openmax_without_correct_or_without_any_sample() -> None:
    train, test = noisy(classes=4), noisy(20, classes=5, seed=1)
    labels = train.labels.clone()
    labels[(labels == 1) & (train.logits.argmax(1) == 1)] = 0  # class 1: labelled, never right
    logits = torch.cat([train.logits, torch.full((300, 1), -3.0).double()], dim=1)
    train = Outputs(logits=logits, labels=labels)  # class 4: never labelled
    assert {1, 4} <= set(test.logits.argmax(1).tolist())
    expected = openmax_by_hand(train, test, 3, 20, combined=False, ascending=False)
    np.testing.assert_allclose(scores("openmax", train, test), expected, atol=2e-4)


def test_a_sample_far_from_everything_is_unknown() -> None:
    """Ranked rightly, the top class is doubted most; the published mistake believes it."""
    train = noisy(classes=12)
    far = Outputs(logits=torch.tensor([[90.0] + [60.0] * 11]).double())
    assert scores("openmax(alpha=10)", train, far)[0] > 50
    mistaken = scores("openmax(alpha=10, ranking=ascending)", train, far)[0]
    assert mistaken != pytest.approx(scores("openmax(alpha=10)", train, far)[0])


# --- pnml: the regret in 200 digits -------------------------------------------------------------


def exact_regret(logits: list[float], lever: float) -> float:
    with decimal.localcontext() as context:
        context.prec, context.Emin, context.Emax = 200, -(10**8), 10**8
        powers = [Decimal(z).exp() for z in logits]
        share = Decimal(lever) / (1 + Decimal(lever))
        total = Decimal(0)
        for power in powers:
            p = power / sum(powers)
            total += p / (p + (1 - p) * p**share)
        return float((total.ln() / Decimal(len(logits)).ln()).ln())


def test_pnml_is_exact_where_probabilities_saturate() -> None:
    features = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [2, 0, 0], [0, 3, 0], [0, 0, 1e-3]])
    train_features = torch.tensor(features)
    weight = torch.tensor([[300.0, 1, 0], [0, 1, 0.5], [1, -40, 0.2], [0, 0, 0]]).double()
    head = Head(weight, torch.tensor([0.1, 0.0, -0.2, 0.3]).double())
    train = Outputs(features=train_features, head=head)
    asked = torch.tensor([[2.0, 0.1, 0], [0, 5, 1], [0, 0.1, 0.1], [1, 1, 1], [9.0, 0, 0.001]])
    test = Outputs(features=asked.double(), head=head)
    inverse = np.linalg.inv(features.T @ features)
    expected = [
        exact_regret(z.tolist(), float(x @ inverse @ x))
        for x, z in zip(test.features.numpy(), test.logits.numpy(), strict=True)
    ]
    np.testing.assert_allclose(scores("pnml(normalize=False)", train, test), expected, rtol=1e-9)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    inverse = np.linalg.inv(unit.T @ unit)
    rows = test.features / test.features.norm(dim=1, keepdim=True)
    expected = [
        exact_regret(head(x).tolist(), float(x.numpy() @ inverse @ x.numpy())) for x in rows
    ]
    np.testing.assert_allclose(scores("pnml", train, test), expected, rtol=1e-9)


def test_pnml_regrets_most_where_no_training_sample_was() -> None:
    train = Outputs(
        features=torch.eye(3, 4).double().repeat(5, 1),
        head=Head(torch.ones(2, 4).double(), torch.zeros(2).double()),
    )
    test = Outputs(features=torch.eye(4).double(), head=train.head)
    got = scores("pnml", train, test)
    assert got[3] == pytest.approx(np.log(np.log(2 * 0.5 / (0.5 + 0.25)) / np.log(2)), rel=1e-6)
    assert (got[:3] < got[3]).all()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("temperature_scaling(steps=-1)", "steps of 'temperature_scaling' must be at least 0"),
        ("openmax(alpha=0)", "alpha of 'openmax' must be at least 1, got 0."),
        ("openmax(tail=0)", "tail of 'openmax' must be at least 1, got 0."),
        ("openmax(distance=cosine)", "Unknown distance of 'openmax' 'cosine'"),
        ("weighted_energy(weights=equal)", "Unknown weights of 'weighted_energy' 'equal'"),
    ],
)
def test_a_setting_out_of_range_is_named(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        scores(text, noisy(), noisy())


@pytest.mark.parametrize("name", ["temperature_scaling", "openmax", "weighted_energy"])
def test_labels_are_asked_for(name: str) -> None:
    train = Outputs(logits=noisy().logits, labels=torch.full((300,), -1))
    with pytest.raises(UserError, match=f"'{name}' needs training samples with a class"):
        DETECTORS[name].fit(train)
