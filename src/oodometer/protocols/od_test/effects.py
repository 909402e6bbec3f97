"""Means over experiments, and differences of them, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.metrics.delong import welch_freedom
from oodometer.protocols.common.words import LEVEL
from oodometer.protocols.od_test.experiments import Experiment, Method, Outcome, Source
from oodometer.stats.comparison import Difference
from oodometer.stats.jackknife import jackknife

CHANCE = 0.5
FEWEST_SETS = 4  # outlier sets for an interval: with 3, tests at 5% err in 10% of simulations


@dataclass(frozen=True, eq=False)
class Effect:
    """A number per experiment, on one or more sources; its mean over experiments is of interest.

    Outlier sets, ID test samples and, if there are several, training runs vary.
    """

    sources: tuple[Source, ...]
    outcomes: tuple[Outcome, ...]  # one per source

    @cached_property
    def cells(self) -> Floats:
        """Mean over runs of each experiment, the sources one after another."""
        return np.concatenate([outcome.accuracy.mean(axis=0) for outcome in self.outcomes])

    @cached_property
    def experiments(self) -> tuple[Experiment, ...]:
        """Validation and test set of each cell."""
        return tuple(pair for source in self.sources for pair in source.experiments)

    @property
    def value(self) -> float:
        """The mean over experiments, each with the same weight."""
        return float(self.cells.mean())

    @property
    def figure_reach(self) -> float | None:
        """Half the interval of the paper's figures: 1.96 standard errors over experiments.

        It treats experiments as independent, though they share their data sets.
        """
        if self.cells.size < 2:
            return None
        return 1.96 * float(self.cells.std(ddof=1)) / math.sqrt(self.cells.size)

    def minus(self, other: Effect | float) -> Effect:
        """The difference, experiment by experiment, run by run, sample by sample."""
        if isinstance(other, float):
            shifted = (here._replace(accuracy=here.accuracy - other) for here in self.outcomes)
            return Effect(self.sources, tuple(shifted))
        pairs = zip(self.outcomes, other.outcomes, strict=True)
        return Effect(
            self.sources,
            tuple(
                Outcome(
                    a.accuracy - b.accuracy,
                    tuple(x - y for x, y in zip(a.accepted, b.accepted, strict=True)),
                    (*a.unseen, *b.unseen),
                )
                for a, b in pairs
            ),
        )

    @cached_property
    def _parts(self) -> list[tuple[float, float]]:
        """Variances of the mean with their degrees of freedom: sets, samples, training runs."""
        parts = [self._over_sets()]
        for source, outcome in zip(self.sources, self.outcomes, strict=True):
            weight = len(source.experiments) / self.cells.size
            runs = len(outcome.accepted)
            # An ID sample that is accepted counts one half: balance gives the other to outliers.
            shares = (
                [np.mean(outcome.accepted, axis=0)] if source.same_samples else outcome.accepted
            )
            spread = sum(float(s.var()) / max(s.size - 1, 1) for s in shares) / len(shares) ** 2
            parts.append((0.25 * weight**2 * spread, float(min(s.size for s in shares) - 1 or 1)))
            if runs > 1:
                means = outcome.accuracy.mean(axis=1)
                parts.append((weight**2 * float(means.var(ddof=1)) / runs, runs - 1.0))
            parts += [(weight**2 * variance, freedom) for variance, freedom in outcome.unseen]
        return parts

    def _over_sets(self) -> tuple[float, float]:
        """Variance by leaving out each outlier set, as validation and as test set, everywhere."""
        names = list(dict.fromkeys(name for pair in self.experiments for name in pair))
        left = []
        for name in names:
            kept = np.array([name not in pair for pair in self.experiments])
            if not kept.any() or len(names) < FEWEST_SETS:
                return math.inf, 1.0
            left.append(float(self.cells[kept].mean()))
        variance, freedom, _ = jackknife(left, self.value)
        return variance, freedom

    @property
    def known(self) -> bool:
        """Whether there are outlier sets enough for an interval."""
        return all(math.isfinite(variance) for variance, _ in self._parts)

    @property
    def _hidden(self) -> float:
        """What samples without a single error could hide: about 3 / n, the rule of three."""
        smallest = min(source.samples for source in self.sources)
        return float(1.0 - (1.0 - LEVEL) ** (1.0 / max(smallest, 1)))

    def difference(self, level: float = LEVEL) -> Difference:
        """The mean with interval and p-value against 0; everything is possible if not `known`."""
        value = self.value
        if not self.known:
            return Difference(value, -1.0, 1.0, 1.0)
        if all(not outcome.accuracy.any() for outcome in self.outcomes):
            return Difference(0.0, -self._hidden, self._hidden, 1.0)
        floor = (self._hidden / float(ndtri(0.5 + 0.5 * LEVEL))) ** 2
        error = math.sqrt(sum(variance for variance, _ in self._parts) + floor)
        freedom = welch_freedom([*self._parts, (floor, math.inf)])
        reach = float(stdtrit(freedom, 0.5 + 0.5 * level)) * error
        p_value = 2.0 * float(stdtr(freedom, -abs(value) / error))
        return Difference(
            value,
            max(-1.0, value - reach),
            min(1.0, value + reach),
            p_value,
            lambda other: self.difference(other)[1:3],
        )

    def estimate(self) -> Estimate | None:
        """An accuracy with its interval, or None if there are too few outlier sets for one."""
        if not self.known:
            return None
        value, low, high, *_ = self.difference()
        return Estimate(value, max(low, 0.0), min(high, 1.0))


def mean_effect(effects: Sequence[Effect]) -> Effect:
    """The mean of several effects on the same sources."""
    stacked = zip(*(effect.outcomes for effect in effects), strict=True)
    return Effect(
        effects[0].sources,
        tuple(
            Outcome(
                np.mean([outcome.accuracy for outcome in outcomes], axis=0),
                tuple(
                    np.mean(shares, axis=0)
                    for shares in zip(*(outcome.accepted for outcome in outcomes), strict=True)
                ),
                tuple(
                    (variance / len(effects) ** 2, freedom)
                    for outcome in outcomes
                    for variance, freedom in outcome.unseen
                ),
            )
            for outcomes in stacked
        ),
    )


@dataclass(frozen=True, eq=False)
class Accuracies:
    """All that claims and tables are made from."""

    sources: tuple[Source, ...]

    @cached_property
    def methods(self) -> tuple[str, ...]:
        """Methods that took part in every experiment on every source, best first."""
        common = [
            name
            for name in dict.fromkeys(name for source in self.sources for name in source.methods)
            if all(name in source.methods for source in self.sources)
        ]
        return tuple(sorted(common, key=lambda name: -self.three[name].value))

    @cached_property
    def three(self) -> Mapping[str, Effect]:
        """Accuracy with a threshold learned on another outlier set than the one tested."""
        return self._effects(lambda method: method.three)

    @cached_property
    def two(self) -> Mapping[str, Effect]:
        """Accuracy with a threshold learned on the outlier set that is tested."""
        return self._effects(lambda method: method.two)

    @cached_property
    def none(self) -> Mapping[str, Effect]:
        """Accuracy with a threshold from ID data only, where there is one."""
        return self._effects(lambda method: method.none)

    def _effects(self, way: Callable[[Method], Outcome | None]) -> dict[str, Effect]:
        effects = {}
        for name in dict.fromkeys(name for source in self.sources for name in source.methods):
            outcomes = [
                way(source.methods[name]) for source in self.sources if name in source.methods
            ]
            whole = tuple(outcome for outcome in outcomes if outcome is not None)
            if len(whole) == len(self.sources):
                effects[name] = Effect(self.sources, whole)
        return effects

    def on(self, source: Source) -> Accuracies:
        """The same on one source alone."""
        return Accuracies((source,))
