"""OD-test: against brute force, PyTorch, closed forms, and worlds whose answer is known."""

from __future__ import annotations

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from scipy.stats import ttest_1samp
from sklearn.metrics import accuracy_score, roc_auc_score

from oodometer.errors import UserError
from oodometer.finding import Finding, from_json, to_json
from oodometer.lab.data.compatibility import outliers_for, triplets
from oodometer.metrics import Estimate
from oodometer.protocols.od_test.claims import claims
from oodometer.protocols.od_test.effects import Accuracies, mean_effect
from oodometer.protocols.od_test.experiments import Method, Outcome, Source, experiment
from oodometer.protocols.od_test.protocol import od_test, od_test_over_sources
from oodometer.protocols.od_test.threshold import (
    accepting_threshold,
    exact_threshold,
    hinge_threshold,
)
from oodometer.scores import Missing, ScoreRow, ScoreTable, validation_half

RNG = np.random.default_rng


# Thresholds


def brute_force(id_scores, ood_scores):
    """The lowest of the best thresholds, by trying all."""
    distinct = sorted({*id_scores, *ood_scores})
    middles = [(a + b) / 2 for a, b in pairwise(distinct)]
    candidates = [-math.inf, *middles, math.inf]
    accuracies = [
        (np.mean(id_scores <= t) + np.mean(np.asarray(ood_scores) > t)) / 2 for t in candidates
    ]
    best = max(accuracies)
    return next(t for t, a in zip(candidates, accuracies, strict=True) if a >= best - 1e-12)


@pytest.mark.parametrize("seed", range(30))
def test_exact_threshold_is_that_of_brute_force(seed):
    rng = RNG(seed)
    size = int(rng.integers(1, 12))
    # Few distinct values, so that ties within and between the groups are common.
    id_scores, ood_scores = (rng.integers(0, 6, size).astype(float) for _ in range(2))
    assert exact_threshold(id_scores, ood_scores) == brute_force(id_scores, ood_scores)


def test_exact_threshold_at_the_edges():
    assert exact_threshold([1.0, 1.0], [1.0, 1.0]) == -math.inf  # constant scores: reject all
    assert exact_threshold([2.0], [1.0]) == -math.inf  # wrong way round
    assert exact_threshold([0.0], [1.0]) == 0.5
    tiny = np.nextafter(1.0, 2.0)
    assert exact_threshold([1.0], [tiny]) == 1.0  # no number lies between
    assert exact_threshold([-1.7e308], [1.7e308]) == 0.0  # the sum would overflow
    with pytest.raises(UserError, match="ood_scores must be finite"):
        exact_threshold([1.0], [math.nan])


def test_accepting_threshold():
    assert accepting_threshold(np.arange(100.0)) == 94.0
    assert accepting_threshold([3.0]) == 3.0
    assert np.mean(np.arange(7.0) <= accepting_threshold(np.arange(7.0))) >= 0.95


def torch_hinge(id_scores, ood_scores, rng):
    """The published fit with PyTorch's own Adagrad and schedule, on the same draws."""
    scores = np.concatenate([id_scores, ood_scores])
    targets = np.repeat([-1.0, 1.0], [len(id_scores), len(ood_scores)])
    fitted = rng.random(scores.size) < 0.8
    fit, fit_targets = torch.tensor(scores[fitted]), torch.tensor(targets[fitted])
    held, held_targets = scores[~fitted], targets[~fitted]
    start = (fit[fit_targets < 0].mean() + fit[fit_targets > 0].mean()) / 2
    threshold = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.Adagrad([threshold], lr=0.1)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, patience=10, threshold=0.1, min_lr=1e-8, factor=0.1
    )
    best, kept = -1.0, None
    for _ in range(100):
        order, losses = rng.permutation(len(fit)), []
        for first in range(0, len(fit), 2048):
            batch = order[first : first + 2048]
            optimizer.zero_grad()
            loss = torch.relu(-fit_targets[batch] * (fit[batch] - threshold)).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        schedule.step(np.mean(losses))
        accuracy = np.mean((held > threshold.item()) == (held_targets > 0))
        if accuracy > best:
            best, kept = accuracy, threshold.item()
    return kept


@pytest.mark.parametrize(
    ("shift", "size", "scale"), [(2.0, 300, 1.0), (0.5, 1500, 1.0), (8.0, 50, 1.0), (3.0, 200, 5.0)]
)
def test_the_published_fit_is_that_of_pytorch(shift, size, scale):
    rng = RNG(size)
    id_scores, ood_scores = scale * rng.normal(size=size), scale * rng.normal(shift, 2.0, size)
    ours = hinge_threshold(id_scores, ood_scores, RNG(1))
    assert ours == pytest.approx(torch_hinge(id_scores, ood_scores, RNG(1)), abs=1e-9)


