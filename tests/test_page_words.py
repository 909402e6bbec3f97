"""Pages as readers see them: two sentences of one page do not disagree, and say what they mean."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from oodometer.analysis import analyze
from oodometer.comparison import conclude
from oodometer.finding import Claim, Finding
from oodometer.reports.brief import TerminalSummary
from oodometer.reports.html import render
from oodometer.scores import ScoreRow, ScoreTable

P_VALUE = re.compile(r"adjusted p ([=<]) ([\d.e-]+)")


def table(rng, *, detectors="abcdef", sets=("near", "far"), gap=0.02, noise=0.004, **factors):
    """A long table: detectors in the order of their names; `factors` give levels by name."""
    names = list(factors)
    levels = pd.MultiIndex.from_product([list(detectors), sets, *factors.values()])
    frame = pd.DataFrame(levels.to_list(), columns=["detector", "ood", *names])
    place = frame["detector"].map(list(detectors).index)
    return frame.assign(auroc=0.9 - gap * place + rng.normal(0, noise, len(frame)))


def by_protocol(frame, **options):
    return {finding.protocol: finding for finding in analyze(frame, **options)}


# ---- label noise ---------------------------------------------------------------------------------


def noisy(rng, cost, rates=(0, 0.1, 0.4), **options):
    """Each detector loses `cost(its name, rate)`."""
    frame = table(rng, noise_rate=rates, seed=range(4), **options)
    lost = [cost(d, float(r)) for d, r in zip(frame["detector"], frame["noise_rate"], strict=True)]
    return frame.assign(auroc=frame["auroc"] - lost)


def test_what_noise_significantly_costs_is_told_with_the_detectors_that_lose():
    """The detector that loses most may vary too much: its p-value proves nothing of others."""
    rng = np.random.default_rng(1)
    frame = noisy(rng, lambda name, rate: 0.1 * rate * (name == "c"))
    wild = (frame["detector"] == "e") & (frame["noise_rate"] > 0)
    frame.loc[wild, "auroc"] -= np.where(frame.loc[wild, "seed"] % 2, 0.2, 0.0)
    told = [c for c in by_protocol(frame)["label_noise"].claims if "significantly lower" in c.text]
    (claim,) = [c for c in told if c.verdict == "holds"]
    assert "labels at noise_rate 0.4," in claim.text and "for 1 of 6 detectors (c);" in claim.text
    assert "here e loses most" in claim.text and claim.text.endswith("points, not significantly.")
    assert claim.evidence.startswith("c: +")
    assert all(float(found[2]) < 0.05 for found in P_VALUE.finditer(claim.evidence))


def test_a_best_detector_that_depends_on_the_labels_is_told_with_both_leads():
    frame = noisy(np.random.default_rng(0), lambda name, rate: 0.3 * rate * (name == "a"))
    found = by_protocol(frame)
    (claim,) = [c for c in found["label_noise"].claims if c.verdict == "flips"]
    told = "By median AUROC, which detector is best depends on the noise_rate: a with 0; b with "
    assert claim.text.startswith(told) and told in found["label_noise"].answer
    assert "for a against b" in claim.evidence and "for b against a" in claim.evidence
    assert all(float(found[2]) < 0.05 for found in P_VALUE.finditer(claim.evidence))


def test_rates_are_no_kinds_and_one_set_has_no_median():
    def cost(name, rate):
        return 0.2 * rate

    several = by_protocol(noisy(np.random.default_rng(0), cost))["label_noise"]
    assert "on average over 2 noise rates" in several.answer
    kinds = next(t for t in several.tables if t.name == "kinds")
    assert [row[2] for row in kinds.rows] == ["0.0%", "10.0%", "40.0%"]
    one = by_protocol(noisy(np.random.default_rng(0), cost, sets=("far",)))["label_noise"]
    words = [one.answer, *one.caveats]
    words += [c.text + c.evidence + c.leaves_open for c in one.claims]
    words += [t.title + t.note for t in one.tables] + [s.title + s.description for s in one.series]
    # A box has a median of its values, and that is all.
    assert not [w for w in words if re.search("median", w, re.I) and "quartiles" not in w]
    assert not [w for w in words if "1 outlier sets" in w]


# ---- one page, one set of words ------------------------------------------------------------------


def words_of(finding):
    """All sentences of a finding."""
    claims = [text for c in finding.claims for text in (c.text, c.evidence)]
    shown = [text for t in finding.tables for text in (t.title, t.note)]
    drawn = [text for s in finding.series for text in (s.title, s.description)]
    return [finding.answer, *claims, *finding.caveats, *shown, *drawn]


def test_outlier_sets_of_two_data_sets_are_not_counted_twice():
    """The reading says two outlier sets: no sentence may speak of four."""
    frame = table(np.random.default_rng(0), id=["cifar10", "cifar100"], seed=range(4))
    findings = analyze(frame)
    assert dict(findings[0].reading)["outlier sets"].startswith("2 (")
    told = [text for finding in findings for text in words_of(finding)]
    assert not [text for text in told if re.search(r"\b4 outlier sets", text)]
    assert [text for text in told if "4 ID/OOD pairs" in text]


def test_all_findings_leave_out_the_same_detector_and_keep_the_same_sets():
    frame = table(np.random.default_rng(0), sets=("a1", "a2", "a3", "a4"), seed=range(4))
    best_but_rare = (frame["detector"] == "a") & frame["ood"].isin(["a1", "a2"])
    found = by_protocol(frame[~best_but_rare])
    ranked = [row[0] for row in found["ranking"].tables[0].rows]
    moved = {
        row[0] for t in found["instability"].tables if t.name[:6] == "spread" for row in t.rows
    }
    assert "a" not in ranked and moved == set(ranked)
    assert sum(t.name.startswith("spread-seed") for t in found["instability"].tables) == 4


def test_if_everybody_can_be_the_best_nobody_is_recommended():
    rng = np.random.default_rng(3)
    for detectors in ("abc", "abcd", "abcdef"):
        answer = analyze(table(rng, detectors=detectors, gap=0.0, seed=range(3)))[0].answer
        assert answer.startswith("No detector stands out: ") and "Use " not in answer
    two = analyze(table(rng, detectors="ab", gap=0.0, noise=0.05, seed=range(3)))[0].answer
    assert re.match("(a and b|b and a) are not separable with 3 runs: [ab] has the better", two)


def test_equal_values_have_no_best():
    frame = table(np.random.default_rng(0), gap=0.0, noise=0.0, seed=range(3))
    ranking, robustness, instability = analyze(frame)
    assert ranking.answer == "All 6 detectors have the same mean: there is nothing to choose by."
    assert robustness.answer == "All detectors vary equally over seed."
    assert instability.answer == "Another seed moves no detector here."


def test_what_counts_as_a_run_and_as_a_data_set_is_not_mixed_up():
    """Values of one set are means over its runs; a gap without runs is a set, not a cell."""
    rng = np.random.default_rng(0)
    frame = table(rng, sets=("",), id=[f"set{n}" for n in range(6)], seed=range(3))
    (ranking, *_) = analyze(frame.drop(columns="ood"))
    note = next(t.note for t in ranking.tables if t.name == "sets")
    assert "Over 3 runs on each data set;" in note
    retrained = [c.text for c in ranking.claims if c.text.startswith("After retraining")]
    (about,) = [c for c in ranking.caveats if c.startswith("Each data set is one case")]
    assert retrained and about.endswith("not about retraining, unless a claim says so.")
    single = frame[frame["seed"] == 0].drop(columns=["ood", "seed"])
    holed = single[~((single["detector"] == "b") & (single["id"] == "set1"))]
    (gaps,) = [c for c in analyze(holed)[0].caveats if "some compared detector lacks" in c]
    assert gaps == "1 data set that some compared detector lacks was left out for all."


@pytest.mark.parametrize("other", ["fpr95", "aupr_out"])
def test_a_single_value_of_each_detector_is_not_said_to_be_tested(other):
    frame = pd.DataFrame({"method": list("abcd"), "auroc": [0.9, 0.8, 0.7, 0.6]})
    sign = -1 if other == "fpr95" else 1
    ranking, agreement = analyze(frame.assign(**{other: 0.5 + sign * (frame["auroc"] - 0.7)}))
    assert ranking.tables[0].title == "AUROC of each detector"
    told = [text for text in words_of(agreement) if "a single value of each detector" in text]
    assert len(told) == 2 and not [t for t in words_of(agreement)[:-3] if "like these" in t]


def test_the_answer_names_who_is_not_compared():
    """A detector with gaps may be the best: the reader of a recommendation has to know."""
    frame = table(np.random.default_rng(0), sets=("a1", "a2", "a3", "a4"), seed=range(4))
    holed = frame[~((frame["detector"] == "a") & frame["ood"].isin(["a1", "a2"]))]
    told = " a is not compared: too many of its values are missing."
    assert told in f" {analyze(holed)[0].answer}"
    assert "not compared" not in analyze(frame)[0].answer


def test_a_claim_that_does_not_fit_fills_the_lines_that_there_are():
    """A line of its own for three dots was all that the second of two lines said."""
    names = ", ".join(f"detector-number-{n}" for n in range(40))
    finding = Finding("ranking", "Who?", "Who?", (Claim(f"Behind: {names}.", "holds", ""),))
    console = Console(width=80, file=io.StringIO())
    console.print(TerminalSummary((finding,), 3, leaderboard=False))
    lines = console.file.getvalue().rstrip().splitlines()
    assert len(lines) == 3 and lines[-1].endswith(" ...")
    assert "detector-number-" in lines[-1] and max(map(len, lines)) <= 80


def test_scores_of_a_classifier_that_guesses_say_so_in_the_answer_and_once_as_a_caveat():
    rng = np.random.default_rng(0)
    rows = [
        ScoreRow(run, name, "", data, rng.normal(2.0 * (data == "far") * (name == "a"), 1, 200))
        for run in ("r0", "r1") for name in "ab" for data in ("id", "far")
    ]  # fmt: skip
    guesses = {run: np.arange(200) < 20 for run in ("r0", "r1")}
    scores = ScoreTable(
        "id", tuple(rows), {"r0": {"run": 0}, "r1": {"run": 1}},
        correct=guesses, chance=dict.fromkeys(guesses, 0.1),
    )  # fmt: skip
    first, second = conclude(scores, "").findings
    told = "2 of 2 classifiers did not learn: "
    assert told in first.answer and told not in second.answer
    assert sum(caveat.startswith(told) for caveat in first.caveats) == 1


def test_an_open_claim_about_single_sets_says_why_it_is_open():
    """One value on each set: that another detector is first there may be chance."""
    frame = table(np.random.default_rng(0), gap=0.001, sets=[f"s{n}" for n in range(8)])
    (claim,) = [c for c in analyze(frame)[0].claims if " ranks first on " in c.text]
    assert claim.verdict == "undecided" and claim.text.endswith(", which may be chance.")
    frame = table(np.random.default_rng(0), gap=0.001, seed=range(8))
    (claim,) = [c for c in analyze(frame)[0].claims if " ranks first in " in c.text]
    assert claim.verdict == "flips" and "chance" not in claim.text


def test_a_declared_detector_is_counted_in_the_scope_that_the_sentence_names(tmp_path):
    """Runs and outlier sets may separate it from different detectors: a bare count misleads."""
    rng = np.random.default_rng(5)
    means = 100 * (0.9 - 0.02 * np.arange(5)[:, None] + rng.normal(0, 0.012, (5, 4)))
    lines = [" ± 0.6,".join(f"{value:.1f}" for value in row) + " ± 0.6" for row in means]
    file = tmp_path / "t.csv"
    rows = [f"{name},{line}" for name, line in zip("abcde", lines, strict=True)]
    file.write_text("\n".join(["method,SVHN,LSUN,Textures,Places", *rows]), encoding="utf-8")
    by_runs, by_sets = analyze(file, runs=5, ours="b", columns="auroc=*, ood=*")[:2]
    for finding, scope in ((by_runs, "after retraining"), (by_sets, "on other outlier sets")):
        told = re.match(r"b is (.*?) others? ([a-z ]+)\.", finding.answer)
        assert told and told[2].startswith(scope), finding.answer
        table_ = next(t for t in finding.tables if t.name.startswith("ours"))
        p = table_.columns.index("adjusted p")
        open_ = sum(row[p] >= 0.05 for row in table_.rows)
        assert f"not separable from {open_} " in f"{told[1]} " or not open_
    file.write_text(file.read_text(encoding="utf-8").replace("± 0.6", "± 9"), encoding="utf-8")
    unsure = analyze(file, runs=5, columns="auroc=*, ood=*")[0].answer
    assert unsure.startswith("No detector stands out: ") and "others with 5 runs of each" in unsure


def test_the_filter_of_a_page_does_not_call_data_sets_outlier_sets():
    names = [f"set{n}" for n in range(4)]
    frame = table(np.random.default_rng(0), sets=("",), id=names, seed=range(3))
    page = render(analyze(frame.drop(columns="ood")), title="t")
    (label,) = re.findall(r"<label>([^<]*)<select id=\"filter-set\"", page)
    assert label.strip() == "Data set" and "<option>set3</option>" in page
