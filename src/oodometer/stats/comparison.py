"""AUROC over several training runs: mean, difference of two detectors, correction for many tests.

Two things vary: the training (each run is one of the classifiers that could have been trained) and
the test samples (drawn once, and the same in every run). Readers and cases in diagnostic radiology
are the same problem, so the variance is theirs: Obuchowski & Rockette 1995 with DeLong covariances,
as in Hillis 2007, doi:10.1002/sim.2532.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from oodometer.errors import UserError
from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats, check_count
from oodometer.metrics.delong import (
    area_interval,
    check_level,
    hidden_share,
    placements,
)
from oodometer.stats.spread import Spread, Widening, per_run, plain, sample_part, widenings

Runs = Sequence[tuple[ArrayLike, ArrayLike]]
Name = TypeVar("Name", bound=Hashable)  # of what is compared


class Difference(NamedTuple):
    """A difference, its interval, and the chance of one at least as large if there were none."""

    value: float
    low: float
    high: float
    p_value: float
    # The interval at another level, by the same test; None: it cannot be adjusted.
    at: Callable[[float], tuple[float, float]] | None = None
    own_p_value: float | None = None  # before adjustment; None: not adjusted yet

    def adjusted(self, p_value: float) -> Difference:
        """The same with an adjusted p-value, and the interval that agrees with it.

        A p-value that is c times as large belongs to the test at the level of 5% / c: its interval
        leaves out 0 if and only if the adjusted p-value is below 5%.
        """
        own = self.p_value if self.own_p_value is None else self.own_p_value
        low, high = self.low, self.high
        if self.at is not None and p_value > own > 0.0:
            low, high = self.at(1.0 - 0.05 * own / p_value)
        return self._replace(low=low, high=high, p_value=p_value, own_p_value=own)

    @property
    def estimate(self) -> Estimate | float:
        """The difference with its interval; a bare number if it has none."""
        return Estimate(*self[:3]) if all(map(math.isfinite, self[:3])) else self.value


@dataclass(frozen=True, eq=False)
class Placements:
    """Where every sample of every run lies among the samples of the other group.

    All that AUROC's mean, differences and variances need; build it once per detector and OOD set,
    and compare it with as many others as you like.
    """

    id: Floats  # share of OOD samples above each ID sample, the runs one after another
    ood: Floats  # share of ID samples below each OOD sample, the runs one after another
    id_sizes: NDArray[np.intp]  # per run
    ood_sizes: NDArray[np.intp]
    shared_samples: bool

    @staticmethod
    def of_runs(runs: Runs, *, shared_samples: bool = True) -> Placements:
        """Place the samples of each run (ID scores, OOD scores).

        `shared_samples`: sample i is the same in every run. If the test samples differ between
        runs (as with a split into training and test that varies), say False.
        """
        placed = [
            placements(id_scores, ood_scores, where=f" of run {number}")
            for number, (id_scores, ood_scores) in enumerate(checked_runs(runs))
        ]
        sizes = np.array([(id_.size, ood.size) for id_, ood in placed], dtype=np.intp)
        if shared_samples and (different := np.flatnonzero((sizes != sizes[0]).any(axis=1))).size:
            number = different[0]
            raise UserError(
                f"Run {number} has {sizes[number, 0]} ID and {sizes[number, 1]} OOD scores where "
                f"run 0 has {sizes[0, 0]} and {sizes[0, 1]}; if the runs do not share their test "
                "samples, pass shared_samples=False."
            )
        return Placements(
            id=np.concatenate([id_ for id_, _ in placed]),
            ood=np.concatenate([ood for _, ood in placed]),
            id_sizes=sizes[:, 0],
            ood_sizes=sizes[:, 1],
            shared_samples=shared_samples,
        )

    @cached_property
    def values(self) -> Floats:
        """AUROC of each run."""
        return per_run(self.ood, self.ood_sizes) / self.ood_sizes


def checked_runs(runs: Runs) -> Runs:
    """Return pairs (ID scores, OOD scores), one per run, or raise a `UserError`."""
    if not hasattr(runs, "__len__") or isinstance(runs, Mapping | str):
        raise UserError("runs must be a list of pairs (ID scores, OOD scores), one per run.")
    if not len(runs):
        raise UserError("runs is empty: at least one run is needed.")
    for number, pair in enumerate(runs):
        if not hasattr(pair, "__len__") or len(pair) != 2:
            raise UserError(f"Run {number} is not a pair (ID scores, OOD scores).")
    return runs


def _placements(runs: Runs | Placements, shared_samples: bool) -> Placements:
    if isinstance(runs, Placements):
        return runs
    return Placements.of_runs(runs, shared_samples=shared_samples)


def _hidden(placed: Placements, level: float) -> float:
    return hidden_share(int(placed.id_sizes.min()), int(placed.ood_sizes.min()), level)


def mean_auroc(
    runs: Runs | Placements,
    level: float = 0.95,
    *,
    shared_samples: bool = True,
    retraining: bool = True,
) -> Estimate:
    """Mean AUROC over runs, with a confidence interval for retraining and new test samples.

    Without `retraining` it is for new test samples and these very runs.

    Variance: (variance over runs) / R + (DeLong covariance between runs), with Student's quantiles;
    on the logit scale and never narrower than what the samples could hide, as in
    `metrics.auroc_interval`, which this equals for one run. One run cannot show what training
    does: its interval is for other samples only. If the runs do not share their test samples, the
    variance over runs holds both effects, and there is no covariance.

    In simulation of 2 to 20 runs 95% intervals cover 93% to 98% if separations are normal, more
    with few samples than with many (91% to 96% if they spread so far that AUROC goes from 0.5 to
    1); 79% to 95% if failures of runs are skewed like an exponential. Widening for the skewness
    that few runs show gains 2 to 4 points there, and covers the mean of normal ones in 97% to 99%.
    """
    check_level(level)
    placed = _placements(runs, shared_samples)
    value = min(1.0, float(placed.values.mean()))
    bound = value * (1.0 - value)
    parts = (
        sample_part(placed.id, placed.id_sizes, placed.shared_samples, bound),
        sample_part(placed.ood, placed.ood_sizes, placed.shared_samples, bound),
    )
    spread = Spread.of(placed.values, parts)
    if not retraining:
        spread = Spread(spread.sampling, spread.sampling_freedom)
    return area_interval(value, spread.quantile(0.5 - 0.5 * level), _hidden(placed, level))


def auroc_difference(
    runs_a: Runs | Placements,
    runs_b: Runs | Placements,
    level: float = 0.95,
    *,
    shared_samples: bool = True,
) -> Difference:
    """Mean over runs of AUROC(a) - AUROC(b), paired over runs and samples, with its test.

    Run r of a and of b must be scores of the same samples by the same classifier. The variance is
    that of `mean_auroc`, for the differences of AUROC per run and of placements per sample
    (DeLong et al. 1988). If nothing varies at all, the interval is what the samples could hide.

    If runs are skewed, as near AUROC = 1, the interval is wider on the longer side (`widenings`),
    and the test says the same: p < 5% if and only if the 95% interval leaves out 0. Equal normal
    runs pay with 1.6, 1.2 and 1.1 times Student's width with 3, 5 and 9 runs.

    Equal detectors differ significantly in at most 5%: 1% to 4% in simulation of 2 to 9 runs, least
    near AUROC = 1; 4% to 6% if one of them varies three to twelve times as much as the other, or
    if both are skewed like an exponential in opposite directions (Student's t alone: 6% to 11%).
    What runs hardly show no test can allow for (Bahadur & Savage 1956, Annals of Mathematical
    Statistics 27:1115-1122): 8% to 12% if only the runs of one detector are skewed like an
    exponential (Student's t alone: 13% to 18%).
    """
    check_level(level)
    a, b = _placements(runs_a, shared_samples), _placements(runs_b, shared_samples)
    if a.shared_samples != b.shared_samples:
        raise UserError("runs_a and runs_b differ in shared_samples; pass both in the same way.")
    if a.id_sizes.size != b.id_sizes.size:
        raise UserError(
            f"runs_a has {a.id_sizes.size} runs and runs_b {b.id_sizes.size}: a paired comparison "
            "needs the same runs."
        )
    if not (np.array_equal(a.id_sizes, b.id_sizes) and np.array_equal(a.ood_sizes, b.ood_sizes)):
        raise UserError(
            "runs_a and runs_b have different numbers of scores: a paired comparison needs scores "
            "of the same samples."
        )
    values = a.values - b.values
    value = float(values.mean())
    parts = (
        sample_part(a.id - b.id, a.id_sizes, a.shared_samples, 1.0 - value**2),
        sample_part(a.ood - b.ood, a.ood_sizes, a.shared_samples, 1.0 - value**2),
    )
    spread = Spread.of(values, parts)
    tail = 0.5 - 0.5 * level
    if spread.sampling + spread.between == 0.0:
        spread = Spread((_hidden(a, level) / float(ndtri(tail))) ** 2, math.inf)
    below: Widening = plain
    above: Widening = plain
    if values.size > 1:
        below, above = widenings(
            a.values, b.values, min(int(a.id_sizes.min()), int(a.ood_sizes.min()))
        )
    return Difference(
        value,
        max(-1.0, value - spread.quantile(tail, below)),
        min(1.0, value + spread.quantile(tail, above)),
        spread.p_value(value, below if value > 0.0 else above),
        lambda other: auroc_difference(a, b, other)[1:3],
    )


def holm(p_values: ArrayLike, *, among: int | None = None) -> Floats:
    """P-values adjusted so that rejecting those below 5% errs at all in 5% of families at most.

    The k-th smallest of n is multiplied by n + 1 - k, and none is smaller than the one before it
    in that order. Holm 1979, Scandinavian Journal of Statistics 6:65-70. If results decided which
    tests of a family are looked at, say how many there are in all, `among`: it stands for n.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    given = _p_values(p_values)
    number = given.size if among is None else among
    check_count(number, "among", 0)
    if number < given.size:
        raise UserError(
            f"among must be at least the number of p_values, {given.size}, got {among}."
        )
    order = np.argsort(given, kind="stable")
    adjusted = np.maximum.accumulate(given[order] * (number - np.arange(given.size)))
    result = np.empty_like(given)
    result[order] = np.minimum(adjusted, 1.0)
    return result


def against_best(p_values: ArrayLike) -> Floats:
    """P-values of the best of k methods against the k - 1 others, adjusted for its having won.

    Whoever is best by chance has been compared with everybody: the family is all k (k - 1) / 2
    pairs. Holm's method for the k - 1 alone would tell equal methods apart in 6% of cases with
    k = 3, 13% with 10 and 20% with 20. But if the best beats even the nearest of the others,
    the largest p-value says so for all of them: none is adjusted to more than that.
    """
    given = _p_values(p_values)
    if not given.size:
        return given
    pairs = given.size * (given.size + 1) // 2
    return np.minimum(holm(given, among=pairs), np.max(given))


def adjusted(
    differences: Mapping[Name, Difference], adjust: Callable[[ArrayLike], Floats] = holm
) -> dict[Name, Difference]:
    """Differences whose p-values are adjusted for all of them, such as by `against_best`."""
    return with_p_values(differences, adjust([d.p_value for d in differences.values()]).tolist())


def with_p_values(
    differences: Mapping[Name, Difference], p_values: Sequence[float]
) -> dict[Name, Difference]:
    """The same differences, with these p-values in their order."""
    return {
        name: difference.adjusted(p)
        for (name, difference), p in zip(differences.items(), p_values, strict=True)
    }


def over_families(families: Sequence[ArrayLike]) -> list[Floats]:
    """Adjust p-values that are adjusted within their families for the number of families, too.

    Holm's method for families: each of m is tested at its m-th part of the level, and one of which
    all are rejected leaves its part to the others. Of families with one p-value each it is `holm`.
    """
    given = [_p_values(family) for family in families]
    many = len(given)
    adjusted: list[Floats] = [family.copy() for family in given]
    passed = [0.0]  # level at which the first s families are rejected as a whole
    order = sorted(range(many), key=lambda number: float(given[number].max(initial=0.0)))
    for step, number in enumerate(order):
        family = given[number]
        ways = [np.maximum(passed[s], (many - s) * family) for s in range(step + 1)]
        adjusted[number] = np.minimum(np.min(ways, axis=0), 1.0)
        passed.append(max(passed[-1], (many - step) * float(family.max(initial=0.0))))
    return adjusted


def _p_values(p_values: ArrayLike) -> Floats:
    try:
        given = np.asarray(p_values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError("p_values must be a vector of real numbers.") from None
    if given.ndim != 1:
        raise UserError(f"p_values must be a vector, got shape {given.shape}.")
    if not ((given >= 0.0) & (given <= 1.0)).all():
        raise UserError("p_values must lie between 0 and 1.")
    return given
