"""The runs of each cell that a robustness score is computed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oodometer.metrics.counts import Floats
from oodometer.protocols.common.cells import Cells, Pair
from oodometer.protocols.common.outer_units import mean_by_level
from oodometer.stats.mixture import Moments, run_moments


@dataclass(frozen=True, eq=False)
class Runs:
    """One value per run of one cell, in percent, and the spreads that the table states itself."""

    labels: tuple[str, ...]
    values: Floats
    spreads: Floats  # 0 where a line is a single run
    outer: tuple[str, ...] = ()  # the split, or other repeat, that runs share; empty if none is

    @property
    def units(self) -> tuple[str, ...]:
        """What can be left out: the levels that runs share, or else the runs."""
        return tuple(sorted(set(self.outer))) or self.labels

    @property
    def by_unit(self) -> Runs:
        """The same with the mean over the runs of each unit."""
        if not self.outer:
            return self
        numbers = np.array([self.units.index(own) for own in self.outer])
        means, spreads = (mean_by_level(own, numbers) for own in (self.values, self.spreads))
        return Runs(self.units, means, spreads)

    @property
    def moments(self) -> Moments:
        """Mean and variance: that between the lines and, where stated, that within them."""
        if len(self.values) == 1:  # by far the most, where the factor is the seed
            return Moments(self.values[0], self.spreads[0] ** 2)
        between = run_moments(self.values)
        return Moments(between.mean, between.variance + np.mean(self.spreads**2))

    @property
    def moments_without_each(self) -> Moments:
        """Mean and variance with each unit left out in turn."""
        if self.outer:
            kept = [self.without(unit).moments for unit in self.units]
            return Moments(np.array([m.mean for m in kept]), np.array([m.variance for m in kept]))
        others = all_but_each(len(self.labels))
        between = run_moments(self.values[others])
        within = np.mean(self.spreads[others] ** 2, axis=-1)
        return Moments(between.mean, between.variance + within)

    def without(self, level: str) -> Runs:
        """The same without the runs of a level that they share."""
        kept = np.array(self.outer) != level
        outer = tuple(compress(self.outer, kept))
        labels = tuple(compress(self.labels, kept))
        return Runs(labels, self.values[kept], self.spreads[kept], outer)


def mean_of_sets(by_set: Sequence[Sequence[Runs]]) -> Runs:
    """Means of the runs that all have: over the outlier sets of each data set, then over these."""
    every = [runs for own in by_set for runs in own]
    first = every[0]
    shared = [label for label in first.labels if all(label in runs.labels for runs in every)]
    means = [
        np.mean(
            [[runs.values[runs.labels.index(label)] for label in shared] for runs in own], axis=0
        )
        for own in by_set
    ]
    outer = dict(zip(first.labels, first.outer, strict=bool(first.outer)))
    kept = tuple(outer[label] for label in shared if label in outer)
    return Runs(tuple(shared), np.mean(means, axis=0), np.zeros(len(shared)), kept)


class Parts(NamedTuple):
    """The parts of a mixture."""

    units: tuple[tuple[str], ...]  # the name of each
    moments: Moments  # one mean and one variance per part
    runs: Sequence[Runs] = ()  # of each part; none if each has one run only

    @classmethod
    def of(cls, runs: Mapping[str, Runs]) -> Parts:
        """Parts of any number of runs, by name."""
        moments = [own.moments for own in runs.values()]
        means, variances = ([part[place] for part in moments] for place in (0, 1))
        units = tuple((name,) for name in runs)
        return cls(units, Moments(np.array(means), np.array(variances)), tuple(runs.values()))


class _Block(NamedTuple):
    """The runs of all detectors on one pair under one level."""

    labels: tuple[str, ...]
    values: Floats  # (detectors, runs)
    spreads: Floats
    present: NDArray[np.bool_]
    outer: tuple[str, ...] = ()  # see Runs


class CellRuns(Mapping[tuple[Pair, str, str], Runs]):
    """Runs by pair, detector and level, each made when it is read: a table may have millions."""

    def __init__(self, detectors: Sequence[str], blocks: Mapping[tuple[Pair, str], _Block]) -> None:
        self._rows = {name: row for row, name in enumerate(detectors)}
        self._blocks = blocks
        self._have = {key: block.present.sum(axis=1).tolist() for key, block in blocks.items()}

    def __getitem__(self, key: tuple[Pair, str, str]) -> Runs:
        pair, detector, level = key
        block, row = self._blocks[pair, level], self._rows[detector]
        have = self._have[pair, level][row]
        if have == len(block.labels):
            return Runs(block.labels, block.values[row], block.spreads[row], block.outer)
        if not have:
            raise KeyError(key)
        own = block.present[row]
        return Runs(tuple(compress(block.labels, own)), block.values[row, own],
                    block.spreads[row, own], tuple(compress(block.outer, own)))  # fmt: skip

    def single(self, pair: Pair, levels: Sequence[str]) -> dict[str, Parts]:
        """Each detector's parts on a pair if all levels have one run; else nothing."""
        blocks = [self._blocks[pair, level] for level in levels]
        if not blocks or any(len(block.labels) > 1 for block in blocks):
            return {}
        values = np.concatenate([block.values for block in blocks], axis=1)
        variances = np.concatenate([block.spreads for block in blocks], axis=1) ** 2
        units = tuple((level,) for level in levels)
        return {
            name: Parts(units, Moments(values[row], variances[row]))
            for name, row in self._rows.items()
        }

    @property
    def state_spreads(self) -> bool:
        """Whether some value comes with a standard deviation."""
        return any(block.spreads[block.present].any() for block in self._blocks.values())

    @property
    def places(self) -> list[tuple[Pair, str]]:
        """The pairs and levels that some detector has."""
        return [key for key, have in self._have.items() if any(have)]

    def counted(self) -> dict[tuple[Pair, str], dict[str, int]]:
        """How many runs each detector has on a pair under a level; none of them is made."""
        return {key: dict(zip(self._rows, have, strict=True)) for key, have in self._have.items()}

    def __iter__(self) -> Iterator[tuple[Pair, str, str]]:
        for (pair, level), have in self._have.items():
            yield from ((pair, name, level) for name, row in self._rows.items() if have[row])

    def __len__(self) -> int:
        return sum(sum(map(bool, have)) for have in self._have.values())


