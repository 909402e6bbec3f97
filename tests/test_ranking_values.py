"""Who is best in a results table: worlds with a known answer."""

import re

import numpy as np
import pandas as pd
import pytest

from oodometer.analysis import analyze
from oodometer.errors import UserError
from oodometer.protocols import score_protocol
from oodometer.protocols.common.cases import cases_of
from oodometer.protocols.ranking.protocol import ranking, ranking_of
from oodometer.protocols.ranking.shares import share_claims, shares_of
from oodometer.results import Results
from oodometer.scores import ScoreRow, ScoreTable
from oodometer.stats.power import t_test_power


def world(means, *, runs, spread, seed=0, sets=("near", "far"), shared=0.02):
    """Detectors with true means; every run shifts all of them, and each a little on its own."""
    rng = np.random.default_rng(seed)
    lines = []
    for run in range(runs):
        shift = rng.normal(0, shared)
        for name, mean in means.items():
            for place, ood in enumerate(sets):
                value = mean + shift + rng.normal(0, spread) - 0.01 * place
                lines.append({"detector": name, "ood": ood, "seed": run, "value": value})
    return Results(pd.DataFrame(lines), ("seed",))


def texts(finding):
    """Verdicts and sentences; of several that stay open and are told as one, all of them."""
    return [
        (claim.verdict, claim.evidence if "not settle" in claim.text else claim.text)
        for claim in finding.claims
    ]


def judged(results, seed=0):
    return ranking_of(results, np.random.default_rng(seed))


def test_a_best_detector_is_found_although_runs_differ_more_than_detectors():
    finding = judged(world({"a": 0.85, "b": 0.83, "c": 0.7}, runs=12, spread=0.004, shared=0.05))
    verdict, text = texts(finding)[0]
    assert verdict == "holds"
    assert text.endswith("and after retraining it is significantly ahead of b and c.")


def test_without_a_difference_none_is_found_more_often_than_the_level():
    found = 0
    for seed in range(100):
        finding = judged(world({"a": 0.8, "b": 0.8, "c": 0.8}, runs=6, spread=0.01, seed=seed))
        found += any("ahead of" in text for _, text in texts(finding))
    # The best of three is chosen by its results, and must beat both of the others.
    assert found <= 100 * 0.05 + 2 * np.sqrt(100 * 0.05 * 0.95)


def test_one_run_is_never_a_finding():
    finding = judged(world({"a": 0.9, "b": 0.1}, runs=1, spread=0.0, sets=("far",)))
    assert all(verdict == "undecided" for verdict, _ in texts(finding))
    assert any("one number per detector" in caveat for caveat in finding.caveats)


def test_with_one_run_the_outlier_sets_are_the_cases():
    finding = judged(world({"a": 0.9, "b": 0.5}, runs=1, spread=0.01, sets=tuple("uvwxyz")))
    assert any("not about retraining" in caveat for caveat in finding.caveats)
    verdict, text = texts(finding)[0]
    assert verdict == "holds" and "over 6 outlier sets in this single run" in text
    assert text.endswith("and on other outlier sets like these it is significantly ahead of b.")


def test_single_numbers_on_each_set_do_not_flip():
    """One run of equal detectors: another is first on some set, which may well be chance."""
    finding = judged(
        world({"a": 0.8, "b": 0.8, "c": 0.8}, runs=1, spread=0.02, sets=list("uvwxyz"))
    )
    (claim,) = [c for c in finding.claims if "ranks first on" in c.text]  # said once
    assert claim.verdict == "undecided"
    assert "in this single run" in finding.claims[0].text
    assert "not separable" in finding.claims[0].text


def test_a_shared_first_place_does_not_flip():
    values = {"A": (0.88, 1.0), "B": (0.88, 0.88), "C": (0.8, 0.81)}
    lines = [{"detector": name, "ood": ood, "value": value}
             for name, own in values.items()
             for ood, value in zip("st", own, strict=True)]  # fmt: skip
    finding = judged(Results(pd.DataFrame(lines), ()))
    firsts = "A ranks first on both outlier sets (once together with another)."
    assert ("undecided", firsts) in texts(finding)
    (means,) = [table for table in finding.tables if table.name == "means"]
    assert means.rows[1][1] == 0.88  # two equal values tell nothing about their spread


