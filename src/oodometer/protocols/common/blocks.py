"""What can be compared in a results table: cells in which all compared detectors have a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.protocols.common.differences import trainings_of
from oodometer.results import Results
from oodometer.stats.ranks import rank_matrix

if TYPE_CHECKING:
    import pandas as pd

ENOUGH = 0.5  # share of the cells that a detector must have to take part
LARGER = 1.5  # times as many values let another choice of detectors take its place
PATTERNS = 500  # of present detectors, tried as such choices


@dataclass(frozen=True, eq=False)
class Blocks:
    """Detectors, best mean first, on the units by which they are compared.

    A unit is a training, its value the mean over its outlier sets, and over its checkpoints if the
    table has several; with one training only, the outlier sets are the units, and what is
    concluded is about other such sets.
    """

    results: Results
    detectors: tuple[str, ...]
    units: tuple[str, ...]
    are_runs: bool
    values: NDArray[np.float64]  # (detectors, units)
    unit_levels: tuple[Mapping[str, str], ...]  # of each training's factors
    levels: tuple[Mapping[str, str], ...]  # of each run's factors; runs may be checkpoints of one
    run_values: NDArray[np.float64]  # (detectors, runs): mean over the run's outlier sets
    sets: Mapping[str, NDArray[np.float64]]  # outlier set -> (detectors, its units)
    left_out: tuple[str, ...]  # detectors with too few cells
    incomplete: int  # cells that some compared detector lacks, and that nobody is judged by

    @cached_property
    def order(self) -> NDArray[np.float64]:
        """(detectors, units): rank, 1 = best."""
        return rank_matrix(self.values, higher_is_better=self.results.higher_is_better)

    @property
    def metric(self) -> str:
        """How readers call the metric."""
        return self.results.label

    @property
    def unit(self) -> str:
        """What a unit is."""
        return "run" if self.are_runs else "outlier set"

    @property
    def one(self) -> str:
        """What there is one of, if the outlier sets are the units."""
        stated = "spread" in self.results.frame.columns
        return "one mean of each detector on each outlier set" if stated else "one run"

    @property
    def of_one(self) -> str:
        """Where something is so, if the outlier sets are the units."""
        stated = "spread" in self.results.frame.columns
        return "by the stated means" if stated else "in the one run"

    def oriented(self, row: int) -> NDArray[np.float64]:
        """Values of a detector, turned so that higher is better."""
        values: NDArray[np.float64] = self.values[row]
        return values if self.results.higher_is_better else -values


def blocks(results: Results) -> Blocks:
    """Arrange a results table for comparison."""
    frame = results.frame
    several = "id" in frame.columns and len(set(frame["id"])) > 1
    names = frame["id"] + " / " + frame["ood"] if several else frame["ood"]
    factors = list(results.factor_names)
    joined = [", ".join(f"{f}={level}" for f, level in zip(factors, line, strict=True))
              for line in frame[factors].to_numpy().tolist()]  # fmt: skip
    cells = frame.assign(set=names, unit=joined).pivot_table(
        index=["unit", "set"], columns="detector", values="value", sort=False
    )
    kept = _compared(cells, results.detectors)
    whole = cells[kept].dropna()
    if not kept or whole.empty:
        told = f" (runs are told apart by {', '.join(factors)})" if factors else ""
        raise UserError(
            f"No run and outlier set has a value for every detector that could be compared{told}; "
            "give a table in which detectors were measured on the same runs."
        )
    by_run = whole.groupby(level="unit", sort=False).mean()
    levels = {
        unit: dict(zip(factors, map(str, line), strict=True))
        for unit, line in zip(joined, frame[factors].to_numpy().tolist(), strict=True)
    }
    trainings = _trainings(levels, results)
    by_unit = by_run.groupby([trainings[unit] for unit in by_run.index], sort=False).mean()
    first = {trainings[unit]: unit for unit in reversed(list(by_run.index))}
    are_runs = len(by_unit) > 1
    if not are_runs:
        by_unit = whole.groupby(level="set", sort=False).mean()
    means = by_unit.mean()
    sign = -1 if results.higher_is_better else 1
    ranked = sorted(kept, key=lambda name: sign * means[name])
    return Blocks(
        results=results,
        detectors=tuple(ranked),
        units=tuple(map(str, by_unit.index)),
        are_runs=are_runs,
        values=by_unit[ranked].to_numpy(dtype=float).T.copy(),
        unit_levels=tuple(levels[first[unit]] for unit in by_unit.index) if are_runs else (),
        levels=tuple(levels[unit] for unit in by_run.index) if are_runs else (),
        run_values=by_run[ranked].to_numpy(dtype=float).T.copy(),
        sets={
            str(name): part[ranked].to_numpy(dtype=float).T.copy()
            for name, part in _by_training(whole, trainings)
        },
        left_out=tuple(name for name in results.detectors if name not in kept),
        incomplete=len(cells) - len(whole),
    )


def _trainings(levels: Mapping[str, Mapping[str, str]], results: Results) -> dict[str, str]:
    """Name the training of each run: runs may be several checkpoints of one."""
    runs = list(levels)
    return {
        runs[run]: training
        for training, own in trainings_of(levels, runs, results.factors).items()
        for run in own
    }


def _by_training(
    whole: pd.DataFrame, trainings: Mapping[str, str]
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each outlier set with one line per training."""
    for name, part in whole.groupby(level="set", sort=False):
        own = [trainings[unit] for unit in part.index.get_level_values("unit")]
        yield str(name), part.groupby(own, sort=False).mean()


def _compared(cells: pd.DataFrame, detectors: Sequence[str]) -> list[str]:
    """Choose the detectors to compare: those with half of the cells, or with a far larger block.

    A leaderboard may hold one training on which all detectors were measured and many on which few
    were; what most numbers tell about is then the one. A choice is worth its detectors times the
    cells in which all of them have a value; alone, a detector is worth nothing.
    """
    present = cells[list(detectors)].notna().to_numpy()
    patterns, times = np.unique(present, axis=0, return_counts=True)
    patterns = patterns[np.argsort(-times * patterns.sum(axis=1), kind="stable")[:PATTERNS]]
    usual = present.mean(axis=0) >= ENOUGH
    worth = [_worth(present, choice) for choice in patterns]
    best = int(np.argmax(worth))
    chosen = patterns[best] if worth[best] > LARGER * _worth(present, usual) else usual
    return [name for name, taken in zip(detectors, chosen, strict=True) if taken]


def _worth(present: NDArray[np.bool_], choice: NDArray[np.bool_]) -> int:
    many = int(choice.sum())
    return many * int(present[:, choice].all(axis=1).sum()) if many > 1 else 0
