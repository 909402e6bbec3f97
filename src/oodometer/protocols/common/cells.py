"""The one arrangement of values: detectors x runs x outlier sets, with gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.training_runs import TrainingRuns
from oodometer.results import NOT_GIVEN, Results

LARGEST = 1e6  # no metric is larger, be it a share, a percentage or a distance


class Pair(NamedTuple):
    """An in-distribution set, empty where it is not known, and an outlier set."""

    id: str
    ood: str


@dataclass(frozen=True, eq=False)
class Cells:
    """Every value of a results table: a cell is one run on one outlier set; gaps are NaN."""

    results: Results
    detectors: tuple[str, ...]
    runs: Mapping[str, Mapping[str, str]]  # label -> level of each factor
    pairs: tuple[Pair, ...]
    values: Floats  # (detectors, cells)
    spreads: Floats  # (detectors, cells): standard deviations that the table states, else 0
    accuracy: Floats  # of each cell's classifier; NaN where it is not known
    run: NDArray[np.intp]  # of each cell
    pair: NDArray[np.intp]  # of each cell

    @cached_property
    def sets(self) -> tuple[str, ...]:
        """How the outlier sets are called; with several ID sets, together with theirs."""
        several = len({pair.id for pair in self.pairs}) > 1
        return tuple(f"{pair.id} / {pair.ood}" if several else pair.ood for pair in self.pairs)

    @cached_property
    def training_runs(self) -> TrainingRuns:
        """Which runs are re-evaluations of one training run."""
        return TrainingRuns.of(self.runs, self.results.factors)

    @property
    def present(self) -> NDArray[np.bool_]:
        """(detectors, cells): where there is a value."""
        return ~np.isnan(self.values)

    def of(self, detectors: Sequence[str]) -> Cells:
        """The same of some detectors only, in this order."""
        rows = [self.detectors.index(name) for name in detectors]
        return replace(
            self,
            detectors=tuple(detectors),
            values=self.values[rows],
            spreads=self.spreads[rows],
        )

    def scaled(self, factor: float) -> Cells:
        """The same in another unit."""
        return replace(self, values=factor * self.values, spreads=factor * self.spreads)

    def averaged(self, training_runs: TrainingRuns, pairs: Sequence[Pair] | None = None) -> Cells:
        """One cell per training run and pair: the mean over its re-evaluations.

        `pairs` names a pair of each of the pairs here, if several are to become one. A detector
        that lacks a cell that another has is given none: nothing is averaged over a gap.
        """
        names = self.pairs if pairs is None else pairs
        known = {pair: place for place, pair in enumerate(dict.fromkeys(names))}
        trained = training_runs.numbers[self.run]
        own = np.array([known[pair] for pair in names], dtype=np.intp)[self.pair]
        kept, groups = _renumbered(trained * len(known) + own)
        labels = list(self.runs)
        return replace(
            self,
            runs={
                name: self.runs[labels[members[0]]]
                for name, members in zip(training_runs.names, training_runs.members, strict=True)
            },
            pairs=tuple(known),
            values=_present_means(self.values, groups, len(kept)),
            spreads=_present_means(np.where(self.present, self.spreads, np.nan), groups, len(kept)),
            accuracy=_present_means(self.accuracy[None], groups, len(kept))[0],
            run=np.array([number // len(known) for number in kept], dtype=np.intp),
            pair=np.array([number % len(known) for number in kept], dtype=np.intp),
        )

    def complete(self) -> Cells:
        """The cells in which all detectors have a value, and the runs and sets that have some."""
        kept = self.present.all(axis=0)
        runs, run = _renumbered(self.run[kept])
        pairs, pair = _renumbered(self.pair[kept])
        labels = list(self.runs)
        return replace(
            self,
            values=self.values[:, kept],
            spreads=self.spreads[:, kept],
            accuracy=self.accuracy[kept],
            runs={labels[own]: self.runs[labels[own]] for own in runs},
            run=run,
            pairs=tuple(self.pairs[own] for own in pairs),
            pair=pair,
        )

    def mean_by_run(self) -> Floats:
        """(detectors, runs): mean over the outlier sets of each run."""
        return _group_means(self.values, self.run, len(self.runs))

    def mean_by_pair(self) -> Floats:
        """(detectors, pairs): mean over all runs of each outlier set."""
        return _group_means(self.values, self.pair, len(self.pairs))

    def by_training_run(self, pair: int) -> Floats:
        """(detectors, training runs that have this outlier set): mean over re-evaluations."""
        own = self.pair == pair
        found, groups = _renumbered(self.training_runs.numbers[self.run[own]])
        return _group_means(self.values[:, own], groups, len(found))


def _renumbered(numbers: NDArray[np.intp]) -> tuple[list[int], NDArray[np.intp]]:
    """The distinct numbers in the order of their first occurrence, and each one's place there."""
    places = {number: place for place, number in enumerate(dict.fromkeys(numbers.tolist()))}
    return list(places), np.array([places[number] for number in numbers.tolist()], dtype=np.intp)