def test_few_runs_without_exception_say_why_they_do_not_decide():
    finding = judged(world({"a": 0.9, "b": 0.5}, runs=3, spread=0.001))
    (claim,) = [c for c in finding.claims if "ranks first in all 3 runs" in c.text]
    assert finding.claims[0].verdict == "holds" and claim.verdict == "undecided"
    assert claim.text.endswith("but 3 runs are too few to say that it always does.")


def test_stated_means_are_not_called_one_run():
    table = pd.DataFrame(
        [["msp", "91.2±0.3", "90.1±0.2"], ["knn", "93.1±0.2", "89.0±0.5"]],
        columns=["method", "svhn", "dtd"],
    )
    said = [f.claims[0].text for f in analyze(table) if f.protocol == "ranking"]
    assert said and all("by the stated means" in t and "one run" not in t for t in said)


def test_a_difference_too_small_to_find_is_not_called_none():
    values = {"a": [0.8, 0.7, 0.9, 0.8], "b": [0.7, 0.8, 0.9, 0.8 - 1e-6]}
    lines = [{"detector": name, "ood": "far", "seed": seed, "value": value}
             for name, own in values.items() for seed, value in enumerate(own)]  # fmt: skip
    said = [c.text for c in judged(Results(pd.DataFrame(lines), ("seed",))).claims]
    assert any("would take more than 1,000 runs" in text for text in said)
    assert not any("do not differ" in text or "No number" in text for text in said)


def test_lower_is_better_turns_the_order():
    table = world({"a": 0.2, "b": 0.5}, runs=8, spread=0.01)
    finding = judged(Results(table.frame, table.factors, "fpr95", higher_is_better=False))
    assert texts(finding)[0][1].startswith("a has the lowest mean FPR@95TPR")


def test_identical_detectors_cannot_be_told_apart():
    table = world({"a": 0.8}, runs=10, spread=0.05).frame
    both = pd.concat([table, table.assign(detector="b")], ignore_index=True)
    finding = judged(Results(both, ("seed",)))
    assert texts(finding)[0][1].startswith("a and b share the highest mean AUROC")
    assert any("No number of runs would separate" in text for _, text in texts(finding))


def test_one_dominating_factor_is_named_with_its_share():
    rng = np.random.default_rng(5)
    lines = [
        {"detector": name, "ood": "far", "optimizer": optimizer, "seed": seed,
         "value": mean + shift + rng.normal(0, 0.002)}
        for name, mean in (("a", 0.8), ("b", 0.7))
        for optimizer, shift in (("sgd", 0.0), ("adam", 0.1), ("adagrad", -0.1))
        for seed in range(6)
    ]  # fmt: skip
    finding = judged(Results(pd.DataFrame(lines), ("optimizer", "seed")))
    (claim,) = [c for c in finding.claims if "of the variance of" in c.text]
    assert "optimizer explains most of the variance of a and b" in claim.text
    share = int(claim.text.split("(")[1].split("%")[0])
    assert share >= 97 and claim.verdict == "holds"  # truth: 0.0067 / (0.0067 + 0.000004)


def dominated(shifts, *, seed, seeds=5, spread=0.008):
    """Three optimizers; `shifts` says which detectors they move, and how far."""
    rng = np.random.default_rng(seed)
    lines = [
        {"detector": name, "ood": "far", "optimizer": optimizer, "seed": run,
         "value": mean + turn * shifts.get(name, 0.0) + rng.normal(0, spread)}
        for name, mean in (("vim", 0.93), ("knn", 0.9), ("energy", 0.85), ("msp", 0.8))
        for optimizer, turn in (("sgd", 0.0), ("adam", 1.0), ("sam", -1.0))
        for run in range(seeds)
    ]  # fmt: skip
    return Results(pd.DataFrame(lines), ("optimizer", "seed"))


def test_a_factor_that_dominates_other_detectors_than_the_best_is_named():
    finding = judged(dominated({"energy": 0.04, "msp": 0.05}, seed=1))
    # That seeds explain the rest of the others says no more than that optimizers do not.
    (claim,) = [c for c in finding.claims if "explains most" in c.text]
    assert "optimizer" in claim.text and "of energy and msp (9" in claim.text
    assert "seed" not in claim.text
    assert claim.verdict == "holds" and "allow for all 4 detectors" in claim.evidence


