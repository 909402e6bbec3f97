"""Score tables, scoring, and the registry behind them."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import numpy as np
import pytest
import torch

import oodometer as om
from oodometer import registry
from oodometer.errors import UserError
from oodometer.registry import DETECTORS, choose, detector
from oodometer.scores import Missing, ScoreRow, ScoreTable
from oodometer.testing import toy_outputs


@pytest.fixture
def parts():
    return {
        "train": toy_outputs(200, 0),
        "test": toy_outputs(60, 1),
        "odd": toy_outputs(50, 2, outliers=True),
    }


def test_score_gives_every_detector_its_line(parts):
    table = om.score(parts)
    assert not table.missing
    summary = table.summary(resamples=50)
    # Those that learn from outliers have no setting that represents them.
    usual = {name: card for name, card in DETECTORS.items() if not card.only_by_name}
    alone = {name for name, card in usual.items() if not card.learns_from_outliers}
    assert set(summary["detector"]) == alone and set(summary["ood"]) == {"odd"}
    assert len(summary) == len(alone)
    for metric in ("auroc", "fpr95", "aupr_in", "aupr_out", "detection_error"):
        assert (summary[f"{metric}_low"] <= summary[metric]).all()
        assert (summary[metric] <= summary[f"{metric}_high"]).all()
    assert list(summary.columns[:4]) == ["detector", "setting", "ood", "auroc"]


def test_summary_is_the_same_each_time(parts):
    table = om.score(parts, ["energy"])
    assert table.summary(resamples=50).equals(table.summary(resamples=50))


def test_the_grid_adds_rows_but_not_competitors(parts):
    table = om.score(parts, ["energy", "energy(temperature=10)"], grid=True)
    assert table.detectors == ("energy", "energy(temperature=10.0)")
    assert len(table.summary(resamples=20)) == 2
    assert len(table.summary(defaults_only=False, resamples=20)) == 4 + 1


def test_what_cannot_be_used_is_said(parts):
    bare = {name: om.Outputs(logits=part.logits) for name, part in parts.items()}
    table = om.score(bare)
    assert "energy" in table.detectors and "knn" not in table.detectors
    reasons = {gap.detector: gap.reason for gap in table.missing}
    assert "needs features" in reasons["knn"] and "labels" in reasons["mahalanobis"]
    with pytest.raises(UserError, match="No detector could be used. detector knn.*needs features"):
        om.score(bare, "knn")


def test_a_crash_of_one_detector_leaves_the_others(parts):
    @detector(paper="2026", needs={"logits"})
    def fragile(train):
        """Break."""
        raise RuntimeError("broken\nsecond line")

    table = om.score(parts, ["fragile", "energy"])
    (gap,) = table.missing
    assert (gap.detector, gap.reason) == ("fragile", "RuntimeError: broken second line")
    assert "in fragile" in gap.traceback and table.detectors == ("energy",)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda tensor: tensor.clamp_(max=0.1),
        lambda tensor: tensor.data.zero_(),
        lambda tensor: tensor.numpy().fill(7),
        lambda tensor: tensor.detach().mul_(2),
    ],
    ids=["in place", "data", "numpy", "detached"],
)
def test_a_detector_that_writes_reaches_nobody_else(parts, spoil):
    @detector(paper="2026", needs={"features"})
    def careless(train):
        """Overwrite what others read."""
        spoil(train.features)
        return lambda test: test.features.sum(1)

    @detector(paper="2026", needs={"features"})
    def careless_later(train):
        """Overwrite what others read, when scoring."""

        def score(test):
            spoil(test.features)
            return test.features.sum(1)

        return score

    clean = om.score(parts, ["knn"])
    table = om.score(parts, ["careless", "careless_later", "knn"])
    assert table.detectors == ("knn",)
    assert all("wrote into outputs.features" in gap.reason for gap in table.missing)
    for one, two in zip(clean.rows, table.rows, strict=True):
        assert np.array_equal(one.scores, two.scores)


def test_a_detector_that_exits_leaves_the_others(parts):
    @detector(paper="2026", needs={"logits"})
    def quitter(train):
        """Leave."""
        raise SystemExit(3)

    table = om.score(parts, ["quitter", "energy"])
    assert table.missing[0].reason == "SystemExit: 3" and table.detectors == ("energy",)


@pytest.mark.parametrize(
    ("scores", "sentence"),
    [
        (lambda test: test.logits, "must return one score per sample"),
        (lambda test: test.logits.argmax(1), "must return floats, got int64"),
        (lambda test: test.logits[:, 0] * torch.nan, "NaN or infinity for 60 of 60"),
        (lambda test: None, "but returned NoneType"),
        (lambda test: test.labels.double(), "labels are shown for fitting only"),
    ],
)
def test_bad_scores_are_refused(parts, scores, sentence):
    @detector(paper="2026", needs={"logits", "labels"})
    def odd_one(train):
        """Return what it should not."""
        return scores

    (gap,) = om.score(parts, ["odd_one", "energy"]).missing
    assert sentence in gap.reason


@pytest.mark.parametrize(
    ("change", "arguments", "sentence"),
    [
        ({}, {"id": "tset"}, "Unknown data set 'tset'. Did you mean 'test'"),
        ({}, {"id": "train"}, "train and id are both 'train'"),
        ({"odd": None}, {}, "There is no outlier set"),
        (
            {"odd": om.Outputs(logits=torch.zeros(3, 7).double())},
            {},
            "logits of 'odd' have width 7",
        ),
        ({"odd": om.Outputs(logits=torch.zeros(0, 5).double())}, {}, "'odd' is empty"),
        ({}, {"detectors": ["knn", "knn"]}, "Detector 'knn' is named twice"),
        ({}, {"detectors": []}, "detectors is an empty list"),
        ({}, {"detectors": 3}, "must be 'all' or a list of names, got 3"),
        (
            {},
            {"detectors": ["odin_without_perturbation(temperature=1e400)"]},
            "must be finite, got inf",
        ),
        ({"odd": torch.zeros(3, 5)}, {}, "'odd' must be Outputs, got Tensor"),
        ({}, {"detectors": ["knn(k=3"]}, "must be written as name or name"),
        ({}, {"detectors": ["knn(3)"]}, "'3' must be written as setting=value"),
        ({}, {"detectors": ["knn(k=x)"]}, "Setting k of 'knn' must be int .default 50., got 'x'"),
        ({}, {"detectors": ["knn(k=True)"]}, "must be int"),
        ({}, {"detectors": ["ash(variant=z)"]}, "Unknown variant of 'ash' 'z'. "),
    ],
)
def test_bad_calls_are_named(parts, change, arguments, sentence):
    outputs = {name: part for name, part in (parts | change).items() if part is not None}
    with pytest.raises(UserError, match=sentence):
        om.score(outputs, **arguments)


def test_outputs_of_two_classifiers_are_refused(parts):
    odd = parts["odd"]
    head = om.Head(odd.head.weight + 1, odd.head.bias)
    other = om.Outputs(features=odd.features, labels=odd.labels, head=head)
    with pytest.raises(UserError, match="heads of 'train' and 'odd' differ"):
        om.score(parts | {"odd": other})


def test_choices_are_read_as_written():
    choice = choose(" knn( k = 10 , normalize=False ) ")
    assert choice.label == "knn(k=10, normalize=False)"
    assert choice.settings == {"k": 10, "normalize": False, "share": 1.0}
    assert choose("knn(k=50)").label == "knn" and choose("energy(temperature=10)").settings == {
        "temperature": 10.0
    }


def write_detector(path, name: str, sign: str = "-", imports: str = "") -> None:
    path.write_text(
        f"{imports}\nimport oodometer as om\n"
        '@om.detector(paper="A 2026", needs={"logits"})\n'
        f"def {name}(train):\n"
        '    """Minus the largest logit."""\n'
        f"    return lambda test: {sign}test.logits.amax(1)\n"
    )


def test_files_are_told_apart_by_their_place(tmp_path):
    for folder, name in (("a", "first"), ("b", "second")):
        (tmp_path / folder).mkdir()
        write_detector(tmp_path / folder / "random.py", name)
    assert choose(f"{tmp_path}/a/random.py:first").label == "first"
    assert choose(f"{tmp_path}/b/random.py:second").label == "second"
    with pytest.raises(UserError, match="Unknown detector in '.*a/random.py': 'knn'. Known: first"):
        choose(f"{tmp_path}/a/random.py:knn")


def test_two_detectors_of_one_name_are_refused():
    def energy(train):
        """Another."""

    energy.__module__ = "elsewhere"
    with pytest.raises(UserError, match="'energy' of elsewhere is already registered by oodometer"):
        detector(paper="2026", needs={"logits"})(energy)


@pytest.mark.parametrize(
    ("arguments", "build", "sentence"),
    [
        ({"needs": {"logit"}}, lambda train: None, "Unknown need .* Did you mean 'logits'"),
        ({"needs": {"logits"}}, lambda train, k=1: None, "keyword-only settings with defaults"),
        ({"needs": {"logits"}}, lambda train, *, k=1: None, "each setting needs a grid"),
        (
            {"needs": {"logits"}, "grid": {"k": (2, 3)}},
            lambda train, *, k=1: None,
            "lacks its default 1",
        ),
    ],
)
def test_bad_cards_are_refused(arguments, build, sentence):
    with pytest.raises(UserError, match=sentence):
        detector(paper="2026", **arguments)(build)


def test_plugins_are_loaded_and_a_broken_one_is_remembered(tmp_path, monkeypatch):
    (tmp_path / "good_plugin.py").write_text(
        "import oodometer as om\n"
        '@om.detector(paper="A 2026", needs={"logits"})\n'
        "def from_plugin(train):\n"
        '    """Minus the largest logit."""\n'
        "    return lambda test: -test.logits.amax(1)\n"
    )
    (tmp_path / "bad_plugin.py").write_text("import nothing_like_this\n")
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint(n, f"{n}_plugin", registry.ENTRY_POINTS) for n in ("good", "bad")]
    monkeypatch.setattr(registry.lookup, "entry_points", lambda group: points)
    monkeypatch.setattr(registry.lookup, "BROKEN_PLUGINS", {})
    registry.load_plugins()
    assert "from_plugin" in DETECTORS
    assert "nothing_like_this" in registry.lookup.BROKEN_PLUGINS["bad"]


# ---- the table ---------------------------------------------------------------------------------


def row(**changes: object) -> ScoreRow:
    values = {"run": "", "detector": "d", "setting": "", "dataset": "id", "scores": [1.0, 2.0]}
    return ScoreRow(**(values | changes))


def test_rows_refuse_what_is_not_a_score():
    with pytest.raises(UserError, match="'d' on 'id' must be finite, but 1 of 2"):
        row(scores=[1.0, np.nan])
    with pytest.raises(UserError, match="must be a non-empty vector"):
        row(scores=[])
    with pytest.raises(ValueError, match="read-only"):
        row().scores[0] = 3


def test_rows_do_not_touch_the_callers_array():
    mine = np.array([1.0, 2.0])
    row(scores=mine)
    mine[0] = 5


def test_tables_refuse_what_does_not_fit():
    with pytest.raises(UserError, match="Unknown in-distribution set 'id'"):
        ScoreTable("id", (row(dataset="other"),))
    with pytest.raises(UserError, match="two default settings on 'id'"):
        ScoreTable("id", (row(), row(setting="k=1")))
    runs = {"a": {}, "b": {}}
    with pytest.raises(UserError, match="'id' has 2 samples in run 'a' but 3 in run 'b'"):
        ScoreTable("id", (row(run="a"), row(run="b", scores=[1, 2, 3])), runs)
    ScoreTable("id", (row(run="a"), row(run="b", scores=[1, 2, 3])), runs, same_samples=False)
    with pytest.raises(UserError, match="must be 2 booleans, one per sample of 'id', got 3"):
        ScoreTable("id", (row(),), correct={"": np.array([True] * 3)})
    with pytest.raises(UserError, match="Unknown run in ScoreTable.correct"):
        ScoreTable("id", (row(),), correct={"x": np.array([True] * 2)})
    with pytest.raises(UserError, match="twice"):
        ScoreTable("id", (row(), row()))
    with pytest.raises(UserError, match="Unknown run"):
        ScoreTable("id", (row(run="x"),))
    with pytest.raises(UserError, match="'e' has 3 scores on 'id' where others have 2"):
        ScoreTable("id", (row(), row(detector="e", scores=[1.0, 2.0, 3.0])))


def test_missing_says_where():
    assert str(Missing("why", "r", "knn", "k=1", "noise")) == (
        "detector knn(k=1), data set noise, run r: why"
    )