def test_the_published_fit_is_not_the_best_threshold():
    """D-101: with unequal spreads the hinge without margin stops elsewhere."""
    rng = RNG(0)
    id_scores, ood_scores = rng.normal(size=4000), rng.normal(1.0, 6.0, 4000)
    accuracy = [
        (np.mean(id_scores <= t) + np.mean(ood_scores > t)) / 2
        for t in (
            exact_threshold(id_scores, ood_scores),
            hinge_threshold(id_scores, ood_scores, rng),
        )
    ]
    assert accuracy[0] > accuracy[1] + 0.01
    for few in ([0.0], [0.0, 1.0]):  # a handful of samples: no empty part, no NaN
        assert math.isfinite(hinge_threshold(few, [5.0], RNG(0)))


def test_halves():
    for size in (0, 1, 2, 7, 1000):
        half = validation_half(size)
        assert half.dtype == np.bool_ and half.size == size and half.sum() == size // 2
        assert np.array_equal(half, validation_half(size))
    # Neither the first half nor every second sample: labels may be sorted, or take turns.
    half = validation_half(1000)
    assert 200 < half[:500].sum() < 300 and 200 < half[::2].sum() < 300
    assert validation_half(10).nonzero()[0].tolist() == [1, 3, 4, 5, 8]  # must never change


# The whole algorithm against a naive one


def rows_of(run, detector, setting, scores, *, default=True, learned_from=""):
    return [
        ScoreRow(run, detector, setting, n, s, default, learned_from) for n, s in scores.items()
    ]


def small_world(seed=0, sizes=None):
    """Sets of different sizes, a grid, and a detector that was learned with outliers."""
    rng = RNG(seed)
    sizes = sizes or {"id": 81, "a": 60, "b": 101, "c": 44}
    sets = [name for name in sizes if name != "id"]
    rows = []
    for run in ("r0", "r1"):
        for setting, strength in (("k=1", 0.5), ("k=5", 1.0), ("k=9", 1.5)):
            scores = {
                n: np.round(rng.normal(size=s) + strength * (n != "id") * rng.uniform(0, 2), 1)
                for n, s in sizes.items()
            }
            rows += rows_of(run, "knn", setting, scores, default=setting == "k=5")
        for learned in sets:
            scores = {n: rng.normal(size=s) + 3.0 * (n == learned) for n, s in sizes.items()}
            rows += rows_of(
                run,
                "svm",
                f"outliers={learned}",
                scores,
                default=learned == "a",
                learned_from=learned,
            )
    return ScoreTable("id", tuple(rows), {"r0": {"seed": 0}, "r1": {"seed": 1}})


def naive(table, detector, learn, test, *, tuned=False):
    """One experiment in every run, as the paper's algorithm reads."""
    accuracies = []
    for run in table.runs:
        grid = {}
        for row in table.rows:
            if row.run == run and row.detector == detector:
                grid.setdefault(row.setting, {})[row.dataset] = row
        if detector == "svm":
            setting = f"outliers={learn}"
        elif tuned:
            setting, best = "", -1.0
            for name, cells in grid.items():
                parts = [
                    cells[n].scores[validation_half(cells[n].scores.size)] for n in ("id", learn)
                ]
                size = min(map(len, parts))
                truth = np.repeat([0, 1], size)
                value = roc_auc_score(truth, np.concatenate([p[:size] for p in parts]))
                if value > best:
                    setting, best = name, value
        else:
            setting = next(name for name, cells in grid.items() if cells["id"].default)
        cells = {name: row.scores for name, row in grid[setting].items()}
        fit = [cells[n][validation_half(cells[n].size)] for n in ("id", learn)]
        check = [cells[n][~validation_half(cells[n].size)] for n in ("id", test)]
        size = min(map(len, fit))
        threshold = brute_force(*(part[:size] for part in fit))
        size = min(map(len, check))
        rejected = np.concatenate([part[:size] for part in check]) > threshold
        accuracies.append(accuracy_score(np.repeat([0, 1], size), rejected))
    return np.array(accuracies)


@pytest.mark.parametrize("seed", range(3))
def test_every_experiment_is_that_of_the_naive_algorithm(seed):
    table = small_world(seed)
    pairs = list(permutations(table.ood, 2))
    source = experiment(table, pairs, "exact", RNG(0))
    assert set(source.methods) == {"knn", "knn, tuned", "svm"}
    for method in source.methods:
        detector, tuned = method.split(",")[0], method.endswith("tuned")
        for column, (learn, test) in enumerate(pairs):
            for outcome, validation in (
                (source.methods[method].three, learn),
                (source.methods[method].two, test),
            ):
                expected = naive(table, detector, validation, test, tuned=tuned)
                assert outcome.accuracy[:, column] == pytest.approx(expected, abs=1e-12)


