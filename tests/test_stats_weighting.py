"""Differences that must stand out in two ways: by two weightings, or over sets and over runs."""

import numpy as np
import pandas as pd
import pytest

from oodometer.factors import Factor
from oodometer.protocols.common.cases import scopes_of
from oodometer.protocols.common.differences import compare_values
from oodometer.protocols.common.outer_units import OuterUnits
from oodometer.protocols.common.score_cases import score_cases
from oodometer.protocols.ranking.protocol import ranking, ranking_of
from oodometer.protocols.ranking.standing import contest_of_scores, contest_of_values
from oodometer.results import Results, results
from oodometer.scores import ScoreRow, ScoreTable
from oodometer.stats.leaderboard import leaderboard
from oodometer.stats.pairwise import difference, from_values
from oodometer.stats.weighting import (
    also_over_runs,
    also_weighted,
    weighted_freedom,
    weighted_summaries,
    weighted_values,
    with_weighted_means,
)


def test_weighted_values_have_the_weighted_mean_and_its_robust_error():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(3, 12)), rng.uniform(0.5, 2.0, size=12)
    shares = weights / weights.sum()
    found = weighted_values(values, weights)
    means = values @ shares
    assert found.mean(axis=1) == pytest.approx(means)
    robust = 12 / 11 * ((shares * (values - means[:, None])) ** 2).sum(axis=1)
    assert found.var(axis=1, ddof=1) / 12 == pytest.approx(robust)
    assert weighted_values(values, np.ones(12)) == pytest.approx(values)


def test_degrees_of_freedom_are_those_of_the_conditions():
    assert weighted_freedom([4, 4, 4]) == pytest.approx(9.0)
    assert 1.0 < weighted_freedom([30, 2]) < 1.2
    assert weighted_freedom([5, 1]) > 0.0


def test_a_difference_stands_out_by_both_weightings_or_not_at_all():
    plain = from_values([[3.0, 3.1, 2.9, 3.2], [1.0, 1.1, 0.9, 1.2], [1.0, 1.1, 0.9, 1.2]])
    turned = plain._replace(means=plain.means[[1, 0, 2]])
    found = also_weighted(plain, turned, 0.0)
    assert difference(found, 0, 1).p_value == 1.0
    assert found.error[1, 2] == plain.error[1, 2]  # equal ones stay equal
    less = also_weighted(plain, plain._replace(error=2.0 * plain.error), 1.0)
    assert less.error == pytest.approx(2.0 * plain.error)
    assert less.df == pytest.approx(plain.df - 1.0)


def optimizers(rng, counts, effects):
    """Detectors that are equal but for what each optimizer does to them, with so many seeds."""
    lines = [
        {"detector": f"d{d}", "id": "x", "ood": "o", "optimizer": name, "seed": str(seed),
         "value": 0.8 + effect[n] + rng.normal(0, 0.005)}
        for d, effect in enumerate(effects)
        for n, (name, count) in enumerate(counts.items())
        for seed in range(count)
    ]  # fmt: skip
    factors = (Factor("optimizer"), Factor("seed", "repeat"))
    return Results(pd.DataFrame(lines), factors, "auroc", True)


COUNTS = {"adam": 10, "sgd": 5, "rmsprop": 3}


def test_nobody_leads_because_its_condition_has_the_most_runs():
    """The first is better under adam, which has 10 of 18 runs, and as much worse under rmsprop."""
    effects = ((0.03, 0.0, -0.03), (-0.03, 0.0, 0.03), (0.0, 0.0, 0.0))
    for seed in range(3):
        table = optimizers(np.random.default_rng(seed), COUNTS, effects)
        finding = ranking_of(table, np.random.default_rng(0))
        leads = {claim.verdict for claim in finding.claims if claim.theme == "leads"}
        assert leads == {"undecided"}
    told = "from 3 (optimizer=rmsprop) to 10 (optimizer=adam)"
    assert any(told in caveat for caveat in finding.caveats)


def test_a_lead_under_every_condition_is_found_whatever_their_numbers_of_runs():
    for seed in range(3):
        table = optimizers(np.random.default_rng(seed), COUNTS, ((0.02,) * 3, (0.0,) * 3))
        first, *_ = ranking_of(table, np.random.default_rng(0)).claims
        assert first.verdict == "holds" and first.text.startswith("d0 has the highest")


