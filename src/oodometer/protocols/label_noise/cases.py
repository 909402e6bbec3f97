"""Values under label noise: four questions to every detector, in every run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError, unknown
from oodometer.factors import Factor, names
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.cases import SEVERAL
from oodometer.protocols.common.cells import Cells, cells_of, mean_of_known
from oodometer.protocols.common.differences import FEWEST_FOR_T, Paired, compare_runs
from oodometer.protocols.common.outer_units import INDEPENDENT, OuterUnits
from oodometer.protocols.common.training_runs import TrainingRuns
from oodometer.protocols.label_noise.labels import (
    Labels,
    clean_level,
    labels_of,
    noise_factor,
    noise_rates,
    with_given_labels,
    without_id,
)
from oodometer.protocols.label_noise.questions import QUESTIONS
from oodometer.results import Results
from oodometer.stats.pairwise import Pairwise

MEAN = "mean auroc"  # over outlier sets, where the questions are medians

Key = tuple[str, ...]  # levels of a run's factors other than the noise
Runs = Mapping[Key, float]


@dataclass(frozen=True, eq=False)
class NoiseCases:
    """A value per question, detector and run: the median over outlier sets; gaps are NaN.

    A case is a training run or, if there are several data sets, a data set: what noise does to
    other such sets is asked then, and training runs within a set are not independent of it.
    """

    noise: str  # the factor
    clean: str | None  # its level without noise
    levels: tuple[str, ...]  # clean first
    detectors: tuple[str, ...]
    factors: tuple[Factor, ...]  # also the ID set, if there are several
    runs: tuple[Mapping[str, str], ...]  # levels of the factors
    values: Mapping[str, Floats]  # question, or MEAN -> (detectors, runs)
    accuracy: Floats  # of each run's classifier
    sets: int
    rates: Mapping[str, float]  # of levels, where a column tells
    unlabelled: int = 0  # rows left out because they do not say which labels were used
    describing: tuple[str, ...] = ()  # factors that describe the noise and are averaged within it

    @property
    def questions(self) -> tuple[str, ...]:
        """Those of QUESTIONS that can be answered."""
        return tuple(name for name in QUESTIONS if name in self.values)

    @property
    def has_accuracy(self) -> bool:
        """Whether the accuracy of some classifier is known."""
        return bool(np.isfinite(self.accuracy).any())

    @cached_property
    def noisy(self) -> tuple[str, ...]:
        """Levels with noise."""
        return tuple(level for level in self.levels if level != self.clean)

    @cached_property
    def others(self) -> tuple[str, ...]:
        """The other factors."""
        return tuple(name for name in names(self.factors) if name != self.noise)

    @cached_property
    def are_data_sets(self) -> bool:
        """Whether data sets are the cases, not training runs."""
        return "id" in self.others and len({run["id"] for run in self.runs}) >= SEVERAL

    @property
    def case(self) -> str:
        """The word for a case."""
        return "data set" if self.are_data_sets else "training run"

    @property
    def re_evaluations(self) -> tuple[str, ...]:
        """Factors whose levels evaluate the same training run."""
        return names(self.factors, "re_evaluation")

    @cached_property
    def training_runs(self) -> TrainingRuns:
        """Which runs evaluate the same training run."""
        return TrainingRuns.of({str(n): own for n, own in enumerate(self.runs)}, self.factors)

    @cached_property
    def training_levels(self) -> NDArray[np.str_]:
        """The labels of each training run."""
        return np.array([self.runs[own[0]][self.noise] for own in self.training_runs.members])

    def by_training_run(self, question: str) -> Floats:
        """(detectors, training runs): means over the re-evaluations that are known."""
        return self._over_re_evaluations(self.values[question])

    @cached_property
    def units(self) -> OuterUnits:
        """What the cases have in common; nothing if data sets are the cases."""
        if self.are_data_sets:
            return INDEPENDENT
        levels = [self.runs[own[0]] for own in self.training_runs.members]
        return OuterUnits.of(levels, self.factors)

    def both(self, one: str, other: str) -> tuple[Floats, Floats]:
        """Two questions, (detectors, cases) each; NaN where either is not answered."""
        first, second = self.by_training_run(one), self.by_training_run(other)
        gap = np.isnan(first) | np.isnan(second)
        return (
            self._by_case(np.where(gap, np.nan, first)),
            self._by_case(np.where(gap, np.nan, second)),
        )

    def known_pairs(self, one: Floats, other: Floats) -> Paired:
        """Two values per case, where both are known."""
        both = ~np.isnan(one) & ~np.isnan(other)
        units = self.units if self.are_data_sets else self.units.at(both)
        return Paired(one[both], other[both], units)

    def by_case(self, question: str) -> Floats:
        """(detectors, cases): means over what is known of each."""
        return self._by_case(self.by_training_run(question))

    def mean(self, values: Floats, levels: Sequence[str] | None = None) -> Floats:
        """Means of (rows, training runs), at some levels of the noise or over all.

        Data sets weigh the same or, where training runs are the cases, conditions, as in the
        ranking. NaN where nothing is known.
        """
        if levels is not None:
            values = np.where(np.isin(self.training_levels, levels), values, np.nan)
        return self.units.mean_of_known(self._by_case(values))

    def _by_case(self, values: Floats) -> Floats:
        """From training runs to cases."""
        if not self.are_data_sets:
            return values
        return np.stack([mean_of_known(values[:, own].T) for own in self.by_data_set], axis=1)

    @cached_property
    def by_data_set(self) -> list[NDArray[np.intp]]:
        """The training runs of each data set, if data sets are the cases; else all of them."""
        if not self.are_data_sets:
            return [np.arange(len(self.training_runs))]
        ids = np.array([self.runs[own[0]]["id"] for own in self.training_runs.members])
        return [np.flatnonzero(ids == own) for own in dict.fromkeys(ids.tolist())]

    @cached_property
    def blocks(self) -> list[NDArray[np.intp]]:
        """The training runs of each data set or, if several share a split, of each split."""
        outermost = self.units.outermost
        if not outermost:
            return self.by_data_set
        levels = self.units.shared[outermost]
        return [np.flatnonzero(levels == own) for own in np.unique(levels)]

    @cached_property
    def training_accuracy(self) -> Floats:
        """Accuracy of each training run, mean over re-evaluations."""
        return np.asarray(self._over_re_evaluations(self.accuracy[None])[0])

    def _over_re_evaluations(self, values: Floats) -> Floats:
        members = self.training_runs.members
        return np.stack([mean_of_known(values[:, own].T) for own in members], axis=1)

    def at(self, detector: str, level: str, question: str = "auroc") -> Floats:
        """One value per case at this level."""
        return self.with_units(detector, level, question).a

    def independent_at(self, detector: str, level: str) -> Floats:
        """The same with one value for all cases that share a split."""
        own = self.with_units(detector, level)
        return own.units.means(own.a)

    def with_units(self, detector: str, level: str, question: str = "auroc") -> Paired:
        """The same, paired with itself, and what these cases have in common."""
        own = self._runs_at(detector, level, question)
        return self._pairs(own, own, self.others)

    def run_values(self, detector: str, level: str, question: str = "auroc") -> Floats:
        """One value per run at this level: re-evaluations of a training run are several."""
        return np.array(list(self._runs_at(detector, level, question).values()))

    def _runs_at(self, detector: str, level: str, question: str = "auroc") -> Runs:
        """The value of each run at a level, by the levels of its other factors."""
        row = self.values[question][self.detectors.index(detector)]
        known = ((key, float(row[run])) for key, run in self._keys[level].items())
        return {key: value for key, value in known if value == value}  # not NaN

    @cached_property
    def _keys(self) -> Mapping[str, Mapping[Key, int]]:
        """Level of the noise -> levels of the other factors -> run."""
        keys: dict[str, dict[Key, int]] = {level: {} for level in self.levels}
        for run, own in enumerate(self.runs):
            keys[own[self.noise]][tuple(own[name] for name in self.others)] = run
        return keys

    def paired(self, detector: str, one: str, other: str, question: str = "auroc") -> Paired:
        """Values of cases that differ in the noise alone, in the same order."""
        first, second = (self._runs_at(detector, level, question) for level in (one, other))
        return self._pairs(first, second, self.others)

    def with_any_noise(self, detector: str) -> Paired:
        """Values of cases with clean labels, and means over the kinds of noise that each has."""
        assert self.clean is not None, "asked only where clean labels are known"
        noisy = [self._runs_at(detector, level) for level in self.noisy]
        means = {
            key: float(np.mean([own[key] for own in noisy if key in own]))
            for key in dict.fromkeys(key for own in noisy for key in own)
        }
        return self._pairs(self._runs_at(detector, self.clean), means, self.others)

    def versus(self, one: str, other: str, level: str, question: str = "auroc") -> Paired:
        """Values of two detectors in the same cases at one level of the noise."""
        first, second = (self._runs_at(detector, level, question) for detector in (one, other))
        return self._pairs(first, second, self.others)

    def shared_at(self, level: str) -> Pairwise | None:
        """Compare all detectors at one level by variances that they share, if all have all runs."""
        runs = {tuple(self._runs_at(name, level)) for name in self.detectors}
        if self.are_data_sets or len(runs) > 1:
            return None
        found = [self.with_units(name, level) for name in self.detectors]
        values = np.array([own.a for own in found])
        if values.shape[1] < FEWEST_FOR_T:
            return None
        return compare_runs(values, found[0].units, bounds=(0.0, 1.0))

    def chosen(
        self, detector: str, factor: str, one: str, other: str, levels: Sequence[str]
    ) -> Paired:
        """Values under two levels of another factor, all else being the same."""
        place = self.others.index(factor)
        found: dict[str, dict[Key, float]] = {one: {}, other: {}}
        for level in levels:
            for key, value in self._runs_at(detector, level).items():
                found[key[place]][level, *key[:place], *key[place + 1 :]] = value
        rest = [name for name in self.others if name != factor]
        return self._pairs(found[one], found[other], [self.noise, *rest])

    def overall_noise(self, one: str, other: str) -> Paired:
        """Means over detectors of cases that differ in the noise alone."""
        return mean_pairs([self.paired(name, one, other) for name in self.detectors])

    def overall_choice(self, factor: str, one: str, other: str, levels: Sequence[str]) -> Paired:
        """Means over detectors under two levels of another factor, all else being the same."""
        pairs = [self.chosen(name, factor, one, other, levels) for name in self.detectors]
        return mean_pairs(pairs)

    def _pairs(self, first: Runs, second: Runs, columns: Sequence[str]) -> Paired:
        """One mean per case of runs that both have; `columns`: factors of their keys."""
        trained = [p for p, name in enumerate(columns) if name not in self.re_evaluations]
        kept = [columns[place] for place in trained]
        means = {
            key: np.array((value, second[key])) for key, value in first.items() if key in second
        }
        means = _means_by(means, trained)
        units = INDEPENDENT
        if self.are_data_sets:
            means = _means_by(means, [kept.index("id")])
        else:
            units = OuterUnits.of(
                [dict(zip(kept, key, strict=True)) for key in means], self.factors
            )
        values = np.array(list(means.values())).reshape(-1, 2)
        return Paired(values[:, 0].copy(), values[:, 1].copy(), units)

    def labels(self, level: str) -> Labels:
        """The kind, rate and source of a level's noise."""
        if level == self.clean:
            return Labels("clean", 0.0, None)
        return labels_of(level, self.rates.get(level))