def test_without_outliers_is_algorithm_2():
    table = small_world()
    source = experiment(table, list(permutations(table.ood, 2)), "exact", RNG(0))
    row = {r.dataset: r.scores for r in table.rows if (r.run, r.setting) == ("r0", "k=5")}
    known = row["id"][validation_half(81)]
    threshold = sorted(known)[math.ceil(0.95 * known.size) - 1]
    expected = {}
    for name in table.ood:
        parts = [row[n][~validation_half(row[n].size)] for n in ("id", name)]
        size = min(map(len, parts))
        expected[name] = (
            np.mean(parts[0][:size] <= threshold) + np.mean(parts[1][:size] > threshold)
        ) / 2
    found = source.methods["knn"].none.accuracy[0]
    assert found == pytest.approx([expected[test] for _, test in source.experiments])
    assert source.methods["svm"].none is None and source.methods["knn, tuned"].none is None


def test_closed_form_of_normal_scores():
    shifts = {"a": 1.0, "b": 2.0, "c": 3.0}
    rng = RNG(0)
    scores = {"id": rng.normal(size=100_000)}
    scores |= {name: rng.normal(shift, 1.0, 100_000) for name, shift in shifts.items()}
    table = ScoreTable("id", tuple(rows_of("", "d", "", scores)))
    pairs = list(permutations(shifts, 2))
    found = experiment(table, pairs, "exact", rng).methods["d"]
    for column, (learn, test) in enumerate(pairs):
        threshold = shifts[learn] / 2
        expected = (ndtr(threshold) + ndtr(shifts[test] - threshold)) / 2
        # The best threshold is found with an error of about n^(-1/3), which shows on other sets.
        assert found.three.accuracy[0, column] == pytest.approx(expected, abs=0.02)
        assert found.two.accuracy[0, column] == pytest.approx(ndtr(shifts[test] / 2), abs=0.006)


def test_the_order_of_rows_does_not_matter():
    table = small_world()
    shuffled = ScoreTable("id", tuple(RNG(1).permutation(np.array(table.rows, object))), table.runs)
    one, two = (
        Accuracies((experiment(t, list(permutations("abc", 2)), "exact", RNG(0)),))
        for t in (table, shuffled)
    )
    assert one.three["knn"].cells == pytest.approx(two.three["knn"].cells)
    # Runs stay with their runs, whatever the order of the rows.
    difference = one.three["knn"].minus(one.three["svm"]).outcomes[0].accuracy
    again = two.three["knn"].minus(two.three["svm"]).outcomes[0].accuracy
    assert difference == pytest.approx(again)


# Worlds


def world(strengths, *, sets=8, samples=400, runs=1, seed=0, name="id", taste=0.0):
    """Detectors that see outliers the better the stronger they are; sets are near or far."""
    rng = RNG(seed)
    far = {f"set{number}": 1.0 + 2.0 * rng.random() for number in range(sets)}
    labels = {f"seed={run}": {"seed": run} for run in range(runs)}
    rows = []
    for run in labels:
        for detector, strength in strengths.items():
            scores = {name: rng.normal(size=samples)}
            for ood, distance in far.items():
                scores[ood] = rng.normal(strength * distance + taste * rng.normal(), 1.0, samples)
            rows += rows_of(run, detector, "", scores)
    return ScoreTable(name, tuple(rows), labels)


def learned(table, name="svm", power=4.0, seed=5):
    """Add a detector that finds only what it was learned with."""
    rng = RNG(seed)
    rows = list(table.rows)
    for run in table.runs:
        for known in table.ood:
            scores = {
                n: rng.normal(size=400) + power * (n == known) for n in (table.id, *table.ood)
            }
            rows += rows_of(
                run,
                name,
                f"outliers={known}",
                scores,
                default=known == table.ood[0],
                learned_from=known,
            )
    return ScoreTable(table.id, tuple(rows), table.runs)


def conclude(table: ScoreTable, **options) -> Finding:
    return od_test(table, RNG(0), **options)


def rows(finding: Finding, table: str = "od-test"):
    (found,) = [t for t in finding.tables if t.name == table]
    return {row[0]: row[1:] for row in found.rows}


def claim(finding: Finding, start: str):
    """The claim that starts so, alone or as one of several that stay open."""
    (found,) = [c for c in finding.claims if c.text.startswith(start)
                or ("not settle" in c.text and start in c.evidence)]  # fmt: skip
    return found


def test_a_planted_winner_is_found():
    finding = conclude(world({"weak": 0.5, "best": 2.5, "coin": 0.0}))
    first = finding.claims[0]
    assert first.text.startswith("best has the highest accuracy") and first.verdict == "holds"
    assert "over 56 experiments" in first.text
    assert list(rows(finding)) == ["best", "weak", "coin"]
    assert claim(
        finding, "1 of 3 methods is not significantly better than chance"
    ).evidence.startswith("coin")


