"""What detectors are fitted to: what was trained on, or the clean validation part."""

import numpy as np
import pytest

from oodometer.engine.lead.run import make_plan, read_contents, run_study
from oodometer.engine.plan.plan import plan
from oodometer.engine.plan.trainings import DataContent
from oodometer.engine.stores import MemoryStore
from oodometer.engine.work.codecs import bytes_to_arrays
from oodometer.errors import UserError
from oodometer.lab.data.portions import split_portions
from oodometer.lab.data.sources import load_source
from oodometer.scoring import choices
from oodometer.study import parse_study


def make_study(data, **base):
    content = {
        "name": "fitted",
        "base": {"data": data, "network": "mlp", "width": 4, "epochs": 1, **base},
        "factors": [{"field": "fitted_on", "levels": ["train", "validation"]}],
        "detectors": ["max_softmax", "mahalanobis", "mahalanobis_ensemble"],
        "ood": ["uniform_noise"],
    }
    return parse_study(content, "study")


def test_detectors_see_the_clean_validation_part(tiny_npz):
    study = make_study(tiny_npz(), validation=0.4, label_noise="uniform(rate=0.5)")
    store = MemoryStore()
    outcome = run_study(study, store)
    assert not outcome.missing
    made = make_plan(study, read_contents(study))
    trained, validated = made.runs
    assert trained.training == validated.training and trained.outputs == validated.outputs
    source = load_source(study.base)
    part, aside = split_portions(study.base, source.train, source.classes)
    for run, expected in ((trained, part), (validated, aside)):
        kept = bytes_to_arrays(store.load("outputs", run.train_outputs))
        np.testing.assert_array_equal(kept["labels"], expected.labels)
    assert len(list(store.keys("models"))) == 1  # one training serves both

    def scores(run, label):
        key = run.scores[label]["uniform noise"]
        return next(iter(bytes_to_arrays(store.load("scores", key)).values()))

    np.testing.assert_array_equal(*(scores(run, "max_softmax") for run in made.runs))
    for label in ("mahalanobis", "mahalanobis_ensemble"):  # the second reads a probe
        assert not np.array_equal(*(scores(run, label) for run in made.runs)), label


def test_keys_tell_what_was_fitted_to():
    study = make_study("digits")
    content = DataContent("digits", "t", "i", {"noise": "n"}, validation="v")
    other = DataContent("digits", "t", "i", {"noise": "n"}, validation="w")

    def keys(held):
        trained, validated = plan(study, dict.fromkeys(study.runs(), held), choices(("knn",))).runs
        return trained.train_outputs, validated.train_outputs

    one, two = keys(content), keys(other)
    assert len({*one, *two}) == 4  # another validation part is another training here, too


def test_without_validation_samples_it_is_refused_before_anything_is_trained(tiny_npz):
    with pytest.raises(
        UserError, match=r"fitted_on is 'validation', but no sample .* is set aside"
    ):
        run_study(make_study(tiny_npz()), MemoryStore())
    with pytest.raises(UserError, match="Unknown value of 'base.fitted_on' 'test'"):
        make_study("digits", fitted_on="test")
