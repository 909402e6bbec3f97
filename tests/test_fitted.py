"""Detectors trained on images without a study: fit, score, save, load, evaluate."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from test_detector_model_cards import CODE
from typer.testing import CliRunner

import oodometer as om
from oodometer.cli import app
from oodometer.errors import UserError
from oodometer.fitted import models
from oodometer.lab.detector_models import MODELS

NAME = "exposed.py:outlier_aware"


def bright(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(128, 255, (count, 1, 4, 4), np.uint8)


def dark(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 128, (count, 1, 4, 4), np.uint8)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("exposed.py").write_text(CODE)
    return tmp_path


def fit(**changes: object) -> om.FittedDetector:
    given = {"auxiliary": dark(90, 1), "size": "tiny"} | changes
    return om.fit_detector(NAME, bright(60, 0), **given)


def test_fitted_saved_and_loaded_it_gives_the_same_scores(folder):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    fitted = fit()
    inside, outside = fitted.score(bright(30, 2)), fitted.score(dark(30, 3))
    assert om.metrics.auroc(inside, outside) > 0.9
    assert len(fitted.curve["train_loss"]) == 6 and fitted.seconds > 0
    assert np.array_equal(fit().score(dark(30, 3)), outside)
    assert not np.array_equal(fit(seed=1).score(dark(30, 3)), outside)
    assert torch.equal(torch.get_rng_state(), before)
    # Floats of the same pixels, one by one, and without the channel.
    floats = torch.from_numpy(dark(30, 3)[:, 0] / np.float32(255))
    np.testing.assert_allclose(fitted.score(floats), outside, rtol=1e-5)
    np.testing.assert_allclose(fitted.score(floats[:1]), outside[:1], rtol=1e-5)
    file = fitted.save("deep/mine.safetensors")
    again = om.load_detector(file, NAME)
    assert np.array_equal(again.score(dark(30, 3)), outside)
    assert again.curve == fitted.curve and again.name == fitted.name
    assert np.array_equal(again.samples(3), fitted.samples(3))
    assert fitted.samples(3).shape == (3, 1, 4, 4)
    other = fit(column=1)
    assert other.name == "outlier_aware(column=1)"
    assert not np.array_equal(other.score(dark(30, 3)), outside)


def test_progress_says_how_long_it_will_take(folder, monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(models, "SECONDS_BETWEEN_NOTES", 0.0)
    fit(notify=told.append)
    assert len(told) == 10 and told[0].startswith("exposed 1 of 2: epoch 1 of 6, loss ")
    assert "1 more to train" in told[0] and "more to train" not in told[-1]
    assert told[-1].endswith("s left")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"size": "smal"}, "Unknown size 'smal'. Did you mean 'small'"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"auxiliary": None}, "learns from auxiliary outliers, but none are given"),
        ({"auxiliary": dark(5, 0)[:, :, :2]}, r"shape \(1, 2, 4\), but 'images' has \(1, 4, 4\)"),
        ({"labels": [0.5] * 60}, "Labels of 'images' must be one whole number per image"),
        ({"column": 1.5}, "Setting column of 'outlier_aware' must be int"),
    ],
)
def test_what_cannot_be_fitted_is_one_sentence(folder, changes, sentence):
    with pytest.raises(UserError, match=sentence):
        fit(**changes)


def test_images_that_are_none_are_one_sentence(folder):
    for images, sentence in (
        (np.zeros((3, 4)), "images must be an array .* got ndarray of float64, shape"),
        (bright(3, 0) / 64.0, "values from 0 to 1 .* has values from 2"),
        (["a"], "got list"),
    ):
        with pytest.raises(UserError, match=sentence):
            om.fit_detector(NAME, images, auxiliary=dark(9, 1), size="tiny")
    with pytest.raises(UserError, match=r"trained on images of shape \(1, 4, 4\), got \(1, 5, 5\)"):
        fit().score(np.zeros((2, 5, 5), np.float32))
    with pytest.raises(UserError, match="'knn' needs features of a classifier: use evaluate"):
        om.fit_detector("knn", bright(9, 0))
    with pytest.raises(UserError, match="'binary_network' needs outliers"):
        om.fit_detector("binary_network", bright(9, 0))


def test_files_that_do_not_fit_are_one_sentence(folder):
    file = fit().save("mine.safetensors")
    content = file.read_bytes()
    arrays = safetensors.numpy.load(content)
    with safetensors.safe_open(file, framework="numpy") as opened:
        said = json.loads(opened.metadata()["oodometer"])

    def written(changes: dict[str, object], kept: dict[str, np.ndarray] = arrays) -> bytes:
        return safetensors.numpy.save(kept, {"oodometer": json.dumps(said | changes)})

    weights, answers = ({k: v for k, v in arrays.items() if k.startswith("answers") != of_weights}
                        for of_weights in (True, False))  # fmt: skip
    assert weights and answers
    for bad, sentence in (
        (content[: len(content) // 2], "is damaged, or is not a file that save wrote"),
        (b"PK", "is damaged"),
        (b"", "is damaged"),
        (safetensors.numpy.save(arrays), "is not a file that FittedDetector.save wrote"),
        (safetensors.numpy.save(arrays, {"oodometer": "[" * 9999}), "is damaged"),
        (safetensors.numpy.save(arrays, {"oodometer": "3"}), "is not a file that"),
        (written({"format": 2, "version": "9.0"}), r"another version of oodometer \(9.0\)"),
        (written({"detector": "knn"}), "holds the detector 'knn', not 'outlier_aware'"),
        (written({"shape": [1, 10**9, 10**9]}), "does not fit the detector"),
        (written({"shape": [1, 5, 5]}), "does not fit the detector .*size mismatch"),
        (written({"models": {}}), "does not fit the detector"),
        (written({"settings": {"x": 1}}), "Unknown setting of 'outlier_aware' 'x'"),
        (written({}, weights), "does not fit the detector .*Missing key 'answers "),
        (written({}, answers), "does not fit the detector .*Missing key"),
    ):
        Path("bad.safetensors").write_bytes(bad)
        with pytest.raises(UserError, match=sentence):
            om.load_detector("bad.safetensors", NAME)
    with pytest.raises(UserError, match="does not exist. Did you mean"):
        om.load_detector("mine.safetensor", NAME)
    with pytest.raises(UserError, match="holds the detector '../evil.py:x', which is not built in"):
        Path("bad.safetensors").write_bytes(written({"detector": "../evil.py:x"}))
        om.load_detector("bad.safetensors")


def test_evaluate_trains_it_with_and_without_a_classifier(folder):
    sets = {"train": bright(60, 0), "id": bright(30, 2)}
    ood = {"dark": dark(30, 3), "grey": np.full((30, 1, 4, 4), 100, np.uint8)}
    alone = om.evaluate(
        None, sets["train"], sets["id"], ood, detectors=[NAME], auxiliary=dark(90, 1), size="tiny"
    )
    assert {row.detector for row in alone.table.rows} == {"outlier_aware"}
    expected = fit().score(ood["dark"])
    (row,) = (row for row in alone.table.rows if row.dataset == "dark")
    np.testing.assert_allclose(row.scores, expected, rtol=1e-6)
    classifier = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    floats = {n: v.astype(np.float32) / 255 for n, v in (sets | ood).items()}
    both = om.evaluate(
        classifier, floats["train"], floats["id"], {n: floats[n] for n in ood},
        detectors=[NAME, "max_softmax"], auxiliary=dark(90, 1), size="tiny",
    )  # fmt: skip
    assert {row.detector for row in both.table.rows} == {"outlier_aware", "max_softmax"}
    with pytest.raises(UserError, match="whose outputs max_softmax would read"):
        om.evaluate(None, sets["train"], sets["id"], ood, detectors=["max_softmax"])
    # One that cannot be trained leaves the others.
    left = om.evaluate(
        classifier, floats["train"], floats["id"], {n: floats[n] for n in ood},
        detectors=[NAME, "max_softmax"], size="tiny",
    )  # fmt: skip
    assert [(m.detector, "auxiliary" in m.reason) for m in left.table.missing] == [
        ("outlier_aware", True)
    ]


def test_the_command_line_trains_a_detector(folder):
    for name, images in (("a", bright), ("b", dark), ("c", dark)):
        np.savez(f"{name}.npz", train_images=images(60, 1)[:, 0], train_labels=np.arange(60) % 2,
                 test_images=images(30, 2)[:, 0], test_labels=np.arange(30) % 2)  # fmt: skip
    words = ["evaluate", "--detectors", NAME, "--train", "a.npz", "--id", "a.npz", "--ood", "b.npz"]
    words += ["--auxiliary", "c.npz", "--size", "tiny", "--out", "out"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "outlier_aware" in result.output and Path("out/summary.csv").is_file()
    without = CliRunner().invoke(app, [words[0], *words[3:]])
    assert "--model missing" in str(without.exception)


def test_memory_is_bounded_by_the_batch():
    from oodometer.lab.detector_models.answers import rows_at_once

    assert rows_at_once((3, 32, 32)) == rows_at_once((1, 28, 28)) == 256
    assert rows_at_once((3, 96, 96)) == 28 and rows_at_once((3, 999, 999)) == 8
    MODELS.pop("exposed", None)
