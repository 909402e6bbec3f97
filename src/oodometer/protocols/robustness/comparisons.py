"""Comparisons of detectors, or of levels, by robustness score or by mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.special import stdtrit

from oodometer.protocols.common.cells import Pair
from oodometer.protocols.common.comparisons import Comparison, K, compare_all
from oodometer.protocols.common.differences import FEWEST_FOR_T, compare_runs
from oodometer.protocols.common.words import LEVEL
from oodometer.protocols.robustness.runs import Runs
from oodometer.protocols.robustness.scored import Score, ScoredMetric
from oodometer.stats.comparison import Difference
from oodometer.stats.jackknife import ratio
from oodometer.stats.paired import t_test
from oodometer.stats.pairwise import difference
from oodometer.stats.unpaired import Stratum, stratified_difference


def compare_scores(
    contexts: Mapping[K, Mapping[str, Score]], called: Callable[[K], str] = str
) -> dict[K, Comparison]:
    """Compare robustness scores in every context; who has none does not take part."""
    finite = {
        context: {name: score for name, score in scores.items() if math.isfinite(score.value)}
        for context, scores in contexts.items()
    }
    values = {
        context: {name: score.value for name, score in scores.items()}
        for context, scores in finite.items()
        if scores
    }

    def compare(context: K, other: str, first: str) -> Difference:
        return _ratio(finite[context][other], finite[context][first])

    return dict(zip(values, compare_all(values, compare, called), strict=True))


def _ratio(one: Score, other: Score, level: float = LEVEL) -> Difference:
    """How many times the one score is the other.

    Of scores within the same data sets, the p-value is that of Student's paired test of their
    squares, and the interval agrees with it: with 3 to 18 sets of unlike variances, the jackknife
    of the logarithm errs in 6% to 7% of simulations, this in 3% to 4%. What training runs do may
    be alike on all sets: the ratio must stand out from that, too, and the larger p-value counts.
    """
    found = ratio(one, other, level)
    if not (one.squares.size and one.units == other.units and one.varies and other.varies):
        return found
    p_value = t_test(one.squares, other.squares, level=LEVEL).p_value
    if one.over_runs is not None and other.over_runs is not None:
        p_value = max(p_value, ratio(one.over_runs, other.over_runs, LEVEL).p_value)
    freedom, middle = one.squares.size - 1.0, math.log(found.value)
    needed = float(stdtrit(freedom, 1.0 - 0.5 * p_value))
    if not 0.0 < needed < math.inf:
        return found._replace(p_value=p_value)
    reach = abs(middle) / needed * float(stdtrit(freedom, 0.5 + 0.5 * level))
    low, high = math.exp(middle - reach), math.exp(min(middle + reach, 700.0))
    return Difference(
        found.value, low, high, p_value, lambda other_level: _ratio(one, other, other_level)[1:3]
    )


def compare_by_metric(metrics: Mapping[str, ScoredMetric]) -> dict[Pair, list[Comparison]]:
    """Compare robustness scores on each pair, by each metric."""
    contexts: dict[tuple[Pair, str], dict[str, Score]] = {}
    for label, metric in metrics.items():
        for (pair, detector), score in metric.detector_scores.items():
            contexts.setdefault((pair, label), {})[detector] = score
    return _by_pair(compare_scores(contexts, lambda context: context[1]))


def compare_means(metric: ScoredMetric) -> dict[Pair, list[Comparison]]:
    """Compare means over runs under each level, of the detectors that have all runs there.

    Few runs decide with the variance that detectors share (`compare_runs`).
    """
    sign = -1.0 if metric.results.higher_is_better else 1.0
    values = {
        (pair, level): {
            name: sign * float(metric.cells[pair, name, level].moments.mean) for name in whole
        }
        for pair in metric.pairs
        if len(whole := metric.whole(pair)) > 1
        for level in metric.levels_of(pair)
    }

    def compare(context: tuple[Pair, str], other: str, first: str) -> Difference:
        pair, level = context

        def of(own: ScoredMetric) -> Difference:
            runs = {name: own.cells[pair, name, level] for name in values[context]}
            if own.within is None:
                return _at_level(own, level, runs, other, first)
            return mean_difference([(runs[other], runs[first])])

        return _also_over_runs(metric, of)

    found = compare_all(values, compare, lambda context: context[1])
    return _by_pair(dict(zip(values, found, strict=True)))


def _at_level(
    metric: ScoredMetric, level: str, runs: Mapping[str, Runs], one: str, other: str
) -> Difference:
    """Difference of two detectors' means over the training runs under one level."""
    labels = runs[one].labels
    if len(labels) < FEWEST_FOR_T or any(own.labels != labels for own in runs.values()):
        return mean_difference([(runs[one], runs[other])])
    names, values = list(runs), np.array([own.values for own in runs.values()])
    found = compare_runs(values, metric.units_at(level, labels), bounds=metric.bounds)
    return difference(found, names.index(one), names.index(other), LEVEL)