def parts_of(
    cells: Mapping[tuple[Pair, str, str], Runs],
    pair: Pair,
    detectors: Sequence[str],
    levels: Sequence[str],
) -> Iterator[tuple[str, Parts]]:
    """The parts of each of these detectors on a pair: one per level."""
    single = cells.single(pair, levels) if isinstance(cells, CellRuns) else {}
    for name in detectors:
        own = single.get(name)
        yield name, own or Parts.of({level: cells[pair, name, level] for level in levels})


def state_spreads(cells: Mapping[tuple[Pair, str, str], Runs]) -> bool:
    """Whether a table states standard deviations of some values."""
    if isinstance(cells, CellRuns):
        return cells.state_spreads
    return any(runs.spreads.any() for runs in cells.values())


def count_runs(
    cells: Mapping[tuple[Pair, str, str], Runs],
) -> dict[tuple[Pair, str], dict[str, int]]:
    """How many runs each detector has on a pair under a level."""
    if isinstance(cells, CellRuns):
        return cells.counted()
    counts: dict[tuple[Pair, str], dict[str, int]] = {}
    for (pair, detector, level), runs in cells.items():
        counts.setdefault((pair, level), {})[detector] = len(runs.labels)
    return counts


def run_of(levels: Mapping[str, str], factor: str) -> tuple[str, str]:
    """The level of the factor in a run, and what readers call the run there.

    >>> run_of({"optimizer": "adam", "seed": "0"}, "optimizer")
    ('adam', 'seed=0')
    """
    others = ", ".join(f"{name}={level}" for name, level in levels.items() if name != factor)
    return levels.get(factor, ""), others


def runs_by_level(cells: Cells, factor: str, outer: str = "") -> CellRuns:
    """Runs of each pair, detector and level of the factor, in the order of their labels.

    `outer`: a repeat whose levels several runs share.
    """
    own_levels = list(cells.runs.values())
    levels, labels = zip(*(run_of(own, factor) for own in own_levels), strict=True)
    columns: dict[tuple[Pair, str], list[int]] = {}
    for cell in sorted(range(len(cells.run)), key=lambda cell: labels[cells.run[cell]]):
        where = cells.pairs[cells.pair[cell]], levels[cells.run[cell]]
        columns.setdefault(where, []).append(cell)
    blocks = {}
    for pair, level in sorted(columns, key=lambda key: min(columns[key])):
        here = columns[pair, level]
        own = tuple(labels[cells.run[cell]] for cell in here)
        blocks[pair, level] = _Block(
            own,
            cells.values[:, here],
            cells.spreads[:, here],
            cells.present[:, here],
            tuple(own_levels[cells.run[cell]][outer] for cell in here) if outer else (),
        )
    return CellRuns(cells.detectors, blocks)


def all_but_each(size: int) -> NDArray[np.intp]:
    """(size, size - 1): a row without each place in turn."""
    return np.nonzero(~np.eye(size, dtype=np.bool_))[1].reshape(size, size - 1)
