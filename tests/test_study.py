"""A study file: keys are fields, and every mistake gets one sentence."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

import oodometer
from oodometer.errors import UserError
from oodometer.factors import by_title
from oodometer.study import Factor, Study, TrainSpec, load_study, parse_study, to_yaml
from oodometer.study.fields import RE_EVALUATED, factor_of

GOOD = {"name": "mine", "base": {"data": "digits"}, "ood": ["rotated"]}


def study(**changes: object) -> Study:
    return parse_study(GOOD | changes, "Study")


def test_grid_runs_every_combination():
    made = study(
        factors=[{"field": "seed", "levels": [0, 1]}, {"field": "optimizer", "levels": ["a", "b"]}]
    )
    runs = made.runs()
    assert list(runs) == [
        "seed=0, optimizer=a",
        "seed=0, optimizer=b",
        "seed=1, optimizer=a",
        "seed=1, optimizer=b",
    ]
    spec, levels = runs["seed=1, optimizer=a"]
    assert (spec.seed, spec.optimizer, levels) == (1, "a", {"seed": 1, "optimizer": "a"})


def test_one_at_a_time_changes_one_factor_from_the_base():
    made = study(
        base={"data": "digits", "width": 16},
        design="one_at_a_time",
        factors=[
            {"field": "seed", "levels": [0, 1, 2]},
            {"field": "width", "levels": [16, 8]},
        ],
    )
    assert [(s.seed, s.width) for s, _ in made.runs().values()] == [
        (0, 16),
        (1, 16),
        (2, 16),
        (0, 8),
    ]


def test_a_study_without_factors_is_one_run():
    assert list(study().runs()) == ["base"]


def test_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        study().name = "other"
    with pytest.raises(ValidationError, match="frozen"):
        TrainSpec(data="digits").seed = 3


def test_python_and_yaml_agree(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(GOOD | {"factors": [{"field": "seed", "levels": [1, 2]}]}))
    by_hand = Study(
        name="mine",
        base=TrainSpec(data="digits"),
        factors=(Factor(field="seed", levels=(1, 2)),),
        ood=("rotated",),
    )
    assert load_study(path) == by_hand


def test_a_report_shows_studies_as_files_that_can_be_run(tmp_path):
    included = sorted((Path(oodometer.__file__).parent / "studies").glob("*.yaml"))
    for path in included[:4]:
        copied = tmp_path / path.name
        copied.write_text(to_yaml(load_study(path)), encoding="utf-8")
        assert load_study(copied) == load_study(path)


def test_scientific_notation_is_a_number(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("name: a\nbase: {data: digits, learning_rate: 1e-3}\nood: [rotated]\n")
    assert load_study(path).base.learning_rate == 0.001  # YAML alone takes 1e-3 for a text


def test_paths_are_relative_to_the_study_file(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("name: a\nbase: {data: data/x.npz}\nood: [rotated, y.npz]\n")
    loaded = load_study(path)
    assert loaded.base.data == str(tmp_path / "data/x.npz")
    assert loaded.ood == ("rotated", str(tmp_path / "y.npz"))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"bas": 1}, "Unknown key 'bas'. Did you mean 'base'"),
        ({"base": {"data": "digits", "epocs": 3}}, "key of 'base' 'epocs'. Did you mean 'epochs'"),
        ({"base": {"data": "digits", "epoch": 0}}, "'base.epoch' is 0, but must be 'last', 'best'"),
        ({"base": {"data": "digits", "epoch": "first"}}, "'first', but must be 'last', 'best' or"),
        ({"base": {"data": "digits", "epoch": True}}, "is True, but must be 'last', 'best' or"),
        ({"base": {"data": "digits", "validation": 1}}, "'base.validation' is 1, but must be le"),
        ({"base": {"data": "digits", "validation": True}}, "is True, but must be a number"),
        (
            {"base": {"data": "digits", "weight_decay": -1}},
            "'base.weight_decay' is -1, but must be",
        ),
        ({"base": {"data": "digits", "train_size": 0}}, "'base.train_size' is 0, but must be gr"),
        (
            {"base": {"data": "digits", "train_size": 1.5}},
            "'base.train_size' is 1.5, but must be a",
        ),
        (
            {"base": {"data": "digits", "best_by": "loss"}},
            "value of 'base.best_by' 'loss'. Did you",
        ),
        ({"base": {"data": "digits", "epochs": "3"}}, "'base.epochs' is '3', but must be a whole"),
        ({"base": {"data": "digits", "epochs": 0}}, "'base.epochs' is 0, but must be greater"),
        ({"base": {"data": "digits", "learning_rate": -1}}, "must be greater than 0"),
        ({"base": {"data": "digits", "learning_rate": True}}, "is True, but must be a number"),
        ({"base": {"data": "digits", "learning_rate": float("nan")}}, "finite number"),
        ({"base": {"epochs": 3}}, "lacks the key 'base.data'"),
        ({"base": "digits"}, "'base' is 'digits', but must be a mapping"),
        ({"factors": {"seed": [1]}}, "'factors' is .*, but must be a list"),
        (
            {"factors": [{"field": "sed", "levels": [1]}]},
            "Unknown factor 'sed'. Did you mean 'seed'",
        ),
        (
            {"factors": [{"field": "seed", "level": [1]}]},
            "Unknown key .* 'level'. Did you mean 'levels'",
        ),
        (
            {"factors": [{"field": "seed", "levels": [1, 1]}]},
            "levels of factor 'seed' lists '1' twice",
        ),
        ({"factors": [{"field": "seed", "levels": []}]}, "at least one entry"),
        ({"factors": [{"field": "data", "levels": ["a"]}]}, "write one study file per data set"),
        (
            {"base": {"data": "digits", "width": 10**9}},
            "'base.width' is 10+, but must be less than",
        ),
        ({"base": {"data": "digits", "width": 0}}, "'base.width' is 0, but must be greater than"),
        ({"design": "gird"}, "Unknown value of 'design' 'gird'. Did you mean 'grid'"),
        ({"detectors": "knn"}, "'detectors' is 'knn', but must be 'all' or a list"),
        ({"detectors": []}, "at least one detector"),
        ({"detectors": ["knn", "knn"]}, "detectors lists 'knn' twice"),
        ({"ood": []}, "'ood' is .*, but must be a list with at least one entry"),
        ({"ood": None}, "'ood' is empty, but must be a list"),
        ({"ood": [["a"]]}, r"'ood \(entry 1\)' is \['a'\], but must be text"),
        ({"name": datetime.date(2026, 1, 2)}, "'name' is 2026-01-02, but must be text"),
        ({"name": "../up"}, "must start with a letter \\(a-z\\) or a digit and may contain only"),
        ({"factors": [{"field": "seed"}]}, r"lacks the key 'factors \(entry 1\).levels'"),
        ({"base": {"data": "digits", "epochs": 10**20}}, "'base.epochs' is 10+, but must be less"),
        (
            {"factors": [{"field": f, "levels": list(range(1, 400))} for f in ("seed", "width")]},
            "has 159,201 runs, the combinations of all levels; at most 100,000 are",
        ),
        ({"scales": ["smoke"]}, "'scales' is .*, but must be a mapping of keys to values"),
        (
            {"scales": {"smoke": {"bse": {}}}},
            "'bse'. Did you mean 'base'. Known: accuracy, base",
        ),
    ],
)
def test_mistakes_are_named(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        study(**changes)


def test_any_field_of_a_training_is_a_factor(tmp_path):
    levels = {
        "weight_decay": [0, "5e-4"],
        "loss": ["cross_entropy", "label_smoothing(amount=0.2)"],
        "schedule": ["constant", "plateau(on=train_loss, patience=5)"],
        "stopping": ["none", "early(on=train_loss, patience=10)"],
        "validation": [0.1, 0.2],
        "augment": ["none", "mixup"],
        "label_noise": ["none", "uniform(rate=0.2)"],
        "train_size": [100, 200],
        "epoch": ["last", "best", 3],
        "best_by": ["validation_loss", "train_loss"],
    }
    path = tmp_path / "s.yaml"
    factors = [{"field": name, "levels": values} for name, values in levels.items()]
    path.write_text(yaml.safe_dump(GOOD | {"design": "one_at_a_time", "factors": factors}))
    runs = [made for made, _ in load_study(path).runs().values()]
    for name, values in levels.items():
        found = {getattr(made, name) for made in runs}
        assert {5e-4 if value == "5e-4" else value for value in values} <= found
    assert {made.checkpoint for made in runs} == {"last", "validation_accuracy", 3}


@pytest.mark.parametrize("design", ["grid", "one_at_a_time"])
def test_a_training_never_counts_twice(design, tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(
        "name: a\nbase: {data: digits, learning_rate: 1e-3}\nood: [rotated]\n"
        f"design: {design}\n"
        "factors: [{field: learning_rate, levels: [1e-3, 3e-3]}]\n"
    )
    runs = load_study(path).runs()
    assert list(runs) == ["learning_rate=0.001", "learning_rate=0.003"]
    assert [levels["learning_rate"] for _, levels in runs.values()] == [0.001, 0.003]
    text = path.read_text().replace("[1e-3, 3e-3]", "[0.002, 2e-3]")
    path.write_text(text)
    with pytest.raises(UserError, match="same run twice, learning_rate=0.002"):
        load_study(path).runs()


def test_detector_files_are_relative_to_the_study_file(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(GOOD | {"detectors": ["knn(k=3)", "mine.py:own(k=2)"]}))
    assert load_study(path).detectors == ("knn(k=3)", f"{tmp_path}/mine.py:own(k=2)")


def test_a_level_that_does_not_fit_its_field():
    with pytest.raises(UserError, match="'seed' is 'a', but must be a whole number"):
        study(factors=[{"field": "seed", "levels": ["a"]}]).runs()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "but is empty"),
        ("- a\n- b", "but is a list"),
        ("name: [a", "line 1, column 9 is not valid YAML"),
        ("name: a\nname: b\n", "line 2.*the key 'name' occurs twice"),
        ("? [a, b]\n: c\n", "line 1.*a key must be a scalar"),
        (
            "name: a\nbase:\n\tdata: digits",
            "line 3, column 1 is not valid YAML: a tab",
        ),
        ("name: a\x07", "character 8, U\\+0007, is not allowed"),
        ("name: a\n---\nname: b", "expected a single document in the stream, but found another"),
        ("name: 2026-13-45", "could not be read: month must be in 1..12"),
        ("name: " + "[" * 9999, "could not be read: it is nested too deeply"),
        ("words", "but is a scalar"),
        ("1: 2", "Unknown key '1'. Known: accuracy, base, design"),
        ("name: !!python/object/apply:os.system [echo]", "not valid YAML: could not determine"),
    ],
)
def test_bad_files(tmp_path, text, sentence):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=sentence):
        load_study(path)


def test_a_missing_file_suggests_its_neighbour(tmp_path):
    (tmp_path / "study.yaml").write_text("")
    with pytest.raises(UserError, match=r"stduy.yaml' does not exist. Did you mean '.*study.yaml'"):
        load_study(tmp_path / "stduy.yaml")
    with pytest.raises(UserError, match="could not be read: Is a directory"):
        load_study(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="it is not UTF-8 text"):
        load_study(tmp_path / "binary.yaml")


def test_held_out_classes_can_be_a_factor():
    made = study(factors=[{"field": "held_out_classes", "levels": [[8, 9], [0], []]}])
    runs = made.runs()
    assert list(runs) == [
        "held_out_classes=8 9",
        "held_out_classes=0",
        "held_out_classes=none",
    ]
    assert [spec.held_out_classes for spec, _ in runs.values()] == [(8, 9), (0,), ()]
    with pytest.raises(UserError, match="the same run twice"):
        study(factors=[{"field": "held_out_classes", "levels": [[8, 9], [9, 8]]}]).runs()
    with pytest.raises(UserError, match="levels"):
        study(factors=[{"field": "held_out_classes", "levels": [["a"]]}])
    with pytest.raises(UserError, match="held_out_classes"):
        study(factors=[{"field": "held_out_classes", "levels": [8]}]).runs()


def test_data_cannot_be_a_factor():
    with pytest.raises(UserError, match="study file per data set and run them with the same store"):
        study(factors=[{"field": "data", "levels": ["mnist", "digits"]}])


PATHS = """
name: a
base: {data: digits, label_noise: "file(path=labels.txt)", split: "listed(path=sub/list.txt)"}
factors:
  - field: label_noise
    levels:
      - file(path=labels.txt)
      - class_conditional(path=elsewhere.npz, key=k)
      - uniform(rate=0.1)
