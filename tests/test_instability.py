"""Instability: what one factor does to detectors and to their order."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from oodometer.errors import UserError
from oodometer.factors import Factor
from oodometer.protocols.common.cells import cells_of
from oodometer.protocols.instability.protocol import instability, instability_of
from oodometer.protocols.instability.spreads import spreads
from oodometer.protocols.ranking.protocol import ranking_of
from oodometer.protocols.robustness.protocol import robustness_of
from oodometer.results import Results
from oodometer.scores import Missing, ScoreRow, ScoreTable
from oodometer.stats.deviation import deviation_interval

PAPER = json.loads((Path(__file__).parent / "oracles" / "instability_tables.json").read_text())


def published(table):
    lines = [
        {"detector": name, "ood": task, "level": level, "value": value / 100}
        for task, levels in table.items()
        for level, values in levels.items()
        for name, value in zip(PAPER["methods"], values, strict=True)
    ]
    return Results(pd.DataFrame(lines), ("level",))


def made(values, factors):
    """Results from {detector: list of values}, the runs told apart by the factors' columns."""
    lines = [
        {"detector": name, "ood": "far", "value": value}
        | {factor: levels[run] for factor, levels in factors.items()}
        for name, row in values.items()
        for run, value in enumerate(row)
    ]
    return Results(pd.DataFrame(lines), tuple(factors))


def claims(finding):
    return [(claim.verdict, claim.text) for claim in finding.claims]


def test_what_the_paper_says_of_its_second_table():
    # "for CIFAR-10 vs. SVHN and type-0, the top-3 methods are (KNN, Mahalanobis, MSP), while for
    # type-2 - (LOF_C, Mahalanobis, LOF_E)"; MaxLogit "from 70.13 to 88.99".
    svhn, _ = spreads(cells_of(published(PAPER["table_2"])), "level", published=True)
    order = {
        level: [svhn.detectors[row] for row in np.argsort(svhn.order[:, column])]
        for column, level in enumerate(svhn.level)
    }
    assert order["type-0"][:3] == ["KNN", "Mah", "MSP"]
    assert order["type-2"][:3] == ["LOF_C", "Mah", "LOF_E"]
    assert svhn.deltas[svhn.detectors.index("ML")] == pytest.approx(0.8899 - 0.7013)


def test_published_ranks_add_up_as_in_the_paper_and_ties_go_to_the_earlier_name():
    for part in spreads(cells_of(published(PAPER["table_6"])), "level", published=True):
        assert part.order.mean(axis=1).sum() == pytest.approx(21.0)  # 0 + 1 + ... + 6
    # ML and FE have 88.99 both at type-0, and ML stands first.
    svhn, _ = spreads(cells_of(published(PAPER["table_2"])), "level", published=True)
    type_0 = svhn.order[:, svhn.level.index("type-0")]
    assert type_0[svhn.detectors.index("FE")] == type_0[svhn.detectors.index("ML")] + 1
    ours, _ = spreads(cells_of(published(PAPER["table_2"])), "level", published=False)
    shared = ours.order[:, ours.level.index("type-0")]
    assert shared[ours.detectors.index("FE")] == shared[ours.detectors.index("ML")]


def test_augmentation_moves_detectors_by_more_than_20_points():
    # "We can see a wide range of AUCs, often above 20 percent."
    parts = spreads(cells_of(published(PAPER["table_6"])), "level", published=True)
    wide = sum(int((part.deltas > 0.2).sum()) for part in parts)
    assert wide >= 7
    finding = instability_of(published(PAPER["table_6"]), published=True)
    text = " ".join(text for _, text in claims(finding))
    assert "changes the best detector" in text
    levels = next(table for table in finding.tables if table.name.startswith("levels-"))
    assert levels.columns == ("level", *PAPER["methods"])


def test_a_world_in_which_only_the_seed_matters():
    rng = np.random.default_rng(0)
    values = {"a": 0.8 + 0.1 * rng.random(10), "b": 0.8 + 0.1 * rng.random(10), "c": [0.5] * 10}
    finding = instability_of(made(values, {"seed": list(range(10))}))
    assert ("flips", "Changing only the seed changes the best detector.") in claims(finding)
    assert any(text.startswith("Changing only the seed reverses the order of up to 1 of 3 pairs")
               for _, text in claims(finding))  # fmt: skip
    (spread,) = [table for table in finding.tables if table.name == "spread-seed-far"]
    row = dict(zip(spread.columns, spread.rows[0], strict=True))
    assert row["standard deviation"] == pytest.approx(np.std(values["a"], ddof=1))
    assert row["highest − lowest"] == pytest.approx(np.ptp(values["a"]))
    assert [row[-1] for row in spread.rows] == [1, 1, 0]  # a and b change places, c never


