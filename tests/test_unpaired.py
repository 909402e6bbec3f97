"""Detectors with runs of their own, or known by mean ± spread: Welch's test, and what it needs."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from oodometer.analysis import analyze
from oodometer.errors import UserError
from oodometer.protocols.ranking.unpaired import (
    own_runs_compared,
    separate_runs,
    stated_spreads,
)
from oodometer.results import Results
from oodometer.stats.intervals import runs_interval
from oodometer.stats.summary import Summary, mean_interval
from oodometer.stats.unpaired import welch
from oodometer.tables import read_results


def test_welch_agrees_with_scipy():
    rng = np.random.default_rng(0)
    for _ in range(60):
        a, b = (rng.normal(0.9, rng.uniform(0.001, 0.1), rng.integers(2, 9)) for _ in range(2))
        ours = welch(Summary.of(a), Summary.of(b))
        theirs = scipy.stats.ttest_ind(a, b, equal_var=False)
        low, high = theirs.confidence_interval(0.95)
        expected = (a.mean() - b.mean(), low, high, theirs.pvalue)
        assert ours[:4] == pytest.approx(expected, abs=1e-9)
        low, high = scipy.stats.ttest_1samp(a, 0).confidence_interval(0.95)
        stated = Summary.of(a)._replace(skewness=0.0)
        assert mean_interval(stated) == pytest.approx((a.mean(), low, high))


def test_welch_without_any_spread_is_a_permutation_test():
    assert welch(Summary(0.9, 0.0, 3), Summary(0.8, 0.0, 3)).p_value == pytest.approx(2 / 20)
    assert welch(Summary(0.9, 0.0, 3), Summary(0.9, 0.0, 3)).p_value == 1.0
    with pytest.raises(UserError, match="one run shows no spread"):
        welch(Summary(0.9, 0.0, 1), Summary(0.8, 0.1, 3))


def adjusted_p(finding):
    (table,) = [t for t in finding.tables if t.name == "leaderboard"]
    return {row[0]: row[-1] for row in table.rows[1:]}


def own_runs(means, rng, runs=5, spread=0.01):
    return pd.DataFrame(
        {"method": name, "ood": ood, "seed": 100 * n + run, "auroc": mean + own}
        for n, (name, mean) in enumerate(means.items())
        for run in range(runs)
        for own in (rng.normal(0, spread),)
        for ood in ("near", "far")
    )


def test_seeds_of_each_detector_s_own_are_compared_by_welch():
    frame = own_runs({"a": 0.90, "b": 0.85, "c": 0.80}, np.random.default_rng(1))
    (finding,) = analyze(frame)
    (claim,) = finding.claims
    assert claim.verdict == "holds"
    assert claim.text.endswith("and after retraining it is significantly ahead of b and c.")
    assert any("Welch" in caveat for caveat in finding.caveats)
    # Two detectors have nobody to share their variances with: Welch's test as SciPy has it.
    (pair,) = analyze(frame[frame["method"] != "a"])
    values = frame[frame["ood"] == "near"].groupby("method")["auroc"]
    groups = values.get_group("b"), values.get_group("c")
    welch_p = scipy.stats.ttest_ind(*groups, equal_var=False).pvalue
    assert adjusted_p(pair) == {"c": pytest.approx(welch_p)}


def test_one_detector_with_other_seeds_does_not_keep_the_rest_from_pairs():
    rng = np.random.default_rng(3)
    lines = [
        {"method": name, "ood": "far", "seed": seed + 50 * (name == "d"),
         "auroc": mean + shift + rng.normal(0, 0.001)}
        for seed in range(5) for shift in (rng.normal(0, 0.05),)
        for name, mean in (("a", 0.8), ("b", 0.79), ("c", 0.78), ("d", 0.7))
    ]  # fmt: skip
    first = analyze(pd.DataFrame(lines))[0]
    assert first.protocol == "ranking" and dict(first.facts)["detectors"] == "3 of 4"
    assert "after retraining it is significantly ahead of b and c" in first.claims[0].text
    assert any("missing: d" in caveat for caveat in first.caveats)


def test_separate_runs_of_equal_detectors_are_rarely_told_apart():
    found = 0
    for seed in range(40):
        frame = own_runs({"a": 0.9, "b": 0.9}, np.random.default_rng(seed), runs=4)
        frame = frame.rename(columns={"method": "detector", "auroc": "value"})
        finding = separate_runs(Results(frame.astype({"seed": str}), ("seed",)))
        found += finding.claims[0].verdict == "holds"
    assert found <= 40 * 0.05 + 2 * np.sqrt(40 * 0.05 * 0.95)


def test_separate_seeds_under_shared_conditions_are_averaged():
    rng = np.random.default_rng(2)
    lines = [
        {"method": name, "ood": "far", "optimizer": optimizer, "seed": 10 * n + seed,
         "auroc": mean + rng.normal(0, 0.001)}
        for n, (name, mean) in enumerate((("a", 0.9), ("b", 0.8)))
        for optimizer in ("sgd", "adam", "lamb") for seed in range(3)
    ]  # fmt: skip
    first = analyze(pd.DataFrame(lines))[0]
    assert first.protocol == "ranking" and dict(first.facts)["optimizers"] == "3"
    assert any("share no seed: their means" in caveat for caveat in first.caveats)


STATED = (
    "method,SVHN,LSUN\nMSP,91.0 ± 0.4,90.0 ± 0.6\nKNN,93.0 ± 0.4,92.4 ± 0.2\n"
    "ViM,93.4 ± 0.5,92.6 ± 0.3\nODIN,94.9 ± 0.0,94.9 ± 0.0\n"
)


def test_stated_spreads_need_the_number_of_runs(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(STATED)
    (without,) = analyze(path)
    (claim,) = [c for c in without.claims if "mean ± standard deviation is over" in c.text]
    assert claim.verdict == "undecided" and "--runs N" in claim.evidence
    stated, ranked = analyze(path, runs=5)
    assert ranked.protocol == "ranking" and stated.protocol == "unpaired"
    # Without spread, ODIN takes no part, although its mean is the highest.
    assert any("no spread is stated: ODIN" in caveat for caveat in stated.caveats)
    first = stated.claims[0].text
    assert "of the 3 detectors that are compared" in first
    assert first.endswith("but after retraining it is not separable from KNN.")
    assert stated.claims[1].text == "Behind the leader after retraining: MSP (95% confidence)."
    # As SciPy has it, for the largest spread that the mean over two sets can have, and divisor n.
    wider = np.sqrt(5 / 4)
    path.write_text("\n".join(line for line in STATED.splitlines() if "KNN" not in line))
    p = scipy.stats.ttest_ind_from_stats(0.93, 0.004 * wider, 5, 0.905, 0.005 * wider, 5, False)[1]
    assert adjusted_p(analyze(path, runs=5)[0]) == {"MSP": pytest.approx(p)}


def test_how_many_runs_would_do_is_where_the_test_turns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(STATED)
    (finding,) = analyze(path)
    (text,) = [c.text for c in finding.claims if "mean ± standard deviation is over" in c.text]
    enough = int(text.split(" runs or more")[0].split()[-1])
    verdicts = [analyze(path, runs=runs)[0].claims[0].verdict for runs in (enough - 1, enough)]
    assert verdicts == ["undecided", "holds"]


@pytest.mark.parametrize("title", ["n", "Runs", "#seeds", "n_seeds", "num_runs"])
def test_a_column_may_say_the_number_of_runs(tmp_path, title):
    path = tmp_path / "t.csv"
    lines = "MSP,a,91.0,0.3,5\nKNN,a,93.0,0.4,5\nMSP,b,90.0,0.3,5\nKNN,b,92.5,0.4,5\n"
    path.write_text(f"method,ood,auroc,std,{title}\n{lines}")
    first = analyze(path)[0]
    assert first.protocol == "unpaired" and dict(first.facts)["runs per detector"] == "5"


def test_runs_without_spread_are_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("method,ood,auroc\nMSP,a,91\nKNN,a,92\n")
    with pytest.raises(UserError, match="no cell states one"):
        analyze(path, runs=5)
    with pytest.raises(UserError, match="at least 2, got 1"):
        analyze(path, runs=1)
    frame = pd.DataFrame({"detector": ["a", "b"], "ood": "x", "value": [0.9, 0.8]})
    with pytest.raises(UserError, match="is not stated"):
        stated_spreads(Results(frame))


def test_means_of_separate_runs_have_the_same_intervals_as_those_of_shared_ones():
    """Near 1 Student's interval alone covers 89 %: one rule for the mean of one value per run."""
    values = np.random.default_rng(7).beta(19, 1, 5)
    shared = runs_interval(values, bounds=(0, 1))
    assert mean_interval(Summary.of(values), 0.95, (0, 1)) == shared[:3]


