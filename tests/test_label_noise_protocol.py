"""Detectors under label noise: worlds with a known answer, and a published table."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr, ttest_1samp

import oodometer as om
from oodometer.errors import UserError
from oodometer.factors import Factor
from oodometer.metrics import auroc
from oodometer.protocols.label_noise.cases import noise_cases
from oodometer.protocols.label_noise.choices import find_choices
from oodometer.protocols.label_noise.claims import claims
from oodometer.protocols.label_noise.errors import ask_accuracy
from oodometer.protocols.label_noise.protocol import label_noise, label_noise_of
from oodometer.protocols.label_noise.questions import of_scores
from oodometer.results import Results
from oodometer.scores import Missing, ScoreRow, ScoreTable


def table(*, runs=6, drop=0.05, samples=200, seed=0):
    """Scores in which noise makes 'soft' worse and leaves 'hard' as it is; errors score high."""
    rng = np.random.default_rng(seed)
    rows, levels, correct = [], {}, {}
    for noise in ("none", "uniform(rate=0.4)"):
        for number in range(runs):
            run = f"{noise}, {number}"
            levels[run] = {"label_noise": noise, "seed": number}
            correct[run] = rng.random(samples) < (0.9 if noise == "none" else 0.6)
            for name in ("soft", "hard", "other"):
                gap = 2.0 - (20 * drop if noise != "none" and name == "soft" else 0.0)
                scores = rng.normal(0, 1, samples) + 1.5 * ~correct[run]
                rows.append(ScoreRow(run, name, "", "id", scores))
                for data in ("near", "far"):
                    shift = gap - 0.5 * (data == "near") - 0.3 * (name == "other")
                    rows.append(ScoreRow(run, name, "", data, rng.normal(shift, 1, samples)))
    return ScoreTable("id", tuple(rows), levels, correct=correct)


def test_four_questions_are_the_aurocs_of_their_samples():
    made = table(runs=1)
    found = of_scores(made)
    run = next(iter(made.runs))
    right = made.correct[run]
    ids, far = made.scores(run, "soft", "id"), made.scores(run, "soft", "far")
    expected = {
        "auroc": auroc(ids, far),
        "correct_auroc": auroc(ids[right], far),
        "incorrect_auroc": auroc(ids[~right], far),
        "failure_auroc": auroc(ids[right], ids[~right]),
    }
    for name, value in expected.items():
        frame = found[name].frame
        line = frame[(frame["detector"] == "soft") & (frame["ood"] == "far") & (frame["seed"] == 0)]
        assert line["value"].iloc[0] == pytest.approx(value)
    # Of all pairs, those with a correct sample and those with a wrong one: a mean by their shares.
    share = right.mean()
    mixed = share * expected["correct_auroc"] + (1 - share) * expected["incorrect_auroc"]
    assert expected["auroc"] == pytest.approx(mixed)


def test_what_noise_does_is_said_of_the_right_detector():
    finding = label_noise(table(), np.random.default_rng(0))
    told = " ".join(claim.text for claim in finding.claims)
    assert "With uniform(rate=0.4) labels" in told and "soft loses most" in told
    (errors,) = [c for c in finding.claims if "misclassified ones" in c.text]
    assert errors.verdict == "holds" and "by 3 of 3 detectors" in errors.text
    medians = {table.name: table for table in finding.tables}["medians"]
    assert medians.columns == ("detector", "none", "uniform(rate=0.4)")  # clean stands first


def test_runs_are_paired_by_their_other_factors():
    field = noise_cases(of_scores(table()))
    clean, noisy, units = field.paired("soft", "none", "uniform(rate=0.4)")
    assert units.are_independent
    assert len(clean) == 6
    np.testing.assert_allclose(np.sort(clean), np.sort(field.at("soft", "none")))
    assert (clean - noisy).mean() > 0.1


def results(frame, **columns):
    return Results(pd.DataFrame(frame).assign(**columns), ("training_dataset", "seed"))


def test_the_published_schema_finds_clean_labels_by_their_rate():
    frame = [
        {"detector": d, "ood": "svhn", "training_dataset": data, "seed": seed, "noise_rate": rate,
         "value": 0.9 - rate - 0.01 * seed - (0.1 if d == "knn" else 0), "accuracy": 0.95 - rate}
        for d in ("msp", "knn") for data, rate in (("c10n", 0.2), ("c10", 0.0)) for seed in range(3)
    ]  # fmt: skip
    field = noise_cases({"auroc": results(frame)})
    assert (field.noise, field.clean, field.levels) == ("training_dataset", "c10", ("c10", "c10n"))
    finding = label_noise_of({"auroc": results(frame)}, np.random.default_rng(0))
    (open_,) = [c for c in finding.claims if c.text.startswith("6 training runs do not settle")]
    assert "which detector is the best with which labels (here msp)" in open_.text
    assert "msp has the highest AUROC whatever the labels" in open_.evidence
    assert finding.answer.endswith("msp stays first whatever the labels, but its lead is not "
                                   "significant with any kind of labels.")  # fmt: skip
    assert any("Not answered" in caveat for caveat in finding.caveats)
    assert any("over all questions" in caveat for caveat in finding.caveats)


def test_best_case_table_has_the_order_and_sums_of_the_published_one():
    # Supplement Table 2: rows are sorted by their sum; MDS 1848.67 is the first, KNN the third.
    printed = {"MDS": 94.08, "VIM": 93.84, "KNN": 93.29, "GRAM": 91.19}
    lines = [
        {"detector": name, "ood": "one", "training_dataset": "c10", "seed": seed,
         "value": value / 100 - 0.1 * seed}
        for name, value in reversed(printed.items()) for seed in range(2)
    ] + [{"detector": name, "ood": "one", "training_dataset": "c10n", "seed": 0, "value": 0.5}
         for name in printed]  # fmt: skip
    finding = label_noise_of({"auroc": results(lines)}, np.random.default_rng(0))
    best = {table.name: table for table in finding.tables}["best"]
    assert [row[0] for row in best.rows] == list(printed)
    assert [row[1] for row in best.rows] == pytest.approx([v / 100 for v in printed.values()])


def test_a_choice_of_checkpoint_is_compared_in_pairs():
    rng = np.random.default_rng(1)
    lines = [
        {"detector": d, "ood": "one", "label_noise": noise, "epoch": epoch, "seed": seed,
         "value": 0.8 + (0.05 if (epoch == "best") == (d == "a") else 0) + rng.normal(0, 0.002)}
        for d in ("a", "b") for noise in ("none", "uniform") for epoch in ("best", "last")
        for seed in range(4)
    ]  # fmt: skip
    given = Results(pd.DataFrame(lines), ("label_noise", "epoch", "seed"))
    finding = label_noise_of({"auroc": given}, np.random.default_rng(0))
    (claim,) = [
        c for c in finding.claims if "epoch best is significantly better than last" in c.text
    ]
    assert claim.verdict == "flips" and "for 1 of 2 detectors, and worse for 1" in claim.text


def test_refusals():
    frame = [{"detector": d, "ood": "a", "seed": s, "value": 0.5} for d in "xy" for s in (0, 1)]
    with pytest.raises(UserError, match="No factor tells which labels"):
        label_noise_of({"auroc": Results(pd.DataFrame(frame), ("seed",))}, np.random.default_rng())
    one = Results(pd.DataFrame(frame).assign(label_noise="none"), ("label_noise", "seed"))
    with pytest.raises(UserError, match="All runs have the same label_noise: none"):
        label_noise_of({"auroc": one}, np.random.default_rng())


# ---- choices, kinds and chance -------------------------------------------------------------------


def grid_of(value, *, seeds=6, levels=("none", "uniform(rate=0.4)"), detectors="ab", looks=None):
    """Results over labels, seeds and looks at one training; `value` gives each cell."""
    looks = looks or {"epoch": ["last"]}
    (name, options), = looks.items()  # fmt: skip
    lines = [
        {"detector": d, "ood": ood, "label_noise": noise, "seed": seed, name: look,
         "value": value(d, noise, seed, look)}
        for d in detectors for ood in ("near", "far") for noise in levels
        for seed in range(seeds) for look in options
    ]  # fmt: skip
    return {"auroc": Results(pd.DataFrame(lines), ("label_noise", "seed", name))}


def judged(tables):
    return label_noise_of(tables, np.random.default_rng(0))


def test_a_clean_set_up_is_compared_with_a_noisy_one():
    rng = np.random.default_rng(3)

    def value(detector, noise, seed, look):
        if detector == "a":  # reads nothing that is fitted
            return 0.8 - 0.01 * seed - 0.05 * (noise != "none")
        gain = 0.06 * (look == "validation") * (noise != "none")
        return 0.7 - 0.01 * seed + gain + rng.normal(0, 0.003)

    finding = judged(grid_of(value, looks={"fitted_on": ["train", "validation"]}))
    (claim,) = [c for c in finding.claims if "fitted_on" in c.text]
    assert claim.verdict == "holds"
    assert "validation is significantly better than train for 1 of 1 detector" in claim.text
    assert "no difference to 1 other" in claim.text
    found = {t.name: t for t in finding.tables}["choice-fitted_on"]
    cells = {row[0]: row for row in found.rows}
    assert cells["a"][1:] == (0.0, 0.0, "–")
    clean, noisy = cells["b"][1:3]  # train less validation
    assert clean.low < 0 < clean.high and noisy.low < -0.06 < noisy.high < 0


def test_looks_at_one_training_are_one_case():
    rng = np.random.default_rng(4)
    drawn = {(d, n, s): rng.normal(0.8, 0.03) for d in "ab"
             for n in ("none", "uniform(rate=0.4)") for s in range(6)}  # fmt: skip

    def value(detector, noise, seed, look):
        return drawn[detector, noise, seed]

    one = judged(grid_of(value))
    many = judged(grid_of(value, looks={"epoch": [1, 2, 3, "best", "last"]}))
    assert [c.verdict for c in one.claims] == [c.verdict for c in many.claims]
    assert one.claims[0].evidence == many.claims[0].evidence
    assert dict(many.facts)["training runs"] == "12"
    assert any("re-evaluations of the same training run" in caveat for caveat in many.caveats)


def test_kinds_of_noise_are_compared_at_one_rate():
    rng = np.random.default_rng(5)
    levels = ("cifar10", "cifar10n_worse", "cifar10symm_worse", "cifar10asymm_agg")
    rates = dict(zip(levels, (0.0, 0.402, 0.402, 0.09), strict=True))
    lines = [
        {"detector": d, "id": "cifar10", "ood": ood, "training_dataset": level, "seed": seed,
         "noise_rate": rates[level],
         "value": 0.9 - 0.2 * rates[level] - 0.05 * ("symm" in level) + rng.normal(0, 0.004)}
        for d in "ab" for ood in ("x", "y", "z") for level in levels for seed in range(6)
    ]  # fmt: skip
    finding = judged({"auroc": Results(pd.DataFrame(lines), ("training_dataset", "seed"))})
    kinds = {t.name: t for t in finding.tables}["kinds"]
    assert [row[:3] for row in kinds.rows] == [
        ("clean", "clean", "0.0%"), ("n_worse", "human", "40.2%"),
        ("symm_worse", "uniform", "40.2%"), ("asymm_agg", "class-conditional", "9.0%"),
    ]  # fmt: skip
    told = [c for c in finding.claims if c.text.startswith("At the same rate")]
    assert len(told) == 1 and told[0].verdict == "holds"  # nothing has the rate of asymm_agg
    assert (
        "uniform noise costs 4.9 points" in told[0].text and "more than human noise" in told[0].text
    )
    assert {t.name for t in finding.tables} >= {"medians", "means", "best", "best-median"}


def test_failure_against_outliers_is_the_difference_of_two_aurocs():
    finding = label_noise(table(), np.random.default_rng(0))
    (claim,) = [c for c in finding.claims if "errors significantly better than outliers" in c.text]
    assert claim.verdict == "holds" and "3 of 3 detectors" in claim.text
    rows = {t.name: t for t in finding.tables}["failure"].rows
    for _, failure, ood, difference, better, worse in rows:
        assert difference.value == pytest.approx(failure - ood)
        assert better < 0.2 < worse


def test_missing_parts_are_counted_in_runs():
    made = table(runs=2)
    gone = tuple(Missing("no such layer", run, "gram", lasting=True) for run in made.runs)
    lacking = ScoreTable("id", made.rows, made.runs, gone[:3], made.correct)
    (line,) = label_noise(lacking, np.random.default_rng(0)).missing
    assert "gram in 3 of 4 runs" in line


def test_without_any_difference_a_page_rarely_claims_one():
    """Each of eight questions judged at 5 % by itself, 21 of 100 pages claimed something."""
    rng = np.random.default_rng(6)
    worlds, held = 40, 0
    levels = ("none", "uniform(rate=0.4)", "class_conditional(rate=0.4)")
    for _ in range(worlds):
        looks = {"epoch": ["best", "last"]}
        tables = {
            name: grid_of(lambda *_: rng.normal(0.8, 0.03), seeds=5, levels=levels, looks=looks)
            for name in ("auroc", "correct_auroc", "incorrect_auroc", "failure_auroc")
        }
        tables = {name: own["auroc"] for name, own in tables.items()}
        frame = tables["auroc"].frame
        accuracy = frame.groupby(["label_noise", "seed"])["seed"].transform(
            lambda part: rng.normal(0.7, 0.05)
        )
        tables["auroc"] = replace(tables["auroc"], frame=frame.assign(accuracy=accuracy))
        field = noise_cases(tables)
        told = claims(field, {}, find_choices(field, rng), rng).claims
        assert len(told) == 10
        held += any(claim.verdict != "undecided" for claim in told)
    assert held <= worlds * 0.05 + 3 * np.sqrt(worlds * 0.05 * 0.95)


def world(**by_question):
    """Results by question, each a function of detector, labels, seed and epoch; known accuracy."""
    looks = {"epoch": ["best", "last"]}
    tables = {
        name: grid_of(value, seeds=8, detectors="abc", looks=looks)["auroc"]
        for name, value in by_question.items()
    }
    frame = tables["auroc"].frame
    noisy = frame["label_noise"] != "none"
    accuracy = 0.9 - 0.3 * noisy - 0.01 * frame["seed"]
    return tables | {"auroc": replace(tables["auroc"], frame=frame.assign(accuracy=accuracy))}


def test_every_question_is_answered_as_the_world_was_made():
    """Noise raises 'a' and lowers 'c'; 'a' finds outliers, 'c' errors; only 'a' is hurt by errors;
    the last epoch is better for 'a' and 'b' where labels are noisy, and with clean ones for none.
    """
    rng = np.random.default_rng(8)
    moved = {"a": 0.05, "b": 0.0, "c": -0.05}

    def outliers(detector, noise, seed, look):
        late = 0.04 * (look == "last" and noise != "none" and detector != "c")
        level = {"a": 0.85, "b": 0.7, "c": 0.75}[detector]
        # Accuracy falls with noise, and the value of 'c' alone with it.
        return level + (noise != "none") * moved[detector] + late + rng.normal(0, 0.002)

    def correct(detector, noise, seed, look):
        return 0.8 + 0.1 * (detector == "a") + 0.001 * (-1) ** seed

    def incorrect(detector, noise, seed, look):
        return 0.8 - 0.2 * (detector == "a")

    def failure(detector, noise, seed, look):
        return {"a": 0.6, "b": 0.65, "c": 0.9}[detector] + rng.normal(0, 0.002)

    finding = judged(world(auroc=outliers, correct_auroc=correct, incorrect_auroc=incorrect,
                           failure_auroc=failure))  # fmt: skip

    def told(part):
        (claim,) = [c for c in finding.claims if part in c.text]
        return claim

    drop = told("is significantly lower than with clean labels")
    assert (
        drop.verdict == "flips"
        and "for 1 of 3 detectors (c) and higher for 2 (a and b);" in drop.text
    )
    assert "c loses most, 5.0 points" in drop.text
    assert "almost stochastically better for 1 " in drop.evidence
    errors = told("from misclassified ones")
    assert errors.verdict == "undecided" and "by 1 of 3 detectors." in errors.text
    assert (
        "(median AUROC 0.801) significantly better" in errors.text and "ones (0.800)" in errors.text
    )
    assert "least for a" not in errors.evidence
    better = told("errors significantly better than outliers")
    assert better.verdict == "flips"
    assert "1 of 3 detectors detect the classifier's errors" in better.text
    assert "2 detect outliers better" in better.text
    finder = told("The best detector of outliers")
    assert finder.verdict == "flips"
    assert finder.text == (
        "The best detector of outliers is a, the best of the classifier's own errors c."
    )
    ground = told("more accurate classifiers")
    assert (
        ground.verdict == "flips"
        and "1 of 3 detectors detect outliers significantly better, and 2 worse" in ground.text
    )
    late = told("epoch last is significantly better than best")
    assert late.verdict == "holds" and "for 2 of 3 detectors, and worse for 0" in late.text
    assert "mean over all detectors 2.7 points [2." in late.evidence
    assert "with clean labels better for 0, worse for 0" in late.evidence
    assert told("whatever the labels").text.startswith("a has the highest")


def test_noise_that_only_helps_holds_too_and_clean_labels_are_counted_the_same_way_round():
    rng = np.random.default_rng(9)

    def value(detector, noise, seed, look):
        late = 0.05 if (look == "last") == (noise != "none") else 0.0  # clean: the best is better
        return 0.7 + 0.1 * (noise != "none") + late + rng.normal(0, 0.002)

    finding = judged(grid_of(value, looks={"epoch": ["best", "last"]}))
    drop = finding.claims[0]
    assert (
        drop.verdict == "holds"
        and "significantly higher than with clean labels for both detectors;" in drop.text
    )
    (late,) = [
        c for c in finding.claims if "epoch last is significantly better than best" in c.text
    ]
    assert "with clean labels better for 0, worse for 2" in late.evidence


def test_correlations_with_accuracy_are_scipys_by_holms_rule():
    rng = np.random.default_rng(10)
    made = world(auroc=lambda d, n, s, e: 0.7 + {"a": 0.0, "b": -0.01, "c": 0.004}[d] * s
                 + rng.normal(0, 0.02))  # fmt: skip
    field = noise_cases(made)
    (asked,) = ask_accuracy(field)
    means = made["auroc"].frame.groupby(["detector", "label_noise", "seed"])
    lines = means[["value", "accuracy"]].mean().reset_index()  # two sets: the median is the mean
    raw = [spearmanr(lines[lines["detector"] == d][["accuracy", "value"]]).pvalue for d in "abc"]
    assert asked.p_values == pytest.approx(multiple(raw))
    overall = lines.groupby(["label_noise", "seed"])[["accuracy", "value"]].mean()
    assert asked.overall == pytest.approx(spearmanr(overall).pvalue)


def multiple(p_values):
    """Holm's rule as it is told: take the smallest times all that are left, one after another."""
    adjusted, largest = {}, 0.0
    for left, place in zip(range(len(p_values), 0, -1), np.argsort(p_values), strict=True):
        largest = max(largest, min(1.0, left * p_values[place]))
        adjusted[place] = largest
    return [adjusted[place] for place in range(len(p_values))]