def test_a_winner_that_changes_with_another_factor_is_not_blamed_on_the_seed():
    small = np.random.default_rng(4).normal(0, 0.001, 8)
    values = {"a": np.repeat([0.9, 0.7], 4) + small, "b": [0.8] * 8}
    factors = {"optimizer": ["sgd"] * 4 + ["adam"] * 4, "seed": [0, 1, 2, 3] * 2}
    told = claims(instability_of(made(values, factors)))
    assert ("holds", "Changing only the seed never changes the best detector.") in told
    assert ("flips", "Changing only the optimizer changes the best detector.") in told


def test_two_runs_are_too_few_to_claim_that_nothing_changes():
    finding = instability_of(made({"a": [0.9, 0.91], "b": [0.8, 0.8]}, {"seed": [0, 1]}))
    order, _ = claims(finding)
    assert order == (
        "undecided",
        "Changing only the seed changes neither the best detector nor the order of the two "
        "detectors in these 2 runs, which are too few to say that it never does.",
    )
    assert finding.answer == (
        "Another seed leaves a the best here, but 2 runs are too few to say that it always does. "
        "The seed moves a by 1.0 points of AUROC on far."
    )


def test_equal_moves_name_no_detector_twice():
    told = claims(instability_of(made({"a": [0.91, 0.92], "b": [0.94, 0.95]}, {"seed": [0, 1]})))
    assert ("undecided", "The seed moves every detector by 1.0 points of AUROC on far.") in told


def test_equal_detectors_are_never_ranked_apart_and_names_do_not_matter():
    rng = np.random.default_rng(1)
    values = rng.random(6)
    finding = instability_of(made({"a": values, "b": values}, {"seed": list(range(6))}))
    assert {verdict for verdict, _ in claims(finding)} == {"undecided"}  # nobody leads
    first, second = rng.random(6), rng.random(6)
    one = instability_of(made({"alpha": first, "beta": second}, {"seed": list(range(6))}))
    two = instability_of(made({"xi": first, "psi": second}, {"seed": list(range(6))}))
    expected = [text.replace("alpha", "xi").replace("beta", "psi") for _, text in claims(one)]
    assert expected == [text for _, text in claims(two)]


def test_intervals_of_standard_deviations_cover():
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(2000):
        groups = np.repeat([0, 1, 2], 4)
        values = rng.normal(0, 0.03, 12) + np.array([0.1, 0.5, 0.9])[groups]
        found = deviation_interval(values, groups, 0.95)
        covered += found.low <= 0.03 <= found.high
    assert 0.94 <= covered / 2000 <= 0.98
    assert deviation_interval(np.array([1.0]), np.array([0]), 0.95) is None
    shares = deviation_interval(np.array([0.1, 0.9]), np.array([0, 0]), 0.95)
    assert shares.high <= 0.8  # they deviate by no more


def test_intervals_of_standard_deviations_cover_skewed_aurocs():
    rng = np.random.default_rng(7)
    truth = np.std(1 / (1 + np.exp(-rng.normal(3.0, 0.5, 400_000))))
    for runs in (4, 10):  # the chi-squared interval alone covers 90 % and 86 %
        draws = 1 / (1 + np.exp(-rng.normal(3.0, 0.5, (1500, runs))))
        found = [deviation_interval(row, np.zeros(runs, dtype=int), 0.95) for row in draws]
        assert 0.93 <= np.mean([one.low <= truth <= one.high for one in found]) <= 0.98


def test_values_against_the_epoch_become_lines_with_accuracy():
    frame = made({"a": [0.6, 0.7, 0.8], "b": [0.7, 0.7, 0.7]}, {"epoch": [1, 2, 10]}).frame
    table = Results(frame.assign(accuracy=[0.5, 0.6, 0.9] * 2), ("epoch",))
    (lines,) = [series for series in instability_of(table).series if series.kind == "lines"]
    assert {(p["label"], p["x"]) for p in lines.points} >= {("a", 10.0), ("accuracy", 1.0)}


