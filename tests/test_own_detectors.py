"""Anybody's own detector on images: a class or a function in a file, in a study and alone."""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from engine_studies import run_inside

import oodometer as om
from oodometer import registry
from oodometer.engine.lead.run import make_plan, read_contents
from oodometer.engine.stores import FolderStore
from oodometer.engine.upkeep.verify import recompute
from oodometer.engine.work.codecs import bytes_to_table
from oodometer.errors import UserError
from oodometer.lab.detector_models import MODELS
from oodometer.protocols.common.words import missing_lines
from oodometer.registry import DETECTORS
from oodometer.scores import Missing
from oodometer.study import parse_study
from oodometer.testing import check_detector
from oodometer.testing.own import planted_images, planted_outliers

PAGE = (Path(__file__).parent.parent / "docs" / "detector-models.md").read_text(encoding="utf-8")
(CODE,) = (
    block
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    if "class PrincipalComponents" in block
)
NAME = "principal.py:PrincipalComponents"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("principal.py").write_text(CODE)
    return tmp_path


def test_the_detector_of_the_docs_has_30_lines_and_passes():
    assert len(CODE.partition("def contrast")[0].strip().splitlines()) <= 30


def test_it_passes_the_contract_and_is_the_closed_form(folder):
    results = check_detector(NAME)
    assert {r.outcome for r in results} == {"passed"} and len(results) == 8
    images = planted_images(240, 0)[0]
    fitted = om.fit_detector(NAME, images)
    flat = images.reshape(240, -1).astype(np.float64)
    values, vectors = np.linalg.eigh(np.cov(flat.T))
    rest = vectors[:, values.argsort()[:-20]]  # all directions but the first twenty

    def distance(some: np.ndarray) -> np.ndarray:
        return np.linalg.norm((some.reshape(len(some), -1) - flat.mean(0)) @ rest, axis=1)

    outside = planted_outliers(30, 1)
    expected = distance(outside) / distance(images).mean()
    np.testing.assert_allclose(fitted.score(outside), expected, rtol=1e-4)


def test_in_a_study_it_is_trained_once_stored_verified_and_keyed_by_its_file(folder, stripes):
    content = {
        "name": "own",
        "base": {"data": stripes, "network": "mlp", "width": 4, "epochs": 1},
        "factors": [{"field": "seed", "levels": [0, 1]}],
        "detectors": [NAME, "principal.py:contrast", "energy"],
        "ood": ["uniform_noise"],
    }

    def keys() -> set[str]:
        study = parse_study(content, "study")
        made = make_plan(study, read_contents(study))
        return {model.model for run in made.runs for model in run.models.values()}

    study, store = parse_study(content, "study"), FolderStore(folder / "store")
    assert not run_inside(study, store).missing
    before = keys()
    assert len(before) == 2 and all(store.has("models", key) for key in before)
    again = recompute(store, 1000, np.random.default_rng(0))
    assert not again.differences and not again.impossible
    table = bytes_to_table(store.view("tables", *store.keys("tables")))
    rows = {(r.run, r.detector, r.dataset): r.scores for r in table.rows}
    assert {detector for _, detector, _ in rows} == {"PrincipalComponents", "contrast", "energy"}
    one, two = (rows[run, "PrincipalComponents", table.id] for run in table.runs)
    assert np.array_equal(one, two)
    (folder / "other").mkdir()
    (folder / "other" / "principal.py").write_text(CODE.replace("components=20", "components=2"))
    for name in ("PrincipalComponents", "contrast"):
        MODELS.pop(name)
    content["detectors"] = [f"other/{name}" for name in content["detectors"][:2]]
    assert not keys() & before, "all of the file counts"


WRONG = {
    "direction": "return -images.std(axis=(1, 2, 3))",
    "batches_do_not_matter": "return images.std(axis=(1, 2, 3)) - images.mean()",
    "order_does_not_matter": "return images.std(axis=(1, 2, 3)) + np.arange(len(images))",
    "no_global_randomness": "return images.std(axis=(1, 2, 3)) + np.random.rand(len(images)) / 1e9",
    "runs": "return np.zeros(len(images))",
}


@pytest.mark.parametrize("check", WRONG)
def test_the_contract_notices(folder, check):
    Path("wrong.py").write_text(f"import numpy as np\n\n\ndef wrong(images):\n    {WRONG[check]}\n")
    failed = {r.check for r in check_detector("wrong.py:wrong") if r.outcome == "failed"}
    assert check in failed