def test_a_factor_that_does_nothing_dominates_no_detector_by_chance():
    found = 0
    for seed in range(25):
        rng, field = np.random.default_rng(seed), cases_of(dominated({}, seed=seed))
        claims = share_claims(field, shares_of(field, rng), rng)
        found += any("optimizer" in claim.text for claim in claims)
    assert found <= 1


def test_runs_agree_less_on_the_order_if_the_condition_turns_it():
    turned = judged(dominated({"msp": 0.19}, seed=0, spread=0.002))  # first with adam, else last
    (table,) = [t for t in turned.tables if t.name == "order-optimizer"]
    assert table.columns == ("optimizer", "sgd", "adam", "sam")
    same = [row[1 + place] for place, row in enumerate(table.rows)]
    assert same == [1.0, 1.0, 1.0]
    assert table.rows[1][3] == pytest.approx(0.0)  # 3 of 6 pairs turn
    alike = judged(dominated({}, seed=0, spread=0.002))
    (table,) = [t for t in alike.tables if t.name == "order-optimizer"]
    assert all(cell == 1.0 for row in table.rows for cell in row[1:])


def trained(by, *, seed, looks=1, seeds=5):
    """Two optimizers; `by` is how far a leads b under the first, and b leads a under the second."""
    rng = np.random.default_rng(seed)
    lines = [
        {"detector": name, "ood": "far", "optimizer": optimizer, "seed": run, "epoch": epoch,
         "value": value + rng.normal(0, 0.0005)}
        for optimizer, turn in (("sgd", 0.5), ("adam", -0.5))
        for run in range(seeds)
        for name, sign in (("a", 1), ("b", -1))
        for value in [0.8 + turn * sign * by + rng.normal(0, 0.01)]
        for epoch in range(looks)
    ]  # fmt: skip
    factors = ("optimizer", "seed", "epoch") if looks > 1 else ("optimizer", "seed")
    return Results(pd.DataFrame(lines), factors)


def test_a_condition_that_turns_the_order_is_named_and_chance_is_not():
    told = [c for c in judged(trained(0.1, seed=0)).claims if "depends on the optimizer" in c.text]
    assert [c.verdict for c in told] == ["flips"] and "a with sgd; b with adam" in told[0].text
    found = [judged(trained(0.0, seed=seed)) for seed in range(25)]
    assert sum("depends on the" in c.text for f in found for c in f.claims) <= 2
    only = [c for f in found for c in f.claims if c.text.startswith("Changing only the optimizer")]
    assert len(only) == 25 and sum(c.verdict == "flips" for c in only) <= 2
    assert sum(c.text.endswith(", which is not significant.") for c in only) >= 20
    alone = judged(trained(0.1, seed=0, seeds=1))
    (only,) = [c for c in alone.claims if c.text.startswith("Changing only the optimizer")]
    assert only.verdict == "undecided" and "may be chance" in only.text  # nothing is repeated


def test_looks_at_one_training_explain_no_variance():
    """Taken for repeats, 8 looks at 4 trainings let the optimizer explain 27 %; it does nothing."""
    covered, led = 0, 0
    for seed in range(25):
        finding = judged(trained(0.0, seed=seed, looks=6, seeds=3))
        (shares,) = [t for t in finding.tables if t.name == "shares"]
        assert shares.columns == ("detector", "optimizer", "seed")
        assert "without the effect of epoch" in shares.note
        cell = shares.rows[0][1]  # without an interval if all of it lies at 0
        covered += (cell if isinstance(cell, float) else cell.low) == 0.0
        led += any("optimizer explains" in c.text for c in finding.claims)
    assert covered >= 20 and led <= 2
    alone = trained(0.0, seed=0, looks=6).frame.query("optimizer == 'sgd'")
    finding = judged(Results(alone.drop(columns="optimizer"), ("seed", "epoch")))
    (claim,) = [c for c in finding.claims if "explains most" in c.text]
    assert "seed explains most of the variance of b and a (100%)" in claim.text
    uneven = alone[(alone["seed"] > 0) | (alone["epoch"] > 0)].drop(columns="optimizer")
    finding = judged(Results(uneven, ("seed", "epoch")))
    assert not any("explains" in c.text for c in finding.claims)
    (shares,) = [t for t in finding.tables if t.name == "shares"]
    assert "No intervals" in shares.note


