"""Runs that differ in one factor only: their values, ranks and spread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.factors import Factor, Kind, names
from oodometer.metrics import METRICS, Estimate
from oodometer.protocols.common.cases import comparable, retrained
from oodometer.protocols.common.cells import (
    Cells,
    Pair,
    cells_of,
    require_metric_values,
    set_word,
)
from oodometer.protocols.common.differences import FEWEST_FOR_T, bounds_of, compare_runs
from oodometer.protocols.common.outer_units import OuterUnits
from oodometer.protocols.common.training_runs import independent_changes, run_word
from oodometer.protocols.common.words import count
from oodometer.results import Results
from oodometer.stats.deviation import (
    deviation_interval,
    deviations_p_value,
    pooled_variance,
)
from oodometer.stats.pairwise import Pairwise, one_sided_p_values
from oodometer.stats.ranks import rank_matrix


@dataclass(frozen=True, eq=False)
class Spread:
    """Every detector on one outlier set, in runs that differ in one factor."""

    factor: str
    kind: Kind  # of the factor
    set: str
    set_word: str  # what readers call such a set
    run_word: str  # and a run: if no two were trained alike, each is a condition of its own
    metric: str
    higher_is_better: bool
    is_share: bool  # values are fractions, told in hundredths
    bounds: tuple[float, float]  # of values, turned so that higher is better
    detectors: tuple[str, ...]
    levels: tuple[str, ...]
    level: tuple[str, ...]  # of each run
    groups: NDArray[np.int64]  # of each run: runs of one group agree in all other factors
    contexts: NDArray[np.int64]  # of each run: the same, but for repeats such as the seed
    conditions: NDArray[np.int64]  # of each run: the same, but for repeats and re-evaluations
    trained: NDArray[np.int64]  # of each run: the training run that it evaluates
    values: NDArray[np.float64]  # (detectors, runs)
    accuracy: NDArray[np.float64] | None
    units: OuterUnits  # what the runs have in common, such as a split
    changes: int  # independent changes of the factor: re-evaluations of one training run are none
    published: bool = False
    is_mean: bool = False  # over several data sets

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.level)

    @property
    def training_runs(self) -> int:
        """How many training runs are evaluated."""
        return len(np.unique(self.trained))

    @property
    def independent_runs(self) -> int:
        """How many training runs there are, or levels of a split, or other repeat, they share."""
        return self.units.fewest(self.training_runs)

    @property
    def tried(self) -> str:
        """What conclusions rest on: evaluations of one training run are not several runs."""
        if self.training_runs == self.runs:
            return count(self.runs, self.run_word)
        return f"{count(self.runs, 'evaluation')} of {count(self.training_runs, 'training run')}"

    @property
    def is_condition(self) -> bool:
        """Whether another level is another training run under another condition.

        Then a change may be due to retraining and not to the condition. A seed only retrains, and
        an epoch re-evaluates the same training run.
        """
        return self.kind == "condition"

    @cached_property
    def places(self) -> list[tuple[int, NDArray[np.intp]]]:
        """Context and runs of each level that was repeated often enough for a test."""
        levels = np.array(self.level)
        found = []
        for context in np.unique(self.contexts):
            for level in self.levels:
                here = np.flatnonzero((self.contexts == context) & (levels == level))
                if here.size >= FEWEST_FOR_T:
                    found.append((int(context), here))
        return found

    def significantly_flipped(self, chance: float) -> NDArray[np.bool_]:
        """(detectors, detectors): whether each is significantly ahead of the other at some level.

        Student's one-sided test of paired differences at each level, over its runs and over what
        several of them share; the other levels of the same context are compared. Both must be so,
        hence no further correction for the two.
        """
        size = len(self.detectors)
        ahead: dict[int, NDArray[np.bool_]] = {}
        for context, here in self.places:
            known = ahead.setdefault(context, np.zeros((size, size), dtype=bool))
            known |= one_sided_p_values(self.compared(here, shared=False)) < chance
        flipped = np.zeros((size, size), dtype=bool)
        for known in ahead.values():
            flipped |= known & known.T
        return flipped

    def compared(self, runs: NDArray[np.intp], *, shared: bool = True) -> Pairwise:
        """Compare detectors over some training runs, and over what several of these have in common.

        Re-evaluations of a training run are averaged. `shared`: variances are.
        """
        values, units = self.by_training_run(self.values, runs)
        signed = values if self.higher_is_better else -values
        return compare_runs(signed, units, bounds=self.bounds, shared=shared)

    def by_training_run(
        self, values: NDArray[np.float64], runs: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], OuterUnits]:
        """(rows, training runs) of (rows, runs), some of them, and what these have in common."""
        trained = self.trained[runs]
        members = [runs[trained == own] for own in np.unique(trained)]
        means = np.stack([values[:, own].mean(axis=1) for own in members], axis=1)
        return means, self.units.at([int(own[0]) for own in members])

    def means(self, values: NDArray[np.float64], level: str | None = None) -> NDArray[np.float64]:
        """Means of (rows, runs), at one level or over all, that weigh as those of the ranking."""
        here = np.arange(self.runs)
        if level is not None:
            here = np.flatnonzero(np.array(self.level) == level)
        own, units = self.by_training_run(values, here)
        return units.mean(own)

    @cached_property
    def order(self) -> NDArray[np.float64]:
        """(detectors, runs): rank, 1 = best, ties shared; as published from 0, ties in order."""
        if not self.published:
            return rank_matrix(self.values, higher_is_better=self.higher_is_better)
        signed = -self.values if self.higher_is_better else self.values
        places = np.argsort(np.argsort(signed, axis=0, kind="stable"), axis=0, kind="stable")
        return places.astype(np.float64)

    @cached_property
    def changing_winners(self) -> list[str]:
        """Detectors that take turns as the best while all other factors stay as they are."""
        first = self.order == self.order.min(axis=0)
        taking: dict[int, int] = {}
        for group in np.unique(self.groups):
            times = first[:, self.groups == group].sum(axis=1)
            if times.max() < np.count_nonzero(self.groups == group):  # none is best throughout
                for row in np.flatnonzero(times):
                    taking[int(row)] = taking.get(int(row), 0) + int(times[row])
        return [self.detectors[row] for row in sorted(taking, key=lambda row: -taking[row])]

    @cached_property
    def flipped(self) -> NDArray[np.bool_]:
        """(detectors, detectors): whether each is ahead of the other in some run of one group."""
        size = len(self.detectors)
        flipped = np.zeros((size, size), dtype=bool)
        better = self.values if self.published else -self.order  # ranks know rounding from a lead
        for group in np.unique(self.groups):
            values = better[:, self.groups == group]
            ahead = (values[:, None, :] > values[None, :, :]).any(axis=2)
            flipped |= ahead & ahead.T
        return flipped

    @property
    def flips(self) -> tuple[int, int]:
        """Pairs of detectors that change places, and all pairs."""
        size = len(self.detectors)
        return int(np.triu(self.flipped, 1).sum()), size * (size - 1) // 2

    @cached_property
    def deltas(self) -> NDArray[np.float64]:
        """Highest less lowest value of each detector: the largest within a group."""
        return self._largest_moves(self.values)

    def largest_move(self, values: NDArray[np.float64]) -> float:
        """Highest less lowest of these values, one per run: the largest within a group."""
        return float(self._largest_moves(values[None, :])[0])

    def _largest_moves(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same of every row."""
        order = np.argsort(self.groups, kind="stable")
        starts = np.flatnonzero(np.diff(self.groups[order], prepend=-1))
        highest = np.maximum.reduceat(values[:, order], starts, axis=1)
        lowest = np.minimum.reduceat(values[:, order], starts, axis=1)
        return np.asarray((highest - lowest).max(axis=1))

    @cached_property
    def deviations(self) -> NDArray[np.float64]:
        """Standard deviation of each detector, pooled over groups."""
        return np.sqrt(pooled_variance(self.values, self.groups, unbiased=not self.published))

    @cached_property
    def rank_deviations(self) -> NDArray[np.float64]:
        """Standard deviation of each detector's rank, pooled over groups."""
        return np.sqrt(pooled_variance(self.order, self.groups, unbiased=not self.published))

    @property
    def accuracy_deviation(self) -> float:
        """Standard deviation of the accuracy, pooled over groups; 0 if it is not known."""
        known = np.zeros(self.runs) if self.accuracy is None else self.accuracy
        variance = pooled_variance(known[None, :], self.groups, unbiased=not self.published)
        return float(np.sqrt(variance[0]))

    def rank_ranges(self, row: int) -> list[tuple[float, float]]:
        """Lowest and highest rank of a detector within each group, every range once.

        Of more than two, one range over all groups.
        """
        parts = [self.order[row, self.groups == group] for group in np.unique(self.groups)]
        found = sorted({(float(own.min()), float(own.max())) for own in parts})
        if len(found) <= 2:
            return found
        return [(min(low for low, _ in found), max(high for _, high in found))]

    def centred(self, row: int) -> NDArray[np.float64]:
        """Values of a detector about its mean, without what other factors do."""
        values: NDArray[np.float64] = self.values[row].copy()
        for group in np.unique(self.groups):
            values[self.groups == group] -= values[self.groups == group].mean()
        return values

    def range(self, row: int) -> Estimate:
        """Mean of a detector, and from its lowest to its highest run, other factors being equal."""
        mean, moves = float(self.means(self.values)[row]), self.centred(row)
        return Estimate(mean, float(mean + moves.min()), float(mean + moves.max()))

    def extremes(self, row: int) -> tuple[str, str]:
        """The levels at which a detector is best and worst, other factors being the same."""
        values = self.centred(row)
        signed = values if self.higher_is_better else -values
        means = {level: float(self.means(signed[None], level)[0]) for level in self.levels}
        return max(means, key=means.__getitem__), min(means, key=means.__getitem__)

    def deviation(self, row: int, level: float) -> Estimate | None:
        """Standard deviation of a detector with its interval."""
        return deviation_interval(self.values[row], self.groups, level, freedom=self.changes)

    def deviations_p_value(self, one: int, other: int) -> float:
        """Whether two detectors deviate as far from their medians, however runs are distributed."""
        cases = self.changes + (len(np.unique(self.groups)) == 1)
        return deviations_p_value(self.values[one], self.values[other], self.groups, cases)


