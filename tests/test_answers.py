"""The answer of every finding says what its claims say, and what stays open is told once."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from oodometer.finding import Claim, Finding, folded
from oodometer.protocols import score_protocol
from oodometer.protocols.agreement.protocol import metric_agreement
from oodometer.protocols.instability.protocol import instability_of
from oodometer.protocols.label_noise.protocol import label_noise_of
from oodometer.protocols.robustness.protocol import robustness_of
from oodometer.results import Results
from oodometer.scores import ScoreRow, ScoreTable

NUMBERS = re.compile(r"(\w+) \((\d+\.\d)\)")


def table(value, *, ood=("far", "near"), metric="auroc", **factors):
    """A results table with a value for each detector, set and combination of levels."""
    grid = pd.MultiIndex.from_product(factors.values(), names=factors).to_frame(index=False)
    lines = [
        {"detector": d, "ood": name, **levels, "value": value(d, name, levels)}
        for d in "abc" for name in ood for levels in grid.to_dict("records")
    ]  # fmt: skip
    return Results(pd.DataFrame(lines), tuple(factors), metric)


def verdict_of(finding: Finding, words: str) -> str:
    """The verdict of the claim with these words, alone or among those that stay open."""
    told = {True: lambda c: c.evidence, False: lambda c: c.text}
    (verdict,) = [c.verdict for c in finding.claims if words in told[" not settle " in c.text](c)]
    return verdict


@pytest.mark.parametrize("noise", [0.0, 0.03, 0.3])
@pytest.mark.parametrize(("seeds", "turned"), [(2, 0.0), (6, 0.0), (6, 0.3)])
def test_instability(noise, seeds, turned):
    rng = np.random.default_rng(int(100 * noise) + seeds)

    def value(detector, ood, levels):
        gap = {"a": 0.2, "b": 0.1, "c": 0.0}[detector]
        own = turned * (detector == "b") * (levels["optimizer"] == "adam")
        return float(np.clip(0.5 + gap + own + rng.normal(0, noise), 0, 1))

    made = table(value, optimizer=["sgd", "adam"], seed=range(seeds))
    finding = instability_of(made)
    for factor in ("optimizer", "seed"):
        words = f"Changing only the {factor} change"
        if not any(words in claim.text + claim.evidence for claim in finding.claims):
            words = f"Changing only the {factor} never"
        changes = f"Another {factor} changes the best detector" in finding.answer
        assert changes == (verdict_of(finding, words) == "flips"), finding.answer
        unsure = re.search(rf"another {factor} [^.]*(not significant|may explain)", finding.answer)
        assert not (unsure and changes)
        if f"Another {factor} leaves" in finding.answer:
            told = finding.answer.split(f"Another {factor} leaves")[1].split(". ")[0]
            sure = "too few" not in told and "not significant" not in told
            assert sure == (verdict_of(finding, words) == "holds")
    moved = re.search(r"The (\w+) moves ([\w ]+) by ([\d.]+) points", finding.answer)
    told = " ".join(claim.text + claim.evidence for claim in finding.claims)
    assert (moved is None) == (noise == 0.0 and turned == 0.0)
    assert moved is None or moved[0] in told


@pytest.mark.parametrize("noise", [0.001, 0.05])
@pytest.mark.parametrize("shares", [(1, 1, 1), (1, 8, 8), (8, 1, 8)])
def test_robustness(noise, shares):
    """Who varies least: all alike, one of them, or another on each set."""
    rng = np.random.default_rng(0)

    def value(detector, ood, levels):
        if shares == (8, 1, 8) and ood == "near":
            return 0.8 + rng.normal(0, noise * (1 if detector == "a" else 8))
        return 0.8 + rng.normal(0, noise * dict(zip("abc", shares, strict=True))[detector])

    finding = robustness_of(table(value, optimizer=["sgd", "adam", "sam"], seed=range(6)))
    first = finding.claims[0]
    assert ("significantly less than every other" in finding.answer) == (first.verdict == "holds")
    assert finding.answer.startswith("Which detector varies") == (first.verdict == "flips")
    named = re.match(r"(\w+) varies least", finding.answer)
    assert named is None or first.text.startswith(f"{named[1]} varies least")
    if "also has the best mean" in finding.answer:
        sure = not finding.answer.endswith(" here.")
        assert sure == (verdict_of(finding, "The detector that varies least") == "holds")


@pytest.mark.parametrize("levels", [("clean", "uniform"), ("clean", "uniform", "human", "pair")])
@pytest.mark.parametrize("cost", [0.0, 0.1, -0.05])
@pytest.mark.parametrize("seeds", [2, 6])
def test_label_noise(levels, cost, seeds):
    rng = np.random.default_rng(seeds)

    def value(detector, ood, own):
        lost = cost * (own["label_noise"] != "clean") * {"a": 0.5, "b": 1.0, "c": 2.0}[detector]
        return 0.7 + 0.1 * (detector == "a") - lost + rng.normal(0, 0.004)

    made = table(value, label_noise=levels, seed=range(seeds))
    finding = label_noise_of({"auroc": made}, np.random.default_rng(0))
    if len(levels) > 2:
        words, doubts = "kinds of noise, noisy labels", "which is not significant"
    else:
        words, doubts = "With uniform labels", "is not settled"
    is_open = verdict_of(finding, words) == "undecided"
    assert is_open == (doubts in finding.answer.split(". ")[0]), finding.answer
    best = "is the best whatever the labels" in finding.answer
    words = "has the highest median AUROC whatever the labels"
    if any(words in claim.text + claim.evidence for claim in finding.claims):
        assert best == (verdict_of(finding, words) == "holds")
        assert finding.answer.split(". ")[-1].startswith("By median AUROC, a ")
    told = dict(NUMBERS.findall(finding.answer.replace(" here", "")))
    assert not told or float(told.get("least", 0)) <= float(told.get("most", 9))


def scored(seed, *, runs, gain, gap):
    """Detectors a and b with two settings, of which the second is better by `gain`."""
    rng = np.random.default_rng(seed)
    rows = []
    for run in range(runs):
        for detector in "ab":
            for name in ("id", "far", "near"):
                base = rng.normal(0.8 + gap * (detector == "a"), 1.0, 150) * (name != "id") \
                    + rng.normal(0, 1, 150) * (name == "id")  # fmt: skip
                for number in range(2):
                    scores = base + number * gain * (name != "id") + rng.normal(0, 0.2, 150)
                    rows.append(
                        ScoreRow(f"{run}", detector, f"k={number}", name, scores, not number)
                    )
    return ScoreTable("id", tuple(rows), {f"{run}": {"seed": run} for run in range(runs)})


@pytest.mark.parametrize(("runs", "gain", "gap"), [(1, 0.5, 0), (3, 0, 0), (5, 1, 2), (5, -0.5, 0)])
def test_tuning(runs, gain, gap):
    finding = score_protocol("tuning")(
        scored(0, runs=runs, gain=gain, gap=gap), np.random.default_rng(0)
    )
    first = finding.claims[0]
    open_ = "does not significantly improve any detector" in finding.answer
    assert open_ == (first.verdict == "undecided"), finding.answer
    for figure in re.findall(r"[\d.]+ points", finding.answer):
        assert figure in first.text
    is_best = "is the best however settings are chosen" in finding.answer
    words = "has the highest mean AUROC however settings are chosen"
    if any(words in claim.text + claim.evidence for claim in finding.claims):
        assert is_best == (verdict_of(finding, words) == "holds")


@pytest.mark.parametrize("differ", [0.0, 2.0])
def test_spread(differ):
    made = scored(0, runs=3, gain=0, gap=0)
    rows = [
        ScoreRow(r.run, r.detector, "", r.dataset,
                 r.scores + differ * (r.run == "1") * (r.dataset != "id"))
        for r in made.rows if r.default
    ]  # fmt: skip
    finding = score_protocol("spread")(
        ScoreTable("id", tuple(rows), made.runs), np.random.default_rng(0)
    )
    assert ("is used matters" in finding.answer) == (finding.claims[0].verdict == "holds")
    assert finding.answer.split(" varies by ")[1].split(" across")[0] in finding.claims[0].text


@pytest.mark.parametrize("means", [(0.9, 0.7, 0.5), (0.7, 0.9, 0.5), (0.7, 0.7, 0.7)])
def test_agreement(means):
    rng = np.random.default_rng(1)

    def value(detector, ood, levels, own=(0.9, 0.7, 0.5)):
        return dict(zip("abc", own, strict=True))[detector] + rng.normal(0, 0.01)

    others = [
        table(lambda *of: value(*of, own=means), metric=name, seed=range(6))
        for name in ("aupr_in", "aupr_out")
    ]
    finding = metric_agreement([table(value, seed=range(6)), *others])
    verdicts = {c.verdict for c in finding.claims if "first" in c.text}
    assert finding.answer.startswith("Which detector is best depends") == ("flips" in verdicts)
    assert finding.answer.startswith("The metrics agree") == (verdicts == {"holds"})
    if means == (0.7, 0.7, 0.7):
        first, orders = [c for c in finding.claims if "do not settle" in c.text]
        assert first.text.startswith("6 runs do not settle whether AUPR-in ranks the same detector")
        assert first.text.endswith(
            "AUPR-out ranks the same detector first as AUROC (here b, not a)."
        )
        assert orders.text.startswith("3 detectors do not settle whether AUROC and AUPR-in order ")


def test_what_stays_open_is_told_as_one_claim_of_its_theme():
    given = [
        Claim("A leads.", "undecided", "a"),
        Claim("B changes.", "undecided", "b", "changes", "whether B changes"),
        Claim("C changes.", "flips", "c", "changes", "whether C changes"),
        Claim("D changes.", "undecided", "d", "changes", "whether D changes"),
        Claim("E explains.", "undecided", "e", "explains", "whether E explains"),
    ]
    told = folded(given, "3 runs")
    assert [claim.text for claim in told] == [
        "A leads.",
        "3 runs do not settle whether B changes or whether D changes.",
        "C changes.",
        "E explains.",
    ]
    assert told[1].evidence == "B changes (b). D changes (d)." and told[1].theme == "changes"
    assert folded(given, "3 runs", fewest=3) == tuple(given)