@pytest.mark.parametrize(("sets", "runs", "named"), [(0.09, 0.01, "the outlier set"),
                                                     (0.01, 0.06, "the run")])  # fmt: skip
def test_outlier_sets_and_runs_share_the_variance(sets, runs, named):
    rng = np.random.default_rng(8)
    shifts = sets * np.array([-1.5, -0.5, 0.5, 1.5]) / 1.25**0.5  # variance sets^2
    truth = {"the outlier set": sets**2, "the run": runs**2}
    share = truth[named] / (sets**2 + runs**2 + 0.01**2)
    held, near = 0, []
    for _ in range(12):
        moved = rng.normal(0, runs, 10)
        lines = [
            {"detector": name, "ood": f"o{place}", "seed": run,
             "value": 0.7 + shift + moved[run] + rng.normal(0, 0.01)}
            for name in "ab" for place, shift in enumerate(shifts) for run in range(10)
        ]  # fmt: skip
        finding = judged(Results(pd.DataFrame(lines), ("seed",)))
        (claim,) = [c for c in finding.claims if c.text.startswith("Of the variance of")]
        assert f"sets, {named} explains" in claim.text
        near.append(int(claim.text.split(f"{named} explains ")[1].split("%")[0]) / 100)
        held += claim.verdict == "holds"
    assert held >= 10 and np.mean(near) == pytest.approx(share, abs=0.05)


def test_gaps_leave_out_the_detector_or_the_cell():
    table = world({"a": 0.9, "b": 0.8, "c": 0.7}, runs=6, spread=0.01).frame
    few = table[(table["detector"] != "c") | (table["seed"] == 0)]
    finding = judged(Results(few, ("seed",)))
    assert any("because too many cells are missing: c" in text for text in finding.caveats)
    holed = judged(Results(table.drop(index=table.index[3]), ("seed",)))
    assert any("1 cell (run and outlier set)" in text for text in holed.caveats)


def test_detectors_that_never_meet_are_refused():
    lines = [{"detector": name, "ood": name, "seed": 0, "value": 0.5} for name in ("a", "b")]
    with pytest.raises(UserError, match="measured on the same runs"):
        judged(Results(pd.DataFrame(lines), ("seed",)))


def test_analyze_takes_a_frame_and_tells_what_it_noticed():
    table = world({"msp": 0.8, "knn": 0.9}, runs=4, spread=0.01).frame
    findings = analyze(table.rename(columns={"value": "AUROC", "detector": "method"}))
    assert findings[0].protocol == "ranking"
    assert ("method", "detector") in findings[0].tables[-1].rows


@pytest.mark.parametrize("runs", [2, 3, 4])
def test_a_few_cases_are_never_more_than_they_are(runs):
    table = world({"a": 0.9, "b": 0.5}, runs=runs, spread=0.001)
    said = texts(judged(table))
    chances = [verdict for verdict, text in said if " ranks first in " in text]
    assert chances == ["undecided"]  # all signs alike have a chance of 1 in 8 with four runs
    ahead = [verdict for verdict, text in said if "ahead of" in text]
    assert ahead == ([] if runs == 2 else ["holds"])
    on_sets = [verdict for verdict, text in said if "better mean AUROC than a on any" in text]
    assert on_sets == ["undecided" if runs == 2 else "holds"]  # by t tests on each set


def test_differences_that_rounding_made_equal_prove_nothing():
    lines = [{"detector": name, "ood": "far", "seed": seed, "value": 0.9 + 0.01 * (name == "a")}
             for name in "ab" for seed in range(3)]  # fmt: skip
    finding = judged(Results(pd.DataFrame(lines), ("seed",)))
    assert not any("ahead of" in text for _, text in texts(finding))


def test_equal_means_share_the_first_place():
    lines = [{"detector": name, "ood": "far", "seed": seed, "value": 0.9}
             for name in "ab" for seed in range(6)]  # fmt: skip
    assert texts(judged(Results(pd.DataFrame(lines), ("seed",))))[0] == (
        "undecided", "a and b share the highest mean AUROC, 0.900, over 1 outlier set.",
    )  # fmt: skip


