"""Cases and their scopes: what varies from case to case, and what is averaged within it."""
# ruff: noqa: PD010, PD011 (the values of cases, not of a data frame)

import itertools

import numpy as np
import pandas as pd
import pytest

from oodometer.analysis import analyze
from oodometer.factors import Factor, by_title
from oodometer.protocols.common.cases import cases_of, scopes_of
from oodometer.protocols.ranking.protocol import ranking_of
from oodometer.results import Results

# Median AUROC in percent of two detectors under label noise (Humblot-Renaux et al. 2024,
# supplementary Table 2): data set -> labels -> MDS, VIM.
PUBLISHED = {
    "cifar10": {
        "clean": (94.08, 93.96), "N agg": (88.70, 87.61), "N rand1": (88.13, 88.05),
    },
    "cifar100c": {"clean": (81.0, 80.1), "N coarse": (75.4, 75.9)},
    "clothing1m": {"clean": (80.3, 77.9), "N clo": (79.5, 78.1), "SU clo": (77.7, 76.0)},
}  # fmt: skip


def of_lines(lines, factors=(), **about):
    return Results(pd.DataFrame(lines), factors, **about)


def nested(
    rng, *, sets=6, detectors=3, repeats=(4,), parts=(1,), effect=0.05, noise=0.02, gain=0.0
):
    """Data sets with effects of their own on each detector; repeats and parts within them."""
    lines = []
    for number in range(sets):
        shift = rng.normal(0, effect, detectors)
        for repeat, part in itertools.product(
            range(repeats[number % len(repeats)]), range(parts[number % len(parts)])
        ):
            for row in range(detectors):
                value = 0.6 + gain * (row == 0) + shift[row] + rng.normal(0, noise)
                lines.append(
                    {"detector": f"d{row}", "id": f"set{number}", "ood": "", "seed": repeat,
                     "series": f"{number}-{part}", "value": value}
                )  # fmt: skip
    return of_lines(lines, ("seed", Factor("series", "part")))


def test_data_sets_are_the_cases_and_repeats_a_second_scope():
    table = nested(np.random.default_rng(0))
    main, second = scopes_of(table)
    assert main.unit == main.case == "data set" and main.scope == "on other data sets like these"
    assert main.names == tuple(f"set{number}" for number in range(6))
    assert second.unit == "run" and second.scope == "after retraining on these data sets"
    assert len(second.names) == 4
    frame = table.frame
    for field, unit in ((main, "id"), (second, "seed")):
        wanted = frame.pivot_table(index="detector", columns=unit, values="value")
        found = pd.DataFrame(field.values, field.detectors).loc[wanted.index]
        assert found.to_numpy() == pytest.approx(wanted.to_numpy())
    assert (
        list(main.detectors)
        == frame.groupby("detector")["value"].mean().sort_values(ascending=False).index.tolist()
    )


def test_sets_weigh_the_same_however_many_parts_and_repeats_they_have():
    """Level by level: parts within a repeat, repeats within a set, sets."""
    table = nested(np.random.default_rng(1), repeats=(2, 5, 3), parts=(1, 40, 7))
    field = cases_of(table)
    by_repeat = table.frame.groupby(["detector", "id", "seed"])["value"].mean()
    by_set = by_repeat.groupby(["detector", "id"]).mean().unstack()
    assert field.values == pytest.approx(by_set.loc[list(field.detectors)].to_numpy())
    plain = table.frame.groupby("detector")["value"].mean()
    assert abs(field.values.mean(axis=1) - plain.loc[list(field.detectors)]).max() > 0.001


def test_parts_that_a_detector_lacks_count_for_nobody():
    table = nested(np.random.default_rng(2), repeats=(1,), parts=(3,))
    lacking = (table.frame["detector"] == "d1") & (table.frame["series"] == "2-0")
    lines = table.frame[~lacking]
    field = cases_of(Results(lines, table.factors))
    assert field.incomplete == 1 and len(field.names) == 6
    kept = lines[lines["series"] != "2-0"]
    wanted = kept.groupby(["detector", "id"])["value"].mean().unstack()
    assert field.values == pytest.approx(wanted.loc[list(field.detectors)].to_numpy())


