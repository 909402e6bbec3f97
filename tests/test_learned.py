"""Classifiers that did not learn: who they are, what is said of them, what is left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_studies import make_study, run_inside
from scipy import stats

from oodometer.engine.stores import FolderStore
from oodometer.errors import UserError
from oodometer.finding import Finding
from oodometer.protocols.common.learned import is_above_chance, judge_learning, unlearned
from oodometer.score_files import table_from_bytes, table_to_bytes
from oodometer.scores import Missing, ScoreRow, ScoreTable
from oodometer.study import parse_study

SAMPLES = 2000


def right(accuracy: float) -> np.ndarray:
    return np.arange(SAMPLES) < round(accuracy * SAMPLES)


def made(accuracies: dict[str, float], runs: dict[str, dict[str, object]] | None = None):
    """A table of two detectors whose classifiers have these accuracies, one per seed."""
    runs = runs or {run: {"seed": number} for number, run in enumerate(accuracies)}
    rng = np.random.default_rng(0)
    rows = [
        ScoreRow(run, detector, "", name, rng.normal(name == "far", size=SAMPLES))
        for run in runs
        for detector in ("knn", "energy")
        for name in ("id", "far")
    ]
    correct = {run: right(accuracy) for run, accuracy in accuracies.items()}
    return ScoreTable("id", tuple(rows), runs, correct=correct, chance=dict.fromkeys(runs, 0.1))


def failed(table: ScoreTable) -> set[str]:
    return {run for part in unlearned(table) for run in part.runs}


@pytest.mark.parametrize(("samples", "chance"), [(20, 0.1), (300, 0.1), (2000, 0.1135), (50, 0.5)])
def test_chance_is_that_of_the_exact_binomial_test(samples, chance):
    for hits in range(samples + 1):
        p_value = stats.binomtest(hits, samples, chance, alternative="greater").pvalue
        assert is_above_chance(hits, samples, chance) == (p_value <= 0.01)


def test_guessing_is_found_whatever_the_siblings_do():
    assert failed(made({"a": 0.101, "b": 0.99})) == {"a"}
    assert failed(made({"a": 0.101, "b": 0.099})) == {"a", "b"}
    assert failed(made({"a": 0.12, "b": 0.9})) == set(), "above chance, and no median of two"
    assert failed(made({"a": 0.09, "b": 0.1, "c": 0.09, "d": 0.9})) == {"a", "b", "c"}


def test_far_below_the_other_seeds_is_found():
    seeds = {"a": 0.85, "b": 0.856, "c": 0.847, "d": 0.61, "e": 0.852}
    assert failed(made(seeds)) == {"d"}
    assert failed(made(seeds | {"d": 0.81})) == set(), "less than 5 points below"
    wide = {"a": 0.45, "b": 0.56, "c": 0.32, "d": 0.5, "e": 0.6}
    assert failed(made(wide)) == set(), "such differences are usual among these runs"


def test_equal_classifiers_are_hardly_ever_thought_to_have_failed():
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(300):
        levels = {str(n): {"seed": n} for n in range(5)}
        values = {run: right(rng.normal(0.85, 0.01)) for run in levels}
        alarms += bool(unlearned(ScoreTable("id", (), levels, correct=values)))
    assert alarms <= 1, "a spread of one point, which is large for retraining"


def test_conditions_may_differ_and_evaluations_share_their_classifier():
    levels = {
        f"{noise}, {seed}, {epoch}": {"label_noise": noise, "seed": seed, "epoch": epoch}
        for noise in ("none", "uniform(rate=0.4)")
        for seed in (0, 1, 2)
        for epoch in (1, 9)
    }
    accuracies = {
        run: 0.1 if at["epoch"] == 1 else 0.9 if at["label_noise"] == "none" else 0.6
        for run, at in levels.items()
    }
    assert failed(made(accuracies, levels)) == set(), "noisy labels, and an early epoch"
    assert judge_learning(made(accuracies, levels), expected=0.6).caveats == ()
    (caveat,) = judge_learning(made(accuracies, levels), expected=0.7).caveats
    assert "3 of 6 classifiers did not reach it, the lowest, uniform(rate=0.4), 0, 9, is" in caveat
    accuracies["none, 1, 9"] = 0.6
    assert failed(made(accuracies, levels)) == {"none, 1, 1", "none, 1, 9"}


def test_what_did_not_learn_is_left_out_and_named():
    table = made({"a": 0.85, "b": 0.856, "c": 0.101, "d": 0.83})
    judged = judge_learning(table, expected=0.84)
    assert list(judged.table.runs) == ["a", "b", "d"]
    assert {row.run for row in judged.table.rows} == {"a", "b", "d"}
    assert set(judged.table.correct) == set(judged.table.chance) == {"a", "b", "d"}
    assert judged.caveats == (
        "1 of 4 classifiers did not learn and is left out: c (test accuracy 10.1%, chance 10.0%).",
        "The study expects a test accuracy of at least 84.0%; 1 of 3 classifiers did not reach "
        "it, the lowest, d, is 83.0%.",
    )
    assert judged.left_out == ("run c: left out, its classifier did not learn",)
    kept = judge_learning(table, keep=True)
    assert kept.table is table and kept.left_out == ()
    assert kept.caveats[0].startswith("1 of 4 classifiers did not learn: c (")


def test_where_none_learned_the_other_gaps_are_named_too():
    gaps = (Missing("out of memory", "b"), Missing("no gradient", "a", "odin", lasting=True))
    judged = judge_learning(replace(made({"a": 0.1}), missing=gaps))
    assert judged.table is None
    told = judged.tell(Finding("ranking", "Ranking", "Which is best?", ()))
    assert told.missing == (
        "run b: out of memory",
        "Not applicable to this network: odin (no gradient).",
        "run a: left out, its classifier did not learn",
    )


def test_chance_survives_a_file_and_older_files_have_none():
    table = made({"a": 0.85})
    again = table_from_bytes(table_to_bytes(table))
    assert again.chance == {"a": 0.1}
    assert unlearned(replace(table, correct={"a": right(0.1)}, chance={})) == ()


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """A study whose second classifier cannot learn: its learning rate is next to nothing."""
    store = FolderStore(tmp_path_factory.mktemp("store") / "store")
    factors = [{"field": "learning_rate", "levels": [1e-2, 1e-9]},
               {"field": "seed", "levels": [0, 1]}]  # fmt: skip
    base = {"data": "digits", "network": "mlp", "width": 8, "epochs": 6, "train_size": 600}
    given = {"base": base, "factors": factors, "detectors": ["max_softmax", "energy"]}
    given |= {"protocols": ["ranking", "instability"]}
    study = make_study("digits", **given, accuracy=0.99, keep_unlearned=False)
    kept = make_study("digits", **given)
    return run_inside(study, store), run_inside(kept, store)


def test_a_study_says_so_first_and_leaves_them_out(outcomes):
    left_out, kept = outcomes
    for finding in left_out.findings:
        assert finding.caveats[0].startswith("2 of 4 classifiers did not learn and are left out: ")
        assert "expects a test accuracy of at least 99.0%" in finding.caveats[1]
        assert (
            sum("left out, its classifier did not learn" in line for line in finding.missing) == 2
        )
    for finding in kept.findings:
        assert finding.caveats[0].startswith(
            "2 of 4 classifiers did not learn: learning_rate=1e-09"
        )
        assert not any("left out" in line for line in finding.missing)
    assert left_out.findings[0].claims != kept.findings[0].claims


def test_the_answer_of_a_page_says_so_once(outcomes):
    left_out, kept = ([finding.answer for finding in own.findings] for own in outcomes)
    assert left_out[0].endswith(" 2 of 4 classifiers did not learn and are left out.")
    assert kept[0].endswith(
        " 2 of 4 classifiers did not learn: what detectors do then says little."
    )
    assert not any("did not learn" in answer for answer in (*left_out[1:], *kept[1:]))


def test_a_page_without_any_answer_says_that_no_classifier_learned():
    judged = judge_learning(made({"a": 0.1}))
    bare = Finding("ranking", "Ranking", "Which is best?", ())
    told = "No classifier learned: there is nothing to compare."
    assert judged.tell(bare, is_first=True).answer == told
    assert judged.tell(bare).answer == ""


def test_scales_have_their_own_accuracy():
    content = {
        "name": "x", "base": {"data": "digits"}, "ood": ["rotated"], "accuracy": 0.9,
        "scales": {"smoke": {"keep_unlearned": True}, "small": {"accuracy": 0.7}},
    }  # fmt: skip
    study = parse_study(content, "study")
    assert study.accuracy == 0.9 and not study.keep_unlearned
    assert study.at_scale("smoke").accuracy == 0 and study.at_scale("smoke").keep_unlearned
    assert study.at_scale("small").accuracy == 0.7 and not study.at_scale("small").keep_unlearned
    with pytest.raises(UserError, match="accuracy"):
        parse_study(content | {"accuracy": 85}, "study")