def test_what_overfits_its_outliers_is_unmasked():
    """The paper's binary classifier: near-perfect on two data sets, chance on three."""
    finding = conclude(learned(world({"knn": 1.0})))
    (caveat,) = (each for each in finding.caveats if "Fitted on the validation" in each)
    assert "their thresholds: svm. Their results" in caveat
    cells = rows(finding)["svm"]
    assert cells[0].value == pytest.approx(0.5, abs=0.02) and cells[2].value > 0.95
    assert cells[3].low > 0.4
    optimism = claim(finding, "Two data sets are optimistic")
    assert optimism.verdict == "holds" and "most for svm" in optimism.evidence
    chosen = claim(finding, "Two data sets choose svm, three choose knn")
    cost = rows(finding)["knn"][0].value - cells[0].value
    assert chosen.verdict == "flips" and f"costs {100 * cost:.1f} points" in chosen.evidence


def test_one_kind_of_outliers_has_no_optimism():
    rng = RNG(0)
    scores = {"id": rng.normal(size=2000)}
    scores |= {f"set{n}": rng.normal(2.0, 1.0, 2000) for n in range(6)}
    finding = conclude(ScoreTable("id", tuple(rows_of("", "d", "", scores))))
    overall = claim(finding, "Two data sets")
    assert overall.verdict == "undecided" and "not significant" in overall.evidence


def test_identical_detectors_are_never_told_apart():
    table = world({"a": 1.0})
    twins = tuple(ScoreRow(r.run, "b", "", r.dataset, r.scores) for r in table.rows)
    finding = conclude(ScoreTable("id", (*table.rows, *twins), table.runs))
    assert finding.claims[0].text.startswith("a shares the highest accuracy")
    assert (
        finding.claims[0].verdict == "undecided"
        and "significantly from b" in finding.claims[0].text
    )
    assert rows(finding)["a"] == rows(finding)["b"]


def test_renaming_permutes_the_answer():
    table = world({"a": 0.5, "b": 2.0, "c": 1.0})
    names = {"a": "x", "b": "y", "c": "z"}
    renamed = tuple(ScoreRow(r.run, names[r.detector], "", r.dataset, r.scores) for r in table.rows)
    one, two = conclude(table), conclude(ScoreTable("id", renamed, table.runs))
    assert {names[name]: cells for name, cells in rows(one).items()} == rows(two)
    assert [c.verdict for c in one.claims] == [c.verdict for c in two.claims]


def test_tuning_that_helps_and_tuning_that_does_not():
    table = world({"knn": 1.0})
    rng = RNG(3)
    better = [
        ScoreRow(r.run, "knn", "k=9", r.dataset, 2.0 * r.scores + rng.normal(size=400), False)
        if r.dataset == "id"
        else ScoreRow(r.run, "knn", "k=9", r.dataset, r.scores + 6.0, False)
        for r in table.rows
    ]
    finding = conclude(ScoreTable("id", (*table.rows, *better), table.runs))
    tuning = claim(finding, "Tuning the setting on other outliers gains")
    assert tuning.verdict == "holds" and next(iter(rows(finding))) == "knn, tuned"
    copies = [ScoreRow(r.run, "knn", "k=9", r.dataset, r.scores, False) for r in table.rows]
    finding = conclude(ScoreTable("id", (*table.rows, *copies), table.runs))
    assert claim(finding, "Tuning the setting").verdict == "undecided"


def test_a_setting_learned_with_outliers_takes_part_with_them_only():
    table = small_world()
    extra = tuple(
        ScoreRow(r.run, r.detector, "outliers=ab", r.dataset, r.scores + 100.0, False, "ab")
        for r in table.rows
        if r.setting == "outliers=a"
    )  # a set that is not there, whose name begins like one that is
    pairs = list(permutations("abc", 2))
    both = [
        experiment(ScoreTable("id", rows, table.runs), pairs, "exact", RNG(0)).methods["svm"]
        for rows in (table.rows, (*table.rows, *extra))
    ]
    assert np.array_equal(both[0].three.accuracy, both[1].three.accuracy)


# Several sources


def sources():
    """One table per source of the paper, small; 8 or 7 outlier sets each."""
    rng = RNG(0)
    tables = []
    for name in dict.fromkeys(source for source, _, _ in triplets()):
        scores = {name: rng.normal(size=60)}
        scores |= {ood: rng.normal(1.0 + rng.random(), 1.0, 60) for ood in outliers_for(name)}
        better = {data: 2.0 * (data != name) + s for data, s in scores.items()}
        tables.append(
            ScoreTable(name, (*rows_of("", "msp", "", scores), *rows_of("", "knn", "", better)))
        )
    return tables