def test_designs_without_a_grid_get_ranges_instead_of_shares():
    rng = np.random.default_rng(2)
    design = [("sgd", "none"), ("adam", "none"), ("lamb", "none"), ("sgd", "flip"), ("sgd", "mix")]
    moves = {"adam": 0.05, "mix": -0.2}
    lines = [
        {"detector": name, "ood": "far", "optimizer": optimizer, "augment": augment, "seed": seed,
         "value": mean + moves.get(optimizer, 0) + moves.get(augment, 0) + rng.normal(0, 0.001)}
        for name, mean in (("a", 0.8), ("b", 0.7))
        for optimizer, augment in design
        for seed in range(3)
    ]  # fmt: skip
    finding = judged(Results(pd.DataFrame(lines), ("optimizer", "augment", "seed")))
    (claim,) = [claim for claim in finding.claims if "change one at a time" in claim.text]
    assert "augment moves a farthest: 20." in claim.text or "farthest: 19.9" in claim.text
    assert claim.verdict == "holds"  # beyond the interval of every other factor
    (table,) = [table for table in finding.tables if table.name == "ranges"]
    augment = table.rows[0][table.columns.index("augment")]
    assert augment.low <= 0.2 <= augment.high < 0.21  # the truth
    assert not any("of the variance" in claim.text for claim in finding.claims)
    assert "ranges" in [table.name for table in finding.tables]


def test_a_study_is_judged_like_a_table():
    rng = np.random.default_rng(0)
    rows = [
        ScoreRow(f"{run}", name, "", dataset, rng.normal(shift * (dataset != "id"), size=80))
        for run in range(6)
        for name, shift in (("good", 2.0), ("poor", 0.5))
        for dataset in ("id", "near", "far")
    ]
    table = ScoreTable("id", tuple(rows), {f"{run}": {"seed": run} for run in range(6)})
    finding = ranking(table, np.random.default_rng(0))
    verdict, text = texts(finding)[0]
    assert verdict == "holds"
    assert text.endswith("and after retraining it is significantly ahead of poor.")


def about_detectors(finding):
    """Claims that compare detectors; that runs differ more than outlier sets may well be so."""
    return [claim for claim in finding.claims if not claim.text.startswith("Of the variance")]


def test_no_claim_about_the_best_holds_by_chance():
    """Equal detectors whose sets share what a run does to them: once 79 % of tables had a claim."""
    found = 0
    for seed in range(25):
        rng = np.random.default_rng(seed)
        lines = [
            {"detector": name, "ood": ood, "seed": run, "value": 0.8 + own + rng.normal(0, 0.001)}
            for run in range(5)
            for name in "abcde"
            for own in (rng.normal(0, 0.01),)
            for ood in "uvwxyz"
        ]
        finding = judged(Results(pd.DataFrame(lines), ("seed",)))
        found += any(claim.verdict == "holds" for claim in about_detectors(finding))
    assert found <= 25 * 0.05 + 2 * np.sqrt(25 * 0.05 * 0.95)


def test_shared_values_never_hold():
    lines = [{"detector": name, "ood": ood, "seed": seed, "value": 0.8 + seed / 100}
             for name in "abc" for ood in "uvwxyz" for seed in range(6)]  # fmt: skip
    for factors in (("seed",), ()):
        table = pd.DataFrame(lines if factors else [x for x in lines if x["seed"] == 0])
        finding = judged(Results(table, factors))
        assert "holds" not in [claim.verdict for claim in about_detectors(finding)]


def test_pairs_of_a_few_runs_are_no_independent_cases():
    finding = judged(world({"a": 0.9, "b": 0.5}, runs=4, spread=0.001))
    (claim,) = [c for c in finding.claims if c.text.startswith("Changing only the seed")]
    assert "none of 6 pairs" in claim.text and claim.verdict == "undecided"


def test_checkpoints_of_one_training_are_one_case():
    table = world({"a": 0.81, "b": 0.8}, runs=3, spread=0.004, seed=3).frame
    looks = pd.concat([table.assign(checkpoint=c) for c in ("e50", "e60", "e70", "last")])
    once = judged(Results(table, ("seed",)))
    often = judged(Results(looks.reset_index(drop=True), ("seed", "checkpoint")))
    assert dict(once.facts)["runs"] == dict(often.facts)["runs"] == "3"
    tables = [{t.name: t for t in finding.tables}["leaderboard"].rows for finding in (once, often)]
    assert tables[0][1][-1] == pytest.approx(tables[1][1][-1])  # p value
    assert any("12 runs are re-evaluations of 3 training runs" in text for text in often.caveats)


