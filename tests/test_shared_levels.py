"""Runs that share a fold or a split are not independent of each other."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from oodometer.factors import Factor
from oodometer.protocols.common.cases import scopes_of
from oodometer.protocols.common.score_cases import score_cases
from oodometer.protocols.instability.protocol import instability_of
from oodometer.protocols.label_noise.protocol import label_noise_of
from oodometer.protocols.ranking.protocol import ranking, ranking_of
from oodometer.protocols.ranking.standing import contest_of_scores, contest_of_values
from oodometer.protocols.robustness.protocol import robustness_of
from oodometer.results import Results
from oodometer.scores import ScoreRow, ScoreTable

WORLDS = 60
MOST = 3 + 3 * np.sqrt(3 * 0.95)  # wrong ones, at a level of 5%


def table(rng, outer, *, levels=5, seeds=4, detectors=4, between=0.02, within=0.002, lead=0.0):
    """Equally good detectors (but the first), whose values vary between the levels of a repeat."""
    shape = (detectors, levels, seeds)
    values = 0.8 + between * rng.normal(size=(*shape[:2], 1)) + within * rng.normal(size=shape)
    values[0] += lead
    lines = [
        {"detector": f"d{d}", "id": "x", "ood": "", outer: str(o), "seed": str(s), "value": value}
        for (d, o, s), value in np.ndenumerate(values)
    ]
    factors = (Factor(outer, "repeat"), Factor("seed", "repeat"))
    return Results(pd.DataFrame(lines), factors, "auroc", True)


@pytest.mark.parametrize("outer", ["split", "fold", "repetition"])
def test_equal_detectors_are_told_apart_in_one_world_in_twenty(outer):
    rng = np.random.default_rng(0)
    behind = ours = 0
    for _ in range(WORLDS):
        contest = contest_of_values(scopes_of(table(rng, outer, seeds=8)), "d0")
        behind += bool(contest.main.behind)
        ours += any(difference.p_value < 0.05 for difference in contest.main.ours.values())
    assert behind <= MOST and ours <= MOST


def test_intervals_of_means_cover_other_splits():
    rng = np.random.default_rng(0)
    covered = [
        mean.low <= 0.8 <= mean.high
        for _ in range(WORLDS)
        for mean in contest_of_values(scopes_of(table(rng, "split")), "").main.means.values()
    ]
    assert np.mean(covered) > 0.92


def test_levels_that_do_not_matter_cost_little_and_a_true_lead_is_found():
    rng = np.random.default_rng(0)
    found = [
        contest_of_values(
            scopes_of(table(rng, "split", between=0.0, within=0.02, lead=0.03)), ""
        ).is_decided
        for _ in range(WORLDS)
    ]
    assert np.mean(found) > 0.6


def test_a_page_says_what_runs_share_and_counts_no_runs_that_would_not_help():
    finding = ranking_of(table(np.random.default_rng(1), "split"), np.random.default_rng(0))
    assert any("20 training runs share 5 levels of split" in own for own in finding.caveats)
    assert not any("would take" in claim.text for claim in finding.claims)
    alone = table(np.random.default_rng(1), "split", seeds=1)
    assert not any("share" in own for own in ranking_of(alone, np.random.default_rng(0)).caveats)


@pytest.mark.parametrize("outer", ["split", "fold"])
def test_labels_without_effect_are_said_to_matter_in_one_world_in_twenty(outer):
    """Each split favors some labels, and its four seeds repeat that."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(WORLDS):
        values = 0.8 + 0.02 * rng.normal(size=(2, 2, 5, 1)) + 0.002 * rng.normal(size=(2, 2, 5, 4))
        lines = [
            {"detector": f"d{d}", "id": "x", "ood": "o", "label_noise": ("clean", "sym20")[n],
             outer: str(o), "seed": str(s), "value": value}
            for (d, n, o, s), value in np.ndenumerate(values)
        ]  # fmt: skip
        factors = (Factor("label_noise"), Factor(outer, "repeat"), Factor("seed", "repeat"))
        measured = {"auroc": Results(pd.DataFrame(lines), factors, "auroc", True)}
        finding = label_noise_of(measured, np.random.default_rng(0))
        wrong += any(claim.verdict != "undecided" for claim in finding.claims)
    assert wrong <= MOST
    assert any("share 5 levels" in caveat for caveat in finding.caveats)


