"""The one arrangement of what was measured: detectors x training runs x outlier sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.factors import Factor, names
from oodometer.metrics.counts import Floats
from oodometer.results import Results
from oodometer.stats.ranks import rank_matrix

ENOUGH = 0.5  # share of the cells that a detector must have to take part
LARGER = 1.5  # times as many values let another choice of detectors take its place
PATTERNS = 500  # of present detectors, tried as such choices
NOT_GIVEN = "not given"  # the level of a run for which the table states none


@dataclass(frozen=True)
class TrainingRuns:
    """Which runs evaluate the same training run: together they are one case.

    >>> levels = {"a": {"seed": 0, "epoch": 1}, "b": {"seed": 0, "epoch": 2}, "c": {"seed": 1}}
    >>> factors = [Factor("seed", "repeat"), Factor("epoch", "re_evaluation")]
    >>> TrainingRuns.of(levels, factors)
    TrainingRuns(names=('seed=0', 'c'), members=((0, 1), (2,)))
    """

    names: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]  # positions of the runs that evaluate each

    @staticmethod
    def of(levels: Mapping[str, Mapping[str, object]], factors: Iterable[Factor]) -> TrainingRuns:
        """Group runs, by name, that differ in re-evaluations alone."""
        later = names(factors, "re_evaluation")
        found: dict[tuple[tuple[str, object], ...], list[int]] = {}
        for place, (run, own) in enumerate(levels.items()):
            trained = tuple((name, level) for name, level in own.items() if name not in later)
            # Without factors, runs are told apart by their names alone.
            found.setdefault(trained if own else (("", run),), []).append(place)
        runs = list(levels)
        return TrainingRuns(
            tuple(
                runs[own[0]]
                if len(own) == 1
                else ", ".join(f"{name}={level}" for name, level in trained) or "the training run"
                for trained, own in found.items()
            ),
            tuple(map(tuple, found.values())),
        )

    def __len__(self) -> int:
        """How many training runs there are."""
        return len(self.members)

    @property
    def has_re_evaluations(self) -> bool:
        """Whether some training run is evaluated more than once."""
        return any(len(own) > 1 for own in self.members)

    def mean(self, values: Floats, axis: int = -1) -> Floats:
        """Average values by run over the runs of each training run."""
        parts = [values.take(own, axis=axis).mean(axis=axis) for own in self.members]
        return np.stack(parts, axis=axis)


def independent_changes(
    levels: Mapping[str, Mapping[str, object]], factor: str, factors: Sequence[Factor]
) -> int:
    """How many independent changes of one factor runs show, each of which has a partner.

    n training runs that agree in everything else show n - 1, however often each was evaluated;
    re-evaluations of one training run show one.

    >>> runs = {f"{s} {e}": {"seed": s, "epoch": e} for s in (0, 1, 2) for e in (10, 20)}
    >>> factors = [Factor("seed", "repeat"), Factor("epoch", "re_evaluation")]
    >>> independent_changes(runs, "seed", factors), independent_changes(runs, "epoch", factors)
    (2, 3)
    """
    trained = TrainingRuns.of(levels, factors)
    if factor in names(factors, "re_evaluation"):
        return len(trained)
    runs = list(levels)
    without = {runs[own[0]]: {**levels[runs[own[0]]], factor: ""} for own in trained.members}
    return len(trained) - len(TrainingRuns.of(without, factors))


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
        return replace(self, detectors=tuple(detectors), values=self.values[rows])

    def complete(self) -> Cells:
        """The cells in which all detectors have a value, and the runs and sets that have some."""
        kept = self.present.all(axis=0)
        runs, run = _renumbered(self.run[kept])
        pairs, pair = _renumbered(self.pair[kept])
        labels = list(self.runs)
        return replace(
            self,
            values=self.values[:, kept],
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
        trained = np.empty(len(self.runs), dtype=np.intp)
        for number, members in enumerate(self.training_runs.members):
            trained[list(members)] = number
        found, groups = _renumbered(trained[self.run[own]])
        return _group_means(self.values[:, own], groups, len(found))


def _renumbered(numbers: NDArray[np.intp]) -> tuple[list[int], NDArray[np.intp]]:
    """The distinct numbers in the order of their first occurrence, and each one's place there."""
    places = {number: place for place, number in enumerate(dict.fromkeys(numbers.tolist()))}
    return list(places), np.array([places[number] for number in numbers.tolist()], dtype=np.intp)


def _group_means(values: Floats, groups: NDArray[np.intp], count: int) -> Floats:
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups, minlength=count))[:-1]
    parts = np.split(values[:, order], ends, axis=1)
    return np.stack([part.mean(axis=1) for part in parts], axis=1)


def cells_of(results: Results) -> Cells:
    """Arrange a results table by run and outlier set."""
    frame = results.frame
    factors = results.factor_names
    columns = [
        frame[name].astype(object).map(str).where(frame[name].notna(), NOT_GIVEN).tolist()
        for name in factors
    ]
    levels = list(zip(*columns, strict=True)) if columns else [()] * len(frame)
    ids = frame["id"].astype(str).tolist() if "id" in frame.columns else [""] * len(frame)
    keys = [Pair(*pair) for pair in zip(ids, frame["ood"].astype(str), strict=True)]
    runs = {level: place for place, level in enumerate(dict.fromkeys(levels))}
    pairs = {pair: place for place, pair in enumerate(dict.fromkeys(keys))}
    places = [(runs[level], pairs[pair]) for level, pair in zip(levels, keys, strict=True)]
    cells = {cell: place for place, cell in enumerate(dict.fromkeys(places))}
    rows = {name: row for row, name in enumerate(results.detectors)}
    values = np.full((len(rows), len(cells)), np.nan)
    values[[rows[name] for name in frame["detector"]], [cells[place] for place in places]] = frame[
        "value"
    ].to_numpy(dtype=float)
    return Cells(
        results=results,
        detectors=results.detectors,
        runs={
            ", ".join(f"{name}={level}" for name, level in zip(factors, own, strict=True)): dict(
                zip(factors, own, strict=True)
            )
            for own in runs
        },
        pairs=tuple(pairs),
        values=values,
        run=np.array([run for run, _ in cells], dtype=np.intp),
        pair=np.array([pair for _, pair in cells], dtype=np.intp),
    )


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
        told = f" (runs are told apart by {', '.join(factors)})" if factors else ""
        raise UserError(
            f"No run and outlier set has a value for every detector that could be compared{told}; "
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