def test_leads_just_within_chance_are_not_claimed():
    """Four seeds whose differences are 1, 1, 1 and -0.5 points: t = 1.67, p = 0.19."""
    moves = (0.01, 0.01, 0.01, -0.005)

    def value(detector, noise, seed, look):
        return 0.8 + 0.003 * seed + (moves[seed] if noise == "none" else 0.0)

    finding = judged(grid_of(value, seeds=4, detectors="a"))
    assert finding.claims[0].verdict == "undecided"
    assert (
        "significantly lower than with clean labels for 0 of 1 detector" in finding.claims[0].text
    )


def test_an_accuracy_that_is_known_of_some_labels_only():
    made = world(auroc=lambda d, n, s, e: 0.8 + 0.001 * s)["auroc"]
    known = made.frame["accuracy"].where(made.frame["label_noise"] == "none")
    finding = judged({"auroc": replace(made, frame=made.frame.assign(accuracy=known))})
    kinds = {t.name: t for t in finding.tables}["kinds"]
    assert [row[3] for row in kinds.rows] == [pytest.approx(0.865), None]
    nowhere = replace(made, frame=made.frame.assign(accuracy=np.nan))
    assert "accuracy" not in {t.name: t for t in judged({"auroc": nowhere}).tables}["kinds"].columns


