"""What can be compared in a results table: cells in which all compared detectors have a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.metrics import METRICS
from oodometer.results import Results
from oodometer.stats.ranks import rank_matrix

ENOUGH = 0.5  # share of the cells that a detector must have to take part


@dataclass(frozen=True, eq=False)
class Blocks:
    """Detectors, best mean first, on the units by which they are compared.

    A unit is a run, its value the mean over the run's outlier sets; with one run only, the outlier
    sets are the units, and what is concluded is about other such sets.
    """

    results: Results
    detectors: tuple[str, ...]
    units: tuple[str, ...]
    are_runs: bool
    levels: tuple[Mapping[str, str], ...]  # of each unit's factors
    values: NDArray[np.float64]  # (detectors, units)
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
        name = self.results.metric
        return METRICS[name].label if name in METRICS else name.replace("auroc", "AUROC")

    @property
    def unit(self) -> str:
        """What a unit is."""
        return "run" if self.are_runs else "outlier set"

    def oriented(self, row: int) -> NDArray[np.float64]:
        """Values of a detector, turned so that higher is better."""
        values: NDArray[np.float64] = self.values[row]
        return values if self.results.higher_is_better else -values


def blocks(results: Results) -> Blocks:
    """Arrange a results table for comparison."""
    frame = results.frame
    several = "id" in frame.columns and len(set(frame["id"])) > 1
    names = frame["id"] + " / " + frame["ood"] if several else frame["ood"]
    factors = list(results.factors)
    joined = [", ".join(f"{f}={level}" for f, level in zip(factors, line, strict=True))
              for line in frame[factors].to_numpy().tolist()]  # fmt: skip
    cells = frame.assign(set=names, unit=joined).pivot_table(
        index=["unit", "set"], columns="detector", values="value", sort=False
    )
    present = cells.notna().mean()
    kept = [name for name in results.detectors if present[name] >= ENOUGH]
    whole = cells[kept].dropna()
    if whole.empty:
        told = f" (runs are told apart by {', '.join(factors)})" if factors else ""
        raise UserError(
            f"No run and outlier set has a value for every detector that could be compared{told}; "
            "give a table in which detectors were measured on the same runs."
        )
    by_unit = whole.groupby(level="unit", sort=False).mean()
    are_runs = len(by_unit) > 1
    if not are_runs:
        by_unit = whole.groupby(level="set", sort=False).mean()
    means = by_unit.mean()
    sign = -1 if results.higher_is_better else 1
    ranked = sorted(kept, key=lambda name: sign * means[name])
    levels = {
        unit: dict(zip(factors, map(str, line), strict=True))
        for unit, line in zip(joined, frame[factors].to_numpy().tolist(), strict=True)
    }
    return Blocks(
        results=results,
        detectors=tuple(ranked),
        units=tuple(map(str, by_unit.index)),
        are_runs=are_runs,
        levels=tuple(levels[unit] if are_runs else {} for unit in by_unit.index),
        values=by_unit[ranked].to_numpy(dtype=float).T.copy(),
        sets={
            str(name): part[ranked].to_numpy(dtype=float).T.copy()
            for name, part in whole.groupby(level="set", sort=False)
        },
        left_out=tuple(name for name in results.detectors if name not in kept),
        incomplete=len(cells) - len(whole),
    )