def _by_pair(
    comparisons: Mapping[tuple[Pair, str], Comparison],
) -> dict[Pair, list[Comparison]]:
    by_pair: dict[Pair, list[Comparison]] = {}
    for (pair, _), comparison in comparisons.items():
        by_pair.setdefault(pair, []).append(comparison)
    return by_pair


def _also_over_runs(
    metric: ScoredMetric, compare: Callable[[ScoredMetric], Difference]
) -> Difference:
    """Compare means over data sets; they must stand out over the training runs on them, too.

    What a run does may be alike on all sets. One run shows nothing of that, two decide nothing.
    """
    found, runs = compare(metric), metric.on_mean_set
    if runs is None:
        return found
    over_runs = compare(runs)
    if over_runs.value * found.value < 0.0:
        return found.adjusted(1.0)
    return found.adjusted(max(found.p_value, over_runs.p_value))


def mean_lead(metric: ScoredMetric, pair: Pair, one: str, other: str) -> Difference:
    """Difference of two detectors' means over all levels of the factor."""
    return _also_over_runs(metric, lambda own: _mean_lead(own, pair, one, other))


def _mean_lead(metric: ScoredMetric, pair: Pair, one: str, other: str) -> Difference:
    """The same over data sets or over runs.

    Levels that share their units, because these are data sets or splits or are re-evaluated, are
    averaged within each unit; otherwise each level is a stratum of its own. If the factor is a
    repeat, its levels are the units.
    """
    levels = metric.levels_of(pair)
    both = [[metric.cells[pair, name, level].by_unit for level in levels] for name in (one, other)]
    if metric.shared_level:
        return _over_shared(both)
    if metric.levels_are_cases or (metric.is_over_repeats and metric.within is None):
        first, second = (np.array([runs.moments.mean for runs in own]) for own in both)
        return _of_cases([Stratum(first, second, paired=True)])
    alike = all(runs.labels == both[0][0].labels for own in both for runs in own)
    if alike and metric.has_shared_units:
        means = [
            Runs(own[0].labels, np.mean([runs.values for runs in own], axis=0), own[0].spreads)
            for own in both
        ]
        return mean_difference([(means[0], means[1])])
    return mean_difference(list(zip(*both, strict=True)))


def _over_shared(both: Sequence[Sequence[Runs]]) -> Difference:
    """The same over splits, or other repeats, that all levels of the factor have.

    Levels of which none has a split of another are strata of their own.
    """
    units = [runs.labels for runs in both[0]]
    apart = sum(map(len, units)) == len(set().union(*units))
    if len(units) > 1 and apart:
        pairs = zip(*both, strict=True)
        return _of_cases([Stratum(one.values, other.values, paired=True) for one, other in pairs])
    shared = [label for label in units[0] if all(label in own for own in units)]
    if len(shared) < FEWEST_FOR_T:
        return Difference(math.nan, -math.inf, math.inf, 1.0)
    first, second = (
        np.mean([[runs.values[runs.labels.index(u)] for u in shared] for runs in own], axis=0)
        for own in both
    )
    return _of_cases([Stratum(first, second, paired=True)])


def mean_difference(parts: Sequence[tuple[Runs, Runs]]) -> Difference:
    """Mean over parts of the difference of means over runs; paired where the runs are the same."""
    means = [(one.by_unit, other.by_unit) for one, other in parts]
    strata = [Stratum(one.values, other.values, one.labels == other.labels) for one, other in means]
    if any(own.outer for part in parts for own in part):
        return _of_cases(strata)
    return stratified_difference(strata, LEVEL)


def _of_cases(strata: Sequence[Stratum]) -> Difference:
    """The same over levels that runs share: two of them decide nothing."""
    found = stratified_difference(strata, LEVEL)
    if min(min(len(own.a), len(own.b)) for own in strata) < FEWEST_FOR_T:
        return Difference(found.value, -math.inf, math.inf, 1.0)
    return found