def test_many_kinds_of_noise_are_told_in_one_sentence():
    rng = np.random.default_rng(11)
    levels = ("none", *(f"uniform(rate=0.{rate})" for rate in range(1, 6)))

    def value(detector, noise, seed, look):
        lost = 0.0 if noise in levels[:2] else 0.1 + 0.05 * (noise == levels[3])
        return 0.9 - lost + 0.001 * (-1) ** (seed + (noise == "none")) + rng.normal(0, 1e-5)

    claim = judged(grid_of(value, seeds=8, levels=levels)).claims[1]
    assert claim.verdict == "holds"
    assert "in 8 of 10 cases (of 5 kinds of noise and 2 detectors) and raise it in 0" in claim.text
    assert "loses most, 15.0 points with uniform(rate=0.3) labels" in claim.text
    assert "least often with uniform(rate=0.1) labels, for 0 of 2" in claim.evidence
    assert "almost stochastically better in 8 (" in claim.evidence


def nested(value, *, sets=4, seeds=3, detectors="abc"):
    """Data sets of which each has noise of its own: levels that no other and no clean run has."""
    lines = [
        {"detector": d, "id": f"set{s}", "ood": "", "label_noise": kind, "noise_level": level,
         "seed": seed, "value": value(d, s, kind)}
        for s in range(sets)
        for kind in ("clean", "N", "SU")
        for level in (["clean"] if kind == "clean" else [f"{s}-{n}" for n in range(1 + s % 3)])
        for seed in range(seeds)
        for d in detectors
    ]  # fmt: skip
    table = Results(pd.DataFrame(lines), ("label_noise", "noise_level", "seed"))
    return {"auroc": table}