def compared(table: Results) -> tuple[Cells, tuple[str, ...], int]:
    """Cells of the compared detectors, who is left out, and how many cells some detector lacks.

    Percentages become fractions; other values stay in their unit. Detectors with many gaps are
    left out, by the rule of the ranking: only runs that all detectors share are compared.
    """
    require_metric_values(table)
    cells = cells_of(table).over_parts()
    if table.is_share and float(np.nanmax(np.abs(cells.values))) > 1.0:
        cells = replace(cells, values=cells.values / 100.0)
    kept = comparable(cells)
    if len(kept) < 2:
        raise UserError(
            "Instability compares detectors on the same runs, and no two of them have enough "
            f"values in common; the detectors are {', '.join(cells.detectors)}."
        )
    left_out = tuple(name for name in cells.detectors if name not in kept)
    cells = cells.of(kept)
    return cells, left_out, int((~cells.present.all(axis=0)).sum())


def over_sets(cells: Cells) -> Cells:
    """Mean over the outlier sets of each ID set, of cells in which every detector has a value."""
    sets = len({pair.ood for pair in cells.pairs})
    whole = cells.complete()
    return whole.over(pairs=[Pair(p.id, f"the mean of {sets} outlier sets") for p in whole.pairs])


def over_data_sets(cells: Cells, factor: str) -> Cells | None:
    """Mean over all data sets, which weigh the same, of the runs that all of them have.

    Other conditions are averaged first: those that are nested in data sets are no runs of others.
    """
    whole = retrained(cells.complete().over_conditions(factor))
    if whole is None or factor not in names(whole.factors):
        return None
    by_set = whole.over(pairs=[Pair(pair.id, "") for pair in whole.pairs])
    overall = Pair("", f"the mean of {len(whole.ids)} data sets")
    return by_set.over(pairs=[overall] * len(by_set.pairs))


