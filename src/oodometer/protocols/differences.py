"""One rule for telling two detectors, or two choices, apart by paired cases."""

from __future__ import annotations

import numpy as np

from oodometer.metrics.counts import Floats
from oodometer.protocols.words import LEVEL, SIGNIFICANT
from oodometer.stats.comparison import Difference
from oodometer.stats.intervals import runs_interval
from oodometer.stats.paired import sign_flip_test, t_test

FEWEST_FOR_T = 3  # cases: two have one degree of freedom, and rounding decides


def paired_difference(
    a: Floats, b: Floats, comparisons: int, rng: np.random.Generator
) -> Difference:
    """Mean of a - b with its interval and p value: by permutation, or by t for few cases.

    The permutation test needs no normal differences, but n pairs give no p value below 2^(1 - n):
    with 5 runs none is below 0.06, whatever the data. The p value is not yet adjusted; for how many
    `comparisons` it will be decides whether permutation could find anything.
    """
    interval = runs_interval(a - b, rng=rng, level=LEVEL)
    test = sign_flip_test(a, b, rng=rng)
    if test.smallest * comparisons > SIGNIFICANT and len(a) >= FEWEST_FOR_T:
        test = t_test(a, b)
    return Difference(interval.value, interval.low, interval.high, test.p_value)