def test_one_number_is_not_judged_where_stated_spreads_are(tmp_path):
    """One page said that the leader is ahead, and that one number has no spread to test against."""
    path = tmp_path / "t.csv"
    path.write_text("method,auroc,std,n\nMSP,91.0,0.3,5\nKNN,93.0,0.4,5\nViM,90.0,0.3,5\n")
    (finding,) = analyze(path)
    assert finding.protocol == "unpaired"
    assert [c.verdict for c in finding.claims] == ["holds"]
    path.write_text("method,auroc\nMSP,91.0\nKNN,93.0\n")
    assert [f.protocol for f in analyze(path)] == ["ranking"]


def lines(means, **columns):
    """Method -> data set -> values on outlier sets of its own, as a table."""
    return pd.DataFrame([
        {"method": name, "id_dataset": data, "ood_dataset": f"{data}{n}", "AUROC": value, **columns}
        for name, own in means.items() for data, values in own.items()
        for n, value in enumerate(values)
    ])  # fmt: skip


def shown_means(finding):
    rows = next(own.rows for own in finding.tables if own.name == "means")
    return {row[0]: getattr(row[1], "value", row[1]) for row in rows}


@pytest.mark.parametrize("others", [("b",), ("b", "c")])
def test_stated_means_weigh_cases_as_the_ranking_does(others):
    """By outlier sets msp is better, by data sets knn: which of them are cases depends."""
    means = {"msp": {"a": (0.9,) * 5} | dict.fromkeys(others, (0.6,)),
             "knn": {"a": (0.85,) * 5} | dict.fromkeys(others, (0.7,))}  # fmt: skip
    frame = lines(means, std=0.001, n=5).rename(columns={"AUROC": "auroc_mean", "std": "auroc_std"})
    found = {finding.protocol: finding for finding in analyze(frame)}
    assert shown_means(found["unpaired"]) == pytest.approx(shown_means(found["ranking"]))
    best = "msp" if len(others) == 1 else "knn"
    assert found["unpaired"].answer.startswith(f"Use {best}")


