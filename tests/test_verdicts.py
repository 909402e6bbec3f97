"""Verdicts and the numbers beside them, in contests and tables whose answer is known by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_ind, ttest_rel

from oodometer.finding import Table
from oodometer.metrics import Estimate
from oodometer.protocols.common.cells import cells_of
from oodometer.protocols.common.comparisons import Comparison, compare_all, flip_claims, judge
from oodometer.protocols.common.differences import Paired, paired_differences
from oodometer.protocols.instability.spreads import spreads
from oodometer.protocols.ranking.protocol import ranking_of
from oodometer.protocols.robustness.comparisons import mean_difference
from oodometer.protocols.robustness.protocol import robustness_of
from oodometer.protocols.robustness.runs import Runs
from oodometer.protocols.robustness.scored import arrange
from oodometer.results import Results
from oodometer.stats.comparison import Difference
from oodometer.stats.deviation import deviation_interval


def contest(place, first, other, p_value, gap=0.03):
    """One of two detectors ahead by `gap`, give or take two thirds of it; smaller is better."""
    lead = Difference(-gap, -gap * 5 / 3, -gap / 3, p_value)  # the other less the first
    return Comparison(place, (first, other), {first: -0.9, other: -0.9 + gap}, {other: lead})


def test_a_lead_that_turns_must_be_sure_on_both_sides():
    sure, unsure = contest("sgd", "a", "b", 0.01), contest("adam", "b", "a", 0.2)
    assert judge([sure, unsure]) == "undecided" and judge([unsure, sure]) == "undecided"
    assert judge([sure, contest("adam", "b", "a", 0.01)]) == "flips"
    assert judge([sure, contest("adam", "a", "b", 0.04)]) == "holds"
    assert judge([sure, contest("adam", "a", "b", 0.05)]) == "undecided"
    assert judge([]) == "undecided"


def test_what_flips_is_told_as_the_first_less_the_other():
    held = [contest("sgd", "a", "b", 0.01), contest("adam", "b", "a", 0.02)]
    (claim,) = flip_claims({"optimizer": held, "width": [contest("8", "a", "b", 0.01)]})
    assert claim.text.startswith("Which detector is best depends on the optimizer: a with sgd")
    assert claim.text.endswith("b with adam.")
    for part in ("sgd: +3.0 points [+1.0, +5.0]", "p = 0.01 for a against b", "p = 0.02 for b"):
        assert part in claim.evidence


def test_every_place_is_a_chance_to_err():
    """Two places at p = 0.03 each: 0.06 by Holm's rule, and nothing is told."""
    places = {"here": {"a": 1.0, "b": 2.0}, "there": {"a": 1.0, "b": 2.0}}
    found = compare_all(places, lambda place, other, first: Difference(1.0, 0.0, 2.0, 0.03))
    assert [one.leads["b"].p_value for one in found] == pytest.approx([0.06, 0.06])
    assert judge(found) == "undecided"


def table_of(value, *, metric="auroc", higher=True, seeds=5, **factors):
    """Results in which every combination of levels has a value on two outlier sets."""
    factors = {**factors, "seed": range(seeds)}
    grid = pd.MultiIndex.from_product(factors.values(), names=factors.keys()).to_frame(index=False)
    lines = [
        {"detector": d, "ood": ood, **levels, "value": value(d, ood, levels)}
        for d in "abc" for ood in ("near", "far") for levels in grid.to_dict("records")
    ]  # fmt: skip
    return Results(pd.DataFrame(lines), tuple(factors), metric, higher)


def turned_by_the_optimizer(seed, noise):
    """FPRs, of which less is better: a is best with sgd, b with adam, c never."""
    rng = np.random.default_rng(seed)

    def fpr(detector, ood, levels):
        own = {"sgd": {"a": 0.1, "b": 0.3}, "adam": {"a": 0.3, "b": 0.1}}[levels["optimizer"]]
        return own.get(detector, 0.6) + rng.normal(0, noise)

    return table_of(fpr, metric="fpr95", higher=False, optimizer=["sgd", "adam"])