def test_two_splits_decide_nothing_however_many_seeds_there_are():
    field = scopes_of(table(np.random.default_rng(0), "split", levels=2, seeds=9, lead=0.2))
    main = contest_of_values(field, "d0").main
    assert not main.behind and all(own.p_value == 1.0 for own in main.ours.values())


def test_scores_of_runs_that_share_a_split_decide_no_more_than_their_splits():
    """Three splits, of which each favors some detectors, four seeds each, many samples."""
    wrong = 0
    for world in range(20):
        rng = np.random.default_rng(world)
        labels = {f"{o}-{s}": {"split": o, "seed": s} for o in range(3) for s in range(4)}
        favored = rng.normal(0, 0.3, size=(3, 3))
        rows = [
            ScoreRow(
                run,
                f"d{d}",
                "",
                name,
                rng.normal(size=200) + (name == "far") * (1.5 + favored[d, own["split"]]),
            )
            for run, own in labels.items()
            for d in range(3)
            for name in ("id", "far")
        ]
        scored = ScoreTable("id", tuple(rows), labels)
        contest = contest_of_scores(score_cases(scored), "d0")
        wrong += bool(contest.main.behind)
    assert wrong <= 3
    caveats = ranking(scored, np.random.default_rng(0)).caveats
    assert any("12 training runs share 3 levels of split" in own for own in caveats)


def optimizers(rng, outer="split", *, levels=5, seeds=3, detectors=2, between=0.0, each=0.0):
    """Detectors that vary alike: between splits, or between splits under each optimizer."""
    shape = (detectors, 2, levels, seeds)
    values = 0.8 + 0.002 * rng.normal(size=shape)
    values += between * rng.normal(size=(detectors, 1, levels, 1))
    values += each * rng.normal(size=(*shape[:3], 1))
    lines = [
        {"detector": f"d{d}", "id": "x", "ood": "o", "optimizer": ("adam", "sgd")[n],
         outer: str(o), "seed": str(s), "value": value}
        for (d, n, o, s), value in np.ndenumerate(values)
    ]  # fmt: skip
    factors = (Factor("optimizer"), Factor(outer, "repeat"), Factor("seed", "repeat"))
    return Results(pd.DataFrame(lines), factors, "auroc", True)


SPLITS = pytest.mark.parametrize(("levels", "seeds"), [(5, 3), (3, 10)])
VARY = pytest.mark.parametrize("vary", ["between", "each"])  # see optimizers()


@SPLITS
@VARY
@pytest.mark.parametrize("factor", ["optimizer", "split"])
def test_detectors_that_vary_alike_are_told_apart_in_one_world_in_twenty(
    factor, vary, levels, seeds
):
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(WORLDS):
        table = optimizers(rng, levels=levels, seeds=seeds, **{vary: 0.02})
        found = robustness_of(table, factor=factor)
        wrong += any(claim.verdict != "undecided" for claim in found.claims[:2])
    assert wrong <= MOST
    assert any(f"rest on {levels} levels of split" in caveat for caveat in found.caveats)


def test_robustness_over_two_splits_is_undecided_however_large_the_difference_is():
    table = optimizers(np.random.default_rng(0), levels=2, seeds=10)
    worse = table.frame["value"].where(table.frame["detector"] == "d0", table.frame["value"] ** 9)
    found = robustness_of(replace(table, frame=table.frame.assign(value=worse)), factor="optimizer")
    assert {claim.verdict for claim in found.claims} == {"undecided"}


