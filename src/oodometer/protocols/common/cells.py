"""The one arrangement of values: detectors x runs x sets, with gaps, and means over parts of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.factors import Factor, innermost_repeat, names
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.numbering import numbered_within
from oodometer.protocols.common.training_runs import TrainingRuns
from oodometer.results import NOT_GIVEN, Results

LARGEST = 1e6  # no metric is larger, be it a share, a percentage or a distance
ENOUGH = 0.5  # share of the cells that a detector must have to take part


class Pair(NamedTuple):
    """A data set, empty where it is not known, and an outlier set, empty where there is none."""

    id: str
    ood: str

    def label(self, several: bool) -> str:
        """How readers call it; with `several` data sets, together with its own."""
        if self.ood and not several:
            return self.ood
        return " / ".join(filter(None, self)) or "the data set"


def set_word(pairs: Iterable[Pair]) -> str:
    """What readers call one of these pairs: an outlier set of several data sets counts for each.

    >>> set_word([Pair("cifar10", "svhn")]), set_word([Pair("iris", ""), Pair("wine", "")])
    ('outlier set', 'data set')
    >>> set_word([Pair("cifar10", "svhn"), Pair("cifar100", "svhn")])
    'ID/OOD pair'
    """
    known = list(pairs)
    if not any(pair.ood for pair in known):
        return "data set"
    return "ID/OOD pair" if len({pair.id for pair in known}) > 1 else "outlier set"


@dataclass(frozen=True, eq=False)
class Cells:
    """Every value of a results table: a cell is one run on one pair of sets; gaps are NaN."""

    results: Results
    factors: tuple[Factor, ...]  # that tell the runs apart; fewer than the table's after means
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
        return tuple(pair.label(len(self.ids) > 1) for pair in self.pairs)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """The data sets that something was trained on."""
        return tuple(dict.fromkeys(pair.id for pair in self.pairs))

    @cached_property
    def training_runs(self) -> TrainingRuns:
        """Which runs are re-evaluations of one training run."""
        return TrainingRuns.of(self.runs, self.factors)

    @cached_property
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

    def over(self, *factors: str, pairs: Sequence[Pair] | None = None) -> Cells:
        """The mean over the levels of some factors; `pairs` names what each pair becomes one of.

        A detector that lacks a cell that another has is given none: nothing is averaged over a gap.
        """
        own = list(self.runs.values())
        kept = tuple(factor for factor in self.factors if factor.name not in factors)
        levels = [{factor.name: run[factor.name] for factor in kept} for run in own]
        if len(kept) == len(self.factors) and pairs is None:
            return self
        labels = [_label(level) for level in levels]
        names = self.pairs if pairs is None else pairs
        return self._merged(
            kept, dict(zip(labels, levels, strict=True)), labels, tuple(dict.fromkeys(names)), names
        )

    def _merged(
        self,
        factors: tuple[Factor, ...],
        runs: Mapping[str, Mapping[str, str]],
        labels: Sequence[str],
        pairs: tuple[Pair, ...],
        names: Sequence[Pair],
    ) -> Cells:
        """Means of cells whose runs (by label) and pairs (by name) become the same."""
        run_places = {label: place for place, label in enumerate(runs)}
        pair_places = {pair: place for place, pair in enumerate(pairs)}
        run = np.array([run_places[label] for label in labels], dtype=np.intp)[self.run]
        pair = np.array([pair_places[name] for name in names], dtype=np.intp)[self.pair]
        kept, groups = _renumbered(run * len(pairs) + pair)
        return replace(
            self,
            factors=factors,
            runs=runs,
            pairs=pairs,
            values=_present_means(self.values, groups, len(kept)),
            spreads=_present_means(np.where(self.present, self.spreads, np.nan), groups, len(kept)),
            accuracy=_present_means(self.accuracy[None], groups, len(kept))[0],
            run=kept // len(pairs),
            pair=kept % len(pairs),
        )

    def over_parts(self) -> Cells:
        """The mean over the parts of each set, such as its series, in every run.

        Parts that a detector lacks count for nobody, unless it lacks half of all values.
        """
        parts = names(self.factors, "part")
        if not parts:
            return self
        usual = self.present.mean(axis=1) >= ENOUGH
        shared = np.asarray(self.present[usual].all(axis=0))
        return (self.at(shared) if shared.any() else self).over(*parts)

    def over_conditions(self, factor: str) -> Cells:
        """The mean over conditions other than the factor under which all its levels were run.

        Where levels share none, of all that each has: such conditions are nested in the factor.
        """
        others = [name for name in names(self.factors, "condition") if name != factor]
        if not others:
            return self
        runs = list(self.runs.values())
        levels, level = _numbered([(own.get(factor, ""),) for own in runs])
        contexts, context = _numbered([tuple(own[name] for name in others) for own in runs])
        present = np.zeros((len(self.pairs), levels, contexts), dtype=bool)
        present[self.pair, level[self.run], context[self.run]] = True
        measured = np.asarray(present.any(axis=2))[:, :, None]  # levels, on each pair
        shared = ~np.asarray((measured & ~present).any(axis=1))
        nested = ~np.asarray(shared.any(axis=1))
        return self.at(shared[self.pair, context[self.run]] | nested[self.pair]).over(*others)

    def at(self, kept: NDArray[np.bool_]) -> Cells:
        """Some cells only, and the runs and sets that have some."""
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

    def complete(self) -> Cells:
        """The cells in which all detectors have a value, and the runs and sets that have some."""
        return self.at(np.asarray(self.present.all(axis=0)))

    def crossed(self) -> Cells:
        """The largest block of training runs that all have the same pairs; none where none has two.

        A choice of pairs is worth their number times the training runs that have all of them; of
        equal ones the last by name counts, however lines were sorted.
        """
        trained = self.training_runs.numbers[self.run]
        present = np.zeros((len(self.training_runs), len(self.pairs)), dtype=bool)
        present[trained, self.pair] = True
        if present.all():
            return self
        choices = np.unique(present, axis=0)
        worth: list[tuple[int, int, list[Pair]]] = [
            (int(choice.sum() * has.sum()), int(choice.sum()),
             sorted(itertools.compress(self.pairs, choice)))
            if has.sum() > 1 else (0, 0, [])
            for choice in choices
            for has in [present[:, choice].all(axis=1)]
        ]  # fmt: skip
        best = max(range(len(worth)), key=worth.__getitem__)
        chosen = choices[best] if worth[best][0] else np.zeros(len(self.pairs), dtype=bool)
        has_all = np.asarray(present[:, chosen].all(axis=1))
        return self.at(has_all[trained] & chosen[self.pair])

    def matched(self) -> Cells:
        """Repeats of each data set, numbered within it: the first of each is one run, and so on.

        Seeds 1 to 3 of one data set and 4 to 6 of another are three runs on both. Seeds within
        folds are numbered within each fold, so that runs which share a fold still do. What else was
        varied is averaged within each repeat.
        """
        repeats = names(self.factors, "repeat")
        plain = self.over(*(name for name in names(self.factors) if name not in repeats))
        inner = innermost_repeat(plain.factors)
        outward = sorted(repeats, key=lambda name: name == inner)
        runs = [tuple(own[name] for name in outward) for own in plain.runs.values()]
        ids = [plain.ids.index(pair.id) for pair in plain.pairs]
        of_cell = [(ids[pair], runs[run]) for pair, run in zip(plain.pair, plain.run, strict=True)]
        found: dict[int, set[tuple[str, ...]]] = {}
        for own, run in of_cell:
            found.setdefault(own, set()).add(run)
        by_set = {own: numbered_within(has) for own, has in found.items()}
        shared = sorted(set.intersection(*({*own.values()} for own in by_set.values())))
        places = {number: place for place, number in enumerate(shared)}
        number = np.array([places.get(by_set[own][run], -1) for own, run in of_cell], dtype=np.intp)
        levels = [dict(zip(outward, map(str, own), strict=True)) for own in shared]
        labels = {_label(own): {name: own[name] for name in repeats} for own in levels}
        return replace(plain.at(number >= 0), run=number[number >= 0], runs=labels)

    def mean_by_run(self) -> Floats:
        """(detectors, runs): mean over the outlier sets of each run."""
        return _group_means(self.values, self.run, len(self.runs))

    def mean_by_pair(self) -> Floats:
        """(detectors, pairs): mean over all runs of each outlier set."""
        return _group_means(self.values, self.pair, len(self.pairs))

    def by_training_run(self, pair: int) -> Floats:
        """(detectors, training runs that have this outlier set): mean over re-evaluations.

        Training runs are in their own order on every set, however lines were sorted: sets are
        averaged run by run.
        """
        own = self.pair == pair
        found, groups = np.unique(self.training_runs.numbers[self.run[own]], return_inverse=True)
        return _group_means(self.values[:, own], groups, len(found))


def _label(levels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={level}" for name, level in levels.items())


def _numbered(keys: Sequence[tuple[str, ...]]) -> tuple[int, NDArray[np.intp]]:
    """How many distinct keys there are, and the number of each."""
    known = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    return len(known), np.array([known[key] for key in keys], dtype=np.intp)


def _renumbered(numbers: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The distinct numbers in the order of their first occurrence, and each one's place there."""
    import pandas as pd

    places, found = pd.factorize(numbers)
    return found, places


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
    """Sums over the columns of each group; no group is empty."""
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups, minlength=count)
    starts = np.cumsum(sizes) - sizes
    return np.asarray(np.add.reduceat(values[:, order], starts, axis=1))


