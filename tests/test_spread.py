"""How far trainings differ: simulated ones with a known answer."""

from __future__ import annotations

import numpy as np
import pytest

from oodometer.errors import UserError
from oodometer.protocols.spread.protocol import spread
from oodometer.scores import ScoreRow, ScoreTable


def simulated(rng, shifts, samples=80):
    """Runs that score the same samples, each with an error of its own; outliers lie higher."""
    base = {"test": rng.normal(0, 1, samples), "far": rng.normal(1, 1, samples)}
    rows = []
    for run, shift in enumerate(shifts):
        for dataset, values in base.items():
            scores = values + rng.normal(0, 1, samples) + shift * (dataset == "far")
            rows += [
                ScoreRow(f"seed{run}", "energy", "", dataset, scores),
                ScoreRow(f"seed{run}", "ensemble", "", dataset, values),
            ]
    runs = {f"seed{run}": {"seed": run} for run in range(len(shifts))}
    return ScoreTable("test", tuple(rows), runs)


def test_trainings_that_differ_by_chance_alone_are_seldom_told_apart():
    rng = np.random.default_rng(0)
    verdicts = [spread(simulated(rng, (0, 0, 0)), rng).claims[0].verdict for _ in range(200)]
    # 5 % at most; 200 simulations show more than 20 once in ten thousand times.
    assert verdicts.count("holds") <= 20


def test_a_training_that_is_better_is_found_and_named():
    rng = np.random.default_rng(0)
    table = simulated(rng, (0, 3, 0), samples=300)
    claim = spread(table, rng).claims[0]
    assert claim.verdict == "holds" and "(seed1)" in claim.text.partition(" to ")[2]
    lowest, highest = (
        max(min_or_max(_auroc(table, run) for run in table.runs), 0) for min_or_max in (min, max)
    )
    assert f"from {lowest:.3f}" in claim.text and f"to {highest:.3f}" in claim.text
    assert "2 of 3 pairs" in claim.evidence


def _auroc(table, run):
    inliers, outliers = (table.scores(run, "energy", name) for name in ("test", "far"))
    return float((outliers[:, None] > inliers).mean())


def test_one_training_has_no_spread_and_equal_ones_none():
    rng = np.random.default_rng(0)
    with pytest.raises(UserError, match="at least two"):
        spread(simulated(rng, (0,)), rng)
    table = simulated(rng, (0, 0))
    same = tuple(row for row in table.rows if row.detector == "ensemble")
    finding = spread(ScoreTable("test", same, table.runs), rng)
    assert "score the same" in finding.claims[0].text
    # Beside others, what cannot differ is in the table, but never the one that differs least.
    assert "ensemble" not in spread(table, rng).claims[0].text