def test_all_308_triplets():
    finding = od_test_over_sources(sources(), RNG(0), triplets=triplets())
    assert ("experiments per method", "308") in finding.facts
    assert not finding.missing
    table = next(t for t in finding.tables if t.name == "od-test-sources")
    assert table.columns == (
        "method", "mnist", "fashion-mnist", "cifar10", "cifar100", "stl10", "tiny-imagenet",
    )  # fmt: skip
    assert "cifar10: 42 experiments" in table.note and "mnist: 56 experiments" in table.note
    # Each experiment has the same weight, so sources are weighted by theirs.
    cells = rows(finding, "od-test-sources")["msp"]
    sizes = np.array([56, 56, 42, 56, 42, 56])
    mean = np.average([cell.value for cell in cells], weights=sizes)
    assert rows(finding)["msp"][0].value == pytest.approx(mean)
    assert claim(finding, "knn has the highest accuracy on all 6 sources").verdict == "holds"


def test_triplets_choose_the_experiments():
    table = world({"a": 1.0, "b": 2.0}, sets=5)
    allowed = [("id", "set0", "set1"), ("id", "set0", "set1"), ("id", "set2", "set3")]
    finding = od_test_over_sources([table], RNG(0), triplets=allowed)
    assert ("experiments per method", "2") in finding.facts
    absent = [*allowed, ("id", "set0", "nowhere"), ("mars", "set0", "set1")]
    finding = od_test_over_sources([table], RNG(0), triplets=absent)
    assert finding.missing == (
        "source id: no scores of outlier set nowhere",
        "source mars: no table of scores",
    )
    with pytest.raises(UserError, match="learns and tests on 'set0'"):
        od_test_over_sources([table], RNG(0), triplets=[("id", "set0", "set0")])
    with pytest.raises(UserError, match="source 'id': each source may come once"):
        od_test_over_sources([table, table], RNG(0))
    with pytest.raises(UserError, match="at least one source"):
        od_test_over_sources([], RNG(0))
    with pytest.raises(UserError, match="Did you mean 'exact'"):
        conclude(table, threshold="exakt")


def test_names_of_triplets_may_be_written_otherwise():
    scores = {n: np.arange(20.0) for n in ("MNIST", "Gaussian noise", "uniform noise")}
    table = ScoreTable("MNIST", tuple(rows_of("", "a", "", scores)))
    allowed = [("mnist", "gaussian_noise", "Uniform-noise")]
    finding = od_test_over_sources([table], RNG(0), triplets=allowed)
    assert ("experiments per method", "1") in finding.facts and not finding.missing


def test_runs_that_do_not_share_their_samples():
    made = []
    for run, samples in (("r0", 200), ("r1", 300)):
        rng = RNG(samples)
        scores = {n: rng.normal(size=samples) + (n != "id") for n in ("id", *"abcde")}
        made += rows_of(run, "knn", "", scores)
        made += rows_of(run, "msp", "", {n: s - 0.3 * (n != "id") for n, s in scores.items()})
    table = ScoreTable("id", tuple(made), {"r0": {}, "r1": {}}, same_samples=False)
    finding = finite(conclude(table))
    assert isinstance(rows(finding)["knn"][0], Estimate)


def test_what_depends_on_the_source_flips():
    tables = [world({"a": 0.4, "b": 3.0}), world({"a": 3.0, "b": 0.4}, name="other", seed=1)]
    finding = od_test_over_sources(tables, RNG(0))
    found = claim(finding, "Which method has the highest accuracy depends on the source")
    assert found.verdict == "flips" and "b on id; a on other" in found.text


def test_a_method_that_one_source_lacks():
    tables = [world({"a": 1.0, "b": 2.0}), world({"a": 1.0}, name="other", seed=1)]
    finding = od_test_over_sources(tables, RNG(0))
    assert list(rows(finding)) == ["a"]
    assert rows(finding, "od-test-sources")["b"][1] is None
    assert "b: no scores on other, so not in the overall mean" in finding.missing


# Intervals


def test_the_interval_of_the_figures():
    table = world({"a": 1.0})
    source = experiment(table, list(permutations(table.ood, 2)), "exact", RNG(0))
    cells = source.methods["a"].three.accuracy[0]
    expected = 1.96 * np.std(cells, ddof=1) / math.sqrt(56)
    assert rows(conclude(table))["a"][1] == pytest.approx(expected)


def population(shifts):
    """Mean accuracy over all pairs of sets, with the best thresholds, of normal scores."""
    learn, test = shifts[:, None] / 2, shifts[None, :]
    return float(np.mean((ndtr(learn) + ndtr(test - learn)) / 2))


def two_of_a_kind(rng, spread, taste, samples):
    """Two detectors of the same strength, each with its own taste in outliers, on seven sets."""
    sets = [f"set{n}" for n in range(7)]
    shifts = 1.5 + spread * rng.normal(size=7)
    made = []
    for detector in "ab":
        scores = {"id": rng.normal(size=samples)}
        scores |= {
            name: rng.normal(shift + taste * rng.normal(), 1.0, samples)
            for name, shift in zip(sets, shifts, strict=True)
        }
        made += rows_of("", detector, "", scores)
    table = ScoreTable("id", tuple(made))
    return Accuracies((experiment(table, list(permutations(sets, 2)), "exact", rng),))