def test_noise_is_compared_within_data_sets_although_its_levels_are_nested_in_them():
    """A level of the noise that clean labels do not have is averaged; sets weigh the same."""
    rng = np.random.default_rng(12)
    cost = [0.04, 0.05, 0.05, 0.06]
    base = [0.9, 0.6, 0.8, 0.7]  # between sets, values differ more than by any noise
    tables = nested(lambda d, s, kind: base[s] - cost[s] * (kind != "clean") + rng.normal(0, 0.001))
    frame = tables["auroc"].frame
    means = frame.assign(noisy=frame["label_noise"] != "clean").pivot_table(
        index=["detector", "id"], columns="noisy", values="value"
    )
    finding = judged(tables)
    (losses,) = [t for t in finding.tables if t.name == "losses"]
    for detector, clean, noisy, loss in losses.rows:
        own = means.loc[detector]
        assert clean == pytest.approx(own[False].mean()) and noisy == pytest.approx(
            own[True].mean()
        )
        assert loss.value == pytest.approx(clean - noisy)
        wanted = ttest_1samp(own[False] - own[True], 0).confidence_interval()
        assert (loss.low, loss.high) == pytest.approx(wanted)
    claim = finding.claims[0]
    assert claim.verdict == "holds" and "by 4 data sets" in claim.evidence
    assert "lower the AUROC by 5.0 points, mean over detectors" in claim.text
    assert "here that of all 3 detectors" in claim.text
    assert any("noise_level describes the noise" in caveat for caveat in finding.caveats)


