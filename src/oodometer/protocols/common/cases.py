"""What can be compared by values: detectors that have one in every case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.factors import Factor
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.cells import Cells, cells_of
from oodometer.protocols.common.training_runs import TrainingRuns
from oodometer.results import Results
from oodometer.stats.ranks import rank_matrix

ENOUGH = 0.5  # share of the cells that a detector must have to take part
LARGER = 1.5  # times as many values let another choice of detectors take its place
PATTERNS = 500  # of present detectors, tried as such choices


@dataclass(frozen=True, eq=False)
class Cases:
    """Detectors, best mean first, on the cases by which they are compared.

    A case is a training run, its value the mean over its outlier sets and its re-evaluations. With
    one training run only, the outlier sets are the cases, and what is concluded is about other such
    sets. Cells that some compared detector lacks count for nobody.
    """

    cells: Cells  # complete, of the compared detectors
    left_out: tuple[str, ...]  # detectors with too few cells
    incomplete: int  # cells that some compared detector lacks

    @property
    def results(self) -> Results:
        """The table that is compared."""
        return self.cells.results

    @property
    def detectors(self) -> tuple[str, ...]:
        """The compared detectors, best mean first."""
        return self.cells.detectors

    @property
    def factors(self) -> tuple[Factor, ...]:
        """What tells the runs apart."""
        return self.results.factors

    @property
    def training_runs(self) -> TrainingRuns:
        """Which runs are re-evaluations of one training run."""
        return self.cells.training_runs

    @property
    def are_runs(self) -> bool:
        """Whether training runs are the cases, not outlier sets."""
        return len(self.training_runs) > 1

    @cached_property
    def names(self) -> tuple[str, ...]:
        """How the cases are called."""
        return self.training_runs.names if self.are_runs else self.cells.sets

    @cached_property
    def values(self) -> Floats:
        """(detectors, cases)."""
        return _case_values(self.cells)

    @cached_property
    def run_values(self) -> Floats:
        """(detectors, runs): mean over the outlier sets of each run, re-evaluations apart."""
        return self.cells.mean_by_run()

    @cached_property
    def run_levels(self) -> tuple[Mapping[str, str], ...]:
        """Factor levels of every run; none if outlier sets are the cases."""
        return tuple(self.cells.runs.values()) if self.are_runs else ()

    @cached_property
    def levels(self) -> tuple[Mapping[str, str], ...]:
        """Factor levels of every training run; none if outlier sets are the cases."""
        runs = self.run_levels
        return tuple(runs[own[0]] for own in self.training_runs.members) if runs else ()

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
        return "run" if self.are_runs else "outlier set"

    @property
    def sign(self) -> int:
        """What turns values so that higher is better."""
        return 1 if self.results.higher_is_better else -1

    def oriented(self, row: int) -> Floats:
        """Values of a detector, turned so that higher is better."""
        values: Floats = self.sign * self.values[row]
        return values


def cases_of(results: Results) -> Cases:
    """Arrange a results table for comparison of its detectors."""
    everything = cells_of(results)
    kept = _compared(everything)
    whole = everything.of(kept).complete()
    if not kept or not whole.values.size:
        factors = results.factor_names
        varied = f" (runs differ in {', '.join(factors)})" if factors else ""
        raise UserError(
            f"No run and outlier set has a value for every compared detector{varied}; "
            "give a table in which detectors were measured on the same runs."
        )
    means = _case_values(whole).mean(axis=1) * (-1 if results.higher_is_better else 1)
    ranked = [kept[row] for row in np.argsort(means, kind="stable")]
    return Cases(
        cells=whole.of(ranked),
        left_out=tuple(name for name in results.detectors if name not in kept),
        incomplete=everything.values.shape[1] - whole.values.shape[1],
    )


def _case_values(whole: Cells) -> Floats:
    """(detectors, cases): by training run if there are several, else by outlier set."""
    if len(whole.training_runs) > 1:
        return whole.training_runs.mean(whole.mean_by_run())
    return whole.mean_by_pair()


def _compared(cells: Cells) -> list[str]:
    """Choose the detectors to compare: those with half of the cells, or with a far larger block.

    A leaderboard may hold one training run on which all detectors were measured and many on which
    few were; what most numbers tell about is then the one. A choice is worth its detectors times
    the cells in which all of them have a value; alone, a detector is worth nothing.
    """
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
