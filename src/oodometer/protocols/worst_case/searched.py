"""What a search has found against each detector, beside the outliers that it started from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from oodometer.metrics import Estimate, fpr_at_tpr
from oodometer.protocols.common.sources import sources_of, with_fewer_cases
from oodometer.protocols.common.training_runs import TrainingRuns
from oodometer.protocols.common.words import LEVEL
from oodometer.scores import ScoreTable
from oodometer.stats.comparison import Difference, Placements, auroc_difference, holm, mean_auroc
from oodometer.stats.pairwise import Pairwise, Sources, from_scores

Scores = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LowestRank:
    """MinRank of each run and of each repeat of the search in it, (runs, repeats)."""

    ranks: NDArray[np.int64]

    @property
    def mean(self) -> float:
        """The mean over all of them."""
        return float(self.ranks.mean())

    @property
    def errors(self) -> Mapping[Literal["runs", "repeats"], float | None]:
        """Standard errors; None of what there is only one.

        Over training runs, each with the mean of its repeats; and over repeats of the search in
        one run, s / √repeats, where s² is the mean variance in a run.
        """
        (runs, repeats), means = self.ranks.shape, self.ranks.mean(1)
        within = self.ranks.var(1, ddof=1).mean() if repeats > 1 else 0.0
        return {
            "runs": float(means.std(ddof=1) / runs**0.5) if runs > 1 else None,
            "repeats": float((within / repeats) ** 0.5) if repeats > 1 else None,
        }


@dataclass(frozen=True, eq=False)
class Searched:
    """The searches among one variation of one outlier set, against several detectors."""

    table: ScoreTable
    outliers: str  # name of the clean set
    variation: str
    found: Mapping[str, str]  # detector -> data set that was found against it
    runs: tuple[str, ...]  # those in which each detector scored what was found against it
    # detector -> what repeats of the search found, that with the first seed among them
    repeats: Mapping[str, tuple[str, ...]]
    sources: Mapping[str, Sources]  # detector -> the first run with the same scores, for each

    @property
    def name(self) -> str:
        """What was searched, for titles and behind "the"."""
        return f"{self.variation} search on {self.outliers}"

    @cached_property
    def detectors(self) -> tuple[str, ...]:
        """The detectors that were searched against, the best of the worst case first."""
        return tuple(sorted(self.found, key=lambda name: -self.worst(name).value))

    @property
    def shared(self) -> tuple[str, ...]:
        """Detectors with the same scores in several runs: a network of its own serves these."""
        return tuple(n for n in self.detectors if len({*self.sources[n]}) < len(self.runs))

    @property
    def fewer(self) -> tuple[str, ...]:
        """Those of them that are retrained in fewer runs than others."""
        fewer = with_fewer_cases({name: self.sources[name] for name in self.found})
        return tuple(name for name in self.detectors if name in fewer)

    @cached_property
    def clean_order(self) -> tuple[str, ...]:
        """The same, the best on the clean outliers first."""
        return tuple(sorted(self.found, key=lambda name: -self.clean(name).value))

    def clean(self, detector: str) -> Estimate:
        """AUROC on the outliers that the search started from."""
        return mean_auroc(self._placed[detector, self.outliers], LEVEL)

    def worst(self, detector: str) -> Estimate:
        """AUROC on what was found against the detector."""
        return mean_auroc(self._placed[detector, self.found[detector]], LEVEL)

    def transfer(self, against: str, detector: str) -> float | None:
        """AUROC of a detector on what was found against another; None if it has no score there."""
        placed = self._placed.get((detector, self.found[against]))
        return None if placed is None else float(placed.values.mean())

    def by_run(self, detector: str, *, worst: bool) -> Scores:
        """AUROC of each run, in the worst case or on the clean outliers."""
        return self._placed[detector, self.found[detector] if worst else self.outliers].values

    def single_runs(self, detector: str, *, worst: bool = True) -> list[Placements]:
        """What was found against the detector, placed among known data, each run by itself."""
        dataset = self.found[detector] if worst else self.outliers
        pairs = (self._pair(run, detector, dataset) for run in self.runs)
        return [Placements.of_runs([pair]) for pair in pairs]

    @cached_property
    def lost_in_every_run(self) -> frozenset[str]:
        """Detectors that lose significantly in each run by itself (Holm, all of them and runs).

        A search never finds a higher score than that of the image it began at, so that runs can
        differ in how much is lost only.
        """
        names = list(self.found)
        p_values = [
            auroc_difference(before, after, LEVEL).p_value
            for name in names
            for before, after in zip(
                self.single_runs(name, worst=False), self.single_runs(name), strict=True
            )
        ]
        adjusted = np.array(holm(p_values)).reshape(len(names), -1)
        return frozenset(
            name for name, own in zip(names, adjusted, strict=True) if (own < 1 - LEVEL).all()
        )

    @cached_property
    def losses(self) -> dict[str, Difference]:
        """Clean AUROC − worst AUROC of each detector, paired by image; p adjusted for all."""
        names = list(self.found)
        differences = [
            auroc_difference(
                self._placed[name, self.outliers], self._placed[name, self.found[name]], LEVEL
            )
            for name in names
        ]
        adjusted = holm([difference.p_value for difference in differences])
        return {
            name: difference.adjusted(float(p))
            for name, difference, p in zip(names, differences, adjusted, strict=True)
        }

    def lead(self, first: str, second: str, *, retraining: bool = True) -> Difference:
        """Worst-case AUROC of one detector − that of another, paired by the image that was varied.

        With `retraining`, for other training runs too; without, for these very networks and other
        images. Its p-value is adjusted for all pairs, because the two were chosen by their places.
        Runs that share a network are one case of it (`stats.pairwise`).
        """
        if not retraining:
            difference = self._compared(self._on_these_models, first, second, LEVEL)
        elif first in self.shared or second in self.shared:
            difference = self._compared(self._after_retraining, first, second, LEVEL)
        else:
            one, two = (self._placed[name, self.found[name]] for name in (first, second))
            difference = auroc_difference(one, two, LEVEL)
        pairs = len(self.found) * (len(self.found) - 1) // 2
        return difference.adjusted(min(1.0, pairs * difference.p_value))

    def _compared(self, all_pairs: Pairwise, first: str, second: str, level: float) -> Difference:
        names = list(self.found)
        one, two = names.index(first), names.index(second)
        value = float(all_pairs.means[one] - all_pairs.means[two])
        error, df = (float(of[one, two]) for of in (all_pairs.error, all_pairs.df))
        reach = float(stdtrit(df, 0.5 + 0.5 * level)) * error
        return Difference(
            value,
            max(-1.0, value - reach),
            min(1.0, value + reach),
            2.0 * float(stdtr(df, -abs(value) / error)),
            lambda other: self._compared(all_pairs, first, second, other)[1:3],
        )

    @cached_property
    def _after_retraining(self) -> Pairwise:
        placed = [self._placed[name, own] for name, own in self.found.items()]
        return from_scores(
            placed, retraining=True, sources=[self.sources[name] for name in self.found]
        )

    @cached_property
    def _on_these_models(self) -> Pairwise:
        placed = [self._placed[name, own] for name, own in self.found.items()]
        return from_scores(placed, retraining=False)

    def accepted(self, detector: str, dataset: str) -> float:
        """Share of a set that the detector accepts where it accepts 95% of known data."""
        return float(
            np.mean([fpr_at_tpr(*self._pair(run, detector, dataset)) for run in self.runs])
        )

    def lowest_rank(self, detector: str) -> LowestRank:
        """How many known samples score below the lowest outlier found: 0 is the worst case."""
        return LowestRank(
            np.array(
                [
                    [
                        np.searchsorted(np.sort(known), outliers.min(), side="left")
                        for known, outliers in (
                            self._pair(run, detector, dataset) for dataset in self.repeats[detector]
                        )
                    ]
                    for run in self.runs
                ]
            )
        )

    @property
    def known(self) -> int:
        """How many known samples there are, in the run with the fewest."""
        some = next(iter(self.found))
        return min(len(self._pair(run, some, self.outliers)[0]) for run in self.runs)

    def _pair(self, run: str, detector: str, dataset: str) -> tuple[Scores, Scores]:
        """Scores of known data and of outliers; of clean ones, those that the search began at."""
        known, outliers = (
            self.table.scores(run, detector, name) for name in (self.table.id, dataset)
        )
        assert known is not None and outliers is not None, "complete, or the run is left out"
        return known, outliers[: self._varied[run]]

    @cached_property
    def _varied(self) -> dict[str, int]:
        """Per run, how many images were varied: the first of the clean set."""
        detector, found = next(iter(self.found.items()))
        scores = {run: self.table.scores(run, detector, found) for run in self.runs}
        return {run: len(part) for run, part in scores.items() if part is not None}

    @cached_property
    def _placed(self) -> dict[tuple[str, str], Placements]:
        return {
            (detector, dataset): Placements.of_runs(
                [self._pair(run, detector, dataset) for run in self.runs],
                shared_samples=self.table.same_samples,
            )
            for detector in self.found
            for dataset in (self.outliers, *self.found.values())
            if all(_scored(self.table, run, detector, dataset) for run in self.runs)
        }


def searches(table: ScoreTable) -> list[Searched]:
    """All searches of a table; runs and detectors that lack scores are left out."""
    groups: dict[tuple[str, str], dict[str, dict[int, str]]] = {}
    for name, info in table.sets.items():
        if info.role == "search":
            group = groups.setdefault((info.of, info.by), {})
            group.setdefault(info.against, {})[info.repeat] = name
    made = []
    for (outliers, variation), group in groups.items():
        first = {detector: min(sets.items())[1] for detector, sets in group.items()}
        found, runs = _complete(table, outliers, first)
        repeats = {
            detector: tuple(
                name
                for _, name in sorted(group[detector].items())
                if all(_scored(table, run, detector, name) for run in runs)
            )
            for detector in found
        }
        if found:
            sources = sources_of(table, runs, TrainingRuns.of({run: {} for run in runs}, ()))
            if all(len({*sources[name]}) == 1 for name in found):  # one network each: one case
                runs, sources = runs[:1], {name: own[:1] for name, own in sources.items()}
            made.append(Searched(table, outliers, variation, found, runs, repeats, sources))
    return made


def _complete(
    table: ScoreTable, outliers: str, found: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The detectors and runs to compare: each detector scored what it needs in each of the runs.

    If detectors have no run in common, those with scores in the fewest are left out.
    """
    runs = {
        detector: {
            run
            for run in table.runs
            if all(_scored(table, run, detector, s) for s in (table.id, outliers, name))
        }
        for detector, name in found.items()
    }
    kept = [detector for detector in found if runs[detector]]
    while kept and not set.intersection(*(runs[detector] for detector in kept)):
        kept.remove(min(reversed(kept), key=lambda detector: len(runs[detector])))
    common = set.intersection(*(runs[detector] for detector in kept)) if kept else set()
    return {d: found[d] for d in kept}, tuple(run for run in table.runs if run in common)


def _scored(table: ScoreTable, run: str, detector: str, dataset: str) -> bool:
    return table.scores(run, detector, dataset) is not None
