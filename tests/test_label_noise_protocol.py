"""Detectors under label noise: worlds with a known answer, and a published table."""

import numpy as np
import pandas as pd
import pytest

from oodometer.errors import UserError
from oodometer.metrics import auroc
from oodometer.protocols.label_noise import label_noise, label_noise_of
from oodometer.protocols.label_noise_field import noise_field, of_scores
from oodometer.results import Results
from oodometer.scores import ScoreRow, ScoreTable


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
    assert errors.verdict == "holds" and "far better" in errors.text
    medians = {table.name: table for table in finding.tables}["medians"]
    assert medians.columns == ("detector", "none", "uniform(rate=0.4)")  # clean stands first


def test_runs_are_paired_by_their_other_factors():
    field = noise_field(of_scores(table()))
    clean, noisy = field.paired("soft", "none", "uniform(rate=0.4)")
    assert len(clean) == 6
    np.testing.assert_allclose(np.sort(clean), np.sort(field.values("soft", "none")))
    assert (clean - noisy).mean() > 0.1


def results(frame, **columns):
    return Results(pd.DataFrame(frame).assign(**columns), ("training_dataset", "seed"))


def test_the_published_schema_finds_clean_labels_by_their_rate():
    frame = [
        {"detector": d, "ood": "svhn", "training_dataset": data, "seed": seed, "noise_rate": rate,
         "value": 0.9 - rate - 0.01 * seed - (0.1 if d == "knn" else 0), "accuracy": 0.95 - rate}
        for d in ("msp", "knn") for data, rate in (("c10n", 0.2), ("c10", 0.0)) for seed in range(3)
    ]  # fmt: skip
    field = noise_field({"auroc": results(frame)})
    assert (field.noise, field.clean, field.levels) == ("training_dataset", "c10", ("c10", "c10n"))
    finding = label_noise_of({"auroc": results(frame)}, np.random.default_rng(0))
    assert any("msp has the highest median AUROC whatever the labels" in c.text
               for c in finding.claims)  # fmt: skip
    assert any("Not answered" in caveat for caveat in finding.caveats)


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
    (claim,) = [c for c in finding.claims if c.text.startswith("epoch best is better than last")]
    assert claim.verdict == "flips" and "for 1 of 2 detectors, and worse for 1" in claim.text


def test_refusals():
    frame = [{"detector": d, "ood": "a", "seed": s, "value": 0.5} for d in "xy" for s in (0, 1)]
    with pytest.raises(UserError, match="No factor tells which labels"):
        label_noise_of({"auroc": Results(pd.DataFrame(frame), ("seed",))}, np.random.default_rng())
    one = Results(pd.DataFrame(frame).assign(label_noise="none"), ("label_noise", "seed"))
    with pytest.raises(UserError, match="All runs have the same label_noise: none"):
        label_noise_of({"auroc": one}, np.random.default_rng())