def test_training_runs_within_data_sets_are_no_cases():
    """Noise helps on some sets and harms on others: many seeds on five sets tell nothing more."""
    held = 0
    for world in range(60):
        rng = np.random.default_rng(world)
        effect = rng.normal(0, 0.05, 5)

        def value(detector, number, kind, effect=effect, rng=rng):
            return 0.7 + effect[number] * (kind != "clean") + rng.normal(0, 0.01)

        field = noise_cases(nested(value, sets=5, seeds=8, detectors="ab"))
        told = claims(field, {}, find_choices(field, rng), rng).claims
        held += any(claim.verdict != "undecided" for claim in told)
    assert held <= 60 * 0.05 + 2 * np.sqrt(60 * 0.05 * 0.95)


def test_a_column_means_the_same_however_its_title_is_written():
    """Eight training runs, evaluated at three epochs each: not 24 training runs."""
    rng = np.random.default_rng(1)
    levels = ("none", "uniform(rate=0.4)")
    drawn = {(noise, seed): rng.normal(0, 0.03) for noise in levels for seed in range(8)}

    def value(detector, noise, seed, epoch):
        gap = 0.01 * (noise == "none")
        return 0.8 + gap + drawn[noise, seed] + 0.001 * epoch + 0.002 * (detector == "a")

    def claims(title):
        return judged(grid_of(value, seeds=8, looks={title: [1, 2, 3]})).claims

    assert claims("epoch") == claims("Epoch") == claims("EPOCH")
    assert claims("epoch")[0].verdict == "undecided"
    assert claims("augment")[0].verdict == "holds"  # 24 training runs under three conditions