def test_scores_give_accuracy_too():
    rng = np.random.default_rng(3)
    rows, runs, correct = [], {}, {}
    for seed in range(3):
        runs[f"seed={seed}"] = {"seed": seed}
        correct[f"seed={seed}"] = np.arange(20) % (seed + 2) == 0
        for name in ("a", "b"):
            for data, shift in (("id", 0.0), ("far", 1.0)):
                rows.append(ScoreRow(f"seed={seed}", name, "", data, rng.normal(shift, 1, 20)))
    table = ScoreTable("id", tuple(rows), runs, correct=correct)
    finding = instability(table, rng)
    levels = next(t for t in finding.tables if t.name == "levels-seed-far")
    assert [row[1] for row in levels.rows] == pytest.approx([0.5, 7 / 20, 5 / 20])


def test_refusals():
    table = made({"a": [0.9], "b": [0.8]}, {"seed": [0]})
    with pytest.raises(UserError, match="No two runs differ in only one factor"):
        instability_of(table)
    with pytest.raises(UserError, match="'sede'.*seed"):
        instability_of(table, ["sede"])
    with pytest.raises(UserError, match="only one"):
        instability_of(made({"a": [0.9, 0.8]}, {"seed": [0, 1]}))


def test_gaps_are_left_out_and_said():
    full = made({"a": [0.9, 0.8, 0.7], "b": [0.8, 0.9, 0.6]}, {"seed": [0, 1, 2]})
    holed = Results(full.frame.drop(index=5), full.factors)
    assert any("1 run" in text for text in instability_of(holed).caveats)


def test_published_tables_have_the_layout_of_the_paper():
    finding = instability_of(published(PAPER["table_2"]), published=True)
    named = {table.name: table for table in finding.tables}
    levels = named["levels-level-" + next(iter(PAPER["table_2"]))]
    printed = next(iter(PAPER["table_2"].values()))
    assert [row[0] for row in levels.rows] == list(printed)
    for row in levels.rows:
        assert row[1:] == tuple(f"{value:.2f}" for value in printed[row[0]])
    spread = next(table for table in finding.tables if table.name.startswith("spread-"))
    assert spread.columns == ("detector", "mean±std", "delta", "rank mean±std", "range")
    knn = dict(zip(spread.columns, spread.rows[0], strict=True))
    values = np.array([printed[level][0] for level in printed])
    assert knn["mean±std"] == f"{values.mean():.2f}±{values.std():.2f}"
    assert knn["delta"] == f"{np.ptp(values):.2f}"


def test_the_best_and_the_worst_seed_are_those_under_the_same_optimizer():
    # The optimizer moves more than the seed; seed 1 is the best under both.
    values = {"a": [0.9, 0.92, 0.7, 0.75], "b": [0.8, 0.8, 0.8, 0.8]}
    factors = {"optimizer": ["sgd", "sgd", "adam", "adam"], "seed": [0, 1, 0, 1]}
    finding = instability_of(made(values, factors))
    (extremes,) = [table for table in finding.tables if table.name == "extremes-seed-far"]
    row = dict(zip(extremes.columns, extremes.rows[0], strict=True))
    assert (row["best seed"], row["worst seed"]) == ("1", "0")
    assert row["AUROC at best"] == pytest.approx(0.835)
    assert row["rank at best"] == 1.5


def test_missing_parts_are_counted_in_runs_not_in_runs_by_sets():
    rng = np.random.default_rng(5)
    rows, runs = [], {}
    for seed in range(3):
        runs[f"seed={seed}"] = {"seed": seed}
        for name in ("a", "b"):
            for data in ("id", "near", "far"):
                rows.append(ScoreRow(f"seed={seed}", name, "", data, rng.normal(0, 1, 20)))
    gone = [Missing("no such layer", run, "gram", lasting=True) for run in runs]
    everywhere = instability(ScoreTable("id", tuple(rows), runs, tuple(gone)), rng).missing
    assert everywhere == ("Not applicable to this network: gram (no such layer).",)
    some = instability(ScoreTable("id", tuple(rows), runs, tuple(gone[:2])), rng).missing
    assert "gram in 2 of 3 runs" in some[0]


