"""What can be compared by values: detectors that have one in every case, and what the cases are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.factors import Factor, names
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.cells import ENOUGH, Cells, Pair, cells_of, set_word
from oodometer.protocols.common.outer_units import OuterUnits
from oodometer.protocols.common.training_runs import TrainingRuns, run_word, without_repeats
from oodometer.protocols.common.words import several
from oodometer.results import Results
from oodometer.stats.ranks import rank_matrix

LARGER = 1.5  # times as many values let another choice of detectors take its place
PATTERNS = 500  # of present detectors, tried as such choices
SEVERAL = 3  # data sets, each with training of its own, that let data sets be the cases

Unit = Literal["data set", "run", "outlier set", "part"]  # what varies from case to case


@dataclass(frozen=True, eq=False)
class Cases:
    """Detectors, best mean first, on the cases by which they are compared.

    What a case is decides what conclusions are about, their scope. It is the outermost unit that
    varies, because what lies within it is not independent:

    - **data set**: three or more sets, each with training of its own. The value of a case is the
      mean over all that lies within it, level by level: parts, re-evaluations, repeats,
      conditions, outlier sets.
    - **run**: a training run, its value the mean over its re-evaluations, then over its outlier
      sets, then over data sets. All runs have the same sets.
    - **outlier set**: where there is one training run, or one on each of two data sets, whose mean
      on an outlier set is one case: what is hard for one is hard for the other.
    - **part**: where there is one run on one set, such as its series.

    Cells that some compared detector lacks count for nobody.
    """

    cells: Cells  # complete, of the compared detectors, means over parts
    unit: Unit
    left_out: tuple[str, ...] = ()  # detectors with too few cells
    incomplete: int = 0  # cells that some compared detector lacks
    unbalanced: int = 0  # cells left out so that all runs have the same sets
    over_runs: Cases | None = None  # where data sets are the cases: the training runs on them

    @property
    def results(self) -> Results:
        """The table that is compared."""
        return self.cells.results

    @property
    def kept_sets(self) -> tuple[str, ...]:
        """The sets of data that are compared, where others are not; none if all are."""
        frame = self.results.frame
        pairs = [name for name in ("id", "ood") if name in frame.columns]
        sets = self.cells.sets
        return sets if len(sets) < len(frame[pairs].drop_duplicates()) else ()

    @property
    def detectors(self) -> tuple[str, ...]:
        """The compared detectors, best mean first."""
        return self.cells.detectors

    @property
    def factors(self) -> tuple[Factor, ...]:
        """What tells the runs apart."""
        return self.cells.factors

    @property
    def training_runs(self) -> TrainingRuns:
        """Which runs are re-evaluations of one training run."""
        return self.cells.training_runs

    @property
    def are_runs(self) -> bool:
        """Whether training runs are the cases."""
        return self.unit == "run"

    @property
    def are_conditions(self) -> bool:
        """Whether each training run is a condition of its own: no two were trained alike."""
        return self.are_runs and bool(without_repeats(self.factors))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """How the cases are called."""
        if self.unit == "data set":
            return self.cells.ids
        if self.unit == "part":
            return tuple(" / ".join(own.values()) for own in self._over_all.runs.values())
        return self.training_runs.names if self.are_runs else self._by_outlier_set.sets

    @cached_property
    def values(self) -> Floats:
        """(detectors, cases)."""
        if self.unit == "outlier set":
            return self._by_outlier_set.mean_by_pair()
        by_data_set = _over_outlier_sets(self._over_all)
        return by_data_set.mean_by_pair() if self.unit == "data set" else by_data_set.mean_by_run()

    @cached_property
    def means(self) -> Floats:
        """Mean of every detector over the cases; conditions of training runs weigh the same."""
        return self.units.mean(self.values)

    @cached_property
    def set_means(self) -> Mapping[str, Floats]:
        """Set -> mean of every detector on it, over all else as in `means`."""
        if self.are_runs:
            return {name: self.units.mean(values) for name, values in self.sets.items()}
        return dict(zip(self._over_all.sets, self._over_all.mean_by_pair().T, strict=True))

    @cached_property
    def _over_all(self) -> Cells:
        """Means over everything within a case but its sets, level by level."""
        within = self.cells.over(*names(self.factors, "re_evaluation"))
        if self.unit != "run":
            within = within.over(*names(self.factors, "repeat"))
            within = within.over(*names(self.factors, "condition"))
        return within

    @cached_property
    def _by_outlier_set(self) -> Cells:
        """Means over the data sets that an outlier set was tried with."""
        cells = self._over_all
        pairs = [Pair("", pair.ood) if pair.ood else pair for pair in cells.pairs]
        return cells.over(pairs=pairs) if len(cells.ids) > 1 else cells

    @cached_property
    def run_values(self) -> Floats:
        """(detectors, runs): mean over the sets of each run, re-evaluations apart."""
        return _over_outlier_sets(self.cells).mean_by_run()

    @cached_property
    def run_levels(self) -> tuple[Mapping[str, str], ...]:
        """Factor levels of every run; none if runs are not the cases."""
        return tuple(self.cells.runs.values()) if self.are_runs else ()

    @cached_property
    def levels(self) -> tuple[Mapping[str, str], ...]:
        """Factor levels of every training run; none if runs are not the cases."""
        runs = self.run_levels
        return tuple(runs[own[0]] for own in self.training_runs.members) if runs else ()

    @cached_property
    def units(self) -> OuterUnits:
        """What the training runs have in common; nothing if runs are not the cases."""
        return OuterUnits.of(self.levels, self.factors)

    @cached_property
    def sets(self) -> Mapping[str, Floats]:
        """Outlier set -> (detectors, its training runs)."""
        return {name: self.cells.by_training_run(p) for p, name in enumerate(self.cells.sets)}

    @cached_property
    def order(self) -> Floats:
        """(detectors, cases): rank, 1 = best."""
        return rank_matrix(self.values, higher_is_better=self.results.higher_is_better)

    @property
    def metric(self) -> str:
        """How readers call the metric."""
        return self.results.label

    @property
    def case(self) -> str:
        """The word for a case."""
        if self.unit == "part":
            return " and ".join(names(self.factors, "part"))
        if self.are_conditions:
            return run_word(self.factors)
        if self.unit == "outlier set" and not any(pair.ood for pair in self.cells.pairs):
            return "data set"
        return self.unit

    @property
    def preposition(self) -> str:
        """What stands before cases."""
        if self.are_conditions:
            return "under"
        return "in" if self.are_runs else "on"

    @property
    def set_word(self) -> str:
        """The word for a set: data sets of which each was trained on have no outlier sets."""
        return set_word(self.cells.pairs)

    @property
    def scope(self) -> str:
        """What conclusions are about: ends a sentence."""
        if not self.are_runs:
            return f"on other {several(self.case)} like these"
        if self.are_conditions:
            return without_repeats(self.factors)
        where = " on these data sets" * (len(self.cells.ids) > 1)
        # Conditions that are nested in data sets are averaged, but the same ones are meant.
        where += " under these conditions" * bool(names(self.results.factors, "condition"))
        return f"after retraining{where}"

    @property
    def sign(self) -> int:
        """What turns values so that higher is better."""
        return 1 if self.results.higher_is_better else -1

    def of(self, detectors: Sequence[str]) -> Cases:
        """The same of some detectors only, in this order."""
        inner = self.over_runs and self.over_runs.of(detectors)
        return replace(self, cells=self.cells.of(detectors), over_runs=inner)

    def without(self, data_set: str) -> Cases:
        """The same without one of several data sets."""
        inner = self.over_runs and self.over_runs.without(data_set)
        kept = np.array([pair.id != data_set for pair in self.cells.pairs])[self.cells.pair]
        return replace(self, cells=self.cells.at(kept), over_runs=inner)

    def oriented(self, row: int) -> Floats:
        """Values of a detector, turned so that higher is better."""
        values: Floats = self.sign * self.values[row]
        return values


def _over_outlier_sets(cells: Cells) -> Cells:
    """Means over the outlier sets of each data set, so that data sets weigh the same."""
    return cells.over(pairs=[Pair(pair.id, "") for pair in cells.pairs])


def cases_of(results: Results, detectors: Sequence[str] | None = None) -> Cases:
    """Arrange a results table for comparison in its main scope; see `scopes_of`."""
    return scopes_of(results, detectors)[0]


def scopes_of(results: Results, detectors: Sequence[str] | None = None) -> tuple[Cases, ...]:
    """Arrange a results table for comparison, once for each scope that it allows, the main first.

    `detectors`: those to compare, in this order; by default those with enough values, the best
    mean first.
    """
    return results.once(_all_scopes) if detectors is None else _scopes(results, detectors)


def _all_scopes(results: Results) -> tuple[Cases, ...]:
    return _scopes(results, None)


def _scopes(results: Results, detectors: Sequence[str] | None) -> tuple[Cases, ...]:
    everything = cells_of(results)
    kept = comparable(everything) if detectors is None else list(detectors)
    whole = everything.of(kept).complete()
    if not kept or not whole.values.size:
        factors = results.factor_names
        varied = f" (runs differ in {', '.join(factors)})" if factors else ""
        raise UserError(
            f"No run and outlier set has a value for every compared detector{varied}; "
            "give a table in which detectors were measured on the same runs."
        )
    found = [
        Cases(
            cells,
            unit,
            tuple(name for name in results.detectors if name not in kept),
            everything.values.shape[1] - whole.values.shape[1],
            unbalanced,
        )
        for cells, unit, unbalanced in _units(whole)
    ]
    if len(found) > 1:
        found[0] = replace(found[0], over_runs=found[1])
    return tuple(found) if detectors is not None else tuple(map(_best_first, found))


def _units(whole: Cells) -> list[tuple[Cells, Unit, int]]:
    """The cells of each scope, the unit that varies there, and how many cells do not fit in."""
    cells = whole.over_parts()
    found: list[tuple[Cells, Unit, int]] = []
    if len(cells.ids) >= SEVERAL:
        found.append((cells, "data set", 0))
    if not found or names(cells.factors, "repeat"):
        runs = retrained(cells)
        if runs is not None and len(runs.training_runs) > 1:
            # A repeat that is averaged over other conditions has fewer cells, but none is left out.
            gone = cells.values.shape[1] - runs.values.shape[1]
            found.append((runs, "run", gone if runs.factors == cells.factors else 0))
    if found:
        return found
    single = len(cells.pairs) == 1 and len(whole.runs) > len(cells.runs)
    return [(whole, "part", 0) if single else (cells, "outlier set", 0)]


def retrained(cells: Cells) -> Cells | None:
    """Training runs on the same sets: crossed with all data sets, or numbered within each."""
    crossed = cells.crossed()
    if len(crossed.ids) == len(cells.ids):
        return crossed
    return cells.matched().crossed() if names(cells.factors, "repeat") else None


def _best_first(field: Cases) -> Cases:
    means = -field.sign * field.means
    return field.of([field.detectors[row] for row in np.argsort(means, kind="stable")])


def comparable(cells: Cells) -> list[str]:
    """Choose the detectors to compare: those with half of the cells, or with a far larger block.

    A leaderboard may hold one training run on which all detectors were measured and many on which
    few were; what most numbers tell about is then the one. A choice is worth its detectors times
    the cells in which all of them have a value; alone, a detector is worth nothing.
    """
    if cells.present.all():
        return list(cells.detectors)
    present = cells.present.T
    patterns, times = np.unique(present, axis=0, return_counts=True)
    patterns = patterns[np.argsort(-times * patterns.sum(axis=1), kind="stable")[:PATTERNS]]
    usual = present.mean(axis=0) >= ENOUGH
    worth = [_worth(present, choice) for choice in patterns]
    best = int(np.argmax(worth))
    chosen = patterns[best] if worth[best] > LARGER * _worth(present, usual) else usual
    return [name for name, is_in in zip(cells.detectors, chosen, strict=True) if is_in]


def _worth(present: NDArray[np.bool_], choice: NDArray[np.bool_]) -> int:
    many = int(choice.sum())
    return many * int(present[:, choice].all(axis=1).sum()) if many > 1 else 0