def test_the_contract_notices_what_fit_and_score_leave_behind(folder):
    Path("learned.py").write_text('''
import numpy as np
import torch
from torch import nn


class Forgets:
    hidden = {}

    def fit(self, images):
        Forgets.hidden["mean"] = images.mean()
        Forgets.hidden["noise"] = Forgets.hidden.get("noise", 0.0) + 1.0

    def score(self, images):
        return images.std(axis=(1, 2, 3)) * Forgets.hidden["noise"]


class Drops:
    """Its network drops units: only in training mode."""

    def __init__(self):
        self.network = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 8))

    def fit(self, images, labels):
        assert set(labels) == {0, 1, 2}
        self.network.train()
        self.center = self.network(torch.from_numpy(images)).detach().mean(0)

    def score(self, images):
        values = self.network(torch.from_numpy(images)) - self.center
        return values.norm(dim=1).numpy() + images.std(axis=(1, 2, 3))
''')
    found = {
        r.check: r.message for r in check_detector("learned.py:Forgets") if r.outcome != "passed"
    }
    assert set(found) >= {"repeatable"}
    kinds = {r.check: r for r in check_detector("learned.py:Drops")}
    for name in ("batches_do_not_matter", "keeps_no_memory", "saved_and_loaded", "repeatable"):
        assert kinds[name].outcome == "passed", kinds[name]
    with pytest.raises(UserError, match="'Drops' learns from classes: give a label"):
        om.fit_detector("learned.py:Drops", planted_images(9, 0)[0])


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("raise SystemExit(3)", "could not be imported: SystemExit"),
        ("class A:\n    def __init__(self, k): ...\n    def fit(self, x): ...\n"
         "    def score(self, x): ...", "'A' cannot be made without arguments: TypeError"),
        ("class A:\n    def fit(self, x): raise KeyError('k')\n    def score(self, x): ...",
         "fit of detector 'A' failed: KeyError"),
        ("class A:\n    def fit(self, x): self.m = {}\n    def score(self, x): ...",
         "keeps 'm', a dict, which cannot be saved"),
        ("class A:\n    def fit(self, x): ...\n    def score(self, x): return x",
         r"must return one score per image, shape \(9,\), got \(9, 1, 8, 8\)"),
        ("class A:\n    def fit(self, x): ...\n    def score(self, x): return 'a'",
         "must return one score per image, a number, got str of text"),
        ("class A:\n    def fit(self, x): ...\n    def score(self, x): raise SystemExit",
         "'A' cannot score: SystemExit"),
        ("class A:\n    def fit(self, x): ...\n    def score(self, x): return x[:, 0, 0, 0] / 0",
         "hold NaN or infinity|cannot score"),
        ("class A:\n    def fit(self, x): ...", "Unknown detector in 'hostile.py': 'A'"),
    ],
)  # fmt: skip
def test_hostile_files_are_one_sentence(tmp_path, monkeypatch, code, sentence):
    monkeypatch.chdir(tmp_path)
    Path("hostile.py").write_text(code)
    with pytest.raises(UserError, match=sentence):
        om.fit_detector("hostile.py:A", planted_images(9, 0)[0]).score(planted_images(9, 0)[0])


def test_a_class_of_a_notebook_an_entry_point_and_a_bare_model(folder, monkeypatch):
    class Brightness:
        """Distance to the mean brightness."""

        def fit(self, images):
            self.usual = float(images.mean())

        def score(self, images):
            return abs(images.mean(axis=(1, 2, 3)) - self.usual)

    images = planted_images(60, 0)[0]
    fitted = om.fit_detector(Brightness, images)
    again = om.load_detector(fitted.save("b.safetensors"), Brightness)
    assert np.array_equal(again.score(images), fitted.score(images))
    monkeypatch.syspath_prepend(folder)
    points = [EntryPoint("announced", "principal:contrast", registry.ENTRY_POINTS)]
    monkeypatch.setattr(registry.lookup, "entry_points", lambda group: points)
    registry.load_plugins()
    try:
        assert DETECTORS["announced"].only_by_name
        np.testing.assert_allclose(
            om.fit_detector("announced", images).score(images), images.std((1, 2, 3)), rtol=1e-5
        )
    finally:
        DETECTORS.pop("announced", None)
        MODELS.pop("announced", None)