def test_equal_detectors_are_rarely_said_to_be_stable_or_to_differ_in_spread():
    rng = np.random.default_rng(6)
    held = {}
    for _ in range(80):
        factors = {"optimizer": ["x"] * 3 + ["y"] * 3, "seed": [0, 1, 2] * 2}
        values = {name: rng.normal(0.8, 0.02, 6) for name in "ab"}
        for place, (verdict, _) in enumerate(claims(instability_of(made(values, factors)))):
            held[place] = held.get(place, 0) + (verdict == "holds")
    assert max(held.values()) <= 80 * 0.05 + 3 * np.sqrt(80 * 0.05 * 0.95)


@pytest.mark.parametrize("block", PAPER["ranks_3_5_7"])
def test_ranks_of_tables_3_5_and_7_as_printed(block):
    """Runs with these ranks give mean, standard deviation and range as printed, 63 of 63 cells."""
    ranks = np.array(PAPER["ranks_3_5_7"][block]["runs"])
    values = dict(zip(PAPER["methods"], 0.9 - 0.01 * ranks, strict=True))
    table = made(values, {"seed": list(range(ranks.shape[1]))})
    spread = instability_of(table, published=True).tables[0]
    shown = [dict(zip(spread.columns, row, strict=True)) for row in spread.rows]
    for row, (mean, deviation_, reach) in zip(
        shown, PAPER["ranks_3_5_7"][block]["printed"], strict=True
    ):
        assert row["rank mean±std"] == f"{mean:.2f}±{deviation_:.2f}"
        assert row["range"].replace("–", "-") == reach


def grid(rng, *, optimizers=2, seeds=4, sets=1, detectors="ab", epochs=0, effect=None):
    """Equal detectors but for `effect` (detectors, optimizers); noise of every training."""
    lines = []
    for optimizer in range(optimizers):
        for seed in range(seeds):
            for name in detectors:
                level = 0.85 + rng.normal(0, 0.01)
                if effect is not None:
                    level += effect[detectors.index(name)][optimizer]
                for ood in range(sets):
                    cell = {"detector": name, "ood": f"o{ood}", "optimizer": f"x{optimizer}",
                            "seed": seed}  # fmt: skip
                    for epoch in range(max(epochs, 1)):
                        value = level + rng.normal(0, 0.0005 if epochs else 0.01)
                        lines.append(cell | {"Epoch": epoch, "value": value})
    factors = ("optimizer", "seed", "Epoch") if epochs else ("optimizer", "seed")
    return Results(pd.DataFrame(lines).drop(columns=[] if epochs else "Epoch"), factors)


def test_training_again_is_not_blamed_on_the_optimizer():
    rng = np.random.default_rng(8)

    def told(effect=None):
        return claims(instability_of(grid(rng, sets=2, effect=effect), ["optimizer"]))

    half = [[0.1, 0.0], [0.0, 0.0]]  # a is ahead under the one, equal under the other: no flip
    for effect in (None, half):
        texts = [line for _ in range(15) for line in told(effect)]
        assert sum("changes the best detector" in text for _, text in texts) >= 10  # it did change
        assert sum(verdict == "flips" for verdict, _ in texts) <= 3
    turned = [[0.1, -0.1], [0.0, 0.0]]
    text = "Changing only the optimizer changes the best detector on both outlier sets, taken one "
    text += "by one."
    assert ("flips", text) in told(turned)
    seeds = claims(instability_of(grid(rng, sets=2), ["seed"]))
    assert any(verdict == "flips" for verdict, _ in seeds)  # another seed is training again


def test_all_pages_agree_that_a_condition_changes_the_best_detector():
    """A lead of 1.4 points in five runs is found on each page, and not within chance on another."""
    rng = np.random.default_rng(20)
    means = {"msp": 0.86, "odin": 0.88, "energy": 0.89, "knn": 0.92, "vim": 0.935, "maha": 0.85}
    lines = [
        {"detector": name, "ood": ood, "optimizer": optimizer, "seed": seed,
         "value": mean + own + turn * (name == "knn") + rng.normal(0, 0.002)}
        for name, mean in means.items()
        for optimizer, turn in (("sgd", 0.0), ("adam", 0.05), ("sam", 0.0))
        for seed in range(5)
        for own in (rng.normal(0, 0.004),)
        for ood in ("near", "far")
    ]  # fmt: skip
    table = Results(pd.DataFrame(lines), ("optimizer", "seed"))
    unstable = claims(instability_of(table, ["optimizer"]))
    text = "Changing only the optimizer changes the best detector on both outlier sets, taken one "
    text += "by one."
    assert ("flips", text) in unstable
    assert [v for v, t in unstable if "reverses the order" in t] == ["flips"]  # which it implies
    elsewhere = [ranking_of(table, rng), robustness_of(table)]
    told = [
        [v for v, t in claims(finding) if "depends on the optimizer" in t or "with the optim" in t]
        for finding in elsewhere
    ]
    assert told == [["flips"], ["flips"]]