@pytest.mark.parametrize(("spread", "taste", "samples"), [(0.7, 0.3, 400), (0.0, 0.0, 200)])
def test_intervals_cover_and_tests_keep_their_level(spread, taste, samples):
    """Another choice of sets, other samples: 95 % of intervals hold the mean over all such sets.

    In the second world all sets are alike, and it is the shared ID samples that matter.
    """
    trials, rng = 300, RNG(0)
    true = population(1.5 + math.hypot(spread, taste) * RNG(1).normal(size=3000))
    inside = apart = 0
    for _ in range(trials):
        field = two_of_a_kind(rng, spread, taste, samples)
        estimate = field.three["a"].estimate()
        inside += estimate.low <= true <= estimate.high
        apart += field.three["a"].minus(field.three["b"]).difference().p_value < 0.05
    assert inside >= 0.91 * trials  # three standard errors below 95 % are 91.2 %
    assert apart <= 0.088 * trials  # three standard errors above 5 % are 8.8 %


def test_the_mean_over_methods_is_the_mean_of_means():
    table = world({"a": 1.0, "b": 2.0}, runs=2)
    field = Accuracies((experiment(table, list(permutations(table.ood, 2)), "exact", RNG(0)),))
    both = mean_effect([field.three["a"], field.three["b"]])
    assert both.value == pytest.approx((field.three["a"].value + field.three["b"].value) / 2)


# What is lacking


def finite(finding: Finding) -> Finding:
    text = to_json(finding)
    assert "NaN" not in text and "nan" not in text.replace("nanometre", "") and "inf " not in text
    assert from_json(text) == finding
    return finding


def test_too_few_outlier_sets():
    (only,) = finite(conclude(world({"a": 1.0}, sets=1))).claims
    assert "one outlier set only" in only.text and only.verdict == "undecided"
    finding = finite(conclude(world({"a": 3.0, "b": 0.1}, sets=3)))
    assert all(c.verdict == "undecided" for c in finding.claims)
    assert isinstance(rows(finding)["a"][0], float)
    assert any("There are 3 outlier sets" in line for line in finding.caveats)


def test_one_sample_gives_a_sentence():
    table = world({"a": 1.0}, samples=1)
    finding = finite(conclude(table))
    assert "is not possible" in finding.claims[0].text
    assert "data set id: one sample cannot be halved" in finding.missing
    # Two samples are enough to try, never to decide.
    finding = finite(conclude(world({"a": 9.0, "b": -9.0}, samples=2)))
    assert all(c.verdict != "holds" for c in finding.claims)


def test_constant_scores_are_chance():
    table = world({"a": 1.0})
    flat = tuple(ScoreRow(r.run, "flat", "", r.dataset, np.zeros(400)) for r in table.rows)
    finding = finite(conclude(ScoreTable("id", (*table.rows, *flat), table.runs)))
    cells = rows(finding)["flat"]
    assert cells[0].value == 0.5 and cells[0].low < 0.5 < cells[0].high
    assert (
        "flat" in claim(finding, "1 of 2 methods is not significantly better than chance").evidence
    )


def test_perfect_separation_is_not_beyond_doubt():
    scores = {"id": np.zeros(50)} | {f"set{n}": np.ones(50) for n in range(5)}
    finding = finite(conclude(ScoreTable("id", tuple(rows_of("", "a", "", scores)))))
    assert rows(finding)["a"][0].value == 1.0 and 0.8 < rows(finding)["a"][0].low < 0.95


def test_missing_cells_are_named_and_never_averaged_over():
    table = world({"a": 1.0, "b": 2.0, "c": 1.0}, runs=2)
    lost = [r for r in table.rows if (r.run, r.detector, r.dataset) == ("seed=1", "b", "set3")]
    kept = tuple(r for r in table.rows if r not in lost)
    gap = Missing("lost", run="seed=1", detector="b", dataset="set3")
    finding = finite(conclude(ScoreTable("id", kept, table.runs, (gap,))))
    assert sorted(rows(finding)) == ["a", "c"]
    assert finding.missing == (
        "detector b, data set set3, run seed=1: lost",
        "without all scores, so not compared: b",
    )
    nobody = tuple(r for r in table.rows if r.dataset != "set3" or r.run == "seed=0")
    finding = finite(conclude(ScoreTable("id", nobody, table.runs)))
    assert "no method has all scores" in finding.claims[0].text


def test_no_scores_at_all():
    finding = finite(conclude(ScoreTable("id", (), {"": {}}, (Missing("lost", detector="a"),))))
    assert "there is no outlier set" in finding.claims[0].text and finding.missing


