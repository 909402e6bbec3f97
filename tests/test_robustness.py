"""The robustness score: the paper's own tables, worlds whose answer is known, and gaps."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from oodometer.errors import UserError
from oodometer.factors import Factor
from oodometer.finding import Finding, from_json, to_json
from oodometer.metrics import Estimate
from oodometer.protocols.instability.protocol import instability_of
from oodometer.protocols.robustness.claims import by_pair
from oodometer.protocols.robustness.protocol import robustness, robustness_of
from oodometer.protocols.robustness.scored import arrange
from oodometer.results import Results
from oodometer.scores import Missing, ScoreRow, ScoreTable
from oodometer.stats.jackknife import ratio
from oodometer.stats.mixture import (
    Moments,
    mixture,
    mixtures_without_each,
    robustness_score,
    run_moments,
    weights,
)
from oodometer.stats.paired import t_test

PAPER = json.loads((Path(__file__).parent / "oracles" / "robustness_tables.json").read_text())
LOWER = [name in PAPER["lower_is_better"] for name in PAPER["metrics"]]


def printed(value: float) -> float:
    return round(float(value), 3)


# The published tables


@pytest.mark.parametrize("table", ["T2", "T13"])
def test_moments_over_runs_as_printed(table):
    found = run_moments(np.transpose(PAPER[table]["runs"]))
    got = [[printed(m), printed(v)] for m, v in zip(*found, strict=True)]
    assert got == PAPER[table]["printed"]  # 10 of 10 cells


@pytest.mark.parametrize("table", ["T3", "T7", "T14"])
def test_mixtures_as_printed(table):
    """With the epsilons that were used; the printed equations give 7 of the 30 cells."""
    parts = np.array(list(PAPER[table]["rows"].values()))  # (parts, metrics, moments)
    found = mixture(parts[:, :, 0].T, parts[:, :, 1].T, "published")
    got = [[printed(m), printed(v)] for m, v in zip(*found, strict=True)]
    assert got == PAPER[table]["printed"]


def test_how_many_mixtures_the_printed_equations_give():
    right = 0
    for table in ("T3", "T7", "T14"):
        parts = np.array(list(PAPER[table]["rows"].values()))
        found = mixture(parts[:, :, 0].T, parts[:, :, 1].T)
        got = np.round(np.transpose(found), 3)
        right += int((got == np.array(PAPER[table]["printed"])).sum())
    assert right == 7
    assert weights([1.0, 4.0]).sum() == pytest.approx(1.0, abs=1e-12)
    assert weights([1.0, 4.0], "published").sum() < 1.0


def cells_of(moments: str, scores: str):
    for name, cells in PAPER[moments].items():
        for column, (mean, variance) in enumerate(cells):
            found = robustness_score(
                Moments(np.array(mean), np.array(variance)), higher_is_better=not LOWER[column]
            )
            yield name, column, mean, variance, float(found), PAPER[scores][name][column]


def test_table_5():
    ratios = [(n, c, f, p) for n, c, _, _, f, p in cells_of("T4", "T5") if not LOWER[c]]
    wrong = [(n, PAPER["metrics"][c]) for n, c, f, p in ratios if printed(f) != p]
    assert len(ratios) == 21 and wrong == [("ODIN", "AUROC")]
    assert next(f for n, c, f, p in ratios if (n, c) == ("ODIN", 2)) == pytest.approx(
        0.003501, 1e-3
    )
    # Products of rounded moments: no epsilon gives all of them, none is off by more than 0.1 %.
    products = [(f, p) for _, c, _, _, f, p in cells_of("T4", "T5") if LOWER[c]]
    assert len(products) == 14
    assert all(found == pytest.approx(value, rel=1e-3) for found, value in products)


def test_table_9():
    ratios = [(f, p) for _, c, _, _, f, p in cells_of("T8", "T9") if not LOWER[c]]
    assert len(ratios) == 21 and all(printed(found) == value for found, value in ratios)
    # The products were printed with a mean that is larger by 0.001: within rounding they agree.
    products = [cell for cell in cells_of("T8", "T9") if LOWER[cell[1]]]
    assert len(products) == 14
    for _, _, mean, variance, found, value in products:
        assert abs(found - value) < 0.0052
        shifted = [
            (mean + 1e-3 + a) * math.sqrt(variance + b)
            for a in (-5e-4, 5e-4)
            for b in (-5e-4, 5e-4)
        ]
        assert min(shifted) - 5e-4 <= value <= max(shifted) + 5e-4


def paper_results(table: str, metric: int, part: str) -> Results:
    """Two runs with the mean and the variance of each cell of Table 3 or 7."""
    lines = []
    for name, cells in PAPER[table]["rows"].items():
        mean, variance = cells[metric]
        for seed, sign in enumerate((-1, 1)):
            line = {"detector": "max-softmax", "ood": "f-mnist", "optimizer": "Adam", part: name}
            lines.append(line | {"seed": seed, "value": mean + sign * math.sqrt(variance)})
    lower = LOWER[metric]
    return Results(pd.DataFrame(lines), ("optimizer", "seed"), "fpr", not lower)


@pytest.mark.parametrize("metric", range(5))
def test_the_protocol_gives_the_printed_mixtures(metric):
    finding = robustness_of(paper_results("T3", metric, "optimizer"), epsilon="published")
    moments = next(table for table in finding.tables if table.name == "moments-1")
    mean, variance = PAPER["T3"]["printed"][metric]
    assert moments.rows[0][-1] == f"{mean:.3f} | {variance:.3f}"
    adam = PAPER["T3"]["rows"]["Adam"][metric]
    assert moments.rows[0][1] == f"{adam[0]:.3f} | {adam[1]:.3f}"
    field = arrange(paper_results("T7", metric, "ood"), "optimizer", "published")
    score = field.level_scores["", "max-softmax", "Adam"]
    assert [printed(m) for m in score.moments] == PAPER["T7"]["printed"][metric]


def test_the_papers_winners():
    best = {c: min(PAPER["T4"], key=lambda n: PAPER["T5"][n][c]) for c in range(5)}
    assert set(best.values()) == {"ODIN"} == {PAPER["T6"]["MNIST"]["F-MNIST"]}
    fpr = {name: float(f) for name, c, _, _, f, _ in cells_of("T8", "T9") if c == 0}
    assert sorted(fpr, key=fpr.__getitem__)[:2] == PAPER["T10"]["max-softmax"]["MNIST"]
    moments = {n: Moments(*map(np.array, cells[0])) for n, cells in PAPER["T15"].items()}
    other = {n: float(robustness_score(m, higher_is_better=False)) for n, m in moments.items()}
    assert min(other, key=other.__getitem__) == PAPER["T6"]["F-MNIST"]["MNIST"]


# Closed forms


def test_equal_parts_are_a_plain_mean():
    assert mixture([90.0, 92.0, 94.0], [4.0] * 3)[:2] == (
        pytest.approx(92.0),
        pytest.approx(4.0 + 8.0 / 3.0),
    )
    assert weights([0.0, 0.0]) == pytest.approx([0.5, 0.5])


def test_the_score_is_free_of_scale_or_not_defined():
    values = np.array([80.0, 90.0, 70.0])
    one, ten = (robustness_score(run_moments(f * values), higher_is_better=True) for f in (1, 0.1))
    assert float(one) == pytest.approx(float(ten))
    assert float(one) == pytest.approx(values.std() / values.mean())
    for mean in (0.0, -1.0):
        score = robustness_score(Moments(np.array(mean), np.array(1.0)), higher_is_better=True)
        assert float(score) == math.inf
    with pytest.raises(UserError, match="Did you mean 'printed'"):
        weights([1.0], "print")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="at least one run"):
        run_moments([])


# Worlds


def world(
    detectors, *, levels=("adam", "sgd", "nadam"), runs=5, sets=("near", "far"), seed=0, lower=False
):
    """Detectors as (mean, spread over levels, spread over runs), in percent."""
    rng = np.random.default_rng(seed)
    lines = []
    for name, (mean, between, within) in detectors.items():
        for ood in sets:
            for number, level in enumerate(levels):
                shift = between * (number - (len(levels) - 1) / 2)
                lines += [
                    {
                        "detector": name,
                        "ood": ood,
                        "optimizer": level,
                        "seed": run,
                        "value": (mean + shift + within * rng.normal()) / 100,
                    }
                    for run in range(runs)
                ]
    frame = pd.DataFrame(lines)
    if lower:
        return Results(
            frame.assign(value=1 - frame["value"]), ("optimizer", "seed"), "fpr95", False
        )
    return Results(frame, ("optimizer", "seed"))


def rows(finding: Finding, table: str = "robustness"):
    (found,) = [t for t in finding.tables if t.name == table]
    return {row[0]: row[1:] for row in found.rows}


@pytest.mark.parametrize("lower", [False, True])
def test_a_planted_winner_is_found_in_both_directions(lower):
    finding = robustness_of(world({"shaky": (80, 8, 2), "steady": (90, 0.5, 0.5)}, lower=lower))
    label = "FPR@95TPR" if lower else "AUROC"
    first = finding.claims[0]
    assert first.text == f"steady varies least over optimizer by {label} on both outlier sets."
    assert first.verdict == "holds"
    assert rows(finding)["steady"][-1] == 2 and rows(finding)["shaky"][-1] == 0


def test_what_depends_on_the_outlier_set_flips():
    one = world({"a": (90, 6, 1), "b": (90, 0.3, 0.3)}, sets=("near",)).frame
    other = world({"a": (90, 0.3, 0.3), "b": (90, 6, 1)}, sets=("far",)).frame
    finding = robustness_of(Results(pd.concat([one, other]), ("optimizer", "seed")))
    assert finding.claims[0].verdict == "flips"
    assert "b on near; a on far" in finding.claims[0].text


def test_a_detector_that_is_equally_bad_everywhere_is_not_called_good():
    finding = robustness_of(world({"useless": (50, 0, 0.2), "good": (95, 3, 0.5)}))
    assert finding.claims[0].text.startswith("useless varies least")
    mean = finding.claims[1]
    assert mean.verdict == "flips" and "in none" not in mean.text
    assert mean.text == (
        "The detector that varies least also has the best mean AUROC, weighted as in the score, "
        "on neither outlier set."
    )
    assert "equally bad" in finding.caveats[0]


def test_the_winner_by_mean_that_changes_with_the_optimizer():
    results = world({"a": (90, 8, 0.3), "b": (90, -8, 0.3)})
    claim = next(c for c in robustness_of(results).claims if "changes with the optimizer" in c.text)
    assert claim.verdict == "flips" and "on both outlier sets" in claim.text
    assert "b under adam" in claim.evidence and "a under nadam" in claim.evidence


def test_identical_detectors_are_never_ranked_apart():
    results = world({"a": (90, 3, 1)})
    twin = pd.concat([results.frame, results.frame.assign(detector="b")])
    finding = robustness_of(Results(twin, results.factors))
    assert all(claim.verdict == "undecided" for claim in finding.claims)
    assert rows(finding)["a"] == rows(finding)["b"]
    ranks = {point["value"] for point in finding.series[0].points}
    assert ranks == {1.5}
    assert finding.claims[0].text.startswith("a and b vary least")


def test_renaming_permutes_the_answer():
    results = world({"a": (90, 3, 1), "b": (85, 1, 1), "c": (80, 6, 2)})
    names = {"a": "x", "b": "y", "c": "z"}
    renamed = Results(results.frame.replace({"detector": names}), results.factors)
    one, two = robustness_of(results), robustness_of(renamed)
    assert {names[k]: v for k, v in rows(one).items()} == rows(two)
    assert [c.verdict for c in one.claims] == [c.verdict for c in two.claims]


def test_any_factor_may_take_the_optimizers_place():
    results = world({"a": (90, 3, 1), "b": (85, 1, 1)})
    frame = results.frame.rename(columns={"optimizer": "network"})
    finding = robustness_of(Results(frame, ("network", "seed")))
    assert finding.title == "Robustness over network"
    assert rows(finding) == rows(robustness_of(results))
    by_seed = robustness_of(results, factor="seed")
    assert by_seed.title == "Robustness over seed" and len(by_seed.claims) == 2
    # Another seed is chance: who is best with it, or which seed varies least, is not asked.
    assert not any("with the seed" in c.text or "is the seed" in c.text for c in by_seed.claims)
    with pytest.raises(UserError, match="Did you mean 'optimizer'"):
        robustness_of(results, factor="optimiser")


def test_which_optimizer_varies_least():
    lines = []
    rng = np.random.default_rng(0)
    for detector in ("a", "b"):
        for ood, shift in (("near", -10), ("far", 0), ("noise", 5)):
            for level, factor in (("adam", 1.0), ("sgd", 0.1)):
                lines += [
                    {"detector": detector, "ood": ood, "optimizer": level, "seed": s}
                    | {"value": (90 + factor * shift + 0.2 * rng.normal()) / 100}
                    for s in range(5)
                ]
    finding = robustness_of(Results(pd.DataFrame(lines), ("optimizer", "seed")))
    claim = next(c for c in finding.claims if c.text.startswith("Over outlier sets"))
    assert "sgd is the optimizer that varies least for both detectors" in claim.text
    assert claim.verdict == "holds"


def test_metrics_that_disagree_are_told():
    steady = world({"a": (90, 6, 0.5), "b": (90, 0.3, 0.3)})
    other = world({"a": (90, 0.3, 0.3), "b": (90, 6, 0.5)}, lower=True)
    finding = robustness_of(steady, other)
    claim = finding.claims[-1]
    assert claim.text.startswith("Both metrics agree") and "neither outlier set" in claim.text
    assert claim.verdict == "flips" and "b by AUROC; a by FPR@95TPR" in claim.evidence
    assert [t.name for t in finding.tables].count("metrics-1") == 1


# Intervals under simulation


def simulated(trials, levels, runs, between, *, seed):
    """Two detectors of the same population, whose runs are correlated; the true score is known."""
    rng = np.random.default_rng(seed)
    means = 90 + between * np.linspace(-1, 1, levels)
    spreads = np.linspace(0.7, 1.5, levels)
    true = robustness_score(mixture(means, spreads**2), higher_is_better=True)
    for _ in range(trials):
        shared = rng.normal(size=(levels, runs))
        lines = [
            {"detector": name, "ood": "o", "optimizer": level, "seed": run, "value": value}
            for name in "ab"
            for level, row in enumerate(
                means[:, None]
                + spreads[:, None] * (shared + rng.normal(size=shared.shape)) / math.sqrt(2)
            )
            for run, value in enumerate(row)
        ]
        field = arrange(Results(pd.DataFrame(lines), ("optimizer", "seed")))
        yield float(true), *field.detector_scores.values()


@pytest.mark.parametrize(("levels", "runs", "between"), [(7, 5, 1.0), (3, 5, 4.0), (2, 3, 0.0)])
def test_intervals_cover_and_tests_keep_their_level(levels, runs, between):
    trials = 250
    inside = apart = 0
    for true, one, other in simulated(trials, levels, runs, between, seed=levels):
        interval = one.interval(0.95)
        inside += interval.low <= true <= interval.high
        apart += ratio(one, other, 0.95).p_value < 0.05
    assert inside >= 0.91 * trials  # three standard errors below 95 % are 90.9 %
    assert apart <= 0.09 * trials  # three standard errors above 5 % are 9.1 %


def test_more_runs_tell_more():
    found = []
    for runs in (3, 12):
        sure = sum(
            robustness_of(
                world({"a": (90, 1, 1), "b": (90, 1, 2.2)}, runs=runs, sets=("o",), seed=seed)
            )
            .claims[0]
            .verdict
            == "holds"
            for seed in range(40)
        )
        found.append(sure)
    assert found[0] < 12 and found[1] > 30, found


# What is lacking


def finite(finding: Finding) -> Finding:
    """Tables and series refuse NaN themselves; sentences must not hold one either."""
    text = to_json(finding)
    assert "nan" not in text.lower().replace("nanmean", "") and "inf," not in text
    assert from_json(text) == finding
    return finding


def test_one_optimizer_gives_a_sentence():
    results = world({"a": (90, 3, 1), "b": (85, 1, 1)}, levels=("adam",))
    finding = finite(robustness_of(results, factor="optimizer"))
    (claim,) = finding.claims
    assert claim.verdict == "undecided" and "only one optimizer, adam" in claim.text
    # Without a word on the factor, what did vary takes its place.
    assert finite(robustness_of(results)).title == "Robustness over seed"


def test_nothing_varied_gives_a_sentence():
    frame = pd.DataFrame({"detector": ["a", "b"], "ood": ["o"] * 2, "value": [0.9, 0.8]})
    (claim,) = finite(robustness_of(Results(frame))).claims
    assert "nothing was varied" in claim.text


def test_one_outlier_set_and_a_level_that_is_not_given():
    results = world({"useless": (50, 0, 0.2), "good": (95, 3, 0.5)}, sets=("near",))
    frame = results.frame.replace({"optimizer": {"sgd": None}})
    finding = finite(robustness_of(Results(frame, results.factors)))
    assert finding.claims[1].text == (
        "The detector that varies least does not have the best mean AUROC, weighted as in the "
        "score, on near."
    )
    assert ("levels", "adam, not given, nadam") in finding.facts
    assert not any(claim.text.startswith("Over outlier sets") for claim in finding.claims)


def test_one_run_per_optimizer_takes_the_optimizers_as_a_sample():
    results = world({"a": (90, 3, 1), "b": (85, 1, 1)}, runs=1, levels=tuple("abcde"))
    finding = finite(robustness_of(results))
    assert any("levels of optimizer as a sample" in line for line in finding.caveats)
    assert isinstance(rows(finding)["a"][0], Estimate)


def test_two_runs_and_two_optimizers_give_no_interval_and_no_verdict():
    results = world({"a": (90, 3, 1), "b": (85, 1, 1)}, runs=2, levels=("adam", "sgd"))
    finding = finite(robustness_of(results))
    assert isinstance(rows(finding)["a"][0], float)
    assert finding.claims[0].verdict == "undecided" and "no interval" in finding.claims[0].evidence


def test_values_that_never_vary():
    finding = finite(robustness_of(world({"a": (90, 0, 0), "b": (85, 0, 0), "c": (80, 3, 1)})))
    assert rows(finding)["a"][0] == 0.0
    assert finding.claims[0].verdict == "undecided"
    assert finding.claims[0].text.startswith("a and b vary least")


def test_a_mean_of_zero_has_no_score():
    results = world({"a": (0, 0, 0), "b": (85, 1, 1)})
    finding = finite(robustness_of(results))
    assert rows(finding)["a"][:2] == (None, None)
    assert any("not above 0: a on near" in line for line in finding.caveats)


def test_gaps_are_named_and_never_averaged_over():
    results = world({"a": (90, 0.1, 0.1), "b": (85, 3, 1), "c": (80, 4, 1)})
    frame = results.frame
    gap = (frame["detector"] == "a") & (frame["ood"] == "near") & (frame["optimizer"] == "sgd")
    finding = finite(robustness_of(Results(frame[~(gap & (frame["seed"] == 3))], results.factors)))
    assert rows(finding)["a"][0] is None and isinstance(rows(finding)["a"][1], Estimate)
    assert finding.missing == ("a on near: 1 of 15 values is missing (optimizer sgd); not scored",)
    assert "near: b" in finding.claims[0].evidence
    moments = rows(finding, "moments-1")["a"]
    assert moments[1] is None and moments[-1] is None and moments[0] is not None


def test_nobody_is_whole():
    results = world({"a": (90, 1, 1), "b": (85, 1, 1)}, sets=("o",))
    frame = results.frame
    lost = (frame["detector"] == "a") & (frame["optimizer"] == "sgd")
    lost |= (frame["detector"] == "b") & (frame["optimizer"] == "adam")
    finding = finite(robustness_of(Results(frame[~lost], results.factors)))
    assert finding.claims[0].text.startswith("No detector has a robustness score")
    assert len(finding.missing) == 2


def test_a_level_whose_runs_agree_decides_alone_and_this_is_said():
    results = world({"a": (90, 5, 2), "b": (85, 3, 1)}, sets=("o",))
    frame = results.frame.copy()
    frame.loc[(frame["detector"] == "a") & (frame["optimizer"] == "sgd"), "value"] = 0.5
    finding = finite(robustness_of(Results(frame, results.factors)))
    assert any("can dominate" in line and "a on o" in line for line in finding.caveats)


def test_two_such_levels_too():
    results = world({"a": (90, 5, 2), "b": (85, 3, 1)}, sets=("o",))
    frame = results.frame.copy()
    frame.loc[(frame["detector"] == "a") & (frame["optimizer"] != "adam"), "value"] = 1.0
    finding = finite(robustness_of(Results(frame, results.factors)))
    assert any("can dominate" in line and "a on o" in line for line in finding.caveats)


def test_cells_that_state_their_own_spread():
    cells = PAPER["T3"]["rows"]
    frame = pd.DataFrame(
        {"detector": "msp", "ood": "f-mnist", "optimizer": name}
        | {"value": c[0][0], "spread": math.sqrt(c[0][1]), "runs": 5}
        for name, c in cells.items()
    )
    results = Results(frame, ("optimizer",), "fpr", False)
    finding = finite(robustness_of(results, epsilon="published"))
    mean, variance = PAPER["T3"]["printed"][0]
    assert rows(finding, "moments-1")["msp"][-1] == f"{mean:.3f} | {variance:.3f}"
    assert any("stated in the table" in line for line in finding.caveats)


def test_two_in_distribution_sets_are_kept_apart():
    results = world({"a": (90, 3, 1), "b": (85, 1, 1)})
    frame = pd.concat([results.frame.assign(id=name) for name in ("mnist", "fashion")])
    finding = finite(robustness_of(Results(frame, results.factors)))
    table = next(t for t in finding.tables if t.name == "robustness")
    assert table.columns[1:5] == (
        "mnist / near",
        "mnist / far",
        "fashion / near",
        "fashion / far",
    )


def score_table(runs: int = 3, samples: int = 40) -> ScoreTable:
    rng = np.random.default_rng(0)
    labels = {f"{o}-{s}": {"optimizer": o, "seed": s} for o in ("adam", "sgd") for s in range(runs)}
    found = [
        ScoreRow(run, name, "", data, rng.normal(size=samples) + (data != "id") * shift)
        for run in labels
        for name, shift in (("knn", 2.0), ("energy", 1.0))
        for data in ("id", "near", "far")
    ]
    return ScoreTable("id", tuple(found), labels, (Missing("lost", detector="vim"),))


def test_scores_go_all_the_way():
    finding = finite(robustness(score_table(), np.random.default_rng(0)))
    assert ("metric", "FPR@95TPR") in finding.facts
    assert {t.name for t in finding.tables} >= {"robustness", "metrics-2", "moments-1", "levels-1"}
    assert finding.missing == ("detector vim: lost",)
    assert finding == robustness(score_table(), np.random.default_rng(1))


def test_one_sample_and_no_scores():
    assert finite(robustness(score_table(samples=1), np.random.default_rng(0))).claims
    nothing = ScoreTable("id", (), {"": {}}, (Missing("lost", detector="vim"),))
    finding = finite(robustness(nothing, np.random.default_rng(0)))
    assert "is unknown" in finding.claims[0].text and finding.missing


def test_checkpoints_of_one_training_count_as_one_run():
    rng = np.random.default_rng(9)
    lines = [
        {"detector": d, "ood": "far", "optimizer": o, "seed": s, "value": rng.normal(0.8, 0.02)}
        for d in "ab" for o in ("adam", "sgd") for s in range(4)
    ]  # fmt: skip
    one = robustness_of(Results(pd.DataFrame(lines), ("optimizer", "seed")))
    looks = [line | {"epoch": epoch} for line in lines for epoch in ("best", "last")]
    two = robustness_of(Results(pd.DataFrame(looks), ("optimizer", "seed", "epoch")))
    assert [c.evidence for c in one.claims] == [c.evidence for c in two.claims]
    assert rows(one) == rows(two)
    assert any("re-evaluations of the same training run" in caveat for caveat in two.caveats)
    # A look that a detector lacks is a gap, not a mean of the others.
    gap = robustness_of(Results(pd.DataFrame(looks[1:]), ("optimizer", "seed", "epoch")))
    assert rows(gap)["a"][0] is None and rows(gap)["b"][0] == rows(one)["b"][0]


def test_runs_that_agree_to_the_last_digit_prove_no_more_than_their_signs():
    """Two runs each, rounded to two digits, and the same gap in both: p is 1/2, not 0."""
    frame = pd.DataFrame(
        {"detector": name, "ood": "far", "optimizer": level, "seed": seed, "value": value + up}
        for level, up in (("adam", 0.0), ("sgd", 0.01))
        for name, values in (("a", (0.91, 0.93)), ("b", (0.9, 0.92)))
        for seed, value in enumerate(values)
    )
    field = robustness_of(Results(frame, factors=("optimizer", "seed"), metric="auroc"))
    winners = next(c for c in field.claims if "does not change" in c.text)
    assert winners.verdict == "undecided"


def independent(rng, means, deviations, *, sets=1, optimizers=("sgd", "adam"), seeds=5, shift=None):
    """Independent normal values; `shift` (optimizers, detectors) moves the means."""
    return Results(
        pd.DataFrame(
            {
                "detector": f"d{place}",
                "ood": f"o{ood}",
                "optimizer": optimizer,
                "seed": seed,
                "value": rng.normal(mean + (shift[row][place] if shift else 0.0), deviation),
            }
            for ood in range(sets)
            for row, optimizer in enumerate(optimizers)
            for seed in range(seeds)
            for place, (mean, deviation) in enumerate(zip(means, deviations, strict=True))
        ),
        ("optimizer", "seed"),
    )


def decided(finding: Finding, part: str) -> bool:
    return any(part in claim.text and claim.verdict != "undecided" for claim in finding.claims)


def test_that_the_steadiest_is_also_the_best_takes_a_lead_in_the_mean():
    rng = np.random.default_rng(20)
    wrong = sum(
        decided(
            robustness_of(independent(rng, [0.8] * 4, [0.001] + [0.02] * 3)),
            "best mean AUROC, weigh",
        )
        for _ in range(30)
    )
    assert wrong <= 4  # without a test of means, 4 of 10 hold or flip by chance
    best = robustness_of(independent(rng, [0.9, 0.8, 0.8], [0.001, 0.02, 0.02]))
    assert best.claims[1].verdict == "holds" and "also has the best mean" in best.claims[1].text


def test_ten_outlier_sets_are_ten_chances_to_err():
    rng = np.random.default_rng(21)
    wrong = 0
    for _ in range(40):  # d0 is ahead under sgd, equal under adam: it never falls behind
        table = independent(rng, [0.8, 0.8], [0.01, 0.01], sets=10, shift=[[0.1, 0.0], [0.0, 0.0]])
        wrong += decided(robustness_of(table), "The detector with the best mean AUROC")
    assert wrong <= 5  # 9 of 40 if sets are not counted


def test_epochs_as_the_factor_are_looks_at_the_same_trainings():
    rng = np.random.default_rng(22)
    wrong, wide = 0, []
    for _ in range(60):
        own = {(name, seed): rng.normal(0.85, 0.03) for name in "ab" for seed in range(5)}
        frame = pd.DataFrame(
            {"detector": name, "ood": "far", "Epoch": epoch, "seed": seed,
             "value": level + rng.normal(0, 0.001)}
            for (name, seed), level in own.items() for epoch in range(6)
        )  # fmt: skip
        field = arrange(Results(frame, ("Epoch", "seed")))
        assert field.factor == "Epoch"
        scores = list(field.detector_scores.values())
        wrong += ratio(scores[0], scores[1], 0.95).p_value < 0.05
        estimate = scores[0].interval(0.95)
        wide.append(estimate.high / estimate.low)
    assert wrong <= 9  # 22 of 60 if epochs are taken for independent
    assert np.median(wide) > 2.5


def test_other_conditions_stand_beside_the_optimizer():
    rng = np.random.default_rng(23)
    frame = pd.DataFrame(
        {"detector": name, "ood": "far", "optimizer": optimizer, "network": network, "trial": trial,
         "epoch": epoch, "value": rng.normal(0.9, 0.01)}
        for name in "ab" for optimizer in ("sgd", "adam") for network in ("vgg", "resnet")
        for trial in range(3) for epoch in (1, 2)
    )  # fmt: skip
    table = Results(frame, ("trial", "epoch", "network", "optimizer"))
    named = {one.name: one for one in robustness_of(table).tables}
    assert [name for name in named if name.startswith("robustness")] == [
        "robustness", "robustness-network",
    ]  # fmt: skip
    alone = robustness_of(table, factor="network").tables[0]
    assert named["robustness-network"].rows == alone.rows
    assert "over network" in alone.title


def test_no_score_is_explained_and_equal_scores_are_called_equal():
    frame = independent(np.random.default_rng(0), [0.8, 0.8], [0.0, 0.0]).frame
    zero = robustness_of(Results(frame.assign(value=0.0), ("optimizer", "seed")))
    assert zero.claims[0].evidence == "their means are not above 0"
    same = robustness_of(Results(frame, ("optimizer", "seed"))).claims[0]
    assert same.text == "d0 and d1 vary least over optimizer by AUROC on o0, with equal scores."
    with pytest.raises(UserError, match="1e\\+200"):
        robustness_of(Results(frame.assign(value=1e200), ("optimizer", "seed")))


def test_intervals_stay_within_what_shares_can_be():
    rng = np.random.default_rng(24)
    frame = independent(rng, [0.5, 0.5], [0.2, 0.2], optimizers=("sgd",), seeds=3).frame
    frame["value"] = frame["value"].clip(0.0, 1.0)
    field = arrange(Results(frame, ("optimizer", "seed"), "fpr95", False), "optimizer")
    largest = max(m * math.sqrt(m * (100 - m)) for m in np.linspace(0, 100, 1001))  # brute force
    for score in field.detector_scores.values():
        assert score.value <= score.interval(0.95).high <= largest + 1e-6


def test_levels_may_be_categories_and_may_be_missing():
    frame = independent(np.random.default_rng(25), [0.8, 0.9], [0.01, 0.01]).frame
    frame["optimizer"] = frame["optimizer"].where(frame["optimizer"] != "adam").astype("category")
    field = arrange(Results(frame, ("optimizer", "seed")))
    assert (field.factor, field.levels) == ("optimizer", ("sgd", "not given"))
    table = instability_of(Results(frame, ("optimizer", "seed")), ["optimizer"]).tables[1]
    assert [row[0] for row in table.rows] == ["sgd", "not given"]


def by_seed(values, sets=("near",)):
    """One run of each seed; the same values on every outlier set."""
    lines = [
        {"detector": name, "ood": ood, "seed": seed, "value": value}
        for name, own in values.items()
        for seed, value in enumerate(own)
        for ood in sets
        if value is not None
    ]
    return robustness_of(Results(pd.DataFrame(lines), ("seed",)))


def test_equal_runs_have_no_score_by_rounding():
    (row, _) = by_seed({"a": [0.92] * 5, "b": [0.7, 0.9, 0.8, 0.6, 0.95]}).tables[0].rows
    assert row[1] == 0.0


def test_intervals_that_say_nothing_are_left_out_and_this_is_said():
    table = by_seed({"a": [0.9169, 0.9331, 0.917], "b": [0.7, 0.9, 0.8]}).tables[0]
    (_, wide, _), (_, narrow, _) = table.rows
    assert isinstance(wide, float) and narrow.high < 1000 * narrow.low
    assert "more than a thousandfold" in table.note


def test_claims_name_the_detectors_that_they_leave_aside():
    values = {
        "best": [0.99, None, 0.99, 0.98],
        "b": [0.7, 0.9, 0.8, 0.7],
        "c": [0.6, 0.6, 0.7, 0.6],
    }
    finding = by_seed(values, sets=("near", "far"))
    assert finding.claims
    told = " best lacks values and is not scored."
    assert finding.claims[0].text.endswith(told) and finding.answer.endswith(told)


def test_a_detector_that_lacks_one_set_is_not_said_to_be_left_out_of_all():
    rng = np.random.default_rng(0)
    spread = {"a": 0.01, "b": 0.03, "c": 0.03}
    lines = [
        {"detector": d, "ood": s, "seed": seed, "value": 0.9 + rng.normal(0, spread[d])}
        for d in "abc" for s in ("near", "far") for seed in range(4)
        if (d, s, seed) != ("a", "far", 2)
    ]  # fmt: skip
    finding = robustness_of(Results(pd.DataFrame(lines), ("seed",)))
    first = finding.claims[0].text
    assert "a on near" in first and first.endswith(
        " a lacks values and is not scored where it does."
    )


def test_one_run_is_not_said_to_have_a_variance():
    table = by_seed({"a": [0.9, 0.8, 0.7], "b": [0.7, 0.9, 0.8]}).tables[-1]
    assert table.rows[0][1:4] == ("90.000", "80.000", "70.000")
    assert "variance of a single run" in table.note


def by_sets(value, *, sets=6, levels=("adam", "sgd", "rmsprop"), seeds=4, detectors="ab"):
    """One value per detector, data set, optimizer and seed."""
    lines = [
        {"detector": d, "id": f"set{s}", "ood": "", "optimizer": o, "seed": seed,
         "value": value(d, s, o)}
        for d in detectors for s in range(sets) for o in levels for seed in range(seeds)
    ]  # fmt: skip
    return Results(pd.DataFrame(lines), ("optimizer", "seed"))


def test_differences_between_data_sets_are_no_variation_over_a_factor():
    """The variance over iterations is taken within data sets, and averaged over them."""
    rng = np.random.default_rng(3)
    base = [0.9, 0.5, 0.7, 0.6]
    lines = [
        {"detector": d, "id": f"set{s}", "ood": "", "iteration": i,
         "value": base[s % 4] - 0.2 * (d == "b") + rng.normal(0, 0.03 if d == "a" else 0.005)}
        for d in "ab" for s in range(12) for i in range(5)
    ]  # fmt: skip
    finding = robustness_of(Results(pd.DataFrame(lines), ("iteration",)))
    cells = pd.DataFrame(lines).groupby(["detector", "id"])["value"]
    wanted = np.sqrt(cells.var(ddof=0).groupby("detector").mean())
    wanted /= cells.mean().groupby("detector").mean()
    found = {row[0]: row[1].value for row in finding.tables[0].rows}
    assert found == pytest.approx(wanted.to_dict())
    assert finding.claims[0].text.startswith("b varies least over iteration by AUROC on 12 data")
    assert finding.claims[0].verdict == "holds"
    assert any("within each data set" in caveat for caveat in finding.caveats)


def test_other_conditions_are_averaged_before_a_factor_is_judged():
    """Another width is no run of the same optimizer: it must not count as variation under it."""
    rng = np.random.default_rng(4)
    lines = [
        {"detector": d, "ood": "far", "optimizer": o, "width": w, "seed": seed,
         "value": 0.6 + 0.1 * w * (d == "a") + rng.normal(0, 0.01)}
        for d in "ab" for o in ("adam", "sgd") for w in (1, 2, 3) for seed in range(4)
    ]  # fmt: skip
    frame = pd.DataFrame(lines)
    finding = robustness_of(Results(frame, ("optimizer", "width", "seed")))
    mean = frame.groupby(["detector", "optimizer", "seed"], as_index=False)["value"].mean()
    plain = robustness_of(Results(mean.assign(ood="far"), ("optimizer", "seed")))
    assert [row[1] for row in finding.tables[0].rows] == [
        pytest.approx(row[1]) for row in plain.tables[0].rows
    ]
    assert any("averaged over width first" in caveat for caveat in finding.caveats)


def test_runs_within_data_sets_do_not_make_a_lead():
    """Detectors differ by data set, but neither is better, nor more robust, on average."""
    held = 0
    for world in range(60):
        rng = np.random.default_rng(world)
        shift = rng.normal(0, 0.05, (2, 5))
        spread = rng.gamma(4, 0.002, (2, 5))

        def value(detector, number, optimizer, shift=shift, spread=spread, rng=rng):
            own = "ab".index(detector), number
            return 0.7 + shift[own] + rng.normal(0, spread[own])

        finding = robustness_of(by_sets(value, sets=5, seeds=8))
        held += any(claim.verdict != "undecided" for claim in finding.claims)
    assert held <= 60 * 0.05 + 2 * np.sqrt(60 * 0.05 * 0.95)


@pytest.mark.parametrize("optimizers", [(), ("adam", "sgd", "rmsprop")])
def test_runs_that_are_alike_on_all_data_sets_are_no_more_than_runs(optimizers):
    """Twelve sets repeat what five seeds do: neither a spread, nor a mean, nor a change is sure."""
    rng = np.random.default_rng(2)
    lines = [
        {"detector": d, "id": f"set{s}", "ood": "", "optimizer": o, "seed": seed,
         "value": 0.7 + own + rng.normal(0, 0.001)}
        for d in "abcd" for o in optimizers or ("adam",) for seed in range(5)
        for own in (rng.normal(0, 0.02),) for s in range(12)
    ]  # fmt: skip
    factors = ("optimizer", "seed") if optimizers else ("seed",)
    finding = robustness_of(Results(pd.DataFrame(lines), factors))
    assert {claim.verdict for claim in finding.claims} == {"undecided"}
    assert any("stand out over training runs, too" in caveat for caveat in finding.caveats)


def seeds_on_sets(rng, *, alike, ratio=1.0, optimizers=1, seeds=6):
    """Two detectors that seeds move alike on five data sets, and a little on each."""
    shape = (2, 5, optimizers, seeds)
    moved = alike * rng.normal(size=(2, 1, *shape[2:])) + rng.normal(size=shape)
    values = 0.8 + 0.004 * moved * np.array([1.0, ratio])[:, None, None, None]
    detector, data, optimizer, seed = (own.ravel().astype(str) for own in np.indices(shape))
    frame = pd.DataFrame({"detector": detector, "id": data, "ood": "", "optimizer": optimizer,
                          "seed": seed, "value": values.ravel()})  # fmt: skip
    factors = (Factor("optimizer"),) * (optimizers > 1) + (Factor("seed", "repeat"),)
    return Results(frame, factors, "auroc", True)


@pytest.mark.parametrize("optimizers", [1, 2])
def test_seeds_that_are_alike_on_all_data_sets_are_no_cases_of_each(optimizers):
    """Detectors that vary alike, on 30 pages; over data sets alone half of these were wrong."""
    rng = np.random.default_rng(0)
    wrong = alone = 0
    for _ in range(30):
        metric = arrange(seeds_on_sets(rng, alike=4.0, optimizers=optimizers)).over_data_sets()
        (one, other), (found,) = metric.detector_scores.values(), by_pair(metric)
        wrong += not found.tied
        alone += t_test(one.squares, other.squares).p_value < 0.05
    assert alone > 10 and wrong <= 4
    page = robustness_of(seeds_on_sets(rng, alike=4.0, optimizers=optimizers))
    assert any("stand out over training runs, too" in own for own in page.caveats)


def test_a_detector_that_varies_far_less_over_seeds_on_all_data_sets_is_found():
    rng = np.random.default_rng(1)
    pages = [robustness_of(seeds_on_sets(rng, alike=0.5, ratio=5.0, seeds=10)) for _ in range(5)]
    assert sum(page.claims[0].verdict == "holds" for page in pages) >= 4
    page = robustness_of(seeds_on_sets(rng, alike=0.0, ratio=20.0, seeds=2))
    assert page.claims[0].verdict == "undecided"  # two seeds show nothing of what they share


def test_seeds_of_each_data_set_by_itself_are_left_out_of_it_alone():
    results = seeds_on_sets(np.random.default_rng(2), alike=0.0, ratio=5.0, optimizers=2)
    own = results.frame.assign(seed=results.frame["id"] + results.frame["seed"])
    metric = arrange(replace(results, frame=own)).over_data_sets()
    assert metric.on_mean_set is None
    for score in metric.detector_scores.values():
        assert score.over_runs.strata.tolist() == [6] * 10 and len(score.over_runs.logs) == 60
    assert not by_pair(metric)[0].tied


@pytest.mark.parametrize("epsilon", ["printed", "published"])
@pytest.mark.parametrize("kind", ["usual", "equal", "one apart", "no variance", "one sure"])
def test_leaving_out_each_part_is_the_mixture_of_the_others(epsilon, kind):
    rng = np.random.default_rng(3)
    means, variances = rng.normal(90, 3, 40), rng.uniform(0.1, 5, 40)
    if kind == "equal":
        means[:], variances[:] = 91.7, 0.0
    if kind == "one apart":
        means[:], means[7], variances[:] = 91.7, 60.0, 0.0
    if kind == "no variance":
        variances[:] = 0.0
    if kind == "one sure":
        variances[5] = 0.0
    found = mixtures_without_each(means, variances, epsilon)
    for part in range(40):
        others = mixture(np.delete(means, part), np.delete(variances, part), epsilon)
        assert found.mean[part] == pytest.approx(others.mean, rel=1e-12)
        assert found.variance[part] == pytest.approx(others.variance, rel=1e-8, abs=0.0)