def test_equal_values_tell_nothing_about_their_spread():
    finding = instability_of(
        made({"a": [0.92] * 5, "b": [0.7, 0.9, 0.8, 0.6, 0.95]}, {"seed": range(5)})
    )
    (claim,) = [c for c in finding.claims if c.text.startswith("The seed moves")]
    assert claim.verdict == "undecided" and "a 0.00 points, without an interval" in claim.evidence
    assert finding.tables[0].rows[0][2] == 0.0  # not a rounding error of 1e-16


def test_values_that_agree_when_rounded_are_not_said_to_move_less():
    """Seeds move b, too, but its means over the three sets hide that."""
    moved = {"a": ((0, 0, 0), (0, 1, 0), (1, 1, 0)), "b": ((0, 1, 0), (1, 0, 0), (0, 0, 1))}
    lines = [
        {"detector": d, "id": f"s{s}", "ood": "", "seed": str(seed),
         "value": round(0.7 + 0.1 * s + 0.001 * moved[d][s][seed], 3)}
        for d in "ab" for s in range(3) for seed in range(3)
    ]  # fmt: skip
    finding = instability_of(Results(pd.DataFrame(lines), (Factor("seed", "repeat"),)))
    (claim,) = (own for own in finding.claims if own.text.startswith("The seed moves"))
    assert claim.verdict == "undecided"


def test_one_training_per_level_cannot_tell_the_level_from_training_again():
    finding = instability_of(published(PAPER["table_2"]))
    (claim,) = finding.claims  # all that it leaves open, as one
    assert claim.verdict == "undecided"
    assert claim.text.startswith("3 levels do not settle whether the level changes the best")
    text = "Changing only the level changes the best detector on both outlier sets, taken one by "
    text += "one; without repeated runs this may be chance ("
    assert text in claim.evidence
    text = "The best detector changes with the level on both outlier sets, taken one by one, which "
    assert finding.answer.startswith(f"{text}may be chance: there are too few repeated runs. ")


def test_evaluations_are_not_counted_as_runs():
    lines = [
        {"detector": name, "id": "x", "ood": "far", "seed": seed, "epoch": epoch, "value": value}
        for name, value in (("a", 0.9), ("b", 0.8))
        for seed in range(4)
        for epoch in (10, 20, 30)
    ]
    finding = instability_of(Results(pd.DataFrame(lines), ("seed", "epoch")), ["epoch"])
    assert any("12 evaluations of 4 training runs" in text for _, text in claims(finding))


def test_epochs_of_one_training_are_no_repeats():
    rng = np.random.default_rng(9)
    never = apart = 0
    for _ in range(12):
        few = instability_of(grid(rng, optimizers=1, seeds=2, epochs=6), ["seed"])
        never += any(verdict == "holds" and "never" in text for verdict, text in claims(few))
        more = instability_of(grid(rng, optimizers=1, seeds=5, epochs=6), ["seed"])
        apart += any(verdict == "holds" and "moves" in text for verdict, text in claims(more))
    assert never == 0  # one change of the seed, seen six times
    assert apart <= 2


def test_percentages_numbers_as_names_and_levels_that_are_not_given():
    rng = np.random.default_rng(10)
    lines = [
        {"detector": name, "id": source, "ood": ood, "rate": rate, "seed": seed,
         "value": 100 * rng.uniform(0.8, 0.9)}
        for name in (1, 2) for source in (10, 100) for ood in (3, 4)
        for rate in (0.1, np.nan) for seed in range(3)
    ]  # fmt: skip
    finding = instability_of(Results(pd.DataFrame(lines), ("rate", "seed")))
    levels = next(table for table in finding.tables if table.name == "levels-rate-10 / 3")
    assert [row[0] for row in levels.rows] == ["0.1", "not given"]
    assert all(0.8 < value < 0.9 for row in levels.rows for value in row[1:])
    told = " ".join(claim.text + claim.evidence for claim in finding.claims)
    assert float(told.split("The seed moves")[1].split(" by ")[1].split(" points")[0]) <= 10.0
    frame = pd.DataFrame(lines).assign(value=1e200)
    with pytest.raises(UserError, match="1e\\+200"):
        instability_of(Results(frame, ("rate", "seed")))


