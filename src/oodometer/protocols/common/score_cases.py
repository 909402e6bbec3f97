"""What can be compared by scores: detectors that have them in every run on every outlier set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from oodometer.errors import UserError
from oodometer.factors import Factor
from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.outer_units import OuterUnits
from oodometer.protocols.common.sources import sources_at, sources_of
from oodometer.protocols.common.training_runs import TrainingRuns
from oodometer.scores import ScoreTable
from oodometer.stats.averaging import average_over_sets, average_re_evaluations
from oodometer.stats.comparison import Placements
from oodometer.stats.pairwise import Pairwise, Sources, from_scores, from_values
from oodometer.stats.ranks import rank_matrix

SHARES = (0.0, 1.0)  # between which AUROC lies


@dataclass(frozen=True, eq=False)
class ScoreCases:
    """The detectors that can be compared, best mean AUROC first, with all that comparing needs.

    A case is a training run; of several re-evaluations, such as its checkpoints, the mean counts.
    Conditions weigh the same in means, whatever their numbers of runs.
    """

    table: ScoreTable
    runs: tuple[str, ...]  # those that have scores at all
    training_runs: TrainingRuns
    detectors: tuple[str, ...]
    placements: Mapping[tuple[str, str], Placements]  # detector, outlier set; by training run
    overall: Mapping[str, Placements]  # detector -> mean over outlier sets
    run_values: Floats  # (detectors, runs): mean AUROC over the outlier sets
    sources: Mapping[str, Sources]  # detector -> which training runs have different scores at all

    @cached_property
    def order(self) -> Floats:
        """(detectors, training runs): rank by mean AUROC over the outlier sets, 1 = best."""
        return rank_matrix(np.array([self.overall[name].values for name in self.detectors]))

    @cached_property
    def run_order(self) -> Floats:
        """(detectors, runs): the same within each run."""
        return rank_matrix(self.run_values)

    def at(self, detector: str, training_runs: Sequence[int]) -> Placements:
        """The mean over outlier sets of a detector, in some training runs only."""
        placed = self.overall[detector]
        parts = [
            np.split(samples, np.cumsum(sizes)[:-1])
            for samples, sizes in ((placed.id, placed.id_sizes), (placed.ood, placed.ood_sizes))
        ]
        own = list(training_runs)
        return Placements(
            id=np.concatenate([parts[0][place] for place in own]),
            ood=np.concatenate([parts[1][place] for place in own]),
            id_sizes=placed.id_sizes[own],
            ood_sizes=placed.ood_sizes[own],
            shared_samples=placed.shared_samples,
        )

    def compared(self, placed: Sequence[Placements], *, retraining: bool = True) -> Pairwise:
        """Compare all detectors, by the scores of each in all training runs."""
        every = range(len(self.training_runs))
        return self._compared(placed, every, retraining=retraining)

    def compared_at(self, training_runs: Sequence[int]) -> Pairwise:
        """Compare all detectors by their means over outlier sets, in some training runs only."""
        placed = [self.at(name, training_runs) for name in self.detectors]
        return self._compared(placed, training_runs, retraining=True)

    def _compared(
        self, placed: Sequence[Placements], own: Sequence[int], *, retraining: bool
    ) -> Pairwise:
        units = self.units.at(own)
        sources = [sources_at(self.sources[name], own) for name in self.detectors]
        if not retraining:
            return from_scores(units.weighted(placed), retraining=False, sources=sources)
        pairwise = from_scores(placed, retraining=True, sources=sources)
        values = np.array([one.values for one in placed])
        found = units.compared(values, lambda v: from_values(v, bounds=SHARES), pairwise)
        return units.with_means(found, values, SHARES)

    def mean(self, placed: Placements, level: float) -> Estimate:
        """Mean AUROC over training runs by itself; conditions weigh the same."""
        alone = from_scores([placed], retraining=True)
        return self.units.with_means(alone, placed.values[None], SHARES).intervals(level)[0]

    def mean_of_runs(self, values: Mapping[str, float]) -> float:
        """Mean of values by run: over re-evaluations, then over runs, as means of AUROC are."""
        by_run = np.array([values[run] for run in self.runs])
        return float(
            self.units.mean(np.array([by_run[[*own]].mean() for own in self.training_runs.members]))
        )

    @cached_property
    def units(self) -> OuterUnits:
        """What the training runs have in common."""
        return _units(self.table, self.runs, self.training_runs)

    @property
    def run_word(self) -> str:
        """The word for a run: those that re-evaluate others are no training runs."""
        return "run" if self.training_runs.has_re_evaluations else "training run"

    @property
    def unranked(self) -> list[str]:
        """Detectors that lack some scores."""
        return [name for name in self.represented if name not in self.detectors]

    @cached_property
    def represented(self) -> list[str]:
        """Detectors with a setting that stands for them; those that learn from outliers have none.

        Nor have those that no network of the study allows.
        """
        named = {row.detector for row in self.table.rows if row.default}
        return [name for name in self.table.detectors if name in named]

    @property
    def factors(self) -> tuple[Factor, ...]:
        """What the runs with scores differ in."""
        return _factors(self.table, self.runs)


def _factors(table: ScoreTable, runs: Sequence[str]) -> tuple[Factor, ...]:
    varied = {name for run in runs for name in table.runs[run]}
    return tuple(factor for factor in table.factors if factor.name in varied)


def _units(table: ScoreTable, runs: Sequence[str], training_runs: TrainingRuns) -> OuterUnits:
    first = (runs[own[0]] for own in training_runs.members)
    return OuterUnits.of([table.runs[run] for run in first], _factors(table, runs))


def score_cases(table: ScoreTable) -> ScoreCases:
    """Find what can be compared; a run without any score is left out for everybody."""
    if all(row.setting in table.outliers_by_setting for row in table.rows):
        raise UserError(
            f"All detectors here learn from outliers ({', '.join(table.detectors)}): OD-test is "
            "for them, and a comparison with others needs some that have seen none."
        )
    with_scores = {row.run for row in table.rows}
    runs = tuple(run for run in table.runs if run in with_scores)
    training_runs = TrainingRuns.of({run: table.runs[run] for run in runs}, table.factors)
    by_run = _placements_by_run(table, runs)
    ranked = [d for d in table.detectors if all((d, ood) in by_run for ood in table.ood)]
    if not ranked or not table.ood:
        raise UserError("No detector has scores in every run on every outlier set.")
    placements = {
        cell: average_re_evaluations(placed, [list(own) for own in training_runs.members])
        for cell, placed in by_run.items()
    }
    overall = {d: average_over_sets([placements[d, ood] for ood in table.ood]) for d in ranked}
    # Equal means keep the order of the table: a stable sort.
    units = _units(table, runs, training_runs)
    ranked.sort(key=lambda d: -float(units.mean(overall[d].values)))
    run_values = [np.mean([by_run[d, ood].values for ood in table.ood], axis=0) for d in ranked]
    sources = sources_of(table, runs, training_runs)
    return ScoreCases(
        table,
        runs,
        training_runs,
        tuple(ranked),
        placements,
        overall,
        np.array(run_values),
        sources,
    )


def _placements_by_run(table: ScoreTable, runs: Sequence[str]) -> dict[tuple[str, str], Placements]:
    """Detector, outlier set -> its scores in every run; only where none is missing."""
    found = {}
    for detector in table.detectors:
        for ood in table.ood:
            pairs = [
                (table.scores(run, detector, table.id), table.scores(run, detector, ood))
                for run in runs
            ]
            complete = [(a, b) for a, b in pairs if a is not None and b is not None]
            if len(complete) == len(runs):
                found[detector, ood] = Placements.of_runs(
                    complete, shared_samples=table.same_samples
                )
    return found
