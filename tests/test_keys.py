"""Keys that cannot lie: whatever a result depends on changes its key, and nothing else does."""

from __future__ import annotations

import ast
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from oodometer.engine.lead.run import make_plan, read_contents
from oodometer.engine.plan import keys
from oodometer.engine.plan.plan import Plan, plan
from oodometer.engine.plan.trainings import DataContent
from oodometer.needs import Need
from oodometer.scoring import choices
from oodometer.study import Study, load_study, parse_study

CONTENT = DataContent("digits", "t" * 40, "i" * 40, {"noise": "n" * 40, "inverted": "v" * 40})


def make_study(**changes: object) -> Study:
    content = {
        "name": "tiny",
        "base": {"data": "digits", "network": "mlp", "width": 4, "epochs": 2},
        "detectors": ["max_softmax", "energy", "knn(k=3)"],
        "ood": ["noise", "inverted"],
    }
    return parse_study(content | changes, "study")


def keys_of(study: Study, content: DataContent = CONTENT) -> dict[str, str]:
    """The keys of the only run of a study, by what they are of."""
    made = plan(study, dict.fromkeys(study.runs(), content), choices(study.detectors))
    return named(made)


def named(made: Plan) -> dict[str, str]:
    run = made.runs[0]
    found = {"model": run.model, "outputs train": run.train_outputs}
    found |= {f"outputs {name}": key for name, key in run.outputs.items()}
    for label, cells in run.scores.items():
        found |= {f"{label} {name}": key for name, key in cells.items()}
    return found


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


BEFORE = keys_of(make_study())
ALL = set(BEFORE)
OUTPUTS = {name for name in ALL if name.startswith("outputs")}
SCORES = {name for name in ALL if name.split()[0] in ("max_softmax", "energy", "knn(k=3)")}
OF_LOGITS = {name for name in SCORES if not name.startswith("knn")}
OF_KNN = SCORES - OF_LOGITS


def test_every_key_is_another():
    assert len(set(BEFORE.values())) == len(BEFORE) == 1 + 4 + 9


# ---- specification and settings ----------------------------------------------------------------

SPECIFICATION = {
    "network": "small_cnn", "width": 5, "optimizer": "sgd", "learning_rate": 0.5, "epochs": 3,
    "batch_size": 31, "seed": 1, "weight_decay": 0.1, "loss": "logistic", "adversarial": 0.1,
    "schedule": "cosine", "stopping": "early(on=train_loss)", "validation": 0.2,
    "augment": "crop_flip", "label_noise": "uniform(rate=0.2)", "train_size": 40, "epoch": 1,
}  # fmt: skip


@pytest.mark.parametrize("field", SPECIFICATION)
def test_each_field_of_the_training_changes_all(field):
    base = {"data": "digits", "network": "mlp", "width": 4, "epochs": 2}
    after = keys_of(make_study(base=base | {field: SPECIFICATION[field]}))
    assert changed(BEFORE, after) == ALL


def test_features_change_what_comes_after_training():
    base = {"data": "digits", "network": "mlp", "width": 4, "epochs": 2}
    after = keys_of(make_study(base=base | {"features": "skip_stem_relu"}))
    assert changed(BEFORE, after) == OUTPUTS | SCORES


def test_settings_of_a_detector_change_its_scores():
    one = keys_of(make_study(detectors=["knn(k=3)"]))
    two = keys_of(make_study(detectors=["knn(k=4)"]))
    assert one["knn(k=3) noise"] != two["knn(k=4) noise"] and one["model"] == two["model"]


def test_another_grid_or_default_is_another_key():
    chosen = choices(("energy",))
    study = make_study(detectors=["energy"])
    contents = dict.fromkeys(study.runs(), CONTENT)
    before = named(plan(study, contents, chosen))
    card = replace(chosen[0].detector, grid={"temperature": (1.0, 17.0)})
    after = named(plan(study, contents, [replace(chosen[0], detector=card)]))
    assert changed(before, after) == {name for name in before if name.startswith("energy")}


# ---- content of the data -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (replace(CONTENT, train="x"), ALL - {n for n in OUTPUTS if n != "outputs train"}),
        (replace(CONTENT, test="x"), {n for n in ALL if "digits" in n}),
        (
            replace(CONTENT, ood={**CONTENT.ood, "noise": "x"}),
            {n for n in ALL if n.endswith("noise")},
        ),
        (replace(CONTENT, noise="x"), ALL),
    ],
    ids=["train", "test", "outliers", "label file"],
)
def test_content_changes_what_reads_it(content, expected):
    found = changed(BEFORE, keys_of(make_study(), content))
    assert found >= expected
    if content.train == CONTENT.train:
        assert found == expected
    else:
        assert found == ALL, "another training set, another model, other outputs of it"


def test_a_probe_that_compares_with_the_training_set_follows_it():
    """And nothing of it is asked again when an outlier set is added."""
    base = {"data": "digits", "network": "mlp", "validation": 0.2, "train_size": 40}

    def probes(content: DataContent = CONTENT, **changes: object) -> dict[str, str]:
        study = make_study(base=base | changes, detectors=["knn_svm(space=pixels)"])
        made = plan(study, dict.fromkeys(study.runs(), content), choices(study.detectors))
        return dict(made.runs[0].probes[Need("probe", "pixel_neighbors")])

    before = probes()
    assert before.keys() == {"digits", "noise", "inverted"} and probes(test_size=5) == before
    for after in (
        probes(replace(CONTENT, train="x")),
        *(probes(**{name: value}) for name, value in (
            ("train_size", 41), ("validation", 0.3), ("split", 1), ("fitted_on", "validation"),
            ("seed", 1),
        )),
    ):  # fmt: skip
        assert changed(before, after) == set(before)
    more = probes(replace(CONTENT, ood={**CONTENT.ood, "stripes": "s" * 40}))
    assert before.items() < more.items() and len(more) == 4