def test_several_trainings_and_the_published_fit():
    table = world({"a": 1.0, "b": 2.0}, runs=3, samples=100, sets=4)
    finding = finite(conclude(table, threshold="hinge"))
    assert any("hinge loss" in line for line in finding.caveats)
    assert finding == conclude(table, threshold="hinge")
    assert next(t for t in finding.tables if t.name == "od-test-runs").columns == (
        "method", "seed=0", "seed=1", "seed=2",
    )  # fmt: skip
    assert "in all 3 training runs" in finding.claims[0].evidence
    assert isinstance(rows(finding)["b"][0], Estimate)


def test_which_set_the_threshold_was_learned_on_rarely_matters_if_all_are_alike():
    """Sets of one kind: gaps between thresholds are chance, also where trainings share samples."""
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(60):
        hard = {name: rng.normal(0, 0.7, 80) for name in ("id", "a", "b", "c", "d", "e")}
        table_rows = [
            ScoreRow(f"{run}", "knn", "", name, part + rng.normal(1.5 * (name != "id"), 0.7, 80))
            for run in range(3)
            for name, part in hard.items()
        ]
        table = ScoreTable("id", tuple(table_rows), {f"{run}": {"seed": run} for run in range(3)})
        held += claim(conclude(table), "Learning the threshold").verdict == "holds"
    assert held <= 60 * 0.05 + 3 * math.sqrt(60 * 0.05 * 0.95)


def test_a_validation_set_on_the_wrong_side_is_found_out_by_several_trainings():
    rng = np.random.default_rng(12)
    shifts = {"id": 0.0, "odd": -2.0, "b": 2.0, "c": 2.0, "d": 2.0, "e": 2.0}

    def made(runs):
        table_rows = [
            ScoreRow(f"{run}", "knn", "", name, rng.normal(shift, 1, 100))
            for run in range(runs)
            for name, shift in shifts.items()
        ]
        return ScoreTable("id", tuple(table_rows), {f"{run}": {"seed": run} for run in range(runs)})

    found = claim(conclude(made(4)), "Learning the threshold")
    assert found.verdict == "holds" and "instead of odd" in found.text
    alone = claim(conclude(made(1)), "Learning the threshold")
    assert alone.verdict == "undecided" and "without repeated runs" in alone.evidence


def test_checkpoints_of_one_training_are_no_further_trainings():
    made = world({"knn": 1.0, "energy": 0.8}, sets=5, samples=100, runs=3)
    copies = {f"{run} {epoch}": {"seed": run, "epoch": epoch}
              for run in made.runs for epoch in ("best", "last")}  # fmt: skip
    copied = tuple(
        ScoreRow(f"{row.run} {epoch}", row.detector, row.setting, row.dataset, row.scores,
                 row.default)
        for row in made.rows for epoch in ("best", "last")
    )  # fmt: skip
    single = ScoreTable("id", made.rows, {run: {"seed": run} for run in made.runs})
    one, two = conclude(single), conclude(ScoreTable("id", copied, copies))
    assert dict(two.facts)["training runs"] == "3"
    assert [c.evidence for c in one.claims] == [c.evidence for c in two.claims]
    assert rows(one) == rows(two)


def test_looks_at_different_numbers_of_samples_are_one_training():
    """A study over test_size: each is a look at the same training, and none is lost."""
    rng = np.random.default_rng(0)
    rows, runs = [], {}
    for seed in range(2):
        for size in (40, 60):
            run = f"seed={seed}, test_size={size}"
            runs[run] = {"seed": seed, "test_size": size}
            for name in ("id", "p", "q", "r", "s"):
                scores = rng.normal(2.0 * (name != "id"), 1.0, size)
                rows.append(ScoreRow(run, "knn", "", name, scores))
    table = ScoreTable("id", tuple(rows), runs, same_samples=False)
    finding = od_test(table, np.random.default_rng(0))
    assert dict(finding.facts)["training runs"] == "2"
    assert isinstance(finding.tables[0].rows[0][1], Estimate | float)


def test_triplets_that_are_none_and_a_set_that_is_too_small_in_one_run():
    table = world({"a": 1.0, "b": 2.0}, runs=2, samples=40, sets=5)
    for wrong in ((table.id, "set1"), "abc"):
        with pytest.raises(UserError, match="a source, a validation set and a test set are needed"):
            od_test_over_sources([table], RNG(0), triplets=[wrong])
    small = tuple(
        ScoreRow(r.run, r.detector, "", r.dataset, r.scores[:1])
        if (r.run, r.dataset) == ("seed=0", "set1")
        else r
        for r in table.rows
    )
    finding = finite(conclude(ScoreTable(table.id, small, table.runs, same_samples=False)))
    assert dict(finding.facts)["outlier sets"] == "4"
    assert any("set1" in line for line in finding.missing)