def test_equal_numbers_of_runs_change_nothing():
    runs = [{"optimizer": o, "seed": s} for o in "ab" for s in range(3)]
    units = OuterUnits.of(runs, [Factor("optimizer"), Factor("seed", "repeat")])
    assert not units.counts and not units.caveats(6)
    assert units.at([0, 1, 2, 3]).counts == {"optimizer=a": 3, "optimizer=b": 1}


def test_of_sets_and_runs_the_larger_p_value_counts():
    rng = np.random.default_rng(3)
    for _ in range(20):
        cells = rng.normal(size=(4, 6, 3)) + 0.5 * rng.normal(size=(4, 1, 3))
        sets = from_values(cells.mean(axis=2), shared=False)
        runs = from_values(cells.mean(axis=1))
        found = also_over_runs(sets, runs, 3)
        for i, j in ((0, 1), (2, 0), (3, 2)):
            both = [difference(own, i, j).p_value for own in (sets, runs)]
            assert difference(found, i, j).p_value == pytest.approx(max(both))
    turned = also_over_runs(sets, runs._replace(means=-runs.means), 3)
    assert difference(turned, 0, 1).p_value == 1.0  # who leads in one of them leads in none


def test_two_runs_enlarge_the_errors_between_sets_but_decide_nothing():
    sets = from_values([[3.0, 3.1, 2.9, 3.2], [1.0, 1.2, 0.9, 1.1], [1.0, 1.9, 0.5, 1.1]])
    for factor in (0.0, 0.1, 100.0):
        runs = sets._replace(error=factor * sets.error, df=np.ones_like(sets.df))
        found, added = also_over_runs(sets, runs, 2), 3.0 * runs.error.max() ** 2
        for i, j in ((0, 1), (0, 2), (1, 2)):
            assert found.error[i, j] ** 2 == pytest.approx(added + sets.error[i, j] ** 2)
            assert 2.0 - 1e-3 <= found.df[i, j] <= sets.df[i, j] + 1e-9  # three detectors
    assert found.df[0, 1] == pytest.approx(2.0, abs=0.01)
    assert also_over_runs(sets, sets._replace(error=0.0 * sets.error), 2).error == pytest.approx(
        sets.error
    )


@pytest.mark.parametrize("many", [2, 5])
def test_two_runs_that_are_alike_on_all_sets_are_no_proof(many):
    """Two equal detectors, or five that one cause moves: 9% to 12% were told apart."""
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(100):
        runs = rng.normal(size=(many, 1, 2))
        if many > 2:
            runs = rng.normal(size=(many, 1, 1)) * runs[:1]
        cells = 2.0 * runs + rng.normal(size=(many, 10, 1)) + rng.normal(size=(many, 10, 2))
        sets = from_values(cells.mean(axis=2), shared=False)
        found = also_over_runs(sets, from_values(cells.mean(axis=1)), 2)
        wrong += not leaderboard(found).can_be_best.all()
    assert wrong <= 10


@pytest.mark.parametrize("splits", [2, 3])
def test_few_splits_of_all_data_sets_leave_sets_to_decide(splits):
    """Detectors differ from set to set, and hardly from run to run."""
    rng = np.random.default_rng(5)
    shape = (3, 10, splits, 2)
    values = 0.8 + 0.01 * rng.normal(size=(3, 10, 1, 1)) + 0.0005 * rng.normal(size=shape)
    values[0] += 0.04
    detector, data, split, seed = (own.ravel().astype(str) for own in np.indices(shape))
    frame = pd.DataFrame({"detector": detector, "id": data, "ood": "", "split": split,
                          "seed": seed, "value": values.ravel()})  # fmt: skip
    factors = (Factor("split", "repeat"), Factor("seed", "repeat"))
    contest = contest_of_values(scopes_of(Results(frame, factors, "auroc", True)), "")
    assert contest.is_decided
    assert contest.standings[1].board.is_decided == (splits == 3)


