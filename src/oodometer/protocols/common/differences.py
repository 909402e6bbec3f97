"""One rule for telling two detectors, or two choices, apart by paired cases."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from oodometer.finding import Verdict
from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.cases import Cases
from oodometer.protocols.common.outer_units import INDEPENDENT, OuterUnits
from oodometer.protocols.common.words import LEVEL, SIGNIFICANT, hundredths, points
from oodometer.results import Results
from oodometer.stats.comparison import Difference, Name, adjusted, holm
from oodometer.stats.paired import difference_interval, sign_flip_test, t_test
from oodometer.stats.pairwise import Pairwise, difference, from_values
from oodometer.stats.summary import UNBOUNDED
from oodometer.stats.weighting import also_over_runs

FEWEST_FOR_T = 3  # cases: two have one degree of freedom, and rounding decides
TWO_CASES = (
    "{} cannot decide anything: if both agree, the interval looks certain, although no p-value "
    "below one half is possible."
)
FEW_RUNS = 20  # with fewer, a rare failure may stay unseen: of one in ten, 10 runs show none in 35%
UNSEEN = (
    "Failures that occurred in none of these runs are not accounted for: if one run in ten fails "
    "badly, the interval of five runs covers the true mean in 6 of 10 cases."
)


class Paired(NamedTuple):
    """Values of two things in the same cases, and what these cases have in common."""

    a: Floats
    b: Floats
    units: OuterUnits = INDEPENDENT

    @property
    def size(self) -> int:
        """How many cases there are."""
        return len(self.a)

    @property
    def value(self) -> float:
        """Mean of a - b; conditions weigh the same."""
        return float(self.units.mean(self.a - self.b))

    @property
    def by_t(self) -> Difference:
        """Mean of a - b by Student's t: over cases, and over what several of them share."""
        if self.size < FEWEST_FOR_T:
            return Difference(self.value, -np.inf, np.inf, 1.0)
        values = np.array([self.a, self.b])
        return difference(compare_runs(values, self.units, shared=False), 0, 1, LEVEL)


def compare_runs(
    values: Floats,
    units: OuterUnits = INDEPENDENT,
    *,
    bounds: tuple[float, float] = UNBOUNDED,
    shared: bool = True,
) -> Pairwise:
    """Means of (rows, training runs), higher is better, and the errors of their differences.

    Every mean over training runs, under one condition or over all, is found and compared here, so
    that a page shows no two means of the same thing: conditions weigh the same, and what runs share
    counts. `shared`: rows share their variances.
    """
    found = units.compared(values, lambda own: from_values(own, bounds=bounds, shared=shared))
    return units.with_means(found, values, bounds)


def paired_difference(pair: Paired, comparisons: int, rng: np.random.Generator) -> Difference:
    """Mean of a - b with its interval and p-value: by permutation, or by t for few cases.

    The permutation test needs no normal differences, but n pairs give no p-value below 2^(1 - n):
    with 5 runs none is below 0.06, whatever the data. The p-value is not yet adjusted; for how many
    `comparisons` it will be decides whether permutation could find anything. The interval is what
    the same test does not reject: it leaves out 0 if and only if p is below the level. Runs that
    are not independent of each other, or do not count the same, cannot be permuted one by one, and
    are compared by t.
    """
    a, b, units = pair
    if not units.are_alike:
        return pair.by_t
    patterns = copy.deepcopy(rng)  # for intervals at other levels: of the same random patterns
    differing = int(np.count_nonzero(np.asarray(a) != np.asarray(b)))
    smallest = 2.0 ** (1 - max(1, differing))  # of all sign patterns, those observed and mirrored
    for_t = len(a) >= FEWEST_FOR_T
    by_t = for_t and smallest * comparisons > SIGNIFICANT  # known before all patterns are tried
    if not by_t:
        test = sign_flip_test(a, b, rng=rng, level=LEVEL)
        # Random patterns are fewer than all.
        by_t = for_t and test.smallest * comparisons > SIGNIFICANT
    if by_t:
        test = t_test(a, b, level=LEVEL)

    def interval(level: float) -> tuple[float, float]:
        if by_t:
            other = t_test(a, b, level=level)
        else:
            other = sign_flip_test(a, b, rng=copy.deepcopy(patterns), level=level)
        return other.low, other.high

    return Difference(test.value, test.low, test.high, test.p_value, interval)


def paired_interval(pair: Paired) -> Estimate:
    """Mean of a - b with the interval of Student's t."""
    if pair.units.are_alike:
        return difference_interval(pair.a, pair.b, level=LEVEL)
    return Estimate(*pair.by_t[:3])