def _lowered(detector, noise, seed, look):
    """Noise costs both detectors 5 points or so, and another look gives 2 more."""
    effects = 0.05 * (noise == "none") + 0.01 * (detector == "a") + 0.02 * (look == 1)
    return 0.75 + effects * (1 + 0.01 * seed)


def test_title_of_the_noise_factor_may_be_written_in_any_way():
    given = grid_of(_lowered)
    titled = given["auroc"].frame.rename(columns={"label_noise": "Label noise"})
    other = {"auroc": Results(titled, ("Label noise", "seed", "epoch"))}
    assert judged(other).claims == judged(given).claims != ()


def test_random_subsets_of_outliers_are_no_choice():
    """A subset of the outliers may well be easier than another, but nobody can prefer it."""
    drawn, chosen = (
        [claim for claim in judged(grid_of(_lowered, looks={name: [0, 1]})).claims
         if f"{name} 1 is significantly better than 0" in claim.text]
        for name in ("ood_draw", "epoch")
    )  # fmt: skip
    assert not drawn
    assert [claim.verdict for claim in chosen] == ["holds"]


@pytest.mark.parametrize("blank", [None, "not given"])
def test_runs_whose_labels_are_not_given_are_left_out(blank):
    given = grid_of(_lowered)["auroc"]
    further = given.frame[given.frame["label_noise"] == "none"].assign(label_noise=blank, value=0.5)
    both = Results(pd.concat([given.frame, further]), given.factors)
    finding = judged({"auroc": both})
    assert finding.claims == judged({"auroc": given}).claims
    left_out = f"Rows left out because they do not say which labels were used: {len(further)}."
    assert left_out in finding.caveats
    with pytest.raises(UserError, match="'label_noise' is empty"):
        judged({"auroc": Results(further, given.factors)})


