"""Detectors that learn from validation outliers: their objectives, their halves, their corners."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import oodometer as om
import oodometer.detectors
from oodometer.errors import UserError
from oodometer.outputs import Head, Outputs, View
from oodometer.protocols.od_test.protocol import od_test
from oodometer.protocols.ranking.protocol import ranking
from oodometer.registry import DETECTORS, Detector, find
from oodometer.scores import validation_half

LEARNED = [  # from outputs; what networks learn is tested in test_binary.py
    name
    for name, card in DETECTORS.items()
    if card.learns_from_outliers and not any(need.source == "model" for need in card.needs)
]
CLASSES, WIDTH = 3, 5


def outputs(rows: int, seed: int, shift: float = 0.0) -> Outputs:
    """Features around one point per class, moved by `shift`."""
    rng = np.random.default_rng(seed)
    fixed = np.random.default_rng(0)
    centres, weight = fixed.normal(size=(CLASSES, WIDTH)), fixed.normal(size=(CLASSES, WIDTH))
    labels = np.arange(rows) % CLASSES
    features = centres[labels] + rng.normal(size=(rows, WIDTH)) + shift
    head = Head(torch.from_numpy(weight), torch.zeros(CLASSES, dtype=torch.float64))
    values = torch.from_numpy(features)
    return Outputs(
        features=values, labels=torch.from_numpy(labels), head=head, layers={"last": values}
    )


TRAIN, INLIERS, OUTLIERS, TEST = (
    outputs(60, 1),
    outputs(30, 2),
    outputs(20, 3, 0.8),
    outputs(25, 4, 0.4),
)


def decisions(name: str, **settings: object) -> np.ndarray:
    fitted = find(name).fit(TRAIN, validation=(INLIERS, OUTLIERS), **settings)
    return fitted(TEST).numpy()


def standardised(*parts: np.ndarray) -> list[np.ndarray]:
    learned_from = np.concatenate(parts[:2])
    return [(part - learned_from.mean(0)) / learned_from.std(0) for part in parts]


def weights(inliers: np.ndarray, outliers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Signs and weights: both sides count alike."""
    sizes = np.array([len(inliers), len(outliers)])
    return np.repeat([-1.0, 1.0], sizes), np.repeat(sizes.sum() / 2 / sizes, sizes)


def best_hinge(inliers: np.ndarray, outliers: np.ndarray) -> np.ndarray:
    """Minimise the machine's objective as a quadratic program, by another solver."""
    values = np.concatenate([inliers, outliers])
    sign, weight = weights(inliers, outliers)
    width = values.shape[1]

    def objective(x: np.ndarray) -> float:
        return float(x[: width + 1] @ x[: width + 1] / 2 + weight @ x[width + 1 :])

    def slope(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x[: width + 1], weight])

    # Slack above 0 and above 1 - y (w z + b): the hinge without its corner.
    lines = np.hstack([sign[:, None] * values, sign[:, None], np.eye(len(values))])
    found = minimize(
        objective,
        np.concatenate([np.zeros(width + 1), np.full(len(values), 1.0)]),
        jac=slope,
        method="SLSQP",
        bounds=[(None, None)] * (width + 1) + [(0, None)] * len(values),
        constraints={"type": "ineq", "fun": lambda x: lines @ x - 1, "jac": lambda x: lines},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found.success
    return found.x[: width + 1]


@pytest.mark.parametrize("name", ["score_svm", "logistic_svm"])
def test_the_machine_on_logits_minimises_what_it_says(name):
    inliers, outliers, test = standardised(*(p.logits.numpy() for p in (INLIERS, OUTLIERS, TEST)))
    *slope, offset = best_hinge(inliers, outliers)
    np.testing.assert_allclose(decisions(name), test @ slope + offset, atol=2e-4)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_machine_on_distances_minimises_what_it_says(k):
    bank = TRAIN.features.numpy()
    distances = [
        np.sort(np.linalg.norm(part.features.numpy()[:, None] - bank, axis=2), axis=1)[:, :k]
        for part in (INLIERS, OUTLIERS, TEST)
    ]
    inliers, outliers, test = standardised(*distances)
    *slope, offset = best_hinge(inliers, outliers)
    np.testing.assert_allclose(decisions("knn_svm", k=k), test @ slope + offset, atol=2e-4)


def test_the_classifier_minimises_what_it_says():
    parts = (INLIERS, OUTLIERS, TEST)
    inliers, outliers, test = standardised(*(part.features.numpy() for part in parts))
    values = np.concatenate([inliers, outliers])
    sign, weight = weights(inliers, outliers)

    def objective(x: np.ndarray) -> float:
        margin = sign * (values @ x[:-1] + x[-1])
        return float(x[:-1] @ x[:-1] / 2 + weight @ np.logaddexp(0, -margin))

    found = minimize(objective, np.zeros(WIDTH + 1), method="BFGS", options={"gtol": 1e-8}).x
    np.testing.assert_allclose(
        decisions("binary_classifier"), test @ found[:-1] + found[-1], atol=1e-4
    )


@pytest.mark.parametrize("name", LEARNED)
def test_order_and_size_of_the_sides_do_not_matter(name):
    expected = decisions(name)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))
    fitted = find(name).fit(TRAIN, validation=(INLIERS.take(order), OUTLIERS))
    np.testing.assert_allclose(fitted(TEST).numpy(), expected, atol=1e-9)
    # Outliers twice: the sides are weighted alike, so only the penalty weighs less.
    twice = OUTLIERS.take(torch.arange(40) % 20)
    more = find(name).fit(TRAIN, validation=(INLIERS, twice))(TEST).numpy()
    assert np.corrcoef(more, expected)[0, 1] > 0.99