def test_the_long_and_the_wide_layout_of_nested_conditions_give_the_same_cases():
    lines = [
        {"detector": name, "id": data, "ood": "", "noise": labels, "value": value / 100}
        for data, own in PUBLISHED.items()
        for labels, values in own.items()
        for name, value in zip(("MDS", "VIM"), values, strict=True)
    ]
    long = of_lines(lines, ("noise",))
    wide = of_lines([{**line, "ood": line["noise"], "noise": ""} for line in lines])
    (one,), (other,) = scopes_of(long), scopes_of(wide)
    assert one.unit == other.unit == "data set" and one.values.shape == (2, 3)
    assert one.values == pytest.approx(other.values)
    means = [np.mean([a - b for a, b in own.values()]) / 100 for own in PUBLISHED.values()]
    assert one.values[0] - one.values[1] == pytest.approx(means)
    told = [ranking_of(table, np.random.default_rng(0)).claims for table in (long, wide)]
    assert [(c.verdict, c.evidence) for c in told[0][:3]] == [
        (c.verdict, c.evidence) for c in told[1][:3]
    ]


def test_runs_are_compared_on_the_same_sets_only():
    """A run that lacks the hard set looks better, and not by what its detectors do."""
    hard = {"a": -0.3, "b": -0.1}
    lines = [
        {"detector": name, "ood": ood, "seed": seed, "value": 0.9 + (ood == "hard") * hard[name]}
        for name in hard
        for seed in range(5)
        for ood in ("easy", "hard")
        if seed < 4 or ood == "easy"
    ]
    field = cases_of(of_lines(lines, ("seed",)))
    assert field.unit == "run" and field.names == tuple(f"seed={s}" for s in range(4))
    assert field.unbalanced == 1
    assert field.values == pytest.approx(np.array([[0.85] * 4, [0.75] * 4]))
    caveats = " ".join(ranking_of(of_lines(lines, ("seed",)), np.random.default_rng(0)).caveats)
    assert "1 cell (run and outlier set) were left out" in caveats
    assert "not affected" not in caveats


def test_seeds_of_each_data_set_are_numbered_within_it():
    """Seeds 10 to 12 of one data set and 20 to 23 of another are three runs on both."""
    rng = np.random.default_rng(3)
    lines = [
        {"detector": name, "id": data, "ood": "far", "seed": seed, "value": rng.uniform()}
        for data, seeds in {"one": range(10, 13), "two": range(20, 24)}.items()
        for seed in seeds
        for name in "ab"
    ]
    field = cases_of(of_lines(lines, ("seed",)))
    assert field.unit == "run" and len(field.names) == 3
    values = pd.DataFrame(lines).groupby(["detector", "id"])["value"].apply(list)
    name = field.detectors[0]
    wanted = [
        (a + b) / 2 for a, b in zip(values[name, "one"], values[name, "two"][:3], strict=True)
    ]
    assert field.values[0] == pytest.approx(wanted)


def test_without_runs_to_compare_sets_or_their_parts_are_the_cases():
    sets = [{"detector": d, "ood": o, "value": 0.5} for d in "ab" for o in "xyz"]
    assert cases_of(of_lines(sets)).unit == "outlier set"
    two = [{"detector": d, "id": o, "ood": "", "value": 0.5} for d in "ab" for o in "xy"]
    assert cases_of(of_lines(two)).case == "data set"
    series = [
        {"detector": d, "ood": "", "series": s, "value": s / 10} for d in "ab" for s in (1, 2)
    ]
    field = cases_of(of_lines(series, (Factor("series", "part"),)))
    assert field.unit == "part" and field.case == "series" and field.names == ("1", "2")
    assert field.values[0].tolist() == [0.1, 0.2]


@pytest.mark.parametrize(
    ("title", "levels", "kind"),
    [
        ("iteration", range(5), "repeat"),
        ("iteration", [0.0, 1.0], "repeat"),
        ("iter", [1000, 5000, 10000], "re_evaluation"),
        ("replication", (), "repeat"),
        ("split", [1, 2, 3], "repeat"),
        ("split", ["train", "test"], "re_evaluation"),
        ("weights", ["a.pt", "b.pt"], "repeat"),
        ("weights", ["ImageNet1K_V1", "ImageNet1K_V2"], "condition"),
        ("Weights", ["supervised", "contrastive"], "condition"),
        ("Time series", (), "part"),
        ("filename", (), "part"),
        ("patient_id", (), "part"),
        ("optimizer", ["sgd"], "condition"),
    ],
)
def test_kinds_by_title_and_levels(title, levels, kind):
    assert by_title(title, levels).kind == kind
    lines = [{"detector": "a", "ood": "x", title: level, "value": 0.5} for level in levels]
    if lines:
        assert of_lines(lines, (title,)).kind(title) == kind


