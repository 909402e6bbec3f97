"""Intervals for statistics over runs: from one value per run, or from the scores of every run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, chdtri, ndtr, stdtrit

from oodometer.errors import UserError, unknown
from oodometer.metrics import METRICS, Estimate, interval
from oodometer.metrics.bootstrap import hidden_counts
from oodometer.metrics.counts import Counts, Floats, check_count, finite_scores
from oodometer.metrics.delong import area_interval, check_level
from oodometer.stats.comparison import Runs, checked_runs
from oodometer.stats.share_intervals import excess_kurtosis
from oodometer.stats.spread import Part, Spread
from oodometer.stats.summary import UNBOUNDED, Summary, mean_interval
from oodometer.stats.values import check_generator, run_values

Statistic = Callable[[Floats], float]  # of the vector of the runs' values
Method = Literal[
    "logit t", "t", "order statistics", "chi-squared", "bca", "percentile", "constant", "one run"
]
# With fewer runs than this, the resampled means do not spread as the mean does: see runs_interval.
ENOUGH_RUNS = 10
CHUNK = 1 << 20  # numbers in one chunk of resamples


class Interval(NamedTuple):
    """A value with the ends of its interval, and how they were found."""

    value: float
    low: float
    high: float
    method: Method


def mean(values: Floats) -> float:
    """The statistic unless another is named."""
    return float(values.mean())


def runs_interval(
    values: ArrayLike,
    *,
    rng: np.random.Generator,
    statistic: Statistic = mean,
    level: float = 0.95,
    bounds: tuple[float, float] = UNBOUNDED,
    resamples: int = 2000,
) -> Interval:
    """A statistic of one value per run, with an interval for other runs.

    A mean: Student's t, on the logit scale if the values have `bounds`, such as AUROC's (0, 1),
    widened towards the longer tail by Hall's correction for skewness (`skewness`), from 3 runs on.
    In simulation of 2 to 30 runs 95 % intervals cover 95 % to 97 % if the values are normal, 93 %
    to 96 % if they are AUROCs near 0.95 and `bounds` are given (without: 90 % to 96 %), 91 % to
    92 % with 2 to 5 runs and 94 % to 96 % with 10 and more if they are skewed like an exponential.
    `skewed_quantiles` has the table, and the price in width: on average 1.5, 1.3 and 1.1 times
    Student's with 3, 5 and 10 normal values. No interval covers what no run shows: if one training
    in ten fails badly, five runs cover the mean in 60 % of cases, thirty in 95 %. For the
    difference of two methods, less skewed than either, see `paired.difference_interval`.

    `np.median`: from 6 runs on (at level 0.95) interpolated between order statistics
    (Hettmansperger & Sheather 1986), which covers 94 % to 96 % whatever the distribution; with
    fewer runs Student's t with the standard error of a median of normal values, 94 % to 98 %.

    `np.std`: s sqrt(f / chi^2) with f degrees of freedom, fewer the heavier the tails look
    (`share_intervals.excess_kurtosis`): 97 % to 98 % of 3 to 40 normal values, 95 % of Student's t
    of 5 degrees, 90 % to 95 % of values as skewed as Beta(19, 1) or an exponential, where the
    bootstrap's cover 83 % of 10 and 88 % of 20 normal ones.

    Any other statistic: with ten runs and more the bias-corrected and accelerated bootstrap (Efron
    1987), its level widened as Student's t widens the normal (Hesterberg 2015,
    doi:10.1080/00031305.2015.1089789): 92 % to 97 % for quartiles and trimmed means of 10 to 40
    normal values. With fewer runs a resampled statistic never leaves the range of the values; so it
    is Student's t of the jackknife's pseudo-values, which suits smooth statistics only: 84 % to
    86 % for those of 5 values.

    One run shows no spread at all: the interval is `bounds`. Values that all agree give an interval
    without width, and the method says so. `statistic` takes the vector of values and gives a
    number, such as `np.median`.
    """
    check_level(level)
    check_generator(rng)
    statistic = mean if statistic is np.mean else statistic
    given = run_values(values, "values")
    value = float(_of_rows(statistic, given[None])[0])
    check_count(resamples, "resamples")
    low, high = _checked_bounds(bounds)
    if given.min() < low or given.max() > high:
        raise UserError(f"values must lie within the bounds {low} to {high}.")
    runs = given.size
    if runs == 1:
        return Interval(value, low, high, "one run")
    if given.min() == given.max():
        return Interval(value, value, value, "constant")
    quantile = -float(stdtrit(runs - 1, 0.5 - 0.5 * level))
    if statistic is mean:
        ends = mean_interval(Summary.of(given), level, (low, high))
        found = Interval(*ends, "logit t" if math.isfinite(high - low) else "t")
    elif statistic is np.median and 1.0 - 2.0 ** (1 - runs) >= level:
        found = _of_median(given, value, level)
    elif statistic is np.std:
        found = _of_deviation(given, value, level)
    elif runs < ENOUGH_RUNS or statistic is np.median:
        reach = quantile * math.sqrt(_variance(given, statistic))
        found = Interval(value, value - reach, value + reach, "t")
    else:
        wider = 1.0 - 2.0 * float(ndtr(-math.sqrt(runs / (runs - 1.0)) * quantile))
        found = _accelerated(given, value, statistic, wider, rng, resamples)
    return found._replace(low=max(low, found.low), high=min(high, found.high))


def _checked_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        low = high = math.nan
    if not low < high:
        raise UserError(f"bounds must be a lower and a higher number, got {bounds}.")
    return low, high


def _of_median(values: Floats, value: float, level: float) -> Interval:
    """Ends between the order statistics number d and d + 1 from below, and from above.

    Those number d from both sides hold the median in 1 - 2 P(fewer than d of n coins show heads),
    whatever the distribution; d is the last for which that is enough.
    """
    ordered, runs = np.sort(values), values.size
    held = 1.0 - 2.0 * bdtr(np.arange(runs // 2 + 1), runs, 0.5)  # by those number 1, 2, ...
    enough = int((held[: runs // 2] >= level).sum())
    excess = (held[enough - 1] - level) / (held[enough - 1] - held[enough])
    inwards = (runs - enough) * excess / (enough + (runs - 2 * enough) * excess)
    low = ordered[enough - 1] + inwards * (ordered[enough] - ordered[enough - 1])
    high = ordered[-enough] - inwards * (ordered[-enough] - ordered[-enough - 1])
    return Interval(value, float(low), float(high), "order statistics")


def _of_deviation(values: Floats, value: float, level: float) -> Interval:
    """Ends s sqrt(f / chi^2) of a standard deviation; heavy tails take degrees of freedom."""
    runs = values.size
    deviations = values - values.mean()
    freedom = runs - 1.0
    heavy = excess_kurtosis(deviations / np.abs(deviations).max(), runs)
    fewer = freedom / (1.0 + 0.5 * heavy * freedom / runs)
    spread = math.sqrt(float(deviations @ deviations) / freedom)
    tails = (0.5 - 0.5 * level, 0.5 + 0.5 * level)
    low, high = (spread * math.sqrt(fewer / float(chdtri(fewer, tail))) for tail in tails)
    return Interval(value, min(low, value), max(high, value), "chi-squared")


def _of_rows(statistic: Statistic, rows: Floats) -> Floats:
    """The statistic of each row, which must be a finite number."""
    if statistic is mean:
        return np.asarray(rows.mean(axis=-1))
    try:
        found = np.array([float(statistic(row)) for row in rows])
    except TypeError:
        raise UserError("statistic must give one number for a vector of values.") from None
    if not np.isfinite(found).all():
        raise UserError(
            f"statistic gave {found[~np.isfinite(found)][0]} for values such as "
            f"{rows[~np.isfinite(found)][0][:5].tolist()}: it must be finite."
        )
    return found


def _variance(values: Floats, statistic: Statistic) -> float:
    """(n - 1) / n times the sum of squares of the statistic without each value in turn.

    The median is not smooth enough for this jackknife: pi / 2 times the variance of the mean.
    """
    if statistic is np.median:
        return 0.5 * math.pi * float(values.var(ddof=1)) / values.size
    without = np.array([np.delete(values, run) for run in range(values.size)])
    return (values.size - 1.0) * float(_of_rows(statistic, without).var())


def _accelerated(
    values: Floats,
    value: float,
    statistic: Statistic,
    level: float,
    rng: np.random.Generator,
    resamples: int,
) -> Interval:
    """SciPy's BCa interval; percentiles where it is undefined, as for a maximum."""
    import warnings

    import scipy.stats

    def of_rows(drawn: Floats, axis: int) -> Floats:
        rows = drawn.reshape(-1, drawn.shape[-1])
        return _of_rows(statistic, rows).reshape(drawn.shape[:-1])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # degenerate: what comes out is looked at below
        result = scipy.stats.bootstrap(
            (values,),
            of_rows,
            n_resamples=resamples,
            batch=max(1, CHUNK // values.size),
            confidence_level=level,
            method="BCa",
            rng=rng,
        )
    low, high = map(float, result.confidence_interval)
    if math.isfinite(low) and math.isfinite(high):
        return Interval(value, min(low, value), max(high, value), "bca")
    ends = np.quantile(result.bootstrap_distribution, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
    return Interval(value, min(value, float(ends[0])), max(value, float(ends[1])), "percentile")


def hierarchical_interval(
    runs: Runs,
    metric: str = "auroc",
    *,
    rng: np.random.Generator,
    statistic: Statistic = mean,
    level: float = 0.95,
    shared_samples: bool = True,
    resamples: int = 500,
) -> Estimate:
    """A statistic over runs of any metric, with an interval for another training and other samples.

    `runs` are pairs (ID scores, OOD scores). Two parts of the variance are resampled, each once:
    the runs, whose values already hold what samples do to each run alone, and the samples that all
    runs share. Resampling samples within resampled runs would count the former twice. The parts
    are combined as in `comparison.mean_auroc`, which this agrees with for AUROC. `statistic` takes
    the vector of the runs' values and is the mean unless another is named, such as `np.median`.
    The mean's interval is found on the logit scale, and is never narrower than what the samples
    could hide (see `metrics.interval`, which this equals for one run). In simulation 95 %
    intervals of a mean FPR@95TPR over 2 to 10 runs cover 94 % to 98 %, of a median AUROC over 3 to
    15 runs 93 % to 98 %.

    If sample i is not the same in every run, say ``shared_samples=False``.
    """
    check_level(level)
    check_generator(rng)
    statistic = mean if statistic is np.mean else statistic
    if metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    runs = checked_runs(runs)
    check_count(resamples, "resamples", 2)
    if len(runs) == 1 and statistic is mean:
        id_scores, ood_scores = runs[0]
        return interval(metric, id_scores, ood_scores, level=level, rng=rng, resamples=resamples)
    placed = [_Placed.of(*pair, where=f" of run {number}") for number, pair in enumerate(runs)]
    values = np.array([float(METRICS[metric].of_counts(run.counts())) for run in placed])
    drawn = _drawn(placed, metric, resamples, shared_samples, rng)
    value = float(_of_rows(statistic, values[None])[0])
    spread = _spread(values, drawn, statistic, shared_samples, rng)
    smallest = min(min(run.id_size, run.ood_size) for run in placed)
    spread = spread._replace(
        sampling_freedom=max(1.0, smallest - 1.0), covariance_freedom=max(1.0, smallest - 1.0)
    )
    reach = spread.quantile(0.5 - 0.5 * level)
    if statistic is not mean:
        return Estimate(value, value - reach, value + reach)
    unseen = np.mean(
        [METRICS[metric].of_counts(hidden_counts(run.counts(), level)) for run in placed], axis=0
    )
    found = area_interval(value, reach, 0.0)
    return Estimate(
        value,
        float(np.clip(min(found.low, unseen.min()), 0.0, value)),
        float(np.clip(max(found.high, unseen.max()), value, 1.0)),
    )


def _spread(
    values: Floats,
    drawn: Floats,
    statistic: Statistic,
    shared: bool,
    rng: np.random.Generator,
) -> Spread:
    """Variance of the statistic due to the runs, and due to the samples that they share."""
    runs = values.size
    noise = drawn - drawn.mean(axis=0)
    together = noise.mean(axis=1)
    single, common = float(noise.var(axis=0, ddof=1).mean()), float(together.var(ddof=1))
    sampling = _of_rows(statistic, values + noise)
    part = Part(single, common if shared else single / runs, 1.0)
    plain = Spread.of(values, (part, Part(0.0, 0.0, 1.0)))
    # What the shared samples do moves all runs alike: scaled to its own part of the variance.
    scale = math.sqrt(plain.covariance / common) if common > 0.0 else 0.0
    moved = _of_rows(statistic, values + scale * together[:, None])
    if runs == 1:
        between = 0.0
    elif runs < ENOUGH_RUNS or statistic is mean:
        between = _variance(values, statistic)
    else:
        again = _of_rows(statistic, values[rng.integers(runs, size=drawn.shape)])
        between = float(again.var(ddof=1)) * runs / (runs - 1.0)
    return plain._replace(
        sampling=float(sampling.var(ddof=1)),
        between=between,
        covariance=float(moved.var(ddof=1)) if runs > 1 else 0.0,
    )


class _Placed(NamedTuple):
    """The samples of one run in the order of their scores."""

    order: NDArray[np.intp]  # of ID samples, then OOD samples
    starts: NDArray[np.intp]  # where each distinct score begins
    id_size: int
    ood_size: int

    @staticmethod
    def of(id_scores: ArrayLike, ood_scores: ArrayLike, *, where: str) -> _Placed:
        id_vector = finite_scores(id_scores, f"id_scores{where}")
        ood_vector = finite_scores(ood_scores, f"ood_scores{where}")
        pooled = np.concatenate([id_vector, ood_vector])
        order = np.argsort(pooled, kind="stable")
        ordered = pooled[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        return _Placed(order, starts, id_vector.size, ood_vector.size)

    def counts(self, id_times: Floats | None = None, ood_times: Floats | None = None) -> Counts:
        """How often each distinct score occurs if sample i is taken so many times."""
        if id_times is None or ood_times is None:
            id_times, ood_times = np.ones(self.id_size), np.ones(self.ood_size)
        empty_id, empty_ood = np.zeros_like(id_times), np.zeros_like(ood_times)
        id_taken = np.concatenate([id_times, empty_ood], axis=-1)[..., self.order]
        ood_taken = np.concatenate([empty_id, ood_times], axis=-1)[..., self.order]
        if self.starts.size < self.order.size:
            id_taken = np.add.reduceat(id_taken, self.starts, axis=-1)
            ood_taken = np.add.reduceat(ood_taken, self.starts, axis=-1)
        return Counts.of_counts(id_taken, ood_taken, self.id_size, self.ood_size)


def _drawn(
    placed: list[_Placed], metric: str, resamples: int, shared: bool, rng: np.random.Generator
) -> Floats:
    """The metric of each run (resamples, runs) on resampled samples, the same ones if shared."""
    sizes = {(run.id_size, run.ood_size) for run in placed}
    if shared and len(sizes) > 1:
        raise UserError(
            "The runs have different numbers of scores; if they do not share their test samples, "
            "pass shared_samples=False."
        )
    of_counts = METRICS[metric].of_counts
    drawn = np.empty((resamples, len(placed)))
    step = max(1, CHUNK // max(run.order.size for run in placed))
    for start in range(0, resamples, step):
        number = min(step, resamples - start)
        for column, run in enumerate(placed):
            if column == 0 or not shared:
                times = _times(run.id_size, number, rng), _times(run.ood_size, number, rng)
            drawn[start : start + number, column] = of_counts(run.counts(*times))
    return drawn


def _times(size: int, number: int, rng: np.random.Generator) -> Floats:
    """How often each of `size` samples is drawn, `number` times (number, size)."""
    drawn = rng.integers(size, size=(number, size)) + size * np.arange(number)[:, None]
    counted = np.bincount(drawn.ravel(), minlength=number * size)
    return counted.reshape(number, size).astype(np.float64)