SETTINGS = '''
import os

import numpy as np
from torch import nn

import oodometer as om


class Nearest:
    """Mean distance to the k nearest training images, to some power."""

    grid = {"k": (1, 3)}

    def __init__(self, k=1, power=1.0):
        self.k, self.power = k, power

    def fit(self, images):
        self.known = images.reshape(len(images), -1)

    def score(self, images):
        apart = np.linalg.norm(images.reshape(len(images), 1, -1) - self.known, axis=2)
        return np.sort(apart, axis=1)[:, : self.k].mean(1) ** self.power


class Even(Nearest):
    grid = {"k": (1, 2, 3)}

    def fit(self, images):
        if self.k == 3 and not os.path.exists("odd"):
            raise ValueError("3 is too many")
        super().fit(images)


def contrast(images, *, power=1.0):
    os.chdir("/")
    return images.std(axis=(1, 2, 3)) ** power


class Leaves(Nearest):
    def fit(self, images):
        os._exit(0)


class Texts(Nearest):
    def score(self, images):
        return [str(value) for value in images.std(axis=(1, 2, 3))]


def network(spec, shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.Unflatten(1, shape))


def loss(spec, model, batch):
    return nn.functional.mse_loss(model(batch.inputs), batch.inputs), {}


@om.detector_model(
    task=om.Task(network, loss),
    spec=lambda spec, shape: spec.model_copy(update={"learning_rate": 1e6, "optimizer": "sgd"}),
)
def diverging(model, inputs):
    """A reconstruction error that no network survives."""
    return (model(inputs) - inputs).square().flatten(1).mean(1)
'''


def test_classes_and_functions_have_settings_and_grids(tmp_path, monkeypatch, stripes):
    monkeypatch.chdir(tmp_path)
    Path("nearest.py").write_text(SETTINGS)
    images, outside = planted_images(60, 0)[0], planted_outliers(20, 1)
    flat = images.reshape(60, -1).astype(np.float64)
    apart = np.sort(np.linalg.norm(outside.reshape(20, 1, -1) - flat, axis=2), axis=1)
    for k in (1, 7):  # 7 is not in the grid
        fitted = om.fit_detector(f"nearest.py:Nearest(k={k}, power=2.0)", images)
        expected = apart[:, :k].mean(1) ** 2
        np.testing.assert_allclose(fitted.score(outside), expected, rtol=1e-5)
    again = om.load_detector(fitted.save("n.safetensors"), "nearest.py:Nearest")
    assert again.name == "Nearest(k=7, power=2.0)"
    assert np.array_equal(again.score(outside), fitted.score(outside))
    squared = om.fit_detector("nearest.py:contrast", images, power=2.0).score(outside)
    np.testing.assert_allclose(squared, outside.std((1, 2, 3)) ** 2, rtol=1e-5)
    assert Path.cwd() == tmp_path
    found = om.evaluate(
        None, images, planted_images(20, 3)[0], {"far": outside},
        detectors=["nearest.py:Nearest(k=3)", "nearest.py:contrast"],
    )  # fmt: skip
    assert {row.detector for row in found.table.rows} == {"Nearest(k=3)", "contrast"}
    content = {
        "name": "own",
        "base": {"data": stripes, "network": "mlp", "width": 4, "epochs": 1},
        "factors": [{"field": "seed", "levels": [0]}],
        "detectors": ["nearest.py:Nearest", "nearest.py:Nearest(power=2.0)"],
        "ood": ["uniform_noise"],
    }
    study = parse_study(content, "study")
    made = make_plan(study, read_contents(study))
    models = {need.name for run in made.runs for need in run.models}
    assert models == {
        "Nearest", "Nearest(k=3)", "Nearest(power=2.0)", "Nearest(k=3, power=2.0)",
    }  # fmt: skip
    store = FolderStore(tmp_path / "store")
    assert not run_inside(study, store).missing
    table = bytes_to_table(store.view("tables", *store.keys("tables")))
    settings = {(row.detector, row.setting) for row in table.rows}
    assert ("Nearest(power=2.0)", "k=3, power=2.0") in settings and len(settings) == 4