def _group_means(values: Floats, groups: NDArray[np.intp], count: int) -> Floats:
    return _group_sums(values, groups, count) / np.bincount(groups, minlength=count)


def _present_means(values: Floats, groups: NDArray[np.intp], count: int) -> Floats:
    """Means over the values of each group that are known; NaN for rows that know fewer."""
    present = ~np.isnan(values)
    counts = _group_sums(present.astype(np.float64), groups, count)
    sums = _group_sums(np.where(present, values, 0.0), groups, count)
    whole = (counts > 0.0) & (counts == counts.max(axis=0))
    return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=whole))


def _group_sums(values: Floats, groups: NDArray[np.intp], count: int) -> Floats:
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups, minlength=count))[:-1]
    parts = np.split(values[:, order], ends, axis=1)
    return np.stack([part.sum(axis=1) for part in parts], axis=1)


def cells_of(results: Results) -> Cells:
    """Arrange a results table by run and outlier set."""
    frame = results.frame
    factors = results.factor_names
    columns = [_texts(results, name) for name in factors]
    levels = list(zip(*columns, strict=True)) if columns else [()] * len(frame)
    ids = _texts(results, "id") if "id" in frame.columns else [""] * len(frame)
    keys = [Pair(*pair) for pair in zip(ids, _texts(results, "ood"), strict=True)]
    runs = {level: place for place, level in enumerate(dict.fromkeys(levels))}
    pairs = {pair: place for place, pair in enumerate(dict.fromkeys(keys))}
    places = [(runs[level], pairs[pair]) for level, pair in zip(levels, keys, strict=True)]
    cells = {cell: place for place, cell in enumerate(dict.fromkeys(places))}
    rows = {name: row for row, name in enumerate(map(str, results.detectors))}
    where = (
        [rows[name] for name in _texts(results, "detector")],
        [cells[place] for place in places],
    )

    def by_cell(name: str) -> Floats:
        numbers = np.full((len(rows), len(cells)), np.nan)
        if name in frame.columns:
            numbers[where] = frame[name].to_numpy(dtype=float)
        return numbers

    return Cells(
        results=results,
        detectors=tuple(rows),
        runs={
            ", ".join(f"{name}={level}" for name, level in zip(factors, own, strict=True)): dict(
                zip(factors, own, strict=True)
            )
            for own in runs
        },
        pairs=tuple(pairs),
        values=by_cell("value"),
        spreads=np.nan_to_num(by_cell("spread")),
        accuracy=mean_of_known(by_cell("accuracy")),
        run=np.array([run for run, _ in cells], dtype=np.intp),
        pair=np.array([pair for _, pair in cells], dtype=np.intp),
    )


def _texts(results: Results, name: str) -> list[str]:
    column = results.frame[name]
    texts: list[str] = column.astype(object).map(str).where(column.notna(), NOT_GIVEN).tolist()
    return texts


def mean_of_known(values: Floats) -> Floats:
    """Mean over the rows that are known, of each column; NaN where none is.

    Equal values have that mean without rounding: rank correlations depend on ties.
    """
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    sums = np.where(known, values, 0.0).sum(axis=0)
    means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    lowest = np.where(known, values, np.inf).min(axis=0, initial=np.inf)
    highest = np.where(known, values, -np.inf).max(axis=0, initial=-np.inf)
    return np.asarray(np.where(lowest == highest, lowest, means))


def require_metric_values(results: Results) -> None:
    """Refuse what no metric can be, and whose square no float could hold."""
    largest = float(results.frame["value"].abs().max())
    if largest > LARGEST:
        raise UserError(
            f"A value of {results.label} is {largest:.3g}; shares up to 1 or percentages up to 100 "
            "are needed."
        )