def test_a_detector_that_varies_far_more_between_splits_is_found():
    """Also where one optimizer lacks a split, and seeds come first in the table."""
    table = optimizers(np.random.default_rng(0), levels=10)
    more = (table.frame["split"].astype(int) - 4.5) * 0.01 * (table.frame["detector"] == "d1")
    frame = table.frame.assign(value=table.frame["value"] + more)
    lacking = frame[(frame["split"] != "3") | (frame["optimizer"] != "sgd")]
    for own in (frame, lacking):
        given = replace(table, frame=own, factors=tuple(reversed(table.factors)))
        claim, *_ = robustness_of(given, factor="optimizer").claims
        assert claim.verdict == "holds" and claim.text.startswith("d0 varies least")


def test_a_score_over_runs_stays_what_the_paper_defines():
    """Shared splits change how certain a score is, not what it is."""
    table = optimizers(np.random.default_rng(0), between=0.02)
    frame = table.frame
    plain = frame.assign(run=frame["split"] + frame["seed"]).drop(columns=["split", "seed"])
    alone = robustness_of(
        Results(plain, (Factor("optimizer"), Factor("run", "repeat")), "auroc", True),
        factor="optimizer",
    )
    together = robustness_of(table, factor="optimizer")
    shared, free = (found.tables[0].rows for found in (together, alone))
    for one, other in zip(shared, free, strict=True):
        assert one[1].value == pytest.approx(other[1].value)
        assert one[1].high - one[1].low > other[1].high - other[1].low


def _decided(finding, about, verdict):
    return any(c.verdict == verdict and about in c.text for c in finding.claims)


@SPLITS
def test_instability_counts_splits_and_not_their_seeds(levels, seeds):
    """Equal detectors that vary alike between splits, the same for all seeds on a split."""
    rng = np.random.default_rng(0)
    moves = never = changes = 0
    for _ in range(20):
        shared = instability_of(optimizers(rng, levels=levels, seeds=seeds, between=0.02))
        each = instability_of(optimizers(rng, levels=levels, seeds=seeds, each=0.02))
        moves += _decided(shared, "split moves", "holds") or _decided(each, " moves", "holds")
        never += _decided(shared, "changes the best", "holds")
        changes += _decided(each, "the optimizer changes the best", "flips")
    assert max(moves, never, changes) <= 4  # three standard deviations above one
    assert any(f"rest on {levels} levels of split" in caveat for caveat in shared.caveats)


def test_instability_over_splits_still_finds_what_splits_agree_on():
    table = optimizers(np.random.default_rng(0), levels=6, between=0.005, each=0.005)
    frame = table.frame
    lead = 0.03 * ((frame["detector"] == "d0") == (frame["optimizer"] == "sgd"))
    turning = instability_of(replace(table, frame=frame.assign(value=frame["value"] + lead)))
    assert _decided(turning, "the optimizer changes the best detector", "flips")
    ahead = frame.assign(value=frame["value"] + 0.05 * (frame["detector"] == "d0"))
    steady = instability_of(replace(table, frame=ahead))
    for factor in ("optimizer", "split", "seed"):
        assert _decided(steady, f"the {factor} never changes the best detector", "holds")


def test_instability_blocks_by_conditions_that_share_no_split():
    """Two optimizers, each on four splits of its own, under two widths that turn the order."""
    rng = np.random.default_rng(0)
    lines = [
        {"detector": f"d{d}", "id": "x", "ood": "o", "optimizer": opt, "width": width,
         "split": f"{opt}{split}", "seed": str(seed),
         "value": 0.8 + 0.03 * (d == (width == "2")) + 0.01 * n * d + rng.normal(0, 0.002)}
        for d in range(2) for n, opt in enumerate(("adam", "sgd")) for width in "12"
        for split in range(4) for seed in range(3)
    ]  # fmt: skip
    factors = (Factor("optimizer"), Factor("width"), Factor("split", "repeat"),
               Factor("seed", "repeat"))  # fmt: skip
    found = instability_of(Results(pd.DataFrame(lines), factors, "auroc", True))
    assert _decided(found, "the width changes the best detector", "flips")