def test_a_setting_that_fails_leaves_the_others_and_is_tried_again(tmp_path, monkeypatch, stripes):
    monkeypatch.chdir(tmp_path)
    Path("nearest.py").write_text(SETTINGS)
    content = {
        "name": "own",
        "base": {"data": stripes, "network": "mlp", "width": 4, "epochs": 1},
        "factors": [{"field": "seed", "levels": [0]}],
        "detectors": ["nearest.py:Even"],
        "ood": ["uniform_noise"],
        "keep_unlearned": True,
    }
    study, store = parse_study(content, "study"), FolderStore(tmp_path / "store")

    def settings(outcome) -> set[str]:
        table = bytes_to_table(store.view("tables", outcome.table_key))
        return {row.setting for row in table.rows}

    outcome = run_inside(study, store)
    assert settings(outcome) == {"k=1, power=1.0", "k=2, power=1.0"}
    told = {(part.run, part.detector, part.setting): part.reason for part in outcome.missing}
    model = "seed=0, model Even(k=3)"
    assert told["seed=0", "Even", "k=3"] == f"it needs run {model}, which failed."
    assert "3 is too many" in told[model, "", ""] and len(told) == 2
    Path("odd").touch()
    outcome = run_inside(study, store)
    assert len(settings(outcome)) == 3 and not outcome.missing


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Nearest(j=1)", "Unknown setting of 'Nearest' 'j'. Known: k, power"),
        ("Nearest(k=much)", "Setting k of 'Nearest' must be int"),
        ("Leaves", r"fit of detector 'Leaves' failed: SystemExit: os._exit\(0\) was called"),
        ("Texts", "must return one score per image, a number, got list of text"),
        ("diverging", "Training diverged: in epoch \\d+, the loss is inf, .* learning rate 1e"),
        ("Nearst", "Did you mean 'Nearest'"),
    ],
)
def test_wrong_settings_exits_texts_and_divergence_are_one_sentence(
    tmp_path, monkeypatch, name, sentence
):
    monkeypatch.chdir(tmp_path)
    Path("nearest.py").write_text(SETTINGS)
    images = planted_images(30, 0)[0]
    with pytest.raises(UserError, match=sentence):
        om.fit_detector(f"nearest.py:{name}", images).score(images)


NETWORKS = '''
import torch
from torch import nn


class _OneClass:
    """Distance of a network's output to the mean output of the training images."""

    def fit(self, images):
        with torch.no_grad():
            self.center = self.network(torch.from_numpy(images)).mean(0)

    def score(self, images):
        with torch.no_grad():
            apart = self.network(torch.from_numpy(images)) - self.center
        return apart.norm(dim=1).numpy()


class Told(_OneClass):
    def __init__(self, shape, classes, width=16):
        assert shape == (1, 8, 8) and classes == 3
        torch.manual_seed(0)
        numbers = shape[0] * shape[1] * shape[2]
        self.network = nn.Sequential(nn.Flatten(), nn.Linear(numbers, width))


class Sized(_OneClass):
    def __init__(self, width=16):
        self.network = nn.Sequential(nn.Flatten(), nn.LazyLinear(width))

    def fit(self, images):
        torch.manual_seed(0)
        super().fit(images)
'''


@pytest.mark.parametrize("name", ["Told", "Sized"])
def test_a_network_gets_its_size_from_the_images(tmp_path, monkeypatch, name):
    """From a parameter called shape, or from the first batch; both can be loaded."""
    monkeypatch.chdir(tmp_path)
    Path("networks.py").write_text(NETWORKS)
    found = {r.check: r for r in check_detector(f"networks.py:{name}")}
    for check in ("runs", "batches_do_not_matter", "repeatable", "saved_and_loaded"):
        assert found[check].outcome == "passed", found[check]


@pytest.mark.usefixtures("checked_here")
def test_check_of_a_file_finds_its_classes(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from oodometer.cli import app

    monkeypatch.chdir(tmp_path)
    Path("networks.py").write_text(NETWORKS)
    said = CliRunner().invoke(app, ["check", "networks.py"]).output
    assert "networks.py:Told" in said and "networks.py:Sized" in said and "_OneClass" not in said


def test_why_a_model_failed_is_said_before_what_lacks_it():
    lacking = Missing("it needs run a, which failed.", run="a", detector="mine")
    lines = missing_lines([lacking, Missing("fit failed: no room", run="a, model mine")], 1)
    assert lines == (
        "run a, model mine: fit failed: no room",
        "detector mine, run a: it needs run a, which failed.",
    )