def _means_by(values: Mapping[Key, Floats], places: Sequence[int]) -> dict[Key, Floats]:
    """Means of values whose keys agree at these places."""
    groups: dict[Key, list[Floats]] = {}
    for key, value in values.items():
        groups.setdefault(tuple(key[place] for place in places), []).append(value)
    return {key: np.mean(own, axis=0) for key, own in groups.items()}


def known(values: Floats) -> Floats:
    """The values without gaps."""
    return np.asarray(values[~np.isnan(values)])


def mean_pairs(pairs: Sequence[Paired]) -> Paired:
    """The mean over detectors; those that lack a case that others have take no part."""
    most = max(pair.size for pair in pairs)
    whole = [pair for pair in pairs if pair.size == most]
    first = np.mean([pair.a for pair in whole], axis=0)
    return Paired(first, np.mean([pair.b for pair in whole], axis=0), whole[0].units)


def noise_cases(tables: Mapping[str, Results], noise: str | None = None) -> NoiseCases:
    """Reduce each run to its median over outlier sets, for every question."""
    if "auroc" not in tables:
        raise unknown("metric that label noise needs", "auroc", tables)
    factor = noise_factor(tables["auroc"].factor_names, noise)
    given = {name: with_given_labels(tables[name], factor) for name in QUESTIONS if name in tables}
    labelled = {name: without_id(own, factor) for name, own in given.items() if own is not None}
    if "auroc" not in labelled:
        raise UserError(f"No row says which labels its run was trained on: '{factor}' is empty.")
    main = labelled["auroc"]
    whole = {name: cells_of(own).over_parts() for name, own in labelled.items()}
    describing = _describing(whole["auroc"], factor, clean_level(main, factor))
    cells = {name: own.over(*describing) for name, own in whole.items()}
    several = len({pair.id for pair in cells["auroc"].pairs}) > 1
    keys = list(dict.fromkeys(_run_keys(cells["auroc"], several)))
    detectors = cells["auroc"].detectors
    members = {name: _cells_of_runs(own, keys, several) for name, own in cells.items()}
    values = {
        name: _reduced(own.of(detectors).values, members[name], np.median)
        for name, own in cells.items()
    }
    values[MEAN] = _reduced(cells["auroc"].values, members["auroc"], np.mean)
    accuracy = cells["auroc"].accuracy[:, None]
    factors = (*cells["auroc"].factors, *((Factor("id"),) if several else ()))
    runs = tuple(dict(zip(names(factors), key, strict=True)) for key in keys)
    levels = list(dict.fromkeys(own[factor] for own in runs))
    clean = clean_level(main, factor)
    if clean is not None:
        levels = [clean, *(level for level in levels if level != clean)]
    return NoiseCases(
        noise=factor,
        clean=clean,
        levels=tuple(levels),
        detectors=detectors,
        factors=factors,
        runs=runs,
        values=values,
        accuracy=np.array([mean_of_known(accuracy[own])[0] for own in members["auroc"]]),
        sets=len(main.ood),
        rates=noise_rates(main, factor),
        unlabelled=len(tables["auroc"].frame) - len(main.frame),
        describing=describing,
    )