def test_a_choice_that_changes_nothing_is_told_as_such():
    """It read: better for 0 of 0 detectors, and worse for 0."""
    same = grid_of(lambda *cell: _lowered(*cell[:3], 0), looks={"epoch": ["best", "last"]})
    (claim,) = [claim for claim in judged(same).claims if "epoch" in claim.text]
    assert claim.text == "The choice between epoch best and last affects neither detector."
    assert claim.verdict == "undecided"


def test_noise_that_only_helps_is_not_called_a_loss():
    helped = grid_of(lambda *cell: 1.5 - _lowered(*cell))
    first = judged(helped).claims[0]
    assert "no detector loses; " in first.text and "loses most" not in first.text


def test_boxes_hold_the_quartiles_of_all_detectors_and_training_runs():
    made = table(runs=4)
    found = label_noise(made, np.random.default_rng(0))
    points = {s.name: s for s in found.series}["noise-boxes"].points
    assert len(points) == 4 * 2, "four questions, two kinds of labels"
    noisy = [run for run in made.runs if run.startswith("uniform")]
    # Counted by hand: of 12 sorted values (3 detectors x 4 runs), quartiles lie a quarter of 11 on.
    medians = sorted(
        np.mean([auroc(made.scores(run, name, "id")[~made.correct[run]],
                       made.scores(run, name, data)) for data in ("near", "far")])
        for name in ("soft", "hard", "other") for run in noisy
    )  # fmt: skip
    (box,) = [p for p in points if p["label"].startswith("uniform")
              and p["panel"] == "misclassified ID against OOD"]  # fmt: skip
    assert box["values"] == 12
    assert (box["low"], box["high"]) == pytest.approx((medians[0], medians[-1]))
    assert box["lower"] == pytest.approx(0.25 * medians[2] + 0.75 * medians[3])
    assert box["value"] == pytest.approx((medians[5] + medians[6]) / 2)
    assert box["upper"] == pytest.approx(0.75 * medians[8] + 0.25 * medians[9])


