"""Conditions that have different numbers of runs."""

import numpy as np
import pandas as pd
import pytest

from oodometer.factors import Factor
from oodometer.protocols.common.outer_units import OuterUnits
from oodometer.protocols.ranking.protocol import ranking_of
from oodometer.results import Results
from oodometer.stats.pairwise import difference, from_values
from oodometer.stats.weighting import also_weighted, weighted_freedom, weighted_values


def test_weighted_values_have_the_weighted_mean_and_its_robust_error():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(3, 12)), rng.uniform(0.5, 2.0, size=12)
    shares = weights / weights.sum()
    found = weighted_values(values, weights)
    means = values @ shares
    assert found.mean(axis=1) == pytest.approx(means)
    robust = 12 / 11 * ((shares * (values - means[:, None])) ** 2).sum(axis=1)
    assert found.var(axis=1, ddof=1) / 12 == pytest.approx(robust)
    assert weighted_values(values, np.ones(12)) == pytest.approx(values)


def test_degrees_of_freedom_are_those_of_the_conditions():
    assert weighted_freedom([4, 4, 4]) == pytest.approx(9.0)
    assert 1.0 < weighted_freedom([30, 2]) < 1.2
    assert weighted_freedom([5, 1]) > 0.0


def test_a_difference_stands_out_by_both_weightings_or_not_at_all():
    plain = from_values([[3.0, 3.1, 2.9, 3.2], [1.0, 1.1, 0.9, 1.2], [1.0, 1.1, 0.9, 1.2]])
    turned = plain._replace(means=plain.means[[1, 0, 2]])
    found = also_weighted(plain, turned, 0.0)
    assert difference(found, 0, 1).p_value == 1.0
    assert found.error[1, 2] == plain.error[1, 2]  # equal ones stay equal
    less = also_weighted(plain, plain._replace(error=2.0 * plain.error), 1.0)
    assert less.error == pytest.approx(2.0 * plain.error)
    assert less.df == pytest.approx(plain.df - 1.0)


def optimizers(rng, counts, effects):
    """Detectors that are equal but for what each optimizer does to them, with so many seeds."""
    lines = [
        {"detector": f"d{d}", "id": "x", "ood": "o", "optimizer": name, "seed": str(seed),
         "value": 0.8 + effect[n] + rng.normal(0, 0.005)}
        for d, effect in enumerate(effects)
        for n, (name, count) in enumerate(counts.items())
        for seed in range(count)
    ]  # fmt: skip
    factors = (Factor("optimizer"), Factor("seed", "repeat"))
    return Results(pd.DataFrame(lines), factors, "auroc", True)


COUNTS = {"adam": 10, "sgd": 5, "rmsprop": 3}


def test_nobody_leads_because_its_condition_has_the_most_runs():
    """The first is better under adam, which has 10 of 18 runs, and as much worse under rmsprop."""
    effects = ((0.03, 0.0, -0.03), (-0.03, 0.0, 0.03), (0.0, 0.0, 0.0))
    for seed in range(3):
        table = optimizers(np.random.default_rng(seed), COUNTS, effects)
        finding = ranking_of(table, np.random.default_rng(0))
        leads = {claim.verdict for claim in finding.claims if claim.theme == "leads"}
        assert leads == {"undecided"}
    told = "from 3 (optimizer=rmsprop) to 10 (optimizer=adam)"
    assert any(told in caveat for caveat in finding.caveats)


def test_a_lead_under_every_condition_is_found_whatever_their_numbers_of_runs():
    for seed in range(3):
        table = optimizers(np.random.default_rng(seed), COUNTS, ((0.02,) * 3, (0.0,) * 3))
        first, *_ = ranking_of(table, np.random.default_rng(0)).claims
        assert first.verdict == "holds" and first.text.startswith("d0 has the highest")


def test_equal_numbers_of_runs_change_nothing():
    runs = [{"optimizer": o, "seed": s} for o in "ab" for s in range(3)]
    units = OuterUnits.of(runs, [Factor("optimizer"), Factor("seed", "repeat")])
    assert not units.counts and not units.caveats(6)
    assert units.at([0, 1, 2, 3]).counts == {"optimizer=a": 3, "optimizer=b": 1}