ELSEWHERE = "on other data sets like these it is significantly ahead"


def false_claims(make, tables):
    """Share of tables without a best detector in which one is called the best on other sets."""
    found = 0
    for seed in range(tables):
        finding = ranking_of(make(np.random.default_rng(seed)), np.random.default_rng(seed))
        found += any(ELSEWHERE in c.text and c.verdict == "holds" for c in finding.claims)
    return found / tables


def test_iterations_within_data_sets_are_no_cases():
    """Detectors differ by data set, with no best one: ten iterations of each add no evidence."""

    def make(rng):
        return nested(rng, sets=5, detectors=2, repeats=(10,), effect=0.05, noise=0.01)

    assert false_claims(make, 100) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 100)
    ahead = nested(np.random.default_rng(0), sets=12, gain=0.2)
    claims = ranking_of(ahead, np.random.default_rng(0)).claims
    assert ELSEWHERE in claims[0].text and claims[0].verdict == "holds"


def test_parts_alone_are_nothing_that_was_varied():
    """Series within sets are averaged: no page about their robustness or instability."""
    table = nested(np.random.default_rng(4), repeats=(1,), parts=(3, 5)).frame.drop(columns="seed")
    findings = analyze(table.drop(columns="ood"), columns="id=id, part=series, auroc=value")
    assert [finding.protocol for finding in findings] == ["ranking"]


def test_runs_without_repeats_say_nothing_about_retraining():
    lines = [
        {"detector": d, "ood": "far", "optimizer": o, "value": 0.5} for d in "ab" for o in "xyz"
    ]
    field = cases_of(of_lines(lines, ("optimizer",)))
    assert field.unit == "run" and field.scope == "under another optimizer like these"


def test_data_sets_weigh_the_same_in_every_scope():
    """One data set with one outlier set and two with five: the means of both scopes agree."""
    rng = np.random.default_rng(6)
    lines = [
        {"detector": d, "id": f"set{s}", "ood": f"far{o}", "seed": seed,
         "value": 0.9 - 0.2 * (s == 0) * (d == "a") - 0.1 * (d == "b") + rng.normal(0, 0.01)}
        for d in "ab" for s in range(3) for o in range(5 if s else 1) for seed in range(4)
    ]  # fmt: skip
    main, second = scopes_of(of_lines(lines, ("seed",)))
    assert (main.unit, second.unit) == ("data set", "run")
    assert main.detectors == second.detectors
    assert main.values.mean(axis=1) == pytest.approx(second.values.mean(axis=1))
    assert second.run_values == pytest.approx(second.values)


def test_seeds_within_folds_of_each_data_set_still_share_their_fold():
    """Each of two sets has folds, and seeds, with names of their own; the last lacks a fold."""
    lines = [
        {"detector": d, "id": own, "ood": "o", "fold": f"{own}{fold}",
         "seed": 100 * n + 10 * fold + seed, "value": 0.1 * fold + 0.01 * seed + 0.5 * (d == "b")}
        for d in "ab" for n, own in enumerate("xy") for fold in range(5 - n) for seed in range(3)
    ]  # fmt: skip
    factors = (Factor("seed", "repeat"), Factor("fold", "repeat"))
    for frame in (pd.DataFrame(lines), pd.DataFrame(lines[::-1])):
        field = cases_of(Results(frame, factors, "auroc", True))
        assert field.are_runs and field.unbalanced == 3
        assert field.units.folds == 4 and field.units.shared["fold"].max() == 3
        assert len(field.units.shared["fold"]) == 12
        expected = sorted(0.1 * fold + 0.01 * seed for fold in range(4) for seed in range(3))
        row = field.detectors.index("a")
        assert sorted(field.values[row].tolist()) == pytest.approx(expected)
