"""The protocol by its meaning: worlds whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from oodometer.errors import UserError
from oodometer.factors import Factor
from oodometer.finding import Finding, Series, Table, from_json, to_json
from oodometer.metrics import Estimate, auroc
from oodometer.protocols.ranking.protocol import ranking
from oodometer.protocols.ranking.score_curves import detected, risks
from oodometer.scores import Missing, ScoreRow, ScoreTable, join_runs


def world(strength, *, runs=9, samples=200, seed=0, wobble=0.0, sets=("far", "near"), drop=()):
    """Detectors with a given separation; `wobble` is what each training adds to each of them."""
    rng = np.random.default_rng(seed)
    labels = {
        f"seed={r // 3}, optimizer={r % 3}": {"seed": r // 3, "optimizer": r % 3}
        for r in range(runs)
    }
    easy = {"id": rng.normal(size=samples)} | {s: rng.normal(size=samples) for s in sets}
    rows = []
    for run in labels:
        for name, shift in strength.items():
            extra = rng.normal(0, wobble)
            for data in ("id", *sets):
                if (run, name, data) in drop:
                    continue
                noise = easy[data] + rng.normal(0, 0.3, samples)
                rows.append(ScoreRow(run, name, "", data, noise + (data != "id") * (shift + extra)))
    missing = tuple(Missing("lost", run=r, detector=d, dataset=s) for r, d, s in drop)
    return ScoreTable("id", tuple(rows), labels, missing)


def conclude(table: ScoreTable) -> Finding:
    return ranking(table, np.random.default_rng(0))


def named(finding: Finding, name: str) -> Table:
    (table,) = [table for table in finding.tables if table.name == name]
    return table


def after_retraining(finding: Finding) -> bool:
    """Whether somebody is said to be ahead of all others after retraining."""
    return any("after retraining it is significantly ahead" in c.text for c in finding.claims)


def test_a_clear_winner_is_named_and_holds():
    finding = conclude(world({"weak": 0.5, "best": 3.0, "max_softmax": 1.0}))
    told = [(claim.text, claim.verdict) for claim in finding.claims]
    first, *_ = told
    assert first[0].startswith("best has the highest mean AUROC") and first[1] == "holds"
    assert "after retraining it is significantly ahead of max_softmax and weak." in first[0]
    models = "On these 9 models with other test samples, best is significantly ahead of max_softmax"
    assert (f"{models} and weak.", "holds") in told
    assert ("best ranks first in all 9 training runs.", "holds") in told
    baseline = "best is significantly ahead of max_softmax on both outlier sets."
    assert (baseline, "holds") in told
    assert named(finding, "ranks").rows[0][:3] == ("best", 9, 1.0)


def test_identical_detectors_are_never_told_apart():
    table = world({"a": 1.0})
    twins = tuple(ScoreRow(r.run, "b", "", r.dataset, np.exp(r.scores)) for r in table.rows)
    finding = conclude(ScoreTable("id", (*table.rows, *twins), table.runs))
    first, models, *_ = finding.claims
    assert first.text == "a and b share the highest mean AUROC, 0.738, over 2 outlier sets."
    assert models.text == "On these 9 models with other test samples, a and b are equal."
    assert first.verdict == models.verdict == "undecided"
    assert [row[1:] for row in named(finding, "ranks").rows] == [(9, 1.5, "1.5")] * 2
    assert [row[2:5] for row in named(finding, "leaderboard").rows] == [("yes", "1–2", "a")] * 2


def test_equal_scores_share_the_first_place():
    table = world({"a": 1.0})
    twins = tuple(ScoreRow(r.run, "b", "", r.dataset, r.scores) for r in table.rows)
    claims = conclude(ScoreTable("id", (*table.rows, *twins), table.runs)).claims
    assert "a and b share the highest mean AUROC" in claims[0].text
    assert not any("ranks first" in claim.text + claim.evidence for claim in claims)  # nobody does
    assert all(claim.verdict != "holds" for claim in claims[:3])
    third = tuple(replace(r, detector="c", scores=r.scores[::-1]) for r in table.rows)
    claims = conclude(ScoreTable("id", (*table.rows, *twins, *third), table.runs)).claims
    assert any("together with another" in claim.text + claim.evidence for claim in claims)


def test_no_difference_is_rarely_called_one():
    """Same strength, other noise: the claim of a winner keeps its 5 % level."""
    called = sum(
        after_retraining(conclude(world({"a": 1.0, "b": 1.0}, seed=seed, wobble=0.1)))
        for seed in range(120)
    )
    assert called <= 13  # 5 % of 120 is 6; 13 is the 99.7 % point of the binomial


def test_what_depends_on_the_training_flips():
    finding = conclude(world({"a": 1.0, "b": 1.02, "c": 1.01}, wobble=0.5))
    (firsts,) = [c for c in finding.claims if "ranks first in" in c.text]
    assert firsts.verdict == "flips"
    factors = [c for c in finding.claims if c.text.startswith("Changing only the")]
    assert [c.verdict for c in factors] == ["flips", "undecided"]
    assert factors[0].text.startswith("Changing only the seed")
    assert "the optimizer" in factors[1].text and "not significant" in factors[1].text
    assert sum("9 pairs of training runs" in c.text for c in factors) == 2


def test_a_condition_that_turns_the_order_is_named_and_chance_is_not():
    """The best detector depends on the optimizer, or on nothing but the training."""

    def turned(by, seed):
        rng = np.random.default_rng(seed)
        easy = {data: rng.normal(size=100) for data in ("id", "far")}
        rows, labels = [], {}
        for run in range(10):
            name = f"{run}"
            labels[name] = {"seed": run // 2, "optimizer": ("sgd", "adam")[run % 2]}
            for detector, sign in (("a", 1), ("b", -1), ("c", 0)):
                lead = by * sign * (1 if run % 2 == 0 else -1) - (detector == "c")
                extra = rng.normal(1.5 + lead, 0.15)
                for data, base in easy.items():
                    scores = base + rng.normal(0, 0.5, 100) + (data != "id") * extra
                    rows.append(ScoreRow(name, detector, "", data, scores))
        return conclude(ScoreTable("id", tuple(rows), labels))

    told = [c for c in turned(0.5, 0).claims if "depends on the optimizer" in c.text]
    assert [c.verdict for c in told] == ["flips"] and "a with sgd; b with adam" in told[0].text
    assert "points" in told[0].evidence
    found = [turned(0.0, seed) for seed in range(25)]
    assert sum("depends on the" in c.text for f in found for c in f.claims) <= 2
    only = [c for f in found for c in f.claims if c.text.startswith("Changing only the optimizer")]
    assert len(only) == 25 and sum(c.verdict == "flips" for c in only) <= 2


def test_a_factor_without_effect_holds():
    finding = conclude(world({"a": 1.0, "b": 3.0}))
    factors = [c for c in finding.claims if c.text.startswith("Changing only the")]
    assert all(c.verdict == "holds" and "in none of 9 pairs" in c.text for c in factors)


def test_renaming_permutes_the_answer():
    names = {"a": 0.5, "b": 2.0, "c": 1.0}
    one = conclude(world(names))
    table = world(names)
    renamed = {"a": "x", "b": "y", "c": "z"}
    rows = tuple(ScoreRow(r.run, renamed[r.detector], "", r.dataset, r.scores) for r in table.rows)
    two = conclude(ScoreTable("id", rows, table.runs))
    assert [renamed[row[0]] for row in one.tables[0].rows] == [row[0] for row in two.tables[0].rows]
    assert [row[1:] for row in one.tables[0].rows] == [row[1:] for row in two.tables[0].rows]


def test_gaps_are_named_and_never_averaged_over():
    gap = ("seed=0, optimizer=0", "a", "near")
    finding = conclude(world({"a": 9.0, "b": 1.0}, drop=(gap,)))
    cells = {row[0]: row[1:] for row in finding.tables[0].rows}
    assert cells["a"][0] is None and cells["a"][2] is None and isinstance(cells["a"][1], Estimate)
    assert not any("a" in (row[0] for row in t.rows) for t in finding.tables[1:]), "not ranked"
    assert any("Not ranked" in line and "a" in line for line in finding.caveats)
    assert finding.missing == ("detector a, data set near, run seed=0, optimizer=0: lost",)


def test_one_training_says_so():
    finding = conclude(world({"a": 1.0, "b": 2.0}, runs=1))
    assert any("only one training" in line for line in finding.caveats)
    # One training can show a difference between detectors, not that it survives another training.
    first, *others = finding.claims
    assert "on this model with other test samples it is significantly ahead of a." in first.text
    assert first.verdict == "holds"
    (open_,) = [c for c in others if "after retraining cannot be said" in c.text]
    assert open_.verdict == "undecided" and "there is one training run" in open_.text
    assert not any("ranks first" in c.text for c in others)  # the first claim says it


def test_one_detector_and_nothing_to_compare():
    finding = conclude(world({"a": 1.0}, sets=("far",)))
    claim, *_ = finding.claims
    assert claim.text.startswith("a, the only detector here") and claim.verdict == "undecided"
    table = world({"a": 1.0}, drop=(("seed=0, optimizer=0", "a", "id"),))
    with pytest.raises(UserError, match="No detector has scores in every run"):
        conclude(table)


def test_what_learns_from_outliers_is_referred_to_od_test():
    rows = tuple(
        ScoreRow(r.run, "svm", "outliers=far", r.dataset, r.scores, False, "far")
        for r in world({"svm": 1.0}).rows
    )
    table = world({"svm": 1.0})
    with pytest.raises(UserError, match=r"learn from outliers \(svm\): OD-test is for them"):
        conclude(ScoreTable(table.id, rows, table.runs))
    mixed = world({"a": 1.0, "b": 2.0})
    finding = conclude(ScoreTable(mixed.id, (*mixed.rows, *rows), mixed.runs))
    assert any("fitted on outliers of these sets: svm; the protocol" in c for c in finding.caveats)


def test_settings_of_the_grid_do_not_compete():
    table = world({"a": 1.0})
    grid = tuple(
        ScoreRow(r.run, "a", "k=1", r.dataset, -r.scores, default=False) for r in table.rows
    )
    assert conclude(ScoreTable("id", (*table.rows, *grid), table.runs)) == conclude(table)


def test_findings_survive_json():
    finding = conclude(world({"a": 1.0, "b": 2.0}, drop=(("seed=0, optimizer=0", "a", "near"),)))
    again = from_json(to_json(finding))
    assert again == finding and to_json(again) == to_json(finding)


def test_findings_refuse_what_cannot_be_shown():
    with pytest.raises(UserError, match="'t' has 2 columns, but a row has 1"):
        Table("t", "T", ("a", "b"), (("x",),))
    with pytest.raises(UserError, match="'t' contains nan; use None for a missing value"):
        Table("t", "T", ("a",), ((float("nan"),),))
    with pytest.raises(UserError, match="lacks column, value"):
        Series("heatmap", "s", "S", "", "v", ({"row": "a"},))
    with pytest.raises(UserError, match="contains value=nan"):
        Series("heatmap", "s", "S", "", "v", ({"row": "a", "column": "b", "value": float("nan")},))
    with pytest.raises(UserError, match="Unknown kind of series 's': 'pie'"):
        Series("pie", "s", "S", "", "v", ())


def test_a_better_detector_on_one_set_flips_only_beyond_chance():
    def with_set(extra):
        table = world({"a": 2.0, "b": 1.0}, sets=("far", "near"))
        rows = tuple(
            ScoreRow(r.run, r.detector, "", r.dataset, r.scores + extra * (r.dataset == "near"))
            if r.detector == "b"
            else r
            for r in table.rows
        )
        return conclude(ScoreTable("id", rows, table.runs)).claims

    (beaten,) = (
        c
        for c in with_set(1.9)
        if "a's lead depends on the outlier set: b beats it on near." in c.text
    )
    assert beaten.verdict == "flips"
    (first,) = (c for c in with_set(0.2) if "on any outlier set" in c.text)
    assert first.verdict == "holds"
    (close,) = (c for c in with_set(1.05) if "but not significantly" in c.text)
    assert close.verdict == "undecided"


def test_the_best_of_many_equals_rarely_beats_the_baseline():
    """Twelve equal detectors: choosing the best one must not make it look better than chance."""
    names = {f"d{i}": 1.0 for i in range(11)} | {"max_softmax": 1.0}
    called = sum(
        any(
            c.verdict != "undecided"
            for c in conclude(world(names, seed=s, wobble=0.1)).claims
            if "beats" in c.text or "ahead of max_softmax" in c.text
        )
        for s in range(40)
    )
    assert called <= 6  # 5 % of 40 is 2; 6 is the 99.7 % point of the binomial


def test_equals_are_never_said_to_lead_on_every_set_for_sure():
    """Two detectors of equal strength: no verdict about sets but chance, in 95 % of worlds."""
    sure = 0
    for seed in range(100):
        claims = conclude(world({"a": 1.0, "b": 1.0}, runs=3, seed=seed, wobble=0.1)).claims
        sure += any("outlier set" in c.text and c.verdict != "undecided" for c in claims[2:])
    assert sure <= 12  # 5 % of 100 is 5; 12 is beyond the 99.8 % point of the binomial


def looked_at(rng, strength, *, trainings=8, looks=4, samples=100, sizes=None):
    """Trainings that differ, and looks at each that hardly do."""
    easy = {name: rng.normal(size=samples) for name in ("id", "far", "near")}
    rows, labels = [], {}
    for training in range(trainings):
        extra = dict(zip(strength, rng.normal(0, 0.25, len(strength)), strict=True))
        own = {(n, d): easy[d] + rng.normal(0, 0.3, samples) for n in strength for d in easy}
        for look in range(looks):
            run = f"seed={training}, epoch={look}"
            labels[run] = {"seed": training, "epoch": look}
            for (name, data), scores in own.items():
                seen = scores + rng.normal(0, 0.05, samples)
                seen = seen + (data != "id") * (strength[name] + extra[name])
                rows.append(ScoreRow(run, name, "", data, seen[: sizes[look] if sizes else None]))
    if sizes:
        labels = {
            run: {"seed": own["seed"], "test_size": own["epoch"]} for run, own in labels.items()
        }
    return ScoreTable("id", tuple(rows), labels, same_samples=sizes is None)


def test_looks_at_one_training_are_one_case():
    """8 trainings, 4 looks each: taken for 32 trainings, equals were told apart in 34 of 100."""
    rng = np.random.default_rng(0)
    truth = ndtr(1 / np.sqrt(2 * 1.0925 + 0.25**2))
    called, covered = 0, 0
    for _ in range(100):
        finding = conclude(looked_at(rng, {"a": 1.0, "b": 1.0}))
        called += after_retraining(finding)
        covered += sum(row[1].low <= truth <= row[1].high for row in finding.tables[0].rows)
    assert called <= 13 and covered >= 180  # 5 and 190; beyond 99.9 % of the binomial
    assert dict(finding.facts)["training runs"] == "8"
    assert any("of 8 training runs" in claim.text for claim in finding.claims)
    assert "mean over 8 training runs" in finding.tables[0].title
    assert any("32 runs are re-evaluations of 8 training runs" in line for line in finding.caveats)
    epoch = next(c for c in finding.claims if "Changing only the epoch" in c.text)
    assert "48 pairs of runs" in epoch.text


def test_the_mean_of_looks_is_the_mean_of_their_aurocs():
    table = looked_at(np.random.default_rng(1), {"a": 1.0, "b": 2.0}, trainings=3)
    seen = table.summary().groupby("detector")["auroc"].mean()
    cells = {row[0]: row[1].value for row in conclude(table).tables[0].rows}
    assert cells == pytest.approx({name: seen[name] for name in cells})


def test_looks_at_fewer_samples_make_nothing_more_certain():
    """Test sizes of one training are parts of each other: no narrower than the largest alone."""
    full, *_ = (
        conclude(looked_at(np.random.default_rng(2), {"a": 1.0, "b": 2.0}, trainings=1, looks=1))
        .tables[0]
        .rows
    )
    sized = looked_at(np.random.default_rng(2), {"a": 1.0, "b": 2.0}, trainings=1, looks=3,
                      sizes=(25, 50, 100))  # fmt: skip
    finding = conclude(sized)
    part = finding.tables[0].rows[0]
    assert part[1].high - part[1].low > full[1].high - full[1].low
    assert any("3 runs are re-evaluations of 1 training run," in line for line in finding.caveats)


def test_one_training_never_speaks_of_another():
    """However often it was looked at; and how often it ranks first is no table of its own."""
    for looks in (1, 4):
        finding = conclude(
            looked_at(np.random.default_rng(3), {"max_softmax": 1.0, "b": 2.0}, trainings=1,
                      looks=looks)
        )  # fmt: skip
        assert "another training" not in to_json(finding) and "trainings" not in finding.question
        assert [table.name for table in finding.tables] == [
            "auroc", "leaderboard", "by-set", "side-by-side"
        ]  # fmt: skip
        assert "on this model" in finding.claims[0].text
        # Six pairs of looks at one training are one case, whatever they show.
        assert all(c.verdict == "undecided" for c in finding.claims if "Changing" in c.text)
    assert [series.name for series in finding.series] == [
        "leaders", "auroc", "ranks", "rank-lines", "factors", "roc", "histograms"
    ]  # fmt: skip


def test_weights_files_are_repeats_as_seeds_are():
    """Which of two detectors is best changes from run to run; nobody chose the weights file."""
    table = world({"a": 1.0, "b": 1.0}, runs=6, wobble=0.5)
    alone = {
        f"weights{number}.pt": ScoreTable(
            "id", tuple(replace(r, run="") for r in table.rows if r.run == run)
        )
        for number, run in enumerate(table.runs)
    }
    of_weights, of_seeds = (conclude(join_runs(alone, name)) for name in ("weights", "seed"))
    (claim,) = [c for c in of_weights.claims if "Changing only the weights" in c.text]
    assert claim.verdict == "flips"
    assert [c.verdict for c in of_weights.claims] == [c.verdict for c in of_seeds.claims]
    of_anything = join_runs(alone, "file")
    assert of_anything.factors == (Factor("file", "repeat"),)
    assert [c.verdict for c in conclude(of_anything).claims] == [c.verdict for c in of_seeds.claims]


def test_the_area_under_a_drawn_curve_is_the_auroc():
    rng = np.random.default_rng(0)
    known, outliers = rng.normal(size=60).round(1), rng.normal(0.8, size=45).round(1)
    grid = np.linspace(0, 1, 60 * 400 + 1)  # holds every share of known data
    curve = detected(known, outliers, grid)
    assert np.all(np.diff(curve) >= 0) and curve[-1] == 1.0
    assert np.trapezoid(curve, grid) == pytest.approx(auroc(known, outliers), abs=1e-4)


def test_risk_is_the_share_of_errors_among_the_lowest_scores():
    """Counted one sample at a time, each outlier twice, as there are half as many of them."""
    rng = np.random.default_rng(0)
    known, outliers = rng.normal(size=40), rng.normal(1.0, size=20)
    right = rng.random(40) < 0.8
    line = [(score, not ok) for score, ok in zip(known, right, strict=True)]
    line += [(score, True) for score in outliers for _ in range(2)]
    line.sort()
    counts = np.arange(1, 81)
    expected = [sum(wrong for _, wrong in line[:accepted]) / accepted for accepted in counts]
    np.testing.assert_allclose(risks(known, right, outliers, counts / 80), expected)
    # Tied scores: the mean over random orders of those that share one.
    tied, far = known.round(0), outliers.round(0)
    line = [(score, not ok) for score, ok in zip(tied, right, strict=True)]
    line += [(score, True) for score in far for _ in range(2)]
    wrongs = [wrong for _ in range(3000)
              for _, _, wrong in sorted((s, rng.random(), w) for s, w in line)[:24]]  # fmt: skip
    assert risks(tied, right, far, np.array([0.3]))[0] == pytest.approx(np.mean(wrongs), abs=0.01)


def test_curves_of_the_leaders_and_accuracy_beside_the_detectors():
    table = world({"a": 2.0, "b": 1.0}, runs=3)
    right = np.arange(200) < 150
    finding = conclude(replace(table, correct=dict.fromkeys(table.runs, right)))
    by_name = {series.name: series for series in finding.series}
    last = [p["value"] for p in by_name["risk-coverage"].points if p["x"] == 1.0]
    assert last == pytest.approx([0.5 * 0.25 + 0.5] * 4), "2 detectors on 2 sets, all accepted"
    roc = [p for p in by_name["roc"].points if p["label"] == "a"]
    assert roc[-1]["x"] == roc[-1]["value"] == 1.0
    shares: dict[str, float] = {}
    for point in by_name["histograms"].points:
        shares[point["label"]] = shares.get(point["label"], 0.0) + point["value"]
    assert all(total == pytest.approx(1.0) for total in shares.values()) and len(shares) > 1


def test_what_is_missing_is_drawn_where_it_is_with_its_reason():
    run = "seed=0, optimizer=1"
    drop = [(run, "b", "far"), (run, "b", "near"), (run, "c", "near")]
    table = world({"a": 2.0, "b": 1.0, "c": 1.0, "d": 0.5}, runs=3, drop=drop)
    table = replace(table, missing=(*table.missing, Missing("no memory", detector="e")))
    by_name = {series.name: series for series in conclude(table).series}
    assert "missing" not in {s.name for s in conclude(world({"a": 2.0, "b": 1.0}, runs=2)).series}
    shown = {
        (p["row"], p["column"]): (p["value"], p["of"], p["reason"])
        for p in by_name["missing"].points
    }
    assert {row for row, _ in shown} == {"b", "c", "e"}, "a and d are complete"
    assert shown["b", "optimizer 1"] == (2, 2, "lost")
    assert shown["c", "optimizer 1"] == (1, 2, "lost")
    assert shown["c", "optimizer 0"] == (0, 2, None)
    assert all(own == (2, 2, "no memory") for (row, _), own in shown.items() if row == "e")
    assert "2 other detectors: nothing is missing." in by_name["missing"].description
    # Where all runs lack the same, the columns are sets.
    always = [(name, "b", "far") for name in table.runs]
    (of_sets,) = [s for s in conclude(world({"a": 1.0, "b": 1.0}, runs=3, drop=always)).series
                  if s.name == "missing"]  # fmt: skip
    assert [(p["column"], p["value"]) for p in of_sets.points] == [("far", 3), ("near", 0)]