def test_validation_sets_are_compared_on_the_same_source():
    """Validation sets that no source shares say nothing about each other."""
    rng = np.random.default_rng(14)

    def source(name, own, shift):
        runs = {f"{run}": {"seed": run} for run in range(4)}
        rows_ = [
            ScoreRow(run, "knn", "", data, rng.normal(shift * (data != name), 1.0, 200))
            for run in runs
            for data in (name, "a", "b", "c", own)
        ]
        return ScoreTable(name, tuple(rows_), runs)

    tables = [source("easy", "only_easy", 4.0), source("hard", "only_hard", 0.5)]
    told = claim(od_test_over_sources(tables, RNG(0)), "Learning the threshold")
    assert told.verdict == "undecided"
    assert not ("only_easy" in told.evidence and "only_hard" in told.evidence)
    assert "of 9 pairs" in told.evidence  # of 10: these two share no source


def made_of(accuracy, *, samples=10_000):
    """A source whose one method has this accuracy (runs, test sets), whatever it learned on."""
    sets = [f"o{number}" for number in range(accuracy.shape[1])]
    pairs = tuple(permutations(sets, 2))
    cells = accuracy[:, [sets.index(test) for _, test in pairs]]
    outcome = Outcome(cells, tuple(np.ones(samples) for _ in accuracy))
    method = Method(outcome, outcome, None)
    runs = tuple(f"seed={run}" for run in range(len(accuracy)))
    return Source("id", runs, pairs, {"m": method}, (), samples, True)


def test_the_variance_over_outlier_sets_is_that_of_their_mean():
    """If the test set alone matters, leaving out sets is the jackknife of a mean: s^2 / m."""
    accuracy = np.array([[0.9, 0.7, 0.8, 0.65, 0.85, 0.75]])
    effect = Accuracies((made_of(accuracy),)).three["m"]
    variance, freedom = effect._over_sets()
    assert variance == pytest.approx(accuracy.var(ddof=1) / 6) and freedom == 5.0
    low, high = ttest_1samp(accuracy[0], 0).confidence_interval()
    found = effect.difference()
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-3)


def test_surely_worse_than_a_coin_is_not_better_than_chance():
    accuracy = np.array([[0.30, 0.31, 0.29, 0.30, 0.32, 0.28]])
    told = {c.text: c.verdict for c in claims(Accuracies((made_of(accuracy),)))}
    assert told["m is not significantly better than chance on other outlier sets."] == "undecided"
    better = {c.text: c.verdict for c in claims(Accuracies((made_of(1.0 - accuracy),)))}
    assert any(text.startswith("m is better than chance") for text in better)


# Methods that belong to one level of a factor


def of_losses(*, missing=()):
    """Two networks with two losses each; two methods were scored on the runs of one loss only."""
    runs = {
        f"{network} {loss}": {"network": network, "loss": loss}
        for network in ("vgg", "resnet")
        for loss in ("cross_entropy", "logistic")
    }
    means = {"id": 0.0, "near": 0.8, "far": 1.6, "odd": 1.2}
    rng = RNG(7)
    rows = [
        ScoreRow(run, detector, "", dataset, rng.normal(mean, 1, 300))
        for run, levels in runs.items()
        for detector, loss in {"energy": None, "score": "cross_entropy", "log": "logistic"}.items()
        for dataset, mean in means.items()
        if loss in (None, levels["loss"])
    ]
    return ScoreTable("id", tuple(rows), runs, missing)


def test_methods_of_one_loss_stand_beside_those_of_all():
    table = of_losses()
    pairs = list(permutations(("near", "far", "odd"), 2))
    source = experiment(table, pairs, "exact", RNG(0))
    assert set(source.methods) == {"energy", "score", "log"} and source.incomplete == ()
    assert source.runs == ("network=vgg, loss=all", "network=resnet, loss=all")
    for method, losses in {
        "score": ["cross_entropy"], "log": ["logistic"], "energy": ["cross_entropy", "logistic"],
    }.items():  # fmt: skip
        for number, network in enumerate(("vgg", "resnet")):
            alone = [
                experiment(
                    ScoreTable(
                        "id",
                        tuple(r for r in table.rows if r.run == f"{network} {loss}"),
                        {f"{network} {loss}": {}},
                    ),
                    pairs, "exact", RNG(0),
                ).methods[method].three.accuracy[0]
                for loss in losses
            ]  # fmt: skip
            expected = np.mean(alone, axis=0)
            np.testing.assert_allclose(source.methods[method].three.accuracy[number], expected)


def test_what_failed_does_not_belong_to_a_loss():
    failed = tuple(
        Missing("it failed", f"{network} logistic", "score") for network in ("vgg", "resnet")
    )
    rows = [row for row in of_losses().rows if row.detector != "log"]
    table = ScoreTable("id", tuple(rows), of_losses().runs, failed)
    source = experiment(table, [("near", "far"), ("far", "near")], "exact", RNG(0))
    assert set(source.methods) == {"energy"} and source.incomplete == ("score",)
    assert len(source.runs) == 4