def test_a_leaderboard_is_judged_where_most_detectors_were_measured():
    lines = [{"detector": f"d{n}", "ood": ood, "training": "plain", "value": 0.8 + n / 100}
             for n in range(10) for ood in ("near", "far")]  # fmt: skip
    lines += [{"detector": "d0", "ood": ood, "training": f"own{n}", "value": 0.95}
              for n in range(5) for ood in ("near", "far")]  # fmt: skip
    finding = judged(Results(pd.DataFrame(lines), ("training",)))
    assert dict(finding.facts)["detectors"] == "10"
    assert finding.claims[0].text.startswith("d9 has the highest mean")


def test_looks_do_not_make_two_trainings_many():
    """Two trainings, looked at six times, that agree on the winner: one change, not six."""
    table = world({"a": 0.9, "b": 0.5}, runs=2, spread=0.001).frame
    looks = pd.concat([table.assign(epoch=epoch) for epoch in range(6)]).reset_index(drop=True)
    finding = judged(Results(looks, ("seed", "epoch")))
    told = "Changing only the seed or epoch changes the overall winner"
    assert [verdict for verdict, text in texts(finding) if told in text] == ["undecided"]
    assert any("2 runs cannot decide anything" in line for line in finding.caveats)


def runs_said(effect):
    """The claim about two detectors whose difference is `effect` standard deviations."""
    gap = np.random.default_rng(6).normal(size=8)
    gap = 0.01 * (effect + (gap - gap.mean()) / gap.std(ddof=1))
    values = {"best": np.full(8, 0.9), "rival": 0.9 - gap}
    frame = pd.DataFrame(
        {"detector": name, "ood": "far", "seed": seed, "value": value}
        for name, own in values.items()
        for seed, value in enumerate(own)
    )
    (claim,) = [c for c in judged(Results(frame, ("seed",))).claims if "would take" in c.text]
    return claim


def test_the_runs_that_are_said_to_be_needed_suffice():
    """A gap of 0.8 standard deviations between two detectors: 15 runs do."""
    claim = runs_said(0.8)
    assert "about 15 runs" in claim.text and "80% power" in claim.evidence
    assert t_test_power(15, 0.8) >= 0.8 > t_test_power(14, 0.8)


def test_many_runs_are_not_counted_to_the_digit():
    """Eight runs cannot tell 351 runs from 350, and nobody trains 19,625."""
    assert t_test_power(351, 0.15) >= 0.8 > t_test_power(350, 0.15)
    assert "about 350 runs" in runs_said(0.15).text
    assert t_test_power(19_625, 0.02) >= 0.8 > t_test_power(19_624, 0.02)
    assert "more than 1,000 runs" in runs_said(0.02).text


def test_several_that_are_tied_take_more_runs_than_one():
    rng = np.random.default_rng(7)
    gap = rng.normal(size=8)
    gap = 0.008 + 0.01 * (gap - gap.mean()) / gap.std(ddof=1)

    def needed(names):
        frame = pd.DataFrame(
            {"detector": n, "ood": "far", "seed": s, "value": 0.9 - (n != "best") * gap[s]}
            for n in ("best", *names)
            for s in range(8)
        )
        claims = judged(Results(frame, ("seed",))).claims
        return next(int(c.text.split("about ")[1].split()[0]) for c in claims if "about" in c.text)

    assert needed("x") < needed("xy") < needed("xyz")


def test_two_cases_that_agree_do_not_look_certain():
    """The same gap on both outlier sets of the one run gave [+10.0, +10.0] beside p = 0.5."""
    lines = [
        {"detector": name, "ood": ood, "value": value + up}
        for name, value in (("a", 0.9), ("b", 0.8))
        for ood, up in (("p", 0.0), ("q", 0.01))
    ]
    finding = judged(Results(pd.DataFrame(lines), ()))
    assert finding.claims[0].evidence == "a − b: +10.0 points, without an interval, p = 1"
    table = next(t for t in finding.tables if t.name == "leaderboard")
    assert table.rows[0][-2] == pytest.approx(0.1)
    assert any("2 outlier sets cannot decide anything" in line for line in finding.caveats)