def paired_differences(
    pairs: Mapping[Name, Paired],
    rng: np.random.Generator,
    *,
    families: int = 1,
) -> dict[Name, Difference]:
    """The same of several pairs of shares, p-values adjusted by Holm's method.

    What has no case is left out. Shares, such as AUROC, differ by 1 at most. P-values are not yet
    adjusted for the number of `families` like this one, which only helps to choose a test.
    """
    known = {name: pair for name, pair in pairs.items() if pair.size}
    if not known:
        return {}
    many = len(known) * families
    return adjusted(
        {n: _within(paired_difference(pair, many, rng)) for n, pair in known.items()}, holm
    )


def _within(found: Difference) -> Difference:
    if not np.isfinite(found[:3]).all():  # one case has no interval
        return found
    interval = found.at

    def within(level: float) -> tuple[float, float]:
        low, high = (found.low, found.high) if interval is None else interval(level)
        return max(-1.0, low), min(1.0, high)

    low, high = max(-1.0, found.low), min(1.0, found.high)
    return found._replace(low=low, high=high, at=within)


def has_shares(results: Results) -> bool:
    """Whether values are shares of 1, whose differences are written in points."""
    return results.is_share and bool(results.frame["value"].between(0.0, 1.0).all())


def bounds_of(results: Results) -> tuple[float, float]:
    """Between which values lie, turned so that higher is better."""
    if not has_shares(results):
        return UNBOUNDED
    return (0.0, 1.0) if results.higher_is_better else (-1.0, 0.0)


def compare_cases(field: Cases, ours: str = "") -> Pairwise:
    """Means over the cases of a results table, higher is better, and the errors of differences.

    Where data sets are the cases, differences must stand out over the training runs on them, too
    (`also_over_runs`). `ours` is declared in advance, where it is among the detectors.
    """

    def declared(found: Pairwise) -> Pairwise:
        return found.of_declared(field.detectors.index(ours)) if ours in field.detectors else found

    found, runs = declared(compare_values(field, field.values)), field.over_runs
    if runs is None or len(field.names) < FEWEST_FOR_T:
        return found
    many, values, units = runs.units.fewest(len(runs.names)), runs.values, runs.units
    if many < FEWEST_FOR_T:  # nor do two splits decide anything
        values, units = units.means(values), INDEPENDENT
    return also_over_runs(found, declared(_compared(runs, values, units)), many)


def compare_values(field: Cases, values: Floats, runs: Sequence[int] | None = None) -> Pairwise:
    """Means of values (detectors x cases) of a results table, higher is better, and their errors.

    `runs` says of which runs the values are, if not of all. Two cases decide nothing.
    """
    pairwise = _compared(field, values, field.units if runs is None else field.units.at(runs))
    if values.shape[1] >= FEWEST_FOR_T:
        return pairwise
    bare = tuple(Estimate(mean, mean, mean) for mean in pairwise.means.tolist())
    error = np.full_like(pairwise.error, np.inf)  # or rounding would decide
    return pairwise._replace(error=error, intervals=lambda level: bare)


def _compared(field: Cases, values: Floats, units: OuterUnits) -> Pairwise:
    """Variances are shared over training runs, whose noise detectors share, not over others.

    Means weigh conditions the same, whatever their numbers of runs.
    """
    bounds = bounds_of(field.results)
    return compare_runs(field.sign * values, units, bounds=bounds, shared=field.are_runs)


def significant(found: Mapping[str, Difference]) -> tuple[list[str], list[str]]:
    """Who gains and who loses significantly."""
    sure = {name: d.value for name, d in found.items() if d.p_value < SIGNIFICANT}
    return [n for n, value in sure.items() if value > 0], [n for n, v in sure.items() if v < 0]


def one_way(gain: object, loss: object) -> Verdict:
    """Some gain and some lose: it flips; only one of them: it holds."""
    if gain and loss:
        return "flips"
    return "holds" if gain or loss else "undecided"


def points_between(value: float, low: float, high: float) -> str:
    """Write a difference in hundredths with its interval, if it has one.

    >>> points_between(0.0123, -0.004, 0.0286), points_between(0.01, -np.inf, np.inf)
    ('1.2 points [−0.4, 2.9]', '1.0 points, without an interval')
    """
    if not np.isfinite([low, high]).all():
        return f"{points(value)}, without an interval"
    return f"{points(value)} [{hundredths(low)}, {hundredths(high)}]"