def cells_of(results: Results) -> Cells:
    """Arrange a results table by run and outlier set."""
    return results.once(_arranged)


def _arranged(results: Results) -> Cells:
    frame = results.frame
    factors = results.factor_names
    columns = {name: _coded(results, name) for name in ("detector", "id", "ood", *factors)}
    runs, run = _combined([columns[name] for name in factors], len(frame))
    pairs, pair = _combined([columns["id"], columns["ood"]], len(frame))
    kept, cell = _renumbered(run * len(pairs) + pair)
    detectors, row = columns["detector"]

    def by_cell(name: str) -> Floats:
        numbers = np.full((len(detectors), len(kept)), np.nan)
        if name in frame.columns:
            numbers[row, cell] = frame[name].to_numpy(dtype=float)
        return numbers

    def frozen(numbers: Floats) -> Floats:
        numbers.flags.writeable = False  # whoever asks for the cells shares them
        return numbers

    levels = [dict(zip(factors, own, strict=True)) for own in runs]
    return Cells(
        results=results,
        factors=results.factors,
        detectors=tuple(detectors),
        runs={_label(own): own for own in levels},
        pairs=tuple(Pair(*own) for own in pairs),
        values=frozen(by_cell("value")),
        spreads=frozen(np.nan_to_num(by_cell("spread"))),
        accuracy=frozen(mean_of_known(by_cell("accuracy"))),
        run=kept // len(pairs),
        pair=kept % len(pairs),
    )


Coded = tuple[list[str], NDArray[np.intp]]  # levels in the order of their first line, and of lines


def _coded(results: Results, name: str) -> Coded:
    import pandas as pd

    if name not in results.frame.columns:
        return [""], np.zeros(len(results.frame), dtype=np.intp)
    codes, levels = pd.factorize(results.frame[name], use_na_sentinel=False)
    texts = [NOT_GIVEN if pd.isna(level) else str(level) for level in levels.tolist()]
    known = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    return list(known), np.array([known[text] for text in texts], dtype=np.intp)[codes]


def _combined(
    columns: Sequence[Coded], lines: int
) -> tuple[list[tuple[str, ...]], NDArray[np.intp]]:
    """The combinations of levels that occur, in the order of their first line, and each line's."""
    number = np.zeros(lines, dtype=np.intp)
    found: list[tuple[str, ...]] = [()]
    for levels, codes in columns:
        kept, number = _renumbered(number * len(levels) + codes)
        found = [(*found[one // len(levels)], levels[one % len(levels)]) for one in kept.tolist()]
    return found, number


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