@pytest.mark.parametrize("part", ["train_images", "train_labels", "test_images", "test_labels"])
def test_one_number_in_a_file_is_other_content(tiny_npz, part):
    path = tiny_npz()
    study = make_study(base={"data": path, "network": "mlp"}, ood=["inverted"])
    before = named(make_plan(study, read_contents(study)))
    with np.load(path) as arrays:
        content = dict(arrays)
    content[part].flat[0] = (content[part].flat[0] + 1) % 3
    np.savez(path, **content)
    found = changed(before, named(make_plan(study, read_contents(study))))
    assert ("model" in found) == part.startswith("train")
    assert {"outputs stripes", "max_softmax stripes"} <= found


def test_names_places_and_order_change_nothing(tiny_npz, tmp_path):
    tiny_npz()
    (tmp_path / "one").mkdir()
    (tmp_path / "stripes.npz").rename(tmp_path / "one" / "stripes.npz")
    (tmp_path / "one" / "study.yaml").write_text(
        "name: tiny\nbase: {data: ./stripes.npz, network: mlp, width: 4, epochs: 1}\n"
        "detectors: [energy, knn]\nood: [inverted]\n"
    )
    study = load_study(tmp_path / "one" / "study.yaml")
    before = named(make_plan(study, read_contents(study)))
    (tmp_path / "one").rename(tmp_path / "another folder")
    (tmp_path / "another folder" / "study.yaml").write_text(
        "ood: [inverted]   # outliers\nname: renamed\ndetectors: [knn, energy]\n"
        "base:\n  epochs: 1\n  width: 4\n  network: mlp\n  data: stripes.npz\n"
    )
    study = load_study(tmp_path / "another folder" / "study.yaml")
    assert named(make_plan(study, read_contents(study))) == before


# ---- code --------------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of this package's code, of which the keys are made."""
    copy = tmp_path / "oodometer"
    ignore = shutil.ignore_patterns("__pycache__", "*.yaml")
    shutil.copytree(keys.PACKAGE, copy, ignore=ignore)
    monkeypatch.setattr(keys, "PACKAGE", copy)
    forget()
    yield copy
    monkeypatch.undo()
    forget()


def forget() -> None:
    for function in (keys.code_version, keys.function_version):
        function.cache_clear()


def append(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)
    forget()


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("lab/training/losses.py", ALL),
        ("lab/training/train.py", ALL),
        ("lab/training/networks/_parts.py", ALL),
        ("lab/training/batches.py", ALL),
        ("lab/data/portions.py", ALL),
        ("lab/asking/extract.py", OUTPUTS | SCORES),
        ("lab/data/inputs.py", OUTPUTS | SCORES),
        ("outputs/outputs.py", OUTPUTS | SCORES),
        ("needs.py", OUTPUTS | SCORES),
        ("scoring.py", SCORES),
        ("registry/card.py", SCORES),
        ("detectors/logits.py", OF_LOGITS),
        ("detectors/distances.py", OF_KNN),
        ("lab/training/augment.py", set()),  # not used by this study
        ("lab/data/label_noise.py", set()),
        ("lab/data/readers/idx.py", set()),  # told by the content of the data
        ("lab/data/cards.py", set()),
        ("protocols/ranking/protocol.py", set()),
        ("errors.py", set()),
        ("imports.py", set()),  # it finds what is known by its own code
        ("cli/common.py", set()),
    ],
)
def test_code_changes_what_it_makes(package, file, expected):
    assert changed(BEFORE, keys_of(make_study())) == set(), "a copy is the same code"
    append(package / file, "\n# A comment.\n")
    assert changed(BEFORE, keys_of(make_study())) == set()
    append(package / file, "\n_CHANGED = 1\n")
    assert changed(BEFORE, keys_of(make_study())) == expected


def test_code_of_what_a_training_uses_belongs_to_it(package):
    base = {"data": "digits", "network": "mlp", "augment": "crop_flip"}
    study = make_study(base=base | {"label_noise": "uniform(rate=0.2)"})
    for file in ("lab/training/augment.py", "lab/training/color.py", "lab/data/label_noise.py"):
        before = keys_of(study)
        append(package / file, "\n_CHANGED = 1\n")
        assert changed(before, keys_of(study)) == ALL, file


def test_code_is_hashed_by_meaning():
    plain = "def f(x):\n    return x + 1\n"
    dressed = '"""Module."""\n# why\ndef f(x):\n    """Doc."""\n    return (x  +  1)  # because\n'
    other = plain.replace("1", "2")
    one, two, three = (keys._meaning(ast.parse(source)) for source in (plain, dressed, other))
    assert one == two != three


def test_code_that_is_not_there_is_an_error():
    with pytest.raises(FileNotFoundError, match="no code in lab/nothing"):
        keys.code_version("lab/nothing")


# ---- the digest itself -------------------------------------------------------------------------


def test_digest_tells_apart_what_differs():
    parts = [
        (), ("",), ("a",), ("a", ""), ("", "a"), (["a"],), (["a", "b"],), ("a", "b"), ("ab",),
        (1,), ("1",), (1.5,), (True,), (None,), ({},), ([],), ({"a": 1},), ({"a": "1"},), ("é",),
    ]  # fmt: skip
    assert len({keys.digest(*part) for part in parts}) == len(parts)
    assert keys.digest({"a": 1, "b": {"c": 2, "d": 3}}) == keys.digest(
        {"b": {"d": 3, "c": 2}, "a": 1}
    )
    with pytest.raises(ValueError):
        keys.digest(float("nan"))
