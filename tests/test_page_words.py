"""Pages as readers see them: two sentences of one page do not disagree, and say what they mean."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from oodometer.analysis import analyze

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
    cost = lambda name, rate: 0.2 * rate  # noqa: E731
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