ood: [rotated]
scales:
  small: {base: {label_noise: file(path= labels.txt )}}
"""


def test_files_are_looked_for_beside_the_study_first(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("labels.txt", "sub/list.txt"):
        (tmp_path / name).write_text("0")
    (tmp_path / "s.yaml").write_text(PATHS)
    made = load_study(tmp_path / "s.yaml")
    assert made.base.label_noise == f"file(path={tmp_path / 'labels.txt'})"
    assert made.base.split == f"listed(path={tmp_path / 'sub' / 'list.txt'})"
    assert made.at_scale("small").base.label_noise == made.base.label_noise
    noises = [spec.label_noise for spec, _ in made.runs().values()]
    # What does not lie there may lie in OODOMETER_DATA; rates have no path.
    assert noises == [
        made.base.label_noise,
        "class_conditional(path=elsewhere.npz, key=k)",
        "uniform(rate=0.1)",
    ]
    assert next(iter(made.runs())) == "label_noise=file(path=labels.txt)"


def test_files_of_one_name_in_two_folders_stay_apart(tmp_path):
    levels = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "labels.txt").write_text("0")
        levels.append(f"file(path={folder}/labels.txt)")
    content = GOOD | {"factors": [{"field": "label_noise", "levels": levels}]}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(content))
    runs = load_study(tmp_path / "s.yaml").runs()
    assert len(runs) == 2 and len({spec.label_noise for spec, _ in runs.values()}) == 2


@pytest.mark.parametrize("value", [-1, 2**32, True, 1.5, ""])
def test_bad_splits(value):
    with pytest.raises(
        UserError, match="must be a whole number from 0, or a named split such as od_test"
    ):
        study(base={"data": "digits", "split": value})


def test_a_network_that_does_not_fit_into_memory_is_told(monkeypatch):
    import torch

    from oodometer.lab.training import networks

    huge = replace(networks.KNOWN["mlp"], build=lambda *sizes: torch.empty(2**60))
    monkeypatch.setitem(networks.KNOWN, "mlp", huge)
    with pytest.raises(UserError, match="'mlp' of width 9 is too large for the memory"):
        networks.build_network("mlp", (1, 8, 8), 10, 9)


def test_a_field_and_a_column_of_its_name_are_of_one_kind():
    """The results table that a study writes is read as the study itself was."""
    kinds = {field: factor_of(field).kind for field in TrainSpec.model_fields}
    assert kinds == {field: by_title(field).kind for field in TrainSpec.model_fields}
    repeats = {field for field, kind in kinds.items() if kind == "repeat"}
    assert repeats == {"seed", "model_seed", "split"}
    assert {"epoch", "ood_draw", "fitted_on"} <= RE_EVALUATED < set(kinds)