def spreads(cells: Cells, factor: str, *, published: bool = False) -> list[Spread]:
    """Find, for each outlier set, the runs that differ in this factor and agree in all others."""
    found = (_spread(cells, factor, pair, published) for pair in range(len(cells.pairs)))
    return [spread for spread in found if spread is not None]


def _spread(cells: Cells, factor: str, pair: int, published: bool) -> Spread | None:
    results = cells.results
    own = np.flatnonzero((cells.pair == pair) & cells.present.all(axis=0))
    runs = list(cells.runs.values())
    levels = [runs[run] for run in cells.run[own]]
    groups = _numbered([_without(level, factor) for level in levels])
    several = np.isin(groups, np.flatnonzero(np.bincount(groups) > 1))
    if not several.any():
        return None
    own, levels = own[several], [levels[place] for place in np.flatnonzero(several)]
    repeats = names(cells.factors, "repeat")
    later = names(cells.factors, "re_evaluation")
    accuracy = cells.accuracy[own]
    if np.isfinite(accuracy).all() and accuracy.max() > 1:
        accuracy = accuracy / 100
    level = tuple(run[factor] for run in levels)
    units = OuterUnits.of(levels, cells.factors)
    return Spread(
        factor=factor,
        kind=results.kind(factor),
        set=cells.sets[pair],
        set_word=set_word(cells.pairs),
        run_word=run_word(cells.factors),
        metric=METRICS[results.metric].label if results.metric in METRICS else results.metric,
        higher_is_better=results.higher_is_better,
        is_share=results.is_share,
        bounds=bounds_of(results),
        detectors=cells.detectors,
        levels=tuple(dict.fromkeys(level)),
        level=level,
        groups=groups[several],
        contexts=_numbered([_without(run, factor, *repeats) for run in levels]),
        conditions=_numbered([_without(run, factor, *repeats, *later) for run in levels]),
        trained=_numbered([_without(run, *later) for run in levels]),
        values=cells.values[:, own].copy(),
        accuracy=accuracy if np.isfinite(accuracy).all() else None,
        units=units,
        changes=_independent_changes(levels, factor, cells.factors, units),
        published=published,
        is_mean=len(cells.results.ids) > 1 and len(cells.ids) == 1,
    )


def _independent_changes(
    levels: Sequence[Mapping[str, str]], factor: str, factors: Sequence[Factor], units: OuterUnits
) -> int:
    """Independent changes of a factor in runs that may share a split, or another repeat.

    The levels of what is shared change once, however many runs each has. Whatever else a split
    does to the effect of a factor, it does to all seeds on it: these change once, too.
    """
    if factor in units.shared:
        return int(units.shared[factor].max())
    within = {*names(factors, "repeat")} - {*units.levels, factor} if units.shared else set()
    runs = {str(run): {k: v for k, v in own.items() if k not in within}
            for run, own in enumerate(levels)}  # fmt: skip
    return independent_changes(runs, factor, [own for own in factors if own.name not in within])


def _without(levels: Mapping[str, str], *factors: str) -> tuple[str, ...]:
    return tuple(level for name, level in levels.items() if name not in factors)


def _numbered(keys: Sequence[tuple[str, ...]]) -> NDArray[np.int64]:
    """Number keys in the order of their first occurrence."""
    numbers = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    return np.array([numbers[key] for key in keys], dtype=np.int64)