def _seeded(rng, gap, seeds=3):
    """Four detectors, each `gap` behind the one before, whatever the labels."""
    lines = [
        {"detector": f"d{d}", "id": "x", "ood": "far", "label_noise": labels, "seed": seed,
         "value": 0.9 - gap * d + rng.normal(0, 0.01)}
        for labels in ("none", "symmetric(rate=0.2)", "asymmetric(rate=0.2)")
        for seed in range(seeds)
        for d in range(4)
    ]  # fmt: skip
    factors = (Factor("label_noise"), Factor("seed", "repeat"))
    return Results(pd.DataFrame(lines), factors, "auroc", True)


def test_three_runs_decide_who_is_best_with_the_variance_that_detectors_share():
    rng = np.random.default_rng(0)
    best = "d0 has the highest AUROC whatever the labels."
    found = [
        any(claim.text == best and claim.verdict == "holds" for claim in finding.claims)
        for finding in (
            label_noise_of({"auroc": _seeded(rng, 0.05)}, np.random.default_rng(0))
            for _ in range(20)
        )
    ]
    assert sum(found) > 12


def test_equal_detectors_under_idle_noise_are_told_apart_on_one_page_in_twenty():
    rng = np.random.default_rng(0)
    wrong = sum(
        any(claim.verdict != "undecided" for claim in finding.claims)
        for finding in (
            label_noise_of({"auroc": _seeded(rng, 0.0)}, np.random.default_rng(0))
            for _ in range(60)
        )
    )
    assert wrong <= 8


def test_the_best_by_median_does_not_contradict_the_best_by_mean():
    """On four of five outlier sets one detector is a little better, on the fifth far worse."""
    means = {"MSP": (0.8, 0.8, 0.8, 0.8, 0.99), "KNN": (0.82, 0.82, 0.82, 0.82, 0.6)}
    rng = np.random.default_rng(0)
    frame = pd.DataFrame([
        {"method": name, "label_noise": noise, "seed": seed, "ood_dataset": f"o{n}",
         "AUROC": mean - 0.05 * (noise != "clean") + rng.normal(0, 0.004)}
        for name, own in means.items() for noise in ("clean", "aggre", "rand1")
        for seed in range(5) for n, mean in enumerate(own)
    ])  # fmt: skip
    found = {finding.protocol: finding.answer for finding in om.analyze(frame)}
    assert "use MSP" in found["ranking"]
    assert "By median AUROC, KNN is the best whatever the labels" in found["label_noise"]
    assert "; by the mean over outlier sets, MSP leads." in found["label_noise"]
    assert "points of median AUROC" in found["label_noise"]
