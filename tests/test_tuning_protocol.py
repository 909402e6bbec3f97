"""What tuning gains and what it only promises: worlds with a known answer."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from oodometer.calls import parse_call
from oodometer.errors import UserError
from oodometer.finding import from_json, to_json
from oodometer.metrics import auroc
from oodometer.protocols import PROTOCOLS
from oodometer.protocols.tuning.cases import (
    TunedDetector,
    TuningCases,
    tuning_cases,
)
from oodometer.protocols.tuning.protocol import _claim_sensitivity, tuning
from oodometer.scores import ScoreRow, ScoreTable, validation_half
from oodometer.stats.averaging import average_over_detectors

SIZE = 60


def world(settings, *, runs=4, sets=("a", "b", "c"), default=0, seed=0, extra=()):
    """Settings with a true shift of outliers, by setting and outlier set."""
    rng = np.random.default_rng(seed)
    rows = []
    for run in range(runs):
        for detector, grid in settings.items():
            for place, (setting, shift) in enumerate(grid.items()):
                _, values = parse_call("detector", f"{detector}({setting})")
                rows.append(
                    ScoreRow(f"{run}", detector, setting, "id", rng.normal(size=SIZE),
                             place == default, settings=values)
                )  # fmt: skip
                for ood in sets:
                    moved = shift[ood] if isinstance(shift, dict) else shift
                    scores = rng.normal(moved, size=SIZE)
                    rows.append(
                        ScoreRow(f"{run}", detector, setting, ood, scores, place == default,
                                 settings=values)
                    )  # fmt: skip
    return ScoreTable("id", (*rows, *extra), {f"{run}": {"seed": run} for run in range(runs)})


def judged(table):
    return tuning(table, np.random.default_rng(0))


def test_a_better_setting_is_found_on_other_outliers():
    finding = judged(world({"knn": {"k=1": 0.0, "k=5": 2.0, "k=50": 0.2}}, runs=5))
    claim = finding.claims[0]
    assert claim.verdict == "holds" and "improves 1 of 1 detector" in claim.text
    (row,) = finding.tables[0].rows
    # A shift of 2 is an AUROC of Phi(2 / sqrt 2) = 0.921; the default has 0.5.
    assert row[2] == pytest.approx(0.5, abs=0.05) and row[3] == pytest.approx(0.921, abs=0.02)
    assert row[5].low > 0.3
    (choices,) = finding.tables[1].rows
    assert choices[:3] == ("knn", "k=1", "k=5")


def test_equal_settings_gain_nothing_and_the_test_still_promises():
    grid = {f"k={k}": 0.5 for k in range(8)}
    finding = judged(world({"knn": grid, "vim": grid}, runs=6))
    assert finding.claims[0].verdict == "undecided" and "improves neither" in finding.claims[0].text
    assert finding.claims[1].verdict == "holds"  # the best of eight equal settings looks better
    assert "promises" in finding.claims[1].text
    for row in finding.tables[0].rows:
        assert row[5].low < 0 < row[5].high
        assert row[7].low > 0


def test_no_gain_is_found_more_often_than_the_level():
    found = 0
    for seed in range(40):
        table = world({"knn": {"k=1": 0.5, "k=2": 0.5}}, runs=4, sets=("a", "b"), seed=seed)
        found += judged(table).claims[0].verdict != "undecided"
    assert found <= 40 * 0.05 + 2.6 * np.sqrt(40 * 0.05 * 0.95)


def test_a_setting_that_suits_one_set_only_harms_on_the_others():
    odd = {"a": 3.0, "b": 3.0, "c": -2.0}
    finding = judged(world({"odin": {"t=1": 1.0, "t=2": odd}}, runs=6))
    gains = finding.tables[0].rows[0]
    assert gains[7].value > 0.05  # the oracle takes t=2 on a and b, and t=1 on c


def test_curves_follow_the_number_that_the_grid_varies():
    finding = judged(world({"knn": {"k=50, norm=l2": 1.0, "k=5, norm=l2": 1.5, "k=1, norm=l2": 2}}))
    (lines,) = [series for series in finding.series if series.kind == "lines"]
    assert [point["x"] for point in lines.points] == [1.0, 5.0, 50.0]
    assert lines.points[0]["panel"] == "knn: k"
    assert from_json(to_json(finding)) == finding


def test_detectors_without_a_grid_and_learned_ones_take_no_part():
    table = world({"knn": {"k=1": 0.5, "k=5": 1.0}, "msp": {"": 3.0}})
    learned = [
        ScoreRow("0", "svm", f"outliers={ood}", name, np.arange(SIZE) * 1.0, ood == "a", ood)
        for ood in ("a", "b")
        for name in ("id", "a", "b", "c")
    ]
    finding = judged(ScoreTable("id", (*table.rows, *learned), table.runs))
    assert "Without a grid: msp." in finding.caveats
    assert "Learned from outliers, and not tuned here: svm." in finding.caveats
    assert any("msp has the highest mean AUROC however" in claim.text for claim in finding.claims)
    assert [row[0] for row in finding.tables[0].rows] == ["knn"]


def test_one_run_is_judged_by_its_outlier_sets():
    finding = judged(world({"knn": {"k=1": 0.0, "k=5": 2.0}}, runs=1))
    assert any("a single training run" in caveat for caveat in finding.caveats)


def test_what_cannot_be_tuned_is_refused():
    with pytest.raises(UserError, match="two outlier sets"):
        judged(world({"knn": {"k=1": 0.0, "k=5": 2.0}}, sets=("a",)))
    with pytest.raises(UserError, match="two settings"):
        judged(world({"msp": {"": 1.0}}))


def test_studies_can_name_it():
    assert PROTOCOLS["tuning"].of_scores is tuning and "standing" not in PROTOCOLS


def test_curves_have_a_line_per_other_setting_and_a_logarithmic_axis_if_wide():
    grid = {f"k={k}, tail=2, norm={norm}": 1.0 for k in (1, 10, 1000) for norm in ("l1", "l2")}
    (lines,) = [s for s in judged(world({"knn": grid})).series if s.kind == "lines"]
    assert {point["label"] for point in lines.points} == {"norm=l1", "norm=l2"}
    assert lines.points[0]["panel"] == "knn: logarithm (base 10) of k"
    assert sorted({point["x"] for point in lines.points}) == [0.0, 1.0, 3.0]


def test_settings_are_data_and_never_read_from_their_text():
    table = world({"knn": {"k=1": 1.0, "k=5": 1.0, "k=9": 1.0}})
    named = {"k=1": {"by": "a, k=2"}, "k=5": {"by": "x=y"}, "k=9": {"by": "5"}}
    rows = tuple(replace(row, settings=named[row.setting]) for row in table.rows)
    series = judged(replace(table, rows=rows)).series
    assert not [s for s in series if s.kind == "lines"], "texts are no numbers"
    (each,) = [s for s in series if s.name == "settings-knn"]
    assert [point["label"] for point in each.points] == ["by=a, k=2", "by=x=y", "by=5"]
    # Tables that others made may say a setting in words alone.
    rows = tuple(replace(row, settings={}) for row in table.rows)
    (each,) = [s for s in judged(replace(table, rows=rows)).series if s.name == "settings-knn"]
    assert [point["label"] for point in each.points] == ["k=1", "k=5", "k=9"]


def test_checkpoints_of_one_training_are_one_case():
    table = world({"knn": {"k=1": 0.5, "k=5": 0.7}}, runs=4)
    copied = {f"{run} {epoch}": {"seed": int(run), "epoch": epoch}
              for run in table.runs for epoch in ("best", "last")}  # fmt: skip
    rows = tuple(
        ScoreRow(f"{row.run} {epoch}", row.detector, row.setting, row.dataset, row.scores,
                 row.default)
        for row in table.rows for epoch in ("best", "last")
    )  # fmt: skip
    one, two = judged(table), judged(ScoreTable("id", rows, copied))
    assert one.tables[0].rows == two.tables[0].rows
    assert [c.evidence for c in one.claims] == [c.evidence for c in two.claims]
    assert any("8 runs are re-evaluations of 4 training runs" in caveat for caveat in two.caveats)


def test_the_best_detector_is_told_only_beyond_chance():
    equal = {"k=1": 1.0, "k=5": 1.0}
    verdicts = [
        judged(world({"a": equal, "b": equal}, runs=5, seed=seed)).claims[2].verdict
        for seed in range(30)
    ]
    assert sum(verdict != "undecided" for verdict in verdicts) <= 4
    strong = judged(world({"a": equal, "b": {"k=1": 3.0, "k=5": 3.0}}, runs=6))
    assert strong.claims[2].verdict == "holds" and strong.claims[2].text.startswith("b has")


def test_one_training_is_judged_by_its_samples():
    """Its outlier sets, taken as cases, told equal settings apart on 45 of 100 pages."""
    grid = {f"k={k}": 1.0 for k in range(5)}
    sets = ("a", "b", "c", "d")
    found = [
        judged(world({"knn": grid, "vim": grid}, runs=1, sets=sets, seed=s)) for s in range(50)
    ]
    assert sum(f.claims[0].verdict != "undecided" for f in found) <= 7  # beyond 99 % of 5 %
    assert all("In this training run" in f.claims[0].text for f in found)
    better = judged(world({"knn": grid | {"k=4": 3.0}}, runs=1, sets=sets))
    assert better.claims[0].verdict == "holds"
    gain = better.tables[0].rows[0][5]
    truth = ndtr(3 / 2**0.5) - ndtr(1 / 2**0.5)  # AUROC of two normals a shift apart
    assert gain.low < truth < gain.high
    fixed = [
        ScoreRow("0", "msp", "", data, np.random.default_rng(1).normal(3 * (data != "id"), 1, SIZE))
        for data in ("id", *sets)
    ]
    told = judged(world({"knn": grid}, runs=1, sets=sets, extra=fixed)).claims[2]
    assert (
        told.verdict == "holds"
        and told.text.startswith("msp")
        and "in this training run" in told.text
    )


def test_equal_settings_that_differ_by_chance_are_no_dependence():
    """Best and worst of twelve equal settings, judged where they were chosen, held in a third."""

    def wavering(seed, slope=0.0):
        rng = np.random.default_rng(seed)
        rows = []
        for run in range(8):
            for detector, own in (("loose", 0.9), ("tight", 0.01)):  # what each setting adds
                for data in ("id", "a", "b"):
                    base = rng.normal(size=SIZE) + (data != "id")
                    for k in range(12):
                        moved = slope * k * (data != "id") * (detector == "loose")
                        scores = base + moved + own * rng.normal(size=SIZE)
                        rows.append(ScoreRow(f"{run}", detector, f"k={k}", data, scores, k == 0))
        return judged(ScoreTable("id", tuple(rows), {f"{run}": {"seed": run} for run in range(8)}))

    def claimed(finding):
        return any(claim.text.startswith("loose depends most") and claim.verdict == "holds"
                   for claim in finding.claims)  # fmt: skip

    found = [wavering(seed) for seed in range(20)]
    assert sum(map(claimed, found)) <= 3
    (open_,) = [c for c in found[0].claims if "not settle" in c.text]
    assert "whether loose depends most on its setting" in open_.text
    assert claimed(wavering(0, slope=0.1))


def test_cases_of_one_training_are_its_outlier_sets_judged_on_the_other_half():
    made = world({"knn": {"k=1": 0.5, "k=5": 1.5}, "vim": {"d=1": 2.0, "d=2": 0.1}}, runs=1)
    field = tuning_cases(made)
    unseen = ~validation_half(SIZE)
    for detector, setting in zip(field.detectors, ("k=1", "d=1"), strict=True):
        rows = {r.dataset: r.scores for r in made.rows
                if (r.detector, r.setting) == (detector.name, setting)}  # fmt: skip
        expected = [auroc(rows["id"][unseen], rows[ood]) for ood in ("a", "b", "c")]
        assert detector.default == pytest.approx(expected)
        assert detector.samples["default"].values == pytest.approx([np.mean(expected)])
        assert detector.samples["tuned"].values == pytest.approx([detector.tuned.mean()])
    both = average_over_detectors([d.samples["tuned"] for d in field.detectors])
    # Placements of ID and of OOD samples have the same mean, AUROC.
    assert both.values == pytest.approx([np.mean([d.tuned.mean() for d in field.detectors])])
    assert both.id.mean() == pytest.approx(both.ood.mean())


def test_what_the_test_promises_is_told_against_the_default_and_against_tuning():
    (row,) = (found := judged(world({"knn": {"k=1": 0.0, "k=5": 2.0}}, runs=5))).tables[0].rows
    default, tuned, oracle = row[2:5]
    assert f"the mean gain is {100 * (tuned - default):.1f} points" in found.claims[0].text
    assert f"would promise {100 * (oracle - default):.1f} points" in found.claims[0].text
    assert f"promises {100 * (oracle - tuned):.1f} points more" in found.claims[1].text
    few = judged(world({"knn": {f"k={k}": 0.5 for k in range(4)}}, runs=2)).claims[1]
    assert few.verdict == "undecided" and "[−" in few.evidence  # two trainings show no more


def test_a_dependence_is_the_largest_only_if_intervals_part():
    """Spans of 0.30, 0.31, 0.32 have a 95 % interval down to 0.285; 0.20, 0.29, 0.23 up to 0.35."""

    def detector(name, spans):
        curve = {"low": np.zeros(3), "high": np.array(spans)}
        return TunedDetector(name, *[np.zeros(3)] * 3, (), curve, {}, 0, {})

    def claim(*others):
        first = detector("first", [0.30, 0.31, 0.32])
        made = (first, *(detector(f"other{n}", spans) for n, spans in enumerate(others)))
        return _claim_sensitivity(TuningCases(made, {}, {}, (), (), 3, True, 3, 2))

    assert claim([0.20, 0.29, 0.23]).verdict == "undecided"
    told = claim([0.20, 0.21, 0.22])
    assert told.verdict == "holds" and "first 31.0 points [28.5, 33.5]" in told.evidence


def test_means_weigh_conditions_the_same_as_those_of_the_ranking():
    table = world({"knn": {"k=1": 0.0, "k=5": 1.0}}, runs=7)
    runs = {run: {"seed": n % 5, "network": "large" if n < 5 else "small"}
            for n, run in enumerate(table.runs)}  # fmt: skip
    cases = tuning_cases(replace(table, runs=runs, factors=()))
    (found,) = cases.detectors
    (row,) = judged(replace(table, runs=runs, factors=())).tables[0].rows
    for place, values in ((2, found.default), (3, found.tuned)):
        assert row[place] == pytest.approx(0.5 * (values[:5].mean() + values[5:].mean()))
    assert row[5].value == pytest.approx(row[3] - row[2])
