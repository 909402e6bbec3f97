"""Detectors of OD-test on what autoencoders answer: neighbours of codes, ranges of errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_studies import run_inside
from scipy.spatial.distance import cdist
from torch import nn

import oodometer.builtin  # noqa: F401 - importing registers them
from oodometer.detectors._acceptance import exact_range, hinge_range
from oodometer.engine.stores import FolderStore
from oodometer.needs import Need
from oodometer.outputs import Head, Outputs
from oodometer.registry import DETECTORS, choose, find
from oodometer.study import parse_study


def answered(features: np.ndarray, answers: np.ndarray, model: str) -> Outputs:
    """Outputs with these features, and these answers of a model."""
    values = torch.from_numpy(features)
    head = Head(torch.eye(2, values.shape[1]).double(), torch.zeros(2).double())
    labels = torch.zeros(len(values), dtype=torch.int64)
    outputs = Outputs(features=values, labels=labels, head=head)
    return replace(outputs, answers={Need("model", model): torch.from_numpy(answers)})


def accuracy(inside: np.ndarray, outside: np.ndarray, center: float, limit: float) -> float:
    accepted = [((part - center) ** 2 <= limit).mean() for part in (inside, outside)]
    return float(accepted[0] + 1 - accepted[1]) / 2


@pytest.mark.parametrize("seed", range(40))
def test_the_exact_range_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    inside = rng.integers(0, 9, rng.integers(2, 9)) / 3.0
    outside = rng.integers(0, 9, rng.integers(2, 9)) / 3.0
    edges = np.arange(-1, 10) / 3.0 + 1 / 6  # between all possible errors
    best = max(
        ((inside > low) & (inside < high)).mean() + 1 - ((outside > low) & (outside < high)).mean()
        for low in edges
        for high in edges
        if low <= high
    )
    center, limit = exact_range(np.sort(inside), np.sort(outside))
    assert accuracy(inside, outside, center, limit) == pytest.approx(best / 2)


def test_a_range_with_the_lowest_errors_has_no_lower_edge():
    assert exact_range(np.array([0.1, 0.2]), np.array([0.4, 0.9])) == pytest.approx((0.0, 0.09))


def test_low_errors_are_rejected_where_outliers_are_easy():
    center, limit = exact_range(np.array([0.5, 0.7]), np.array([0.0, 0.1]))
    assert (center, limit) == pytest.approx((0.7, 0.16))
    assert center - limit**0.5 == pytest.approx(0.3)  # the middle of 0.1 and 0.5


@pytest.mark.parametrize("seed", range(3))
def test_the_published_fit_is_that_of_pytorchs_optimizer(seed):
    rng = np.random.default_rng(seed)
    inside = np.sort(rng.gamma(4.0, 0.1, 300))
    outside = np.sort(np.concatenate([rng.gamma(4.0, 0.3, 200), rng.gamma(1.0, 0.05, 50)]))
    scores, signs = np.append(inside, outside), np.repeat([-1.0, 1.0], [300, 250])
    draws = np.random.default_rng(0)
    fitted = draws.random(550) < 0.8
    e, y = torch.from_numpy(scores), torch.from_numpy(signs)
    center, limit = nn.Parameter(torch.zeros(()).double()), nn.Parameter(torch.tensor(0.5).double())
    optimizer = torch.optim.Adagrad([center, limit], 0.1)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.1, patience=10, threshold=0.1, min_lr=1e-8
    )
    best, kept = -1.0, (0.0, 0.0)
    for _ in range(100):
        order = draws.permutation(int(fitted.sum()))
        margin = y[fitted][order] * ((e[fitted][order] - center) ** 2 - limit)
        loss = (-margin).clamp(min=0).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step(loss.item())
        reject = (e[~fitted] - center.detach()) ** 2 > limit.detach()
        right = (reject == (y[~fitted] > 0)).double().mean().item()
        if right > best:
            best, kept = right, (center.item(), limit.item())
    assert hinge_range(inside, outside) == pytest.approx(kept, abs=1e-9)


def parts(model: str, columns: int) -> list[Outputs]:
    """Training, validation, validation outliers and test; errors first, then codes."""
    rng = np.random.default_rng(1)
    made = []
    for rows, error, shift in ((50, 0.1, 0.0), (40, 0.2, 0.0), (30, 0.6, 1.0), (20, 0.4, 0.5)):
        answers = rng.normal(shift, 1.0, (rows, columns))
        answers[:, 0] = rng.gamma(4.0, error / 4, rows)
        made.append(answered(rng.normal(size=(rows, 3)), answers, model))
    return made


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("loss", ["mse", "bce"])
def test_scores_are_distances_from_the_learned_center(published, loss):
    model = f"autoencoder_{loss}"
    train, inside, outside, test = parts(model, 4)
    errors = [part.answers[Need("model", model)][:, 0].double() for part in (inside, outside, test)]
    fit = hinge_range if published else exact_range
    center, limit = fit(*(np.sort(part.numpy()) for part in errors[:2]))
    fitted = find("autoencoder_threshold").fit(
        train, validation=(inside, outside), loss=loss, published=published
    )
    torch.testing.assert_close(fitted(test), (errors[2] - center) ** 2 - limit)


@pytest.mark.parametrize(
    ("codes", "model"),
    [
        ("mse", "autoencoder_mse"),
        ("bce", "autoencoder_bce"),
        ("vae", "variational_autoencoder"),
    ],
)
@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_neighbours_of_codes_are_those_of_features(codes, model, k):
    """The codes as features of a classifier: knn_svm, which has tests of its own, agrees."""
    own = parts(model, 4)
    as_features = []
    for part in own:
        code = part.answers[Need("model", model)][:, 1:].double()
        as_features.append(
            Outputs(
                features=code,
                labels=part.labels,
                head=Head(torch.eye(2, 3).double(), torch.zeros(2).double()),
            )
        )
    ours = find("knn_svm_codes").fit(own[0], validation=(own[1], own[2]), k=k, codes=codes)
    theirs = find("knn_svm").fit(as_features[0], validation=tuple(as_features[1:3]), k=k)
    np.testing.assert_allclose(ours(own[3]), theirs(as_features[3]), rtol=2e-4, atol=2e-4)


def test_one_neighbour_orders_samples_by_their_distance_to_the_training_codes():
    train, inside, outside, test = parts("autoencoder_mse", 4)
    fitted = find("knn_svm_codes").fit(train, validation=(inside, outside), k=1)
    codes = [
        part.answers[Need("model", "autoencoder_mse")][:, 1:].numpy() for part in (train, test)
    ]
    nearest = cdist(codes[1], codes[0]).min(1)
    assert np.array_equal(np.argsort(fitted(test).numpy()), np.argsort(nearest))


def test_each_variant_needs_its_own_model_only():
    card = find("reconstruction_error")
    needed = {
        (loss, kind): {need.name for need in card.needed({"loss": loss, "architecture": kind})}
        for loss in ("mse", "bce")
        for kind in ("od_test", "evg")
    }
    assert needed == {
        ("mse", "od_test"): {"autoencoder_mse"},
        ("bce", "od_test"): {"autoencoder_bce"},
        ("mse", "evg"): {"autoencoder_evg_mse"},
        ("bce", "evg"): {"autoencoder_evg_bce"},
    }
    # Naming a detector trains its default only; the others are trained by name.
    assert list(card.settings()) == [{"loss": "mse", "architecture": "od_test"}]
    assert find("knn_svm_codes").complete({"codes": "vae"})["codes"] == "vae"


# --- in studies -----------------------------------------------------------------------------------


def test_one_autoencoder_serves_all_runs_and_all_detectors_of_a_study(tmp_path):
    content = {
        "name": "codes",
        "base": {
            "data": "digits", "network": "mlp", "width": 4, "epochs": 1, "train_size": 150,
            "test_size": 80, "model_size": "tiny",
        },
        "factors": [{"field": "seed", "levels": [0, 1]}],
        "detectors": ["reconstruction_error", "knn_svm_codes(k=2)", "autoencoder_threshold"],
        "ood": ["uniform_noise", "inverted"],
        "protocols": ["od_test"],
        "keep_unlearned": True,
    }  # fmt: skip
    study = parse_study(content, "study")
    store = FolderStore(tmp_path)
    (finding,) = run_inside(study, store).findings
    assert len(list(store.keys("models"))) == 2 + 1  # of the classifiers, and of the autoencoder
    assert not finding.missing
    methods = {row[0] for row in finding.tables[0].rows}
    assert methods == {"reconstruction_error", "knn_svm_codes(k=2)", "autoencoder_threshold"}


METHODS = {  # of OD-test, and what they are here, in a study with the protocol od_test
    "PbThreshold": "max_softmax",
    "ScoreSVM": "score_svm",
    "LogisticSVM": "logistic_svm",
    "ODIN": "odin_fine",
    "K-NNSVM": "knn_svm(space=pixels)",
    "K-BNNSVM": "knn_svm_codes(codes=bce)",
    "K-MNNSVM": "knn_svm_codes(codes=mse)",
    "K-VNNSVM": "knn_svm_codes(codes=vae)",
    "AEThreshold": "autoencoder_threshold",
    "MC-Dropout": "mc_dropout",
    "DeepEnsemble": "adversarial_ensemble(variant=od_test)",
    "PixelCNN++": "pixelcnn",
    "OpenMax": "openmax",
    "BinClass": "binary_network",
}


def test_the_14_methods_of_the_paper_exist_and_the_docs_name_them():
    assert len(METHODS) == 14
    page = (Path(__file__).parents[1] / "docs" / "od-test.md").read_text(encoding="utf-8")
    for method, text in METHODS.items():
        assert choose(text).detector.name in DETECTORS
        assert f"| {method} |" in page and f"`{text}`" in page