@pytest.mark.parametrize("name", LEARNED)
def test_sides_that_a_plane_separates(name):
    far = outputs(20, 3, 50.0)
    fitted = find(name).fit(TRAIN, validation=(INLIERS, far))
    assert fitted(far).min() > fitted(INLIERS).max()


@pytest.mark.parametrize("name", LEARNED)
def test_constant_features_are_no_problem(name):
    def flat(part: Outputs) -> Outputs:
        features = part.features.clone()
        features[:, 1:] = 0.1
        return Outputs(
            features=features, labels=part.labels, head=part.head, layers={"last": features}
        )

    fitted = find(name).fit(flat(TRAIN), validation=(flat(INLIERS), flat(OUTLIERS)))
    assert fitted(flat(TEST)).isfinite().all()
    same = INLIERS.take(torch.zeros(9, dtype=torch.int64))  # nothing tells the sides apart
    scores = find(name).fit(TRAIN, validation=(same, same))(TEST)
    assert scores.isfinite().all()


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_samples_are_refused_in_one_sentence(name, rows):
    few = OUTLIERS.take(torch.arange(rows))
    sentence = f"needs 2 samples of each side, got 30 in-distribution and {rows} outliers."
    with pytest.raises(UserError, match=sentence):
        find(name).fit(TRAIN, validation=(INLIERS, few))
    with pytest.raises(UserError, match="needs validation outliers to learn from"):
        find(name).fit(TRAIN)


def test_labels_of_validation_data_are_not_shown():
    def peeking(train: View) -> object:
        return train.validation[0].labels

    card = Detector("peeking", peeking, "x", {"labels", "outliers"}, {})
    with pytest.raises(UserError, match="labels are shown for fitting only"):
        card.fit(TRAIN, validation=(INLIERS, OUTLIERS))


def sets() -> dict[str, Outputs]:
    return {
        "train": TRAIN,
        "test": outputs(81, 5),
        "near": outputs(40, 6, 0.7),
        "far": outputs(30, 7, 2.0),
    }