def test_a_detector_with_hardly_any_values_does_not_cost_the_others_theirs():
    rng = np.random.default_rng(11)
    frame = made({name: rng.random(6) for name in "abc"}, {"seed": list(range(6))}).frame
    holed = frame[~((frame["detector"] == "c") & (frame["seed"] > 0))]
    finding = instability_of(Results(holed, ("seed",)))
    assert [row[0] for row in finding.tables[0].rows] == ["a", "b"]
    assert finding.missing == ("c: too many of its values are missing; left out",)
    lonely = frame[(frame["detector"] == "a") | (frame["seed"] == 0)]
    with pytest.raises(UserError, match="No two runs .5 of them lack a detector. differ"):
        instability_of(Results(lonely, ("seed",)))
    with pytest.raises(UserError, match="No two runs differ in only one factor.*none"):
        instability_of(Results(frame[frame["seed"] == 0].drop(columns="seed")))


def test_what_another_factor_does_is_not_shown_as_the_seeds():
    # The optimizer reverses the order of b and c; the seed moves nobody by more than 0.002.
    values = {"a": [0.9, 0.902, 0.8, 0.802], "b": [0.7, 0.701, 0.6, 0.6], "c": [0.65] * 4}
    factors = {"optimizer": ["sgd", "sgd", "adam", "adam"], "seed": [0, 1, 0, 1]}
    finding = instability_of(made(values, factors))
    named = {table.name: table for table in finding.tables}
    shown = {
        factor: [
            dict(zip(named[f"spread-{factor}-far"].columns, row, strict=True))
            for row in named[f"spread-{factor}-far"].rows
        ]
        for factor in factors
    }
    assert [row["ranks"] for row in shown["seed"]] == ["1–1", "2–2 or 3–3", "2–2 or 3–3"]
    assert [row["rank s.d."] for row in shown["seed"]] == [0, 0, 0]
    assert [row["ranks"] for row in shown["optimizer"]] == ["1–1", "2–3", "2–3"]
    pictures = {series.name: series.points[0] for series in finding.series}
    assert pictures["moves-seed"]["high"] - pictures["moves-seed"]["low"] == pytest.approx(0.002)
    wide = pictures["moves-optimizer"]
    assert (wide["low"], wide["high"]) == pytest.approx((0.801, 0.901))


def test_on_several_data_sets_a_factor_is_judged_by_the_mean_over_them():
    """The winner changes with the seed on every set, but not on the mean over sets."""
    rng = np.random.default_rng(2)
    lines = [
        {"detector": d, "id": f"set{s}", "ood": "", "seed": 10 * s + seed,
         "value": 0.6 + 0.01 * (d == "a") + 0.01 * s + rng.normal(0, 0.02)}
        for d in "ab" for s in range(20) for seed in range(6)
    ]  # fmt: skip
    finding = instability_of(Results(pd.DataFrame(lines), ("seed",)))
    said = [claim.text for claim in finding.claims]
    assert said[0] == "Changing only the seed never changes the best detector on the mean of 20 " \
        "data sets."  # fmt: skip
    assert any(text.startswith("Changing only the seed changes the best detector on 1") and
               text.endswith("of 20 data sets, taken one by one.") for text in said)  # fmt: skip
    (spread,) = [table for table in finding.tables if table.name.startswith("spread-")]
    frame = pd.DataFrame(lines).assign(number=lambda own: own["seed"] % 10)
    means = frame.pivot_table(index="detector", columns="number", values="value")
    assert [row[:3] for row in spread.rows] == [
        (name, pytest.approx(row.mean()), pytest.approx(row.std()))
        for name, row in means.iterrows()
    ]