def judged(results):
    return ranking_of(results, np.random.default_rng(0))


def test_a_condition_turns_the_order_of_a_metric_of_which_less_is_better():
    made = turned_by_the_optimizer(seed=1, noise=0.01)
    (told,) = [c for c in judged(made).claims if "depends on the optimizer" in c.text]
    assert told.verdict == "flips"
    assert "a with sgd" in told.text and "b with adam" in told.text and "c with" not in told.text


def test_a_change_within_chance_is_no_flip_among_many_factors():
    """Three factors, told in one sentence: winners change, by nothing but training again."""
    rng = np.random.default_rng(2)
    made = table_of(
        lambda d, ood, levels: rng.normal(0.8, 0.02),
        seeds=4, optimizer=["sgd", "adam"], width=[8, 16],
    )  # fmt: skip
    (told,) = [c for c in judged(made).claims if "Changing one factor alone" in c.text]
    assert "not significant" in told.text
    # The seed is no condition: another winner under another seed does flip.
    assert told.verdict == "flips"
    alone = Results(
        made.frame.query("seed == 0").assign(depth=lambda f: f["width"] // 8), made.factors
    )
    for claim in judged(alone).claims:
        assert "Changing" not in claim.text or claim.verdict == "undecided"


def test_a_share_holds_only_if_its_interval_does():
    """Four trainings: the set explains most, yet the interval goes far below one half."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(10):
        runs = rng.normal(0, 0.02, 5)
        made = table_of(lambda d, ood, levels, runs=runs: 0.7 + 0.02 * (ood == "far")
                        + runs[levels["seed"]] + rng.normal(0, 0.01))  # fmt: skip
        for claim in judged(made).claims:
            if claim.text.startswith("Of the variance of"):
                low = int(claim.evidence.split("first ")[1].split("%")[0])
                assert (claim.verdict == "holds") <= (low >= 50)
                held += claim.verdict == "holds"
            elif "explains" in claim.text and "interval of the share" in claim.evidence:
                low = int(claim.evidence.split("share ")[1].split("%")[0])
                following = int(claim.evidence.split("next ")[1].split("to ")[1].split("%")[0])
                assert claim.verdict != "holds" or low >= following
    assert held <= 3


def test_ends_of_shares_hold_their_values():
    rng = np.random.default_rng(4)
    runs = rng.normal(0, 0.02, 6)
    made = table_of(
        lambda d, ood, levels: 0.8 + runs[levels["seed"]] + 0.01 * levels["epoch"]
        + rng.normal(0, 0.01),
        seeds=6, epoch=[1, 2, 3],
    )  # fmt: skip
    (shares,) = [t for t in judged(made).tables if isinstance(t, Table) and t.name == "shares"]
    cells = [cell for row in shares.rows for cell in row if isinstance(cell, Estimate)]
    assert len(cells) >= 6
    for cell in cells:
        assert 0.0 <= cell.low <= cell.value <= cell.high <= 1.0 and cell.low < cell.high
    for row in shares.rows:  # of two parts, the one has what the other has not
        one, other = row[1:3]
        assert math.isclose(one.low, 1.0 - other.high) and math.isclose(one.high, 1.0 - other.low)


# ---- robustness ----------------------------------------------------------------------------------


def runs(values, names="abcdef"):
    return Runs(tuple(names[: len(values)]), np.array(values), np.zeros(len(values)))


def test_means_over_levels_are_compared_by_scipys_tests():
    rng = np.random.default_rng(5)
    a, b, c, d = rng.normal(90, 2, (4, 5))
    found = mean_difference([(runs(a), runs(b))])
    assert found.p_value == pytest.approx(ttest_rel(a, b).pvalue)
    assert (found.low, found.high) == pytest.approx(ttest_rel(a, b).confidence_interval())
    apart = mean_difference([(runs(a), runs(b[:4], "uvwxyz"))])
    assert apart.p_value == pytest.approx(ttest_ind(a, b[:4], equal_var=False).pvalue)
    # Half the sum of two means: Welch's test of the one against the other with its sign turned.
    both = mean_difference([(runs(a), runs(b)), (runs(c), runs(d))])
    expected = ttest_ind(a - b, d - c, equal_var=False)
    assert both.p_value == pytest.approx(expected.pvalue)
    ends = expected.confidence_interval()
    assert (both.low, both.high) == pytest.approx((ends.low / 2, ends.high / 2))


def test_the_best_mean_of_a_metric_of_which_less_is_better_is_the_lowest():
    made = turned_by_the_optimizer(seed=6, noise=0.005)
    (told,) = [c for c in robustness_of(made).claims if "with the optimizer" in c.text]
    assert told.verdict == "flips"
    assert "a under sgd" in told.evidence and "b under adam" in told.evidence


def test_stated_spreads_are_of_the_same_unit_as_their_means():
    lines = [{"detector": "a", "ood": "o", "optimizer": o, "value": 0.9, "spread": 0.02}
             for o in ("sgd", "adam", "sam")]  # fmt: skip
    field = arrange(Results(pd.DataFrame(lines), ("optimizer",)))
    for cell in field.cells.values():
        assert cell.moments == pytest.approx((90.0, 4.0))  # in percent
    (score,) = field.detector_scores.values()
    assert score.value == pytest.approx(2.0 / 90.0)


def test_levels_that_all_agree_have_equal_weights():
    made = table_of(lambda d, ood, levels: {"sgd": 0.9, "adam": 0.8, "sam": 0.7}[levels["by"]],
                    by=["sgd", "adam", "sam"])  # fmt: skip
    scores = arrange(made).detector_scores.values()
    assert [score.heaviest for score in scores] == pytest.approx([1 / 3] * len(scores))


def test_differences_of_shares_stay_within_one():
    pair = Paired(np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0]))
    (found,) = paired_differences({"x": pair}, np.random.default_rng(0)).values()
    assert (found.low, found.high) == (-1.0, 1.0)


# ---- instability ---------------------------------------------------------------------------------


def test_flips_beyond_chance_are_those_of_scipys_one_sided_tests():
    rng = np.random.default_rng(7)
    drawn = {(o, d): rng.normal(0.8 + 0.01 * ((o == "sgd") == (d == "a")), 0.006, 4)
             for o in ("sgd", "adam") for d in "abc"}  # fmt: skip
    made = table_of(lambda d, ood, levels: drawn[levels["optimizer"], d][levels["seed"]],
                    seeds=4, optimizer=["sgd", "adam"])  # fmt: skip
    part = spreads(cells_of(made), "optimizer", published=False)[0]
    ahead = ttest_rel(drawn["sgd", "a"], drawn["sgd", "b"], alternative="greater").pvalue
    behind = ttest_rel(drawn["adam", "b"], drawn["adam", "a"], alternative="greater").pvalue
    needed = max(ahead, behind)  # both must be beyond chance
    assert 0.001 < needed < 0.4
    assert part.significantly_flipped(1.001 * needed)[0, 1]
    assert not part.significantly_flipped(0.999 * needed)[0, 1]


def test_runs_that_agree_to_the_last_digit_prove_no_more_than_their_signs():
    made = table_of(lambda d, ood, levels: 0.75 + 0.125 * ((levels["by"] == "x") == (d == "a")),
                    seeds=3, by=["x", "y"])  # fmt: skip
    part = spreads(cells_of(made), "by", published=False)[0]
    assert part.significantly_flipped(0.126)[0, 1]  # 1 / 2^3
    assert not part.significantly_flipped(0.124)[0, 1]


def test_shares_deviate_by_one_half_at_most():
    found = deviation_interval(np.array([0.05, 0.95, 0.1]), np.zeros(3, dtype=np.int64), 0.95)
    assert found.high <= max(found.value, 0.5) and found.low < found.value