def on_sets(rng, alike, sets=12, seeds=3, lead=0.0):
    """Four detectors whose seeds move them alike on all data sets, and a little on each."""
    moved = alike * rng.normal(size=(4, 1, seeds)) + 0.005 * rng.normal(size=(4, sets, seeds))
    moved[0] += lead
    detector, data, seed = (own.ravel().astype(str) for own in np.indices(moved.shape))
    frame = pd.DataFrame({"detector": detector, "id": data, "ood": "", "seed": seed})
    factors = (Factor("seed", "repeat"),)
    return Results(frame.assign(value=0.8 + moved.ravel()), factors, "auroc", True)


def test_seeds_that_are_alike_on_all_data_sets_are_no_cases_of_each():
    """Equal detectors: 12 sets with the same three seeds are not 12 independent cases."""
    rng = np.random.default_rng(0)
    alone = wrong = either = 0
    for _ in range(20):
        fields = scopes_of(on_sets(rng, alike=0.01))
        by_sets, retrained = contest_of_values(fields, "").standings
        alone += not leaderboard(compare_values(fields[0], fields[0].values)).can_be_best.all()
        wrong += bool(by_sets.behind)
        either += bool(by_sets.behind or retrained.behind)
        assert set(by_sets.behind) <= set(retrained.behind)
    assert alone > 12
    assert wrong <= either <= 3


def test_a_lead_over_sets_and_seeds_is_found_and_said_with_both():
    rng = np.random.default_rng(1)
    found = [contest_of_values(scopes_of(on_sets(rng, 0.0, lead=0.02)), "") for _ in range(10)]
    assert all(own.is_decided for own in found)
    finding = ranking_of(on_sets(rng, alike=0.01), rng)
    assert "12 data sets and 3 runs" in finding.answer
    assert any("over training runs, too" in caveat for caveat in finding.caveats)


def by_condition(table):
    """Mean of each detector over the means under each optimizer."""
    return table.frame.groupby(["detector", "optimizer"])["value"].mean().groupby("detector").mean()


def test_shown_means_weigh_conditions_the_same():
    """By runs the first leads, by conditions the second: one order on the whole page."""
    effects = ((0.04, 0.0, -0.03), (0.0, 0.0, 0.04), (0.0, 0.0, 0.0))
    table = optimizers(np.random.default_rng(0), COUNTS, effects)
    expected = by_condition(table)
    plain = table.frame.groupby("detector")["value"].mean()
    assert plain.idxmax() == "d0" and expected.idxmax() == "d1"
    finding = ranking_of(table, np.random.default_rng(0))
    for name in ("means", "leaderboard"):
        rows = next(own.rows for own in finding.tables if own.name == name)
        assert {row[0]: row[1].value for row in rows} == pytest.approx(expected.to_dict())
        assert rows[0][0] == "d1"
        assert all(row[1].low < row[1].value < row[1].high for row in rows)
    assert finding.claims[0].text.startswith("d1 has the highest")
    told = "each condition counts the same in means"
    assert any(told in caveat for caveat in finding.caveats)


def scored(effects, samples=300):
    """Scores whose separation is what each optimizer does to a detector, with so many seeds."""
    rng = np.random.default_rng(0)
    labels = {f"{o}{s}": {"optimizer": o, "seed": s} for o, n in COUNTS.items() for s in range(n)}
    moved = {name: rng.normal(0, 0.05, size=len(effects)) for name in labels}
    base = {name: rng.normal(size=samples) for name in ("id", "near", "far")}
    place = {name: number for number, name in enumerate(COUNTS)}
    rows = [
        ScoreRow(run, f"d{d}", "", name,
                 noise + (name != "id") * (1 + moved[run][d] + effect[place[own["optimizer"]]]))
        for run, own in labels.items() for d, effect in enumerate(effects)
        for name, noise in base.items()
    ]  # fmt: skip
    return ScoreTable("id", tuple(rows), labels)


