"""Every setting of every detector: not chosen, chosen on other outliers, or on the test itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.metrics import auroc
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.outer_units import INDEPENDENT, OuterUnits
from oodometer.protocols.common.training_runs import TrainingRuns
from oodometer.scores import Level, ScoreTable, validation_half
from oodometer.stats.averaging import average_over_sets, average_re_evaluations
from oodometer.stats.comparison import Placements
from oodometer.stats.tuning import Tuning, sensitivity, tuning_leave_one_out

CHOICES = ("default", "tuned", "oracle")
Judged = list[tuple[Floats, Floats]]  # one run: ID samples for testing and outliers, of each set
Grid = dict[str, dict[str, Floats]]  # setting -> data set -> scores


@dataclass(frozen=True, eq=False)
class TunedDetector:
    """One detector in every case: a training run, or an outlier set of a single training run."""

    name: str
    default: Floats  # (cases,): AUROC of the default, of the tuned and of the best setting
    tuned: Floats
    oracle: Floats
    choices: tuple[Tuning, ...]  # one per run and test set
    curve: Mapping[str, Floats]  # setting -> mean AUROC over outlier sets, per training run
    settings: Mapping[str, Mapping[str, Level]]  # setting -> its values by name
    incomplete: int  # settings that some run lacks
    samples: Mapping[str, Placements]  # choice -> samples it was judged by, if one training run
    units: OuterUnits = INDEPENDENT  # what the training runs have in common

    def mean(self, values: Floats) -> float:
        """Mean over the cases; conditions weigh the same."""
        return float(self.units.mean(values))

    @cached_property
    def spread(self) -> float:
        """How far the best setting's mean over all runs lies above the worst's."""
        means = [self.mean(values) for values in self.curve.values()]
        return max(means) - min(means)

    def usual(self, choice: str) -> tuple[str, int]:
        """The setting that was chosen most often, and how often."""
        return Counter(getattr(part, choice).setting for part in self.choices).most_common(1)[0]


@dataclass(frozen=True, eq=False)
class TuningCases:
    """What choosing settings does, for every detector that has a grid."""

    detectors: tuple[TunedDetector, ...]
    fixed: Mapping[str, Floats]  # detectors without a grid -> AUROC of each case
    fixed_samples: Mapping[str, Placements]  # the same of one training run -> its samples
    learned: tuple[str, ...]  # detectors learned from outliers, which take no part
    left_out: tuple[str, ...]  # detectors with a grid that no run has whole
    count: int
    are_runs: bool  # training runs are the cases, not outlier sets
    runs: int  # several may evaluate one training run
    sets: int
    units: OuterUnits = INDEPENDENT  # what the training runs have in common

    @cached_property
    def promise(self) -> float:
        """What tuning on the test outliers gains on average over detectors."""
        return float(np.mean([d.mean(d.oracle - d.default) for d in self.detectors]))

    @property
    def case(self) -> str:
        """The word for a case."""
        return "training run" if self.are_runs else "outlier set"


def tuning_cases(table: ScoreTable) -> TuningCases:
    """Choose settings in every run, each outlier set being the test once."""
    if len(table.ood) < 2:
        raise UserError(
            "Tuning needs two outlier sets, one to choose on and one to test on; the table has "
            f"{', '.join(table.ood) or 'none'}."
        )
    grids = _Grids.of(table)
    kept, runs = grids.compared()
    training_runs = TrainingRuns.of({run: table.runs[run] for run in runs}, table.factors)
    fixed = {name: scores for name in grids.fixed if (scores := _fixed(table, name, runs))}
    are_runs = len(training_runs) > 1
    levels = [table.runs[runs[own[0]]] for own in training_runs.members]
    units = OuterUnits.of(levels, table.factors)
    return TuningCases(
        detectors=tuple(_tuned(grids, name, runs, training_runs, units) for name in kept),
        fixed={name: _cases(_areas(scores), training_runs) for name, scores in fixed.items()},
        fixed_samples={}
        if are_runs
        else {name: _placed(scores, table.same_samples) for name, scores in fixed.items()},
        learned=grids.learned,
        left_out=tuple(name for name in grids.gridded if name not in kept),
        count=len(training_runs) if are_runs else len(table.ood),
        are_runs=are_runs,
        runs=len(runs),
        sets=len(table.ood),
        units=units,
    )


@dataclass(frozen=True)
class _Grids:
    """Scores by run and detector, and the setting that represents each detector."""

    table: ScoreTable
    scores: Mapping[tuple[str, str], Grid]  # run, detector
    defaults: Mapping[tuple[str, str], str]
    learned: tuple[str, ...]  # detectors learned from outliers
    settings: Mapping[tuple[str, str], Mapping[str, Level]]  # detector, setting -> values by name

    @staticmethod
    def of(table: ScoreTable) -> _Grids:
        grids: dict[tuple[str, str], Grid] = {}
        defaults: dict[tuple[str, str], str] = {}
        learned: dict[str, None] = {}
        for row in table.rows:
            if row.setting in table.outliers_by_setting:
                learned[row.detector] = None
                continue
            settings = grids.setdefault((row.run, row.detector), {})
            settings.setdefault(row.setting, {})[row.dataset] = row.scores
            if row.default:
                defaults[row.run, row.detector] = row.setting
        values = {(row.detector, row.setting): row.settings for row in table.rows}
        return _Grids(table, grids, defaults, tuple(learned), values)

    @cached_property
    def gridded(self) -> list[str]:
        """Detectors of which some run has several settings."""
        several = {detector for (_, detector), grid in self.scores.items() if len(grid) > 1}
        return [name for name in self.table.detectors if name in several]

    @property
    def fixed(self) -> list[str]:
        """Detectors with one setting only."""
        others = {*self.gridded, *self.learned}
        return [name for name in self.table.detectors if name not in others]

    def complete(self, run: str, detector: str) -> Grid:
        """The settings that have scores on every data set."""
        names = (self.table.id, *self.table.ood)
        grid = self.scores.get((run, detector), {})
        return {s: scores for s, scores in grid.items() if all(name in scores for name in names)}

    def compared(self) -> tuple[list[str], list[str]]:
        """Detectors whose settings can be chosen in most runs, and the runs that have them all."""
        usable = {
            name: [r for r in self.table.runs if self._usable(r, name)] for name in self.gridded
        }
        most = max(map(len, usable.values()), default=0)
        if not most:
            raise UserError("No detector has scores of two settings on every data set of a run.")
        kept = [name for name, runs in usable.items() if len(runs) * 2 > most]
        runs = [run for run in self.table.runs if all(run in usable[name] for name in kept)]
        if not runs:
            raise UserError("No run has scores of two settings for every detector with a grid.")
        return kept, runs

    def _usable(self, run: str, detector: str) -> bool:
        grid = self.complete(run, detector)
        return len(grid) > 1 and self.defaults.get((run, detector)) in grid


def _cases(values: Floats, training_runs: TrainingRuns) -> Floats:
    """One value per case, of values by run and outlier set."""
    by_training_run = training_runs.mean(values, axis=0)
    return np.asarray(by_training_run.mean(axis=1 if len(training_runs) > 1 else 0))


def _tuned(
    grids: _Grids,
    detector: str,
    runs: Sequence[str],
    training_runs: TrainingRuns,
    units: OuterUnits,
) -> TunedDetector:
    table = grids.table
    choices: list[Tuning] = []
    judged: dict[str, list[Judged]] = {choice: [] for choice in CHOICES}
    curves: dict[str, list[float]] = {}
    for run in runs:
        scores = grids.complete(run, detector)
        seen = _half(next(iter(scores.values()))[table.id])
        found = tuning_leave_one_out(
            scores, id=table.id, default=grids.defaults[run, detector], id_validation=seen
        )
        choices += found
        for choice, lines in judged.items():
            settings = [(scores[getattr(part, choice).setting], part.test[0]) for part in found]
            lines.append([(own[table.id][~seen], own[test]) for own, test in settings])
        for setting, mean in sensitivity(scores, id=table.id).items():
            curves.setdefault(setting, []).append(mean)
    by_run = {
        choice: np.array([getattr(part, choice).test for part in choices]).reshape(len(runs), -1)
        for choice in CHOICES
    }
    whole = {s: training_runs.mean(np.array(v)) for s, v in curves.items() if len(v) == len(runs)}
    single = len(training_runs) == 1
    return TunedDetector(
        name=detector,
        **{choice: _cases(values, training_runs) for choice, values in by_run.items()},
        choices=tuple(choices),
        curve=whole,
        settings={setting: grids.settings[detector, setting] for setting in whole},
        incomplete=len(curves) - len(whole),
        samples={c: _placed(lines, table.same_samples) for c, lines in judged.items() if single},
        units=units,
    )


def _fixed(table: ScoreTable, detector: str, runs: Sequence[str]) -> list[Judged] | None:
    """The ID samples for testing, as for the others, and outliers; None where some are missing."""
    lines = []
    for run in runs:
        inliers = table.scores(run, detector, table.id)
        outliers = [table.scores(run, detector, ood) for ood in table.ood]
        if inliers is None:
            return None
        unseen = inliers[~_half(inliers)]
        lines.append([(unseen, scores) for scores in outliers if scores is not None])
    return lines if all(len(line) == len(table.ood) for line in lines) else None


def _areas(lines: list[Judged]) -> Floats:
    """AUROC by run and outlier set."""
    return np.array([[auroc(*pair) for pair in line] for line in lines])


def _placed(lines: list[Judged], shared: bool) -> Placements:
    """Samples of the runs of one training run: their mean over runs and outlier sets."""
    runs = [list(range(len(lines)))]
    sets = [Placements.of_runs(pairs, shared_samples=shared) for pairs in zip(*lines, strict=True)]
    return average_over_sets([average_re_evaluations(placed, runs) for placed in sets])


def _half(scores: Floats) -> NDArray[np.bool_]:
    if len(scores) < 2:
        raise UserError("Tuning needs two ID samples, one to choose on and one to test on.")
    return validation_half(len(scores))
