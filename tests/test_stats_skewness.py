"""The skewness of many rows: level, and what moves all rows alike."""

import numpy as np

from oodometer.stats.skewness import common_skewness


def test_the_skewness_of_many_rows_is_judged_as_often_wrongly_as_it_says():
    rng = np.random.default_rng(5)
    found = [common_skewness(rng.normal(size=(8, 6)))[1] < 0.05 for _ in range(600)]
    assert np.mean(found) < 0.05 + 2.6 * np.sqrt(0.05 * 0.95 / 600)
    # What moves all rows in one run is no skewness of differences.
    common = rng.exponential(size=(1, 12)) * 9.0
    assert common_skewness(rng.normal(size=(10, 12)) + common)[1] > 0.05
    skewed, chance = common_skewness(rng.exponential(size=(10, 12)))
    assert skewed > 0.5 and chance < 0.01
    assert common_skewness(rng.exponential(size=(3, 12))) == (0.0, 1.0)
