"""A study that is edited between two runs: only what changed is done again."""

from __future__ import annotations

import pytest

from oodometer.engine.plan.notes import announce, read_wanted
from oodometer.engine.plan.plan import DataContent, Plan, plan
from oodometer.engine.stores import MemoryStore
from oodometer.scoring import choices
from oodometer.study import Study, parse_study

DETECTORS = ["max_softmax", "energy", "knn(k=3)"]
SETS = {"noise": "n" * 40, "inverted": "v" * 40, "stripes": "s" * 40}


def make_study(**changes: object) -> Study:
    content = {
        "name": "tiny",
        "base": {"data": "digits", "network": "mlp", "width": 4, "epochs": 2},
        "factors": [{"field": "seed", "levels": [0, 1, 2]}],
        "detectors": DETECTORS,
        "ood": ["noise", "inverted"],
    }
    return parse_study(content | changes, "study")


def planned(**changes: object) -> Plan:
    study = make_study(**changes)
    content = DataContent("digits", "t", "i", {name: SETS[name] for name in study.ood})
    return plan(study, dict.fromkeys(study.runs(), content), choices(study.detectors))


def wanted(made: Plan) -> dict[str, set[str]]:
    return {
        "models": {run.model for run in made.runs},
        "outputs": {key for run in made.runs for key in (run.train_outputs, *run.outputs.values())},
        "scores": {key for run in made.runs for key in run.score_keys},
    }


@pytest.mark.parametrize(
    ("changes", "new"),
    [
        ({}, (0, 0, 0)),
        ({"name": "renamed", "protocols": ["robustness"]}, (0, 0, 0)),
        ({"factors": [{"field": "seed", "levels": [2, 1]}]}, (0, 0, 0)),
        ({"detectors": ["energy"], "ood": ["noise"]}, (0, 0, 0)),
        ({"factors": [{"field": "seed", "levels": [0, 1, 2, 3]}]}, (1, 4, 9)),
        ({"detectors": [*DETECTORS, "vim"]}, (0, 0, 9)),
        ({"detectors": ["max_softmax", "energy", "knn(k=4)"]}, (0, 0, 9)),
        ({"ood": ["noise", "inverted", "stripes"]}, (0, 3, 9)),
        ({"ood": ["stripes", "noise"]}, (0, 3, 9)),
        (
            {
                "factors": [
                    {"field": "seed", "levels": [0, 1, 2]},
                    {"field": "weight_decay", "levels": [0.0, 0.1]},
                ]
            },
            (3, 12, 27),
        ),
        ({"design": "one_at_a_time"}, (0, 0, 0)),
    ],
)
def test_only_what_changed_is_new(changes, new):
    before, after = wanted(planned()), wanted(planned(**changes))
    assert tuple(len(after[kind] - before[kind]) for kind in before) == new


def test_back_and_forth_is_the_same_plan():
    assert planned() == planned() != planned(ood=["noise"])


def test_what_a_study_wants_is_noted_once_and_read_back():
    store, made = MemoryStore(), planned()
    key = announce(made, store)
    assert announce(planned(), store) == key and list(store.keys("plans")) == [key]
    note = read_wanted(key, store)
    assert note.study == made.study
    for kind, keys in wanted(made).items():
        assert set(note.keys[kind]) >= keys and len(note.keys[kind]) == len(set(note.keys[kind]))
    assert set(note.keys["models"]) == wanted(made)["models"]
    assert announce(planned(ood=["noise"]), store) != key
