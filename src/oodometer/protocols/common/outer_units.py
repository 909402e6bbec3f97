"""Training runs on the same fold or split are not independent: what they share, and what it costs.

Every protocol takes its outer units from here, so that no page counts runs as cases where another
one counts splits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oodometer.factors import Factor, is_fold, names, shared_repeats
from oodometer.metrics.counts import Floats
from oodometer.stats.averaging import weighted_runs
from oodometer.stats.comparison import Placements
from oodometer.stats.pairwise import Pairwise, more_careful, over_folds
from oodometer.stats.weighting import (
    also_weighted,
    weighted_freedom,
    weighted_summaries,
    weighted_values,
    with_weighted_means,
)

Numbers = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class OuterUnits:
    """The level of each run in every repeat that several runs may have in common.

    >>> runs = [{"split": split, "seed": seed} for split in "ab" for seed in (0, 1)]
    >>> units = OuterUnits.of(runs, [Factor("split", "repeat"), Factor("seed", "repeat")])
    >>> units.shared, units.at([0, 2]).are_independent
    ({'split': array([0, 0, 1, 1])}, True)
    """

    levels: Mapping[str, NDArray[np.str_]]  # repeat -> level of each run
    fold_names: tuple[str, ...] = ()  # repeats that are folds of a cross-validation
    conditions: NDArray[np.str_] | None = None  # under which each run was trained; None: the same

    @staticmethod
    def of(runs: Sequence[Mapping[str, object]], factors: Iterable[Factor]) -> OuterUnits:
        """What runs, given by their levels, may share; all of them are training runs."""
        given = tuple(factors)
        levels = {
            name: np.array([str(run.get(name)) for run in runs], dtype=np.str_)
            for name in shared_repeats(given)
        }
        choices = names(given, "condition")
        under = [", ".join(f"{name}={run.get(name)}" for name in choices) for run in runs]
        conditions = np.array(under, dtype=np.str_) if choices and len(under) else None
        return OuterUnits(levels, names(filter(is_fold, given)), conditions)

    @cached_property
    def shared(self) -> dict[str, Numbers]:
        """Number the levels of each repeat that some runs, but not all, have in common."""
        numbered = {name: _numbered(own) for name, own in self.levels.items() if own.size}
        return {n: own for n, own in numbered.items() if 1 < own.max() + 1 < own.size}

    @cached_property
    def folds(self) -> int:
        """How many folds of a cross-validation the runs are; 0 if they are none."""
        own = [self.levels[name].tolist() for name in self.fold_names]
        return len(set(zip(*own, strict=True)))

    @property
    def are_independent(self) -> bool:
        """Whether no two runs have anything in common."""
        return not self.shared and self.folds < 2

    @property
    def are_alike(self) -> bool:
        """Whether runs are independent, and each counts the same."""
        return self.are_independent and self.weights is None

    def fewest(self, cases: int) -> int:
        """How many cases are independent: no more than a repeat has levels that runs share."""
        return min([cases, *(int(own.max()) + 1 for own in self.shared.values())])

    @property
    def outermost(self) -> str:
        """The shared repeat with the fewest levels; empty if there is none."""
        return min(self.shared, key=lambda name: int(self.shared[name].max()), default="")

    def at(self, runs: Sequence[int] | NDArray[np.intp] | NDArray[np.bool_]) -> OuterUnits:
        """The same of some runs only."""
        own = np.asarray(runs)
        return OuterUnits(
            {name: all_[own] for name, all_ in self.levels.items()},
            self.fold_names,
            None if self.conditions is None else self.conditions[own],
        )

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many runs each condition has, if not all have the same number; else nothing."""
        if self.conditions is None:
            return {}
        found = Counter(self.conditions.tolist())
        return dict(found) if len(set(found.values())) > 1 else {}

    @cached_property
    def weights(self) -> Floats | None:
        """What makes conditions with different numbers of runs weigh the same; None: nothing."""
        if not self.counts or self.conditions is None:
            return None
        sizes = np.array([self.counts[own] for own in self.conditions.tolist()], dtype=np.float64)
        return np.asarray(1.0 / sizes)

    def mean(self, values: Floats) -> Floats:
        """Means over the runs of (..., runs); conditions weigh the same."""
        return np.asarray(
            values.mean(axis=-1)
            if self.weights is None
            else np.average(values, axis=-1, weights=self.weights)
        )

    def mean_of_known(self, values: Floats) -> Floats:
        """The same of what is known of each row of (rows, runs); NaN where nothing is.

        Equal values have that mean without rounding: rank correlations depend on ties.
        """
        means = np.full(len(values), np.nan)
        for row, known in enumerate(~np.isnan(values)):
            own = values[row, known]
            if own.size:
                means[row] = own[0] if (own == own[0]).all() else self.at(known).mean(own)
        return means

    def weighted(self, placed: Sequence[Placements]) -> list[Placements]:
        """Placements whose plain means over the runs weigh conditions the same."""
        if self.weights is None:
            return list(placed)
        return [weighted_runs(one, self.weights) for one in placed]

    def with_means(self, found: Pairwise, values: Floats, bounds: tuple[float, float]) -> Pairwise:
        """The same comparison of (rows, runs) with means in which conditions weigh the same."""
        if self.weights is None:
            return found
        summaries = weighted_summaries(values, self.weights, [*self.counts.values()])
        return with_weighted_means(found, self.mean(values), summaries, bounds)

    def compared(
        self, values: Floats, compare: Callable[[Floats], Pairwise], runs: Pairwise | None = None
    ) -> Pairwise:
        """Compare by (rows, runs): over runs, and over the means of each level that runs share.

        The larger error counts, on the fewer degrees of freedom (`more_careful`); errors over folds
        are enlarged (`over_folds`). Where conditions have different numbers of runs, a difference
        must also stand out if conditions weigh the same (`also_weighted`). `runs`: the comparison
        over runs, if it is made already.
        """

        def enlarged(pairwise: Pairwise, cases: int) -> Pairwise:
            return over_folds(pairwise, cases, self.folds) if self.folds > 1 else pairwise

        found = enlarged(compare(values) if runs is None else runs, values.shape[-1])
        for name, levels in self.shared.items():
            means = mean_by_level(values, levels)
            own = enlarged(compare(means), means.shape[-1])
            found = more_careful(found, own, name, means.shape[-1])
        if self.weights is None:
            return found
        weighted = enlarged(compare(weighted_values(values, self.weights)), values.shape[-1])
        lost = values.shape[-1] - 1 - weighted_freedom([*self.counts.values()])
        return also_weighted(found, weighted, max(0.0, lost))

    def means(self, values: Floats) -> Floats:
        """Means over the levels of the outermost repeat that runs share, of (..., runs)."""
        outermost = self.outermost
        return mean_by_level(values, self.shared[outermost]) if outermost else values

    @property
    def of_means(self) -> OuterUnits:
        """What such means have in common: they may still be folds."""
        if not self.outermost:
            return self
        first = np.unique(self.shared[self.outermost], return_index=True)[1]
        return replace(self.at(first), conditions=None)

    def caveats(self, runs: int) -> list[str]:
        """Say that runs are not independent, and on what conclusions rest instead."""
        told = []
        if self.folds > 1:
            told.append(
                f"The runs are {self.folds} folds, which share most of their training data: errors "
                "of differences are enlarged for that (Nadeau & Bengio 2003); intervals of single "
                "means are not."
            )
        if self.counts:
            ordered = sorted(self.counts, key=self.counts.__getitem__)
            fewest, most = (f"{self.counts[own]} ({own})" for own in (ordered[0], ordered[-1]))
            told.append(
                f"Conditions have different numbers of runs, from {fewest} to {most}, and each "
                "condition counts the same in means: differences must also stand out if each run "
                "counts the same."
            )
        return told + self.shared_caveats(runs)

    def shared_caveats(self, runs: int) -> list[str]:
        """The same of levels that runs share, without what is done about folds."""
        return [
            f"The {runs} training runs share {levels.max() + 1} levels of {name}, and runs with "
            "the same level may be alike: differences must stand out from the variation between "
            f"levels, too, so that conclusions rest on {levels.max() + 1} levels of {name} rather "
            f"than on {runs} runs."
            for name, levels in self.shared.items()
        ]


INDEPENDENT = OuterUnits({})


def joined(parts: Sequence[OuterUnits]) -> OuterUnits:
    """The units of the runs of several parts, one after another."""
    first = parts[0]
    under = [part.conditions for part in parts if part.conditions is not None]
    return OuterUnits(
        {name: np.concatenate([part.levels[name] for part in parts]) for name in first.levels},
        first.fold_names,
        np.concatenate(under) if len(under) == len(parts) else None,
    )


def mean_by_level(values: Floats, levels: Numbers) -> Floats:
    """Means over the columns of each level, of (..., runs)."""
    return np.stack(
        [values[..., levels == own].mean(axis=-1) for own in np.unique(levels)], axis=-1
    )


def _numbered(levels: NDArray[np.str_]) -> Numbers:
    """Number levels in the order of their first occurrence."""
    places = {level: place for place, level in enumerate(dict.fromkeys(levels.tolist()))}
    return np.array([places[level] for level in levels.tolist()], dtype=np.intp)