def test_data_sets_weigh_the_same_in_runs_of_each_detector():
    means = {"msp": {"a": (0.9,) * 3, "b": (0.6,)}, "knn": {"a": (0.85,) * 3, "b": (0.7,)}}
    parts = [
        lines({name: own}, seed=seed + 10 * (name == "knn"))
        for name, own in means.items() for seed in range(3)
    ]  # fmt: skip
    frame = pd.concat(parts, ignore_index=True)
    frame["AUROC"] += 0.001 * frame["seed"] % 0.01
    found = shown_means(analyze(frame)[0])
    assert found == pytest.approx({"knn": 0.776, "msp": 0.751})


def test_sets_with_gaps_give_way_so_that_detectors_are_compared():
    """Each run lacks one of the first two of five sets: on the other three, all are compared."""
    rng = np.random.default_rng(3)
    lines = [
        {"method": name, "ood": ood, "seed": run, "auroc": 0.9 - 0.1 * n + rng.normal(0, 0.01)}
        for n, name in enumerate("abc")
        for run in range(3)
        for place, ood in enumerate(("svhn", "dtd", "lsun", "isun", "sun"))
        if place > 1 or (n + run) % 2 == place
    ]
    frame = pd.DataFrame(lines)
    own = own_runs_compared(read_results(frame).results[0])
    assert own == "each detector by its own runs on 3 of 5 outlier sets: 9 of 9 runs of detectors"
    finding = separate_runs(read_results(frame).results[0])
    assert dict(finding.facts)["detectors"] == "3"
    assert "over 3 outlier sets" in finding.claims[0].text
    one = separate_runs(
        read_results(frame[(frame["method"] == "a") | (frame["seed"] == 0)]).results[0]
    )
    assert one.answer.startswith("a is the only detector with several runs that can be compared")
    assert one.claims[0].text.startswith("a has a mean AUROC of 0.")
