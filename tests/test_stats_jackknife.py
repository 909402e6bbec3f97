"""Jackknife, strata and one-sided tests: closed forms and SciPy."""

import math

import numpy as np
import pytest
import scipy.stats

from oodometer.stats.jackknife import PositiveStatistic, jackknife, ratio
from oodometer.stats.pairwise import from_values, one_sided_p_values
from oodometer.stats.unpaired import Stratum, stratified_difference


def left_out(values, statistic):
    return np.array([statistic(np.delete(values, place)) for place in range(len(values))])


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(0).normal(size=9)
    found = jackknife(left_out(values, np.mean), values.mean())
    assert found == pytest.approx((scipy.stats.sem(values) ** 2, 8, 0), abs=1e-12)


def test_the_bias_of_a_variance_divided_by_n_is_found():
    values = np.random.default_rng(1).normal(size=9)
    found = jackknife(left_out(values, np.var), values.var())
    assert values.var() - found.bias == pytest.approx(values.var(ddof=1))


def test_strata_add_up():
    rng = np.random.default_rng(2)
    parts = rng.normal(size=5), rng.normal(size=7)
    sums = [left_out(part, np.mean) + other.mean() for part, other in (parts, parts[::-1])]
    found = jackknife(np.concatenate(sums), sum(p.mean() for p in parts), np.array([5, 7]))
    assert found.variance == pytest.approx(sum(scipy.stats.sem(p) ** 2 for p in parts))


def scale(values, names):
    return PositiveStatistic(
        value=float(values.mean()),
        units=tuple((name,) for name in names),
        logs=np.log(left_out(values, np.mean)),
        strata=np.array([len(values)]),
    )


def test_ratios_are_paired_where_units_are_the_same():
    rng = np.random.default_rng(3)
    values = rng.uniform(1, 3, 8)
    one, same, other = scale(2 * values, "abcdefgh"), scale(values, "abcdefgh"), scale(values, "x")
    paired = ratio(one, same, 0.95)
    assert paired[:3] == pytest.approx((2, 2, 2))
    assert paired.p_value == 2.0**-7  # without any error, the signs of eight units
    apart = ratio(one, other, 0.95)
    assert apart.value == pytest.approx(2) and apart.low < 1.7 < 2.4 < apart.high


@pytest.mark.parametrize("paired", [True, False])
def test_one_stratum_is_scipys_t_test(paired):
    rng = np.random.default_rng(4)
    a, b = rng.normal(0.8, 1, 6), rng.normal(size=6)
    found = stratified_difference([Stratum(a, b, paired)])
    test = scipy.stats.ttest_rel(a, b) if paired else scipy.stats.ttest_ind(a, b, equal_var=False)
    assert found[:4] == pytest.approx((np.mean(a - b), *test.confidence_interval(), test.pvalue))


def test_strata_have_the_same_weight_and_single_runs_no_interval():
    rng = np.random.default_rng(5)
    strata = [Stratum(rng.normal(size=n), rng.normal(size=n), True) for n in (4, 9)]
    found = stratified_difference(strata)
    assert found.value == pytest.approx(np.mean([np.mean(s.a - s.b) for s in strata]))
    errors = [scipy.stats.sem(s.a - s.b) / 2 for s in strata]
    reach = 0.5 * (found.high - found.low) / math.hypot(*errors)
    assert scipy.stats.t.ppf(0.975, 11) < reach < scipy.stats.t.ppf(0.975, 3)
    alone = stratified_difference([Stratum(np.ones(1), np.zeros(1), True)])
    assert alone[:4] == (1.0, -math.inf, math.inf, 1.0)


def test_one_sided_p_values_are_scipys():
    values = np.random.default_rng(6).normal(size=(3, 5)) + np.array([[0.0], [0.5], [3.0]])
    found = one_sided_p_values(from_values(values, shared=False))
    for row in range(3):
        for other in range(3):
            if row != other:
                test = scipy.stats.ttest_rel(values[row], values[other], alternative="greater")
                assert found[row, other] == pytest.approx(test.pvalue)
    agreeing = one_sided_p_values(from_values([[1.0] * 5, [2.0] * 5], shared=False))
    assert agreeing == pytest.approx(np.array([[1, 1 - 2**-5], [2**-5, 1]]))
