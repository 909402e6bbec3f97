"""Telling apart by paired cases: levels in worlds without any difference, and known p values."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.finding import Claim
from oodometer.protocols.common.comparisons import compare_all, judge, number_of_pairs
from oodometer.protocols.common.families import Asked, answers
from oodometer.stats.comparison import Difference, against_best, holm, over_families
from oodometer.stats.paired import t_test


def held(rng, *, detectors, places, runs=6):
    """Contests between detectors that do not differ anywhere."""
    values = rng.normal(size=(places, detectors, runs))
    means = {
        f"p{place}": {f"d{d}": -float(row.mean()) for d, row in enumerate(rows)}
        for place, rows in enumerate(values)
    }

    def compare(place, other, first):
        rows = values[int(place[1:])]
        test = t_test(rows[int(first[1:])], rows[int(other[1:])])
        return Difference(test.value, 0.0, 0.0, test.p_value)

    return compare_all(means, compare)


@pytest.mark.parametrize(("detectors", "places"), [(8, 1), (4, 5), (2, 8)])
def test_whoever_is_first_by_chance_is_seldom_told_from_anybody(detectors, places):
    """Holm over the tests of the first alone tells 8 equal ones apart in 11 %."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(300):
        found = held(rng, detectors=detectors, places=places)
        wrong += any(len(one.tied) < len(one.leads) for one in found)
    assert wrong <= 27  # 5 % of 300 is 15; 27 is beyond the 99.8 % point of the binomial


def test_equals_seldom_hold_and_seldom_flip():
    rng = np.random.default_rng(1)
    verdicts = [judge(held(rng, detectors=3, places=4)) for _ in range(200)]
    assert verdicts.count("flips") + verdicts.count("holds") <= 4


def test_families_of_one_are_holm_s_rule():
    rng = np.random.default_rng(2)
    for _ in range(20):
        p = rng.random(6) ** 3
        assert np.concatenate(over_families([[one] for one in p])) == pytest.approx(holm(p))


def test_a_family_that_is_rejected_as_a_whole_leaves_its_level_to_the_others():
    """By hand: 2 x 0.01 for the first; after it, the second is alone."""
    first, second = over_families([[0.001, 0.01], [0.04, 0.2]])
    assert first == pytest.approx([0.002, 0.02])
    assert second == pytest.approx([0.04, 0.2])
    # Not before: the first is not rejected below 2 x 0.03, nor is anything else on its account.
    first, second = over_families([[0.001, 0.03], [0.04, 0.2]])
    assert first == pytest.approx([0.002, 0.06]) and second == pytest.approx([0.06, 0.2])
    assert over_families([]) == []
    (alone,) = over_families([against_best([0.01, 0.03])])
    assert alone == pytest.approx(against_best([0.01, 0.03]))


def test_contests_count_all_pairs():
    assert number_of_pairs({"a": {"x": 1.0, "y": 2.0, "z": 3.0}, "b": {"x": 1.0, "y": 0.0}}) == 4


def test_a_question_is_opened_by_holm_s_rule_for_all():
    seen = {}

    def asked(name, p_values, overall=None):
        def tell(adjusted):
            seen[name] = adjusted
            return [Claim(name, "undecided", "")]

        return Asked(p_values, tell, overall)

    questions = [asked("first", [0.01, 0.04]), asked("second", [0.5]), asked("none", [])]
    assert [claim.text for claim in answers(questions).claims] == ["first", "second", "none"]
    assert seen == {"first": [pytest.approx(0.03), 0.04], "second": [1.0], "none": []}
    # What is plain of the mean over detectors opens the question for each of them.
    answers([asked("mean", [0.04, 0.06], overall=0.001), asked("second", [0.5])])
    assert seen["mean"] == [0.04, 0.06]
    answers([asked("mean", [0.04, 0.06], overall=0.03), asked("second", [0.5])])
    assert seen["mean"] == [pytest.approx(0.12)] * 2