def test_conditions_that_are_nested_in_data_sets_are_averaged_within_them():
    lines = [
        {"detector": d, "id": f"set{s}", "ood": "", "noise": noise, "level": level,
         "value": 0.9 - 0.1 * s - (noise == "N") * (0.1 if d == "a" else 0.02)}
        for d in "ab" for s in range(3) for noise in ("clean", "N")
        for level in (["none"] if noise == "clean" else [f"{s}-{n}" for n in range(1 + 2 * s)])
    ]  # fmt: skip
    finding = instability_of(Results(pd.DataFrame(lines), ("noise", "level")))
    tables = {table.name: table for table in finding.tables}
    rows = tables["levels-noise-the mean of 3 data sets"].rows
    assert rows == (("clean", pytest.approx(0.8), pytest.approx(0.8)),
                    ("N", pytest.approx(0.7), pytest.approx(0.78)))  # fmt: skip


def test_epochs_add_no_evidence_that_a_condition_changes_the_winner():
    """Three training runs under each optimizer, evaluated at ten epochs: still three."""
    flipped = 0
    for world in range(60):
        rng = np.random.default_rng(world)
        lines = []
        for optimizer in ("adam", "sgd"):
            for seed in range(3):
                own = rng.normal(0, 0.02, 2)  # of the training run: shared by its epochs
                lines += [
                    {"detector": d, "ood": "far", "optimizer": optimizer, "seed": seed,
                     "epoch": epoch, "value": 0.7 + own["ab".index(d)] + rng.normal(0, 0.001)}
                    for d in "ab" for epoch in range(10)
                ]  # fmt: skip
        finding = instability_of(
            Results(pd.DataFrame(lines), ("optimizer", "seed", "epoch")), ["optimizer"]
        )
        flipped += any(verdict == "flips" for verdict, _ in claims(finding))
    assert flipped <= 60 * 0.05 + 2 * np.sqrt(60 * 0.05 * 0.95)


def test_what_is_no_share_is_told_in_its_own_unit():
    values = {"a": [5.0, 5.5, 6.0], "b": [7.0, 7.1, 7.2]}
    lines = [{"detector": name, "ood": "", "seed": seed, "value": value}
             for name, own in values.items() for seed, value in enumerate(own)]  # fmt: skip
    table = Results(pd.DataFrame(lines), ("seed",), "RMSE", higher_is_better=False, is_share=False)
    finding = instability_of(table)
    assert any(text.startswith("The seed moves a by 1 in RMSE") for _, text in claims(finding))
    (spread,) = [table for table in finding.tables if table.name.startswith("spread-")]
    assert spread.rows[0][1:4] == (5.5, pytest.approx(0.5), 1.0)


def test_conditions_without_repeats_are_not_called_runs():
    rng = np.random.default_rng(0)
    lines = [
        {"detector": d, "ood": "o", "corruption": f"c{level}", "value": 0.8 + rng.normal(0, 0.02)}
        for d in "ab" for level in range(15)
    ]  # fmt: skip
    finding = instability_of(Results(pd.DataFrame(lines), ("corruption",), "auroc", True))
    assert any("15 corruptions do not settle" in claim.text for claim in finding.claims)
    assert finding.tables[0].title == "AUROC on o over 15 corruptions"
    pages = [claim.text + claim.evidence for claim in finding.claims]
    assert not any("15 runs" in text or "some run" in text for text in (*pages, finding.answer))


def test_an_interval_wider_than_any_is_no_overflow():
    """Two runs at a strict level, one near 1: the deviation of shares is at most one half."""
    values = np.array([0.55, 0.9995])
    found = deviation_interval(values, np.zeros(2, dtype=np.int64), 1.0 - 1e-5)
    assert found is not None and found.high == 0.5


def test_what_stays_open_about_the_best_is_not_said_of_all_pairs():
    """a is always first, b and c change places: the order changes, and the best does not."""
    rng = np.random.default_rng(0)
    values = {"a": 0.9 + rng.normal(0, 0.001, 3), "b": [0.8, 0.7, 0.81], "c": [0.75, 0.76, 0.74]}
    finding = instability_of(made(values, {"seed": [0, 1, 2]}))
    told = " ".join(claim.text for claim in finding.claims)
    assert "reverses the order of up to 1 of 3 pairs" in told
    opened = [claim.leaves_open for claim in finding.claims]
    assert "whether the seed changes the best detector (here it does not)" in opened
    assert not any("changes the order" in text for text in opened)
    two = instability_of(made({"a": [0.9, 0.7, 0.9], "b": [0.8] * 3}, {"seed": [0, 1, 2]}))
    turned = "Changing only the seed reverses the order of the two detectors."
    assert ("flips", turned) in claims(two)