def _describing(cells: Cells, noise: str, clean: str | None) -> tuple[str, ...]:
    """Conditions that describe the noise, such as its level: clean labels share none of theirs.

    No two runs differ in the noise alone then; within each kind of noise they are averaged.
    """
    found = []
    for name in names(cells.factors, "condition"):
        levels = [{run[name] for run in cells.runs.values() if (run[noise] == clean) == is_clean}
                  for is_clean in (True, False)]  # fmt: skip
        if name != noise and all(levels) and not levels[0] & levels[1]:
            found.append(name)
    return tuple(found)


def _run_keys(cells: Cells, several: bool) -> list[Key]:
    """What tells the run of each cell: its levels, and the ID set if there are several."""
    levels = [tuple(own.values()) for own in cells.runs.values()]
    ids = [(pair.id,) if several else () for pair in cells.pairs]
    return [(*levels[run], *ids[pair]) for run, pair in zip(cells.run, cells.pair, strict=True)]


def _cells_of_runs(cells: Cells, keys: Sequence[Key], several: bool) -> list[list[int]]:
    """Which cells each run has."""
    members: dict[Key, list[int]] = {key: [] for key in keys}
    for cell, key in enumerate(_run_keys(cells, several)):
        if key in members:
            members[key].append(cell)
    return list(members.values())


def _reduced(
    values: Floats, members: Sequence[Sequence[int]], reduce: Callable[..., Floats]
) -> Floats:
    """(detectors, runs): one number of the known values of each run's cells."""
    found = np.full((len(values), len(members)), np.nan)
    for run, own in enumerate(members):
        part = values[:, own]
        known = ~np.isnan(part)
        whole = known.all(axis=1) & (len(own) > 0)
        found[whole, run] = reduce(part[whole], axis=1)
        for row in np.flatnonzero(known.any(axis=1) & ~whole):
            found[row, run] = reduce(part[row, known[row]])
    return found