def test_scores_and_the_results_they_reduce_to_have_the_same_means_order_and_verdict():
    """By runs the first leads, by conditions the second; the third is behind by both."""
    table = scored(((0.4, 0.0, -0.4), (0.0, 0.1, 0.4), (-0.6, -0.6, -0.6)))
    reduced = results(table)
    plain = reduced.frame.groupby("detector")["value"].mean()
    assert plain.idxmax() == "d0" and by_condition(reduced).idxmax() == "d1"
    of_scores = contest_of_scores(score_cases(table), "")
    of_values = contest_of_values(scopes_of(reduced), "")
    assert of_scores.detectors == of_values.detectors == ("d1", "d0", "d2")
    assert of_scores.means == pytest.approx(of_values.means)
    for name, means in of_values.set_means.items():
        assert of_scores.set_means[name] == pytest.approx(means)
    for standing in of_scores.standings:  # after retraining, and on these very models
        for name, mean in of_values.main.means.items():
            assert standing.means[name].value == pytest.approx(mean.value)
    assert of_scores.main.behind == of_values.main.behind == ("d2",)
    pages = ranking(table, np.random.default_rng(0)), ranking_of(reduced, np.random.default_rng(0))
    assert pages[0].claims[0].verdict == pages[1].claims[0].verdict == "undecided"
    told = "each condition counts the same in means"
    assert all(any(told in caveat for caveat in page.caveats) for page in pages)
    shown = next(own for own in pages[0].tables if own.name == "side-by-side")
    by_fpr = by_condition(results(table, "fpr95"))
    assert {row[0]: row[2] for row in shown.rows} == pytest.approx(by_fpr.to_dict())


def test_both_scopes_of_a_page_have_the_same_means():
    rng = np.random.default_rng(2)
    parts = [optimizers(rng, COUNTS, ((0.02, 0.0, -0.02), (0.0,) * 3)) for _ in range(3)]
    frames = [part.frame.assign(id=f"s{n}") for n, part in enumerate(parts)]
    table = Results(pd.concat(frames, ignore_index=True), parts[0].factors, "auroc", True)
    by_sets, retrained = contest_of_values(scopes_of(table), "").standings
    assert by_sets.means.keys() == retrained.means.keys()
    for name, mean in by_sets.means.items():
        assert retrained.means[name].value == pytest.approx(mean.value)
    finding = ranking_of(table, rng)
    rows = next(own.rows for own in finding.tables if own.name == "sets")
    expected = [by_condition(part) for part in parts]
    for name, *means in rows:
        assert means == pytest.approx([own[name] for own in expected])


def test_weighing_conditions_keeps_p_values_and_covers_the_mean():
    rng = np.random.default_rng(4)
    runs = [{"optimizer": o, "seed": s} for o, n in COUNTS.items() for s in range(n)]
    units = OuterUnits.of(runs, [Factor("optimizer"), Factor("seed", "repeat")])
    moved = np.repeat([0.05, 0.0, -0.05], list(COUNTS.values()))
    covered = 0
    for _ in range(100):
        values = 0.8 + moved + 0.02 * rng.normal(size=(2, 18))
        plain = units.compared(values, from_values)
        summaries = weighted_summaries(values, units.weights, list(COUNTS.values()))
        found = with_weighted_means(plain, units.mean(values), summaries, (0.0, 1.0))
        before = difference(plain, 0, 1).p_value
        assert difference(found, 0, 1).p_value == pytest.approx(before)
        low, high = found.intervals(0.95)[0][1:]
        covered += low <= 0.8 <= high
    assert covered >= 95


@pytest.mark.parametrize("rounding", [0.0, 1e-16, -1e-16])
def test_detectors_with_the_same_weighted_mean_differ_by_chance_not_by_nothing(rounding):
    """2 runs with adam and 5 with sgd, in nearly all of which the two are 20 points apart."""
    counts = {"adam": 2, "sgd": 5}
    runs = [{"optimizer": o, "seed": s} for o, n in counts.items() for s in range(n)]
    units = OuterUnits.of(runs, [Factor("optimizer"), Factor("seed", "repeat")])
    first = np.array([0.9, 0.7, 0.9, 0.7, 0.9, 0.7, 0.8])
    values = np.array([first, 1.6 - first])
    summaries = weighted_summaries(values, units.weights, list(counts.values()))
    means = units.mean(values) + np.array([rounding, 0.0])
    plain = units.compared(values, from_values)
    found = difference(with_weighted_means(plain, means, summaries, (0.0, 1.0)), 0, 1)
    assert found.value == pytest.approx(0.0) and found.p_value == pytest.approx(1.0)
    assert 0.1 < found.high - found.low < np.inf
