"""Tuning: by hand, by brute force, and as a world with nothing to gain."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from oodometer.errors import UserError
from oodometer.stats.tuning import sensitivity, tuning_leave_one_out


def generator(seed=0):
    return np.random.default_rng(seed)


def half(size, rng):
    """Mark half of the samples at random."""
    return rng.permutation(size) < size // 2


def area(id_scores, ood_scores):
    truth = np.r_[np.zeros(len(id_scores)), np.ones(len(ood_scores))]
    return roc_auc_score(truth, np.r_[id_scores, ood_scores])


def grid(rng, shifts, size=40):
    """Scores of settings whose separation per outlier set is given: {setting: {set: shift}}."""
    return {
        setting: {"id": rng.normal(size=size)}
        | {name: rng.normal(shift, 1, size) for name, shift in sets.items()}
        for setting, sets in shifts.items()
    }


def test_choices_by_brute_force():
    rng = generator(1)
    shifts = {
        f"k={k}": {name: rng.uniform(0, 2) for name in ("near", "far", "odd")} for k in range(6)
    }
    scores = grid(rng, shifts)
    seen = half(40, rng)
    every = tuning_leave_one_out(scores, id="id", default="k=2", id_validation=seen)
    assert [one.test for one in every] == [("near",), ("far",), ("odd",)]
    found = every[1]
    assert found.validation == ("near", "odd")
    validation = {
        s: np.mean([area(sets["id"][seen], sets[name]) for name in ("near", "odd")])
        for s, sets in scores.items()
    }
    test = {s: area(sets["id"][~seen], sets["far"]) for s, sets in scores.items()}
    best = max(validation, key=validation.get)
    assert found.tuned == (best, pytest.approx(validation[best]), pytest.approx(test[best]))
    assert found.default == ("k=2", pytest.approx(validation["k=2"]), pytest.approx(test["k=2"]))
    assert found.oracle.setting == max(test, key=test.get)
    assert found.gain == pytest.approx(test[best] - test["k=2"])
    assert found.optimism == pytest.approx(max(test.values()) - test[best])


def test_first_of_equals_wins():
    rng = generator(3)
    base = {"id": rng.normal(size=20), "a": rng.normal(1, 1, 20), "b": rng.normal(1, 1, 20)}
    scores = {
        "first": base,
        "monotone": {name: np.exp(vector) for name, vector in base.items()},
    }
    for one in tuning_leave_one_out(
        scores, id="id", default="monotone", id_validation=half(20, rng)
    ):
        assert one.tuned.setting == one.oracle.setting == "first"
        assert one.gain == one.optimism == 0.0


def test_equal_settings_gain_nothing_but_the_oracle_claims():
    """Settings that are all alike: honest tuning gains 0 on average, the oracle a clear plus."""
    rng = generator(4)
    gains, claims = [], []
    for _ in range(150):
        scores = grid(rng, {f"k={k}": {"a": 1.0, "b": 1.0} for k in range(8)})
        for one in tuning_leave_one_out(
            scores, id="id", default="k=0", id_validation=half(40, rng)
        ):
            gains.append(one.gain)
            claims.append(one.optimism)
    error = np.std(gains) / np.sqrt(len(gains))
    assert abs(np.mean(gains)) < 4 * error
    assert np.mean(claims) > 0.05 and min(claims) >= 0.0


def test_a_better_setting_is_found():
    rng = generator(5)
    scores = grid(rng, {"bad": {"a": 0.1, "b": 0.1}, "good": {"a": 2.0, "b": 2.0}}, size=200)
    for one in tuning_leave_one_out(scores, id="id", default="bad", id_validation=half(200, rng)):
        assert one.tuned.setting == "good" and one.gain > 0.3 and one.optimism == 0.0


def test_sensitivity_curve():
    rng = generator(6)
    scores = grid(rng, {"k=1": {"a": 0.5, "b": 2.0}, "k=9": {"a": 1.5, "b": 1.0}})
    found = sensitivity(scores, id="id")
    expected = {
        setting: pytest.approx(np.mean([area(sets["id"], sets[name]) for name in "ab"]))
        for setting, sets in scores.items()
    }
    assert found == expected


def test_refusals():
    scores = grid(generator(7), {"x": {"a": 1.0, "b": 1.0}}, size=6)
    seen = half(6, generator())
    common = {"id": "id", "default": "x", "id_validation": seen}
    for call, message in (
        (lambda: tuning_leave_one_out(scores, **common | {"default": "y"}), "Unknown setting 'y'"),
        (lambda: tuning_leave_one_out({}, **common), "scores holds no setting"),
        (
            lambda: tuning_leave_one_out(scores, **common | {"id_validation": np.ones(6, bool)}),
            "must leave ID samples",
        ),
        (
            lambda: tuning_leave_one_out(scores, **common | {"id_validation": [0, 1]}),
            "must be 6 booleans",
        ),
        (
            lambda: tuning_leave_one_out(
                scores | {"y": {"id": [1.0], "a": [1.0], "b": [1.0]}}, **common
            ),
            "Setting 'y' has 1 scores on 'id' where the first has 6",
        ),
        (lambda: sensitivity({"x": {"id": [1.0]}}, id="id"), "no data set besides 'id'"),
        (lambda: sensitivity({"x": {"a": [1.0]}}, id="id"), "Unknown data set of setting 'x' 'id'"),
        (
            lambda: tuning_leave_one_out({"x": {"id": [1.0, 2], "a": [1.0]}}, **common),
            "two outlier sets",
        ),
    ):
        with pytest.raises(UserError, match=message):
            call()
