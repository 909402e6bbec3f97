"""One answer per page: what a ranking shows twice is the same, and follows from one procedure."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from oodometer.analysis import analyze
from oodometer.errors import UserError
from oodometer.factors import Factor
from oodometer.finding import Finding
from oodometer.metrics import Estimate
from oodometer.protocols import PROTOCOLS, score_protocol
from oodometer.protocols.common.differences import Paired, paired_difference
from oodometer.protocols.common.measured import Measured
from oodometer.protocols.common.outer_units import OuterUnits
from oodometer.protocols.instability.comparisons import level_comparisons
from oodometer.protocols.instability.spreads import compared, spreads
from oodometer.protocols.ranking.protocol import ranking, ranking_of
from oodometer.protocols.robustness.comparisons import compare_means
from oodometer.protocols.robustness.scored import arrange
from oodometer.results import Results
from oodometer.scores import ScoreRow, ScoreTable
from oodometer.stats.leaderboard import from_values, leaderboard

MAIN = ("auroc", "means", "leaderboard")  # tables of the main scope
TOLD = re.compile(r"(?P<pair>[^;]*): [+−]?[\d.]+(?: points)? \[(?P<low>[^,]+), (?P<high>[^\]]+)\], "
                  r"(?:adjusted )?p (?P<p>[=<] [\d.e-]+)")  # fmt: skip


def scored(seed, *, detectors=6, runs=9, samples=150, gap=0.25, wobble=0.2, hard=0.0, more=()):
    """Detectors d0, d1, ...: each `gap` behind the one before; on the set `hard` by that share."""
    rng = np.random.default_rng(seed)
    labels = {f"run {r}": {"seed": r // 3, "optimizer": r % 3} for r in range(runs)}
    sets = ("id", "far", "near", "hard", *more)
    easy = {name: rng.normal(size=samples) for name in sets}
    rows = [
        ScoreRow(
            run, f"d{d}", "", name,
            easy[name] + rng.normal(0, 0.4, samples)
            + (name != "id") * (hard if name == "hard" else 1.0) * (2.0 - gap * d + own),
        )
        for run in labels
        for d in range(detectors)
        for own in (rng.normal(0, wobble),)
        for name in sets
    ]  # fmt: skip
    return ScoreTable("id", tuple(rows), labels)


def measured(seed, *, runs, sets, higher=True, scale=1.0, data=False):
    """A results table with runs, outlier sets, or data sets of their own."""
    rng = np.random.default_rng(seed)
    lines = [
        {"detector": f"d{d}", "ood": "" if data else s, "id": s if data else "id", "seed": r,
         "value": scale * (0.9 - 0.02 * d + rng.normal(0, 0.01))}
        for d in range(7) for s in [f"s{n}" for n in range(sets)] for r in range(runs)
    ]  # fmt: skip
    return Results(pd.DataFrame(lines), ("seed",), "auroc" if scale == 1 else "score", higher)


def tables(finding: Finding, *names: str):
    return [table for table in finding.tables if table.name.rsplit("-", 1)[0] in names]


def check_means(finding: Finding) -> None:
    """The mean of a detector in one scope has one value and one interval."""
    seen: dict[str, object] = {}
    main = [table for table in finding.tables if table.name in MAIN]
    for table in main:
        for row in table.rows:
            if row[1] is not None:
                assert seen.setdefault(str(row[0]), row[1]) == row[1], (table.name, row)
    assert len(main) == 2
    on_sets = {
        (row[0], name): cell
        for table in tables(finding, "auroc")
        for row in table.rows
        for name, cell in zip(table.columns[2:], row[2:], strict=True)
    }
    for series in finding.series:
        for point in series.points if series.kind in ("intervals", "leaderboard") else ():
            known = on_sets.get((point["label"], point.get("group")), seen[str(point["label"])])
            ends = tuple(known) if isinstance(known, Estimate) else (known, None, None)
            assert (point["value"], point["low"], point["high"]) == ends


def check_leaderboards(finding: Finding, scopes: int) -> None:
    """Cannot be the best = p below 5% = interval ends at 0 = no rank 1 = behind the leader."""
    boards = tables(finding, "leaderboard")
    assert len(boards) == scopes
    for board in boards:
        scope = board.title.removeprefix("Who can be the best ").removesuffix("?")
        excluded = {row[0] for row in board.rows if row[2] == "no"}
        assert board.rows[0][2] == "yes"
        for name, _, _, ranks, group, gap, p_value in board.rows:
            first = re.match(r"1(?!\d)", ranks) is not None
            assert first == (name not in excluded)
            if name != board.rows[0][0]:
                assert (p_value < 0.05) == (name in excluded)
                assert set(group) & set(board.rows[0][4]) or name in excluded
            if isinstance(gap, Estimate):
                assert gap.low <= gap.value <= max(gap.high, gap.value)
                assert (gap.high <= 0.0) == (name in excluded)
        check_words(finding, scope, [row[0] for row in board.rows], excluded)
    groups = {row[0]: row[4] for row in boards[0].rows} if boards else {}
    for series in finding.series:  # bars join the same detectors in every figure
        if series.kind in ("leaderboard", "critical"):
            assert all(point["letters"] == groups[point["label"]] for point in series.points)


def check_words(finding: Finding, scope: str, names: list[str], excluded: set[str]) -> None:
    about = [c for c in finding.claims if scope in c.text or scope.capitalize() in c.text]
    named = {n for c in about if c.text.startswith(("Behind the ", "Cannot be ")) for n in names
             if re.search(rf"\b{n}\b", c.text)}  # fmt: skip
    ahead = [c for c in about if "it is significantly ahead of" in c.text
             or f", {names[0]} is significantly ahead of" in c.text]  # fmt: skip
    decided = len(excluded) == len(names) - 1
    assert [c.verdict for c in ahead] == ["holds"] * decided
    assert named == (set() if decided else excluded)


def check_answer(finding: Finding) -> None:
    """The answer names those that can be the best, as far as it names detectors."""
    board = next(table for table in finding.tables if table.name == "leaderboard")
    able = [str(row[0]) for row in board.rows if row[2] == "yes"]
    sentence = finding.answer.split(". ")[0].rstrip(".")
    if "two " in sentence:
        assert re.match(rf"{able[0]} has the best mean .*, but two (training )?runs are", sentence)
        assert len(able) == len(board.rows)
        return
    if sentence.startswith("No detector stands out"):
        assert len(able) == len(board.rows) > 2
        assert f": {able[0]} has the best mean" in sentence
        every = "either of the 2" if len(able) == 3 else f"any of the {len(able) - 1}"
        assert f"not separable from {every} others with" in sentence
        return
    if sentence.endswith("has the better mean here"):
        assert len(able) == len(board.rows) == 2
        first, other = able
        assert sentence.startswith(f"{first} and {other} are not separable with ")
        assert f": {first} has" in sentence
        return
    if sentence.startswith("No clear winner"):
        named = re.fullmatch(
            r"No clear winner: (.*) has the best mean, but (.*) are not .*", sentence
        )
        assert len(able) > 4 and named[1] == able[0]
        assert re.split(", | and ", named[2]) == [*able[1:4], f"{len(able) - 4} more"]
    else:
        named, why = sentence.removeprefix("Use ").split(": ")
        assert ("significantly ahead of" in why) == (len(able) == 1)
        spread = re.search(r"[:.] ([^:.]*) cannot be ruled out", finding.answer)
        erratic = re.split(", | and ", spread[1]) if spread else []
        assert [*re.split(", | or ", named), *erratic] == able
        assert able != [str(row[0]) for row in board.rows]
    leaders = finding.series[0]
    assert leaders.name == "leaders"
    shown = [str(p["label"]) for p in leaders.points if p["leads"] == "yes"]
    assert shown == able[: len(shown)] and len(shown) == min(len(able), 10)


def check_differences(finding: Finding) -> None:
    """An interval beside an adjusted p-value excludes 0 exactly where p is below 5%."""
    for table in tables(finding, "ours", "by") + [t for t in finding.tables if t.name == "ours"]:
        for row in table.rows:
            for cell, p_value in pairwise(row):
                if isinstance(cell, Estimate) and isinstance(p_value, float):
                    assert (cell.low > 0 or cell.high < 0) == (p_value < 0.05), (table.name, row)
    for claim in finding.claims:
        for found in TOLD.finditer(claim.evidence):
            low, high = (float(found[end].replace("−", "-")) for end in ("low", "high"))
            small = found["p"].startswith("<") or float(found["p"][2:]) < 0.05
            if "best of the others" not in found["pair"] and 0.0 not in (low, high):
                assert (low > 0 or high < 0) == small, claim.evidence


@pytest.mark.parametrize("runs", [1, 2, 3, 9])
@pytest.mark.parametrize("gap", [0.0, 0.1, 0.6])
def test_a_page_of_scores_never_contradicts_itself(runs, gap):
    for seed in range(3):
        table = scored(seed, runs=runs, gap=gap)
        for ours in ("", "d2"):
            finding = ranking(table, np.random.default_rng(0), ours)
            check_means(finding)
            check_leaderboards(finding, scopes=1 if runs == 1 else 2)
            if not ours:
                check_answer(finding)
            check_differences(finding)


@pytest.mark.parametrize("shape", [{"runs": 5, "sets": 3}, {"runs": 1, "sets": 8},
                                   {"runs": 3, "sets": 6, "data": True},
                                   {"runs": 4, "sets": 2, "higher": False},
                                   {"runs": 4, "sets": 4, "scale": 40.0},
                                   {"runs": 2, "sets": 3}])  # fmt: skip
def test_a_page_of_values_never_contradicts_itself(shape):
    for seed in range(3):
        for ours in ("", "d3"):
            finding = ranking_of(measured(seed, **shape), np.random.default_rng(0), ours)
            check_means(finding)
            check_leaderboards(finding, scopes=2 if "data" in shape else 1)
            if not ours:
                check_answer(finding)
            check_differences(finding)


def test_all_findings_of_one_study_show_the_same_means():
    """Whatever protocol shows the mean AUROC of a detector, overall or on a set, agrees."""
    table = scored(1)
    (auroc,) = tables(ranking(table, np.random.default_rng(0)), "auroc")
    known = {row[0]: [cell.value for cell in row[1:]] for row in auroc.rows}
    seen = 0
    for name in ("instability", "robustness", "spread"):
        for shown in score_protocol(name)(table, np.random.default_rng(0)).tables:
            places = [n for n, column in enumerate(shown.columns) if column == "mean"]
            for row in shown.rows:
                for place in places if row[0] in known else ():
                    cell = row[place]
                    value = cell.value if isinstance(cell, Estimate) else cell
                    assert min(abs(value - own) for own in known[row[0]]) < 1e-9, (shown.name, row)
                    seen += 1
    assert seen


@pytest.mark.parametrize("gap", [0.0, 0.2, 1.0])
def test_the_answer_of_an_od_test_is_that_of_its_first_claim(gap):
    few = score_protocol("od_test")(scored(0, gap=gap, runs=3), np.random.default_rng(0))
    best = few.claims[0].text.split()[0]
    assert few.answer.startswith(f"{best} is the most accurate here (")
    assert "fewer than 4 outlier sets cannot say" in few.answer  # no winner, and what is lacking
    table = scored(0, gap=gap, runs=3, hard=0.9, more=("a", "b"))
    finding = score_protocol("od_test")(table, np.random.default_rng(0))
    best = finding.claims[0].text.split()[0].rstrip(",")
    assert re.match(rf"(Use|No clear winner:) {best}\b", finding.answer)
    is_sure = "significantly more than every other" in finding.answer
    assert is_sure == (finding.claims[0].verdict == "holds")


def test_what_one_model_decides_is_told_apart_from_retraining():
    """Many samples and three runs that disagree: the models decide, retraining does not."""
    finding = ranking(
        scored(3, detectors=3, runs=3, samples=3000, gap=0.15, wobble=0.25),
        np.random.default_rng(0),
    )
    first = finding.claims[0]
    (models,) = [c for c in finding.claims if c.text.startswith("On these 3 models")]
    assert first.verdict == "undecided" and "after retraining it is not separable" in first.text
    assert models.verdict == "holds" and "significantly ahead of" in models.text
    assert "the lead is decided on these 3 models" in first.evidence
    assert "in single training runs" in first.evidence


def test_three_seeds_of_eighteen_detectors_say_something():
    """Four at the top are equal, fourteen fall behind step by step."""
    rng = np.random.default_rng(4)
    strength = [2.2] * 4 + [2.2 - 0.3 * step for step in range(1, 15)]
    base = {name: rng.normal(size=400) for name in ("id", "far", "near")}
    rows = [
        ScoreRow(f"{run}", f"d{d:02}", "", name, base[name] + rng.normal(0, 0.4, 400) + shift)
        for run in range(3)
        for d, mean in enumerate(strength)
        for own in (rng.normal(0, 0.04),)
        for name in base
        for shift in ((mean + own) * (name != "id"),)
    ]
    table = ScoreTable("id", tuple(rows), {f"{run}": {"seed": run} for run in range(3)})
    finding = ranking(table, np.random.default_rng(0))
    first, behind = finding.claims[:2]
    top, rest = {f"d{d:02}" for d in range(4)}, {f"d{d:02}" for d in range(4, 18)}
    (board,) = [t for t in finding.tables if t.name == "leaderboard"]
    told = {row[0] for row in board.rows if row[2] == "no"}
    assert behind.verdict == "holds" and "Behind the leader after retraining" in behind.text
    assert re.search(r": d\d\d, .* and \d+ more \(95% confidence\)", behind.text)
    assert not told & top and len(told & rest) >= 12
    assert set(re.findall(r"d\d\d", first.text)) >= top
    assert len(finding.claims) <= 12


# ---- ours ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("detectors", "runs"), [(2, 3), (3, 4), (5, 3), (8, 10)])
def test_a_declared_detector_is_judged_by_one_rule_wherever_it_stands(detectors, runs):
    """Who is behind whom, in the leaderboard and in the comparisons declared in advance."""
    rng = np.random.default_rng(0)
    told = 0
    for _ in range(60):
        gaps = rng.choice([0.0, 0.02, 0.1]) * rng.random((detectors, 1))
        values = 0.9 - gaps + 0.01 * rng.normal(size=(detectors, runs))
        board = leaderboard(from_values(values, bounds=(0, 1)), declared=0)
        for place, own in enumerate(board.ours):
            ahead, behind = (own.p_value < 0.05 and sign * own.value > 0 for sign in (1, -1))
            assert board.separated[place, board.declared] == ahead
            assert board.separated[board.declared, place] == behind
            told += own.p_value < 0.05
        excluded = [own.high <= 0.0 for own in board.behind]
        assert excluded[1:] == (~board.can_be_best[1:]).tolist()
        small = [own.p_value < 0.05 for own in board.behind]
        assert small[1:] == (~board.can_be_best[1:]).tolist()
    assert told > 3


def test_the_declared_detector_comes_first():
    finding = ranking(scored(0, runs=4, gap=0.4), np.random.default_rng(0), "d2")
    assert dict(finding.facts)["declared in advance"] == "d2"
    first = finding.claims[0]
    assert first.text.startswith("d2, declared in advance, is significantly ahead of d")
    assert "and behind d0" in first.text and first.verdict == "holds"
    (table,) = [t for t in finding.tables if t.name == "ours"]
    assert {row[0] for row in table.rows} == {"d0", "d1", "d3", "d4", "d5"}


def test_open_pairs_of_the_declared_detector_say_how_many_runs_they_need():
    results = measured(5, runs=4, sets=2)
    close = results.frame["detector"].isin(["d2", "d3"])
    frame = results.frame.assign(value=results.frame["value"].where(
        ~close, 0.86 + np.random.default_rng(0).normal(0, 0.01, len(results.frame))))  # fmt: skip
    finding = ranking_of(Results(frame, ("seed",)), np.random.default_rng(0), "d2")
    (open_,) = [c for c in finding.claims if c.text.startswith("d2 is not separable from")]
    assert open_.verdict == "undecided" and "d3" in open_.text
    assert re.search(r"d2 − d3: .* \(would take about \d+ runs\)", open_.evidence)


def test_a_declared_detector_must_exist():
    table = scored(0, runs=1)
    with pytest.raises(UserError, match=r"named by 'ours': 'd9'.*Did you mean 'd"):
        ranking(table, np.random.default_rng(0), "d9")
    frame = pd.DataFrame({"method": ["msp", "knn"], "ood": "x", "auroc": [0.8, 0.9]})
    with pytest.raises(UserError, match="Unknown detector of the table 'kn'. Did you mean 'knn'"):
        analyze(frame, ours="kn")
    assert dict(analyze(frame, ours="knn")[0].facts)["declared in advance"] == "knn"


def test_declaring_in_advance_needs_fewer_runs_than_being_picked():
    """Of 200 equal worlds the declared one is separated in 5% at most."""
    called = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        lines = [
            {"detector": f"d{d}", "ood": "far", "seed": r, "value": 0.8 + rng.normal(0, 0.01)}
            for d in range(6) for r in range(5)
        ]  # fmt: skip
        results = Results(pd.DataFrame(lines), ("seed",))
        finding = ranking_of(results, np.random.default_rng(0), "d3")
        called += "declared in advance, is significantly" in finding.claims[0].text
    assert called <= 20  # 5% of 200 is 10; 20 is beyond the 99.8% point of the binomial


# ---- sets ----------------------------------------------------------------------------------------


def test_a_set_on_which_nobody_beats_chance_is_named():
    finding = ranking(scored(0, runs=3, hard=0.0), np.random.default_rng(0))
    (claim,) = [c for c in finding.claims if "better than chance on" in c.text]
    assert claim.text.endswith("better than chance on hard.") and claim.verdict == "undecided"
    finding = ranking(scored(0, runs=9, hard=-0.5), np.random.default_rng(0))
    (claim,) = [c for c in finding.claims if c.text.startswith("No detector beats chance on hard")]
    assert claim.verdict == "holds"
    (worse,) = [c for c in finding.claims if c.text.startswith("Worse than chance")]
    assert worse.text.endswith("on hard.") and worse.verdict == "holds"
    assert "for 6 detectors on 3 outlier sets lie below" in worse.evidence
    table = scored(0, runs=9, hard=-0.5)
    alone = tuple(row for row in table.rows if row.dataset in ("id", "hard"))
    finding = ranking(replace(table, rows=alone), np.random.default_rng(0))
    (worse,) = [c for c in finding.claims if c.text.startswith("Worse than chance")]
    assert "on 1 outlier set lie below" in worse.evidence
    finding = ranking(scored(0, runs=3, hard=0.5), np.random.default_rng(0))
    assert not any("chance" in c.text for c in finding.claims)


def test_detectors_below_one_half_are_named_where_sets_have_one_value_each():
    sets = ("a", "b", "c", "d")
    numbers = {"good": (0.9, 0.93, 0.95, 0.94), "bad": (0.35, 0.32, 0.41, 0.4),
               "erratic": (0.65, 0.32, 0.2, 0.7)}  # fmt: skip
    rows = [(d, s, v) for d, own in numbers.items() for s, v in zip(sets, own, strict=True)]
    table = Results(pd.DataFrame(rows, columns=["detector", "ood", "value"]))
    claims = {c.text: c for c in ranking_of(table, np.random.default_rng(0)).claims}
    worse = claims["Worse than chance (AUROC below 0.5) on other outlier sets like these: bad."]
    assert worse.verdict == "holds" and worse.evidence.startswith("intervals that allow for 3")
    (open_,) = [c for text, c in claims.items() if text.startswith("Below an AUROC of 0.5")]
    assert open_.verdict == "undecided" and "erratic 0.468" in open_.evidence
    two = replace(table, frame=table.frame[table.frame["ood"].isin(("a", "b"))])
    texts = [c.text for c in ranking_of(two, np.random.default_rng(0)).claims]
    assert "Below an AUROC of 0.5, though not significantly: erratic and bad." in texts
    runs = [{"detector": d, "ood": s, "seed": run, "value": v - 0.02 * run}
            for d, s, v in rows for run in (0, 1)]  # fmt: skip
    found = ranking_of(Results(pd.DataFrame(runs), ("seed",)), np.random.default_rng(0))
    assert not any(c.text.startswith("Worse than chance") for c in found.claims)
    one = replace(table, frame=table.frame[table.frame["ood"] == "a"])
    texts = [c.text for c in ranking_of(one, np.random.default_rng(0)).claims]
    assert "Below an AUROC of 0.5, though not significantly: bad." in texts
    two = replace(table, frame=table.frame[table.frame["ood"].isin(["a", "b"])])  # decide nothing
    assert not any("Worse" in c.text for c in ranking_of(two, np.random.default_rng(0)).claims)


def left_out(values):
    """Who leads without a set: detectors x sets of true means, six runs of each."""
    rng = np.random.default_rng(0)
    lines = [
        {"detector": name, "ood": f"s{place}", "seed": run, "value": mean + rng.normal(0, 0.003)}
        for name, own in values.items() for place, mean in enumerate(own) for run in range(6)
    ]  # fmt: skip
    finding = ranking_of(Results(pd.DataFrame(lines), ("seed",)), np.random.default_rng(0))
    told = [c for c in finding.claims if "without s" in c.text.lower() or "left out" in c.text]
    assert all(claim.theme == "changes" for claim in told)
    is_told = any("without" in c.text and c.verdict == "flips" for c in told)
    assert is_told == ("Without" in finding.answer)
    if is_told:
        assert finding.answer.startswith("On average, use a: ")
        assert finding.answer.endswith("On s0 and s1, b is better. Without s2, b leads.")
    return told


def test_a_leader_that_one_set_makes_is_named():
    (claim,) = left_out({"a": (0.7, 0.7, 0.99), "b": (0.75, 0.75, 0.8), "c": (0.5, 0.5, 0.5)})
    assert claim.text == "a's lead rests on single outlier sets: without s2, b leads."
    assert claim.verdict == "flips"
    (claim,) = left_out({"a": (0.9, 0.9, 0.9), "b": (0.8, 0.8, 0.8)})
    assert claim.text == "a leads whichever outlier set is left out." and claim.verdict == "holds"
    (claim,) = left_out({"a": (0.8, 0.8, 0.9), "b": (0.8, 0.8, 0.8)})
    assert claim.verdict == "undecided"
    assert not any(c.verdict == "holds" for c in left_out({"a": (0.8,) * 3, "b": (0.8,) * 3}))


def test_only_shares_are_written_in_points():
    results = measured(0, runs=5, sets=2, higher=False, scale=40.0)
    errors = Results(results.frame, ("seed",), "RMSE", higher_is_better=False, is_share=False)
    finding = ranking_of(errors, np.random.default_rng(0))
    first = finding.claims[0]
    assert first.text.startswith("d6 has the lowest mean RMSE") and "d5 − d6: +0." in first.evidence
    assert not any("points" in c.evidence for c in finding.claims)


def test_two_cases_have_no_interval():
    finding = ranking_of(measured(0, runs=2, sets=2), np.random.default_rng(0))
    assert "confidence interval" not in finding.claims[0].evidence
    assert all(isinstance(row[1], float) for t in tables(finding, "means") for row in t.rows)


JUDGED = re.compile(
    r"(?P<what>[^;]*?)[+−]?[\d.]+ (?P<unit>points|times as large) "
    r"\[(?P<low>[^,\]]+), (?P<high>[^\]]+)\], adjusted p (?P<sign>[=<]) (?P<p>[\d.e-]+)"
)


def ends(match: re.Match[str]) -> tuple[float, float]:
    low, high = (match[name].replace("−", "-").replace("+", "") for name in ("low", "high"))
    return (
        0.0 if low.startswith("under") else float(low),
        math.inf if high.startswith("over") else float(high),
    )


@pytest.mark.parametrize("seed", range(6))
def test_intervals_on_every_page_agree_with_adjusted_p_values(seed):
    """Label noise, optimizers and seeds: several protocols, each with families of comparisons."""
    rng = np.random.default_rng(seed)
    lines = [
        {"method": f"d{d}", "dataset": ood, "label_noise": noise, "optimizer": optimizer,
         "seed": run, "AUROC": 0.9 - 0.01 * d - 0.004 * (d + 1) * (noise != "clean")
         - 0.01 * (optimizer == "sgd") * (d % 2) + rng.normal(0, 0.004 * (1 + d % 3))}
        for d in range(5) for ood in ("svhn", "lsun") for noise in ("clean", "agg", "worst")
        for optimizer in ("adam", "sgd") for run in range(5)
    ]  # fmt: skip
    findings = analyze(pd.DataFrame(lines), rng=np.random.default_rng(0))
    told = [
        (finding.protocol, match)
        for finding in findings
        for claim in finding.claims
        for match in JUDGED.finditer(claim.evidence)
    ]
    assert len({protocol for protocol, _ in told}) > 1
    for protocol, match in told:
        low, high = ends(match)
        none = 1.0 if match["unit"] == "times as large" else 0.0
        if abs(low - none) < 0.06 or abs(high - none) < 0.06:
            continue  # rounded: the end may lie on either side
        significant = match["sign"] == "<" or float(match["p"]) < 0.05
        assert significant == (not low < none < high), (protocol, match[0])


def told(values, **factors):
    """Findings about detectors x runs on two sets; factors: the level of each run."""
    lines = [
        {"method": name, "dataset": s, "AUROC": own[r], **{f: of[r] for f, of in factors.items()}}
        for name, own in values.items() for s in ("svhn", "dtd") for r in range(len(own))
    ]  # fmt: skip
    return {finding.protocol: finding for finding in analyze(pd.DataFrame(lines))}


def test_the_answer_names_the_condition_that_decides_who_is_best():
    rng = np.random.default_rng(2)
    turned = {"msp": (0.9, 0.86), "energy": (0.86, 0.9)}
    means = {**turned, **dict.fromkeys(("knn", "vim", "gen"), (0.85, 0.85))}
    values = {n: np.repeat(own, 3) + rng.normal(0, 0.006, 6) for n, own in means.items()}
    found = told(values, optimizer=["sgd"] * 3 + ["adam"] * 3, seed=[0, 1, 2] * 2)["ranking"]
    depends = "Which detector is best depends on the optimizer: msp with sgd; energy with adam."
    assert [c.verdict for c in found.claims if c.text == depends] == ["flips"]
    assert depends in found.answer and "would separate" not in found.answer


def test_who_cannot_beat_chance_is_not_recommended():
    rng = np.random.default_rng(0)
    guessing = {name: 0.5 + rng.normal(0, 0.01, 5) for name in ("msp", "energy", "knn")}
    found = told(guessing, seed=range(5))["ranking"]
    assert found.answer.startswith("No detector is significantly better than chance on either set")
    # Three runs that differ leave a wide interval, but 0.97 does not look like guessing.
    good = {"msp": [0.93, 0.99, 0.998], "energy": [0.5, 0.4, 0.6], "knn": [0.6, 0.5, 0.4]}
    found = told(good, seed=range(3))["ranking"]
    assert not any("chance" in claim.text for claim in found.claims)
    # The best mean is below 0.5, but another varies so much that it may beat chance.
    below = {"msp": 0.4 + rng.normal(0, 0.001, 5), "knn": [0.1, 0.6, 0.2, 0.7, 0.3]}
    (claim,) = [c for c in told(below, seed=range(5))["ranking"].claims if "No detector" in c.text
                and "chance" in c.text]  # fmt: skip
    assert claim.verdict == "undecided" and "No detector beats" not in claim.text


def test_two_findings_agree_whether_the_seed_changes_the_best():
    rng = np.random.default_rng(0)
    for runs, expected in ((4, "undecided"), (5, "holds")):
        values = {n: m + rng.normal(0, 0.005, runs) for n, m in {"msp": 0.9, "knn": 0.8}.items()}
        found = told(values, seed=range(runs))
        for protocol in ("ranking", "instability"):
            words = "seed (never )?changes (the|neither)"
            about = [c for c in found[protocol].claims if re.search(words, c.text)]
            assert [c.verdict for c in about] == [expected], (protocol, runs)
        assert ("too few" in found["instability"].answer) == (expected == "undecided")


def test_the_rival_is_who_takes_the_first_place():
    steady = np.array([0.92, 0.921, 0.919, 0.92, 0.92])
    moves = np.array([0.01, 0.01, 0.01, 0.01, -0.3])
    values = {"msp": steady, "knn": steady - 0.01, "vim": steady + moves}
    found = told(values, seed=range(5))["ranking"]
    (claim,) = [c for c in found.claims if c.text.startswith("msp ranks first in 1 of 5 runs")]
    assert "msp beats vim with probability 0.20" in claim.evidence


def test_metrics_agree_by_the_procedure_of_the_ranking():
    rng = np.random.default_rng(0)
    names = ("msp", "energy", "knn", "vim", "gen", "dice", "react", "odin")
    lines = [
        {"method": n, "dataset": "svhn", "seed": r, "AUROC": 0.9 - gap + rng.normal(0, 0.01),
         "FPR95": 0.3 + gap + rng.normal(0, 0.01)}
        for place, n in enumerate(names) for gap in [0.06 * (place > 0)] for r in range(3)
    ]  # fmt: skip
    found = {f.protocol: f for f in analyze(pd.DataFrame(lines))}
    assert found["ranking"].answer.startswith("Use msp: significantly ahead")
    assert found["metric_agreement"].answer.startswith("The metrics agree: msp is first by")


def test_what_is_compared_is_what_the_finding_compares():
    rng = np.random.default_rng(3)
    lines = [
        {"method": n, "dataset": s, "seed": r, "AUROC": 0.8 + rng.normal(0, 0.01)}
        for n in ("msp", "energy", "knn", "vim") for s in ("svhn", "dtd") for r in range(4)
    ]  # fmt: skip
    gone = [1, 9, 14, 18, 23, 29]
    frame = pd.DataFrame([line for place, line in enumerate(lines) if place not in gone])
    finding = analyze(frame)[0]
    runs = sum(row[3] for row in finding.tables[0].rows)
    assert finding.protocol == "unpaired" and runs == 10
    compared = "each detector by its own runs on both outlier sets: 10 of 16 runs of detectors"
    assert dict(finding.reading)["compared"] == compared


# ---- several answers on one page -----------------------------------------------------------------


def test_the_declared_detector_is_not_told_apart_by_two_rules():
    """The leader of four data sets is ahead of all others: so is it if it was declared."""
    means = {"msp": (0.93, 0.94, 0.92, 0.95), "knn": (0.92, 0.915, 0.905, 0.925),
             "vim": (0.91, 0.925, 0.9, 0.935), "gen": (0.8, 0.81, 0.82, 0.8)}  # fmt: skip
    frame = pd.DataFrame([{"method": n, "id_dataset": f"data{s}", "AUROC": value}
                          for n, own in means.items() for s, value in enumerate(own)])  # fmt: skip
    for ours in ("msp", "vim"):
        finding = analyze(frame, ours=ours)[0]
        assert "Use msp: significantly ahead of all 3 others" in finding.answer
        said = [claim.text for claim in finding.claims]
        ahead = [text for text in said if text.startswith(f"{ours}, declared in advance, is sig")]
        open_ = [text for text in said if text.startswith(f"{ours} is not separable")]
        assert ahead and ("behind msp" in ahead[0] or ours == "msp")
        assert not any("msp" in text for text in open_)
        assert finding.answer.startswith("Use msp") == (ours == "msp"), "the same is said once"
        check_differences(finding)


@pytest.mark.parametrize("seeds", [3, 5])
def test_only_the_ranking_says_how_certain_means_are(seeds):
    """Over data sets alone the lead is significant with 3 seeds, too; over the seeds it is not."""
    rng = np.random.default_rng(1)
    noise = {"msp": 0.012, "knn": 0.006, "vim": 0.02}
    frame = pd.DataFrame([
        {"method": n, "id_dataset": f"data{s}", "seed": r, "AUROC": mean + rng.normal(0, noise[n])}
        for n, mean in {"msp": 0.93, "knn": 0.9, "vim": 0.89}.items()
        for s in range(5) for r in range(seeds)
    ])  # fmt: skip
    found = {finding.protocol: finding for finding in analyze(frame)}
    first, answer = found["ranking"].claims[0], found["ranking"].answer
    if seeds == 3:
        assert first.verdict == "undecided" and first.text.endswith("it is not separable from vim.")
        assert answer.startswith("Use msp: vim cannot be ruled out with 5 data sets and 3 runs")
    else:
        assert first.verdict == "holds" and answer.startswith("Use msp: significantly ahead")
    assert "knn varies least" in found["robustness"].answer
    assert found["robustness"].answer.endswith(" msp has a better mean AUROC here.")


def test_two_training_runs_decide_nothing_about_retraining():
    for seed in range(3):
        finding = ranking(scored(seed, runs=2, gap=0.6), np.random.default_rng(0))
        after = [c for c in finding.claims if "after retraining" in c.text.lower()]
        assert {c.verdict for c in after} == {"undecided"}
        assert "two training runs are too few" in finding.answer
        assert any("2 training runs cannot decide" in caveat for caveat in finding.caveats)
        models = [c for c in finding.claims if c.text.startswith("On these 2 models")]
        assert [c.verdict for c in models] == ["holds"]


def test_two_runs_do_not_make_a_good_detector_one_that_guesses():
    good = {"msp": [0.99, 0.8], "energy": [0.4, 0.6], "knn": [0.6, 0.5]}
    assert "chance" not in told(good, seed=range(2))["ranking"].answer
    sets = ("id", "far")
    labels = {"a": {"seed": 0}, "b": {"seed": 1}}
    rng = np.random.default_rng(0)
    rows = [
        ScoreRow(run, name, "", s, rng.normal(size=99) + (s == "far") * shift)
        for name, shifts in {"msp": (5.0, 1.0), "knn": (0.2, -0.2)}.items()
        for run, shift in zip(labels, shifts, strict=True) for s in sets
    ]  # fmt: skip
    finding = ranking(ScoreTable("id", tuple(rows), labels), np.random.default_rng(0))
    assert "better than chance" not in finding.answer


def test_an_outlier_set_of_two_data_sets_is_one_case():
    """What is hard for one is hard for the other: twelve numbers are six cases."""
    rng = np.random.default_rng(0)
    hard = {f"s{s}": rng.normal(0, 0.02, 2) for s in range(6)}
    lines = [
        {"method": n, "id_dataset": data, "ood": s, "AUROC": 0.9 + own[place] + rng.normal(0, 1e-3)}
        for place, n in enumerate(("msp", "knn")) for data in ("c10", "c100")
        for s, own in hard.items()
    ]  # fmt: skip
    finding = analyze(pd.DataFrame(lines))[0]
    assert "over 6 outlier sets, with one run on each of 2 data sets" in finding.claims[0].text
    (claim,) = [c for c in finding.claims if "ranks first on" in c.text]
    assert "of 6 outlier sets" in claim.text
    by_set = pd.DataFrame(lines).pivot_table(index="ood", columns="method", values="AUROC")
    p_value = scipy.stats.ttest_rel(by_set["msp"], by_set["knn"]).pvalue
    assert f"p = {p_value:.2g}" in finding.claims[0].evidence


def test_two_answers_of_one_page_say_what_each_is_about():
    """By their own runs they differ; on four outlier sets they do not."""
    cells = {"msp": (96, 90, 95, 91), "knn": (94, 91, 93, 88), "vim": (80, 81, 79, 82)}
    frame = pd.DataFrame([{"method": n, **{f"set{s}": f"{v}±0.2" for s, v in enumerate(own)}}
                          for n, own in cells.items()])  # fmt: skip
    runs, sets = analyze(frame, runs=5, columns="auroc=*")
    assert runs.answer == "Use msp: significantly ahead of both others after retraining."
    assert sets.answer.startswith("On other outlier sets like these, use msp or knn: not separable")


def test_detectors_that_agree_in_every_run_are_not_counted_in_runs():
    rng = np.random.default_rng(0)
    same = 0.9 + rng.normal(0, 0.01, 4)
    values = {"msp": same, "odin": same, "knn": 0.8 + rng.normal(0, 0.01, 4),
              "vim": 0.7 + rng.normal(0, 0.01, 4)}  # fmt: skip
    texts = [claim.text for claim in told(values, seed=range(4))["ranking"].claims]
    assert "No number of runs would separate msp from odin: they agree in every run." in texts


def test_a_difference_of_a_metric_that_should_be_low_is_a_subtraction():
    finding = ranking_of(measured(0, runs=5, sets=3, higher=False), np.random.default_rng(0), "d5")
    means = {str(row[0]): row[1].value for row in finding.tables[0].rows}
    assert finding.claims[0].text.startswith("d5, declared")
    said = re.findall(r"(d\d) − (d\d): ([+−][\d.]+) points", finding.claims[0].evidence)
    assert len(said) > 2
    for one, other, points in said:
        difference = 100 * (means[one] - means[other])
        assert float(points.replace("−", "-")) == pytest.approx(difference, abs=0.06)


def test_who_is_left_out_for_having_seen_outliers_is_not_among_no_detector():
    rng = np.random.default_rng(0)
    rows = [ScoreRow("a", name, "", data, rng.normal(size=99))
            for name in ("msp", "knn") for data in ("id", "x")]  # fmt: skip
    rows += [ScoreRow("a", "score_svm", "on=x", data, rng.normal(size=99), learned_from="x")
             for data in ("id", "x")]  # fmt: skip
    guessing = ScoreTable("id", tuple(rows), {"a": {}})
    answer = ranking(guessing, np.random.default_rng(0)).answer
    assert answer.startswith("None of the compared detectors is significantly better than chance")


def test_other_findings_judge_the_pairs_of_a_declared_detector_as_the_ranking_does():
    """Without d1 declared, d0 is significantly ahead of all; with it, d1 is not separable."""
    frame = pd.DataFrame(
        {"detector": f"d{d}", "seed": run, "auroc": value, "fpr95": round(1.0 - value, 4)}
        for (d, run), value in np.ndenumerate(declared_matters())
    )
    for ours, is_decided in (("", True), ("d1", False)):
        first, *others = analyze(frame, ours=ours)
        lead = next(claim for claim in first.claims if "the highest mean" in claim.text)
        assert (lead.verdict == "holds") == is_decided
        (agreement,) = (found for found in others if found.protocol == "metric_agreement")
        assert (agreement.claims[0].verdict == "holds") == is_decided


def test_a_detector_that_failed_once_is_not_recommended_for_its_spread():
    """Its mean is the worst of all, but varies so much that it cannot be told from the best."""
    rng = np.random.default_rng(0)
    means = {"msp": 0.93, "energy": 0.92, "knn": 0.88, "vim": 0.86, "gen": 0.84}
    values = {name: mean + rng.normal(0, 0.004, 5) for name, mean in means.items()}
    values["energy"][3] = 0.1
    found = told(values, seed=range(5))["ranking"]
    assert [row[0] for row in found.tables[1].rows if row[2] == "yes"] == ["msp", "energy"]
    assert found.answer.startswith(
        "Use msp: energy cannot be ruled out with 5 runs, but only because it varies so much."
    )
    check_answer(found)


def test_a_detector_that_is_good_in_every_run_does_not_guess():
    """Three runs leave a wide interval; each of them is far from chance."""
    found = told({"msp": [0.95, 0.7, 0.8], "knn": [0.9, 0.6, 0.78]}, seed=range(3))["ranking"]
    assert found.tables[0].rows[0][1].low < 0.5
    assert not any("chance" in text for text in (found.answer, *(c.text for c in found.claims)))
    found = told({"msp": [0.95, 0.45, 0.6], "knn": [0.9, 0.4, 0.58]}, seed=range(3))["ranking"]
    assert "better than chance" in found.answer


def test_an_answer_from_less_than_half_of_a_table_says_so():
    rng = np.random.default_rng(0)
    names, sets = ("msp", "knn", "vim", "gen"), ("svhn", "dtd", "lsun")
    whole = [
        {"method": n, "dataset": s, "seed": r, "AUROC": 0.9 - 0.1 * place + rng.normal(0, 0.01)}
        for place, n in enumerate(names) for s in sets for r in range(4)
    ]  # fmt: skip
    part = "Only 4 of 12 combinations of outlier set and seed (all on svhn) are compared"
    for lacking, is_told in ((names, True), (names[:1], False)):
        gone = [(name, place) for place, name in enumerate(lacking)]
        first = analyze(pd.DataFrame(
            line for line in whole
            if line["dataset"] == "svhn" or (line["method"], line["seed"]) not in gone
        ))[0]  # fmt: skip
        assert first.protocol == "ranking"
        assert (part in first.answer) == ("are compared:" in first.answer) == is_told


def test_who_beats_the_leader_on_several_sets_is_named_once():
    rng = np.random.default_rng(0)
    means = {"msp": (0.8, 0.8, 0.99), "gen": (0.86, 0.85, 0.85), "knn": (0.7, 0.7, 0.7)}
    lines = [
        {"method": n, "dataset": s, "seed": r, "AUROC": own[place] + rng.normal(0, 0.003)}
        for n, own in means.items() for place, s in enumerate(("svhn", "dtd", "lsun"))
        for r in range(5)
    ]  # fmt: skip
    texts = [claim.text for claim in analyze(pd.DataFrame(lines))[0].claims]
    assert "msp's lead depends on the outlier set: gen beats it on svhn and dtd." in texts


@pytest.mark.parametrize(("many", "told"), [(4, "."), (6, ", and 2 more detectors on others.")])
def test_those_who_beat_the_leader_and_are_not_named_are_counted(many, told):
    """Each of the others is ahead on a set of its own."""
    rng = np.random.default_rng(0)
    sets = ("svhn", "dtd", "lsun", "isun", "places", "mnist")[:many]
    others = ("gen", "knn", "vim", "ash", "odin", "react")[:many]
    lines = [
        {"method": n, "dataset": s, "seed": r,
         "AUROC": (0.8 if n == "msp" else 0.9 if others.index(n) == place else 0.6)
         + rng.normal(0, 0.002)}
        for n in ("msp", *others) for place, s in enumerate(sets) for r in range(5)
    ]  # fmt: skip
    texts = [claim.text for claim in analyze(pd.DataFrame(lines))[0].claims]
    (text,) = [own for own in texts if own.startswith("msp's lead depends on the outlier set")]
    assert text.endswith(f"; ash beats it on isun{told}")


def test_metrics_agree_about_those_that_have_all_of_them():
    """vim is first by AUROC and has no FPR95: who is first by both is another question."""
    rng = np.random.default_rng(0)
    lines = [
        {"method": n, "dataset": "svhn", "seed": r,
         "AUROC": 0.9 - 0.1 * place + rng.normal(0, 0.01),
         "FPR95": None if n == "vim" else 0.3 + 0.1 * place + rng.normal(0, 0.01)}
        for place, n in enumerate(("vim", "msp", "knn", "gen")) for r in range(5)
    ]  # fmt: skip
    found = {f.protocol: f for f in analyze(pd.DataFrame(lines))}
    assert found["ranking"].answer.startswith("Use vim: significantly ahead")
    agreement = found["metric_agreement"]
    told = "of the 3 detectors with values of every metric, msp is first by AUROC and FPR@95TPR"
    assert agreement.answer.startswith(f"The metrics agree: {told}")
    assert agreement.answer.endswith(". vim lacks some.")
    assert agreement.claims[0].text.startswith("Of the 3 detectors with values of every metric, ")
    assert any(text.endswith("of some metric: vim.") for text in agreement.caveats)


def test_too_many_gaps_are_told_in_words_that_are_true():
    lines = [
        {"method": n, "dataset": s, "seed": r, "AUROC": 0.9 - place / 10}
        for place, n in enumerate(("msp", "knn", "vim")) for s in ("svhn", "dtd") for r in range(4)
        if (r + place) % 4 // 2 == (s == "dtd")
    ]  # fmt: skip
    with pytest.raises(UserError, match="results. No detector has two runs with a value on both"):
        analyze(pd.DataFrame(lines))


def declared_matters():
    """Six detectors in three runs: what is usual separates d1 from d0, its own spread does not."""
    for seed in range(400):
        values = 0.8 + 0.01 * np.random.default_rng(seed).normal(size=(6, 3))
        values = np.round(values + 0.04 * (np.arange(6) == 0)[:, None], 4)
        pairwise = from_values(values, bounds=(0.0, 1.0))
        plain, declared = leaderboard(pairwise), leaderboard(pairwise, declared=1)
        if plain.is_decided and not declared.is_decided:
            return values
    raise AssertionError("no such runs")


def check_moves(finding: Finding) -> None:
    """Standard deviations differ if the intervals beside them do not overlap; the most is shown."""
    for claim in finding.claims:
        ends = re.findall(r"standard deviation of \S+ [\d.]+ points \[([\d.]+), ([\d.]+)\]",
                          claim.evidence)  # fmt: skip
        if len(ends) == 2 and claim.text.startswith("The ") and "alike" not in claim.text:
            (low, _), (_, high) = ends
            apart = float(low) > float(high)
            assert apart == ("not significantly less" not in claim.text), claim
        if most := re.search(r"reverses the order of up to (\d+) of", claim.text):
            assert re.search(rf"\b{most[1]} on ", claim.evidence), claim
            assert ("…" in claim.evidence) == (claim.evidence.count(" on ") == 8)


def test_instability_shows_the_intervals_that_it_judges_by():
    rng = np.random.default_rng(0)
    for spread, sets in ((0.02, 3), (0.2, 3), (0.02, 12)):
        lines = [
            {"detector": f"d{d}", "ood": f"s{s}", "seed": r,
             "value": 0.7 + rng.normal(0, spread if d else 0.002)}
            for d in range(5) for s in range(sets) for r in range(8)
        ]  # fmt: skip
        results = Results(pd.DataFrame(lines), ("seed",), "auroc", True)
        check_moves(found_by("instability", results))


@pytest.mark.parametrize("repeat", ["seed", "fold"])
@pytest.mark.parametrize("higher", [True, False])
def test_protocols_compare_means_under_a_condition_by_one_rule(repeat, higher):
    rng = np.random.default_rng(4)
    lines = [
        {"detector": d, "ood": "far", "optimizer": o, repeat: r,
         "value": 0.9 + 0.02 * rng.normal() - 0.01 * (d == "a")}
        for o in ("adam", "sgd") for d in "abcde" for r in range(5)
    ]  # fmt: skip
    factors = (Factor("optimizer"), Factor(repeat, "repeat"))
    results = Results(pd.DataFrame(lines), factors, "auroc", higher)
    (by_score,) = compare_means(arrange(results)).values()
    (by_move,) = level_comparisons(spreads(compared(results)[0], "optimizer"))
    for one, other in zip(by_score, by_move, strict=True):
        assert (one.context, one.order) == (other.context, other.order)
        means = [[abs(own.values[n]) for n in one.order] for own in (one, other)]  # noqa: PD011
        assert means[0] == pytest.approx([100 * mean for mean in means[1]])
        for name, lead in one.leads.items():
            assert lead.p_value == pytest.approx(other.leads[name].p_value, rel=1e-9), name


def test_protocols_agree_whether_a_condition_changes_the_best_detector():
    """Three runs under each of two optimizers: variances are shared wherever means are compared."""
    rng = np.random.default_rng(2)
    lines = [
        {"detector": d, "ood": "far", "optimizer": o, "seed": r,
         "value": 0.8 + 0.05 * (d == best) + rng.normal(0, 0.008)}
        for o, best in (("adam", "a"), ("sgd", "b")) for d in "abcdef" for r in range(3)
    ]  # fmt: skip
    results = Results(pd.DataFrame(lines), ("optimizer", "seed"), "auroc", True)
    told = {
        claim.verdict
        for name in ("robustness", "instability")
        for claim in found_by(name, results).claims
        if re.search("with the optimizer|only the optimizer changes the best", claim.text)
    }
    assert told == {"flips"}


def found_by(name: str, results: Results) -> Finding:
    found = PROTOCOLS[name].of_results
    assert found is not None
    return found(Measured(results, {results.metric: results}, ""), np.random.default_rng(0))


def unbalanced(seed):
    """Two kinds of labels, two networks of which one has far more runs, and is far better."""
    rng = np.random.default_rng(seed)
    lines = [
        {"detector": f"d{d}", "ood": ood, "label_noise": noise, "network": network, "seed": s,
         "auroc": 0.9 - 0.03 * d - 0.1 * (network == "small") + rng.normal(0, 0.01)}
        for d in range(4) for ood in ("near", "far") for noise in ("clean", "uniform(rate=0.4)")
        for network, seeds in (("large", 6), ("small", 3)) for s in range(seeds)
    ]  # fmt: skip
    return pd.DataFrame(lines)


def test_all_means_of_a_page_weigh_conditions_the_same():
    # One more run of a network is no reason why that network should count more.
    frame = unbalanced(0)
    by_network = frame.groupby(["detector", "ood", "label_noise", "network"])["auroc"].mean()
    by_noise = by_network.groupby(["detector", "ood", "label_noise"]).mean()
    on_sets = by_noise.groupby(["detector", "ood"]).mean()
    pages = {found.protocol: found for found in analyze(frame)}
    shown = {t.name: t for found in pages.values() for t in found.tables}
    for d in (f"d{n}" for n in range(4)):
        row = {name: {own[0]: own for own in table.rows}.get(d) for name, table in shown.items()}
        assert row["means"][1].value == pytest.approx(on_sets[d].mean())
        for ood in ("near", "far"):
            place = shown["sets"].columns.index(ood)
            assert row["sets"][place] == pytest.approx(on_sets[d, ood])
            assert row[f"spread-seed-{ood}"][1] == pytest.approx(on_sets[d, ood])
            levels = shown[f"levels-network-{ood}"]  # of the three seeds that both have
            small = dict(zip(levels.columns, levels.rows[1], strict=True))
            assert small[d] == pytest.approx(by_network[d, ood].loc[:, "small"].mean())
        noisy = {noise: by_noise[d].loc[:, noise].mean() for noise in frame["label_noise"].unique()}
        assert row["medians"][1:] == pytest.approx([*noisy.values()])
        cost = row["questions"][1] - row["questions"][2]
        assert cost == pytest.approx(noisy["clean"] - noisy["uniform(rate=0.4)"])
    text = " ".join(caveat for page in pages.values() for caveat in page.caveats)
    assert "each condition counts the same in means" in text and "each run counts" in text


def test_a_permutation_does_not_exchange_runs_that_count_differently():
    # Twelve runs of one network agree, three of the other say the reverse: the mean is about 0.
    runs = [{"network": n, "seed": s} for n, seeds in (("a", 12), ("b", 3)) for s in range(seeds)]
    units = OuterUnits.of(runs, [Factor("network"), Factor("seed", "repeat")])
    rng = np.random.default_rng(0)
    gaps = np.array([0.02] * 12 + [-0.02] * 3) + rng.normal(0, 0.002, 15)
    plain = paired_difference(Paired(gaps, np.zeros(15)), 1, rng)
    found = paired_difference(Paired(gaps, np.zeros(15), units), 1, rng)
    assert plain.p_value < 0.05 and plain.value > 0.01
    assert found.p_value > 0.5 and abs(found.value) < 0.002


def test_a_page_says_that_its_runs_are_skewed_and_vary_unequally():
    """Few runs of one detector do not show a tail; ten runs of eighteen do."""
    rng = np.random.default_rng(3)
    spreads = np.exp(np.linspace(-1.0, 1.0, 18))[:, None]
    tails = {
        "below": 1.0 - rng.exponential(size=(18, 10)),
        "above": rng.exponential(size=(18, 10)) - 1.0,
        "normal": rng.normal(size=(18, 10)),
    }
    for side, moved in tails.items():
        values = 0.85 + 0.005 * spreads * moved
        found = told({f"d{n}": row for n, row in enumerate(values)}, seed=range(10))["ranking"]
        said = [caveat for caveat in found.caveats if "Single runs lie far" in caveat]
        assert len(said) == (side != "normal")
        assert all(f"lie far {side} the mean" in caveat and "-fold" in caveat for caveat in said)


def test_a_p_value_beside_a_distance_says_whom_it_is_about():
    """The leader varies: what shows that another cannot be the best is a third one."""
    values = {"noisy": [0.99, 0.62, 0.97, 0.98], "steady": [0.80, 0.78, 0.82, 0.76],
              "even": [0.785, 0.766, 0.804, 0.745]}  # fmt: skip
    frame = pd.DataFrame(values, index=["a", "b", "c", "d"])
    against = scipy.stats.ttest_rel(frame["steady"], frame["even"]).pvalue
    assert scipy.stats.ttest_rel(frame["noisy"], frame["even"]).pvalue > 0.2 > 0.01 > against
    lines = frame.rename_axis("ood").melt(var_name="method", value_name="auroc", ignore_index=False)
    (claim,) = [c for c in analyze(lines.reset_index())[0].claims if c.verdict == "holds"]
    assert claim.text.startswith("Cannot be the best") and "even" in claim.text
    assert "11.5 points behind; significantly behind steady, adjusted p" in claim.evidence
    frame["noisy"] = frame["steady"] + 0.1 + frame["even"] / 100
    (first, *_) = analyze(frame.rename_axis("ood").reset_index(), columns="auroc=*")[0].claims
    assert "significantly behind" not in first.evidence