def test_a_study_that_names_standing_is_told_what_there_is():
    with pytest.raises(UserError, match="Unknown protocol 'standing'.*ranking"):
        score_protocol("standing")
    with pytest.raises(UserError, match="Unknown protocol"):
        score_protocol("metric_agreement")  # takes results, not scores


def test_variance_shares_do_not_depend_on_the_order_of_columns():
    """Of seeds within folds, the seed is what is left: listed first, folds took its share."""
    rng = np.random.default_rng(0)
    lines = [
        {"detector": name, "ood": "far", "fold": fold, "seed": seed,
         "value": 0.8 + 0.02 * fold + 0.002 * rng.normal() - 0.1 * (name == "b")}
        for fold in range(3) for seed in range(4) for name in "ab"
    ]  # fmt: skip
    found = [
        shares_of(cases_of(Results(pd.DataFrame(lines), order)), np.random.default_rng(0))["a"]
        for order in (("fold", "seed"), ("seed", "fold"))
    ]
    assert found[0].effects == found[1].effects
    assert [effect.factors for effect in found[0].effects] == [("fold",), ("seed",)]
    assert found[0].effects[0].share > 0.9


def test_one_pair_of_runs_is_told_in_a_whole_sentence():
    lines = [
        {"detector": name, "ood": "far", "optimizer": optimizer, "value": value}
        for optimizer in ("adam", "sgd")
        for name, value in {"a": 0.9, "b": 0.8}.items()
    ]
    told = [text for _, text in texts(judged(Results(pd.DataFrame(lines), ("optimizer",))))]
    only = (
        "Changing only the optimizer does not change the overall winner in the only pair of "
        "optimizers, but no winner is significantly better than all others."
    )
    assert only in told


def test_the_order_of_lines_changes_nothing():
    """Sets are averaged run by run: lines in another order must not pair other runs."""
    table = world({"a": 0.8, "b": 0.8, "c": 0.77}, runs=5, spread=0.004, sets=tuple("uvw"))
    lines = table.frame.sample(frac=1.0, random_state=3).sort_values("ood", kind="stable")
    mixed = Results(lines.reset_index(drop=True), ("seed",))
    one, other = judged(table), judged(mixed)
    assert any("without" in c.evidence or "Without" in c.text for c in one.claims)
    assert [(c.verdict, c.text, c.evidence) for c in one.claims] == [
        (c.verdict, c.text, c.evidence) for c in other.claims
    ]


def test_cases_are_called_what_they_are():
    """Corruptions and networks are no runs: in answer, claims, caveats and facts."""
    rng = np.random.default_rng(0)
    for factor, levels, word in (
        ("corruption", 15, "corruptions"), ("lr", 4, "conditions"), ("network", 3, "networks")
    ):  # fmt: skip
        lines = [
            {"detector": name, "id": "x", "ood": "far", factor: str(level),
             "value": value + rng.normal(0, 0.02)}
            for name, value in (("a", 0.9), ("b", 0.89), ("c", 0.7)) for level in range(levels)
        ]  # fmt: skip
        finding = judged(Results(pd.DataFrame(lines), (factor,)))
        assert f"{levels} {word}" in finding.answer
        assert dict(finding.facts)[word] == str(levels)
        first = next(claim for claim in finding.claims if "ranks first under" in claim.text)
        assert first.verdict == "undecided"
        told = [finding.answer, *(claim.text for claim in finding.claims)]
        assert not any(re.search(r"\d runs", text) for text in told)
        assert any("No run was repeated" in caveat for caveat in finding.caveats)


def test_one_run_on_several_sets_says_that_retraining_is_left_open():
    lines = [
        {"detector": name, "id": "x", "ood": f"s{n}", "value": value + 0.002 * n}
        for name, value in (("a", 0.9), ("b", 0.8))
        for n in range(6)
    ]
    answer = judged(Results(pd.DataFrame(lines), ())).answer
    assert answer.endswith("One training run cannot say whether that survives retraining.")


def test_two_runs_say_nothing_about_the_number_of_runs_needed():
    lines = [
        {
            "detector": name,
            "id": "x",
            "ood": "far",
            "seed": seed,
            "value": value + 0.01 * seed * sign,
        }
        for name, value, sign in (("a", 0.9, 1), ("b", 0.89, -1))
        for seed in range(2)
    ]
    finding = judged(Results(pd.DataFrame(lines), ("seed",)))
    assert "would take" not in finding.answer