def test_scores_come_from_the_validation_halves_only():
    data = sets()
    table = om.score(data, ["score_svm", "knn_svm", "energy"], grid=True)
    rows = [row for row in table.rows if row.detector == "score_svm"]
    assert {row.setting for row in rows} == {"outliers=near", "outliers=far"}
    assert not any(row.default for row in rows) and len(rows) == 6
    ks = {row.setting for row in table.rows if row.detector == "knn_svm"}
    assert ks == {
        f"outliers={v}, k={k}, space=features" for v in ("near", "far") for k in (1, 2, 4, 8)
    }
    (lacking,) = table.missing  # said once for all k and all outliers
    assert lacking.setting == "space=pixels"
    assert "needs the probe 'pixel_neighbors', which these outputs lack" in lacking.reason
    # Whatever is in the test halves changes no score of the others.
    test = ~validation_half(40)
    changed = data["near"].features.clone()
    changed[torch.from_numpy(test)] += 100.0
    near = Outputs(features=changed, labels=data["near"].labels, head=data["near"].head)
    again = om.score(data | {"near": near}, ["score_svm"])
    for before, after in zip(rows, again.rows, strict=True):
        kept = slice(None) if before.dataset != "near" else ~test
        np.testing.assert_array_equal(before.scores[kept], after.scores[kept])


def test_they_take_no_part_in_rankings_but_in_od_test():
    names = ["max_softmax", "energy", "score_svm", "knn_svm(k=4, space=features)"]
    table = om.score(sets(), names, grid=True)
    assert set(table.summary()["detector"]) == {"max_softmax", "energy"}
    finding = ranking(table, np.random.default_rng(0))
    assert dict(finding.facts)["detectors"] == "2"
    assert not finding.missing
    (said,) = [text for text in finding.caveats if "svm" in text]
    assert said.startswith("Left out, because they were fitted on outliers of these sets: ")
    seen = od_test(table, np.random.default_rng(0))
    assert "score_svm" in str(seen.tables) and "knn_svm" in str(seen.tables)


@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_pixels_are_as_good_as_features_that_are_pixels(k):
    """A network that does nothing before its head: both spaces are one."""
    model = torch.nn.Linear(WIDTH, CLASSES).double()  # whose weights do not matter
    data = {name: part.features for name, part in sets().items()}
    made = om.extract(model, data, needs=["probe:pixel_neighbors"])
    table = om.score(made, [f"knn_svm(k={k})", f"knn_svm(k={k}, space=pixels)"])
    assert not table.missing
    rows = {(row.detector, row.setting, row.dataset): row.scores for row in table.rows}
    pixels = {key: scores for key, scores in rows.items() if "space=pixels" in key[0]}
    assert len(pixels) == 6
    for (name, setting, dataset), scores in pixels.items():
        twin = "knn_svm" if k == 8 else f"knn_svm(k={k})"
        same = rows[twin, setting.replace("pixels", "features"), dataset]
        np.testing.assert_allclose(scores, same, rtol=1e-6, atol=1e-9, err_msg=name)


def test_the_default_number_of_neighbours_shrinks_to_the_training_set():
    few = sets() | {"train": outputs(5, 1)}
    table = om.score(few, ["knn_svm"])
    assert not table.missing
    five = {row.dataset: row.scores for row in om.score(few, ["knn_svm(k=5)"]).rows}
    for row in table.rows[-3:]:
        np.testing.assert_array_equal(row.scores, five[row.dataset])
    with pytest.raises(UserError, match="k of 'knn_svm' must be at most 5, .* got 6"):
        find("knn_svm").fit(few["train"], validation=(INLIERS, OUTLIERS), k=6)


def test_an_outlier_set_that_is_too_small_costs_only_itself():
    tiny = sets() | {"tiny": outputs(3, 8, 1.0)}
    table = om.score(tiny, ["score_svm"])
    assert {row.setting for row in table.rows} == {"outliers=near", "outliers=far"}
    (part,) = table.missing
    assert (
        part.setting == "outliers=tiny" and "got 40 in-distribution and 1 outliers" in part.reason
    )
    only = {name: part for name, part in tiny.items() if name not in ("near", "far")}
    with pytest.raises(UserError, match=r"No detector could be used. detector score_svm: Learning"):
        om.score(only, ["score_svm"])
