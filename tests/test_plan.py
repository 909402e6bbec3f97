"""A study that is edited between two runs: only what changed is done again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oodometer.engine.lead.run import make_plan, read_contents
from oodometer.engine.plan.plan import Plan, plan
from oodometer.engine.plan.study_index import read_plan, record_plan
from oodometer.engine.plan.trainings import DataContent
from oodometer.engine.stores import MemoryStore
from oodometer.engine.work.failures import failure_key
from oodometer.errors import UserError
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
    content = DataContent(
        "digits", "t", "i", {name: SETS[name] for name in study.ood}, train_shape=(60, 1, 8, 8)
    )
    return plan(study, dict.fromkeys(study.runs(), content), choices(study.detectors))


def wanted(made: Plan) -> dict[str, set[str]]:
    return {
        kind: {part.key for part in made.artefacts if part.kind == kind}
        for kind in ("models", "outputs", "scores")
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


def test_artefacts_come_after_their_parents():
    parts = planned(detectors=["knn", "odin", "gram", "deep_ensemble"]).artefacts
    seen: set[str] = set()
    for part in parts:
        others = part.kind == "probes" and part.stage == "score"  # made of other runs' outputs
        assert others or seen.issuperset(part.parents), part.title
        seen.add(part.key)
    assert {part.kind for part in planned().artefacts} == {"models", "outputs", "scores"}


def test_back_and_forth_is_the_same_plan():
    assert planned() == planned() != planned(ood=["noise"])


def test_the_plan_of_a_study_is_recorded_once_and_read_back():
    store, made = MemoryStore(), planned()
    key = record_plan(made, store)
    assert record_plan(planned(), store) == key and list(store.keys("plans")) == [key]
    record = read_plan(key, store)
    assert record.study == made.study and record.settings["energy"][0] == "temperature=1.0"
    # Parents stand in the record of each artefact, not in that of the plan.
    assert [replace(part, parents=()) for part in made.artefacts] == list(record.artefacts)
    assert record.failures == {
        (run.label, label): failure_key(run, label)
        for run in made.runs
        for label in ("", *run.units)
    }
    assert record_plan(planned(ood=["noise"]), store) != key


def test_detectors_of_one_loss_are_scored_on_its_runs_only():
    made = planned(
        factors=[{"field": "loss", "levels": ["cross_entropy", "logistic", "label_smoothing"]}],
        detectors=["energy", "score_svm", "logistic_svm"],
    )
    assert {run.spec.loss: list(run.scores) for run in made.runs} == {
        "cross_entropy": ["energy", "score_svm"],
        "logistic": ["energy", "logistic_svm"],
        "label_smoothing": ["energy", "score_svm"],
    }


def test_a_named_detector_of_no_loss_here_is_refused():
    study = parse_study(
        {"name": "x", "base": {"data": "digits"}, "ood": ["inverted"],
         "detectors": ["energy", "logistic_svm"]}, "study",
    )  # fmt: skip
    said = "'logistic_svm' is meant for classifiers with the loss logistic; those of study 'x' have"
    with pytest.raises(UserError, match=said):
        make_plan(study, read_contents(study))
